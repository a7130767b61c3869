// Basic indexing: integers, slices, Ellipsis, newaxis and tuples of them, as views.
#pragma once

#include <span>

#include "capture/frontend.h"
#include "ext/frontends/numpy/ops.h"

namespace framejit::ext::frontends {

struct Indexed {
  ValueId view = graph::kNoValue;
  bool element = false;  // integers for every axis: reading gives a scalar, a copy
};

/// The view that `array[key]` names. Breaks for advanced indices, and where NumPy raises.
Captured<Indexed> index_view(Session& session, ValueId array, Value* key);

/// An array of bools as an index.
bool is_mask(Session& session, const Value* key, Wrap wrap = Wrap::NdArray);
/// array[mask]: fresh memory of a size that the graph measures.
Captured<ValueId> compressed(Session& session, ValueId mask, ValueId array);
/// array[mask] = value, for values that are the same for each True of the mask.
Captured<bool> write_masked(Session& session, ValueId array, ValueId mask, Value* value);

/// As the only key, True names all of the array under a new axis, as None does; what is read so is a copy.
Value* none_for_true(Session& session, Value* key);

Captured<Value*> read_item(Session& session, Value* array, Value* key);
Captured<bool> write_item(Session& session, Value* array, Value* key, Value* value, Wrap of = Wrap::NdArray);

/// function(array, ...), which writes into the array and gives None, by way of a copy; `many`: it is likely to write
/// all of it, else as many elements as an argument has.
Captured<Value*> call_in_place(Session& session, PyObject* function, std::span<Value* const> args,
                               std::span<const capture::Keyword> keywords, bool many);

/// A Python int as a dimension, if it is one: an exact int that is known, or symbolic.
std::optional<graph::Dim> as_dim(const Value& value);

/// A dimension of a result: 0 and 1 are always constants.
graph::Dim settle(Session& session, const graph::Dim& dim);

}  // namespace framejit::ext::frontends
