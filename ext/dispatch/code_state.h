// CodeState: everything that is compiled for one code object - entries for whole calls, spliced code with the entries
// of its regions, what varied, what broke. Shared by a Function, by frames that run its spliced code, and by marked
// code.
//
//     call  ->  whole entries (no frame)            where one capture went from the start to a return
//           ->  spliced code -> ask(site) -> entries of that site     where it did not
//           ->  the user's own code                 under tools, past limits, with nothing to compile
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "capture/region.h"
#include "capture/splice.h"
#include "ext/dispatch/budget.h"
#include "ext/dispatch/code_unit.h"
#include "ext/dispatch/compile_site.h"
#include "ext/dispatch/entry_table.h"
#include "ext/dispatch/history.h"
#include "ext/dispatch/loop_sites.h"
#include "ext/dispatch/predictions.h"
#include "ext/dispatch/run_comparison.h"
#include "ext/dispatch/stored_captures.h"
#include "ext/module/control.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext::dispatch {

class CalleeRegistry;
class Gain;

/// What the captures of a code object have come to.
struct Captures {
  bool is_running = false;     // one of them
  bool gave_entries = false;   // something was compiled, once
  bool broke = false;          // one from the start did not reach a return
  bool left_call = false;      // the call that was captured now has nothing to compile: the user's own code runs it
  bool elements_lost = false;  // a region that works on elements was measured to be slower: no other one is made in a
                               // loop
  bool said_budget = false;
  int followed_from = 0;                        // the depth of calls from which on recursive ones are followed
  std::shared_ptr<region::Entry> first_region;  // for the first site, when the code is spliced
  uint64_t first_kinds = 0;                     // of what it was captured from
};

/// What is known of one code object. The parts are used by what runs it: whole_calls.h, bytecode_calls.h, ask(), and by
/// what compiles it: pipeline.h.
class CodeState final : public CodeUnit, public capture::SiteHandler, public std::enable_shared_from_this<CodeState> {
 public:
  /// `keep`: Contents for a state that hangs on the code object itself, which it must not keep alive.
  /// `owner`: of the function within whose reach the code is, if it is so for that alone.
  CodeState(PyCodeObject* code, const JitSettings& settings,
            capture::CodeView::Keep keep = capture::CodeView::Keep::Code, std::weak_ptr<CodeState> owner = {});
  ~CodeState() override;

  /// A site of the spliced code is visited: site_visits.cpp.
  bool ask(uint32_t site, const capture::FrameView& frame, capture::FrameUpdate& update) override;

  /// Should capture_whole be tried after a miss?
  bool wants_capture() const { return !captures.broke && !entries.whole.exhausted && !captures.is_running; }
  bool needs_splicing() const { return captures.broke && !entries.sites.code() && !entries.sites.is_unsplicable(); }
  /// Null: it cannot be spliced.
  std::unique_ptr<capture::SplicedCode> splice();
  /// The spliced code, if it is to run instead of the user's, or null.
  PyCodeObject* replacement() { return entries.sites.replacement(*this, captures.gave_entries); }
  /// Was nothing found to compile in many calls?
  bool is_asleep() const {
    return captures.broke && !captures.gave_entries && (entries.sites.is_unsplicable() || entries.sites.is_tried());
  }
  /// Are there callees whose frames should come by the hook?
  bool has_callees() const;
  /// It is captured as part of another: a backend of its own is ignored, which the log says once.
  void note_inlined();
  /// From now on its calls are measured, for reports.
  void measure();

  /// `kinds`: of what the entry was captured from.
  void insert(CompileSite& place, std::shared_ptr<region::Entry> entry, uint64_t kinds);
  /// A call came to nothing because of the recompile limit: warns once.
  void note_lost(CompileSite& place);
  /// The state of the function on whose behalf this code is compiled: the owner's, or this one.
  std::shared_ptr<CodeState> function();

  /// As if nothing had been compiled.
  void clear();
  /// What owned it lets go of it: it stays alive until nothing runs.
  void retire() {
    if (entries.retired.is_running()) entries.retired.keep_alive(shared_from_this());
  }
  int traverse(visitproc visit, void* arg) const;

  const std::weak_ptr<CodeState> owner;
  CallSite called_from;  // of a callee within reach of another function: see CalleeRegistry::add
  /// For an ActiveFunctionScope around the code's frames; 0: they are within another's reach, or their callees stay as
  /// they are.
  const uint64_t function_id;

  EntryTable entries;
  LoopSites loops;
  Captures captures;
  History history;
  RunComparison comparison;
  CompileBudget budget;                     // with callees
  std::unique_ptr<CalleeRegistry> callees;  // of the owner
  std::unique_ptr<Gain> gain;               // null: its calls are not measured
  Predictions predictions;
  std::shared_ptr<StoredCaptures> stored;  // null: they are not kept
  capture::Ref<> pending_error;  // of a region, for the end of the call: internal ones under config.strict, those of
                                 // the stance
  uint64_t disabled_epoch = module::disabled_epoch;
  int depth = 0;            // of calls that have begun
  bool ran_region = false;  // in a call that has not ended

 private:
  bool said_inlined_ = false;
};

/// The Python function behind a jitted one, borrowed, or null: inlined as if it were not marked.
PyObject* unwrap_function(PyObject* callable);

}  // namespace framejit::ext::dispatch
