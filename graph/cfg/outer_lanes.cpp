#include "graph/cfg/outer_lanes.h"

#include <algorithm>
#include <optional>

#include "graph/cfg/edit.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

Id OuterLanes::add(Node n) {
  const Id id = cfg_.add(n);
  cfg_.blocks[at_].nodes.push_back(id);
  return id;
}

Node OuterLanes::node_of(Op op, Type type, Id a, Id b, Id c, int lanes) const {
  Node n;
  n.op = op;
  n.type = type;
  n.lanes = static_cast<uint8_t>(lanes);
  n.args[0] = a;
  n.args[1] = b;
  n.args[2] = c;
  return n;
}

Id OuterLanes::constant(int64_t value) {
  Node n = node_of(Op::Const, Type::I64);
  n.imm = value;
  return add(n);
}

Id OuterLanes::scalar(Id v) {
  if (v == kNone || !is_inside(v)) return v;
  if (const auto at = scalars_.find(v); at != scalars_.end()) return at->second;
  return scalars_[v] = fresh_scalar(v);
}

Id OuterLanes::fresh_scalar(Id v) {
  Node n = cfg_.at(v);
  for (Id& a : n.args) a = scalar(a);
  return add(n);
}

Id OuterLanes::step_of(const Form& f) {
  return f.by == kNone ? constant(f.times) : make(Op::Mul, scalar(f.by), constant(f.times));
}

Id OuterLanes::ramp(Id step) { return add(node_of(Op::Ramp, Type::I64, constant(0), step, kNone, lanes_)); }

Id OuterLanes::vector(Id v) {
  if (v == kNone) return kNone;
  if (const auto at = vectors_.find(v); at != vectors_.end()) return at->second;
  Id out;
  if (const Form f = form(v); f.kind == Form::Uniform) out = splat(scalar(v));
  else if (f.kind == Form::Linear) out = in_lanes(Op::Add, Type::I64, splat(scalar(v)), ramp(step_of(f)));
  else out = made_of_lanes(cfg_.at(v));
  return vectors_[v] = out;
}

Id OuterLanes::made_of_lanes(Node n) {
  if (n.op == Op::Below && !is_wide()) {
    // Compared as signed numbers, with the other sign.
    const Id sign = splat_of(INT64_MIN);
    const Id a = in_lanes(Op::Xor, Type::I64, vector(n.args[0]), sign);
    const Id b = in_lanes(Op::Xor, Type::I64, vector(n.args[1]), sign);
    return in_lanes(Op::Lt, Type::I64, a, b);
  }
  n.lanes = static_cast<uint8_t>(lanes_);
  for (Id& a : n.args) a = vector(a);
  return add(n);
}

Id OuterLanes::reversed(Id v) {
  const bool compares = !cfg_.is_param[v] && is_comparison(cfg_.at(v).op);
  if (compares) v = in_lanes(Op::Select, Type::I64, v, splat_of(1), splat_of(0));
  return in_lanes(Op::Reverse, cfg_.at(v).type, v);
}

Id OuterLanes::opposite(Id c) {
  const Node n = cfg_.at(c);
  const bool of_integers = !cfg_.is_param[c] && is_comparison(n.op) && cfg_.at(n.args[0]).type == Type::I64;
  if (of_integers && n.op == Op::Lt) return in_lanes(Op::Le, Type::I64, n.args[1], n.args[0]);
  if (of_integers && n.op == Op::Le) return in_lanes(Op::Lt, Type::I64, n.args[1], n.args[0]);
  if (!cfg_.is_param[c] && n.op == Op::Eq) return in_lanes(Op::Ne, Type::I64, n.args[0], n.args[1]);
  if (!cfg_.is_param[c] && n.op == Op::Ne) return in_lanes(Op::Eq, Type::I64, n.args[0], n.args[1]);
  return in_lanes(Op::Eq, Type::I64, c, splat_of(0));
}

Id OuterLanes::choice(Id c, Id yes, Id no) {
  const Node& n = cfg_.at(c);
  if (!cfg_.is_param[c] && n.op == Op::Eq && cfg_.at(n.args[0]).type == Type::I64)
    if (const Node& zero = cfg_.at(n.args[1]);
        !cfg_.is_param[n.args[1]] && zero.op == Op::Splat && number(zero.args[0]) == 0) {
      const Id opposite = n.args[0];
      return in_lanes(Op::Select, cfg_.at(yes).type, opposite, no, yes);
    }
  return in_lanes(Op::Select, cfg_.at(yes).type, c, yes, no);
}

Id OuterLanes::truth(Id c) {
  if (!cfg_.is_param[c] && (is_comparison(cfg_.at(c).op) || combines_conditions(cfg_, c))) return c;
  return in_lanes(Op::Ne, Type::I64, c, splat_of(0));
}

Id OuterLanes::both(Id a, Id b) {
  if (a == kNone) return b;
  return b == kNone || a == b ? a : in_lanes(Op::And, Type::I64, truth(a), truth(b));
}

OuterLanes::Condition OuterLanes::both(const Condition& a, const Condition& b) {
  Condition out;
  out.scalar = a.scalar == kNone ? b.scalar
               : b.scalar == kNone || a.scalar == b.scalar
                   ? a.scalar
                   : make(Op::And, make(Op::Ne, a.scalar, constant(0)), make(Op::Ne, b.scalar, constant(0)));
  out.lanes = both(a.lanes, b.lanes);
  return out;
}

Id OuterLanes::as_lanes(const Condition& c) {
  const Id of_all = c.scalar == kNone ? kNone : in_lanes(Op::Ne, Type::I64, splat(c.scalar), splat_of(0));
  return both(of_all, c.lanes);
}

OuterLanes::Condition OuterLanes::either(const Condition& a, const Condition& b) {
  if (a.is_true() || b.is_true()) return {};
  if (a.lanes == kNone && b.lanes == kNone)
    return {make(Op::Or, make(Op::Ne, a.scalar, constant(0)), make(Op::Ne, b.scalar, constant(0))), kNone};
  return {kNone, in_lanes(Op::Or, Type::I64, truth(as_lanes(a)), truth(as_lanes(b)))};
}

OuterLanes::Condition OuterLanes::last(const ExitEdge& e, std::size_t l) {
  if (loop_of_[e.block] != l) {
    const auto at = left_.find({e.block, e.which});
    return at == left_.end() ? Condition{} : Condition{kNone, at->second};
  }
  const Block& b = cfg_.blocks[e.block];
  if (b.end != Block::End::Branch || leads_out(e.block, 1 - e.which)) return {};
  if (is_common(e.block, 1 - e.which, l)) return {};
  if (form(b.condition).kind == Form::Uniform) {
    const Id c = scalar(b.condition);
    return {e.which == 0 ? c : make(Op::Eq, c, constant(0)), kNone};
  }
  const Id c = vector(b.condition);
  return {kNone, e.which == 0 ? c : opposite(c)};
}

bool OuterLanes::is_common(uint32_t b, int k, std::size_t l) const {
  return !is_in(cfg_.blocks[b].to[k].block, l) && is_member(cfg_.blocks[b].to[k].block) && is_common_exit({b, k}, l);
}

OuterLanes::Condition OuterLanes::along(const ExitEdge& e, std::size_t l, uint32_t up) {
  return both(relative(place_of(e.block, l), l, up), last(e, l));
}

OuterLanes::Condition OuterLanes::relative(uint32_t place, std::size_t l, uint32_t up) {
  if (place == up) return {};
  const uint32_t above = over(place, l);
  const Loop& loop = loops_[l];
  if ((loop.behind[loop.place.at(above)] >> loop.place.at(place) & 1) != 0) return relative(above, l, up);
  std::optional<Condition> any;
  for (const ExitEdge& e : edges_to(place, l)) {
    const Condition one = along(e, l, up);
    any = any ? either(*any, one) : one;
  }
  return *any;
}

OuterLanes::Condition OuterLanes::condition_of(uint32_t place, std::size_t l) {
  return both({kNone, active_}, relative(place, l, loops_[l].head));
}

void OuterLanes::check(Id condition, uint32_t exit) {
  Node n = node_of(Op::Check, Type::None, condition);
  n.exit = exit;
  add(n);
}

void OuterLanes::check_lanes(Id holds, const Condition& where, uint32_t exit) {
  if (const Id in = as_lanes(where); in != kNone) holds = choice(in, truth(holds), splat_of(1));
  check(add(node_of(Op::AllOf, Type::I64, holds)), exit);
}

void OuterLanes::emit_check(const Node& n, const Condition& where) {
  if (form(n.args[0]).kind == Form::Uniform && where.scalar == kNone && where.lanes == active_)
    return check(scalar(n.args[0]), n.exit);
  const Node& c = cfg_.at(n.args[0]);
  if (where.is_true() && !cfg_.is_param[n.args[0]] && is_inside(n.args[0]) && c.op == Op::Below &&
      form(c.args[0]).kind == Form::Linear && form(c.args[0]).by == kNone && is_within(form(c.args[0]).times, kFar) &&
      form(c.args[1]).kind == Form::Uniform) {
    // If the first and the last lane are below a length, so are those between.
    const Id first = scalar(c.args[0]), length = scalar(c.args[1]);
    check(make(Op::Below, first, length), n.exit);
    const Id last = make(Op::Add, first, constant(form(c.args[0]).times * (lanes_ - 1)));
    return check(make(Op::Below, last, length), n.exit);
  }
  check_lanes(vector(n.args[0]), where, n.exit);
}

Id OuterLanes::is_near_0(Id v, int64_t most) {
  return both(in_lanes(Op::Le, Type::I64, splat_of(-most), v), in_lanes(Op::Le, Type::I64, v, splat_of(most)));
}

void OuterLanes::check_operand(Id v, const Condition& where) {
  constexpr int64_t kMost = int64_t{1} << 52;
  const std::optional<Interval> known = interval(cfg_, v);
  if (known && known->low >= -kMost && known->high <= kMost) return;
  if (form(v).kind == Form::Uniform && where.scalar == kNone && where.lanes == active_)
    check(make(Op::Below, make(Op::Add, scalar(v), constant(kMost)), constant(2 * kMost + 1)), exit_);
  else check_lanes(is_near_0(vector(v), kMost), where, exit_);
}

void OuterLanes::emit_division(Id id, const Condition& where) {
  const Node n = cfg_.at(id);
  const Id a = vector(n.args[0]), b = vector(n.args[1]);
  for (const Id operand : {n.args[0], n.args[1]})
    if (!hoisted_operands_.count({id, operand})) check_operand(operand, where);
  const auto as_float = [&](Id v) { return in_lanes(Op::ToF64, Type::F64, v); };
  const Id rounded = in_lanes(Op::Floor, Type::F64, in_lanes(Op::Div, Type::F64, as_float(a), as_float(b)));
  const Id quotient = in_lanes(Op::ToI64, Type::I64, rounded);
  const Id rest = in_lanes(Op::Sub, Type::I64, a, in_lanes(Op::Mul, Type::I64, quotient, b));
  // The rest has the sign of the divisor.
  Id too_large = in_lanes(Op::Lt, Type::I64, rest, splat_of(0));
  if (!divides_by_natural(n)) {
    const Id differs = in_lanes(Op::Lt, Type::I64, in_lanes(Op::Xor, Type::I64, rest, b), splat_of(0));
    too_large = both(differs, in_lanes(Op::Ne, Type::I64, rest, splat_of(0)));
  }
  const Id out = n.op == Op::FloorDiv ? quotient : rest;
  const Id less = in_lanes(Op::Add, Type::I64, out, n.op == Op::FloorDiv ? splat_of(-1) : b);
  vectors_[id] = choice(too_large, less, out);
}

void OuterLanes::emit_exact(Id id, const Condition& where) {
  const Node n = cfg_.at(id);
  const Form f = form(id);
  const bool alone = where.scalar == kNone && where.lanes == active_;
  if (f.kind == Form::Uniform && alone) {
    scalars_[id] = fresh_scalar(id);
    return;
  }
  const Op plain = n.op == Op::AddExact ? Op::Add : n.op == Op::SubExact ? Op::Sub : Op::Mul;
  Node made = n;
  made.op = plain;
  made.exit = kNone;
  if (f.kind != Form::Lanes) {
    for (Id& a : made.args) a = scalar(a);
    scalars_[id] = add(made);
  } else {
    vectors_[id] = made_of_lanes(made);
  }
  const Id a = vector(n.args[0]), b = vector(n.args[1]);
  if (plain == Op::Mul && !number(n.args[0]) && !number(n.args[1]))
    return check_lanes(both(is_near_0(a, int64_t{1} << 31), is_near_0(b, int64_t{1} << 31)), where, n.exit);
  if (plain == Op::Mul) {
    const bool second = number(n.args[1]).has_value();
    const int64_t by = *number(n.args[second ? 1 : 0]);
    if (by == 0) return;
    const int64_t most = by == INT64_MIN ? 0 : INT64_MAX / (by < 0 ? -by : by);
    return check_lanes(is_near_0(second ? a : b, most), where, n.exit);
  }
  const Id sum = vector(id);
  const Id x = in_lanes(Op::Xor, Type::I64, a, plain == Op::Add ? sum : b);
  const Id y = in_lanes(Op::Xor, Type::I64, plain == Op::Add ? b : a, sum);
  const Id word = in_lanes(Op::And, Type::I64, x, y);
  check_lanes(in_lanes(Op::Le, Type::I64, splat_of(0), word), where, n.exit);
}

void OuterLanes::set_address(Node& n, const Node& of) {
  const Form base = form(of.args[0]), index = of.args[1] == kNone ? Form{Form::Uniform} : form(of.args[1]);
  if (base.kind == Form::Uniform && index.kind == Form::Lanes) {
    n.args[0] = scalar(of.args[0]);
    n.args[1] = vector(of.args[1]);
    return;
  }
  n.scale = 1;
  if (base.kind == Form::Lanes || index.kind == Form::Lanes) {
    Id at = vector(of.args[0]);
    if (of.args[1] != kNone) {
      const int shift = of.scale == 8 ? 3 : of.scale == 4 ? 2 : of.scale == 2 ? 1 : 0;
      const Id scaled =
          shift == 0 ? vector(of.args[1]) : in_lanes(Op::Shl, Type::I64, vector(of.args[1]), splat_of(shift));
      at = in_lanes(Op::Add, Type::I64, at, scaled);
    }
    n.args[0] = constant(0);
    n.args[1] = at;
    return;
  }
  n.args[0] = scalar(of.args[0]);
  if (of.args[1] != kNone) {
    const Id scaled = of.scale == 1 ? scalar(of.args[1]) : make(Op::Mul, scalar(of.args[1]), constant(of.scale));
    n.args[0] = make(Op::Add, n.args[0], scaled);
  }
  Id step = base.kind == Form::Linear ? step_of(base) : kNone;
  if (index.kind == Form::Linear) {
    const Id more = step_of({Form::Linear, index.times * of.scale, index.by});
    step = step == kNone ? more : make(Op::Add, step, more);
  }
  n.args[1] = ramp(step == kNone ? constant(0) : step);
}

void OuterLanes::emit_access(Id id, uint32_t b, const Condition& where) {
  const Node of = cfg_.at(id);
  Node n = of;
  if (of.op == Op::Load && form(id).kind == Form::Uniform) {
    scalars_[id] = fresh_scalar(id);
    return;
  }
  n.lanes = static_cast<uint8_t>(lanes_);
  n.where = as_lanes(where);
  if (of.op == Op::Store) n.args[2] = vector(of.args[2]);
  const std::optional<int64_t> stride = stride_of(of, b);
  const int64_t size = size_of(of.mem);
  const bool is_reversed = stride == -size;
  if (stride == size || is_reversed) {
    n.args[0] = scalar(of.args[0]);
    n.args[1] = scalar(of.args[1]);
  } else {
    set_address(n, of);
  }
  if (is_reversed) {
    // The last lane stands first.
    n.imm -= (lanes_ - 1) * size;
    if (n.where != kNone) n.where = reversed(n.where);
    if (of.op == Op::Store) n.args[2] = reversed(n.args[2]);
  }
  const Id made = add(n);
  if (of.op == Op::Load) vectors_[id] = is_reversed ? reversed(made) : made;
}

void OuterLanes::emit_nodes(uint32_t b, std::size_t l) {
  std::optional<Condition> where;
  const auto condition = [&] {
    if (!where) where = condition_of(b, l);
    return *where;
  };
  for (const Id id : std::vector<Id>(cfg_.blocks[b].nodes)) {
    if (hoisted_.count(id)) continue;
    const Node n = cfg_.at(id);
    switch (n.op) {
      case Op::Load:
      case Op::Store: emit_access(id, b, condition()); break;
      case Op::Check: emit_check(n, condition()); break;
      case Op::CheckFinite: {
        const Condition in = condition();
        if (form(n.args[0]).kind == Form::Uniform && in.scalar == kNone && in.lanes == active_) {
          Node made = n;
          made.args[0] = scalar(n.args[0]);
          add(made);
          break;
        }
        Id v = vector(n.args[0]);
        if (const Id lanes = as_lanes(in); lanes != kNone) {
          const Node zero = node_of(Op::Const, cfg_.at(n.args[0]).type);
          v = choice(lanes, v, splat(add(zero)));
        }
        check(add(node_of(Op::Finite, Type::I64, v)), n.exit);
        break;
      }
      case Op::AddExact:
      case Op::SubExact:
      case Op::MulExact: emit_exact(id, condition()); break;
      case Op::FloorDiv:
      case Op::FloorMod:
        if (form(id).kind != Form::Uniform) emit_division(id, condition());
        else if (!divides_by_natural(n)) scalars_[id] = fresh_scalar(id);
        break;
      case Op::Poll:
        if (cfg_.blocks[at_].nodes.empty() || cfg_.at(cfg_.blocks[at_].nodes.back()).op != Op::Poll) add(n);
        break;
      default: break;  // where it is used
    }
  }
  // Ways that fail.
  const Block& block = cfg_.blocks[b];
  for (int k = 0; block.end == Block::End::Branch && b != head_ && k < 2; ++k) {
    if (!leads_out(b, k)) continue;
    const uint32_t exit = cfg_.blocks[block.to[k].block].exit;
    const Condition in = condition();
    if (form(block.condition).kind == Form::Uniform && in.scalar == kNone && in.lanes == active_) {
      const Id c = scalar(block.condition);
      check(k == 0 ? make(Op::Eq, c, constant(0)) : make(Op::Ne, c, constant(0)), exit);
    } else {
      const Id c = vector(block.condition);
      check_lanes(k == 0 ? opposite(c) : truth(c), in, exit);
    }
  }
}

void OuterLanes::emit_hoisted(std::size_t l, const Condition& where) {
  for (const auto& [id, b] : find_hoisted(l)) {
    const Node n = cfg_.at(id);
    if (n.op == Op::Check) emit_check(n, where);
    else emit_access(id, b, where);
    hoisted_.insert(id);
  }
  for (uint32_t b : loops_[l].order) {
    if (is_loop_place(b, l)) continue;
    for (const Id id : std::vector<Id>(cfg_.blocks[b].nodes)) {
      const Node n = cfg_.at(id);
      if ((n.op != Op::FloorDiv && n.op != Op::FloorMod) || form(id).kind == Form::Uniform) continue;
      for (const Id operand : {n.args[0], n.args[1]})
        if (is_fixed(operand, l) && hoisted_operands_.insert({id, operand}).second) check_operand(operand, where);
    }
  }
}

}  // namespace framejit::cfg
