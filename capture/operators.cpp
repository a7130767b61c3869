// Operators over Values: arrays go to their frontend, numbers to numbers.cpp, constants are folded, sequences joined.
#include "capture/operators.h"

#include <cmath>
#include <tuple>

#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/containers.h"
#include "capture/instances.h"
#include "capture/named_tuples.h"
#include "capture/numbers.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/sets.h"
#include "capture/text.h"

namespace framejit::capture {

namespace {

Captured<Value*> sequence_binary(Executor& x, int nb, Value* left, Value* right);

constexpr Py_ssize_t kFoldedItems = 10000;  // of a str or bytes that folding makes

std::string type_text(Executor& x, Value* v) {
  PyObject* type = type_of(x, v);
  return type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "object";
}

const char* operator_text(int nb) {
  static constexpr const char* kText[] = {
      "+",  "&",  "//",  "<<",  "@",  "*",  "%",  "|",  "**",  ">>",  "-",  "/",  "^",
      "+=", "&=", "//=", "<<=", "@=", "*=", "%=", "|=", "**=", ">>=", "-=", "/=", "^="};
  return kText[nb];
}

// What may stand beside an array in an operator of its frontend.
bool fits_array(Executor& x, Value* v) {
  switch (v->kind) {
    case ValueKind::Array:
    case ValueKind::Int: return true;
    case ValueKind::Tuple:
    case ValueKind::List: return true;  // the frontend converts or breaks
    case ValueKind::Constant: return is_plain(v->object.get()) || frontend_for(x, v->object.get());
    default: return false;
  }
}

/// A class that leaves `|` to type, a union of classes, or None.
bool is_union_part(PyObject* o) {
  if (o == Py_None || is_union(o)) return true;
  return PyType_Check(o) && Py_TYPE(o)->tp_as_number &&
         Py_TYPE(o)->tp_as_number->nb_or == PyType_Type.tp_as_number->nb_or;
}

bool is_sequence(const Value* v) { return v->kind == ValueKind::Tuple || v->kind == ValueKind::List; }

}  // namespace

Captured<Value*> binary(Executor& x, int nb, Value* left, Value* right) {
  auto is_text = [](const Value* v) {
    return v->kind == ValueKind::Text || (v->is_constant() && PyUnicode_CheckExact(v->object.get()));
  };
  if (left->is_constant() && is_text(left) && nb % 13 == 6 && !plain(x, right)) {
    static PyObject* const mod = PyObject_GetAttrString(PyImport_ImportModule("operator"), "mod");
    return text(x, mod, {left, right}, left->object.get());
  }
  Frontend* frontend = frontend_of(x, *left);
  if (!frontend && left->kind == ValueKind::Object) return object_binary(x, nb, left, right);  // it is asked first
  if (!frontend) frontend = frontend_of(x, *right);
  if (frontend) {
    if (!fits_array(x, left) || !fits_array(x, right))
      return break_at(BreakId::UnknownObject, type_text(x, left) + " " + operator_text(nb) + " " + type_text(x, right));
    for (Value* v : {left, right}) {
      FRAMEJIT_REQUIRE(force(x, v));
    }
    return frontend->binary(x.session(), nb, left, right);
  }
  if (is_number(*left) && is_number(*right)) return number_binary(x, nb, left, right);
  if (left->kind == ValueKind::Object || right->kind == ValueKind::Object) return object_binary(x, nb, left, right);
  if (left->kind == ValueKind::Set || right->kind == ValueKind::Set) return set_binary(x, nb, left, right);
  if (left->kind == ValueKind::Dict && right->kind == ValueKind::Dict &&
      (nb == 20 || (nb == 7 && is_exact_dict(left) && is_exact_dict(right)))) {
    if (nb >= 13) {
      FRAMEJIT_REQUIRE(call_method(x, left, "update", {right}, {}));
      return left;
    }
    FRAMEJIT_TRY(merged, call_method(x, left, "copy", {}, {}));
    FRAMEJIT_REQUIRE(call_method(x, merged, "update", {right}, {}));
    return merged;
  }
  const bool formatting = left->is_constant() && nb % 13 == 6;
  if (!formatting && (is_sequence(left) || is_sequence(right))) return sequence_binary(x, nb, left, right);
  if (left->is_constant() && right->is_constant()) return fold(x, nb, left->object.get(), right->object.get());
  if (left->is_constant() && is_text(left) && nb % 13 == 6)
    if (Ref<> r = plain(x, right)) return fold(x, nb, left->object.get(), r.get());
  if (nb % 13 == 0 && is_text(left) && is_text(right) &&
      (left->kind == ValueKind::Text || right->kind == ValueKind::Text))
    return joined(x, {left, right});
  if (Value* l = specialize(x, left), *r = specialize(x, right);
      l && r && is_plain(l->object.get()) && is_plain(r->object.get()))
    return fold(x, nb, l->object.get(), r->object.get());
  return break_at(BreakId::UnknownObject, type_text(x, left) + " " + operator_text(nb) + " " + type_text(x, right));
}

// Exact builtin immutable constants, where the result is small and nothing is raised.
Captured<Value*> fold(Executor& x, int nb, PyObject* l, PyObject* r) {
  const std::string what = std::string("constant ") + operator_text(nb);
  if (nb == 7 && is_union_part(l) && is_union_part(r) && l != r) {
    Ref<> made = Ref<>::steal(PyNumber_Or(l, r));
    if (!made) return raises_current(x, what);
    Value* v = x.values().constant(made.get());
    v->transient = true;  // another one each time
    return v;
  }
  if (!is_plain(l) || !is_plain(r)) {
    for (Frontend* frontend : x.session().frontends())
      if (Ref<> made = frontend->fold(nb, l, r)) return x.values().constant(made.get());
    return break_at(BreakId::UnknownObject, what);
  }
  const bool ints = (PyLong_CheckExact(l) || PyBool_Check(l)) && (PyLong_CheckExact(r) || PyBool_Check(r));
  const int op = nb % 13;
  if (ints) {
    const std::size_t bits = _PyLong_NumBits(l) + _PyLong_NumBits(r);
    if (bits > 2048) return break_at(BreakId::ScalarOverflow, what);
    if (op == 8 || op == 3) {  // ** and <<: the size of the result is in the value of the right side
      const long long times = PyLong_AsLongLong(r);
      if (times == -1 && PyErr_Occurred()) PyErr_Clear();
      const auto magnitude = static_cast<long long>(_PyLong_NumBits(l));
      if (times < 0 || times > 2048 || (op == 8 && magnitude * times > 2048)) {
        if (op == 3 || times > 0) return break_at(BreakId::ScalarOverflow, what);
      }
    }
  }
  auto size_of = [](PyObject* o) -> Py_ssize_t {
    return PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || PyTuple_CheckExact(o) ? PyObject_Size(o) : -1;
  };
  const Py_ssize_t l_size = size_of(l), r_size = size_of(r);
  if (op == 5 && (l_size >= 0 || r_size >= 0)) {
    const long long times = PyLong_Check(l_size >= 0 ? r : l) ? PyLong_AsLongLong(l_size >= 0 ? r : l) : 0;
    if (PyErr_Occurred()) PyErr_Clear();
    if (times < 0 || times > kFoldedItems || times * std::max(l_size, r_size) > kFoldedItems)
      return break_at(BreakId::CapturedTooMuch, what);
  } else if (l_size + r_size > 2 * kFoldedItems) {
    return break_at(BreakId::CapturedTooMuch, what);
  }
  if (op == 6 && (PyUnicode_CheckExact(l) || PyBytes_CheckExact(l)) && PyTuple_CheckExact(r) && r_size > 16)
    return break_at(BreakId::CapturedTooMuch, what);
  if (op == 6 && (PyUnicode_CheckExact(l) || PyBytes_CheckExact(l)) && has_long_int(r))
    return break_at(BreakId::UnknownObject, what);
  if (op == 6 && (PyUnicode_CheckExact(l) || PyBytes_CheckExact(l)) && text_of(l).find('*') != std::string::npos)
    return break_at(BreakId::CapturedTooMuch, what);  // a width of any size
  using Function = PyObject* (*)(PyObject*, PyObject*);
  // By the numbers of BINARY_OP. Those in place name themselves in what they raise.
  static constexpr Function kFunctions[] = {
      PyNumber_Add,
      PyNumber_And,
      PyNumber_FloorDivide,
      PyNumber_Lshift,
      PyNumber_MatrixMultiply,
      PyNumber_Multiply,
      PyNumber_Remainder,
      PyNumber_Or,
      [](PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); },
      PyNumber_Rshift,
      PyNumber_Subtract,
      PyNumber_TrueDivide,
      PyNumber_Xor,
      PyNumber_InPlaceAdd,
      PyNumber_InPlaceAnd,
      PyNumber_InPlaceFloorDivide,
      PyNumber_InPlaceLshift,
      PyNumber_InPlaceMatrixMultiply,
      PyNumber_InPlaceMultiply,
      PyNumber_InPlaceRemainder,
      PyNumber_InPlaceOr,
      [](PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); },
      PyNumber_InPlaceRshift,
      PyNumber_InPlaceSubtract,
      PyNumber_InPlaceTrueDivide,
      PyNumber_InPlaceXor};
  Ref<> result = Ref<>::steal(kFunctions[nb](l, r));
  if (!result) return raises_current(x, what);
  return fresh(x, result.get());
}

namespace {

Captured<Value*> sequence_binary(Executor& x, int nb, Value* left, Value* right) {
  const int op = nb % 13;
  const bool in_place = nb >= 13;
  if (op == 0 && left->kind == ValueKind::List && in_place) {
    FRAMEJIT_REQUIRE(extend(x, left, right));
    return left;
  }
  if (op == 0 && left->kind == right->kind) {
    FRAMEJIT_TRY(l, unpack(x, left));
    FRAMEJIT_TRY(r, unpack(x, right));
    if (left->kind == ValueKind::Tuple && r.empty()) return left;  // as CPython gives the very object
    if (left->kind == ValueKind::Tuple && l.empty()) return right;
    l.insert(l.end(), r.begin(), r.end());
    Value* v = x.values().make(left->kind);
    v->items = std::move(l);
    return v;
  }
  Value* sequence = is_sequence(left) ? left : right;
  Value* times = sequence == left ? right : left;
  if (op == 5 && is_int_like(*times) && !(in_place && sequence->kind == ValueKind::List)) {
    times = specialize(x, times);
    if (times && fits_int64(*times)) {
      FRAMEJIT_TRY(items, unpack(x, sequence));
      const int64_t count = items.empty() ? 0 : std::max<int64_t>(0, dim_of(*times).value());
      if (count > 0 && static_cast<int64_t>(items.size()) > kFoldedItems / count)
        return break_at(BreakId::CapturedTooMuch, "a long sequence");
      if (sequence->kind == ValueKind::Tuple && count == 1) return sequence;
      Value* v = x.values().make(sequence->kind);
      for (int64_t k = 0; k < count; ++k) v->items.insert(v->items.end(), items.begin(), items.end());
      return v;
    }
  }
  return break_at(BreakId::UnknownObject, type_text(x, left) + " " + operator_text(nb) + " " + type_text(x, right));
}

}  // namespace

Captured<Value*> unary(Executor& x, Unary op, Value* v) {
  if (Frontend* frontend = frontend_of(x, *v)) return frontend->unary(x.session(), op, v);
  if (is_number(*v)) return number_unary(x, op, v);
  static PyObject* const kNames[] = {interned("__pos__"), interned("__neg__"), interned("__invert__")};
  FRAMEJIT_TRY(result, special(x, v, kNames[static_cast<int>(op)], {}));
  if (result) return look(x, result);
  return break_at(BreakId::UnknownObject, type_text(x, v));
}

Captured<bool> is_same(Executor& x, Value* left, Value* right) {
  if (left == right) return true;
  if (left->which() != graph::kNoValue || right->which() != graph::kNoValue)
    return break_at(BreakId::DataDependentBranch, "`is` of a value that the graph computes");
  auto singleton = [](Value* v) {
    PyObject* o = v->is_constant() ? v->object.get() : nullptr;
    return o == Py_None || o == Py_True || o == Py_False || o == Py_Ellipsis || o == Py_NotImplemented;
  };
  auto is_bool = [](Value* v) { return v->is_constant() && PyBool_Check(v->object.get()); };
  for (auto [a, b] : {std::pair{left, right}, std::pair{right, left}}) {
    if (!singleton(a)) continue;
    if (b->is_constant()) return a->object.get() == b->object.get();
    // A run-time Python bool may be True or False; everything else that is not a Constant is no singleton.
    if (b->is_array() && b->wrap() == Wrap::PyBool && is_bool(a))
      return break_at(BreakId::DataDependentBranch, "`is` of a value that the graph computes");
    return false;
  }
  auto made = [](Value* v) { return !v->source && (!v->object || v->kind == ValueKind::Set || v->is_made()); };
  const bool l_made = made(left), r_made = made(right);
  auto mutable_kind = [](Value* v) {
    return v->kind == ValueKind::List || v->kind == ValueKind::Dict || v->kind == ValueKind::Cell ||
           v->kind == ValueKind::Set || v->is_made();
  };
  if ((l_made && mutable_kind(left)) || (r_made && mutable_kind(right))) return false;
  PyObject *l = known(x, left), *r = known(x, right);
  if (l && r) {
    // Objects that are fixed by Identity are what they are; equal ints and strings may or may not be one object.
    if (!is_plain(l) || !is_plain(r)) return l == r;
    if (Py_TYPE(l) != Py_TYPE(r)) return false;
    return break_at(BreakId::UnsupportedArgument, "identity of equal constants");
  }
  auto existing_object = [](Value* v) {
    return v->source &&
           (v->kind == ValueKind::Object || v->kind == ValueKind::List || v->kind == ValueKind::Dict ||
            v->kind == ValueKind::Set || (v->is_array() && (v->wrap() == Wrap::NdArray || v->wrap() == Wrap::Tensor)));
  };
  const auto is_bound = [](const Value* v) { return v->kind == ValueKind::BoundMethod && v->object && v->source; };
  if ((existing_object(left) && existing_object(right)) || (is_bound(left) && is_bound(right))) {
    // One Value stands for one object, so these are two; only methods have a Value for each place that holds them.
    const bool one = is_bound(left) && left->object.get() == right->object.get();
    x.session().guards().add(identity_guard(left->source, right->source, one));
    return one;
  }
  if ((existing_object(left) && (l || l_made)) || (existing_object(right) && (r || r_made)))
    if (!(left->is_array() && right->is_array() && left->id() == right->id())) return false;
  const PyObject *l_type = type_of(x, left), *r_type = type_of(x, right);
  if (l_type && r_type && l_type != r_type) return false;
  return break_at(BreakId::UnsupportedArgument, "identity of these objects");
}

Captured<bool> truth_of(Executor& x, Value* v) {
  switch (v->kind) {
    case ValueKind::Constant: {
      PyObject* o = v->object.get();
      if (o == Py_NotImplemented) return break_at(BreakId::WouldRaise, "truth of NotImplemented");  // or would warn
      if (is_plain(o)) return PyObject_IsTrue(o) == 1;
      if (PyCFunction_Check(o) || PyModule_CheckExact(o) || Py_IS_TYPE(o, &PyType_Type)) return true;
      return break_at(BreakId::UnknownObject, "truth of " + short_repr(o));
    }
    case ValueKind::Int: return x.shapes().holds(graph::Relation::Ne, v->dim(), graph::Dim(0));
    case ValueKind::Array: {
      if (v->wrap() == Wrap::PyFloat)
        if (Value* known_value = specialize(x, v)) return truth_of(x, known_value);
      return break_at(BreakId::DataDependentBranch);
    }
    case ValueKind::List:
    case ValueKind::Dict: {
      if (Value* n = length_of_list(x, v)) return truth_of(x, n);
      FRAMEJIT_REQUIRE(open(x, v));
      return !v->items.empty();
    }
    case ValueKind::Tuple: return !v->items.empty();
    case ValueKind::Set: {
      FRAMEJIT_TRY(size, set_size(x, v));
      return size > 0;
    }
    case ValueKind::Range: {
      FRAMEJIT_TRY(n, length(x, v));
      return truth_of(x, n);
    }
    case ValueKind::Iterator:
    case ValueKind::Function:
    case ValueKind::BoundMethod:
    case ValueKind::Slice: return true;
    case ValueKind::Object: {
      if (!PyType_HasFeature(class_of(*v), Py_TPFLAGS_HEAPTYPE) && !is_exception(*v)) break;
      static PyObject* const kBool = interned("__bool__");
      static PyObject* const kLen = interned("__len__");
      for (PyObject* method : {kBool, kLen}) {
        FRAMEJIT_TRY(answer, special(x, v, method, {}));
        if (answer) {
          answer = look(x, answer);
          const bool length = method == kLen && is_int_like(*answer) &&
                              x.shapes().holds(graph::Relation::Le, graph::Dim(0), dim_of(*answer));
          if (answer->is_constant() && (PyBool_Check(answer->object.get()) || length)) return truth_of(x, answer);
          return break_at(BreakId::UnknownObject, "truth of an object");
        }
        FRAMEJIT_TRY(tuple, as_tuple(x, v, method));
        if (tuple && method == kLen) return truth_of(x, tuple);
        if (type_attr(class_of(*v), method)) return break_at(BreakId::UnknownObject, "truth of an object");
        guard_lookup(x, v, nullptr, method);
      }
      return true;
    }
    case ValueKind::Null:
    case ValueKind::Lazy:
    case ValueKind::Text:
    case ValueKind::Cell: break;
  }
  return break_at(BreakId::UnknownObject, "truth of " + type_text(x, v));
}

Captured<Value*> compare(Executor& x, int op, Value* left, Value* right) {
  Frontend* frontend = frontend_of(x, *left);
  if (!frontend && left->kind == ValueKind::Object) return object_compare(x, op, left, right);
  if (!frontend) frontend = frontend_of(x, *right);
  if (frontend) {
    if (!fits_array(x, left) || !fits_array(x, right))
      return break_at(BreakId::UnknownObject, "comparison with " + type_text(x, frontend_of(x, *left) ? right : left));
    for (Value* v : {left, right}) {
      FRAMEJIT_REQUIRE(force(x, v));
    }
    return frontend->compare(x.session(), op, left, right);
  }
  if (is_number(*left) && is_number(*right)) return number_compare(x, op, left, right);
  if (left->kind == ValueKind::Object || right->kind == ValueKind::Object) return object_compare(x, op, left, right);
  if (left->kind == ValueKind::Set || right->kind == ValueKind::Set) return set_compare(x, op, left, right);
  if (left->is_constant() && right->is_constant()) {
    PyObject *l = left->object.get(), *r = right->object.get();
    if (!is_plain(l) || !is_plain(r)) {
      // Modules, plain classes, most functions and objects without an __eq__ of their own compare by identity.
      auto by_identity = [](PyObject* o) {
        return PyCFunction_Check(o) || PyModule_CheckExact(o) || Py_IS_TYPE(o, &PyType_Type) ||
               Py_TYPE(o)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
      };
      auto fixed = [&](PyObject* o) {
        return std::any_of(x.session().frontends().begin(), x.session().frontends().end(),
                           [&](Frontend* each) { return each->is_fixed(o); });
      };
      auto simple = [&](PyObject* o) { return fixed(o) || PyType_Check(o) || PyUnicode_CheckExact(o); };
      if ((fixed(l) || fixed(r)) && simple(l) && simple(r)) {
        Ref<> result = Ref<>::steal(PyObject_RichCompare(l, r, op));
        if (!result) return raises_current(x, "comparison");
        return x.values().constant(result.get());
      }
      if ((op == Py_EQ || op == Py_NE) && (by_identity(l) || by_identity(r)) && (by_identity(l) || is_plain(l)) &&
          (by_identity(r) || is_plain(r))) {
        // Methods of one object, made anew each time they are asked for, are equal.
        const bool methods = PyCFunction_Check(l) && PyCFunction_Check(r);
        const bool equal = methods ? PyObject_RichCompareBool(l, r, Py_EQ) == 1 : l == r;
        return x.boolean(equal == (op == Py_EQ));
      }
      return break_at(BreakId::UnknownObject, "comparison of " + short_repr(l) + " and " + short_repr(r));
    }
    if (PyBytes_CheckExact(l) != PyBytes_CheckExact(r))
      return break_at(BreakId::UnsupportedArgument, "bytes and another type");
    Ref<> result = Ref<>::steal(PyObject_RichCompare(l, r, op));
    if (!result) return raises_current(x, "comparison");
    return x.values().constant(result.get());
  }
  if (op == Py_EQ || op == Py_NE) {
    // Methods of one list or dict are equal each time that they are asked for, to a builtin of another kind never.
    const auto is_method = [&x](const Value* v) {
      if (v->kind != ValueKind::BoundMethod || v->items[1] || v->as_method().form == MethodPart::Super) return false;
      const Value* self = look(x, v->items[0]);
      return self->kind == ValueKind::List || self->kind == ValueKind::Dict;
    };
    const auto is_builtin = [](const Value* v) { return v->is_constant() && PyCFunction_Check(v->object.get()); };
    if (is_method(left) && is_method(right)) {
      const bool same_name = text_of(left->as_method().name.get()) == text_of(right->as_method().name.get());
      FRAMEJIT_TRY(one,
                   same_name ? is_same(x, look(x, left->items[0]), look(x, right->items[0])) : Captured<bool>(false));
      return x.boolean(one == (op == Py_EQ));
    }
    if ((is_method(left) && is_builtin(right)) || (is_builtin(left) && is_method(right))) return x.boolean(op == Py_NE);
  }
  if (op != Py_EQ && op != Py_NE && left->kind == right->kind && is_sequence(left) && is_sequence(right)) {
    FRAMEJIT_TRY(l, unpack(x, left));
    FRAMEJIT_TRY(r, unpack(x, right));
    x.session().work().spend(l.size() + r.size());
    for (std::size_t i = 0; i < l.size() && i < r.size(); ++i) {
      Value *first = look(x, l[i]), *second = look(x, r[i]);
      FRAMEJIT_TRY(same_item, equal(x, first, second));
      if (left->items != l || right->items != r) return changed_by_equality();
      if (!same_item) return compare(x, op, first, second);
    }
    return number_compare(x, op, x.values().integer(graph::Dim(std::ssize(l))),
                          x.values().integer(graph::Dim(std::ssize(r))));
  }
  if (op == Py_EQ || op == Py_NE) {
    if (is_sequence(left) && is_sequence(right)) {
      if (left->kind != right->kind) return x.boolean(op == Py_NE);
      FRAMEJIT_TRY(l, unpack(x, left));
      FRAMEJIT_TRY(r, unpack(x, right));
      bool same_items = l.size() == r.size();
      for (std::size_t i = 0; same_items && i < l.size(); ++i) {
        FRAMEJIT_TRY(same_item, equal(x, look(x, l[i]), look(x, r[i])));
        if (left->items != l || right->items != r) return changed_by_equality();
        same_items = same_item;
      }
      return x.boolean(same_items == (op == Py_EQ));
    }
    // A list or tuple of ours and a constant of another type.
    for (auto [a, b] : {std::pair{left, right}, std::pair{right, left}})
      if ((is_sequence(a) || a->kind == ValueKind::Dict) && b->is_constant() && is_plain(b->object.get()) &&
          !PyTuple_CheckExact(b->object.get()))
        return x.boolean(op == Py_NE);
    // None and what cannot be None compares by identity where neither side has an __eq__ of its own.
    if ((left->is_none() && is_number(*right)) || (right->is_none() && is_number(*left))) return x.boolean(op == Py_NE);
  }
  return break_at(BreakId::UnknownObject, "comparison of " + type_text(x, left) + " and " + type_text(x, right));
}

namespace {

bool is_not_implemented(const Value* v) { return v->is_constant() && v->object.get() == Py_NotImplemented; }

/// Both classes in one line of descent: the one further down is asked first if it says something else. Left alone.
bool one_descends(Executor& x, const Value* left, const Value* right) {
  if (left->kind != ValueKind::Object || right->kind != ValueKind::Object || class_of(*left) == class_of(*right))
    return false;
  guard_mro(x, class_of(*right));
  return PyType_IsSubtype(class_of(*right), class_of(*left)) != 0;
}

}  // namespace

/// The operands of + and * with tuple instances as exact tuples, where no class says otherwise; else nulls.
Captured<std::pair<Value*, Value*>> as_sequences(Executor& x, const std::string& name, Value* left, Value* right) {
  std::pair<Value*, Value*> out{nullptr, nullptr};
  if (name != "add" && name != "mul") return out;
  Value* operands[] = {left, right};
  for (Value*& v : operands) {
    if (!is_tuple_instance(*v)) {
      if (v->kind != ValueKind::Tuple && !(name == "mul" && is_int_like(*v))) return out;
      continue;
    }
    Value* tuple = nullptr;
    for (const char* prefix : {"__i", "__r", "__"}) {
      PyObject* method = interned((prefix + name + "__").c_str());
      PyObject* raw = type_attr(class_of(*v), method);
      if (raw != type_attr(&PyTuple_Type, method)) return out;
      guard_lookup(x, v, raw, method);
      if (std::string_view(prefix) != "__") continue;
      FRAMEJIT_TRY(made, as_tuple(x, v, method));
      tuple = made;
    }
    v = tuple;
  }
  out = {operands[0], operands[1]};
  return out;
}

// Operators that a class defines in Python.
Captured<Value*> object_binary(Executor& x, int nb, Value* left, Value* right) {
  static constexpr const char* kNames[] = {"add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
                                           "or",  "pow", "rshift",   "sub",    "truediv", "xor"};
  const std::string name = kNames[nb % 13];
  const std::string what = type_text(x, left) + " " + operator_text(nb) + " " + type_text(x, right);
  const Unexpected<Break> unknown = break_at(BreakId::UnknownObject, what);
  if (one_descends(x, left, right)) return unknown;
  FRAMEJIT_TRY(sequences, as_sequences(x, name, left, right));
  if (sequences.first) return binary(x, nb, sequences.first, sequences.second);
  if (left->kind == ValueKind::Object) {
    for (const char* prefix : {"__i", "__"}) {
      if (nb < 13 && prefix[2] == 'i') continue;
      PyObject* method = interned((prefix + name + "__").c_str());
      FRAMEJIT_TRY(result, special(x, left, method, {right}));
      if (result) {
        result = look(x, result);
        if (!is_not_implemented(result)) return result;
      } else {
        if (type_attr(class_of(*left), method)) return unknown;
        guard_lookup(x, left, nullptr, method);
      }
    }
  } else if (!is_number(*left)) {
    return unknown;
  }
  if (right->kind != ValueKind::Object || (left->kind == ValueKind::Object && class_of(*left) == class_of(*right)))
    return unknown;
  FRAMEJIT_TRY(result, special(x, right, interned(("__r" + name + "__").c_str()), {left}));
  if (!result) return unknown;
  result = look(x, result);
  return is_not_implemented(result) ? Captured<Value*>(unknown) : result;
}

Captured<Value*> object_compare(Executor& x, int op, Value* left, Value* right) {
  static constexpr const char* kNames[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
  static constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  const std::string what = "comparison of " + type_text(x, left) + " and " + type_text(x, right);
  const Unexpected<Break> unknown = break_at(BreakId::UnknownObject, what);
  if (one_descends(x, left, right)) return unknown;
  // A tuple and a tuple instance: as two tuples, the one of the subclass asked first.
  const auto is_tuple = [](const Value* v) { return v->kind == ValueKind::Tuple; };
  FRAMEJIT_TRY(l, as_tuple(x, left, interned(kNames[op])));
  FRAMEJIT_TRY(r, as_tuple(x, right, interned(kNames[kSwapped[op]])));
  if (l && (r || is_tuple(right))) return compare(x, op, l, r ? r : right);
  if (r && is_tuple(left)) return compare(x, kSwapped[op], r, left);
  for (auto [v, other, how] : {std::tuple{left, right, op}, std::tuple{right, left, kSwapped[op]}}) {
    if (v->kind != ValueKind::Object) {
      if (!is_number(*v) && !v->is_none()) return unknown;
      continue;  // numbers and None know no other objects
    }
    PyObject* name = interned(kNames[how]);
    FRAMEJIT_TRY(result, special(x, v, name, {other}));
    if (result) {
      result = look(x, result);
      if (!is_not_implemented(result)) return result;
      continue;
    }
    PyObject* raw = type_attr(class_of(*v), name);
    if (raw != type_attr(&PyBaseObject_Type, name)) return unknown;
    guard_lookup(x, v, raw, name);
    if (how != Py_NE) continue;
    // object.__ne__ asks __eq__.
    FRAMEJIT_TRY(same_value, special(x, v, interned("__eq__"), {other}));
    if (!same_value) {
      PyObject* eq = type_attr(class_of(*v), interned("__eq__"));
      if (eq != type_attr(&PyBaseObject_Type, interned("__eq__"))) return unknown;
      guard_lookup(x, v, eq, interned("__eq__"));
      continue;
    }
    if (is_not_implemented(look(x, same_value))) continue;
    FRAMEJIT_TRY(equals, truth_of(x, look(x, same_value)));
    return x.boolean(!equals);
  }
  if (op != Py_EQ && op != Py_NE) return unknown;
  FRAMEJIT_TRY(identical, is_same(x, left, right));
  return x.boolean(identical == (op == Py_EQ));
}

namespace {

/// Is it a number, known or an input, that was not equal to itself at capture?
bool is_nan(const Value& v) {
  PyObject* o = v.object.get();
  if (!o || !(v.is_array() || v.is_constant())) return false;
  if (PyFloat_CheckExact(o)) return std::isnan(PyFloat_AS_DOUBLE(o));
  if (!PyComplex_CheckExact(o)) return false;
  return std::isnan(PyComplex_RealAsDouble(o)) || std::isnan(PyComplex_ImagAsDouble(o));
}

}  // namespace

Captured<bool> equal(Executor& x, Value* left, Value* right) {
  if (left == right) return true;
  if (frontend_of(x, *left) || frontend_of(x, *right))
    return break_at(BreakId::DataDependentBranch, "equality of arrays");
  if (is_nan(*left) && is_nan(*right)) {  // equal only where both are one object
    if (!left->source || !right->source) return break_at(BreakId::UnsupportedArgument, "identity of NaN");
    const bool one = left->object.get() == right->object.get();
    x.session().guards().add(identity_guard(left->source, right->source, one));
    if (one) return true;
  }
  if (left->is_constant() && right->is_constant() && left->object.get() == right->object.get()) return true;
  FRAMEJIT_TRY(result, compare(x, Py_EQ, left, right));
  return truth_of(x, result);
}

Captured<bool> contains(Executor& x, Value* container, Value* item) {
  switch (container->kind) {
    case ValueKind::Tuple:
    case ValueKind::List: {
      FRAMEJIT_TRY(items, unpack(x, container));
      x.session().work().spend(items.size());
      std::size_t changes = x.session().undo().changes();
      for (Value* each : items) {
        FRAMEJIT_TRY(same_item, equal(x, look(x, each), item));
        if (has_changed(x.session(), container, items, changes)) return changed_by_equality();
        if (same_item) return true;
      }
      return false;
    }
    case ValueKind::Dict: {
      // Absence of one key needs a guard on that key only.
      FRAMEJIT_TRY(found, dict_peek(x, container, item));
      return found != nullptr;
    }
    case ValueKind::Set: return set_contains(x, container, item);
    case ValueKind::Iterator:
      if (container->as_iterator().position == kView && container->as_iterator().over == Over::Keys)
        return contains(x, container->items[0], item);
      break;
    case ValueKind::Object: {
      static PyObject* const kContains = interned("__contains__");
      FRAMEJIT_TRY(answer, special(x, container, kContains, {item}));
      if (answer) return truth_of(x, look(x, answer));
      FRAMEJIT_TRY(tuple, as_tuple(x, container, kContains));
      if (tuple) return contains(x, tuple, item);
      break;
    }
    case ValueKind::Constant: {
      PyObject* o = container->object.get();
      FRAMEJIT_TRY(answer, special(x, container, interned("__contains__"), {item}));
      if (answer) return truth_of(x, look(x, answer));
      if (!PyUnicode_CheckExact(o) && !PyFrozenSet_CheckExact(o)) break;
      if (!is_plain(o) || !item->is_constant() || !is_plain(item->object.get())) break;
      const int found = PySequence_Contains(o, item->object.get());
      if (found < 0) return raises_current(x, "in");
      return found == 1;
    }
    case ValueKind::Range: {
      Value* known_item = is_int_like(*item) ? specialize(x, item) : nullptr;
      FRAMEJIT_TRY(items, unpack(x, container));
      if (!known_item) break;
      for (Value* each : items) {
        FRAMEJIT_TRY(same_item, equal(x, each, known_item));
        if (same_item) return true;
      }
      return false;
    }
    default: break;
  }
  return break_at(BreakId::UnknownObject, "in " + type_text(x, container));
}

}  // namespace framejit::capture
