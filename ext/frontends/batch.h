// framejit._core._batch_begin(), _batch(begin, results, samples, batches): how vmap asks capture for all samples at
// once.
//
// Where what was captured since `begin` changed nothing and all of it has its form for a batch, _batch() gives a tuple
// of arrays, the results of all samples. Else None; what was captured stays in any case. Both give None in the
// interpreter.
//
// _batch_watch() begins one sample, and _batch_written(arrays) ends it. The latter returns the Parameters that the
// sample wrote, each with a copy of what it held before, and for each of the arrays whether the sample wrote it. It
// returns None if that is not known, as in the interpreter.
#pragma once

#include <memory>

#include "capture/frontend.h"

namespace framejit::ext::frontends {

std::unique_ptr<capture::Frontend> make_batch_frontend();

/// Memory with this root is about to be written. If a sample runs that began later than the memory was there, what it
/// held is kept for vmap.
capture::Captured<bool> note_batch_write(capture::Session& session, graph::ValueId root);

}  // namespace framejit::ext::frontends
