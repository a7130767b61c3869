// The lanes of vectors under masks against plain loops, in memory that ends where the elements end.
#include "codegen/mask_lanes.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "harness.h"

namespace framejit::codegen::testing {
namespace {

using Wide = std::array<uint64_t, 2>;

template <class T>
std::vector<T> random_elements(std::size_t count, std::mt19937_64& random) {
  std::vector<T> out(count);
  for (std::size_t i = 0; i < count * sizeof(T); ++i) reinterpret_cast<uint8_t*>(out.data())[i] = random() & 255;
  return out;
}

/// Elements at the end of a buffer.
template <class T>
struct AtEnd {
  explicit AtEnd(const std::vector<T>& values) : buffer(values.size() * sizeof(T)), count(values.size()) {
    std::memcpy(buffer.data(), values.data(), count * sizeof(T));
  }
  std::vector<T> values() const {
    std::vector<T> out(count);
    std::memcpy(out.data(), buffer.data(), count * sizeof(T));
    return out;
  }
  GuardedBuffer buffer;
  std::size_t count;
};

template <class L, class T>
void check_elements() {
  std::mt19937_64 random(1);
  for (int64_t count = 1; count <= L::kCount; ++count)
    for (int round = 0; round < 300; ++round) {
      const auto some = static_cast<uint32_t>(random() & ((uint64_t{1} << count) - 1) & (round % 3 ? ~0ull : random()));
      const auto taken = static_cast<std::size_t>(std::popcount(some));
      const std::vector<T> all = random_elements<T>(static_cast<std::size_t>(count), random);
      std::vector<T> few;
      for (std::size_t i = 0; i < all.size(); ++i)
        if ((some >> i & 1) != 0) few.push_back(all[i]);

      const std::size_t room = taken + random() % 9;
      const AtEnd<T> from(all), to(random_elements<T>(room, random));
      L::compress(from.buffer.data(), count, some, to.buffer.data(), static_cast<int64_t>(room));
      std::vector<T> got = to.values();
      got.resize(taken);
      ASSERT_EQ(got, few) << count << " " << some << " " << room;

      std::vector<T> more = random_elements<T>(room, random);
      std::copy(few.begin(), few.end(), more.begin());
      const std::vector<T> before = random_elements<T>(all.size(), random);
      std::vector<T> expanded(all.size()), put = before;
      for (std::size_t i = 0; i < all.size(); ++i)
        if ((some >> i & 1) != 0) expanded[i] = put[i] = all[i];
      const AtEnd<T> source(more), zeroed(before);
      L::expand(source.buffer.data(), static_cast<int64_t>(room), some, zeroed.buffer.data(), count);
      ASSERT_EQ(zeroed.values(), expanded) << count << " " << some << " " << room;
      const AtEnd<T> kept(before);
      L::put(source.buffer.data(), static_cast<int64_t>(room), some, kept.buffer.data());
      ASSERT_EQ(kept.values(), put) << count << " " << some << " " << room;
    }
}

template <template <class> class L>
void check_lanes() {
  check_elements<L<uint32_t>, uint32_t>();
  check_elements<L<uint64_t>, uint64_t>();
  check_elements<L<Wide>, Wide>();
  std::mt19937_64 random(2);
  for (std::size_t count = 0; count <= 64; ++count)
    for (int round = 0; round < 20; ++round) {
      std::vector<char> bytes(count);
      uint64_t expected = 0;
      for (std::size_t i = 0; i < count; ++i) {
        bytes[i] = random() % 2 ? static_cast<char>(random()) : char{0};
        expected |= uint64_t{bytes[i] != 0} << i;
      }
      const AtEnd<char> mask(bytes);
      ASSERT_EQ(L<uint64_t>::true_bytes(mask.buffer.data(), static_cast<int64_t>(count)), expected);
    }
  constexpr int64_t kFirst = int64_t{1} << 33;
  for (uint32_t some = 0; some < 1u << L<int64_t>::kCount; ++some) {
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < L<int64_t>::kCount; ++i)
      if ((some >> i & 1) != 0) expected.push_back(kFirst + i);
    const AtEnd<int64_t> to(std::vector<int64_t>(L<int64_t>::kCount, -1));
    L<int64_t>::places(kFirst, some, reinterpret_cast<int64_t*>(to.buffer.data()));
    std::vector<int64_t> got = to.values();
    got.resize(expected.size());
    ASSERT_EQ(got, expected);
  }
}

TEST(MaskLanes, MoveWhatIsTrue) {
  for (const Isa isa : isas()) {
    if (isa == Isa::Avx2) check_lanes<Lanes>();
    if (isa == Isa::Avx512) check_lanes<WideLanes>();
  }
}

}  // namespace
}  // namespace framejit::codegen::testing
