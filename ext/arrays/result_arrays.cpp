// Results: ndarrays with a memory handler of our own, and numbers.
#include "ext/arrays/result_arrays.h"

#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "ext/arrays/tensor_object.h"
#include "ext/module/module.h"
#include "runtime/allocator.h"

namespace framejit::ext::arrays {

using capture::Ref;
using capture::Wrap;

namespace {

// The memory handler.

void* handler_malloc(void*, std::size_t size) { return runtime::allocate(size); }
void* handler_calloc(void*, std::size_t count, std::size_t size) {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  return runtime::allocate_zeroed(bytes);
}
void* handler_realloc(void*, void* block, std::size_t size) { return runtime::reallocate(block, size); }
void handler_free(void*, void* block, std::size_t) { runtime::release(block); }

PyDataMem_Handler handler = {"framejit", 1, {nullptr, handler_malloc, handler_calloc, handler_realloc, handler_free}};
PyObject* handler_capsule = nullptr;  // lives as long as the process: arrays refer to it

/// May ndarrays be filled in by hand? Only where the struct is the one that these headers know (it is the same from
/// NumPy 1.22 to 2.4); otherwise NumPy's constructor makes them.
bool known_struct = false;

bool init(PyObject*) {
  if (!import_numpy()) return false;
  handler_capsule = PyCapsule_New(&handler, "mem_handler", nullptr);
  known_struct = PyArray_Type.tp_basicsize == sizeof(PyArrayObject_fields);
  return handler_capsule != nullptr;
}
const module::ModulePart part(0, init);

constexpr int kWarnOnWrite = std::numeric_limits<int>::min();  // of NumPy's own headers

int contiguity_of(int rank, const npy_intp* dims, const npy_intp* strides, npy_intp item) {
  bool c = true, f = true, empty = false;
  for (int i = 0; i < rank; ++i) empty = empty || dims[i] == 0;
  if (!empty) {
    npy_intp expected = item;
    for (int i = rank - 1; i >= 0; --i) {
      if (dims[i] != 1 && strides[i] != expected) c = false;
      expected *= dims[i];
    }
    expected = item;
    for (int i = 0; i < rank; ++i) {
      if (dims[i] != 1 && strides[i] != expected) f = false;
      expected *= dims[i];
    }
  }
  return (c ? NPY_ARRAY_C_CONTIGUOUS : 0) | (f ? NPY_ARRAY_F_CONTIGUOUS : 0);
}

void evaluate(const graph::Dims& dims, std::span<const int64_t> symbols, npy_intp* out) {
  for (std::size_t i = 0; i < dims.size(); ++i)
    out[i] = dims[i].is_const() ? dims[i].value() : dims[i].evaluate(symbols);
}

/// Arrays of a rank without elements that were Tensors' alone, with room for dimensions, a descriptor and the handler:
/// the next of this rank is made of one.
struct FreeList {
  static constexpr int kRanks = 5, kMost = 16;
  std::array<PyArrayObject_fields*, kMost> arrays;
  int count = 0;
};
std::array<FreeList, FreeList::kRanks> shelves;

PyObject* shelved_array(FreeList& shelf, PyArray_Descr* descr, int rank, const npy_intp* sizes, char* data, int flags) {
  PyArrayObject_fields* array = shelf.arrays[static_cast<std::size_t>(--shelf.count)];
  PyObject_Init(reinterpret_cast<PyObject*>(array), &PyArray_Type);
  for (int i = 0; i < 2 * rank; ++i) array->dimensions[i] = sizes[i];
  if (array->descr != descr) {
    Py_INCREF(descr);
    Py_SETREF(array->descr, descr);
  }
  array->strides = rank ? array->dimensions + rank : nullptr;
  array->data = data;
  array->flags = flags | NPY_ARRAY_OWNDATA | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
  return reinterpret_cast<PyObject*>(array);
}

/// An ndarray filled in by hand, as PyArray_NewFromDescr would; half its price. NumPy frees the dimensions with
/// PyMem_RawFree, or keeps them in a cache that hands them out for arrays of the same rank.
PyObject* bare_array(PyArray_Descr* descr, int rank, const npy_intp* sizes, char* data, int flags) {
  if (rank < FreeList::kRanks && shelves[static_cast<std::size_t>(rank)].count)
    return shelved_array(shelves[static_cast<std::size_t>(rank)], descr, rank, sizes, data, flags);
  auto* array = static_cast<PyArrayObject_fields*>(PyObject_Malloc(sizeof(PyArrayObject_fields)));
  if (!array) return PyErr_NoMemory();
  npy_intp* own_sizes = nullptr;
  if (rank) {
    own_sizes = static_cast<npy_intp*>(PyMem_RawMalloc(sizeof(npy_intp) * 2 * static_cast<std::size_t>(rank)));
    if (!own_sizes) {
      PyObject_Free(array);
      return PyErr_NoMemory();
    }
    for (int i = 0; i < 2 * rank; ++i) own_sizes[i] = sizes[i];  // a call of memcpy costs more
  }
  PyObject_Init(reinterpret_cast<PyObject*>(array), &PyArray_Type);
  Py_INCREF(descr);
  Py_INCREF(handler_capsule);
  array->data = data;
  array->nd = rank;
  array->dimensions = own_sizes;
  array->strides = own_sizes ? own_sizes + rank : nullptr;
  array->base = nullptr;
  array->descr = descr;
  array->flags = flags | NPY_ARRAY_OWNDATA | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
  array->weakreflist = nullptr;
  array->_buffer_info = nullptr;
  array->mem_handler = handler_capsule;
  return reinterpret_cast<PyObject*>(array);
}

/// The same through the public constructor.
PyObject* public_array(PyArray_Descr* descr, int rank, const npy_intp* sizes, char* data) {
  Py_INCREF(descr);
  auto* dims = const_cast<npy_intp*>(sizes);
  PyObject* object = PyArray_NewFromDescr(&PyArray_Type, descr, rank, dims, dims + rank, data,
                                          NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED, nullptr);
  if (!object) return nullptr;
  auto* array = reinterpret_cast<PyArrayObject_fields*>(object);
  array->flags |= NPY_ARRAY_OWNDATA;
  array->mem_handler = Py_NewRef(handler_capsule);
  return object;
}

/// Nothing if that is beyond 64 bits. NumPy's own check leaves axes of length 0 out of the product.
std::optional<int64_t> bytes_of(int rank, const npy_intp* dims, int64_t item) {
  int64_t bytes = item;
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] < 0 || (dims[i] != 0 && __builtin_mul_overflow(bytes, int64_t{dims[i]}, &bytes))) return std::nullopt;
    empty = empty || dims[i] == 0;
  }
  return empty ? 0 : bytes;
}

PyObject* too_big() {
  PyErr_SetString(PyExc_ValueError,
                  "array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size.");
  return nullptr;
}

PyObject* make_array(PyArray_Descr* descr, int rank, const npy_intp* sizes, int64_t bytes, int flags) {
  char* data = static_cast<char*>(runtime::allocate(bytes > 0 ? static_cast<std::size_t>(bytes) : 1));
  if (!data) return PyErr_NoMemory();
  PyObject* array = known_struct ? bare_array(descr, rank, sizes, data, flags) : public_array(descr, rank, sizes, data);
  if (!array) runtime::release(data);
  return array;
}

/// dims, then strides.
using Sizes = std::array<npy_intp, 2 * NPY_MAXDIMS>;

[[gnu::noinline]] PyObject* new_symbolic_array(const ArrayLayout& layout, std::span<const int64_t> symbols) {
  Sizes sizes;
  npy_intp* strides = sizes.data() + layout.rank;
  evaluate(layout.type->shape, symbols, sizes.data());
  evaluate(layout.type->strides, symbols, strides);
  const std::optional<int64_t> bytes = bytes_of(layout.rank, sizes.data(), graph::size_of(layout.dtype));
  if (!bytes) return too_big();
  const int flags = contiguity_of(layout.rank, sizes.data(), strides, graph::size_of(layout.dtype));
  return make_array(layout.descr, layout.rank, sizes.data(), *bytes, flags);
}

}  // namespace

bool same_descr(PyArray_Descr* descr, int type_number) {
  if (descr->type_num != type_number || !PyArray_ISNBO(descr->byteorder)) return false;
  PyObject *metadata = PyDataType_METADATA(descr), *names = PyDataType_NAMES(descr);
  return (metadata == nullptr || metadata == Py_None) && (names == nullptr || names == Py_None);
}

PyTypeObject* generator_type() {
  static PyTypeObject* type = nullptr;
  if (type) return type;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy.random");
  PyObject* found =
      module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "Generator") : nullptr;
  if (found && PyType_Check(found)) type = reinterpret_cast<PyTypeObject*>(Py_NewRef(found));
  return type;
}

PyTypeObject* wrap_type(Wrap wrap, graph::DType dtype) {
  switch (wrap) {
    case Wrap::NdArray: return &PyArray_Type;
    case Wrap::NumpyScalar: return scalar_type_of(dtype);
    case Wrap::PyFloat: return &PyFloat_Type;
    case Wrap::PyInt: return &PyLong_Type;
    case Wrap::PyBool: return &PyBool_Type;
    case Wrap::PyComplex: return &PyComplex_Type;
    case Wrap::Tensor: return tensor_type();
    case Wrap::Generator: return generator_type();
  }
  return nullptr;
}

PyArrayObject* held_array(Wrap wrap, PyObject* object) {
  return as_ndarray(wrap == Wrap::Tensor ? tensor_array(object) : object);
}

ArrayLayout ArrayLayout::make(const graph::Type& type) {
  ArrayLayout layout;
  layout.type = &type;
  layout.dtype = type.dtype;
  layout.descr = descr_of(type.dtype);
  layout.rank = type.rank();
  for (const graph::Dims* dims : {&type.shape, &type.strides})
    for (const graph::Dim& dim : *dims) layout.constant = layout.constant && dim.is_const();
  if (layout.constant) {
    const auto rank = static_cast<std::size_t>(layout.rank);
    layout.sizes.resize(2 * rank);
    evaluate(type.shape, {}, layout.sizes.data());
    evaluate(type.strides, {}, layout.sizes.data() + rank);
    const npy_intp item = graph::size_of(type.dtype);
    layout.contiguity = contiguity_of(layout.rank, layout.sizes.data(), layout.sizes.data() + rank, item);
    const std::optional<int64_t> bytes = bytes_of(layout.rank, layout.sizes.data(), item);
    layout.bytes = bytes.value_or(0);
    layout.constant = bytes.has_value();  // what is too big is found where it is made
  }
  return layout;
}

UseFramejitAllocator::UseFramejitAllocator() : before_(Ref<>::steal(PyDataMem_SetHandler(handler_capsule))) {
  PyErr_Clear();
}

UseFramejitAllocator::~UseFramejitAllocator() {
  if (!before_) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Ref<>::steal(PyDataMem_SetHandler(before_.get()));
  PyErr_Restore(type, value, traceback);
}

void drop_array(PyObject* object) {
  auto* array = reinterpret_cast<PyArrayObject_fields*>(object);
  const bool ours = known_struct && Py_REFCNT(object) == 1 && Py_IS_TYPE(object, &PyArray_Type) &&
                    array->mem_handler == handler_capsule && array->nd < FreeList::kRanks && !array->base &&
                    !array->weakreflist && !array->_buffer_info && (array->flags & NPY_ARRAY_OWNDATA);
  if (FreeList* shelf = ours ? &shelves[static_cast<std::size_t>(array->nd)] : nullptr;
      shelf && shelf->count < FreeList::kMost) {
    runtime::release(array->data);
    shelf->arrays[static_cast<std::size_t>(shelf->count++)] = array;
  } else {
    Py_DECREF(object);
  }
}

PyObject* new_array(const ArrayLayout& layout, std::span<const int64_t> symbols) {
  if (!layout.constant) return new_symbolic_array(layout, symbols);
  return make_array(layout.descr, layout.rank, layout.sizes.data(), layout.bytes, layout.contiguity);
}

PyObject* new_empty_array(const ArrayLayout& layout, std::span<const int64_t> symbols) {
  npy_intp dims[NPY_MAXDIMS];
  evaluate(layout.type->shape, symbols, dims);
  Py_INCREF(layout.descr);
  return PyArray_Empty(layout.rank, dims, layout.descr, 0);
}

PyObject* new_c_array(graph::DType dtype, int rank, const npy_intp* dims) {
  const std::optional<int64_t> bytes = bytes_of(rank, dims, graph::size_of(dtype));
  if (!bytes) return too_big();
  Sizes sizes;
  npy_intp* strides = sizes.data() + rank;
  npy_intp step = graph::size_of(dtype);
  for (int i = rank - 1; i >= 0; --i) {
    sizes[static_cast<std::size_t>(i)] = dims[i];
    strides[i] = step;
    step *= dims[i];
  }
  return make_array(descr_of(dtype), rank, sizes.data(), *bytes,
                    contiguity_of(rank, dims, strides, graph::size_of(dtype)));
}

PyObject* new_view(const ArrayLayout& layout, char* data, PyObject* base, std::span<const int64_t> symbols) {
  npy_intp dims[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  evaluate(layout.type->shape, symbols, dims);
  evaluate(layout.type->strides, symbols, strides);
  Py_INCREF(layout.descr);
  Ref<> view = Ref<>::steal(PyArray_NewFromDescr(
      &PyArray_Type, layout.descr, layout.rank, dims, strides, data,
      PyArray_FLAGS(as_ndarray(base)) & (NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED | kWarnOnWrite), nullptr));
  if (!view || PyArray_SetBaseObject(as_ndarray(view.get()), Py_NewRef(base)) < 0) return nullptr;
  return view.release();
}

void restrict_writing(PyArrayObject* array, capture::Writing writing) {
  // Where writing warns already np.broadcast_arrays refuses it.
  const bool refused = writing == capture::Writing::Refused ||
                       (writing == capture::Writing::Warns && PyArray_CHKFLAGS(array, kWarnOnWrite));
  if (refused) PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE | kWarnOnWrite);
  else if (writing == capture::Writing::Warns && PyArray_ISWRITEABLE(array)) PyArray_ENABLEFLAGS(array, kWarnOnWrite);
}

PyObject* new_number(Wrap wrap, graph::DType dtype) {
  switch (wrap) {
    case Wrap::PyFloat: return PyFloat_FromDouble(0.0);
    case Wrap::PyComplex: return PyComplex_FromDoubles(0.0, 0.0);
    case Wrap::NumpyScalar: {
      PyTypeObject* type = scalar_type_of(dtype);
      if (dtype != graph::DType::Bool) return type->tp_alloc(type, 0);
      break;
    }
    case Wrap::NdArray:
    case Wrap::Tensor:
    case Wrap::Generator:
    case Wrap::PyInt:
    case Wrap::PyBool: break;
  }
  PyErr_SetString(PyExc_SystemError, "framejit: a number whose memory cannot be filled in");
  return nullptr;
}

char* number_memory(Wrap wrap, PyObject* number) {
  switch (wrap) {
    case Wrap::PyFloat: return reinterpret_cast<char*>(&reinterpret_cast<PyFloatObject*>(number)->ob_fval);
    case Wrap::PyComplex: return reinterpret_cast<char*>(&reinterpret_cast<PyComplexObject*>(number)->cval);
    default: return scalar_value(number);
  }
}

PyObject* python_number(Wrap wrap, const char* data) {
  if (wrap == Wrap::PyBool) return PyBool_FromLong(*data != 0);
  if (wrap == Wrap::NumpyScalar) {  // bool: NumPy has two of them, no others
    return Py_NewRef(*data ? PyArrayScalar_True : PyArrayScalar_False);
  }
  int64_t value;
  std::memcpy(&value, data, sizeof(value));
  return PyLong_FromLongLong(value);
}

}  // namespace framejit::ext::arrays
