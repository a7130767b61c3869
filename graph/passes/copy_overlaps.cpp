// copy_overlaps: a small part of memory that an expression reads, before it is written over, is copied first.
//
//     %1 = view %x ...  (a row)               %1 = view %x ...
//     %2 = view %x ...  (a column)            %2 = view %x ...
//                                             %5 = copy %1
//                                      ->     %6 = copy %2
//     %3 = add %1, %2                         %3 = add %5, %6
//     %4 = minimum %x, %3                     %4 = minimum %x, %3
//     write %x, %4                            write %x, %4
//
// One loop cannot read memory at other places than it writes it, so the whole result would be stored in fresh memory
// and copied from there (fuse.h). With copies of the small parts it is written where it belongs, in one pass. All that
// the expression reads of that memory, but for the elements in their place, must be small.
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

constexpr int64_t kLeastElements = 256;  // of what is written: below, a second loop costs as much as is saved
constexpr int64_t kLeastRatio = 8;       // of what is written to what is copied

class OverlapCopier {
 public:
  explicit OverlapCopier(Graph& graph) : graph_(graph), facts_(graph) {}

  bool run() {
    run(graph_.body());
    return changed_;
  }

 private:
  using Nodes = std::unordered_set<uint32_t>;
  using Uses = std::unordered_map<uint32_t, std::vector<std::size_t>>;  // by node: the operands that are copied

  void run(Block& block) {
    Nodes own;
    Uses copied;
    for (std::size_t i = 0; i < block.nodes.size(); ++i) {
      const ValueId v = block.nodes[i];
      own.insert(index(v));
      if (graph_.node(v).op == Op::Write) find_overlaps(v, own, copied);
      for (const std::unique_ptr<Block>& inner : graph_.node(v).blocks) run(*inner);
    }
    if (!copied.empty()) insert(block, copied);
  }

  bool is_expression(ValueId v, const Nodes& own, const Dims& shape) const {
    const OpClass cls = def(graph_.node(v).op).cls;
    return (cls == OpClass::Elementwise || cls == OpClass::Cast) && own.contains(index(v)) &&
           graph_.type(v).shape == shape && !facts_.viewed[index(v)];
  }

  /// Adds what the expression that is written reads of the same memory in other places, if all of that is small.
  void find_overlaps(ValueId write, const Nodes& own, Uses& copied) {
    const Type& place = graph_.type(write);
    const int64_t elements = graph_.shapes().hint(place.size());
    const ValueId value = graph_.node(write).inputs[1];
    if (elements < kLeastElements || !is_expression(value, own, place.shape) || !seen_.insert(index(value)).second)
      return;
    std::vector<std::pair<ValueId, std::size_t>> found;
    for (std::vector<ValueId> left{value}; !left.empty();) {
      const ValueId v = left.back();
      left.pop_back();
      for (std::size_t i = 0; i < graph_.node(v).inputs.size(); ++i) {
        const ValueId operand = graph_.node(v).inputs[i];
        if (is_expression(operand, own, place.shape)) {
          if (seen_.insert(index(operand)).second) left.push_back(operand);
          continue;
        }
        const Type& type = graph_.type(operand);
        if (graph_.root(operand) != place.root || same_place(type, place) || never_meet(type, place)) continue;
        if (graph_.shapes().hint(type.size()) > elements / kLeastRatio || !may_copy(v, type)) return;
        found.emplace_back(v, i);
      }
    }
    for (const auto& [user, operand] : found) copied[index(user)].push_back(operand);
  }

  /// The bits of NumPy's loops depend on strides: theirs must be those of the copy.
  bool may_copy(ValueId user, const Type& operand) const {
    return def(graph_.node(user).op).exactness == Exactness::Native ||
           operand.strides == c_strides(operand.dtype, operand.shape);
  }

  void insert(Block& block, const Uses& copied) {
    changed_ = true;
    const std::vector<ValueId> nodes = std::exchange(block.nodes, {});
    graph_.open(block);
    for (ValueId v : nodes) {
      if (const auto uses = copied.find(index(v)); uses != copied.end())
        for (std::size_t i : uses->second) {
          const ValueId copy = copy_of(graph_.node(v).inputs[i], graph_.node(v).location);
          graph_.node(v).inputs[i] = copy;
        }
      block.nodes.push_back(v);
    }
    graph_.close();
  }

  ValueId copy_of(ValueId source, uint32_t location) {
    Node node{};
    node.op = Op::Copy;
    node.inputs = {source};
    node.type.dtype = graph_.type(source).dtype;
    node.type.shape = graph_.type(source).shape;
    node.type.strides = c_strides(node.type.dtype, node.type.shape);
    node.location = location;
    return graph_.append(std::move(node));
  }

  Graph& graph_;
  const MemoryFacts facts_;
  std::unordered_set<uint32_t> seen_;  // expressions that belong to a write that was looked at
  bool changed_ = false;
};

}  // namespace

bool copy_overlaps(Graph& graph, PassContext&) { return has_writes(graph) && OverlapCopier(graph).run(); }

}  // namespace framejit::graph
