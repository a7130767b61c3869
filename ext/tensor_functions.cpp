// From Tensors to ndarrays and back, for the functions of framejit.ops, which are written over NumPy. Capture knows
// them: tensor_door.cpp.
#include "ext/tensor_functions.h"

#include <vector>

#include "ext/module.h"
#include "ext/numpy_api.h"
#include "ext/tensor.h"
#include "ext/tensor_operators.h"

namespace framejit::ext {

using capture::Ref;
using graph::DType;

namespace {

Ref<> converted(PyObject* object, DType dtype) {
  PyArray_Descr* descr = tensor_descr(dtype);
  if (!descr) return {};
  Py_INCREF(descr);
  if (!is_tensor(object))
    return Ref<>::steal(PyArray_FromAny(object, descr, 0, 0, NPY_ARRAY_FORCECAST | NPY_ARRAY_CARRAY, nullptr));
  auto* array = reinterpret_cast<PyArrayObject*>(tensor_array(object));
  if (PyArray_TYPE(array) != descr->type_num) return Ref<>::steal(PyArray_CastToType(array, descr, 0));
  Py_DECREF(descr);
  return Ref<>::share(tensor_array(object));
}

/// `object`, or a Tensor made of it.
Ref<> made_tensor(PyObject* object) {
  return is_tensor(object) ? Ref<>::share(object)
                           : Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(tensor_type()), object));
}

/// array(x, dtype=None): the ndarray of a Tensor, not to be written; of what is no Tensor, that of a Tensor made of it.
PyObject* array(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 1 || count > 2) {
    PyErr_SetString(PyExc_TypeError, "array(x, dtype=None)");
    return nullptr;
  }
  Ref<> tensor = made_tensor(args[0]);
  if (!tensor) return nullptr;
  if (count == 1 || args[1] == Py_None) return Py_NewRef(tensor_array(tensor.get()));
  std::optional<DType> dtype = array_dtype(dtype_of_tensor(tensor.get()), args[1]);
  return dtype ? converted(tensor.get(), *dtype).release() : nullptr;
}

/// arrays(*xs): ndarrays of the dtype that Tensors and numbers are promoted to.
PyObject* arrays(PyObject*, PyObject* const* args, Py_ssize_t count) {
  std::vector<Ref<>> operands;
  std::vector<Promoted> given;
  for (Py_ssize_t i = 0; i < count; ++i) {
    operands.push_back(is_number_operand(args[i]) ? Ref<>::share(args[i]) : made_tensor(args[i]));
    if (!operands.back()) return nullptr;
    given.push_back(promoted_of(operands.back().get()));
  }
  std::optional<DType> dtype = promote_all(given);
  if (!dtype) {
    PyErr_SetString(PyExc_TypeError, "implicit conversion between uint64 and signed integers is not supported.");
    return nullptr;
  }
  Ref<> out = Ref<>::steal(PyTuple_New(count));
  for (Py_ssize_t i = 0; out && i < count; ++i) {
    Ref<> one = converted(operands[static_cast<std::size_t>(i)].get(), *dtype);
    if (!one) return nullptr;
    PyTuple_SET_ITEM(out.get(), i, one.release());
  }
  return out.release();
}

/// tensor(array): a Tensor with memory of its own. The array is taken over where nothing else refers to it.
PyObject* tensor(PyObject*, PyObject* object) {
  // The one reference beside ours is the caller's stack, which drops it.
  const bool sole = PyArray_CheckExact(object) && Py_REFCNT(object) == 1 &&
                    PyArray_CHKFLAGS(reinterpret_cast<PyArrayObject*>(object), NPY_ARRAY_OWNDATA) &&
                    PyArray_ISCARRAY(reinterpret_cast<PyArrayObject*>(object));
  return sole ? tensor_from_array(Py_NewRef(object)) : tensor_from_result(Py_NewRef(object));
}

/// shared(array): a Tensor over the memory of a C-contiguous ndarray.
PyObject* shared(PyObject*, PyObject* object) {
  if (!PyArray_Check(object) || !PyArray_ISCARRAY(reinterpret_cast<PyArrayObject*>(object))) {
    PyErr_SetString(PyExc_ValueError, "the array must be C-contiguous, aligned and writeable to be shared");
    return nullptr;
  }
  if (!tensor_dtype_of(PyArray_DESCR(reinterpret_cast<PyArrayObject*>(object)))) {
    PyErr_SetString(PyExc_TypeError, "a Tensor has no such dtype");
    return nullptr;
  }
  PyObject* view = PyArray_View(reinterpret_cast<PyArrayObject*>(object), nullptr, &PyArray_Type);
  return view ? tensor_from_array(view) : nullptr;
}

/// dtype(d): NumPy's for framejit's; None for None.
PyObject* dtype(PyObject*, PyObject* argument) {
  if (argument == Py_None) Py_RETURN_NONE;
  std::optional<DType> found = dtype_from_argument(argument);
  return found ? Py_XNewRef(reinterpret_cast<PyObject*>(tensor_descr(*found))) : nullptr;
}

template <class F>
PyCFunction as_function(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

PyMethodDef functions[] = {{"_array", as_function(array), METH_FASTCALL, nullptr},
                           {"_arrays", as_function(arrays), METH_FASTCALL, nullptr},
                           {"_tensor", tensor, METH_O, nullptr},
                           {"_shared", shared, METH_O, nullptr},
                           {"_dtype", dtype, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

bool init(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
const ModulePart part(42, init);

}  // namespace

std::optional<TensorFunction> tensor_function(PyObject* callable) {
  if (!PyCFunction_CheckExact(callable)) return std::nullopt;
  PyCFunction function = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_meth;
  if (function == as_function(array)) return TensorFunction::Array;
  if (function == as_function(arrays)) return TensorFunction::Arrays;
  if (function == tensor) return TensorFunction::Tensor;
  if (function == dtype) return TensorFunction::DType;
  return std::nullopt;
}

std::optional<DType> array_dtype(DType own, PyObject* rule) {
  if (PyUnicode_CheckExact(rule)) {
    const bool integral = own == DType::Bool || graph::is_int(own);
    if (PyUnicode_CompareWithASCIIString(rule, "sum") == 0) return sum_dtype(own);
    if (PyUnicode_CompareWithASCIIString(rule, "floating") == 0) return integral ? DType::F32 : own;
  }
  return dtype_from_argument(rule);
}

std::optional<DType> promote_all(const std::vector<Promoted>& operands) {
  if (operands.empty()) return DType::F32;
  Promoted all = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    const Promoted& next = operands[i];
    const bool numbers = all.python_number && next.python_number;
    std::optional<DType> dtype =
        promote({all.dtype, all.python_number && !numbers}, {next.dtype, next.python_number && !numbers});
    if (!dtype) return std::nullopt;
    all = {*dtype, numbers};
  }
  if (!all.python_number) return all.dtype;
  return all.dtype == DType::F64 ? DType::F32 : all.dtype;
}

}  // namespace framejit::ext
