// See gain.h.
#include "ext/dispatch/gain.h"

#include <algorithm>
#include <utility>

#include "ext/arrays/numpy_api.h"
#include "ext/dispatch/code_state.h"
#include "ext/module/module.h"
#include "ext/module/stats.h"

namespace framejit::ext::dispatch {

using region::read_clock;
using region::Reading;
using region::Side;

namespace {

constexpr int64_t kFewCalls = 4;
constexpr int kMostVisits = 16;     // of other sites in a round
constexpr double kLongestCall = 2;  // of a round

thread_local MeasuredCall* innermost = nullptr;

/// Not part of the time of the calls around: measuring itself, and what plain calls took more than compiled ones would.
int64_t excess_ns = 0;

/// Arguments of another type or size may have other code compiled, which reports have to show.
std::size_t kind_of(capture::py::Slots arguments, int count) {
  std::size_t kind = static_cast<std::size_t>(count);
  auto mix = [&kind](std::size_t value) { kind = kind * 1000003 ^ value; };
  for (int i = 0; i < count; ++i) {
    PyObject* object = arguments[i];
    mix(reinterpret_cast<std::size_t>(object ? Py_TYPE(object) : nullptr));
    if (!object || !PyArray_Check(object)) {
      mix(static_cast<std::size_t>(region::size_class(&object, 1)));
      continue;
    }
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    mix(static_cast<std::size_t>(PyArray_TYPE(array)));
    for (int axis = 0; axis < PyArray_NDIM(array); ++axis) mix(static_cast<std::size_t>(PyArray_DIM(array, axis)));
  }
  return kind;
}

/// Calls of these functions cannot be told from plain Python by what they return or raise.
const char* why_never_sampled(const JitSettings& settings) {
  if (settings.o1) return "no gain is measured at O1, where plain Python gives other bits";
  if (settings.fullgraph) return "no gain is measured with fullgraph=True, which forbids plain Python";
  const bool same = !settings.ignore_fp_flags && !settings.constant_parameters && !settings.stress.any();
  if (same && settings.plan.resident < INT64_MAX) return nullptr;
  return "no gain is measured with these settings, which plain Python does not have";
}

}  // namespace

std::unique_ptr<Gain> Gain::make(PyCodeObject* code, const JitSettings& settings) {
  if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) return nullptr;
  return std::make_unique<Gain>(why_never_sampled(settings));
}

/// The k-th sample comes after k * k compiled calls, and samples take no more time than compiled calls do.
bool Gain::Class::is_sample_due(std::size_t its_kind) const {
  if (compiled.calls <= plain.calls * plain.calls || plain.ns > compiled.ns) return false;
  return its_kind == kind || compiled.calls >= kFewCalls;
}

void Gain::Class::add(Side side, int64_t nanoseconds) {
  if (side == Side::Bytecode && plain.calls == 1) plain.ns = nanoseconds;  // the first one warmed up
  (side == Side::Compiled ? compiled : plain).add(nanoseconds);
  if (side == Side::Compiled) return;
  excess_ns += nanoseconds - static_cast<int64_t>(compiled.mean());
  ++region::bytecode_turns;
}

module::Record Gain::record() const {
  Runs compiled, compiling, compared, rounds, counted;
  int64_t samples = 0;
  double plain_ns = 0, rounds_plain_ns = 0, counted_plain_ns = 0;
  auto add = [&](const Class& c, Runs& to, double& its_plain_ns) {
    if (!c.plain.calls) return;
    samples += c.plain.calls;
    to.calls += c.compiled.calls;
    to.ns += c.compiled.ns;
    its_plain_ns += c.plain.mean() * static_cast<double>(c.compiled.calls);
    counted.calls += c.counted.calls;
    counted.ns += c.counted.ns;
    counted_plain_ns += c.plain.mean() * static_cast<double>(c.counted.calls);
  };
  for (const auto& [size, c] : classes_) {
    compiled.calls += c.compiled.calls;
    compiled.ns += c.compiled.ns;
    compiling.calls += c.compiling.calls;
    compiling.ns += c.compiling.ns;
    add(c, compared, plain_ns);
  }
  for (const auto& [site, loop] : loops_) add(loop.rounds, rounds, rounds_plain_ns);
  module::Record record;
  record.put("calls", compiled.calls)
      .put("ns", compiled.ns)
      .put("compiling_calls", compiling.calls)
      .put("compiling_calls_ns", compiling.ns)
      .put("samples", samples)
      .put("compared_calls", compared.calls)
      .put("compared_ns", compared.ns)
      .put("plain_ns", static_cast<int64_t>(plain_ns))
      .put("compared_rounds", rounds.calls)
      .put("compared_rounds_ns", rounds.ns)
      .put("rounds_plain_ns", static_cast<int64_t>(rounds_plain_ns))
      .put("counted", counted.calls)
      .put("counted_ns", counted.ns)
      .put("counted_plain_ns", static_cast<int64_t>(counted_plain_ns))
      .put("calls_others", calls_others_ ? Py_True : Py_False)
      .put("why_unmeasured", std::string(why_never_sampled_ ? why_never_sampled_ : ""));
  return record;
}

MeasuredCall::MeasuredCall(Gain& gain, capture::py::Slots arguments, int count) : gain_(gain) {
  bool recurs = false, is_plain = false;
  Gain::Class& of = gain.classes_[region::size_class(arguments, count)];
  for (MeasuredCall* call = innermost; call; call = call->outer_) {
    recurs = recurs || &call->gain_ == &gain;
    is_plain = is_plain || call->side_ == Side::Bytecode || call->is_in_plain_round(of);
  }
  if (is_plain && !gain.why_never_sampled_) side_ = Side::Bytecode;
  if (is_plain || recurs) return;
  const int64_t entered = read_clock(Reading::Start);
  class_ = &of;
  was_sampled_ = class_->plain.calls > 0;
  const std::size_t kind = kind_of(arguments, count);
  if (!gain.why_never_sampled_ && class_->is_sample_due(kind)) side_ = Side::Bytecode;
  class_->kind = kind;
  outer_ = innermost;
  innermost = this;
  if (outer_) {
    is_covered_ = outer_->is_covered_ || outer_->was_sampled_ || (outer_->round_ && outer_->round_->was_sampled);
    outer_->calls_others_ = outer_->gain_.calls_others_ = true;
    if (outer_->round_) outer_->round_->calls_others = true;
  }
  compile_ns_ = module::stats.compile_ns;
  start_ = read_clock(Reading::Start);
  excess_ns += start_ - entered;
  excess_ns_ = excess_ns;
}

/// Whether a call is part of a round that runs as plain Python. The loop may have been left without notice: a call that
/// takes longer than a round is not part of it, and ends it.
bool MeasuredCall::is_in_plain_round(const Gain::Class& call) {
  if (!round_ || round_->side == Side::Compiled) return false;
  const double longest = kLongestCall * round_->loop->rounds.compiled.mean();
  const bool is_short = call.compiled.calls && call.compiled.mean() <= longest;
  if (!is_short) round_.reset();
  return is_short;
}

/// Calls need not end in the order in which they began: greenlets leave frames that others go on with.
void MeasuredCall::unlink() {
  MeasuredCall** at = &innermost;
  while (*at && *at != this) at = &(*at)->outer_;
  if (*at) *at = outer_;
}

void MeasuredCall::end() {
  if (!class_) return;
  const int64_t now = read_clock(side_ == Side::Compiled ? Reading::Compiled : Reading::Bytecode);
  unlink();
  Gain::Class& of = *std::exchange(class_, nullptr);
  if (PyErr_Occurred()) return;  // how far it came says nothing
  const int64_t time = std::max<int64_t>(now - start_ - (excess_ns - excess_ns_), 0);
  if (module::stats.compile_ns != compile_ns_) {
    of.compiling.add(time);
  } else {
    of.add(side_, time);
    // Otherwise the calls and rounds in it were counted.
    if (side_ == Side::Compiled && !is_covered_ && (was_sampled_ || !calls_others_)) of.counted.add(time);
  }
  excess_ns += read_clock(Reading::Start) - now;
}

bool MeasuredCall::runs_region(CodeState& state, uint32_t site, capture::py::Slots locals) {
  MeasuredCall* call = innermost;
  while (call && &call->gain_ != state.gain.get()) call = call->outer_;
  if (!call || call->was_sampled_ || call->gain_.why_never_sampled_) return true;
  return call->visit(state, site, locals);
}

bool MeasuredCall::visit(CodeState& state, uint32_t site, capture::py::Slots locals) {
  if (round_) {
    Gain::Loop& loop = *round_->loop;
    const bool goes_on = locals != round_->locals || (site != round_->site && site >= loop.head && site <= loop.end);
    const bool is_passed = round_->side == Side::Compiled && ++round_->visits > kMostVisits;
    if (goes_on && !is_passed) return round_->side == Side::Compiled;
    if (goes_on) loop.is_timed = false;  // regions go over the site now, or it is the head of a loop around
    else if (site == round_->site) end_round();
    round_.reset();
  }
  auto at = gain_.loops_.find(site);
  if (at == gain_.loops_.end()) {
    const auto [head, end] = loop_around(*state.view(), site);
    bool is_timed = end > 0;
    for (const auto& [other, loop] : gain_.loops_) is_timed = is_timed && !(loop.is_timed && loop.head == head);
    at = gain_.loops_.emplace(site, Gain::Loop{head, end, is_timed}).first;
  }
  Gain::Loop& loop = at->second;
  if (!loop.is_timed) return true;
  const Side side = loop.rounds.is_sample_due(0) ? Side::Bytecode : Side::Compiled;
  round_.emplace(Round{&loop, site, locals, side, loop.rounds.plain.calls > 0});
  round_->compile_ns = module::stats.compile_ns;
  round_->excess_ns = excess_ns;
  round_->start = read_clock(Reading::Start);
  return side == Side::Compiled;
}

void MeasuredCall::end_round() {
  const Round& round = *round_;
  const int64_t now = read_clock(round.side == Side::Compiled ? Reading::Compiled : Reading::Bytecode);
  if (module::stats.compile_ns == round.compile_ns) {
    const int64_t time = std::max<int64_t>(now - round.start - (excess_ns - round.excess_ns), 0);
    round.loop->rounds.add(round.side, time);
    if (round.side == Side::Compiled && !is_covered_ && (round.was_sampled || !round.calls_others)) {
      round.loop->rounds.counted.add(time);
      calls_others_ = true;
    }
  }
  excess_ns += read_clock(Reading::Start) - now;
}

namespace {

PyObject* set_measuring(PyObject*, PyObject* on) {
  const int is_true = PyObject_IsTrue(on);
  if (is_true < 0) return nullptr;
  return PyBool_FromLong(std::exchange(measuring, is_true != 0));
}

PyMethodDef methods[] = {
    {"set_measuring", set_measuring, METH_O,
     "set_measuring(bool): whether the calls of functions that are marked from now on are measured. "
     "Returns what held before."},
    {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

}  // namespace framejit::ext::dispatch
