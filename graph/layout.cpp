// NumPy's layout rules, as npyiter_find_best_axis_ordering, PyArray_NewLikeArray and _attempt_nocopy_reshape have them.
#include "graph/layout.h"

#include <algorithm>
#include <numeric>

namespace framejit::graph {

namespace {

bool is_one(ShapeEnv& shapes, const Dim& d) { return d.is_const() ? d.value() == 1 : shapes.equal(d, 1); }

/// |stride|.
Dim magnitude(ShapeEnv& shapes, const Dim& stride) {
  if (shapes.holds(Relation::Le, 0, stride)) return stride;
  return Dim(0) - stride;
}

/// The |stride| of `type` along each axis of a shape it is broadcast to; 0 where the axis does not move the pointer.
Dims iterator_strides(ShapeEnv& shapes, const Type& type, int rank) {
  Dims out(static_cast<std::size_t>(rank), 0);
  const int missing = rank - type.rank();
  for (int i = 0; i < type.rank(); ++i)
    if (!is_one(shapes, type.shape[i])) out[missing + i] = magnitude(shapes, type.strides[i]);
  return out;
}

bool is_zero(ShapeEnv& shapes, const Dim& stride) {
  return stride.is_const() ? stride.value() == 0 : !shapes.holds(Relation::Lt, 0, stride);
}

/// What the operands say about axis `moving` against the faster axis `fixed`.
enum class Order { Ambiguous, Keep, Swap };

Order compare_axes(ShapeEnv& shapes, const std::vector<Dims>& strides, int moving, int fixed) {
  Order order = Order::Ambiguous;
  for (const Dims& s : strides) {
    const Dim &a = s[moving], &b = s[fixed];
    if (is_zero(shapes, a) || is_zero(shapes, b)) continue;
    if (shapes.holds(Relation::Le, b, a)) return Order::Keep;  // where operands disagree C order wins
    order = Order::Swap;
  }
  return order;
}

/// No operand of a kind for which the iterator would leave C order: contiguous ones, whole or broadcast over leading
/// axes.
bool all_c_ordered(std::span<const Type* const> operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const Type* t) { return t->strides == c_strides(t->dtype, t->shape); });
}

bool is_contiguous(ShapeEnv& shapes, const Type& type, const AxisOrder& order) {
  if (std::find(type.shape.begin(), type.shape.end(), Dim(0)) != type.shape.end()) return true;
  Dim expected = size_of(type.dtype);
  for (int axis : order) {
    const Dim &stride = type.strides[axis], &extent = type.shape[axis];
    if (!(stride == expected) && !is_one(shapes, extent) && !shapes.equal(stride, expected)) return false;
    expected = expected * extent;
  }
  return true;
}

AxisOrder f_order(int rank) {
  AxisOrder order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

bool same_shape(ShapeEnv& shapes, std::span<const Dim> a, std::span<const Dim> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Dim& x, const Dim& y) { return shapes.equal(x, y); });
}

/// What is measured may turn out to be 0: strides are then those of another length.
bool is_empty(ShapeEnv& shapes, std::span<const Dim> shape) {
  return std::any_of(shape.begin(), shape.end(),
                     [&](const Dim& d) { return !shapes.is_measured(d) && !shapes.holds(Relation::Lt, 0, d); });
}

}  // namespace

AxisOrder c_order(int rank) {
  AxisOrder order = f_order(rank);
  std::reverse(order.begin(), order.end());
  return order;
}

Dims packed_strides(ShapeEnv& shapes, DType dtype, std::span<const Dim> shape, const AxisOrder& order) {
  Dims strides(shape.size(), 0);
  if (is_empty(shapes, shape)) return strides;
  Dim stride = size_of(dtype);
  for (int axis : order) {
    strides[axis] = stride;
    stride = stride * shape[axis];
  }
  return strides;
}

AxisOrder iterator_order(ShapeEnv& shapes, std::span<const Dim> shape, std::span<const Type* const> operands) {
  const int rank = static_cast<int>(shape.size());
  AxisOrder order = c_order(rank);
  if (rank < 2 || all_c_ordered(operands)) return order;
  std::vector<Dims> strides;
  for (const Type* t : operands) strides.push_back(iterator_strides(shapes, *t, rank));
  // A stable insertion sort in which an ambiguous pair neither stops the search nor moves the axis.
  for (int i = 1; i < rank; ++i) {
    int target = i;
    for (int j = i - 1; j >= 0; --j) {
      const Order verdict = compare_axes(shapes, strides, order[i], order[j]);
      if (verdict == Order::Keep) break;
      if (verdict == Order::Swap) target = j;
    }
    std::rotate(order.begin() + target, order.begin() + i, order.begin() + i + 1);
  }
  return order;
}

AxisOrder ufunc_order(ShapeEnv& shapes, std::span<const Dim> shape, std::span<const Type* const> operands) {
  const int rank = static_cast<int>(shape.size());
  if (rank < 2 || all_c_ordered(operands)) return c_order(rank);
  // The shortcut for contiguous operands skips the iterator; only then do axes of length 1 take part in an F order.
  bool all_c = true, all_f = true, any_one = false;
  for (const Dim& d : shape) any_one = any_one || is_one(shapes, d);
  for (const Type* t : operands) {
    if (!any_one || t->rank() == 0) continue;
    const bool whole = same_shape(shapes, t->shape, shape);
    all_c = all_c && whole && is_c_contiguous(shapes, *t);
    all_f = all_f && whole && is_f_contiguous(shapes, *t);
  }
  if (any_one && all_f && !all_c) return f_order(rank);
  return iterator_order(shapes, shape, operands);
}

AxisOrder copy_order(ShapeEnv& shapes, const Type& type) {
  AxisOrder order = c_order(type.rank());
  if (type.rank() < 2 || is_c_contiguous(shapes, type)) return order;
  if (is_f_contiguous(shapes, type)) return f_order(type.rank());
  Dims strides;
  for (const Dim& s : type.strides) strides.push_back(magnitude(shapes, s));
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return shapes.holds(Relation::Lt, strides[a], strides[b]); });
  return order;
}

bool is_c_contiguous(ShapeEnv& shapes, const Type& type) { return is_contiguous(shapes, type, c_order(type.rank())); }
bool is_f_contiguous(ShapeEnv& shapes, const Type& type) { return is_contiguous(shapes, type, f_order(type.rank())); }

std::optional<Dims> reshape_strides(ShapeEnv& shapes, const Type& type, std::span<const Dim> shape) {
  if (same_shape(shapes, type.shape, shape)) return type.strides;
  if (is_empty(shapes, type.shape) || is_c_contiguous(shapes, type))
    return packed_strides(shapes, type.dtype, shape, c_order(static_cast<int>(shape.size())));
  Dims old_shape, old_strides;
  for (int i = 0; i < type.rank(); ++i) {
    if (is_one(shapes, type.shape[i])) continue;
    old_shape.push_back(type.shape[i]);
    old_strides.push_back(type.strides[i]);
  }
  Dims strides(shape.size());
  // [old, old_end) and [next, next_end) are runs of axes with as many elements.
  std::size_t old = 0, next = 0;
  while (next < shape.size() && old < old_shape.size()) {
    std::size_t old_end = old + 1, next_end = next + 1;
    Dim old_size = old_shape[old], next_size = shape[next];
    while (!shapes.equal(next_size, old_size)) {
      if (shapes.holds(Relation::Lt, next_size, old_size)) next_size = next_size * shape[next_end++];
      else old_size = old_size * old_shape[old_end++];
    }
    for (std::size_t k = old; k + 1 < old_end; ++k)
      if (!shapes.equal(old_strides[k], old_shape[k + 1] * old_strides[k + 1])) return std::nullopt;
    strides[next_end - 1] = old_strides[old_end - 1];
    for (std::size_t k = next_end - 1; k > next; --k) strides[k - 1] = strides[k] * shape[k];
    next = next_end;
    old = old_end;
  }
  const Dim last = next > 0 ? strides[next - 1] : Dim(size_of(type.dtype));
  for (; next < shape.size(); ++next) strides[next] = last;  // axes of length 1 at the end
  return strides;
}

bool repeats_elements(const Graph& graph, ValueId value) {
  while (true) {
    const Type& type = graph.type(value);
    const bool empty = std::find(type.shape.begin(), type.shape.end(), Dim(0)) != type.shape.end();
    for (std::size_t i = 0; i < type.shape.size() && !empty; ++i)
      if (type.strides[i] == Dim(0) && !(type.shape[i] == Dim(1))) return true;
    if (!type.is_view()) return false;
    value = graph.node(value).inputs[0];
  }
}

}  // namespace framejit::graph
