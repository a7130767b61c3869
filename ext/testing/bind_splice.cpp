// Test bindings of CodeView, CodeWriter, splicing and the frame hook: framejit._core._splice_*.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "capture/code_view.h"
#include "capture/code_writer.h"
#include "capture/opcodes.h"
#include "capture/splice.h"
#include "ext/module/module.h"

namespace framejit::ext::testing {

namespace {

using namespace capture;

/// Runs `body`; a C++ exception becomes a RuntimeError.
template <class Body>
PyObject* guarded(Body body) {
  try {
    return body();
  } catch (const std::exception& e) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

bool check_code(PyObject* object) {
  if (PyCode_Check(object)) return true;
  PyErr_SetString(PyExc_TypeError, "a code object is needed");
  return false;
}

/// (op, arg, flag, kwnames, offset, (line, end_line, column, end_column), depth, boundary, handler target or -1)
PyObject* describe(const CodeView& view, uint32_t i) {
  const Instr& instr = view.instrs()[i];
  const Handler* handler = view.handler_of(i);
  const std::string_view name = name_of(instr.op);
  return Py_BuildValue("(s#iOiI(iiii)iOi)", name.data(), static_cast<Py_ssize_t>(name.size()), instr.arg,
                       instr.flag ? Py_True : Py_False, instr.kwnames, instr.offset, instr.line, instr.end_line,
                       instr.column, instr.end_column, instr.depth, instr.boundary ? Py_True : Py_False,
                       handler ? static_cast<int>(handler->target) : -1);
}

PyObject* decode(PyObject*, PyObject* code) {
  if (!check_code(code)) return nullptr;
  return guarded([&]() -> PyObject* {
    auto view = CodeView::decode(reinterpret_cast<PyCodeObject*>(code));
    Ref<> list = Ref<>::steal(PyList_New(0));
    if (!list) return nullptr;
    for (uint32_t i = 0; i < view->instrs().size(); ++i) {
      Ref<> row = Ref<>::steal(describe(*view, i));
      if (!row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
    }
    return list.release();
  });
}

PyObject* bytes_of(const std::string& s) {
  return PyBytes_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}

/// (code, linetable, exceptiontable), written again from what was decoded.
PyObject* encode(PyObject*, PyObject* code) {
  if (!check_code(code)) return nullptr;
  return guarded([&]() -> PyObject* {
    auto* object = reinterpret_cast<PyCodeObject*>(code);
    const WrittenCode written = CodeWriter::copy_of(RawCode(object)).write(object->co_firstlineno);
    return Py_BuildValue("(NNN)", bytes_of(written.code), bytes_of(written.linetable),
                         bytes_of(written.exceptiontable));
  });
}

/// For each raw opcode None, or (canonical name, cache entries).
PyObject* opcodes(PyObject*, PyObject*) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  if (!list) return nullptr;
  for (const OpcodeRow& row : opcode_table()) {
    const std::string_view name = name_of(row.op);
    Ref<> item = row.known ? Ref<>::steal(Py_BuildValue("(s#i)", name.data(), static_cast<Py_ssize_t>(name.size()),
                                                        static_cast<int>(row.caches)))
                           : Ref<>::share(Py_None);
    if (!item || PyList_Append(list.get(), item.get()) < 0) return nullptr;
  }
  return list.release();
}

/// Stands for NULL on the stack and for an unbound local.
PyObject* null_mark() {
  static PyObject* mark = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return mark;
}

Ref<> list_of(py::Slots items, int count) {
  Ref<> list = Ref<>::steal(PyList_New(count));
  for (int i = 0; list && i < count; ++i)
    PyList_SET_ITEM(list.get(), i, Ref<>::share(items[i] ? items[i] : null_mark()).release());
  return list;
}

PyObject* value_of(PyObject* item) { return item == null_mark() ? nullptr : Ref<>::share(item).release(); }

/// Asks a Python callable: ask(site, locals, stack, function) gives None or (exit, {slot: value}, stack). In its place
/// None never runs a region, and a number is an exit at which the stack is empty.
class PythonHandler final : public SiteHandler {
 public:
  explicit PythonHandler(PyObject* callable) : callable_(Ref<>::share(callable)) {
    if (PyLong_Check(callable)) fixed_exit_ = PyLong_AsLong(callable);
  }

  bool ask(uint32_t site, const FrameView& frame, FrameUpdate& update) override {
    ++asked;
    if (callable_.get() == Py_None) return false;
    if (fixed_exit_ >= 0) {
      update.exit_instr = static_cast<uint32_t>(fixed_exit_);
      return true;
    }
    Ref<> locals = list_of(frame.locals, frame.local_count);
    Ref<> stack = list_of(frame.stack, frame.depth);
    if (!locals || !stack) return failed();
    Ref<> answer =
        Ref<>::steal(PyObject_CallFunction(callable_.get(), "IOOO", site, locals.get(), stack.get(), frame.function));
    if (!answer) return failed();
    if (answer.get() == Py_None) return false;
    PyObject *changes, *values;
    if (!PyArg_ParseTuple(answer.get(), "IO!O!", &update.exit_instr, &PyDict_Type, &changes, &PyList_Type, &values))
      return failed();
    PyObject *slot, *value;
    for (Py_ssize_t at = 0; PyDict_Next(changes, &at, &slot, &value);)
      update.locals.push_back({static_cast<int>(PyLong_AsLong(slot)), value_of(value)});
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); ++i)
      update.stack.push_back(value_of(PyList_GET_ITEM(values, i)));
    return true;
  }

  uint64_t asked = 0;

 private:
  static bool failed() {
    PyErr_Print();
    return false;
  }
  Ref<> callable_;
  long fixed_exit_ = -1;
};

struct SplicedObject {
  PyObject_HEAD std::shared_ptr<PythonHandler> handler;
  std::unique_ptr<SplicedCode> spliced;
};

SplicedObject* spliced_of(PyObject* self) { return reinterpret_cast<SplicedObject*>(self); }

void spliced_free(PyObject* self) {
  std::destroy_at(&spliced_of(self)->spliced);
  std::destroy_at(&spliced_of(self)->handler);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* spliced_code(PyObject* self, void*) {
  return Ref<>::share(reinterpret_cast<PyObject*>(spliced_of(self)->spliced->code())).release();
}

PyObject* spliced_sites(PyObject* self, void*) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (uint32_t site : spliced_of(self)->spliced->sites()) {
    Ref<> number = Ref<>::steal(PyLong_FromUnsignedLong(site));
    if (!list || !number || PyList_Append(list.get(), number.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* spliced_asked(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(spliced_of(self)->handler->asked); }

PyObject* spliced_set_dormant(PyObject* self, PyObject* args) {
  unsigned int site;
  int dormant;
  if (!PyArg_ParseTuple(args, "Ip", &site, &dormant)) return nullptr;
  return guarded([&]() -> PyObject* {
    spliced_of(self)->spliced->set_dormant(site, dormant);
    Py_RETURN_NONE;
  });
}

PyTypeObject* spliced_type() {
  static PyTypeObject* type = [] {
    static PyGetSetDef members[] = {{"code", spliced_code, nullptr, "The rewritten code object.", nullptr},
                                    {"sites", spliced_sites, nullptr, "Indices of instructions.", nullptr},
                                    {"asked", spliced_asked, nullptr, "How often sites asked.", nullptr},
                                    {nullptr, nullptr, nullptr, nullptr, nullptr}};
    static PyMethodDef functions[] = {{"set_dormant", spliced_set_dormant, METH_VARARGS, "set_dormant(site, dormant)"},
                                      {nullptr, nullptr, 0, nullptr}};
    PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(spliced_free)},
                           {Py_tp_getset, members},
                           {Py_tp_methods, functions},
                           {0, nullptr}};
    PyType_Spec spec = {"framejit._core._Spliced", sizeof(SplicedObject), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

bool read_sites(PyObject* sequence, std::vector<uint32_t>& out) {
  Ref<> fast = Ref<>::steal(PySequence_Fast(sequence, "sites"));
  if (!fast) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
    out.push_back(static_cast<uint32_t>(PyLong_AsUnsignedLong(PySequence_Fast_GET_ITEM(fast.get(), i))));
  return !PyErr_Occurred();
}

/// _splice_make(code, ask, all_boundaries=False, extra_sites=()): ValueError with the reason where it cannot be
/// spliced.
PyObject* make(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"code", "ask", "all_boundaries", "extra_sites", nullptr};
  PyObject *code, *callable, *extra = nullptr;
  int all = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|pO", const_cast<char**>(names), &PyCode_Type, &code, &callable,
                                   &all, &extra))
    return nullptr;
  return guarded([&]() -> PyObject* {
    SpliceOptions options;
    options.all_boundaries = all;
    if (extra && !read_sites(extra, options.extra_sites)) return nullptr;
    auto handler = std::make_shared<PythonHandler>(callable);
    auto made = SplicedCode::make(CodeView::decode(reinterpret_cast<PyCodeObject*>(code)), handler, options);
    if (!made) {
      PyErr_SetString(PyExc_ValueError, made.error().c_str());
      return nullptr;
    }
    PyTypeObject* type = spliced_type();
    Ref<> object = type ? Ref<>::steal(type->tp_alloc(type, 0)) : Ref<>();
    if (!object) return nullptr;
    std::construct_at(&spliced_of(object.get())->handler, std::move(handler));
    std::construct_at(&spliced_of(object.get())->spliced, std::move(*made));
    return object.release();
  });
}

/// _splice_function(function, code): the function, running `code`.
PyObject* function(PyObject*, PyObject* args) {
  PyObject *from, *code;
  if (!PyArg_ParseTuple(args, "O!O!", &PyFunction_Type, &from, &PyCode_Type, &code)) return nullptr;
  return function_with_code(reinterpret_cast<PyFunctionObject*>(from), reinterpret_cast<PyCodeObject*>(code)).release();
}

/// (tools active, eval breaker set, internal errors)
PyObject* state(PyObject*, PyObject*) {
  return Py_BuildValue("(iiK)", tools_active(), eval_breaker_set(), splice_internal_errors());
}

PyMethodDef methods[] = {{"_splice_decode", decode, METH_O, "The canonical instructions of a code object."},
                         {"_splice_encode", encode, METH_O, "The code, decoded and encoded."},
                         {"_splice_opcodes", opcodes, METH_NOARGS, "The opcode table."},
                         {"_splice_make", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(make)),
                          METH_VARARGS | METH_KEYWORDS, "Splices a code object."},
                         {"_splice_function", function, METH_VARARGS, "A function that runs other code."},
                         {"_splice_state", state, METH_NOARGS, "Thread state as regions see it."},
                         {nullptr, nullptr, 0, nullptr}};

bool init(PyObject* module) {
  return PyModule_AddFunctions(module, methods) == 0 && PyModule_AddObjectRef(module, "_splice_null", null_mark()) == 0;
}

module::ModulePart part(90, init);

}  // namespace
}  // namespace framejit::ext::testing
