// The PEP 523 frame hook: installed only while something is marked in place whose calls are not redirected, or a
// function runs whose callees are compiled; chained to the hook before it.
#pragma once

#include <cstdint>
#include <memory>

#include "capture/py/ref.h"
#include "capture/py/slots.h"

namespace framejit::capture {

/// What to do with frames of one code object. Implementations live in ext.
class FrameInterceptor {
 public:
  virtual ~FrameInterceptor() = default;
  /// Called before the first instruction of a frame whose code is marked. `locals`: the argument slots as the prologue
  /// will find them (cells not made yet). Either gives the frame's result (new reference, or null with an exception
  /// set, `handled` true), or a code object to run in place of the frame's own (borrowed; the same localsplus layout),
  /// or neither.
  struct Outcome {
    bool handled = false;
    PyObject* result = nullptr;
    PyCodeObject* replacement = nullptr;
    uint64_t reach = 0;                           // not 0: for an ActiveFunctionScope around the replacement's frame
    bool has_callees = false;                     // the scope wants the hook
    std::shared_ptr<FrameInterceptor> told = {};  // its leave() is called when the frame is done
  };
  virtual Outcome enter(PyFunctionObject* function, PyCodeObject* code, py::Slots locals, int local_count) = 0;
  virtual void leave() {}
};

/// Marks a code object: its frames go through `interceptor` from now on. Reserves stack for a replacement code object.
/// `reached`: the mark alone keeps no hook installed; frames that come to it outside of every ActiveFunctionScope are
/// the interceptor's to leave.
bool mark_code(PyCodeObject* code, std::shared_ptr<FrameInterceptor> interceptor, bool reached = false);
void unmark_code(PyCodeObject* code);
/// From now on the functions whose code is marked by now are intercepted as they are called, and no hook is kept
/// installed for them, if the interpreter allows that (3.12 and later). Looks at all functions that there are.
void redirect_calls();
/// Does a call of the function run its code? C code may have put something else in its place.
bool runs_its_code(const PyFunctionObject* function);
/// The code of a generator that runs instead of `marked`. When its frames are resumed, their calls are within the reach
/// of the function `id`. The hook stays installed while that mark exists.
void mark_resumed(PyCodeObject* code, PyCodeObject* marked, uint64_t id);
/// Was stack reserved in this code object for its replacement? It is for generators, whose room is their code's.
bool has_reserved_stack(PyCodeObject* code);
/// Called for frames of unmarked code while patterns are active: lets ext decide by module or file name, once per code.
using Discover = std::shared_ptr<FrameInterceptor> (*)(PyFunctionObject* function, PyCodeObject* code);
void set_discover(Discover discover);  // null: off
bool hook_installed();

/// Around a function's run: what this thread calls meanwhile is within the function's reach. Scopes nest.
class ActiveFunctionScope {
 public:
  /// `id`: of the function, never given to another; 0: nobody's reach.
  explicit ActiveFunctionScope(uint64_t id);
  ~ActiveFunctionScope();
  ActiveFunctionScope(const ActiveFunctionScope&) = delete;

  /// Of the innermost scope; 0 outside of all.
  static uint64_t id();
  /// Has the hook installed until the innermost scope of this thread ends.
  static void request_hook();

 private:
  uint64_t id_before_;
  bool hooked_before_;
};

}  // namespace framejit::capture
