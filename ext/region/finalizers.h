// What a region's stores put out of its place, looked at before anything is done: where giving it up would run code, a
// finalizer or a weakref's callback, the interpreter runs the region's instructions, so that it runs where it should.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "capture/region.h"
#include "ext/guards/guard_program.h"

namespace framejit::ext::region {

class FinalizerCheck {
 public:
  FinalizerCheck(const capture::Region& region, const guards::GuardProgram& guards);
  /// `in_frame`: the stack of the frame is written too.
  bool may_run(const guards::Matched& m, bool in_frame) const {
    if (!in_frame && displacing_.empty() && region_.overwritten.empty()) return false;
    return given_up_runs_code(m, in_frame);
  }

 private:
  bool given_up_runs_code(const guards::Matched& m, bool in_frame) const;
  void keep(uint32_t recipe, int32_t holder, std::vector<uint8_t>& seen);
  PyObject* object(const guards::Matched& m, int32_t recipe) const;

  const capture::Region& region_;
  const guards::GuardProgram& guards_;
  std::unordered_map<uint32_t, guards::GuardOperand> fetched_;  // by recipe
  std::vector<const capture::Effect*> displacing_;              // what was there before the region
  struct Kept {
    guards::GuardOperand object;
    int32_t holder;  // recipe, or -1
  };
  std::vector<Kept> kept_;  // existing objects that what is made at the exit, or what a store changes, refers to
};

}  // namespace framejit::ext::region
