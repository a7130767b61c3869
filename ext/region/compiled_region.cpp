// Running compiled regions.
#include "capture/py/shown_frame.h"

#include "ext/region/compiled_region.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <span>
#include <utility>

#include "capture/py/cprofile.h"
#include "capture/py/repr.h"
#include "ext/arrays/errstate.h"
#include "ext/library_calls/draws.h"
#include "ext/module/kernel_store.h"
#include "ext/module/stats.h"
#include "ext/region/fold_parameters.h"
#include "ext/region/interpreted.h"
#include "ext/region/profitability.h"
#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/text.h"

namespace framejit::ext::region {

using capture::Guard;
using capture::GuardKind;
using capture::Ref;
using guards::GuardProgram;
using guards::LiveSlots;
using guards::Matched;

namespace {

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

/// Runs on arrays of about the same sizes are compared with each other.
[[gnu::noinline]] int size_class_of(const graph::Graph& graph, std::span<const int64_t> symbols) {
  if (symbols.empty()) return 0;
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

/// Is there a number that O1 may compute with other bits?
bool computes_with_floats(const graph::Graph& graph) {
  bool found = false;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& n = graph.node(v);
    const graph::OpClass cls = graph::def(n.op).cls;
    const bool computes =
        cls == graph::OpClass::Elementwise || cls == graph::OpClass::Reduction || cls == graph::OpClass::Contraction;
    found = found || (computes && (graph::is_float(n.type.dtype) || graph::is_complex(n.type.dtype)));
  });
  return found;
}

}  // namespace

bool has_result_on_stack(const capture::Region& region) {
  const int exit_depth = region.view->instrs()[region.exit].depth;
  return region.returns && exit_depth > static_cast<int>(region.stack.size());
}

Expected<std::shared_ptr<Entry>, std::string> Entry::make(std::shared_ptr<capture::Region> region,
                                                          const CompileOptions& options, const LiveSlots& live,
                                                          int local_count) {
  std::shared_ptr<Entry> entry(new Entry());
  CompileOptions given = options;
  copy_guarded_values(*region);
  const bool draws = std::any_of(region->inputs.begin(), region->inputs.end(), [](const capture::Input& input) {
    return input.spec.wrap == capture::Wrap::Generator;
  });
  if (draws) given.plan.beside = false;  // the thread of the run holds the locks of generators
  if (options.constant_parameters) given.constant_params = fold_parameters(*region, options, live);
  // The graph of a loop has parameters only, and runs nothing.
  FRAMEJIT_TRY(compiled, region->loop ? finish({}, given) : compile(*region->graph, given));
  guard_relations(*region);
  entry->draws_ = draws;
  if (std::string why = entry->link(std::move(region), std::move(compiled), given, local_count); !why.empty())
    return Unexpected<std::string>{std::move(why)};
  if (std::optional<guards::GuardFailure> failure = entry->explain(live))
    FRAMEJIT_CHECK(false, "a guard does not hold for the inputs that it was made from: " + failure->guard + " (found " +
                              failure->found + ")\n" + entry->graph_text());
  return entry;
}

namespace {

/// A recipe in a call of print: a constant, a value of the graph, or what is made of these.
std::string shown_text(const capture::Region& region, const std::vector<std::string>& names, uint32_t recipe) {
  const capture::Recipe& r = region.recipes[recipe];
  if (r.kind == capture::Recipe::Kind::Result) return names[graph::index(region.graph->results()[r.index])];
  if (r.kind == capture::Recipe::Kind::Constant) {
    const bool text = PyUnicode_CheckExact(r.object.get());
    return text ? '"' + capture::text_of(r.object.get()) + '"' : capture::short_repr(r.object.get());
  }
  std::string items;
  for (const uint32_t item : r.items) items += (items.empty() ? "" : ", ") + shown_text(region, names, item);
  return r.kind == capture::Recipe::Kind::List ? "[" + items + "]" : "(" + items + ")";
}

/// The print() calls that a region makes when its graph has run, one a line.
std::string prints_text(const capture::Region& region) {
  const std::vector<std::string> names = graph::value_names(*region.graph);
  std::string out;
  for (const capture::Effect& e : region.effects) {
    if (e.kind != capture::Effect::Kind::Print) continue;
    std::string items;
    for (const uint32_t item : e.items) items += (items.empty() ? "" : ", ") + shown_text(region, names, item);
    out += "Print(" + items + ")\n";
  }
  return out;
}

}  // namespace

Expected<std::shared_ptr<Entry>, std::string> Entry::make_stored(std::shared_ptr<capture::Region> region,
                                                                 Compiled compiled, const CompileOptions& options,
                                                                 const LiveSlots& live, int local_count) {
  std::shared_ptr<Entry> entry(new Entry());
  if (std::string why = entry->link(std::move(region), std::move(compiled), options, local_count); !why.empty())
    return Unexpected<std::string>{std::move(why)};
  if (entry->explain(live)) return Unexpected<std::string>{"a guard does not hold"};
  return entry;
}

std::string Entry::graph_text(bool located) const {
  std::string text =
      graph::print(*region_->graph, {.locations = located}) + (loop_ ? loop_->graph_text() : std::string());
  return located ? text + prints_text(*region_) : text;
}

std::string Entry::link(std::shared_ptr<capture::Region> region, Compiled compiled, const CompileOptions& options,
                        int local_count) {
  region_ = std::move(region);  // nothing changes it from here on
  references_.emplace(*region_);
  const bool sees_warnings = references_->any(is_of_warnings);
  std::unique_ptr<LoopCode> loop_code = std::move(compiled.loop_code);
  runner_.emplace(*region_, std::move(compiled), options, policy_, sees_warnings);
  const graph::Graph& graph = *region_->graph;
  std::vector<capture::SourceRef> sources = Materializer::sources(*region_);
  if (region_->loop) sources.insert(sources.end(), region_->loop->fetched.begin(), region_->loop->fetched.end());
  auto program = GuardProgram::make(region_->guards, region_->inputs, sources, graph.shapes(), local_count);
  if (!program) return program.error();
  guards_ = std::move(*program);
  auto materializer = Materializer::make(*region_, *guards_, runner_->plan());
  if (!materializer) return materializer.error();
  materializer_ = std::move(*materializer);
  effects_.emplace(*region_);
  conditions_.emplace(*region_, *guards_, *materializer_);

  if (region_->loop) {
    auto loop = CompiledLoop::make(*region_, *guards_,
                                   {options.listing, options.interp, options.losing, options.loops_at_o1,
                                    module::kernel_store(options.cached), std::move(loop_code)});
    if (!loop) return loop.error();
    loop_ = std::move(*loop);
  }
  // The times of large arrays decide, if they are measured, and not an estimate.
  if (!loop_ && !options.ignore_fp_flags && !options.losing && !(options.compared && gains_much(*region_)) &&
      !is_profitable(*region_, runner_->asks_scipy() && !options.o1, options.o1))
    policy_.set_unprofitable(RunPolicy::kUnprofitable);
  policy_.start(region_->function, least_bytecode_time(*region_));
  if (options.compared && !policy_.is_unprofitable() && !loop_)
    policy_.compare(region_->returns && region_->entry == 0 ? Comparison::kCalls : Comparison::kRounds);
  result_on_stack_ = has_result_on_stack(*region_);
  at_o1_ = options.o1 && !loop_ && computes_with_floats(graph);
  return {};
}

/// Do the guards hold, and is a run worth trying?
inline Outcome Entry::fits(Matched& m) {
  if (references_->is_broken() || !guards_->match(m)) return Outcome::Miss;
  policy_.count();
  if (policy_.rests(guards_->symbol_count() > 0)) return Outcome::Declined;
  if (!runner_->fits_settings()) return Outcome::Declined;
  return Outcome::Done;
}

/// Runs the plan. Profilers that take samples see the function, unless it has a frame of its own, or Python code runs,
/// which finds in its frames what it always finds there.
inline Outcome Entry::run_shown(const LiveSlots& live, Run& run) {
  const bool shown = !run.in_frame && !runner_->compiled().calls_python;
  auto* function = shown ? reinterpret_cast<PyFunctionObject*>(live.function) : nullptr;
  if (function && function->func_code != shown_for_) {
    shown_for_ = function->func_code;
    shown_code_ = capture::py::code_to_show(reinterpret_cast<PyCodeObject*>(function->func_code));
  }
  const capture::py::ShownFrame frame(function, shown_code_.get());
  return runner_->run(run, *conditions_);
}

/// `hand_over` takes what comes out from the workspace; false: the warnings of the run could not be given.
template <class HandOver>
inline Outcome Entry::run(const LiveSlots& live, bool in_frame, HandOver hand_over) {
  FRAMEJIT_RUN_MEMORY(s, live, conditions_->sizes);
  if (const Outcome outcome = fits(s.matched); outcome != Outcome::Done) return outcome;
  if (conditions_->finalizers.may_run(s.matched, in_frame)) return Outcome::Declined;
  if (policy_.is_comparing() &&
      !policy_.takes_turn(size_class_of(*region_->graph, {s.matched.symbols, guards_->symbol_count()}))) [[unlikely]]
    return Outcome::Declined;
  s.clear_owned();
  Run run(*materializer_, s.workspace, in_frame);
  std::optional<library_calls::Draws> draws;
  if (draws_) draws.emplace();
  const bool effects = effects_->any();
  if (effects_->may_run_code()) return Outcome::Declined;
  if (effects) run.trash.reserve(region_->effects.size());
  if (!materializer_->prepare(s.workspace)) {
    PyErr_Clear();
    return Outcome::Declined;
  }
  const capture::py::ProfiledCall profiled(in_frame ? nullptr : reinterpret_cast<PyFunctionObject*>(live.function));
  if (const Outcome outcome = run_shown(live, run); outcome != Outcome::Done) return outcome;
  if (effects && run.others_ran && !runner_->writes_params() && !conditions_->still_hold(s.matched, in_frame))
      [[unlikely]]
    return Outcome::Declined;
  const std::size_t kept = run.trash.size();
  if (!materializer_->finish(s.workspace) || (effects && !effects_->commit(s.workspace, run.trash))) [[unlikely]] {
    if (!runner_->writes_params() && effects_->take_back(s.workspace, run.trash, kept)) {
      PyErr_Clear();
      return Outcome::Declined;
    }
    if (draws) draws->keep();
    materializer_->complete(s.workspace);
    if (in_frame) hand_over(s.workspace.objects, true);
    return Outcome::Error;
  }
  if (draws) draws->keep();
  return hand_over(s.workspace.objects, runner_->warn(run.unsaid));
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
  if (is_outdated()) return Outcome::Miss;
  FRAMEJIT_RUN_MEMORY(s, frame, conditions_->sizes);
  if (const Outcome misfit = fits(s.matched); misfit != Outcome::Done) return misfit;
  if (conditions_->finalizers.may_run(s.matched, true)) return Outcome::Declined;
  if (frame.outlives && loop_->drops_locals()) return Outcome::Declined;
  // NumPy's scalars report underflow too, if they are asked to.
  if (arrays::ErrState::current().watched() & FE_UNDERFLOW) return Outcome::Declined;
  const Outcome outcome = loop_->run(s.matched, update);
  module::stats.kernel_calls += outcome != Outcome::Miss;
  // A function for C has none: it is not captured again.
  const std::shared_ptr<capture::LoopFindings>& findings = region_->loop->findings;
  if (findings && loop_->wraps_indices()) {
    findings->wraps_indices = true;
    outdated_by_ = "indices are seldom below 0";
  } else if (findings && loop_->boxes_lists()) {
    findings->boxes_lists = true;
    outdated_by_ = "numbers can be taken out of lists, and that pays";
  }
  if (loop_->is_hopeless()) policy_.give_up(RunPolicy::kLeavesLoop);
  return outcome;
}

Outcome Entry::enter(const capture::FrameView& frame, capture::FrameUpdate& update) {
  if (loop_) return enter_loop(frame, update);
  if (frame.outlives && region_->returns) return Outcome::Declined;
  // The room for what the frame gets: once effects are committed, there is no way back.
  update.locals.reserve(update.locals.size() + region_->locals.size());
  update.stack.reserve(update.stack.size() + region_->stack.size() + 1);
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

Outcome Entry::try_out(const LiveSlots& live, bool in_frame, const std::function<void(const Workspace&)>& use) {
  FRAMEJIT_RUN_MEMORY(s, live, conditions_->sizes);
  Outcome outcome = fits(s.matched);
  if (outcome != Outcome::Done) return outcome;
  s.clear_owned();
  Run run(*materializer_, s.workspace, in_frame);
  const library_calls::Draws draws;
  outcome = Outcome::Declined;
  if (materializer_->prepare(s.workspace)) {
    const std::unique_ptr<runtime::Undo> undo =
        save_written(*region_->graph, std::span<char* const>(s.matched.params, guards_->input_count()),
                     std::span<const int64_t>(s.matched.symbols, guards_->symbol_count()));
    outcome = runner_->run(run, *conditions_);
    if (outcome == Outcome::Done) {
      const bool warns = std::any_of(run.unsaid.begin(), run.unsaid.end(), [](unsigned raised) { return raised != 0; });
      if (!warns && materializer_->finish(s.workspace)) use(s.workspace);
      else outcome = Outcome::Declined;
      undo->rollback();
    }
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return outcome;
}

int64_t Entry::time_kernels(const LiveSlots& live, int64_t runs) {
  FRAMEJIT_RUN_MEMORY(s, live, conditions_->sizes);
  if (fits(s.matched) != Outcome::Done) return -1;
  const int64_t start = now_ns();
  for (int64_t i = 0; i < runs; ++i) {
    s.clear_owned();
    Run run(*materializer_, s.workspace, false);
    const library_calls::Draws draws;
    if (!materializer_->prepare(s.workspace) || runner_->run(run, *conditions_) != Outcome::Done ||
        !materializer_->finish(s.workspace))
      return PyErr_Clear(), -1;
  }
  return now_ns() - start;
}

}  // namespace framejit::ext::region
