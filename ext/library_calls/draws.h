// Methods of NumPy's Generator as library calls. They change its state, so what a run has drawn counts only if the run
// does.
#pragma once

#include <vector>

#include "capture/guard.h"
#include "ext/arrays/numpy_api.h"

namespace framejit::ext::library_calls {

struct DrawMethod {
  const char* name;
  int size_at;  // the place of what says how many numbers there are, after self; -1: an array says it
};

/// Null: the callable is none of these.
const DrawMethod* draw_method(PyObject* callable);

/// The generators that a run draws from, whose locks are held until it ends. They get their states back, unless the run
/// counts. One for each run, on the stack; runs may be nested.
class Draws {
 public:
  Draws() : outer_(current_) { current_ = this; }
  ~Draws();
  Draws(const Draws&) = delete;

  /// The run counts.
  void keep();

  /// Before a run of this thread draws from the generator. False: it may not, since there is no run, another thread
  /// draws, or the state cannot be had; no exception is set.
  static bool take(PyObject* generator);
  /// May runs draw from it?
  static bool allows(PyObject* generator);

 private:
  struct Held {
    capture::Ref<> bits, lock, state;
  };
  void release();

  std::vector<Held> held_;
  Draws* outer_;
  static thread_local Draws* current_;
};

}  // namespace framejit::ext::library_calls
