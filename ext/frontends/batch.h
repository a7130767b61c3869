// framejit._core._batch_begin(), _batch(begin, results, samples, batches): how vmap asks capture for all samples at
// once.
//
// Where what was captured since `begin` changed nothing and all of it has its form for a batch, _batch() gives a tuple
// of arrays, the results of all samples. Else None; what was captured stays in any case. Both give None in the
// interpreter.
#pragma once

#include <memory>

#include "capture/frontend.h"

namespace framejit::ext::frontends {

std::unique_ptr<capture::Frontend> make_batch_frontend();

}  // namespace framejit::ext::frontends
