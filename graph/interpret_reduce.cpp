// Each call of NumPy's inner loop in turn: pairwise for float sums that fold, else a left fold into the output.
#include "graph/interpret_reduce.h"

#include <algorithm>
#include <cstring>

#include "graph/layout.h"
#include "graph/reduce_order.h"
#include "graph/scalar_cast.h"

namespace framejit::graph {

namespace {

/// NumPy's pairwise sum of x[0..n): eight accumulators in blocks of up to 128, halves above.
template <class T>
T pairwise(const T* x, int64_t n) {
  if (n < 8) {
    T sum = static_cast<T>(-0.0);
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
  if (n <= 128) {
    T r[8];
    std::copy(x, x + 8, r);
    int64_t i = 8;
    for (; i + 8 <= n; i += 8)
      for (int k = 0; k < 8; ++k) r[k] += x[i + k];
    T sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; ++i) sum += x[i];
    return sum;
  }
  const int64_t half = n / 2 - n / 2 % 8;
  const T left = pairwise(x, half);
  return left + pairwise(x + half, n - half);
}

template <class T>
T combine(Op op, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return op == Op::ReduceSum || op == Op::ReduceMax || op == Op::ReduceAny ? a || b : a && b;
  } else {
    switch (op) {
      case Op::ReduceSum:
        if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        return a + b;
      case Op::ReduceProd:
        if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        return a * b;
      case Op::ReduceMin: return minimum(a, b);
      case Op::ReduceMax: return maximum(a, b);
      default: return a;
    }
  }
}

/// The walk over `in`, fastest axis first, in the iterator's order.
std::vector<WalkAxis> walk_of(DType dtype, const ArrayRef& in, std::span<const int64_t> axes, const ArrayRef& out) {
  Type type{dtype, {in.shape.begin(), in.shape.end()}, {in.strides.begin(), in.strides.end()}};
  const Type* operand = &type;
  ShapeEnv constants;
  std::vector<int64_t> out_strides(in.shape.size(), 0);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < in.shape.size(); ++i)
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i))) out_strides[i] = out.strides[kept++];
  std::vector<WalkAxis> walk;
  for (int axis : iterator_order(constants, type.shape, {&operand, 1})) {
    const bool moves = in.shape[axis] != 1;
    walk.push_back({in.shape[axis], moves ? in.strides[axis] : 0, moves ? out_strides[axis] : 0});
  }
  return walk;
}

/// `Read` gives the operand's element as T, the type of the result.
template <class T, class Read>
void reduce_typed(Op op, const ReducePlan& plan, Read&& read, std::byte* out) {
  int64_t total = 1;
  for (const WalkAxis& a : plan.axes) total *= a.extent;
  std::vector<T> run;
  for (int64_t start = 0; start < total; start += plan.span) {
    for (int64_t done = 0; done < plan.span; done += plan.call) {
      const int64_t count = std::min(plan.call, plan.span - done);
      run.clear();
      for (int64_t i = 0; i < count; ++i) {
        const Offsets at = offsets_at(plan.axes, start + done + i);
        run.push_back(read(at.in));
        if (plan.folds && op == Op::ReduceSum && std::is_floating_point_v<T> && i + 1 < count) continue;
        T sum;
        std::memcpy(&sum, out + at.out, sizeof(T));
        if constexpr (std::is_floating_point_v<T>)
          sum = combine<T>(op, sum, plan.folds && op == Op::ReduceSum ? pairwise(run.data(), count) : run.back());
        else sum = combine<T>(op, sum, run.back());
        std::memcpy(out + at.out, &sum, sizeof(T));
      }
    }
  }
}

/// Sets each output to the start value: the neutral element, or for min and max the first element that it meets.
template <class T>
void fill_start(Op op, const ReducePlan& plan, const std::byte* in, std::byte* out) {
  int64_t total = 1;
  for (const WalkAxis& a : plan.axes) total *= a.extent;
  for (int64_t i = total; i-- > 0;) {
    const Offsets at = offsets_at(plan.axes, i);
    T start = static_cast<T>(op == Op::ReduceProd || op == Op::ReduceAll ? 1 : 0);
    if (op == Op::ReduceMin || op == Op::ReduceMax) std::memcpy(&start, in + at.in, sizeof(T));
    std::memcpy(out + at.out, &start, sizeof(T));
  }
}

/// Outputs that no element reaches (a reduced axis of length 0) keep the neutral element.
template <class T>
void fill_neutral(Op op, const ArrayRef& out) {
  const T neutral = static_cast<T>(op == Op::ReduceProd || op == Op::ReduceAll ? 1 : 0);
  int64_t count = 1;
  for (int64_t d : out.shape) count *= d;
  for (int64_t i = 0; i < count; ++i) std::memcpy(out.data + i * static_cast<int64_t>(sizeof(T)), &neutral, sizeof(T));
}

}  // namespace

bool interpret_reduction(Op op, DType operand, DType result, const ArrayRef& in, std::span<const int64_t> axes,
                         const ArrayRef& out) {
  const ReducePlan plan = plan_reduction(walk_of(operand, in, axes, out));
  return with_type(operand, [&](auto source) {
    using Source = decltype(source);
    return with_type(result, [&](auto target) {
      using Target = decltype(target);
      fill_neutral<Target>(op, out);
      if constexpr (std::is_same_v<Source, Target>) fill_start<Target>(op, plan, in.data, out.data);
      const auto read = [&](int64_t offset) {
        Scalar s;
        std::memcpy(&s.lo, in.data + offset, sizeof(Source));
        return convert<Target>(value_of<Source>(s));
      };
      reduce_typed<Target>(op, plan, read, out.data);
      return true;
    });
  });
}

}  // namespace framejit::graph
