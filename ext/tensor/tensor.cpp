// Tensor: the type, its items and protocols. Operators are in tensor_operators.cpp, methods in Python
// (framejit/ops/_methods.py).
#include "ext/tensor/tensor.h"

#include <structmember.h>
#include "capture/py/interpreter.h"
#include "capture/python_names.h"

#include <array>

#include "ext/arrays/result_arrays.h"
#include "ext/module/module.h"
#include "ext/module/tape_hook.h"
#include "ext/tensor/tensor_operators.h"

namespace framejit::ext::tensor {

using arrays::is_tensor;
using arrays::tensor_array;
using arrays::tensor_type;
using arrays::TensorObject;
using capture::Once;
using capture::Ref;
using graph::DType;
using graph::Op;

namespace {

PyTypeObject* parameter_type = nullptr;  // set by Python, which derives it
int bfloat16_number = -1;                // of ml_dtypes, where it is installed

constexpr std::array<int, graph::kDTypeCount> kTypeNumbers = {
    NPY_BOOL,   NPY_INT8, NPY_INT16, NPY_INT32,   NPY_INT64,   NPY_UINT8,     NPY_UINT16,    NPY_UINT32,
    NPY_UINT64, NPY_HALF, -1,        NPY_FLOAT32, NPY_FLOAT64, NPY_COMPLEX64, NPY_COMPLEX128};

PyArrayObject* array_of(PyObject* tensor) { return arrays::as_ndarray(tensor_array(tensor)); }

PyObject* package_attribute(const char* module, const char* name) {
  Ref<> imported = Ref<>::steal(PyImport_ImportModule(module));
  return imported ? PyObject_GetAttrString(imported.get(), name) : nullptr;
}

/// A function of a Python module of the package. Borrowed.
PyObject* package_function(Once& once, const char* module, const char* name) {
  return once.get([=] { return package_attribute(module, name); });
}

PyObject* numpy_dtype_function() {
  static constinit Once once;
  return package_function(once, python_names::kDtypes, "numpy_dtype");
}

template <Op op>
PyObject* binary(PyObject* a, PyObject* b) {
  return apply_binary(op, a, b);
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return apply_binary(Op::Power, a, b);
}

template <Op op>
PyObject* unary(PyObject* self) {
  return apply_unary(op, self);
}

PyObject* positive(PyObject* self) {
  if (PyObject * taped; module::on_tape("positive", &self, 1, taped)) return taped;
  return arrays::tensor_from_result(PyArray_NewCopy(array_of(self), NPY_CORDER));
}

/// A Tensor equals no list or tuple, as in MindSpore.
PyObject* compare(PyObject* a, PyObject* b, int op) {
  static constexpr Op kOps[] = {Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual, Op::Greater, Op::GreaterEqual};
  if ((op == Py_EQ || op == Py_NE) && (PyList_Check(b) || PyTuple_Check(b))) Py_RETURN_NOTIMPLEMENTED;
  return apply_binary(kOps[op], a, b);
}

/// The one element, for bool(), int(), float(), index().
template <PyObject* (*convert)(PyObject*)>
PyObject* convert_element(PyObject* self) {
  PyArrayObject* array = array_of(self);
  if (PyArray_SIZE(array) != 1) {
    PyErr_Format(PyExc_ValueError,
                 "only a Tensor with one element can be converted to a Python scalar, got one with %zd",
                 static_cast<Py_ssize_t>(PyArray_SIZE(array)));
    return nullptr;
  }
  Ref<> item = Ref<>::steal(PyArray_GETITEM(array, PyArray_BYTES(array)));
  return item ? convert(item.get()) : nullptr;
}

int truth(PyObject* self) {
  PyArrayObject* array = array_of(self);
  if (PyArray_SIZE(array) != 1) {
    PyErr_SetString(PyExc_ValueError,
                    "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()");
    return -1;
  }
  Ref<> item = Ref<>::steal(PyArray_GETITEM(array, PyArray_BYTES(array)));
  return item ? PyObject_IsTrue(item.get()) : -1;
}

Py_ssize_t length(PyObject* self) {
  if (PyArray_NDIM(array_of(self)) == 0) {
    PyErr_SetString(PyExc_TypeError, "Not support len of a 0-D tensor");
    return -1;
  }
  return PyArray_DIM(array_of(self), 0);
}

/// `in`: equal to any element.
int contains(PyObject* self, PyObject* item) {
  Ref<> equal = Ref<>::steal(PyObject_RichCompare(self, item, Py_EQ));
  if (!equal || !is_tensor(equal.get())) return equal ? 0 : -1;
  Ref<> any = Ref<>::steal(PyArray_Any(array_of(equal.get()), NPY_RAVEL_AXIS, nullptr));
  return any ? PyObject_IsTrue(any.get()) : -1;
}

// --- Items ----------------------------------------------------------------------------------------------------------

/// An index as NumPy takes it, where it is a Tensor or holds one (also within a list). New reference.
PyObject* plain_key(PyObject* key) {
  if (is_tensor(key)) return Py_NewRef(tensor_array(key));
  const bool list = PyList_CheckExact(key);
  if (!list && !PyTuple_CheckExact(key)) return Py_NewRef(key);
  Py_ssize_t n = PySequence_Fast_GET_SIZE(key);
  Ref<> out = Ref<>::steal(list ? PyList_New(n) : PyTuple_New(n));
  for (Py_ssize_t i = 0; out && i < n; ++i) {
    PyObject* item = plain_key(PySequence_Fast_GET_ITEM(key, i));
    if (!item) return nullptr;
    if (list) PyList_SET_ITEM(out.get(), i, item);
    else PyTuple_SET_ITEM(out.get(), i, item);
  }
  return out.release();
}

PyObject* get_item(PyObject* self, PyObject* key) {
  PyObject* both[] = {self, key};
  if (PyObject * taped; module::on_tape("getitem", both, 2, taped)) return taped;
  Ref<> plain = Ref<>::steal(plain_key(key));
  return plain ? arrays::tensor_from_result(PyObject_GetItem(tensor_array(self), plain.get())) : nullptr;
}

/// What is assigned to items: a Tensor of shape (1,) fits one element too. New reference.
PyObject* plain_value(PyObject* value) {
  if (!is_tensor(value)) return plain_key(value);
  PyArrayObject* array = array_of(value);
  if (PyArray_NDIM(array) != 1 || PyArray_DIM(array, 0) != 1) return Py_NewRef(tensor_array(value));
  PyArray_Dims scalar{nullptr, 0};
  return PyArray_Newshape(array, &scalar, NPY_CORDER);
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support item deletion");
    return -1;
  }
  if (!is_tensor(value) && !is_number_operand(value) && !PyList_CheckExact(value) && !PyTuple_CheckExact(value)) {
    PyErr_Format(PyExc_TypeError, "value must be a number, Tensor, list or tuple, got %s", Py_TYPE(value)->tp_name);
    return -1;
  }
  PyObject* all[] = {self, key, value};
  if (PyObject * taped; module::on_tape("setitem", all, 3, taped)) {
    Py_XDECREF(taped);
    return taped ? 0 : -1;
  }
  Ref<> plain = Ref<>::steal(plain_key(key)), given = Ref<>::steal(plain_value(value));
  return plain && given ? PyObject_SetItem(tensor_array(self), plain.get(), given.get()) : -1;
}

// --- Exchange -------------------------------------------------------------------------------------------------------

/// A view: it shares the Tensor's memory, its shape and flags are its own.
PyObject* asnumpy(PyObject* self, PyObject*) { return PyArray_View(array_of(self), nullptr, nullptr); }

PyObject* array_protocol(PyObject* self, PyObject* args, PyObject* keywords) {
  PyObject *dtype = Py_None, *copy = Py_None;
  static const char* names[] = {"dtype", "copy", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO", const_cast<char**>(names), &dtype, &copy)) return nullptr;
  Ref<> view = Ref<>::steal(asnumpy(self, nullptr));
  if (!view || (dtype == Py_None && copy != Py_True)) return view.release();
  if (dtype == Py_None) return PyArray_NewCopy(arrays::as_ndarray(view.get()), NPY_CORDER);
  Ref<> method = Ref<>::steal(PyObject_GetAttrString(view.get(), "astype"));
  Ref<> given = Ref<>::steal(PyTuple_Pack(1, dtype));
  Ref<> options = Ref<>::steal(Py_BuildValue("{s:O}", "copy", copy == Py_True ? Py_True : Py_False));
  return method && given && options ? PyObject_Call(method.get(), given.get(), options.get()) : nullptr;
}

/// NumPy's functions: framejit/_tensors/_tensor.py says what they make of Tensors.
PyObject* array_function(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  static constinit Once once;
  PyObject* function = package_function(once, python_names::kTensor, "array_function");
  if (!function) return nullptr;
  if (count != 4) {
    PyErr_Format(PyExc_TypeError, "__array_function__() takes 4 arguments (%zd given)", count);
    return nullptr;
  }
  PyObject* all[] = {self, args[0], args[1], args[2], args[3]};
  return PyObject_Vectorcall(function, all, 5, nullptr);
}

PyObject* array_namespace(PyObject* self, PyObject* args, PyObject* keywords) {
  static constinit Once once;
  PyObject* version = Py_None;
  static const char* names[] = {"api_version", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$O:__array_namespace__", const_cast<char**>(names), &version))
    return nullptr;
  PyObject* function = package_function(once, python_names::kArrayApi, "namespace_of");
  return function ? PyObject_CallFunctionObjArgs(function, self, version, nullptr) : nullptr;
}

PyObject* to_device(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"", "stream", nullptr};
  PyObject *device = nullptr, *stream = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$O:to_device", const_cast<char**>(names), &device, &stream))
    return nullptr;
  const bool cpu = PyUnicode_Check(device) && (PyUnicode_CompareWithASCIIString(device, "CPU") == 0 ||
                                               PyUnicode_CompareWithASCIIString(device, "cpu") == 0);
  if (cpu && stream == Py_None) return Py_NewRef(self);
  PyErr_Format(PyExc_ValueError, "For 'to_device', the %s must be %s, but got %R.", cpu ? "'stream'" : "'device'",
               cpu ? "None" : "'CPU'", cpu ? stream : device);
  return nullptr;
}

PyObject* complex_of(PyObject* number) {
  const Py_complex value = PyComplex_AsCComplex(number);
  return value.real == -1.0 && PyErr_Occurred() ? nullptr : PyComplex_FromCComplex(value);
}

PyObject* to_complex(PyObject* self, PyObject*) { return convert_element<complex_of>(self); }

/// bfloat16 has no format there: NumPy, which would take its bytes for those of nothing in particular, asks for the
/// array then.
int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  if ((flags & PyBUF_FORMAT) && PyArray_TYPE(array_of(self)) == bfloat16_number) {
    PyErr_SetString(PyExc_BufferError, "a bfloat16 Tensor has no format in the buffer protocol: use asnumpy()");
    view->obj = nullptr;
    return -1;
  }
  return PyObject_GetBuffer(tensor_array(self), view, flags);
}

PyObject* reduce_for_pickle(PyObject* self, PyObject*) {
  if (PyObject* dict = reinterpret_cast<TensorObject*>(self)->dict; dict && PyDict_GET_SIZE(dict)) {
    static constexpr const char* kHooks = "_gradient_hooks";  // framejit/_autodiff/_tape.py: they stay with the Tensor
    Ref<> state = Ref<>::steal(PyDict_Copy(dict));
    if (!state || (PyDict_GetItemString(state.get(), kHooks) && PyDict_DelItemString(state.get(), kHooks) < 0))
      return nullptr;
    if (PyDict_GET_SIZE(state.get()))
      return Py_BuildValue("(O(O)O)", reinterpret_cast<PyObject*>(tensor_type()), tensor_array(self), state.get());
  }
  return Py_BuildValue("(O(O))", reinterpret_cast<PyObject*>(tensor_type()), tensor_array(self));
}

/// Makes the memory of `other`, a Tensor, that of this one too: what assigning the data of a Parameter means.
PyObject* set_data(PyObject* self, PyObject* other) {
  if (!is_tensor(other)) {
    PyErr_Format(PyExc_TypeError, "the data must be a Tensor, but got %s", Py_TYPE(other)->tp_name);
    return nullptr;
  }
  PyObject* old = tensor_array(self);
  reinterpret_cast<TensorObject*>(self)->array = Py_NewRef(tensor_array(other));
  Py_DECREF(old);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"asnumpy", asnumpy, METH_NOARGS,
     "asnumpy()\n--\n\nThe elements as an ndarray of the same shape and dtype, over the same memory."},
    {"_set_data", set_data, METH_O, nullptr},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(array_protocol)), METH_VARARGS | METH_KEYWORDS,
     nullptr},
    {"__array_function__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(array_function)), METH_FASTCALL,
     nullptr},
    {"__array_namespace__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(array_namespace)),
     METH_VARARGS | METH_KEYWORDS,
     "__array_namespace__($self, *, api_version=None)\n--\n\nThe namespace of the array API standard: "
     "framejit.array_api."},
    {"to_device", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(to_device)), METH_VARARGS | METH_KEYWORDS,
     "to_device($self, device, /, *, stream=None)\n--\n\nThe Tensor itself: 'CPU' is the only device."},
    {"__complex__", to_complex, METH_NOARGS, nullptr},
    {"__reduce__", reduce_for_pickle, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyObject* int_tuple(int n, const npy_intp* values) {
  PyObject* out = PyTuple_New(n);
  for (int i = 0; out && i < n; ++i) PyTuple_SET_ITEM(out, i, PyLong_FromSsize_t(values[i]));
  return out;
}
PyObject* get_shape(PyObject* self, void*) {
  return int_tuple(PyArray_NDIM(array_of(self)), PyArray_DIMS(array_of(self)));
}
PyObject* get_strides(PyObject* self, void*) {
  return int_tuple(PyArray_NDIM(array_of(self)), PyArray_STRIDES(array_of(self)));
}
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(PyArray_NDIM(array_of(self))); }
PyObject* get_size(PyObject* self, void*) { return PyLong_FromSsize_t(PyArray_SIZE(array_of(self))); }
PyObject* get_itemsize(PyObject* self, void*) { return PyLong_FromLong(graph::size_of(dtype_of_tensor(self))); }
PyObject* get_nbytes(PyObject* self, void*) { return PyLong_FromSsize_t(PyArray_NBYTES(array_of(self))); }
PyObject* get_dtype(PyObject* self, void*) { return tensor_dtype_object(dtype_of_tensor(self)); }

// Attributes that programs set are in a dict, which can be part of a cycle.

void track_with_dict(PyObject* self) {
  if (reinterpret_cast<TensorObject*>(self)->dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
}

PyObject* get_dict(PyObject* self, void* context) {
  PyObject* dict = PyObject_GenericGetDict(self, context);
  track_with_dict(self);
  return dict;
}

int set_dict(PyObject* self, PyObject* value, void* context) {
  const int result = PyObject_GenericSetDict(self, value, context);
  track_with_dict(self);
  return result;
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  const int result = PyObject_GenericSetAttr(self, name, value);
  track_with_dict(self);
  return result;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(tensor_array(self));
  Py_VISIT(reinterpret_cast<TensorObject*>(self)->dict);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<TensorObject*>(self)->dict);
  return 0;
}

PyGetSetDef attributes[] = {
    {"shape", get_shape, nullptr, "Sizes of the dimensions, a tuple of ints.", nullptr},
    {"dtype", get_dtype, nullptr, "Element type, such as framejit.float32.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"size", get_size, nullptr, "Number of elements.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"strides", get_strides, nullptr, "Bytes from one element to the next along each dimension.", nullptr},
    {"__dict__", get_dict, set_dict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weakrefs), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

// --- Life -----------------------------------------------------------------------------------------------------------

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  if (module::tape_hook && type == tensor_type()) {
    PyObject* both[] = {args, keywords ? keywords : Py_None};
    if (PyObject * taped; module::on_tape("Tensor", both, 2, taped)) return taped;
  }
  static constinit Once once;
  PyObject* as_contiguous = package_function(once, python_names::kTensor, "as_array");
  if (!as_contiguous) return nullptr;
  const arrays::UseFramejitAllocator memory;
  PyObject* array = PyObject_Call(as_contiguous, args, keywords);
  if (!array || is_tensor(array)) return array;  // a Tensor: one that only says what shapes there will be
  return arrays::new_tensor(type, array);
}

PyObject* repr(PyObject* self) {
  static constinit Once once;
  PyObject* show = package_function(once, python_names::kTensor, "tensor_repr");
  return show ? PyObject_CallOneArg(show, self) : nullptr;
}
PyObject* str(PyObject* self) { return PyObject_Str(tensor_array(self)); }

/// Although == is elementwise.
Py_hash_t hash_by_identity(PyObject* self) { return capture::hash_pointer(self); }

PyObject* iterate(PyObject* self) {
  if (PyArray_NDIM(array_of(self))) return PySeqIter_New(self);
  PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
  return nullptr;
}
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
    FRAMEJIT_SLOT(Py_tp_dealloc, arrays::free_tensor),
    FRAMEJIT_SLOT(Py_tp_traverse, traverse),
    FRAMEJIT_SLOT(Py_tp_clear, clear),
    FRAMEJIT_SLOT(Py_tp_setattro, set_attribute),
    FRAMEJIT_SLOT(Py_tp_repr, repr),
    FRAMEJIT_SLOT(Py_tp_str, str),
    FRAMEJIT_SLOT(Py_tp_hash, hash_by_identity),
    FRAMEJIT_SLOT(Py_tp_iter, iterate),
    FRAMEJIT_SLOT(Py_tp_methods, methods),
    FRAMEJIT_SLOT(Py_tp_getset, attributes),
    FRAMEJIT_SLOT(Py_tp_members, members),
    FRAMEJIT_SLOT(Py_tp_richcompare, compare),
    FRAMEJIT_SLOT(Py_bf_getbuffer, get_buffer),
    FRAMEJIT_SLOT(Py_nb_add, binary<Op::Add>),
    FRAMEJIT_SLOT(Py_nb_subtract, binary<Op::Subtract>),
    FRAMEJIT_SLOT(Py_nb_multiply, binary<Op::Multiply>),
    FRAMEJIT_SLOT(Py_nb_true_divide, binary<Op::Divide>),
    FRAMEJIT_SLOT(Py_nb_floor_divide, binary<Op::FloorDivide>),
    FRAMEJIT_SLOT(Py_nb_remainder, binary<Op::Remainder>),
    FRAMEJIT_SLOT(Py_nb_matrix_multiply, binary<Op::MatMul>),
    FRAMEJIT_SLOT(Py_nb_lshift, binary<Op::LeftShift>),
    FRAMEJIT_SLOT(Py_nb_rshift, binary<Op::RightShift>),
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
    FRAMEJIT_SLOT(Py_sq_contains, contains),
    {Py_tp_doc,
     const_cast<char*>(
         "Tensor(input_data=None, dtype=None, shape=None, init=None)\n--\n\n"
         "An array with MindSpore's semantics.\n\n"
         "Parameters\n----------\n"
         "input_data : Tensor, numpy.ndarray, int, float, bool, list or tuple\n"
         "    The elements. An int gives int64, a float float32; an ndarray keeps its dtype. They are copied.\n"
         "dtype : framejit dtype, optional\n    Converts the elements.\n"
         "shape : tuple of int, optional\n    Checked against the data; with `init`, the shape.\n"
         "init : initializer, optional\n    Makes the elements, in place of `input_data`.\n\n"
         "Examples\n--------\n"
         ">>> import numpy as np, framejit as fj\n"
         ">>> fj.Tensor(np.ones((2, 3)), fj.float32).shape\n(2, 3)\n")},
    {0, nullptr}};
#undef FRAMEJIT_SLOT

PyType_Spec spec = {"framejit._core.Tensor", sizeof(TensorObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

/// Tells the module of the classes and dtypes that Python defines.
PyObject* set_parameter_type(PyObject*, PyObject* type) {
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type())) {
    PyErr_SetString(PyExc_TypeError, "not a subtype of Tensor");
    return nullptr;
  }
  parameter_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
  Py_RETURN_NONE;
}

PyObject* set_bfloat16(PyObject*, PyObject* descr) {
  if (!PyArray_DescrCheck(descr)) {
    PyErr_SetString(PyExc_TypeError, "not a numpy.dtype");
    return nullptr;
  }
  bfloat16_number = reinterpret_cast<PyArray_Descr*>(descr)->type_num;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_set_parameter_type", set_parameter_type, METH_O, nullptr},
                           {"_set_bfloat16", set_bfloat16, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

bool init(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return false;
  arrays::set_tensor_type(reinterpret_cast<PyTypeObject*>(type));
  return PyModule_AddObjectRef(module, "Tensor", type) == 0 && PyModule_AddFunctions(module, functions) == 0;
}
const module::ModulePart part(40, init);

}  // namespace

bool is_captured_tensor_type(PyTypeObject* type) { return type == tensor_type() || (type == parameter_type && type); }

std::optional<DType> tensor_dtype_of(PyArray_Descr* descr) {
  if (descr->type_num == bfloat16_number) return DType::BF16;
  for (int i = 0; i < graph::kDTypeCount; ++i)
    if (kTypeNumbers[static_cast<std::size_t>(i)] == descr->type_num) return static_cast<DType>(i);
  // A C type that shares its size with a numbered one (long long).
  const bool is_signed = descr->kind == 'i';
  if (!is_signed && descr->kind != 'u') return std::nullopt;
  for (DType t : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64})
    if (graph::size_of(t) == PyDataType_ELSIZE(descr) && graph::is_signed_int(t) == is_signed) return t;
  return std::nullopt;
}

DType dtype_of_tensor(PyObject* tensor) {
  return tensor_dtype_of(PyArray_DESCR(array_of(tensor))).value_or(DType::F64);
}

PyArray_Descr* tensor_descr(DType dtype) {
  static std::array<PyArray_Descr*, graph::kDTypeCount> table{};
  PyArray_Descr*& entry = table[static_cast<std::size_t>(dtype)];
  if (!entry && dtype == DType::BF16 && bfloat16_number < 0) {
    // Imports the package that defines it.
    PyObject* convert = numpy_dtype_function();
    Ref<> name = Ref<>::steal(PyUnicode_FromString("bfloat16"));
    Ref<> loaded = convert && name ? Ref<>::steal(PyObject_CallOneArg(convert, name.get())) : Ref<>();
    if (!loaded) return nullptr;
  }
  const int number = dtype == DType::BF16 ? bfloat16_number : kTypeNumbers[static_cast<std::size_t>(dtype)];
  if (!entry && number >= 0) entry = PyArray_DescrFromType(number);
  return entry;
}

Ref<> array_from(PyObject* object, DType dtype, int flags) {
  PyArray_Descr* descr = tensor_descr(dtype);
  if (!descr) return {};
  Ref<> wide;
  if (PyLong_CheckExact(object) && graph::is_int(dtype) && !arrays::pack(object, dtype)) {
    wide = Ref<>::steal(PyArray_FromAny(object, PyArray_DescrFromType(NPY_INT64), 0, 0, 0, nullptr));
    if (!wide) return {};
  }
  Py_INCREF(descr);
  return Ref<>::steal(PyArray_FromAny(wide ? wide.get() : object, descr, 0, 0, NPY_ARRAY_FORCECAST | flags, nullptr));
}

PyObject* tensor_dtype_object(DType dtype) {
  static std::array<PyObject*, graph::kDTypeCount> table{};
  static constexpr std::array<const char*, graph::kDTypeCount> kNames = {
      "bool_",  "int8",    "int16",    "int32",   "int64",   "uint8",     "uint16",    "uint32",
      "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  PyObject*& entry = table[static_cast<std::size_t>(dtype)];
  if (!entry) entry = package_attribute(python_names::kDtypes, kNames[static_cast<std::size_t>(dtype)]);
  return Py_XNewRef(entry);
}

std::optional<DType> dtype_from_argument(PyObject* argument) {
  PyObject* convert = numpy_dtype_function();
  for (int i = 0; i < graph::kDTypeCount; ++i) {
    Ref<> object = Ref<>::steal(tensor_dtype_object(static_cast<DType>(i)));
    if (object.get() == argument) return static_cast<DType>(i);
  }
  Ref<> descr = convert ? Ref<>::steal(PyObject_CallOneArg(convert, argument)) : Ref<>();
  if (!descr) return std::nullopt;
  std::optional<DType> dtype = tensor_dtype_of(reinterpret_cast<PyArray_Descr*>(descr.get()));
  if (!dtype) PyErr_Format(PyExc_TypeError, "%R is no dtype of framejit", argument);
  return dtype;
}

}  // namespace framejit::ext::tensor
