#include "capture/py/dict_version.h"

#include "capture/py/cpython/dict_version.h"

namespace framejit::capture {

DictVersion::DictVersion(PyObject* dict) : watched_(py::watch(dict)), at_(watched_ ? watched_.get() : py::tag(dict)) {}

}  // namespace framejit::capture
