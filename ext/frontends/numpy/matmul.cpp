// Products of matrices and vectors: @, np.matmul, np.dot. Those of integers are a core's, since their sums have one
// value in any order; those of floats are library calls at O0, because NumPy's BLAS decides the bits.
#include <algorithm>
#include <array>

#include "codegen/matmul.h"
#include "ext/frontends/numpy/call.h"
#include "ext/frontends/numpy/library_call_capture.h"
#include "ext/module/config.h"
#include "ext/tensor/tensor_matmul.h"
#include "graph/layout.h"

namespace framejit::ext::frontends {

namespace {

/// The ufunc, which knows the dtypes. Kept for ever; np.dot has the same ones.
PyUFuncObject* matmul_ufunc() {
  static PyObject* const found = [] {
    PyObject* object = PyObject_GetAttrString(arrays::numpy_module(), "matmul");
    PyErr_Clear();
    return object && PyObject_TypeCheck(object, &PyUFunc_Type) ? object : nullptr;
  }();
  return reinterpret_cast<PyUFuncObject*>(found);
}

/// BLAS may multiply infinities with the zeros that fill its blocks, and then NumPy warns of an invalid value that is
/// not in the result. Where an operand had an infinity, the result has one or a NaN: both raise the flag here, and
/// NumPy decides.
Captured<bool> flag_if_not_finite(Session& session, ValueId product) {
  const ValueId twice[] = {product, product};
  FRAMEJIT_TRY(zero_or_nan, built(session.builder().elementwise(Op::Subtract, twice)));
  FRAMEJIT_REQUIRE(built(session.builder().cast(zero_or_nan, DType::I32)));
  return true;
}

/// A^T A of many columns, of which BLAS computes half as well and packs the columns of the first factor faster.
bool is_large_symmetric(const graph::Graph& graph, ValueId a, ValueId b) {
  constexpr int64_t kLeastRows = 768;
  const graph::Type &x = graph.type(a), &y = graph.type(b);
  return x.rank() == 2 && y.rank() == 2 && graph.root(a) == graph.root(b) && x.offset == y.offset &&
         x.dtype == y.dtype && std::equal(x.shape.begin(), x.shape.end(), y.shape.rbegin()) &&
         std::equal(x.strides.begin(), x.strides.end(), y.strides.rbegin()) &&
         graph.shapes().hint(x.strides[0]) == graph::size_of(x.dtype) && graph.shapes().hint(x.shape[0]) >= kLeastRows;
}

/// NumPy calls BLAS for each matrix of a batch. Where these are small, or rows that one matrix multiplies, calls take
/// longer than a core does.
bool is_faster_batch(const graph::Graph& graph, ValueId a, ValueId b) {
  constexpr int64_t kSmall = 8192, kFewRows = 4;  // products of elements; rows
  const graph::Type &x = graph.type(a), &y = graph.type(b);
  if (x.rank() < 2 || y.rank() < 2) return false;
  const graph::ShapeEnv& shapes = graph.shapes();
  const int64_t rows = shapes.hint(x.shape.end()[-2]);
  return shapes.hint(x.shape.end()[-2] * x.shape.back() * y.shape.back()) <= kSmall ||
         (y.rank() == 2 && rows <= kFewRows);
}

/// Of 1-D and 2-D arrays and, as np.matmul has them, of batches.
Captured<Value*> own_product(Session& session, bool is_dot, Value* left, Value* right) {
  std::array<Operand, 2> operands;
  std::array<arrays::OperandType, 2> types;
  std::array<int, 2> ranks;
  for (std::size_t i = 0; i < 2; ++i) {
    FRAMEJIT_TRY(one, operand(session, i == 0 ? left : right));
    ranks[i] = one.is_array() ? session.graph().type(one.id).rank() : 0;
    if (ranks[i] == 0) return break_at(BreakId::UnsupportedArgument, "a matrix product with a number");
    types[i] = one.type;
    operands[i] = std::move(one);
  }
  FRAMEJIT_TRY(loop, arrays::loop_types(matmul_ufunc(), types));
  const bool integers = graph::is_int(loop.out), batched = std::max(ranks[0], ranks[1]) > 2;
  const bool floats = session.o1() && (loop.out == DType::F32 || loop.out == DType::F64);
  if (batched && is_dot) return break_at(BreakId::UnsupportedArgument, "np.dot of arrays that are not 1-D or 2-D");
  if (!floats && !(integers && module::target_cpu().isa != codegen::Isa::None))
    return break_at(BreakId::UnsupportedArgument, "a matrix product of " + std::string(graph::name_of(loop.out)));
  const auto type_of = [&](const Operand& o) -> const graph::Type& { return session.graph().type(o.id); };
  const auto is_cast = [&](const Operand& o) { return type_of(o).dtype != loop.out || !codegen::has_matmul(loop.out); };
  const auto is_c_ordered = [&](const Operand& o) {
    return graph::is_c_contiguous(session.graph().shapes(), type_of(o));
  };
  // The axes of a batch lie as those of the operands, not of what is cast from them.
  if (std::max(ranks[0], ranks[1]) > 3 && std::any_of(operands.begin(), operands.end(), is_cast) &&
      !std::all_of(operands.begin(), operands.end(), is_c_ordered))
    return break_at(BreakId::UnsupportedArgument,
                    "a product of batches in another order than C, of a dtype that is cast");
  FRAMEJIT_TRY(a, convert(session, operands[0], loop.in[0]));
  FRAMEJIT_TRY(b, convert(session, operands[1], loop.in[1]));
  if (floats && is_large_symmetric(session.graph(), a, b))
    return break_at(BreakId::UnsupportedArgument, "a large product of a transpose and its own matrix");
  if (floats && batched && !is_faster_batch(session.graph(), a, b))
    return break_at(BreakId::UnsupportedArgument, "a product of batches of large matrices");
  FRAMEJIT_TRY(product, integers ? integer_product(session, a, b, 'K') : built(session.builder().matmul(a, b, 'K')));
  if (floats) {
    FRAMEJIT_REQUIRE(flag_if_not_finite(session, product));
  }
  return session.values().array(product, scalar_wrap(session.graph().type(product)));
}

/// What is not computed here is a library call of the function that was called.
Captured<Value*> product_of(Session& session, PyObject* callable, Value* left, Value* right) {
  Value* const both[] = {left, right};
  const Session::Mark mark = session.mark();
  Captured<Value*> product = own_product(session, callable != reinterpret_cast<PyObject*>(matmul_ufunc()), left, right);
  if (product || (session.o1() && product.error().id != BreakId::UnsupportedArgument)) return product;
  session.rollback(mark);
  return library_call(session, callable, both);
}

Captured<Value*> call_product(const Call& call) {
  const bool plain = call.args.size() == 2 && call.keywords.empty();
  return plain ? product_of(call.session, call.callable, call.args[0], call.args[1])
               : library_call(call.session, call.callable, call.args, call.keywords);
}

Captured<Value*> method_dot(const Call& call) {
  static PyObject* const dot = PyObject_GetAttrString(arrays::numpy_module(), "dot");  // does the same
  FRAMEJIT_TRY(args, bind(call, {"a", "b", "out"}, 2));
  FRAMEJIT_REQUIRE(none_given({args[2]}));
  return product_of(call.session, dot, args[0], args[1]);
}

constexpr FunctionRow kFunctions[] = {{"matmul", call_product}, {"dot", call_product}};
constexpr FunctionRow kMethods[] = {{"dot", method_dot}};

}  // namespace

/// Low bits of sums follow from low bits of the factors, signed or not. So narrow factors are what narrow cores take:
/// uint8 and int8, or int16.
Captured<ValueId> integer_product(Session& session, ValueId a, ValueId b, char order) {
  const DType dtype = session.graph().type(a).dtype;
  if (codegen::has_matmul(dtype)) return built(session.builder().matmul(a, b, order));
  const bool bytes = graph::size_of(dtype) == 1;
  FRAMEJIT_TRY(narrow_a, cast(session, a, bytes ? DType::U8 : DType::I16));
  FRAMEJIT_TRY(narrow_b, cast(session, b, bytes ? DType::I8 : DType::I16));
  FRAMEJIT_TRY(x, cast(session, narrow_a, DType::I32));
  FRAMEJIT_TRY(y, cast(session, narrow_b, DType::I32));
  FRAMEJIT_TRY(product, built(session.builder().matmul(x, y, order)));
  return cast(session, product, dtype);
}

Captured<Value*> matrix_product(Session& session, Value* left, Value* right) {
  return product_of(session, reinterpret_cast<PyObject*>(matmul_ufunc()), left, right);
}

std::span<const FunctionRow> product_functions() { return kFunctions; }
std::span<const FunctionRow> product_methods() { return kMethods; }

}  // namespace framejit::ext::frontends
