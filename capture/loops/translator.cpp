// Blocks, checkpoints and exits of a loop that is being compiled, and the instructions that move values about.
#include "capture/loops/translator.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <set>
#include <utility>

#include "capture/attributes.h"
#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/layouts.h"
#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

constexpr int kMostVersions = 14;  // of one instruction of the outermost frame
constexpr std::size_t kMostBlocks = 600;
constexpr uint64_t kMostSteps = 20000;
constexpr std::size_t kMostFrames = 12;

using Kind = Typed::Kind;

}  // namespace

int64_t rounds_before(const CodeView& view, uint32_t head, const LiveSlots& live) {
  const bool of_comprehension = view.calls_comprehension(head);
  const int slots = of_comprehension ? 1 : py::kIteratorSlots;
  if ((!of_comprehension && view.instrs()[head].op != Opcode::ForIter) || live.depth < slots) return -1;
  PyObject* iterator = live.stack[live.depth - slots];
  if (!iterator) return -1;
  const auto field = [iterator](int offset) {
    int64_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(iterator) + offset, sizeof value);
    return value;
  };
  if (Py_IS_TYPE(iterator, &PyRangeIter_Type))
    return field(py::kRangeLength) - (py::kRangeIndex >= 0 ? field(py::kRangeIndex) : 0);
  const int64_t place = live.depth - slots + 1;
  const bool is_indexed = slots > 1 && live.stack.is_integer(place);
  // From 3.15 on the function of a comprehension is given what it asks for an iterator.
  const bool is_given = of_comprehension && (PyList_CheckExact(iterator) || PyRange_Check(iterator));
  PyObject* const sequence = is_indexed || is_given ? iterator : py::sequence_of(iterator);
  if (!sequence) return -1;
  const Py_ssize_t length = PyObject_LengthHint(sequence, 0);
  if (length < 0) return PyErr_Clear(), 0;
  if (is_given) return length;
  return length - (is_indexed ? live.stack.integer(place) : field(py::kIteratorIndex));
}

LoopTranslator::LoopTranslator(const CaptureRequest& its_request, uint32_t last_one)
    : LoopBuilder(its_request, its_request.entry, last_one),
      session(text_of(its_request.view->code()->co_qualname), varied, its_request.frontends),
      executor(session, its_request.options) {
  varied.all = true;
  program->findings = request.findings;
  if (request.varied) varied.names = request.varied->names;
  for (int k = 0; k < request.view->local_count(); ++k) varied.names.insert(text_of(request.view->local_name(k)));
}

LoopTranslator::LoopTranslator(const CaptureRequest& its_request, VersionHints hints)
    : LoopTranslator(its_request, its_request.view->last_of_nest(its_request.entry)) {
  hints_ = std::move(hints);
}

LoopTranslator::LoopTranslator(const CaptureRequest& its_request, Kind result)
    : LoopTranslator(its_request, static_cast<uint32_t>(its_request.view->instrs().size() - 1)) {
  recursion.is_recursion = true;
  recursion.result = result;
}

LoopTranslator::~LoopTranslator() = default;

// Blocks.

namespace {

void append_number(std::string& key, int64_t n) {
  char text[24];
  key.append(text, std::to_chars(text, text + sizeof text, n).ptr);
}

void append_key(std::string& key, const Typed& v, Identities& origins) {
  key += static_cast<char>('a' + static_cast<int>(v.kind));
  const auto number = [&key](int64_t n) {
    append_number(key, n);
    key += ',';
  };
  if (v.origin != 0) {
    const auto [at, first] = origins.meet(v.origin);
    if (!first) {
      key += '=';
      append_number(key, static_cast<int64_t>(at));
    }
  }
  switch (v.kind) {
    case Kind::Object:
      number(static_cast<int64_t>(reinterpret_cast<uintptr_t>(v.value)));
      number(v.slot);
      break;
    case Kind::Int:
      key += v.natural ? '+' : '-';
      if (v.is_fixed) number(v.ids[0]);
      break;
    case Kind::Either: number(static_cast<int>(v.dtype)); break;
    case Kind::Dead: number(static_cast<int64_t>(v.ids.size())); break;
    case Kind::Scalar:
      key += v.natural ? '+' : '-';
      number(static_cast<int>(v.dtype));
      break;
    case Kind::View:
      number(v.slot == Typed::kTemporary ? -1 - static_cast<int64_t>(v.array) : v.array);
      number(static_cast<int64_t>(v.ids.size()) * 8 + v.packed * 4 + v.whole * 2 + v.turned);
      number(static_cast<int>(v.dtype));
      break;
    case Kind::Vector:
      number(v.op);
      for (const Typed& i : v.items) append_key(key, i, origins);
      break;
    case Kind::String:
      number(static_cast<int64_t>(reinterpret_cast<uintptr_t>(v.value)));
      number(v.array);
      break;
    case Kind::Range: key += v.natural ? '+' : '-'; break;
    case Kind::RangeIterator:
      key += v.natural ? '+' : '-';
      number(v.slot);
      number(v.object);
      break;
    case Kind::List:
      key += v.holds;
      number(static_cast<int64_t>(v.ids.size()));
      number(v.array);
      break;
    case Kind::Iterator:
    case Kind::Joint:
      number(v.slot);
      number(v.object);
      number(v.op);
      key += v.holds;
      for (const Typed& i : v.items) append_key(key, i, origins);
      key += ".";
      break;
    case Kind::Tuple:
    case Kind::Slice:
    case Kind::Display:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
      number(static_cast<int64_t>(reinterpret_cast<uintptr_t>(v.value)));
      number(v.slot);
      number(static_cast<int64_t>(v.ids.size()));
      number(static_cast<int64_t>(v.items.size()));
      for (const Typed& i : v.items) append_key(key, i, origins);
      break;
    default: break;
  }
}

std::string key_of(const LoopState& state, Identities& origins) {
  std::string key;
  origins.begin();
  for (const LoopFrame& f : state.frames) {
    key += std::to_string(reinterpret_cast<uintptr_t>(f.view.get())) + "@" + std::to_string(f.pc) + ":";
    for (const Typed& v : f.locals) append_key(key, v, origins);
    key += "|";
    for (const Typed& v : f.stack) append_key(key, v, origins);
    key += static_cast<char>('a' + static_cast<int>(f.consumer));
    key += ";";
  }
  for (const auto& [of, attribute] : state.attributes) {
    key += std::to_string(reinterpret_cast<uintptr_t>(of.first)) + "." + of.second + ":";
    append_key(key, attribute.value, origins);
  }
  const LoopFrame& f = state.frames.front();
  for (const Typed& v : f.locals) {
    if (v.kind != Kind::Dead || v.ids.size() < 4) continue;
    const auto is_twin = [&](const Typed& other) { return other.origin != 0 && other.origin == v.twin; };
    key += std::to_string(std::find_if(f.locals.begin(), f.locals.end(), is_twin) - f.locals.begin()) + "/" +
           std::to_string(std::find_if(f.stack.begin(), f.stack.end(), is_twin) - f.stack.begin()) + ",";
  }
  key += std::to_string(state.checkpoint ? state.checkpoint->number : 0);
  return key;
}

/// Which round of loops over tuples a frame is in.
std::vector<int> rounds_of_tuples(const LoopFrame& f) {
  std::vector<int> out;
  const auto look = [&out](const auto& self, const Typed& v) -> void {
    if (v.goes_over_tuple()) out.push_back(v.op);
    for (const Typed& part : v.items)
      if (v.kind == Kind::Joint) self(self, part);
  };
  for (const Typed& v : f.stack) look(look, v);
  return out;
}

bool is_whole_temporary(const Typed& v) { return v.kind == Kind::View && v.slot == Typed::kTemporary && v.whole; }

}  // namespace

/// The first and last instructions of the loops of the outermost frame.
const std::vector<std::pair<uint32_t, uint32_t>>& LoopTranslator::loops() {
  const CodeView& view = *request.view;
  if (loops_.empty())
    for (uint32_t i = head; i <= last; ++i)
      if (view.begins_nest(i)) loops_.emplace_back(i, view.last_of_nest(i));
  return loops_;
}

/// How many loops of the outermost frame, and of inlined functions, a state is in.
uint32_t LoopTranslator::level_of(const LoopState& at) {
  const uint32_t pc = at.frames.front().pc;
  auto level = static_cast<uint32_t>(std::count_if(
      loops().begin(), loops().end(), [&](const auto& loop) { return loop.first <= pc && pc <= loop.second; }));
  for (std::size_t k = 1; k < at.frames.size(); ++k) {
    const LoopFrame& f = at.frames[k];
    for (uint32_t i = 0; i <= f.pc; ++i) level += f.view->is_loop_head(i) && f.pc <= f.view->last_of_nest(i);
  }
  return level;
}

bool LoopTranslator::has_tags(uint32_t pc) {
  return !recursion.is_recursion && in_nest(pc) && (request.view->is_loop_head(pc) || !hints_.twins.empty());
}

bool LoopTranslator::is_dead_at(uint32_t pc, std::size_t local) {
  if (!dead_) dead_.emplace(*request.view, head, last);
  return dead_->is_dead(pc, local);
}

uint32_t LoopTranslator::new_block(uint32_t level) {
  if (cfg.blocks.size() >= kMostBlocks) give_up("its code would become too long");
  cfg.blocks.emplace_back();
  cfg.blocks.back().level = level;
  begins_at.resize(cfg.blocks.size(), cfg::kNone);
  return static_cast<uint32_t>(cfg.blocks.size() - 1);
}

cfg::Edge LoopTranslator::edge_to(LoopState to) {
  if (to.frames.size() == 1 && has_tags(to.frames.front().pc)) tag(to);
  LoopFrame& f = to.frames.back();
  const auto makes = [&](const std::vector<Typed>& all) {
    return std::all_of(all.begin(), all.end(), [&](const Typed& v) { return can_make(v); });
  };
  // Such a block has a checkpoint of its own.
  const bool keeps = to.frames.size() == 1 && f.view->instrs()[f.pc].boundary && makes(f.stack) && makes(f.locals);
  if (keeps) to.checkpoint = nullptr;
  const auto [at, first] = blocks_.emplace(key_of(to, identities_), static_cast<uint32_t>(cfg.blocks.size()));
  cfg::Edge edge;
  edge.block = at->second;
  // Variables that hold one object share a parameter.
  constexpr std::size_t kAlone = SIZE_MAX;
  const auto for_each = [&](auto&& visit) {
    identities_.begin();
    const auto see = [&](Typed& part) {
      const auto [number, is_first] = part.origin == 0 ? std::pair{kAlone, true} : identities_.meet(part.origin);
      visit(part, number, is_first);
    };
    for (LoopFrame& frame : to.frames)
      for (std::vector<Typed>* all : {&frame.locals, &frame.stack})
        for (Typed& v : *all) for_each_part(v, see);
    for (auto& [key, attribute] : to.attributes) see(attribute.value);
  };
  std::vector<const Typed*> objects_met;
  for_each([&](Typed& part, std::size_t number, bool is_first) {
    if (is_first && number != kAlone) objects_met.push_back(&part);
    if (!is_first) FRAMEJIT_CHECK(objects_met[number]->ids == part.ids, "one object, two values");
    if (is_first && !part.is_fixed) edge.args.insert(edge.args.end(), part.ids.begin(), part.ids.end());
  });
  if (!first) return edge;
  if (to.frames.size() == 1 && has_tags(f.pc) && request.view->is_loop_head(f.pc)) compare_versions(f.pc, f.locals);
  new_block(level_of(to));
  if (to.frames.size() == 1) begins_at.back() = f.pc;
  if (to.frames.size() == 1 && ++versions_[{f.pc, rounds_of_tuples(f)}] > kMostVersions)
    give_up("its variables have too many combinations of types");
  cfg.blocks.back().begins_round = to.frames.back().view->is_loop_head(to.frames.back().pc);
  for_each([&](Typed& part, std::size_t number, bool is_first) {
    part.constant = nullptr;
    if (is_first && !part.is_fixed) {
      for (cfg::Id& id : part.ids) id = cfg.add_param(edge.block, cfg.at(id).type);
      if (part.natural && (part.kind == Kind::Int || part.kind == Kind::RangeIterator))
        cfg.nodes[part.ids[0]].natural = true;
    }
    if (!is_first) part.ids = objects_met[number]->ids;
  });
  // Later rounds bring other objects.
  const int64_t next_origin = origins + 1;
  for (Typed& v : to.frames.front().locals) {
    const std::optional<std::size_t> twin = identities_.number_of(v.twin);
    v.twin = twin ? next_origin + static_cast<int64_t>(*twin) : 0;
  }
  for_each([&](Typed& part, std::size_t number, bool) {
    if (number == kAlone) return;
    part.origin = next_origin + static_cast<int64_t>(number);
    origins = std::max(origins, part.origin);
  });
  open_.push_back({std::move(to), edge.block});
  return edge;
}

void LoopTranslator::jump(uint32_t target) {
  flush_pending();
  if (target <= frame().pc) {
    for (std::size_t k = 0; state.frames.size() == 1 && in_nest(target) && k < frame().locals.size(); ++k)
      carries_vectors = carries_vectors || (is_whole_temporary(frame().locals[k]) && !is_dead_at(target, k));
    cfg::Node poll;
    poll.op = cfg::Op::Poll;
    poll.exit = exit();
    add(poll);
  }
  frame().pc = target;
  const cfg::Edge edge = edge_to(state);
  cfg::Block& b = cfg.blocks[block];
  b.end = cfg::Block::End::Jump;
  b.to[0] = edge;
  ended = true;
}

void LoopTranslator::part(cfg::Id condition, LoopState yes, LoopState no) {
  const cfg::Edge first = edge_to(std::move(yes)), second = edge_to(std::move(no));
  cfg::Block& b = cfg.blocks[block];
  b.end = cfg::Block::End::Branch;
  b.condition = condition;
  b.to[0] = first;
  b.to[1] = second;
  ended = true;
}

void LoopTranslator::branch(cfg::Id condition, uint32_t yes, uint32_t no) {
  if (cfg.is_const(condition)) return jump(cfg.at(condition).imm ? yes : no);
  flush_pending();
  if (yes <= frame().pc || no <= frame().pc) {
    cfg::Node poll;
    poll.op = cfg::Op::Poll;
    poll.exit = exit();
    add(poll);
  }
  LoopState other = state;
  other.frames.back().pc = no;
  frame().pc = yes;
  part(condition, state, std::move(other));
}

void LoopTranslator::translate(Given given) {
  state = std::move(given.state);
  block = given.block;
  ended = false;
  pending.clear();
  if (!state.checkpoint) take_checkpoint(false);
  for (const cfg::Id condition : std::exchange(entry_checks, {})) check(condition);
  for (bool first = true; !ended; first = false) {
    LoopFrame& f = frame();
    if (f.pc >= f.view->instrs().size()) give_up("the end of the code");
    const Instr& instr = f.view->instrs()[f.pc];
    std::vector<bool>& targets = targets_[f.view.get()];
    if (targets.empty()) {
      targets.assign(f.view->instrs().size() + 1, false);
      for (const Instr& i : f.view->instrs()) {
        if (may_end_round(i.op) || i.op == Opcode::ForIter || i.op == Opcode::JumpIfFalseOrPop ||
            i.op == Opcode::JumpIfTrueOrPop)
          targets[static_cast<std::size_t>(i.arg)] = true;
      }
    }
    if (!first && targets[f.pc]) {
      flush_pending();
      const cfg::Edge edge = edge_to(state);
      cfg.blocks[block].end = cfg::Block::End::Jump;
      cfg.blocks[block].to[0] = edge;
      return;
    }
    if (state.frames.size() == 1 && (!in_nest(f.pc) || has_items(f.pc, f.stack))) {
      flush_pending();
      take_checkpoint(false);
      if (state.checkpoint && state.checkpoint->pc == f.pc && !returns_item(f)) {
        cfg.blocks[block].end = cfg::Block::End::Leave;
        cfg.blocks[block].exit = exit_at(*state.checkpoint, {});
        return;
      }
    }
    // Behind a store in the middle of an instruction of CPython's that does two things.
    if (!state.checkpoint && pending.empty()) take_checkpoint(false);
    if (++steps_ > kMostSteps) give_up("its code would become too long");
    if (const Typed* either = undecided(instr)) {
      decide(*either);
      continue;
    }
    try {
      step(instr);
    } catch (const NotCompiled& reason) {
      if (reason.on_array && !array_work_) array_work_ = state.frames.front().pc;
      has_gaps_ = has_gaps_ || state.frames.size() > 1 || in_nest(state.frames.front().pc);
      leave(reason.why);
    }
  }
}

// Instructions.

Typed LoopTranslator::pop() {
  Typed v = std::move(frame().stack.back());
  frame().stack.pop_back();
  if (v.kind == Kind::View || v.kind == Kind::Vector || v.kind == Kind::Tuple) in_hand.push_back(v);
  return v;
}

Typed LoopTranslator::pop_known() {
  Typed v = pop();
  return v.kind == Kind::Either ? v.as_scalar() : known(*this, std::move(v));
}

Typed LoopTranslator::pop_container() {
  if (const std::optional<Typed> string = string_of(*this, frame().stack.back())) return pop(), *string;
  return pop_known();
}

Typed LoopTranslator::pop_operand() {
  if (frame().stack.back().kind == Kind::Vector) return pop();
  return pop_known();
}

void LoopTranslator::note_appended(const Typed& list, const std::string& held) {
  if (list.array == 0 || recursion.is_recursion) return;
  const auto [at, first] = hints_.appended.emplace(list.array, held);
  if (!first && (at->second == held || at->second.empty())) return;
  if (!first) at->second.clear();
  if (asked_for_items_.count(list.array) != 0) throw Retranslate{hints_};
}

std::string LoopTranslator::items_of(const Typed& list) {
  if (!list.holds.empty() || list.array == 0) return list.holds;
  asked_for_items_.insert(list.array);
  const auto at = hints_.appended.find(list.array);
  return at == hints_.appended.end() ? std::string() : at->second;
}

void LoopTranslator::complete(Typed& list) {
  if (list.holds.empty() && hints_.unboxed.count(list.array) != 0 && hints_.boxed.count(list.array) == 0)
    list.holds = items_of(list);
}

Typed LoopTranslator::pop_slice(int parts) {
  Typed slice;
  slice.kind = Kind::Slice;
  slice.items.resize(static_cast<std::size_t>(parts));
  for (std::size_t k = slice.items.size(); k-- > 0;) slice.items[k] = pop_known();
  return slice;
}

void LoopTranslator::push(Typed v) {
  name(v);
  frame().stack.push_back(std::move(v));
}

void LoopTranslator::name(Typed& v) {
  if (v.has_identity() && v.origin == 0) v.origin = ++origins;
  if (v.kind == Kind::Tuple)
    for (Typed& item : v.items) name(item);
}

void LoopTranslator::step(const Instr& i) {
  in_hand.clear();
  LoopFrame& f = frame();
  const auto next = [&] { frame().pc = frame().view->behind(frame().pc); };
  const auto target = static_cast<uint32_t>(i.arg);
  const uint32_t behind = f.view->behind(f.pc);
  switch (i.op) {
    case Opcode::Nop:
    case Opcode::Resume:
    case Opcode::CopyFreeVars:
    case Opcode::EndFor: return next();
    case Opcode::PushNull: {
      Typed null;
      null.kind = Kind::Null;
      push(std::move(null));
      return next();
    }
    case Opcode::PopTop: {
      const Typed v = pop();
      if (v.kind == Kind::Vector) known(*this, v);  // it may warn
      next();
      return give_back(*this, v);
    }
    case Opcode::PopIter: {
      for (int k = 1; k < py::kIteratorSlots; ++k) pop();
      const Typed v = pop();
      next();
      return give_back(*this, v);
    }
    case Opcode::Copy: {
      Typed& v = f.stack[f.stack.size() - static_cast<std::size_t>(i.arg)];
      v.is_fixed = false;
      if (v.is_passing()) throw NotCompiled{kMadeFunction};
      if (v.kind == Kind::Vector) {
        v = known(*this, v);
        name(v);
      }
      if (v.kind == Kind::Display) v = made_list(*this, v);
      push(v);
      return next();
    }
    case Opcode::Swap:
      std::swap(f.stack.back(), f.stack[f.stack.size() - static_cast<std::size_t>(i.arg)]);
      return next();
    case Opcode::LoadConst: push(literal(*this, f.view->constant(i.arg))); return next();
    case Opcode::LoadFast:
    case Opcode::LoadFastCheck: {
      const Typed& v = f.locals[static_cast<std::size_t>(i.arg)];
      if (v.kind == Kind::Unbound || v.kind == Kind::Dead) throw NotCompiled{"a variable that is not bound"};
      if (v.is_iterator()) {  // of a comprehension, which does not read it again
        Typed iterator = std::exchange(f.locals[static_cast<std::size_t>(i.arg)], Typed{});
        push(std::move(iterator));
        return next();
      }
      if (v.kind == Kind::Object && v.slot >= 0 && v.value->kind == ValueKind::Lazy)
        guard(executor, GuardKind::Bound, v.value->source);
      push(v);
      for_each_part(frame().stack.back(), [this](Typed& part) {  // another variable that gets it may change
        if (std::exchange(part.is_fixed, false)) part.origin = ++origins;
      });
      return next();
    }
    case Opcode::LoadFastAndClear: {  // around a comprehension, from 3.12 on; its end stores what was there
      Typed v = std::exchange(f.locals[static_cast<std::size_t>(i.arg)], Typed{});
      if (v.kind == Kind::Dead) throw NotCompiled{"a variable that is not bound"};
      if (v.kind == Kind::Unbound) v.kind = Kind::Null;
      if (state.frames.size() == 1) stored[static_cast<std::size_t>(i.arg)] = true;
      push(std::move(v));
      return next();
    }
    case Opcode::StoreFast: {
      Typed v = pop();
      if (v.kind == Kind::Null) v = Typed{};
      if (v.is_iterator()) throw NotCompiled{kHeldIterator};
      if (v.is_passing()) throw NotCompiled{kMadeFunction};
      if (v.kind == Kind::Display) v = made_list(*this, v);
      if (v.kind == Kind::Vector && !is_in_place(v)) {
        v = known(*this, std::move(v));
        name(v);
      }
      if (state.frames.size() == 1) stored[static_cast<std::size_t>(i.arg)] = true;
      const bool stores = v.kind == Kind::Vector;
      if (stores) {
        store_vector(*this, v.items[0], v);
        carries_vectors = carries_vectors || v.items.back().kind == Kind::Object ||
                          (v.items.back().whole && !is_whole_temporary(v.items.back()));
        v = Typed(v.items.back());
      }
      frame().locals[static_cast<std::size_t>(i.arg)] = std::move(v);
      next();
      if (stores) take_checkpoint(true);
      return;
    }
    case Opcode::LoadDeref: {
      push(load_cell(*this, f.locals[static_cast<std::size_t>(i.arg)]));
      return next();
    }
    case Opcode::StoreDeref: {
      const Typed v = pop_known();
      store_cell(*this, frame().locals[static_cast<std::size_t>(i.arg)], v);
      return next();
    }
    case Opcode::MakeCell: {
      Typed cell;
      cell.kind = Kind::Cell;
      cell.items = {f.locals[static_cast<std::size_t>(i.arg)]};
      f.locals[static_cast<std::size_t>(i.arg)] = std::move(cell);
      return next();
    }
    case Opcode::LoadClosure: {
      const Typed& v = f.locals[static_cast<std::size_t>(i.arg)];
      Typed cell = v;
      if (v.kind == Kind::Cell) cell.items.clear();
      if (v.kind == Kind::Cell) cell.slot = i.arg;
      push(std::move(cell));
      return next();
    }
    case Opcode::MakeFunction:
    case Opcode::SetFunctionAttribute: make_function(*this, i); return next();
    case Opcode::ReturnGenerator: {
      Typed none;
      none.kind = Kind::Object;
      none.value = executor.none();
      push(std::move(none));
      return next();
    }
    case Opcode::YieldValue: return yield_value(*this);
    case Opcode::LoadGlobal: {
      Captured<Value*> v = load_global(executor, f.globals, f.builtins, f.view->name(i.arg));
      if (!v) throw NotCompiled{"a global that is not there"};
      Typed made;
      made.kind = Kind::Object;
      made.value = look(executor, *v);
      Typed null;
      null.kind = Kind::Null;
      if (i.flag && !py::kNullBehindCallable) push(null);
      push(std::move(made));
      if (i.flag && py::kNullBehindCallable) push(null);
      return next();
    }
    case Opcode::LoadAttr: push(get_attr(*this, pop_known(), f.view->name(i.arg))); return next();
    case Opcode::StoreAttr: {
      const Typed of = pop_known(), value = pop_known();
      store_attribute(*this, of, f.view->name(i.arg), value);
      return next();
    }
    case Opcode::LoadMethod: {
      if (load_method(*this, frame().stack.back(), f.view->name(i.arg))) return next();
      Typed v = get_attr(*this, pop_known(), f.view->name(i.arg));
      Typed null;
      null.kind = Kind::Null;
      if (!py::kNullBehindCallable) push(null);
      push(std::move(v));
      if (py::kNullBehindCallable) push(null);
      return next();
    }
    case Opcode::BinarySubscr: {
      const Typed key = pop_known(), container = pop_container();
      push(get_item(*this, container, key));
      return next();
    }
    case Opcode::StoreSubscr:
    case Opcode::StoreSlice: {
      const Typed key = i.op == Opcode::StoreSlice ? pop_slice(2) : pop_known();
      const Typed container = pop_known(), value = pop_operand();
      set_item(*this, container, key, value);
      next();
      return take_checkpoint(true);
    }
    case Opcode::UnaryPositive:
    case Opcode::UnaryNegative:
    case Opcode::UnaryInvert: push(unary(*this, i.op, pop_operand())); return next();
    case Opcode::UnaryNot:
      push(of_bool(op(cfg::Op::Eq, cfg::Type::I64, truth(*this, pop_known()), integer(0))));
      return next();
    case Opcode::ToBool: push(of_bool(truth(*this, pop_known()))); return next();
    case Opcode::BinaryOp: {
      const Typed &first = f.stack[f.stack.size() - 2], &second = f.stack.back();
      if ((first.kind == Kind::Either && second.kind != Kind::Scalar) ||
          (second.kind == Kind::Either && first.kind != Kind::Scalar)) {
        Typed made = either_binary(*this, i.arg, first, second);
        pop();
        pop();
        push(std::move(made));
        return next();
      }
      const Typed b = pop_operand(), held = frame().stack.back(), a = pop_operand();
      Typed made = binary(*this, i.arg, a, b);
      if (is_in_place(made)) made.items.push_back(held);
      push(std::move(made));
      return next();
    }
    case Opcode::CompareOp: {
      const Typed b = pop_known(), a = pop_known();
      Typed result = compare(*this, i.arg, a, b);
      push(i.flag ? of_bool(truth(*this, result)) : std::move(result));
      return next();
    }
    case Opcode::IsOp: {
      const Typed b = pop_known(), a = pop_known();
      const auto is_none = [](const Typed& v) { return v.kind == Kind::Object && v.value->is_none(); };
      if (!is_none(a) && !is_none(b)) throw NotCompiled{"`is`"};
      push(of_bool(integer((is_none(a) && is_none(b)) != (i.arg == 1))));
      return next();
    }
    case Opcode::ContainsOp: {
      const Typed container = pop_container(), item = pop_known();
      const cfg::Id found = contains(*this, container, item);
      push(of_bool(i.arg == 1 ? op(cfg::Op::Eq, cfg::Type::I64, found, integer(0)) : found));
      return next();
    }
    case Opcode::BinarySlice: {
      const Typed key = pop_slice(2);
      push(get_item(*this, pop_known(), key));
      return next();
    }
    case Opcode::BuildSlice: push(pop_slice(i.arg)); return next();
    case Opcode::BuildList: {
      Typed display;
      display.kind = Kind::Display;
      for (int k = 0; k < i.arg; ++k) display.items.insert(display.items.begin(), pop_known());
      push(display.items.empty() ? made_list(*this, display) : std::move(display));
      return next();
    }
    case Opcode::ListAppend: {
      const Typed item = pop_known();
      const std::optional<Typed> list =
          list_of(*this, known(*this, f.stack[f.stack.size() - static_cast<std::size_t>(i.arg)]));
      if (!list) throw NotCompiled{"an item of something that is not a list"};
      append(*this, *list, item);
      next();
      // In a comprehension that is inlined nothing else sees the list before it is complete.
      if (state.frames.size() == 1) take_checkpoint(true);
      return;
    }
    case Opcode::BuildTuple: {
      Typed tuple;
      tuple.kind = Kind::Tuple;
      tuple.items.resize(static_cast<std::size_t>(i.arg));
      for (std::size_t k = tuple.items.size(); k-- > 0;) tuple.items[k] = pop();
      for (Typed& item : tuple.items) {
        if (item.is_iterator()) throw NotCompiled{kHeldIterator};
        if (item.is_passing() && item.kind != Kind::Cell) throw NotCompiled{kMadeFunction};
        if (item.kind == Kind::Display) item = made_list(*this, item);
        if (item.kind == Kind::Vector) item = known(*this, std::move(item));
      }
      push(std::move(tuple));
      return next();
    }
    case Opcode::UnpackSequence: {
      const std::optional<Typed> v = tuple_of(*this, pop_known());
      if (!v || static_cast<int>(v->items.size()) != i.arg)
        throw NotCompiled{"unpacking of something that is not a tuple"};
      for (std::size_t k = v->items.size(); k-- > 0;) push(v->items[k]);
      return next();
    }
    case Opcode::Jump: return jump(target);
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue: {
      const cfg::Id condition = truth(*this, pop_known());
      const bool yes = i.op == Opcode::PopJumpIfTrue;
      return branch(condition, yes ? target : behind, yes ? behind : target);
    }
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone: {
      const Typed v = pop_known();
      const bool none = v.kind == Kind::Object && v.value->is_none();
      if (v.kind == Kind::Object && !none && !v.value->source) throw NotCompiled{"a comparison with None"};
      return jump(none == (i.op == Opcode::PopJumpIfNone) ? target : behind);
    }
    case Opcode::JumpIfFalseOrPop:
    case Opcode::JumpIfTrueOrPop: {
      const Typed v = known(*this, f.stack.back());
      const cfg::Id condition = truth(*this, v);
      flush_pending();
      LoopState jumps = state, falls = state;
      jumps.frames.back().pc = target;
      falls.frames.back().pc = behind;
      falls.frames.back().stack.pop_back();
      const bool yes = i.op == Opcode::JumpIfTrueOrPop;
      return part(condition, yes ? jumps : falls, yes ? falls : jumps);
    }
    case Opcode::GetIter: get_iter(*this); return next();
    case Opcode::ForIter:
      switch (f.stack[f.stack.size() - py::kIteratorSlots].kind) {
        case Kind::Iterator:
        case Kind::Joint: return for_item(*this, i);
        case Kind::Generator: return short_loop(*this, i);
        default: return for_iter(*this, i);
      }
    case Opcode::Call: return do_call(*this, i);
    case Opcode::ReturnValue:
      if (recursion.is_recursion && state.frames.size() == 1)
        return return_from_recursion(*this, known(*this, f.stack.back()));
      return do_return(*this, pop());
    case Opcode::ReturnConst:
      if (recursion.is_recursion && state.frames.size() == 1)
        return return_from_recursion(*this, literal(*this, f.view->constant(i.arg)));
      return do_return(*this, literal(*this, f.view->constant(i.arg)));
    default: throw NotCompiled{"the instruction " + std::string(name_of(i.op))};
  }
}

bool LoopTranslator::translate_all(LoopState start) {
  try {
    const cfg::Edge first = edge_to(std::move(start));
    cfg.blocks[0].end = cfg::Block::End::Jump;
    cfg.blocks[0].to[0] = first;
    while (!open_.empty()) {
      Given given = std::move(open_.back());
      open_.pop_back();
      translate(std::move(given));
    }
  } catch (const GivenUp& reason) {
    given_up_ = reason.why;
    return false;
  }
  return true;
}

/// Does each loop of the nest go round in the compiled code? One that is left in each round would cost more than it
/// saves.
bool LoopTranslator::goes_round() const {
  const CodeView& view = *request.view;
  if (view.calls_comprehension(head)) {
    const cfg::Shape shape = cfg::shape_of(cfg);
    return shape.goes_round && std::any_of(shape.order.begin(), shape.order.end(), [&](uint32_t b) {
             const cfg::Block& end = cfg.blocks[b];
             return end.end == cfg::Block::End::Leave && !program->exits[end.exit].early;
           });
  }
  std::map<uint32_t, std::vector<uint32_t>> heads;  // the blocks that begin at the loop of a loop
  for (uint32_t b : cfg::shape_of(cfg).order)
    if (b < begins_at.size() && begins_at[b] != cfg::kNone && in_nest(begins_at[b]) && view.is_loop_head(begins_at[b]))
      heads[begins_at[b]].push_back(b);
  const auto returns = [&](uint32_t loop) {
    const auto is_around = [&](uint32_t b) {
      const uint32_t at = b < begins_at.size() ? begins_at[b] : cfg::kNone;
      return at < loop && heads.count(at) != 0 && view.last_of_nest(at) >= loop;
    };
    std::vector<uint32_t> open = heads[loop];
    std::vector<bool> seen(cfg.blocks.size(), false);
    while (!open.empty()) {
      const cfg::Block& from = cfg.blocks[open.back()];
      open.pop_back();
      for (int k = 0; k < from.successors(); ++k) {
        const uint32_t to = from.to[k].block;
        if (to < begins_at.size() && begins_at[to] == loop) return true;
        if (seen[to] || is_around(to)) continue;
        seen[to] = true;
        open.push_back(to);
      }
    }
    return false;
  };
  return !heads.empty() && std::all_of(heads.begin(), heads.end(), [&](const auto& h) { return returns(h.first); });
}

Expected<std::shared_ptr<Region>, Break> LoopTranslator::run() {
  const std::span<const Instr> instrs = request.view->instrs();
  const auto stays = [&](std::string why, int line) {
    Break b{BreakId::ElementLoop, std::move(why)};
    b.instr = head;
    b.function = text_of(request.view->code()->co_qualname);
    b.file = text_of(request.view->code()->co_filename);
    b.line = line > 0 ? line : instrs[head].line;
    return Unexpected<Break>{std::move(b)};
  };
  LoopState start;
  try {
    enter(*this, start);
    if (recursion.is_recursion && !recursion.is_whole) enter_recursion(*this, start);
  } catch (const NotCompiled& reason) {
    return stays(reason.why, 0);
  }
  if (!translate_all(std::move(start))) return stays(given_up_, first_line);
  if (session.inputs().has_overlap()) return stays("arrays that overlap", 0);
  if (recursion.is_recursion) {
    if (std::string why = finish_recursion(*this); !why.empty()) return stays(std::move(why), first_line);
  } else if (!goes_round()) {
    return stays(first_why.empty() ? "it never goes round" : first_why, first_line);
  }
  choose_lists();
  for (uint32_t i = head; i <= last; ++i) {
    const int line = instrs[i].line;
    if (line <= 0) continue;
    program->line = program->line > 0 ? std::min(program->line, line) : line;
    program->last_line = std::max(program->last_line, line);
  }
  auto region = std::make_shared<Region>();
  region->function = text_of(request.view->code()->co_qualname);
  region->view = request.view;
  region->entry = request.entry;
  region->exit = request.entry;
  region->globals = Ref<>::share(request.frame.globals);
  region->builtins = Ref<>::share(request.frame.builtins);
  region->guards = session.guards().all();
  region->inputs = session.inputs().all();
  objects.written.resize(region->inputs.size());
  for (std::size_t i = 0; i < region->inputs.size(); ++i)
    if (objects.written[i]) {
      region->inputs[i].spec.writeable = true;
      region->guards[region->inputs[i].guard].array.writeable = true;
    }
  for (std::size_t k = 0; k < stored.size(); ++k)
    if (stored[k]) region->overwritten.push_back(static_cast<int>(k));
  region->kept = static_cast<uint32_t>(request.frame.depth);
  for (const LoopExit& e : program->exits) region->kept = std::min(region->kept, static_cast<uint32_t>(e.kept));
  region->graph = std::make_unique<graph::Graph>(std::move(session.graph()));
  region->loop = std::move(program);
  return region;
}

Expected<std::shared_ptr<Region>, Break> capture_loop(const CaptureRequest& request) {
  for (VersionHints hints;;) {
    try {
      auto region = LoopTranslator(request, hints).run();
      if (region || hints.unboxed.empty()) return region;
      // Lists that are unboxed in some rounds only may need too many versions.
      hints = {};
      hints.boxes_all = true;
    } catch (Retranslate& more) {
      hints = std::move(more.hints);
    }
  }
}

}  // namespace framejit::capture
