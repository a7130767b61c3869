// The parts of a code object's state, together.
#include "ext/dispatch/code_state.h"

#include <string>
#include <utility>

#include "capture/py/repr.h"
#include "ext/dispatch/callees.h"
#include "ext/dispatch/diagnostics.h"
#include "ext/dispatch/gain.h"
#include "ext/module/events.h"

namespace framejit::ext::dispatch {

using capture::text_of;
using region::Entry;

namespace {

/// Owners that are gone have ids too: a state that was within reach of one stays what it was.
uint64_t new_function_id(const std::weak_ptr<CodeState>& owner, const JitSettings& settings) {
  static uint64_t ids = 0;
  return owner.expired() && !settings.fullgraph && !settings.ignore_fp_flags ? ++ids : 0;
}

}  // namespace

CodeState::CodeState(PyCodeObject* its_code, const JitSettings& its_settings, capture::CodeView::Keep keep,
                     std::weak_ptr<CodeState> its_owner)
    : CodeUnit(its_code, its_settings, keep),
      owner(std::move(its_owner)),
      function_id(new_function_id(owner, its_settings)) {
  entries.whole.varied.all = its_settings.dynamic;
  captures.broke = starts_broken();
  const std::shared_ptr<CodeState> whose = owner.lock();
  if (measuring || (whose && whose->gain)) measure();
}

CodeState::~CodeState() = default;

void CodeState::measure() { gain = Gain::make(code(), settings()); }

std::shared_ptr<CodeState> CodeState::function() {
  std::shared_ptr<CodeState> its_owner = owner.lock();
  return its_owner ? its_owner : shared_from_this();
}

void CodeState::note_inlined() {
  if (settings().plan.resident < INT64_MAX || said_inlined_ || !module::events_on(module::Channel::Perf)) return;
  said_inlined_ = true;
  emit(module::Channel::Perf, std::move(module::Record()
                                            .put("function", name())
                                            .put("file", text_of(code()->co_filename))
                                            .put("line", static_cast<int64_t>(code()->co_firstlineno))
                                            .put("what", std::string("backend='GE' is ignored below another jit"))));
}

bool CodeState::has_callees() const { return callees && callees->any_awake(); }

std::unique_ptr<capture::SplicedCode> CodeState::splice() {
  auto made = entries.sites.splice(*this, shared_from_this());
  const std::shared_ptr<Entry> first = std::move(captures.first_region);
  if (made && first)
    if (CompileSite* place = entries.sites.at(first->region().entry)) insert(*place, first, captures.first_kinds);
  return made;
}

void CodeState::insert(CompileSite& place, std::shared_ptr<Entry> entry, uint64_t kinds) {
  announce(*entry, code(), view()->instrs()[entry->region().entry].line, place.made);
  captures.gave_entries = true;
  entry->references().weaken([state = weak_from_this()] {
    if (const std::shared_ptr<CodeState> here = state.lock()) here->entries.drop_invalid();
  });
  place.insert(std::move(entry), kinds);
}

void CodeState::note_lost(CompileSite& place) {
  if (!place.note_lost()) return;
  // A library's code that was not marked is nothing that who sees the warning can change.
  if (function().get() == this || !is_library_file(capture::text_of(code()->co_filename)))
    warn_recompile_limit(name(), *place.at_limit, place.made);
  place.at_limit.reset();
}

void CodeState::clear() {
  RetiredEntries::Busy busy(entries.retired);  // its end releases the entries, unless something else runs
  entries.clear();
  captures.broke = starts_broken();
  captures.gave_entries = false;
  captures.followed_from = 0;
  captures.first_region.reset();
  history.clear();
  loops.clear();
  comparison.clear();
  callees.reset();
  stored.reset();
}

int CodeState::traverse(visitproc visit, void* arg) const {
  int result = entries.traverse(visit, arg);
  if (!result && captures.first_region) result = captures.first_region->references().traverse(visit, arg);
  if (!result && callees) result = callees->traverse(visit, arg);
  if (!result) Py_VISIT(pending_error.get());
  return result;
}

}  // namespace framejit::ext::dispatch
