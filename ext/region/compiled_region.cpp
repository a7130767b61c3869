// Running compiled regions.
#include "ext/region/compiled_region.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cstring>
#include <map>
#include <unordered_set>
#include <utility>

#include "capture/py/interpreter.h"
#include "capture/python_names.h"
#include "ext/arrays/errstate.h"
#include "ext/arrays/promotion.h"
#include "ext/library_calls/custom_op.h"
#include "ext/module/config.h"
#include "ext/module/events.h"
#include "ext/module/stats.h"
#include "ext/region/fold_parameters.h"
#include "ext/region/interpreted.h"
#include "ext/region/profitability.h"
#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/text.h"
#include "runtime/allocator.h"
#include "runtime/trace.h"

namespace framejit::ext::region {

using capture::Guard;
using capture::GuardKind;
using capture::Ref;
using guards::GuardProgram;
using guards::LiveSlots;
using guards::Matched;

namespace {

constexpr std::size_t kScratchOnStack = 2 << 10;
constexpr std::size_t kClearedAtOnce = 4;  // words

std::size_t words(std::size_t count) { return count * sizeof(void*); }

bool same_relation(const graph::DimGuard& a, const graph::DimGuard& b) {
  return a.relation == b.relation && a.outcome == b.outcome && a.left == b.left && a.right == b.right;
}

/// A frame cannot be made to raise behind a region. An interrupt (of the code that shows a warning) comes back where
/// the interpreter looks for signals next; what else may be left, memory that ran out, is reported as Python reports
/// what cannot be raised.
void defer_error() {
  if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return PyErr_WriteUnraisable(nullptr);
  PyErr_Clear();
  PyErr_SetInterrupt();
}

/// An equal object of our own; null: the object itself will do.
Ref<> copy_of(PyObject* object) {
  if (PyBytes_CheckExact(object))
    return Ref<>::steal(PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)));
  if (PyUnicode_CheckExact(object) && !PyUnicode_CHECK_INTERNED(object))
    return Ref<>::steal(
        PyUnicode_FromKindAndData(PyUnicode_KIND(object), PyUnicode_DATA(object), PyUnicode_GET_LENGTH(object)));
  if (PyLong_CheckExact(object)) return Ref<>::steal(_PyLong_Copy(reinterpret_cast<PyLongObject*>(object)));
  if (PyFloat_CheckExact(object)) return Ref<>::steal(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object)));
  return {};
}

/// Guards on values keep copies, so that the program's own objects have no more references than without framejit.
void copy_guarded_values(capture::Region& region) {
  for (Guard& g : region.guards)
    if (g.kind == GuardKind::Equal)
      if (Ref<> copy = copy_of(g.object.get())) g.object = std::move(copy);
  PyErr_Clear();
}

/// What passes relied upon since capture is guarded too.
void guard_relations(capture::Region& region) {
  const graph::ShapeEnv& shapes = region.graph->shapes();
  for (const graph::DimGuard& dim : shapes.guards()) {
    bool known = shapes.is_measured(dim.left) || shapes.is_measured(dim.right);
    for (const Guard& g : region.guards)
      known = known || (g.kind == GuardKind::DimRelation && same_relation(g.dim, dim));
    if (known) continue;
    Guard& g = region.guards.emplace_back();
    g.kind = GuardKind::DimRelation;
    g.dim = dim;
  }
}

/// Called now and then during long runs, by the thread that started them, without the GIL. A signal cancels the run;
/// the interpreter, which then executes the bytecode, runs its handler. A GIL request of another thread is no reason to
/// stop.
bool poll_signals() { return capture::signal_pending(); }

}  // namespace

/// Divides one block of memory among the arrays of a run. What owns references starts zeroed.
struct Entry::Scratch {
  Matched matched;
  Workspace workspace;

  Scratch(char* memory, const Sizes& sizes, const LiveSlots& live) : owned(sizes.owned) {
    auto at = [memory](uint32_t word) { return memory + words(word); };
    matched.live = &live;
    matched.slots = reinterpret_cast<PyObject**>(memory);
    matched.symbols = reinterpret_cast<int64_t*>(at(sizes.symbols));
    matched.params = reinterpret_cast<char**>(at(sizes.params));
    matched.scalars = reinterpret_cast<int64_t*>(at(sizes.scalars));
    workspace.matched = &matched;
    workspace.cells = reinterpret_cast<int64_t*>(at(sizes.cells));
    workspace.roots = reinterpret_cast<PyObject**>(at(sizes.roots));
    workspace.results = reinterpret_cast<char**>(at(sizes.results));
    workspace.objects = reinterpret_cast<PyObject**>(at(sizes.objects));
  }
  void clear_owned() {
    // Most runs own little: no call of memset for it. What lies behind is room that is always there.
    std::memset(workspace.roots, 0, words(kClearedAtOnce));
    if (owned > kClearedAtOnce) std::memset(workspace.roots, 0, words(owned));
  }

 private:
  uint32_t owned;
};

Entry::Sizes::Sizes(const GuardProgram& g, const Materializer& m) {
  std::size_t end = 0;
  auto take = [&end](std::size_t count) { return static_cast<uint32_t>(std::exchange(end, end + count)); };
  take(g.slot_count());
  symbols = take(g.symbol_count());
  params = take(g.input_count());
  scalars = take(2 * g.input_count());
  cells = take(2 * m.root_count());
  roots = take(m.root_count());
  results = take(m.root_count());
  objects = take(m.object_count());
  owned = static_cast<uint32_t>(end) - roots;
  all = static_cast<uint32_t>(end + kClearedAtOnce);
}

/// Memory for a Scratch, on the stack where it is small.
#define FRAMEJIT_SCRATCH(name, live, sizes)              \
  alignas(8) char name##_stack[kScratchOnStack];         \
  std::unique_ptr<char[]> name##_heap;                   \
  if (words((sizes).all) > kScratchOnStack) [[unlikely]] \
    name##_heap.reset(new char[words((sizes).all)]);     \
  Scratch name(name##_heap ? name##_heap.get() : name##_stack, sizes, live)

/// What a run owns until its results are handed over.
class Entry::Run {
 public:
  Run(const Materializer& m, Workspace& w) : workspace(w), materializer_(m) {}
  ~Run() {
    materializer_.drop(workspace);
    for (PyObject* object : trash) Py_XDECREF(object);
  }
  Run(const Run&) = delete;

  Workspace& workspace;
  std::vector<PyObject*> trash;  // released last
  bool others_ran = false;       // another thread or Python code, since the guards were tested

 private:
  const Materializer& materializer_;
};

Expected<std::shared_ptr<Entry>, std::string> Entry::make(std::shared_ptr<capture::Region> region,
                                                          const CompileOptions& options, const LiveSlots& live,
                                                          int local_count) {
  std::shared_ptr<Entry> entry(new Entry());
  entry->options_ = options;
  copy_guarded_values(*region);
  if (options.constant_parameters) entry->options_.constant_params = fold_parameters(*region, options, live);
  FRAMEJIT_TRY(compiled, compile(*region->graph, entry->options_));
  entry->compiled_ = std::move(compiled);
  guard_relations(*region);
  entry->region_ = std::move(region);  // nothing changes it from here on
  if (std::string why = entry->link(live, local_count); !why.empty()) return Unexpected<std::string>{std::move(why)};
  return entry;
}

std::string Entry::graph_text() const {
  return graph::print(*region_->graph) + (region_->loop ? cfg::print(region_->loop->cfg) : std::string());
}

std::string Entry::link(const LiveSlots& live, int local_count) {
  const graph::Graph& graph = *region_->graph;
  std::vector<capture::SourceRef> sources = Materializer::sources(*region_);
  if (region_->loop) sources.insert(sources.end(), region_->loop->fetched.begin(), region_->loop->fetched.end());
  auto program = GuardProgram::make(region_->guards, region_->inputs, sources, graph.shapes(), local_count);
  if (!program) return program.error();
  guards_ = std::move(*program);
  auto materializer = Materializer::make(*region_, *guards_, *compiled_.plan);
  if (!materializer) return materializer.error();
  materializer_ = std::move(*materializer);
  effects_.emplace(*region_);
  finalizer_check_.emplace(*region_, *guards_);

  if (region_->loop) {
    auto loop = CompiledLoop::make(region_->loop, *guards_, region_->function,
                                   {options_.listing, options_.interp, options_.losing});
    if (!loop) return loop.error();
    loop_ = std::move(*loop);
  }
  sizes_ = Sizes(*guards_, *materializer_);
  always_short_ = graph.shapes().symbol_count() == 0 && plan().cost({}) < kReleaseAbove;
  one_kernel_ = plan().is_short() && always_short_ && !options_.interp;
  writes_params_ = !graph::written_roots(graph, graph.body()).empty();
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    asks_scipy_ = asks_scipy_ || (arrays::is_of_scipy(node.op) && !one_kernel_ && !options_.ignore_fp_flags);
    order_matters_ = order_matters_ || ((node.op == graph::Op::ReduceSum || node.op == graph::Op::ReduceProd) &&
                                        (graph::is_float(node.type.dtype) || graph::is_complex(node.type.dtype)));
  });
  if (!loop_ && !options_.ignore_fp_flags && !options_.losing && !is_profitable(*region_, asks_scipy_ && !options_.o1))
    policy_.set_unprofitable(RunPolicy::kUnprofitable);
  policy_.start(region_->function, least_bytecode_time(*region_));
  if (options_.compared && !policy_.is_unprofitable() && !loop_)
    policy_.compare(region_->returns && region_->entry == 0 ? Comparison::kCalls : Comparison::kRounds);
  steps_ = static_cast<int64_t>(plan().program().steps.size());
  const int exit_depth = region_->view->instrs()[region_->exit].depth;
  result_on_stack_ = region_->returns && exit_depth > static_cast<int>(region_->stack.size());
  references_.emplace(*region_);
  sees_warnings_ = references_->any(is_of_warnings);

  if (std::optional<guards::GuardFailure> failure = guards_->explain(live))
    FRAMEJIT_CHECK(false, "a guard does not hold for the inputs that it was made from: " + failure->guard + " (found " +
                              failure->found + ")\n" + graph_text());
  return {};
}

Entry::~Entry() {
  if (compiled_.plan) module::stats.code_bytes -= static_cast<int64_t>(compiled_.plan->code_bytes());
  if (undoable_ && undoable_->plan) module::stats.code_bytes -= static_cast<int64_t>(undoable_->plan->code_bytes());
}

/// Runs on arrays of about the same sizes are compared with each other.
int Entry::size_class(const Matched& m) const {
  const std::span<const int64_t> symbols(m.symbols, guards_->symbol_count());
  if (symbols.empty()) return 0;
  const graph::Graph& graph = *region_->graph;
  uint64_t elements = 0;
  const auto add = [&](graph::ValueId v) {
    uint64_t count = 1;
    for (const graph::Dim& d : graph.type(v).shape)
      if (!graph.shapes().is_measured(d))
        count *= static_cast<uint64_t>(std::max<int64_t>(d.try_evaluate(symbols).value_or(1), 0));
    elements += count;
  };
  for (const graph::ValueId v : graph.params()) add(v);
  for (const graph::ValueId v : graph.results()) add(v);
  return std::bit_width(elements);
}

Outcome Entry::after_flags(runtime::Undo* undo) {
  if (undo) undo->rollback();
  return given_up("its operations kept raising floating-point flags, of which only NumPy can warn");
}

Outcome Entry::given_up(const char* why) {
  policy_.came_to_nothing(why);
  return Outcome::Declined;
}

/// Null where it cannot be made.
const runtime::Plan* Entry::undoable() {
  if (!undoable_) {
    auto made = compile_undoable(*region_->graph, options_);
    undoable_ = made ? std::move(*made) : Compiled{};
  }
  return undoable_->plan.get();
}

bool Entry::warn(const std::vector<unsigned>& unsaid) const {
  return unsaid.empty() || warn_of_flags(*region_->graph, region_->origins, plan().program().flag_slots, unsaid);
}

std::optional<WarningRules> Entry::rules_of_run(const Workspace& w, bool in_frame) const {
  if (sees_warnings_) return std::nullopt;
  std::optional<WarningRules> rules = warning_rules();
  if (!rules || rules->watched == 0) return rules;
  if (rules->log ? guards_->sees(*w.matched, rules->log) : in_frame && !stderr_takes_warnings()) return std::nullopt;
  return rules;
}

Outcome Entry::run_plan(Run& of, std::vector<unsigned>& unsaid, bool in_frame) {
  Workspace& w = of.workspace;
  const GuardProgram& guards = *guards_;
  const std::span<char* const> params(w.matched->params, guards.input_count());
  const std::span<char* const> results(w.results, materializer_->root_count());
  if (one_kernel_ && !runtime::tracing.load(std::memory_order_relaxed)) [[likely]] {
    ++module::stats.kernel_calls;
    if (const unsigned flags = plan().run_short(params, results);
        flags && !options_.ignore_fp_flags && !arrays::all_ignored(flags)) [[unlikely]]
      return after_flags(nullptr);
    policy_.ran_kernel();
    return Outcome::Done;
  }
  const std::span<const int64_t> symbols(w.matched->symbols, guards.symbol_count());
  const runtime::TraceSpan span("run", region_->function);
  runtime::RunResult run;
  of.others_ran = compiled_.library_calls > 0;
  std::function<bool()> still;
  if (of.others_ran && writes_params_ && effects_->any()) still = [&] { return still_fits(*w.matched, in_frame); };
  std::optional<arrays::ScopedErrState> quiet;  // what the library's functions would raise for
  if (options_.ignore_fp_flags && compiled_.library_calls) quiet.emplace(0);
  if (options_.interp) [[unlikely]] {
    run = run_interpreted(*region_->graph, plan(), params, results, symbols);
  } else if (compiled_.per_call_flags()) {
    if (const std::optional<WarningRules> rules = rules_of_run(w, in_frame)) [[likely]] {
      run = plan().run(params, results, symbols, nullptr, rules->watched, still);
      for (unsigned& raised : run.slots) raised &= rules->watched;
      unsaid = std::move(run.slots);
    } else if (const runtime::Plan* other = undoable()) {
      run = other->run(params, results, symbols, nullptr, runtime::kReported, still);
    } else {
      return Outcome::Declined;
    }
  } else if (always_short_ || writes_params_ || plan().cost(symbols) < kReleaseAbove) {
    run = plan().run(params, results, symbols, always_short_ ? nullptr : poll_signals, runtime::kReported, still);
  } else {
    // Other threads may rebind what holds the inputs, of which results are made afterwards too.
    for (const guards::GuardOperand& operand : guards.input_operands())
      of.trash.push_back(Py_NewRef(guards.object(*w.matched, operand)));
    of.others_ran = true;
    struct Release {
      PyThreadState* state = PyEval_SaveThread();
      ~Release() { PyEval_RestoreThread(state); }
    } release;
    run = plan().run(params, results, symbols, poll_signals);
  }
  if (!options_.interp) {
    module::stats.kernel_calls += steps_;
    module::stats.library_calls += compiled_.library_calls;
  }
  switch (run.status) {
    case runtime::RunStatus::Done: break;
    case runtime::RunStatus::OutOfMemory: runtime::trim(); return Outcome::Declined;
    case runtime::RunStatus::Interrupted: return Outcome::Declined;
    case runtime::RunStatus::Bailout: return given_up("a condition that it was compiled for kept failing");
    case runtime::RunStatus::SpeculationFailed: other_way_ = run.location; return Outcome::OtherWay;
    case runtime::RunStatus::Flagged: return after_flags(run.undo.get());
  }
  for (std::size_t i = 0; i < run.measured.size(); ++i)
    w.matched->symbols[static_cast<std::size_t>(plan().program().measured[i].symbol)] = run.measured[i];
  if (run.flags && !options_.ignore_fp_flags && !arrays::all_ignored(run.flags)) [[unlikely]]
    return after_flags(run.undo.get());
  policy_.succeeded();
  return Outcome::Done;
}

/// Do the guards hold, and is a run worth trying?
inline Outcome Entry::fits(Matched& m) {
  if (references_->is_broken() || !guards_->match(m)) return Outcome::Miss;
  policy_.count();
  if (policy_.rests(guards_->symbol_count() > 0)) return Outcome::Declined;
  if (order_matters_ && arrays::ErrState::current().buffer_size() != NPY_BUFSIZE) return Outcome::Declined;
  if (asks_scipy_ && !arrays::scipy_is_silent()) return Outcome::Declined;
  return Outcome::Done;
}

/// Others ran since the guards were tested: are the objects that the effects are about still those, as they were?
[[gnu::noinline]] bool Entry::still_fits(const Matched& before, bool in_frame) const {
  FRAMEJIT_SCRATCH(now, *before.live, sizes_);
  return guards_->match(now.matched) &&
         std::equal(before.slots, before.slots + guards_->slot_count(), now.matched.slots) &&
         !finalizer_check_->may_run(now.matched, in_frame);
}

/// `hand_over` takes what comes out from the workspace; false: the warnings of the run could not be given.
template <class HandOver>
inline Outcome Entry::run(const LiveSlots& live, bool in_frame, HandOver hand_over) {
  FRAMEJIT_SCRATCH(s, live, sizes_);
  if (const Outcome outcome = fits(s.matched); outcome != Outcome::Done) return outcome;
  if (finalizer_check_->may_run(s.matched, in_frame)) return Outcome::Declined;
  if (policy_.is_comparing() && !policy_.takes_turn(size_class(s.matched))) [[unlikely]]
    return Outcome::Declined;
  s.clear_owned();
  Run run(*materializer_, s.workspace);
  const bool effects = effects_->any();
  if (effects) run.trash.reserve(region_->effects.size());
  if (!materializer_->prepare(s.workspace)) {
    PyErr_Clear();
    return Outcome::Declined;
  }
  std::vector<unsigned> unsaid;
  if (const Outcome outcome = run_plan(run, unsaid, in_frame); outcome != Outcome::Done) return outcome;
  if (effects && run.others_ran && !writes_params_ && !still_fits(s.matched, in_frame)) [[unlikely]]
    return Outcome::Declined;
  const std::size_t kept = run.trash.size();
  if (!materializer_->finish(s.workspace) || (effects && !effects_->commit(s.workspace, run.trash))) [[unlikely]] {
    if (!writes_params_ && effects_->take_back(s.workspace, run.trash, kept)) {
      PyErr_Clear();
      return Outcome::Declined;
    }
    materializer_->complete(s.workspace);
    if (in_frame) hand_over(s.workspace.objects, true);
    return Outcome::Error;
  }
  return hand_over(s.workspace.objects, warn(unsaid));
}

Outcome Entry::call(const LiveSlots& live, PyObject*& result) {
  return run(live, false, [&](PyObject** objects, bool warned) {
    if (!warned) return Outcome::Error;
    result = Py_NewRef(objects[region_->result]);
    return Outcome::Done;
  });
}

/// What happens in the loop happens for good: what may speak against a run is asked before.
Outcome Entry::enter_loop(const capture::FrameView& frame, capture::FrameUpdate& update) {
  FRAMEJIT_SCRATCH(s, frame, sizes_);
  if (const Outcome outcome = fits(s.matched); outcome != Outcome::Done) return outcome;
  if (finalizer_check_->may_run(s.matched, true)) return Outcome::Declined;
  // NumPy's scalars report underflow too, if they are asked to.
  if (arrays::ErrState::current().watched() & FE_UNDERFLOW) return Outcome::Declined;
  ++module::stats.kernel_calls;
  const bool complete = loop_->run(s.matched, update);
  if (loop_->is_hopeless()) policy_.give_up(RunPolicy::kLeavesLoop);
  return complete ? Outcome::Done : Outcome::Error;
}

Outcome Entry::enter(const capture::FrameView& frame, capture::FrameUpdate& update) {
  if (loop_) return enter_loop(frame, update);
  if (frame.outlives && region_->returns) return Outcome::Declined;
  return run(frame, true, [&](PyObject** objects, bool warned) {
    if (!warned) [[unlikely]]
      defer_error();
    update.exit_instr = region_->exit;
    for (const auto& [slot, recipe] : region_->locals) update.locals.push_back({slot, Py_XNewRef(objects[recipe])});
    update.kept = static_cast<int>(region_->kept);
    for (std::size_t i = 0; i < region_->stack.size(); ++i)
      update.stack.push_back(i < region_->kept ? nullptr : Py_XNewRef(objects[region_->stack[i]]));
    if (result_on_stack_) update.stack.push_back(Py_NewRef(objects[region_->result]));
    return Outcome::Done;
  });
}

namespace {

constexpr int64_t kElementsToInterpret = 1 << 14;

/// Of what a graph without blocks reads and makes, for the symbols that it was captured with, is it few?
bool has_few_elements(const graph::Graph& graph) {
  int64_t all = 0;
  const auto add = [&](graph::ValueId v) {
    int64_t count = 1;
    for (const graph::Dim& d : graph.type(v).shape) count *= std::max<int64_t>(graph.shapes().hint(d), 0);
    all += count;
  };
  for (const graph::ValueId v : graph.body().nodes) {
    const graph::Node& node = graph.node(v);
    if (graph::def(node.op).cls == graph::OpClass::Contraction) return false;
    add(v);
    for (const graph::ValueId input : node.inputs) add(input);
    if (all > kElementsToInterpret) return false;
  }
  return true;
}

/// As Entry::truth(), by the reference interpreter: for few elements that is sooner done than a compilation.
std::optional<bool> quick_truth(const capture::Region& region, const LiveSlots& live, int local_count) {
  if (!has_few_elements(*region.graph)) return std::nullopt;
  auto guards = GuardProgram::make(region.guards, region.inputs, {}, region.graph->shapes(), local_count);
  if (!guards) return std::nullopt;
  const std::size_t inputs = (*guards)->input_count();
  std::vector<PyObject*> slots((*guards)->slot_count());
  std::vector<int64_t> symbols((*guards)->symbol_count()), scalars(2 * inputs);
  std::vector<char*> params(inputs);
  Matched m{&live, slots.data(), symbols.data(), params.data(), scalars.data()};
  if (!(*guards)->match(m)) return std::nullopt;
  return interpreted_truth(*region.graph, params, symbols);
}

}  // namespace

std::optional<bool> Entry::truth(std::shared_ptr<capture::Region> region, const CompileOptions& options,
                                 const LiveSlots& live, int local_count) {
  if (const std::optional<bool> quick = quick_truth(*region, live, local_count)) return quick;
  auto made = make(std::move(region), options, live, local_count);
  if (!made) return std::nullopt;
  Entry& entry = **made;
  FRAMEJIT_SCRATCH(s, live, entry.sizes_);
  if (entry.fits(s.matched) != Outcome::Done) return std::nullopt;
  s.clear_owned();
  Run run(*entry.materializer_, s.workspace);
  std::optional<bool> out;
  if (entry.materializer_->prepare(s.workspace)) {
    const std::unique_ptr<runtime::Undo> undo = entry.save(s.matched);
    std::vector<unsigned> unsaid;
    if (entry.run_plan(run, unsaid, false) == Outcome::Done) {
      if (entry.materializer_->finish(s.workspace)) out = s.workspace.objects[entry.region_->result] == Py_True;
      undo->rollback();
    }
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return out;
}

std::unique_ptr<runtime::Undo> Entry::save(const Matched& m) const {
  return save_written(*region_->graph, std::span<char* const>(m.params, guards_->input_count()),
                      std::span<const int64_t>(m.symbols, guards_->symbol_count()));
}

int64_t Entry::time_kernels(const LiveSlots& live, int64_t runs) {
  FRAMEJIT_SCRATCH(s, live, sizes_);
  if (fits(s.matched) != Outcome::Done) return -1;
  const int64_t start = now_ns();
  for (int64_t i = 0; i < runs; ++i) {
    s.clear_owned();
    Run run(*materializer_, s.workspace);
    std::vector<unsigned> unsaid;
    if (!materializer_->prepare(s.workspace) || run_plan(run, unsaid, false) != Outcome::Done ||
        !materializer_->finish(s.workspace))
      return PyErr_Clear(), -1;
  }
  return now_ns() - start;
}

// Predictions (stress mode verify).

namespace {

/// A list of borrowed objects, null for none: framejit._reporting._verify.UNBOUND.
Ref<> object_list(capture::py::Slots objects, std::size_t count, PyObject* unbound) {
  Ref<> list = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; list && i < count; ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                    Py_NewRef(objects[static_cast<int64_t>(i)] ? objects[static_cast<int64_t>(i)] : unbound));
  return list;
}

}  // namespace

Ref<> Entry::prediction(const capture::FrameView& frame, const Workspace& w) const {
  const Ref<> module = Ref<>::steal(PyImport_ImportModule(python_names::kVerify));
  const Ref<> unbound = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), "UNBOUND")) : Ref<>();
  if (!unbound) return {};
  auto object = [&](int64_t recipe) { return recipe >= 0 && w.objects[recipe] ? w.objects[recipe] : unbound.get(); };
  const Ref<> existing = Ref<>::steal(PyList_New(0)), locals = Ref<>::steal(PyList_New(0)),
              written = Ref<>::steal(PyList_New(0)), effects = Ref<>::steal(PyList_New(0));
  if (!existing || !locals || !written || !effects) return {};
  auto append = [](const Ref<>& list, PyObject* item) {
    const Ref<> owned = Ref<>::steal(item);
    return owned && PyList_Append(list.get(), owned.get()) == 0;
  };
  using Kind = capture::Recipe::Kind;
  bool ok = true;
  for (std::size_t i = 0; i < region_->recipes.size(); ++i)
    if (region_->recipes[i].kind == Kind::Fetch || region_->recipes[i].kind == Kind::Constant)
      ok = ok && append(existing, PyLong_FromVoidPtr(w.objects[i]));
  const std::vector<guards::GuardOperand>& inputs = guards_->input_operands();
  const graph::Graph& graph = *region_->graph;
  const std::vector<graph::ValueId> roots = graph::written_roots(graph, graph.body());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PyObject* input = guards_->object(*w.matched, inputs[i]);
    ok = ok && append(existing, PyLong_FromVoidPtr(input));
    const bool is_written = std::find(roots.begin(), roots.end(), graph.params()[i]) != roots.end();
    if (is_written && region_->inputs[i].spec.wrap == capture::Wrap::NdArray)
      ok = ok && append(written, Py_NewRef(input));
  }
  for (const auto& [slot, recipe] : region_->locals)
    ok = ok && append(locals, Py_BuildValue("(iO)", slot, object(recipe)));
  std::vector<PyObject*> stack;
  for (const uint32_t recipe : region_->stack) stack.push_back(w.objects[recipe]);
  if (result_on_stack_) stack.push_back(w.objects[region_->result]);
  for (const capture::Effect& e : region_->effects) {
    if (e.kind == capture::Effect::Kind::CountCall) continue;  // its cache counts again when it is called
    Ref<> items = Ref<>::steal(PyList_New(0));
    for (const uint32_t item : e.items) ok = ok && items && PyList_Append(items.get(), object(item)) == 0;
    PyObject* target = e.object ? e.object.get() : object(e.target);
    PyObject* key = e.name ? e.name.get() : object(e.key);
    ok = ok &&
         append(effects, Py_BuildValue("(iOOOO)", static_cast<int>(e.kind), target, key, object(e.value), items.get()));
  }
  const Ref<> stack_list = object_list(stack.data(), stack.size(), unbound.get());
  const Ref<> before = object_list(frame.locals, static_cast<std::size_t>(frame.local_count), unbound.get());
  const Ref<> address = Ref<>::steal(PyLong_FromVoidPtr(const_cast<void*>(frame.locals.address())));
  if (!ok || !stack_list || !before || !address) return {};
  module::Record record;
  record.put("code", reinterpret_cast<PyObject*>(region_->view->code()))
      .put("globals", frame.globals)
      .put("first_line", static_cast<int64_t>(region_->view->instrs()[region_->entry].line))
      .put("last_line", static_cast<int64_t>(region_->view->instrs()[region_->exit].line))
      .put("frame", address.get())
      .put("returns", region_->returns ? Py_True : Py_False)
      .put("existing", existing.get())
      .put("locals", locals.get())
      .put("stack", stack_list.get())
      .put("written", written.get())
      .put("effects", effects.get());
  return Ref<>::steal(PyObject_CallMethod(module.get(), "Prediction", "OO", record.get(), before.get()));
}

Outcome Entry::predict(const capture::FrameView& frame, Ref<>& record) {
  FRAMEJIT_SCRATCH(s, frame, sizes_);
  Outcome outcome = fits(s.matched);
  if (outcome != Outcome::Done) return outcome;
  s.clear_owned();
  Run run(*materializer_, s.workspace);
  outcome = Outcome::Declined;
  if (materializer_->prepare(s.workspace)) {
    const std::unique_ptr<runtime::Undo> undo = save(s.matched);
    std::vector<unsigned> unsaid;
    outcome = run_plan(run, unsaid, true);
    if (outcome == Outcome::Done) {
      // A prediction has no warnings.
      const bool warns = std::any_of(unsaid.begin(), unsaid.end(), [](unsigned raised) { return raised != 0; });
      if (!warns && materializer_->finish(s.workspace)) record = prediction(frame, s.workspace);
      undo->rollback();
      if (!record) outcome = Outcome::Declined;
    }
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return outcome;
}

}  // namespace framejit::ext::region
