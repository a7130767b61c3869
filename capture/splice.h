// Splicing: one rewritten code object that keeps the user's bytecode whole, with sites that ask regions, and landings
// for every legal exit (capture/README.md). splice.cpp writes the sequences; frame access is in
// py/frame.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capture/code_view.h"
#include "capture/py/ref.h"
#include "capture/py/slots.h"
#include "graph/support/expected.h"

namespace framejit::capture {

/// The slots of a frame, or of a call that has no frame yet. All borrowed.
struct LiveSlots {
  py::Slots locals;  // localsplus: unbound is null; cells are cell objects
  int local_count = 0;
  py::Slots stack;  // bottom first; entries may be NULL (PUSH_NULL)
  int depth = 0;
  PyObject* function = nullptr;
};

/// What a region sees of the frame that asks: localsplus and the stack as they are before the site's own operand.
struct FrameView : LiveSlots {
  PyObject* globals = nullptr;
  PyObject* builtins = nullptr;
  bool outlives = false;  // others hold its frame object, and see its locals when it is gone
};

/// New contents of the frame at the exit. Each entry owns a reference (null: unbound local, NULL on the stack).
struct FrameUpdate {
  uint32_t exit_instr;  // Instr index, a boundary
  struct Local {
    int slot;
    PyObject* value;
  };
  std::vector<Local> locals;     // only the slots that change
  std::vector<PyObject*> stack;  // the whole stack at the exit, bottom first
  int kept = 0;                  // so many entries at its bottom stay as the frame has them; null in `stack`
  int32_t dropped_at = -1;       // Instr whose line finalizers of replaced values see; -1: the exit's
};

/// A site's owner. `ask` runs with the GIL held inside the user's frame, where no tool is active and nothing waits for
/// the interpreter's attention. False: the user's own instruction runs. It never leaves a Python exception set.
class SiteHandler {
 public:
  virtual ~SiteHandler() = default;
  virtual bool ask(uint32_t site_instr, const FrameView& frame, FrameUpdate& update) = 0;
};

struct SpliceOptions {
  bool all_boundaries = false;  // a site at every legal boundary (tests), else those of default_sites()
  std::vector<uint32_t>
      extra_sites;  // further ones, for instance behind breaks that capture has seen; others are ignored
};

/// Function entry, loop heads, join points and branch targets, copies of the end of the function, bodies of handlers,
/// behind calls and suspension points.
std::vector<uint32_t> default_sites(const CodeView& view);

/// Holds the handler and the rewritten code object. Regions in the code's constants own neither: code objects are not
/// seen by the cycle collector. Once this is destroyed the sites answer that no region ran, and the code goes on as
/// bytecode.
class SplicedCode {
 public:
  /// The rewritten code needs so many words of stack more than the user's.
  static constexpr int kExtraStack = 1;

  /// Fails with a reason where the code cannot be spliced.
  static Expected<std::unique_ptr<SplicedCode>, std::string> make(std::shared_ptr<const CodeView> view,
                                                                  std::shared_ptr<SiteHandler> handler,
                                                                  const SpliceOptions& options = {});
  virtual ~SplicedCode() = default;
  virtual PyCodeObject* code() const = 0;               // the rewritten code object
  virtual std::span<const uint32_t> sites() const = 0;  // Instr indices
  /// A dormant site is jumped over; it can be woken again.
  virtual void set_dormant(uint32_t site_instr, bool dormant) = 0;
};

/// Tools that must see every line or call (settrace, setprofile, sys.monitoring) are active on this thread, or for
/// `code`. cProfile alone is no such tool: it measures compiled code.
bool tools_active(PyCodeObject* code = nullptr);
bool any_tool_active(PyCodeObject* code = nullptr);  // cProfile too
/// Something asks the interpreter for attention (signals, GIL requests, pending calls).
bool eval_breaker_set();
/// A byte that is not 0 while that is so, of the running thread.
const unsigned char* eval_breaker_byte();
/// So many calls in Python may still be within one another.
int64_t recursion_left();
/// A signal waits for its handler, which this thread, the main one, has to run. May be asked without the GIL.
bool signal_pending();
/// Handlers that threw or left an exception set, since the start. 0 unless there is a bug.
uint64_t splice_internal_errors();
/// A function object like `function` (globals, defaults, closure, attributes) that runs `code`. Null: an exception is
/// set.
Ref<> function_with_code(PyFunctionObject* function, PyCodeObject* code);

/// Test hooks, exported by the extension module as framejit._core._splice_test(...): see tests/capture/test_splice.py.

}  // namespace framejit::capture
