// See debugger_jumps.h. Frames have one table of attributes, which all interpreters of the process share.
#include "capture/py/debugger_jumps.h"

#include "capture/py/ref.h"

namespace framejit::capture {

namespace {

setter set_plainly = nullptr;
void (*before_jump)(PyCodeObject*) = nullptr;
void (*after_jump)(PyCodeObject*) = nullptr;

int set_line(PyObject* frame, PyObject* line, void* closure) {
  const auto code = Ref<PyCodeObject>::steal(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame)));
  before_jump(code.get());
  const int failed = set_plainly(frame, line, closure);
  after_jump(code.get());
  return failed;
}

}  // namespace

void watch_debugger_jumps(void (*before)(PyCodeObject*), void (*after)(PyCodeObject*)) {
  if (set_plainly) return;
  const auto attribute = Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyFrame_Type), "f_lineno"));
  if (!attribute || !Py_IS_TYPE(attribute.get(), &PyGetSetDescr_Type)) return PyErr_Clear();
  PyGetSetDef* functions = reinterpret_cast<PyGetSetDescrObject*>(attribute.get())->d_getset;
  before_jump = before;
  after_jump = after;
  set_plainly = functions->set;
  functions->set = set_line;
}

}  // namespace framejit::capture
