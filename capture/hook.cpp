// The PEP 523 hook. What is known of a code object stands in its extra slot, so that a frame of unmarked code costs one
// load.
//
// All state is guarded by the GIL. The hook is in the interpreter's slot, or in the chain of a later hook, while
// something is marked or patterns are active, except where it is suspended: with any hook a Python call uses C stack
// (400 to 500 bytes on 3.11, where plain calls use none), so past half of the thread's stack the hook takes itself out
// until that frame returns.
//
// A hook in the slot makes every Python call a C call, also those of code that is not marked. So after redirect_calls()
// (3.12 on) marked functions have a vectorcall of ours, which puts the hook there until their frame has come to it.
// - The interpreter enters a function itself only if its vectorcall is the plain one, in CALL and in every specialised
//   instruction: the version of a function with another vectorcall is 0. 3.11 does not look, so there the hook stays.
// - All functions that exist get it once, through the garbage collector's list. Those that are made later, or that are
//   given the code, get it through a function watcher. If none is free the hook stays.
// - MAKE_FUNCTION gives a function the version of its code after the watcher was told, and calls that are specialised
//   for that version would enter it. No such call does so while a hook is in the slot, so the hook is there until the
//   new function has been called.
// - From 3.13 on specialised reads of a property do not look at its getter (kPropertiesSkipVectorcall): for marked
//   getters the hook stays.
// - Such a call uses C stack. If half of that is used, or tools are active, the function gets its plain vectorcall
//   until the call ends.
// - Only the hook sees frames of generators when they are resumed. It stays for a mark whose generators call compiled
//   code.
//
// From 3.12 on what evaluates a frame clears it: where the hook gives the result itself, it does (py::finish). On 3.12
// it cannot take the first frame of a chunk off the data stack; such a frame runs as bytecode. The hook leaves frames
// alone that are resumed, that belong to frame objects, or that an exception is thrown into.
#include "capture/py/frame.h"

#include "capture/hook.h"

#include <pthread.h>

#include <unordered_set>
#include <utility>

#include "capture/py/constructors.h"
#include "capture/py/cpython/function_calls.h"
#include "capture/splice.h"
#include "capture/splice_region.h"

namespace framejit::capture {

namespace {

struct Mark {
  std::shared_ptr<FrameInterceptor> interceptor;  // null: only frames that are resumed are of interest
  bool reached = false;
  bool needs_hook = false;   // not all calls can be redirected, or its frames are looked for when they are resumed
  uintptr_t generation = 0;  // of the patterns that have seen the code since it is reached
  uint64_t resumed = 0;      // the reach of frames that are resumed
};

struct HookState {
  Py_ssize_t extra_index = -1;
  std::unordered_set<Mark*> marks;             // in place, and in need of the hook
  std::unordered_set<PyFunctionObject*> made;  // since calls are redirected, of marked code, and not called yet
  bool has_new_marks = false;                  // since the last redirect_calls()
  int reaching = 0;                            // threads in scopes that want the hook
  int awaiting = 0;                            // calls of redirected functions whose frames have not come yet
  Discover discover = nullptr;
  uintptr_t generation = 1;                   // of the patterns
  PyInterpreterState* interpreter = nullptr;  // of the first mark; there are no marks in others
  py::EvalFunction previous = nullptr;
  bool in_chain = false;
  int suspended = 0;
};

HookState state;

// A slot holds null, a Mark, or a word with bit 0 set: bit 1 says that there was a mark before, the rest is the
// generation of the patterns for which the code object was found of no interest.
constexpr uintptr_t kWordBit = 1, kMarkedBit = 2;

bool is_word(void* extra) { return (reinterpret_cast<uintptr_t>(extra) & kWordBit) != 0; }
void* word(uintptr_t generation, bool marked) {
  return reinterpret_cast<void*>(generation << 2 | (marked ? kMarkedBit : 0) | kWordBit);
}
bool was_marked(void* extra) {
  return extra && (!is_word(extra) || (reinterpret_cast<uintptr_t>(extra) & kMarkedBit) != 0);
}

PyObject* hook(PyThreadState* tstate, py::Frame* frame, int throwflag);

/// Puts the hook where it is wanted and takes it out where it is not.
void refresh() {
  if (!state.interpreter) return;
  py::EvalFunction& slot = py::eval_slot(state.interpreter);
  const bool wanted =
      (!state.marks.empty() || !state.made.empty() || state.discover || state.reaching > 0 || state.awaiting > 0) &&
      state.suspended == 0;
  if (state.in_chain && !slot) state.in_chain = false;  // somebody reset the slot
  if (wanted && !state.in_chain) {
    if (slot != hook) state.previous = slot;  // else somebody put back what he had found
    slot = hook;
    state.in_chain = true;
  } else if (!wanted && state.in_chain && slot == hook) {
    slot = state.previous;
    state.in_chain = false;
  }
  // Under a later hook this one stays in the chain and passes frames on.
}

/// Bounds of the thread's C stack; asking the system for them costs microseconds.
struct StackBounds {
  bool known = false;
  uintptr_t middle = 0;  // of the stack
  uintptr_t half = 0;    // its size
};
thread_local StackBounds bounds [[gnu::tls_model("initial-exec")]];

[[gnu::cold, gnu::noinline]] void find_bounds() {
  bounds = {true, 0, 0};
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* low = nullptr;
  std::size_t size = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
    bounds.half = size / 2;
    bounds.middle = reinterpret_cast<uintptr_t>(low) + (size - bounds.half);
  }
  pthread_attr_destroy(&attributes);
}

/// More than half of the stack is used, or this is a stack that nothing is known of, or it was not asked for yet.
bool stack_is_low() { return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - bounds.middle > bounds.half; }

thread_local py::Frame* passed [[gnu::tls_model("initial-exec")]] = nullptr;  // to the hook before this one

/// Tools that put back what they had found may have made a ring of hooks: a frame that comes round again is the
/// interpreter's.
[[gnu::noinline]] PyObject* pass_to_previous(PyThreadState* tstate, py::Frame* frame, int throwflag) {
  if (passed == frame) return py::default_eval(tstate, frame, throwflag);
  py::Frame* const before = std::exchange(passed, frame);
  PyObject* result = state.previous(tstate, frame, throwflag);
  passed = before;
  return result;
}

PyObject* pass_on(PyThreadState* tstate, py::Frame* frame, int throwflag) {
  return state.previous ? pass_to_previous(tstate, frame, throwflag) : py::default_eval(tstate, frame, throwflag);
}

/// Without the hook, until the frame is done.
[[gnu::cold, gnu::noinline]] PyObject* evaluate_suspended(PyThreadState* tstate, py::Frame* frame, int throwflag) {
  ++state.suspended;
  refresh();
  PyObject* result = pass_on(tstate, frame, throwflag);
  --state.suspended;
  refresh();
  return result;
}

[[gnu::cold, gnu::noinline]] bool is_low_once_known(PyThreadState* tstate) {
  if (bounds.known) return true;
  find_bounds();
  return stack_is_low() || py::c_recursion_is_low(tstate);
}

bool is_low(PyThreadState* tstate) {
  return (stack_is_low() || py::c_recursion_is_low(tstate)) && is_low_once_known(tstate);
}

PyObject* evaluate(PyThreadState* tstate, py::Frame* frame, int throwflag) {
  if (is_low(tstate)) [[unlikely]]
    return evaluate_suspended(tstate, frame, throwflag);
  return pass_on(tstate, frame, throwflag);
}

/// The code of the function that this thread calls by call_marked(), while its frame has not come to the hook.
thread_local PyCodeObject* awaited [[gnu::tls_model("initial-exec")]] = nullptr;

void stop_awaiting() {
  awaited = nullptr;
  --state.awaiting;
  refresh();
}

/// The hook is in the slot until a frame of the code comes to it, or this ends.
class AwaitFrame {
 public:
  explicit AwaitFrame(PyCodeObject* code) : before_(std::exchange(awaited, code)) {
    ++state.awaiting;
    refresh();
  }
  ~AwaitFrame() {
    if (awaited) stop_awaiting();
    awaited = before_;
  }
  AwaitFrame(const AwaitFrame&) = delete;

 private:
  PyCodeObject* before_;  // its arguments are bound, which may compare keywords by Python code
};

/// The function is called for the first time.
void settle(PyFunctionObject* function) {
  if (state.made.empty() || !state.made.erase(function)) return;
  py::set_vectorcall(function, function->vectorcall);
  refresh();
}

/// Asks the patterns about a code object that they have not seen; gives what its slot holds then.
[[gnu::noinline]] void* discover(py::Frame* frame) {
  PyCodeObject* code = py::code_of(frame);
  void* extra = py::extra_of(code, state.extra_index);
  // First, so that frames of this code that run meanwhile do not ask again.
  if (extra && !is_word(extra)) static_cast<Mark*>(extra)->generation = state.generation;
  else py::set_extra(code, state.extra_index, word(state.generation, was_marked(extra)));
  try {
    // Code that this module has rewritten replaces a function that is marked already.
    auto interceptor = is_spliced(code) ? nullptr : state.discover(py::function_of(frame), code);
    if (interceptor) mark_code(code, std::move(interceptor));
  } catch (const std::exception&) {
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return py::extra_of(code, state.extra_index);
}

bool wants_discovery(void* extra) {
  if (!state.discover) return false;
  if (!extra) return true;
  if (is_word(extra)) return reinterpret_cast<uintptr_t>(extra) >> 2 != state.generation;
  const Mark& mark = *static_cast<Mark*>(extra);
  return mark.reached && mark.generation != state.generation;
}

bool is_constructor(PyCodeObject* code) {
  static PyObject* const kInit = PyUnicode_InternFromString("__init__");
  return code->co_name == kInit && code->co_argcount > 0;
}

[[gnu::noinline]] PyObject* enter_marked(PyThreadState* tstate, py::Frame* frame, const Mark& mark) {
  if (awaited == py::code_of(frame)) stop_awaiting();
  settle(py::function_of(frame));
  if constexpr (py::kConstructorsSkipHook)  // a class that was made later than the mark
    if (is_constructor(py::code_of(frame))) enter_through_hook(Py_TYPE(py::peek(*py::localsplus(frame))));
  if (!py::can_finish(tstate, frame)) return evaluate(tstate, frame, 0);
  const std::shared_ptr<FrameInterceptor> interceptor = mark.interceptor;  // the mark may go while it runs
  PyCodeObject* code = py::code_of(frame);
  FrameInterceptor::Outcome outcome;
  try {
    outcome =
        interceptor->enter(py::function_of(frame), code, py::slots_at(py::localsplus(frame)), code->co_nlocalsplus);
  } catch (const std::exception&) {
    outcome = {};
  }
  if (outcome.handled) {
    py::finish(tstate, frame);
    return outcome.result;
  }
  if (outcome.replacement) py::replace_code(tstate, frame, outcome.replacement);
  struct End {
    FrameInterceptor* told;
    ~End() {
      if (told) told->leave();
    }
  } end{outcome.told.get()};
  if (!outcome.reach) return evaluate(tstate, frame, 0);
  const ActiveFunctionScope scope(outcome.reach);
  if (outcome.has_callees) ActiveFunctionScope::request_hook();
  return evaluate(tstate, frame, 0);
}

[[gnu::noinline]] PyObject* enter(PyThreadState* tstate, py::Frame* frame, void* extra) {
  if (wants_discovery(extra)) [[unlikely]]
    extra = discover(frame);
  if (!extra || is_word(extra) || !static_cast<Mark*>(extra)->interceptor) return evaluate(tstate, frame, 0);
  return enter_marked(tstate, frame, *static_cast<Mark*>(extra));
}

[[gnu::noinline]] PyObject* resume(PyThreadState* tstate, py::Frame* frame, int throwflag, const Mark& mark) {
  if (!mark.resumed) return pass_on(tstate, frame, throwflag);
  const ActiveFunctionScope scope(mark.resumed);
  return pass_on(tstate, frame, throwflag);
}

// All that a frame of unmarked code costs beside the call through C; it jumps to the interpreter.
PyObject* hook(PyThreadState* tstate, py::Frame* frame, int throwflag) {
  // With any hook calls go through C, which tells tools of other exceptions than plain calls do.
  if (py::tools_active(tstate, nullptr)) [[unlikely]]
    return evaluate_suspended(tstate, frame, throwflag);
  // Frames that are resumed, and those of frame objects, keep their code; they use C stack without a hook too.
  void* extra = py::extra_of(py::code_of(frame), state.extra_index);
  const bool is_marked = extra && !is_word(extra);
  if (!is_marked && !state.discover) [[likely]]
    return evaluate(tstate, frame, throwflag);
  if (!throwflag && py::is_fresh(frame)) return enter(tstate, frame, extra);
  return is_marked ? resume(tstate, frame, throwflag, *static_cast<Mark*>(extra)) : pass_on(tstate, frame, throwflag);
}

void free_extra(void* extra) {
  if (!extra || is_word(extra)) return;
  const std::unique_ptr<Mark> mark(static_cast<Mark*>(extra));
  if (state.marks.erase(mark.get())) refresh();
}

/// The mark that the code has in place, or null if it has none.
Mark* mark_of(PyObject* code) {
  void* extra = py::extra_of(reinterpret_cast<PyCodeObject*>(code), state.extra_index);
  if (!extra || is_word(extra)) return nullptr;
  auto* mark = static_cast<Mark*>(extra);
  return mark->interceptor && !mark->reached ? mark : nullptr;
}

PyObject* call_marked(PyObject* callable, PyObject* const* arguments, std::size_t count, PyObject* keywords);

/// Gives a function the vectorcall that it needs with this code. What makes a function gives it the version of its code
/// afterwards, and instructions that are specialised for that version would enter it themselves. No such instruction
/// works while the hook is there, so it is until the function is called.
void redirect(py::FunctionEvent event, PyFunctionObject* function, PyObject* code) {
  if (event == py::FunctionEvent::Gone) {
    if (!state.made.empty() && state.made.erase(function)) refresh();
  } else if (mark_of(code)) {
    if (function->vectorcall != py::plain_vectorcall()) return;
    py::set_vectorcall(function, call_marked);
    if (event != py::FunctionEvent::Made) return;
    state.made.insert(function);
    refresh();
  } else if (function->vectorcall == call_marked) {
    py::set_vectorcall(function, py::plain_vectorcall());
  }
}

/// The vectorcall of functions whose code is marked.
PyObject* call_marked(PyObject* callable, PyObject* const* arguments, std::size_t count, PyObject* keywords) {
  const vectorcallfunc plain = py::plain_vectorcall();
  const Ref<PyFunctionObject> function = Ref<PyFunctionObject>::share(reinterpret_cast<PyFunctionObject*>(callable));
  settle(function.get());
  if (!mark_of(function->func_code)) {
    py::set_vectorcall(function.get(), plain);
    return plain(callable, arguments, count, keywords);
  }
  PyThreadState* tstate = py::thread();
  if (state.suspended > 0 || py::tools_active(tstate, nullptr) || is_low(tstate)) [[unlikely]] {
    // Its calls of itself are no C calls.
    py::set_vectorcall(function.get(), plain);
    PyObject* result = plain(callable, arguments, count, keywords);
    redirect(py::FunctionEvent::Found, function.get(), function->func_code);
    return result;
  }
  const AwaitFrame await(reinterpret_cast<PyCodeObject*>(function->func_code));
  return plain(callable, arguments, count, keywords);
}

/// False in interpreters other than the first that asks.
bool is_ready() {
  if (!state.interpreter) state.interpreter = PyInterpreterState_Get();
  if (state.interpreter != PyInterpreterState_Get()) return false;
  if (state.extra_index < 0) state.extra_index = py::request_extra_index(free_extra);
  return state.extra_index >= 0;
}

}  // namespace

bool mark_code(PyCodeObject* code, std::shared_ptr<FrameInterceptor> interceptor, bool reached) {
  if (!is_ready()) return false;
  // Other frames take the room when their code is replaced.
  const bool reserve = py::makes_generator(code) && !was_marked(py::extra_of(code, state.extra_index));
  auto mark = std::make_unique<Mark>(std::move(interceptor), reached);
  Mark* const before = mark_of(reinterpret_cast<PyObject*>(code));
  const bool by_hook = !reached && !(before && !state.marks.contains(before));
  mark->needs_hook = before && before->needs_hook;
  if (!py::set_extra(code, state.extra_index, mark.get())) {
    PyErr_Clear();
    return false;
  }
  if (by_hook) state.marks.insert(mark.get());
  if (!reached) state.has_new_marks = true;
  mark.release();
  if (reserve) py::reserve_stack(code, SplicedCode::kExtraStack);
  if (py::kConstructorsSkipHook && is_constructor(code)) enter_through_hook(code);
  refresh();
  return true;
}

void unmark_code(PyCodeObject* code) {
  if (state.extra_index < 0) return;
  void* extra = py::extra_of(code, state.extra_index);
  if (!extra || is_word(extra)) return;
  py::set_extra(code, state.extra_index, word(state.generation, true));  // frees the mark
  if (std::erase_if(state.made, [](PyFunctionObject* function) { return !mark_of(function->func_code); })) refresh();
}

void mark_resumed(PyCodeObject* code, PyCodeObject* marked, uint64_t id) {
  if (!is_ready()) return;
  auto mark = std::make_unique<Mark>(nullptr, true, false, 0, id);
  if (!py::set_extra(code, state.extra_index, mark.get())) return PyErr_Clear();
  mark.release();
  if (Mark* in_place = mark_of(reinterpret_cast<PyObject*>(marked))) {
    in_place->needs_hook = true;
    state.marks.insert(in_place);
    refresh();
  }
}

void redirect_calls() {
  if (!state.has_new_marks || !is_ready() || !py::watch_functions(redirect)) return;
  state.has_new_marks = false;
  py::visit_functions(redirect, [](PyFunctionObject* getter) {
    Mark* mark = mark_of(getter->func_code);
    if (!mark || !py::kPropertiesSkipVectorcall) return;
    mark->needs_hook = true;
    state.marks.insert(mark);  // it may have been redirected before there was a property
  });
  std::erase_if(state.marks, [](const Mark* mark) { return !mark->needs_hook; });
  refresh();
}

bool runs_its_code(const PyFunctionObject* function) {
  return function->vectorcall == py::plain_vectorcall() || function->vectorcall == call_marked;
}

bool has_reserved_stack(PyCodeObject* code) {
  return state.extra_index >= 0 && py::makes_generator(code) && was_marked(py::extra_of(code, state.extra_index));
}

void set_discover(Discover discover) {
  if (!is_ready()) return;
  state.discover = discover;
  ++state.generation;
  refresh();
}

namespace {
struct Reach {
  uint64_t id = 0;
  bool hooked = false;  // a scope of this thread is counted in state.reaching
};
thread_local Reach reach [[gnu::tls_model("initial-exec")]];
}  // namespace

ActiveFunctionScope::ActiveFunctionScope(uint64_t id) : id_before_(reach.id), hooked_before_(reach.hooked) {
  reach.id = id;
}

ActiveFunctionScope::~ActiveFunctionScope() {
  reach.id = id_before_;
  if (!reach.hooked || hooked_before_) return;
  reach.hooked = false;
  --state.reaching;
  refresh();
}

uint64_t ActiveFunctionScope::id() { return reach.id; }

void ActiveFunctionScope::request_hook() {
  if (reach.hooked || !is_ready()) return;
  reach.hooked = true;
  ++state.reaching;
  refresh();
}

bool hook_installed() { return state.interpreter && py::eval_slot(state.interpreter) == hook; }

}  // namespace framejit::capture
