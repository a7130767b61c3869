// CodeUnit: a code object as what is compiled, and what was asked for.
#pragma once

#include <Python.h>

#include <memory>
#include <string>

#include "capture/code_view.h"
#include "ext/dispatch/settings.h"

namespace framejit::ext::dispatch {

/// The frame of such code is others' to resume.
inline constexpr int kGeneratorFlags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

class CodeUnit {
 public:
  /// `keep`: Contents for what hangs on the code object itself, which it must not keep alive.
  CodeUnit(PyCodeObject* code, const JitSettings& settings, capture::CodeView::Keep keep);

  PyCodeObject* code() const { return code_; }
  const JitSettings& settings() const { return settings_; }
  const std::shared_ptr<const capture::CodeView>& view();
  std::string name() const;
  bool is_generator() const { return (code_->co_flags & kGeneratorFlags) != 0; }
  /// Did somebody mark the very function?
  bool is_marked() const { return keep_ == capture::CodeView::Keep::Code; }

  /// Is what hardly gains left to the interpreter, by estimate?
  bool estimates() const;
  /// Does the bytecode run some calls for comparison?
  bool compares() const;
  bool compiles_loops() const;
  /// Is there no capture from the function's start?
  bool starts_broken() const;

 private:
  PyCodeObject* code_;
  capture::CodeView::Keep keep_;
  capture::Ref<PyCodeObject> kept_;
  JitSettings settings_;
  std::shared_ptr<const capture::CodeView> view_;
};

}  // namespace framejit::ext::dispatch
