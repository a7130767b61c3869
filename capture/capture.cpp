// The entry point: sets up the outermost frame, keeps the states it may go back to, and ends the region.
#include <algorithm>
#include <map>

#include "capture/objects.h"
#include "capture/py/repr.h"
#include "capture/region_builder.h"
#include "capture/symbolic_frame.h"

namespace framejit::capture {

namespace {

/// The state of the outermost frame at a boundary: a region may end there if everything in the state can be made again.
/// That is found out when a break needs it (`can_leave` looks at the whole state), not at each boundary.
struct Checkpoint {
  uint32_t pc;
  int64_t executed;  // instructions of the outermost frame before it
  std::vector<Value*> locals, stack;
  Session::Mark mark;
};

constexpr std::size_t kMostBoundaries = 512;

/// Instructions that only push what is there: the bytecode does them faster than a region hands their values over.
bool only_loads(Opcode op) {
  switch (op) {
    case Opcode::LoadFast:
    case Opcode::LoadConst:
    case Opcode::LoadGlobal:
    case Opcode::LoadDeref:
    case Opcode::PushNull: return true;
    default: return false;
  }
}

/// Does the graph do work on arrays? Views and arithmetic of Python numbers alone are not worth a region.
bool is_worthwhile(const graph::Graph& graph) {
  bool works = false;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    const graph::OpClass cls = graph::def(node.op).cls;
    // NumPy makes an array of equal numbers by several calls.
    works = works || (node.op == graph::Op::Full && node.type.rank() > 0);
    if (cls == graph::OpClass::Source || cls == graph::OpClass::View) return;
    works = works || cls == graph::OpClass::Write || node.type.rank() > 0;
    for (graph::ValueId input : node.inputs) works = works || graph.type(input).rank() > 0;
  });
  return works;
}

/// Does a call that makes views run so much Python code, as np.split does, that it takes longer than to enter a region?
bool follows_much(const graph::Graph& graph, const Executor& x) {
  constexpr uint64_t kMuch = 50, kLibraryCall = 50;  // instructions
  bool views = false;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    views = views || (graph::def(node.op).cls == graph::OpClass::View && node.type.rank() > 0);
  });
  return views && x.steps + kLibraryCall * x.library_calls >= kMuch;
}

/// Is there a node that computes something, if only a number?
bool computes(const graph::Graph& graph) {
  bool found = false;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::OpClass cls = graph::def(graph.node(v).op).cls;
    found = found || (cls != graph::OpClass::Source && cls != graph::OpClass::View);
  });
  return found;
}

/// Does it give a Tensor that it computes? An operation on one takes its time for a single element too.
bool gives_tensors(const Region& region) {
  const graph::Graph& graph = *region.graph;
  return std::any_of(region.recipes.begin(), region.recipes.end(), [&graph](const Recipe& r) {
    if (r.kind != Recipe::Kind::Result || r.wrap != Wrap::Tensor || r.index >= graph.results().size()) return false;
    const graph::OpClass cls = graph::def(graph.node(graph.root(graph.results()[r.index])).op).cls;
    return cls != graph::OpClass::Source && cls != graph::OpClass::View;
  });
}

/// Do the nodes from `first` on read and write single elements only?
bool works_on_elements(const graph::Graph& graph, std::size_t first) {
  for (std::size_t i = first; i < graph.value_count(); ++i)
    if (is_array_work(graph, graph::ValueId{static_cast<uint32_t>(i)})) return false;
  return true;
}

class RegionCapture {
 public:
  RegionCapture(const CaptureRequest& request, bool one_round)
      : request_(request),
        one_round_(one_round),
        no_varied_{},
        session_(text_of(request.view->code()->co_name), request.varied ? *request.varied : no_varied_,
                 request.frontends, request.options.o1),
        executor_(session_, request.options),
        frame_(executor_, request.view, request.frame.globals, request.frame.builtins) {
    executor_.builtins = request.frame.builtins;
    executor_.loops.refused = request.refused_loops;
    executor_.loops.compiled = request.element_loops;
    executor_.loops.bytecode = request.bytecode_loops;
    executor_.calls.begin(request.view->code(), 0);
    frame_.outermost = true;
    frame_.pc = request.entry;
    set_up();
  }

  CaptureOutcome run();
  uint64_t work() const { return executor_.steps + session_.work().done(); }
  /// The break lies in a loop that began at or before the entry: one round of it may still be a region.
  bool wants_one_round() const { return wants_one_round_; }

 private:
  void set_up();
  void checkpoint(int64_t executed);
  void restore(const Checkpoint& c);
  bool can_commit();
  bool can_leave();
  const Checkpoint* last_exit(int64_t executed);
  const Checkpoint* before_loads(const Checkpoint* exit);
  const Checkpoint* loop_entry(uint32_t pc) const;
  std::string longest() const;
  std::optional<Break> element_loop(const Checkpoint& head);
  CaptureOutcome finish(const Checkpoint* at, Value* returned, std::vector<Break> breaks,
                        const Guard* while_holds = nullptr);

  const CaptureRequest& request_;
  bool one_round_;
  bool wants_one_round_ = false;
  Varied no_varied_;
  Session session_;
  Executor executor_;
  SymbolicFrame frame_;
  std::vector<Value*> initial_, initial_stack_;
  std::set<const Value*> hidden_;       // entries of the stack that no object stands for: they stay where they are
  std::vector<Checkpoint> boundaries_;  // that were passed, in order: the last ones, and ever fewer of the earlier ones
  std::map<uint32_t, uint32_t> loops_;  // head: the last instruction that jumps back to it
  std::map<uint32_t, uint32_t> rounds_;
  std::map<uint32_t, Checkpoint> heads_;  // the first arrival at the head of a loop
};

void RegionCapture::set_up() {
  const CodeView& view = *request_.view;
  const FrameView& given = request_.frame;
  for (int i = 0; i < view.local_count(); ++i) {
    PyObject* object = i < given.local_count ? given.locals[i] : nullptr;
    if (!object) continue;
    const SourceRef source = slot_source(SourceKind::Local, i, text_of(view.local_name(i)));
    const bool cell = !request_.is_call && (view.is_cell(i) || view.is_free(i)) && PyCell_Check(object);
    frame_.locals[static_cast<std::size_t>(i)] =
        cell ? cell_of(executor_, object, source) : lazy(executor_, object, source);
  }
  if (!request_.is_call)
    for (const Value* v : frame_.locals) frame_.unbound_at_entry.push_back(v == nullptr);
  for (int i = 0; i < given.depth; ++i) {
    PyObject* object = given.stack[i];
    const SourceRef source = slot_source(SourceKind::Stack, i, {});
    if (!object) {
      // One place can be reached with (NULL, bound method) and with (function, self): LOAD_METHOD pushes either.
      Guard empty{};
      empty.kind = GuardKind::Unbound;
      empty.source = source;
      session_.guards().add(std::move(empty));
    }
    frame_.stack.push_back(object ? lazy(executor_, object, source) : session_.values().make(ValueKind::Null));
    if (given.stack.is_integer(i)) hidden_.insert(frame_.stack.back());
  }
  if (given.function && PyFunction_Check(given.function)) {
    PyObject* closure = reinterpret_cast<PyFunctionObject*>(given.function)->func_closure;
    const Py_ssize_t count = closure ? PyTuple_GET_SIZE(closure) : 0;
    for (Py_ssize_t i = 0; i < count && request_.is_call; ++i) {
      PyObject* cell = PyTuple_GET_ITEM(closure, i);
      const int slot = view.local_count() - static_cast<int>(count) + static_cast<int>(i);
      if (PyCell_Check(cell))
        frame_.closure.push_back(cell_of(
            executor_, cell, slot_source(SourceKind::Closure, static_cast<int>(i), text_of(view.local_name(slot)))));
    }
  }
  initial_ = frame_.locals;
  initial_stack_ = frame_.stack;
  for (uint32_t i = 0; i < view.instrs().size(); ++i) {
    const Instr& instr = view.instrs()[i];
    switch (instr.op) {
      case Opcode::Jump:
      case Opcode::PopJumpIfFalse:
      case Opcode::PopJumpIfTrue:
      case Opcode::PopJumpIfNone:
      case Opcode::PopJumpIfNotNone:
        if (instr.arg >= 0 && static_cast<uint32_t>(instr.arg) <= i) loops_[static_cast<uint32_t>(instr.arg)] = i;
        break;
      default: break;
    }
  }
}

bool RegionCapture::can_commit() {
  if (executor_.has_open_handlers() || session_.flag_rules().any()) return false;
  for (const PendingEffect& e : executor_.effects().log()) {
    if (e.value && !is_materializable(e.value)) return false;
    for (const Value* item : e.items)
      if (!is_materializable(item)) return false;
  }
  return true;
}

bool RegionCapture::can_leave() {
  if (executor_.handled()) return false;
  for (const Value* v : frame_.locals)
    if (v && !is_materializable(v)) return false;
  for (std::size_t i = kept_entries(initial_stack_, frame_.stack); i < frame_.stack.size(); ++i)
    if (!is_materializable(frame_.stack[i]) || hidden_.count(frame_.stack[i]) != 0) return false;
  return can_commit();
}

void RegionCapture::checkpoint(int64_t executed) {
  // A frame of very many locals is copied the more rarely.
  constexpr int64_t kCopied = 256;  // pointers for each instruction
  if (!frame_.current().boundary) return;
  if (!boundaries_.empty() &&
      (executed - boundaries_.back().executed) * kCopied < static_cast<int64_t>(frame_.locals.size()))
    return;
  if (boundaries_.size() == kMostBoundaries) {
    // Every second of the older half goes; the entry stays.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < kMostBoundaries; ++i)
      if (i >= kMostBoundaries / 2 || i % 2 == 0) boundaries_[kept++] = std::move(boundaries_[i]);
    boundaries_.resize(kept);
  }
  boundaries_.push_back({frame_.pc, executed, frame_.locals, frame_.stack, session_.mark()});
  if (loops_.count(frame_.pc)) heads_.try_emplace(frame_.pc, boundaries_.back());
}

/// GET_ITER comes right before the FOR_ITER at `i`, or is followed by what begins a comprehension that is inlined.
bool follows_get_iter(const CodeView& view, uint32_t i) {
  while (i-- > 0) {
    const Instr& instr = view.instrs()[i];
    switch (instr.op) {
      case Opcode::GetIter: return true;
      case Opcode::LoadFastAndClear:
      case Opcode::MakeCell:
      case Opcode::Swap: break;
      case Opcode::BuildList:
      case Opcode::BuildSet:
      case Opcode::BuildMap:
        if (instr.arg == 0) break;
        [[fallthrough]];
      default: return false;
    }
  }
  return false;
}

/// Takes back what was done since.
void RegionCapture::restore(const Checkpoint& c) {
  session_.rollback(c.mark);
  frame_.pc = c.pc;
  frame_.locals = c.locals;
  frame_.stack = c.stack;
}

/// Goes back to the last boundary at which a region may end, no later than `executed`. Null: there is none.
const Checkpoint* RegionCapture::last_exit(int64_t executed) {
  constexpr std::size_t kEach = 64;  // after so many failures they become sparser: each looks at the whole state
  std::size_t failures = 0;
  for (std::size_t i = boundaries_.size(); i-- > 0;) {
    const Checkpoint& c = boundaries_[i];
    if (c.executed > executed) continue;
    restore(c);
    if (can_leave()) return &c;
    if (++failures > kEach) i -= std::min(i, failures / 16);
  }
  return nullptr;
}

/// The first boundary from which only loads lead to the exit.
const Checkpoint* RegionCapture::before_loads(const Checkpoint* exit) {
  const std::span<const Instr> instrs = request_.view->instrs();
  while (exit != boundaries_.data()) {
    const Checkpoint* before = exit - 1;
    if (before->pc >= exit->pc || !std::all_of(instrs.begin() + before->pc, instrs.begin() + exit->pc,
                                               [](const Instr& instr) { return only_loads(instr.op); }))
      break;
    exit = before;
  }
  restore(*exit);
  return exit;
}

/// The first arrival at the outermost loop that has gone round and holds `pc`.
const Checkpoint* RegionCapture::loop_entry(uint32_t pc) const {
  const Checkpoint* first = nullptr;
  for (const auto& [head, c] : heads_) {
    const auto rounds = rounds_.find(head);
    const bool holds = rounds != rounds_.end() && rounds->second > 1 && head <= pc && pc <= loops_.at(head);
    if (holds && (!first || c.executed < first->executed)) first = &c;
  }
  return first;
}

/// Names the loop, or the number of instructions, that took most of the work of a capture that became too long.
std::string RegionCapture::longest() const {
  const auto most = std::max_element(rounds_.begin(), rounds_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == rounds_.end() || most->second < 2) return std::to_string(executor_.steps) + " instructions";
  return "the loop at line " + std::to_string(request_.view->instrs()[most->first].line) + " went " +
         std::to_string(most->second) + " rounds";
}

/// The break at the head of a loop that became too long, if it works on single values. Goes back to the head.
std::optional<Break> RegionCapture::element_loop(const Checkpoint& head) {
  if (!works_on_elements(session_.graph(), head.mark.graph.nodes)) return std::nullopt;
  if (request_.element_loops) request_.element_loops->insert(head.pc);
  Break why{BreakId::ElementLoop, executor_.loops.why_not(*request_.view, head.pc)};
  if (why.detail.empty()) why.detail = longest();
  restore(head);
  return frame_.locate(std::move(why));
}

CaptureOutcome RegionCapture::finish(const Checkpoint* at, Value* returned, std::vector<Break> breaks,
                                     const Guard* while_holds) {
  CaptureOutcome outcome;
  if (at) {
    restore(*at);
    for (Break& b : breaks) b.instr = at->pc;
    if (while_holds) session_.guards().add(*while_holds);
  }
  outcome.breaks = breaks;
  outcome.work = work();
  outcome.unfinished_levels = executor_.calls.unfinished_levels();
  outcome.array_work = executor_.limits.saw_array_work();
  outcome.returned = returned != nullptr;
  if (!at && !returned) return outcome;
  const bool moves = returned || at->pc != request_.entry || !executor_.effects().log().empty();
  const graph::Graph& graph = session_.graph();
  const bool works =
      request_.options.any_work ? moves : is_worthwhile(graph) || (returned && follows_much(graph, executor_));
  if (!works && (request_.options.any_work || !computes(graph))) return outcome;
  auto region = std::make_shared<Region>();
  region->function = text_of(request_.view->code()->co_qualname);
  region->view = request_.view;
  region->entry = request_.entry;
  region->passes_exit = at && at->pc < executor_.visits.size() && executor_.visits[at->pc] > 1;
  region->breaks = std::move(breaks);
  region->globals = Ref<>::share(request_.frame.globals);
  region->builtins = Ref<>::share(request_.frame.builtins);
  RegionBuilder(executor_, session_, *region).build(frame_, initial_, initial_stack_, returned);
  if (!works && !gives_tensors(*region)) return outcome;
  outcome.region = std::move(region);
  return outcome;
}

CaptureOutcome RegionCapture::run() {
  executor_.frame = &frame_;
  for (int64_t executed = 0;; ++executed) {
    checkpoint(executed);
    const uint32_t before = frame_.pc;
    const int64_t most = request_.options.break_every;
    const bool known_loop = request_.element_loops && request_.element_loops->count(before) != 0;
    const bool compiled_loop =
        !known_loop && before != request_.entry && executor_.loops.leaves_outermost(executor_, frame_);
    Step done = most > 0 && executed >= most  ? break_at(BreakId::Stress)
                : known_loop || compiled_loop ? break_at(BreakId::ElementLoop)
                                              : frame_.advance();
    if (done && *done == Flow::Returned) {
      if (is_materializable(frame_.returned) && can_commit()) return finish(nullptr, frame_.returned, {});
      done = break_at(BreakId::UnsupportedInstruction, "a result that cannot be made again");
    }
    if (done && *done == Flow::Jumped && frame_.pc <= before) {
      ++rounds_[frame_.pc];
      if (one_round_) {
        checkpoint(executed + 1);
        done = break_at(BreakId::CapturedTooMuch, "a loop of many rounds");
      }
    }
    if (done) continue;
    if (executor_.limits.interrupted()) {
      CaptureOutcome nothing;
      nothing.interrupted = true;
      nothing.work = work();
      return nothing;
    }
    Break why = frame_.locate(std::move(done.error()));
    const bool too_long = why.id == BreakId::CapturedTooMuch || why.id == BreakId::CaptureTime;
    if (too_long && why.detail.empty()) why.detail = longest();
    why.raised = nullptr;
    why.before_loop =
        why.before_loop || compiled_loop ||
        (known_loop && request_.options.loops && !(request_.bytecode_loops && request_.bytecode_loops->count(before)));
    const std::shared_ptr<const Guard> while_holds = std::exchange(why.while_holds, nullptr);
    std::vector<Ref<PyCodeObject>> reached;
    for (PyCodeObject* code : std::exchange(why.callees, {})) reached.push_back(Ref<PyCodeObject>::share(code));
    // A loop that is too long to unroll is left to the bytecode as a whole; its body is a region of its own.
    const Checkpoint* loop = too_long && !one_round_ ? loop_entry(before) : nullptr;
    wants_one_round_ = loop != nullptr;
    if (std::optional<Break> of_elements = loop && why.callees.empty() ? element_loop(*loop) : std::nullopt) {
      why = std::move(*of_elements);
      wants_one_round_ = false;
    }
    if (loop) restore(*loop);
    const Checkpoint* at = loop && can_leave() ? loop : last_exit(loop ? loop->executed : executed + 1);
    if (at && !loop && why.id != BreakId::Stress) at = before_loads(at);
    // Where a loop was broken in its body, or at its iterable, its head is no break of its own.
    const bool round_ends = why.id == BreakId::UnknownIterable &&
                            request_.view->instrs()[before].op == Opcode::ForIter &&
                            follows_get_iter(*request_.view, before) && !request_.options.fullgraph;
    const bool goes_on = why.of_earlier_exception && !request_.options.fullgraph;
    std::vector<Break> breaks;
    if (!round_ends && !goes_on) breaks.push_back(std::move(why));
    CaptureOutcome outcome = finish(at, nullptr, std::move(breaks), while_holds.get());
    outcome.reached = std::move(reached);
    if (outcome.region) wants_one_round_ = false;
    return outcome;
  }
}

}  // namespace

CaptureOutcome capture(const CaptureRequest& request) {
  RegionCapture whole(request, false);
  CaptureOutcome outcome = whole.run();
  if (!whole.wants_one_round()) return outcome;
  RegionCapture round(request, true);
  CaptureOutcome one = round.run();
  one.work += outcome.work;
  outcome.work = one.work;
  if (one.interrupted) return one;
  return one.region ? std::move(one) : std::move(outcome);
}

}  // namespace framejit::capture
