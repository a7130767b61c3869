// CodePosition: where in the user's code a capture is, and the calls of ufuncs that are made there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "capture/py/ref.h"
#include "graph/builder.h"

namespace framejit::capture {

/// Where NumPy looks when it warns: the file of the running code, and its globals (`__name__`, `__warningregistry__`).
struct Origin {
  HeldRef file, globals;
};

class CodePosition {
 public:
  explicit CodePosition(graph::GraphBuilder& builder) : builder_(builder) {}

  /// The instruction, in the graph's table.
  uint32_t location() const { return location_; }
  void set_location(uint32_t location);
  /// The code that runs symbolically; both borrowed.
  void set_frame(PyObject* file, PyObject* globals) {
    file_ = file;
    globals_ = globals;
  }

  /// The operators that were appended since there were `first` values are those of one call of a ufunc, made by the
  /// running code: it is their graph::Call.
  void mark_call(std::size_t first);
  /// The origins of the graph's calls.
  std::vector<Origin> take_origins() { return std::move(origins_); }

 private:
  uint32_t origin();

  graph::GraphBuilder& builder_;
  uint32_t location_ = 0;
  PyObject *file_ = nullptr, *globals_ = nullptr;
  std::vector<Origin> origins_;
};

}  // namespace framejit::capture
