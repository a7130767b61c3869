#include "ext/dispatch/function_report.h"

#include "codegen/lower.h"
#include "ext/dispatch/callees.h"
#include "ext/dispatch/function.h"
#include "ext/dispatch/gain.h"
#include "ext/dispatch/whole_calls.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/events.h"

namespace framejit::ext::dispatch {

using capture::Ref;
using module::Record;
using region::Entry;

namespace {

CodeState& state_of(PyObject* self) { return *reinterpret_cast<FunctionObject*>(self)->state; }

Ref<> text(const std::string& s) {
  return Ref<>::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

template <class F>
PyObject* list_of_entries(PyObject* self, F&& make) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  bool ok = static_cast<bool>(list);
  for (const auto& [entry, site] : state_of(self).entries.all()) {
    Ref<> item = ok ? make(*entry, site) : Ref<>();
    ok = ok && item && PyList_Append(list.get(), item.get()) == 0;
  }
  return ok ? list.release() : PyErr_Occurred() ? nullptr : PyErr_NoMemory();
}

Ref<> guard_list(const Entry& entry) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (const capture::Guard& g : entry.guards())
    if (!list || PyList_Append(list.get(), text(g.str()).get()) < 0) return {};
  return list;
}

/// The code of the functions that were captured as part of it.
Ref<> inlined_code(const Entry& entry) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (const capture::Guard& g : entry.guards())
    if (g.kind == capture::GuardKind::Code && (!list || PyList_Append(list.get(), g.object.get()) < 0)) return {};
  return list;
}

std::string kind_of(const Entry& entry, int site) {
  if (site < 0) return "function";
  if (!entry.loop()) return "region";
  return entry.region().loop->recursion ? "recursion" : "loop";
}

/// One compiled entry. `site`: -1 for a whole call; `why_given_up`: the function as a whole, "": it is not.
Ref<> entry_record(const Entry& entry, int site, const std::string& why_given_up) {
  const capture::Region& region = entry.region();
  const auto instrs = region.view->instrs();
  const Ref<> kernels = Ref<>::steal(PyList_New(0)), exits = Ref<>::steal(PyList_New(0));
  if (const region::CompiledLoop* loop = entry.loop()) {
    Record k;
    k.put("name", region.function + " (loop)").put("bytes", static_cast<int64_t>(loop->code_bytes()));
    if (!kernels || PyList_Append(kernels.get(), k.get()) < 0) return {};
    for (std::size_t i = 0; i < region.loop->exits.size(); ++i) {
      const capture::LoopExit& exit = region.loop->exits[i];
      if (loop->exits_taken()[i] == 0 && exit.why.empty()) continue;
      Record e;
      e.put("line", static_cast<int64_t>(exit.line)).put("taken", loop->exits_taken()[i]).put("why", exit.why);
      e.put("early", exit.early ? Py_True : Py_False);
      if (!exits || PyList_Append(exits.get(), e.get()) < 0) return {};
    }
  }
  for (const codegen::KernelCode& kernel : entry.plan().program().kernels) {
    Record k;
    k.put("name", kernel.name).put("bytes", static_cast<int64_t>(kernel.bytes.size()));
    if (!kernels || PyList_Append(kernels.get(), k.get()) < 0) return {};
  }
  Record r;
  r.put("kind", kind_of(entry, site))
      .put("first_line", static_cast<int64_t>(region.loop ? region.loop->line : instrs[region.entry].line))
      .put("last_line", static_cast<int64_t>(region.loop ? region.loop->last_line : instrs[region.exit].line))
      .put("exits", exits.get())
      .put("returns", region.returns ? Py_True : Py_False)
      .put("guards", guard_list(entry).get())
      .put("inlined", inlined_code(entry).get())
      .put("graph", entry.graph_text())
      .put("kernels", kernels.get())
      .put("program", codegen::listing(entry.plan().program()))
      .put("steps", static_cast<int64_t>(entry.plan().program().steps.size()))
      .put("library_calls", entry.runner().compiled().library_calls)
      .put("instructions", static_cast<int64_t>(region.instructions))
      .put("hits", entry.policy().hits())
      .put("parallel_rounds", entry.loop() ? entry.loop()->parallel_rounds() : int64_t{0})
      .put("vector_rounds", entry.loop() ? entry.loop()->vector_rounds() : int64_t{0})
      .put("demoted", *entry.policy().why_given_up() ? entry.policy().why_given_up() : why_given_up)
      .put("code_bytes", entry.code_bytes())
      .put("capture_ns", entry.capture_ns)
      .put("passes_ns", entry.runner().compiled().passes_ns)
      .put("codegen_ns", entry.runner().compiled().codegen_ns);
  return r.take();
}

}  // namespace

PyObject* function_cache_entries(PyObject* self, PyObject*) {
  return list_of_entries(self, [](const Entry& entry, int site) {
    Record r;
    r.put("kind", kind_of(entry, site))
        .put("line", static_cast<int64_t>(entry.region().view->instrs()[entry.region().entry].line))
        .put("guards", guard_list(entry).get())
        .put("hits", entry.policy().hits())
        .put("code_bytes", entry.code_bytes())
        .put("buffer_bytes", entry.plan().buffer_bytes(entry.region().graph->shapes().hints()))
        .put("resident_bytes", entry.plan().resident_bytes());
    return r.take();
  });
}

PyObject* function_cache_clear(PyObject* self, PyObject*) {
  state_of(self).clear();
  reinterpret_cast<FunctionObject*>(self)->direct.reset();
  Py_RETURN_NONE;
}

PyObject* function_graphs(PyObject* self, PyObject*) {
  std::string all;
  for (const auto& [entry, site] : state_of(self).entries.all()) all += (all.empty() ? "" : "\n") + entry->graph_text();
  return text(all).release();
}

PyObject* function_asm(PyObject* self, PyObject*) {
  try {
    std::string all;
    for (const auto& [entry, site] : state_of(self).entries.all())
      all += listing(*entry->region().graph, entry->runner().options());
    return text(all).release();
  } catch (const std::exception& error) {
    return PyErr_Format(PyExc_RuntimeError, "framejit: %s", error.what());
  }
}

namespace {

Ref<> report_of_one(CodeState& state) {
  Ref<> entries = Ref<>::steal(PyList_New(0));
  Ref<> breaks = Ref<>::steal(PyList_New(0));
  Ref<> recompiles = Ref<>::steal(PyList_New(0));
  if (!entries || !breaks || !recompiles) return {};
  bool ok = true;
  for (const auto& [entry, site] : state.entries.all())
    ok = ok && PyList_Append(entries.get(), entry_record(*entry, site, state.comparison.why_given_up()).get()) == 0;
  for (const KnownBreak& b : state.history.breaks()) ok = ok && PyList_Append(breaks.get(), b.record().get()) == 0;
  for (const Ref<>& record : state.history.recompiles()) ok = ok && PyList_Append(recompiles.get(), record.get()) == 0;
  if (!ok) return {};
  Record r;
  r.put("function", reinterpret_cast<PyObject*>(state.code()->co_qualname))
      .put("file", state.code()->co_filename)
      .put("line", static_cast<int64_t>(state.code()->co_firstlineno))
      .put("entries", entries.get())
      .put("breaks", breaks.get())
      .put("recompiles", recompiles.get())
      .put("spliced", state.entries.sites.code() ? Py_True : Py_False)
      .put("sites", static_cast<int64_t>(state.entries.sites.code() ? state.entries.sites.code()->sites().size() : 0))
      .put("dormant_sites", static_cast<int64_t>(state.entries.sites.dormant_count()))
      .put("compile_ns", state.budget.spent());
  if (state.gain) r.put("gain", state.gain->record().get());
  if (state.entries.sites.code())
    r.put("codes", Ref<>::steal(PyTuple_Pack(2, state.code(), state.entries.sites.code()->code())).get());
  return r.take();
}

}  // namespace

PyObject* report_of(CodeState& state) {
  Ref<> own = report_of_one(state);
  Ref<> callees = Ref<>::steal(PyList_New(0));
  bool ok = own && callees;
  for (CodeState* callee : state.callees ? state.callees->states() : std::vector<CodeState*>{}) {
    const Ref<> one = ok ? report_of_one(*callee) : Ref<>();
    ok = one && PyList_Append(callees.get(), one.get()) == 0;
  }
  ok = ok && PyDict_SetItemString(own.get(), "callees", callees.get()) == 0;
  return ok ? own.release() : nullptr;
}

PyObject* function_report(PyObject* self, PyObject*) { return report_of(state_of(self)); }

PyObject* function_time_kernels(PyObject* self, PyObject* args) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args) - 1;
  const long long runs = count < 0 ? -1 : PyLong_AsLongLong(PyTuple_GET_ITEM(args, 0));
  if (runs < 0) return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_TypeError, "_time_kernels(runs, *args)");
  CodeState& state = state_of(self);
  if (count != module::argument_slots(state.code())) Py_RETURN_NONE;
  auto* function = reinterpret_cast<PyObject*>(reinterpret_cast<FunctionObject*>(self)->function);
  const guards::LiveSlots live{&PyTuple_GET_ITEM(args, 1), static_cast<int>(count), nullptr, 0, function};
  const std::shared_ptr<Entry> entry = entry_of_call(state, live);
  const int64_t nanoseconds = entry ? entry->time_kernels(live, runs) : -1;
  return nanoseconds < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(nanoseconds);
}

}  // namespace framejit::ext::dispatch
