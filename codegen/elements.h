// Elements of any dtype as bytes, for the steps that no kernel is made for.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace framejit::codegen {

/// Calls f with a type as large as an element.
template <class F>
auto with_element(int64_t size, F&& f) {
  switch (size) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<std::array<uint64_t, 2>>();
  }
}

/// Copies elements of `size` bytes between strided memory that does not overlap.
inline void copy_elements(const char* from, std::span<const int64_t> from_strides, char* to,
                          std::span<const int64_t> to_strides, std::span<const int64_t> shape, int64_t size) {
  if (shape.empty() || (shape.size() == 1 && from_strides[0] == size && to_strides[0] == size)) {
    std::memcpy(to, from, static_cast<std::size_t>(shape.empty() ? size : size * shape[0]));
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i)
    copy_elements(from + i * from_strides[0], from_strides.subspan(1), to + i * to_strides[0], to_strides.subspan(1),
                  shape.subspan(1), size);
}

}  // namespace framejit::codegen
