// One walk in program order; what is known about groups and roots is in hash maps, so time is linear in operands.
#include "graph/passes/fuse.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/passes/hash.h"
#include "graph/passes/memory.h"
#include "graph/passes/schedule_groups.h"
#include "graph/support/check.h"

namespace framejit::graph {

namespace {

constexpr int32_t kNone = -1;

/// Nodes that share nothing with a group join it up to this size only: they would compete for registers.
constexpr std::size_t kMaxUnrelated = 32;

/// A step takes 64 operands at most, scratch memory among them.
constexpr std::size_t kMaxOperands = 40;

/// The most nodes of a group. Larger groups take long to compile.
constexpr std::size_t kMaxNodes = 4000;

/// An operand that is broadcast to at least so many times its size is computed in a group of its own that comes first.
constexpr int64_t kLeastBroadcast = 4;

/// The operands of a group that count towards the limit. Known: the values that it loads or stores, as far as that is
/// known when a node joins it. Possible: all values that a later group might load, too.
enum class Operands : uint8_t { Known, Possible };

/// The most places of a root that are told apart.
constexpr std::size_t kMostPlaces = 64;

/// How a group touches the bytes of one root.
struct Access {
  std::vector<ValueId> places;  // a value for each place
  bool reduced = false;         // a reduction, which comes last in the group, loads or stores it
};

/// A group under construction.
struct OpenGroup {
  Group group;
  ValueId reduction = kNoValue;                   // the first one
  bool closed = false;                            // a contraction
  bool rematerialized = false;                    // begun by what is computed again
  std::optional<FlagRule> flag_rule;              // of its nodes that may set flags
  std::unordered_map<uint32_t, Access> accesses;  // by root
  std::unordered_set<uint32_t> scalars;           // free 0-d nodes that stand in it
  std::unordered_set<uint32_t> operands;          // values that it loads, and those that it stores or may have to
};

/// How fusion sees a value: the group that computes it, and who uses it.
struct Value {
  int32_t group = kNone;        // that computes it
  int32_t ready = 0;            // of a free value: the first group that may compute it
  int32_t uses = 0;             // by nodes that are in no group yet
  bool free = false;            // see is_free
  bool is_written_out = false;  // to the memory of another value, from where reuse_stores has it read
  bool cheap = false;           // see find_cheap
  bool placed = false;          // in a group
  bool stored = false;          // by its group
  bool written = false;         // its bytes, since it was computed
};

/// The last groups that write, or that read, the places of a root.
struct Touched {
  int32_t anywhere = kNone;                         // all of the root, or places that are not told apart
  int32_t last = kNone;                             // of them all
  std::vector<std::pair<ValueId, int32_t>> places;  // views
};

/// How fusion sees the memory of a root: the groups that write and read it. The node that fills fresh memory with an
/// address writes all of it.
struct Root {
  Touched writes, reads;
};

bool is_computed(const Node& n) {
  const OpClass cls = def(n.op).cls;
  return cls != OpClass::View && (cls != OpClass::Source || n.op == Op::Full || n.op == Op::Iota);
}

/// The iteration shape.
const Dims& shape_of(const Graph& graph, const Node& n) {
  return def(n.op).cls == OpClass::Reduction ? graph.type(n.inputs[0]).shape : n.type.shape;
}

/// If two groups share no operands, one pass over memory instead of two saves little.
bool accepts_unrelated(const Node& n, const OpenGroup& g) {
  return def(n.op).cls != OpClass::Reduction && g.reduction == kNoValue && g.group.nodes.size() < kMaxUnrelated;
}

/// Same axes over operands whose elements lie in the same order, so that one walk serves both.
bool same_reduction(const Graph& graph, const Node& a, const Node& b) {
  const Type &x = graph.type(a.inputs[0]), &y = graph.type(b.inputs[0]);
  if (a.axes() != b.axes() || x.rank() != y.rank()) return false;
  for (int i = 0; i < x.rank(); ++i)
    if (!(x.strides[i] * Dim(size_of(y.dtype)) == y.strides[i] * Dim(size_of(x.dtype)))) return false;
  return true;
}

class Fuser {
 public:
  Fuser(const Graph& graph, const MemoryFacts& facts, const Block& block, ExecOrder order, FlagRules rules,
        Operands operands)
      : graph_(graph),
        facts_(facts),
        block_(block),
        order_(order),
        values_(graph.value_count()),
        roots_(graph.value_count()),
        rules_(rules),
        operands_(operands) {}

  std::vector<Group> run() {
    for (ValueId v : block_.nodes)
      for (ValueId input : is_control(graph_.node(v).op) ? used_values(graph_, v) : graph_.node(v).inputs)
        ++values_[index(input)].uses;
    find_cheap();
    const std::vector<std::size_t> starts =
        &block_ == &graph_.body() ? graph_.gradient_starts() : std::vector<std::size_t>{};
    const std::vector<bool> early = starts.empty() ? find_early() : std::vector<bool>(graph_.value_count(), false);
    for (ValueId v : block_.nodes)
      if (early[index(v)]) node(v);
    for (std::size_t at = 0; at < block_.nodes.size(); ++at) {
      if (std::binary_search(starts.begin(), starts.end(), at)) gradient_ = static_cast<int32_t>(groups_.size());
      if (!early[index(block_.nodes[at])]) node(block_.nodes[at]);
    }
    place_unused_scalars();
    for (OpenGroup& g : groups_) finish(g);
    std::vector<Group> out;
    for (OpenGroup& g : groups_) out.push_back(std::move(g.group));
    return schedule_groups(graph_, block_, std::move(out), order_);
  }

 private:
  bool has_address(ValueId v) const { return facts_.viewed[index(v)] || facts_.escapes[index(v)]; }

  /// Is the operand in a register of the group that computes it, or must it be loaded? What was written since must.
  bool is_register(ValueId operand, const Node& user) const {
    const Node& n = graph_.node(operand);
    if (!is_computed(n) || values_[index(operand)].free || def(n.op).cls == OpClass::Reduction || is_alone(n.op))
      return false;
    return n.type.shape == shape_of(graph_, user) && !values_[index(operand)].written;
  }

  void node(ValueId v) {
    const Node& n = graph_.node(v);
    if (n.op == Op::Output) touch(roots_[index(v)].writes, v, values_[index(n.inputs[0])].group);
    if (!is_computed(n)) return;
    if (is_control(n.op)) return control(v, n);
    if (is_free(v, n)) {
      values_[index(v)].free = true;
      for (ValueId input : n.inputs) values_[index(v)].ready = std::max(values_[index(v)].ready, earliest_load(input));
      return;
    }
    const int32_t g = is_alone(n.op) ? kNone : find_group(v, n);
    join(v, n, g == kNone ? open(v, n) : g);
  }

  void control(ValueId v, const Node& n) {
    const int32_t g = values_[index(v)].group = open(v, n);
    groups_.back().group.nodes.push_back(v);
    for (ValueId used : used_values(graph_, v))
      if (!is_control(graph_.node(used).op)) load(used, g);
    for (ValueId root : written_roots(graph_, v)) {
      touch(roots_[index(root)].writes, root, g);
      values_[index(root)].written = true;
    }
    if (n.op == Op::Measure) measured_ = g + 1;
    for (const std::unique_ptr<Block>& block : n.blocks)
      groups_.back().group.blocks.push_back(Fuser(graph_, facts_, *block, order_, rules_, operands_).run());
  }

  /// Finds nodes that depend on params only and are broadcast to a larger shape, such as a row that is added to a
  /// matrix. Their group comes first: in the middle of an expression it would cut that into two groups.
  std::vector<bool> find_early() const {
    std::vector<bool> early(graph_.value_count(), false), wanted(early);
    const auto is_given = [&](ValueId v) {
      const Op op = graph_.node(v).op;
      return (op == Op::Param || op == Op::Constant || early[index(v)]) && facts_.last_write[index(graph_.root(v))] < 0;
    };
    const auto elements = [&](const Dims& shape) { return graph_.shapes().hint(product(shape)); };
    for (ValueId v : block_.nodes) {
      const Node& n = graph_.node(v);
      const OpClass cls = def(n.op).cls;
      const bool moves = cls == OpClass::View || ((cls == OpClass::Elementwise || cls == OpClass::Cast) &&
                                                  n.type.rank() > 0 && !is_alone(n.op) && !has_address(v));
      early[index(v)] = moves && std::all_of(n.inputs.begin(), n.inputs.end(), is_given);
    }
    for (auto v = block_.nodes.rbegin(); v != block_.nodes.rend(); ++v) {
      const Node& n = graph_.node(*v);
      const OpClass cls = def(n.op).cls;
      early[index(*v)] = early[index(*v)] && wanted[index(*v)];
      const bool loops = cls == OpClass::Elementwise || cls == OpClass::Cast || cls == OpClass::Reduction;
      for (ValueId input : n.inputs) {
        const bool broadcasts =
            loops && elements(graph_.type(input).shape) <= elements(shape_of(graph_, n)) / kLeastBroadcast;
        if (early[index(*v)] || broadcasts) wanted[index(input)] = true;
      }
    }
    return early;
  }

  /// Values of several users, all over the same shape, that cost as little as loading them, or are computed again
  /// anyway: where users are of different groups, each computes them again.
  void find_cheap() {
    for (ValueId v : block_.nodes) {
      const Node& n = graph_.node(v);
      if (!is_computed(n)) continue;
      values_[index(v)].cheap = n.rematerialized || (values_[index(v)].uses >= 2 && n.type.rank() > 0 && is_cheap(n));
      if (n.op == Op::Write)
        values_[index(n.inputs[1])].is_written_out |= graph_.type(n.inputs[1]).shape == n.type.shape;
      for (ValueId input : n.inputs) {
        const OpClass cls = def(n.op).cls;
        const bool loops = cls == OpClass::Elementwise || cls == OpClass::Cast || cls == OpClass::Reduction;
        if (!loops || is_alone(n.op) || shape_of(graph_, n) != graph_.type(input).shape)
          values_[index(input)].cheap = false;
      }
    }
    for (ValueId v : block_.nodes)
      if (is_control(graph_.node(v).op))
        for (ValueId used : used_values(graph_, v)) values_[index(used)].cheap = false;
  }

  /// One operand is as large as the result, and all are in memory anyway.
  bool is_cheap(const Node& n) const {
    switch (n.op) {
      case Op::Add:
      case Op::Subtract:
      case Op::Multiply:
      case Op::Negative: break;
      default: return false;
    }
    int large = 0;
    for (ValueId input : n.inputs) {
      if (graph_.type(input).shape != n.type.shape) continue;
      ++large;
      const ValueId root = graph_.root(input);
      const Node& made = graph_.node(root);
      // Of a product with one user its epilogue leaves nothing but what the user makes of it.
      const bool product = is_alone(made.op) && values_[index(root)].uses >= 2;
      const bool in_memory = !is_computed(made) || def(made.op).cls == OpClass::Reduction || product ||
                             (root == input && values_[index(root)].is_written_out);
      if (!in_memory) return false;
    }
    return large == 1 && !is_complex(n.type.dtype);
  }

  /// A 0-d operator that costs as little as a load, or a cheap one, whose operands hold for the whole graph.
  bool is_free(ValueId v, const Node& n) const {
    const OpClass cls = def(n.op).cls;
    const bool fits = cls == OpClass::Elementwise || cls == OpClass::Cast || (n.op == Op::Full && n.rematerialized);
    if ((n.type.rank() != 0 && !values_[index(v)].cheap) || !fits || has_address(v) || facts_.captured[index(v)])
      return false;
    if ((n.rematerialized ? rules_ == FlagRules::Several : rules_ != FlagRules::Callers) && may_set_flags(graph_, v))
      return false;
    if (def(n.op).exactness != Exactness::Native && !n.rematerialized) return false;
    return std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](ValueId input) { return facts_.last_write[index(graph_.root(input))] < 0; });
  }

  /// The first group that may load the value from memory (or compute it, where it is free).
  int32_t earliest_load(ValueId v) const {
    if (values_[index(v)].free) return values_[index(v)].ready;
    return std::max(last_touch(roots_[index(graph_.root(v))].writes, v) + 1, measured_);
  }

  /// Notes that a group writes, or reads, the place of a value.
  void touch(Touched& touched, ValueId v, int32_t group) const {
    touched.last = std::max(touched.last, group);
    const ValueId root = graph_.root(v);
    const bool told_apart = v != root && facts_.last_write[index(root)] >= 0;
    for (auto& [place, last] : touched.places)
      if (told_apart && same_place(graph_.type(place), graph_.type(v))) {
        last = std::max(last, group);
        return;
      }
    if (told_apart && touched.places.size() < kMostPlaces) touched.places.emplace_back(v, group);
    else touched.anywhere = std::max(touched.anywhere, group);
  }

  /// The last group that writes, or reads, what may share an element with the place of a value.
  int32_t last_touch(const Touched& touched, ValueId v) const {
    if (touched.last == touched.anywhere) return touched.last;
    int32_t last = touched.anywhere;
    for (const auto& [place, group] : touched.places)
      if (group > last && !never_meet(graph_.type(place), graph_.type(v))) last = group;
    return last;
  }

  /// The group to join, or kNone.
  int32_t find_group(ValueId v, const Node& n) {
    int32_t least = measured_, producer = kNone, neighbour = kNone;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId input = n.inputs[i];
      if (!reads_operand(n, i)) continue;
      if (graph_.node(input).rematerialized) least = std::max(least, gradient_);
      if (is_register(input, n)) {
        producer = std::max(producer, values_[index(input)].group);
        least = std::max(least, values_[index(input)].group);
      } else {
        least = std::max(least, earliest_load(input));
        neighbour = std::max(neighbour, last_read(input));
      }
    }
    if (n.op == Op::Write) {
      const Root& root = roots_[index(n.type.root)];
      least = std::max({least, last_touch(root.writes, v), last_touch(root.reads, v)});
      neighbour = std::max({neighbour, root.reads.last, root.writes.last});
    }
    if (is_write_of_put(v, n)) return values_[index(n.inputs[1])].group;
    // The group of a producer saves storing and loading; one that reads the same memory saves loading it twice, and has
    // more results live at a time.
    for (int32_t g : {producer, neighbour, latest(shape_of(graph_, n))}) {
      if (g != producer && order_ == ExecOrder::Depth) continue;
      // What is computed again may not run where it was computed first.
      if (n.rematerialized && (g == kNone || !groups_[static_cast<std::size_t>(g)].rematerialized)) continue;
      if (g < least || !may_join(v, n, groups_[static_cast<std::size_t>(g)])) continue;
      if (g == producer || g == neighbour || accepts_unrelated(n, groups_[static_cast<std::size_t>(g)])) return g;
    }
    return kNone;
  }

  /// Does a write say no more than that the items which the node before it replaces are replaced in the array itself?
  /// Both are one group then, which writes those items only.
  bool is_write_of_put(ValueId v, const Node& n) const {
    if (n.op != Op::Write || graph_.node(n.inputs[1]).op != Op::Put) return false;
    const ValueId put = n.inputs[1];
    const std::vector<ValueId>& inputs = graph_.node(put).inputs;
    const Value& value = values_[index(put)];
    const bool alone = std::none_of(inputs.begin() + 1, inputs.end(),
                                    [&](ValueId input) { return graph_.root(input) == n.type.root; });
    const Root& root = roots_[index(n.type.root)];
    return alone && value.group != kNone && value.uses == 1 && !has_address(put) &&
           same_place(graph_.type(inputs[0]), n.type) && graph_.root(inputs[0]) == n.type.root &&
           std::max(last_touch(root.writes, v), last_touch(root.reads, v)) <= value.group;
  }

  /// The last group that loads a value, or an operand of a free one.
  int32_t last_read(ValueId v) const {
    if (!values_[index(v)].free) return roots_[index(graph_.root(v))].reads.last;
    int32_t last = kNone;
    for (ValueId input : graph_.node(v).inputs)  // no further: time is linear in operands
      if (!values_[index(input)].free) last = std::max(last, roots_[index(graph_.root(input))].reads.last);
    return last;
  }

  int32_t latest(const Dims& shape) const {
    const auto it = latest_.find(hash_of(shape));
    return it == latest_.end() ? kNone : it->second;
  }

  bool may_join(ValueId v, const Node& n, const OpenGroup& g) const {
    // A step's flags are of one rule.
    if (g.flag_rule && *g.flag_rule != n.flag_rule && may_set_flags(graph_, v)) return false;
    if (g.closed || g.group.shape != shape_of(graph_, n) || g.operands.size() + n.inputs.size() >= kMaxOperands ||
        g.group.nodes.size() >= kMaxNodes)
      return false;
    if (def(n.op).cls == OpClass::Reduction && g.reduction != kNoValue &&
        !same_reduction(graph_, n, graph_.node(g.reduction)))
      return false;
    if (n.op != Op::Write) return true;
    const auto it = g.accesses.find(index(n.type.root));
    if (it == g.accesses.end()) return true;
    const Access& access = it->second;
    return !access.reduced && access.places.size() < kMostPlaces &&
           std::all_of(
               access.places.begin(), access.places.end(),
               [&](ValueId place) {
                 return same_place(graph_.type(place), n.type) || never_meet(graph_.type(place), n.type);
               });
  }

  int32_t open(ValueId v, const Node& n) {
    const int32_t g = static_cast<int32_t>(groups_.size());
    groups_.emplace_back();
    groups_.back().group.shape = shape_of(graph_, n);
    groups_.back().group.first = v;
    groups_.back().closed = is_alone(n.op);
    groups_.back().rematerialized = n.rematerialized;
    if (!is_alone(n.op)) latest_[hash_of(shape_of(graph_, n))] = g;
    return g;
  }

  void join(ValueId v, const Node& n, int32_t number) {
    OpenGroup& g = groups_[static_cast<std::size_t>(number)];
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId input = n.inputs[i];
      if (!reads_operand(n, i)) continue;
      if (values_[index(input)].free) place_scalar(input, number);
      else if (!(is_register(input, n) && values_[index(input)].group == number))
        load(input, number).reduced |= def(n.op).cls == OpClass::Reduction;
    }
    g.group.nodes.push_back(v);
    if (may_set_flags(graph_, v)) g.flag_rule = n.flag_rule;
    values_[index(v)].placed = true;
    values_[index(v)].group = number;
    for (ValueId input : n.inputs) {
      const int32_t from = values_[index(input)].group;
      const bool done =
          from != kNone && --values_[index(input)].uses == 0 && !values_[index(input)].stored && !has_address(input);
      if (done) groups_[static_cast<std::size_t>(from)].operands.erase(index(input));
    }
    const bool may_be_stored = operands_ == Operands::Possible && values_[index(v)].uses > 0;
    if (n.op == Op::Write || has_address(v) || may_be_stored) g.operands.insert(index(v));
    if (n.op == Op::Write) {
      if (values_[index(n.inputs[1])].group == number && graph_.node(n.inputs[1]).op == Op::Put)
        values_[index(n.inputs[1])].stored = false;
      touch(g, n.type.root, v);
      touch(roots_[index(n.type.root)].writes, v, number);
      values_[index(n.type.root)].written = true;
      return;
    }
    touch(roots_[index(v)].writes, v, number);
    if (has_address(v)) touch(g, v, v).reduced = def(n.op).cls == OpClass::Reduction;
    if (has_address(v) || def(n.op).cls == OpClass::Reduction || is_alone(n.op)) values_[index(v)].stored = true;
    if (def(n.op).cls == OpClass::Reduction && g.reduction == kNoValue) g.reduction = v;
  }

  Access& touch(OpenGroup& g, ValueId root, ValueId place) {
    Access& access = g.accesses[index(root)];
    if (facts_.last_write[index(root)] < 0) return access;
    const bool known = std::any_of(access.places.begin(), access.places.end(),
                                   [&](ValueId other) { return same_place(graph_.type(other), graph_.type(place)); });
    if (!known && access.places.size() < kMostPlaces) access.places.push_back(place);
    return access;
  }

  Access& load(ValueId v, int32_t number) {
    const ValueId root = graph_.root(v);
    touch(roots_[index(root)].reads, v, number);
    if (is_computed(graph_.node(root))) values_[index(root)].stored = true;
    // Kernels hold their constants. NumPy's loops take them as operands: there has to be room for these when groups are
    // made once more.
    if (operands_ == Operands::Possible || graph_.node(v).op != Op::Constant)
      groups_[static_cast<std::size_t>(number)].operands.insert(index(v));
    return touch(groups_[static_cast<std::size_t>(number)], root, v);
  }

  /// Puts a free node and the free ones that it needs into a group, once.
  void place_scalar(ValueId v, int32_t number) {
    if (!groups_[static_cast<std::size_t>(number)].scalars.insert(index(v)).second) return;
    for (ValueId input : graph_.node(v).inputs) {
      if (values_[index(input)].free) place_scalar(input, number);
      else load(input, number);
    }
    groups_[static_cast<std::size_t>(number)].group.nodes.push_back(v);
    values_[index(v)].placed = true;
  }

  /// Free nodes without a user still set their flags: in groups of their own, from the last of a chain.
  void place_unused_scalars() {
    const std::vector<ValueId>& nodes = block_.nodes;
    int32_t own = kNone;
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      if (!values_[index(*it)].free || values_[index(*it)].placed) continue;
      if (own == kNone) own = open(*it, graph_.node(*it));
      place_scalar(*it, own);
    }
  }

  void finish(OpenGroup& g) {
    std::vector<ValueId>& nodes = g.group.nodes;
    std::stable_partition(nodes.begin(), nodes.end(),
                          [&](ValueId v) { return def(graph_.node(v).op).cls != OpClass::Reduction; });
    for (ValueId v : nodes)
      if (values_[index(v)].stored) g.group.stored.push_back(v);
  }

  const Graph& graph_;
  const MemoryFacts& facts_;
  const Block& block_;
  const ExecOrder order_;
  std::vector<Value> values_;
  std::vector<Root> roots_;
  int32_t measured_ = 0;  // the first group in which what has been measured is known
  int32_t gradient_ = 0;  // the first group that began with a node of the last gradient
  const FlagRules rules_;
  const Operands operands_;
  std::vector<OpenGroup> groups_;
  std::unordered_map<std::size_t, int32_t> latest_;  // by hash of the shape; may_join compares
};

/// Does no group load and store more than a step may?
bool have_few_operands(const Graph& graph, const std::vector<Group>& groups) {
  return std::all_of(groups.begin(), groups.end(), [&](const Group& g) {
    std::unordered_set<uint32_t> computed, operands;
    for (ValueId v : g.nodes) computed.insert(index(v));
    for (ValueId v : g.stored) operands.insert(index(v));
    for (ValueId v : g.nodes) {
      if (graph.node(v).op == Op::Write) operands.insert(index(v));
      for (ValueId input : graph.node(v).inputs)
        if (graph.node(input).op != Op::Constant && !computed.contains(index(input))) operands.insert(index(input));
    }
    return operands.size() <= kMaxOperands && std::all_of(g.blocks.begin(), g.blocks.end(), [&](const auto& block) {
             return have_few_operands(graph, block);
           });
  });
}

}  // namespace

std::vector<Group> fuse(const Graph& graph, const PassContext& context) {
  const MemoryFacts facts(graph);
  const FlagRules rules = flag_rules(graph);
  const auto fused = [&](Operands operands) {
    return Fuser(graph, facts, graph.body(), context.order, rules, operands).run();
  };
  if (context.whole_expressions)
    if (std::vector<Group> groups = fused(Operands::Known); have_few_operands(graph, groups)) return groups;
  return fused(Operands::Possible);
}

}  // namespace framejit::graph
