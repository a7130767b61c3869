// Calls of builtin types over Values.
#include <algorithm>

#include "capture/builtins.h"
#include "capture/calls.h"
#include "capture/containers.h"
#include "capture/instances.h"
#include "capture/iterate.h"
#include "capture/numbers.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/repr.h"
#include "capture/sets.h"
#include "capture/symbolic_frame.h"
#include "capture/text.h"

namespace framejit::capture {

namespace {

Unexpected<Break> unsupported(PyTypeObject* type) {
  return break_at(BreakId::UnsupportedArgument, std::string(type->tp_name) + "()");
}

Captured<Value*> make_range(Executor& x, const Values& args) {
  Session& s = x.session();
  if (args.empty() || args.size() > 3) return unsupported(&PyRange_Type);
  for (Value* a : args)
    if (!is_int_like(*a) || !fits_int64(*a)) return unsupported(&PyRange_Type);
  Value* range = s.values().make(ValueKind::Range);
  Value *zero = s.values().integer(graph::Dim(0)), *one = s.values().integer(graph::Dim(1));
  if (args.size() == 1) range->items = {zero, args[0], one};
  else range->items = {args[0], args[1], args.size() == 3 ? args[2] : one};
  if (!range->items[2]->is_constant()) range->items[2] = specialize(x, range->items[2]);
  if (dim_of(*range->items[2]).value() == 0) return raises(x, PyExc_ValueError, "range() arg 3 must not be zero");
  constexpr int64_t kBound = int64_t{1} << 60;
  for (Value* part : range->items)
    if (part->is_constant() && (dim_of(*part).value() > kBound || dim_of(*part).value() < -kBound))
      return break_at(BreakId::ScalarOverflow, "range()");
  return range;
}

Captured<Value*> make_enumerate(Executor& x, Values args, const Keywords& keywords) {
  for (const auto& [name, value] : keywords)
    if (args.size() == 1 && text_of(name) == "start") args.push_back(look(x, value));
    else return unsupported(&PyEnum_Type);
  if (args.empty() || args.size() > 2) return unsupported(&PyEnum_Type);
  if (args.size() == 2 && !is_int_like(*args[1])) return unsupported(&PyEnum_Type);
  FRAMEJIT_TRY(inner, iterate(x, args[0]));
  Value* it = x.values().make(ValueKind::Iterator);
  it->as_iterator().over = Over::Enumerate;
  it->items = {inner, args.size() == 2 ? args[1] : x.values().integer(graph::Dim(0))};
  return it;
}

Captured<Value*> make_zip(Executor& x, const Values& args) {
  Value* it = x.values().make(ValueKind::Iterator);
  it->as_iterator().over = Over::Zip;
  for (Value* a : args) {
    FRAMEJIT_TRY(inner, iterate(x, a));
    it->items.push_back(inner);
  }
  return it;
}

Captured<Value*> make_map(Executor& x, const Values& args) {
  if (args.size() < 2) return break_at(BreakId::WouldRaise, "map()");
  Value* it = x.values().make(ValueKind::Iterator);
  it->as_iterator().over = Over::Map;
  it->items = {args[0]};
  for (std::size_t i = 1; i < args.size(); ++i) {
    FRAMEJIT_TRY(inner, iterate(x, args[i]));
    it->items.push_back(inner);
  }
  return it;
}

Captured<Value*> make_reversed(Executor& x, const Values& args) {
  if (args.size() != 1) return unsupported(&PyReversed_Type);
  Value* over = args[0];
  Session& s = x.session();
  if (over->kind == ValueKind::Range) {
    FRAMEJIT_TRY(items, unpack(x, over));
    std::reverse(items.begin(), items.end());
    // reversed(range) is a range iterator: of the range that runs the other way.
    const int64_t step = dim_of(*over->items[2]).value();
    const int64_t first = items.empty() ? 0 : dim_of(*items.front()).value();
    const int64_t last = items.empty() ? 0 : dim_of(*items.back()).value();
    Value* range = s.values().make(ValueKind::Range);
    range->items = {s.values().integer(graph::Dim(first)),
                    s.values().integer(graph::Dim(items.empty() ? 0 : last - step)),
                    s.values().integer(graph::Dim(-step))};
    return iterate(x, range);
  }
  if (over->kind != ValueKind::Tuple && over->kind != ValueKind::List) return unsupported(&PyReversed_Type);
  FRAMEJIT_REQUIRE(open(x, over));
  FRAMEJIT_TRY(n, length(x, over));
  Value* it = s.values().make(ValueKind::Iterator);
  it->as_iterator().over = Over::Reversed;
  it->items = {over, n};
  return it;
}

Captured<Value*> make_dict(Executor& x, const Values& args, const Keywords& keywords) {
  Value* dict = x.values().make(ValueKind::Dict);
  if (args.size() > 1) return unsupported(&PyDict_Type);
  if (args.size() == 1 && args[0]->kind == ValueKind::Dict) {
    FRAMEJIT_REQUIRE(open(x, args[0]));
    dict->items = args[0]->items;
  } else if (args.size() == 1) {
    FRAMEJIT_TRY(pairs, unpack(x, args[0]));
    for (Value* pair : pairs) {
      FRAMEJIT_TRY(parts, unpack(x, look(x, pair)));
      if (parts.size() != 2) return break_at(BreakId::WouldRaise, "dict()");
      FRAMEJIT_REQUIRE(dict_set(x, dict, look(x, parts[0]), parts[1]));
    }
  }
  for (const auto& [name, value] : keywords) {
    FRAMEJIT_REQUIRE(dict_set(x, dict, x.values().constant(name), value));
  }
  return dict;
}

// super() in a method: self is the first argument, the class is in the cell __class__.
Captured<Value*> make_super(Executor& x, Values args) {
  const Unexpected<Break> not_known = unsupported(&PySuper_Type);
  if (args.empty() && x.frame) {
    const SymbolicFrame& frame = *x.frame;
    auto contents = [&](std::size_t slot) -> Value* {
      Value* v = frame.locals[slot];
      if (v && v->kind == ValueKind::Cell) v = v->items.empty() ? nullptr : v->items[0];
      return v ? look(x, v) : nullptr;
    };
    Value* cls = nullptr;
    for (int i = 0; i < frame.view->local_count(); ++i)
      if (text_of(frame.view->local_name(i)) == "__class__") cls = contents(static_cast<std::size_t>(i));
    Value* self = frame.view->code()->co_argcount > 0 ? contents(0) : nullptr;
    if (!cls || !self) return not_known;
    args = {cls, self};
  }
  if (args.size() != 2 || !args[0]->is_constant() || !PyType_Check(args[0]->object.get()) ||
      args[1]->kind != ValueKind::Object ||
      !PyType_IsSubtype(class_of(*args[1]), reinterpret_cast<PyTypeObject*>(args[0]->object.get())))
    return not_known;
  Value* v = x.values().make(ValueKind::BoundMethod);
  v->as_method().form = MethodPart::Super;
  v->items = {args[1], args[0]};
  return v;
}

/// The element of an array as it is now; what is written into the array later does not reach it. Python's numbers of
/// Tensors count as constants in gradients, as in eager code.
graph::ValueId read_now(Session& s, const Value& array) {
  const graph::ValueId id = s.builder().copy(array.id(), 'C');
  if (array.wrap() == Wrap::Tensor) s.tapes().add_stop(id);
  return id;
}

Captured<Value*> make_float(Executor& x, Value* v) {
  Session& s = x.session();
  if (is_number(*v) || (v->is_constant() && PyUnicode_CheckExact(v->object.get()))) return to_float(x, v);
  if (frontend_of(x, *v)) {
    const graph::Type type = s.graph().type(v->id());  // a copy: nodes are added below
    if (type.rank() == 0 && !graph::is_complex(type.dtype) && type.dtype != graph::DType::BF16) {
      graph::ValueId id = v->wrap() == Wrap::NumpyScalar ? v->id() : read_now(s, *v);
      if (type.dtype != graph::DType::F64) {
        graph::BuildResult cast = s.builder().cast(id, graph::DType::F64);
        if (!cast) return break_at(BreakId::WouldRaise, cast.error().message);
        id = *cast;
      }
      return s.values().array(id, Wrap::PyFloat);
    }
  }
  return unsupported(&PyFloat_Type);
}

Captured<Value*> make_int(Executor& x, Value* v) {
  if (is_int_like(*v))
    return v->is_constant() && PyBool_Check(v->object.get()) ? Captured<Value*>(x.values().integer(dim_of(*v))) : v;
  if (v->is_array() && v->wrap() == Wrap::PyInt) return v;
  if (v->is_array() && (v->wrap() == Wrap::NumpyScalar || v->wrap() == Wrap::PyBool)) {
    const graph::DType dtype = x.session().graph().type(v->id()).dtype;
    if ((graph::is_int(dtype) && dtype != graph::DType::U64) || dtype == graph::DType::Bool) {
      graph::BuildResult number = dtype == graph::DType::I64 ? graph::BuildResult(v->id())
                                                             : x.session().builder().cast(v->id(), graph::DType::I64);
      if (!number) return break_at(BreakId::WouldRaise, number.error().message);
      return x.values().array(*number, Wrap::PyInt);
    }
  }
  Value* known = is_number(*v) || v->is_constant() ? specialize(x, v) : nullptr;
  if (!known && v->is_array()) {
    const graph::Type type = x.session().graph().type(v->id());
    const bool real = type.dtype == graph::DType::F64 || type.dtype == graph::DType::F32;
    if (real && type.rank() == 0) {
      const bool array = v->wrap() == Wrap::NdArray || v->wrap() == Wrap::Tensor;
      return truncated(x, array ? read_now(x.session(), *v) : v->id());
    }
  }
  if (!known || !is_plain(known->object.get()) || PyUnicode_CheckExact(known->object.get())) {
    if (!known || !PyUnicode_CheckExact(known->object.get()) || PyUnicode_GET_LENGTH(known->object.get()) > 100)
      return unsupported(&PyLong_Type);
  }
  Ref<> number = Ref<>::steal(PyNumber_Long(known->object.get()));
  if (!number) return raises_current(x, "int()");
  return x.values().constant(number.get());
}

}  // namespace

Captured<Value*> call_type(Executor& x, PyTypeObject* type, const Values& args, const Keywords& keywords) {
  Session& s = x.session();
  if (type == &PyEnum_Type) return make_enumerate(x, args, keywords);
  if (type == &PyDict_Type) return make_dict(x, args, keywords);
  if (is_partial(type)) return make_partial(x, type, args, keywords);
  if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ||
      PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    return make_instance(x, type, args, keywords);
  if (!keywords.empty())
    return break_at(BreakId::UnknownCallable, "'" + std::string(type->tp_name) + "' with keywords");
  if (type == &PyRange_Type) return make_range(x, args);
  if (type == &PySuper_Type) return make_super(x, args);
  if (type == &PyZip_Type) return make_zip(x, args);
  if (type == &PyMap_Type) return make_map(x, args);
  if (type == &PyReversed_Type) return make_reversed(x, args);
  if (type == &PySet_Type && args.size() <= 1) {
    FRAMEJIT_TRY(set, make_set(x));
    if (args.size() == 1) {
      FRAMEJIT_REQUIRE(set_update(x, set, args[0]));
    }
    return set;
  }
  if (type == &PyFrozenSet_Type && args.size() <= 1) {
    if (args.size() == 1 && args[0]->is_constant() && PyFrozenSet_CheckExact(args[0]->object.get())) return args[0];
    FRAMEJIT_TRY(set, make_set(x));
    if (args.size() == 1) {
      FRAMEJIT_REQUIRE(set_update(x, set, args[0]));
      if (set->items.size() != 2 * static_cast<std::size_t>(PySet_GET_SIZE(set->object.get())))
        return unsupported(type);  // items that were there already
    }
    Ref<> items = Ref<>::steal(PyList_New(0));
    for (std::size_t i = 1; items && i < set->items.size(); i += 2)
      if (PyList_Append(items.get(), set->items[i]->object.get()) < 0) items = {};
    Ref<> frozen = items ? Ref<>::steal(PyFrozenSet_New(items.get())) : Ref<>();
    if (frozen) return s.values().constant(frozen.get());
    PyErr_Clear();
    return unsupported(type);
  }
  if (type == &PyTuple_Type || type == &PyList_Type) {
    if (args.size() > 1) return unsupported(type);
    if (args.size() == 1 && type == &PyTuple_Type && args[0]->kind == ValueKind::Tuple) return args[0];
    Values items;
    if (args.size() == 1) {
      FRAMEJIT_TRY(unpacked, unpack(x, args[0], true));
      items = std::move(unpacked);
    }
    Value* made = s.values().make(type == &PyTuple_Type ? ValueKind::Tuple : ValueKind::List);
    made->items = std::move(items);
    return made;
  }
  if (type == &PySlice_Type && !args.empty() && args.size() <= 3) {
    Value* slice = s.values().make(ValueKind::Slice);
    slice->items = {args.size() == 1 ? x.none() : args[0], args.size() == 1 ? args[0] : args[1],
                    args.size() == 3 ? args[2] : x.none()};
    return slice;
  }
  if (args.size() == 1) {
    if (type == &PyFloat_Type) return make_float(x, args[0]);
    if (type == &PyLong_Type) return make_int(x, args[0]);
    if (type == &PyBool_Type) {
      return truth_value(x, args[0], false);
    }
    if (type == &PyType_Type) {
      PyObject* of = type_of(x, args[0]);
      if (!of) return unsupported(type);
      return s.values().constant(of);
    }
    if (type == &PyUnicode_Type) {
      if (is_exception(*args[0])) return exception_text(x, args[0]);
      Ref<> known = plain_text(x, args[0]);
      if (!known) return formatted(x, args[0], 1, nullptr);
      if (has_long_int(known.get())) return break_at(BreakId::UnknownObject, "text of a value");
      Ref<> text = Ref<>::steal(PyObject_Str(known.get()));
      if (!text) {
        PyErr_Clear();
        return break_at(BreakId::WouldRaise, "str()");
      }
      return s.values().constant(text.get());
    }
  }
  return break_at(BreakId::UnknownCallable, "'" + std::string(type->tp_name) + "'");
}

}  // namespace framejit::capture
