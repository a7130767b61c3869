// The places of loops, forms of values, and what can be done in lanes.
#include "graph/cfg/outer_nest.h"

#include <algorithm>

#include "graph/cfg/edit.h"
#include "graph/cfg/lanes.h"
#include "graph/cfg/loops.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

constexpr std::size_t kMostNodes = 300, kMostPlaces = 64;
constexpr int kMostGathers = 3;  // in an inner loop

bool always_pays = false;

}  // namespace

bool set_outer_vectors_always(bool always) { return std::exchange(always_pays, always); }

bool OuterNest::find_loops() {
  const std::vector<uint32_t> members = blocks_of_loop(cfg_, shape_, head_);
  loop_of_.assign(cfg_.blocks.size(), kNone);
  block_of_.assign(cfg_.nodes.size(), kNone);
  std::size_t nodes = 0;
  std::map<uint32_t, std::size_t> by_head{{head_, 0}};
  loops_.emplace_back();
  loops_[0].head = head_;
  for (uint32_t b : shape_.order) {
    if (std::find(members.begin(), members.end(), b) == members.end()) continue;
    if (shape_.loop[b] == b && b != head_) {
      by_head[b] = loops_.size();
      loops_.emplace_back();
      loops_.back().head = b;
      loops_.back().front = front_of(cfg_, shape_, b);
      if (loops_.back().front == kNone) return false;
      loops_.back().parent = by_head.at(shape_.loop[loops_.back().front]);
    }
  }
  for (uint32_t b : shape_.order) {
    if (std::find(members.begin(), members.end(), b) == members.end()) continue;
    nodes += cfg_.blocks[b].nodes.size();
    loop_of_[b] = static_cast<uint32_t>(by_head.at(shape_.loop[b]));
    for (std::size_t l = loop_of_[b];; l = loops_[l].parent) {
      loops_[l].blocks.push_back(b);
      if (l == 0) break;
    }
    for (Id v : cfg_.blocks[b].params) block_of_[v] = b;
    for (Id v : cfg_.blocks[b].nodes) block_of_[v] = b;
  }
  return loops_.size() > 1 && nodes <= kMostNodes;
}

bool OuterNest::find_orders() {
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    Loop& loop = loops_[l];
    std::map<uint32_t, std::set<uint32_t>> next;
    std::map<uint32_t, int> before;
    for (uint32_t b : loop.blocks) {
      const uint32_t from = place_of(b, l);
      next[from];
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k) {
        const uint32_t to = cfg_.blocks[b].to[k].block;
        if (!is_in(to, l)) {
          if (is_member(to)) loop.exits.push_back({b, k});
          continue;
        }
        const uint32_t place = place_of(to, l);
        if (to != loop.head && place != from && next[from].insert(place).second) ++before[place];
      }
    }
    std::sort(loop.exits.begin(), loop.exits.end(), [](const ExitEdge& a, const ExitEdge& b) {
      return std::pair(a.block, a.which) < std::pair(b.block, b.which);
    });
    if (next.size() > kMostPlaces) return false;
    std::vector<uint32_t> open{loop.head};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      loop.place[at] = loop.order.size();
      loop.order.push_back(at);
      for (uint32_t to : next[at])
        if (--before[to] == 0) open.push_back(to);
    }
    if (loop.order.size() != next.size()) return false;
  }
  return true;
}

std::vector<OuterNest::ExitEdge> OuterNest::edges_from(uint32_t place, std::size_t l) const {
  std::vector<ExitEdge> out;
  if (!is_loop_place(place, l)) {
    for (int k = 0; k < cfg_.blocks[place].successors(); ++k) out.push_back({place, k});
    return out;
  }
  return loops_[child_at(place)].exits;
}

std::size_t OuterNest::child_at(uint32_t head) const {
  for (std::size_t l = 1; l < loops_.size(); ++l)
    if (loops_[l].head == head) return l;
  return 0;
}

bool OuterNest::is_in(uint32_t b, std::size_t loop) const {
  if (!is_member(b)) return false;
  for (std::size_t l = loop_of_[b];; l = loops_[l].parent) {
    if (l == loop) return true;
    if (l == 0) return false;
  }
}

uint32_t OuterNest::place_of(uint32_t b, std::size_t loop) const {
  std::size_t l = loop_of_[b];
  if (l == loop) return b;
  while (loops_[l].parent != loop) l = loops_[l].parent;
  return loops_[l].head;
}

void OuterNest::find_ways(std::size_t l) {
  Loop& loop = loops_[l];
  loop.common.clear();
  for (const ExitEdge& e : loop.exits)
    if (loop_of_[e.block] == l) loop.common.insert({e.block, e.which});
  do find_places_behind(l);
  while (std::erase_if(loop.common, [&](const auto& e) { return !always(e.first, l); }) > 0);
}

void OuterNest::find_places_behind(std::size_t l) {
  Loop& loop = loops_[l];
  loop.behind.assign(loop.order.size(), ~uint64_t{0});
  for (std::size_t i = loop.order.size(); i-- > 0;) {
    uint64_t all = ~uint64_t{0};
    bool ends = false;
    for (const ExitEdge& e : edges_from(loop.order[i], l)) {
      const uint32_t to = target(e);
      if (!is_member(to) || is_common_exit(e, l)) continue;
      if (!is_in(to, l) || to == loop.head) ends = true;
      else all &= loop.behind[loop.place.at(place_of(to, l))];
    }
    if (ends) all = 0;
    loop.behind[i] = all | uint64_t{1} << i;
  }
}

bool OuterNest::always(uint32_t place, std::size_t l) const {
  const Loop& loop = loops_[l];
  return (loop.behind[0] >> loop.place.at(place_of(place, l)) & 1) != 0;
}

std::vector<OuterNest::ExitEdge> OuterNest::edges_to(uint32_t place, std::size_t l) const {
  std::vector<ExitEdge> out;
  const uint32_t block = is_loop_place(place, l) ? loops_[child_at(place)].head : place;
  for (uint32_t from : loops_[l].order) {
    if (from == place) break;
    for (const ExitEdge& e : edges_from(from, l))
      if (target(e) == block) out.push_back(e);
  }
  return out;
}

std::vector<OuterNest::ExitEdge> OuterNest::edges_back(std::size_t l) const {
  std::vector<ExitEdge> out;
  for (uint32_t from : loops_[l].order)
    for (const ExitEdge& e : edges_from(from, l))
      if (target(e) == loops_[l].head) out.push_back(e);
  return out;
}

OuterNest::Form OuterNest::form(Id v) const {
  if (v == kNone || !is_inside(v)) return {Form::Uniform};
  return forms_[v];
}

OuterNest::Form OuterNest::form_in(Id v, uint32_t b) const {
  if (v != kNone && is_inside(v) && is_member(b))
    for (std::size_t l = loop_of_[block_of_[v]]; l != 0 && !is_in(b, l); l = loops_[l].parent)
      if (loops_[l].masked) return {Form::Lanes};
  return form(v);
}

bool OuterNest::find_forms() {
  forms_.assign(cfg_.nodes.size(), {});
  for (std::size_t i = 0; i < variables_.size(); ++i) forms_[cfg_.blocks[head_].params[i]] = first_form(i);
  for (std::size_t l = 0; l < loops_.size(); ++l) find_ways(l);
  do {
    changed_ = false;
    for (uint32_t b : loops_[0].blocks) {
      if (b != head_) find_param_forms(b);
      for (Id id : cfg_.blocks[b].nodes) meet(id, form_of(id, b));
    }
    for (std::size_t l = 1; l < loops_.size(); ++l) find_mask(l);
    for (std::size_t l = 0; l < loops_.size(); ++l) find_ways(l);
  } while (changed_);
  for (uint32_t b : loops_[0].blocks) {
    for (Id id : cfg_.blocks[b].nodes)
      if (!can_be_done(id, b)) return false;
    for (Id p : cfg_.blocks[b].params)
      if (!is_wide() && cfg_.at(p).type == Type::F32 && form(p).kind == Form::Lanes) return false;
  }
  for (std::size_t l = 1; l < loops_.size(); ++l) find_outs(l);
  return true;
}

OuterNest::Form OuterNest::first_form(std::size_t i) const {
  const OuterVariable& v = variables_[i];
  switch (v.kind) {
    case OuterVariable::Counts:
      return {Form::Linear, number(v.step).value_or(1), kNone};  // any other step is left to the loop
    case OuterVariable::Sum: return {Form::Lanes};
    default: return {Form::Uniform};
  }
}

bool OuterNest::parts_lanes(uint32_t place, std::size_t l) const {
  if (is_loop_place(place, l)) {
    const Loop& inner = loops_[child_at(place)];
    return inner.masked && inner.exits.size() > 1;
  }
  const Block& b = cfg_.blocks[place];
  return b.end == Block::End::Branch && form_in(b.condition, place).kind > Form::Uniform;
}

bool OuterNest::is_divergent(uint32_t place, std::size_t l) const {
  const std::vector<uint32_t>& order = loops_[l].order;
  if (loops_[l].head == place)
    return std::any_of(order.begin(), order.end(), [&](uint32_t b) { return parts_lanes(b, l); });
  const uint32_t up = over(place, l);
  return std::any_of(order.begin(), order.end(),
                     [&](uint32_t b) { return shape_.dominates(up, b) && b != place && parts_lanes(b, l); });
}

void OuterNest::find_param_forms(uint32_t b) {
  const Block& block = cfg_.blocks[b];
  if (block.params.empty()) return;
  const std::size_t l = loop_of_[b];
  const bool is_head = loops_[l].head == b;
  std::size_t ways = 0;
  for (uint32_t p : shape_.before[b]) ways += p != loops_[l].front || !is_head;
  const bool divides = ways > 1 && is_divergent(b, l);
  for (std::size_t i = 0; i < block.params.size(); ++i) {
    std::set<Id> given;
    for (uint32_t p : shape_.before[b])
      for (int k = 0; k < cfg_.blocks[p].successors(); ++k) {
        if (cfg_.blocks[p].to[k].block != b) continue;
        const Id v = cfg_.blocks[p].to[k].args[i];
        if (p != loops_[l].front || !is_head) given.insert(v);
        meet(block.params[i], form_in(v, b));
      }
    if (divides && given.size() > 1) meet(block.params[i], {Form::Lanes});
  }
}

OuterNest::Form OuterNest::form_of(Id id, uint32_t b) const {
  const Node& n = cfg_.at(id);
  const auto of = [&](int i) { return form_in(n.args[i], b); };
  Form most{Form::Uniform};
  for (int i = 0; i < Node::kMostOperands; ++i) {
    if (n.args[i] == kNone) continue;
    const Form f = of(i);
    if (f.kind == Form::Unknown) return {};
    if (f.kind > most.kind) most = f;
  }
  if (n.op == Op::Load) return {most.kind == Form::Uniform && always(b, loop_of_[b]) ? Form::Uniform : Form::Lanes};
  if (most.kind != Form::Linear) return most;
  const bool is_left = of(0).kind == Form::Linear, is_right = of(1).kind == Form::Linear;
  switch (n.op) {
    case Op::Add:
    case Op::AddExact:
      if (is_left != is_right) return most;
      if (of(0).by == of(1).by && is_within(of(0).times, kFar) && is_within(of(1).times, kFar))
        return linear(of(0).times + of(1).times, of(0).by);
      return {Form::Lanes};
    case Op::Sub:
    case Op::SubExact:
      if (is_left && !is_right) return most;
      if (!is_left && is_within(most.times, kFar)) return linear(-most.times, most.by);
      if (is_left && of(0).by == of(1).by && is_within(of(0).times, kFar) && is_within(of(1).times, kFar))
        return linear(of(0).times - of(1).times, of(0).by);
      return {Form::Lanes};
    case Op::Mul: {
      if (is_left && is_right) return {Form::Lanes};
      const Id factor = n.args[is_left ? 1 : 0];
      if (const auto by = number(factor))
        return is_within(*by, kFar) && is_within(most.times, kFar) ? linear(most.times * *by, most.by)
                                                                   : Form{Form::Lanes};
      return most.by == kNone ? Form{Form::Linear, most.times, factor} : Form{Form::Lanes};
    }
    default: return {Form::Lanes};
  }
}

void OuterNest::find_mask(std::size_t l) {
  Loop& loop = loops_[l];
  if (loop.masked) return;
  const std::size_t up = loop.parent;
  bool masked = loops_[up].masked || loop.exits.size() != 1;
  if (!always(loop.head, up))
    for (uint32_t b : loops_[up].order) masked = masked || parts_lanes(b, up);
  for (const ExitEdge& e : loop.exits)
    masked = masked || !is_common_exit(e, l) || form_in(cfg_.blocks[e.block].condition, e.block).kind > Form::Uniform;
  if (!masked) return;
  loop.masked = true;
  changed_ = true;
}

void OuterNest::find_outs(std::size_t l) {
  std::set<Id> outs;
  const auto see = [&](Id v) {
    if (v != kNone && is_inside(v) && is_in(block_of_[v], l)) outs.insert(v);
  };
  for (uint32_t b : loops_[0].blocks) {
    if (is_in(b, l)) continue;
    for (Id id : cfg_.blocks[b].nodes)
      for (Id a : cfg_.at(id).args) see(a);
    see(cfg_.blocks[b].condition);
    for (int k = 0; k < cfg_.blocks[b].successors(); ++k)
      for (Id a : cfg_.blocks[b].to[k].args) see(a);
  }
  for (const ExitEdge& e : loops_[l].exits)
    if (!loops_[l].masked)
      for (Id a : args_of(e)) see(a);
  loops_[l].outs.assign(outs.begin(), outs.end());
}

std::optional<int64_t> OuterNest::stride_of(const Node& n, uint32_t b) const {
  const auto times = [&](Id v) -> std::optional<int64_t> {
    const Form f = form_in(v, b);
    if (f.kind == Form::Uniform) return 0;
    if (f.kind != Form::Linear || f.by != kNone || !is_within(f.times, kFar)) return std::nullopt;
    return f.times;
  };
  const auto base = times(n.args[0]), index = times(n.args[1]);
  if (!base || !index) return std::nullopt;
  return *base + *index * n.scale;
}

bool OuterNest::is_innermost(std::size_t l) const {
  return l != 0 && std::none_of(loops_.begin() + 1, loops_.end(), [&](const Loop& o) { return o.parent == l; });
}

bool OuterNest::can_be_done(Id id, uint32_t b) {
  const Node& n = cfg_.at(id);
  const Form f = form(id);
  const bool divides = n.op == Op::FloorDiv || n.op == Op::FloorMod;
  const auto is_lanes = [&](int i) { return n.args[i] != kNone && form_in(n.args[i], b).kind > Form::Uniform; };
  if (!is_wide() && n.type == Type::F32 && f.kind == Form::Lanes) return false;
  switch (n.op) {
    case Op::Load:
    case Op::Store: {
      if (n.op == Op::Load && f.kind == Form::Uniform) return accesses_.emplace_back(id, b), true;
      if (n.op == Op::Store && !is_lanes(0) && !is_lanes(1)) return false;
      const int size = size_of(n.mem);
      const std::optional<int64_t> stride = stride_of(n, b);
      accesses_.emplace_back(id, b);
      const bool is_masked = loops_[loop_of_[b]].masked || !always(b, loop_of_[b]);
      if (stride == size || stride == -size) {
        masks_ = masks_ && (is_wide() || size == 8);
        return is_wide() || size == 8 || (!is_masked && n.mem != Mem::F32);
      }
      ++gathers_[loop_of_[b]];
      return n.op == Op::Store || n.mem == Mem::F64 || n.mem == Mem::I64;
    }
    case Op::Check:
    case Op::Poll:
    case Op::CheckFinite: return n.op != Op::Check || is_wide() || !compares_f32(n.args[0]);
    case Op::AddExact:
    case Op::SubExact: return true;
    case Op::MulExact: return f.kind == Form::Uniform || is_wide();
    case Op::Update:
    case Op::CallReads:
    case Op::Waits: return false;
    default: break;
  }
  // One of numbers by 0 stops the process, so it is done only if lanes do it.
  if (divides) return f.kind == Form::Uniform ? divides_by_natural(n) || always(b, loop_of_[b]) : is_wide();
  if (n.lanes > 1 || info(n.op).effect != Effect::Pure) return false;
  if (f.kind != Form::Lanes) return true;
  if (n.op == Op::Below) return true;
  if (!is_wide() && is_comparison(n.op) && cfg_.at(n.args[0]).type == Type::F32) return false;
  return can_be_lanes(cfg_, n, is_wide());
}

bool OuterNest::pays() {
  for (std::size_t l = 1; l < loops_.size(); ++l) {
    if (!is_innermost(l)) continue;
    for (const auto& [id, b] : find_hoisted(l))
      if (cfg_.at(id).op == Op::Load) {
        --gathers_[l];
        ++gathers_[loops_[l].parent];
      }
    const int gathers = gathers_[l];
    if (always_pays) continue;
    if (gathers > kMostGathers) return false;
    bool waits = loops_[l].masked;
    for (Id p : cfg_.blocks[loops_[l].head].params)
      waits = waits || (form(p).kind == Form::Lanes && (cfg_.at(p).type != Type::I64 || gathers == 0));
    if (!waits) return false;
  }
  return true;
}

std::pair<int, int> OuterNest::gathers() const {
  int inner = 0, all = 0;
  for (const auto& [loop, count] : gathers_) {
    all += count;
    if (is_innermost(loop)) inner += count;
  }
  return {inner, all};
}

std::optional<std::vector<std::pair<Id, Id>>> OuterNest::must_be_apart(bool is_outer) const {
  std::vector<std::pair<Id, Id>> out;
  for (std::size_t l = 1; l < loops_.size(); ++l) {
    if (!is_innermost(l)) continue;
    for (const auto& [load, b] : find_hoisted(l))
      for (const auto& [store, where] : accesses_)
        if (cfg_.at(load).op == Op::Load && cfg_.at(store).op == Op::Store && is_in(where, l))
          out.emplace_back(store, load);
  }
  if (is_outer) return out;
  for (const auto& [store, where] : accesses_) {
    const Node& a = cfg_.at(store);
    if (a.op != Op::Store) continue;
    const std::optional<int64_t> stride = stride_of(a, where);
    const bool steps = stride && (*stride >= size_of(a.mem) || -*stride >= size_of(a.mem));
    // Lanes take turns in each round of a loop in theirs, so one may store at a place before another one that comes
    // first.
    if (!steps || !is_fixed_in_round(a.args[0], where) || !is_fixed_in_round(a.args[1], where)) return std::nullopt;
    for (const auto& [other, place] : accesses_) {
      const Node& b = cfg_.at(other);
      const bool same = a.args[0] == b.args[0] && a.args[1] == b.args[1] && a.scale == b.scale && a.imm == b.imm &&
                        size_of(a.mem) == size_of(b.mem);
      if (!same) out.emplace_back(store, other);
    }
  }
  return out;
}

bool OuterNest::is_fixed(Id v, std::size_t l) const {
  if (v == kNone || !is_inside(v) || !is_in(block_of_[v], l)) return true;
  const Node& n = cfg_.at(v);
  const bool divides = n.op == Op::FloorDiv || n.op == Op::FloorMod;  // where its numbers have been checked
  if (cfg_.is_param[v] || info(n.op).effect != Effect::Pure || divides) return false;
  return std::all_of(std::begin(n.args), std::end(n.args), [&](Id a) { return is_fixed(a, l); });
}

bool OuterNest::is_fixed_in_round(Id v, uint32_t b) const {
  for (std::size_t l = loop_of_[b]; l != 0; l = loops_[l].parent)
    if (!is_fixed(v, l)) return false;
  return true;
}

bool OuterNest::depends_on(Id v, Id on) const {
  if (v == on) return true;
  if (v == kNone || !is_inside(v) || cfg_.is_param[v]) return false;
  const Node& n = cfg_.at(v);
  return std::any_of(std::begin(n.args), std::end(n.args), [&](Id a) { return depends_on(a, on); });
}

std::vector<std::pair<Id, uint32_t>> OuterNest::find_hoisted(std::size_t l) const {
  std::vector<std::pair<Id, uint32_t>> out;
  std::vector<Id> indices;
  for (uint32_t b : loops_[l].order) {
    if (is_loop_place(b, l) || !always(b, l)) continue;
    for (Id id : cfg_.blocks[b].nodes) {
      const Node& n = cfg_.at(id);
      if (n.op == Op::Check && is_fixed(n.args[0], l)) {
        out.emplace_back(id, b);
        const Node& c = cfg_.at(n.args[0]);
        if (!cfg_.is_param[n.args[0]] && c.op == Op::Below && is_inside(c.args[0])) indices.push_back(c.args[0]);
        continue;
      }
      if (n.op != Op::Load || form(id).kind != Form::Lanes || !is_fixed(n.args[0], l) || !is_fixed(n.args[1], l))
        continue;
      const std::optional<int64_t> stride = stride_of(n, b);
      const int64_t size = size_of(n.mem);
      const bool is_checked = std::any_of(indices.begin(), indices.end(), [&](Id index) {
        return depends_on(n.args[0], index) || depends_on(n.args[1], index);
      });
      if (stride != size && stride != -size && is_checked) out.emplace_back(id, b);
    }
  }
  while (!out.empty() && cfg_.at(out.back().first).op == Op::Check) out.pop_back();
  return out;
}

OuterNest::Form OuterNest::joined(const Form& a, const Form& b) {
  if (a.kind == Form::Unknown) return b;
  if (b.kind == Form::Unknown || a == b) return a;
  return {Form::Lanes};
}

void OuterNest::meet(Id v, const Form& with) {
  const Form now = joined(forms_[v], with);
  if (now == forms_[v]) return;
  forms_[v] = now;
  changed_ = true;
}

bool OuterNest::compares_f32(Id v) const {
  return !cfg_.is_param[v] && is_comparison(cfg_.at(v).op) && cfg_.at(cfg_.at(v).args[0]).type == Type::F32;
}

}  // namespace framejit::cfg
