// Surgery on control-flow graphs.
#include "graph/cfg/edit.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace framejit::cfg {

void rename(Cfg& cfg, Names& names) {
  for (Node& n : cfg.nodes) {
    for (Id& a : n.args) a = names(a);
    n.count = names(n.count);
    n.where = names(n.where);
  }
  for (Block& b : cfg.blocks) {
    b.condition = names(b.condition);
    for (Edge& e : b.to)
      for (Id& a : e.args) a = names(a);
  }
  for (Exit& e : cfg.exits)
    for (Id& v : e.values) v = names(v);
}

void drop_unreached(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::vector<bool> reached(cfg.blocks.size(), false);
  for (uint32_t b : shape.order) reached[b] = true;
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b)
    if (!reached[b]) cfg.blocks[b] = Block{};
}

void separate_exits(Cfg& cfg) {
  std::vector<uint32_t> owner(cfg.exits.size(), kNone);
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b) {
    std::map<uint32_t, uint32_t> mine;
    const auto own = [&](uint32_t& exit) {
      if (exit == kNone) return;
      if (owner[exit] == kNone || owner[exit] == b) {
        owner[exit] = b;
        return;
      }
      const auto [at, first] = mine.emplace(exit, static_cast<uint32_t>(cfg.exits.size()));
      if (first) {
        Exit copy = cfg.exits[exit];
        copy.number = cfg.number_of(exit);
        cfg.exits.push_back(std::move(copy));
        owner.push_back(b);
      }
      exit = at->second;
    };
    for (Id id : cfg.blocks[b].nodes) own(cfg.nodes[id].exit);
    if (cfg.blocks[b].end == Block::End::Leave) own(cfg.blocks[b].exit);
  }
}

void join_blocks(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  Names names(cfg.nodes.size());
  std::vector<uint32_t> into(cfg.blocks.size(), kNone);
  const auto place = [&](uint32_t b) {
    while (into[b] != kNone) b = into[b];
    return b;
  };
  for (uint32_t next : shape.order) {
    if (shape.before[next].size() != 1 || cfg.blocks[next].begins_round) continue;
    const uint32_t b = place(shape.before[next][0]);
    if (b == 0 || cfg.blocks[b].end != Block::End::Jump || b == next) continue;
    Block taken = std::exchange(cfg.blocks[next], Block{});
    const Edge edge = cfg.blocks[b].to[0];
    for (std::size_t i = 0; i < taken.params.size(); ++i) names.replace(taken.params[i], edge.args[i]);
    Block& block = cfg.blocks[b];
    block.nodes.insert(block.nodes.end(), taken.nodes.begin(), taken.nodes.end());
    block.end = taken.end;
    block.condition = taken.condition;
    block.to[0] = std::move(taken.to[0]);
    block.to[1] = std::move(taken.to[1]);
    block.exit = taken.exit;
    into[next] = b;
  }
  rename(cfg, names);
}

namespace {

/// Cycles of a part of the graph: each a set of blocks that lead to each other.
class Cycles {
 public:
  Cycles(const Cfg& cfg, const std::vector<bool>& part) : cfg_(cfg), part_(part), number_(cfg.blocks.size(), 0) {
    low_.resize(cfg.blocks.size());
    open_.resize(cfg.blocks.size());
    for (uint32_t b = 0; b < cfg.blocks.size(); ++b)
      if (part[b] && number_[b] == 0) search(b);
  }
  std::vector<std::vector<uint32_t>> found;

 private:
  /// Tarjan's algorithm.
  void search(uint32_t root) {
    std::vector<std::pair<uint32_t, int>> path;
    const auto enter = [&](uint32_t b) {
      number_[b] = low_[b] = ++count_;
      stack_.push_back(b);
      open_[b] = true;
      path.emplace_back(b, 0);
    };
    enter(root);
    while (!path.empty()) {
      auto& [b, next] = path.back();
      if (next < cfg_.blocks[b].successors()) {
        const uint32_t to = cfg_.blocks[b].to[next++].block;
        if (!part_[to]) continue;
        if (number_[to] == 0) enter(to);
        else if (open_[to]) low_[b] = std::min(low_[b], number_[to]);
        continue;
      }
      const uint32_t done = b;
      path.pop_back();
      if (!path.empty()) low_[path.back().first] = std::min(low_[path.back().first], low_[done]);
      if (low_[done] != number_[done]) continue;
      std::vector<uint32_t> cycle;
      uint32_t member;
      do {
        member = stack_.back();
        stack_.pop_back();
        open_[member] = false;
        cycle.push_back(member);
      } while (member != done);
      if (cycle.size() > 1) found.push_back(std::move(cycle));
    }
  }

  const Cfg& cfg_;
  const std::vector<bool>& part_;
  std::vector<uint32_t> number_, low_, stack_;
  std::vector<bool> open_;
  uint32_t count_ = 0;
};

/// The cycle and its head, if a part of the graph has one that is entered at several blocks.
std::pair<std::vector<uint32_t>, uint32_t> entered_twice(const Cfg& cfg, const Shape& shape,
                                                         const std::vector<bool>& part) {
  for (const std::vector<uint32_t>& cycle : Cycles(cfg, part).found) {
    std::vector<bool> inside(cfg.blocks.size(), false);
    for (uint32_t b : cycle) inside[b] = true;
    std::vector<uint32_t> entries;
    for (uint32_t b : cycle)
      if (std::any_of(shape.before[b].begin(), shape.before[b].end(), [&](uint32_t p) { return !inside[p]; }))
        entries.push_back(b);
    uint32_t head = entries.empty() ? kNone : entries[0];
    if (entries.size() > 1) {
      // Where a loop of the program begins: control comes from the loop around it, and from its own end.
      head = kNone;
      for (uint32_t b : cycle) {
        const auto comes = [&](bool from_outer) {
          return std::any_of(shape.before[b].begin(), shape.before[b].end(), [&](uint32_t p) {
            return inside[p] && (cfg.blocks[p].level < cfg.blocks[b].level) == from_outer;
          });
        };
        if (comes(true) && comes(false) && (head == kNone || cfg.blocks[b].level < cfg.blocks[head].level)) head = b;
      }
      const auto rank = [&](uint32_t b) {
        return std::tuple(cfg.blocks[b].begins_round, -static_cast<int64_t>(cfg.blocks[b].level),
                          shape.before[b].size());
      };
      if (head == kNone)
        head = *std::max_element(cycle.begin(), cycle.end(), [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
      return {cycle, head};
    }
    inside[head] = false;
    if (auto inner = entered_twice(cfg, shape, inside); !inner.first.empty()) return inner;
  }
  return {};
}

}  // namespace

void separate_entries(Cfg& cfg) {
  constexpr int kMostTimes = 8;
  constexpr std::size_t kMostNodes = 200;  // of all copies
  std::size_t nodes = 0;
  for (int times = 0; times < kMostTimes; ++times) {
    const Shape shape = shape_of(cfg);
    uint32_t deepest = 0;
    for (uint32_t b : shape.order) deepest = std::max(deepest, cfg.blocks[b].level);
    // Inner loops first: an outer one may share its head with one that is entered at several blocks.
    std::pair<std::vector<uint32_t>, uint32_t> found;
    for (uint32_t level = deepest + 1; level-- > 0 && found.first.empty();) {
      std::vector<bool> part(cfg.blocks.size(), false);
      for (uint32_t b : shape.order) part[b] = cfg.blocks[b].level >= level;
      found = entered_twice(cfg, shape, part);
    }
    const auto& [cycle, head] = found;
    if (cycle.empty()) return;
    std::vector<uint32_t> copied;
    std::vector<uint32_t> owner(cfg.nodes.size(), kNone);
    for (uint32_t b : cycle) {
      if (b == head) continue;
      copied.push_back(b);
      nodes += cfg.blocks[b].nodes.size();
      for (Id p : cfg.blocks[b].params) owner[p] = b;
      for (Id n : cfg.blocks[b].nodes) owner[n] = b;
    }
    if (nodes > kMostNodes) return;
    std::vector<bool> inside(cfg.blocks.size(), false);
    for (uint32_t b : cycle) inside[b] = true;
    const Copy copy = copy_blocks(cfg, copied);
    for (uint32_t p : shape.order)
      for (int k = 0; !inside[p] && k < cfg.blocks[p].successors(); ++k)
        if (const auto at = copy.blocks.find(cfg.blocks[p].to[k].block); at != copy.blocks.end())
          cfg.blocks[p].to[k].block = at->second;
    mend(cfg, copy, owner);
    drop_unreached(cfg);
  }
}

void separate_loops(Cfg& cfg) {
  for (bool changed = true; changed;) {
    changed = false;
    const Shape shape = shape_of(cfg);
    for (uint32_t head : shape.order) {
      if (shape.loop[head] != head) continue;
      std::map<uint32_t, uint32_t> level;  // by block that leads back: of the outermost block between the head and it
      for (uint32_t p : shape.before[head]) {
        if (!shape.dominates(head, p)) continue;
        uint32_t least = cfg.blocks[head].level;
        std::vector<bool> seen(cfg.blocks.size(), false);
        seen[head] = true;
        std::vector<uint32_t> open{p};
        while (!open.empty()) {
          const uint32_t b = open.back();
          open.pop_back();
          if (seen[b]) continue;
          seen[b] = true;
          if (cfg.blocks[b].level > 0) least = std::min(least, cfg.blocks[b].level);
          open.insert(open.end(), shape.before[b].begin(), shape.before[b].end());
        }
        level[p] = least;
      }
      uint32_t innermost = 0;
      for (const auto& [p, least] : level) innermost = std::max(innermost, least);
      if (std::all_of(level.begin(), level.end(), [&](const auto& l) { return l.second == innermost; })) continue;
      const auto outer = static_cast<uint32_t>(cfg.blocks.size());
      cfg.blocks.emplace_back();
      for (uint32_t p : shape.order)
        for (int k = 0; k < cfg.blocks[p].successors(); ++k)
          if (const auto at = level.find(p);
              cfg.blocks[p].to[k].block == head && (at == level.end() || at->second < innermost))
            cfg.blocks[p].to[k].block = outer;
      Edge on;
      on.block = head;
      for (const Id p : std::vector<Id>(cfg.blocks[head].params)) on.args.push_back(cfg.add_param_for(outer, p));
      uint32_t next = 0;
      for (const auto& [p, least] : level)
        if (least < innermost) next = std::max(next, least);
      cfg.blocks[outer].level = next;
      cfg.blocks[outer].end = Block::End::Jump;
      cfg.blocks[outer].to[0] = std::move(on);
      changed = true;
      break;
    }
  }
}

void add_preheaders(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  for (uint32_t head : shape.order) {
    if (shape.loop[head] != head) continue;
    std::vector<std::pair<uint32_t, int>> entries;
    for (uint32_t p : shape.order)
      if (!shape.dominates(head, p))
        for (int k = 0; k < cfg.blocks[p].successors(); ++k)
          if (cfg.blocks[p].to[k].block == head) entries.emplace_back(p, k);
    if (entries.size() == 1 && entries[0].first != 0 && cfg.blocks[entries[0].first].end == Block::End::Jump) continue;
    const auto front = static_cast<uint32_t>(cfg.blocks.size());
    cfg.blocks.emplace_back();
    cfg.blocks[front].level = std::max(cfg.blocks[head].level, 1u) - 1;
    Edge on;
    on.block = head;
    if (entries.size() == 1) {
      on.args = std::move(cfg.blocks[entries[0].first].to[entries[0].second].args);
    } else {
      for (const Id p : std::vector<Id>(cfg.blocks[head].params)) on.args.push_back(cfg.add_param_for(front, p));
    }
    cfg.blocks[front].end = Block::End::Jump;
    cfg.blocks[front].to[0] = std::move(on);
    for (const auto& [p, k] : entries) {
      Edge& e = cfg.blocks[p].to[k];
      e.block = front;
      if (entries.size() == 1) e.args.clear();
    }
  }
}

Copy copy_blocks(Cfg& cfg, const std::vector<uint32_t>& blocks) {
  Copy copy;
  for (uint32_t b : blocks) {
    const auto fresh = static_cast<uint32_t>(cfg.blocks.size());
    cfg.blocks.emplace_back();
    cfg.blocks[fresh].level = cfg.blocks[b].level;
    copy.blocks[b] = fresh;
    for (const Id p : std::vector<Id>(cfg.blocks[b].params)) copy.values[p] = cfg.add_param_for(fresh, p);
    for (const Id id : std::vector<Id>(cfg.blocks[b].nodes)) {
      copy.values[id] = cfg.add(Node(cfg.at(id)));
      cfg.blocks[fresh].nodes.push_back(copy.values[id]);
    }
  }
  const auto renamed = [&](Id& v) {
    if (const auto at = copy.values.find(v); at != copy.values.end()) v = at->second;
  };
  for (uint32_t b : blocks) {
    const uint32_t fresh = copy.blocks[b];
    std::map<uint32_t, uint32_t> exits;
    const auto own = [&](uint32_t exit) {
      if (exit == kNone) return exit;
      const auto [at, first] = exits.emplace(exit, static_cast<uint32_t>(cfg.exits.size()));
      if (first) {
        Exit e = cfg.exits[exit];
        e.number = cfg.number_of(exit);
        for (Id& v : e.values) renamed(v);
        cfg.exits.push_back(std::move(e));
      }
      return at->second;
    };
    for (Id id : cfg.blocks[fresh].nodes) {
      for (Id& a : cfg.nodes[id].args) renamed(a);
      renamed(cfg.nodes[id].count);
      renamed(cfg.nodes[id].where);
      cfg.nodes[id].exit = own(cfg.nodes[id].exit);
    }
    const Block from = cfg.blocks[b];
    Block& to = cfg.blocks[fresh];
    to.end = from.end;
    to.condition = from.condition;
    renamed(to.condition);
    to.exit = from.end == Block::End::Leave ? own(from.exit) : kNone;
    for (int k = 0; k < from.successors(); ++k) {
      to.to[k] = from.to[k];
      if (const auto at = copy.blocks.find(from.to[k].block); at != copy.blocks.end()) to.to[k].block = at->second;
      for (Id& a : to.to[k].args) renamed(a);
    }
  }
  return copy;
}

namespace {

/// Which of the two definitions of a value comes to a place.
class Mender {
 public:
  Mender(Cfg& cfg, const Copy& copy, const std::vector<uint32_t>& owner)
      : cfg_(cfg), copy_(copy), owner_(owner), shape_(shape_of(cfg)) {
    for (const auto& [value, fresh] : copy.values) {
      original_.emplace(fresh, value);
      first_fresh_ = std::min(first_fresh_, fresh);
    }
  }

  void run() {
    for (uint32_t b : shape_.order) {
      const bool copied = copy_.blocks.count(b) != 0;
      std::vector<uint32_t> exits;
      for (std::size_t i = 0; i < cfg_.blocks[b].nodes.size(); ++i) {
        const Id id = cfg_.blocks[b].nodes[i];
        for (int k = 0; k < Node::kMostOperands; ++k)
          mend_operand(id, b, copied, [k](Node& n) -> Id& { return n.args[k]; });
        mend_operand(id, b, copied, [](Node& n) -> Id& { return n.count; });
        mend_operand(id, b, copied, [](Node& n) -> Id& { return n.where; });
        if (cfg_.at(id).exit != kNone) exits.push_back(cfg_.at(id).exit);
      }
      mend(cfg_.blocks[b].condition, b, copied);
      if (cfg_.blocks[b].end == Block::End::Leave) exits.push_back(cfg_.blocks[b].exit);
      std::sort(exits.begin(), exits.end());
      exits.erase(std::unique(exits.begin(), exits.end()), exits.end());
      for (uint32_t e : exits)
        for (Id& v : cfg_.exits[e].values) mend(v, b, copied);
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k)
        for (std::size_t i = 0; i < cfg_.blocks[b].to[k].args.size(); ++i) {
          const Id v = cfg_.blocks[b].to[k].args[i];
          if (added_.count(v)) continue;
          Id now = v;
          mend(now, b, copied);
          cfg_.blocks[b].to[k].args[i] = now;
        }
    }
  }

 private:
  template <class Operand>
  void mend_operand(Id node, uint32_t b, bool copied, Operand operand) {
    Id now = operand(cfg_.nodes[node]);
    mend(now, b, copied);  // adds nodes
    operand(cfg_.nodes[node]) = now;
  }

  void mend(Id& v, uint32_t b, bool copied) {
    // Copies may be entered in their middle, by control that comes from what was copied.
    if (const auto at = v < first_fresh_ ? original_.end() : original_.find(v); at != original_.end()) {
      const uint32_t first = owner_[at->second], home = copy_.blocks.at(first);
      if (home != b && !is_last(home, first, b)) v = at_entry(at->second, b);
      return;
    }
    if (v >= owner_.size() || owner_[v] == kNone || owner_[v] == b) return;
    // Within the blocks that were copied, a value of theirs comes from there as long as its block leads here.
    if (copied && is_last(owner_[v], copy_.blocks.at(owner_[v]), b)) return;
    v = at_entry(v, b);
  }

  /// Two blocks define a value. Does control always come to block `b` from `definition`, and not from the other one? It
  /// does not if `definition` leads to the other one, even if it dominates `b`.
  bool is_last(uint32_t definition, uint32_t other, uint32_t b) const {
    return !shape_.dominates(definition, other) && shape_.dominates(definition, b);
  }

  Id at_end(Id v, uint32_t b) {
    if (owner_[v] == b) return v;
    if (b == copy_.blocks.at(owner_[v])) return copy_.values.at(v);
    return at_entry(v, b);
  }

  Id at_entry(Id v, uint32_t b) {
    const auto key = std::pair(v, b);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    const uint32_t first = owner_[v], second = copy_.blocks.at(first);
    if (first != b && is_last(first, second, b)) return known_[key] = v;
    if (second != b && is_last(second, first, b)) return known_[key] = copy_.values.at(v);
    std::vector<uint32_t> before(shape_.before[b].begin(), shape_.before[b].end());
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    if (before.size() == 1) return known_[key] = at_end(v, before[0]);
    const Id param = cfg_.add_param_for(b, v);
    added_.emplace(param, true);
    known_[key] = param;
    for (uint32_t p : before)
      for (int k = 0; k < cfg_.blocks[p].successors(); ++k)
        if (cfg_.blocks[p].to[k].block == b) {
          const Id given = at_end(v, p);
          cfg_.blocks[p].to[k].args.push_back(given);
        }
    return param;
  }

  Cfg& cfg_;
  const Copy& copy_;
  const std::vector<uint32_t>& owner_;
  const Shape shape_;
  std::unordered_map<Id, Id> original_;  // by copy
  Id first_fresh_ = kNone;
  std::map<std::pair<Id, uint32_t>, Id> known_;
  std::unordered_map<Id, bool> added_;
};

}  // namespace

void mend(Cfg& cfg, const Copy& copy, const std::vector<uint32_t>& owner) { Mender(cfg, copy, owner).run(); }

}  // namespace framejit::cfg
