// _core.register_custom_op(op, function, shape, dtype), _core.forget_custom_op(index).
#include "ext/library_calls/custom_op.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "ext/arrays/numpy_api.h"
#include "ext/module/control.h"
#include "ext/module/module.h"

namespace framejit::ext::library_calls {

using capture::Ref;
using codegen::StridedArray;

namespace {

/// By the operator, which whoever compiled a call keeps alive; it forgets itself when it dies.
std::map<PyObject*, std::unique_ptr<CustomOp>>& custom_ops() {
  static auto* map =
      new std::map<PyObject*, std::unique_ptr<CustomOp>>();  // never destroyed: the interpreter is gone by then
  return *map;
}

int64_t next_index = 0;

/// A copy with the same strides, because NumPy's sums depend on them: the function may keep it.
Ref<> copy_of(const StridedArray& a) {
  int64_t low = 0, high = graph::size_of(a.dtype);
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] == 0) high = low;
    (a.strides[i] < 0 ? low : high) += (a.shape[i] - 1) * a.strides[i];
  }
  npy_intp bytes = std::max<int64_t>(high - low, 0);
  Ref<> memory = Ref<>::steal(PyArray_SimpleNew(1, &bytes, NPY_UINT8));
  if (!memory) return {};
  char* at = PyArray_BYTES(reinterpret_cast<PyArrayObject*>(memory.get()));
  std::memcpy(at, a.data + low, static_cast<std::size_t>(bytes));
  PyArray_Descr* descr = arrays::descr_of(a.dtype);
  Py_INCREF(descr);
  std::vector<npy_intp> shape(a.shape.begin(), a.shape.end()), strides(a.strides.begin(), a.strides.end());
  Ref<> array = Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), shape.data(),
                                                  strides.data(), at - low, NPY_ARRAY_WRITEABLE, nullptr));
  if (!array || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), memory.release()) < 0) return {};
  return array;
}

/// Is it what a fresh result of the graph would be?
bool fits(PyObject* object, const StridedArray& out) {
  if (!object || !PyArray_CheckExact(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (arrays::dtype_of(PyArray_DESCR(array)) != out.dtype || PyArray_NDIM(array) != static_cast<int>(out.shape.size()))
    return false;
  for (int i = 0; i < PyArray_NDIM(array); ++i)
    if (PyArray_DIM(array, i) != out.shape[static_cast<std::size_t>(i)]) return false;
  constexpr int kFlags = NPY_ARRAY_CARRAY | NPY_ARRAY_OWNDATA;
  return PyArray_CHKFLAGS(array, kFlags);
}

/// The bytecode, which runs again, will call the operator with the same arrays: it raises this error then, which may be
/// one of a signal's handler. Clears the error.
void keep_error(const CustomOp& op, PyObject* args) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  const Ref<> kept = Ref<>::steal(Py_BuildValue("(kOO)", PyThread_get_thread_ident(), args, value));
  if (kept) PyObject_SetAttrString(op.op, "_raised", kept.get());
  PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

bool call_custom_op(void* context, std::span<const StridedArray> arrays, graph::FlagRule) {
  const auto* op = static_cast<const CustomOp*>(context);
  const module::ScopedGil gil;
  Ref<> args = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(arrays.size() - 1)));
  for (std::size_t i = 0; args && i + 1 < arrays.size(); ++i) {
    Ref<> copy = copy_of(arrays[i]);
    if (!copy) args = Ref<>();
    if (args) PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), copy.release());
  }
  Ref<> result =
      args ? Ref<>::steal(capture::py::until_exit([&] { return PyObject_CallObject(op->function.get(), args.get()); }))
           : Ref<>();
  if (args && !result) keep_error(*op, args.get());
  PyErr_Clear();
  if (!fits(result.get(), arrays.back())) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(result.get());
  std::memcpy(arrays.back().data, PyArray_BYTES(array), static_cast<std::size_t>(PyArray_NBYTES(array)));
  return true;
}

PyObject* register_custom_op(PyObject*, PyObject* args) {
  PyObject *op, *function, *shape, *dtype;
  if (!PyArg_ParseTuple(args, "OOOO:register_custom_op", &op, &function, &shape, &dtype)) return nullptr;
  if (dtype != Py_None && !PyArray_DescrCheck(dtype)) return PyErr_Format(PyExc_TypeError, "dtype must be a np.dtype");
  custom_ops()[op] = std::make_unique<CustomOp>(
      CustomOp{op, next_index, Ref<>::share(function), Ref<>::share(shape), Ref<>::share(dtype)});
  return PyLong_FromLongLong(next_index++);
}

PyObject* forget_custom_op(PyObject*, PyObject* index) {
  const long long number = PyLong_AsLongLong(index);
  if (number == -1 && PyErr_Occurred()) return nullptr;
  for (auto at = custom_ops().begin(); at != custom_ops().end(); ++at)
    if (at->second->index == number) {
      const std::unique_ptr<CustomOp> gone = std::move(at->second);
      custom_ops().erase(at);
      break;
    }
  Py_RETURN_NONE;
}

PyObject* raise_error(PyObject*, PyObject* args) {
  PyObject* error = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (!error || !PyExceptionInstance_Check(error))
    return PyErr_Format(PyExc_TypeError, "raise_error() takes an exception");
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  return nullptr;
}

PyMethodDef methods[] = {
    {"register_custom_op", register_custom_op, METH_VARARGS,
     "register_custom_op(op, function, shape, dtype): its index. `op`, called, gives what `function` gives."},
    {"forget_custom_op", forget_custom_op, METH_O, "forget_custom_op(index): the operator is dead."},
    {"raise_error", raise_error, METH_VARARGS, "raise_error(error, ...): raises it; further arguments are ignored."},
    {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

const CustomOp* custom_op(PyObject* object) {
  const auto found = custom_ops().find(object);
  return found == custom_ops().end() ? nullptr : found->second.get();
}

codegen::LibraryFunction custom_function(int64_t index) {
  for (const auto& [op, custom] : custom_ops())
    if (custom->index == index) return {call_custom_op, custom.get()};
  return {};
}

}  // namespace framejit::ext::library_calls
