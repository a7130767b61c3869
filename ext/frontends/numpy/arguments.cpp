// Arguments of NumPy's functions: bound to their signatures, and read as what they stand for.
#include "ext/frontends/numpy/call.h"

#include <algorithm>

#include "ext/frontends/numpy/index.h"

namespace framejit::ext::frontends {

using graph::Dim;
using graph::Dims;
using graph::Relation;

// No keyword has a slash.
Captured<std::vector<Value*>> bind(const Call& call, std::initializer_list<std::string_view> names,
                                   std::size_t required) {
  std::vector<Value*> bound(names.size(), nullptr);
  if (call.args.size() > names.size()) return break_at(BreakId::UnsupportedArgument, "a call with too many arguments");
  std::copy(call.args.begin(), call.args.end(), bound.begin());
  for (const auto& [name, value] : call.keywords) {
    auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) return break_at(BreakId::UnsupportedArgument, "argument " + std::string(name));
    Value*& slot = bound[static_cast<std::size_t>(at - names.begin())];
    if (slot) return break_at(BreakId::WouldRaise, "argument " + std::string(name) + " given twice");
    slot = value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!bound[i]) return break_at(BreakId::WouldRaise, "a missing argument");
  return bound;
}

Captured<bool> none_given(std::initializer_list<Value*> values) {
  for (Value* value : values)
    if (!absent(value))
      return break_at(BreakId::UnsupportedArgument, "an optional argument for which the function is not compiled");
  return true;
}

Captured<Value*> array_argument(Session& session, Value* value) {
  FRAMEJIT_TRY(found, operand(session, value));
  if (!found.is_array()) return break_at(BreakId::UnsupportedArgument, "an argument that is not an ndarray");
  return found.value;
}

Captured<Value*> output_argument(Session& session, Value* value) {
  FRAMEJIT_TRY(array, array_argument(session, value));
  if (!value->is_array() || array->wrap() != Wrap::NdArray)
    return break_at(BreakId::WouldRaise, "results go into arrays only");
  return array;
}

Captured<std::optional<DType>> dtype_argument(Value* value) {
  if (absent(value)) return std::optional<DType>();
  PyObject* object = value->is_constant() ? value->object.get() : nullptr;
  bool plain = object && (PyArray_DescrCheck(object) || PyType_Check(object) || PyUnicode_CheckExact(object));
  Ref<PyArray_Descr> descr;
  if (plain) {
    PyArray_Descr* found = nullptr;
    if (PyArray_DescrConverter(object, &found) == NPY_SUCCEED) descr = Ref<PyArray_Descr>::steal(found);
    PyErr_Clear();
  }
  if (descr)
    if (auto dtype = arrays::dtype_of(descr.get())) return dtype;
  return break_at(BreakId::UnsupportedArgument, "a dtype= that is not known or not compiled");
}

Captured<bool> flag_argument(Value* value, bool otherwise) {
  if (!value || is_no_value(value)) return otherwise;
  if (value->is_constant() && value->object.get() == Py_True) return true;
  if (value->is_constant() && value->object.get() == Py_False) return false;
  return break_at(BreakId::UnsupportedArgument, "a flag of type " + type_name(*value));
}

Captured<char> order_argument(Value* value, char otherwise, std::string_view known) {
  if (absent(value)) return otherwise;
  PyObject* object = value->is_constant() ? value->object.get() : nullptr;
  if (object && PyUnicode_CheckExact(object) && PyUnicode_GET_LENGTH(object) == 1)
    for (char order : known)
      if (PyUnicode_READ_CHAR(object, 0) == static_cast<Py_UCS4>(order)) return order;
  return break_at(BreakId::UnsupportedArgument, "an order= that is not known or not compiled");
}

Captured<int64_t> int_argument(Session& session, Value* value) {
  std::optional<Dim> dim = as_dim(*value);
  if (!dim) return break_at(BreakId::UnsupportedArgument, "an argument of type " + type_name(*value));
  return session.graph().shapes().specialize(*dim);
}

namespace {

Captured<std::vector<Value*>> sequence_items(Session& session, Value* value) {
  std::vector<Value*> items;
  PyObject* object = value->is_constant() ? value->object.get() : nullptr;
  if (value->kind == ValueKind::Tuple || value->kind == ValueKind::List) {
    items = value->items;
  } else if (object && PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      items.push_back(session.values().constant(PyTuple_GET_ITEM(object, i)));
  } else {
    items.push_back(value);
  }
  return items;
}

}  // namespace

Captured<Dims> dims_argument(Session& session, Value* value) {
  FRAMEJIT_TRY(items, sequence_items(session, value));
  Dims dims;
  for (Value* item : items) {
    std::optional<Dim> dim = as_dim(*item);
    if (!dim) return break_at(BreakId::UnsupportedArgument, "a dimension of type " + type_name(*item));
    dims.push_back(settle(session, *dim));
  }
  return dims;
}

Captured<int> axis_argument(Session& session, Value* value, int rank) {
  FRAMEJIT_TRY(axis, int_argument(session, value));
  if (axis < -rank || axis >= rank) return break_at(BreakId::WouldRaise, "axis out of bounds");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Captured<std::vector<int64_t>> axes_argument(Session& session, Value* value, int rank) {
  std::vector<int64_t> axes;
  if (absent(value)) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  if (value->kind == ValueKind::List) return break_at(BreakId::WouldRaise, "a list of axes");
  FRAMEJIT_TRY(items, sequence_items(session, value));
  for (Value* item : items) {
    FRAMEJIT_TRY(axis, axis_argument(session, item, rank));
    axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return break_at(BreakId::WouldRaise, "duplicate value in 'axis'");
  return axes;
}

}  // namespace framejit::ext::frontends
