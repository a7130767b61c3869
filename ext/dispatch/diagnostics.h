// The errors and warnings that users see.
#pragma once

#include <string>
#include <string_view>

#include "capture/break.h"
#include "ext/guards/guard_program.h"

namespace framejit::ext::dispatch {

/// Is the file one of an installed package, or of Python's own library?
bool is_library_file(std::string_view file);
/// Counts an error of ours and tells the log; raises it as RuntimeError and gives true where config.strict says so. The
/// error may be that there is no memory. `where`: null where there is no name.
bool internal_error(const char* where, const char* what) noexcept;
/// GraphBreakError with the record of the break.
void raise_graph_break(const capture::Break& b);
/// `made`: how many entries were compiled.
void warn_recompile_limit(const std::string& function, const guards::GuardFailure& failure, int made);
/// A PerformanceWarning at the line that runs.
void warn_performance(const std::string& text);

}  // namespace framejit::ext::dispatch
