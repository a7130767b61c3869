// Why capture stops at an instruction: a registry with stable ids, and one record for each break that happened.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capture/py/ref.h"
#include "graph/support/expected.h"

namespace framejit::capture {

enum class BreakId : uint16_t {
#define FRAMEJIT_BREAK(id, name, what, why, example, way_out) name = id,
#include "capture/breaks.inc"
#undef FRAMEJIT_BREAK
};

struct BreakInfo {
  BreakId id;
  std::string_view name, what, why, example, way_out;
};
const BreakInfo& info(BreakId id);
std::string_view code_of(BreakId id);  // "FJ031"

struct Value;
struct Guard;

struct Break {
  BreakId id;
  std::string detail = {};  // joined to `what` by ": " in messages
  // Filled by the frame that it reached:
  uint32_t instr = 0;
  std::string function = {}, file = {};
  int line = 0, column = 0, end_column = 0;
  /// The exception that the instruction raises in the interpreter, where it is known and all that happened before is
  /// captured: a frame that catches it goes on. Lives as long as the session.
  Value* raised = nullptr;
  /// The instruction raises, whatever that may be.
  bool raises = false;
  /// It handles or raises again an exception that was raised before the region: no break of its own.
  bool of_earlier_exception = false;
  /// A handler of a frame may catch what the instruction raises.
  bool caught = false;
  /// Code of the callees that were being followed, innermost first: the interpreter will call them. Lives as long as
  /// the session.
  std::vector<PyCodeObject*> callees = {};
  /// It ends in front of a loop that is compiled as a loop: no break for the user.
  bool before_loop = false;
  /// What must hold for the break to come again. Taken by the region that it ends.
  std::shared_ptr<const Guard> while_holds = {};
};

template <class T>
using Captured = Expected<T, Break>;

/// Does the interpreter raise at the break, and the exception leave the function?
inline bool raises_to_caller(const Break& b) {
  return !b.caught && (b.raises || b.id == BreakId::WouldRaise || b.id == BreakId::UnboundVariable);
}

inline Unexpected<Break> break_at(BreakId id, std::string detail = {}) { return {Break{id, std::move(detail)}}; }

}  // namespace framejit::capture
