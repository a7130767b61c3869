// Test bindings of CodeView, CodeWriter, splicing and the frame hook: framejit._core._splice_*.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "capture/code_view.h"
#include "capture/code_writer.h"
#include "capture/opcodes.h"
#include "ext/module.h"

namespace framejit::ext {

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

PyMethodDef methods[] = {{"_splice_decode", decode, METH_O, "The canonical instructions of a code object."},
                         {"_splice_encode", encode, METH_O, "The code, decoded and encoded."},
                         {"_splice_opcodes", opcodes, METH_NOARGS, "The opcode table."},
                         {nullptr, nullptr, 0, nullptr}};

bool init(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

ModulePart part(90, init);

}  // namespace
}  // namespace framejit::ext
