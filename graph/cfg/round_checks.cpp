// The rounds of a parallel loop as a graph of their checks only.
//
// Stores are taken out of the body, and everything that is computed only for them. An inner loop then only checks its
// indices. version_loops() compares the bounds of these indices in front of the loop instead; a loop that has no check
// left is taken out too. This is repeated from the innermost loops outwards, until only a few comparisons are left. If
// a loop keeps a check, the graph says that a check may fail.
#include <algorithm>
#include <optional>
#include <utility>

#include "graph/cfg/edit.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/parallel.h"

namespace framejit::cfg {

namespace {

constexpr int kMostDepth = 8, kMostShortLoops = 16;
constexpr int64_t kFails = 1;  // the exit of ParallelLoop::body

class RoundChecks {
 public:
  explicit RoundChecks(const Cfg& body) : cfg_(body) {}

  std::optional<Cfg> run() {
    cfg_.exits[0].values.clear();
    drop_unreached(cfg_);
    if (!drop_effects()) return std::nullopt;
    tidy();
    for (int loops = 0; loops < kMostShortLoops && unroll_short_loops(cfg_); ++loops) tidy();
    for (int depth = 0; depth < kMostDepth; ++depth) {
      tidy();
      check_branches();
      check_in_front();
      if (!shape_of(cfg_).goes_round) return is_known() ? std::optional(std::move(cfg_)) : std::nullopt;
      note_naturals(cfg_);
      if (version_loops(cfg_)) tidy();
      if (!drop_inner_loops()) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  void tidy() {
    do {
      simplify(cfg_);
      drop_unused(cfg_);
    } while (skip_empty_blocks());
    join_blocks(cfg_);
    add_preheaders(cfg_);
    separate_exits(cfg_);
  }

  /// Leads past blocks that do nothing, so that branches end whose ways do nothing else.
  bool skip_empty_blocks() {
    const auto is_empty = [&](const Block& b) {
      return b.end == Block::End::Jump && b.nodes.empty() && b.params.empty();
    };
    bool changed = false;
    for (Block& block : cfg_.blocks)
      for (int k = 0; k < block.successors(); ++k)
        if (const Block& next = cfg_.blocks[block.to[k].block]; is_empty(next) && &next != &block) {
          changed = changed || next.to[0].block != block.to[k].block;
          block.to[k] = Edge(next.to[0]);
        }
    drop_unreached(cfg_);
    return changed;
  }

  /// False: a check may raise that depends on the numbers of the loop, or there is an effect of which nothing is known.
  bool drop_effects() {
    bool known = true;
    for (Block& block : cfg_.blocks)
      std::erase_if(block.nodes, [&](Id id) {
        const Node& n = cfg_.at(id);
        known = known && n.op != Op::CallItself && n.op != Op::Waits && !(n.op == Op::CheckFinite && n.imm != 0) &&
                (n.op == Op::Store || info(n.op).effect != Effect::Writes);
        return n.op == Op::Store || n.op == Op::CheckFinite || n.op == Op::Poll;
      });
    return known;
  }

  /// A branch to where it is not known whether a check fails becomes checks of the parts of its condition.
  void check_branches() {
    const auto fails = [&](const Edge& e) {
      const Block& b = cfg_.blocks[e.block];
      return b.nodes.empty() && b.end == Block::End::Leave && cfg_.number_of(b.exit) == kFails;
    };
    for (uint32_t b = 0; b < cfg_.blocks.size(); ++b) {
      const Block& block = cfg_.blocks[b];
      if (block.end != Block::End::Branch || !fails(block.to[1])) continue;
      const uint32_t exit = cfg_.blocks[block.to[1].block].exit;
      std::vector<Id> parts{block.condition};
      while (!parts.empty()) {
        const Id part = parts.back();
        parts.pop_back();
        const Node& n = cfg_.at(part);
        if (!cfg_.is_param[part] && n.op == Op::And) {
          parts.insert(parts.end(), {n.args[0], n.args[1]});  // both are needed, whatever numbers they are
          continue;
        }
        Node check;
        check.op = Op::Check;
        check.args[0] = part;
        check.exit = exit;
        cfg_.blocks[b].nodes.push_back(cfg_.add(check));
      }
      cfg_.blocks[b].end = Block::End::Jump;
      cfg_.blocks[b].condition = kNone;
      cfg_.blocks[b].to[1] = Edge{};
    }
    drop_unreached(cfg_);
    separate_exits(cfg_);
  }

  /// Checks in a loop of what it does not change are made in front of it, even if no round would come to them.
  void check_in_front() {
    const Shape shape = shape_of(cfg_);
    for (const uint32_t head : shape.order) {
      if (shape.loop[head] != head) continue;
      const uint32_t front = front_of(cfg_, shape, head);
      if (front == kNone) continue;
      std::vector<bool> changes(cfg_.nodes.size(), false), is_member(cfg_.blocks.size(), false);
      for (const uint32_t b : blocks_of_loop(cfg_, shape, head)) {
        is_member[b] = true;
        for (const Id p : cfg_.blocks[b].params) changes[p] = true;
        for (const Id id : cfg_.blocks[b].nodes) changes[id] = true;
      }
      for (const uint32_t b : shape.order) {
        if (!is_member[b]) continue;
        std::erase_if(cfg_.blocks[b].nodes, [&](Id id) {
          const Node& n = cfg_.at(id);
          const bool stays =
              info(n.op).effect == Effect::Reads || n.op == Op::FloorDiv || n.op == Op::FloorMod ||
              std::any_of(std::begin(n.args), std::end(n.args), [&](Id a) { return a != kNone && changes[a]; });
          if (stays) return false;
          changes[id] = false;
          cfg_.blocks[front].nodes.push_back(id);
          return true;
        });
      }
    }
    separate_exits(cfg_);
  }

  /// The edge that leaves a loop, if the loop only counts its rounds and no value of it is used behind it.
  std::optional<Edge> way_out(const Shape& shape, uint32_t head, const std::vector<uint32_t>& members) const {
    std::vector<bool> is_inside(cfg_.nodes.size(), false), is_member(cfg_.blocks.size(), false);
    for (const uint32_t b : members) {
      is_member[b] = true;
      for (const Id p : cfg_.blocks[b].params) is_inside[p] = true;
      for (const Id id : cfg_.blocks[b].nodes) {
        if (info(cfg_.at(id).op).effect != Effect::Pure) return std::nullopt;
        is_inside[id] = true;
      }
    }
    const auto reads = [&](Id v) { return v != kNone && is_inside[v]; };
    if (!rounds_left(cfg_, shape, head, members)) return std::nullopt;
    std::optional<Edge> out;
    for (const uint32_t b : shape.order) {
      const Block& block = cfg_.blocks[b];
      for (int k = 0; k < block.successors(); ++k) {
        const Edge& e = block.to[k];
        if (is_member[b] && is_member[e.block]) continue;
        if (std::any_of(e.args.begin(), e.args.end(), reads)) return std::nullopt;
        if (!is_member[b]) continue;
        if (b != head) return std::nullopt;
        out = e;
      }
      if (is_member[b]) continue;
      if (reads(block.condition)) return std::nullopt;
      for (const Id id : block.nodes) {
        const Node& n = cfg_.at(id);
        if (std::any_of(std::begin(n.args), std::end(n.args), reads) || reads(n.count) || reads(n.where))
          return std::nullopt;
      }
    }
    return out;
  }

  bool drop_inner_loops() {
    const Shape shape = shape_of(cfg_);
    uint32_t unknown = kNone;
    std::vector<std::pair<uint32_t, Edge>> instead;
    for (const uint32_t head : shape.order) {
      if (shape.loop[head] != head) continue;
      const std::vector<uint32_t> members = blocks_of_loop(cfg_, shape, head);
      const bool is_inner =
          std::all_of(members.begin(), members.end(), [&](uint32_t b) { return shape.loop[b] == head; });
      const uint32_t front = front_of(cfg_, shape, head);
      if (front == kNone) return false;
      if (!is_inner) continue;
      std::optional<Edge> out = way_out(shape, head, members);
      if (!out) {
        if (unknown == kNone) unknown = leave();
        out = Edge{unknown, {}};
      }
      instead.emplace_back(front, std::move(*out));
    }
    for (auto& [front, edge] : instead) cfg_.blocks[front].to[0] = std::move(edge);
    drop_unreached(cfg_);
    return !instead.empty();
  }

  uint32_t leave() {
    cfg_.blocks.emplace_back();
    cfg_.blocks.back().end = Block::End::Leave;
    for (cfg_.blocks.back().exit = 0; cfg_.number_of(cfg_.blocks.back().exit) != kFails;) ++cfg_.blocks.back().exit;
    return static_cast<uint32_t>(cfg_.blocks.size() - 1);
  }

  /// Does it depend on nothing but the frame, and may it tell that no check fails?
  bool is_known() const {
    bool passes = false;
    for (const uint32_t b : shape_of(cfg_).order) {
      const Block& block = cfg_.blocks[b];
      passes = passes || (block.end == Block::End::Leave && cfg_.number_of(block.exit) != kFails);
      for (const Id id : block.nodes) {
        const Node& n = cfg_.at(id);
        if (info(n.op).effect != Effect::Reads) continue;
        if (n.op != Op::Load || n.args[1] != kNone || cfg_.at(n.args[0]).op != Op::Pointer) return false;
      }
    }
    return passes;
  }

  Cfg cfg_;
};

}  // namespace

std::optional<Cfg> checks_of_rounds(const Cfg& body) { return RoundChecks(body).run(); }

}  // namespace framejit::cfg
