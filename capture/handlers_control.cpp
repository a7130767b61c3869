// Handlers: jumps, iteration, calls, functions that are made.
#include "capture/calls.h"
#include "capture/containers.h"
#include "capture/iterate.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/repr.h"
#include "capture/symbolic_frame.h"
#include "graph/support/check.h"

namespace framejit::capture {

Step SymbolicFrame::jump_op(const Instr& i) {
  switch (i.op) {
    case Opcode::Jump: return jump(i);
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone: {
      const bool none = pop()->is_none();
      return none == (i.op == Opcode::PopJumpIfNone) ? jump(i) : next();
    }
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue: {
      Value* condition = pop();
      Captured<bool> truth = truth_of(x, condition);
      if (!truth) return branch(condition, i, std::move(truth.error()));
      return *truth == (i.op == Opcode::PopJumpIfTrue) ? jump(i) : next();
    }
    default: {  // JumpIfFalseOrPop, JumpIfTrueOrPop
      Value* condition = peek(1);
      Captured<bool> truth = truth_of(x, condition);
      if (!truth) return branch(condition, i, std::move(truth.error()));
      if (*truth == (i.op == Opcode::JumpIfTrueOrPop)) return jump(i);
      pop_raw();
      return next();
    }
  }
}

Step SymbolicFrame::iterate_op(const Instr& i) {
  if (i.op == Opcode::GetIter) return push_iterator(iterate(x, pop()));
  if (i.op == Opcode::PopIter) {
    if (may_finalize_in_slot(stack[stack.size() - py::kIteratorSlots])) return finalizes();
    pop_raw(py::kIteratorSlots);
    return next();
  }
  Value* iterator = peek(py::kIteratorSlots);
  if (iterator->kind != ValueKind::Iterator && iterator->kind != ValueKind::Object)
    return break_at(BreakId::UnknownIterable, "an iterator from outside");
  FRAMEJIT_TRY(item, next_item(x, iterator));
  if (item) {
    push(item);
    return next();
  }
  pop_raw(py::kIteratorSlots);
  return jump(i);
}

/// An iterator, and where it has a second entry that says where it is: NULL, as it knows that itself.
Step SymbolicFrame::push_iterator(Captured<Value*> iterator) {
  if (!iterator) return iterator.failure();
  push(*iterator);
  if constexpr (py::kIteratorSlots > 1) push(s.make(ValueKind::Null));
  return Flow::Next;
}

Step SymbolicFrame::call_op(const Instr& i) {
  Values args = pop_raw(i.arg);
  // NULL, callable (or callable, NULL: py::kNullBehindCallable), or method, self.
  Value* second = pop_raw();
  Value* first = pop_raw();
  Value* callable = first;
  if (first->kind == ValueKind::Null) callable = second;
  else if (second->kind != ValueKind::Null) args.insert(args.begin(), second);
  Keywords keywords;
  if (i.kwnames >= 0) {
    PyObject* names = view->constant(i.kwnames);
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(names));
    for (std::size_t k = 0; k < count; ++k)
      keywords.emplace_back(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)), args[args.size() - count + k]);
    args.resize(args.size() - count);
  }
  return push_or_break(call(x, callable, args, keywords));
}

Step SymbolicFrame::call_ex(const Instr& i) {
  Keywords keywords;
  Value* dict = (i.arg & 1) ? pop() : nullptr;
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
  FRAMEJIT_TRY(args, unpack(x, pop(), true));
  Value* callable = pop_raw();
  Value* null = pop_raw();
  if (callable->kind == ValueKind::Null) std::swap(callable, null);
  return push_or_break(call(x, callable, args, keywords));
}

namespace {

constexpr std::size_t kFunctionParts = 5;

/// Index into the items of a Function: defaults, keyword defaults, closure, annotations, __annotate__ (3.14).
std::size_t part_of_function(int flag) {
  switch (flag) {
    case 1: return 0;
    case 2: return 1;
    case 8: return 2;
    case 4: return 3;
    default: return 4;
  }
}

}  // namespace

Step SymbolicFrame::make_function(const Instr& i) {
  Value* f = s.make(ValueKind::Function);
  f->object = pop()->object;
  f->extra = Ref<>::share(globals);
  f->items.assign(kFunctionParts, nullptr);
  for (int flag : {8, 4, 2, 1})
    if (i.arg & flag) f->items[part_of_function(flag)] = pop();
  push(f);
  return Flow::Next;
}

Step SymbolicFrame::set_function_attribute(const Instr& i) {  // 3.13
  Value* f = pop();
  if (f->kind != ValueKind::Function || f->source)  // it was made before the region
    return unsupported(i);
  Value* part = pop();
  const std::size_t at = part_of_function(i.arg);
  Value* before = f->items[at];
  f->items[at] = part;
  s.record(f, [f, at, before] { f->items[at] = before; });
  push(f);
  return Flow::Next;
}

}  // namespace framejit::capture
