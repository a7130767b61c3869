// Handlers: operators, subscripts, building and unpacking of containers, strings, patterns.
#include "capture/py/repr.h"
#include "capture/symbolic_frame.h"
#include "graph/support/check.h"

namespace framejit::capture {

Step SymbolicFrame::operator_op(const Instr& i) {
  const bool two =
      i.op == Opcode::BinaryOp || i.op == Opcode::CompareOp || i.op == Opcode::IsOp || i.op == Opcode::ContainsOp;
  if (two) peek(2);  // looked at in the order of the source
  Value* right = pop();
  switch (i.op) {
    case Opcode::UnaryPositive: return push_or_break(x.unary(Unary::Positive, right));
    case Opcode::UnaryNegative: return push_or_break(x.unary(Unary::Negative, right));
    case Opcode::UnaryInvert: return push_or_break(x.unary(Unary::Invert, right));
    case Opcode::UnaryNot:
    case Opcode::ToBool: {
      FRAMEJIT_TRY(truth, x.truth(right));
      push(x.boolean(truth == (i.op == Opcode::ToBool)));
      return Flow::Next;
    }
    default: break;
  }
  Value* left = pop();
  switch (i.op) {
    case Opcode::BinaryOp: return push_or_break(x.binary(i.arg, left, right));
    case Opcode::CompareOp: return push_or_break(x.compare(i.arg, left, right));
    case Opcode::IsOp: {
      FRAMEJIT_TRY(same, x.is_same(left, right));
      push(x.boolean(same != (i.arg == 1)));
      return Flow::Next;
    }
    default: {  // ContainsOp
      FRAMEJIT_TRY(in, x.contains(right, left));
      push(x.boolean(in != (i.arg == 1)));
      return Flow::Next;
    }
  }
}

Step SymbolicFrame::subscript_op(const Instr& i) {
  peek(2);  // the container first
  Value* key = pop();
  if (i.op == Opcode::BinarySlice || i.op == Opcode::StoreSlice) {
    Value* slice = s.make(ValueKind::Slice);
    Value* start = pop();
    slice->items = {start, key, x.none()};
    key = slice;
  }
  Value* container = pop();
  switch (i.op) {
    case Opcode::StoreSubscr:
    case Opcode::StoreSlice: {
      FRAMEJIT_TRY(stored, x.set_item(container, key, pop_raw()));
      (void)stored;
      return Flow::Next;
    }
    case Opcode::DeleteSubscr: {
      FRAMEJIT_TRY(deleted, x.del_item(container, key));
      (void)deleted;
      return Flow::Next;
    }
    default: return push_or_break(x.get_item(container, key));
  }
}

Step SymbolicFrame::build_op(const Instr& i) {
  switch (i.op) {
    case Opcode::BuildTuple: push(s.tuple(pop_raw(i.arg))); return Flow::Next;
    case Opcode::BuildList: {
      Value* list = s.make(ValueKind::List);
      list->items = pop_raw(i.arg);
      push(list);
      return Flow::Next;
    }
    case Opcode::BuildSlice: {
      Values parts = pop_raw(i.arg);
      for (Value*& part : parts) part = x.look(part);
      if (parts.size() == 2) parts.push_back(x.none());
      Value* slice = s.make(ValueKind::Slice);
      slice->items = std::move(parts);
      push(slice);
      return Flow::Next;
    }
    default: break;
  }
  Value* dict = s.make(ValueKind::Dict);
  if (i.op == Opcode::BuildMap) {
    Values pairs = pop_raw(2 * i.arg);
    for (std::size_t k = 0; k < pairs.size(); k += 2) {
      FRAMEJIT_TRY(stored, x.dict_set(dict, x.look(pairs[k]), pairs[k + 1]));
      (void)stored;
    }
  } else {
    Value* keys = pop();
    Values values = pop_raw(i.arg);
    for (std::size_t k = 0; k < values.size(); ++k) {
      FRAMEJIT_TRY(stored, x.dict_set(dict, keys->items[k], values[k]));
      (void)stored;
    }
  }
  push(dict);
  return Flow::Next;
}

Step SymbolicFrame::extend_op(const Instr& i) {
  if (i.op == Opcode::ListToTuple) {
    Value* list = pop();
    FRAMEJIT_TRY(opened, x.open(list));
    (void)opened;
    push(s.tuple(list->items));
    return Flow::Next;
  }
  if (i.op == Opcode::MapAdd) {
    Value* value = pop_raw();
    Value* key = pop();
    FRAMEJIT_TRY(stored, x.dict_set(peek(i.arg), key, value));
    (void)stored;
    return Flow::Next;
  }
  Value* value = pop_raw();
  if (i.op == Opcode::ListAppend) {
    FRAMEJIT_TRY(appended, x.append(peek(i.arg), value));
    (void)appended;
    return Flow::Next;
  }
  Value* target = peek(i.arg);
  value = x.look(value);
  if (i.op == Opcode::ListExtend) {
    FRAMEJIT_TRY(items, x.unpack(value));
    for (Value* item : items) {
      FRAMEJIT_TRY(appended, x.append(target, item));
      (void)appended;
    }
    return Flow::Next;
  }
  // DictUpdate, DictMerge
  if (value->kind != ValueKind::Dict) return break_at(BreakId::UnknownObject, "** of an object that is not a dict");
  FRAMEJIT_TRY(opened, x.open(value));
  (void)opened;
  for (std::size_t k = 0; k < value->items.size(); k += 2) {
    if (i.op == Opcode::DictMerge) {
      FRAMEJIT_TRY(at, x.find_key(target, value->items[k]));
      if (at >= 0) return break_at(BreakId::WouldRaise, "two values for a keyword argument");
    }
    FRAMEJIT_TRY(stored, x.dict_set(target, value->items[k], value->items[k + 1]));
    (void)stored;
  }
  return Flow::Next;
}

Step SymbolicFrame::string_op(const Instr& i) {
  if (i.op == Opcode::BuildString) {
    Ref<> joined = Ref<>::steal(PyUnicode_FromStringAndSize("", 0));
    for (Value* part : pop_raw(i.arg)) {
      part = x.look(part);
      if (!part->is_constant() || !PyUnicode_CheckExact(part->object.get()) || !joined)
        return break_at(BreakId::UnknownObject, "text of a value");
      joined = Ref<>::steal(PyUnicode_Concat(joined.get(), part->object.get()));
    }
    if (!joined) {
      PyErr_Clear();
      return break_at(BreakId::UnknownObject, "text of a value");
    }
    push(s.constant(joined.get()));
    return Flow::Next;
  }
  Value* spec = (i.arg & 4) ? pop() : nullptr;
  Value* value = pop();
  Value* known = x.specialize(value);
  if (!known || !is_plain(known->object.get()) || has_long_int(known->object.get()) || (spec && !spec->is_constant()))
    return break_at(BreakId::UnknownObject, "text of a value");
  Ref<> object = known->object;
  switch (i.arg & 3) {
    case 1: object = Ref<>::steal(PyObject_Str(object.get())); break;
    case 2: object = Ref<>::steal(PyObject_Repr(object.get())); break;
    case 3: object = Ref<>::steal(PyObject_ASCII(object.get())); break;
    default: break;
  }
  Ref<> text = object ? Ref<>::steal(PyObject_Format(object.get(), spec ? spec->object.get() : nullptr)) : Ref<>();
  if (!text) {
    PyErr_Clear();
    return break_at(BreakId::WouldRaise, "format");
  }
  push(s.constant(text.get()));
  return Flow::Next;
}

Step SymbolicFrame::unpack_op(const Instr& i) {
  Value* value = pop();
  FRAMEJIT_TRY(items, x.unpack(value));
  if (i.op == Opcode::UnpackSequence) {
    if (items.size() != static_cast<std::size_t>(i.arg))
      return break_at(BreakId::WouldRaise, "unpacking of another length");
    for (auto item = items.rbegin(); item != items.rend(); ++item) push(*item);
    return Flow::Next;
  }
  const auto before = static_cast<std::size_t>(i.arg & 0xff), after = static_cast<std::size_t>(i.arg >> 8);
  if (items.size() < before + after) return break_at(BreakId::WouldRaise, "not enough values to unpack");
  for (std::size_t k = 0; k < after; ++k) push(items[items.size() - 1 - k]);
  Value* rest = s.make(ValueKind::List);
  rest->items.assign(items.begin() + static_cast<std::ptrdiff_t>(before),
                     items.end() - static_cast<std::ptrdiff_t>(after));
  push(rest);
  for (std::size_t k = before; k-- > 0;) push(items[k]);
  return Flow::Next;
}

Step SymbolicFrame::match_op(const Instr& i) {
  Value* subject = peek(1);
  if (i.op == Opcode::GetLen) return push_or_break(x.length(subject));
  const bool sequence = subject->kind == ValueKind::Tuple || subject->kind == ValueKind::List;
  const bool mapping = subject->kind == ValueKind::Dict;
  const bool scalar = is_number(*subject) || (subject->is_constant() && is_plain(subject->object.get()));
  if (!sequence && !mapping && !scalar) return unsupported(i, BreakId::UnsupportedInstruction);
  push(x.boolean(i.op == Opcode::MatchSequence ? sequence : mapping));
  return Flow::Next;
}

}  // namespace framejit::capture
