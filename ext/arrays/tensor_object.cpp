#include "ext/arrays/tensor_object.h"

#include <array>

#include "ext/arrays/result_arrays.h"

namespace framejit::ext::arrays {

using capture::Ref;

namespace {

PyTypeObject* the_type = nullptr;

/// The memory of exact Tensors that are gone, for the next ones.
constexpr int kMostSpare = 16;
std::array<PyObject*, kMostSpare> spare;
int spare_count = 0;

}  // namespace

PyTypeObject* tensor_type() { return the_type; }
void set_tensor_type(PyTypeObject* type) { the_type = type; }

PyObject* new_tensor(PyTypeObject* type, PyObject* array) {
  const bool again = type == the_type && spare_count > 0;
  PyObject* self = again              ? PyObject_Init(spare[static_cast<std::size_t>(--spare_count)], type)
                   : type == the_type ? reinterpret_cast<PyObject*>(PyObject_GC_New(TensorObject, type))
                                      : type->tp_alloc(type, 0);
  if (!self) {
    Py_DECREF(array);
    return nullptr;
  }
  auto* tensor = reinterpret_cast<TensorObject*>(self);
  tensor->array = array;
  tensor->weakrefs = nullptr;
  tensor->dict = nullptr;
  return self;
}

void free_tensor(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (reinterpret_cast<TensorObject*>(self)->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(reinterpret_cast<TensorObject*>(self)->dict);
  drop_array(tensor_array(self));
  if (type == the_type && spare_count < kMostSpare) spare[static_cast<std::size_t>(spare_count++)] = self;
  else type->tp_free(self);
  Py_DECREF(type);
}

PyObject* tensor_from_array(PyObject* array) { return new_tensor(the_type, array); }

PyObject* tensor_from_result(PyObject* result) {
  if (!result) return nullptr;
  Ref<> owned = Ref<>::steal(result);
  const bool own = PyArray_CheckExact(result) && Py_REFCNT(result) == 1 &&
                   PyArray_CHKFLAGS(as_ndarray(result), NPY_ARRAY_OWNDATA) && PyArray_ISCARRAY(as_ndarray(result));
  if (own) return tensor_from_array(owned.release());
  PyObject* array =
      PyArray_FROM_OF(result, NPY_ARRAY_CARRAY | NPY_ARRAY_ENSUREARRAY | NPY_ARRAY_ENSURECOPY | NPY_ARRAY_NOTSWAPPED);
  return array ? tensor_from_array(array) : nullptr;
}

}  // namespace framejit::ext::arrays
