// Canonical polynomials over symbols and atoms.
//
// A Polynomial is a sorted list of terms; a term is a coefficient and a sorted list of factors; a factor is a symbol or
// an atom (floordiv, min, max). All orders are structural, so that equal polynomials are equal lists and print alike.
#include "graph/dim.h"

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>

#include "graph/support/check.h"

namespace framejit::graph {

namespace detail {

enum class FactorKind : uint8_t { Symbol, FloorDiv, Min, Max };

struct Factor {
  FactorKind kind = FactorKind::Symbol;
  uint32_t symbol = 0;
  std::shared_ptr<const std::pair<Dim, Dim>> operands;  // of an atom
};

struct Term {
  std::vector<Factor> factors;  // sorted; a power is a repetition; empty: the constant term
  int64_t coefficient = 0;      // never 0
};

struct Polynomial {
  std::vector<Term> terms;  // higher degree first, then by factors; the constant last; never only a constant

  static Dim make(std::vector<Term> terms);
  static Dim of_term(Term term);  // that has factors
  static std::vector<Term> terms_of(const Dim& d);
  static const Polynomial* of(const Dim& d) { return d.poly_.get(); }
};

namespace {

int64_t add(int64_t a, int64_t b) {
  if (__builtin_add_overflow(a, b, &a)) throw DimOverflow();
  return a;
}

int64_t sub(int64_t a, int64_t b) {
  if (__builtin_sub_overflow(a, b, &a)) throw DimOverflow();
  return a;
}

int64_t mul(int64_t a, int64_t b) {
  if (__builtin_mul_overflow(a, b, &a)) throw DimOverflow();
  return a;
}

int64_t floordiv_int(int64_t a, int64_t b) {
  FRAMEJIT_CHECK(b != 0, "floordiv by 0 in a dimension");
  if (b == -1) return sub(0, a);  // INT64_MIN / -1 traps
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

std::strong_ordering compare(const Dim& a, const Dim& b);

std::strong_ordering compare(const Factor& a, const Factor& b) {
  if (auto c = a.kind <=> b.kind; c != 0) return c;
  if (auto c = a.symbol <=> b.symbol; c != 0) return c;
  if (a.operands == b.operands) return std::strong_ordering::equal;
  if (auto c = compare(a.operands->first, b.operands->first); c != 0) return c;
  return compare(a.operands->second, b.operands->second);
}

/// Order of the terms of one polynomial; equal factors mean like terms.
std::strong_ordering compare_factors(const Term& a, const Term& b) {
  if (auto c = b.factors.size() <=> a.factors.size(); c != 0) return c;
  for (std::size_t i = 0; i < a.factors.size(); ++i)
    if (auto c = compare(a.factors[i], b.factors[i]); c != 0) return c;
  return std::strong_ordering::equal;
}

std::strong_ordering compare(const Dim& a, const Dim& b) {
  const Polynomial *p = Polynomial::of(a), *q = Polynomial::of(b);
  if (p == nullptr || q == nullptr) {
    if (p == nullptr && q == nullptr) return a.value() <=> b.value();
    return p == nullptr ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  if (p == q) return std::strong_ordering::equal;
  if (auto c = p->terms.size() <=> q->terms.size(); c != 0) return c;
  for (std::size_t i = 0; i < p->terms.size(); ++i) {
    if (auto c = compare_factors(p->terms[i], q->terms[i]); c != 0) return c;
    if (auto c = p->terms[i].coefficient <=> q->terms[i].coefficient; c != 0) return c;
  }
  return std::strong_ordering::equal;
}

Dim single(Factor factor) {
  Term term;
  term.factors.push_back(std::move(factor));
  term.coefficient = 1;
  return Polynomial::of_term(std::move(term));
}

Dim atom(FactorKind kind, const Dim& a, const Dim& b) {
  return single({kind, 0, std::make_shared<const std::pair<Dim, Dim>>(a, b)});
}

Term product_of(const Term& a, const Term& b) {
  Term out;
  out.coefficient = mul(a.coefficient, b.coefficient);
  out.factors.resize(a.factors.size() + b.factors.size());
  std::merge(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(), out.factors.begin(),
             [](const Factor& x, const Factor& y) { return compare(x, y) < 0; });
  return out;
}

/// `term` without the factors of `by`; nothing where they do not all occur.
std::optional<Term> divide_factors(const Term& term, const Term& by) {
  Term out;
  auto next = by.factors.begin();
  for (const Factor& f : term.factors) {
    if (next != by.factors.end() && compare(f, *next) == 0) ++next;
    else out.factors.push_back(f);
  }
  if (next != by.factors.end()) return std::nullopt;
  out.coefficient = term.coefficient;
  return out;
}

std::size_t mix(std::size_t seed, uint64_t value) {
  uint64_t x = (seed ^ value) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

/// False: it overflows.
bool evaluate(const Dim& d, std::span<const int64_t> symbols, int64_t& out);

bool evaluate(const Factor& f, std::span<const int64_t> symbols, int64_t& out) {
  if (f.kind == FactorKind::Symbol) {
    FRAMEJIT_CHECK(f.symbol < symbols.size(), "no value for s" + std::to_string(f.symbol));
    out = symbols[f.symbol];
    return true;
  }
  int64_t a = 0, b = 0;
  if (!evaluate(f.operands->first, symbols, a) || !evaluate(f.operands->second, symbols, b)) return false;
  switch (f.kind) {
    case FactorKind::FloorDiv:
      if (b == -1 && a == std::numeric_limits<int64_t>::min()) return false;
      out = floordiv_int(a, b);
      break;
    case FactorKind::Min: out = std::min(a, b); break;
    case FactorKind::Max: out = std::max(a, b); break;
    case FactorKind::Symbol: break;
  }
  return true;
}

bool evaluate(const Dim& d, std::span<const int64_t> symbols, int64_t& out) {
  const Polynomial* p = Polynomial::of(d);
  out = p ? 0 : d.value();
  if (!p) return true;
  for (const Term& t : p->terms) {
    int64_t term = t.coefficient;
    for (const Factor& f : t.factors) {
      int64_t factor = 0;
      if (!evaluate(f, symbols, factor) || __builtin_mul_overflow(term, factor, &term)) return false;
    }
    if (__builtin_add_overflow(out, term, &out)) return false;
  }
  return true;
}

/// From the least to the most; the ends of int64_t stand for what is beyond them.
struct Range {
  int64_t low, high;
};

int64_t add_up_to_ends(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

int64_t mul_up_to_ends(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) != (b < 0) ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

/// Of what `f` gives for the four pairs of ends: it is largest and smallest there.
template <class F>
Range from_ends(const Range& a, const Range& b, F f) {
  const auto [low, high] = std::minmax({f(a.low, b.low), f(a.low, b.high), f(a.high, b.low), f(a.high, b.high)});
  return {low, high};
}

Range range_of(const Dim& d, std::span<const int64_t> least, std::span<const int64_t> most);

Range range_of(const Factor& f, std::span<const int64_t> least, std::span<const int64_t> most) {
  if (f.kind == FactorKind::Symbol) return {least[f.symbol], most[f.symbol]};
  const Range a = range_of(f.operands->first, least, most), b = range_of(f.operands->second, least, most);
  switch (f.kind) {
    case FactorKind::FloorDiv:
      if (b.low <= 0 && b.high >= 0) break;
      return from_ends(a, b, [](int64_t x, int64_t y) { return y == -1 ? mul_up_to_ends(x, y) : floordiv_int(x, y); });
    case FactorKind::Min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case FactorKind::Max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case FactorKind::Symbol: break;
  }
  return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
}

Range range_of(const Dim& d, std::span<const int64_t> least, std::span<const int64_t> most) {
  const Polynomial* p = Polynomial::of(d);
  if (!p) return {d.value(), d.value()};
  Range sum{0, 0};
  for (const Term& t : p->terms) {
    Range term{t.coefficient, t.coefficient};
    for (const Factor& f : t.factors) term = from_ends(term, range_of(f, least, most), mul_up_to_ends);
    sum = {add_up_to_ends(sum.low, term.low), add_up_to_ends(sum.high, term.high)};
  }
  return sum;
}

std::string factor_str(const Factor& f) {
  const char* name = nullptr;
  switch (f.kind) {
    case FactorKind::Symbol: return "s" + std::to_string(f.symbol);
    case FactorKind::FloorDiv: name = "floordiv("; break;
    case FactorKind::Min: name = "min("; break;
    case FactorKind::Max: name = "max("; break;
  }
  return name + f.operands->first.str() + ", " + f.operands->second.str() + ")";
}

}  // namespace

Dim Polynomial::make(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return compare_factors(a, b) < 0; });
  std::vector<Term> out;
  for (Term& t : terms) {
    if (!out.empty() && compare_factors(out.back(), t) == 0)
      out.back().coefficient = add(out.back().coefficient, t.coefficient);
    else out.push_back(std::move(t));
  }
  std::erase_if(out, [](const Term& t) { return t.coefficient == 0; });
  if (out.empty()) return 0;
  if (out.size() == 1 && out[0].factors.empty()) return out[0].coefficient;
  return Dim(std::make_shared<const Polynomial>(Polynomial{std::move(out)}));
}

Dim Polynomial::of_term(Term term) {
  auto out = std::make_shared<Polynomial>();
  out->terms.push_back(std::move(term));
  return Dim(std::move(out));
}

std::vector<Term> Polynomial::terms_of(const Dim& d) {
  if (d.poly_) return d.poly_->terms;
  if (d.value_ == 0) return {};
  return {Term{{}, d.value_}};
}

}  // namespace detail

using detail::Factor;
using detail::FactorKind;
using detail::Polynomial;
using detail::Term;

Dim Dim::symbol(SymbolId id) { return detail::single({FactorKind::Symbol, static_cast<uint32_t>(id), nullptr}); }

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return detail::add(a.value_, b.value_);
  if (a.is_const() && a.value_ == 0) return b;
  if (b.is_const() && b.value_ == 0) return a;
  std::vector<Term> terms = Polynomial::terms_of(a);
  for (Term& t : Polynomial::terms_of(b)) terms.push_back(std::move(t));
  return Polynomial::make(std::move(terms));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return detail::mul(a.value_, b.value_);
  if (a.is_const() && a.value_ == 1) return b;
  if (b.is_const() && b.value_ == 1) return a;
  std::vector<Term> terms;
  const std::vector<Term> right = Polynomial::terms_of(b);
  for (const Term& x : Polynomial::terms_of(a))
    for (const Term& y : right) terms.push_back(detail::product_of(x, y));
  return Polynomial::make(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return detail::sub(a.value_, b.value_);
  return a + b * Dim(-1);
}

int64_t divisor(const Dim& d) {
  if (d.is_const()) return d.value() == std::numeric_limits<int64_t>::min() ? 1 : std::abs(d.value());
  int64_t out = 0;
  for (const detail::Term& term : detail::Polynomial::terms_of(d)) {
    if (term.coefficient == std::numeric_limits<int64_t>::min()) return 1;
    out = std::gcd(out, term.coefficient);
  }
  return out;
}

std::optional<Dim> difference(const Dim& a, const Dim& b) {
  try {
    return a - b;
  } catch (const DimOverflow&) {
    return std::nullopt;
  }
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return a.value_ == b.value_;
  return detail::compare(a, b) == 0;
}

namespace {

/// floordiv by a constant: what is a multiple of it comes out, floordiv(q*b + r, b) == q + floordiv(r, b). A rest keeps
/// the sign of its term, so that it is no larger and does not wrap; only small constants become positive.
Dim floordiv_const(const Dim& a, int64_t b) {
  constexpr int64_t kSmall = int64_t{1} << 31;
  if (b == 1) return a;
  if (b == std::numeric_limits<int64_t>::min()) return detail::atom(FactorKind::FloorDiv, a, b);
  if (b < 0) return floordiv(a * Dim(-1), -b);
  std::vector<Term> quotient, rest;
  for (const Term& t : Polynomial::terms_of(a)) {
    const bool floor = t.factors.empty() && b <= kSmall;
    const int64_t q = floor ? detail::floordiv_int(t.coefficient, b) : t.coefficient / b;
    const int64_t r = detail::sub(t.coefficient, detail::mul(q, b));
    if (q != 0) quotient.push_back({t.factors, q});
    if (r != 0) rest.push_back({t.factors, r});
  }
  const Dim r = Polynomial::make(std::move(rest));
  const Dim q = Polynomial::make(std::move(quotient));
  return q + (r.is_const() ? Dim(detail::floordiv_int(r.value(), b)) : detail::atom(FactorKind::FloorDiv, r, b));
}

/// a / b where b is one term that divides each term of a.
std::optional<Dim> divide_exactly(const Dim& a, const Dim& b) {
  const std::vector<Term> divisor = Polynomial::terms_of(b);
  if (divisor.size() != 1) return std::nullopt;
  std::vector<Term> out;
  for (const Term& t : Polynomial::terms_of(a)) {
    std::optional<Term> q = detail::divide_factors(t, divisor[0]);
    if (!q) return std::nullopt;
    const int64_t quotient = detail::floordiv_int(q->coefficient, divisor[0].coefficient);
    if (detail::mul(quotient, divisor[0].coefficient) != q->coefficient) return std::nullopt;
    q->coefficient = quotient;
    out.push_back(std::move(*q));
  }
  return Polynomial::make(std::move(out));
}

Dim extremum(FactorKind kind, const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return (a.value() <= b.value()) == (kind == FactorKind::Min) ? a : b;
  const std::optional<Dim> less = difference(a, b);
  if (less && less->is_const()) return (less->value() <= 0) == (kind == FactorKind::Min) ? a : b;
  return detail::compare(a, b) <= 0 ? detail::atom(kind, a, b) : detail::atom(kind, b, a);
}

}  // namespace

Dim floordiv(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return detail::floordiv_int(a.value(), b.value());
  if (a.is_const() && a.value() == 0) return 0;
  if (b.is_const()) return floordiv_const(a, b.value());
  if (std::optional<Dim> exact = divide_exactly(a, b)) return *exact;
  return detail::atom(FactorKind::FloorDiv, a, b);
}

Dim min(const Dim& a, const Dim& b) { return extremum(FactorKind::Min, a, b); }
Dim max(const Dim& a, const Dim& b) { return extremum(FactorKind::Max, a, b); }

int64_t Dim::evaluate(std::span<const int64_t> symbols) const {
  int64_t out = 0;
  if (!detail::evaluate(*this, symbols, out)) throw DimOverflow();
  return out;
}

std::optional<int64_t> Dim::try_evaluate(std::span<const int64_t> symbols) const {
  int64_t out = 0;
  return detail::evaluate(*this, symbols, out) ? std::optional(out) : std::nullopt;
}

int64_t Dim::at_most(std::span<const int64_t> least, std::span<const int64_t> most) const {
  return detail::range_of(*this, least, most).high;
}

void Dim::collect_symbols(std::vector<SymbolId>& out) const {
  if (!poly_) return;
  for (const Term& t : poly_->terms) {
    for (const Factor& f : t.factors) {
      if (f.kind != FactorKind::Symbol) {
        f.operands->first.collect_symbols(out);
        f.operands->second.collect_symbols(out);
      } else if (std::find(out.begin(), out.end(), SymbolId{f.symbol}) == out.end()) {
        out.push_back(SymbolId{f.symbol});
      }
    }
  }
}

std::size_t Dim::hash() const {
  if (!poly_) return detail::mix(1, static_cast<uint64_t>(value_));
  std::size_t h = 2;
  for (const Term& t : poly_->terms) {
    h = detail::mix(h, static_cast<uint64_t>(t.coefficient));
    for (const Factor& f : t.factors) {
      h = detail::mix(h, static_cast<uint64_t>(f.kind) << 32 | f.symbol);
      if (f.operands) h = detail::mix(detail::mix(h, f.operands->first.hash()), f.operands->second.hash());
    }
  }
  return h;
}

std::string Dim::str() const {
  if (!poly_) return std::to_string(value_);
  std::string out;
  for (const Term& t : poly_->terms) {
    const bool negative = t.coefficient < 0;
    if (out.empty()) out += negative ? "-" : "";
    else out += negative ? " - " : " + ";
    const uint64_t bits = static_cast<uint64_t>(t.coefficient);
    const uint64_t magnitude = negative ? 0 - bits : bits;
    if (magnitude != 1 || t.factors.empty()) out += std::to_string(magnitude);
    if (magnitude != 1 && !t.factors.empty()) out += "*";
    for (std::size_t i = 0; i < t.factors.size(); ++i) {
      if (i) out += "*";
      out += detail::factor_str(t.factors[i]);
    }
  }
  return out;
}

Dim product(std::span<const Dim> dims) {
  Dim out = 1;
  for (const Dim& d : dims) out = out * d;
  return out;
}

namespace {

/// Recursive descent; each function drops what it read from `text` and gives false where the text does not fit.
class DimParser {
 public:
  explicit DimParser(std::string_view& text) : text_(text) {}

  bool sum(Dim& out) {
    if (!product_of_factors(out)) return false;
    for (;;) {
      const std::string_view before = text_;
      const bool plus = take('+'), minus = !plus && take('-');
      Dim right;
      if (!plus && !minus) return true;
      if (!product_of_factors(right)) {
        text_ = before;
        return true;
      }
      out = out + (plus ? right : negated(right));
    }
  }

 private:
  bool product_of_factors(Dim& out) {
    if (!factor(out)) return false;
    while (take('*')) {
      Dim right;
      if (!factor(right)) return false;
      out = out * right;
    }
    return true;
  }

  bool factor(Dim& out) {
    if (take('-')) {
      if (!factor(out)) return false;
      out = negated(out);
      return true;
    }
    if (take('(')) return sum(out) && take(')');
    if (call("floordiv(")) return binary(out, floordiv);
    if (call("min(")) return binary(out, min);
    if (call("max(")) return binary(out, max);
    uint64_t number = 0;
    if (text_.size() > 1 && text_[0] == 's' && text_[1] >= '0' && text_[1] <= '9') {
      text_.remove_prefix(1);
      if (!digits(number) || number > 0xffffffffu) return false;
      out = Dim::symbol(SymbolId{static_cast<uint32_t>(number)});
      return true;
    }
    if (!digits(number) || number > uint64_t{1} << 63) return false;
    out = static_cast<int64_t>(number);  // 2**63 is written behind a minus only
    return true;
  }

  static Dim negated(const Dim& d) { return d == Dim(std::numeric_limits<int64_t>::min()) ? d : d * Dim(-1); }

  bool binary(Dim& out, Dim (*function)(const Dim&, const Dim&)) {
    Dim a, b;
    if (!sum(a) || !take(',') || !sum(b) || !take(')')) return false;
    if (function == floordiv && b == Dim(0)) return false;
    out = function(a, b);
    return true;
  }

  bool digits(uint64_t& out) {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), out);
    if (error != std::errc()) return false;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return true;
  }

  bool call(std::string_view name) {
    if (!text_.starts_with(name)) return false;
    text_.remove_prefix(name.size());
    skip_spaces();
    return true;
  }

  bool take(char c) {
    const std::string_view before = text_;
    skip_spaces();
    if (text_.empty() || text_[0] != c) {
      text_ = before;
      return false;
    }
    text_.remove_prefix(1);
    skip_spaces();
    return true;
  }

  void skip_spaces() {
    while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
  }

  std::string_view& text_;
};

}  // namespace

bool parse_dim(std::string_view& text, Dim& out) {
  const std::string_view before = text;
  try {
    if (DimParser(text).sum(out)) return true;
  } catch (const DimOverflow&) {
  }
  text = before;
  return false;
}

}  // namespace framejit::graph
