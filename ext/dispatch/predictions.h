// Stress mode "verify": nothing runs in place of the bytecode. What a region would leave at its exit is compared with
// what the bytecode has there.
#pragma once

#include <Python.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "capture/splice.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext::dispatch {

class Predictions {
 public:
  enum class Visit : uint8_t {
    Ready,    // a region may be predicted here
    Waiting,  // an exit is still to come
    Failed,   // Python raised: nothing can be compared
  };
  /// The bytecode is at a site. `first`: it is the first one of the code. What differs from the prediction that ends
  /// here is put in `difference`.
  Visit visit(PyCodeObject* code, uint32_t site, bool first, const capture::FrameView& frame, std::string& difference);
  /// Predicts what the entry would leave.
  void predict(region::Entry& entry, const capture::FrameView& frame);

 private:
  struct Pending {
    capture::Ref<> prediction;
    uint32_t exit;
  };
  std::map<capture::py::Slots, Pending> pending_;  // by frame
};

}  // namespace framejit::ext::dispatch
