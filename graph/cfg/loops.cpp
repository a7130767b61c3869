// Loops: their blocks, tests at their end, counts.
#include "graph/cfg/loops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "graph/cfg/edit.h"

namespace framejit::cfg {

std::vector<uint32_t> blocks_of_loop(const Cfg& cfg, const Shape& shape, uint32_t head) {
  std::vector<bool> member(cfg.blocks.size(), false);
  member[head] = true;
  std::vector<uint32_t> out{head};
  std::vector<uint32_t> open;
  for (uint32_t p : shape.before[head])
    if (shape.dominates(head, p)) open.push_back(p);
  while (!open.empty()) {
    const uint32_t b = open.back();
    open.pop_back();
    if (member[b]) continue;
    member[b] = true;
    out.push_back(b);
    for (uint32_t p : shape.before[b]) open.push_back(p);
  }
  return out;
}

std::optional<std::size_t> rounds_left(const Cfg& cfg, const Shape& shape, uint32_t head,
                                       const std::vector<uint32_t>& members) {
  const auto is_member = [&](uint32_t b) { return std::find(members.begin(), members.end(), b) != members.end(); };
  const auto is_number = [&](Id v, int64_t number) { return cfg.is_const(v) && cfg.at(v).imm == number; };
  const Block& block = cfg.blocks[head];
  if (block.end != Block::End::Branch || cfg.is_param[block.condition]) return std::nullopt;
  if (!is_member(block.to[0].block) || is_member(block.to[1].block)) return std::nullopt;
  const Node& asks = cfg.at(block.condition);
  const auto at = std::find(block.params.begin(), block.params.end(), asks.args[0]);
  if (asks.op != Op::Ne || !is_number(asks.args[1], 0) || at == block.params.end()) return std::nullopt;
  const auto which = static_cast<std::size_t>(at - block.params.begin());
  for (const uint32_t p : shape.before[head]) {
    if (!is_member(p)) continue;
    for (int k = 0; k < cfg.blocks[p].successors(); ++k) {
      if (cfg.blocks[p].to[k].block != head) continue;
      const Id given = cfg.blocks[p].to[k].args[which];
      const Node& less = cfg.at(given);
      if (cfg.is_param[given] || less.op != Op::Add || less.args[0] != *at || !is_number(less.args[1], -1))
        return std::nullopt;
    }
  }
  return which;
}

uint32_t front_of(const Cfg& cfg, const Shape& shape, uint32_t head) {
  uint32_t front = kNone;
  for (uint32_t p : shape.before[head])
    if (!shape.dominates(head, p)) {
      if (front != kNone) return kNone;
      front = p;
    }
  return front != kNone && cfg.blocks[front].end == Block::End::Jump ? front : kNone;
}

bool rotate_loops(Cfg& cfg) {
  constexpr std::size_t kMostNodes = 12;
  bool changed = false;
  Shape shape = shape_of(cfg);
  bool is_current = true;
  std::vector<uint32_t> heads;
  for (uint32_t b : shape.order)
    if (shape.loop[b] == b) heads.push_back(b);
  for (uint32_t head : heads) {
    const Block& block = cfg.blocks[head];
    if (block.end != Block::End::Branch || block.nodes.size() > kMostNodes) continue;
    if (!std::exchange(is_current, true)) shape = shape_of(cfg);
    const std::vector<uint32_t> members = blocks_of_loop(cfg, shape, head);
    const auto inside = [&](uint32_t b) { return std::find(members.begin(), members.end(), b) != members.end(); };
    const bool first = inside(block.to[0].block), second = inside(block.to[1].block);
    if (first == second || members.size() == 1) continue;
    if (std::any_of(block.nodes.begin(), block.nodes.end(),
                    [&](Id id) { return info(cfg.at(id).op).effect == Effect::Writes; }))
      continue;
    std::vector<uint32_t> owner(cfg.nodes.size(), kNone);
    for (Id p : block.params) owner[p] = head;
    for (Id id : block.nodes) owner[id] = head;
    const Copy copy = copy_blocks(cfg, {head});
    const uint32_t last = copy.blocks.at(head);
    for (uint32_t b : members) {
      if (b == head) continue;
      for (int k = 0; k < cfg.blocks[b].successors(); ++k)
        if (cfg.blocks[b].to[k].block == head) cfg.blocks[b].to[k].block = last;
    }
    mend(cfg, copy, owner);
    changed = true;
    is_current = false;
  }
  return changed;
}

namespace {

/// The rounds of a loop that counts them down from a constant, if they are few.
std::optional<int> known_rounds(const Cfg& cfg, const std::vector<uint32_t>& members, uint32_t head, uint32_t front) {
  constexpr int64_t kMostRounds = 4;
  const Block& block = cfg.blocks[head];
  const auto inside = [&](uint32_t b) { return std::find(members.begin(), members.end(), b) != members.end(); };
  if (block.end != Block::End::Branch || !inside(block.to[0].block) || inside(block.to[1].block)) return std::nullopt;
  const Node& c = cfg.at(block.condition);
  if (cfg.is_param[block.condition] || c.op != Op::Ne || !cfg.is_const(c.args[1]) || cfg.at(c.args[1]).imm != 0)
    return std::nullopt;
  const auto at = std::find(block.params.begin(), block.params.end(), c.args[0]);
  if (at == block.params.end()) return std::nullopt;
  const auto which = static_cast<std::size_t>(at - block.params.begin());
  for (uint32_t b : members)
    for (int k = 0; k < cfg.blocks[b].successors(); ++k) {
      if (cfg.blocks[b].to[k].block != head) continue;
      const Id given = cfg.blocks[b].to[k].args[which];
      const Node& less = cfg.at(given);
      if (cfg.is_param[given] || less.op != Op::Add || less.args[0] != *at || !cfg.is_const(less.args[1]) ||
          cfg.at(less.args[1]).imm != -1)
        return std::nullopt;
    }
  const Id first = cfg.blocks[front].to[0].args[which];
  if (!cfg.is_const(first) || cfg.at(first).imm < 0 || cfg.at(first).imm > kMostRounds) return std::nullopt;
  return static_cast<int>(cfg.at(first).imm);
}

}  // namespace

bool unroll_short_loops(Cfg& cfg) {
  constexpr std::size_t kMostCopies = 400;
  const Shape before = shape_of(cfg);
  for (uint32_t head : before.order) {
    if (before.loop[head] != head) continue;
    const std::vector<uint32_t> members = blocks_of_loop(cfg, before, head);
    const uint32_t front = front_of(cfg, before, head);
    std::size_t nodes = 0;
    bool inner = true;
    for (uint32_t b : members) {
      nodes += cfg.blocks[b].nodes.size();
      inner = inner && before.loop[b] == head;
    }
    if (!inner || front == kNone) continue;
    const std::optional<int> rounds = known_rounds(cfg, members, head, front);
    if (!rounds || nodes * static_cast<std::size_t>(*rounds) > kMostCopies) continue;
    std::vector<uint32_t> owner(cfg.nodes.size(), kNone);
    for (uint32_t b : members) {
      for (Id p : cfg.blocks[b].params) owner[p] = b;
      for (Id n : cfg.blocks[b].nodes) owner[n] = b;
    }
    std::vector<uint32_t> last{front};  // blocks that lead to the next round
    for (int round = 0; round <= *rounds; ++round) {
      const Copy copy = copy_blocks(cfg, members);
      owner.resize(cfg.nodes.size(), kNone);
      const uint32_t fresh = copy.blocks.at(head);
      for (uint32_t b : last)
        for (int k = 0; k < cfg.blocks[b].successors(); ++k)
          if (cfg.blocks[b].to[k].block == head) cfg.blocks[b].to[k].block = fresh;
      last.clear();
      for (uint32_t b : members) {
        Block& made = cfg.blocks[copy.blocks.at(b)];
        // The loop around it polls.
        std::erase_if(made.nodes, [&](Id id) { return cfg.at(id).op == Op::Poll; });
        for (int k = 0; k < made.successors(); ++k)
          if (made.to[k].block == fresh) {
            made.to[k].block = head;
            last.push_back(copy.blocks.at(b));
          }
      }
      Node goes_on;
      goes_on.type = Type::I64;
      goes_on.imm = round < *rounds;
      cfg.blocks[fresh].condition = cfg.add(goes_on);
      cfg.blocks[fresh].nodes.push_back(cfg.blocks[fresh].condition);
      if (round == *rounds) {
        cfg.blocks[fresh].end = Block::End::Jump;
        cfg.blocks[fresh].to[0] = std::exchange(cfg.blocks[fresh].to[1], Edge{});
        cfg.blocks[fresh].condition = kNone;
      }
      owner.resize(cfg.nodes.size(), kNone);
      mend(cfg, copy, owner);
    }
    drop_unreached(cfg);
    return true;
  }
  return false;
}

namespace {

/// A sum of values, by how often each is in it, and a constant.
struct Sum {
  std::map<Id, int64_t> terms;
  int64_t plus = 0;
  bool operator==(const Sum&) const = default;
};

void add_to(Sum& out, const Cfg& cfg, Id v, int64_t times, int depth = 0) {
  constexpr int kDeepest = 8;
  const Node& n = cfg.at(v);
  if (cfg.is_const(v)) {
    out.plus = static_cast<int64_t>(static_cast<uint64_t>(out.plus) +
                                    static_cast<uint64_t>(times) * static_cast<uint64_t>(n.imm));
  } else if (!cfg.is_param[v] && (n.op == Op::Add || n.op == Op::Sub) && depth < kDeepest) {
    add_to(out, cfg, n.args[0], times, depth + 1);
    add_to(out, cfg, n.args[1], n.op == Op::Add ? times : -times, depth + 1);
  } else if (int64_t& count = out.terms[v]; (count += times) == 0) {
    out.terms.erase(v);
  }
}

Sum sum_of(const Cfg& cfg, Id a, Id b, int64_t times) {
  Sum out;
  add_to(out, cfg, a, 1);
  add_to(out, cfg, b, times);
  return out;
}

}  // namespace

void count_once(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::vector<bool> inside(cfg.nodes.size(), false);  // used otherwise than by exits
  for (uint32_t b : shape.order) {
    for (Id id : cfg.blocks[b].nodes)
      for (Id a : cfg.at(id).args)
        if (a != kNone) inside[a] = true;
    if (cfg.blocks[b].condition != kNone) inside[cfg.blocks[b].condition] = true;
    for (int k = 0; k < cfg.blocks[b].successors(); ++k)
      for (Id v : cfg.blocks[b].to[k].args) inside[v] = true;
  }
  Names names(cfg.nodes.size());
  for (uint32_t head : shape.order) {
    if (shape.loop[head] != head) continue;
    uint32_t front = kNone;
    std::vector<const Edge*> entries, backs;
    for (uint32_t p : shape.order)
      for (int k = 0; k < cfg.blocks[p].successors(); ++k)
        if (cfg.blocks[p].to[k].block == head) {
          if (shape.dominates(head, p)) {
            backs.push_back(&cfg.blocks[p].to[k]);
          } else {
            entries.push_back(&cfg.blocks[p].to[k]);
            front = p;
          }
        }
    if (entries.size() != 1 || cfg.blocks[front].end != Block::End::Jump) continue;
    const std::vector<Id> params = cfg.blocks[head].params;
    std::vector<Id> made;
    std::vector<bool> gone(params.size(), false);
    const auto node = [&](uint32_t block, Op op, Id a, Id b) {
      Node n;
      n.op = op;
      n.type = Type::I64;
      n.args[0] = a;
      n.args[1] = b;
      const Id id = cfg.add(n);
      if (block == head) made.push_back(id);
      else cfg.blocks[block].nodes.push_back(id);
      return id;
    };
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (cfg.at(params[i]).type != Type::I64 || cfg.at(params[i]).lanes > 1) continue;
      for (std::size_t j = 0; j < params.size(); ++j) {
        if (i == j || gone[j] || cfg.at(params[j]).type != Type::I64 || cfg.at(params[j]).lanes > 1) continue;
        const Edge& entry = *entries[0];
        // The same along all edges, or what it was in the round before.
        const auto always = [&](int64_t times, const Sum& what) {
          const Sum before = sum_of(cfg, params[i], params[j], times);
          return std::all_of(backs.begin(), backs.end(), [&](const Edge* e) {
            const Sum now = sum_of(cfg, e->args[i], e->args[j], times);
            return now == what || now == before;
          });
        };
        // It follows the other one at a distance.
        if (const Sum apart = sum_of(cfg, entry.args[i], entry.args[j], -1);
            (apart.terms.empty() || !inside[params[i]]) && always(-1, apart)) {
          Node n;
          n.type = Type::I64;
          n.imm = apart.plus;
          Id distance;
          if (apart.terms.empty()) cfg.blocks[front].nodes.push_back(distance = cfg.add(n));
          else distance = node(front, Op::Sub, entry.args[i], entry.args[j]);
          names.replace(params[i], node(head, Op::Add, params[j], distance));
          gone[i] = true;
          break;
        }
        // It falls as the other one grows: rounds that are left, as an index grows.
        const bool grows = std::all_of(backs.begin(), backs.end(), [&](const Edge* e) {
          const Sum change = sum_of(cfg, e->args[j], params[j], -1);
          return change.terms.empty() && change.plus > 0;
        });
        if (grows && always(1, sum_of(cfg, entry.args[i], entry.args[j], 1))) {
          names.replace(params[i], node(head, Op::Sub, node(front, Op::Add, entry.args[i], entry.args[j]), params[j]));
          gone[i] = true;
          break;
        }
      }
    }
    if (made.empty()) continue;
    std::vector<Id>& nodes = cfg.blocks[head].nodes;
    nodes.insert(nodes.begin(), made.rbegin(), made.rend());  // earlier ones may rely on later ones
    const auto filter = [&](std::vector<Id>& values) {
      std::size_t to = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!gone[i]) values[to++] = values[i];
      values.resize(to);
    };
    filter(cfg.blocks[head].params);
    for (uint32_t p : shape.before[head])
      for (int k = 0; k < cfg.blocks[p].successors(); ++k)
        if (cfg.blocks[p].to[k].block == head && cfg.blocks[p].to[k].args.size() == params.size())
          filter(cfg.blocks[p].to[k].args);
  }
  rename(cfg, names);
}

namespace {

constexpr int64_t kMostOffset = int64_t{1} << 40;

/// A parameter of the head, and what is added to it.
struct Affine {
  std::size_t which;
  int64_t plus;
};

class Addresses {
 public:
  Addresses(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front, const std::vector<uint32_t>& members)
      : cfg_(cfg), shape_(shape), head_(head), front_(front), members_(members), inside_(cfg.nodes.size(), false) {
    for (uint32_t b : members) {
      for (Id p : cfg.blocks[b].params) inside_[p] = true;
      for (Id n : cfg.blocks[b].nodes) inside_[n] = true;
    }
  }

  void run() {
    // By what is added, the factor and the count: the pointer, and what has been added to the count.
    std::map<std::tuple<Id, Id, std::size_t>, std::pair<Id, int64_t>> known;
    for (uint32_t b : members_)
      for (const Id id : std::vector<Id>(cfg_.blocks[b].nodes)) {
        const Node n = cfg_.at(id);
        if (n.op != Op::Load && n.op != Op::Store) continue;
        Id base = n.args[0], fixed = kNone;
        if (is_fixed(base) || cfg_.is_param[base]) continue;
        Node product = cfg_.at(base);
        if (product.op == Op::Add) {
          const int i = is_fixed(product.args[0]) ? 0 : 1;
          fixed = product.args[i];
          if (!is_fixed(fixed) || is_fixed(product.args[1 - i]) || cfg_.is_param[product.args[1 - i]]) continue;
          product = cfg_.at(product.args[1 - i]);
        }
        if (product.op != Op::Mul) continue;
        const int i = is_fixed(product.args[0]) ? 0 : 1;
        const Id factor = product.args[i];
        const std::optional<Affine> count = affine(product.args[1 - i]);
        if (!is_fixed(factor) || !count || !step(count->which)) continue;
        const auto [at, first] = known.emplace(std::tuple(fixed, factor, count->which), std::pair(kNone, count->plus));
        auto& [param, plus] = at->second;
        if (first) param = pointer(fixed, factor, *count);
        cfg_.nodes[id].args[0] =
            count->plus == plus ? param
                                : node(b, id, Op::Add, param, in_front(Op::Mul, factor, constant(count->plus - plus)));
      }
  }

 private:
  bool is_fixed(Id v) const { return v < inside_.size() ? !inside_[v] : false; }

  std::optional<Affine> affine(Id v) const {
    const std::vector<Id>& params = cfg_.blocks[head_].params;
    int64_t plus = 0;
    while (!cfg_.is_param[v] && cfg_.at(v).op == Op::Add && cfg_.is_const(cfg_.at(v).args[1])) {
      plus += cfg_.at(cfg_.at(v).args[1]).imm;
      if (!is_within(plus, kMostOffset)) return std::nullopt;
      v = cfg_.at(v).args[0];
    }
    const auto at = std::find(params.begin(), params.end(), v);
    if (at == params.end()) return std::nullopt;
    return Affine{static_cast<std::size_t>(at - params.begin()), plus};
  }

  /// By how much all rounds change a parameter, if that is one constant.
  std::optional<int64_t> step(std::size_t which) const {
    std::optional<int64_t> out;
    for (uint32_t p : shape_.before[head_])
      for (int k = 0; k < cfg_.blocks[p].successors(); ++k) {
        if (cfg_.blocks[p].to[k].block != head_ || p == front_) continue;
        const std::optional<Affine> next = affine(cfg_.blocks[p].to[k].args[which]);
        if (!next || next->which != which || (out && *out != next->plus)) return std::nullopt;
        out = next->plus;
      }
    return out;
  }

  Id in_front(Op op, Id a, Id b) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    const Id id = cfg_.add(n);
    cfg_.blocks[front_].nodes.push_back(id);
    return id;
  }

  Id constant(int64_t value) {
    Node n;
    n.type = Type::I64;
    n.imm = value;
    const Id id = cfg_.add(n);
    cfg_.blocks[front_].nodes.push_back(id);
    return id;
  }

  /// In front of another node, or at the end of the block.
  Id node(uint32_t b, Id before, Op op, Id x, Id y) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.args[0] = x;
    n.args[1] = y;
    const Id id = cfg_.add(n);
    std::vector<Id>& nodes = cfg_.blocks[b].nodes;
    nodes.insert(std::find(nodes.begin(), nodes.end(), before), id);
    return id;
  }

  Id pointer(Id fixed, Id factor, const Affine& count) {
    const int64_t by = *step(count.which);
    const Id first = in_front(Op::Add, cfg_.blocks[front_].to[0].args[count.which], constant(count.plus));
    Id start = in_front(Op::Mul, first, factor);
    if (fixed != kNone) start = in_front(Op::Add, fixed, start);
    const Id stride = in_front(Op::Mul, factor, constant(by));
    const Id param = cfg_.add_param(head_, Type::I64);
    std::vector<uint32_t> before(shape_.before[head_].begin(), shape_.before[head_].end());
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (uint32_t p : before) {
      const Id next = p == front_ ? start : node(p, kNone, Op::Add, param, stride);
      for (int k = 0; k < cfg_.blocks[p].successors(); ++k)
        if (cfg_.blocks[p].to[k].block == head_) cfg_.blocks[p].to[k].args.push_back(next);
    }
    return param;
  }

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_, front_;
  const std::vector<uint32_t>& members_;
  std::vector<bool> inside_;
};

}  // namespace

void step_addresses(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  for (uint32_t head : shape.order) {
    if (shape.loop[head] != head) continue;
    const std::vector<uint32_t> members = blocks_of_loop(cfg, shape, head);
    if (std::any_of(members.begin(), members.end(), [&](uint32_t b) { return shape.loop[b] != head; })) continue;
    const uint32_t front = front_of(cfg, shape, head);
    if (front != kNone) Addresses(cfg, shape, head, front, members).run();
  }
}

void compare_next_counts(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  const auto made = [&](Op op, Id a, Id b, int64_t imm) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    n.imm = imm;
    return cfg.add(n);
  };
  for (uint32_t head : shape.order) {
    const uint32_t front = shape.loop[head] == head ? front_of(cfg, shape, head) : kNone;
    if (front == kNone) continue;
    std::vector<bool> inside(cfg.nodes.size(), false);
    for (uint32_t b : blocks_of_loop(cfg, shape, head)) {
      for (Id v : cfg.blocks[b].params) inside[v] = true;
      for (Id v : cfg.blocks[b].nodes) inside[v] = true;
    }
    for (uint32_t b : shape.before[head]) {
      Block& block = cfg.blocks[b];
      if (b == front || block.end != Block::End::Branch || cfg.is_param[block.condition]) continue;
      const int back = block.to[0].block == head ? 0 : 1;
      const Node test = cfg.at(block.condition);
      if ((test.op != Op::Ne && test.op != Op::Eq) || cfg.at(test.args[0]).type != Type::I64) continue;
      const int fixed = inside[test.args[0]] ? 1 : 0;
      const Id now = test.args[1 - fixed], end = test.args[fixed];
      const std::vector<Id>& params = cfg.blocks[head].params;
      const auto which = std::find(params.begin(), params.end(), now);
      if (inside[end] || which == params.end() || block.to[1 - back].block == head) continue;
      const Id next = block.to[back].args[static_cast<std::size_t>(which - params.begin())];
      const Node sum = cfg.at(next);
      if (cfg.is_param[next] || sum.op != Op::Add || sum.args[0] != now || !cfg.is_const(sum.args[1])) continue;
      std::vector<Id>& nodes = block.nodes;
      const auto place = std::find(nodes.begin(), nodes.end(), next);
      const bool is_used = std::any_of(nodes.begin(), nodes.end(), [&](Id id) {
        const Node& n = cfg.at(id);
        if (std::find(std::begin(n.args), std::end(n.args), next) != std::end(n.args)) return true;
        if (n.exit == kNone) return false;
        const std::vector<Id>& kept = cfg.exits[n.exit].values;
        return std::find(kept.begin(), kept.end(), next) != kept.end();
      });
      if (place == nodes.end() || is_used) continue;
      const int64_t by = cfg.at(sum.args[1]).imm;
      nodes.erase(place);
      nodes.push_back(next);
      const Id step = made(Op::Const, kNone, kNone, by), last = made(Op::Add, end, step, 0);
      cfg.blocks[front].nodes.insert(cfg.blocks[front].nodes.end(), {step, last});
      block.condition = made(test.op, last, next, 0);
      nodes.push_back(block.condition);
      // What is handed on behind the loop is made of the next count too, so that the one before needs no register.
      for (Id& v : block.to[1 - back].args) {
        const Node n = cfg.at(v);
        const bool adds = !cfg.is_param[v] && n.op == Op::Add && n.args[0] == now && cfg.is_const(n.args[1]);
        if (v != now && !adds) continue;
        const int64_t plus = adds ? cfg.at(n.args[1]).imm : 0;
        if (!is_within(plus, kMostOffset) || !is_within(by, kMostOffset)) continue;
        const Id distance = made(Op::Const, kNone, kNone, plus - by);
        v = plus == by ? next : made(Op::Add, next, distance, 0);
        if (plus != by) nodes.insert(nodes.end(), {distance, v});
      }
    }
  }
}

void sink_results(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  std::vector<bool> inside(cfg.nodes.size(), false);  // used otherwise than where a loop ends, and by exits
  const auto ends_loop = [&](uint32_t b, int k) {
    return shape.depth[cfg.blocks[b].to[k].block] < shape.depth[b] && cfg.blocks[b].end == Block::End::Branch;
  };
  for (uint32_t b : shape.order) {
    const Block& block = cfg.blocks[b];
    for (Id id : block.nodes)
      for (Id a : cfg.at(id).args)
        if (a != kNone) inside[a] = true;
    if (block.condition != kNone) inside[block.condition] = true;
    for (int k = 0; k < block.successors(); ++k)
      if (!ends_loop(b, k))
        for (Id v : block.to[k].args) inside[v] = true;
  }
  for (uint32_t b : shape.order)
    for (int k = 0; k < cfg.blocks[b].successors(); ++k) {
      if (!ends_loop(b, k)) continue;
      Edge edge = cfg.blocks[b].to[k];
      std::vector<Id> made;
      for (Id& v : edge.args) {
        const Node n = cfg.at(v);
        if (v >= inside.size() || inside[v] || cfg.is_param[v] || n.op != Op::Add || n.type != Type::I64) continue;
        v = cfg.add(n);
        made.push_back(v);
      }
      if (made.empty()) continue;
      const auto aside = static_cast<uint32_t>(cfg.blocks.size());
      cfg.blocks.emplace_back();
      cfg.blocks[aside].level = cfg.blocks[edge.block].level;
      cfg.blocks[aside].nodes = std::move(made);
      cfg.blocks[aside].end = Block::End::Jump;
      cfg.blocks[aside].to[0] = std::move(edge);
      cfg.blocks[b].to[k] = {aside, {}};
    }
}

void part_conditions(Cfg& cfg) {
  std::vector<uint32_t> uses(cfg.nodes.size(), 0);
  const auto use = [&](Id v) {
    if (v != kNone) ++uses[v];
  };
  for (const Exit& exit : cfg.exits)
    for (Id v : exit.values) use(v);
  for (const Block& block : cfg.blocks) {
    use(block.condition);
    for (int k = 0; k < block.successors(); ++k)
      for (Id v : block.to[k].args) use(v);
    for (Id id : block.nodes) {
      const Node& n = cfg.at(id);
      for (Id a : n.args) use(a);
      use(n.count);
      use(n.where);
    }
  }
  const auto is = [&](Id v, Op op) { return !cfg.is_param[v] && cfg.at(v).op == op && cfg.at(v).lanes == 1; };
  for (uint32_t b = 0; b < cfg.blocks.size(); ++b)
    while (cfg.blocks[b].end == Block::End::Branch) {
      const Id condition = cfg.blocks[b].condition;
      if (!is(condition, Op::And) || uses[condition] > 1) break;
      const Id bound = cfg.at(condition).args[1];
      if (!is(bound, Op::Below) || std::ranges::count(cfg.blocks[b].nodes, bound) == 0) break;
      Block rest;
      rest.level = cfg.blocks[b].level;
      rest.end = Block::End::Branch;
      rest.condition = bound;
      for (const int k : {0, 1}) rest.to[k] = cfg.blocks[b].to[k];
      cfg.blocks[b].condition = cfg.at(condition).args[0];
      cfg.blocks[b].to[0] = Edge{static_cast<uint32_t>(cfg.blocks.size()), {}};
      std::erase(cfg.blocks[b].nodes, condition);
      cfg.blocks.push_back(std::move(rest));
    }
}

void sink_into_branches(Cfg& cfg) {
  const Shape shape = shape_of(cfg);
  constexpr uint32_t kSeveral = kNone - 1;
  std::vector<uint32_t> user(cfg.nodes.size(), kNone);
  const auto use = [&](Id v, uint32_t b) {
    if (v != kNone) user[v] = user[v] == kNone || user[v] == b ? b : kSeveral;
  };
  const auto leave = [&](uint32_t exit, uint32_t b) {
    for (Id v : cfg.exits[exit].values) use(v, b);
  };
  const auto use_operands = [&](const Node& n, uint32_t b) {
    for (Id a : n.args) use(a, b);
    use(n.count, b);
    use(n.where, b);
  };
  /// Does a branch lead from one block to the other, and no way into a loop?
  const auto branches = [&](uint32_t from, uint32_t to) {
    bool found = false;
    for (uint32_t b = to; b != from; b = shape.dominator[b]) {
      if (shape.depth[b] < shape.depth[to]) return false;
      found = found || cfg.blocks[shape.dominator[b]].successors() > 1;
    }
    return found && shape.depth[to] <= shape.depth[from];
  };
  for (auto at = shape.order.rbegin(); at != shape.order.rend(); ++at) {
    const uint32_t b = *at;
    Block& block = cfg.blocks[b];
    use(block.condition, b);
    if (block.end == Block::End::Leave) leave(block.exit, b);
    for (int k = 0; k < block.successors(); ++k)
      for (Id v : block.to[k].args) use(v, b);
    for (std::size_t i = block.nodes.size(); i-- > 0;) {
      const Id id = block.nodes[i];
      const Node& n = cfg.at(id);
      const uint32_t to = user[id];
      const bool of_numbers =
          info(n.op).operands > 0 && n.lanes == 1 &&
          std::all_of(std::begin(n.args), std::end(n.args), [&](Id a) { return a == kNone || cfg.at(a).lanes == 1; });
      const bool may_sink = info(n.op).effect == Effect::Pure && of_numbers && to != kNone && to != kSeveral && to != b;
      if (may_sink && branches(b, to)) {
        block.nodes.erase(block.nodes.begin() + static_cast<std::ptrdiff_t>(i));
        cfg.blocks[to].nodes.insert(cfg.blocks[to].nodes.begin(), id);
        use_operands(n, to);
        continue;
      }
      use_operands(n, b);
      if (info(n.op).effect == Effect::Checks) leave(n.exit, b);
    }
  }
}

}  // namespace framejit::cfg
