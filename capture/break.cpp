// The table behind capture/breaks.inc.
#include "capture/break.h"

#include <array>

#include "graph/support/check.h"

namespace framejit::capture {

namespace {
constexpr BreakInfo kBreaks[] = {
#define FRAMEJIT_BREAK(id, name, what, why, example, way_out) {BreakId::name, #name, what, why, example, way_out},
#include "capture/breaks.inc"
#undef FRAMEJIT_BREAK
};
}  // namespace

const BreakInfo& info(BreakId id) {
  for (const BreakInfo& b : kBreaks)
    if (b.id == id) return b;
  check_failed(__FILE__, __LINE__, "break id", std::to_string(static_cast<int>(id)));
}

std::string_view code_of(BreakId id) {
  static const auto codes = [] {
    std::array<std::string, 1000> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::string digits = std::to_string(i);
      all[i] = "FJ" + std::string(3 - digits.size(), '0') + digits;
    }
    return all;
  }();
  return codes.at(static_cast<std::size_t>(id));
}

}  // namespace framejit::capture
