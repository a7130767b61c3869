// Hashes of types and places, for the passes' hash maps.
#pragma once

#include <cstddef>
#include <span>

#include "graph/graph.h"

namespace framejit::graph {

constexpr std::size_t mix_hash(std::size_t seed, std::size_t value) {
  const std::size_t x = (seed ^ value) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

inline std::size_t hash_of(std::span<const Dim> dims) {
  std::size_t h = dims.size();
  for (const Dim& d : dims) h = mix_hash(h, d.hash());
  return h;
}

/// Agrees with same_place, together with the root.
inline std::size_t hash_of_place(const Type& t, ValueId root) {
  std::size_t h = mix_hash(static_cast<std::size_t>(t.dtype), index(root));
  return mix_hash(mix_hash(mix_hash(h, hash_of(t.shape)), hash_of(t.strides)), t.offset.hash());
}

}  // namespace framejit::graph
