// Where machine code is kept between processes, if that was asked for.
#pragma once

#include <string>

#include "codegen/kernel.h"

namespace framejit::ext::module {

/// Null: it is not kept. `asked`: by jit(cache=True), otherwise it is kept if config.cache_dir is set.
codegen::KernelStore* kernel_store(bool asked);

/// Why code is not kept, or not read, if that has not been said yet; else empty.
std::string take_store_complaint();

}  // namespace framejit::ext::module
