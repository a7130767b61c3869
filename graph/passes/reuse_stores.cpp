// reuse_stores: a value that is written to memory is read from there later on, so it needs no memory of its own.
//
//     %3 = add %x, %2                       %3 = add %x, %2
//     write %x, %3                    ->    write %x, %3
//     %5 = matmul %3, %y                    %5 = matmul %x, %y
//
// store_to_load_forwarding has done the reverse, so that what uses a value at once is in one loop with it. This pass
// asks which loops there are (fuse.h): if a value and its write are in one of them, and other groups read the value,
// they find the same bytes in the place that it was written to. Nothing else may be written there before the last of
// them, but for what that one writes itself, element by element. Operators whose bits depend on the layout of an
// operand need the same strides.
//
// Relies on: dce and rematerialize have run, so that the groups are those that will be lowered.
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "graph/passes/fuse.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

constexpr int32_t kNone = -1, kSeveral = -2;

class StoreReuser {
 public:
  StoreReuser(Graph& graph, const PassContext& context) : graph_(graph), context_(context), facts_(graph) {}

  bool run() {
    find_uses();
    const std::vector<ValueId> writes = candidates();
    if (writes.empty()) return false;
    find_groups();
    bool changed = false;
    for (ValueId write : writes) {
      const ValueId value = graph_.node(write).inputs[1];
      const std::vector<Use> later = later_uses(write);
      if (later.empty() || !std::all_of(later.begin(), later.end(), [&](const Use& u) { return may_load(u, write); }))
        continue;
      for (const Use& use : later) graph_.node(use.user).inputs[use.operand] = graph_.node(write).inputs[0];
      uses_[index(value)].clear();
      changed = true;
    }
    return changed;
  }

 private:
  struct Use {
    ValueId user;
    std::size_t operand;
  };

  void find_uses() {
    uses_.resize(graph_.value_count());
    position_.assign(graph_.value_count(), kNone);
    int32_t position = 0;
    for (ValueId v : graph_.body().nodes) {
      position_[index(v)] = position++;
      const std::vector<ValueId>& inputs = graph_.node(v).inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) uses_[index(inputs[i])].push_back({v, i});
    }
    for (ValueId v : graph_.body().nodes)
      for (ValueId root : written_roots(graph_, v)) writes_[index(root)].push_back(v);
  }

  /// Writes of whole values that something else uses as well, and that nothing sees by themselves.
  std::vector<ValueId> candidates() const {
    std::vector<ValueId> out;
    for (ValueId v : graph_.body().nodes) {
      if (graph_.node(v).op != Op::Write) continue;
      const ValueId value = graph_.node(v).inputs[1];
      const Type &place = graph_.type(v), &type = graph_.type(value);
      const OpClass cls = def(graph_.node(value).op).cls;
      const bool is_expression = cls == OpClass::Elementwise || cls == OpClass::Cast;
      const bool is_dense = place.strides == type.strides ||
                            (!place.strides.empty() && place.strides.back() == Dim(size_of(place.dtype)));
      if (is_expression && is_dense && uses_[index(value)].size() > 1 && place.shape == type.shape &&
          place.dtype == type.dtype && position_[index(value)] != kNone && !facts_.viewed[index(value)] &&
          !facts_.escapes[index(value)] && !facts_.captured[index(value)])
        out.push_back(v);
    }
    return out;
  }

  void find_groups() {
    group_.assign(graph_.value_count(), kNone);
    const std::vector<Group> groups = fuse(graph_, context_);
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (ValueId v : groups[g].nodes)
        group_[index(v)] = group_[index(v)] == kNone ? static_cast<int32_t>(g) : kSeveral;
  }

  /// The uses of the written value in later groups; none if another use needs the value as it is.
  std::vector<Use> later_uses(ValueId write) const {
    const ValueId value = graph_.node(write).inputs[1];
    const int32_t own = group_[index(value)];
    if (own < 0 || group_[index(write)] != own) return {};
    std::vector<Use> out;
    for (const Use& use : uses_[index(value)]) {
      const int32_t g = group_[index(use.user)];
      if (g == own && graph_.type(use.user).shape == graph_.type(value).shape) continue;
      if (g <= own) return {};
      out.push_back(use);
    }
    return out;
  }

  bool may_load(const Use& use, ValueId write) const {
    const Node& user = graph_.node(use.user);
    const ValueId place = graph_.node(write).inputs[0], value = graph_.node(write).inputs[1];
    const OpClass cls = def(user.op).cls;
    const bool is_loop = cls == OpClass::Elementwise || cls == OpClass::Cast || user.op == Op::Write;
    if (!reads_operand(user, use.operand) || is_control(user.op)) return false;
    const bool same_strides = graph_.type(place).strides == graph_.type(value).strides;
    if (!same_strides && (!is_loop || def(user.op).exactness != Exactness::Native)) return false;
    if (!is_loop && user.op != Op::MatMul)  // a library call is told which of its operands share memory
      for (std::size_t i = 0; i < user.inputs.size(); ++i)
        if (i != use.operand && (graph_.root(user.inputs[i]) == graph_.root(place) || user.inputs[i] == value))
          return false;
    if (user.op == Op::Write && graph_.root(place) == user.type.root) return false;
    const auto at = [&](ValueId v) { return std::pair(position_[index(v)], group_[index(v)]); };
    const auto [write_position, write_group] = at(write);
    const auto [user_position, user_group] = at(use.user);
    if (user_position <= write_position) return false;
    for (ValueId other : writes_.at(index(graph_.root(place)))) {
      if (other == write) continue;
      if (graph_.node(other).op == Op::Write && never_meet(graph_.type(other), graph_.type(write))) continue;
      const auto [position, group] = at(other);
      const bool before = position < write_position && kNone < group && group <= write_group;
      const bool after = position > user_position && group > user_group;
      const bool in_place = position > user_position && group == user_group && is_loop &&
                            graph_.node(other).op == Op::Write && same_place(graph_.type(other), graph_.type(write));
      if (!before && !after && !in_place) return false;
    }
    return true;
  }

  Graph& graph_;
  const PassContext& context_;
  const MemoryFacts facts_;
  std::vector<std::vector<Use>> uses_;                         // by value, in nodes of the body
  std::vector<int32_t> position_;                              // by value, in the body
  std::vector<int32_t> group_;                                 // by value: the group that computes it
  std::unordered_map<uint32_t, std::vector<ValueId>> writes_;  // by root: the nodes of the body that write it
};

}  // namespace

bool reuse_stores(Graph& graph, PassContext& context) { return StoreReuser(graph, context).run(); }

}  // namespace framejit::graph
