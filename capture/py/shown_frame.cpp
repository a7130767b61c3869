#include "capture/py/frame.h"

#include "capture/py/shown_frame.h"

#include <opcode.h>

namespace framejit::capture::py {

Ref<PyCodeObject> code_to_show(PyCodeObject* code) {
  // From 3.14 on faulthandler ends its list at a frame that stands before all instructions.
  if (PY_VERSION_HEX < 0x030E0000 || code->_co_firsttraceable > 0) return {};
  static constexpr char kCode[] = {NOP, 0, static_cast<char>(RESUME), 0, RETURN_VALUE, 0};
  static constexpr char kLines[] = {static_cast<char>(0x80 | 13 << 3 | 2), 0};  // three units of the first line
  const auto bytes = Ref<>::steal(PyBytes_FromStringAndSize(kCode, sizeof(kCode)));
  const auto lines = Ref<>::steal(PyBytes_FromStringAndSize(kLines, sizeof(kLines)));
  const auto handlers = Ref<>::steal(PyBytes_FromStringAndSize(nullptr, 0));
  Ref<PyCodeObject> made;
  if (bytes && lines && handlers)
    made = Ref<PyCodeObject>::steal(code_like(code, bytes.get(), lines.get(), handlers.get(), code->co_consts,
                                              code->co_stacksize, code->co_flags, code->co_names));
  if (!made) PyErr_Clear();
  return made;
}

}  // namespace framejit::capture::py
