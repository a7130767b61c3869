#include "graph/support/check.h"

namespace framejit {

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::string text = std::string(file) + ":" + std::to_string(line) + ": " + condition;
  if (!detail.empty()) text += ": " + detail;
  throw InternalError(text);
}

}  // namespace framejit
