// Inside of the capture of control flow: flow.cpp (branches) and flow_loop.cpp (loops).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "capture/symbolic_frame.h"

namespace framejit::capture {

inline constexpr uint32_t kMostBranches = 40;   // in each other
inline constexpr std::size_t kMostChoices = 8;  // that a variable may be
inline constexpr std::size_t kMostChosenItems = 16;

/// One side of a branch: its nodes, and the state of the frame at its end.
struct Side {
  std::unique_ptr<graph::Block> block = std::make_unique<graph::Block>();
  std::vector<Value*> locals, stack;
  uint32_t pc = 0;
  Value* where = nullptr;  // the side ended the round of a loop: the number of the instruction that comes next
  Value* returned = nullptr;
  std::function<Step()> first;  // to be done before the first instruction
};

/// The round of a loop that is being captured. It ends at the loop's head or where the loop is left.
struct RoundScope {
  uint32_t head;
  std::vector<bool> members;
  bool decided = false;  // by an array value
  /// How the round ended, where array values decide it: with the number of the next instruction, or at one of two.
  Value* where = nullptr;
  graph::ValueId decides = graph::kNoValue;
  uint32_t next[2] = {0, 0};
  std::set<uint32_t> exits;  // where rounds left the loop

  bool is_over(uint32_t pc) const {
    return where != nullptr || decides != graph::kNoValue || pc == head || !members[pc];
  }
  void begin() {
    where = nullptr;
    decides = graph::kNoValue;
  }
};

/// Captures both sides of the jump `i`, whose condition is an array value, up to where they meet. `why`: the break to
/// give if that is not possible.
Step capture_branch(SymbolicFrame& frame, Value* condition, const Instr& i, Break why);
/// capture_mode='trace': captures the side that the values of this call take. The graph expects that side from then on.
Step follow_branch(SymbolicFrame& frame, Value* condition, const Instr& i, Break why);
/// Where a side begins, and what is to be done before its first instruction.
struct Way {
  uint32_t pc = 0;
  std::vector<Value*> stack;
  std::function<Step()> first;
};
/// A value that is `choice` before a fork. It is the first item of `choice` on one side, and `rest` on the other.
struct Split {
  Value* choice = nullptr;
  Value* rest = nullptr;
};
Step fork_paths(SymbolicFrame& frame, graph::ValueId decides, const Way (&ways)[2], uint32_t join, Split split);
/// Goes on with each of the things that a value may be, up to where the stack is not higher than `depth`.
Step split_choice(SymbolicFrame& frame, Value* choice, std::size_t depth);
/// Where a function has to be one graph, pushes the item of a tuple or list that a number of the graph's chooses, in
/// its place a choice. False: it is no such item.
Captured<bool> choose_item(SymbolicFrame& frame, Value* container, Value* key);
Step settle_stack(SymbolicFrame& frame);  // nothing on the stack is one of several things
Captured<Value*> next_instruction(SymbolicFrame& frame);
/// The loop whose head this is, if it goes on by an array value; nothing: it is executed as any other code.
std::optional<Step> capture_array_loop(SymbolicFrame& frame);
bool in_hopeless_loop(SymbolicFrame& frame, uint32_t at);
/// Loops that go by array values have no gradient: a branch in one would only be captured to no end.
bool is_differentiated_round(SymbolicFrame& frame);

/// One side of a branch, or the body of a loop: nodes go into its block.
struct OpenBlock {
  Session& session;
  OpenBlock(Session& s, graph::Block& block) : session(s) {
    session.graph().open(block);
    session.measures().open();
  }
  ~OpenBlock() {
    session.graph().close();
    session.measures().close();
  }
  OpenBlock(const OpenBlock&) = delete;
};

inline bool is_mutable_array(const Value& v) { return v.wrap() == Wrap::NdArray || v.wrap() == Wrap::Tensor; }
inline Value* resolved(Value* v) { return v && v->kind == ValueKind::Lazy && !v->items.empty() ? v->items[0] : v; }
/// A variable that may be one thing or another, or unbound: nothing but a new value can be done with it.
inline bool is_unknown(const Value* v) { return v && v->kind == ValueKind::Null && v->partial; }
/// One of several things, which one the graph says: whoever loads it goes on with each of them (split_choice).
inline bool is_choice(const Value* v) { return is_unknown(v) && v->which() != graph::kNoValue; }
Value* unknown_value(Session& s);

/// The Python number that a value is, as a wrap; nothing where it is none that a graph can hold.
std::optional<Wrap> number_wrap(const Value& v);
/// The graph value of a number or array, made in the open block where it needs to be.
Captured<graph::ValueId> graph_value(Executor& x, Value* v, Wrap wrap);
/// Two arrays that one graph value can stand for; else the sentence that says why not.
std::string differ_as_arrays(Session& s, const Value& a, const Value& b);
/// Made since the mark, and no object that is there already.
bool is_new(const Value& v, const Session::Mark& mark);
/// A number or an array made since the mark, the array with memory of its own, and of a size that is known behind the
/// block.
bool is_own(Session& s, const Value& v, const Session::Mark& mark);

}  // namespace framejit::capture
