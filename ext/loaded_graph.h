// _core.LoadedGraph: a graph from its text, as a callable. What framejit.load reads from a file.
#pragma once

#include <span>

#include "capture/door.h"

namespace framejit::ext {

bool is_loaded_graph(PyObject* object);

/// The call as nodes of the graph that is being captured. Breaks where the operands are not of the types of the params.
capture::Captured<capture::Value*> call_loaded_graph(capture::Session& session, PyObject* graph,
                                                     std::span<capture::Value* const> args);

}  // namespace framejit::ext
