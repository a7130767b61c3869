// Import of the NumPy C API, and the table of dtypes.
#define FRAMEJIT_IMPORT_NUMPY
#include "ext/arrays/numpy_api.h"

#include <array>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace framejit::ext::arrays {

using capture::Ref;
using graph::DType;

namespace {

struct NumpyType {
  DType dtype;
  int type_num;
};

constexpr NumpyType kNumpyTypes[] = {
    {DType::Bool, NPY_BOOL},     {DType::I8, NPY_INT8},         {DType::I16, NPY_INT16},   {DType::I32, NPY_INT32},
    {DType::I64, NPY_INT64},     {DType::U8, NPY_UINT8},        {DType::U16, NPY_UINT16},  {DType::U32, NPY_UINT32},
    {DType::U64, NPY_UINT64},    {DType::F16, NPY_FLOAT16},     {DType::F32, NPY_FLOAT32}, {DType::F64, NPY_FLOAT64},
    {DType::C64, NPY_COMPLEX64}, {DType::C128, NPY_COMPLEX128},
};

struct State {
  bool imported = false;
  NumpyVersion version;
  PyObject* numpy = nullptr;
  PyObject* umath = nullptr;
};
State state;

PyObject* import_first(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (PyObject* module = PyImport_ImportModule(name)) return module;
    if (!PyErr_ExceptionMatches(PyExc_ImportError)) return nullptr;
    PyErr_Clear();
  }
  return nullptr;
}

bool read_version() {
  Ref<> text = Ref<>::steal(PyObject_GetAttrString(state.numpy, "__version__"));
  const char* version = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!version) return false;
  char* end = nullptr;
  state.version.major = static_cast<int>(std::strtol(version, &end, 10));
  state.version.minor = *end == '.' ? static_cast<int>(std::strtol(end + 1, nullptr, 10)) : 0;
  return true;
}

}  // namespace

bool import_numpy() {
  if (state.imported) return true;
  if (_import_array() < 0 || _import_umath() < 0) return false;
  state.numpy = PyImport_ImportModule("numpy");
  if (!state.numpy || !read_version()) return false;
  state.umath = state.version.major >= 2 ? import_first({"numpy._core.umath", "numpy.core.umath"})
                                         : import_first({"numpy.core.umath", "numpy._core.umath"});
  PyErr_Clear();
  state.imported = true;
  return true;
}

NumpyVersion numpy_version() { return state.version; }
PyObject* numpy_module() { return state.numpy; }
PyObject* umath_module() { return state.umath; }

PyObject* no_value() {
  static PyObject* const found = PyObject_GetAttrString(numpy_module(), "_NoValue");
  return found;
}

std::optional<DType> dtype_of_type_num(int type_num) {
  for (const NumpyType& row : kNumpyTypes)
    if (row.type_num == type_num) return row.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_of(PyArray_Descr* descr) {
  std::optional<DType> dtype = dtype_of_type_num(descr->type_num);
  if (!dtype || descr == descr_of(*dtype)) return dtype;
  if (!PyArray_ISNBO(descr->byteorder)) return std::nullopt;
  // Metadata is carried to results in ways that differ between versions. A number may have fields, too.
  for (const char* name : {"metadata", "names"}) {
    const Ref<> value = Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(descr), name));
    if (!value) PyErr_Clear();
    if (value.get() != Py_None) return std::nullopt;
  }
  return dtype;
}

int type_num_of(DType dtype) {
  for (const NumpyType& row : kNumpyTypes)
    if (row.dtype == dtype) return row.type_num;
  return NPY_NOTYPE;
}

PyArray_Descr* descr_of(DType dtype) {
  static const std::array<PyArray_Descr*, graph::kDTypeCount> descrs = [] {
    std::array<PyArray_Descr*, graph::kDTypeCount> table{};
    for (const NumpyType& row : kNumpyTypes) table[static_cast<int>(row.dtype)] = PyArray_DescrFromType(row.type_num);
    return table;
  }();
  return descrs[static_cast<int>(dtype)];
}

PyObject* make_scalar(DType dtype, const void* value) {
  // What PyArray_Scalar does for any type, without a look at what the type is.
  if (dtype == DType::F64) {
    PyObject* const out = PyArrayScalar_New(Double);
    if (out) std::memcpy(&PyArrayScalar_VAL(out, Double), value, sizeof(double));
    return out;
  }
  if (dtype == DType::I64) {
    PyObject* const out = PyArrayScalar_New(Long);
    if (out) std::memcpy(&PyArrayScalar_VAL(out, Long), value, sizeof(long));
    return out;
  }
  return PyArray_Scalar(const_cast<void*>(value), descr_of(dtype), nullptr);
}

PyTypeObject* scalar_type_of(DType dtype) {
  static const std::array<PyTypeObject*, graph::kDTypeCount> types = [] {
    std::array<PyTypeObject*, graph::kDTypeCount> table{};
    for (const NumpyType& row : kNumpyTypes)
      table[static_cast<int>(row.dtype)] = reinterpret_cast<PyTypeObject*>(PyArray_TypeObjectFromType(row.type_num));
    return table;
  }();
  return types[static_cast<int>(dtype)];
}

std::optional<DType> scalar_dtype_of(PyObject* object) {
  if (!PyArray_IsScalar(object, Generic)) return std::nullopt;
  for (const NumpyType& row : kNumpyTypes)
    if (Py_TYPE(object) == scalar_type_of(row.dtype)) return row.dtype;
  return std::nullopt;
}

namespace {

constexpr double kHalfMax = 65504, kHalfMin = 0x1p-14;

/// Python integers: the whole range of the dtype and nothing else, on every version.
bool in_range(PyObject* number, DType dtype) {
  dtype = graph::part_of(dtype);
  if (graph::is_float(dtype)) {
    double value = PyLong_AsDouble(number);
    if (value == -1.0 && PyErr_Occurred()) return false;
    return dtype == DType::F64 || std::fabs(value) <= (dtype == DType::F16 ? kHalfMax : FLT_MAX);
  }
  if (dtype == DType::Bool) return true;
  int bits = 8 * graph::size_of(dtype);
  if (graph::is_unsigned_int(dtype)) {
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    return !PyErr_Occurred() && (bits == 64 || value >> bits == 0);
  }
  long long value = PyLong_AsLongLong(number);
  if (value == -1 && PyErr_Occurred()) return false;
  long long limit = bits == 64 ? INT64_MAX : (1LL << (bits - 1)) - 1;
  return value <= limit && value >= -limit - 1;
}

/// Finite floats: no overflow, no underflow; into integers only where truncation stays in range.
bool fits(double value, DType dtype) {
  dtype = graph::part_of(dtype);
  if (dtype == DType::F64 || dtype == DType::Bool) return true;
  if (dtype == DType::F32) {
    if (!std::isfinite(value) || value == 0) return true;
    double magnitude = std::fabs(static_cast<double>(static_cast<float>(value)));
    return std::isfinite(magnitude) && magnitude >= FLT_MIN;
  }
  if (dtype == DType::F16)
    return !std::isfinite(value) || value == 0 || (std::fabs(value) <= kHalfMax && std::fabs(value) >= kHalfMin);
  if (!std::isfinite(value)) return false;
  Ref<> whole = Ref<>::steal(PyLong_FromDouble(value));
  return whole && in_range(whole.get(), dtype);
}

bool fits(PyObject* object, DType dtype) {
  if (PyBool_Check(object)) return true;
  if (PyLong_CheckExact(object)) return in_range(object, dtype);
  if (PyFloat_Check(object)) return fits(PyFloat_AS_DOUBLE(object), dtype);
  if (PyComplex_Check(object))
    return graph::is_complex(dtype) && fits(PyComplex_RealAsDouble(object), dtype) &&
           fits(PyComplex_ImagAsDouble(object), dtype);
  std::optional<DType> own = scalar_dtype_of(object);
  if (!own) return false;
  Ref<> plain = Ref<>::steal(PyObject_CallMethod(object, "item", nullptr));
  return plain && fits(plain.get(), dtype);
}

}  // namespace

std::optional<graph::Scalar> pack(PyObject* object, DType dtype) {
  bool ok = fits(object, dtype);
  if (ok) {
    Py_INCREF(descr_of(dtype));
    Ref<> element = Ref<>::steal(PyArray_FromAny(object, descr_of(dtype), 0, 0, NPY_ARRAY_FORCECAST, nullptr));
    if (element) {
      return graph::scalar_from(dtype, PyArray_DATA(reinterpret_cast<PyArrayObject*>(element.get())));
    }
  }
  PyErr_Clear();
  return std::nullopt;
}

}  // namespace framejit::ext::arrays
