// Arrays and scalars that compiled code gives back, and access to the memory of those it is given.
//
// Results are exact ndarrays over memory from runtime/allocator.h. They own it through a memory handler (NEP 49) of our
// own, set on these arrays only: `np.core.multiarray.get_handler_name(result)` says framejit, and NumPy frees, resizes
// and views them as any others. The GIL is held in all of these.
#pragma once

#include <cstdint>
#include <vector>

#include "capture/guard.h"
#include "capture/session.h"
#include "ext/arrays/numpy_api.h"

namespace framejit::ext::arrays {

inline PyArrayObject* as_ndarray(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

/// Where the value of an exact NumPy scalar of a compiled dtype lies.
inline char* scalar_value(PyObject* scalar) {
  return reinterpret_cast<char*>(&reinterpret_cast<PyDoubleScalarObject*>(scalar)->obval);
}

/// Is a descriptor that is not the builtin one of `type_number` equal to it in all that can be seen (a copied dtype)?
bool same_descr(PyArray_Descr* descr, int type_number);

/// The exact type of objects that a wrap stands for.
/// numpy.random.Generator; null: numpy.random is not imported.
PyTypeObject* generator_type();
PyTypeObject* wrap_type(capture::Wrap wrap, graph::DType dtype);

/// The exact type that an Array guard asks for: it names Tensor or Parameter itself.
inline PyTypeObject* guarded_type(const capture::Guard& g) {
  return g.object ? reinterpret_cast<PyTypeObject*>(g.object.get()) : wrap_type(g.array.wrap, g.array.dtype);
}

/// dtype, shape and strides of a result, ready to evaluate.
struct ArrayLayout {
  PyArray_Descr* descr = nullptr;  // borrowed: builtin
  graph::DType dtype = graph::DType::F64;
  int rank = 0;
  bool constant = true;         // no symbols: sizes, contiguity and bytes below hold
  std::vector<npy_intp> sizes;  // dims, then strides
  int contiguity = 0;           // NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS as they apply
  int64_t bytes = 0;            // of a fresh array
  const graph::Type* type = nullptr;

  /// `type` must outlive the layout.
  static ArrayLayout make(const graph::Type& type);
};

/// A fresh array, its memory not initialised. Null with MemoryError set, or ValueError if NumPy makes no array of this
/// shape.
PyObject* new_array(const ArrayLayout& layout, std::span<const int64_t> symbols);
/// The same without elements: NumPy's own, which says what the strides of such an array are.
PyObject* new_empty_array(const ArrayLayout& layout, std::span<const int64_t> symbols);

/// A fresh C-ordered array of a dtype that framejit compiles, its memory not initialised. Null as new_array.
PyObject* new_c_array(graph::DType dtype, int rank, const npy_intp* dims);

/// While it is in scope, arrays that NumPy makes for the calling thread lie in memory of runtime/allocator.h as well:
/// aligned, and in huge pages where they are large.
class UseFramejitAllocator {
 public:
  UseFramejitAllocator();
  ~UseFramejitAllocator();
  UseFramejitAllocator(const UseFramejitAllocator&) = delete;

 private:
  capture::Ref<> before_;
};

/// Drops the last reference to an array; one of those above is made into the next.
void drop_array(PyObject* array);

/// A view of `base`'s memory at `data`; the base chain is collapsed and the flags follow the base as NumPy does it.
PyObject* new_view(const ArrayLayout& layout, char* data, PyObject* base, std::span<const int64_t> symbols);
/// What NumPy's function would have said of an array that it gives.
void restrict_writing(PyArrayObject* array, capture::Writing writing);

/// An exact NumPy scalar, Python float or complex whose value is filled in later through number_memory().
PyObject* new_number(capture::Wrap wrap, graph::DType dtype);
char* number_memory(capture::Wrap wrap, PyObject* number);

/// An int or bool from an element in memory.
PyObject* python_number(capture::Wrap wrap, const char* data);

/// The array that a Wrap::NdArray or Wrap::Tensor operand stands for, or null.
PyArrayObject* held_array(capture::Wrap wrap, PyObject* object);

}  // namespace framejit::ext::arrays
