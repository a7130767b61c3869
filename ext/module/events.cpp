// _core.set_event_handler(callable or None, channels).
#include "ext/module/events.h"

#include <cstring>

#include "ext/module/control.h"
#include "ext/module/module.h"

namespace framejit::ext::module {

using capture::Ref;

namespace {

constexpr const char* kChannels[] = {"graph_breaks", "recompiles", "guards", "graph", "kernels", "asm", "perf"};

PyObject* handler = nullptr;  // owned; replaced only by set_event_handler

PyObject* set_event_handler(PyObject*, PyObject* args) {
  PyObject* callable;
  PyObject* channels = nullptr;
  if (!PyArg_ParseTuple(args, "O|O:set_event_handler", &callable, &channels)) return nullptr;
  unsigned mask = 0;
  if (callable != Py_None && channels && channels != Py_None) {
    Ref<> names = Ref<>::steal(PySequence_List(channels));
    if (!names) return nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i) {
      const char* name = PyUnicode_AsUTF8(PyList_GET_ITEM(names.get(), i));
      if (!name) return nullptr;
      unsigned bit = 0;
      for (unsigned c = 0; c < std::size(kChannels); ++c)
        if (std::strcmp(kChannels[c], name) == 0) bit = 1u << c;
      if (!bit) return PyErr_Format(PyExc_ValueError, "there is no event channel '%s'", name);
      mask |= bit;
    }
  }
  PyObject* old = handler;
  handler = callable == Py_None ? nullptr : Py_NewRef(callable);
  enabled_channels = mask;
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

/// The registry, as (id, name, what, why, example, way_out).
PyObject* break_reasons(PyObject*, PyObject*) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  auto add = [&list](int number, auto... texts) {
    const std::string code(capture::code_of(static_cast<capture::BreakId>(number)));
    const Ref<> row = list ? Ref<>::steal(Py_BuildValue("(ssssss)", code.c_str(), texts...)) : Ref<>();
    if (!row || PyList_Append(list.get(), row.get()) < 0) list.reset();
  };
#define FRAMEJIT_BREAK(id, name, what, why, example, way_out) add(id, #name, what, why, example, way_out);
#include "capture/breaks.inc"
#undef FRAMEJIT_BREAK
  return list.release();
}

PyMethodDef methods[] = {
    {"break_reasons", break_reasons, METH_NOARGS,
     "break_reasons(): (id, name, what, why, example, way_out) of each reason."},
    {"set_event_handler", set_event_handler, METH_VARARGS,
     "set_event_handler(callable or None, channels): callable(channel, record) for each event of these channels."},
    {nullptr, nullptr, 0, nullptr}};

const ModulePart part(10, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

Record& Record::put(const char* key, const std::string& text) {
  Ref<> value = Ref<>::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  return put(key, value.get());
}

Record& Record::put(const char* key, int64_t number) {
  Ref<> value = Ref<>::steal(PyLong_FromLongLong(number));
  return put(key, value.get());
}

Record& Record::put(const char* key, PyObject* object) {
  if (!dict_ || !object || PyDict_SetItemString(dict_.get(), key, object) < 0) PyErr_Clear();
  return *this;
}

void emit(Channel channel, Record record) {
  if (!events_on(channel) || !handler || !record.get()) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Untraced untraced;
  Ref<> keep = Ref<>::share(handler);  // the handler may replace itself
  Ref<> done =
      Ref<>::steal(PyObject_CallFunction(keep.get(), "sO", kChannels[static_cast<unsigned>(channel)], record.get()));
  if (!done) PyErr_WriteUnraisable(keep.get());
  PyErr_Restore(type, value, traceback);
}

Record break_record(const capture::Break& b) {
  const capture::BreakInfo& about = capture::info(b.id);
  Record record;
  record.put("id", std::string(capture::code_of(b.id)))
      .put("name", std::string(about.name))
      .put("what", std::string(about.what))
      .put("why", std::string(about.why))
      .put("way_out", std::string(about.way_out))
      .put("detail", b.detail)
      .put("function", b.function)
      .put("file", b.file)
      .put("line", static_cast<int64_t>(b.line))
      .put("column", static_cast<int64_t>(b.column))
      .put("end_column", static_cast<int64_t>(b.end_column));
  return record;
}

}  // namespace framejit::ext::module
