// Library calls of NumPy's functions (library_call_capture.h) as data, for graphs in files.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/py/ref.h"
#include "graph/graph.h"

namespace framejit::ext::library_calls {

/// A call as a dict: callable, args, keywords, result, through_view, sequence, count, first, item. Arguments are
/// tuples: ("known", object), ("operand", number, wrap), ("tuple", ...), ("list", ...), ("slice", ...). Null with an
/// exception set.
capture::Ref<> library_call_record(int64_t index);
/// The index of a call that is given so. Nothing with ValueError set for what is none, or calls anything but what is
/// listed.
std::optional<int64_t> library_call_from_record(PyObject* record);
/// Can the call be made of operands of these types, and give such a result?
bool library_call_fits(int64_t index, const std::vector<graph::Type>& operands, const graph::Type& result);

}  // namespace framejit::ext::library_calls
