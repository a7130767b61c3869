// SymbolicFrame: locals, stack and position of one Python frame that is executed symbolically.
//
// step() executes one canonical instruction; one handler for each, grouped by family in handlers_*.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/executor.h"

namespace framejit::capture {

struct RoundScope;

enum class Flow : uint8_t { Next, Jumped, Returned, Yielded };
using Step = Captured<Flow>;

class SymbolicFrame {
 public:
  SymbolicFrame(Executor& executor, std::shared_ptr<const CodeView> view, PyObject* globals, PyObject* builtins);

  /// To the return, or to the first Break.
  Captured<Value*> run();
  /// Runs the frame of a generator, whose value is `generator_value`, to its next yield. Gives the value that it
  /// yields, or null at its end, when `returned` is its result. `sent` is null for None; `thrown` is raised where the
  /// generator waits. Taken back with the transaction.
  Captured<Value*> resume(const Value* generator_value, Value* sent, Value* thrown);
  /// A generator between two yields that would run its handlers if it were dropped now.
  bool holds_handlers() const;
  /// May the program go on after the current instruction has raised, in this frame or in a caller's?
  bool may_catch() const;
  bool is_finished() const { return finished_; }
  /// Stands in a `yield from`.
  bool is_delegating() const;
  /// One instruction: limits, location, handler; moves the position.
  Step advance();
  Step step(const Instr& instr);
  const Instr& current() const { return view->instrs()[pc]; }
  Break locate(Break b) const;
  /// The break of a callee: notes its code, where that is what the interpreter will run.
  void note_reached(Break& b) const;
  /// The loop at `head` begins another round: has it added more nodes than a graph should hold?
  Captured<bool> check_unrolled(uint32_t head);
  void begin_step();  // location, limits

  std::shared_ptr<const CodeView> view;
  PyObject* globals;           // borrowed
  PyObject* builtins;          // borrowed
  std::vector<Value*> locals;  // null: unbound
  std::vector<Value*> stack;
  Values closure;  // cells of the function, for COPY_FREE_VARS
  uint32_t pc = 0;
  Value* returned = nullptr;
  SymbolicFrame* caller = nullptr;  // while it runs
  bool outermost = false;
  std::vector<bool> unbound_at_entry;  // by local, of a frame that is entered in its middle; else empty
  bool generator = false;              // yields to next(); `returned` is then what it yields
  bool started = false;

  Executor& executor() { return executor_; }
  Session& session() { return session_; }

  Value* pop();  // looked at
  Value* pop_raw();
  Values pop_raw(int count);
  Value* peek(int from_top);  // 1: top; looked at
  void push(Value* v) { stack.push_back(v); }
  Step push_or_break(Captured<Value*> v);
  Step jump(const Instr& i);

  /// What the capture of branches and loops on array values has of a frame (flow.h).
  struct FlowState {
    uint32_t first_value = 0;       // what was made before was there when the frame began
    RoundScope* scope = nullptr;    // the loop whose round is being captured
    uint32_t until = 0xffffffff;    // where the side of a branch ends that is being captured
    std::map<uint32_t, int> tries;  // by the head of a loop: how often it could not be captured
  };
  FlowState flow;
  struct Loop {
    uint32_t head;
    std::size_t nodes;  // of the graph when it was first reached
    uint32_t rounds;
  };
  std::vector<Loop> loops;  // that it has entered

 private:
  /// To the handler of the current instruction, if the exception is known and there is one.
  bool unwind(const Break& b);

  Executor& executor_;
  Session& session_;
  bool finished_ = false;
};

}  // namespace framejit::capture
