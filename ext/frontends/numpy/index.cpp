// Basic indexing: see index.h. Python's rules for slices, on dimensions that may be symbolic: each decision that
// depends on a symbol is a guard.
#include "ext/frontends/numpy/index.h"

#include "ext/frontends/numpy/library_call_capture.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "graph/layout.h"
#include "graph/mask_operators.h"

namespace framejit::ext::frontends {

using graph::Dim;
using graph::Relation;
using graph::ShapeEnv;

std::optional<Dim> as_dim(const Value& value) {
  if (value.kind == ValueKind::Int) return value.dim();
  if (!value.is_constant() || !value.object || !PyLong_CheckExact(value.object.get())) return std::nullopt;
  int overflow = 0;
  long long number = PyLong_AsLongLongAndOverflow(value.object.get(), &overflow);
  if (overflow) return std::nullopt;
  return Dim(number);
}

Dim settle(Session& session, const Dim& dim) {
  if (dim.is_const()) return dim;
  ShapeEnv& shapes = session.graph().shapes();
  return shapes.hint(dim) <= 1 ? Dim(shapes.specialize(dim)) : dim;
}

namespace {

/// The parts of a slice; a bound is absent where None was given.
struct SliceParts {
  Dim start, stop;
  bool has_start = false, has_stop = false;
  int64_t step = 1;
  Value *start_number = nullptr, *stop_number = nullptr;  // those that are known at run time only
};

enum class Part : uint8_t { Integer, Slice, Ellipsis, NewAxis };

struct IndexPart {
  Part part;
  Dim position;
  SliceParts slice;
  Value* number = nullptr;  // a position that is known at run time only
};

/// An integer, NumPy's or Python's, that is known at run time.
bool is_number_index(Session& session, const Value* key) {
  return key->is_array() && (key->wrap() == Wrap::NumpyScalar || key->wrap() == Wrap::PyInt) &&
         graph::is_int(session.graph().type(key->id()).dtype);
}

Captured<SliceParts> slice_parts(Session& session, Value* start, Value* stop, Value* step) {
  SliceParts parts;
  // Both bounds may be one value: x[i:i].
  for (const auto& [bound, number] : {std::pair(start, &parts.start_number), std::pair(stop, &parts.stop_number)}) {
    if (bound->is_none() || as_dim(*bound)) continue;
    if (!is_number_index(session, bound))
      return break_at(BreakId::UnsupportedArgument, "a slice with a bound of type " + type_name(*bound));
    *number = bound;
  }
  if (!step->is_none() && !as_dim(*step))
    return break_at(BreakId::UnsupportedArgument, "a slice with a step of type " + type_name(*step));
  parts.has_start = !start->is_none();
  parts.has_stop = !stop->is_none();
  if (parts.has_start && !parts.start_number) parts.start = *as_dim(*start);
  if (parts.has_stop && !parts.stop_number) parts.stop = *as_dim(*stop);
  if (!step->is_none()) parts.step = session.graph().shapes().specialize(*as_dim(*step));
  parts.step = std::max(parts.step, -std::numeric_limits<int64_t>::max());  // as PySlice_Unpack
  if (parts.step == 0) return break_at(BreakId::WouldRaise, "slice step cannot be zero");
  return parts;
}

/// A slice object that is a constant.
Captured<SliceParts> constant_slice(Session& session, PyObject* object) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  return slice_parts(session, session.values().constant(slice->start), session.values().constant(slice->stop),
                     session.values().constant(slice->step));
}

/// What a number is when the graph runs, taken to be somewhere in front of `most`, or nearer to it.
Captured<Dim> measured(Session& session, Value* number, const Dim& most, bool near) {
  FRAMEJIT_TRY(id, cast(session, number->id(), DType::I64));
  const int64_t hint = session.graph().shapes().hint(most);
  return session.measures().value_of(id, most, std::max<int64_t>(near ? hint - hint / 4 : hint / 4, 1));
}

Captured<IndexPart> index_part(Session& session, Value* key) {
  if (std::optional<Dim> position = as_dim(*key)) return IndexPart{Part::Integer, *position, {}};
  if (is_number_index(session, key)) {
    const graph::Node& node = session.graph().node(key->id());
    if (node.op == Op::Constant && node.type.dtype == DType::I64)
      return IndexPart{Part::Integer, static_cast<int64_t>(node.value().lo), {}};
    return IndexPart{Part::Integer, 0, {}, key};
  }
  if (key->kind == ValueKind::Slice) {
    FRAMEJIT_TRY(parts, slice_parts(session, key->items[0], key->items[1], key->items[2]));
    return IndexPart{Part::Slice, 0, std::move(parts)};
  }
  if (key->is_constant() && key->object) {
    PyObject* object = key->object.get();
    if (object == Py_None) return IndexPart{Part::NewAxis, 0, {}};
    if (object == Py_Ellipsis) return IndexPart{Part::Ellipsis, 0, {}};
    if (PySlice_Check(object)) {
      FRAMEJIT_TRY(parts, constant_slice(session, object));
      return IndexPart{Part::Slice, 0, std::move(parts)};
    }
  }
  return break_at(BreakId::UnsupportedArgument,
                  key->is_array() ? "an array as an index" : "an index of type " + type_name(*key));
}

Captured<std::vector<IndexPart>> index_parts(Session& session, Value* key) {
  std::vector<Value*> items;
  if (key->kind == ValueKind::Tuple) {
    items = key->items;
  } else if (key->is_constant() && key->object && PyTuple_CheckExact(key->object.get())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key->object.get()); ++i)
      items.push_back(session.values().constant(PyTuple_GET_ITEM(key->object.get(), i)));
  } else {
    items.push_back(key);
  }
  std::vector<IndexPart> parts;
  for (Value* item : items) {
    FRAMEJIT_TRY(part, index_part(session, item));
    parts.push_back(std::move(part));
  }
  return parts;
}

/// 0 <= position < length, with negative positions counted from the end; nothing where out of range.
std::optional<Dim> normal_position(ShapeEnv& shapes, const Dim& position, const Dim& length) {
  Dim at = shapes.holds(Relation::Le, 0, position) ? position : position + length;
  bool inside = shapes.holds(Relation::Le, 0, at) && shapes.holds(Relation::Lt, at, length);
  return inside ? std::optional<Dim>(at) : std::nullopt;
}

/// A bound of a slice, moved into [low, high].
Dim clamp(ShapeEnv& shapes, const Dim& given, const Dim& length, const Dim& low, const Dim& high) {
  Dim at = shapes.holds(Relation::Le, 0, given) ? given : given + length;
  if (shapes.holds(Relation::Lt, at, low)) return low;
  return shapes.holds(Relation::Lt, high, at) ? high : at;
}

struct Range {
  Dim start, length;
  int64_t step;
};

/// As PySlice_AdjustIndices; an empty slice starts at 0 with step 1, as NumPy's view does.
Range adjust(Session& session, const SliceParts& slice, const Dim& length) {
  ShapeEnv& shapes = session.graph().shapes();
  bool forward = slice.step > 0;
  Dim low = forward ? Dim(0) : Dim(-1), high = forward ? length : length - Dim(1);
  Dim start = slice.has_start ? clamp(shapes, slice.start, length, low, high) : forward ? low : high;
  Dim stop = slice.has_stop ? clamp(shapes, slice.stop, length, low, high) : forward ? high : low;
  Dim span = forward ? stop - start : start - stop;
  if (!shapes.holds(Relation::Lt, 0, span)) return {0, 0, 1};
  Dim size = forward ? Dim(slice.step) : Dim(0) - slice.step;
  Dim count = size == Dim(1) ? span : floordiv(span - Dim(1), size) + Dim(1);
  count = settle(session, count);
  return {start, std::move(count), slice.step};
}

}  // namespace

namespace {

/// Are there arrays of integers (or lists and tuples of ints) among the indices, and none of bools, whose result has as
/// many elements as they are true? Integers that are known at run time only count as such where they all are integers:
/// for one element.
bool has_integer_arrays(Session& session, Value* key, int rank) {
  bool found = false;
  const std::vector<Value*> items = key->kind == ValueKind::Tuple ? key->items : std::vector<Value*>{key};
  const bool one = static_cast<int>(items.size()) == rank && std::all_of(items.begin(), items.end(), [&](Value* item) {
                     return as_dim(*item) || is_number_index(session, item);
                   });
  for (Value* item : items) {
    if (item->is_array() && item->wrap() == Wrap::NdArray) {
      if (!graph::is_int(session.graph().type(item->id()).dtype)) return false;
      found = true;
    } else if (is_number_index(session, item)) {
      found = found || (one && session.graph().node(item->id()).op != Op::Constant);
    } else if (item->kind == ValueKind::List || item->kind == ValueKind::Tuple) {
      for (Value* part : item->items)
        if (!part->is_constant() || !PyLong_CheckExact(part->object.get())) return false;
      found = found || !item->items.empty();
    }
  }
  return found;
}

}  // namespace

bool is_mask(Session& session, const Value* key, Wrap wrap) {
  return key->is_array() && key->wrap() == wrap && session.graph().type(key->id()).dtype == DType::Bool &&
         session.graph().type(key->id()).rank() > 0;
}

Captured<Indexed> index_view(Session& session, ValueId array, Value* key) {
  FRAMEJIT_TRY(parts, index_parts(session, key));
  int rank = session.graph().type(array).rank();
  int used = 0, ellipses = 0;
  for (const IndexPart& part : parts) {
    used += part.part == Part::Integer || part.part == Part::Slice;
    ellipses += part.part == Part::Ellipsis;
  }
  if (used > rank) return break_at(BreakId::WouldRaise, "too many indices for array");
  if (ellipses > 1) return break_at(BreakId::WouldRaise, "an index can only have a single ellipsis");
  graph::GraphBuilder& builder = session.builder();
  const graph::Type whole = session.graph().type(array);
  ValueId at = builder.view(array, whole.shape, whole.strides, 0);
  int axis = 0;
  bool element = ellipses == 0 && used == rank;
  for (const IndexPart& part : parts) {
    if (part.part != Part::Integer) element = false;
    switch (part.part) {
      case Part::Ellipsis: axis += rank - used; break;
      case Part::NewAxis: at = builder.expand_dims(at, axis++); break;
      case Part::Integer: {
        const Dim length = session.graph().type(at).shape[axis];
        Dim given = part.position;
        if (part.number) {
          FRAMEJIT_TRY(number, measured(session, part.number, length - Dim(1), false));
          given = number;
        }
        std::optional<Dim> position = normal_position(session.graph().shapes(), given, length);
        if (!position) return break_at(BreakId::WouldRaise, "index out of bounds");
        at = builder.select(at, axis, *position);
        break;
      }
      case Part::Slice: {
        const Dim length = session.graph().type(at).shape[axis];
        SliceParts slice = part.slice;
        if (slice.start_number) {
          FRAMEJIT_TRY(start, measured(session, slice.start_number, length, false));
          slice.start = start;
        }
        if (slice.stop_number) {
          FRAMEJIT_TRY(stop, measured(session, slice.stop_number, length, true));
          slice.stop = stop;
        }
        Range range = adjust(session, slice, length);
        at = builder.slice(at, axis++, range.start, range.length, range.step);
        break;
      }
    }
  }
  return Indexed{at, element};
}

Captured<ValueId> compressed(Session& session, ValueId mask, ValueId array) {
  const graph::Type masked = session.graph().type(mask), type = session.graph().type(array);
  if (masked.rank() > type.rank()) return break_at(BreakId::WouldRaise, "too many indices for array");
  for (int i = 0; i < masked.rank(); ++i)
    if (!session.graph().shapes().equal(masked.shape[static_cast<std::size_t>(i)],
                                        type.shape[static_cast<std::size_t>(i)]))
      return break_at(BreakId::WouldRaise, "boolean index did not match indexed array");
  // NumPy gives the axes behind the mask's the order that they have in the array.
  if (masked.rank() < type.rank() && !graph::is_c_contiguous(session.graph().shapes(), type))
    return break_at(BreakId::UnsupportedArgument, "a mask for some axes of an array that is not contiguous");
  return built(graph::append_compress(session.builder(), mask, array, session.measures().count_of(mask)));
}

Value* none_for_true(Session& session, Value* key) {
  return key->is_constant() && key->object.get() == Py_True ? session.values().constant(Py_None) : key;
}

Captured<Value*> read_item(Session& session, Value* array, Value* key) {
  if (array->wrap() != Wrap::NdArray) return break_at(BreakId::UnsupportedArgument, "an index into a NumPy scalar");
  if (is_mask(session, key)) {
    FRAMEJIT_TRY(chosen, compressed(session, key->id(), array->id()));
    return session.values().array(chosen, Wrap::NdArray);
  }
  if (has_integer_arrays(session, key, session.graph().type(array->id()).rank())) {
    Value* const both[] = {array, key};
    return operator_call(session, "getitem", both);
  }
  FRAMEJIT_TRY(indexed, index_view(session, array->id(), key));
  if (!indexed.element) return session.values().array(indexed.view, Wrap::NdArray);
  return session.values().array(copy_element(session, indexed.view), Wrap::NumpyScalar);
}

namespace {

/// Is a copy of the array not much more than what is written, which is as much as is in one of these?
Captured<bool> worth_a_copy(Session& session, const Value* array, std::span<Value* const> args) {
  constexpr int64_t kSmall = 4096;
  const graph::ShapeEnv& shapes = session.graph().shapes();
  int64_t written = 0;
  for (const Value* arg : args)
    for (const Value* item : arg->kind == ValueKind::Tuple ? arg->items : std::vector<Value*>{const_cast<Value*>(arg)})
      if (item->is_array()) written = std::max(written, shapes.hint(session.graph().type(item->id()).size()));
  if (shapes.hint(session.graph().type(array->id()).size()) > kSmall + 4 * written)
    return break_at(BreakId::UnsupportedArgument, "a few items of a large array, by arrays of indices");
  return true;
}

/// The key as 1-D arrays of indices, of memory of their own, that NumPy walks through from the first to the last: which
/// value is the last one for an item matters. Empty for other keys.
std::vector<ValueId> places_of(Session& session, ValueId array, Value* key) {
  const graph::Graph& graph = session.graph();
  std::vector<ValueId> places;
  for (Value* item : key->kind == ValueKind::Tuple ? key->items : std::vector<Value*>{key}) {
    if (!item->is_array() || item->wrap() != Wrap::NdArray) return {};
    const graph::Type& type = graph.type(item->id());
    if (!graph::is_int(type.dtype) || type.dtype == DType::U64 || type.rank() != 1 || !type.strides[0].is_const() ||
        type.strides[0].value() < 0 || graph.root(item->id()) == graph.root(array))
      return {};
    places.push_back(item->id());
  }
  return places;
}

/// array[places] = value, by a step that writes these items only. False: it cannot be one.
Captured<bool> put(Session& session, ValueId array, std::span<const ValueId> places, Value* value) {
  const graph::Graph& graph = session.graph();
  if (places.empty() || session.tapes().any()) return false;
  const DType dtype = graph.type(array).dtype;
  Captured<Operand> source = operand(session, value);
  if (!source) return false;
  if (source->id != graph::kNoValue) {
    const graph::Type& given = graph.type(source->id);
    const bool converts = graph::is_float(given.dtype) && graph::is_float(dtype);
    const bool forward = std::all_of(given.strides.begin(), given.strides.end(),
                                     [](const Dim& stride) { return stride.is_const() && stride.value() >= 0; });
    // One value in an array is for as many places as there are, which may be known at run time only.
    const graph::Type& first = graph.type(places[0]);
    const bool repeats =
        !given.shape.empty() && given.shape[0] == Dim(1) && (first.dtype == DType::Bool || !(first.shape[0] == Dim(1)));
    if (repeats || (given.dtype != dtype && !converts) || !forward || graph.root(source->id) == graph.root(array))
      return false;
  }
  Captured<ValueId> values = convert(session, *source, dtype);
  if (!values) return false;
  graph::BuildResult made = graph::append_put(session.builder(), array, *values, places);
  if (!made) return false;
  return write(session, array, *made);
}

/// a[indices] = value, if need be by way of a copy of the array.
Captured<bool> write_items(Session& session, Value* array, Value* key, Value* value) {
  FRAMEJIT_TRY(done, put(session, array->id(), places_of(session, array->id(), key), value));
  if (done) return true;
  FRAMEJIT_REQUIRE(worth_a_copy(session, array, std::span(&key, 1)));
  Value* const all[] = {array, key, value};
  FRAMEJIT_TRY(result, helper_call(session, "with_items", all));
  return write(session, array->id(), result->id());
}

}  // namespace

namespace {

/// The mask, with axes of length 1 for the others of the array.
ValueId mask_of_all(Session& session, ValueId mask, int rest) {
  for (int i = 0; i < rest; ++i) mask = session.builder().expand_dims(mask, session.graph().type(mask).rank());
  return mask;
}

/// One value for each True of the mask, each at its place.
Captured<ValueId> spread_over(Session& session, ValueId mask, ValueId values, const graph::Type& array) {
  const graph::Type given = session.graph().type(values);
  const int rank = session.graph().type(mask).rank(), rest = array.rank() - rank;
  if (given.rank() != rest + 1 || given.dtype != array.dtype)
    return break_at(BreakId::UnsupportedArgument, "an array of values for the True of a mask");
  for (int i = 0; i < rest; ++i)
    if (!session.graph().shapes().equal(given.shape[static_cast<std::size_t>(i) + 1],
                                        array.shape[static_cast<std::size_t>(rank + i)]))
      return break_at(BreakId::UnsupportedArgument, "an array of values for the True of a mask");
  if (!session.graph().shapes().fits(session.measures().count_of(mask), given.shape[0]))
    return break_at(BreakId::UnsupportedArgument, "an array of values for the True of a mask");
  return graph::append_expand(session.builder(), mask, values);
}

}  // namespace

Captured<bool> write_masked(Session& session, ValueId array, ValueId mask, Value* value) {
  const graph::Type type = session.graph().type(array), of_mask = session.graph().type(mask);
  FRAMEJIT_TRY(source, operand(session, value));
  // NumPy reads them while it writes.
  if (source.id != graph::kNoValue && source.is_array() &&
      session.graph().root(source.id) == session.graph().root(array))
    return break_at(BreakId::OverlappingMemory,
                    "values for the True of a mask, from the memory that they are written to");
  const int rest = type.rank() - of_mask.rank();
  if (rest < 0) return break_at(BreakId::WouldRaise, "too many indices for array");
  for (std::size_t i = 0; i < of_mask.shape.size(); ++i)
    if (!session.graph().shapes().equal(of_mask.shape[i], type.shape[i]))
      return break_at(BreakId::WouldRaise, "boolean index did not match indexed array");
  if (source.id != graph::kNoValue && session.graph().type(source.id).rank() > rest) {
    // A write of the whole array is for small ones: NumPy looks for the True only, which may be few.
    constexpr int64_t kLarge = 1 << 15;
    if (session.graph().shapes().hint(type.size()) > kLarge) {
      FRAMEJIT_TRY(done, put(session, array, std::span(&mask, 1), value));
      if (done) return true;
      return break_at(BreakId::UnsupportedArgument, "values for the True of a mask of a large array");
    }
    FRAMEJIT_TRY(spread, spread_over(session, mask, source.id, type));
    const ValueId own[] = {mask_of_all(session, mask, rest), spread, array};
    FRAMEJIT_TRY(all, built(session.builder().elementwise(Op::Where, own)));
    return write(session, array, all);
  }
  // A scalar out of range, or a NaN, raises.
  if (graph::is_int(type.dtype) && source.id != graph::kNoValue && source.type.dtype != type.dtype)
    return break_at(BreakId::UnsupportedArgument, "values of another dtype for the True of a mask");
  FRAMEJIT_TRY(elements, convert(session, source, type.dtype));
  const ValueId choices[] = {mask_of_all(session, mask, rest), elements, array};
  FRAMEJIT_TRY(all, built(session.builder().elementwise(Op::Where, choices)));
  const graph::Dims shape = session.graph().type(all).shape;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape.size() != type.shape.size() || !session.graph().shapes().equal(shape[i], type.shape[i]))
      return break_at(BreakId::WouldRaise, "values that do not fit the array");
  return write(session, array, all);
}

Captured<Value*> call_in_place(Session& session, PyObject* function, std::span<Value* const> args,
                               std::span<const capture::Keyword> keywords, bool many) {
  if (args.empty() || !args[0]->is_array() || args[0]->wrap() != Wrap::NdArray)
    return break_at(BreakId::UnsupportedArgument, "an assignment of a value that is not an array");
  if (!many) {
    FRAMEJIT_REQUIRE(worth_a_copy(session, args[0], args.subspan(1)));
  }
  FRAMEJIT_TRY(result, copy_after(session, function, args, keywords));
  FRAMEJIT_REQUIRE(write(session, args[0]->id(), result->id()));
  return session.values().constant(Py_None);
}

Captured<bool> write_item(Session& session, Value* array, Value* key, Value* value, Wrap of) {
  if (array->wrap() != Wrap::NdArray) return break_at(BreakId::WouldRaise, "assignment to a NumPy scalar");
  if (is_mask(session, key)) return write_masked(session, array->id(), key->id(), value);
  if (has_integer_arrays(session, key, 0)) return write_items(session, array, key, value);
  FRAMEJIT_TRY(indexed, index_view(session, array->id(), key));
  if (indexed.element && value->is_array() && session.graph().type(value->id()).rank() > 0) {
    // One element of an ndarray takes arrays of one element in ways that are deprecated.
    if (of != Wrap::Tensor || session.graph().type(value->id()).shape != graph::Dims{1})
      return break_at(BreakId::UnsupportedArgument, "an array assigned to one element");
    FRAMEJIT_TRY(scalar, built(session.builder().reshape(value->id(), {})));
    value = session.values().array(scalar, Wrap::NdArray);
  }
  return store(session, indexed.view, value);
}

}  // namespace framejit::ext::frontends
