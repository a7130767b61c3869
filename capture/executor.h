// Executor: what all frames of one capture share.
//
// Functions that take the executor first do the work of instructions. Each kind of object has a file of its own:
// objects.h, attributes.h, calls.h, operators.h, containers.h and others. No such function runs user code or changes an
// object. Each either gives the Value that the interpreter would give, or a Break; what it did before the Break is
// taken back by the frame's checkpoint (Session::rollback).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/break.h"
#include "capture/code_view.h"
#include "capture/effects.h"
#include "capture/flow_map.h"
#include "capture/frontend.h"
#include "capture/limits.h"
#include "capture/loops/prediction.h"
#include "capture/region.h"
#include "capture/session.h"

namespace framejit::capture {

using Values = std::vector<Value*>;
inline constexpr uint32_t kMostVariants = 4;                 // of a place where what caches and sets hold is asked for
using Keywords = std::vector<std::pair<PyObject*, Value*>>;  // exact str, borrowed from code objects or Constants

class SymbolicFrame;

/// The calls that a capture is in, and how often functions call themselves.
class OpenCalls {
 public:
  explicit OpenCalls(uint32_t most_recursive) : most_recursive_(most_recursive) {}

  /// How many calls of the code have begun and not ended.
  uint32_t level_of(const PyCodeObject* code) const;
  /// May no other call be followed that is recursive at this level?
  bool is_exhausted(uint32_t level);
  void begin(PyCodeObject* code, uint32_t level);
  /// Whether the calls around this one are going to be too many, if they call as often as this one did. Without a
  /// result nothing is said.
  bool end(uint32_t level, bool has_result);
  /// See CaptureOutcome.
  uint32_t unfinished_levels() const { return unfinished_levels_; }

 private:
  struct Call {
    PyCodeObject* code;
    uint32_t before;  // recursive calls that had begun when this one did
    uint32_t calls;   // that it makes and that are recursive
  };
  bool goes_too_far(const Call& call, uint32_t level);

  const uint32_t most_recursive_;
  std::vector<Call> calls_;       // from the outermost frame on
  uint32_t recursive_calls_ = 0;  // that have begun
  uint32_t finished_level_ = 0;   // the outermost level of recursion at which a call was finished
  uint32_t unfinished_levels_ = 0;
};

class Executor {
 public:
  Executor(Session& session, const CaptureOptions& options);
  ~Executor();

  Session& session() { return session_; }
  Effects& effects() { return effects_; }
  const CaptureOptions& options() const { return options_; }
  ValueArena& values() { return session_.values(); }
  graph::ShapeEnv& shapes() { return session_.graph().shapes(); }

  Value* none() { return session_.values().constant(Py_None); }
  Value* boolean(bool b) { return session_.values().constant(b ? Py_True : Py_False); }
  Value* str(const std::string& text);

  /// An existing mutable object has one Value.
  struct Tracked {
    Value* value;
    SourceRef source;
  };
  const std::unordered_map<PyObject*, Tracked>& tracked() const { return tracked_; }
  Value* track(PyObject* object, const SourceRef& source, Value* v);
  /// The object lives as long as the capture, or until its transaction is taken back.
  void keep(PyObject* object);

  std::shared_ptr<const CodeView> view_of(PyCodeObject* code);
  /// Graph locations of a code's instructions; 0: not made yet.
  std::vector<uint32_t>& locations(const CodeView* view);

  /// The exception that is being handled, of those that were raised during capture; or null.
  Value* handled() const { return handled_; }
  void set_handled(Value* exception);
  /// Where exceptions that a handler has got were raised last. For what breaks say: nothing is undone.
  std::unordered_map<const Value*, Break> raised_at;

  /// An Iterator that stands for a generator in this frame.
  Value* make_generator(std::unique_ptr<SymbolicFrame> frame);
  SymbolicFrame& generator_frame(const Value* generator);
  /// Would dropping the generators of this capture run code?
  bool has_open_handlers() const;

  uint32_t steps = 0;          // instructions executed, all frames
  uint32_t library_calls = 0;  // of functions in Python that a library has
  Limits limits;
  LoopPrediction loops;
  OpenCalls calls;
  std::vector<uint32_t> visits;    // by instruction of the outermost frame: how often it was executed
  uint32_t depth = 0;              // inlined frames
  uint32_t branches = 0;           // that are being captured, in each other
  int plain_depth = 0;             // tuples that plain() is in
  SymbolicFrame* frame = nullptr;  // the innermost one
  PyObject* builtins = nullptr;    // of the outermost frame, borrowed

 private:
  Session& session_;
  const CaptureOptions& options_;
  Effects effects_;
  std::unordered_map<PyObject*, Tracked> tracked_;
  std::unordered_map<PyCodeObject*, std::shared_ptr<const CodeView>> views_;
  std::unordered_map<const CodeView*, std::vector<uint32_t>> locations_;
  std::vector<Ref<>> kept_;
  std::vector<std::unique_ptr<SymbolicFrame>> generators_;  // by position of their Iterators
  Value* handled_ = nullptr;
};

}  // namespace framejit::capture
