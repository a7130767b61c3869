// The Tensor front door: what eager Tensors do (tensor.cpp), as graph nodes. Both ask tensor_promotion.h.
#include "ext/tensor_door.h"

#include <opcode.h>  // NB_ADD and its like

#include <algorithm>
#include <array>

#include "ext/control.h"
#include "ext/numpy_api.h"
#include "ext/tensor.h"
#include "ext/tensor_promotion.h"

namespace framejit::ext {

using namespace capture;
using graph::DType;
using graph::Op;
using graph::ValueId;

namespace {

Captured<Value*> tensor(Session& session, graph::BuildResult built) {
  if (!built) return break_at(BreakId::WouldRaise, built.error().message);
  return session.array(*built, Wrap::Tensor);
}

struct NamedOp {
  std::string_view name;
  Op op;
};

template <std::size_t n>
const Op* find(const std::array<NamedOp, n>& table, std::string_view name) {
  auto found = std::find_if(table.begin(), table.end(), [&](const NamedOp& row) { return row.name == name; });
  return found == table.end() ? nullptr : &found->op;
}

constexpr std::array<NamedOp, 6> kReductions = {{{"sum", Op::ReduceSum},
                                                 {"mean", Op::ReduceSum},
                                                 {"max", Op::ReduceMax},
                                                 {"min", Op::ReduceMin},
                                                 {"all", Op::ReduceAll},
                                                 {"any", Op::ReduceAny}}};

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
    {NB_AND, NB_INPLACE_AND, Op::BitwiseAnd},
    {NB_OR, NB_INPLACE_OR, Op::BitwiseOr},
    {NB_XOR, NB_INPLACE_XOR, Op::BitwiseXor},
};

bool is_tensor_value(const Value& value) { return value.is_array() && value.wrap == Wrap::Tensor; }

/// A Python number's part in promotion; nothing for what is no number.
std::optional<Promoted> promoted_of(Session& session, const Value& value) {
  if (is_tensor_value(value)) return Promoted{session.graph().type(value.id).dtype, false};
  if (value.kind == ValueKind::Int) return Promoted{DType::I64, true};
  if (value.is_array() && value.wrap == Wrap::PyFloat) return Promoted{DType::F64, true};
  if (value.is_array() && value.wrap == Wrap::PyBool) return Promoted{DType::Bool, true};
  if (value.is_array() && value.wrap == Wrap::PyInt) return Promoted{DType::I64, true};
  if (!value.is_constant()) return std::nullopt;
  PyObject* o = value.object.get();
  if (PyBool_Check(o)) return Promoted{DType::Bool, true};
  if (PyLong_CheckExact(o)) return Promoted{DType::I64, true};
  if (PyFloat_CheckExact(o)) return Promoted{DType::F64, true};
  return std::nullopt;
}

/// The items of a tuple, known or under construction; a single value as one item.
std::vector<Value*> items_of(Session& session, Value* value) {
  if (value->kind == ValueKind::Tuple || value->kind == ValueKind::List) return value->items;
  if (!value->is_constant() || !PyTuple_CheckExact(value->object.get())) return {value};
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value->object.get()); ++i)
    items.push_back(session.constant(PyTuple_GET_ITEM(value->object.get(), i)));
  return items;
}

class TensorDoor final : public Door {
 public:
  std::string_view name() const override { return "tensor"; }
  bool owns(PyObject* object) const override { return is_tensor(object); }
  bool owns(const Value& value) const override { return is_tensor_value(value); }
  bool knows(PyObject*) const override { return false; }

  Captured<Value*> wrap(Session& session, PyObject* object, SourceRef source) override {
    auto* array = reinterpret_cast<PyArrayObject*>(tensor_array(object));
    ArraySpec spec;
    spec.wrap = Wrap::Tensor;
    std::optional<DType> dtype = dtype_of(PyArray_DESCR(array));
    if (!dtype) return break_at(BreakId::UnsupportedArray, "Tensor of a dtype that is not compiled");
    spec.dtype = *dtype;
    std::string base = source->str();
    for (int i = 0; i < PyArray_NDIM(array); ++i) {
      int64_t size = PyArray_DIM(array, i);
      bool symbolic = size > 1 && (session.varied().contains(base + ".shape[" + std::to_string(i) + "]") ||
                                   is_dynamic(object, i));
      spec.shape.push_back(symbolic ? session.graph().shapes().fresh(size) : graph::Dim(size));
    }
    spec.strides = graph::c_strides(spec.dtype, spec.shape);
    return session.array_input(object, std::move(source), std::move(spec));
  }

  Captured<Value*> call(Session&, PyObject*, std::span<Value* const>, std::span<const Keyword>) override {
    return break_at(BreakId::UnknownCallable);
  }

  Captured<Value*> binary(Session& session, int nb, Value* left, Value* right) override {
    for (const BinaryRow& row : kBinary)
      if (nb == row.nb || nb == row.nb_inplace) return apply(session, row.op, left, right);
    return break_at(BreakId::UnsupportedArgument, "this operator on a Tensor");
  }

  Captured<Value*> compare(Session& session, int py_op, Value* left, Value* right) override {
    static constexpr Op kOps[] = {Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual, Op::Greater, Op::GreaterEqual};
    return apply(session, kOps[py_op], left, right);
  }

  Captured<Value*> unary(Session& session, Unary op, Value* operand) override {
    graph::GraphBuilder& builder = session.builder();
    DType dtype = session.graph().type(operand->id).dtype;
    bool integral = dtype == DType::Bool || graph::is_int(dtype);
    ValueId x = operand->id;
    switch (op) {
      case Unary::Positive: return session.array(builder.copy(x, 'C'), Wrap::Tensor);
      case Unary::Negative:
        if (dtype == DType::Bool) return break_at(BreakId::WouldRaise, "negative of a bool Tensor");
        return tensor(session, builder.elementwise(Op::Negative, std::span(&x, 1)));
      case Unary::Invert:
        if (!integral) return break_at(BreakId::WouldRaise, "~ of a floating Tensor");
        return tensor(session, builder.elementwise(Op::Invert, std::span(&x, 1)));
    }
    return break_at(BreakId::UnsupportedArgument);
  }

  Captured<Value*> get_attr(Session& session, Value* array, std::string_view name) override {
    const graph::Type type = session.graph().type(array->id);
    if (name == "shape") {
      std::vector<Value*> sizes;
      for (const graph::Dim& d : type.shape) sizes.push_back(session.integer(d));
      return session.tuple(std::move(sizes));
    }
    if (name == "ndim") return session.integer(type.rank());
    if (name == "size") return session.integer(type.size());
    if (name == "itemsize") return session.integer(graph::size_of(type.dtype));
    if (name == "dtype") {
      Ref<> object = Ref<>::steal(tensor_dtype_object(type.dtype));
      return session.constant(object.get());
    }
    if (name == "T") {
      std::vector<int> reversed(static_cast<std::size_t>(type.rank()));
      for (int i = 0; i < type.rank(); ++i) reversed[static_cast<std::size_t>(i)] = type.rank() - 1 - i;
      return session.array(session.builder().copy(session.builder().transpose(array->id, reversed), 'C'), Wrap::Tensor);
    }
    return break_at(BreakId::UnsupportedArgument, "Tensor." + std::string(name));
  }

  Captured<Value*> call_method(Session& session, Value* array, std::string_view name, std::span<Value* const> args,
                               std::span<const Keyword> keywords) override {
    if (const Op* op = find(kReductions, name)) return reduce(session, *op, name == "mean", array, args, keywords);
    if (name == "reshape" && keywords.empty()) return reshape(session, array, args);
    return break_at(BreakId::UnsupportedArgument, "Tensor." + std::string(name) + "()");
  }

  Captured<Value*> get_item(Session&, Value*, Value*) override {
    return break_at(BreakId::UnsupportedArgument, "indexing of a Tensor");
  }
  Captured<bool> set_item(Session&, Value*, Value*, Value*) override {
    return break_at(BreakId::UnsupportedArgument, "assignment to an item of a Tensor");
  }

  Captured<Value*> length(Session& session, Value* array) override {
    const graph::Type& type = session.graph().type(array->id);
    if (type.rank() == 0) return break_at(BreakId::WouldRaise, "len() of a 0-d Tensor");
    return session.integer(type.shape[0]);
  }

 private:
  /// The operand as a graph value of `dtype`.
  Captured<ValueId> operand(Session& session, const Value& value, DType dtype) {
    graph::GraphBuilder& builder = session.builder();
    ValueId id;
    if (value.is_array()) {
      id = value.id;
    } else if (value.kind == ValueKind::Int) {
      id = builder.dim_value(value.dim);
    } else {
      std::optional<graph::Scalar> bits = pack(value.object.get(), dtype);
      if (!bits) return break_at(BreakId::WouldRaise, "a number that does not fit the Tensor's dtype");
      return builder.constant(dtype, *bits);
    }
    if (session.graph().type(id).dtype == dtype) return id;
    graph::BuildResult cast = builder.cast(id, dtype);
    if (!cast) return break_at(BreakId::WouldRaise, cast.error().message);
    return *cast;
  }

  Captured<Value*> apply(Session& session, Op op, Value* left, Value* right) {
    std::optional<Promoted> a = promoted_of(session, *left), b = promoted_of(session, *right);
    if (!a || !b) return break_at(BreakId::UnsupportedArgument, "a Tensor with an operand that is no Tensor or number");
    std::optional<DType> promoted = promote(*a, *b);
    if (!promoted) return break_at(BreakId::WouldRaise, "no common dtype");
    DType dtype = compute_dtype(op, *promoted);
    if (refused(op, dtype)) return break_at(BreakId::WouldRaise, std::string(graph::name_of(op)) + " of " + std::string(graph::name_of(dtype)));
    FRAMEJIT_TRY(x, operand(session, *left, dtype));
    FRAMEJIT_TRY(y, operand(session, *right, dtype));
    if (op == Op::MatMul) {
      if (dtype != DType::F32 && dtype != DType::F64) return break_at(BreakId::UnsupportedArgument, "@ of " + std::string(graph::name_of(dtype)));
      // Eagerly those are NumPy's.
      if (session.graph().type(x).rank() != 2 || session.graph().type(y).rank() != 2)
        return break_at(BreakId::UnsupportedArgument, "@ of Tensors that are not 2-D");
      return tensor(session, session.builder().matmul(x, y));
    }
    if (dtype == DType::Bool) op = of_bools(op);
    std::array<ValueId, 2> operands = {x, y};
    return tensor(session, session.builder().elementwise(op, operands));
  }

  /// NumPy's ufunc has no loop for it, or one that raises depending on values: eager execution decides.
  static bool refused(Op op, DType dtype) {
    if (dtype == DType::Bool) return op == Op::Subtract || op == Op::Divide;
    if (graph::is_float(dtype)) return op == Op::BitwiseAnd || op == Op::BitwiseOr || op == Op::BitwiseXor;
    return graph::is_int(dtype) && op == Op::Power;
  }

  static Op of_bools(Op op) {
    if (op == Op::Add) return Op::LogicalOr;
    if (op == Op::Multiply) return Op::LogicalAnd;
    return op;
  }

  Captured<Value*> reduce(Session& session, Op op, bool mean, Value* array, std::span<Value* const> args,
                          std::span<const Keyword> keywords) {
    if (args.size() > 1) return break_at(BreakId::UnsupportedArgument, "a reduction with more than an axis");
    Value* axis = args.empty() ? nullptr : args[0];
    bool keep = false;
    for (const auto& [key, value] : keywords) {
      if (key == "axis" && !axis) {
        axis = value;
      } else if (key == (mean ? "keep_dims" : "keepdims") && value->is_constant() && PyBool_Check(value->object.get())) {
        keep = value->object.get() == Py_True;
      } else {
        return break_at(BreakId::UnsupportedArgument, std::string(key));
      }
    }
    const graph::Type type = session.graph().type(array->id);
    FRAMEJIT_TRY(axes, axes_of(session, type.rank(), axis));
    graph::GraphBuilder& builder = session.builder();
    ValueId x = array->id;
    DType target = type.dtype;
    if (op == Op::ReduceSum) {
      if (mean && !graph::is_float(type.dtype)) return break_at(BreakId::UnsupportedArgument, "mean of an integer Tensor");
      target = sum_dtype(type.dtype);
    }
    if (target != type.dtype) {
      graph::BuildResult cast = builder.cast(x, target);
      if (!cast) return break_at(BreakId::WouldRaise, cast.error().message);
      x = *cast;
    }
    graph::BuildResult reduced = builder.reduce(op, x, axes);
    if (!reduced) return break_at(BreakId::WouldRaise, reduced.error().message);
    ValueId result = *reduced;
    if (mean) {
      FRAMEJIT_TRY(divided, divide_by_count(session, result, type, axes));
      result = divided;
    }
    if (keep)
      for (int64_t a : axes) result = builder.expand_dims(result, static_cast<int>(a));
    if (session.graph().type(result).is_view()) result = builder.copy(result, 'C');
    return session.array(result, Wrap::Tensor);
  }

  Captured<ValueId> divide_by_count(Session& session, ValueId sum, const graph::Type& type, const std::vector<int64_t>& axes) {
    graph::Dim count = 1;
    for (int64_t a : axes) count = count * type.shape[static_cast<std::size_t>(a)];
    if (!session.graph().shapes().holds(graph::Relation::Lt, 0, count)) return break_at(BreakId::WouldRaise, "mean of an empty Tensor");
    graph::BuildResult divisor = session.builder().cast(session.builder().dim_value(count), type.dtype);
    if (!divisor) return break_at(BreakId::WouldRaise, divisor.error().message);
    std::array<ValueId, 2> operands = {sum, *divisor};
    graph::BuildResult out = session.builder().elementwise(Op::Divide, operands);
    if (!out) return break_at(BreakId::WouldRaise, out.error().message);
    return *out;
  }

  /// None: all axes; an int or a tuple of ints, negative ones from the end.
  static Captured<std::vector<int64_t>> axes_of(Session& session, int rank, Value* axis) {
    std::vector<int64_t> axes;
    if (!axis || axis->is_none()) {
      for (int i = 0; i < rank; ++i) axes.push_back(i);
      return axes;
    }
    for (Value* item : items_of(session, axis)) {
      if (!item->is_constant() || !PyLong_CheckExact(item->object.get())) return break_at(BreakId::UnsupportedArgument, "axis");
      long value = PyLong_AsLong(item->object.get());
      if (value == -1 && PyErr_Occurred()) PyErr_Clear();
      if (value < -rank || value >= rank) return break_at(BreakId::WouldRaise, "axis out of range");
      axes.push_back(value < 0 ? value + rank : value);
    }
    std::sort(axes.begin(), axes.end());
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return break_at(BreakId::WouldRaise, "duplicate axis");
    return axes;
  }

  Captured<Value*> reshape(Session& session, Value* array, std::span<Value* const> args) {
    std::vector<Value*> items(args.begin(), args.end());
    if (items.size() == 1) items = items_of(session, items[0]);
    graph::Dims shape;
    for (Value* item : items) {
      if (item->kind == ValueKind::Int) {
        shape.push_back(item->dim);
        continue;
      }
      if (!item->is_constant() || !PyLong_CheckExact(item->object.get())) return break_at(BreakId::UnsupportedArgument, "shape");
      long value = PyLong_AsLong(item->object.get());
      if (value < 0) return break_at(BreakId::UnsupportedArgument, "reshape with -1");
      shape.push_back(value);
    }
    const graph::Type& type = session.graph().type(array->id);
    if (!session.graph().shapes().equal(graph::product(shape), type.size())) return break_at(BreakId::WouldRaise, "sizes differ");
    graph::BuildResult view = session.builder().reshape(array->id, std::move(shape));
    if (!view) return break_at(BreakId::WouldRaise, view.error().message);
    return session.array(session.builder().copy(*view, 'C'), Wrap::Tensor);
  }
};

}  // namespace

std::unique_ptr<Door> make_tensor_door() { return std::make_unique<TensorDoor>(); }

}  // namespace framejit::ext
