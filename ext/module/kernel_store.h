// Where machine code is kept between processes, if that was asked for.
#pragma once

#include <string>
#include <string_view>

#include "codegen/kernel.h"

namespace framejit::ext::module {

/// Null: it is not kept. `asked`: by jit(cache=True), otherwise it is kept if config.cache_dir is set.
codegen::KernelStore* kernel_store(bool asked);

/// Finds and adds the results of captures in a store that kernel_store() has given. A capture that is not found counts
/// as missed once it is added for the first time (`is_new`), because many captures cannot be kept.
bool find_captures(codegen::KernelStore& store, std::string_view key, codegen::KernelCode& out);
void add_captures(codegen::KernelStore& store, std::string_view key, const codegen::KernelCode& captures, bool is_new);

/// Why code is not kept, or not read, if that has not been said yet; else empty.
std::string take_store_complaint();

}  // namespace framejit::ext::module
