// The place of an element is computed from its distance to the first edge. If it is near an edge, the edges beside it
// correct the place, so that rounding does not matter.
#include "codegen/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "codegen/cpu.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace {

using graph::DType;

constexpr int64_t kBlock = 65536;      // numpy.lib._histograms_impl, BLOCK
constexpr double kMostExact = 0x1p53;  // integers beyond it are not all numbers of float64
constexpr int64_t kAtOnce = 256, kMostMisses = 4;

/// Calls f with a value of the type of elements; false if that is none of those known here.
template <class F>
bool with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F64: return f(double{}), true;
    case DType::I8: return f(int8_t{}), true;
    case DType::I16: return f(int16_t{}), true;
    case DType::I32: return f(int32_t{}), true;
    case DType::I64: return f(int64_t{}), true;
    case DType::U8: return f(uint8_t{}), true;
    case DType::U16: return f(uint16_t{}), true;
    case DType::U32: return f(uint32_t{}), true;
    case DType::U64: return f(uint64_t{}), true;
    default: return false;
  }
}

/// `count` elements from the one at `from` on, in `room` where they do not lie so in memory.
const double* read(const StridedArray& x, int64_t from, int64_t count, double* room) {
  const int64_t step = x.strides[0];
  const char* const at = x.data + from * step;
  const bool is_aligned = reinterpret_cast<uintptr_t>(at) % alignof(double) == 0;
  if (x.dtype == DType::F64 && step == sizeof(double) && is_aligned) return reinterpret_cast<const double*>(at);
  with_type(x.dtype, [&](auto raw) {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&raw, at + i * step, sizeof raw);
      room[i] = static_cast<double>(raw);
    }
  });
  return room;
}

/// The number of the interval in which each of the numbers is, one too high or too low where that is rounded so.
void estimate(const double* numbers, int64_t count, std::span<const double> edges, int32_t* places) {
  const double first = edges.front(), width = edges.back() - first, number = static_cast<double>(edges.size() - 1);
  const double last = number - 1.0;
  for (int64_t i = 0; i < count; ++i) {
    double at = (numbers[i] - first) / width * number;
    at = at > 0.0 ? at : 0.0;  // also of NaN, which is counted nowhere
    places[i] = static_cast<int32_t>(at < last ? at : last);
  }
}

/// Intervals of equal width, of which edges are rounded.
struct Intervals {
  explicit Intervals(std::span<const double> edges)
      : first(edges.front()), last(static_cast<double>(edges.size() - 2)) {
    const double number = static_cast<double>(edges.size() - 1), width = edges.back() - first;
    scale = number / width;
    // The rounding of the edges, of the distance and of the product, with room to spare.
    const double rounding = 0x1p-48 * number * (1.0 + (std::abs(first) + std::abs(edges.back())) / width);
    limit = 0.5 - rounding;
  }
  double first, last, scale;  // last: the number of the last interval
  double limit;               // numbers that are so near to the middle of an interval are in it
};

/// The number of the interval in which each of the numbers is; false if one is too near to an edge, or beyond all of
/// them.
[[gnu::always_inline]] inline bool place_inside(const double* numbers, int64_t count, const Intervals& intervals,
                                                int32_t* places) {
  int doubts = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double at = (numbers[i] - intervals.first) * intervals.scale, low = at > 0.0 ? at : 0.0;
    places[i] = static_cast<int32_t>(low < intervals.last ? low : intervals.last);
    doubts |= !(std::abs(at - places[i] - 0.5) < intervals.limit);
  }
  return doubts == 0;
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) bool place_in_vectors(const double* numbers, int64_t count,
                                                                           const Intervals& intervals,
                                                                           int32_t* places) {
  return place_inside(numbers, count, intervals, places);
}

__attribute__((target("avx2"))) bool place_in_narrow_vectors(const double* numbers, int64_t count,
                                                             const Intervals& intervals, int32_t* places) {
  return place_inside(numbers, count, intervals, places);
}

bool place(const double* numbers, int64_t count, const Intervals& intervals, int32_t* places) {
  switch (detected_cpu().isa) {
    case Isa::Avx512: return place_in_vectors(numbers, count, intervals, places);
    case Isa::Avx2: return place_in_narrow_vectors(numbers, count, intervals, places);
    default: return place_inside(numbers, count, intervals, places);
  }
}

/// Calls f with an index and an interval, for all numbers that are in one of these. `bounds`: the edges, with infinity
/// for the last one.
template <bool kAllInside, class F>
void for_each_place(const double* numbers, int64_t count, const double* bounds, double last, const int32_t* places,
                    F&& f) {
  for (int64_t i = 0; i < count; ++i) {
    const double x = numbers[i];
    if (!kAllInside && !(x >= bounds[0] && x <= last)) continue;
    const int64_t place = places[i];
    f(i, static_cast<std::size_t>(place + (x >= bounds[place + 1]) - (x < bounds[place])));
  }
}

}  // namespace

std::optional<std::pair<double, double>> range_of(const StridedArray& x) {
  const int64_t length = x.shape[0];
  if (length == 0 || !with_type(x.dtype, [](auto) {})) return std::nullopt;
  constexpr int kChains = 4;
  double room[kAtOnce], least[kChains], most[kChains], poison[kChains] = {};  // NaN: an element is not finite
  const double any = *read(x, 0, 1, room);
  std::fill_n(least, kChains, any);
  std::fill_n(most, kChains, any);
  for (int64_t from = 0; from < length; from += kAtOnce) {
    const int64_t count = std::min(kAtOnce, length - from);
    const double* numbers = read(x, from, count, room);
    if (count % kChains != 0) {
      std::copy_n(numbers, count, room);
      std::fill(room + count, room + (count + kChains - 1) / kChains * kChains, any);
      numbers = room;
    }
    for (int64_t i = 0; i < count; i += kChains)
      for (int k = 0; k < kChains; ++k) {
        const double number = numbers[i + k];
        least[k] = number < least[k] ? number : least[k];
        most[k] = number > most[k] ? number : most[k];
        poison[k] += number * 0.0;
      }
  }
  const double low = *std::min_element(least, least + kChains), high = *std::max_element(most, most + kChains);
  if (std::any_of(poison, poison + kChains, [](double p) { return p != 0.0; })) return std::nullopt;
  if (x.dtype != DType::F64 && (low <= -kMostExact || high >= kMostExact)) return std::nullopt;
  return std::pair(low, high);
}

bool histogram(const StridedArray& x, const StridedArray* weights, std::span<const double> edges, bool all_inside,
               const StridedArray& out) {
  const int64_t length = x.shape[0];
  const std::size_t bins = edges.size() - 1;
  FRAMEJIT_CHECK(bins == static_cast<std::size_t>(out.shape[0]) && out.dtype == (weights ? DType::F64 : DType::I64),
                 "a histogram of other intervals");
  std::vector<double> bounds(edges.begin(), edges.end());
  bounds.back() = std::numeric_limits<double>::infinity();
  std::vector<int64_t> counts(weights ? 0 : bins);
  std::vector<double> sums(weights ? bins : 0), block(sums.size());
  const Intervals intervals(edges);
  int64_t misses = 0;  // blocks in a row with a number at an edge: in some arrays most are
  double room[kAtOnce], other_room[kAtOnce];
  int32_t places[kAtOnce];
  for (int64_t from = 0; from < length; from += kAtOnce) {
    const int64_t count = std::min(kAtOnce, length - from);
    const double* numbers = read(x, from, count, room);
    const bool placed = misses < kMostMisses && place(numbers, count, intervals, places);
    misses = placed ? 0 : misses + 1;
    if (!placed) estimate(numbers, count, edges, places);
    const auto each = [&](auto&& f) {
      if (placed)
        for (int64_t i = 0; i < count; ++i) f(i, static_cast<std::size_t>(places[i]));
      else if (all_inside) for_each_place<true>(numbers, count, bounds.data(), edges.back(), places, f);
      else for_each_place<false>(numbers, count, bounds.data(), edges.back(), places, f);
    };
    if (!weights) {
      each([&](int64_t, std::size_t place) { ++counts[place]; });
      continue;
    }
    const double* weight = read(*weights, from, count, other_room);
    each([&](int64_t i, std::size_t place) { block[place] += weight[i]; });
    if ((from + count) % kBlock != 0 && from + count < length) continue;
    for (std::size_t i = 0; i < bins; ++i) {
      sums[i] += block[i];
      block[i] = 0.0;
    }
  }
  if (!std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); })) return false;
  for (std::size_t i = 0; i < bins; ++i)
    std::memcpy(out.data + static_cast<int64_t>(i) * out.strides[0],
                weights ? static_cast<const void*>(&sums[i]) : &counts[i], sizeof(int64_t));
  return true;
}

}  // namespace framejit::codegen
