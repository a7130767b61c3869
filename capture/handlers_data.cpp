// Handlers: operators, subscripts, building and unpacking of containers, strings, patterns.
#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/containers.h"
#include "capture/flow.h"
#include "capture/handlers.h"
#include "capture/instances.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/sets.h"
#include "capture/text.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

Step match_class(SymbolicFrame& frame, const Instr& i);

}  // namespace

Step operator_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  const bool two =
      i.op == Opcode::BinaryOp || i.op == Opcode::CompareOp || i.op == Opcode::IsOp || i.op == Opcode::ContainsOp;
  if (two) frame.peek(2);  // looked at in the order of the source
  Value* right = frame.pop();
  switch (i.op) {
    case Opcode::UnaryPositive: return frame.push_or_break(unary(x, Unary::Positive, right));
    case Opcode::UnaryNegative: return frame.push_or_break(unary(x, Unary::Negative, right));
    case Opcode::UnaryInvert: return frame.push_or_break(unary(x, Unary::Invert, right));
    case Opcode::UnaryNot:
    case Opcode::ToBool: {
      return frame.push_or_break(truth_value(x, right, i.op == Opcode::UnaryNot));
    }
    default: break;
  }
  Value* left = frame.pop();
  switch (i.op) {
    case Opcode::BinaryOp: return frame.push_or_break(binary(x, i.arg, left, right));
    case Opcode::CompareOp: {
      FRAMEJIT_TRY(answer, compare(x, i.arg, left, right));
      return frame.push_or_break(i.flag ? truth_value(x, answer, false) : Captured<Value*>(answer));
    }
    case Opcode::IsOp: {
      FRAMEJIT_TRY(same, is_same(x, left, right));
      frame.push(x.boolean(same != (i.arg == 1)));
      return Flow::Next;
    }
    default: {  // ContainsOp
      FRAMEJIT_TRY(in, contains(x, right, left));
      frame.push(x.boolean(in != (i.arg == 1)));
      return Flow::Next;
    }
  }
}

Step subscript_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  frame.peek(2);  // the container first
  Value* key = frame.pop();
  if (i.op == Opcode::BinarySlice || i.op == Opcode::StoreSlice) {
    Value* slice = frame.session().values().make(ValueKind::Slice);
    Value* start = frame.pop();
    slice->items = {start, key, x.none()};
    key = slice;
  }
  Value* container = frame.pop();
  switch (i.op) {
    case Opcode::StoreSubscr:
    case Opcode::StoreSlice: {
      FRAMEJIT_REQUIRE(set_item(x, container, key, frame.pop_raw()));
      return Flow::Next;
    }
    case Opcode::DeleteSubscr: {
      FRAMEJIT_REQUIRE(del_item(x, container, key));
      return Flow::Next;
    }
    default: {
      FRAMEJIT_TRY(chosen, choose_item(frame, container, key));
      if (!chosen) return frame.push_or_break(get_item(x, container, key));
      const uint32_t here = std::exchange(frame.pc, frame.view->behind(frame.pc));
      Step settled = settle_stack(frame);
      if (!settled) frame.pc = here;  // where it breaks
      return settled;
    }
  }
}

Step build_op(SymbolicFrame& frame, const Instr& i) {
  Session& session = frame.session();
  Executor& x = frame.executor();
  switch (i.op) {
    case Opcode::BuildTuple: frame.push(session.values().tuple(frame.pop_raw(i.arg))); return Flow::Next;
    case Opcode::BuildList: {
      Value* list = session.values().make(ValueKind::List);
      list->items = frame.pop_raw(i.arg);
      frame.push(list);
      return Flow::Next;
    }
    case Opcode::BuildSet: {
      FRAMEJIT_TRY(set, make_set(x));
      for (Value* item : frame.pop_raw(i.arg)) {
        FRAMEJIT_REQUIRE(set_add(x, set, item));
      }
      frame.push(set);
      return Flow::Next;
    }
    case Opcode::BuildSlice: {
      Values parts = frame.pop_raw(i.arg);
      for (Value*& part : parts) part = look(x, part);
      if (parts.size() == 2) parts.push_back(x.none());
      Value* slice = session.values().make(ValueKind::Slice);
      slice->items = std::move(parts);
      frame.push(slice);
      return Flow::Next;
    }
    default: break;
  }
  Value* dict = session.values().make(ValueKind::Dict);
  if (i.op == Opcode::BuildMap) {
    Values pairs = frame.pop_raw(2 * i.arg);
    for (std::size_t k = 0; k < pairs.size(); k += 2) {
      FRAMEJIT_REQUIRE(dict_set(x, dict, look(x, pairs[k]), pairs[k + 1]));
    }
  } else {
    Value* keys = frame.pop();
    Values values = frame.pop_raw(i.arg);
    for (std::size_t k = 0; k < values.size(); ++k) {
      FRAMEJIT_REQUIRE(dict_set(x, dict, keys->items[k], values[k]));
    }
  }
  frame.push(dict);
  return Flow::Next;
}

Step extend_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  if (i.op == Opcode::ListToTuple) {
    Value* list = frame.pop();
    FRAMEJIT_REQUIRE(open(x, list));
    frame.push(frame.session().values().tuple(list->items));
    return Flow::Next;
  }
  if (i.op == Opcode::MapAdd) {
    Value* value = frame.pop_raw();
    Value* key = frame.pop();
    FRAMEJIT_REQUIRE(dict_set(x, frame.peek(i.arg), key, value));
    return Flow::Next;
  }
  Value* value = frame.pop_raw();
  if (i.op == Opcode::ListAppend) {
    FRAMEJIT_REQUIRE(append(x, frame.peek(i.arg), value));
    return Flow::Next;
  }
  if (i.op == Opcode::SetAdd) {
    FRAMEJIT_REQUIRE(set_add(x, frame.peek(i.arg), value));
    return Flow::Next;
  }
  Value* target = frame.peek(i.arg);
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

Step string_op(SymbolicFrame& frame, const Instr& i) {
  if (i.op == Opcode::BuildString) {
    Ref<> text = Ref<>::steal(PyUnicode_FromStringAndSize("", 0));
    const Values parts = frame.pop_raw(i.arg);
    if (std::any_of(parts.begin(), parts.end(),
                    [&frame](Value* part) { return look(frame.executor(), part)->kind == ValueKind::Text; }))
      return frame.push_or_break(joined(frame.executor(), parts));
    for (Value* part : parts) {
      part = look(frame.executor(), part);
      if (!part->is_constant() || !PyUnicode_CheckExact(part->object.get()) || !text)
        return break_at(BreakId::UnknownObject, "text of a value");
      text = Ref<>::steal(PyUnicode_Concat(text.get(), part->object.get()));
    }
    if (!text) {
      PyErr_Clear();
      return break_at(BreakId::UnknownObject, "text of a value");
    }
    frame.push(frame.session().values().constant(text.get()));
    return Flow::Next;
  }
  Value* spec = (i.arg & 4) ? frame.pop() : nullptr;
  Value* value = frame.pop();
  if (is_exception(*value) && (i.arg & 3) <= 1 && !spec)
    return frame.push_or_break(exception_text(frame.executor(), value));
  Ref<> plain = plain_text(frame.executor(), value);
  if (!plain || (spec && !spec->is_constant()))
    return frame.push_or_break(formatted(frame.executor(), value, i.arg & 3, spec));
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
  frame.push(frame.session().values().constant(text.get()));
  return Flow::Next;
}

Step unpack_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  Value* value = frame.pop();
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
    for (auto item = items.rbegin(); item != items.rend(); ++item) frame.push(*item);
    return Flow::Next;
  }
  const auto before = static_cast<std::size_t>(i.arg & 0xff), after = static_cast<std::size_t>(i.arg >> 8);
  if (items.size() < least)
    return raises(x, PyExc_ValueError,
                  "not enough values to unpack (expected at least " + std::to_string(least) + ", got " +
                      std::to_string(items.size()) + ")");
  for (std::size_t k = 0; k < after; ++k) frame.push(items[items.size() - 1 - k]);
  Value* rest = frame.session().values().make(ValueKind::List);
  rest->items.assign(items.begin() + static_cast<std::ptrdiff_t>(before),
                     items.end() - static_cast<std::ptrdiff_t>(after));
  frame.push(rest);
  for (std::size_t k = before; k-- > 0;) frame.push(items[k]);
  return Flow::Next;
}

Step match_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  if (i.op == Opcode::MatchClass) return match_class(frame, i);
  if (i.op == Opcode::MatchKeys) {
    Value* keys = frame.peek(1);
    Value* subject = frame.peek(2);
    if (subject->kind != ValueKind::Dict) return unsupported(frame, i);
    Values found;
    for (std::size_t k = 0; k < keys->items.size(); ++k) {
      Value* key = keys->items[k];
      for (std::size_t j = 0; j < k; ++j) {
        FRAMEJIT_TRY(twice, equal(x, look(x, keys->items[j]), look(x, key)));
        if (twice) return break_at(BreakId::WouldRaise, "a key twice in a pattern");
      }
      FRAMEJIT_TRY(value, dict_peek(x, subject, look(x, key)));
      if (!value) {
        frame.push(x.none());
        return Flow::Next;
      }
      found.push_back(value);
    }
    frame.push(frame.session().values().tuple(std::move(found)));
    return Flow::Next;
  }
  Value* subject = frame.peek(1);
  if (i.op == Opcode::GetLen) return frame.push_or_break(length(x, subject));
  const bool sequence =
      subject->kind == ValueKind::Tuple || subject->kind == ValueKind::List || subject->kind == ValueKind::Range;
  const bool mapping = subject->kind == ValueKind::Dict;
  auto* type = reinterpret_cast<PyTypeObject*>(type_of(x, subject));
  if (!sequence && !mapping && !type) return unsupported(frame, i);
  const unsigned long flag = i.op == Opcode::MatchSequence ? Py_TPFLAGS_SEQUENCE : Py_TPFLAGS_MAPPING;
  if (type) frame.push(x.boolean(PyType_HasFeature(type, flag)));
  else frame.push(x.boolean(i.op == Opcode::MatchSequence ? sequence : mapping));
  return Flow::Next;
}

namespace {

// subject, class, names of keyword patterns -> tuple of attributes, or None.
Step match_class(SymbolicFrame& frame, const Instr& i) {
  Session& session = frame.session();
  Executor& x = frame.executor();
  Value* names = frame.pop();
  Value* cls = frame.pop();
  Value* subject = frame.pop();
  auto* type = reinterpret_cast<PyTypeObject*>(type_of(x, subject));
  auto* wanted = reinterpret_cast<PyTypeObject*>(cls->is_constant() ? cls->object.get() : nullptr);
  if (!type || !wanted || !PyType_Check(cls->object.get())) return unsupported(frame, i);
  FRAMEJIT_TRY(is, instance_of(x, type, cls));
  if (!is) {
    frame.push(x.none());
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
    names = session.values().tuple(std::move(all));
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
      frame.push(x.none());
      return Flow::Next;
    }
    FRAMEJIT_TRY(value, get_attr(x, subject, name->object.get()));
    found.push_back(value);
  }
  frame.push(session.values().tuple(std::move(found)));
  return Flow::Next;
}

}  // namespace

}  // namespace framejit::capture
