// _core.Function: the callable that jit() makes of a Python function.
#pragma once

#include <memory>

#include "ext/dispatch/code_state.h"
#include "ext/dispatch/direct_function.h"

namespace framejit::ext::dispatch {

/// Spliced code of a state and the function object that runs it.
struct SplicedFunction {
  std::shared_ptr<CodeState> state;
  std::unique_ptr<capture::SplicedCode> code;
  capture::Ref<PyFunctionObject> function;

  SplicedFunction() = default;
  SplicedFunction(SplicedFunction&&) = default;
  SplicedFunction& operator=(SplicedFunction&&) = default;
  ~SplicedFunction() { reset(); }
  void reset();

  /// Makes it if the state asks for it, keeps it in step with `original`; null where the user's own code is to run.
  /// Leaves no exception.
  PyFunctionObject* get(const std::shared_ptr<CodeState>& of, PyFunctionObject* original);
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyFunctionObject* function;  // owned
  PyObject* settings;          // owned dict
  PyObject* dict;
  PyObject* weakrefs;
  std::shared_ptr<CodeState> state;
  SplicedFunction spliced;
  DirectFunction direct;
  PyObject* direct_slots[kMostDirectArguments + 1];  // by number of arguments: what direct calls call; not owned
};

PyTypeObject* function_type();
/// Gives the copy of a function the defaults that the function has now. False: an exception is set.
bool follow(PyFunctionObject* copy, PyFunctionObject* original);

}  // namespace framejit::ext::dispatch
