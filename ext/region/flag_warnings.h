// The warnings that NumPy gives for floating-point flags, given by a region itself once all its work is done.
//
//     x *= c     overflow: the flag is noted          NumPy: RuntimeWarning: overflow encountered in multiply
//     x += y                                     =>   the region: the same, for the line of `x *= c`, behind `x += y`
//
// Nobody can tell the two apart where a warning does no more than to be shown, recorded or dropped: no errstate or
// warning filter raises, `warnings.showwarning` is unmodified, and the region cannot reach the list that records
// warnings. Whether that is so must be known before a run that cannot be taken back. Otherwise a second program runs,
// compiled on first use, whose writes can be undone.
#pragma once

#include <Python.h>

#include <optional>
#include <span>
#include <vector>

#include "capture/session.h"
#include "graph/graph.h"

namespace framejit::ext::region {

/// What a warning would do now.
struct WarningRules {
  unsigned watched = 0;     // flags (FE_*) that warn; the others are ignored
  PyObject* log = nullptr;  // the list that catch_warnings(record=True) fills, borrowed
};

/// Nothing where somebody could tell: np.errstate raises, calls or prints, a filter makes an exception of a
/// RuntimeWarning or runs code of its own, or what shows warnings was replaced.
std::optional<WarningRules> warning_rules();

/// May a warning be written to sys.stderr without an error? Python's own files, while they are open, or none at all.
bool stderr_takes_warnings();

/// The module `warnings`, or the name of a module's record of what was warned of.
bool is_of_warnings(PyObject* object);

/// Gives the warnings of a run, call by call as NumPy would have. `owners`, `raised`: Program::flag_slots and
/// RunResult::slots. False: an exception is set.
bool warn_of_flags(const graph::Graph& graph, std::span<const capture::Origin> origins,
                   const std::vector<std::vector<uint32_t>>& owners, std::span<const unsigned> raised);

}  // namespace framejit::ext::region
