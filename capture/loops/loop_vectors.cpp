// Whole vectors in a compiled loop: an operator on vectors waits until its result is stored, and is then done element
// by element in a loop of its own.
//
// Such a vector (Kind::Vector) is a tree of its operands. Only the stack holds it, and while there is one, nothing is
// stored in an array. Whatever takes it from the stack computes it. All of a result is computed before any of it is
// stored, because the vectors may overlap, and because no check may follow a store. It is kept in memory that all
// compiled loops share (LoopProgram::kScratch). A long result is stored at once, if the interpreter can do the
// statement again and nobody sees that it was done in part (may_store_at_once()).
//
// An array that the loop makes (Typed::kTemporary) is a place in that memory, and becomes an object at an exit only. A
// new one takes no place that the state, the checkpoint or the instruction itself holds (temporary()): each number has
// two places, and the address changes from one to the other.
#include <algorithm>
#include <array>
#include <functional>

#include "capture/loops/loop_instructions.h"
#include "graph/support/check.h"

namespace framejit::capture {

using graph::DType;
using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

/// Longer vectors are left to the regions, which do several operators at once on threads.
constexpr int64_t kLong = 4096;
constexpr int64_t kSeveralAtOnce = 32;
static_assert(kLong <= LoopProgram::kResultLength);

bool is_vector(const Typed& v) {
  return v.dtype == DType::F64 && ((v.kind == Kind::View && v.ids.size() == 3) || v.kind == Kind::Vector);
}

bool is_longer(const Typed& v, int64_t most) {
  return std::any_of(v.seen.begin(), v.seen.end(), [most](int64_t length) { return length > most; });
}

/// An operand: a vector of float64, or a number; nothing for anything else.
std::optional<Typed> operand_of(LoopTranslator& t, const Typed& v) { return v.is_number() ? v : as_vector(t, v); }

bool is_two(LoopTranslator& t, const Typed& v) {
  if (v.kind == Kind::Int) return t.cfg.is_const(v.ids[0]) && t.cfg.at(v.ids[0]).imm == 2;
  return v.kind == Kind::Float && v.ids[0] == t.number(2.0);
}

/// The place of an element.
cfg::Node place(LoopTranslator& t, const Typed& view, cfg::Id at, Op op) {
  cfg::Node n;
  n.op = op;
  n.mem = cfg::Mem::F64;
  n.args[0] = view.ids[0];
  const cfg::Id stride = view.ids[2];
  if (t.cfg.is_const(stride) && t.cfg.at(stride).imm == sizeof(double)) {
    n.args[1] = at;
    n.scale = sizeof(double);
  } else if (t.cfg.is_const(stride) && t.cfg.at(stride).imm == -static_cast<int64_t>(sizeof(double))) {
    n.args[1] = t.op(Op::Sub, Type::I64, t.integer(0), at);
    n.scale = sizeof(double);
  } else {
    n.args[0] = t.op(Op::Add, Type::I64, n.args[0], t.op(Op::Mul, Type::I64, at, stride));
  }
  return n;
}

Typed element(LoopTranslator& t, const Typed& v, cfg::Id at) {
  if (v.kind == Kind::View) {
    cfg::Node n = place(t, v, at, Op::Load);
    n.type = Type::F64;
    return of_scalar(t.add(n), DType::F64);
  }
  if (v.kind != Kind::Vector) return v;
  if (v.op == kFill) return of_scalar(as_f64(t, v.items[0]), DType::F64);
  if (v.op == kGather) return get_item(t, v.items[0], get_item(t, v.items[1], of_int(at, true)));
  const Typed first = element(t, v.items[0], at);
  switch (v.op) {
    case kSame: return first;
    case kNegative: return unary(t, Opcode::UnaryNegative, first);
    case kPower: return binary(t, kMul, first, first);
    case kApply: {
      std::vector<Typed> operands{first};
      for (std::size_t k = 1; k + 1 < v.items.size(); ++k) operands.push_back(element(t, v.items[k], at));
      const std::optional<Typed> made = call_numpy(t, v.items.back().value->object.get(), operands);
      FRAMEJIT_CHECK(made, "a function of vectors that is none of numbers");
      return *made;
    }
    default: return binary(t, v.op, first, element(t, v.items[1], at));
  }
}

/// Adds a loop that does `body` for each index of a vector. The nodes that follow are behind the loop.
template <class F>
void for_each_index(LoopTranslator& t, const Typed& like, F&& body) {
  const cfg::Id length = length_of(like);
  t.flush_pending();
  t.program->has_long_vectors = t.program->has_long_vectors || is_longer(like, kSeveralAtOnce);
  const uint32_t level = t.cfg.blocks[t.block].level;
  const auto block = [&] { return t.new_block(level + 1); };
  const uint32_t head = block(), round = block(), behind = block();
  t.cfg.blocks[behind].level = level;
  t.cfg.blocks[head].begins_round = true;
  const auto jump = [&](cfg::Id index, cfg::Id left) {
    cfg::Block& from = t.cfg.blocks[t.block];
    from.end = cfg::Block::End::Jump;
    from.to[0] = {head, {index, left}};
  };
  jump(t.integer(0), length);
  const cfg::Id index = t.cfg.add_param(head, Type::I64), left = t.cfg.add_param(head, Type::I64);
  t.block = head;
  const cfg::Id goes_on = t.op(Op::Ne, Type::I64, left, t.integer(0));
  cfg::Block& from = t.cfg.blocks[head];
  from.end = cfg::Block::End::Branch;
  from.condition = goes_on;
  from.to[0] = {round, {}};
  from.to[1] = {behind, {}};
  t.block = round;
  body(index);
  t.flush_pending();
  jump(t.op(Op::Add, Type::I64, index, t.integer(1)), t.op(Op::Sub, Type::I64, left, t.integer(1)));
  t.block = behind;
}

/// All elements, at an address where there is room for so many.
Typed computed(LoopTranslator& t, const Typed& v, cfg::Id address, int64_t room) {
  const cfg::Id length = length_of(v);
  t.check(t.op(Op::Le, Type::I64, length, t.integer(room)));
  Typed out;
  out.kind = Kind::View;
  out.dtype = DType::F64;
  out.ids = {address, length, t.integer(sizeof(double))};
  out.seen = v.seen;
  const auto store = [&](cfg::Id at, cfg::Id value) {
    cfg::Node n = place(t, out, at, Op::Store);
    t.flush_pending();
    n.args[2] = value;
    t.add(n);
  };
  if (v.op == kListed) {
    for (std::size_t k = 0; k < v.items.size(); ++k)
      store(t.integer(static_cast<int64_t>(k)), t.settled(as_f64(t, v.items[k])));
    return out;
  }
  for_each_index(t, v, [&](cfg::Id at) {
    const Typed made = element(t, v, at);
    store(at, made.ids[0]);
  });
  return out;
}

void check_same_place(LoopTranslator& t, const Typed& a, const Typed& b) {
  for (std::size_t k = 0; k < a.ids.size(); ++k) t.check(t.op(Op::Eq, Type::I64, a.ids[k], b.ids[k]));
}

/// The first byte of a vector and the one behind the last.
std::pair<cfg::Id, cfg::Id> span_of(LoopTranslator& t, const Typed& v) {
  const cfg::Id first = v.ids[0], stride = v.ids[2], one = t.integer(1);
  const cfg::Id last =
      t.op(Op::Add, Type::I64, first, t.op(Op::Mul, Type::I64, t.op(Op::Sub, Type::I64, v.ids[1], one), stride));
  const cfg::Id down = t.op(Op::Lt, Type::I64, stride, t.integer(0));
  return {t.op(Op::Select, Type::I64, down, last, first),
          t.op(Op::Add, Type::I64, t.op(Op::Select, Type::I64, down, first, last), t.integer(sizeof(double)))};
}

/// NumPy copies one element after the other, also if the arrays overlap. With equal strides it takes care that this is
/// as if the source had been copied before.
void check_copied_as_a_whole(LoopTranslator& t, const Typed& target, const Typed& source) {
  const cfg::Id a = target.ids[2], b = source.ids[2];
  if (a == b) return;
  const auto [low, high] = span_of(t, target);
  const auto [first, behind] = span_of(t, source);
  cfg::Id apart = t.op(Op::Or, Type::I64, t.op(Op::Le, Type::I64, high, first), t.op(Op::Le, Type::I64, behind, low));
  t.check(t.op(Op::Or, Type::I64, apart, t.op(Op::Eq, Type::I64, a, b)));
}

/// Calls f for each array that an expression reads. False if there are others, or operators whose operands are no
/// vectors.
template <class F>
bool for_each_array(const Typed& v, F&& f) {
  if (v.kind == Kind::View) return f(v), true;
  if (v.kind != Kind::Vector) return v.is_number();
  if (v.op == kGather || v.op == kListed) return false;
  const std::size_t operands = v.items.size() - (v.op == kApply ? 1 : 0);
  return std::all_of(v.items.begin(), v.items.begin() + static_cast<std::ptrdiff_t>(operands),
                     [&](const Typed& item) { return for_each_array(item, f); });
}

/// Has anything been read from memory since the state that an exit would go back to?
bool has_read(const LoopTranslator& t) {
  const LoopCheckpoint* const c = t.state.checkpoint.get();
  if (!c || c->block != t.block) return true;
  const std::vector<cfg::Id>& nodes = t.cfg.blocks[t.block].nodes;
  return std::any_of(nodes.begin() + static_cast<std::ptrdiff_t>(c->nodes), nodes.end(), [&](cfg::Id id) {
    const cfg::Effect effect = cfg::info(t.cfg.at(id).op).effect;
    return effect != cfg::Effect::Pure && effect != cfg::Effect::Checks;
  });
}

/// May the elements of a result be stored while it is computed? If a check fails, the interpreter does the whole
/// statement again, so what that reads must be as it was: its operands and the target share no memory, and nothing else
/// has been read. kNone: never.
cfg::Id may_store_at_once(LoopTranslator& t, const Typed& target, const Typed& value) {
  if (!is_longer(target, kSeveralAtOnce) || target.ids[2] != t.integer(sizeof(double)) || has_read(t))
    return cfg::kNone;
  cfg::Node word;
  word.op = Op::Load;
  word.type = Type::I64;
  word.args[0] = scratch(t, 0);
  word.imm = LoopProgram::kAtOnceAt * static_cast<int64_t>(sizeof(double));
  cfg::Id may = t.int_at_entry(Op::Ne, t.at_entry(word), t.integer(0));
  const auto [low, high] = span_of(t, target);
  const bool only_arrays = for_each_array(value, [&, low = low, high = high](const Typed& read) {
    const auto [first, behind] = span_of(t, read);
    const cfg::Id apart =
        t.op(Op::Or, Type::I64, t.op(Op::Le, Type::I64, high, first), t.op(Op::Le, Type::I64, behind, low));
    may = t.op(Op::And, Type::I64, may, apart);
  });
  if (!only_arrays) return cfg::kNone;
  t.program->stores_at_once = true;
  return may;
}

}  // namespace

cfg::Id scratch(LoopTranslator& t, int64_t elements) {
  t.program->has_scratch = true;
  const cfg::Id memory = t.input(Op::Object, LoopProgram::kScratch);
  if (elements == 0) return memory;
  return t.op(Op::Add, Type::I64, memory, t.integer(elements * static_cast<int64_t>(sizeof(double))));
}

bool is_in_place(const Typed& v) { return v.kind == Kind::Vector && v.op >= kBinaryKinds; }

cfg::Id length_of(const Typed& v) { return v.ids[v.kind == Kind::View ? 1 : 0]; }

std::optional<Typed> as_vector(LoopTranslator& t, const Typed& v) {
  if (t.recursion.is_recursion) return std::nullopt;
  if (v.kind == Kind::Vector && v.op == kListed) return temporary(t, v);
  if (v.kind == Kind::Vector) return v.op < kBinaryKinds ? std::optional(v) : std::nullopt;
  const Typed* view = array_of(t, v);
  return view && is_vector(*view) ? std::optional(*view) : std::nullopt;
}

Typed vector_like(const Typed& like, int op, std::vector<Typed> operands) {
  Typed made;
  made.kind = Kind::Vector;
  made.dtype = DType::F64;
  made.op = op;
  made.ids = {length_of(like)};
  made.seen = like.kind == Kind::Int ? std::vector<int64_t>{0} : like.seen;  // a short one, as far as can be told
  made.items = std::move(operands);
  return made;
}

std::optional<Typed> vector_binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b) {
  const int kind = nb % kBinaryKinds;
  const bool in_place = nb >= kBinaryKinds;
  const std::optional<Typed> left = operand_of(t, a), right = operand_of(t, b);
  if (!left || !right || (!is_vector(*left) && !is_vector(*right))) return std::nullopt;
  if (kind != kAdd && kind != kSub && kind != kMul && kind != kTrueDiv && !(kind == kPower && is_two(t, *right)))
    return std::nullopt;
  if (in_place && left->kind == Kind::Vector) return std::nullopt;
  // A number in front of a vector in place becomes another object, and the operator is none in place.
  const bool changes = in_place && left->kind == Kind::View;
  if (changes) require_writeable(t, *left);
  t.makes_vectors = true;
  // An axis of length 1 may be stretched by the interpreter.
  if (is_vector(*left) && is_vector(*right)) t.check(t.op(Op::Eq, Type::I64, length_of(*left), length_of(*right)));
  return vector_like(is_vector(*left) ? *left : *right, changes ? nb : kind, {*left, *right});
}

std::optional<Typed> vector_negative(LoopTranslator& t, const Typed& v) {
  const std::optional<Typed> of = as_vector(t, v);
  return of ? std::optional(vector_like(*of, kNegative, {*of})) : std::nullopt;
}

namespace {

/// Calls f for each temporary that is in use, now or where the interpreter would go on.
template <class F>
void for_each_temporary(LoopTranslator& t, F&& f) {
  const std::function<void(const Typed&)> look = [&](const Typed& v) {
    if (v.kind == Kind::View && v.slot == Typed::kTemporary) f(v);
    for (const Typed& part : v.items) look(part);
  };
  const auto look_at = [&](const std::vector<Typed>& all) { std::for_each(all.begin(), all.end(), look); };
  for (const LoopFrame& frame : t.state.frames) {
    look_at(frame.locals);
    look_at(frame.stack);
  }
  look_at(t.in_hand);
  if (!t.state.checkpoint) return;
  look_at(t.state.checkpoint->locals);
  look_at(t.state.checkpoint->stack);
}

}  // namespace

RoomForArray room_for_array(LoopTranslator& t) {
  // A number has two places. It can be used if at most one of them is taken.
  std::array<std::vector<cfg::Id>, LoopProgram::kTemporaries> used;  // addresses; kNone: somewhere
  const auto note = [&](const Typed& array) {
    std::vector<cfg::Id>& at = used[array.array];
    const cfg::Id address = array.whole ? array.ids[0] : cfg::kNone;
    if (std::find(at.begin(), at.end(), address) == at.end()) at.push_back(address);
  };
  for_each_temporary(t, note);
  // An instruction has one number as far as that can be, so that the next round has the same variables.
  const auto usual =
      t.objects.temporaries.emplace(std::pair(t.frame().view.get(), t.frame().pc), t.objects.temporaries.size());
  std::size_t number = usual.first->second % used.size(), tried = 0;
  const auto is_free = [](const std::vector<cfg::Id>& at) {
    return at.empty() || (at.size() == 1 && at[0] != cfg::kNone);
  };
  for (; tried < used.size() && !is_free(used[number]); ++tried) number = (number + 1) % used.size();
  if (tried == used.size()) throw NotCompiled{"a new array beside many others", true};
  constexpr int64_t kOther = LoopProgram::kResultAt / 2 * sizeof(double);
  const cfg::Id address = used[number].empty()
                              ? scratch(t, static_cast<int64_t>(number) * LoopProgram::kTemporaryLength)
                              : t.op(Op::Xor, Type::I64, used[number][0], t.integer(kOther));
  return {static_cast<uint32_t>(number), address};
}

Typed temporary(LoopTranslator& t, const Typed& v) {
  if (is_in_place(v)) throw NotCompiled{"an array that changes in an expression", true};
  if (is_longer(v, LoopProgram::kTemporaryLength)) throw NotCompiled{"a new array", true};
  const RoomForArray room = room_for_array(t);
  Typed out = computed(t, v, room.address, LoopProgram::kTemporaryLength);
  out.slot = Typed::kTemporary;
  out.array = room.number;
  out.whole = out.packed = true;
  t.in_hand.push_back(out);
  return out;
}

void store_vector(LoopTranslator& t, const Typed& target, const Typed& value) {
  if (store_matrix(t, target, value)) return;
  if (t.recursion.is_recursion || !is_vector(target) || is_longer(target, kLong))
    throw NotCompiled{"an assignment to a part of an array", true};
  Typed from = value;
  if (is_in_place(value)) {
    check_same_place(t, target, value.items[0]);
    from.op -= kBinaryKinds;
  } else if (const std::optional<Typed> vector = operand_of(t, value)) {
    from = *vector;
  } else {
    throw NotCompiled{"an assignment of another type to a part of an array", true};
  }
  require_writeable(t, target);
  cfg::Id number = cfg::kNone;
  Typed left = target;  // what is still to be stored
  if (is_vector(from)) {
    t.check(t.op(Op::Eq, Type::I64, length_of(from), length_of(target)));
    if (from.kind == Kind::View) check_copied_as_a_whole(t, target, from);
    cfg::Id place = scratch(t, LoopProgram::kResultAt);
    const cfg::Id at_once = is_in_place(value) ? cfg::kNone : may_store_at_once(t, target, from);
    if (at_once != cfg::kNone) place = t.op(Op::Select, Type::I64, at_once, target.ids[0], place);
    from = computed(t, from, place, LoopProgram::kResultLength);
    if (at_once != cfg::kNone) left.ids[1] = t.op(Op::Select, Type::I64, at_once, t.integer(0), length_of(target));
  } else {
    number = as_f64(t, from);
  }
  for_each_index(t, left, [&](cfg::Id at) {
    cfg::Node n = place(t, target, at, Op::Store);
    n.args[2] = number == cfg::kNone ? element(t, from, at).ids[0] : number;
    t.add(n);
  });
}

}  // namespace framejit::capture
