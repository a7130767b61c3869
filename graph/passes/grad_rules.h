// The derivative of each operator: private to the gradient pass.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <vector>

#include "graph/passes/grad.h"

namespace framejit::graph {

class Math;

/// A value in a formula: `g * cos(x)` appends two nodes.
struct E {
  Math* math = nullptr;
  ValueId id = kNoValue;
};

/// What rules build with. Operands have one floating dtype and shapes that fit.
class Math {
 public:
  explicit Math(GraphBuilder& builder) : builder_(builder) {}
  GraphBuilder& builder() { return builder_; }
  Graph& graph() { return builder_.graph(); }
  ShapeEnv& shapes() { return builder_.graph().shapes(); }
  const Type& type(E x) { return graph().type(x.id); }
  E of(ValueId id) { return {this, id}; }

  E number(double value, DType dtype);
  E apply(Op op, std::initializer_list<E> operands);
  E cast(E x, DType dtype);
  E reshape(E x, Dims shape);
  E broadcast(E x, Dims shape);
  E permute(E x, const std::vector<int>& axes);
  E sum(E x, std::vector<int64_t> axes, bool keep = false);
  E matmul(E a, E b);
  E zeros(DType dtype, Dims shape);
  E conjugate(E x) { return apply(Op::Conjugate, {x}); }
  E real(E x);  // of what is real itself
  /// Summed over the axes along which an operand of this shape was repeated.
  E unbroadcast(E x, Dims shape);

 private:
  E done(BuildResult built);
  GraphBuilder& builder_;
};

E operator+(E a, E b);
E operator-(E a, E b);
E operator*(E a, E b);
E operator/(E a, E b);
E operator-(E a);
E operator+(E a, double b);
E operator-(E a, double b);
E operator*(E a, double b);
E operator/(E a, double b);
E operator-(double a, E b);
E operator/(double a, E b);

/// A node whose cotangent is known.
struct Backward {
  Math& math;
  Op op;
  std::vector<ValueId> inputs;
  std::vector<bool> needed;  // which operands want a cotangent
  ValueId node;
  E g;
  /// The operand and the result as they were when the node ran.
  std::function<E(std::size_t)> operand;
  std::function<E()> result;
  const LibraryGradients& library;

  E x(std::size_t i) const { return operand(i); }
  E y() const { return result(); }
  const Type& input_type(std::size_t i) const { return math.graph().type(inputs[i]); }
};

/// What attention_gradients gives for q, k and v, each in its shape.
std::array<E, 3> attention_gradients(const std::vector<ValueId>& operands, Causal causal, Math& math);

using BackwardResult = Expected<std::vector<ValueId>, NoGradient>;
using BackwardRule = BackwardResult (*)(const Backward&);

struct GradientRow {
  BackwardRule rule = nullptr;
  std::string_view why;  // where there is no rule
};

const GradientRow& gradient_row(Op op);

/// Does the rule give the cotangents of complex numbers as they are? Others are those of analytic functions.
bool knows_complex(Op op);

}  // namespace framejit::graph
