// Follows what would go with an object, as the reference counts say, without touching any of it.
#include "capture/py/drops.h"

namespace framejit::capture {

namespace {

constexpr int kMostVisited = 200;  // more is taken for something that runs code

PyTypeObject* held_type = nullptr;
void (*held_by)(PyObject*, Drops&) = nullptr;

/// Goes without anything else going.
bool is_plain_type(PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBool_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || type == Py_TYPE(Py_None);
}

bool has_callbacks(PyObject* object) {
  const Py_ssize_t offset = Py_TYPE(object)->tp_weaklistoffset;
  if (offset == 0) return false;  // below 0: in front of the object (3.12)
  auto* reference = *reinterpret_cast<PyWeakReference**>(reinterpret_cast<char*>(object) + offset);
  for (; reference; reference = reference->wr_next)
    if (reference->wr_callback) return true;
  return false;
}

int visit(PyObject* object, void* drops) {
  static_cast<Drops*>(drops)->give_up(object);
  return 0;
}

}  // namespace

void Drops::set_held_by(PyTypeObject* type, void (*held)(PyObject*, Drops&)) {
  held_type = type;
  held_by = held;
}

void Drops::keep(PyObject* object, PyObject* holder) {
  if (is_plain_type(Py_TYPE(object))) return;
  given_up_.emplace_back(object, -1);
  if (holder) kept_by_.emplace_back(holder, object);
}

void Drops::give_up(PyObject* object) {
  if (!object || runs_ || is_plain_type(Py_TYPE(object))) return;
  Py_ssize_t held = Py_REFCNT(object);
  if (held > 1 || !given_up_.empty()) {
    bool known = false;
    for (auto& [seen, count] : given_up_) {
      if (seen != object) continue;
      known = true;
      held -= ++count;
      break;
    }
    if (!known) {
      given_up_.emplace_back(object, 1);
      held -= 1;
    }
    if (held > 0) return;
  }
  lose(object);
}

void Drops::lose(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (is_plain_type(type)) return;
  if (type->tp_finalize || type->tp_del || has_callbacks(object) || ++visited_ > kMostVisited) {
    runs_ = true;
    return;
  }
  for (const auto& [holder, held] : kept_by_)
    if (holder == object) give_up(held);
  if (held_type && PyType_IsSubtype(type, held_type)) held_by(object, *this);
  if (type->tp_traverse && PyObject_IS_GC(object)) type->tp_traverse(object, visit, this);
}

}  // namespace framejit::capture
