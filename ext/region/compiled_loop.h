// CompiledLoop: a nest of loops as one function of machine code, and the objects that are live where it is left.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/region.h"
#include "codegen/kernel.h"
#include "ext/guards/guard_program.h"
#include "ext/region/plan_runner.h"
#include "graph/cfg/self_calls.h"
#include "graph/support/expected.h"
#include "runtime/exec_memory.h"
#include "runtime/parallel_loop.h"

namespace framejit::ext::region {

class CompiledLoop {
 public:
  struct Options {
    bool listing = false;
    bool interpreted = false;  // runs go through the reference interpreter (stress)
    bool widened = false;      // several rounds at once from the first run on
    bool o1 = false;           // products and sums are fused, squares and roots are not called
    codegen::KernelStore* store = nullptr;
    std::unique_ptr<LoopCode> code;  // that another process has made; null: it is not there
  };
  /// The loop of a region, which outlives it. The failure is a sentence.
  static Expected<std::unique_ptr<CompiledLoop>, std::string> make(const capture::Region& region,
                                                                   const guards::GuardProgram& guards, Options options);

  /// Runs the loop in a frame for which the guards hold. Error: no memory for the objects at the exit, which are None
  /// then; an exception is set. Miss: a list does not hold the numbers that it was captured with; nothing was done.
  Outcome run(const guards::Matched& m, capture::FrameUpdate& update);

  /// Is it left in its middle so often, or does it call itself so seldom, that it gains nothing?
  bool is_hopeless() const {
    if (program_->recursion) return runs() > kFewRecursions && recursive_calls_ < kWorthEntering * runs();
    if (left_early_ <= kFewExits) return false;
    const bool nearly_always = left_early_ > 64 * finished_ && long_rounds_ * 8 < left_early_;
    return nearly_always || (4 * left_early_ > runs() && worthwhile_ * 8 < measured_);
  }
  /// Does it leave so many indices below 0 to the interpreter that a loop that has them itself is faster? Then the next
  /// capture knows it.
  bool wraps_indices() const {
    return wrapped_ > kFewWrapped && 2 * wrapped_ > left_early_ && 4 * left_early_ > runs() &&
           worthwhile_ * 8 < measured_;
  }
  /// Does it take so much longer to unbox lists than the loop then runs that it is faster to read and store the objects
  /// in the loop, or has it failed? Then the next capture knows it.
  bool boxes_lists() const;
  /// Are there exits at which the frame does not get all that it has in the interpreter, as it returns at once?
  bool drops_locals() const;
  /// The graph as it was captured, until the first run, if machine code is kept or it may be compiled in other ways.
  const cfg::Cfg* captured() const {
    return captured_ ? &*captured_ : runs() == 0 && kernels_[0].saved_passes ? &program_->cfg : nullptr;
  }
  /// The machine code for one round at a time, until the first run, if it was made here, is kept and has no addresses
  /// in it.
  const LoopCode* code() const { return code_.get(); }
  std::string graph_text() const;
  const std::string& listing() const { return kernels_[use_].listing; }
  std::size_t code_bytes() const;
  /// Rounds that were shared out among threads.
  int64_t parallel_rounds() const { return parallel_rounds_; }
  /// Rounds of outer loops that one thread did several at once.
  int64_t vector_rounds() const { return vector_rounds_; }
  int64_t runs() const { return finished_ + left_early_; }
  const std::vector<int64_t>& exits_taken() const { return taken_; }

 private:
  static constexpr int64_t kFewExits = 256;
  static constexpr int64_t kFewWrapped = 32;
  static constexpr int64_t kFewUnboxed = 2 * kFewWrapped;  // that it leaves indices below 0 is found out first
  static constexpr int64_t kLongUnboxing = 5'000'000;      // nanoseconds
  static constexpr int64_t kFewRecursions = 32;
  static constexpr int64_t kWorthEntering = 8;  // calls that cost the interpreter more than an entry does

  capture::Ref<> object(const capture::LoopExit& exit, uint32_t index, const int64_t* values, const guards::Matched& m,
                        std::vector<capture::Ref<>>& made) const;
  capture::Ref<> new_object(const capture::LoopExit& exit, uint32_t index, const int64_t* values,
                            const guards::Matched& m, std::vector<capture::Ref<>>& made) const;
  /// Gives the loop the numbers of lists. False: one holds something else, or is also a list that is not unboxed.
  bool unbox(const guards::Matched& m);
  PyObject* fetched(uint32_t index, const guards::Matched& m) const { return guards_->object(m, operands_[index]); }

  /// A loop in the nest whose rounds threads may do.
  struct ParallelPart {
    std::unique_ptr<cfg::ParallelLoop> loop;
    runtime::CodeBlock code;
    std::unique_ptr<runtime::ParallelLoop> runner;
  };

  // Code that does several rounds at once takes much longer to compile, and is not always faster. So it is made once
  // the loop has run for long. Then the kernels take turns, and the fastest one stays.
  struct Kernel {
    runtime::CodeBlock code;
    std::string listing;
    std::vector<ParallelPart> parallel;
    std::vector<int64_t> ns;  // of its runs, while they take turns
    std::optional<int>
        saved_passes;  // the graph is as it was captured, since the code was found: for vectors of so many bytes
  };
  static constexpr std::size_t kTurns = 8;      // runs of each kernel
  static constexpr int64_t kTimesCompiled = 2;  // as long as so many compilations it has run at least
  Expected<Kernel, std::string> compile(cfg::Cfg& graph, int vector_bytes, cfg::ParallelLoops& loops) const;
  /// Code from the store, if it has it, else by the passes and code generation. No `vector_bytes`: the passes have run.
  /// If there is a `copy`, it becomes the graph as it was, if passes change that.
  Expected<codegen::KernelCode, std::string> code_of(cfg::Cfg& graph, const std::string& name,
                                                     std::optional<int> vector_bytes, bool& is_found,
                                                     std::optional<cfg::Cfg>* copy = nullptr) const;
  /// The same, ready to run.
  Expected<Kernel, std::string> compile_graph(cfg::Cfg& graph, const std::string& name,
                                              std::optional<int> vector_bytes) const;
  static Expected<Kernel, std::string> seal(const codegen::KernelCode& code, const std::string& name,
                                            std::optional<int> saved_passes);
  Expected<codegen::KernelCode, std::string> emit(cfg::Cfg& graph, const std::string& name,
                                                  std::optional<int> vector_bytes) const;
  /// Does the bytecode tell that the loop has too few rounds to take long?
  bool is_short(const guards::Matched& m) const;
  void find_memory(const guards::Matched& m);
  /// Makes objects of the numbers of lists that are needed at an exit. False: no memory, an exception is set.
  bool box(capture::MadeLists& lists, const capture::LoopExit& exit, const guards::Matched& m);
  void widen();
  void note_run(int64_t nanoseconds, bool was_cut);
  static int64_t faster_half(std::vector<int64_t> ns);

  const capture::Region* region_ = nullptr;
  std::shared_ptr<capture::LoopProgram> program_;
  const guards::GuardProgram* guards_ = nullptr;
  std::vector<guards::GuardOperand> operands_;  // of LoopProgram::fetched
  std::string name_;
  bool listed_ = false;
  const cfg::SelfCalls* self_ = nullptr;  // of the program: it calls itself
  codegen::KernelStore* store_ = nullptr;
  // The second one: for several rounds of inner loops at once. The third one: of outer loops too.
  static constexpr std::size_t kKernels = 3;
  std::array<Kernel, kKernels> kernels_;
  std::size_t use_ = 0;
  int64_t compile_ns_ = 0, run_ns_ = 0;
  bool may_widen_ = false;  // until it is widened
  bool is_flat_ = false;    // see LoopCode
  // Null: the program's graph is as it was captured, or that is not needed. Until the loop is widened, or if it cannot
  // be: until the first run.
  std::optional<cfg::Cfg> captured_;
  std::unique_ptr<LoopCode> code_;
  std::size_t turns_ = 0;                  // how many kernels take turns
  std::array<cfg::Cfg, kKernels> graphs_;  // of kernels that take turns, but the first one
  std::size_t most_values_ = 0;
  std::size_t most_made_ = 0, most_held_ = 0, most_locals_ = 0, most_stack_ = 0;  // of all exits
  bool interpreted_ = false;  // runs go through the reference interpreter (stress)
  std::vector<int64_t> taken_;
  int64_t parallel_rounds_ = 0, vector_rounds_ = 0;
  int64_t recursive_calls_ = 0;  // of runs that came to a result
  int64_t finished_ = 0, left_early_ = 0;
  bool boxes_lists_ = false;                           // a list could not be unboxed
  std::vector<runtime::ParallelLoop::Memory> memory_;  // while the loop runs
  std::vector<capture::ListHeader*> unboxed_;          // of LoopProgram::unboxed, while the loop runs
  std::vector<PyObject*> going_;                       // what it holds that goes with the frame, while lists are boxed
  int64_t unboxing_ns_ = 0, unboxed_ns_ = 0;           // for unboxing and boxing lists; of runs with such lists
  int64_t wrapped_ = 0;                                // of those left early, at exits for indices below 0
  int64_t long_rounds_ = 0;                            // of those left early
  int64_t measured_ = 0;                               // runs whose time was taken, once some were left early
  int64_t worthwhile_ = 0;                             // of those: runs that took longer than entering the loop
};

}  // namespace framejit::ext::region
