// The cotangent of a view becomes part of that of its base: as a whole, with axes in another order, or piece by piece.
#include "graph/passes/cotangents.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "graph/layout.h"
#include "graph/support/check.h"

namespace framejit::graph {

namespace {

constexpr int64_t kMostPieces = 4096;

bool is_one(const Dim& d) { return d == Dim(1); }

/// The axes to go through one by one, so that what is left of the view shows each element once.
std::vector<int> overlapping_axes(ShapeEnv& shapes, const Type& t) {
  std::vector<int> order;
  for (int i = 0; i < t.rank(); ++i)
    if (!is_one(t.shape[static_cast<std::size_t>(i)])) order.push_back(i);
  const auto stride = [&](int i) { return std::abs(shapes.hint(t.strides[static_cast<std::size_t>(i)])); };
  const auto length = [&](int i) { return shapes.hint(t.shape[static_cast<std::size_t>(i)]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return stride(a) < stride(b); });
  std::vector<int> out;
  std::vector<int> taken;  // from the smallest stride on: an axis that does not pass over all of these overlaps one
  for (int axis : order) {
    const auto passes = [&](const std::vector<int>& set) {
      int64_t reach = size_of(t.dtype);
      for (int other : set) reach += (length(other) - 1) * stride(other);
      return stride(axis) >= reach;
    };
    if (passes(taken)) {
      taken.push_back(axis);
    } else {
      // The shorter of the two that clash is gone through one by one.
      auto shortest = axis;
      for (int other : taken)
        if (length(other) < length(shortest)) shortest = other;
      if (shortest == axis) {
        out.push_back(axis);
      } else {
        taken.erase(std::find(taken.begin(), taken.end(), shortest));
        out.push_back(shortest);
        if (passes(taken)) taken.push_back(axis);
        else out.push_back(axis);
      }
    }
  }
  return out;
}

}  // namespace

ValueId Cotangents::like(ValueId of) {
  const Type t = graph_.type(of);
  Dims strides = packed_strides(graph_.shapes(), t.dtype, t.shape, copy_order(graph_.shapes(), t));
  if (strides == t.strides) return builder_.empty(t.dtype, t.shape, std::move(strides));
  Dim first = 0, bytes = size_of(t.dtype);  // of an array with gaps: what it spans
  for (std::size_t i = 0; i < t.shape.size(); ++i) {
    const Dim reach = (t.shape[i] - Dim(1)) * t.strides[i];
    const int64_t stride = graph_.shapes().specialize(t.strides[i]);
    if ((stride == 0 && !is_one(t.shape[i])) || stride % size_of(t.dtype) != 0)
      failure_ = NoGradient{"a part of an array that repeats its elements", of};
    bytes = bytes + (stride < 0 ? Dim(0) - reach : reach);
    if (stride < 0) first = first - reach;
  }
  const ValueId span = builder_.empty(t.dtype, {floordiv(bytes, size_of(t.dtype))});
  return builder_.view(span, t.shape, t.strides, first);
}

void Cotangents::write(ValueId dst, ValueId value) {
  const auto done = builder_.write(dst, value);
  FRAMEJIT_CHECK(done.has_value(), "a cotangent does not fit: " + done.error().message);
}

ValueId Cotangents::memory_of(ValueId of) {
  Cotangent& c = cotangents_[index(of)];
  if (!c.ours) {
    const ValueId memory = like(of);
    write(memory, c.value == kNoValue ? math_.number(0, graph_.type(of).dtype).id : c.value);
    c = {memory, true};
  }
  return c.value;
}

ValueId Cotangents::part(ValueId memory, ValueId of, ValueId view) {
  const Type shown = graph_.type(view);
  if (shown.dtype != graph_.type(of).dtype) {
    if (part_of(shown.dtype) != part_of(graph_.type(of).dtype))
      failure_ = NoGradient{"an array whose bytes are read as another type", view};
    memory = builder_.reinterpret(memory, shown.dtype);
  }
  return builder_.view(memory, shown.shape, shown.strides, shown.offset - graph_.type(of).offset);
}

void Cotangents::add_whole(ValueId of, ValueId value) {
  Cotangent& c = cotangents_[index(of)];
  if (c.value == kNoValue) {
    c = {value, false};
  } else {
    const ValueId sum = (math_.of(c.value) + math_.of(value)).id;
    cotangents_[index(of)] = {sum, false};
  }
}

std::optional<E> Cotangents::reordered(ValueId of, ValueId view, E value) {
  const Type whole = graph_.type(of), shown = graph_.type(view);
  if (!(shown.offset == whole.offset) || shown.dtype != whole.dtype) return std::nullopt;
  std::vector<int> axes;  // of the view, in the order of the base's
  std::vector<bool> used(shown.shape.size(), false);
  for (std::size_t i = 0; i < whole.shape.size(); ++i) {
    if (is_one(whole.shape[i])) continue;
    std::size_t k = 0;
    while (k < used.size() && (used[k] || is_one(shown.shape[k]) || !(shown.shape[k] == whole.shape[i]) ||
                               !(shown.strides[k] == whole.strides[i])))
      ++k;
    if (k == used.size()) return std::nullopt;
    used[k] = true;
    axes.push_back(static_cast<int>(k));
  }
  for (std::size_t k = 0; k < used.size(); ++k) {
    if (used[k]) continue;
    if (!is_one(shown.shape[k])) return std::nullopt;
    axes.push_back(static_cast<int>(k));
  }
  if (!std::is_sorted(axes.begin(), axes.end())) value = math_.permute(value, axes);
  return math_.reshape(value, whole.shape);
}

void Cotangents::add(ValueId v, ValueId value) {
  const ValueId of = base(v);
  if (v == of) return add_whole(of, value);
  // If the view repeats an element, its cotangents are summed.
  E c = math_.of(value);
  const Type shown = graph_.type(v);
  std::vector<int64_t> repeated;
  for (std::size_t i = 0; i < shown.shape.size(); ++i)
    if (shown.strides[i] == Dim(0) && !is_one(shown.shape[i])) repeated.push_back(static_cast<int64_t>(i));
  ValueId target = v;
  if (!repeated.empty()) {
    Dims shape = shown.shape;
    for (int64_t axis : repeated) shape[static_cast<std::size_t>(axis)] = 1;
    c = math_.reshape(math_.sum(c, repeated), shape);
    target = builder_.view(v, std::move(shape), shown.strides, 0);
  }
  const Type whole = graph_.type(of);
  if (auto all = reordered(of, target, c)) return add_whole(of, all->id);
  if (whole.offset == shown.offset && whole.dtype == shown.dtype && is_c_contiguous(graph_.shapes(), whole) &&
      is_c_contiguous(graph_.shapes(), graph_.type(target)) &&
      graph_.shapes().equal(whole.size(), graph_.type(target).size()))
    return add_whole(of, math_.reshape(c, whole.shape).id);
  add_pieces(part(memory_of(of), of, target), c);
}

void Cotangents::add_pieces(ValueId there, E c) {
  const Type t = graph_.type(there);
  const std::vector<int> axes = overlapping_axes(graph_.shapes(), t);
  if (axes.empty()) return write(there, (math_.of(there) + c).id);
  int64_t pieces = 1;
  for (int axis : axes) pieces *= graph_.shapes().specialize(t.shape[static_cast<std::size_t>(axis)]);
  if (pieces > kMostPieces) {
    failure_ = NoGradient{"a view that shows elements many times over", there};
    return;
  }
  std::vector<int> sorted = axes;
  std::sort(sorted.rbegin(), sorted.rend());  // the last axis first: the others keep their numbers
  for (int64_t piece = 0; piece < pieces; ++piece) {
    ValueId to = there, from = c.id;
    int64_t rest = piece;
    for (int axis : sorted) {
      const int64_t length = graph_.shapes().specialize(t.shape[static_cast<std::size_t>(axis)]);
      to = builder_.select(to, axis, rest % length);
      from = builder_.select(from, axis, rest % length);
      rest /= length;
    }
    write(to, (math_.of(to) + math_.of(from)).id);
  }
}

ValueId Cotangents::of(ValueId v) {
  const ValueId of = base(v);
  const auto found = cotangents_.find(index(of));
  if (found == cotangents_.end() || found->second.value == kNoValue) return kNoValue;
  if (v == of) return found->second.value;
  return part(memory_of(of), of, v);
}

void Cotangents::clear(ValueId view) {
  const ValueId of = base(view);
  write(part(memory_of(of), of, view), math_.number(0, graph_.type(view).dtype).id);
}

}  // namespace framejit::graph
