// Lowering, inside: graph nodes of one iteration shape become the terms of a step.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/lower_step.h"

namespace framejit::codegen::detail {

/// Where values lie in memory at this point of the program.
class Memory {
 public:
  virtual ~Memory() = default;
  /// The buffer with the bytes of a root; fails where they have not been stored.
  virtual BufferIndex buffer_of(ValueId root) = 0;
};

/// Same bytes seen in the same way.
bool same_view(const graph::Graph& graph, ValueId a, ValueId b);
/// May two values, which are not the same view, share elements?
bool may_overlap(const graph::Graph& graph, ValueId a, ValueId b);

class TermBuilder {
 public:
  TermBuilder(const graph::Graph& graph, Memory& memory, LowerContext& context, StepSpec& spec)
      : graph_(graph), memory_(memory), context_(context), spec_(spec) {}

  /// Computes a node (elementwise, cast, full, iota, copy, write) of the step.
  void compute(ValueId node);
  /// The term for a value: computed before in this step, or a load.
  TermId operand(ValueId value);
  /// Stores a computed value into its own fresh memory.
  void store(ValueId value);
  /// Stores a term into memory of its dtype.
  void store_at(Access to, TermId value, bool late, bool direct);
  /// A value that nobody reads but that may set a flag.
  void keep(ValueId value) { spec_.kept.push_back(terms_.at(value)); }
  bool has(ValueId value) const { return terms_.contains(value); }
  /// Adds the stores of `write` nodes; called after all nodes were computed. Writes to a value computed in this step
  /// count where it is among `stored`.
  void finish(const std::set<ValueId>& stored);

  TermId apply(Op op, DType operand_dtype, DType dtype, std::vector<TermId> args);
  TermId constant(DType dtype, graph::Scalar value);
  TermId pair(TermId real, TermId imaginary);
  /// 0: the real part of a complex term, 1: the imaginary one.
  TermId part(TermId of, uint8_t part);
  const Term& term(TermId of) const { return spec_.terms[of]; }
  ComplexForms forms(DType complex) const { return context_.options.complex(complex); }
  Access access(ValueId value);

 private:
  struct Written {
    ValueId destination;
    TermId value;
  };

  TermId append(Term term);
  TermId load(ValueId value);
  TermId load(Access from);
  std::optional<TermId> moved_bytes(TermId of);
  TermId iota(ValueId node);
  TermId copy(TermId of);
  bool moves(TermId term, std::size_t axis) const;
  void check_clip(const graph::Node& node, const std::vector<TermId>& args);
  Dims aligned_strides(const graph::Type& type);

  const graph::Graph& graph_;
  Memory& memory_;
  LowerContext& context_;
  StepSpec& spec_;
  std::map<ValueId, TermId> terms_;
  std::map<ValueId, TermId> loads_;
  std::vector<Written> written_;
};

/// The operator, which is composed, as operators on real terms.
TermId compose(TermBuilder& terms, Op op, DType operand, DType result, const std::vector<TermId>& args);

}  // namespace framejit::codegen::detail
