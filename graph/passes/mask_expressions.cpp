// mask_expressions: an expression of the elements that a mask chooses, which goes back to their places, is computed for
// all elements.
//
//     measure %n {dim=s0, most=64}                    %4 = where %m, %x, %one : f64[64]
//     %4 = compress %m, %x : f64[s0]                  %5 = multiply %4, %4 : f64[64]
//     %5 = multiply %4, %4 : f64[s0]           ->     %7 = where %m, %5, %x : f64[64]
//     %6 = expand %m, %5 : f64[64]
//     %7 = where %m, %6, %x : f64[64]
//
// Nothing is counted or moved then, and the expression is one loop with what surrounds it. Elements that the mask does
// not choose are computed from a number of which the expression sets no flag, which is tried here. Operators are those
// that take about as long as moving an element: those that are NumPy's loops at O0 may take longer for all elements
// than for a few.
//
// Relies on: cse has run, so that a mask that is computed twice is one value.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <complex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/pass.h"
#include "graph/passes/memory.h"
#include "graph/scalar_ops.h"

namespace framejit::graph {

namespace {

using Complex = std::complex<double>;

Complex complex_of(DType dtype, const Scalar& value) {
  if (dtype == DType::C128) return {std::bit_cast<double>(value.lo), std::bit_cast<double>(value.hi)};
  const auto part = [](uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); };
  return {part(value.lo), part(value.hi)};
}

Scalar scalar_of(DType dtype, Complex value) {
  if (dtype == DType::C128) return {std::bit_cast<uint64_t>(value.real()), std::bit_cast<uint64_t>(value.imag())};
  const auto bits = [](double part) { return uint64_t{std::bit_cast<uint32_t>(static_cast<float>(part))}; };
  return {bits(value.real()), bits(value.imag())};
}

/// Far from the largest and the smallest numbers of single precision.
bool is_moderate(double part) { return part == 0 || (std::abs(part) > 1e-30 && std::abs(part) < 1e30); }

bool is_moderate(Complex value) { return is_moderate(value.real()) && is_moderate(value.imag()); }

/// A complex operator on moderate numbers, of which no formula sets a flag; nothing where that is not known.
std::optional<Complex> apply_complex(Op op, Complex a, Complex b) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Subtract: return a - b;
    case Op::Square: return apply_complex(Op::Multiply, a, a);
    case Op::Multiply:
      for (double product : {a.real() * b.real(), a.imag() * b.imag(), a.real() * b.imag(), a.imag() * b.real()})
        if (!is_moderate(product)) return {};
      return Complex(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    case Op::Negative: return -a;
    case Op::Conjugate: return std::conj(a);
    case Op::Cast: return a;
    default: return {};
  }
}

/// Gives the node's result if its operands are these numbers. It gives nothing if the node sets a flag, or if that is
/// not known.
std::optional<Scalar> apply(const Graph& graph, const Node& n, std::span<const Scalar> args) {
  const DType operand = graph.type(n.inputs.back()).dtype, result = n.type.dtype;
  if (is_complex(result) && is_complex(operand) && n.op != Op::Where) {
    const Complex a = complex_of(operand, args[0]), b = args.size() > 1 ? complex_of(operand, args[1]) : Complex();
    if (!is_moderate(a) || !is_moderate(b)) return {};
    const std::optional<Complex> out = apply_complex(n.op, a, b);
    return out && is_moderate(*out) ? std::optional(scalar_of(result, *out)) : std::nullopt;
  }
  if (!has_scalar_ops(operand) || !has_scalar_ops(result)) return {};
  Scalar out;
  std::fenv_t saved;
  std::fegetenv(&saved);
  std::feclearexcept(FE_ALL_EXCEPT);
  const bool known = apply_scalar(n.op, operand, result, args, out);
  const int raised = std::fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID);
  std::fesetenv(&saved);
  return known && raised == 0 ? std::optional(out) : std::nullopt;
}

/// 0 or 1 of any dtype.
Scalar number(DType dtype, bool one) {
  if (!one) return {};
  switch (dtype) {
    case DType::F16: return {0x3c00};
    case DType::BF16: return {0x3f80};
    case DType::F32:
    case DType::C64: return {std::bit_cast<uint32_t>(1.0f)};
    case DType::F64:
    case DType::C128: return {std::bit_cast<uint64_t>(1.0)};
    default: return {1};
  }
}

class MaskExpressions {
 public:
  explicit MaskExpressions(Graph& graph) : graph_(graph), facts_(graph) {}

  bool run() {
    std::unordered_map<uint32_t, std::size_t> by_count;
    for (ValueId v : graph_.body().nodes) {
      if (graph_.node(v).op != Op::Measure) continue;
      const ValueId count = graph_.node(v).inputs[0];
      const auto [at, is_new] = by_count.emplace(index(count), families_.size());
      if (is_new) families_.emplace_back();
      std::vector<SymbolId> symbol;
      graph_.node(v).dim().collect_symbols(symbol);
      family_of_.emplace(symbol[0], at->second);
      families_[at->second].measures.push_back(v);
    }
    if (families_.empty() || !graph_.gradient_starts().empty()) return false;
    find_members();
    bool changed = false;
    for (Family& family : families_) changed |= family.fits && !family.expands.empty() && find_filler(family);
    if (changed) rewrite();
    return changed;
  }

 private:
  /// The values that are as long as a mask has True.
  struct Family {
    std::vector<ValueId> measures, members, expands;  // in program order
    ValueId mask = kNoValue;
    bool fits = true;            // nothing else uses them, and all can be computed for all elements
    std::optional<bool> is_one;  // instead of elements that are not chosen: 1, else 0
  };

  static constexpr std::size_t kNone = ~std::size_t{0};

  std::size_t family_of(const Dim& dim) {
    if (dim.is_const()) return kNone;
    std::vector<SymbolId> symbols;
    dim.collect_symbols(symbols);
    std::size_t out = kNone;
    for (SymbolId s : symbols)
      if (const auto found = family_of_.find(s); found != family_of_.end()) {
        if (out != kNone && out != found->second) families_[out].fits = families_[found->second].fits = false;
        out = found->second;
      }
    return out;
  }

  /// A dimension is the count, and is not the length of a member.
  void refuse(const Dim& dim) {
    if (const std::size_t family = family_of(dim); family != kNone) families_[family].fits = false;
  }

  void find_members() {
    member_of_.assign(graph_.value_count(), kNone);
    int32_t position = 0;
    for (ValueId v : graph_.body().nodes) {
      classify(v, position++);
      for (const std::unique_ptr<Block>& block : graph_.node(v).blocks)
        for_each_node(graph_, *block, [&](ValueId inner) {
          ++position;
          refuse(graph_.node(inner));
        });
    }
    for (ValueId v : graph_.results())
      if (member_of_[index(v)] != kNone) families_[member_of_[index(v)]].fits = false;
    // Two counts of one mask are equal, whatever is recorded; and a limit may be that of no count.
    for (const DimGuard& g : graph_.shapes().guards()) {
      const bool same = g.relation == Relation::Eq && g.outcome && is_symbol(g.left) && is_symbol(g.right) &&
                        family_of(g.left) == family_of(g.right);
      if (!same && !is_always_less(g)) refuse(g.left), refuse(g.right);
    }
  }

  static bool is_symbol(const Dim& dim) {
    std::vector<SymbolId> symbols;
    dim.collect_symbols(symbols);
    return symbols.size() == 1 && dim == Dim::symbol(symbols[0]);
  }

  /// Does it hold for each number of elements that a mask may choose?
  bool is_always_less(const DimGuard& g) const {
    if (g.relation != Relation::Lt || !g.outcome || !g.right.is_const()) return false;
    const std::vector<int64_t> least(graph_.shapes().symbol_count(), 0);
    std::vector<int64_t> most(least.size(), INT64_MAX);
    for (const Family& family : families_)
      for (ValueId measure : family.measures) {
        std::vector<SymbolId> symbol;
        graph_.node(measure).dim().collect_symbols(symbol);
        if (const Dim& bound = graph_.node(measure).most(); bound.is_const())
          most[static_cast<std::size_t>(symbol[0])] = bound.value();
      }
    return g.left.at_most(least, most) < g.right.value();
  }

  void refuse(const Node& n) {
    for (const Dims* dims : {&n.type.shape, &n.type.strides})
      for (const Dim& d : *dims) refuse(d);
    refuse(n.type.offset);
    for (const auto& [key, value] : n.attrs)
      if (const Dim* dim = std::get_if<Dim>(&value)) refuse(*dim);
    for (ValueId input : n.inputs)
      if (member_of_[index(input)] != kNone) families_[member_of_[index(input)]].fits = false;
    for (const std::unique_ptr<Block>& block : n.blocks)
      for (const std::vector<ValueId>* values : {&block->params, &block->results})
        for (ValueId v : *values)
          if (member_of_[index(v)] != kNone) families_[member_of_[index(v)]].fits = false;
  }

  void classify(ValueId v, int32_t position) {
    const Node& n = graph_.node(v);
    if (n.op == Op::Measure) return refuse(n.most());
    if (n.op == Op::Expand && member_of_[index(n.inputs[1])] != kNone) {
      Family& family = families_[member_of_[index(n.inputs[1])]];
      family.fits = family.fits && n.inputs[0] == family.mask;
      family.expands.push_back(v);
      return;
    }
    const std::size_t at = n.type.shape.size() == 1 ? family_of(n.type.shape[0]) : kNone;
    if (at == kNone || !is_member(n, families_[at], at, position)) return refuse(n);
    member_of_[index(v)] = at;
    families_[at].members.push_back(v);
  }

  bool is_member(const Node& n, Family& family, std::size_t at, int32_t position) {
    if (n.op == Op::Compress) {
      if (family.mask == kNoValue) family.mask = n.inputs[0];
      return n.inputs[0] == family.mask && graph_.type(n.inputs[1]).rank() == graph_.type(family.mask).rank() &&
             facts_.last_write[index(graph_.root(family.mask))] < position;
    }
    const OpClass cls = def(n.op).cls;
    if ((cls != OpClass::Elementwise && cls != OpClass::Cast) || def(n.op).exactness != Exactness::Native) return false;
    return std::all_of(n.inputs.begin(), n.inputs.end(),
                       [&](ValueId input) { return graph_.type(input).rank() == 0 || member_of_[index(input)] == at; });
  }

  /// Is there a number of which no member sets a flag?
  bool find_filler(Family& family) {
    for (const bool one : {true, false})
      if (!family.is_one && is_quiet(family, one)) family.is_one = one;
    return family.is_one.has_value();
  }

  bool is_quiet(const Family& family, bool one) const {
    std::unordered_map<uint32_t, Scalar> values;
    for (ValueId v : family.members) {
      const Node& n = graph_.node(v);
      if (n.op == Op::Compress) {
        values.emplace(index(v), number(n.type.dtype, one));
        continue;
      }
      std::vector<Scalar> args;
      for (ValueId input : n.inputs)
        if (const auto found = values.find(index(input)); found != values.end()) args.push_back(found->second);
        else if (graph_.node(input).op == Op::Constant) args.push_back(graph_.node(input).value());
        else args.push_back(number(graph_.type(input).dtype, one));
      const std::optional<Scalar> value = apply(graph_, n, args);
      if (!value) return false;
      values.emplace(index(v), *value);
    }
    return true;
  }

  void rewrite() {
    Block& body = graph_.body();
    const std::vector<ValueId> nodes = std::exchange(body.nodes, {});
    std::unordered_map<uint32_t, ValueId> spread;  // by the value of an expand
    for (ValueId v : nodes) {
      const Op op = graph_.node(v).op;
      const std::size_t at = index(v) < member_of_.size() ? member_of_[index(v)] : kNone;
      if (op == Op::Measure && is_gone(v)) continue;
      if (at != kNone && families_[at].is_one) {
        op == Op::Compress ? choose(v, families_[at]) : widen(v, families_[at]);
      } else if (op == Op::Expand && member_of_[index(graph_.node(v).inputs[1])] != kNone &&
                 families_[member_of_[index(graph_.node(v).inputs[1])]].is_one) {
        spread.emplace(index(v), graph_.node(v).inputs[1]);
        choose(v, false);
      } else if (op == Op::Where) {
        Node& n = graph_.node(v);
        const auto found = spread.find(index(n.inputs[1]));
        if (found != spread.end() && n.inputs[0] == graph_.node(n.inputs[1]).inputs[0]) n.inputs[1] = found->second;
      }
      body.nodes.push_back(v);
    }
  }

  bool is_gone(ValueId measure) const {
    return std::any_of(families_.begin(), families_.end(), [&](const Family& f) {
      return f.is_one && std::find(f.measures.begin(), f.measures.end(), measure) != f.measures.end();
    });
  }

  /// A number in front of the node that is rewritten.
  ValueId constant(DType dtype, bool one) {
    Node n{};
    n.op = Op::Constant;
    n.attrs.assign(1, {AttrKey::Value, number(dtype, one)});
    n.type = Type{dtype, {}, {}};
    return graph_.append(std::move(n));
  }

  /// `v` of a mask and a value becomes a choice between the value and a number.
  void choose(ValueId v, bool one) {
    const ValueId other = constant(graph_.type(v).dtype, one);
    Node& n = graph_.node(v);
    n.op = Op::Where;
    n.inputs.push_back(other);
    n.attrs.clear();
  }

  void choose(ValueId v, const Family& family) {
    choose(v, *family.is_one);
    take_shape(v, family);
  }

  void take_shape(ValueId v, const Family& family) {
    Type& type = graph_.node(v).type;
    type.shape = graph_.type(family.mask).shape;
    type.strides = c_strides(type.dtype, type.shape);
  }

  void widen(ValueId v, const Family& family) {
    for (std::size_t i = 0; i < graph_.node(v).inputs.size(); ++i) {
      const ValueId input = graph_.node(v).inputs[i];
      if (graph_.type(input).rank() != 0 || graph_.node(input).op == Op::Constant) continue;
      const DType dtype = graph_.type(input).dtype;
      const ValueId other = constant(dtype, *family.is_one);
      Node n{};
      n.op = Op::Where;
      n.inputs = {family.mask, input, other};
      n.type = Type{dtype, {}, {}};
      n.location = graph_.node(v).location;
      const ValueId chosen = graph_.append(std::move(n));
      take_shape(chosen, family);
      graph_.node(v).inputs[i] = chosen;
    }
    take_shape(v, family);
  }

  Graph& graph_;
  const MemoryFacts facts_;
  std::vector<Family> families_;
  std::unordered_map<SymbolId, std::size_t> family_of_;
  std::vector<std::size_t> member_of_;  // by value
};

}  // namespace

bool mask_expressions(Graph& graph, PassContext&) { return MaskExpressions(graph).run(); }

}  // namespace framejit::graph
