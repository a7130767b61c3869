// Recipes: one Python object made of what a run has computed and of the objects that exist already.
#pragma once

#include <Python.h>

#include <cstdint>

#include "ext/region/object_plan.h"

namespace framejit::ext::region {

/// A new reference; null: an exception is set. The objects that the recipe names exist.
PyObject* create(const ObjectPlan& plan, Workspace& w, uint32_t recipe);
/// Puts into a container what its recipe names. False: an exception is set.
bool fill(const capture::Recipe& r, Workspace& w, PyObject* container);

}  // namespace framejit::ext::region
