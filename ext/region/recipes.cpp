// Objects from recipes.
#include "ext/region/recipes.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "capture/py/interpreter.h"
#include "capture/py/range_iterator.h"
#include "ext/arrays/tensor_object.h"

namespace framejit::ext::region {

using arrays::as_ndarray;
using capture::Recipe;
using capture::Ref;
using capture::Wrap;

namespace {

PyObject* create_result(const ObjectPlan& plan, Workspace& w, const ObjectPlan::Result& result) {
  const int64_t offset = result.offset.is_const() ? result.offset.value() : result.offset.evaluate(plan.symbols(w));
  auto wrapped = [&](PyObject* array) {
    if (array) arrays::restrict_writing(as_ndarray(array), result.writing);
    return array && result.wrap == Wrap::Tensor ? arrays::tensor_from_array(array) : array;
  };
  auto number = [&](char* data) -> PyObject* {
    if (!is_open(result.wrap, result.layout.dtype)) return arrays::python_number(result.wrap, data);
    PyObject* object = arrays::new_number(result.wrap, result.layout.dtype);
    if (object)
      std::memcpy(arrays::number_memory(result.wrap, object), data,
                  static_cast<std::size_t>(graph::size_of(result.layout.dtype)));
    return object;
  };
  switch (result.kind) {
    case ObjectPlan::Result::RootObject: return wrapped(Py_NewRef(w.roots[result.number]));
    case ObjectPlan::Result::RootCopy:
      return wrapped(PyArray_NewCopy(as_ndarray(w.roots[result.number]), NPY_KEEPORDER));
    case ObjectPlan::Result::RootView:
      return wrapped(
          arrays::new_view(result.layout, w.results[result.number] + offset, w.roots[result.number], plan.symbols(w)));
    case ObjectPlan::Result::RootNumber: return number(w.results[result.number] + offset);
    case ObjectPlan::Result::ParamObject: return nullptr;  // a step of its own
    case ObjectPlan::Result::ParamArray:                   // in which a Tensor has its elements
      return Py_NewRef(
          arrays::tensor_array(plan.guards.object(*w.matched, plan.guards.input_operands()[result.number])));
    case ObjectPlan::Result::ParamView: {
      PyObject* base = plan.guards.object(*w.matched, plan.guards.input_operands()[result.number]);
      return wrapped(arrays::new_view(result.layout, w.matched->params[result.number] + offset, base, plan.symbols(w)));
    }
    case ObjectPlan::Result::ParamNumber: return number(w.matched->params[result.number] + offset);
  }
  return nullptr;
}

PyObject* create_function(Workspace& w, const Recipe& r) {
  auto item = [&](std::size_t i) -> PyObject* {
    PyObject* object = i < r.items.size() ? w.objects[r.items[i]] : nullptr;
    return object == Py_None ? nullptr : object;
  };
  Ref<> function = Ref<>::steal(PyFunction_NewWithQualName(item(0), item(1), item(2)));
  if (!function) return nullptr;
  if (PyObject* defaults = item(3))
    if (PyFunction_SetDefaults(function.get(), defaults) < 0) return nullptr;
  if (PyObject* defaults = item(4))
    if (PyFunction_SetKwDefaults(function.get(), defaults) < 0) return nullptr;
  if (PyObject* closure = item(5))
    if (PyFunction_SetClosure(function.get(), closure) < 0) return nullptr;
  if (PyObject* annotate = item(6)) capture::set_annotate(function.get(), annotate);
  if (r.object) {
    // MAKE_FUNCTION stores a tuple of names and values as it is; the function makes a dict of it when asked.
    auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
    Py_XSETREF(f->func_annotations, Py_NewRef(r.object.get()));
  }
  return function.release();
}

Ref<> call(Workspace& w, const Recipe& r) {
  std::vector<PyObject*> items;
  for (const uint32_t i : r.items) items.push_back(w.objects[i]);
  return Ref<>::steal(PyObject_Vectorcall(r.object.get(), items.data(), items.size(), nullptr));
}

Ref<> create_range(Workspace& w, const Recipe& r) {
  return Ref<>::steal(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyRange_Type), w.objects[r.items[0]],
                                                   w.objects[r.items[1]], w.objects[r.items[2]], nullptr));
}

/// Over the numbers from start, stop and step, the items, without a range. Null, without an exception: they are long.
Ref<> create_range_iterator(Workspace& w, const Recipe& r) {
  int64_t numbers[3];
  for (std::size_t i = 0; i < 3; ++i) {
    int overflows = 0;
    numbers[i] = PyLong_AsLongLongAndOverflow(w.objects[r.items[i]], &overflows);
    if (overflows != 0) return Ref<>();
  }
  const auto [start, stop, step] = numbers;
  int64_t length = 0, distance = 0, passed = 0, next = 0;
  if (step == 0 || step == INT64_MIN || __builtin_sub_overflow(stop, start, &distance) || distance == INT64_MIN)
    return Ref<>();
  if ((step > 0) == (distance > 0) && distance != 0) length = (std::abs(distance) - 1) / std::abs(step) + 1;
  // CPython makes another iterator where a step behind the last number is beyond 64 bits.
  if (length > 0 && (step > 0 ? stop > INT64_MAX - (step - 1) : stop < INT64_MIN + (-1 - step))) return Ref<>();
  if (length < r.index || __builtin_mul_overflow(step, static_cast<int64_t>(r.index), &passed) ||
      __builtin_add_overflow(start, passed, &next))
    return Ref<>();
  return capture::py::range_iterator(next, length - r.index, step);
}

PyObject* create_iterator(Workspace& w, const Recipe& r) {
  Ref<> iterator;
  if (!r.object && r.items.size() == 3) {
    if ((iterator = create_range_iterator(w, r)) || PyErr_Occurred()) return iterator.release();
    const Ref<> range = create_range(w, r);
    if (!range) return nullptr;
    iterator = Ref<>::steal(PyObject_GetIter(range.get()));
  } else if (!r.object) {
    iterator = Ref<>::steal(PyObject_GetIter(w.objects[r.items[0]]));
  } else {
    iterator = call(w, r);
  }
  for (uint32_t i = 0; iterator && i < r.index; ++i) {
    Ref<> passed = Ref<>::steal(PyIter_Next(iterator.get()));
    if (!passed) return PyErr_Occurred() ? nullptr : iterator.release();
  }
  return iterator.release();
}

}  // namespace

PyObject* create(const ObjectPlan& plan, Workspace& w, uint32_t recipe) {
  const Recipe& r = plan.region.recipes[recipe];
  auto item = [&](std::size_t i) { return w.objects[r.items[i]]; };
  switch (r.kind) {
    case Recipe::Kind::Null:
    case Recipe::Kind::Fetch: return nullptr;  // a step of its own
    case Recipe::Kind::Constant: return Py_XNewRef(r.object.get());
    case Recipe::Kind::Result: return create_result(plan, w, plan.results[plan.result_of[recipe]]);
    case Recipe::Kind::Choice: {
      PyObject* chosen = item(1 + static_cast<std::size_t>(PyLong_AsSize_t(item(0))));
      return Py_XNewRef(chosen);
    }
    case Recipe::Kind::Int:
      return PyLong_FromLongLong(r.dim.is_const() ? r.dim.value() : r.dim.evaluate(plan.symbols(w)));
    case Recipe::Kind::Tuple: {
      PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(r.items.size()));
      if (!tuple) return nullptr;
      for (std::size_t i = 0; i < r.items.size(); ++i)
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), Py_NewRef(item(i)));
      return tuple;
    }
    case Recipe::Kind::List: return PyList_New(0);
    case Recipe::Kind::Dict: return PyDict_New();
    case Recipe::Kind::Cell: return PyCell_New(nullptr);
    case Recipe::Kind::Set: {
      Ref<> set = Ref<>::steal(PySet_New(nullptr));
      for (std::size_t i = 0; set && i + 1 < r.items.size(); i += 2)
        if (!capture::change_set(set.get(), static_cast<int>(PyLong_AsLong(item(i))), item(i + 1))) return nullptr;
      return set.release();
    }
    case Recipe::Kind::Slice: return PySlice_New(item(0), item(1), item(2));
    case Recipe::Kind::Range: return create_range(w, r).release();
    case Recipe::Kind::Function: return create_function(w, r);
    case Recipe::Kind::BoundMethod: return PyMethod_New(item(1), item(0));
    case Recipe::Kind::Iterator: return create_iterator(w, r);
    case Recipe::Kind::Instance: {
      Ref<> nothing = Ref<>::steal(PyTuple_New(0));
      auto* type = reinterpret_cast<PyTypeObject*>(r.object.get());
      return nothing && type ? type->tp_new(type, nothing.get(), nullptr) : nullptr;
    }
    case Recipe::Kind::Call:
    case Recipe::Kind::Text: return call(w, r).release();
    case Recipe::Kind::Method: return PyObject_GetAttr(item(0), r.object.get());
  }
  return nullptr;
}

bool fill(const Recipe& r, Workspace& w, PyObject* container) {
  auto item = [&](std::size_t i) { return w.objects[r.items[i]]; };
  switch (r.kind) {
    case Recipe::Kind::List:
      for (std::size_t i = 0; i < r.items.size(); ++i)
        if (PyList_Append(container, item(i)) < 0) return false;
      return true;
    case Recipe::Kind::Dict:
      for (std::size_t i = 0; i + 1 < r.items.size(); i += 2)
        if (PyDict_SetItem(container, item(i), item(i + 1)) < 0) return false;
      return true;
    case Recipe::Kind::Instance:
      for (std::size_t i = 0; i + 1 < r.items.size(); i += 2)
        if (PyObject_GenericSetAttr(container, item(i), item(i + 1)) < 0) return false;
      return true;
    case Recipe::Kind::Cell:
      if (!r.items.empty() && item(0)) PyCell_SET(container, Py_NewRef(item(0)));
      return true;
    default: return true;
  }
}

}  // namespace framejit::ext::region
