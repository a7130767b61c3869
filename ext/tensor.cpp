// Tensor: eager semantics, NumPy's operators under MindSpore's promotion.
#include "ext/tensor.h"

#include <array>
#include <string>

#include <structmember.h>

#include "ext/module.h"
#include "ext/numpy_api.h"
#include "ext/tensor_matmul.h"
#include "ext/tensor_promotion.h"
#include "graph/op.h"

namespace framejit::ext {

using capture::Ref;
using graph::DType;
using graph::Op;

namespace {

PyTypeObject* the_type = nullptr;

/// NumPy's type numbers in the order of DType; numpy_api.h has those that compile, a Tensor may hold all but bfloat16.
constexpr std::array<int, graph::kDTypeCount> kTypeNumbers = {
    NPY_BOOL,   NPY_INT8,   NPY_INT16, NPY_INT32,  NPY_INT64,   NPY_UINT8,   NPY_UINT16,    NPY_UINT32,
    NPY_UINT64, NPY_HALF,   -1,        NPY_FLOAT32, NPY_FLOAT64, NPY_COMPLEX64, NPY_COMPLEX128};

int number_of_dtype(DType dtype) { return kTypeNumbers[static_cast<std::size_t>(dtype)]; }

DType dtype_of_descr(PyArray_Descr* descr) {
  for (int i = 0; i < graph::kDTypeCount; ++i)
    if (kTypeNumbers[static_cast<std::size_t>(i)] == descr->type_num) return static_cast<DType>(i);
  // A C type that shares its size with a numbered one (long long).
  int64_t size = PyDataType_ELSIZE(descr);
  bool is_signed = descr->kind == 'i';
  for (DType t : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64})
    if (graph::size_of(t) == size && graph::is_signed_int(t) == is_signed) return t;
  return DType::F64;
}

PyArrayObject* as_array(PyObject* object) { return reinterpret_cast<PyArrayObject*>(object); }

DType dtype_of_tensor(PyObject* tensor) { return dtype_of_descr(PyArray_DESCR(as_array(tensor_array(tensor)))); }

/// An attribute of a Python module of the package, looked up once a process (modules are never reloaded).
PyObject* package_attribute(const char* module, const char* name) {
  Ref<> imported = Ref<>::steal(PyImport_ImportModule(module));
  return imported ? PyObject_GetAttrString(imported.get(), name) : nullptr;
}

PyObject* numpy_function(std::string_view name) {
  Ref<> numpy = Ref<>::steal(PyImport_ImportModule("numpy"));
  return numpy ? PyObject_GetAttrString(numpy.get(), std::string(name).c_str()) : nullptr;
}

/// NumPy's ufunc for an operator of the table; borrowed, kept for the life of the process.
PyObject* ufunc_of(Op op) {
  static std::array<PyObject*, graph::kOpCount> table{};
  PyObject*& entry = table[static_cast<std::size_t>(op)];
  if (!entry) entry = numpy_function(graph::def(op).numpy);
  return entry;
}

/// Takes an array-like result of NumPy; gives a tensor.
PyObject* wrap(PyObject* result) {
  if (!result) return nullptr;
  Ref<> owned = Ref<>::steal(result);
  Ref<> array = Ref<>::steal(PyArray_FROM_OF(owned.get(), NPY_ARRAY_CARRAY | NPY_ARRAY_ENSUREARRAY));
  return array ? tensor_from_array(array.release()) : nullptr;
}

Ref<> cast(PyObject* array, DType dtype) {
  int number = number_of_dtype(dtype);
  if (PyArray_TYPE(as_array(array)) == number) return Ref<>::share(array);
  return Ref<>::steal(PyArray_Cast(as_array(array), number));
}

bool is_python_number(PyObject* o) { return PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o); }

Promoted promoted_of(PyObject* operand) {
  if (is_tensor(operand)) return {dtype_of_tensor(operand), false};
  if (PyBool_Check(operand)) return {DType::Bool, true};
  return {PyLong_CheckExact(operand) ? DType::I64 : DType::F64, true};
}

/// The operand as an ndarray of `dtype`.
Ref<> operand_array(PyObject* operand, DType dtype) {
  if (is_tensor(operand)) return cast(tensor_array(operand), dtype);
  PyArray_Descr* descr = PyArray_DescrFromType(number_of_dtype(dtype));
  return Ref<>::steal(PyArray_FromAny(operand, descr, 0, 0, NPY_ARRAY_FORCECAST, nullptr));
}

/// Operands as computed with: tensors and Python numbers, and lists and tuples (made tensors first). Anything else: false, with
/// or without an exception.
bool acceptable(PyObject*& operand, Ref<>& holder) {
  if (is_tensor(operand) || is_python_number(operand)) return true;
  if (PyArray_Check(operand) || PyArray_IsScalar(operand, Generic)) {
    PyErr_Format(PyExc_TypeError, "unsupported operand type(s): Tensor and %s; make it a Tensor first", Py_TYPE(operand)->tp_name);
    return false;
  }
  if (!PyList_CheckExact(operand) && !PyTuple_CheckExact(operand)) return false;
  holder = Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(the_type), operand));
  operand = holder.get();
  return holder.get() != nullptr;
}

PyObject* not_implemented() {
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NOTIMPLEMENTED;
}

PyObject* apply(Op op, PyObject* a, PyObject* b) {
  Ref<> hold_a, hold_b;
  if (!acceptable(a, hold_a) || !acceptable(b, hold_b)) return not_implemented();
  std::optional<DType> promoted = promote(promoted_of(a), promoted_of(b));
  if (!promoted) {
    PyErr_Format(PyExc_TypeError, "For '%s', implicit conversion between %s and %s is not supported.",
                 std::string(graph::name_of(op)).c_str(), std::string(graph::name_of(promoted_of(a).dtype)).c_str(),
                 std::string(graph::name_of(promoted_of(b).dtype)).c_str());
    return nullptr;
  }
  DType dtype = compute_dtype(op, *promoted);
  Ref<> left = operand_array(a, dtype);
  Ref<> right = left ? operand_array(b, dtype) : Ref<>();
  if (right && op == Op::MatMul) {
    PyObject* product = core_matmul(left.get(), right.get());
    if (product || PyErr_Occurred()) return product ? tensor_from_array(product) : nullptr;
  }
  PyObject* ufunc = right ? ufunc_of(op) : nullptr;
  return ufunc ? wrap(PyObject_CallFunctionObjArgs(ufunc, left.get(), right.get(), nullptr)) : nullptr;
}

template <Op op>
PyObject* binary(PyObject* a, PyObject* b) {
  return apply(op, a, b);
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return apply(Op::Power, a, b);
}

template <Op op>
PyObject* unary(PyObject* self) {
  PyObject* ufunc = ufunc_of(op);
  return ufunc ? wrap(PyObject_CallOneArg(ufunc, tensor_array(self))) : nullptr;
}

PyObject* positive(PyObject* self) { return wrap(PyArray_NewCopy(as_array(tensor_array(self)), NPY_CORDER)); }

PyObject* compare(PyObject* a, PyObject* b, int op) {
  static constexpr Op kOps[] = {Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual, Op::Greater, Op::GreaterEqual};
  return apply(kOps[op], a, b);
}

/// The one element, for bool(), int(), float(), index().
template <PyObject* (*convert)(PyObject*)>
PyObject* convert_element(PyObject* self) {
  PyArrayObject* array = as_array(tensor_array(self));
  if (PyArray_SIZE(array) != 1) {
    PyErr_Format(PyExc_ValueError, "only a Tensor with one element can be converted to a Python scalar, got one with %zd",
                 static_cast<Py_ssize_t>(PyArray_SIZE(array)));
    return nullptr;
  }
  Ref<> item = Ref<>::steal(PyArray_GETITEM(array, PyArray_BYTES(array)));
  return item ? convert(item.get()) : nullptr;
}

int truth(PyObject* self) {
  PyArrayObject* array = as_array(tensor_array(self));
  if (PyArray_SIZE(array) != 1) {
    PyErr_SetString(PyExc_ValueError, "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()");
    return -1;
  }
  Ref<> item = Ref<>::steal(PyArray_GETITEM(array, PyArray_BYTES(array)));
  return item ? PyObject_IsTrue(item.get()) : -1;
}

Py_ssize_t length(PyObject* self) {
  PyArrayObject* array = as_array(tensor_array(self));
  if (PyArray_NDIM(array) == 0) {
    PyErr_SetString(PyExc_TypeError, "Not support len of a 0-D tensor");
    return -1;
  }
  return PyArray_DIM(array, 0);
}

/// A Tensor index or a tuple with Tensors in it, as NumPy takes it. New reference.
PyObject* plain_key(PyObject* key) {
  if (is_tensor(key)) return Py_NewRef(tensor_array(key));
  if (!PyTuple_CheckExact(key)) return Py_NewRef(key);
  Py_ssize_t n = PyTuple_GET_SIZE(key);
  PyObject* out = PyTuple_New(n);
  for (Py_ssize_t i = 0; out && i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    PyTuple_SET_ITEM(out, i, Py_NewRef(is_tensor(item) ? tensor_array(item) : item));
  }
  return out;
}

PyObject* get_item(PyObject* self, PyObject* key) {
  Ref<> plain = Ref<>::steal(plain_key(key));
  if (!plain) return nullptr;
  Ref<> part = Ref<>::steal(PyObject_GetItem(tensor_array(self), plain.get()));
  if (!part) return nullptr;
  Ref<> array = Ref<>::steal(PyArray_FROM_OF(part.get(), NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY | NPY_ARRAY_ENSUREARRAY));
  return array ? tensor_from_array(array.release()) : nullptr;
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support item deletion");
    return -1;
  }
  Ref<> holder;
  if (!acceptable(value, holder)) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_TypeError, "value must be a number, Tensor, list or tuple, got %s", Py_TYPE(value)->tp_name);
    return -1;
  }
  Ref<> plain = Ref<>::steal(plain_key(key));
  if (!plain) return -1;
  return PyObject_SetItem(tensor_array(self), plain.get(), is_tensor(value) ? tensor_array(value) : value);
}

// --- Methods ------------------------------------------------------------------------------------------------------

/// array.NAME(axis=, keepdims=[, dtype=]) as a tensor.
PyObject* reduce(PyObject* self, const char* name, PyObject* axis, int keepdims, std::optional<DType> dtype) {
  Ref<> method = Ref<>::steal(PyObject_GetAttrString(tensor_array(self), name));
  Ref<> keywords = Ref<>::steal(Py_BuildValue("{s:O,s:O}", "axis", axis, "keepdims", keepdims ? Py_True : Py_False));
  if (!method || !keywords) return nullptr;
  if (dtype) {
    Ref<> descr = Ref<>::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(number_of_dtype(*dtype))));
    if (PyDict_SetItemString(keywords.get(), "dtype", descr.get()) < 0) return nullptr;
  }
  Ref<> none = Ref<>::steal(PyTuple_New(0));
  return wrap(PyObject_Call(method.get(), none.get(), keywords.get()));
}

/// numpy.dtype -> DType of an argument named `dtype`; sets TypeError.
std::optional<DType> dtype_argument(PyObject* argument) {
  static PyObject* convert = package_attribute("framejit._dtypes", "numpy_dtype");
  if (!convert) return std::nullopt;
  Ref<> descr = Ref<>::steal(PyObject_CallOneArg(convert, argument));
  if (!descr) return std::nullopt;
  return dtype_of_descr(reinterpret_cast<PyArray_Descr*>(descr.get()));
}

template <bool mean>
PyObject* sum_or_mean(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject *axis = Py_None, *dtype = Py_None;
  int keepdims = 0;
  static const char* sum_names[] = {"axis", "dtype", "keepdims", nullptr};
  static const char* mean_names[] = {"axis", "keep_dims", nullptr};
  bool parsed = mean ? PyArg_ParseTupleAndKeywords(args, keywords, "|Op", const_cast<char**>(mean_names), &axis, &keepdims)
                     : PyArg_ParseTupleAndKeywords(args, keywords, "|OOp", const_cast<char**>(sum_names), &axis, &dtype, &keepdims);
  if (!parsed) return nullptr;
  std::optional<DType> out = mean ? dtype_of_tensor(self) : sum_dtype(dtype_of_tensor(self));
  if (dtype != Py_None && !(out = dtype_argument(dtype))) return nullptr;
  return reduce(self, mean ? "mean" : "sum", axis, keepdims, out);
}

template <const char* const* name>
PyObject* plain_reduction(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject* axis = Py_None;
  int keepdims = 0;
  static const char* names[] = {"axis", "keepdims", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|Op", const_cast<char**>(names), &axis, &keepdims)) return nullptr;
  return reduce(self, *name, axis, keepdims, std::nullopt);
}
constexpr const char *kMax = "max", *kMin = "min", *kAll = "all", *kAny = "any";

/// A copy, so that the tensor keeps its own memory to itself.
PyObject* asnumpy(PyObject* self, PyObject*) { return PyArray_NewCopy(as_array(tensor_array(self)), NPY_CORDER); }

PyObject* array_protocol(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject *dtype = Py_None, *copy = Py_None;
  static const char* names[] = {"dtype", "copy", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO", const_cast<char**>(names), &dtype, &copy)) return nullptr;
  if (copy == Py_False && dtype == Py_None) return Py_NewRef(tensor_array(self));
  if (dtype == Py_None) return asnumpy(self, nullptr);
  return PyObject_CallMethod(tensor_array(self), "astype", "O", dtype);
}

PyObject* astype(PyObject* self, PyObject* dtype) {
  std::optional<DType> target = dtype_argument(dtype);
  if (!target) return nullptr;
  return wrap(PyArray_Cast(as_array(tensor_array(self)), number_of_dtype(*target)));
}

PyObject* reshape(PyObject* self, PyObject* args) {
  Ref<> method = Ref<>::steal(PyObject_GetAttrString(tensor_array(self), "reshape"));
  Ref<> view = method ? Ref<>::steal(PyObject_Call(method.get(), args, nullptr)) : Ref<>();
  return view ? wrap(PyArray_NewCopy(as_array(view.get()), NPY_CORDER)) : nullptr;
}

PyObject* item(PyObject* self, PyObject* args) {
  Ref<> method = Ref<>::steal(PyObject_GetAttrString(tensor_array(self), "item"));
  return method ? PyObject_Call(method.get(), args, nullptr) : nullptr;
}

PyObject* reduce_for_pickle(PyObject* self, PyObject*) {
  return Py_BuildValue("(O(O))", reinterpret_cast<PyObject*>(the_type), tensor_array(self));
}

PyMethodDef methods[] = {
    {"asnumpy", asnumpy, METH_NOARGS, "asnumpy()\n--\n\nThe elements as a new ndarray of the same shape and dtype."},
    {"astype", astype, METH_O, "astype(dtype)\n--\n\nA new Tensor of the same shape with elements converted to `dtype`."},
    {"to", astype, METH_O, "to(dtype)\n--\n\nThe same as astype."},
    {"reshape", reshape, METH_VARARGS, "reshape(*shape)\n--\n\nA new Tensor of the same elements in C order; one dimension may be -1."},
    {"item", item, METH_VARARGS, "item(*index)\n--\n\nOne element as a Python number."},
    {"sum", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(sum_or_mean<false>)), METH_VARARGS | METH_KEYWORDS,
     "sum(axis=None, dtype=None, keepdims=False)\n--\n\nSum over `axis` (all by default). Integers and bools give int64."},
    {"mean", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(sum_or_mean<true>)), METH_VARARGS | METH_KEYWORDS,
     "mean(axis=None, keep_dims=False)\n--\n\nMean over `axis` (all by default), in the tensor's own dtype."},
    {"max", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(plain_reduction<&kMax>)), METH_VARARGS | METH_KEYWORDS,
     "max(axis=None, keepdims=False)\n--\n\nLargest element over `axis`; NaN if there is one."},
    {"min", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(plain_reduction<&kMin>)), METH_VARARGS | METH_KEYWORDS,
     "min(axis=None, keepdims=False)\n--\n\nSmallest element over `axis`; NaN if there is one."},
    {"all", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(plain_reduction<&kAll>)), METH_VARARGS | METH_KEYWORDS,
     "all(axis=None, keepdims=False)\n--\n\nAre all elements over `axis` nonzero?"},
    {"any", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(plain_reduction<&kAny>)), METH_VARARGS | METH_KEYWORDS,
     "any(axis=None, keepdims=False)\n--\n\nIs any element over `axis` nonzero?"},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(array_protocol)), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__reduce__", reduce_for_pickle, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

// --- Attributes ---------------------------------------------------------------------------------------------------

PyObject* get_shape(PyObject* self, void*) { return PyObject_GetAttrString(tensor_array(self), "shape"); }
PyObject* get_strides(PyObject* self, void*) { return PyObject_GetAttrString(tensor_array(self), "strides"); }
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(PyArray_NDIM(as_array(tensor_array(self)))); }
PyObject* get_size(PyObject* self, void*) { return PyLong_FromSsize_t(PyArray_SIZE(as_array(tensor_array(self)))); }
PyObject* get_itemsize(PyObject* self, void*) { return PyObject_GetAttrString(tensor_array(self), "itemsize"); }
PyObject* get_nbytes(PyObject* self, void*) { return PyObject_GetAttrString(tensor_array(self), "nbytes"); }
PyObject* get_dtype(PyObject* self, void*) { return tensor_dtype_object(dtype_of_tensor(self)); }
PyObject* get_transposed(PyObject* self, void*) {
  Ref<> view = Ref<>::steal(PyArray_Transpose(as_array(tensor_array(self)), nullptr));
  return view ? wrap(PyArray_NewCopy(as_array(view.get()), NPY_CORDER)) : nullptr;
}

PyGetSetDef attributes[] = {{"shape", get_shape, nullptr, "Sizes of the dimensions, a tuple of ints.", nullptr},
                            {"dtype", get_dtype, nullptr, "Element type, such as framejit.float32.", nullptr},
                            {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
                            {"size", get_size, nullptr, "Number of elements.", nullptr},
                            {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
                            {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
                            {"strides", get_strides, nullptr, "Bytes from one element to the next along each dimension.", nullptr},
                            {"T", get_transposed, nullptr, "A new Tensor with the dimensions in reverse order.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

// --- Life -----------------------------------------------------------------------------------------------------------

PyObject* make(PyTypeObject*, PyObject* args, PyObject* keywords) {
  static PyObject* as_contiguous = package_attribute("framejit._tensor", "as_array");
  PyObject* array = as_contiguous ? PyObject_Call(as_contiguous, args, keywords) : nullptr;
  return array ? tensor_from_array(array) : nullptr;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (reinterpret_cast<TensorObject*>(self)->weakrefs) PyObject_ClearWeakRefs(self);
  Py_XDECREF(tensor_array(self));
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* show(PyObject* self, const char* how) {
  Ref<> function = Ref<>::steal(package_attribute("framejit._tensor", how));
  return function ? PyObject_CallFunctionObjArgs(function.get(), tensor_array(self), nullptr) : nullptr;
}
PyObject* repr(PyObject* self) { return show(self, "tensor_repr"); }
PyObject* str(PyObject* self) { return PyObject_Str(tensor_array(self)); }

/// Although == is elementwise.
Py_hash_t hash_by_identity(PyObject* self) { return _Py_HashPointer(self); }

PyObject* iterate(PyObject* self) { return PySeqIter_New(self); }
PyObject* sequence_item(PyObject* self, Py_ssize_t i) {
  Ref<> key = Ref<>::steal(PyLong_FromSsize_t(i));
  return key ? get_item(self, key.get()) : nullptr;
}

PyObject* to_int(PyObject* o) { return PyNumber_Long(o); }
PyObject* to_float(PyObject* o) { return PyNumber_Float(o); }
PyObject* to_index(PyObject* o) { return PyNumber_Index(o); }

#define FRAMEJIT_SLOT(name, function) {name, reinterpret_cast<void*>(function)}
PyType_Slot slots[] = {
    FRAMEJIT_SLOT(Py_tp_new, make),
    FRAMEJIT_SLOT(Py_tp_dealloc, dealloc),
    FRAMEJIT_SLOT(Py_tp_repr, repr),
    FRAMEJIT_SLOT(Py_tp_str, str),
    FRAMEJIT_SLOT(Py_tp_hash, hash_by_identity),
    FRAMEJIT_SLOT(Py_tp_iter, iterate),
    FRAMEJIT_SLOT(Py_tp_methods, methods),
    FRAMEJIT_SLOT(Py_tp_getset, attributes),
    FRAMEJIT_SLOT(Py_tp_members, members),
    FRAMEJIT_SLOT(Py_tp_richcompare, compare),
    FRAMEJIT_SLOT(Py_nb_add, binary<Op::Add>),
    FRAMEJIT_SLOT(Py_nb_subtract, binary<Op::Subtract>),
    FRAMEJIT_SLOT(Py_nb_multiply, binary<Op::Multiply>),
    FRAMEJIT_SLOT(Py_nb_true_divide, binary<Op::Divide>),
    FRAMEJIT_SLOT(Py_nb_floor_divide, binary<Op::FloorDivide>),
    FRAMEJIT_SLOT(Py_nb_remainder, binary<Op::Remainder>),
    FRAMEJIT_SLOT(Py_nb_matrix_multiply, binary<Op::MatMul>),
    FRAMEJIT_SLOT(Py_nb_and, binary<Op::BitwiseAnd>),
    FRAMEJIT_SLOT(Py_nb_or, binary<Op::BitwiseOr>),
    FRAMEJIT_SLOT(Py_nb_xor, binary<Op::BitwiseXor>),
    FRAMEJIT_SLOT(Py_nb_power, power),
    FRAMEJIT_SLOT(Py_nb_negative, unary<Op::Negative>),
    FRAMEJIT_SLOT(Py_nb_absolute, unary<Op::Absolute>),
    FRAMEJIT_SLOT(Py_nb_invert, unary<Op::Invert>),
    FRAMEJIT_SLOT(Py_nb_positive, positive),
    FRAMEJIT_SLOT(Py_nb_bool, truth),
    FRAMEJIT_SLOT(Py_nb_int, convert_element<to_int>),
    FRAMEJIT_SLOT(Py_nb_float, convert_element<to_float>),
    FRAMEJIT_SLOT(Py_nb_index, convert_element<to_index>),
    FRAMEJIT_SLOT(Py_mp_length, length),
    FRAMEJIT_SLOT(Py_mp_subscript, get_item),
    FRAMEJIT_SLOT(Py_mp_ass_subscript, set_item),
    FRAMEJIT_SLOT(Py_sq_item, sequence_item),
    {Py_tp_doc,
     const_cast<char*>("Tensor(input_data=None, dtype=None, shape=None)\n--\n\n"
                       "An array with MindSpore's semantics.\n\n"
                       "Parameters\n----------\n"
                       "input_data : Tensor, numpy.ndarray, int, float, bool, list or tuple\n"
                       "    The elements. An int gives int64, a float float32; an ndarray keeps its dtype. They are copied.\n"
                       "dtype : framejit dtype, optional\n    Converts the elements.\n"
                       "shape : tuple of int, optional\n    Checked against the data.\n\n"
                       "Examples\n--------\n"
                       ">>> import numpy as np, framejit as fj\n"
                       ">>> fj.Tensor(np.ones((2, 3)), fj.float32).shape\n(2, 3)\n")},
    {0, nullptr}};
#undef FRAMEJIT_SLOT

PyType_Spec spec = {"framejit._core.Tensor", sizeof(TensorObject), 0, Py_TPFLAGS_DEFAULT, slots};

bool init(PyObject* module) {
  the_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!the_type) return false;
  return PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(the_type)) == 0;
}
const ModulePart part(40, init);

}  // namespace

PyTypeObject* tensor_type() { return the_type; }

PyObject* tensor_from_array(PyObject* array) {
  PyObject* self = the_type->tp_alloc(the_type, 0);
  if (!self) {
    Py_DECREF(array);
    return nullptr;
  }
  auto* tensor = reinterpret_cast<TensorObject*>(self);
  tensor->array = array;
  tensor->weakrefs = nullptr;
  return self;
}

PyObject* tensor_dtype_object(DType dtype) {
  static std::array<PyObject*, graph::kDTypeCount> table{};
  static constexpr std::array<const char*, graph::kDTypeCount> kNames = {
      "bool_",  "int8",   "int16",   "int32",    "int64",   "uint8",   "uint16",   "uint32",
      "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  PyObject*& entry = table[static_cast<std::size_t>(dtype)];
  if (!entry) entry = package_attribute("framejit._dtypes", kNames[static_cast<std::size_t>(dtype)]);
  return Py_XNewRef(entry);
}

}  // namespace framejit::ext
