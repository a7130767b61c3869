// Would giving up references run code: __del__, a generator's handlers, a weakref's callback?
#pragma once

#include <utility>
#include <vector>

#include "capture/py/ref.h"

namespace framejit::capture {

class Drops {
 public:
  /// A reference that is taken before the others are given up; with a holder, it goes when the holder goes. Comes
  /// first.
  void keep(PyObject* object, PyObject* holder = nullptr);
  /// Null: nothing.
  void give_up(PyObject* object);
  /// The object goes, whoever holds it.
  void lose(PyObject* object);
  bool run_code() const { return runs_; }
  void set_runs_code() { runs_ = true; }

  /// What objects of this type and of its subclasses hold beside what the cycle collector knows of.
  static void set_held_by(PyTypeObject* type, void (*held)(PyObject*, Drops&));

 private:
  std::vector<std::pair<PyObject*, Py_ssize_t>> given_up_;  // and how many references to it
  std::vector<std::pair<PyObject*, PyObject*>> kept_by_;    // holder, object
  int visited_ = 0;
  bool runs_ = false;
};

}  // namespace framejit::capture
