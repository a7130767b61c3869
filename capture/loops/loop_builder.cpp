#include "capture/loops/loop_builder.h"

#include <algorithm>
#include <bit>

#include "graph/support/check.h"

namespace framejit::capture {

using Kind = Typed::Kind;

LoopBuilder::LoopBuilder(const CaptureRequest& its_request, uint32_t first, uint32_t last_one)
    : request(its_request), program(std::make_shared<LoopProgram>()), cfg(program->cfg), head(first), last(last_one) {}

// Nodes.

cfg::Id LoopBuilder::add(cfg::Node node) {
  const cfg::Id id = cfg.add(node);
  cfg.blocks[block].nodes.push_back(id);
  return id;
}

cfg::Id LoopBuilder::at_entry(cfg::Node node) {
  const cfg::Id id = cfg.add(node);
  cfg.blocks[0].nodes.push_back(id);
  return id;
}

cfg::Id LoopBuilder::op(cfg::Op op, cfg::Type type, cfg::Id a, cfg::Id b, cfg::Id c) {
  cfg::Node n;
  n.op = op;
  n.type = type;
  n.args[0] = a;
  n.args[1] = b;
  n.args[2] = c;
  return add(n);
}

cfg::Id LoopBuilder::exact(cfg::Op op, cfg::Id a, cfg::Id b) {
  cfg::Node n;
  n.op = op;
  n.type = cfg::Type::I64;
  n.args[0] = a;
  n.args[1] = b;
  n.exit = exit();
  return add(n);
}

cfg::Id LoopBuilder::input(cfg::Op op, int64_t which) {
  const auto [at, first] = inputs_.emplace(std::pair(static_cast<int>(op), which), cfg::kNone);
  if (first) {
    cfg::Node n;
    n.op = op;
    n.type = cfg::Type::I64;
    n.imm = which;
    at->second = at_entry(n);
  }
  return at->second;
}

cfg::Id LoopBuilder::integer(int64_t value) {
  const auto [at, first] = integers_.emplace(value, cfg::kNone);
  if (first) {
    cfg::Node n;
    n.type = cfg::Type::I64;
    n.imm = value;
    at->second = at_entry(n);
  }
  return at->second;
}

cfg::Id LoopBuilder::address(const void* of) {
  const auto [at, first] = addresses_.emplace(of, cfg::kNone);
  if (first) {
    cfg::Node n;
    n.type = cfg::Type::I64;
    n.imm = reinterpret_cast<int64_t>(of);
    n.is_address = true;
    at->second = at_entry(n);
  }
  return at->second;
}

cfg::Id LoopBuilder::number(double value) {
  const auto [at, first] = numbers_.emplace(std::bit_cast<int64_t>(value), cfg::kNone);
  if (first) {
    cfg::Node n;
    n.type = cfg::Type::F64;
    n.imm = at->first;
    at->second = at_entry(n);
  }
  return at->second;
}

cfg::Id LoopBuilder::call(const cfg::Function& function, cfg::Id a, cfg::Id b) {
  cfg::Node n;
  n.op = cfg::Op::Call;
  n.type = function.result;
  n.function = &function;
  n.args[0] = a;
  n.args[1] = b;
  return add(n);
}

void LoopBuilder::check(cfg::Id condition) {
  if (cfg.is_const(condition) && cfg.at(condition).imm != 0) return;
  cfg::Node n;
  n.op = cfg::Op::Check;
  n.args[0] = condition;
  n.exit = exit();
  add(n);
}

void LoopBuilder::check_finite(cfg::Id value, bool raises) {
  cfg::Node n;
  n.op = cfg::Op::CheckFinite;
  n.imm = static_cast<int64_t>(raises);
  n.args[0] = value;
  n.exit = exit();
  add(n);
}

void LoopBuilder::flush_pending() {
  for (const cfg::Id id : std::exchange(pending, {})) check_finite(id);
}

cfg::Id LoopBuilder::load(cfg::Id base, int offset, cfg::Mem mem, cfg::Id at, int scale) {
  cfg::Node n;
  n.op = cfg::Op::Load;
  n.mem = mem;
  n.type = cfg::type_of(mem);
  n.args[0] = base;
  n.args[1] = at;
  n.scale = static_cast<uint8_t>(scale);
  n.imm = offset;
  return add(n);
}

void LoopBuilder::store(cfg::Id base, int offset, cfg::Id value, cfg::Mem mem) {
  cfg::Node n;
  n.op = cfg::Op::Store;
  n.mem = mem;
  n.args[0] = base;
  n.args[2] = value;
  n.imm = offset;
  add(n);
}

/// A result of NumPy's scalars that a conversion or comparison would hide: is it one of which NumPy may warn?
cfg::Id LoopBuilder::settled(cfg::Id id) {
  const auto at = std::find(pending.begin(), pending.end(), id);
  if (at == pending.end()) return id;
  pending.erase(at);
  check_finite(id);
  return id;
}

// Checkpoints and exits.

bool can_make(const Typed& v) {
  if (v.kind == Kind::Tuple || v.kind == Kind::Iterator || v.kind == Kind::Joint)
    return std::all_of(v.items.begin(), v.items.end(), [&](const Typed& i) { return can_make(i); });
  if (v.kind == Kind::Slice || v.kind == Kind::Display || v.kind == Kind::Vector) return false;
  if (v.is_passing()) return v.slot == Typed::kImagined;
  if (v.kind == Kind::View && v.slot == Typed::kTemporary) return v.whole;
  return v.kind != Kind::Object || v.slot != -1 || v.value->source || v.value->is_constant();
}

void LoopBuilder::take_checkpoint(bool required) {
  if (state.frames.size() == 1) {
    const LoopFrame& f = frame();
    const auto makes = [&](const std::vector<Typed>& all) {
      return std::all_of(all.begin(), all.end(), [&](const Typed& v) { return can_make(v); });
    };
    if (f.view->instrs()[f.pc].boundary && makes(f.stack) && makes(f.locals)) {
      state.checkpoint = std::make_shared<LoopCheckpoint>(LoopCheckpoint{
          f.pc, f.locals, f.stack, state.attributes, -1, ++checkpoints_, block, cfg.blocks[block].nodes.size()});
      return;
    }
  }
  if (required) state.checkpoint = nullptr;
}

uint32_t LoopBuilder::fetched(const SourceRef& source) {
  for (uint32_t i = 0; i < program->fetched.size(); ++i)
    if (same(*program->fetched[i], *source)) return i;
  program->fetched.push_back(source);
  return static_cast<uint32_t>(program->fetched.size() - 1);
}

uint32_t LoopBuilder::object_of(LoopExit& exit, std::vector<cfg::Id>& values, Origins& made, const Typed& v) {
  using Made = LoopObject::Kind;
  if (const auto at = made.find(v.origin); v.origin != 0 && at != made.end()) {
    FRAMEJIT_CHECK(std::equal(v.ids.begin(), v.ids.end(), values.begin() + exit.objects[at->second].value),
                   "one object, two values");
    return static_cast<uint32_t>(at->second);
  }
  LoopObject o;
  o.value = static_cast<uint32_t>(values.size());
  o.dtype = v.dtype;
  values.insert(values.end(), v.ids.begin(), v.is_unboxed() ? v.ids.begin() + 1 : v.ids.end());
  if (v.goes_over_tuple()) values.push_back(integer(v.op));
  switch (v.kind) {
    case Kind::Unbound:
    case Kind::Null: o.kind = Made::Null; break;
    case Kind::String:
    case Kind::Object:
      if (v.value->source) {
        o.kind = Made::Fetch;
        o.index = fetched(v.value->source);
      } else {
        FRAMEJIT_CHECK(v.value->is_constant(), "an object of a loop that cannot be made");
        o.kind = Made::Constant;
        o.object = v.value->object;
      }
      break;
    case Kind::Int: o.kind = Made::Int; break;
    case Kind::Bool: o.kind = Made::Bool; break;
    case Kind::Float: o.kind = Made::Float; break;
    case Kind::Scalar: o.kind = Made::Scalar; break;
    case Kind::Character: o.kind = Made::Character; break;
    case Kind::Complex: o.kind = Made::Complex; break;
    case Kind::ComplexScalar: o.kind = Made::ComplexScalar; break;
    case Kind::View:
      o.kind = v.slot == Typed::kTemporary ? Made::Array : Made::View;
      o.index = v.array;
      o.rank = static_cast<int>(v.ids.size() / 2);
      break;
    case Kind::Range: o.kind = Made::Range; break;
    case Kind::RangeIterator:
      o.kind = v.object >= 0 ? Made::Advanced : Made::RangeIterator;
      o.index = static_cast<uint32_t>(v.object);
      break;
    case Kind::List: o.kind = Made::Pointer; break;
    case Kind::Iterator:
      o.kind = v.object >= 0 ? Made::Resumed : v.items.empty() ? Made::Int : Made::Iterator;
      o.index = static_cast<uint32_t>(v.object);
      if (v.object < 0 && !v.items.empty()) o.parts.push_back(object_of(exit, values, made, v.items[0]));
      break;
    case Kind::Joint:
      o.kind = v.object >= 0 ? Made::Parts : v.holds == "e" ? Made::Enumerate : Made::Zip;
      o.index = static_cast<uint32_t>(v.object);
      for (const Typed& part : v.items) o.parts.push_back(object_of(exit, values, made, part));
      break;
    case Kind::Dead:
    case Kind::Either: o.kind = Made::Tagged; break;
    case Kind::Slice:
    case Kind::Display:
    case Kind::Function:
    case Kind::Cell: o.kind = Made::Null; break;  // imagined
    case Kind::Generator:
    case Kind::Vector: FRAMEJIT_CHECK(false, "a slice, a list or a vector at an exit");  // can_make
    case Kind::Tuple:
      if (v.constant) {
        o.kind = Made::Constant;
        o.object = Ref<>::share(v.constant);
        break;
      }
      if (!v.ids.empty()) {
        o.kind = Made::Pointer;
        break;
      }
      o.kind = Made::Tuple;
      for (const Typed& item : v.items) o.parts.push_back(object_of(exit, values, made, item));
      break;
  }
  if (v.origin != 0) made.emplace(v.origin, exit.objects.size());
  exit.objects.push_back(std::move(o));
  return static_cast<uint32_t>(exit.objects.size() - 1);
}

/// LoopExit::returned: what is returned at once from the checkpoint on. Nothing can see the other locals after that,
/// not even a traceback, if nobody holds the frame (FrameView::outlives).
int returned_at_once(const CodeView& view, const LoopCheckpoint& c) {
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if (view.code()->co_flags & kSuspends) return LoopExit::kStays;
  const Instr& i = view.instrs()[c.pc];
  if (i.op == Opcode::ReturnConst || i.op == Opcode::ReturnValue) return -1;
  if (view.instrs()[view.behind(c.pc)].op != Opcode::ReturnValue) return LoopExit::kStays;
  if (i.op == Opcode::LoadConst) return -1;
  if (i.op != Opcode::LoadFast) return LoopExit::kStays;
  const Typed::Kind kind = c.locals[static_cast<std::size_t>(i.arg)].kind;
  return kind == Typed::Kind::Unbound || kind == Typed::Kind::Dead ? LoopExit::kStays : i.arg;
}

uint32_t LoopBuilder::exit_at(LoopCheckpoint& c, std::string why) {
  LoopExit exit;
  std::vector<cfg::Id> values;
  Origins made;
  exit.instr = c.pc;
  exit.line = request.view->instrs()[c.pc].line;
  exit.why = std::move(why);
  exit.early = in_nest(c.pc) && !has_items(c.pc, c.stack);
  if (!exit.early) exit.returned = returned_at_once(*request.view, c);
  for (std::size_t k = 0; k < c.locals.size(); ++k) {
    const Typed& v = c.locals[k];
    if (v.kind == Kind::Object && v.slot == static_cast<int>(k)) continue;
    if (v.kind == Kind::Unbound && (imagined_graph || !request.frame.locals[static_cast<int64_t>(k)])) continue;
    stored[k] = true;
    // An iterator is never left out: something else may hold it and see how far the loop has moved it.
    const bool is_plain = v.is_single() || v.kind == Kind::Dead || v.kind == Kind::Either || v.kind == Kind::List;
    if (exit.returned != LoopExit::kStays && exit.returned != static_cast<int>(k) && is_plain) continue;
    exit.locals.emplace_back(static_cast<int>(k), object_of(exit, values, made, v));
  }
  for (const auto& [k, index] : exit.locals)
    if (const Typed& v = c.locals[static_cast<std::size_t>(k)]; v.kind == Kind::Dead && v.twin != 0)
      if (const auto at = made.find(v.twin); at != made.end())
        exit.objects[index].parts = {static_cast<uint32_t>(at->second)};
  for (const auto& [key, attribute] : c.attributes)
    exit.attributes.push_back(
        {fetched(key.first->source), attribute.name, object_of(exit, values, made, attribute.value)});
  bool same_so_far = true;
  for (std::size_t k = 0; k < c.stack.size(); ++k) {
    const Typed& v = c.stack[k];
    same_so_far = same_so_far && v.slot != -1 && place_on_stack(v.slot) == static_cast<int>(k);
    if (same_so_far) exit.kept = static_cast<int>(k + 1);
    exit.stack.push_back(object_of(exit, values, made, v));
  }
  program->exits.push_back(std::move(exit));
  cfg.exits.push_back({std::move(values)});
  return static_cast<uint32_t>(cfg.exits.size() - 1);
}

uint32_t LoopBuilder::exit() {
  if (!state.checkpoint) give_up("something may fail after a store, and the state there cannot be kept");
  LoopCheckpoint& c = *state.checkpoint;
  if (c.exit < 0) c.exit = static_cast<int>(exit_at(c, {}));
  return static_cast<uint32_t>(c.exit);
}

void LoopBuilder::leave(std::string why) {
  flush_pending();
  if (!state.checkpoint) give_up(std::move(why));
  if (first_why.empty()) {
    first_why = why;
    const LoopFrame& outer = state.frames.front();
    first_line = outer.view->instrs()[std::min<std::size_t>(outer.pc, outer.view->instrs().size() - 1)].line;
  }
  cfg::Block& b = cfg.blocks[block];
  b.end = cfg::Block::End::Leave;
  b.exit = exit_at(*state.checkpoint, std::move(why));
  ended = true;
}

}  // namespace framejit::capture
