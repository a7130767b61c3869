// A frontend of functions only: it owns no arrays, so nothing but calls comes to it.
#pragma once

#include "capture/frontend.h"

namespace framejit::ext::frontends {

class FunctionFrontend : public capture::Frontend {
 public:
  using Value = capture::Value;
  using Session = capture::Session;

  bool owns(PyObject*) const final { return false; }
  bool owns(const Value&) const final { return false; }
  capture::Captured<Value*> wrap(Session&, PyObject*, capture::SourceRef) final { return not_ours(); }
  capture::Captured<Value*> binary(Session&, int, Value*, Value*) final { return not_ours(); }
  capture::Captured<Value*> unary(Session&, capture::Unary, Value*) final { return not_ours(); }
  capture::Captured<Value*> compare(Session&, int, Value*, Value*) final { return not_ours(); }
  capture::Captured<Value*> get_attr(Session&, Value*, std::string_view) final { return not_ours(); }
  capture::Captured<Value*> call_method(Session&, Value*, std::string_view, std::span<Value* const>,
                                        std::span<const capture::Keyword>) final {
    return not_ours();
  }
  capture::Captured<Value*> get_item(Session&, Value*, Value*) final { return not_ours(); }
  capture::Captured<bool> set_item(Session&, Value*, Value*, Value*) final { return not_ours(); }
  capture::Captured<Value*> length(Session&, Value*) final { return not_ours(); }

 protected:
  static Unexpected<capture::Break> not_ours() { return capture::break_at(capture::BreakId::UnsupportedArgument); }
};

}  // namespace framejit::ext::frontends
