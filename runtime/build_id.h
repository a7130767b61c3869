// The number that the linker gave to the library that this code is in.
#pragma once

#include <string>

namespace framejit::runtime {

/// In hexadecimal digits; another one for each build whose code differs. Empty: the linker gave none.
std::string build_id();

}  // namespace framejit::runtime
