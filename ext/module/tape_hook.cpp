// _core.set_tape_hook(callable or None).
#include "ext/module/tape_hook.h"

#include <new>
#include <vector>

#include "ext/module/module.h"

namespace framejit::ext::module {

thread_local PyObject* tape_hook = nullptr;
thread_local bool force_compiled = false;

PyObject* call_tape(const char* name, PyObject* const* args, Py_ssize_t count) {
  capture::Ref<> text = capture::Ref<>::steal(PyUnicode_FromString(name));
  if (!text) return nullptr;
  PyObject* hook = tape_hook;
  try {
    std::vector<PyObject*> all{text.get()};
    all.insert(all.end(), args, args + count);
    return PyObject_Vectorcall(hook, all.data(), all.size(), nullptr);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

namespace {

PyObject* set_tape_hook(PyObject*, PyObject* hook) {
  PyObject* before = tape_hook;
  tape_hook = hook == Py_None ? nullptr : Py_NewRef(hook);
  return before ? before : Py_NewRef(Py_None);  // the reference that was kept
}

PyObject* set_force_compiled(PyObject*, PyObject* value) {
  const bool before = force_compiled;
  force_compiled = value == Py_True;
  return PyBool_FromLong(before);
}

PyMethodDef methods[] = {
    {"force_compiled", set_force_compiled, METH_O,
     "force_compiled(bool): whether compiled functions run compiled in this thread, also under debuggers, stances and "
     "tapes. "
     "Gives "
     "what it was."},
    {"set_tape_hook", set_tape_hook, METH_O,
     "set_tape_hook(callable): what is given the name and the arguments of functions of Tensors in this thread; None: "
     "nothing. Gives the one before."},
    {nullptr, nullptr, 0, nullptr}};

const ModulePart part(43, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

}  // namespace framejit::ext::module
