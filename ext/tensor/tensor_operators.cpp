// Eager operators: a kernel where the operands lie in memory one element after the other, else NumPy's ufunc. Nothing
// warns.
#include "ext/tensor/tensor_operators.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "capture/python_names.h"
#include "ext/arrays/errstate.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/promotion.h"
#include "ext/arrays/result_arrays.h"
#include "ext/module/module.h"
#include "ext/module/tape_hook.h"
#include "ext/tensor/tensor.h"
#include "ext/tensor/tensor_kernels.h"
#include "ext/tensor/tensor_matmul.h"

namespace framejit::ext::tensor {

using arrays::is_tensor;
using arrays::tensor_array;
using arrays::tensor_from_array;
using arrays::tensor_type;
using capture::Once;
using capture::Ref;
using graph::DType;
using graph::Op;

namespace {

PyArrayObject* array_of(PyObject* tensor) { return arrays::as_ndarray(tensor_array(tensor)); }

PyObject* promotion_error(Op op, DType a, DType b) {
  PyErr_Format(PyExc_TypeError, "For '%s', implicit conversion between %s and %s is not supported.",
               std::string(graph::name_of(op)).c_str(), std::string(graph::name_of(a)).c_str(),
               std::string(graph::name_of(b)).c_str());
  return nullptr;
}

/// The number as an element of `dtype`, where that is plain: `bits` has its bytes.
bool fill_number(PyObject* number, DType dtype, graph::Scalar& bits) {
  if (PyFloat_CheckExact(number) && (dtype == DType::F32 || dtype == DType::F64)) {
    const double value = PyFloat_AS_DOUBLE(number);
    const auto narrow = static_cast<float>(value);
    if (dtype == DType::F64) std::memcpy(&bits.lo, &value, sizeof value);
    else std::memcpy(&bits.lo, &narrow, sizeof narrow);
    return dtype == DType::F64 || std::isfinite(narrow) || !std::isfinite(value);
  }
  std::optional<graph::Scalar> packed = arrays::pack(number, dtype);
  if (!packed) return false;
  const std::array<uint8_t, 16> element = graph::element_of(dtype, *packed);
  std::memcpy(&bits, element.data(), sizeof bits);
  return true;
}

/// An operand for a kernel of `dtype`; `number` holds a Python number.
bool kernel_operand(PyObject* operand, DType dtype, graph::Scalar& number, KernelOperand& out) {
  if (!is_tensor(operand)) {
    out = {reinterpret_cast<const char*>(&number), true};
    return fill_number(operand, dtype, number);
  }
  PyArrayObject* array = array_of(operand);
  out = {PyArray_BYTES(array), PyArray_NDIM(array) == 0};
  return dtype_of_tensor(operand) == dtype && PyArray_ISCARRAY_RO(array);
}

/// The result of a kernel, or null with or without an exception set: then NumPy is asked.
PyObject* by_kernel(Op op, DType dtype, std::span<PyObject* const> operands) {
  if (!arrays::descr_of(dtype)) return nullptr;
  std::optional<Op> node = graph_operator(op, dtype);
  if (!node) return nullptr;
  std::array<graph::Scalar, 2> numbers;
  std::array<KernelOperand, 2> given;
  std::array<Ref<>, 2> held;  // a Tensor may get other data while a long kernel runs without the GIL
  PyArrayObject* shape = nullptr;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!kernel_operand(operands[i], dtype, numbers[i], given[i])) return nullptr;
    if (is_tensor(operands[i])) held[i] = Ref<>::share(tensor_array(operands[i]));
    if (given[i].single) continue;
    PyArrayObject* array = array_of(operands[i]);
    if (shape && !PyArray_SAMESHAPE(shape, array)) return nullptr;
    shape = array;
  }
  const int64_t count = shape ? PyArray_SIZE(shape) : 1;
  if (count == 0) return nullptr;
  const DType result = *graph::result_dtype(*node, dtype);
  Ref<> out =
      Ref<>::steal(arrays::new_c_array(result, shape ? PyArray_NDIM(shape) : 0, shape ? PyArray_DIMS(shape) : nullptr));
  if (!out) return nullptr;
  if (!run_kernel(*node, dtype, std::span(given.data(), operands.size()), count,
                  PyArray_BYTES(arrays::as_ndarray(out.get()))))
    return nullptr;
  return tensor_from_array(out.release());
}

/// The product of two Tensors by the core, or null as by_kernel.
PyObject* by_core(DType dtype, std::span<PyObject* const> operands) {
  std::array<Ref<>, 2> arrays;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!is_tensor(operands[i]) || dtype_of_tensor(operands[i]) != dtype) return nullptr;
    arrays[i] = Ref<>::share(tensor_array(operands[i]));
  }
  PyObject* product = core_matmul(arrays[0].get(), arrays[1].get());
  return product ? tensor_from_array(product) : nullptr;
}

/// The operand as an ndarray of `dtype`.
Ref<> operand_array(PyObject* operand, DType dtype) {
  PyArray_Descr* descr = tensor_descr(dtype);
  if (!descr) return {};
  if (is_tensor(operand)) {
    if (PyArray_TYPE(array_of(operand)) == descr->type_num) return Ref<>::share(tensor_array(operand));
    return Ref<>::steal(PyArray_CastToType(
        array_of(operand), reinterpret_cast<PyArray_Descr*>(Py_NewRef(reinterpret_cast<PyObject*>(descr))), 0));
  }
  return array_from(operand, dtype, 0);
}

/// The ufunc of an operator's row; SciPy is imported for its own. Null with an exception set where there is none.
/// Borrowed.
PyObject* numpy_ufunc(Op op) {
  static PyObject* matmul = PyObject_GetAttrString(arrays::numpy_module(), "matmul");
  if (op == Op::MatMul) return matmul;
  PyUFuncObject* ufunc = arrays::ufunc_of(op);
  if (!ufunc && arrays::is_of_scipy(op)) {
    Ref<> special = Ref<>::steal(PyImport_ImportModule("scipy.special"));
    if (!special) return nullptr;
    ufunc = arrays::ufunc_of(op);
  }
  if (!ufunc) PyErr_Format(PyExc_RuntimeError, "NumPy has no '%s'", std::string(graph::name_of(op)).c_str());
  return reinterpret_cast<PyObject*>(ufunc);
}

/// The power of signed integers, of which NumPy's ufunc raises if an exponent is negative. Borrowed.
PyObject* signed_power() {
  static constinit Once once;
  return once.get([]() -> PyObject* {
    Ref<> imported = Ref<>::steal(PyImport_ImportModule(python_names::kTensor));
    return imported ? PyObject_GetAttrString(imported.get(), "signed_power") : nullptr;
  });
}

PyObject* by_numpy(Op op, DType dtype, std::span<PyObject* const> operands) {
  std::array<Ref<>, 2> arrays;
  const arrays::ScopedErrState quiet(0);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (!(arrays[i] = operand_array(operands[i], dtype))) return nullptr;
  if (op == Op::MatMul) {
    PyObject* product = core_matmul(arrays[0].get(), arrays[1].get());
    if (product || PyErr_Occurred()) return product ? tensor_from_array(product) : nullptr;
  }
  if (op == Op::Subtract && dtype == DType::Bool) op = Op::LogicalXor;
  PyObject* ufunc = op == Op::Power && graph::is_signed_int(dtype) ? signed_power() : numpy_ufunc(op);
  if (!ufunc) return nullptr;
  return arrays::tensor_from_result(PyObject_CallFunctionObjArgs(ufunc, arrays[0].get(), arrays[1].get(), nullptr));
}

/// The result of an operator on operands that are converted to another dtype first, in `dtype`.
PyObject* by_wider_loop(Op op, DType wide, DType dtype, std::span<PyObject* const> operands) {
  std::array<Ref<>, 2> held;
  std::array<PyObject*, 2> given{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Ref<> array = operand_array(operands[i], wide);
    if (!array || !(held[i] = Ref<>::steal(tensor_from_array(array.release())))) return nullptr;
    given[i] = held[i].get();
  }
  const std::span<PyObject* const> converted(given.data(), operands.size());
  Ref<> result = Ref<>::steal(by_kernel(op, wide, converted));
  if (!result && PyErr_Occurred()) return nullptr;
  if (!result && !(result = Ref<>::steal(by_numpy(op, wide, converted)))) return nullptr;
  const arrays::ScopedErrState quiet(0);
  Ref<> narrow = operand_array(result.get(), dtype);
  return narrow ? tensor_from_array(narrow.release()) : nullptr;
}

/// May a Tensor that lives no longer than an operator hold this array itself?
bool may_be_held(PyObject* array) {
  return PyArray_CheckExact(array) && PyArray_ISCARRAY_RO(arrays::as_ndarray(array)) &&
         tensor_dtype_of(PyArray_DESCR(arrays::as_ndarray(array)));
}

/// Tensors and numbers as they are; arrays, lists and tuples made Tensors. False for anything else, with or without an
/// exception.
bool acceptable(PyObject*& operand, Ref<>& holder) {
  if (is_tensor(operand) || is_number_operand(operand)) return true;
  if (!PyArray_Check(operand) && !PyList_CheckExact(operand) && !PyTuple_CheckExact(operand)) return false;
  if (may_be_held(operand)) holder = Ref<>::steal(tensor_from_array(Py_NewRef(operand)));
  else holder = Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(tensor_type()), operand));
  operand = holder.get();
  return operand != nullptr;
}

PyObject* refused(Op op, PyObject* operand) {
  if (!PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "For '%s', the operands must be Tensors or numbers, but got %s.",
                 std::string(graph::name_of(op)).c_str(), Py_TYPE(operand)->tp_name);
  return nullptr;
}

}  // namespace

bool is_number_operand(PyObject* o) {
  return PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) ||
         PyArray_IsScalar(o, Number) || PyArray_IsScalar(o, Bool);
}

Promoted promoted_of(PyObject* o) {
  if (is_tensor(o)) return {dtype_of_tensor(o), false};
  if (PyBool_Check(o) || PyArray_IsScalar(o, Bool)) return {DType::Bool, true};
  if (PyLong_CheckExact(o) || PyArray_IsScalar(o, Integer)) return {DType::I64, true};
  if (PyComplex_CheckExact(o) || PyArray_IsScalar(o, ComplexFloating)) return {DType::C128, true};
  return {DType::F64, true};
}

PyObject* apply_binary(Op op, PyObject* a, PyObject* b) {
  PyObject* both[] = {a, b};
  if (PyObject * taped; module::on_tape(graph::name_of(op).data(), both, 2, taped)) return taped;
  Ref<> hold_a, hold_b;
  if (!acceptable(a, hold_a) || !acceptable(b, hold_b)) {
    if (PyErr_Occurred()) return nullptr;
    Py_RETURN_NOTIMPLEMENTED;
  }
  const Promoted left = promoted_of(a), right = promoted_of(b);
  std::optional<DType> promoted = promote(left, right);
  if (!promoted) return promotion_error(op, left.dtype, right.dtype);
  const DType dtype = compute_dtype(op, *promoted);
  PyObject* operands[] = {a, b};
  if (const DType wide = loop_dtype(op, dtype); wide != dtype) return by_wider_loop(op, wide, dtype, operands);
  if (PyObject* result = op == Op::MatMul ? by_core(dtype, operands) : by_kernel(op, dtype, operands)) return result;
  return PyErr_Occurred() ? nullptr : by_numpy(op, dtype, operands);
}

PyObject* apply_unary(Op op, PyObject* x) {
  if (PyObject * taped; module::on_tape(graph::name_of(op).data(), &x, 1, taped)) return taped;
  Ref<> holder;
  if (!is_tensor(x)) {
    holder = Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(tensor_type()), x));
    if (!holder) return nullptr;
    x = holder.get();
  }
  const DType dtype = compute_dtype(op, dtype_of_tensor(x));
  if (const DType wide = loop_dtype(op, dtype); wide != dtype) return by_wider_loop(op, wide, dtype, std::span(&x, 1));
  if (PyObject* result = by_kernel(op, dtype, std::span(&x, 1))) return result;
  return PyErr_Occurred() ? nullptr : by_numpy(op, dtype, std::span(&x, 1));
}

// --- The functions of the module: one for each elementwise row with one or two operands, and matmul.
// --------------------

namespace {

constexpr std::array<std::array<std::string_view, 5>, 2> kNames{
    {{"input", "x", "input_x", "dividend", "tensor"}, {"other", "y", "exponent", "mat2", "divisor"}}};

/// The operands in their order, from those by position and those by name.
bool in_order(const graph::OpDef& row, PyObject* const* args, Py_ssize_t count, PyObject* names,
              std::array<PyObject*, 2>& operands) {
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  const std::string function(row.name);
  if (count + named != row.operands) {
    PyErr_Format(PyExc_TypeError, "%s() takes %d arguments (%zd given)", function.c_str(), row.operands, count + named);
    return false;
  }
  std::copy_n(args, count, operands.begin());
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name, &size);
    if (!text) return false;
    const int at = operand_named(row, {text, static_cast<std::size_t>(size)});
    if (at < 0) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R", function.c_str(), name);
      return false;
    }
    if (operands[static_cast<std::size_t>(at)]) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument %R", function.c_str(), name);
      return false;
    }
    operands[static_cast<std::size_t>(at)] = args[count + i];
  }
  return true;
}

PyObject* call_operator(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const auto op = static_cast<Op>(PyLong_AsLong(self));
  const graph::OpDef& row = graph::def(op);
  std::array<PyObject*, 2> operands{};
  if (!in_order(row, args, count, names, operands)) return nullptr;
  auto [a, b] = operands;
  if (row.operands == 1) return apply_unary(op, a);
  Ref<> holder;
  if (!is_tensor(a) && !is_tensor(b)) {  // of two numbers
    holder = Ref<>::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(tensor_type()), a));
    if (!holder) return nullptr;
    a = holder.get();
  }
  Ref<> result = Ref<>::steal(apply_binary(op, a, b));
  if (result && result.get() == Py_NotImplemented) return refused(op, is_tensor(operands[0]) ? b : operands[0]);
  return result.release();
}

bool is_function(const graph::OpDef& row) {
  return row.op == Op::MatMul || (row.cls == graph::OpClass::Elementwise && row.operands <= 2);
}

/// The rows that have a function: (name, operands, NumPy's name, functions, methods, primitives, bounds at O1 or None).
PyObject* operators(PyObject*, PyObject*) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (const graph::OpDef& row : graph::kOps) {
    if (!list || !is_function(row)) continue;
    const auto text = [](std::string_view s) {
      return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
    };
    const bool own = has(row.own, graph::Own::Math | graph::Own::MathInFloat64);
    PyObject* ulps = own ? Py_BuildValue("(dd)", row.ulps.f32, row.ulps.f64) : Py_NewRef(Py_None);
    Ref<> tuple = Ref<>::steal(Py_BuildValue("(NiNNNNN)", text(row.name), row.operands, text(row.numpy),
                                             text(row.functions), text(row.methods), text(row.primitives), ulps));
    if (!tuple || PyList_Append(list.get(), tuple.get()) < 0) list = Ref<>();
  }
  return list.release();
}

PyMethodDef kTable[] = {{"_operators", operators, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

bool init(PyObject* module) {
  if (PyModule_AddFunctions(module, kTable) < 0) return false;
  static std::array<PyMethodDef, graph::kOpCount> methods{};
  static std::array<std::string, graph::kOpCount> names;
  static std::array<std::string, graph::kOpCount> signatures;
  for (const graph::OpDef& row : graph::kOps) {
    if (!is_function(row)) continue;
    const auto i = static_cast<std::size_t>(row.op);
    names[i] = row.name;
    const char* operands = row.operands == 1 ? "(input)" : row.op == Op::Power ? "(input, exponent)" : "(input, other)";
    signatures[i] = names[i] + operands + "\n--\n\n";
    methods[i] = {names[i].c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_operator)),
                  METH_FASTCALL | METH_KEYWORDS, signatures[i].c_str()};
    Ref<> number = Ref<>::steal(PyLong_FromSize_t(i));
    Ref<> home = Ref<>::steal(PyUnicode_FromString("framejit._core"));
    Ref<> function = number && home ? Ref<>::steal(PyCFunction_NewEx(&methods[i], number.get(), home.get())) : Ref<>();
    if (!function || PyModule_AddObjectRef(module, ("_op_" + names[i]).c_str(), function.get()) < 0) return false;
  }
  return true;
}
const module::ModulePart part(41, init);

}  // namespace

int operand_named(const graph::OpDef& row, std::string_view name) {
  for (std::size_t i = 0; i < row.operands; ++i)
    if (std::ranges::find(kNames[i], name) != kNames[i].end()) return static_cast<int>(i);
  return -1;
}

std::optional<Op> operator_of(PyObject* callable) {
  if (!PyCFunction_CheckExact(callable)) return std::nullopt;
  auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  if (function->m_ml->ml_meth != reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_operator)))
    return std::nullopt;
  return static_cast<Op>(PyLong_AsLong(function->m_self));
}

}  // namespace framejit::ext::tensor
