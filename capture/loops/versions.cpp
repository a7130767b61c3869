// Few versions of each loop: tags of variables whose types or identities differ between rounds. What a head needs is
// found as its second version is made; then the loop is translated again, with these hints (`Retranslate`).
//
// At the heads of loops in a nest, a dead variable (Kind::Dead) with a number or a list carries a tag (LoopTag) with
// its value, because it is not set in the first round. Nothing reads it there; an exit makes the object by its tag, or
// leaves the variable as it was. A live variable that the outermost loop does not carry, and that would double the
// versions only because it begins as Python's number and becomes a scalar of NumPy (`total = 0.0`, then
// `total += a[i]`), carries a tag as well (Kind::Either). With such a scalar as the other operand both are computed
// alike. Before any other instruction, control parts by the tag (undecided, decide). A variable that is dead at a head
// and holds one object with another one in some rounds (`best = i`) carries whether it does (Typed::twin).
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "capture/loops/loop_instructions.h"
#include "capture/loops/translator.h"

namespace framejit::capture {

using Kind = Typed::Kind;

/// The tag of a variable with this type; nothing if its value does not fit into one word.
std::optional<int64_t> LoopTranslator::tag_of(const Typed& v, std::size_t local) {
  switch (v.kind) {
    case Kind::Unbound: return LoopTag::kAsBefore;
    case Kind::Object:
      if (v.is_float_object()) return LoopTag::kPointer;
      return v.slot == static_cast<int>(local) ? std::optional(LoopTag::kAsBefore) : std::nullopt;
    case Kind::Int: return LoopTag::kInt;
    case Kind::Bool: return LoopTag::kBool;
    case Kind::Float: return LoopTag::kFloat;
    case Kind::List: return LoopTag::kPointer;
    case Kind::Character: return LoopTag::kCharacter;
    case Kind::Scalar:
      if (type_of(v.ids[0]) == cfg::Type::F32) return std::nullopt;
      return LoopTag::kScalar + static_cast<int64_t>(v.dtype);
    default: return std::nullopt;
  }
}

LoopTranslator::Twins LoopTranslator::twins_at(uint32_t pc) {
  Twins out;
  for (const auto& [a, b] : hints_.twins)
    if (is_dead_at(pc, b)) out.emplace(b, a);
    else if (is_dead_at(pc, a)) out.emplace(a, b);
  return out;
}

/// Dead variables that hold what their twins hold, and nothing else does, get an identity of their own. Gives these.
std::set<std::size_t> LoopTranslator::part_twins(std::vector<Typed>& locals, const Twins& twin_of, Holders& holders) {
  const auto has_twin = [&](std::size_t k, std::size_t with) {
    const Typed& v = locals[k];
    return v.origin != 0 && v.origin == locals[with].origin && (v.kind == Kind::Either || tag_of(v, k));
  };
  Holders with_twins;
  for (const auto& [k, with] : twin_of)
    if (has_twin(k, with)) ++with_twins[locals[with].origin];
  std::set<std::size_t> equal;
  for (const auto& [k, with] : twin_of)
    if (const int64_t origin = locals[with].origin; has_twin(k, with) && holders[origin] == 1 + with_twins[origin])
      equal.insert(k);
  for (const std::size_t k : equal) {
    --holders[locals[k].origin];
    locals[k].origin = ++origins;
    holders[locals[k].origin] = 1;
  }
  return equal;
}

/// Says of dead variables by a value whether they hold what their twins hold: `equal` ones do, and some others do by
/// what an earlier head has found.
void LoopTranslator::link_twins(std::vector<Typed>& locals, const Twins& twin_of, Holders& holders,
                                const std::set<std::size_t>& equal) {
  const auto was_twin = [](const Typed& v, const Typed& of) {
    return v.kind == Kind::Dead && v.ids.size() > 3 && v.twin != 0 && v.twin == of.origin;
  };
  std::map<std::size_t, cfg::Id> is_equal;
  for (const auto& [k, with] : twin_of) {
    const Typed &v = locals[k], &other = locals[with];
    if (v.kind != Kind::Dead || (v.origin != 0 && holders[v.origin] > 1)) continue;
    is_equal[k] = was_twin(v, other) ? v.ids[3] : was_twin(other, v) ? other.ids[3] : integer(equal.count(k) != 0);
  }
  for (Typed& v : locals)
    if (v.kind == Kind::Dead) {
      v.ids.resize(3);
      v.twin = 0;
    }
  for (const auto& [k, id] : is_equal) {
    Typed& other = locals[twin_of.at(k)];
    if (other.kind == Kind::Dead && other.origin == 0) other.origin = ++origins;
    locals[k].ids.push_back(id);
    locals[k].twin = other.origin;
  }
}

Typed LoopTranslator::tagged(const Typed& v, int64_t tag, bool is_dead) {
  Typed out;
  out.ids = {integer(tag), integer(0), number(0.0)};
  if (v.is_float_object()) {
    PyObject* object = v.value->object.get();
    program->held.push_back(v.value->object);
    out.ids[1] = address(object);
    out.ids[2] = number(PyFloat_AS_DOUBLE(object));
  } else if (!v.ids.empty()) {
    out.ids[type_of(v.ids[0]) == cfg::Type::F64 ? 2 : 1] = v.ids[0];
  }
  out.kind = is_dead ? Kind::Dead : Kind::Either;
  out.origin = v.origin;
  if (is_dead) return out;
  out.dtype = *v.wide_number();
  if (out.origin == 0) out.origin = ++origins;
  return out;
}

void LoopTranslator::tag(LoopState& to) {
  LoopFrame& f = to.frames.front();
  for (const std::size_t k : hints_.negative)
    if (f.locals[k].kind == Kind::Int) f.locals[k].natural = false;
  Holders holders;
  const auto count = [&](Typed& part) { holders[part.origin] += part.origin != 0; };
  for (Typed& v : f.locals) for_each_part(v, count);
  for (Typed& v : f.stack) for_each_part(v, count);
  for (auto& [key, attribute] : to.attributes) for_each_part(attribute.value, count);
  const Twins twin_of = twins_at(f.pc);
  const std::set<std::size_t> equal = part_twins(f.locals, twin_of, holders);
  const bool is_head = request.view->is_loop_head(f.pc), tags_all = is_head && loops().size() > 1;
  const auto is_tagged = [&](std::size_t k) {
    const Typed& v = f.locals[k];
    if (!tags_all && twin_of.count(k) == 0) return false;
    const bool is_either = is_head && hints_.either.count(k) != 0 && v.kind != Kind::Either && v.wide_number();
    return (is_either || is_dead_at(f.pc, k)) && tag_of(v, k);
  };
  Holders others = holders;  // without those that can be tagged
  for (std::size_t k = 0; k < f.locals.size(); ++k)
    if (f.locals[k].origin != 0 && is_tagged(k)) --others[f.locals[k].origin];
  for (std::size_t k = 0; k < f.locals.size(); ++k) {
    Typed& v = f.locals[k];
    const bool is_dead = is_dead_at(f.pc, k);
    if (v.kind == Kind::Either && is_dead) {
      v.kind = Kind::Dead;
      v.dtype = {};
    }
    if ((v.origin == 0 || others[v.origin] == 0) && is_tagged(k)) v = tagged(v, *tag_of(v, k), is_dead);
  }
  link_twins(f.locals, twin_of, holders, equal);
}

void LoopTranslator::compare_versions(uint32_t pc, const std::vector<Typed>& locals) {
  constexpr std::size_t kNone = SIZE_MAX;
  // The next one in front, so that of three variables each has another twin.
  const auto twin_of = [](const std::vector<Typed>& all, std::size_t k) {
    if (all[k].origin == 0) return kNone;
    for (std::size_t j = k; j-- > 0;)
      if (all[j].origin == all[k].origin) return j;
    for (std::size_t j = k + 1; j < all.size(); ++j)
      if (all[j].origin == all[k].origin) return j;
    return kNone;
  };
  std::vector<std::vector<Typed>>& versions = locals_at_[pc];
  for (const std::vector<Typed>& other : versions) {
    VersionHints hints = hints_;
    bool alike = true;
    for (std::size_t k = 0; alike && k < locals.size(); ++k) {
      const Typed &a = locals[k], &b = other[k];
      const std::size_t one = twin_of(locals, k), two = twin_of(other, k);
      if (one != two && is_dead_at(pc, k)) {
        hints.twins.insert(std::minmax(k, one != kNone ? one : two));
        continue;
      }
      if (a.kind == Kind::Int && b.kind == Kind::Int && a.natural != b.natural) hints.negative.insert(k);
      if (a.kind == b.kind && a.dtype == b.dtype) continue;
      // A variable that the outermost loop carries gets no tag: several threads could not share the rounds then.
      alike = loops().size() > 1 && is_dead_at(head, k) && a.wide_number() && a.wide_number() == b.wide_number();
      hints.either.insert(k);
    }
    if (alike && (hints.either.size() > hints_.either.size() || hints.twins.size() > hints_.twins.size() ||
                  hints.negative.size() > hints_.negative.size()))
      throw Retranslate{std::move(hints)};
  }
  versions.push_back(locals);
}

namespace {

/// How many entries of the stack an instruction looks at, at most.
std::size_t taken_by(const Instr& i) {
  constexpr std::size_t kAll = SIZE_MAX;
  switch (i.op) {
    case Opcode::UnaryPositive:
    case Opcode::UnaryNegative:
    case Opcode::UnaryInvert:
    case Opcode::LoadAttr:
    case Opcode::LoadMethod:
    case Opcode::GetIter:
    case Opcode::ListAppend:
    case Opcode::UnpackSequence: return 1;
    case Opcode::BinarySubscr:
    case Opcode::BinaryOp:
    case Opcode::CompareOp:
    case Opcode::StoreAttr:
    case Opcode::IsOp:
    case Opcode::ContainsOp: return 2;
    case Opcode::StoreSubscr:
    case Opcode::BinarySlice: return 3;
    case Opcode::StoreSlice: return 4;
    case Opcode::BuildTuple:
    case Opcode::BuildSlice:
    case Opcode::BuildList: return static_cast<std::size_t>(i.arg);
    case Opcode::Call: return static_cast<std::size_t>(i.arg) + 2;
    default: return kAll;
  }
}

}  // namespace

const Typed* LoopTranslator::undecided(const Instr& i) {
  const std::vector<Typed>& stack = frame().stack;
  const auto at = [&](std::size_t depth) -> const Typed& { return stack[stack.size() - depth]; };
  const auto is_either = [](const Typed& v) { return v.kind == Kind::Either; };
  switch (i.op) {
    case Opcode::Nop:
    case Opcode::PushNull:
    case Opcode::PopTop:
    case Opcode::Copy:
    case Opcode::Swap:
    case Opcode::LoadConst:
    case Opcode::LoadFast:
    case Opcode::LoadFastCheck:
    case Opcode::LoadFastAndClear:
    case Opcode::StoreFast:
    case Opcode::LoadDeref:
    case Opcode::LoadGlobal:
    case Opcode::Jump:
    case Opcode::ForIter:
    // The truth of a number has nothing to do with its type.
    case Opcode::UnaryNot:
    case Opcode::ToBool:
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue: return nullptr;
    case Opcode::BinaryOp:
    case Opcode::CompareOp: {
      // Beside a scalar of NumPy, a number of Python is one of its type, and the result is one of NumPy's.
      const Typed &a = at(2), &b = at(1);
      const bool alike = a.wide_number() && a.wide_number() == b.wide_number();
      if (alike && (a.kind == Kind::Scalar || b.kind == Kind::Scalar)) return nullptr;
      const Instr& next = frame().view->instrs()[frame().view->behind(frame().pc)];
      const bool keeps_type =
          next.op == Opcode::StoreFast && hints_.either.count(static_cast<std::size_t>(next.arg)) == 0;
      if (alike && i.op == Opcode::BinaryOp && !keeps_type && is_computed_alike(i.arg, *a.wide_number()))
        return nullptr;
      const bool asks = i.flag || next.op == Opcode::PopJumpIfFalse || next.op == Opcode::PopJumpIfTrue;
      if (alike && i.op == Opcode::CompareOp && asks) return nullptr;
      break;
    }
    case Opcode::StoreSubscr:
      if (is_either(at(3)) && !is_either(at(1)) && at(2).is_array()) return nullptr;
      break;
    default: break;
  }
  const std::size_t taken = std::min(taken_by(i), stack.size());
  const auto end = stack.rbegin() + static_cast<std::ptrdiff_t>(taken);
  const auto found = std::find_if(stack.rbegin(), end, is_either);
  return found == end ? nullptr : &*found;
}

void LoopTranslator::decide(const Typed& either) {
  const int64_t origin = either.origin;
  const cfg::Id tag = either.ids[0];
  const Typed scalar = either.as_scalar();
  Typed python = scalar;
  python.kind = either.dtype == graph::DType::F64 ? Kind::Float : Kind::Int;
  python.dtype = {};
  const auto become = [origin](LoopState& in, const Typed& made) {
    for (LoopFrame& f : in.frames)
      for (std::vector<Typed>* all : {&f.locals, &f.stack})
        for (Typed& v : *all)
          for_each_part(v, [&](Typed& part) {
            if (part.origin == origin) part = made;
          });
    for (auto& [key, attribute] : in.attributes)
      if (attribute.value.origin == origin) attribute.value = made;
  };
  const int64_t of_scalar = LoopTag::kScalar + static_cast<int64_t>(either.dtype);
  if (cfg.is_const(tag)) return become(state, cfg.at(tag).imm == of_scalar ? scalar : python);
  flush_pending();
  const cfg::Id condition = op(cfg::Op::Eq, cfg::Type::I64, tag, integer(of_scalar));
  LoopState other = state;
  become(state, scalar);
  become(other, python);
  part(condition, state, std::move(other));
}

}  // namespace framejit::capture
