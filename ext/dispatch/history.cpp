// Records of breaks, recompilations and new entries.
#include "ext/dispatch/history.h"

#include <algorithm>
#include <utility>

#include "capture/py/repr.h"
#include "codegen/lower.h"
#include "ext/module/stats.h"

namespace framejit::ext::dispatch {

using capture::Break;
using capture::Ref;
using capture::text_of;
using module::Channel;
using module::events_on;
using module::Record;

namespace {

constexpr std::size_t kMostRecompiles = 64;

}  // namespace

CodeName::CodeName(PyCodeObject* code)
    : function(text_of(code->co_qualname)), file(text_of(code->co_filename)), line(code->co_firstlineno) {}

Record CodeName::record() const {
  Record r;
  r.put("function", function).put("file", file).put("line", line);
  return r;
}

Record KnownBreak::record() const {
  Record record = module::break_record(at);
  if (called_from.line > 0)
    record.put("from_function", called_from.function)
        .put("from_file", called_from.file)
        .put("from_line", static_cast<int64_t>(called_from.line));
  return record;
}

namespace {

/// The same exception leaves, after another capture has found that it is raised.
bool leaves_again(const Break& b, const std::vector<KnownBreak>& known) {
  return b.id == capture::BreakId::ExceptionHandling &&
         std::any_of(known.begin(), known.end(), [&b](const KnownBreak& other) {
           return other.at.id == b.id && other.at.line == b.line && other.at.column == b.column &&
                  other.at.function == b.function;
         });
}

}  // namespace

void History::add(KnownBreak known, const JitSettings& settings) {
  const Break& b = known.at;
  if (leaves_again(b, breaks_)) return;
  if (!known_breaks_.insert({b.instr, static_cast<uint16_t>(b.id)}).second) return;
  ++module::stats.graph_breaks;
  ++module::break_counts[b.id];
  if (events_on(Channel::GraphBreaks))
    emit(Channel::GraphBreaks,
         std::move(known.record().put("capture_mode", std::string(settings.ast ? "ast" : "bytecode"))));
  breaks_.push_back(std::move(known));
}

void History::forget(const std::string& function, uint32_t first, uint32_t last) {
  std::erase_if(breaks_, [&](const KnownBreak& b) {
    return b.at.function == function && b.at.instr >= first && b.at.instr <= last;
  });
}

void History::add(const Recompile& recompile, PyCodeObject* code) {
  if (!events_on(Channel::Recompiles) && recompiles_.size() >= kMostRecompiles) return;
  const guards::GuardFailure& failure = recompile.failure;
  const graph::Location at =
      recompile.old ? recompile.old->region().graph->location(failure.location) : graph::Location{};
  Record record = CodeName(code).record();
  record.put("entry", static_cast<int64_t>(recompile.entry))
      .put("guard", failure.guard)
      .put("expected", failure.expected)
      .put("found", failure.found)
      .put("guard_file", at.file)
      .put("guard_line", static_cast<int64_t>(at.line))
      .put("reason", failure.reason);
  if (!recompile.limit) record.put("new_entry", static_cast<int64_t>(recompile.entry + 1));
  if (!failure.varied.empty() && !recompile.limit) record.put("becomes", std::string("symbolic from now on"));
  if (recompile.limit)
    record.put("becomes", std::string("config.recompile_limit is reached: the interpreter runs it from now on"));
  if (recompiles_.size() < kMostRecompiles) recompiles_.push_back(Ref<>::share(record.get()));
  emit(Channel::Recompiles, std::move(record));
}

void History::clear() {
  breaks_.clear();
  known_breaks_.clear();
  recompiles_.clear();
}

void announce(const region::Entry& entry, PyCodeObject* code, int line, int64_t number) {
  if (!module::enabled_channels) return;
  CodeName name(code);
  name.line = line;
  auto record = [&] {
    Record r = name.record();
    r.put("entry", number);
    return r;
  };
  if (events_on(Channel::Guards)) {
    std::string text;
    for (const capture::Guard& g : entry.guards()) text += g.str() + "\n";
    emit(Channel::Guards, std::move(record().put("text", text)));
  }
  if (events_on(Channel::Graph))
    emit(Channel::Graph, std::move(record().put("text", entry.graph_text()).put("located", entry.graph_text(true))));
  if (events_on(Channel::Kernels))
    emit(Channel::Kernels, std::move(record().put("text", codegen::listing(entry.plan().program()))));
  if (events_on(Channel::Asm)) {
    std::string text;
    for (const codegen::KernelCode& kernel : entry.plan().program().kernels)
      text += "; " + kernel.name + "\n" + kernel.listing + "\n";
    if (entry.loop()) text += "; loop\n" + entry.loop()->listing() + "\n";
    emit(Channel::Asm, std::move(record().put("text", text)));
  }
  if (events_on(Channel::Perf)) {
    emit(Channel::Perf, std::move(record()
                                      .put("what", std::string("compiled"))
                                      .put("capture_ns", entry.capture_ns)
                                      .put("passes_ns", entry.runner().compiled().passes_ns)
                                      .put("codegen_ns", entry.runner().compiled().codegen_ns)
                                      .put("code_bytes", static_cast<int64_t>(entry.plan().code_bytes()))));
  }
}

}  // namespace framejit::ext::dispatch
