// Products of matrices and vectors: @, np.matmul, np.dot. At O0 they are host calls, because NumPy's BLAS decides the bits.
#include <array>

#include "ext/numpy_door_parts.h"
#include "ext/numpy_host.h"

namespace framejit::ext {

namespace {

/// The ufunc, which knows the dtypes. Kept for ever; np.dot has the same ones.
PyUFuncObject* matmul_ufunc() {
  static PyObject* const found = [] {
    PyObject* object = PyObject_GetAttrString(numpy_module(), "matmul");
    PyErr_Clear();
    return object && PyObject_TypeCheck(object, &PyUFunc_Type) ? object : nullptr;
  }();
  return reinterpret_cast<PyUFuncObject*>(found);
}

/// BLAS may multiply infinities with the zeros that fill its blocks, and then NumPy warns of an invalid value that is not in the result.
/// Where an operand had an infinity, the result has one or a NaN: both raise the flag here, and NumPy decides.
Captured<bool> flag_if_not_finite(Session& session, ValueId product) {
  const ValueId twice[] = {product, product};
  FRAMEJIT_TRY(zero_or_nan, built(session.builder().elementwise(Op::Subtract, twice)));
  FRAMEJIT_TRY(flagged, built(session.builder().cast(zero_or_nan, DType::I32)));
  (void)flagged;
  return true;
}

/// 1-D and 2-D arrays of floats.
Captured<Value*> own_product(Session& session, Value* left, Value* right) {
  std::array<Operand, 2> operands;
  std::array<OperandType, 2> types;
  for (std::size_t i = 0; i < 2; ++i) {
    FRAMEJIT_TRY(one, operand(session, i == 0 ? left : right));
    const int rank = one.is_array() ? session.graph().type(one.id).rank() : 0;
    if (rank == 0 || rank > 2)
      return break_at(BreakId::UnsupportedArgument, "a matrix product of operands that are not 1-D or 2-D arrays");
    types[i] = one.type;
    operands[i] = std::move(one);
  }
  FRAMEJIT_TRY(loop, loop_types(matmul_ufunc(), types));
  if (loop.out != DType::F32 && loop.out != DType::F64)
    return break_at(BreakId::UnsupportedArgument, "a matrix product of " + std::string(graph::name_of(loop.out)));
  FRAMEJIT_TRY(a, convert(session, operands[0], loop.in[0]));
  FRAMEJIT_TRY(b, convert(session, operands[1], loop.in[1]));
  FRAMEJIT_TRY(product, built(session.builder().matmul(a, b)));
  FRAMEJIT_TRY(flagged, flag_if_not_finite(session, product));
  (void)flagged;
  return session.array(product, scalar_wrap(session.graph().type(product)));
}

/// At O0, and of other operands, the product is a host call of the function that was called.
Captured<Value*> product_of(Session& session, PyObject* callable, Value* left, Value* right) {
  Value* const both[] = {left, right};
  if (!session.o1()) return host_call(session, callable, both);
  const Session::Mark mark = session.mark();
  Captured<Value*> product = own_product(session, left, right);
  if (product || product.error().id != BreakId::UnsupportedArgument) return product;
  session.rollback(mark);
  return host_call(session, callable, both);
}

Captured<Value*> call_product(const Call& call) {
  const bool plain = call.args.size() == 2 && call.keywords.empty();
  return plain ? product_of(call.session, call.callable, call.args[0], call.args[1])
               : host_call(call.session, call.callable, call.args, call.keywords);
}

Captured<Value*> method_dot(const Call& call) {
  static PyObject* const dot = PyObject_GetAttrString(numpy_module(), "dot");  // does the same
  FRAMEJIT_TRY(args, bind(call, {"a", "b", "out"}, 2));
  FRAMEJIT_TRY(plain, none_given({args[2]}));
  (void)plain;
  return product_of(call.session, dot, args[0], args[1]);
}

constexpr FunctionRow kFunctions[] = {{"matmul", call_product}, {"dot", call_product}};
constexpr FunctionRow kMethods[] = {{"dot", method_dot}};

}  // namespace

Captured<Value*> matrix_product(Session& session, Value* left, Value* right) {
  return product_of(session, reinterpret_cast<PyObject*>(matmul_ufunc()), left, right);
}

std::span<const FunctionRow> product_functions() { return kFunctions; }
std::span<const FunctionRow> product_methods() { return kMethods; }

}  // namespace framejit::ext
