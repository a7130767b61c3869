// Blocks, checkpoints and exits of a loop that is being compiled, and the instructions that move values about.
#include "capture/loops/translator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "capture/attributes.h"
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

/// The loop cannot be compiled at all.
struct GivenUp {
  std::string why;
};

int place_on_stack(int slot) { return -2 - slot; }

using Kind = Typed::Kind;

}  // namespace

bool is_loop_head(const CodeView& view, uint32_t instr) {
  const std::span<const Instr> instrs = view.instrs();
  for (uint32_t i = instr; i < instrs.size(); ++i) {
    const bool jump = instrs[i].op == Opcode::Jump || name_of(instrs[i].op).starts_with("PopJump");
    if (jump && static_cast<uint32_t>(instrs[i].arg) == instr) return true;
  }
  return false;
}

int64_t rounds_before(const CodeView& view, uint32_t head, const LiveSlots& live) {
  if (view.instrs()[head].op != Opcode::ForIter || live.depth < py::kIteratorSlots) return -1;
  PyObject* iterator = live.stack[live.depth - py::kIteratorSlots];
  if (!iterator) return -1;
  const auto field = [iterator](int offset) {
    int64_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(iterator) + offset, sizeof value);
    return value;
  };
  if (Py_IS_TYPE(iterator, &PyRangeIter_Type))
    return field(py::kRangeLength) - (py::kRangeIndex >= 0 ? field(py::kRangeIndex) : 0);
  PyObject* sequence = py::sequence_of(iterator);
  if (!sequence) return -1;
  const Py_ssize_t length = PyObject_LengthHint(sequence, 0);
  if (length < 0) return PyErr_Clear(), 0;
  return length - field(py::kIteratorIndex);
}

// `continue` and the end of a round may jump to different places.
uint32_t last_of_nest(const CodeView& view, uint32_t head) {
  const std::span<const Instr> instrs = view.instrs();
  uint32_t last = head;
  for (uint32_t i = head; i < instrs.size(); ++i) {
    const bool jump = instrs[i].op == Opcode::Jump || name_of(instrs[i].op).starts_with("PopJump");
    const auto target = static_cast<uint32_t>(instrs[i].arg);
    if (jump && target <= i && head <= target && target <= last) last = i;
  }
  return last;
}

LoopTranslator::LoopTranslator(const CaptureRequest& request)
    : request_(request),
      session_(text_of(request.view->code()->co_qualname), varied_, request.frontends),
      executor_(session_, request.options),
      program_(std::make_shared<LoopProgram>()),
      cfg_(program_->cfg),
      head_(request.entry),
      last_(last_of_nest(*request.view, request.entry)) {
  varied_.all = true;
  if (request.varied) varied_.names = request.varied->names;
  for (int k = 0; k < request.view->local_count(); ++k) varied_.names.insert(text_of(request.view->local_name(k)));
}

LoopTranslator::LoopTranslator(const CaptureRequest& request, Kind result) : LoopTranslator(request) {
  is_recursion_ = true;
  result_ = result;
  last_ = static_cast<uint32_t>(request.view->instrs().size() - 1);
}

LoopTranslator::~LoopTranslator() = default;

void LoopTranslator::give_up(std::string why) const { throw GivenUp{std::move(why)}; }

bool LoopTranslator::in_nest(uint32_t pc) const { return head_ <= pc && pc <= last_; }

// Nodes.

cfg::Id LoopTranslator::add(cfg::Node node) {
  const cfg::Id id = cfg_.add(node);
  cfg_.blocks[block_].nodes.push_back(id);
  return id;
}

cfg::Id LoopTranslator::at_entry(cfg::Node node) {
  const cfg::Id id = cfg_.add(node);
  cfg_.blocks[0].nodes.push_back(id);
  return id;
}

cfg::Id LoopTranslator::op(cfg::Op op, cfg::Type type, cfg::Id a, cfg::Id b, cfg::Id c) {
  cfg::Node n;
  n.op = op;
  n.type = type;
  n.args[0] = a;
  n.args[1] = b;
  n.args[2] = c;
  return add(n);
}

cfg::Id LoopTranslator::exact(cfg::Op op, cfg::Id a, cfg::Id b) {
  cfg::Node n;
  n.op = op;
  n.type = cfg::Type::I64;
  n.args[0] = a;
  n.args[1] = b;
  n.exit = exit();
  return add(n);
}

cfg::Id LoopTranslator::input(cfg::Op op, int64_t which) {
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

cfg::Id LoopTranslator::integer(int64_t value) {
  const auto [at, first] = integers_.emplace(value, cfg::kNone);
  if (first) {
    cfg::Node n;
    n.type = cfg::Type::I64;
    n.imm = value;
    at->second = at_entry(n);
  }
  return at->second;
}

cfg::Id LoopTranslator::number(double value) {
  cfg::Node n;
  n.type = cfg::Type::F64;
  n.imm = std::bit_cast<int64_t>(value);
  return at_entry(n);
}

cfg::Id LoopTranslator::call(const cfg::Function& function, cfg::Id a, cfg::Id b) {
  cfg::Node n;
  n.op = cfg::Op::Call;
  n.type = function.result;
  n.function = &function;
  n.args[0] = a;
  n.args[1] = b;
  return add(n);
}

void LoopTranslator::check(cfg::Id condition) {
  if (cfg_.is_const(condition) && cfg_.at(condition).imm != 0) return;
  cfg::Node n;
  n.op = cfg::Op::Check;
  n.args[0] = condition;
  n.exit = exit();
  add(n);
}

void LoopTranslator::check_finite(cfg::Id value) {
  cfg::Node n;
  n.op = cfg::Op::CheckFinite;
  n.args[0] = value;
  n.exit = exit();
  add(n);
}

void LoopTranslator::flush_pending() {
  for (const cfg::Id id : std::exchange(pending_, {})) check_finite(id);
}

// Checkpoints and exits.

bool LoopTranslator::can_make(const Typed& v) const {
  if (v.kind == Kind::Tuple || v.kind == Kind::Iterator || v.kind == Kind::Joint)
    return std::all_of(v.items.begin(), v.items.end(), [&](const Typed& i) { return can_make(i); });
  return v.kind != Kind::Object || v.slot != -1 || v.value->source || v.value->is_constant();
}

void LoopTranslator::take_checkpoint(bool required) {
  if (state_.frames.size() == 1) {
    const Frame& f = frame();
    const auto makes = [&](const std::vector<Typed>& all) {
      return std::all_of(all.begin(), all.end(), [&](const Typed& v) { return can_make(v); });
    };
    if (f.view->instrs()[f.pc].boundary && makes(f.stack) && makes(f.locals)) {
      state_.checkpoint =
          std::make_shared<Checkpoint>(Checkpoint{f.pc, f.locals, f.stack, state_.attributes, -1, ++checkpoints_});
      return;
    }
  }
  if (required) state_.checkpoint = nullptr;
}

uint32_t LoopTranslator::fetched(const SourceRef& source) {
  for (uint32_t i = 0; i < program_->fetched.size(); ++i)
    if (same(*program_->fetched[i], *source)) return i;
  program_->fetched.push_back(source);
  return static_cast<uint32_t>(program_->fetched.size() - 1);
}

uint32_t LoopTranslator::object_of(LoopExit& exit, std::vector<cfg::Id>& values, Origins& made, const Typed& v) {
  using Made = LoopObject::Kind;
  if (const auto at = made.find(v.origin); v.origin != 0 && at != made.end()) {
    FRAMEJIT_CHECK(std::equal(v.ids.begin(), v.ids.end(), values.begin() + exit.objects[at->second].value),
                   "one object, two values");
    return static_cast<uint32_t>(at->second);
  }
  LoopObject o;
  o.value = static_cast<uint32_t>(values.size());
  o.dtype = v.dtype;
  values.insert(values.end(), v.ids.begin(), v.ids.end());
  switch (v.kind) {
    case Kind::Unbound:
    case Kind::Null: o.kind = Made::Null; break;
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
    case Kind::Complex: o.kind = Made::Complex; break;
    case Kind::ComplexScalar: o.kind = Made::ComplexScalar; break;
    case Kind::View:
      o.kind = Made::View;
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
    case Kind::Tuple:
      o.kind = Made::Tuple;
      for (const Typed& item : v.items) o.parts.push_back(object_of(exit, values, made, item));
      break;
  }
  if (v.origin != 0) made.emplace(v.origin, exit.objects.size());
  exit.objects.push_back(std::move(o));
  return static_cast<uint32_t>(exit.objects.size() - 1);
}

uint32_t LoopTranslator::exit_at(Checkpoint& c, std::string why) {
  LoopExit exit;
  std::vector<cfg::Id> values;
  Origins made;
  exit.instr = c.pc;
  exit.line = request_.view->instrs()[c.pc].line;
  exit.why = std::move(why);
  exit.early = in_nest(c.pc);
  for (std::size_t k = 0; k < c.locals.size(); ++k) {
    const Typed& v = c.locals[k];
    if (v.kind == Kind::Object && v.slot == static_cast<int>(k)) continue;
    if (v.kind == Kind::Unbound && (imagined_graph_ || !request_.frame.locals[static_cast<int64_t>(k)])) continue;
    stored_[k] = true;
    exit.locals.emplace_back(static_cast<int>(k), object_of(exit, values, made, v));
  }
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
  program_->exits.push_back(std::move(exit));
  cfg_.exits.push_back({std::move(values)});
  return static_cast<uint32_t>(cfg_.exits.size() - 1);
}

uint32_t LoopTranslator::exit() {
  if (!state_.checkpoint) give_up("something may fail behind a store whose state cannot be kept");
  Checkpoint& c = *state_.checkpoint;
  if (c.exit < 0) c.exit = static_cast<int>(exit_at(c, {}));
  return static_cast<uint32_t>(c.exit);
}

void LoopTranslator::leave(std::string why) {
  flush_pending();
  if (!state_.checkpoint) give_up(std::move(why));
  if (first_why_.empty()) {
    first_why_ = why;
    const Frame& outer = state_.frames.front();
    first_line_ = outer.view->instrs()[std::min<std::size_t>(outer.pc, outer.view->instrs().size() - 1)].line;
  }
  cfg::Block& b = cfg_.blocks[block_];
  b.end = cfg::Block::End::Leave;
  b.exit = exit_at(*state_.checkpoint, std::move(why));
  ended_ = true;
}

// Blocks.

void LoopTranslator::append_key(std::string& key, const Typed& v, Origins& origins) const {
  key += static_cast<char>('a' + static_cast<int>(v.kind));
  const auto number = [&key](int64_t n) { key += std::to_string(n) + ","; };
  if (v.origin != 0) {
    const auto [at, first] = origins.emplace(v.origin, origins.size());
    if (!first) key += "=" + std::to_string(at->second);
  }
  switch (v.kind) {
    case Kind::Object:
      number(static_cast<int64_t>(reinterpret_cast<uintptr_t>(v.value)));
      number(v.slot);
      break;
    case Kind::Int: key += v.natural ? '+' : '-'; break;
    case Kind::Scalar:
      key += v.natural ? '+' : '-';
      number(static_cast<int>(v.dtype));
      break;
    case Kind::View:
      number(v.array);
      number(static_cast<int64_t>(v.ids.size()));
      break;
    case Kind::Range: key += v.natural ? '+' : '-'; break;
    case Kind::RangeIterator:
      key += v.natural ? '+' : '-';
      number(v.slot);
      number(v.object);
      break;
    case Kind::List: key += v.holds + ","; break;
    case Kind::Iterator:
    case Kind::Joint:
      number(v.slot);
      number(v.object);
      key += v.holds;
      for (const Typed& i : v.items) append_key(key, i, origins);
      key += ".";
      break;
    case Kind::Tuple:
      number(static_cast<int64_t>(v.items.size()));
      for (const Typed& i : v.items) append_key(key, i, origins);
      break;
    default: break;
  }
}

std::string LoopTranslator::key_of(const State& state) const {
  std::string key;
  Origins origins;
  for (const Frame& f : state.frames) {
    key += std::to_string(reinterpret_cast<uintptr_t>(f.view.get())) + "@" + std::to_string(f.pc) + ":";
    for (const Typed& v : f.locals) append_key(key, v, origins);
    key += "|";
    for (const Typed& v : f.stack) append_key(key, v, origins);
    key += ";";
  }
  for (const auto& [of, attribute] : state.attributes) {
    key += std::to_string(reinterpret_cast<uintptr_t>(of.first)) + "." + of.second + ":";
    append_key(key, attribute.value, origins);
  }
  key += std::to_string(state.checkpoint ? state.checkpoint->number : 0);
  return key;
}

namespace {

/// Calls f for what makes up the value, and for what makes up its items.
template <class F>
void for_each_part(Typed& v, F&& f) {
  f(v);
  for (Typed& i : v.items) for_each_part(i, f);
}

}  // namespace

/// How many loops of the outermost frame an instruction is in.
uint32_t LoopTranslator::level_of(uint32_t pc) {
  const CodeView& view = *request_.view;
  if (loops_.empty())
    for (uint32_t i = head_; i <= last_; ++i)
      if (is_loop_head(view, i)) loops_.emplace_back(i, last_of_nest(view, i));
  return static_cast<uint32_t>(std::count_if(loops_.begin(), loops_.end(),
                                             [&](const auto& loop) { return loop.first <= pc && pc <= loop.second; }));
}

cfg::Edge LoopTranslator::edge_to(State state) {
  Frame& f = state.frames.back();
  const auto makes = [&](const std::vector<Typed>& all) {
    return std::all_of(all.begin(), all.end(), [&](const Typed& v) { return can_make(v); });
  };
  // Such a block has a checkpoint of its own.
  const bool keeps = state.frames.size() == 1 && f.view->instrs()[f.pc].boundary && makes(f.stack) && makes(f.locals);
  if (keeps) state.checkpoint = nullptr;
  const auto [at, first] = blocks_.emplace(key_of(state), static_cast<uint32_t>(cfg_.blocks.size()));
  cfg::Edge edge;
  edge.block = at->second;
  // Variables that hold one object share a parameter.
  const auto for_each = [&state](auto&& visit) {
    std::set<int64_t> seen;
    for (Frame& frame : state.frames)
      for (std::vector<Typed>* all : {&frame.locals, &frame.stack})
        for (Typed& v : *all)
          for_each_part(v, [&](Typed& part) { visit(part, part.origin == 0 || seen.insert(part.origin).second); });
    for (auto& [key, attribute] : state.attributes) {
      Typed& v = attribute.value;
      visit(v, v.origin == 0 || seen.insert(v.origin).second);
    }
  };
  std::map<int64_t, std::vector<cfg::Id>> values;
  for_each([&](Typed& part, bool alone) {
    if (part.origin != 0)
      FRAMEJIT_CHECK(values.emplace(part.origin, part.ids).first->second == part.ids, "one object, two values");
    if (alone) edge.args.insert(edge.args.end(), part.ids.begin(), part.ids.end());
  });
  if (!first) return edge;
  if (cfg_.blocks.size() >= kMostBlocks) give_up("its code would become too long");
  begins_at_.resize(cfg_.blocks.size() + 1, cfg::kNone);
  if (state.frames.size() == 1) begins_at_.back() = f.pc;
  if (state.frames.size() == 1 && ++versions_[f.pc] > kMostVersions)
    give_up("its variables have too many combinations of types");
  cfg_.blocks.emplace_back();
  cfg_.blocks.back().level = level_of(state.frames.front().pc);
  std::map<int64_t, std::vector<cfg::Id>> shared;
  for_each([&](Typed& part, bool alone) {
    if (alone)
      for (cfg::Id& id : part.ids) id = cfg_.add_param(edge.block, cfg_.at(id).type);
    if (part.origin != 0) part.ids = shared.emplace(part.origin, part.ids).first->second;
  });
  // Later rounds bring other objects.
  std::map<int64_t, int64_t> renamed;
  for_each([&](Typed& part, bool) {
    if (part.origin == 0) return;
    int64_t& fresh = renamed[part.origin];
    if (fresh == 0) fresh = ++origins_;
    part.origin = fresh;
  });
  open_.push_back({std::move(state), edge.block});
  return edge;
}

void LoopTranslator::jump(uint32_t target) {
  flush_pending();
  if (target <= frame().pc) {
    cfg::Node poll;
    poll.op = cfg::Op::Poll;
    poll.exit = exit();
    add(poll);
  }
  frame().pc = target;
  const cfg::Edge edge = edge_to(state_);
  cfg::Block& b = cfg_.blocks[block_];
  b.end = cfg::Block::End::Jump;
  b.to[0] = edge;
  ended_ = true;
}

void LoopTranslator::branch(cfg::Id condition, uint32_t yes, uint32_t no) {
  if (cfg_.is_const(condition)) return jump(cfg_.at(condition).imm ? yes : no);
  flush_pending();
  if (yes <= frame().pc || no <= frame().pc) {
    cfg::Node poll;
    poll.op = cfg::Op::Poll;
    poll.exit = exit();
    add(poll);
  }
  State other = state_;
  other.frames.back().pc = no;
  frame().pc = yes;
  const cfg::Edge first = edge_to(state_), second = edge_to(std::move(other));
  cfg::Block& b = cfg_.blocks[block_];
  b.end = cfg::Block::End::Branch;
  b.condition = condition;
  b.to[0] = first;
  b.to[1] = second;
  ended_ = true;
}

void LoopTranslator::translate(Given given) {
  state_ = std::move(given.state);
  block_ = given.block;
  ended_ = false;
  pending_.clear();
  if (!state_.checkpoint) take_checkpoint(false);
  for (const cfg::Id condition : std::exchange(entry_checks_, {})) check(condition);
  for (bool first = true; !ended_; first = false) {
    Frame& f = frame();
    if (f.pc >= f.view->instrs().size()) give_up("the end of the code");
    const Instr& instr = f.view->instrs()[f.pc];
    std::vector<bool>& targets = targets_[f.view.get()];
    if (targets.empty()) {
      targets.assign(f.view->instrs().size() + 1, false);
      for (const Instr& i : f.view->instrs()) {
        const std::string_view name = name_of(i.op);
        if (i.op == Opcode::Jump || i.op == Opcode::ForIter || name.starts_with("PopJump") ||
            name.starts_with("JumpIf"))
          targets[static_cast<std::size_t>(i.arg)] = true;
      }
    }
    if (!first && targets[f.pc]) {
      flush_pending();
      const cfg::Edge edge = edge_to(state_);
      cfg_.blocks[block_].end = cfg::Block::End::Jump;
      cfg_.blocks[block_].to[0] = edge;
      return;
    }
    if (state_.frames.size() == 1 && !in_nest(f.pc)) {
      flush_pending();
      take_checkpoint(false);
      if (state_.checkpoint && state_.checkpoint->pc == f.pc) {
        cfg_.blocks[block_].end = cfg::Block::End::Leave;
        cfg_.blocks[block_].exit = exit_at(*state_.checkpoint, {});
        return;
      }
    }
    if (++steps_ > kMostSteps) give_up("its code would become too long");
    try {
      step(instr);
    } catch (const NotCompiled& reason) {
      if (reason.on_array && !array_work_) array_work_ = state_.frames.front().pc;
      leave(reason.why);
    }
  }
}

// Instructions.

Typed LoopTranslator::pop() {
  Typed v = std::move(frame().stack.back());
  frame().stack.pop_back();
  return v;
}

Typed LoopTranslator::pop_known() { return known(pop()); }

void LoopTranslator::step(const Instr& i) {
  Frame& f = frame();
  const auto next = [&] { frame().pc = frame().view->behind(frame().pc); };
  const auto target = static_cast<uint32_t>(i.arg);
  const uint32_t behind = f.view->behind(f.pc);
  switch (i.op) {
    case Opcode::Nop:
    case Opcode::Resume:
    case Opcode::EndFor: return next();
    case Opcode::PushNull: {
      Typed null;
      null.kind = Kind::Null;
      push(std::move(null));
      return next();
    }
    case Opcode::PopTop: {
      const Typed v = pop();
      next();
      return give_back(v);
    }
    case Opcode::PopIter: {
      for (int k = 1; k < py::kIteratorSlots; ++k) pop();
      const Typed v = pop();
      next();
      return give_back(v);
    }
    case Opcode::Copy: push(f.stack[f.stack.size() - static_cast<std::size_t>(i.arg)]); return next();
    case Opcode::Swap:
      std::swap(f.stack.back(), f.stack[f.stack.size() - static_cast<std::size_t>(i.arg)]);
      return next();
    case Opcode::LoadConst: push(literal(f.view->constant(i.arg))); return next();
    case Opcode::LoadFast:
    case Opcode::LoadFastCheck: {
      const Typed& v = f.locals[static_cast<std::size_t>(i.arg)];
      if (v.kind == Kind::Unbound) throw NotCompiled{"a variable that is not bound"};
      if (v.kind == Kind::Object && v.slot >= 0 && v.value->kind == ValueKind::Lazy)
        guard(executor_, GuardKind::Bound, v.value->source);
      push(v);
      return next();
    }
    case Opcode::StoreFast: {
      Typed v = pop();
      if (v.kind == Kind::Null) throw NotCompiled{"a variable that is unbound again"};
      if (v.is_iterator()) throw NotCompiled{kHeldIterator};
      if (state_.frames.size() == 1) stored_[static_cast<std::size_t>(i.arg)] = true;
      frame().locals[static_cast<std::size_t>(i.arg)] = std::move(v);
      return next();
    }
    case Opcode::LoadDeref: {
      const Typed& cell = f.locals[static_cast<std::size_t>(i.arg)];
      if (cell.kind != Kind::Object || !cell.value->source || !PyCell_Check(cell.value->object.get()))
        throw NotCompiled{"a variable of a function around it", imagined_graph_ != nullptr};
      Value* made = cell_of(executor_, cell.value->object.get(), cell.value->source);
      if (made->items.empty()) throw NotCompiled{"a variable that is not bound"};
      Typed v;
      v.kind = Kind::Object;
      v.value = made->items[0];
      guard(executor_, GuardKind::Bound, v.value->source);
      push(std::move(v));
      return next();
    }
    case Opcode::LoadGlobal: {
      Captured<Value*> v = load_global(executor_, f.globals, f.builtins, f.view->name(i.arg));
      if (!v) throw NotCompiled{"a global that is not there"};
      Typed made;
      made.kind = Kind::Object;
      made.value = look(executor_, *v);
      Typed null;
      null.kind = Kind::Null;
      if (i.flag && !py::kNullBehindCallable) push(null);
      push(std::move(made));
      if (i.flag && py::kNullBehindCallable) push(null);
      return next();
    }
    case Opcode::LoadAttr: push(get_attr(pop_known(), f.view->name(i.arg))); return next();
    case Opcode::StoreAttr: {
      const Typed of = pop_known(), value = pop_known();
      store_attribute(of, f.view->name(i.arg), value);
      return next();
    }
    case Opcode::LoadMethod: {
      if (load_method(frame().stack.back(), f.view->name(i.arg))) return next();
      Typed v = get_attr(pop_known(), f.view->name(i.arg));
      Typed null;
      null.kind = Kind::Null;
      if (!py::kNullBehindCallable) push(null);
      push(std::move(v));
      if (py::kNullBehindCallable) push(null);
      return next();
    }
    case Opcode::BinarySubscr: {
      const Typed key = pop_known(), container = pop_known();
      push(get_item(container, key));
      return next();
    }
    case Opcode::StoreSubscr: {
      const Typed key = pop_known(), container = pop_known(), value = pop_known();
      set_item(container, key, value);
      next();
      return take_checkpoint(true);
    }
    case Opcode::UnaryPositive:
    case Opcode::UnaryNegative:
    case Opcode::UnaryInvert: push(unary(i.op, pop_known())); return next();
    case Opcode::UnaryNot:
      push(of_bool(op(cfg::Op::Eq, cfg::Type::I64, truth(pop_known()), integer(0))));
      return next();
    case Opcode::ToBool: push(of_bool(truth(pop_known()))); return next();
    case Opcode::BinaryOp: {
      const Typed b = pop_known(), a = pop_known();
      push(binary(i.arg, a, b));
      return next();
    }
    case Opcode::CompareOp: {
      const Typed b = pop_known(), a = pop_known();
      Typed result = compare(i.arg, a, b);
      push(i.flag ? of_bool(truth(result)) : std::move(result));
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
      const Typed container = pop_known(), item = pop_known();
      const cfg::Id found = contains(container, item);
      push(of_bool(i.arg == 1 ? op(cfg::Op::Eq, cfg::Type::I64, found, integer(0)) : found));
      return next();
    }
    case Opcode::BuildTuple: {
      Typed tuple;
      tuple.kind = Kind::Tuple;
      tuple.items.assign(std::make_move_iterator(f.stack.end() - i.arg), std::make_move_iterator(f.stack.end()));
      f.stack.resize(f.stack.size() - static_cast<std::size_t>(i.arg));
      for (const Typed& item : tuple.items)
        if (item.is_iterator()) throw NotCompiled{kHeldIterator};
      push(std::move(tuple));
      return next();
    }
    case Opcode::UnpackSequence: {
      const Typed v = pop_known();
      if (v.kind != Kind::Tuple || static_cast<int>(v.items.size()) != i.arg)
        throw NotCompiled{"unpacking of what is no tuple"};
      for (std::size_t k = v.items.size(); k-- > 0;) push(v.items[k]);
      return next();
    }
    case Opcode::Jump: return jump(target);
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue: {
      const cfg::Id condition = truth(pop_known());
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
      const Typed v = known(f.stack.back());
      const cfg::Id condition = truth(v);
      flush_pending();
      State jumps = state_, falls = state_;
      jumps.frames.back().pc = target;
      falls.frames.back().pc = behind;
      falls.frames.back().stack.pop_back();
      const bool yes = i.op == Opcode::JumpIfTrueOrPop;
      const cfg::Edge first = edge_to(yes ? jumps : falls), second = edge_to(yes ? falls : jumps);
      cfg::Block& b = cfg_.blocks[block_];
      b.end = cfg::Block::End::Branch;
      b.condition = condition;
      b.to[0] = first;
      b.to[1] = second;
      ended_ = true;
      return;
    }
    case Opcode::GetIter: get_iter(); return next();
    case Opcode::ForIter:
      switch (f.stack[f.stack.size() - py::kIteratorSlots].kind) {
        case Kind::Iterator:
        case Kind::Joint: return for_item(i);
        default: return for_iter(i);
      }
    case Opcode::Call: return do_call(i);
    case Opcode::ReturnValue:
      if (is_recursion_ && state_.frames.size() == 1) return return_from_recursion(known(f.stack.back()));
      return do_return(pop());
    case Opcode::ReturnConst:
      if (is_recursion_ && state_.frames.size() == 1) return return_from_recursion(literal(f.view->constant(i.arg)));
      return do_return(literal(f.view->constant(i.arg)));
    default: throw NotCompiled{"the instruction " + std::string(name_of(i.op))};
  }
}

// The whole.

/// An iterator that is there at the entry, of a kind whose position the loop keeps in registers; nothing for others.
std::optional<Typed> LoopTranslator::iterator_at_entry(PyObject* o, const SourceRef& source) {
  const auto node = [&](cfg::Op op, cfg::Id a, cfg::Id b) {
    cfg::Node n;
    n.op = op;
    n.type = cfg::Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    return at_entry(n);
  };
  const auto guarded = [&](Typed::Kind kind) {
    guard(executor_, GuardKind::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(o)));
    Typed v;
    v.kind = kind;
    v.object = static_cast<int>(fetched(source));
    for (const auto& [before, of] : iterators_)
      entry_checks_.push_back(node(cfg::Op::Ne, input(cfg::Op::Object, v.object), input(cfg::Op::Object, of)));
    iterators_.emplace(o, v.object);
    return v;
  };
  const auto field = [&](const Typed& v, int offset) {
    cfg::Node n;
    n.op = cfg::Op::Load;
    n.type = cfg::Type::I64;
    n.args[0] = input(cfg::Op::Object, v.object);
    n.imm = offset;
    return at_entry(n);
  };
  const auto now = [o](int offset) {
    int64_t value;
    std::memcpy(&value, reinterpret_cast<const char*>(o) + offset, sizeof value);
    return value;
  };
  if (iterators_.count(o) != 0) return std::nullopt;  // what one takes from it the other would not miss
  const auto inside = [&] {
    auto of = std::make_shared<Source>();
    of->kind = SourceKind::Self;
    of->base = source;
    return of;
  };
  if (Py_IS_TYPE(o, &PyRangeIter_Type)) {
    Typed v = guarded(Kind::RangeIterator);
    cfg::Id next = field(v, py::kRangeStart), left = field(v, py::kRangeLength);
    const cfg::Id step = field(v, py::kRangeStep);
    if constexpr (py::kRangeIndex >= 0) {
      const cfg::Id done = field(v, py::kRangeIndex);
      next = node(cfg::Op::Add, next, node(cfg::Op::Mul, done, step));
      left = node(cfg::Op::Sub, left, done);
    }
    v.ids = {next, left, step};
    if (now(py::kRangeStart) >= 0 && now(py::kRangeStep) > 0) {
      v.natural = true;
      entry_checks_.push_back(node(cfg::Op::Le, integer(0), next));
      entry_checks_.push_back(node(cfg::Op::Lt, integer(0), step));
    }
    return v;
  }
  if (PyObject* sequence = py::sequence_of(o)) {
    Typed object;
    object.kind = Kind::Object;
    object.value = lazy(executor_, sequence, inside());
    Typed over = known(object);
    if (const Typed* array = array_of(over)) over = *array;
    else if (const std::optional<Typed> list = list_of(over)) over = *list;
    if (over.kind == Kind::Object) return std::nullopt;
    Typed v = guarded(Kind::Iterator);
    v.natural = true;
    v.ids = {field(v, py::kIteratorIndex)};
    v.items = {std::move(over)};
    return v;
  }
  PyObject* from = py::taken_from(o);
  if (!from) return std::nullopt;
  Typed joint = guarded(Kind::Joint);
  if (Py_IS_TYPE(o, &PyEnum_Type)) {
    if (now(py::kEnumerateLong) != 0) return std::nullopt;
    std::optional<Typed> counted = iterator_at_entry(from, inside());
    if (!counted) return std::nullopt;
    entry_checks_.push_back(node(cfg::Op::Eq, field(joint, py::kEnumerateLong), integer(0)));
    Typed number;
    number.kind = Kind::Iterator;
    number.object = joint.object;
    number.ids = {field(joint, py::kIteratorIndex)};
    joint.holds = "e";
    joint.items = {std::move(number), std::move(*counted)};
    return joint;
  }
  guard(executor_, GuardKind::Length, inside(), nullptr, nullptr, PyTuple_GET_SIZE(from));
  joint.holds = "z";
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(from); ++k) {
    auto item = std::make_shared<Source>();
    item->kind = SourceKind::Item;
    item->base = inside();
    item->index = static_cast<int>(k);
    std::optional<Typed> part = iterator_at_entry(PyTuple_GET_ITEM(from, k), item);
    if (!part) return std::nullopt;
    joint.items.push_back(std::move(*part));
  }
  return joint.items.empty() ? std::nullopt : std::optional(joint);
}

void LoopTranslator::enter(State& state) {
  Frame f{request_.view, request_.frame.globals, request_.frame.builtins, request_.entry, {}, {}};
  const CodeView& view = *request_.view;
  std::vector<bool> assigned(static_cast<std::size_t>(view.local_count()), false);
  for (uint32_t i = head_; i <= last_; ++i)
    if (view.instrs()[i].op == Opcode::StoreFast) assigned[static_cast<std::size_t>(view.instrs()[i].arg)] = true;
  stored_.assign(assigned.size(), false);
  const auto object = [&](PyObject* o, SourceRef source, int slot) {
    Typed v;
    v.kind = Kind::Object;
    v.value = lazy(executor_, o, std::move(source));
    v.slot = slot;
    return v;
  };
  cfg_.blocks.emplace_back();
  for (int k = 0; k < request_.frame.local_count; ++k) {
    PyObject* o = request_.frame.locals[k];
    if (!o) {
      f.locals.emplace_back();
      continue;
    }
    Typed v = object(o, slot_source(SourceKind::Local, k, text_of(view.local_name(k))), k);
    // One version of the loop, not one for its first round and one for the others.
    if (assigned[static_cast<std::size_t>(k)] &&
        (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) || PyComplex_CheckExact(o)))
      if (Typed number = known(v); number.is_single()) v = std::move(number);
    f.locals.push_back(std::move(v));
  }
  for (int k = 0; k < request_.frame.depth; ++k) {
    PyObject* o = request_.frame.stack[k];
    const int slot = -2 - k;
    if (!o) {
      Typed null;
      null.kind = Kind::Null;
      null.slot = slot;
      f.stack.push_back(std::move(null));
      continue;
    }
    const SourceRef source = slot_source(SourceKind::Stack, k, "");
    // Others belong to loops around the nest, which may go over the same object: they stay where they are.
    if (view.instrs()[head_].op == Opcode::ForIter && k == request_.frame.depth - py::kIteratorSlots) {
      if (std::optional<Typed> iterator = iterator_at_entry(o, source)) {
        iterator->slot = slot;
        f.stack.push_back(std::move(*iterator));
        continue;
      }
    }
    f.stack.push_back(object(o, source, slot));
  }
  state.frames.push_back(std::move(f));
}

/// False: it cannot be compiled at all, and `given_up_` says why.
bool LoopTranslator::translate_all(State start) {
  try {
    const cfg::Edge first = edge_to(std::move(start));
    cfg_.blocks[0].end = cfg::Block::End::Jump;
    cfg_.blocks[0].to[0] = first;
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
  const CodeView& view = *request_.view;
  std::map<uint32_t, std::vector<uint32_t>> heads;  // the blocks that begin at the head of a loop
  for (uint32_t b : cfg::shape_of(cfg_).order)
    if (b < begins_at_.size() && begins_at_[b] != cfg::kNone && in_nest(begins_at_[b]) &&
        is_loop_head(view, begins_at_[b]))
      heads[begins_at_[b]].push_back(b);
  const auto returns = [&](uint32_t head) {
    const auto is_around = [&](uint32_t b) {
      const uint32_t at = b < begins_at_.size() ? begins_at_[b] : cfg::kNone;
      return at < head && heads.count(at) != 0 && last_of_nest(view, at) >= head;
    };
    std::vector<uint32_t> open = heads[head];
    std::vector<bool> seen(cfg_.blocks.size(), false);
    while (!open.empty()) {
      const cfg::Block& block = cfg_.blocks[open.back()];
      open.pop_back();
      for (int k = 0; k < block.successors(); ++k) {
        const uint32_t to = block.to[k].block;
        if (to < begins_at_.size() && begins_at_[to] == head) return true;
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
  const std::span<const Instr> instrs = request_.view->instrs();
  const auto stays = [&](std::string why, int line) {
    Break b{BreakId::ElementLoop, std::move(why)};
    b.instr = head_;
    b.function = text_of(request_.view->code()->co_qualname);
    b.file = text_of(request_.view->code()->co_filename);
    b.line = line > 0 ? line : instrs[head_].line;
    return Unexpected<Break>{std::move(b)};
  };
  State start;
  try {
    enter(start);
    if (is_recursion_) enter_recursion(start);
  } catch (const NotCompiled& reason) {
    return stays(reason.why, 0);
  }
  if (!translate_all(std::move(start))) return stays(given_up_, first_line_);
  if (session_.has_overlap()) return stays("arrays that overlap", 0);
  if (is_recursion_) {
    if (std::string why = finish_recursion(); !why.empty()) return stays(std::move(why), first_line_);
  } else if (!goes_round()) {
    return stays(first_why_.empty() ? "it never goes round" : first_why_, first_line_);
  }
  for (uint32_t i = head_; i <= last_; ++i) {
    const int line = instrs[i].line;
    if (line <= 0) continue;
    program_->line = program_->line > 0 ? std::min(program_->line, line) : line;
    program_->last_line = std::max(program_->last_line, line);
  }
  auto region = std::make_shared<Region>();
  region->function = text_of(request_.view->code()->co_qualname);
  region->view = request_.view;
  region->entry = request_.entry;
  region->exit = request_.entry;
  region->globals = Ref<>::share(request_.frame.globals);
  region->builtins = Ref<>::share(request_.frame.builtins);
  region->guards = session_.guards();
  region->inputs = session_.inputs();
  written_.resize(region->inputs.size());
  for (std::size_t i = 0; i < region->inputs.size(); ++i)
    if (written_[i]) {
      region->inputs[i].spec.writeable = true;
      region->guards[region->inputs[i].guard].array.writeable = true;
    }
  for (std::size_t k = 0; k < stored_.size(); ++k)
    if (stored_[k]) region->overwritten.push_back(static_cast<int>(k));
  region->kept = static_cast<uint32_t>(request_.frame.depth);
  for (const LoopExit& e : program_->exits) region->kept = std::min(region->kept, static_cast<uint32_t>(e.kept));
  region->graph = std::make_unique<graph::Graph>(std::move(session_.graph()));
  region->loop = std::move(program_);
  return region;
}

Expected<std::shared_ptr<Region>, Break> capture_loop(const CaptureRequest& request) {
  return LoopTranslator(request).run();
}

}  // namespace framejit::capture
