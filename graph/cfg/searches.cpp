// Several rounds of a search, one after the other.
//
// An inner loop that may end in any round, and stores nothing, gets copies of its rounds in front. Each round can leave
// where it could, so that nothing is computed before it is known to be wanted. What the copies share is asked once:
// whether the interpreter waits, and whether the indices of all these rounds are inside their arrays. If they are not,
// the loop as it was goes on.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/cfg/edit.h"
#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"

namespace framejit::cfg {

namespace {

constexpr int kRounds = 4;
constexpr std::size_t kMostBlocks = 6, kMostNodes = 30;
constexpr int64_t kFar = 1 << 20;

class Search {
 public:
  Search(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front)
      : cfg_(cfg), shape_(shape), head_(head), front_(front), members_(blocks_of_loop(cfg, shape, head)) {}

  bool run() {
    if (!is_search()) return false;
    for (const uint32_t b : members_)
      for (const Id id : cfg_.blocks[b].nodes)
        if (const std::optional<Index> index = checked_index(id)) indices_.push_back(*index);
    build();
    return true;
  }

 private:
  /// A check that a count plus a number is below a length.
  struct Index {
    Id check, count, length;
    int64_t plus;
  };

  bool is_member(uint32_t b) const { return std::find(members_.begin(), members_.end(), b) != members_.end(); }

  /// Is it left by what it reads? A loop that only counts gets vectors, or rounds whose checks are one.
  bool is_search() const {
    if (members_.size() > kMostBlocks) return false;
    std::size_t nodes = 0;
    std::set<Id> read;
    for (const uint32_t b : shape_.order) {
      if (!is_member(b)) continue;
      if (shape_.loop[b] != head_) return false;
      for (const Id id : cfg_.blocks[b].nodes) {
        const Node& n = cfg_.at(id);
        if (!is_quick(n)) return false;
        if (n.op == Op::Load || std::any_of(n.args, n.args + 3, [&](Id a) { return read.count(a) != 0; }))
          read.insert(id);
        ++nodes;
      }
    }
    return nodes <= kMostNodes && std::any_of(members_.begin(), members_.end(), [&](uint32_t b) {
             const Block& block = cfg_.blocks[b];
             return block.end == Block::End::Branch && read.count(block.condition) != 0 &&
                    is_member(block.to[0].block) != is_member(block.to[1].block);
           });
  }

  /// Rounds with other operations wait for these.
  static bool is_quick(const Node& n) {
    switch (n.op) {
      case Op::Div:
      case Op::Sqrt:
      case Op::FloorDiv:
      case Op::FloorMod:
      case Op::Call:
      case Op::CallReads:
      case Op::CallItself:
      case Op::Waits: return false;
      default: return n.lanes == 1 && info(n.op).effect != Effect::Writes;
    }
  }

  std::optional<Index> checked_index(Id id) const {
    const Node& n = cfg_.at(id);
    if (n.op != Op::Check || cfg_.is_param[n.args[0]]) return std::nullopt;
    const Node& below = cfg_.at(n.args[0]);
    if (below.op != Op::Below || !is_length(below.args[1])) return std::nullopt;
    if (counts(below.args[0])) return Index{id, below.args[0], below.args[1], 0};
    const Node& sum = cfg_.at(below.args[0]);
    if (cfg_.is_param[below.args[0]] || sum.op != Op::Add || !counts(sum.args[0])) return std::nullopt;
    const std::optional<int64_t> plus = number(cfg_, sum.args[1]);
    if (!plus || !is_within(*plus, kFar)) return std::nullopt;
    return Index{id, sum.args[0], below.args[1], *plus};
  }

  bool is_length(Id v) const {
    const Node& n = cfg_.at(v);
    return !cfg_.is_param[v] && n.op == Op::Symbol && n.natural;
  }

  /// A parameter of the head that each round gives one more.
  bool counts(Id v) const {
    const std::vector<Id>& params = cfg_.blocks[head_].params;
    const auto at = std::find(params.begin(), params.end(), v);
    if (at == params.end()) return false;
    const auto which = static_cast<std::size_t>(at - params.begin());
    for (const uint32_t b : members_)
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k) {
        if (cfg_.blocks[b].to[k].block != head_) continue;
        const Id given = cfg_.blocks[b].to[k].args[which];
        const Node& next = cfg_.at(given);
        if (cfg_.is_param[given] || next.op != Op::Add || next.args[0] != v || number(cfg_, next.args[1]) != 1)
          return false;
      }
    return true;
  }

  void lead(const std::vector<uint32_t>& from, uint32_t before, uint32_t to) {
    for (const uint32_t b : from)
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k)
        if (cfg_.blocks[b].to[k].block == before) cfg_.blocks[b].to[k].block = to;
  }

  void build() {
    std::vector<uint32_t> owner(cfg_.nodes.size(), kNone);
    for (const uint32_t b : members_) {
      for (const Id p : cfg_.blocks[b].params) owner[p] = b;
      for (const Id n : cfg_.blocks[b].nodes) owner[n] = b;
    }
    std::vector<uint32_t> last{front_};
    uint32_t first = kNone;
    for (int round = 0; round < kRounds; ++round) {
      const Copy copy = copy_blocks(cfg_, members_);
      const uint32_t fresh = copy.blocks.at(head_);
      lead(last, head_, fresh);
      if (round == 0) first = fresh;
      last.clear();
      for (const uint32_t b : members_) {
        const uint32_t made = copy.blocks.at(b);
        std::erase_if(cfg_.blocks[made].nodes, [&](Id id) {
          if (round + 1 < kRounds && cfg_.at(id).op == Op::Poll) return true;
          return round > 0 && std::any_of(indices_.begin(), indices_.end(),
                                          [&](const Index& index) { return copy.values.at(index.check) == id; });
        });
        for (int k = 0; k < cfg_.blocks[made].successors(); ++k)
          if (cfg_.blocks[made].to[k].block == fresh) {
            cfg_.blocks[made].to[k].block = head_;
            last.push_back(made);
          }
      }
      owner.resize(cfg_.nodes.size(), kNone);
      mend(cfg_, copy, owner);
      owner.resize(cfg_.nodes.size(), kNone);
    }
    const uint32_t in_front = indices_.empty() ? first : guard(first);
    lead({front_}, first, in_front);
    lead(last, head_, in_front);
    drop_unreached(cfg_);
  }

  /// A block that asks whether the indices of the last round are inside.
  uint32_t guard(uint32_t first) {
    const auto made = static_cast<uint32_t>(cfg_.blocks.size());
    cfg_.blocks.emplace_back();
    cfg_.blocks[made].level = cfg_.blocks[head_].level;
    const std::vector<Id> params = cfg_.blocks[head_].params;
    std::vector<Id> state;
    for (const Id p : params) state.push_back(cfg_.add_param_for(made, p));
    const auto add = [&](Op op, Id a, Id b, int64_t value = 0) {
      Node n;
      n.op = op;
      n.type = Type::I64;
      n.args[0] = a;
      n.args[1] = b;
      n.imm = value;
      cfg_.blocks[made].nodes.push_back(cfg_.add(n));
      return cfg_.blocks[made].nodes.back();
    };
    Id holds = kNone;
    for (const Index& index : indices_) {
      const auto which = std::find(params.begin(), params.end(), index.count) - params.begin();
      const Id last =
          add(Op::Add, state[static_cast<std::size_t>(which)], add(Op::Const, kNone, kNone, index.plus + kRounds - 1));
      const Id below = add(Op::Below, last, index.length);
      holds = holds == kNone ? below : add(Op::And, holds, below);
    }
    Block& block = cfg_.blocks[made];
    block.end = Block::End::Branch;
    block.condition = holds;
    block.to[0] = {first, state};
    block.to[1] = {head_, state};
    return made;
  }

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_, front_;
  const std::vector<uint32_t> members_;
  std::vector<Index> indices_;
};

}  // namespace

bool unroll_searches(Cfg& cfg) {
  std::vector<uint32_t> heads;
  {
    const Shape shape = shape_of(cfg);
    for (const uint32_t b : shape.order)
      if (shape.loop[b] == b) heads.push_back(b);
  }
  bool changed = false;
  for (const uint32_t head : heads) {
    const Shape shape = shape_of(cfg);
    const uint32_t front = front_of(cfg, shape, head);
    changed = (front != kNone && Search(cfg, shape, head, front).run()) || changed;
  }
  return changed;
}

}  // namespace framejit::cfg
