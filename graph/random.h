// The random numbers that an operator draws itself: those of framejit/_tensors/_random.py, SplitMix64 by number.
#pragma once

#include <cmath>
#include <cstdint>

namespace framejit::graph {

struct SplitMix64 {
  static constexpr uint64_t kGamma = 0x9E3779B97F4A7C15, kFirst = 0xBF58476D1CE4E5B9, kSecond = 0x94D049BB133111EB;

  /// Number `i` of those that are drawn from a state, which moves on by kGamma for each.
  static constexpr uint64_t word(uint64_t state, uint64_t i) {
    uint64_t z = state + (i + 1) * kGamma;
    mix(z);
    return z;
  }

  /// A uint64_t, or a vector of them.
  template <class Word>
  [[gnu::always_inline]] static constexpr void mix(Word& z) {
    z = (z ^ (z >> 30)) * kFirst;
    z = (z ^ (z >> 27)) * kSecond;
    z ^= z >> 31;
  }

  /// float32 numbers in [0, 1) are multiples of 2**-24, the upper bits. A word is one of a number that is at least `p`,
  /// in [0, 1], where its upper bits are at least this.
  static uint64_t least(float p) { return p > 0 ? static_cast<uint64_t>(std::ceil(std::fmin(p, 1.0f) * 0x1p24f)) : 0; }
  static constexpr int kShift = 40;
};

}  // namespace framejit::graph
