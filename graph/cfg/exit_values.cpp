// Variables that a loop hands from round to round only for its exits.
//
//     for i in range(n):            j: the index of the round before, or in the first round what j was before the loop
//         ...  exit(j)
//         j = i
//
// Nothing in the rounds reads j; but the interpreter has to find it where the loop is left. It follows from the count,
// so the rounds need not set it: an exit computes `j if i == 0 else i - 1`. The same holds for a number that all rounds
// set to one value, such as whether a variable is bound.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"

namespace framejit::cfg {

namespace {

constexpr int64_t kMostStep = int64_t{1} << 20;

class ExitValues {
 public:
  explicit ExitValues(Cfg& cfg) : cfg_(cfg), shape_(shape_of(cfg)) {
    block_.assign(cfg.nodes.size(), kNone);
    read_.assign(cfg.nodes.size(), false);
    for (uint32_t b = 0; b < cfg.blocks.size(); ++b) {
      const Block& block = cfg.blocks[b];
      for (const Id p : block.params) block_[p] = b;
      read(block.condition);
      for (const Id id : block.nodes) {
        block_[id] = b;
        const Node& n = cfg.at(id);
        for (const Id a : n.args) read(a);
        read(n.count);
        read(n.where);
      }
    }
  }

  bool run() {
    bool changed = false;
    for (const uint32_t head : shape_.order)
      if (shape_.loop[head] == head) changed = run(head) || changed;
    return changed;
  }

 private:
  /// The value of a variable in all rounds but the first: one from outside the loop, or the count plus a constant.
  struct Later {
    Id value = kNone;
    int64_t plus = 0;
    bool operator==(const Later&) const = default;
  };

  void read(Id v) {
    if (v != kNone) read_[v] = true;
  }

  const Block& block(uint32_t b) const { return cfg_.blocks[b]; }
  const std::vector<Id>& params() const { return cfg_.blocks[head_].params; }
  bool is_integer(Id v) const { return cfg_.at(v).type == Type::I64 && cfg_.at(v).lanes == 1; }

  bool run(uint32_t head) {
    head_ = head;
    front_ = front_of(cfg_, shape_, head);
    if (front_ == kNone) return false;
    members_ = blocks_of_loop(cfg_, shape_, head);
    is_member_.assign(cfg_.blocks.size(), false);
    for (const uint32_t b : members_) is_member_[b] = true;
    if (!find_count()) return false;
    std::map<Id, Later> found;
    for (std::size_t i = 0; i < params().size(); ++i) {
      const Id p = params()[i];
      if (i == count_ || read_[p] || !is_integer(p) || is_passed(p)) continue;
      if (const std::optional<Later> later = later_of(i)) found[p] = *later;
    }
    replace(found);
    return !found.empty();
  }

  template <class F>
  void for_backs(F&& f) const {
    for (const uint32_t b : members_)
      for (int k = 0; k < block(b).successors(); ++k)
        if (block(b).to[k].block == head_) f(block(b).to[k]);
  }

  /// The constant c if a value is `to + c`.
  std::optional<int64_t> added(Id v, Id to) const {
    if (v == to) return 0;
    const Node& n = cfg_.at(v);
    if (cfg_.is_param[v] || n.op != Op::Add || n.args[0] != to) return std::nullopt;
    const std::optional<int64_t> by = number(cfg_, n.args[1]);
    return by && is_within(*by, kMostStep) ? by : std::nullopt;
  }

  /// A parameter to which each round adds the same number.
  bool find_count() {
    for (count_ = 0; count_ < params().size(); ++count_) {
      if (!is_integer(params()[count_])) continue;
      bool counts = true;
      step_ = 0;
      for_backs([&](const Edge& e) {
        const int64_t by = added(e.args[count_], params()[count_]).value_or(0);
        counts = counts && by != 0 && (step_ == 0 || by == step_);
        step_ = by;
      });
      if (counts) return true;
    }
    return false;
  }

  std::optional<Later> later_of(std::size_t i) const {
    std::optional<Later> out;
    bool is_one = true;
    for_backs([&](const Edge& e) {
      const Id v = e.args[i];
      const bool is_inside = block_[v] != kNone && is_member_[block_[v]];
      Later one;
      if (const std::optional<int64_t> by = added(v, params()[count_])) one.plus = *by - step_;
      else if (!is_inside) one.value = v;
      else is_one = false;
      is_one = is_one && (!out || *out == one);
      out = one;
    });
    return is_one ? out : std::nullopt;
  }

  /// Does it go along an edge within the loop?
  bool is_passed(Id v) const {
    return std::ranges::any_of(members_, [&](uint32_t b) {
      for (int k = 0; k < block(b).successors(); ++k)
        if (const Edge& e = block(b).to[k]; is_member_[e.block] && std::ranges::count(e.args, v) != 0) return true;
      return false;
    });
  }

  Id add(std::vector<Id>& nodes, Op op, Id a, Id b, Id c = kNone) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    n.args[2] = c;
    nodes.push_back(cfg_.add(n));
    for (const Id v : {a, b, c})
      if (v != kNone && v < read_.size()) read_[v] = true;
    return nodes.back();
  }

  /// Adds nodes at the beginning of a block that compute a variable of the loop, and gives the last of them.
  Id value_in(uint32_t b, Id param, const Later& later) {
    const Edge& enters = block(front_).to[0];
    const auto i = static_cast<std::size_t>(std::ranges::find(params(), param) - params().begin());
    const Id first = enters.args[i], start = enters.args[count_], count = params()[count_];
    std::vector<Id> nodes;
    Id rest = later.value == kNone ? count : later.value;
    if (later.plus != 0) {
      Node by;
      by.type = Type::I64;
      by.imm = later.plus;
      nodes.push_back(cfg_.add(by));
      rest = add(nodes, Op::Add, count, nodes.back());
    }
    const Id chosen = add(nodes, Op::Select, add(nodes, Op::Eq, count, start), first, rest);
    std::vector<Id>& all = cfg_.blocks[b].nodes;
    all.insert(all.begin(), nodes.begin(), nodes.end());
    return chosen;
  }

  void replace(const std::map<Id, Later>& found) {
    std::map<Id, Id> in_head;
    for (Exit& exit : cfg_.exits)
      for (Id& value : exit.values) {
        const auto at = found.find(value);
        if (at == found.end()) continue;
        Id& made = in_head.emplace(value, kNone).first->second;
        if (made == kNone) made = value_in(head_, value, at->second);
        value = made;
      }
    const auto is_found = [&](Id v) { return found.count(v) != 0; };
    for (const uint32_t b : members_)
      for (int k = 0; k < block(b).successors(); ++k) {
        Edge out = block(b).to[k];
        if (is_member_[out.block] || std::ranges::none_of(out.args, is_found)) continue;
        const auto aside = static_cast<uint32_t>(cfg_.blocks.size());
        cfg_.blocks.emplace_back();
        cfg_.blocks[aside].level = block(front_).level;
        cfg_.blocks[aside].end = Block::End::Jump;
        for (Id& v : out.args)
          if (is_found(v)) v = value_in(aside, v, found.at(v));
        cfg_.blocks[aside].to[0] = std::move(out);
        cfg_.blocks[b].to[k] = {aside, {}};
      }
  }

  Cfg& cfg_;
  const Shape shape_;
  std::vector<uint32_t> block_;  // by value: where it is made
  std::vector<bool> read_;       // by value: by a node or a branch
  // The loop that is being changed:
  uint32_t head_ = kNone, front_ = kNone;
  std::vector<uint32_t> members_;
  std::vector<bool> is_member_;
  std::size_t count_ = 0;
  int64_t step_ = 0;
};

}  // namespace

bool compute_at_exits(Cfg& cfg) { return ExitValues(cfg).run(); }

}  // namespace framejit::cfg
