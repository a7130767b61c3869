// Capsules of DLPack: the dtype in them, which NumPy does not know for bfloat16. NumPy makes and reads capsules of
// uint16; framejit/_tensors/_dlpack.py changes the dtype of a capsule between NumPy and the other library.
#include <Python.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "ext/module/module.h"

namespace framejit::ext::tensor {

namespace {

// The part of DLPack's binary interface (versions 0 and 1) up to the dtype.
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct TensorPart {
  void* data;
  int32_t device_type, device_id, ndim;
  DataType dtype;
};
struct Managed {  // "dltensor"
  TensorPart tensor;
};
struct ManagedVersioned {  // "dltensor_versioned"
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  TensorPart tensor;
};

/// The dtype in a capsule that nobody has consumed; null with an exception set.
DataType* dtype_in(PyObject* capsule) {
  const char* name = PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : nullptr;
  const std::string_view kind = name ? name : "";
  if (kind == "dltensor") return &static_cast<Managed*>(PyCapsule_GetPointer(capsule, name))->tensor.dtype;
  if (kind == "dltensor_versioned") {
    auto* managed = static_cast<ManagedVersioned*>(PyCapsule_GetPointer(capsule, name));
    if (managed->major == 1) return &managed->tensor.dtype;
    PyErr_Format(PyExc_BufferError, "a capsule of DLPack %u, of which only version 1 is known", managed->major);
    return nullptr;
  }
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "not a capsule of DLPack, or one that was consumed");
  return nullptr;
}

/// _core._dlpack_dtype(capsule) -> (code, bits).
PyObject* get_dtype(PyObject*, PyObject* capsule) {
  const DataType* dtype = dtype_in(capsule);
  return dtype ? Py_BuildValue("(ii)", dtype->code, dtype->bits) : nullptr;
}

/// _core._set_dlpack_code(capsule, code): the elements are of another kind, of the same width.
PyObject* set_code(PyObject*, PyObject* args) {
  PyObject* capsule = nullptr;
  unsigned char code = 0;
  if (!PyArg_ParseTuple(args, "Ob:_set_dlpack_code", &capsule, &code)) return nullptr;
  DataType* dtype = dtype_in(capsule);
  if (!dtype) return nullptr;
  dtype->code = code;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_dlpack_dtype", get_dtype, METH_O, nullptr},
                           {"_set_dlpack_code", set_code, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(43, [](PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; });

}  // namespace

}  // namespace framejit::ext::tensor
