// Pure functions of NumPy's that have no nodes of their own: a call of one is a step of the plan, which calls the very
// function.
//
// What such a call gives, its dtype, shape and layout, must be known at capture. It is asked of the function itself, on
// small arrays of ours with the same dtypes, orders of memory and constants; lengths that are symbolic or large have
// stand-ins. Each run compares: where the function raises, warns or gives something else, the run ends in Redo, and
// NumPy does what it does.
#pragma once

#include "ext/frontends/numpy/ops.h"

namespace framejit::ext::frontends {

/// The call as a node. Breaks where an argument is nothing that NumPy's functions take as it is, or the result is no
/// fresh array or number.
Captured<Value*> library_call(Session& session, PyObject* callable, std::span<Value* const> args,
                              std::span<const capture::Keyword> keywords = {});
/// The same for a function of the module `operator`.
Captured<Value*> operator_call(Session& session, const char* name, std::span<Value* const> args);

/// And for one of framejit._traced._library_functions.
Captured<Value*> helper_call(Session& session, const char* name, std::span<Value* const> args);

/// A copy of the first argument after function(*args, **keywords), which writes into that.
Captured<Value*> copy_after(Session& session, PyObject* function, std::span<Value* const> args,
                            std::span<const capture::Keyword> keywords);

/// A method of NumPy's Generator, the first argument. Draws of a region happen in their order, and are taken back if
/// its run comes to nothing.
Captured<Value*> draw(Session& session, PyObject* callable, std::span<Value* const> args,
                      std::span<const capture::Keyword> keywords);

/// left OP right of known numbers, NumPy's scalars among them; null where that raises or warns.
Ref<> fold_numbers(int nb, PyObject* left, PyObject* right);

}  // namespace framejit::ext::frontends
