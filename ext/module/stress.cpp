// The comma list of stress modes.
#include "ext/module/stress.h"

#include <algorithm>
#include <charconv>

#include "runtime/allocator.h"

namespace framejit::ext::module {

Stress read_stress(std::string_view text) {
  constexpr std::string_view kBreak = "break=";
  Stress out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string_view token = text.substr(at, end - at);
    while (token.starts_with(' ')) token.remove_prefix(1);
    while (token.ends_with(' ')) token.remove_suffix(1);
    out.rewrite |= token == "rewrite";
    out.guards |= token == "guards";
    out.interp |= token == "interp";
    out.verify |= token == "verify";
    out.losing |= token == "losing";
    if (token == "ends") runtime::check_ends();
    if (token.starts_with(kBreak)) std::from_chars(&token[kBreak.size()], &token[0] + token.size(), out.break_every);
    at = end + 1;
  }
  return out;
}

Stress operator|(const Stress& a, const Stress& b) {
  return {a.rewrite || b.rewrite, a.guards || b.guards, a.interp || b.interp,
          a.verify || b.verify,   a.losing || b.losing, a.break_every ? a.break_every : b.break_every};
}

}  // namespace framejit::ext::module
