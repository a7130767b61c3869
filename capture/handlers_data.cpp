// Handlers: operators, subscripts, building and unpacking of containers, strings, patterns.
#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/containers.h"
#include "capture/instances.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/sets.h"
#include "capture/symbolic_frame.h"
#include "capture/text.h"
#include "graph/support/check.h"

namespace framejit::capture {

Step SymbolicFrame::operator_op(const Instr& i) {
  const bool two =
      i.op == Opcode::BinaryOp || i.op == Opcode::CompareOp || i.op == Opcode::IsOp || i.op == Opcode::ContainsOp;
  if (two) peek(2);  // looked at in the order of the source
  Value* right = pop();
  switch (i.op) {
    case Opcode::UnaryPositive: return push_or_break(unary(x, Unary::Positive, right));
    case Opcode::UnaryNegative: return push_or_break(unary(x, Unary::Negative, right));
    case Opcode::UnaryInvert: return push_or_break(unary(x, Unary::Invert, right));
    case Opcode::UnaryNot:
    case Opcode::ToBool: {
      return push_or_break(truth_value(x, right, i.op == Opcode::UnaryNot));
    }
    default: break;
  }
  Value* left = pop();
  switch (i.op) {
    case Opcode::BinaryOp: return push_or_break(binary(x, i.arg, left, right));
    case Opcode::CompareOp: {
      FRAMEJIT_TRY(answer, compare(x, i.arg, left, right));
      return push_or_break(i.flag ? truth_value(x, answer, false) : Captured<Value*>(answer));
    }
    case Opcode::IsOp: {
      FRAMEJIT_TRY(same, is_same(x, left, right));
      push(x.boolean(same != (i.arg == 1)));
      return Flow::Next;
    }
    default: {  // ContainsOp
      FRAMEJIT_TRY(in, contains(x, right, left));
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
      FRAMEJIT_REQUIRE(set_item(x, container, key, pop_raw()));
      return Flow::Next;
    }
    case Opcode::DeleteSubscr: {
      FRAMEJIT_REQUIRE(del_item(x, container, key));
      return Flow::Next;
    }
    default: return push_or_break(get_item(x, container, key));
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
    case Opcode::BuildSet: {
      FRAMEJIT_TRY(set, make_set(x));
      for (Value* item : pop_raw(i.arg)) {
        FRAMEJIT_REQUIRE(set_add(x, set, item));
      }
      push(set);
      return Flow::Next;
    }
    case Opcode::BuildSlice: {
      Values parts = pop_raw(i.arg);
      for (Value*& part : parts) part = look(x, part);
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
      FRAMEJIT_REQUIRE(dict_set(x, dict, look(x, pairs[k]), pairs[k + 1]));
    }
  } else {
    Value* keys = pop();
    Values values = pop_raw(i.arg);
    for (std::size_t k = 0; k < values.size(); ++k) {
      FRAMEJIT_REQUIRE(dict_set(x, dict, keys->items[k], values[k]));
    }
  }
  push(dict);
  return Flow::Next;
}

Step SymbolicFrame::extend_op(const Instr& i) {
  if (i.op == Opcode::ListToTuple) {
    Value* list = pop();
    FRAMEJIT_REQUIRE(open(x, list));
    push(s.tuple(list->items));
    return Flow::Next;
  }
  if (i.op == Opcode::MapAdd) {
    Value* value = pop_raw();
    Value* key = pop();
    FRAMEJIT_REQUIRE(dict_set(x, peek(i.arg), key, value));
    return Flow::Next;
  }
  Value* value = pop_raw();
  if (i.op == Opcode::ListAppend) {
    FRAMEJIT_REQUIRE(append(x, peek(i.arg), value));
    return Flow::Next;
  }
  if (i.op == Opcode::SetAdd) {
    FRAMEJIT_REQUIRE(set_add(x, peek(i.arg), value));
    return Flow::Next;
  }
  Value* target = peek(i.arg);
  value = look(x, value);
  if (i.op == Opcode::SetUpdate) {
    FRAMEJIT_REQUIRE(set_update(x, target, value));
    return Flow::Next;
  }
  if (i.op == Opcode::ListExtend) {
    FRAMEJIT_TRY(items, unpack(x, value, true));
    for (Value* item : items) {
      FRAMEJIT_REQUIRE(append(x, target, item));
    }
    return Flow::Next;
  }
  // DictUpdate, DictMerge
  if (value->kind != ValueKind::Dict) return break_at(BreakId::UnknownObject, "** of an object that is not a dict");
  FRAMEJIT_REQUIRE(open(x, value));
  for (std::size_t k = 0; k < value->items.size(); k += 2) {
    if (i.op == Opcode::DictMerge) {
      FRAMEJIT_TRY(at, find_key(x, target, value->items[k]));
      if (at >= 0) return break_at(BreakId::WouldRaise, "two values for a keyword argument");
    }
    FRAMEJIT_REQUIRE(dict_set(x, target, value->items[k], value->items[k + 1]));
  }
  return Flow::Next;
}

Step SymbolicFrame::string_op(const Instr& i) {
  if (i.op == Opcode::BuildString) {
    Ref<> text = Ref<>::steal(PyUnicode_FromStringAndSize("", 0));
    const Values parts = pop_raw(i.arg);
    if (std::any_of(parts.begin(), parts.end(), [this](Value* part) { return look(x, part)->kind == ValueKind::Text; }))
      return push_or_break(joined(x, parts));
    for (Value* part : parts) {
      part = look(x, part);
      if (!part->is_constant() || !PyUnicode_CheckExact(part->object.get()) || !text)
        return break_at(BreakId::UnknownObject, "text of a value");
      text = Ref<>::steal(PyUnicode_Concat(text.get(), part->object.get()));
    }
    if (!text) {
      PyErr_Clear();
      return break_at(BreakId::UnknownObject, "text of a value");
    }
    push(s.constant(text.get()));
    return Flow::Next;
  }
  Value* spec = (i.arg & 4) ? pop() : nullptr;
  Value* value = pop();
  if (is_exception(*value) && (i.arg & 3) <= 1 && !spec) return push_or_break(exception_text(x, value));
  Ref<> plain = plain_text(x, value);
  if (!plain || (spec && !spec->is_constant())) return push_or_break(formatted(x, value, i.arg & 3, spec));
  if (has_long_int(plain.get())) return break_at(BreakId::UnknownObject, "text of a value");
  Ref<> object = plain;
  switch (i.arg & 3) {
    case 1: object = Ref<>::steal(PyObject_Str(object.get())); break;
    case 2: object = Ref<>::steal(PyObject_Repr(object.get())); break;
    case 3: object = Ref<>::steal(PyObject_ASCII(object.get())); break;
    default: break;
  }
  Ref<> text = object ? Ref<>::steal(PyObject_Format(object.get(), spec ? spec->object.get() : nullptr)) : Ref<>();
  if (!text) {
    PyErr_Clear();
    return break_at(BreakId::WouldRaise, "the format of a value");
  }
  push(s.constant(text.get()));
  return Flow::Next;
}

Step SymbolicFrame::unpack_op(const Instr& i) {
  Value* value = pop();
  FRAMEJIT_TRY(items, unpack(x, value));
  const std::size_t least = i.op == Opcode::UnpackSequence ? static_cast<std::size_t>(i.arg)
                                                           : static_cast<std::size_t>((i.arg & 0xff) + (i.arg >> 8));
  // An iterator that has too many is asked for one more than are wanted, not for all.
  const bool asked = value->kind == ValueKind::Iterator || value->kind == ValueKind::Object;
  if (asked && items.size() > least && i.op == Opcode::UnpackSequence)
    return break_at(BreakId::WouldRaise, "unpacking of another length");
  if (i.op == Opcode::UnpackSequence) {
    if (items.size() != least)
      return raises(x, PyExc_ValueError,
                    items.size() > least ? "too many values to unpack (expected " + std::to_string(i.arg) + ")"
                                         : "not enough values to unpack (expected " + std::to_string(i.arg) + ", got " +
                                               std::to_string(items.size()) + ")");
    for (auto item = items.rbegin(); item != items.rend(); ++item) push(*item);
    return Flow::Next;
  }
  const auto before = static_cast<std::size_t>(i.arg & 0xff), after = static_cast<std::size_t>(i.arg >> 8);
  if (items.size() < least)
    return raises(x, PyExc_ValueError,
                  "not enough values to unpack (expected at least " + std::to_string(least) + ", got " +
                      std::to_string(items.size()) + ")");
  for (std::size_t k = 0; k < after; ++k) push(items[items.size() - 1 - k]);
  Value* rest = s.make(ValueKind::List);
  rest->items.assign(items.begin() + static_cast<std::ptrdiff_t>(before),
                     items.end() - static_cast<std::ptrdiff_t>(after));
  push(rest);
  for (std::size_t k = before; k-- > 0;) push(items[k]);
  return Flow::Next;
}

Step SymbolicFrame::match_op(const Instr& i) {
  if (i.op == Opcode::MatchClass) return match_class(i);
  if (i.op == Opcode::MatchKeys) {
    Value* keys = peek(1);
    Value* subject = peek(2);
    if (subject->kind != ValueKind::Dict) return unsupported(i);
    Values found;
    for (std::size_t k = 0; k < keys->items.size(); ++k) {
      Value* key = keys->items[k];
      for (std::size_t j = 0; j < k; ++j) {
        FRAMEJIT_TRY(twice, equal(x, look(x, keys->items[j]), look(x, key)));
        if (twice) return break_at(BreakId::WouldRaise, "a key twice in a pattern");
      }
      FRAMEJIT_TRY(value, dict_peek(x, subject, look(x, key)));
      if (!value) {
        push(x.none());
        return Flow::Next;
      }
      found.push_back(value);
    }
    push(s.tuple(std::move(found)));
    return Flow::Next;
  }
  Value* subject = peek(1);
  if (i.op == Opcode::GetLen) return push_or_break(length(x, subject));
  const bool sequence =
      subject->kind == ValueKind::Tuple || subject->kind == ValueKind::List || subject->kind == ValueKind::Range;
  const bool mapping = subject->kind == ValueKind::Dict;
  auto* type = reinterpret_cast<PyTypeObject*>(type_of(x, subject));
  if (!sequence && !mapping && !type) return unsupported(i);
  const unsigned long flag = i.op == Opcode::MatchSequence ? Py_TPFLAGS_SEQUENCE : Py_TPFLAGS_MAPPING;
  if (type) push(x.boolean(PyType_HasFeature(type, flag)));
  else push(x.boolean(i.op == Opcode::MatchSequence ? sequence : mapping));
  return Flow::Next;
}

// subject, class, names of keyword patterns -> tuple of attributes, or None.
Step SymbolicFrame::match_class(const Instr& i) {
  Value* names = pop();
  Value* cls = pop();
  Value* subject = pop();
  auto* type = reinterpret_cast<PyTypeObject*>(type_of(x, subject));
  auto* wanted = reinterpret_cast<PyTypeObject*>(cls->is_constant() ? cls->object.get() : nullptr);
  if (!type || !wanted || !PyType_Check(cls->object.get())) return unsupported(i);
  FRAMEJIT_TRY(is, instance_of(x, type, cls));
  if (!is) {
    push(x.none());
    return Flow::Next;
  }
  Values found;
  static constexpr unsigned long kMatchSelf = 1UL << 22;  // _Py_TPFLAGS_MATCH_SELF
  static PyObject* const kMatchArgs = interned("__match_args__");
  if (i.arg > 0 && (wanted->tp_flags & kMatchSelf) && !type_attr(wanted, kMatchArgs)) {
    if (i.arg > 1) return break_at(BreakId::WouldRaise, "positional patterns");
    if (PyType_HasFeature(wanted, Py_TPFLAGS_HEAPTYPE))
      guard(x, GuardKind::TypeAttr, fixed_source(cls->object.get(), wanted->tp_name), nullptr, kMatchArgs, 1);
    found.push_back(subject);
  } else if (i.arg > 0) {
    FRAMEJIT_TRY(match_args, get_attr(x, cls, kMatchArgs));
    if (match_args->kind != ValueKind::Tuple || match_args->items.size() < static_cast<std::size_t>(i.arg))
      return break_at(BreakId::WouldRaise, "positional patterns");
    Values all(match_args->items.begin(), match_args->items.begin() + i.arg);
    all.insert(all.end(), names->items.begin(), names->items.end());
    names = s.tuple(std::move(all));
  }
  for (std::size_t k = 0; k < names->items.size(); ++k) {
    Value* name = look(x, names->items[k]);
    if (!name->is_constant() || !PyUnicode_CheckExact(name->object.get()))
      return break_at(BreakId::WouldRaise, "__match_args__");
    for (std::size_t j = 0; j < k; ++j)
      if (same_key(look(x, names->items[j])->object.get(), name->object.get()))
        return break_at(BreakId::WouldRaise, "an attribute twice in a pattern");
    FRAMEJIT_TRY(has, has_attr(x, subject, name->object.get()));
    if (!has) {
      push(x.none());
      return Flow::Next;
    }
    FRAMEJIT_TRY(value, get_attr(x, subject, name->object.get()));
    found.push_back(value);
  }
  push(s.tuple(std::move(found)));
  return Flow::Next;
}

}  // namespace framejit::capture
