// Dimensions: integers that are known at capture or symbolic.
//
// A Dim is an immutable value: a constant, or a polynomial over symbols (s0, s1, ...) and atoms (floordiv, min, max of
// Dims), kept in a canonical form, so that equal polynomials compare equal: (s0 + 1) * 2 == 2*s0 + 2. Constants carry
// no allocation. What a canonical form cannot decide is asked of a ShapeEnv, which knows the values seen at capture and
// records the answer as a guard. Arithmetic that leaves int64 throws DimOverflow, when a Dim is made and when it is
// evaluated: a size that wrapped would be an array over memory that is not its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace framejit::graph {

enum class SymbolId : uint32_t {};

struct DimOverflow : std::overflow_error {
  DimOverflow() : std::overflow_error("a dimension, or a size, beyond 64 bits") {}
};

namespace detail {
struct Polynomial;  // dim.cpp
}

class Dim {
 public:
  Dim() = default;
  Dim(int64_t value) : value_(value) {}  // implicit: a number is a dimension
  static Dim symbol(SymbolId id);

  bool is_const() const { return poly_ == nullptr; }
  int64_t value() const { return value_; }  // only where is_const()

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floordiv(const Dim& a, const Dim& b);  // b is never 0
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);

  /// The value for given values of the symbols, indexed by SymbolId.
  int64_t evaluate(std::span<const int64_t> symbols) const;
  /// The same; nothing if it overflows.
  std::optional<int64_t> try_evaluate(std::span<const int64_t> symbols) const;
  /// No value is larger, for symbols from `least` to `most`. INT64_MAX where that cannot be told.
  int64_t at_most(std::span<const int64_t> least, std::span<const int64_t> most) const;
  /// Appends the symbols that occur, each once, in order of first occurrence.
  void collect_symbols(std::vector<SymbolId>& out) const;
  /// Equal Dims have equal hashes, the same in every run.
  std::size_t hash() const;

  /// "64", "s0", "2*s0 + 2", "floordiv(s0 + 1, 2)"; parse_dim reads the same.
  std::string str() const;

 private:
  explicit Dim(std::shared_ptr<const detail::Polynomial> poly) : poly_(std::move(poly)) {}
  int64_t value_ = 0;
  std::shared_ptr<const detail::Polynomial> poly_;
  friend struct detail::Polynomial;
};

Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
bool operator==(const Dim& a, const Dim& b);
Dim floordiv(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);

/// a - b; nothing if it overflows.
std::optional<Dim> difference(const Dim& a, const Dim& b);

/// A number that divides `d`, whatever the symbols are: its magnitude if it is a constant.
int64_t divisor(const Dim& d);

/// Reads a Dim from the front of `text` and drops what it read; nothing where there is none.
bool parse_dim(std::string_view& text, Dim& out);

using Dims = std::vector<Dim>;

Dim product(std::span<const Dim> dims);

/// No process has as many bytes of memory (the address space of x86-64).
inline constexpr int64_t kMostMemory = int64_t{1} << 47;

}  // namespace framejit::graph
