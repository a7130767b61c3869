// rematerialize: what a gradient needs of the computation that it is of, and is cheap to compute again, is not kept for
// it.
//
//     %2 = matmul %x, %w          kept: the chain below needs it
//     %3 = tanh %2                needed by a product before the gradient and one in it: computed again for the second
//     %4 = matmul %3, %v
//   gradient
//     ...                         %3 dies with %4; %9 = tanh %2 {rematerialized}
//
// Groups are known first (fuse.h), because only what one stores takes memory: a value is *kept* where a group stores it
// before a gradient begins, and one loads it behind. A kept value may go where its elementwise operators can run again:
// what they read is never written (the flags that they set are the same, of the same calls), and the bytes of what has
// to be kept in its place, if anything, are fewer. What is kept already, and params and results, cost nothing; several
// values may go for one that is smaller than all of them. So each step makes the sum of what is kept smaller, and an
// estimate of the most memory that is held at a time decides at the end: where that did not fall the graph stays as it
// was.
//
// Time. Loops over the same shape compute it within them, mostly in less time than the store and the load took that are
// gone. What a product reads is stored again, by a pass over memory: only where that is behind the others the most that
// is held. What is added in all is at most a small part of the estimated time of the graph.
//
// The values are those of the same operators on the same operands, so at O0 to the bit; there only operators that are
// emitted inline are cheap. At O1 one and the same expression may be contracted in one loop and not in the other.
//
// Relies on: dce has run; a graph holds its gradients behind what they are of (Graph::gradient_starts).
#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "graph/passes/fuse.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNearPeak = 0.75;         // of the most memory held: where less is held it need not fall
constexpr double kAtPeak = 0.9;            // the same, for what takes time
constexpr double kLeastGain = 0.02;        // of the most memory held
constexpr double kMostTime = 0.02;         // of the graph's
constexpr double kByteNanoseconds = 0.1;   // of going through memory
constexpr double kFlopNanoseconds = 0.01;  // of four bytes, in a product
constexpr double kMostNanoseconds = 2.0;  // of an element of four bytes: expressions that take longer are not looked at
constexpr int kMostRounds = 4;

double bytes_of(const Graph& graph, ValueId v) {
  const Type& type = graph.type(v);
  return static_cast<double>(graph.shapes().hint(type.size())) * size_of(type.dtype);
}

double elements_of(const Graph& graph, ValueId v) {
  return static_cast<double>(graph.shapes().hint(graph.type(v).size()));
}

/// Operations of a product; 0 where it is another node.
double flops_of(const Graph& graph, const Node& n, ValueId v) {
  const auto length = [&](ValueId x, std::size_t axis) {
    return static_cast<double>(graph.shapes().hint(graph.type(x).shape[axis]));
  };
  switch (n.op) {
    case Op::MatMul: return 2 * elements_of(graph, v) * length(n.inputs[0], graph.type(n.inputs[0]).shape.size() - 1);
    case Op::Convolution: return 2 * elements_of(graph, v) * elements_of(graph, n.inputs[1]) / length(n.inputs[1], 0);
    case Op::ConvolutionWeights: return 2 * elements_of(graph, n.inputs[1]) * elements_of(graph, v) / length(v, 0);
    default: return 0;
  }
}

/// Nanoseconds of an element, in cache; infinite for what is not cheap. At O0 other than native operators are NumPy's
/// own loops.
double time_of(const Node& n, DType operand, bool o1) {
  const double width = std::max(size_of(operand) / 4.0, 1.0);
  if (is_complex(operand)) return kInfinite;
  switch (n.op) {
    case Op::FloorDivide:
    case Op::Remainder:
    case Op::Fmod: return kInfinite;
    case Op::Divide:
    case Op::Reciprocal:
    case Op::Sqrt: return 0.15 * width * width;
    case Op::Exp:
    case Op::Expm1:
    case Op::Log:
    case Op::Log1p:
    case Op::Tanh:
    case Op::Erf:
    case Op::Expit: return o1 && (operand == DType::F32 || operand == DType::F64) ? 0.4 * width * width : kInfinite;
    default: return def(n.op).exactness == Exactness::Native ? 0.03 * width : kInfinite;
  }
}

/// What the groups of the body store and load.
struct Traffic {
  Traffic(const Graph& graph, const PassContext& context, const MemoryFacts& facts)
      : groups(fuse(graph, context)),
        group_of(graph.value_count(), -1),
        copies(graph.value_count(), 0),
        kept(graph.value_count(), false),
        loads(graph.value_count()),
        held(groups.size(), 0.0) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (ValueId v : groups[g].nodes) group_of[index(v)] = static_cast<int>(g), ++copies[index(v)];
      for (ValueId v : groups[g].stored) kept[index(v)] = true;
      const auto load = [&](ValueId root) {
        std::vector<int>& of = loads[index(root)];
        if (group_of[index(root)] != static_cast<int>(g) && (of.empty() || of.back() != static_cast<int>(g)))
          of.push_back(static_cast<int>(g));
      };
      for (ValueId v : groups[g].nodes) {
        const Node& n = graph.node(v);
        for (ValueId x : is_control(n.op) ? used_values(graph, v) : n.inputs) load(graph.root(x));
        for (ValueId root : written_roots(graph, v)) load(root);
      }
    }
    for (uint32_t i = 0; i < loads.size(); ++i) {
      const Op op = graph.node(ValueId{i}).op;
      if (loads[i].empty() || facts.escapes[i] || !(kept[i] || op == Op::Empty || op == Op::Output)) continue;
      for (int g = kept[i] ? group_of[i] : loads[i].front(); g <= loads[i].back(); ++g)
        held[static_cast<std::size_t>(g)] += bytes_of(graph, ValueId{i});
    }
  }

  double peak() const { return held.empty() ? 0 : *std::max_element(held.begin(), held.end()); }

  std::vector<Group> groups;
  std::vector<int> group_of;  // by value: the last group that computes it; -1: none
  std::vector<int> copies;    // by value: groups that compute it
  std::vector<bool> kept;     // by value: a group stores it
  std::vector<std::vector<int>>
      loads;                 // by root: groups that load it or write to it, ascending, but for the one that computes it
  std::vector<double> held;  // by group: bytes of memory that nobody else sees
};

class Recompute {
 public:
  /// Of the values that loops read, or of those that products read.
  Recompute(Graph& graph, const PassContext& context, bool products)
      : graph_(graph),
        context_(context),
        products_(products),
        facts_(graph),
        several_rules_(flag_rules(graph) == FlagRules::Several),
        before_(graph, context, facts_),
        kept_(graph.value_count(), false),
        gone_(graph.value_count(), false),
        cost_(graph.value_count()) {}

  bool run() {
    number_parts();
    look_at_uses();
    choose();
    if (std::find(gone_.begin(), gone_.end(), true) == gone_.end()) return false;
    const std::vector<ValueId> nodes = graph_.body().nodes;
    rewrite(nodes);
    if (Traffic(graph_, context_, MemoryFacts(graph_)).peak() <= (1 - kLeastGain) * before_.peak()) return true;
    graph_.body().nodes = nodes;
    for (auto& [v, inputs] : renamed_) graph_.node(v).inputs = std::move(inputs);
    return false;
  }

 private:
  /// What it takes to have a value again.
  struct Cost {
    double bytes = kInfinite;  // to keep in its place
    double time = 0;           // nanoseconds of an element
  };

  /// Who uses a value behind the gradient's begin.
  struct Late {
    std::vector<int> groups;
    bool may_go = true;  // nothing uses it in a way that it cannot be computed again for
    bool in_product = false;
  };

  // ---- before and behind

  /// A group belongs where it began: what the gradient needs of the forward values alone may have joined one of theirs.
  void number_parts() {
    std::vector<int> part(graph_.value_count(), 0);
    const std::vector<std::size_t> starts = graph_.gradient_starts();
    const std::vector<ValueId>& nodes = graph_.body().nodes;
    int gradients = 0;
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      if (std::binary_search(starts.begin(), starts.end(), at)) ++gradients;
      part[index(nodes[at])] = gradients;
    }
    for (const Group& group : before_.groups) part_.push_back(part[index(group.first)]);
  }

  int part_of(int group) const { return part_[static_cast<std::size_t>(group)]; }
  bool is_late(ValueId v, int group) const { return part_of(group) > part_of(before_.group_of[index(v)]); }

  void look_at_uses() {
    late_.resize(graph_.value_count());
    for (std::size_t at = 0; at < before_.groups.size(); ++at) {
      const int g = static_cast<int>(at);
      for (ValueId user : before_.groups[at].nodes) {
        const Node& n = graph_.node(user);
        for (ValueId x : is_control(n.op) ? used_values(graph_, user) : n.inputs) {
          const ValueId v = graph_.root(x);
          if (!before_.kept[index(v)] || !is_late(v, g)) continue;
          Late& late = late_[index(v)];
          kept_[index(v)] = true;
          if (late.groups.empty() || late.groups.back() != g) late.groups.push_back(g);
          const OpClass cls = def(n.op).cls;
          const bool loops = cls == OpClass::Elementwise || cls == OpClass::Cast || cls == OpClass::Reduction;
          const bool in_loop = loops && x == v && (cls == OpClass::Reduction || n.type.shape == graph_.type(v).shape);
          const bool in_product = flops_of(graph_, n, user) > 0;
          late.in_product |= in_product;
          late.may_go &= (in_loop || in_product) && before_.copies[index(user)] == 1;
        }
      }
    }
  }

  // ---- what to keep

  /// Memory that is there anyway, or next to none.
  bool is_free(ValueId v) const {
    const Op op = graph_.node(v).op;
    return op == Op::Param || op == Op::Constant || op == Op::DimValue || facts_.escapes[index(v)] ||
           graph_.type(v).rank() == 0 || kept_[index(v)];
  }

  /// Can it run anywhere behind its place, as often as one likes?
  bool can_run_again(ValueId v) const {
    const Node& n = graph_.node(v);
    const OpClass cls = def(n.op).cls;
    if ((cls != OpClass::Elementwise && cls != OpClass::Cast && n.op != Op::Full) || n.type.rank() == 0 ||
        facts_.last_write[index(v)] >= 0)
      return false;
    if (may_set_flags(graph_, v) && several_rules_) return false;
    return std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](ValueId x) { return facts_.last_write[index(graph_.root(x))] < 0; });
  }

  double bytes_to_keep(ValueId v) const { return is_free(v) ? 0 : gone_[index(v)] ? kInfinite : bytes_of(graph_, v); }

  /// An operand of the same shape may be computed again with it.
  bool goes_along(ValueId v, ValueId operand) const {
    return !graph_.type(operand).is_view() && graph_.type(operand).shape == graph_.type(v).shape;
  }

  /// What lived in registers alone is computed again also where it is as large, so that values with a common origin go
  /// back to that.
  bool is_computed_again_for(ValueId v, ValueId operand) const {
    if (!goes_along(v, operand)) return false;
    const double bytes = cost_[index(operand)].bytes, to_keep = bytes_to_keep(operand);
    return before_.kept[index(operand)] || is_free(operand) ? bytes < to_keep : bytes <= to_keep && bytes < kInfinite;
  }

  Cost cost_of(ValueId v) const {
    if (!can_run_again(v)) return {};
    const Node& n = graph_.node(v);
    const DType operand = graph_.type(n.inputs.back()).dtype;
    Cost cost{0, time_of(n, operand, context_.o1)};
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId x = n.inputs[i], root = graph_.root(x);
      if (std::find(n.inputs.begin(), n.inputs.begin() + static_cast<std::ptrdiff_t>(i), x) !=
          n.inputs.begin() + static_cast<std::ptrdiff_t>(i))
        continue;
      if (!is_computed_again_for(v, x)) {
        cost.bytes += bytes_to_keep(root);
        continue;
      }
      cost.bytes += cost_[index(x)].bytes;
      cost.time += cost_[index(x)].time;
    }
    if (cost.time > kMostNanoseconds * std::max(size_of(operand) / 4.0, 1.0)) cost.bytes = kInfinite;
    return cost;
  }

  /// The memory from which it is computed again.
  std::vector<ValueId> sources_of(ValueId v) const {
    std::vector<ValueId> sources;
    add_sources(v, sources);
    return sources;
  }
  void add_sources(ValueId v, std::vector<ValueId>& sources) const {
    for (ValueId x : graph_.node(v).inputs) {
      const ValueId root = graph_.root(x);
      if (is_computed_again_for(v, x)) add_sources(x, sources);
      else if (graph_.type(root).rank() > 0 && std::find(sources.begin(), sources.end(), root) == sources.end())
        sources.push_back(root);
    }
  }

  /// Is it held for the gradient alone at a time when much is?
  bool is_worth_it(ValueId v) const {
    if (bytes_of(graph_, v) < static_cast<double>(context_.least_again)) return false;
    int last = before_.group_of[index(v)];
    for (int g : before_.loads[index(v)])
      if (!is_late(v, g)) last = g;
    const double much = (products_ ? kAtPeak : kNearPeak) * before_.peak();
    for (int g = last + 1; g < late_[index(v)].groups.front(); ++g)
      if (before_.held[static_cast<std::size_t>(g)] >= much) return true;
    return false;
  }

  /// Nanoseconds by which the graph takes longer.
  double added_time(ValueId v, const std::vector<ValueId>& sources) const {
    const Late& late = late_[index(v)];
    const auto load = [&](ValueId source) { return kByteNanoseconds * bytes_of(graph_, source); };
    const double own = load(v), compute = cost_[index(v)].time * elements_of(graph_, v);
    if (late.in_product) {
      double time = compute + own;
      for (ValueId source : sources) time += load(source);
      return time;
    }
    double time = -own;
    for (int g : late.groups) {
      time += compute - own;
      for (ValueId source : sources) {
        const std::vector<int>& loads = before_.loads[index(source)];
        if (!std::binary_search(loads.begin(), loads.end(), g)) time += load(source);
      }
    }
    return time;
  }

  double time_of_all() const {
    double time = 0;
    for (const Group& group : before_.groups)
      for (ValueId v : group.nodes) {
        const Node& n = graph_.node(v);
        if (n.type.rank() == 0 || is_bare(n.op) || is_control(n.op)) continue;
        time += kFlopNanoseconds * flops_of(graph_, n, v) * size_of(n.type.dtype) / 4;
      }
    for (uint32_t i = 0; i < before_.loads.size(); ++i)
      time += kByteNanoseconds * bytes_of(graph_, ValueId{i}) *
              static_cast<double>(before_.loads[i].size() + before_.kept[i]);
    return time;
  }

  bool may_go(ValueId v) const {
    const Late& late = late_[index(v)];
    return late.may_go && !late.groups.empty() && late.in_product == products_ && !gone_[index(v)] &&
           !facts_.escapes[index(v)] && !facts_.captured[index(v)] && cost_[index(v)].bytes < kInfinite &&
           is_worth_it(v);
  }

  void choose() {
    double left = kMostTime * time_of_all();
    bool again = true;
    for (int round = 0; round < kMostRounds && again; ++round) {
      again = false;
      std::map<ValueId, std::vector<ValueId>>
          waiting;  // by the one value that would have to be kept, those that are not larger
      for (ValueId v : graph_.body().nodes) {
        cost_[index(v)] = cost_of(v);
        if (!may_go(v)) continue;
        if (cost_[index(v)].bytes < bytes_of(graph_, v)) {
          again |= let_go({v}, left);
          continue;
        }
        std::vector<ValueId> sources = sources_of(v);
        std::erase_if(sources, [&](ValueId source) { return is_free(source); });
        if (sources.size() == 1) waiting[sources[0]].push_back(v);
      }
      for (const auto& [source, values] : waiting) {
        double bytes = 0;
        for (ValueId v : values) bytes += bytes_of(graph_, v);
        if (bytes > bytes_to_keep(source)) again |= let_go(values, left);
      }
    }
  }

  /// Values that are not kept any more, if that takes little enough time of what is left to be spent.
  bool let_go(const std::vector<ValueId>& values, double& left) {
    std::vector<ValueId> sources;
    double more = 0;
    for (ValueId v : values) {
      const std::vector<ValueId> own = sources_of(v);
      more += added_time(v, own);
      for (ValueId source : own)
        if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
    }
    for (ValueId source : sources)
      if (!is_free(source) && !before_.kept[index(source)]) more += kByteNanoseconds * bytes_of(graph_, source);
    if (more > left) return false;
    left -= std::max(more, 0.0);
    for (ValueId source : sources) kept_[index(source)] = true;
    for (ValueId v : values) {
      kept_[index(v)] = false;
      gone_[index(v)] = true;
      cost_[index(v)].bytes = 0;
    }
    return true;
  }

  // ---- the graph

  void rewrite(const std::vector<ValueId>& nodes) {
    std::vector<ValueId> out;
    for (ValueId v : nodes) {
      const int group = before_.group_of[index(v)];
      const std::vector<ValueId> inputs = graph_.node(v).inputs;
      for (std::size_t i = 0; group >= 0 && i < inputs.size(); ++i) {
        const ValueId root = graph_.root(inputs[i]);
        if (!gone_[index(root)] || !is_late(root, group)) continue;
        const ValueId there = again(inputs[i], out);
        if (renamed_.empty() || renamed_.back().first != v) renamed_.emplace_back(v, inputs);
        graph_.node(v).inputs[i] = there;
      }
      out.push_back(v);
    }
    drop_unused(out);
    graph_.body().nodes = std::move(out);
  }

  /// The value computed again, in front of the first node that needs it.
  ValueId again(ValueId v, std::vector<ValueId>& out) {
    if (!graph_.type(v).is_view() && is_free(v)) return v;
    if (const auto found = made_.find(index(v)); found != made_.end()) return found->second;
    const bool is_view = graph_.type(v).is_view();
    Node node{};
    node.op = graph_.node(v).op;
    node.inputs = graph_.node(v).inputs;
    node.attrs = graph_.node(v).attrs;
    node.type = graph_.node(v).type;
    node.location = graph_.node(v).location;
    node.calls = graph_.node(v).calls;
    node.flag_rule = graph_.node(v).flag_rule;
    node.rematerialized = !is_view;
    for (ValueId& x : node.inputs)
      if (const ValueId root = graph_.root(x); !is_free(root)) x = again(x, out);
    if (is_view) node.type.root = graph_.root(node.inputs[0]);
    const ValueId made = graph_.append(std::move(node));
    made_.emplace(index(v), made);
    out.push_back(made);
    return made;
  }

  /// What the gradient alone needed, and has again, and views of what has gone.
  void drop_unused(std::vector<ValueId>& nodes) const {
    std::vector<int> uses(graph_.value_count(), 0);
    for (ValueId v : nodes)
      for (ValueId x : used_values(graph_, v)) ++uses[index(x)];
    for (ValueId v : graph_.results()) ++uses[index(v)];
    std::vector<ValueId> left;
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      const bool may_go = graph_.node(*it).op == Op::View || made_.contains(index(*it));
      if (may_go && uses[index(*it)] == 0)
        for (ValueId x : used_values(graph_, *it)) --uses[index(x)];
      else left.push_back(*it);
    }
    nodes.assign(left.rbegin(), left.rend());
  }

  Graph& graph_;
  const PassContext& context_;
  const bool products_;
  const MemoryFacts facts_;
  const bool several_rules_;
  const Traffic before_;
  std::vector<int> part_;   // by group: gradients that have begun
  std::vector<Late> late_;  // by value
  std::vector<bool> kept_;  // by value: in memory when the gradient needs it
  std::vector<bool> gone_;  // by value: was kept, and is not any more
  std::vector<Cost> cost_;  // by value
  std::unordered_map<uint32_t, ValueId> made_;
  std::vector<std::pair<ValueId, std::vector<ValueId>>> renamed_;  // with the operands that they had
};

}  // namespace

bool rematerialize(Graph& graph, PassContext& context) {
  const std::vector<ValueId>& nodes = graph.body().nodes;
  if (graph.gradient_starts().empty() ||
      std::any_of(nodes.begin(), nodes.end(), [&](ValueId v) { return graph.node(v).rematerialized; }))
    return false;
  // First what takes no time; products only where memory is still held for what they read.
  const bool loops = Recompute(graph, context, false).run();
  return Recompute(graph, context, true).run() || loops;
}

}  // namespace framejit::graph
