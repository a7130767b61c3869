// From Tensors to ndarrays and back, for the functions of framejit.ops, which are written over NumPy. Capture knows
// them: tensor_frontend.cpp.
#include "ext/tensor/tensor_functions.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "capture/py/interpreter.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/result_arrays.h"
#include "ext/module/module.h"
#include "ext/module/tape_hook.h"
#include "ext/tensor/tensor.h"
#include "ext/tensor/tensor_matmul.h"
#include "ext/tensor/tensor_operators.h"

namespace framejit::ext::tensor {

using arrays::as_ndarray;
using arrays::tensor_array;
using capture::Ref;
using graph::DType;

namespace {

Ref<> converted(PyObject* object, DType dtype) {
  PyArray_Descr* descr = tensor_descr(dtype);
  if (!descr) return {};
  if (!arrays::is_tensor(object)) return array_from(object, dtype, NPY_ARRAY_CARRAY);
  Py_INCREF(descr);
  auto* array = reinterpret_cast<PyArrayObject*>(tensor_array(object));
  if (PyArray_TYPE(array) != descr->type_num) return Ref<>::steal(PyArray_CastToType(array, descr, 0));
  Py_DECREF(descr);
  return Ref<>::share(tensor_array(object));
}

/// `object`, or a Tensor made of it.
Ref<> made_tensor(PyObject* object) {
  return arrays::is_tensor(object)
             ? Ref<>::share(object)
             : Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(arrays::tensor_type()), object));
}

/// array(x, dtype=None): the ndarray of a Tensor, not to be written; of what is no Tensor, that of a Tensor made of it.
PyObject* array(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (PyObject * taped; module::on_tape("_array", args, count, taped)) return taped;
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
  if (PyObject * taped; module::on_tape("_arrays", args, count, taped)) return taped;
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
  if (PyObject * taped; module::on_tape("_tensor", &object, 1, taped)) return taped;
  const bool sole = PyArray_CheckExact(object) && capture::is_sole_argument(object) &&
                    PyArray_CHKFLAGS(reinterpret_cast<PyArrayObject*>(object), NPY_ARRAY_OWNDATA) &&
                    PyArray_ISCARRAY(reinterpret_cast<PyArrayObject*>(object));
  return sole ? arrays::tensor_from_array(Py_NewRef(object)) : arrays::tensor_from_result(Py_NewRef(object));
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
  return view ? arrays::tensor_from_array(view) : nullptr;
}

/// dtype(d): NumPy's for framejit's; None for None.
PyObject* dtype(PyObject*, PyObject* argument) {
  if (argument == Py_None) Py_RETURN_NONE;
  std::optional<DType> found = dtype_from_argument(argument);
  return found ? Py_XNewRef(reinterpret_cast<PyObject*>(tensor_descr(*found))) : nullptr;
}

Ref<> cast_array(PyObject* array, DType dtype) {
  PyArray_Descr* descr = tensor_descr(dtype);
  if (!descr || PyArray_TYPE(as_ndarray(array)) == descr->type_num) return descr ? Ref<>::share(array) : Ref<>();
  Py_INCREF(descr);
  return Ref<>::steal(PyArray_CastToType(as_ndarray(array), descr, 0));
}

/// f(arrays) of the `count` first arguments, ndarrays of one dtype, in the core's dtype; the result in theirs.
template <class F>
PyObject* in_core_dtype(PyObject* const* args, Py_ssize_t count, bool attention, F&& f) {
  const std::optional<DType> own = tensor_dtype_of(PyArray_DESCR(as_ndarray(args[0])));
  const std::optional<DType> wide = own ? core_dtype(*own, attention) : std::nullopt;
  if (!wide)
    return PyErr_Format(PyExc_TypeError, "%s of arrays of %S", attention ? "attention" : "convolution",
                        PyArray_DESCR(as_ndarray(args[0])));
  Ref<> held[3];
  PyObject* arrays[3];
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!(held[i] = cast_array(args[i], *wide))) return nullptr;
    arrays[i] = held[i].get();
  }
  Ref<> result = Ref<>::steal(f(arrays));
  return result ? cast_array(result.get(), *own).release() : nullptr;
}

/// convolve(image, weights, groups, stride, before, after, dilation, ...): graph::Window, then an ndarray.
PyObject* convolve(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (PyObject * taped; module::on_tape("_convolve", args, count, taped)) return taped;
  std::vector<int64_t> numbers;
  for (Py_ssize_t i = 2; i < count; ++i) {
    numbers.push_back(PyLong_AsLongLong(args[i]));
    if (PyErr_Occurred()) return nullptr;
  }
  std::optional<graph::Window> window = graph::Window::from(numbers);
  if (!window || !PyArray_Check(args[0]) || !PyArray_Check(args[1])) {
    PyErr_SetString(
        PyExc_ValueError,
        "a convolution takes two arrays, positive groups, strides and dilations, and no negative padding, all "
        "below 2**31");
    return nullptr;
  }
  return in_core_dtype(args, 2, false,
                       [&](PyObject* const* arrays) { return core_convolution(arrays[0], arrays[1], *window); });
}

/// matmul(a, b): the product of two ndarrays, by the core where it applies.
PyObject* matmul(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (PyObject * taped; module::on_tape("_matmul", args, count, taped)) return taped;
  if (count != 2 || !PyArray_Check(args[0]) || !PyArray_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "matmul(a, b)");
    return nullptr;
  }
  PyObject* product = core_matmul(args[0], args[1]);
  return product || PyErr_Occurred() ? product : PyNumber_MatrixMultiply(args[0], args[1]);
}

/// windows(image, size, stride, dilation, ...): a view [..., places ..., window ...] of the last axes. Windows lie
/// within the image.
PyObject* windows(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (PyObject * taped; module::on_tape("_windows", args, count, taped)) return taped;
  std::vector<int64_t> numbers;
  for (Py_ssize_t i = 1; i < count; ++i) {
    numbers.push_back(PyLong_AsLongLong(args[i]));
    if (PyErr_Occurred()) return nullptr;
  }
  const std::size_t axes = numbers.size() / 3;
  if (count < 1 || numbers.size() % 3 != 0 || !PyArray_CheckExact(args[0]) ||
      PyArray_NDIM(as_ndarray(args[0])) < static_cast<int>(axes) ||
      std::any_of(numbers.begin(), numbers.end(), [](int64_t n) { return n < 1 || n > graph::Window::kMost; })) {
    PyErr_SetString(PyExc_ValueError, "windows(array, size, stride, dilation, ...), of numbers below 2**31");
    return nullptr;
  }
  PyArrayObject* image = as_ndarray(args[0]);
  std::vector<npy_intp> shape(PyArray_DIMS(image), PyArray_DIMS(image) + PyArray_NDIM(image));
  std::vector<npy_intp> strides(PyArray_STRIDES(image), PyArray_STRIDES(image) + PyArray_NDIM(image));
  const std::size_t first = shape.size() - axes;
  for (std::size_t i = 0; i < axes; ++i) {
    const int64_t size = numbers[3 * i], stride = numbers[3 * i + 1], dilation = numbers[3 * i + 2];
    const int64_t room = shape[first + i] - dilation * (size - 1) - 1;
    if (room < 0) {
      PyErr_SetString(PyExc_ValueError, "a window that is larger than the array");
      return nullptr;
    }
    shape.push_back(size);
    // Strides of axes of length 1 may be too large, and are not used.
    strides.push_back(size == 1 ? strides[first + i] : strides[first + i] * dilation);
    shape[first + i] = room / stride + 1;
    if (shape[first + i] > 1) strides[first + i] *= stride;
  }
  PyArray_Descr* descr = PyArray_DESCR(image);
  Py_INCREF(descr);
  Ref<> view = Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), shape.data(),
                                                 strides.data(), PyArray_BYTES(image), 0, nullptr));
  if (!view || PyArray_SetBaseObject(as_ndarray(view.get()), Py_NewRef(args[0])) < 0) return nullptr;
  return view.release();
}

/// attend(q, k, v, scale, mask, causal, probability, state): an ndarray; see graph::GraphBuilder::attention. Nothing is
/// dropped where the state is None.
PyObject* attend(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (PyObject * taped; module::on_tape("_attend", args, count, taped)) return taped;
  bool given = count == 8 && (args[4] == Py_None || PyArray_Check(args[4]));
  for (Py_ssize_t i = 0; given && i < 3; ++i) given = PyArray_Check(args[i]);
  const double scale = given ? PyFloat_AsDouble(args[3]) : 0;
  const long causal = given ? PyLong_AsLong(args[5]) : 0;
  std::optional<CoreDropped> dropped;
  if (given && args[7] != Py_None) {
    dropped = CoreDropped{static_cast<float>(PyFloat_AsDouble(args[6])), 0};
    given = PyArray_Check(args[7]) && PyArray_TYPE(as_ndarray(args[7])) == NPY_UINT64 &&
            PyArray_SIZE(as_ndarray(args[7])) == 1;
    if (given) std::memcpy(&dropped->state, PyArray_DATA(as_ndarray(args[7])), sizeof dropped->state);
  }
  if (PyErr_Occurred()) return nullptr;
  if (!given || causal < 0 || causal > static_cast<long>(graph::Causal::FromLast)) {
    PyErr_SetString(PyExc_ValueError, "attend(q, k, v, scale, mask, causal, probability, state)");
    return nullptr;
  }
  Ref<> mask;
  if (args[4] != Py_None && !(mask = cast_array(args[4], DType::F32))) return nullptr;
  return in_core_dtype(args, 3, true, [&](PyObject* const* arrays) {
    return core_attention(arrays[0], arrays[1], arrays[2], static_cast<float>(scale), mask.get(),
                          static_cast<graph::Causal>(causal), dropped);
  });
}

template <class F>
PyCFunction as_function(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

PyMethodDef functions[] = {{"_array", as_function(array), METH_FASTCALL, nullptr},
                           {"_arrays", as_function(arrays), METH_FASTCALL, nullptr},
                           {"_tensor", tensor, METH_O, nullptr},
                           {"_shared", shared, METH_O, nullptr},
                           {"_matmul", as_function(matmul), METH_FASTCALL, nullptr},
                           {"_attend", as_function(attend), METH_FASTCALL, nullptr},
                           {"_windows", as_function(windows), METH_FASTCALL, nullptr},
                           {"_convolve", as_function(convolve), METH_FASTCALL, nullptr},
                           {"_dtype", dtype, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

bool init(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }
const module::ModulePart part(42, init);

}  // namespace

std::optional<TensorFunction> tensor_function(PyObject* callable) {
  if (!PyCFunction_CheckExact(callable)) return std::nullopt;
  PyCFunction function = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_meth;
  if (function == as_function(array)) return TensorFunction::Array;
  if (function == as_function(arrays)) return TensorFunction::Arrays;
  if (function == tensor) return TensorFunction::Tensor;
  if (function == as_function(matmul)) return TensorFunction::MatMul;
  if (function == as_function(attend)) return TensorFunction::Attend;
  if (function == as_function(windows)) return TensorFunction::Windows;
  if (function == as_function(convolve)) return TensorFunction::Convolve;
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

}  // namespace framejit::ext::tensor
