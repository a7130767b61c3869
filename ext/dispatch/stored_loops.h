// Compiled loops in files of the disk cache: see stored_captures.h.
#pragma once

#include <memory>

#include "capture/loops/loop_program.h"
#include "codegen/kernel.h"
#include "ext/dispatch/stored_objects.h"
#include "ext/region/compiled_loop.h"

namespace framejit::ext::dispatch {

/// A loop that has not run yet. Clears `ok` for what calls what cannot be found again, or holds addresses of other
/// things than of objects that have a form and of this module's data.
void write_loop(region::ArchiveWriter& a, ObjectWriter& objects, const capture::LoopProgram& program,
                const region::CompiledLoop& loop);

/// Null, with `ok` cleared, if the bytes are no such thing. `code` stays null if the machine code is elsewhere.
std::shared_ptr<capture::LoopProgram> read_loop(region::ArchiveReader& a, ObjectReader& objects,
                                                const capture::CodeView& view, std::unique_ptr<region::LoopCode>& code);

}  // namespace framejit::ext::dispatch
