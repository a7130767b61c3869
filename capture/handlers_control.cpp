// Handlers: jumps, iteration, calls, functions that are made.
#include "capture/calls.h"
#include "capture/containers.h"
#include "capture/flow.h"
#include "capture/handlers.h"
#include "capture/iterate.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

Step jump_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  switch (i.op) {
    case Opcode::Jump: return frame.jump(i);
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone: {
      const bool none = frame.pop()->is_none();
      return none == (i.op == Opcode::PopJumpIfNone) ? frame.jump(i) : Flow::Next;
    }
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue: {
      Value* condition = frame.pop();
      Captured<bool> truth = truth_of(x, condition);
      if (!truth) return capture_branch(frame, condition, i, std::move(truth.error()));
      return *truth == (i.op == Opcode::PopJumpIfTrue) ? frame.jump(i) : Flow::Next;
    }
    default: {  // JumpIfFalseOrPop, JumpIfTrueOrPop
      Value* condition = frame.peek(1);
      Captured<bool> truth = truth_of(x, condition);
      if (!truth) return capture_branch(frame, condition, i, std::move(truth.error()));
      if (*truth == (i.op == Opcode::JumpIfTrueOrPop)) return frame.jump(i);
      frame.pop_raw();
      return Flow::Next;
    }
  }
}

Step iterate_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  if (i.op == Opcode::GetIter) return push_iterator(frame, iterate(x, frame.pop()));
  if (i.op == Opcode::PopIter) {
    if (may_finalize_in_slot(frame.stack[frame.stack.size() - py::kIteratorSlots])) return finalizes();
    frame.pop_raw(py::kIteratorSlots);
    return Flow::Next;
  }
  Value* iterator = frame.peek(py::kIteratorSlots);
  if (iterator->kind != ValueKind::Iterator && iterator->kind != ValueKind::Object)
    return break_at(BreakId::UnknownIterable, "an iterator from outside");
  FRAMEJIT_TRY(item, next_item(x, iterator));
  if (item) {
    frame.push(item);
    return Flow::Next;
  }
  frame.pop_raw(py::kIteratorSlots);
  return frame.jump(i);
}

/// An iterator, and where it has a second entry that says where it is: NULL, as it knows that itself.
Step push_iterator(SymbolicFrame& frame, Captured<Value*> iterator) {
  if (!iterator) return iterator.failure();
  frame.push(*iterator);
  if constexpr (py::kIteratorSlots > 1) frame.push(frame.session().values().make(ValueKind::Null));
  return Flow::Next;
}

Step call_op(SymbolicFrame& frame, const Instr& i) {
  Values args = frame.pop_raw(i.arg);
  // NULL, callable (or callable, NULL: py::kNullBehindCallable), or method, self.
  Value* second = frame.pop_raw();
  Value* first = frame.pop_raw();
  Value* callable = first;
  if (first->kind == ValueKind::Null) callable = second;
  else if (second->kind != ValueKind::Null) args.insert(args.begin(), second);
  Keywords keywords;
  if (i.kwnames >= 0) {
    PyObject* names = frame.view->constant(i.kwnames);
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(names));
    for (std::size_t k = 0; k < count; ++k)
      keywords.emplace_back(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)), args[args.size() - count + k]);
    args.resize(args.size() - count);
  }
  return frame.push_or_break(call(frame.executor(), callable, args, keywords));
}

Step call_ex(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  Keywords keywords;
  Value* dict = (i.arg & 1) ? frame.pop() : nullptr;
  if (dict && i.flag && dict->kind == ValueKind::Null) dict = nullptr;
  if (dict) {
    if (dict->kind != ValueKind::Dict) return break_at(BreakId::UnknownObject, "** of an object that is not a dict");
    FRAMEJIT_REQUIRE(open(x, dict));
    for (std::size_t k = 0; k < dict->items.size(); k += 2) {
      PyObject* name = dict->items[k]->object.get();
      if (!PyUnicode_CheckExact(name)) return break_at(BreakId::WouldRaise, "keywords must be strings");
      keywords.emplace_back(name, dict->items[k + 1]);
    }
  }
  FRAMEJIT_TRY(args, unpack(x, frame.pop(), true));
  Value* callable = frame.pop_raw();
  Value* null = frame.pop_raw();
  if (callable->kind == ValueKind::Null) std::swap(callable, null);
  return frame.push_or_break(call(x, callable, args, keywords));
}

namespace {

constexpr std::size_t kFunctionParts = 5;

/// Index into the items of a Function: defaults, keyword defaults, closure, annotations, __annotate__ (3.14).
std::size_t part_of_function(int flag) {
  switch (flag) {
    case 1: return 0;
    case 2: return 1;
    case 8: return kClosurePart;
    case 4: return 3;
    default: return 4;
  }
}

}  // namespace

Step make_function(SymbolicFrame& frame, const Instr& i) {
  Value* f = frame.session().values().make(ValueKind::Function);
  f->object = frame.pop()->object;
  f->as_function().globals = Ref<>::share(frame.globals);
  f->items.assign(kFunctionParts, nullptr);
  for (int flag : {8, 4, 2, 1})
    if (i.arg & flag) f->items[part_of_function(flag)] = frame.pop();
  frame.push(f);
  return Flow::Next;
}

Step set_function_attribute(SymbolicFrame& frame, const Instr& i) {  // 3.13
  Value* f = frame.pop();
  if (f->kind != ValueKind::Function || f->source)  // it was made before the region
    return unsupported(frame, i);
  Value* part = frame.pop();
  const std::size_t at = part_of_function(i.arg);
  Value* before = f->items[at];
  f->items[at] = part;
  frame.session().undo().record(f, [f, at, before] { f->items[at] = before; });
  frame.push(f);
  return Flow::Next;
}

}  // namespace framejit::capture
