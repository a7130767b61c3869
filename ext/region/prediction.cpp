// The record of a prediction.
#include "ext/region/prediction.h"

#include <algorithm>
#include <vector>

#include "capture/python_names.h"
#include "ext/module/events.h"

namespace framejit::ext::region {

using capture::Ref;

namespace {

/// A list of borrowed objects, null for none: framejit._reporting._verify.UNBOUND.
Ref<> object_list(capture::py::Slots objects, std::size_t count, PyObject* unbound) {
  Ref<> list = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; list && i < count; ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i),
                    Py_NewRef(objects[static_cast<int64_t>(i)] ? objects[static_cast<int64_t>(i)] : unbound));
  return list;
}

Ref<> record_of(const Entry& entry, const capture::FrameView& frame, const Workspace& w) {
  const capture::Region& region = entry.region();
  const guards::GuardProgram& guards = entry.guard_program();
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
  for (std::size_t i = 0; i < region.recipes.size(); ++i)
    if (region.recipes[i].kind == Kind::Fetch || region.recipes[i].kind == Kind::Constant)
      ok = ok && append(existing, PyLong_FromVoidPtr(w.objects[i]));
  const std::vector<guards::GuardOperand>& inputs = guards.input_operands();
  const graph::Graph& graph = *region.graph;
  const std::vector<graph::ValueId> roots = graph::written_roots(graph, graph.body());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PyObject* input = guards.object(*w.matched, inputs[i]);
    ok = ok && append(existing, PyLong_FromVoidPtr(input));
    const bool is_written = std::find(roots.begin(), roots.end(), graph.params()[i]) != roots.end();
    if (is_written && region.inputs[i].spec.wrap == capture::Wrap::NdArray)
      ok = ok && append(written, Py_NewRef(input));
  }
  for (const auto& [slot, recipe] : region.locals)
    ok = ok && append(locals, Py_BuildValue("(iO)", slot, object(recipe)));
  std::vector<PyObject*> stack;
  for (const uint32_t recipe : region.stack) stack.push_back(w.objects[recipe]);
  if (has_result_on_stack(region)) stack.push_back(w.objects[region.result]);
  for (const capture::Effect& e : region.effects) {
    // A cache counts again when it is called, and what is printed is not looked at.
    if (e.kind == capture::Effect::Kind::CountCall || e.kind == capture::Effect::Kind::Print) continue;
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
  record.put("code", reinterpret_cast<PyObject*>(region.view->code()))
      .put("globals", frame.globals)
      .put("first_line", static_cast<int64_t>(region.view->instrs()[region.entry].line))
      .put("last_line", static_cast<int64_t>(region.view->instrs()[region.exit].line))
      .put("frame", address.get())
      .put("returns", region.returns ? Py_True : Py_False)
      .put("existing", existing.get())
      .put("locals", locals.get())
      .put("stack", stack_list.get())
      .put("written", written.get())
      .put("effects", effects.get());
  return Ref<>::steal(PyObject_CallMethod(module.get(), "Prediction", "OO", record.get(), before.get()));
}

}  // namespace

Outcome predict(Entry& entry, const capture::FrameView& frame, Ref<>& record) {
  const Outcome outcome = entry.try_out(frame, true, [&](const Workspace& w) { record = record_of(entry, frame, w); });
  return outcome == Outcome::Done && !record ? Outcome::Declined : outcome;
}

}  // namespace framejit::ext::region
