// Vector operations on the elements of an array that a boolean mask selects: `compress` copies the selected elements
// next to each other, `expand` and `put` copy them back to their places.
//
// `WideLanes` needs AVX-512, `Lanes` AVX2. No vector is in a signature, so loops over them are written once: such a
// loop is inlined into a function for each of both.
#pragma once

#include <immintrin.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

/// For functions that are called where the processor has these.
#define FRAMEJIT_IN_WIDE_VECTORS __attribute__((target("avx512f,avx512bw,bmi2,popcnt")))
#define FRAMEJIT_IN_VECTORS __attribute__((target("avx2,bmi2,popcnt")))

namespace framejit::codegen {

/// For elements of 4, 8 or 16 bytes. `some`: a bit for each element of a vector that is true.
template <class T>
struct WideLanes {
  static constexpr int64_t kItem = sizeof(T), kCount = 64 / kItem;

  /// A bit for each of the first `count` <= 64 bytes that is not 0.
  FRAMEJIT_IN_WIDE_VECTORS static uint64_t true_bytes(const char* bytes, int64_t count) {
    const __m512i all = _mm512_maskz_loadu_epi8(_bzhi_u64(~uint64_t{0}, static_cast<uint32_t>(count)), bytes);
    return _mm512_test_epi8_mask(all, all);
  }
  /// Of `count` elements, to where there is room for `room`.
  FRAMEJIT_IN_WIDE_VECTORS static void compress(const char* from, int64_t count, uint32_t some, char* to,
                                                int64_t room) {
    const __m512i x = load(first(count), from);
    const uint32_t lanes = of(some);
    const __m512i few = kItem == 4 ? _mm512_maskz_compress_epi32(static_cast<__mmask16>(lanes), x)
                                   : _mm512_maskz_compress_epi64(static_cast<__mmask8>(lanes), x);
    if (room >= kCount) _mm512_storeu_si512(to, few);
    else store(to, first(room), few);
  }
  /// The other way, from `few` elements that there are; the rest of `count` becomes 0.
  FRAMEJIT_IN_WIDE_VECTORS static void expand(const char* from, int64_t few, uint32_t some, char* to, int64_t count) {
    store(to, first(count), apart(from, few, some));
  }
  /// The same, but the rest stays.
  FRAMEJIT_IN_WIDE_VECTORS static void put(const char* from, int64_t few, uint32_t some, char* to) {
    store(to, of(some), apart(from, few, some));
  }
  /// For elements of 8 bytes: the numbers of those that are true, if the first one has this number.
  FRAMEJIT_IN_WIDE_VECTORS static void places(int64_t first_number, uint32_t some, int64_t* to) {
    const __m512i all = _mm512_add_epi64(_mm512_set1_epi64(first_number), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(static_cast<__mmask8>(some), all));
  }

 private:
  /// A bit for each lane that elements fill.
  FRAMEJIT_IN_WIDE_VECTORS static uint32_t of(uint32_t elements) {
    return kItem == 16 ? 3 * _pdep_u32(elements, 0x55) : elements;
  }
  FRAMEJIT_IN_WIDE_VECTORS static uint32_t first(int64_t elements) { return of((1u << elements) - 1); }
  FRAMEJIT_IN_WIDE_VECTORS static __m512i load(uint32_t lanes, const char* from) {
    return kItem == 4 ? _mm512_maskz_loadu_epi32(static_cast<__mmask16>(lanes), from)
                      : _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes), from);
  }
  FRAMEJIT_IN_WIDE_VECTORS static void store(char* to, uint32_t lanes, __m512i x) {
    if constexpr (kItem == 4) _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(lanes), x);
    else _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(lanes), x);
  }
  FRAMEJIT_IN_WIDE_VECTORS static __m512i apart(const char* from, int64_t few, uint32_t some) {
    const int64_t taken = _mm_popcnt_u32(some);
    const __m512i x = load(first(taken < few ? taken : few), from);
    const uint32_t lanes = of(some);
    return kItem == 4 ? _mm512_maskz_expand_epi32(static_cast<__mmask16>(lanes), x)
                      : _mm512_maskz_expand_epi64(static_cast<__mmask8>(lanes), x);
  }
};

/// AVX2 has an instruction that moves lanes of 4 bytes, and gets for each lane the number of the one that goes there.
/// These numbers are in tables, by which elements are true.
template <class T>
struct Lanes {
  static constexpr int64_t kItem = sizeof(T), kCount = 32 / kItem;

  FRAMEJIT_IN_VECTORS static uint64_t true_bytes(const char* bytes, int64_t count) {
    alignas(32) char some[64] = {};
    if (count < 64) {
      std::memcpy(some, bytes, static_cast<std::size_t>(count));
      bytes = some;
    }
    const auto zeros = [&](int64_t at) FRAMEJIT_IN_VECTORS {
      return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(bytes + at), _mm256_setzero_si256())));
    };
    return ~(uint64_t{zeros(0)} | uint64_t{zeros(32)} << 32);
  }
  FRAMEJIT_IN_VECTORS static void compress(const char* from, int64_t count, uint32_t some, char* to, int64_t room) {
    const __m256i x = count == kCount ? load(from) : load(from, first(count));
    const __m256i few = _mm256_permutevar8x32_epi32(x, lanes(kTogether[some]));
    if (room >= kCount) store(to, few);
    else store(to, few, first(room));
  }
  FRAMEJIT_IN_VECTORS static void expand(const char* from, int64_t few, uint32_t some, char* to, int64_t count) {
    const __m256i from_lanes = lanes(kApart[some]);
    const __m256i x = _mm256_andnot_si256(_mm256_srai_epi32(from_lanes, 31), apart(from, few, some, from_lanes));
    if (count == kCount) store(to, x);
    else store(to, x, first(count));
  }
  FRAMEJIT_IN_VECTORS static void put(const char* from, int64_t few, uint32_t some, char* to) {
    const __m256i from_lanes = lanes(kApart[some]);
    const __m256i takes = _mm256_xor_si256(from_lanes, _mm256_set1_epi32(-1));
    store(to, apart(from, few, some, from_lanes), takes);
  }
  FRAMEJIT_IN_VECTORS static void places(int64_t first_number, uint32_t some, int64_t* to) {
    const __m256i all = _mm256_add_epi64(_mm256_set1_epi64x(first_number), _mm256_setr_epi64x(0, 1, 2, 3));
    store(reinterpret_cast<char*>(to), _mm256_permutevar8x32_epi32(all, lanes(kTogether[some])));
  }

 private:
  static constexpr int kParts = kItem / 4;
  using Numbers = std::array<int8_t, 8>;  // of lanes
  using Table = std::array<Numbers, std::size_t{1} << kCount>;

  /// Where each lane comes from: first those of the elements that are true.
  static constexpr Table kTogether = [] {
    Table out{};
    for (uint32_t some = 0; some < out.size(); ++some) {
      std::size_t to = 0;
      for (int element = 0; element < kCount; ++element)
        for (int part = 0; part < kParts && (some >> element & 1) != 0; ++part)
          out[some][to++] = static_cast<int8_t>(element * kParts + part);
    }
    return out;
  }();
  /// The other way; negative for the lanes of elements that are not true.
  static constexpr Table kApart = [] {
    Table out{};
    for (uint32_t some = 0; some < out.size(); ++some) {
      int from = 0;
      for (std::size_t lane = 0; lane < 8; ++lane)
        out[some][lane] = (some >> (lane / kParts) & 1) != 0 ? static_cast<int8_t>(from++) : int8_t{-1};
    }
    return out;
  }();

  FRAMEJIT_IN_VECTORS static __m256i lanes(const Numbers& numbers) {
    return _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(std::bit_cast<int64_t>(numbers)));
  }
  /// The lanes of so many elements.
  FRAMEJIT_IN_VECTORS static __m256i first(int64_t elements) {
    const __m256i end = _mm256_set1_epi32(static_cast<int>(elements) * kParts);
    return _mm256_cmpgt_epi32(end, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  FRAMEJIT_IN_VECTORS static __m256i load(const char* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  FRAMEJIT_IN_VECTORS static __m256i load(const char* from, __m256i which) {
    return _mm256_maskload_epi32(reinterpret_cast<const int*>(from), which);
  }
  FRAMEJIT_IN_VECTORS static void store(char* to, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
  FRAMEJIT_IN_VECTORS static void store(char* to, __m256i x, __m256i which) {
    _mm256_maskstore_epi32(reinterpret_cast<int*>(to), which, x);
  }
  FRAMEJIT_IN_VECTORS static __m256i apart(const char* from, int64_t few, uint32_t some, __m256i from_lanes) {
    const int64_t taken = _mm_popcnt_u32(some);
    const __m256i x = few >= kCount ? load(from) : load(from, first(taken < few ? taken : few));
    return _mm256_permutevar8x32_epi32(x, from_lanes);
  }
};

}  // namespace framejit::codegen
