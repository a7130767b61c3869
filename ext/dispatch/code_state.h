// CodeState: everything that is compiled for one code object - entries for whole calls, spliced code with the entries
// of its regions, what varied, what broke. Shared by a Function, by frames that run its spliced code, and by marked
// code.
//
//     call  ->  whole entries (no frame)            where one capture went from the start to a return
//           ->  spliced code -> ask(site) -> entries of that site     where it did not
//           ->  the user's own code                 under tools, past limits, with nothing to compile
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/region.h"
#include "capture/splice.h"
#include "ext/dispatch/budget.h"
#include "ext/dispatch/compile_site.h"
#include "ext/dispatch/history.h"
#include "ext/dispatch/loop_sites.h"
#include "ext/dispatch/predictions.h"
#include "ext/dispatch/run_comparison.h"
#include "ext/dispatch/settings.h"
#include "ext/module/control.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext::dispatch {

/// The frame of such code is others' to resume.
inline constexpr int kGeneratorFlags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

class CalleeRegistry;
class CodeState;
class Gain;

/// The end of a call that has begun: see CodeState::begin_call().
struct EndOfCall {
  CodeState* state;
  ~EndOfCall();
};

class CodeState final : public capture::SiteHandler, public std::enable_shared_from_this<CodeState> {
 public:
  /// `keep`: Contents for a state that hangs on the code object itself, which it must not keep alive.
  /// `owner`: of the function within whose reach the code is, if it is so for that alone.
  CodeState(PyCodeObject* code, const JitSettings& settings,
            capture::CodeView::Keep keep = capture::CodeView::Keep::Code, std::weak_ptr<CodeState> owner = {});
  ~CodeState() override;

  PyCodeObject* code() const { return code_; }
  const JitSettings& settings() const { return settings_; }
  const std::shared_ptr<const capture::CodeView>& view();

  /// It is captured as part of another: a backend of its own is ignored, which the log says once.
  void note_inlined();

  /// May entries of this state serve the function: do its names mean what they meant at capture?
  bool fits(PyFunctionObject* function) const;
  /// Runs a whole entry that fits.
  region::Outcome call(const guards::LiveSlots& live, PyObject*& result);
  /// Is the call left to the interpreter without a look at the entries? So are many, where the last one looked at was
  /// and all lose.
  bool passes_by() { return comparison_.passes_by(); }
  /// There was nothing that a call could run: others pass by.
  void note_idle();

  /// Around a call that runs bytecode, spliced or not, for comparison. Compiled: the spliced code, or callees that are
  /// compiled.
  region::Side begin_call(capture::py::Slots slots);
  /// The same for a call that call() has declined; false: it is not compared.
  bool begin_declined();
  /// May that be so?
  bool has_declined() const { return comparison_.has_declined(); }
  void end_call();
  /// What its calls take, for reports; null: they are not measured.
  Gain* gain() const { return gain_.get(); }
  void measure();
  /// Nanoseconds spent on compiling, callees included.
  int64_t compile_time() const { return budget_.spent(); }
  /// Should capture_whole be tried after a miss?
  bool wants_capture() const { return !broke_ && !whole_.exhausted && !compiling_; }
  /// Captures from the function's start, and runs what came out. `slots`: bound arguments. Declined: run something
  /// else. With fullgraph, Error and GraphBreakError where capture breaks.
  region::Outcome capture_whole(PyFunctionObject* function, capture::py::Slots slots, PyObject*& result);

  /// The entry for a whole call that fits, or null.
  std::shared_ptr<region::Entry> entry_of_call(const guards::LiveSlots& live) const;
  /// As capture_whole, and runs nothing. False: with fullgraph, GraphBreakError where capture breaks.
  bool precompile_whole(PyFunctionObject* function, capture::py::Slots slots);
  /// Compiles the region at the function's start, where the code is spliced.
  void precompile_start(PyFunctionObject* function, capture::py::Slots slots);

  /// The code to run in place of the user's, or null: not broken, cannot be spliced, or all of its sites are dormant.
  /// Counts a call; sites that gave nothing are tried again after some.
  PyCodeObject* replacement();
  bool ask(uint32_t site, const capture::FrameView& frame, capture::FrameUpdate& update) override;

  /// An error of a region, kept for the end of the call: internal ones under config.strict, those of the stance.
  capture::Ref<> take_pending_error() { return std::move(pending_error_); }

  /// For an ActiveFunctionScope around the code's frames; 0: they are within another's reach, or their callees stay as
  /// they are.
  uint64_t function_id() const { return function_id_; }
  /// Are there callees whose frames should come by the hook?
  bool has_callees() const;
  /// Was nothing found to compile in many calls?
  bool is_asleep() const;

  void clear();
  /// What owned it lets go of it: it stays alive until nothing runs.
  void retire() {
    if (retired_.running > 0) retired_.self = shared_from_this();
  }
  int traverse(visitproc visit, void* arg) const;

  /// For reports, oldest place first: the function's start (-1), then sites in order.
  std::vector<std::pair<std::shared_ptr<region::Entry>, int>> entries() const;
  const History& history() const { return history_; }
  const capture::SplicedCode* spliced() const { return spliced_; }
  /// Of callees, for reports.
  std::vector<CodeState*> callees() const;
  std::size_t dormant_count() const { return dormant_; }
  /// Why the interpreter runs the calls that would run bytecode in any case; "": it does not.
  const char* why_given_up() const;

  /// The spliced code is owned by who runs it (it owns this state through its sites).
  std::unique_ptr<capture::SplicedCode> splice();
  void forget_spliced() { spliced_ = nullptr; }
  bool needs_splicing() const { return broke_ && !spliced_ && !unsplicable_; }

 private:
  class Busy;
  struct Start;
  struct Compiled {
    std::shared_ptr<region::Entry> entry;         // null: nothing came of it, the breaks say why
    std::shared_ptr<region::Entry> first_region;  // of a whole call: what comes before the break
    std::vector<capture::Break> breaks;
    bool interrupted = false;  // by a signal: as if there had been no attempt
    bool unprofitable = false;
  };
  /// Entries that were removed while something ran: they stay alive until nothing runs.
  struct Retired {
    int running = 0;
    std::vector<std::shared_ptr<region::Entry>> entries;
    std::shared_ptr<CodeState> self;
  };

  // Policy.
  bool estimates() const;
  bool compares() const;
  bool compiles_loops() const;
  bool may_compile(CompileSite& place, const guards::LiveSlots& live);
  bool is_hot_loop(const CompileSite& place, uint32_t head, const capture::FrameView& frame);
  bool waits_for_loop(const CompileSite& place, uint32_t site, const capture::FrameView& frame);
  void pass_by() { comparison_.pass_by(compares()); }
  void judge(region::Entry& entry);
  bool end_round(uint32_t site, const capture::FrameView& frame);

  // Entries.
  template <class Run, class Compared>
  region::Outcome run_entries(CompileSite& place, const guards::LiveSlots& live, bool compares, Run&& run,
                              Compared&& compared);
  /// `kinds`: of what it was captured from.
  void insert(CompileSite& place, std::shared_ptr<region::Entry> entry, uint64_t kinds);
  void retire(CompileSite& place, std::size_t entry) { retired_.entries.push_back(place.take_out(entry)); }
  void note_lost(CompileSite& place);
  void drop_invalid();
  template <class F>
  void for_each_place(F&& f);

  // The compile path: pipeline.cpp.
  /// At the function's start; Miss where an entry is there now that has not run.
  region::Outcome compile_whole(const Start& start);
  Compiled compile_at(CompileSite& place, uint32_t instr, const capture::FrameView& frame, bool whole);
  Compiled compile_now(CompileSite& place, uint32_t instr, const capture::FrameView& frame, bool whole);
  uint32_t first_site();
  capture::CaptureRequest capture_request(CompileSite& place, uint32_t instr, const capture::FrameView& frame,
                                          bool whole);
  capture::CaptureOutcome capture_at(CompileSite& place, capture::CaptureRequest& request, bool whole);
  bool is_worthwhile(const capture::Region& region, bool in_loop);
  region::CompileOptions compile_options(bool o1, bool is_compared) const;
  capture::Break break_at(capture::BreakId id, std::string detail, uint32_t instr);
  void note_breaks(const std::vector<capture::Break>& breaks);
  void note_callees(const std::vector<capture::Ref<PyCodeObject>>& reached);

  // Sites.
  bool ask_place(CompileSite& place, uint32_t site, const capture::FrameView& frame, capture::FrameUpdate& update);
  bool ask_verified(CompileSite& place, uint32_t site, const capture::FrameView& frame);
  bool compile_site(CompileSite& place, uint32_t site, const capture::FrameView& frame);
  void set_dormant(CompileSite& place, uint32_t site, bool dormant);
  void wake_sites();
  bool has_nothing_awake() const;
  void keep_error();

  bool starts_broken() const;
  std::string name() const;
  /// The state of the function on whose behalf this code is compiled: the owner's, or this one.
  std::shared_ptr<CodeState> of_function();

  PyCodeObject* code_;
  capture::CodeView::Keep keep_;
  capture::Ref<PyCodeObject> kept_;
  JitSettings settings_;
  std::shared_ptr<const capture::CodeView> view_;
  CompileSite whole_;
  std::vector<std::unique_ptr<CompileSite>> sites_;  // by Instr index
  capture::SplicedCode* spliced_ = nullptr;
  std::shared_ptr<region::Entry> first_region_;  // for the first site, when the code is spliced
  uint64_t first_kinds_ = 0;
  int64_t spliced_calls_ = 0;
  std::size_t dormant_ = 0;
  LoopSites loops_;
  History history_;
  RunComparison comparison_;
  CompileBudget budget_;  // with callees
  Predictions predictions_;
  Retired retired_;
  capture::Ref<> pending_error_;
  std::unique_ptr<Gain> gain_;
  uint64_t function_id_ = 0;
  std::weak_ptr<CodeState> owner_;
  std::unique_ptr<CalleeRegistry> callees_;  // of the owner
  uint64_t disabled_epoch_ = module::disabled_epoch;
  int depth_ = 0;            // of calls that have begun
  int followed_from_ = 0;    // the depth from which on recursive calls are few enough to be followed
  bool ran_region_ = false;  // in a call that has not ended
  bool compiling_ = false;
  bool compiled_ = false;  // something, once
  bool broke_ = false;     // a capture from the start did not reach a return
  bool unsplicable_ = false;
  bool said_inlined_ = false, said_budget_ = false;
  bool elements_lost_ = false;  // a region that works on elements was measured to be slower: no other one is made in a
                                // loop
};

inline EndOfCall::~EndOfCall() { state->end_call(); }

/// The Python function behind a jitted one, borrowed, or null: inlined as if it were not marked.
PyObject* unwrap_function(PyObject* callable);

}  // namespace framejit::ext::dispatch
