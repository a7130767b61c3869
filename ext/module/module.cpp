// framejit._core.
#include <Python.h>

#include "ext/module/module.h"

namespace framejit::ext::module {

namespace {
ModulePart*& parts() {
  static ModulePart* first = nullptr;  // sorted by order
  return first;
}
}  // namespace

ModulePart::ModulePart(int order, Init init) : order_(order), init_(init), next_(nullptr) {
  ModulePart** at = &parts();
  while (*at && (*at)->order_ <= order_) at = &(*at)->next_;
  next_ = *at;
  *at = this;
}

bool ModulePart::init_all(PyObject* module) {
  for (ModulePart* part = parts(); part; part = part->next_)
    if (!part->init_(module)) return false;
  return true;
}

namespace {

int exec(PyObject* module) { return ModulePart::init_all(module) ? 0 : -1; }

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(exec)},
#ifdef Py_mod_multiple_interpreters
                            {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
                            {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "framejit._core",
                          "The compiled half of framejit.",
                          0,
                          nullptr,
                          slots,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace
}  // namespace framejit::ext::module

PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&framejit::ext::module::definition); }
