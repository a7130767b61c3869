// DirectFunction: what runs for a marked function whose calls are left to the interpreter, where it calls itself or
// other marked functions (capture/direct_calls.h).
#pragma once

#include <memory>
#include <vector>

#include "capture/direct_calls.h"
#include "capture/py/dict_version.h"
#include "capture/py/ref.h"

namespace framejit::ext::dispatch {

struct FunctionObject;

/// Calls of more arguments are not direct.
inline constexpr int kMostDirectArguments = 7;

class DirectFunction {
 public:
  ~DirectFunction() { reset(); }
  /// Nothing is compiled for this call of `f`, nor for the next ones. Leaves no exception.
  void prepare(FunctionObject* f);
  bool is_there() const { return static_cast<bool>(function_); }
  /// The function to call for `f`: the direct one, or the user's own while tools are active or globals are others.
  PyFunctionObject* get(FunctionObject* f);
  /// The slots of `f` lead to `f` again.
  void reset();
  int traverse(visitproc visit, void* arg) const;

 private:
  bool calls_marked();

  FunctionObject* of_ = nullptr;
  PyFunctionObject* original_ = nullptr;  // of `of_`, which owns it
  capture::Ref<PyFunctionObject> function_;
  std::unique_ptr<capture::DirectCalls> calls_;
  std::vector<capture::Ref<>> names_;  // of what it calls
  capture::DictVersion globals_;
  uint64_t seen_ = 0;  // version of the globals at which calls_marked() was found to hold
  bool armed_ = false, tried_ = false;
};

}  // namespace framejit::ext::dispatch
