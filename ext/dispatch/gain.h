// What the calls of a function take, and what they would take as plain Python: for reports. Now and then a call, or a
// round of a loop in a call, runs as plain Python instead of compiled, so nothing runs twice. Only functions whose
// results are the same either way are sampled.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "capture/py/slots.h"
#include "ext/module/events.h"
#include "ext/region/comparison.h"

namespace framejit::ext::dispatch {

class CodeState;
struct JitSettings;

/// Whether the calls of functions that are marked from now on are measured (_core.set_measuring).
inline bool measuring = false;

class Gain {
 public:
  /// `why_never_sampled`: a clause for reports; null if calls may run as plain Python.
  explicit Gain(const char* why_never_sampled) : why_never_sampled_(why_never_sampled) {}
  /// Null for generators, whose frames outlive the call.
  static std::unique_ptr<Gain> make(PyCodeObject* code, const JitSettings& settings);

  /// For reports: see framejit._reporting._collect.FunctionReport.
  module::Record record() const;

 private:
  friend class MeasuredCall;

  struct Runs {
    int64_t calls = 0, ns = 0;
    void add(int64_t nanoseconds) { ++calls, ns += nanoseconds; }
    double mean() const { return calls ? static_cast<double>(ns) / static_cast<double>(calls) : 0; }
  };
  /// Calls whose arguments are of about one size.
  struct Class {
    Runs compiled, plain;
    Runs compiling;        // as a whole: also the first to use memory and threads
    Runs counted;          // those compiled calls whose gain is not part of a caller's
    std::size_t kind = 0;  // of the last call's arguments
    bool is_sample_due(std::size_t kind) const;
    void add(region::Side side, int64_t nanoseconds);
  };
  /// Rounds of a loop, from one visit of a site to the next: for functions that are called too seldom for samples.
  struct Loop {
    uint32_t head, end;  // instructions
    bool is_timed;       // at this one of its sites
    Class rounds = {};
  };

  std::map<int, Class> classes_;
  std::map<uint32_t, Loop> loops_;  // by site
  const char* why_never_sampled_;
  bool calls_others_ = false;  // that are measured too
};

/// One call, from here to end(). A recursive call, and the calls that a plain call makes, are part of the outer call.
class MeasuredCall {
 public:
  MeasuredCall(Gain& gain, capture::py::Slots arguments, int count);
  MeasuredCall(const MeasuredCall&) = delete;
  ~MeasuredCall() { end(); }

  /// How the call has to run.
  region::Side side() const { return side_; }
  void end();

  /// A region's turn has come at a site of the function: does it run? It does not in rounds that run as plain Python.
  static bool runs_region(CodeState& state, uint32_t site, capture::py::Slots locals);

 private:
  struct Round {
    Gain::Loop* loop;
    uint32_t site;
    capture::py::Slots locals;  // of the frame
    region::Side side;
    bool was_sampled;
    bool calls_others = false;
    int visits = 0;  // of other sites
    int64_t start = 0, compile_ns = 0, excess_ns = 0;
  };
  bool is_in_plain_round(const Gain::Class& call);
  bool visit(CodeState& state, uint32_t site, capture::py::Slots locals);
  void end_round();
  void unlink();

  Gain& gain_;
  Gain::Class* class_ = nullptr;  // null: part of an outer call, or ended
  region::Side side_ = region::Side::Compiled;
  MeasuredCall* outer_ = nullptr;
  bool was_sampled_ = false;  // its class, before this call
  bool is_covered_ = false;   // by the gain of an outer call
  std::optional<Round> round_;
  bool calls_others_ = false;
  int64_t start_ = 0, compile_ns_ = 0, excess_ns_ = 0;
};

}  // namespace framejit::ext::dispatch
