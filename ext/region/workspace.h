// The working memory of one run of a region: what is matched, and what its objects are made in.
#pragma once

#include <Python.h>

#include <cstdint>

#include "ext/guards/guard_program.h"

namespace framejit::ext::region {

/// Sized by the Materializer, provided and zeroed by the caller.
struct Workspace {
  guards::Matched* matched;
  PyObject** roots;    // owned: array or number of each result root
  char** results;      // memory of each result root
  int64_t* cells;      // two words for each root that is neither
  PyObject** objects;  // owned: one for each recipe
};

}  // namespace framejit::ext::region
