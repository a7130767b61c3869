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

enum class Flow : uint8_t { Next, Jumped, Returned, Yielded };
using Step = Captured<Flow>;

class SymbolicFrame {
 public:
  SymbolicFrame(Executor& executor, std::shared_ptr<const CodeView> view, PyObject* globals, PyObject* builtins);

  /// To the return, or to the first Break.
  Captured<Value*> run();
  /// Of a generator: the next value, or null at the end, when `returned` is what it gave back. `sent` null: None;
  /// `thrown`: raised where it stands. Taken back with the transaction.
  Captured<Value*> resume(Value* sent, Value* thrown);
  /// A generator between two yields that would run its handlers if it were dropped now.
  bool holds_handlers() const;
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
  std::string module_name() const { return module_; }

  std::shared_ptr<const CodeView> view;
  PyObject* globals;           // borrowed
  PyObject* builtins;          // borrowed
  std::vector<Value*> locals;  // null: unbound
  std::vector<Value*> stack;
  Values closure;  // cells of the function, for COPY_FREE_VARS
  uint32_t pc = 0;
  Value* returned = nullptr;
  bool outermost = false;
  std::vector<bool> unbound_at_entry;  // by local, of a frame that is entered in its middle; else empty
  bool generator = false;              // yields to next(); `returned` is then what it yields
  bool started = false;

 private:
  Value* pop();  // looked at
  Value* pop_raw();
  Value* peek(int from_top);  // 1: top; looked at
  void push(Value* v) { stack.push_back(v); }
  Values pop_raw(int count);
  Step next() const { return Flow::Next; }
  Step jump(const Instr& i);
  std::string home() const;  // the module's name

  // flow.cpp, flow_loop.cpp
  struct Side;
  struct Scope;
  class LoopCapture;
  /// The jump `i` goes by an array value: both sides, up to where they meet. `why`: the break if that cannot be.
  Step branch(Value* condition, const Instr& i, Break why);
  /// capture_mode='trace': goes on where the values go now, which the graph expects from then on.
  Step follow(Value* condition, const Instr& i, Break why);
  /// Where a side begins, and what is to be done before its first instruction.
  struct Way {
    uint32_t pc = 0;
    std::vector<Value*> stack;
    std::function<Step()> first;
  };
  /// What is `choice` before a fork is its first item on one side and `rest` on the other.
  struct Split {
    Value* choice = nullptr;
    Value* rest = nullptr;
  };
  Step fork(graph::ValueId decides, const Way (&ways)[2], uint32_t join, Split split);
  /// Goes on with each of the things that a value may be, up to where the stack is not higher than `depth`.
  Step split(Value* choice, std::size_t depth);
  Step settle();  // nothing on the stack is one of several things
  std::optional<Break> run_side(Side& side, uint32_t join);
  Captured<Value*> next_instruction();
  /// The loop whose head this is, if it goes on by an array value; nothing: it is executed as any other code.
  std::optional<Step> loop();
  bool in_hopeless_loop(uint32_t at) const;
  /// Loops that go by array values have no gradient: a branch in one would only be captured to no end.
  bool is_differentiated_round() const;
  Step push_or_break(Captured<Value*> v);

  Step stack_op(const Instr& i);
  Step local_op(const Instr& i);
  void guard_binding(int local, GuardKind kind);
  Step cell_op(const Instr& i);
  Step global_op(const Instr& i);
  Step import_op(const Instr& i);
  Step attr_op(const Instr& i);
  Step load_super(const Instr& i);
  Step load_method(Value* from, PyObject* name);
  void push_callable(Value* callable, Value* null);
  Step operator_op(const Instr& i);
  Step subscript_op(const Instr& i);
  Step build_op(const Instr& i);
  Step extend_op(const Instr& i);
  Step string_op(const Instr& i);
  Step unpack_op(const Instr& i);
  Step match_op(const Instr& i);
  Step match_class(const Instr& i);
  Step jump_op(const Instr& i);
  Step iterate_op(const Instr& i);
  Step push_iterator(Captured<Value*> iterator);
  Step call_op(const Instr& i);
  Step call_ex(const Instr& i);
  Step make_function(const Instr& i);
  Step set_function_attribute(const Instr& i);
  Step delegate_op(const Instr& i);
  Step raise_op(const Instr& i);
  Step handler_op(const Instr& i);
  Step with_op(const Instr& i);
  Step raise(Value* exception, BreakId id);
  /// To the handler of the current instruction, if the exception is known and there is one.
  bool unwind(const Break& b);
  Captured<bool> catches(Value* wanted, PyTypeObject* raised);
  Step return_op(const Instr& i);
  Step yield_op(const Instr& i);
  // Breaks.
  Step unsupported(const Instr& i);
  Step unsupported_handling(const Instr& i);  // of exceptions
  Step suspended(const Instr& i);             // others resume the frame, or such a generator

  Executor& x;
  Session& s;
  std::string module_;
  bool finished_ = false;
  struct Loop {
    uint32_t head;
    std::size_t nodes;  // of the graph when it was first reached
    uint32_t rounds;
  };
  std::vector<Loop> loops_;
  uint32_t first_value_;           // what was made before was there when the frame began
  Scope* scope_ = nullptr;         // the loop whose round is being captured
  uint32_t until_ = 0xffffffff;    // where the side of a branch ends that is being captured
  std::map<uint32_t, int> tries_;  // by the head of a loop: how often it could not be captured
};

}  // namespace framejit::capture
