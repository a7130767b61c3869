// Handlers: jumps, iteration, calls, functions that are made.
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
      Captured<bool> truth = x.truth(condition);
      if (!truth) return branch(condition, i, std::move(truth.error()));
      return *truth == (i.op == Opcode::PopJumpIfTrue) ? jump(i) : next();
    }
    default: {  // JumpIfFalseOrPop, JumpIfTrueOrPop
      Value* condition = peek(1);
      Captured<bool> truth = x.truth(condition);
      if (!truth) return branch(condition, i, std::move(truth.error()));
      if (*truth == (i.op == Opcode::JumpIfTrueOrPop)) return jump(i);
      pop_raw();
      return next();
    }
  }
}

Step SymbolicFrame::iterate_op(const Instr& i) {
  if (i.op == Opcode::GetIter) return push_or_break(x.iterate(pop()));
  Value* iterator = peek(1);
  if (iterator->kind != ValueKind::Iterator && iterator->kind != ValueKind::Object)
    return break_at(BreakId::UnknownIterable, "an iterator from outside");
  FRAMEJIT_TRY(item, x.next(iterator));
  if (item) {
    push(item);
    return next();
  }
  pop_raw();
  return jump(i);
}

Step SymbolicFrame::call_op(const Instr& i) {
  Values args = pop_raw(i.arg);
  // 3.11, 3.12: NULL, callable or method, self; 3.13: callable, NULL or self.
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
  return push_or_break(x.call(callable, args, keywords));
}

Step SymbolicFrame::call_ex(const Instr& i) {
  Keywords keywords;
  if (i.arg & 1) {
    Value* dict = pop();
    if (dict->kind != ValueKind::Dict) return break_at(BreakId::UnknownObject, "** of an object that is not a dict");
    FRAMEJIT_TRY(opened, x.open(dict));
    (void)opened;
    for (std::size_t k = 0; k < dict->items.size(); k += 2) {
      PyObject* name = dict->items[k]->object.get();
      if (!PyUnicode_CheckExact(name)) return break_at(BreakId::WouldRaise, "keywords must be strings");
      keywords.emplace_back(name, dict->items[k + 1]);
    }
  }
  FRAMEJIT_TRY(args, x.unpack(pop(), true));
  Value* callable = pop_raw();
  Value* null = pop_raw();
  // 3.13 has them the other way round.
  if (callable->kind == ValueKind::Null) std::swap(callable, null);
  return push_or_break(x.call(callable, args, keywords));
}

Step SymbolicFrame::make_function(const Instr& i) {
  Value* f = s.make(ValueKind::Function);
  f->object = pop()->object;
  f->extra = Ref<>::share(globals);
  f->items.assign(4, nullptr);
  static constexpr int kFlags[] = {1, 2, 8,
                                   4};  // defaults, keyword defaults, closure, annotations: the order of `items`
  for (int flag : {8, 4, 2, 1}) {
    if (!(i.arg & flag)) continue;
    Value* part = pop();
    for (std::size_t k = 0; k < 4; ++k)
      if (kFlags[k] == flag) f->items[k] = part;
  }
  push(f);
  return Flow::Next;
}

Step SymbolicFrame::set_function_attribute(const Instr& i) {  // 3.13
  Value* f = pop();
  Value* part = pop();
  const std::size_t at = i.arg == 1 ? 0 : i.arg == 2 ? 1 : i.arg == 8 ? 2 : 3;
  Value* before = f->items[at];
  f->items[at] = part;
  s.record(f, [f, at, before] { f->items[at] = before; });
  push(f);
  return Flow::Next;
}

}  // namespace framejit::capture
