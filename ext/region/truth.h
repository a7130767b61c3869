// The bool that a region gives, for a branch on it while it is captured.
#pragma once

#include <memory>
#include <optional>

#include "capture/region.h"
#include "ext/guards/guard_program.h"
#include "ext/region/compile.h"

namespace framejit::ext::region {

/// For what the region was captured from; nothing where it cannot be computed. Takes back what it wrote.
std::optional<bool> truth(std::shared_ptr<capture::Region> region, const CompileOptions& options,
                          const guards::LiveSlots& live, int local_count);

}  // namespace framejit::ext::region
