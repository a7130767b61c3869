// Invariants of framejit's own code: a failed check is our bug, never the user's.
#pragma once

#include <stdexcept>
#include <string>

namespace framejit {

/// Thrown by FRAMEJIT_CHECK. The entry points from Python catch it, count it as an internal error and fall back to the
/// interpreter (or raise under FRAMEJIT_STRICT=1).
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn, gnu::cold, gnu::noinline]] void check_failed(const char* file, int line, const char* condition,
                                                         const std::string& detail);

}  // namespace framejit

#define FRAMEJIT_CHECK(condition, detail)                                 \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::framejit::check_failed(__FILE__, __LINE__, #condition, (detail)); \
  } while (0)
