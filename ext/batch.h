// framejit._core._batch_begin(), _batch(begin, results, samples, batches): how vmap asks capture for all samples at
// once.
#pragma once

#include <span>

#include "capture/door.h"

namespace framejit::ext {

bool is_batch_function(PyObject* callable);

/// Where what was captured since `begin` changed nothing and all of it has its form for a batch: a tuple of arrays, the
/// results of all samples. Else None; what was captured stays in any case. Both give None in the interpreter.
capture::Captured<capture::Value*> call_batch_function(capture::Session& session, PyObject* callable,
                                                       std::span<capture::Value* const> args);

}  // namespace framejit::ext
