// Steering: the stance of the process, disabled code objects, dimensions that are marked as dynamic.
#pragma once

#include "capture/py/ref.h"

namespace framejit::ext {

enum class Stance : uint8_t { Default, ForceEager, FailOnRecompile };

inline Stance stance = Stance::Default;

/// Counts changes of the set of disabled code objects.
inline uint64_t disabled_epoch = 0;
/// Is the code kept out by framejit.disable()?
bool is_disabled(PyCodeObject* code);

/// Was the dimension of this very array marked by framejit.mark_dynamic()?
bool is_dynamic(PyObject* array, int dim);

}  // namespace framejit::ext
