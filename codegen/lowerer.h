// Lowering, inside: the parts that groups are cut into, and what makes the steps of each.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/lower_terms.h"

namespace framejit::codegen::detail {

using graph::Graph;
using graph::Group;
using graph::Node;
using graph::OpClass;

/// Nodes that one step computes (reductions: one step each, behind it).
struct Part {
  std::vector<ValueId> nodes;
  std::set<ValueId> stored;  // values that later parts or groups, or the caller, read from memory
  Dims shape;
  uint32_t group = 0;
  bool ahead =
      false;  // reductions of what the writes among its nodes will write: these are made by another part, later
};

/// Lowers one graph: `run` once, then it is used up.
class Lowerer : public Memory {
 public:
  Lowerer(const Graph& graph, const std::vector<Group>& groups, const LowerOptions& options)
      : graph_(graph),
        groups_(&groups),
        options_(options),
        facts_(graph.shapes()),
        kernels_(program_, options),
        context_{options, program_, facts_, kernels_} {}

  Program run();
  BufferIndex buffer_of(ValueId root) override;

 private:
  // lower.cpp
  void cut_groups();
  void lower_parts();
  /// What becomes of the flags of a part.
  graph::FlagRule rule_of(const Part& part) const;

  Dim bytes_of(ValueId v) const { return graph_.type(v).size() * Dim(graph::size_of(graph_.type(v).dtype)); }
  OpClass cls(ValueId v) const { return graph::def(graph_.node(v).op).cls; }
  bool may_flag(ValueId v) const { return detail::may_flag(graph_, v); }
  /// The shape that a node is computed over.
  const Dims& shape_of(ValueId v) const;
  bool same_shape(const Dims& a, const Dims& b);
  bool is_scalar_shape(const Dims& shape);

  void find_results();
  bool is_param_write(ValueId v) const;
  bool writes_param(const Part& part) const;
  /// Is it known to whom to say what a node has raised?
  bool attributable(ValueId v) const {
    return !may_flag(v) || (!graph_.node(v).calls.empty() && cls(v) != OpClass::Reduction);
  }
  /// From the first part on that writes a param, flags must have an owner and nothing may ask for a second run. Numbers
  /// that are ready before, such as a Python float in the array's dtype, are computed before.
  void attribute();
  /// Moves reductions that may warn, or ask for a second run, before the first part that writes a param, where they can
  /// be made of what is there then; and numbers of what they give. Answers which part is that.
  std::size_t reduce_ahead(std::set<ValueId> early);
  /// Adds to reductions what the parts before them compute, and write, of their operands. False where that is not
  /// cheap, or reads what it writes in another view.
  bool take_ahead(Part& part, std::span<const Part> before, const std::multimap<ValueId, ValueId>& users);
  bool is_cheap(ValueId v, const Part& part);
  /// Numbers from what is there at the start and is never written, or from parts that are.
  bool is_ready(const Part& part, std::set<ValueId> ready);
  /// Complex division and absolute value raise, beside what NumPy's loops do, flags of steps in between.
  bool may_redo(ValueId v) const;

  /// A group lists its reductions last. Beside a write that would be too late for one that reads, by a load, what stood
  /// there before: then the nodes go in program order.
  std::vector<ValueId> in_order(const std::vector<ValueId>& nodes) const;
  /// Cuts a group where a node reads or writes memory that an earlier node of the part wrote, or reads, in another
  /// view.
  void cut_group(uint32_t g);
  /// fmin and fmax give one of two zeros by the position in NumPy's loop, which only a step of their own keeps.
  bool stands_alone(ValueId v) const;
  bool must_cut_before(const std::vector<ValueId>& piece, ValueId v);
  /// A view that is the whole of its root, but for axes of length 1.
  bool same_bytes(ValueId view, ValueId root);
  std::vector<std::pair<Dim, Dim>> squeezed(ValueId v);
  /// Nodes of smaller shapes come first, in parts of their own; scalars may stay where they are free of NumPy loops,
  /// and their flags would not be lost with an empty array.
  void cut_by_shape(const std::vector<ValueId>& piece, uint32_t g);
  bool scalars_stay(const std::vector<ValueId>& scalars, const std::vector<ValueId>& others, const Dims& shape,
                    uint32_t g);
  bool needs_numpy_loop(ValueId v) const;

  /// What each part has to leave in memory. Scalars that a part computes along the way and others want get a part of
  /// their own, which changes what is wanted.
  void find_stored();
  std::vector<bool> wanted_values();  // by value
  bool split_wanted_scalars(const std::vector<bool>& wanted);

  /// Copies of what the program overwrites, if it may have to be taken back.
  void save_params();
  void lower_part(const Part& part);
  /// Values of the part that `v` is computed from, itself included.
  void reach(ValueId v, const Part& part, std::set<ValueId>& out) const;
  bool feeds_several(ValueId v, const Part& part, const std::vector<ValueId>& reductions) const;
  /// Of the elementwise nodes before reductions, those for what is stored and those that nothing else would compute.
  std::vector<ValueId> needed(const Part& part, const std::vector<ValueId>& elementwise,
                              const std::set<ValueId>& stored, const std::set<ValueId>& reached) const;
  StepSpec new_step(const Part& part) const;
  void lower_elementwise(const Part& part, const std::vector<ValueId>& nodes, const std::set<ValueId>& stored);
  void fill_elementwise(StepSpec& spec, const std::vector<ValueId>& nodes, const std::set<ValueId>& stored);
  void lower_reduction(const Part& part, const std::vector<ValueId>& elementwise, const std::set<ValueId>& stored,
                       ValueId r);
  void reach_unstored(ValueId v, const Part& part, const std::set<ValueId>& stored, std::set<ValueId>& out) const;
  /// Every reduced axis has length 1: the start value combined with the one element.
  void lower_trivial(StepSpec& spec, TermBuilder& terms, const FoldSpec& fold, const Node& node);
  bool is_one_loop(std::size_t first) const;
  void lower_library_call(const Part& part);
  /// Results that are constants or dimensions and belong to no group. Memory that nothing is written to has its size
  /// all the same.
  void store_scalar_results();

  // lower_products.cpp: matrix products and what goes with them
  void lower_product(const Part& part, const Part* epilogue);
  /// At O0 too: whoever makes the node answers for it (a float ndarray's product stays NumPy's, a Tensor's is this core
  /// eagerly as well, and sums of integers have one value).
  void lower_matmul(const Part& part, const Part* epilogue);
  void take_narrow(NarrowProduct kind, bool in_amx, bool in_vectors, MatMulStep& step);
  /// The narrow core that gives the same 32 bits, for factors that were made of narrower integers.
  std::optional<NarrowProduct> integers_of(ValueId a, ValueId b) const;
  MatMulStep new_product(const Part& part, DType dtype, std::string name);
  /// Where the result lies is known when its epilogue is.
  template <class F>
  void add_product(const Part& part, const Part* epilogue, MatMulStep step, F&& result);
  /// The weights, [channels out, channels * window], times the windows of the image.
  void lower_convolution(const Part& part, const Part* epilogue);
  /// For each image the cotangent of its result, [channels out, places], times the image's windows, [places, window *
  /// channels]; their sum.
  void lower_weights(const Part& part);
  /// An operand of a convolution: strides from image to image, group to group, and of its rows and columns.
  LoopOperand grouped(ValueId v, const graph::Window& window, std::optional<Dim> image, Dim group, Dim row, Dim column);
  /// The innermost `axes` axes are those of the matrix or vector, whose strides are given; the others are aligned with
  /// `batch`.
  LoopOperand matrix(ValueId v, int axes, const Dims& batch, Dim row, Dim column);
  /// The part that computes element by element what is made of a product, if the product may wait for it: its first
  /// reader, over the product's shape, with nothing in between that writes what the product reads. Of several products
  /// the last one. None where flags have owners: those are told apart step by step.
  const Part* epilogue_of(const Part& product) const;
  /// The part that computes all of A element by element, for this product alone, if it may wait for the product: what
  /// it reads is not written until then. None where flags have owners, as for epilogues.
  const Part* producer_of(const Part& product, const Part* epilogue);
  void take_producer(const Part& product, const Part* epilogue, MatMulStep& step);
  bool is_product(const Part& part) const;
  void lower_epilogue(const Part& part, ValueId product, MatMulStep& out);
  StepSpec whole_spec(const Part& part);
  /// Over all axes; nothing where it needs more than that.
  std::optional<LoopStep> one_kernel(const StepSpec& spec);
  /// A product that only its epilogue reads lies where the epilogue's first result of that dtype will.
  void place_in_result(const Part& part, ValueId product, LoopStep& epilogue);
  void lower_attention(const Part& part);

  // lower_control.cpp: control flow
  uint32_t here() const { return static_cast<uint32_t>(program_.steps.size()); }
  FlowStep& flow(FlowStep::Kind kind);
  /// A step that goes by a bool; returns its number.
  uint32_t decide(FlowStep::Kind kind, ValueId condition, uint32_t target = 0);
  void land(uint32_t jump) { std::get<FlowStep>(program_.steps[jump]).target = here(); }
  BufferIndex append_buffer(BufferKind kind, Dim bytes);
  /// Where a value lies; a constant or dimension is stored first.
  BufferIndex address_of(ValueId v);
  /// A fresh value of the layout of `v`, at `to`.
  void copy_to(BufferIndex to, ValueId v);
  void lower_block(const graph::Block& block, const std::vector<Group>& groups);
  /// The value, made in the block and given once, may be computed where what it becomes will lie.
  bool is_own(const graph::Block& block, ValueId v) const;
  /// Where nobody but the program looks, and no write comes between, a pointer to what a block gives does in place of a
  /// copy. What a loop carries stays where it is behind it; its other results are those of rounds that others may
  /// follow.
  bool may_follow(const Node& node, std::size_t i, ValueId output) const;
  void lower_control(const Part& part);
  void lower_side(const graph::Block& block, const std::vector<Group>& groups,
                  const std::vector<std::optional<BufferIndex>>& outputs);
  void move(BufferIndex a, BufferIndex b, Dim offset);
  /// A round reads what it carries through pointers, and writes what the next one will carry into memory of its own;
  /// then the pointers go round.
  void lower_loop(const Node& node, const Group& group, const std::vector<std::optional<BufferIndex>>& outputs);
  /// The body of a loop: what is carried goes to the memory behind a pointer.
  void lower_round(const graph::Block& body, const std::vector<Group>& groups,
                   const std::vector<std::optional<BufferIndex>>& targets);
  /// From one buffer to another of the same layout.
  void copy_bytes(BufferIndex to, BufferIndex from, const graph::Type& type);

  const Graph& graph_;
  const std::vector<Group>* groups_;
  const LowerOptions& options_;
  Program program_;
  Facts facts_;
  KernelPool kernels_;
  LowerContext context_;
  std::map<ValueId, BufferIndex> buffers_;
  std::map<ValueId, uint32_t> result_number_;
  std::map<ValueId, std::size_t> last_reader_;  // by root: the last part that reads it
  std::vector<Part> parts_;
  std::map<const Part*, std::size_t> loop_of_;  // by part that is one loop, of no block: its step
  bool needs_undo_ = false;
  int depth_ = 0;                  // of blocks
  std::set<ValueId> written_;      // roots
  std::set<BufferIndex> follows_;  // pointers to where a value happens to lie; the others are memory to write to
};

}  // namespace framejit::codegen::detail
