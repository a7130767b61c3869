// The Tensor frontend: what eager Tensors do (tensor.cpp), as graph nodes. Both ask tensor_promotion.h.
#include "ext/frontends/tensor_frontend.h"

#include <opcode.h>  // NB_ADD and its like

#include <algorithm>
#include <array>

#include "capture/python_names.h"
#include "codegen/kernel.h"
#include "ext/arrays/numpy_api.h"
#include "ext/frontends/numpy/index.h"
#include "ext/frontends/numpy/ops.h"
#include "ext/module/control.h"
#include "ext/tensor/tensor.h"
#include "ext/tensor/tensor_functions.h"
#include "ext/tensor/tensor_matmul.h"
#include "ext/tensor/tensor_operators.h"
#include "ext/tensor/tensor_promotion.h"
#include "graph/layout.h"
#include "graph/network_operators.h"

namespace framejit::ext::frontends {

using arrays::tensor_type;
using capture::Keyword;
using capture::SourceRef;
using capture::Unary;
using tensor::Promoted;
using tensor::TensorFunction;

namespace {

Captured<Value*> tensor(Session& session, graph::BuildResult built) {
  if (!built) return break_at(BreakId::WouldRaise, built.error().message);
  return session.values().array(*built, Wrap::Tensor);
}

/// Operators in the order of NB_ADD, ...; in-place forms rebind, so they are the same.
struct BinaryRow {
  int nb, nb_inplace;
  Op op;
};
constexpr BinaryRow kBinary[] = {
    {NB_ADD, NB_INPLACE_ADD, Op::Add},
    {NB_SUBTRACT, NB_INPLACE_SUBTRACT, Op::Subtract},
    {NB_MULTIPLY, NB_INPLACE_MULTIPLY, Op::Multiply},
    {NB_TRUE_DIVIDE, NB_INPLACE_TRUE_DIVIDE, Op::Divide},
    {NB_FLOOR_DIVIDE, NB_INPLACE_FLOOR_DIVIDE, Op::FloorDivide},
    {NB_REMAINDER, NB_INPLACE_REMAINDER, Op::Remainder},
    {NB_POWER, NB_INPLACE_POWER, Op::Power},
    {NB_MATRIX_MULTIPLY, NB_INPLACE_MATRIX_MULTIPLY, Op::MatMul},
    {NB_LSHIFT, NB_INPLACE_LSHIFT, Op::LeftShift},
    {NB_RSHIFT, NB_INPLACE_RSHIFT, Op::RightShift},
    {NB_AND, NB_INPLACE_AND, Op::BitwiseAnd},
    {NB_OR, NB_INPLACE_OR, Op::BitwiseOr},
    {NB_XOR, NB_INPLACE_XOR, Op::BitwiseXor},
};

bool is_tensor_value(const Value& value) { return value.is_array() && value.wrap() == Wrap::Tensor; }

/// A Python number's part in promotion; nothing for what is no number.
std::optional<Promoted> promoted_of(Session& session, const Value& value) {
  if (is_tensor_value(value)) return Promoted{session.graph().type(value.id()).dtype, false};
  if (value.kind == ValueKind::Int) return Promoted{DType::I64, true};
  if (value.is_array() && value.wrap() == Wrap::PyFloat) return Promoted{DType::F64, true};
  if (value.is_array() && value.wrap() == Wrap::PyBool) return Promoted{DType::Bool, true};
  if (value.is_array() && value.wrap() == Wrap::PyInt) return Promoted{DType::I64, true};
  if (value.is_array() && value.wrap() == Wrap::NumpyScalar) {  // counts as the number of Python's
    const DType dtype = session.graph().type(value.id()).dtype;
    if (dtype == DType::Bool) return Promoted{dtype, true};
    return Promoted{graph::is_float(dtype) ? DType::F64 : graph::is_complex(dtype) ? DType::C128 : DType::I64, true};
  }
  if (!value.is_constant()) return std::nullopt;
  PyObject* o = value.object.get();
  if (PyBool_Check(o)) return Promoted{DType::Bool, true};
  if (PyLong_CheckExact(o)) return Promoted{DType::I64, true};
  if (PyFloat_CheckExact(o)) return Promoted{DType::F64, true};
  return std::nullopt;
}

/// Of an operand of an operator, where an ndarray counts as the Tensor of its elements.
std::optional<Promoted> promoted_operand(Session& session, const Value& value) {
  const bool ndarray = value.is_array() && value.wrap() == Wrap::NdArray;
  return ndarray ? Promoted{session.graph().type(value.id()).dtype, false} : promoted_of(session, value);
}

class TensorFrontend final : public capture::Frontend {
 public:
  std::string_view name() const override { return "tensor"; }
  bool owns(PyObject* object) const override { return tensor::is_captured_tensor_type(Py_TYPE(object)); }
  bool owns(const Value& value) const override { return is_tensor_value(value); }
  PyObject* type_of(Session&, const Value&) const override { return reinterpret_cast<PyObject*>(tensor_type()); }
  bool knows(PyObject* callable) const override {
    return callable == reinterpret_cast<PyObject*>(tensor_type()) || tensor::operator_of(callable) ||
           tensor::tensor_function(callable) || is_dtype(callable);
  }

  bool has_text(PyObject* object) const override { return is_dtype(object); }

  Captured<Value*> wrap(Session& session, PyObject* object, SourceRef source) override {
    auto* array = reinterpret_cast<PyArrayObject*>(arrays::tensor_array(object));
    capture::ArraySpec spec;
    spec.wrap = Wrap::Tensor;
    std::optional<DType> dtype = arrays::dtype_of(PyArray_DESCR(array));
    if (!dtype) return break_at(BreakId::UnsupportedArray, "Tensor of a dtype that is not compiled");
    spec.dtype = *dtype;
    std::string base = source->str();
    for (int i = 0; i < PyArray_NDIM(array); ++i) {
      int64_t size = PyArray_DIM(array, i);
      const bool symbolic = size > 1 && (session.varied().contains(base + ".shape[" + std::to_string(i) + "]") ||
                                         module::is_dynamic(object, i));
      spec.shape.push_back(symbolic ? session.graph().shapes().fresh(size) : graph::Dim(size));
    }
    spec.strides = graph::c_strides(spec.dtype, spec.shape);
    return session.inputs().add(object, std::move(source), std::move(spec));
  }

  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const Keyword> keywords) override {
    if (callable == reinterpret_cast<PyObject*>(tensor_type())) return construct(session, args, keywords);
    if (std::optional<Op> op = tensor::operator_of(callable)) {
      const graph::OpDef& row = graph::def(*op);
      if (args.size() + keywords.size() != row.operands)
        return break_at(BreakId::WouldRaise, "a wrong number of arguments");
      std::array<Value*, 2> operands{};
      std::ranges::copy(args, operands.begin());
      for (const auto& [key, value] : keywords) {
        const int at = tensor::operand_named(row, key);
        if (at < 0 || operands[static_cast<std::size_t>(at)])
          return break_at(BreakId::WouldRaise, "a keyword that is not there");
        operands[static_cast<std::size_t>(at)] = value;
      }
      return row.operands == 1 ? apply_one(session, *op, operands[0]) : apply(session, *op, operands[0], operands[1]);
    }
    if (!keywords.empty()) return break_at(BreakId::UnsupportedArgument, "a function of Tensors with keywords");
    if (std::optional<TensorFunction> function = tensor::tensor_function(callable)) {
      switch (*function) {
        case TensorFunction::Array: return to_array(session, args);
        case TensorFunction::Arrays: return to_arrays(session, args);
        case TensorFunction::Tensor: return from_array(session, args);
        case TensorFunction::DType: return to_dtype(session, args);
        case TensorFunction::MatMul: return matmul(session, args);
        case TensorFunction::Attend: return attend(session, args);
        case TensorFunction::Windows: return windows(session, args);
        case TensorFunction::Convolve: return convolve(session, args);
      }
    }
    return break_at(BreakId::UnknownCallable);
  }

  Captured<Value*> binary(Session& session, int nb, Value* left, Value* right) override {
    for (const BinaryRow& row : kBinary)
      if (nb == row.nb || nb == row.nb_inplace) return apply(session, row.op, left, right);
    return break_at(BreakId::UnsupportedArgument, "this operator on a Tensor");
  }

  Captured<Value*> compare(Session& session, int py_op, Value* left, Value* right) override {
    static constexpr Op kOps[] = {Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual, Op::Greater, Op::GreaterEqual};
    if ((py_op == Py_EQ || py_op == Py_NE) && (is_sequence(*left) || is_sequence(*right)))  // equal to none
      return session.values().constant(py_op == Py_NE ? Py_True : Py_False);
    return apply(session, kOps[py_op], left, right);
  }

  Captured<Value*> unary(Session& session, Unary op, Value* operand) override {
    switch (op) {
      case Unary::Positive: return session.values().array(session.builder().copy(operand->id(), 'C'), Wrap::Tensor);
      case Unary::Negative: return apply_one(session, Op::Negative, operand);
      case Unary::Invert: return apply_one(session, Op::Invert, operand);
    }
    return break_at(BreakId::UnsupportedArgument);
  }

  Captured<Value*> get_attr(Session& session, Value* array, std::string_view name) override {
    const graph::Type type = session.graph().type(array->id());
    if (name == "shape") {
      std::vector<Value*> sizes;
      for (const graph::Dim& d : type.shape) sizes.push_back(session.values().integer(d));
      return session.values().tuple(std::move(sizes));
    }
    if (name == "ndim") return session.values().integer(type.rank());
    if (name == "size") return session.values().integer(type.size());
    if (name == "itemsize") return session.values().integer(graph::size_of(type.dtype));
    if (name == "dtype") {
      Ref<> object = Ref<>::steal(tensor::tensor_dtype_object(type.dtype));
      return session.values().constant(object.get());
    }
    if (name == "nbytes") return session.values().integer(type.size() * graph::Dim(graph::size_of(type.dtype)));
    return break_at(BreakId::UnsupportedArgument, "Tensor." + std::string(name));
  }

  Captured<Value*> call_method(Session& session, Value* array, std::string_view name, std::span<Value* const> args,
                               std::span<const Keyword> keywords) override {
    if (name == "__abs__" && args.empty() && keywords.empty()) return apply_one(session, Op::Absolute, array);
    if (name == "__array_namespace__" && args.empty() && keywords.empty())
      if (PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), python_names::kArrayApi))
        return session.values().constant(module);
    return break_at(BreakId::UnsupportedArgument, "Tensor." + std::string(name) + "()");
  }

  Captured<Value*> get_item(Session& session, Value* array, Value* key) override {
    FRAMEJIT_TRY(item, read_item(session, plain(session, array), none_for_true(session, plain(session, key))));
    const graph::Type& type = session.graph().type(item->id());
    const bool own = !type.is_view() && graph::is_c_contiguous(session.graph().shapes(), type);
    return session.values().array(own ? item->id() : session.builder().copy(item->id(), 'C'), Wrap::Tensor);
  }
  Captured<bool> set_item(Session& session, Value* array, Value* key, Value* value) override {
    if (!is_assignable(*value))
      return break_at(BreakId::WouldRaise, "a value for items of a Tensor that is no Tensor, number, list or tuple");
    return write_item(session, plain(session, array), none_for_true(session, plain(session, key)),
                      plain(session, value), Wrap::Tensor);
  }

  Captured<Value*> length(Session& session, Value* array) override {
    const graph::Type& type = session.graph().type(array->id());
    if (type.rank() == 0) return break_at(BreakId::WouldRaise, "len() of a 0-d Tensor");
    return session.values().integer(type.shape[0]);
  }

 private:
  static bool is_sequence(const Value& value) {
    return value.kind == ValueKind::List || value.kind == ValueKind::Tuple;
  }

  /// May it be assigned to items of a Tensor? NumPy takes more, such as None, for arrays.
  static bool is_assignable(const Value& value) {
    if (value.is_array()) return value.wrap() != Wrap::NdArray;
    return value.kind == ValueKind::Int || is_sequence(value) ||
           (value.is_constant() && tensor::is_number_operand(value.object.get()));
  }

  /// Items are those of the arrays that Tensors are made of.
  static Value* plain(Session& session, Value* v) {
    if (v->is_array() && v->wrap() == Wrap::Tensor) return session.values().array(v->id(), Wrap::NdArray);
    const bool list = v->kind == ValueKind::List;
    if ((!list && v->kind != ValueKind::Tuple) ||
        std::none_of(v->items.begin(), v->items.end(), [](Value* item) { return is_tensor_value(*item); }))
      return v;
    std::vector<Value*> items;
    for (Value* item : v->items) items.push_back(plain(session, item));
    Value* out = session.values().make(v->kind);
    out->items = std::move(items);
    return out;
  }

  static bool is_dtype(PyObject* object) {
    static constinit capture::Once once;
    PyObject* one =
        once.get([]() -> PyObject* {  // nothing is imported while a frame, maybe one of the import system, is captured
          PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), python_names::kDtypes);
          return module ? PyObject_GetAttrString(module, "float32") : nullptr;
        });
    if (!one) PyErr_Clear();
    return one && Py_IS_TYPE(object, Py_TYPE(one));
  }

  static Captured<DType> dtype_of_rule(DType own, const Value& rule) {
    std::optional<DType> dtype = rule.is_constant() ? tensor::array_dtype(own, rule.object.get()) : std::nullopt;
    PyErr_Clear();
    if (!dtype || !arrays::descr_of(*dtype))
      return break_at(BreakId::UnsupportedArgument, "a dtype that is not compiled");
    return *dtype;
  }

  /// The operand as a graph value of `dtype`.
  Captured<ValueId> operand(Session& session, const Value& value, DType dtype) {
    graph::GraphBuilder& builder = session.builder();
    ValueId id;
    if (value.is_array()) {
      id = value.id();
      const DType own = session.graph().type(id).dtype;
      if (value.wrap() == Wrap::NumpyScalar && graph::is_int(own) && graph::is_int(dtype) && own != dtype)
        return break_at(BreakId::UnsupportedArgument, "an integer of NumPy that may not fit the Tensor's dtype");
    } else if (value.kind == ValueKind::Int) {
      id = builder.dim_value(value.dim());
    } else {
      PyObject* number = value.object.get();
      if (std::optional<graph::Scalar> bits = arrays::pack(number, dtype)) return builder.constant(dtype, *bits);
      // Tensors take floats that are too large for infinite, and those that are too small for 0 or subnormal, without a
      // warning. Integers that are too large lose their upper bits.
      const DType own = PyFloat_CheckExact(number) ? DType::F64 : DType::I64;
      std::optional<graph::Scalar> bits;
      if (own == DType::F64 ? graph::is_float(dtype) : PyLong_CheckExact(number) && dtype != DType::Bool)
        bits = arrays::pack(number, own);
      if (!bits) return break_at(BreakId::WouldRaise, "a number that does not fit the Tensor's dtype");
      id = builder.constant(own, *bits);
    }
    return cast(session, id, dtype);
  }

  static Captured<ValueId> cast(Session& session, ValueId id, DType dtype) {
    if (session.graph().type(id).dtype == dtype) return id;
    return ext::frontends::cast(session, id, dtype);
  }

  /// A number that is not negative: integers to any other power may raise, and a kernel cannot.
  static bool is_count(const Value& value) {
    if (!value.is_constant() || !PyLong_Check(value.object.get())) return false;
    int overflow = 0;
    return PyLong_AsLongLongAndOverflow(value.object.get(), &overflow) >= 0 && overflow == 0;
  }

  Captured<Value*> apply(Session& session, Op op, Value* left, Value* right) {
    for (Value** x : {&left, &right})
      if (is_sequence(**x)) {
        FRAMEJIT_TRY(made, of_numbers(session, *x, nullptr));
        *x = made;
      }
    std::optional<Promoted> a = promoted_operand(session, *left), b = promoted_operand(session, *right);
    if (!a || !b) return break_at(BreakId::UnsupportedArgument, "a Tensor with an operand that is no Tensor or number");
    // Of two numbers the first one is made a Tensor.
    if (!is_tensor_value(*left) && !is_tensor_value(*right)) {
      if (!a->python_number || !b->python_number)
        return break_at(BreakId::UnsupportedArgument, "a function of Tensors without one");
      a = Promoted{dtype_of_numbers(a->dtype), false};
    }
    std::optional<DType> promoted = promote(*a, *b);
    if (!promoted) return break_at(BreakId::WouldRaise, "no common dtype");
    const DType of_result = tensor::compute_dtype(op, *promoted);
    // A gradient goes through sums and products of truth values as through those of numbers.
    const bool as_numbers = of_result == DType::Bool && (op == Op::Add || op == Op::Multiply) && session.tapes().any();
    const DType dtype = as_numbers ? DType::U8 : tensor::loop_dtype(op, of_result);
    std::optional<Op> node = tensor::graph_operator(op, dtype);
    if (!node && op == Op::Power && (graph::is_unsigned_int(dtype) || is_count(*right))) node = op;
    if (!node)
      return break_at(BreakId::WouldRaise,
                      std::string(graph::name_of(op)) + " of " + std::string(graph::name_of(dtype)));
    FRAMEJIT_TRY(x, operand(session, *left, dtype));
    FRAMEJIT_TRY(y, operand(session, *right, dtype));
    if (op == Op::MatMul) {
      FRAMEJIT_TRY(product, multiplied(session, x, y));
      return tensor(session, product);
    }
    std::array<ValueId, 2> operands = {x, y};
    graph::BuildResult made = session.builder().elementwise(*node, operands);
    if (made && *node == Op::Power) made = with_whole_exponent(session, operands, *made);
    return rounded(session, std::move(made), dtype, of_result);
  }

  /// The power, of an exponent that has the shape of the result: kernels read no exponent that is broadcast in part.
  static graph::BuildResult with_whole_exponent(Session& session, std::array<ValueId, 2> operands, ValueId power) {
    const graph::Dims shape = session.graph().type(power).shape, own = session.graph().type(operands[1]).shape;
    if (own == shape || std::ranges::all_of(own, [](const graph::Dim& size) { return size == graph::Dim(1); }))
      return power;
    graph::BuildResult whole = session.builder().broadcast_to(operands[1], shape);
    if (!whole) return whole;
    operands[1] = session.builder().copy(*whole, 'C');
    return session.builder().elementwise(Op::Power, operands);
  }

  Captured<Value*> apply_one(Session& session, Op op, Value* value) {
    if (!is_tensor_value(*value)) {
      FRAMEJIT_TRY(made, construct(session, std::span(&value, 1), {}));
      value = made;
    }
    const DType of_result = tensor::compute_dtype(op, session.graph().type(value->id()).dtype);
    const DType dtype = tensor::loop_dtype(op, of_result);
    std::optional<Op> node = tensor::graph_operator(op, dtype);
    if (!node)
      return break_at(BreakId::WouldRaise,
                      std::string(graph::name_of(op)) + " of " + std::string(graph::name_of(dtype)));
    FRAMEJIT_TRY(x, cast(session, value->id(), dtype));
    if (op == Op::Invert && dtype == DType::Bool) node = Op::LogicalNot;
    return rounded(session, session.builder().elementwise(*node, std::span(&x, 1)), dtype, of_result);
  }

  /// The Tensor that an operator in `dtype` gives, in the dtype that it has.
  Captured<Value*> rounded(Session& session, graph::BuildResult made, DType dtype, DType of_result) {
    if (made && dtype != of_result) made = session.builder().cast(*made, of_result);
    return tensor(session, std::move(made));
  }

  /// A Tensor with memory of its own: that of `id`, where that was made for it.
  static Value* own_tensor(Session& session, ValueId id, bool takes_over = true) {
    const graph::Type& type = session.graph().type(id);
    const graph::Op op = session.graph().node(id).op;
    const bool fresh = takes_over && !type.is_view() && op != Op::Param && op != Op::Constant && op != Op::DimValue &&
                       !session.values().is_of_tensor(id);
    if (!fresh || !graph::is_c_contiguous(session.graph().shapes(), type)) id = session.builder().copy(id, 'C');
    return session.values().array(id, Wrap::Tensor);
  }

  Captured<Value*> to_array(Session& session, std::span<Value* const> args) {
    if (args.empty() || args.size() > 2) return break_at(BreakId::WouldRaise, "array()");
    std::optional<Promoted> own = promoted_of(session, *args[0]);
    if (!own) return break_at(BreakId::UnsupportedArgument, "an operand that is no Tensor or number");
    DType dtype = own->python_number ? dtype_of_numbers(own->dtype) : own->dtype;
    if (args.size() == 2 && !args[1]->is_none()) {
      FRAMEJIT_TRY(asked, dtype_of_rule(dtype, *args[1]));
      dtype = asked;
    }
    FRAMEJIT_TRY(id, operand(session, *args[0], dtype));
    return session.values().array(id, Wrap::NdArray);
  }

  Captured<Value*> to_arrays(Session& session, std::span<Value* const> args) {
    std::vector<Promoted> given;
    for (const Value* value : args) {
      std::optional<Promoted> one = promoted_of(session, *value);
      if (!one) return break_at(BreakId::UnsupportedArgument, "an operand that is no Tensor or number");
      given.push_back(*one);
    }
    std::optional<DType> dtype = tensor::promote_all(given);
    if (!dtype) return break_at(BreakId::WouldRaise, "no common dtype");
    std::vector<Value*> items;
    for (const Value* value : args) {
      FRAMEJIT_TRY(id, operand(session, *value, *dtype));
      items.push_back(session.values().array(id, Wrap::NdArray));
    }
    return session.values().tuple(std::move(items));
  }

  static Captured<Value*> from_array(Session& session, std::span<Value* const> args) {
    if (args.size() != 1 || !is_owned(*args[0]))
      return break_at(BreakId::UnsupportedArgument, "an operand that is no array");
    return own_tensor(session, args[0]->id());
  }

  static Captured<Value*> matmul(Session& session, std::span<Value* const> args) {
    if (args.size() != 2 || !is_owned(*args[0]) || !is_owned(*args[1]))
      return break_at(BreakId::WouldRaise, "matmul()");
    FRAMEJIT_TRY(product, multiplied(session, args[0]->id(), args[1]->id()));
    return session.values().array(product, Wrap::NdArray);
  }

  /// As core_matmul.
  static Captured<ValueId> multiplied(Session& session, ValueId a, ValueId b) {
    const DType dtype = session.graph().type(a).dtype;
    if (dtype == DType::F16 && session.graph().type(b).dtype == dtype) {
      FRAMEJIT_TRY(left, cast(session, a, DType::F32));
      FRAMEJIT_TRY(right, cast(session, b, DType::F32));
      FRAMEJIT_TRY(product, built(session.builder().matmul(left, right)));
      return cast(session, product, dtype);
    }
    if (dtype != session.graph().type(b).dtype || !(dtype == DType::F32 || dtype == DType::F64 || graph::is_int(dtype)))
      return break_at(BreakId::UnsupportedArgument, "@ of " + std::string(graph::name_of(dtype)));
    return graph::is_int(dtype) ? integer_product(session, a, b, 'C') : built(session.builder().matmul(a, b));
  }

  Captured<Value*> attend(Session& session, std::span<Value* const> args) {
    if (args.size() != 8) return break_at(BreakId::WouldRaise, "attend()");
    std::vector<ValueId> arrays;
    std::optional<DType> dtype, wide;
    for (const Value* value : {args[0], args[1], args[2], args[4]->is_none() ? args[0] : args[4]}) {
      if (!is_owned(*value)) return break_at(BreakId::WouldRaise, "attention of what is no array");
      const DType own = session.graph().type(value->id()).dtype;
      if (!dtype) dtype = own, wide = tensor::core_dtype(own, true);
      if (!wide || (value != args[4] && own != *dtype))
        return break_at(BreakId::WouldRaise, "attention of these operands");
      FRAMEJIT_TRY(id, cast(session, value->id(), *wide));
      arrays.push_back(id);
    }
    if (!args[5]->is_constant() || !PyLong_CheckExact(args[5]->object.get()))
      return break_at(BreakId::UnsupportedArgument, "attention that is causal or not");
    const long causal = PyLong_AsLong(args[5]->object.get());
    if (causal < 0 || causal > static_cast<long>(graph::Causal::FromLast))
      return break_at(BreakId::WouldRaise, "attend()");
    FRAMEJIT_TRY(scale, operand(session, *args[3], DType::F32));
    std::optional<graph::DroppedWeights> dropped;
    if (!args[7]->is_none()) {
      if (!is_owned(*args[7]) || session.graph().type(args[7]->id()).dtype != DType::U64)
        return break_at(BreakId::WouldRaise, "attend()");
      FRAMEJIT_TRY(probability, operand(session, *args[6], DType::F32));
      dropped = {probability, args[7]->id()};
    }
    graph::BuildResult built = graph::append_attention(session.builder(), arrays[0], arrays[1], arrays[2], scale,
                                                       args[4]->is_none() ? std::nullopt : std::optional(arrays[3]),
                                                       static_cast<graph::Causal>(causal), dropped);
    if (!built) return break_at(BreakId::WouldRaise, built.error().message);
    FRAMEJIT_TRY(result, cast(session, *built, *dtype));
    return session.values().array(result, Wrap::NdArray);
  }

  /// Ints, of which those that vary become fixed.
  static Captured<std::vector<int64_t>> fixed_ints(Session& session, std::span<Value* const> args) {
    std::vector<int64_t> numbers;
    for (const Value* value : args) {
      if (value->kind == ValueKind::Int) numbers.push_back(session.graph().shapes().specialize(value->dim()));
      else if (value->is_constant() && PyLong_CheckExact(value->object.get()))
        numbers.push_back(PyLong_AsLongLong(value->object.get()));
      else return break_at(BreakId::UnsupportedArgument, "a window that is not fixed");
    }
    PyErr_Clear();
    return numbers;
  }

  static Captured<Value*> windows(Session& session, std::span<Value* const> args) {
    if (args.empty() || !is_owned(*args[0])) return break_at(BreakId::WouldRaise, "windows()");
    FRAMEJIT_TRY(numbers, fixed_ints(session, args.subspan(1)));
    graph::Dims shape = session.graph().type(args[0]->id()).shape,
                strides = session.graph().type(args[0]->id()).strides;
    const std::size_t axes = numbers.size() / 3;
    if (numbers.size() % 3 != 0 || shape.size() < axes ||
        std::any_of(numbers.begin(), numbers.end(), [](int64_t n) { return n < 1 || n > graph::Window::kMost; }))
      return break_at(BreakId::WouldRaise, "windows()");
    const std::size_t first = shape.size() - axes;
    for (std::size_t i = 0; i < axes; ++i) {
      const int64_t size = numbers[3 * i], stride = numbers[3 * i + 1], dilation = numbers[3 * i + 2];
      const graph::Dim room = shape[first + i] - (graph::Dim(dilation) * (graph::Dim(size) - 1) + 1);
      if (!session.graph().shapes().holds(graph::Relation::Le, 0, room))
        return break_at(BreakId::WouldRaise, "a window that is larger");
      shape.push_back(size);
      strides.push_back(strides[first + i] * graph::Dim(dilation));
      shape[first + i] = graph::floordiv(room, stride) + graph::Dim(1);
      strides[first + i] = strides[first + i] * graph::Dim(stride);
    }
    return session.values().array(session.builder().view(args[0]->id(), std::move(shape), std::move(strides), 0),
                                  Wrap::NdArray);
  }

  static Captured<Value*> convolve(Session& session, std::span<Value* const> args) {
    if (args.size() < 2 || !is_owned(*args[0]) || !is_owned(*args[1]))
      return break_at(BreakId::WouldRaise, "convolve()");
    FRAMEJIT_TRY(numbers, fixed_ints(session, args.subspan(2)));
    std::optional<graph::Window> window = graph::Window::from(numbers);
    const DType dtype = session.graph().type(args[0]->id()).dtype;
    const std::optional<DType> wide = tensor::core_dtype(dtype, false);
    if (!window || !wide || session.graph().type(args[1]->id()).dtype != dtype ||
        window->axes.size() > codegen::Windows::kAxes)
      return break_at(BreakId::WouldRaise, "a convolution of these operands");
    FRAMEJIT_TRY(image, cast(session, args[0]->id(), *wide));
    FRAMEJIT_TRY(weights, cast(session, args[1]->id(), *wide));
    if (!graph::is_c_contiguous(session.graph().shapes(), session.graph().type(weights)))
      return break_at(BreakId::WouldRaise, "a convolution by weights that are not contiguous");
    graph::BuildResult built = graph::append_convolution(session.builder(), image, weights, *window);
    if (!built) return break_at(BreakId::WouldRaise, built.error().message);
    FRAMEJIT_TRY(result, cast(session, *built, dtype));
    return session.values().array(result, Wrap::NdArray);
  }

  static Captured<Value*> to_dtype(Session& session, std::span<Value* const> args) {
    if (args.size() != 1) return break_at(BreakId::WouldRaise, "dtype()");
    if (args[0]->is_none()) return args[0];
    FRAMEJIT_TRY(dtype, dtype_of_rule(DType::F32, *args[0]));
    return session.values().constant(reinterpret_cast<PyObject*>(arrays::descr_of(dtype)));
  }

  /// What is inferred for Python numbers.
  static DType dtype_of_numbers(DType dtype) { return dtype == DType::F64 ? DType::F32 : dtype; }

  /// The numbers of nested sequences in C order, and the lengths of the sequences around them.
  struct Numbers {
    std::vector<Value*> leaves;
    std::vector<int64_t> lengths;
  };

  static bool flatten(Value* value, std::size_t depth, Numbers& into) {
    if (value->kind != ValueKind::List && value->kind != ValueKind::Tuple) {
      into.leaves.push_back(value);
      return depth == into.lengths.size();
    }
    const auto length = static_cast<int64_t>(value->items.size());
    if (depth == into.lengths.size() && into.leaves.empty()) into.lengths.push_back(length);
    return depth < into.lengths.size() && into.lengths[depth] == length && length > 0 && !value->partial &&
           std::all_of(value->items.begin(), value->items.end(),
                       [&](Value* item) { return flatten(item, depth + 1, into); });
  }

  /// The dtype of things that all are Tensors of one element without axes and of one dtype.
  static std::optional<DType> dtype_of_tensors(Session& session, const std::vector<Value*>& leaves) {
    const auto is_alike = [&](const Value* leaf) {
      return leaf->is_array() && leaf->wrap() == Wrap::Tensor && session.graph().type(leaf->id()).rank() == 0 &&
             session.graph().type(leaf->id()).dtype == session.graph().type(leaves[0]->id()).dtype;
    };
    if (leaves.empty() || !leaves[0]->is_array() || !std::all_of(leaves.begin(), leaves.end(), is_alike))
      return std::nullopt;
    return session.graph().type(leaves[0]->id()).dtype;
  }

  /// Tensor(sequence, dtype) of nested sequences of numbers, or of Tensors of one element; `rule` may be null.
  Captured<Value*> of_numbers(Session& session, Value* sequence, Value* rule) {
    constexpr std::size_t kMost = 64;
    Numbers numbers;
    if (!flatten(sequence, 0, numbers) || numbers.leaves.size() > kMost)
      return break_at(BreakId::UnsupportedArgument, "a Tensor of such a sequence");
    const std::optional<DType> of_tensors = dtype_of_tensors(session, numbers.leaves);
    DType kind = of_tensors.value_or(DType::Bool);  // of numbers: Bool, I64 or F64 of all
    std::vector<DType> kinds(of_tensors ? numbers.leaves.size() : 0, kind);
    for (const Value* leaf : of_tensors ? std::vector<Value*>() : numbers.leaves) {
      const std::optional<Promoted> one = promoted_of(session, *leaf);
      if (!one || !one->python_number)
        return break_at(BreakId::UnsupportedArgument, "a Tensor of a sequence of what are no numbers");
      kinds.push_back(one->dtype);
      if (kind == DType::Bool || one->dtype == DType::F64) kind = one->dtype;
    }
    DType dtype = of_tensors ? kind : dtype_of_numbers(kind);
    if (rule && !rule->is_none()) {
      FRAMEJIT_TRY(asked, dtype_of_rule(dtype, *rule));
      dtype = asked;
    }
    graph::GraphBuilder& builder = session.builder();
    const ValueId whole = builder.empty(dtype, graph::Dims(numbers.lengths.begin(), numbers.lengths.end()));
    for (std::size_t i = 0; i < numbers.leaves.size(); ++i) {
      ValueId place = whole;
      std::size_t rest = i, step = numbers.leaves.size();
      for (int64_t length : numbers.lengths) {
        step /= static_cast<std::size_t>(length);
        place = builder.select(place, 0, static_cast<int64_t>(rest / step));
        rest %= step;
      }
      FRAMEJIT_TRY(own, of_tensors ? Captured<ValueId>(numbers.leaves[i]->id())
                                   : operand(session, *numbers.leaves[i], kinds[i]));
      FRAMEJIT_TRY(as_all, cast(session, own, kind));
      FRAMEJIT_TRY(element, cast(session, as_all, dtype));
      const auto written = builder.write(place, element);
      if (!written) return break_at(BreakId::WouldRaise, written.error().message);
    }
    return own_tensor(session, whole);
  }

  /// Tensor(input_data, dtype=None) of an array, Tensor or number, or of nested sequences of numbers.
  Captured<Value*> construct(Session& session, std::span<Value* const> args, std::span<const Keyword> keywords) {
    Value *data = args.empty() ? nullptr : args[0], *rule = args.size() > 1 ? args[1] : nullptr;
    for (const auto& [key, value] : keywords) {
      if (key == "input_data" && !data) data = value;
      else if (key == "dtype" && !rule) rule = value;
      else return break_at(BreakId::UnsupportedArgument, "Tensor(" + std::string(key) + "=)");
    }
    // shape, init, const_arg and device at their defaults
    const bool plain = args.size() <= 2 || std::all_of(args.begin() + 2, args.end(), [](const Value* x) {
                         return x->is_none() || (x->is_constant() && x->object.get() == Py_False);
                       });
    if (!data || !plain) return break_at(BreakId::UnsupportedArgument, "Tensor()");
    if (data->kind == ValueKind::List || data->kind == ValueKind::Tuple) {
      FRAMEJIT_TRY(made, of_numbers(session, data, rule));
      session.tapes().add_stop(made->id());  // no gradient goes to Tensors in the sequence, as in eager code
      return made;
    }
    Value* array = data;
    if (!is_owned(*data)) {
      FRAMEJIT_TRY(made, to_array(session, std::span(&data, 1)));
      array = made;
    }
    ValueId id = array->id();
    if (rule && !rule->is_none()) {
      FRAMEJIT_TRY(dtype, dtype_of_rule(session.graph().type(id).dtype, *rule));
      // A number is converted from what it is, not from what it would be inferred to be.
      if (data->is_constant()) {
        FRAMEJIT_TRY(number, operand(session, *data, dtype));
        id = number;
      }
      FRAMEJIT_TRY(converted, cast(session, id, dtype));
      id = converted;
    }
    return own_tensor(session, id, id != array->id());
  }
};

}  // namespace

std::unique_ptr<capture::Frontend> make_tensor_frontend() { return std::make_unique<TensorFrontend>(); }

}  // namespace framejit::ext::frontends
