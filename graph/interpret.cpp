// The reference interpreter: one node after the other, one element at a time.
#include "graph/interpret.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "graph/interpret_reduce.h"
#include "graph/random.h"
#include "graph/scalar_ops.h"
#include "graph/support/check.h"

namespace framejit::graph {

namespace {

/// A value with numbers for its dimensions.
struct Array {
  DType dtype = DType::F64;
  ArrayRef ref{};
};

/// The byte strides with which `shape` walks `a`: 0 along axes that are repeated.
std::vector<int64_t> broadcast_strides(const ArrayRef& a, const std::vector<int64_t>& shape) {
  std::vector<int64_t> out(shape.size(), 0);
  const std::size_t missing = shape.size() - a.shape.size();
  for (std::size_t i = 0; i < a.shape.size(); ++i)
    if (a.shape[i] != 1) out[missing + i] = a.strides[i];
  return out;
}

/// Calls f with the index vector of each element, in C order.
template <class F>
void for_each_index(const std::vector<int64_t>& shape, F&& f) {
  for (int64_t d : shape)
    if (d <= 0) return;
  std::vector<int64_t> at(shape.size(), 0);
  for (;;) {
    f(at);
    std::size_t axis = shape.size();
    while (axis > 0 && ++at[axis - 1] == shape[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

int64_t dot(const std::vector<int64_t>& at, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * strides[i];
  return offset;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

/// Clears the thread's floating-point flags and puts its environment back at the end.
class FlagScope {
 public:
  FlagScope() {
    std::fegetenv(&saved_);
    std::feclearexcept(FE_ALL_EXCEPT);
  }
  ~FlagScope() { std::fesetenv(&saved_); }
  FlagScope(const FlagScope&) = delete;
  static unsigned raised() {
    return static_cast<unsigned>(std::fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID));
  }
  /// The same, and they are raised no more.
  static unsigned take() {
    const unsigned flags = raised();
    std::feclearexcept(FE_ALL_EXCEPT);
    return flags;
  }

 private:
  std::fenv_t saved_;
};

Scalar load(const Array& a, int64_t offset) { return scalar_from(a.dtype, a.ref.data + offset); }

void store(const Array& a, int64_t offset, const Scalar& s) {
  std::memcpy(a.ref.data + offset, element_of(a.dtype, s).data(), static_cast<std::size_t>(size_of(a.dtype)));
}

void assign(const Array& out, const Array& in) {
  const std::vector<int64_t> strides = broadcast_strides(in.ref, out.ref.shape);
  for_each_index(out.ref.shape, [&](const std::vector<int64_t>& at) {
    store(out, dot(at, out.ref.strides), load(in, dot(at, strides)));
  });
}

void expand(ArrayRef& a, int64_t axis) {
  a.shape.insert(a.shape.begin() + axis, 1);
  a.strides.insert(a.strides.begin() + axis, 0);
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, std::span<const ArrayRef> params, std::span<const int64_t> symbols,
              RunNumpyLoop run_numpy_loop)
      : graph_(graph),
        params_(params),
        symbols_(symbols.begin(), symbols.end()),
        run_numpy_loop_(run_numpy_loop),
        values_(graph.value_count()),
        owned_(graph.value_count()) {}

  Expected<Interpretation, std::string> run() {
    if (params_.size() != graph_.params().size()) return Unexpected{std::string("number of params")};
    for (std::size_t i = 0; i < params_.size(); ++i) {
      Array& p = values_[index(graph_.params()[i])];
      const Type& t = graph_.type(graph_.params()[i]);
      p = {t.dtype, {params_[i].data, evaluate(t.shape), evaluate(t.strides)}};
      if (p.ref.shape != params_[i].shape) return Unexpected{"shape of param " + std::to_string(i)};
      p.ref.strides = params_[i].strides;  // axes of length 1 may have any
    }
    const FlagScope flags;
    if (!block(graph_.body())) return Unexpected{failure_};
    Interpretation out;
    out.symbols = symbols_;
    out.fp_flags = raised_ | FlagScope::raised();
    for (ValueId v : graph_.results())
      out.results.push_back({std::move(owned_[index(graph_.root(v))]), values_[index(v)].ref});
    return out;
  }

 private:
  std::vector<int64_t> evaluate(const Dims& dims) const {
    std::vector<int64_t> out;
    for (const Dim& d : dims) out.push_back(d.evaluate(symbols_));
    return out;
  }

  DType operand_dtype(ValueId v) const {
    const Node& n = graph_.node(v);
    return n.inputs.empty() ? n.type.dtype : graph_.type(n.inputs.back()).dtype;
  }

  bool block(const Block& b) {
    std::vector<SymbolId> own;  // an earlier round measured something else
    for_each_node(graph_, b, [&](ValueId v) {
      if (graph_.node(v).op == Op::Measure) graph_.node(v).dim().collect_symbols(own);
    });
    unknown_.insert(own.begin(), own.end());
    for (ValueId v : b.nodes) {
      const FlagRule rule = graph_.node(v).flag_rule;
      if (rule) raised_ |= FlagScope::take();
      const bool done = node(v);
      if (rule) raised_ |= rule.apply(FlagScope::take());
      if (done) continue;
      if (failure_.empty())
        failure_ = "no reference for " + std::string(name_of(graph_.node(v).op)) + " of " +
                   std::string(name_of(operand_dtype(v)));
      return false;
    }
    return true;
  }

  /// What a block gives, out of reach of its next round.
  std::vector<std::vector<Scalar>> results(const Block& b) const {
    std::vector<std::vector<Scalar>> out;
    for (ValueId v : b.results) {
      const Array& a = values_[index(v)];
      std::vector<Scalar>& elements = out.emplace_back();
      for_each_index(a.ref.shape,
                     [&](const std::vector<int64_t>& at) { elements.push_back(load(a, dot(at, a.ref.strides))); });
    }
    return out;
  }

  void fill(ValueId v, const std::vector<Scalar>& elements) {
    const Array& out = allocate(v);
    std::size_t next = 0;
    for_each_index(out.ref.shape,
                   [&](const std::vector<int64_t>& at) { store(out, dot(at, out.ref.strides), elements[next++]); });
  }

  bool is_true(ValueId v) const { return load(values_[index(v)], 0).lo != 0; }

  bool control(ValueId v, const Node& n) {
    if (n.op == Op::Measure) {
      std::vector<SymbolId> symbol;
      n.dim().collect_symbols(symbol);
      symbols_[static_cast<std::size_t>(symbol[0])] = static_cast<int64_t>(load(values_[index(n.inputs[0])], 0).lo);
      unknown_.erase(symbol[0]);
      for (const DimGuard& g : graph_.shapes().guards())
        if (mentions(g, symbol[0]) &&
            related(g.relation, g.left.evaluate(symbols_), g.right.evaluate(symbols_)) != g.outcome)
          failure_ = kUnexpected;
      return failure_.empty();
    }
    if (n.op == Op::Expect) {
      if (!is_true(n.inputs[0])) failure_ = kUnexpected;
      return failure_.empty();
    }
    std::vector<std::vector<Scalar>>& given = given_[v];
    if (n.op == Op::If) {
      const Block& side = *n.blocks[is_true(n.inputs[0]) ? 0 : 1];
      if (!block(side)) return false;
      given = results(side);
      return true;
    }
    const Block& body = *n.blocks[0];
    for (std::size_t i = 0; i < n.inputs.size(); ++i) assign(allocate(body.params[i]), input(n, i));
    for (;;) {
      if (!block(body)) return false;
      given = results(body);
      const bool again = given[0][0].lo != 0;
      given.erase(given.begin());
      if (!again) return true;
      for (std::size_t i = 0; i < n.inputs.size(); ++i) fill(body.params[i], given[i]);
    }
  }

  /// Is the guard about the symbol, and about nothing that is not known yet?
  bool mentions(const DimGuard& g, SymbolId symbol) const {
    std::vector<SymbolId> used;
    g.left.collect_symbols(used);
    g.right.collect_symbols(used);
    return std::find(used.begin(), used.end(), symbol) != used.end() &&
           std::none_of(used.begin(), used.end(), [&](SymbolId s) { return unknown_.contains(s); });
  }

  const Array& input(const Node& n, std::size_t i) const { return values_[index(n.inputs[i])]; }

  bool nonzero(ValueId v, const Node& n) {
    const Array &mask = input(n, 0), &out = allocate(v);
    int64_t row = 0;
    for_each_index(mask.ref.shape, [&](const std::vector<int64_t>& at) {
      if (load(mask, dot(at, mask.ref.strides)).lo == 0 || row == out.ref.shape[0]) return;
      for (std::size_t a = 0; a < at.size(); ++a)
        store(out, row * out.ref.strides[0] + static_cast<int64_t>(a) * out.ref.strides[1],
              {static_cast<uint64_t>(at[a]), 0});
      ++row;
    });
    return true;
  }

  /// Between an array of the mask's shape (all), and one of as many elements as the mask is true for (few).
  bool choose(ValueId v, const Node& n) {
    const bool compresses = n.op == Op::Compress;
    const Array &mask = input(n, 0), &x = input(n, 1), &out = allocate(v);
    const Array &all = compresses ? x : out, &few = compresses ? out : x;
    if (!compresses) std::fill(owned_[index(v)].begin(), owned_[index(v)].end(), std::byte{0});
    const std::span<const int64_t> rest = std::span(all.ref.shape).subspan(mask.ref.shape.size());
    std::vector<int64_t> to(few.ref.shape.size(), 0), from(all.ref.shape.size());
    for_each_index(mask.ref.shape, [&](const std::vector<int64_t>& at) {
      if (load(mask, dot(at, mask.ref.strides)).lo == 0 || to[0] == few.ref.shape[0]) return;
      std::copy(at.begin(), at.end(), from.begin());
      for_each_index({rest.begin(), rest.end()}, [&](const std::vector<int64_t>& inner) {
        std::copy(inner.begin(), inner.end(), from.begin() + static_cast<std::ptrdiff_t>(at.size()));
        std::copy(inner.begin(), inner.end(), to.begin() + 1);
        const int64_t of_few = dot(to, few.ref.strides), of_all = dot(from, all.ref.strides);
        store(out, compresses ? of_few : of_all, load(x, compresses ? of_all : of_few));
      });
      ++to[0];
    });
    return true;
  }

  bool put(ValueId v, const Node& n) {
    assign(allocate(v), input(n, 0));
    const Array &out = values_[index(v)], &from = input(n, 1), &first = input(n, 2);
    const bool masked = first.dtype == DType::Bool;
    const std::size_t indexed = masked ? first.ref.shape.size() : n.inputs.size() - 2;
    const std::span<const int64_t> rest = std::span(out.ref.shape).subspan(indexed);
    std::vector<std::vector<int64_t>> places;
    for_each_index(first.ref.shape, [&](const std::vector<int64_t>& at) {
      std::vector<int64_t>& place = places.emplace_back();
      if (masked) {
        if (load(first, dot(at, first.ref.strides)).lo != 0) place = at;
        else places.pop_back();
        return;
      }
      for (std::size_t k = 0; k < indexed; ++k) {
        const Array& indices = input(n, 2 + k);
        const Scalar given = load(indices, at[0] * indices.ref.strides[0]);
        Scalar converted;
        apply_scalar(Op::Cast, indices.dtype, DType::I64, std::span(&given, 1), converted);
        const auto position = static_cast<int64_t>(converted.lo);
        place.push_back(position + (position < 0 ? out.ref.shape[k] : 0));
        if (place.back() < 0 || place.back() >= out.ref.shape[k]) failure_ = kUnexpected;
      }
    });
    if (masked && from.ref.shape[0] != static_cast<int64_t>(places.size())) failure_ = kUnexpected;
    if (!failure_.empty()) return false;
    for (std::size_t i = 0; i < places.size(); ++i)
      for_each_index({rest.begin(), rest.end()}, [&](const std::vector<int64_t>& inner) {
        std::vector<int64_t> to = places[i], at{static_cast<int64_t>(i)};
        to.insert(to.end(), inner.begin(), inner.end());
        at.insert(at.end(), inner.begin(), inner.end());
        store(out, dot(to, out.ref.strides), load(from, from.ref.shape.empty() ? 0 : dot(at, from.ref.strides)));
      });
    return true;
  }

  Array& allocate(ValueId v) {
    const Type& t = graph_.type(v);
    Array& a = values_[index(v)];
    a = {t.dtype, {nullptr, evaluate(t.shape), evaluate(t.strides)}};
    int64_t bytes = element_count(a.ref.shape) == 0 ? 0 : size_of(t.dtype);
    for (std::size_t i = 0; bytes != 0 && i < a.ref.shape.size(); ++i) bytes += (a.ref.shape[i] - 1) * a.ref.strides[i];
    owned_[index(v)].resize(static_cast<std::size_t>(bytes));
    a.ref.data = owned_[index(v)].data();
    return a;
  }

  bool node(ValueId v) {
    const Node& n = graph_.node(v);
    switch (def(n.op).cls) {
      case OpClass::Source: return source(v, n);
      case OpClass::Elementwise:
      case OpClass::Cast: return elementwise(v, n);
      case OpClass::Copy: assign(allocate(v), input(n, 0)); return true;
      case OpClass::Reduction: return reduce(v, n);
      case OpClass::View: return view(v, n);
      case OpClass::Write: return write(n);
      case OpClass::Contraction:
        switch (n.op) {
          case Op::MatMul: return matmul(v, n);
          case Op::Convolution: return convolution(v, n);
          case Op::ConvolutionWeights: return convolution_weights(v, n);
          case Op::Attention: return attention(v, n);
          default: return attention_gradients(v, n);
        }
      case OpClass::LibraryCall:
        switch (n.op) {
          case Op::Nonzero: return nonzero(v, n);
          case Op::Compress:
          case Op::Expand: return choose(v, n);
          case Op::Put: return put(v, n);
          default: return false;
        }
      case OpClass::Control: return control(v, n);
    }
    return false;
  }

  bool source(ValueId v, const Node& n) {
    switch (n.op) {
      case Op::Constant: store(allocate(v), 0, n.value()); return true;
      case Op::DimValue: store(allocate(v), 0, Scalar{static_cast<uint64_t>(n.dim().evaluate(symbols_))}); return true;
      case Op::Empty: allocate(v); return true;
      case Op::Full: assign(allocate(v), input(n, 0)); return true;
      case Op::Iota: return iota(v, n);
      case Op::Output: fill(v, given_[n.inputs[0]][static_cast<std::size_t>(n.index())]); return true;
      default: return false;
    }
  }

  bool iota(ValueId v, const Node& n) {
    const Array& out = allocate(v);
    for (int64_t i = 0; i < out.ref.shape[0]; ++i) {
      const Scalar position{static_cast<uint64_t>(i)};
      Scalar value;
      if (!apply_scalar(Op::Cast, DType::I64, n.type.dtype, {&position, 1}, value)) return false;
      store(out, i * out.ref.strides[0], value);
    }
    return true;
  }

  bool elementwise(ValueId v, const Node& n) {
    const Array& out = allocate(v);
    if (run_numpy_loop_ && def(n.op).exactness == Exactness::NumpyLoop) return numpy_loop(v, n, out);
    std::vector<std::vector<int64_t>> strides;
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      strides.push_back(broadcast_strides(input(n, i).ref, out.ref.shape));
    ScalarOptions options;
    if (n.op == Op::Clip)
      options.uniform_bounds = element_count(input(n, 1).ref.shape) == 1 && element_count(input(n, 2).ref.shape) == 1;
    bool ok = true;
    for_each_index(out.ref.shape, [&](const std::vector<int64_t>& at) {
      Scalar args[3], result;
      for (std::size_t i = 0; i < n.inputs.size(); ++i) args[i] = load(input(n, i), dot(at, strides[i]));
      ok = ok && apply_scalar(n.op, operand_dtype(v), out.dtype, {args, n.inputs.size()}, result, options);
      store(out, dot(at, out.ref.strides), result);
    });
    return ok;
  }

  bool numpy_loop(ValueId v, const Node& n, const Array& out) {
    Array packed = out;  // in C order; the last one is the result
    const int64_t count = element_count(out.ref.shape);
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::byte*> operands;
    for (std::size_t i = 0; i <= n.inputs.size(); ++i) {
      const bool result = i == n.inputs.size();
      packed.dtype = result ? out.dtype : input(n, i).dtype;
      int64_t stride = size_of(packed.dtype);
      for (std::size_t axis = out.ref.shape.size(); axis-- > 0; stride *= out.ref.shape[axis])
        packed.ref.strides[axis] = stride;
      packed.ref.data = memory.emplace_back(static_cast<std::size_t>(count * size_of(packed.dtype))).data();
      operands.push_back(packed.ref.data);
      if (!result) assign(packed, input(n, i));
    }
    raised_ |= FlagScope::raised();  // some of NumPy's loops clear them
    if (!run_numpy_loop_(n.op, operand_dtype(v), out.dtype, operands, count)) return false;
    assign(out, packed);
    return true;
  }

  bool view(ValueId v, const Node& n) {
    values_[index(v)] = {n.type.dtype,
                         {values_[index(n.type.root)].ref.data + n.type.offset.evaluate(symbols_),
                          evaluate(n.type.shape), evaluate(n.type.strides)}};
    return true;
  }

  /// All of the value is read before the first store.
  bool write(const Node& n) {
    const Array &dst = input(n, 0), &value = input(n, 1);
    std::vector<Scalar> read;
    const std::vector<int64_t> strides = broadcast_strides(value.ref, dst.ref.shape);
    for_each_index(dst.ref.shape,
                   [&](const std::vector<int64_t>& at) { read.push_back(load(value, dot(at, strides))); });
    std::size_t next = 0;
    for_each_index(dst.ref.shape,
                   [&](const std::vector<int64_t>& at) { store(dst, dot(at, dst.ref.strides), read[next++]); });
    return true;
  }

  bool reduce(ValueId v, const Node& n) {
    const Array& out = allocate(v);
    return interpret_reduction(n.op, input(n, 0).dtype, out.dtype, input(n, 0).ref, n.axes(), out.ref);
  }

  /// Plain sums of products in the order i, k, j: the value of an element is a left fold over k.
  bool matmul(ValueId v, const Node& n) {
    const Array& out = allocate(v);
    ArrayRef a = input(n, 0).ref, b = input(n, 1).ref, c = out.ref;
    if (a.shape.size() == 1) expand(a, 0), expand(c, static_cast<int64_t>(c.shape.size()) - (b.shape.size() > 1));
    if (b.shape.size() == 1) expand(b, 1), expand(c, static_cast<int64_t>(c.shape.size()));
    const int64_t depth = a.shape.back(), step_a = a.strides.back(), step_b = b.strides[b.strides.size() - 2];
    a.shape.back() = 1;               // broadcasts over the columns
    b.shape[b.shape.size() - 2] = 1;  // broadcasts over the rows
    const std::vector<int64_t> at_a = broadcast_strides(a, c.shape), at_b = broadcast_strides(b, c.shape);
    bool ok = true;
    for_each_index(c.shape, [&](const std::vector<int64_t>& at) {
      Scalar sum;
      for (int64_t k = 0; ok && k < depth; ++k) {
        Scalar factors[2] = {load(input(n, 0), dot(at, at_a) + k * step_a),
                             load(input(n, 1), dot(at, at_b) + k * step_b)};
        Scalar terms[2] = {sum, {}};
        ok = apply_scalar(Op::Multiply, out.dtype, out.dtype, factors, terms[1]) &&
             apply_scalar(Op::Add, out.dtype, out.dtype, terms, sum);
      }
      store(out, dot(at, c.strides), sum);
    });
    return ok;
  }

  /// A left fold over channels and places of the window; what lies around the image is zero.
  bool convolution(ValueId v, const Node& n) {
    const Array &out = allocate(v), &image = input(n, 0), &filter = input(n, 1);
    const Window window = n.window();
    const std::vector<int64_t>& size = filter.ref.shape;
    const int64_t channels = size[0] / window.groups;
    const std::vector<int64_t> places(size.begin() + 1, size.end());
    bool ok = true;
    for_each_index(out.ref.shape, [&](const std::vector<int64_t>& at) {
      Scalar sum;
      for_each_index(places, [&](const std::vector<int64_t>& place) {
        std::vector<int64_t> from = {at[0], at[1] / channels * size[1] + place[0]}, weight = {at[1]};
        weight.insert(weight.end(), place.begin(), place.end());
        bool inside = true;
        for (std::size_t i = 0; i < window.axes.size(); ++i) {
          const Window::Axis& a = window.axes[i];
          from.push_back(at[i + 2] * a.stride - a.before + place[i + 1] * a.dilation);
          inside = inside && from.back() >= 0 && from.back() < image.ref.shape[i + 2];
        }
        Scalar factors[2] = {inside ? load(image, dot(from, image.ref.strides)) : Scalar{},
                             load(filter, dot(weight, filter.ref.strides))};
        Scalar terms[2] = {sum, {}};
        ok = ok && apply_scalar(Op::Multiply, out.dtype, out.dtype, factors, terms[1]) &&
             apply_scalar(Op::Add, out.dtype, out.dtype, terms, sum);
      });
      store(out, dot(at, out.ref.strides), sum);
    });
    return ok;
  }

  /// A left fold over images and places of the result.
  bool convolution_weights(ValueId v, const Node& n) {
    const Array &out = allocate(v), &image = input(n, 0), &cotangent = input(n, 1);
    const Window window = n.window();
    const int64_t channels = out.ref.shape[0] / window.groups;
    std::vector<int64_t> places = cotangent.ref.shape;
    places.erase(places.begin() + 1);
    bool ok = true;
    for_each_index(out.ref.shape, [&](const std::vector<int64_t>& at) {
      Scalar sum;
      for_each_index(places, [&](const std::vector<int64_t>& place) {
        std::vector<int64_t> from = {place[0], at[0] / channels * out.ref.shape[1] + at[1]}, to = {place[0], at[0]};
        to.insert(to.end(), place.begin() + 1, place.end());
        bool inside = true;
        for (std::size_t i = 0; i < window.axes.size(); ++i) {
          const Window::Axis& a = window.axes[i];
          from.push_back(place[i + 1] * a.stride - a.before + at[i + 2] * a.dilation);
          inside = inside && from.back() >= 0 && from.back() < image.ref.shape[i + 2];
        }
        if (!inside) return;
        Scalar factors[2] = {load(image, dot(from, image.ref.strides)),
                             load(cotangent, dot(to, cotangent.ref.strides))};
        Scalar terms[2] = {sum, {}};
        ok = ok && apply_scalar(Op::Multiply, out.dtype, out.dtype, factors, terms[1]) &&
             apply_scalar(Op::Add, out.dtype, out.dtype, terms, sum);
      });
      store(out, dot(at, out.ref.strides), sum);
    });
    return ok;
  }

  double float32(const Array& a, const std::vector<int64_t>& at) const {
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(load(a, dot(at, a.ref.strides)).lo)));
  }

  /// What the query at [batch, head, row] weighs the keys with that it sees.
  std::vector<double> weights(const Node& n, const std::vector<int64_t>& at) const {
    const std::vector<int64_t>&q = input(n, 0).ref.shape, &k = input(n, 1).ref.shape;
    const std::optional<std::size_t> mask = AttentionOperands(n.op, n.inputs.size()).mask;
    const auto causal = static_cast<Causal>(n.index());
    const int64_t ahead = causal == Causal::FromLast ? k[2] - q[2] : 0;
    const int64_t seen = causal == Causal::None ? k[2] : std::clamp<int64_t>(at[2] + 1 + ahead, 0, k[2]);
    std::vector<int64_t> mask_strides;
    if (mask) mask_strides = broadcast_strides(input(n, *mask).ref, std::vector<int64_t>{q[0], q[1], q[2], k[2]});
    std::vector<double> out;
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      double score = 0;
      for (int64_t d = 0; d < q[3]; ++d)
        score +=
            float32(input(n, 0), {at[0], at[1], at[2], d}) * float32(input(n, 1), {at[0], at[1] / (q[1] / k[1]), j, d});
      score *= float32(input(n, 3), {0});
      if (!mask_strides.empty()) {
        const Scalar bits = load(input(n, *mask), dot({at[0], at[1], at[2], j}, mask_strides));
        score += static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits.lo)));
      }
      largest = std::max(largest, score);
      out.push_back(score);
    }
    for (double& key : out) sum += key = std::exp(key - largest);
    for (double& key : out) key /= sum;
    return out;
  }

  /// What these weights are multiplied with where some are dropped, else 1.
  std::vector<double> kept(const Node& n, const std::vector<int64_t>& at, std::size_t weights) const {
    std::vector<double> out(weights, 1.0);
    const AttentionOperands operands(n.op, n.inputs.size());
    if (!operands.state) return out;
    const std::vector<int64_t>&q = input(n, 0).ref.shape, &k = input(n, 1).ref.shape;
    const uint64_t state = load(input(n, *operands.state), 0).lo;
    const double probability = float32(input(n, *operands.probability), {0});
    for (std::size_t j = 0; j < weights; ++j) {
      const int64_t number = ((at[0] * q[1] + at[1]) * q[2] + at[2]) * k[2] + static_cast<int64_t>(j);
      const uint64_t upper = SplitMix64::word(state, static_cast<uint64_t>(number)) >> SplitMix64::kShift;
      out[j] = static_cast<double>(upper) * 0x1p-24 >= probability ? 1 / (1 - probability) : 0.0;
    }
    return out;
  }

  /// In float64, rounded once.
  bool attention(ValueId v, const Node& n) {
    const Array& out = allocate(v);
    const std::vector<int64_t>&q = input(n, 0).ref.shape, &k = input(n, 1).ref.shape;
    for_each_index({q[0], q[1], q[2]}, [&](const std::vector<int64_t>& at) {
      const std::vector<double> keys = weights(n, at), kept = this->kept(n, at, keys.size());
      for (int64_t d = 0; d < out.ref.shape[3]; ++d) {
        double total = keys.empty() ? std::numeric_limits<double>::quiet_NaN() : 0;
        for (std::size_t j = 0; j < keys.size(); ++j)
          total += keys[j] * kept[j] * float32(input(n, 2), {at[0], at[1] / (q[1] / k[1]), static_cast<int64_t>(j), d});
        store(out, dot({at[0], at[1], at[2], d}, out.ref.strides),
              Scalar{std::bit_cast<uint32_t>(static_cast<float>(total))});
      }
    });
    return true;
  }

  /// In float64, rounded once. The result of the attention is not looked at; a query that sees nothing adds nothing.
  bool attention_gradients(ValueId v, const Node& n) {
    const Array& out = allocate(v);
    const std::vector<int64_t>&q = input(n, 0).ref.shape, &k = input(n, 1).ref.shape, &w = input(n, 2).ref.shape;
    std::vector<double> parts[3];
    const std::vector<int64_t>* shapes[] = {&q, &k, &w};
    for (int i = 0; i < 3; ++i) {
      std::size_t size = 1;
      for (int64_t length : *shapes[i]) size *= static_cast<std::size_t>(length);
      parts[i].assign(size, 0.0);
    }
    const auto part = [&](int i, int64_t b, int64_t head, int64_t row, int64_t column) -> double& {
      const std::vector<int64_t>& s = *shapes[i];
      return parts[i][static_cast<std::size_t>(((b * s[1] + head) * s[2] + row) * s[3] + column)];
    };
    const double scale = float32(input(n, 3), {0});
    for_each_index({q[0], q[1], q[2]}, [&](const std::vector<int64_t>& at) {
      const std::vector<double> keys = weights(n, at), kept = this->kept(n, at, keys.size());
      const int64_t head = at[1] / (q[1] / k[1]);
      if (keys.empty()) return;
      std::vector<double> towards(keys.size(), 0.0);
      double all = 0;
      for (std::size_t j = 0; j < keys.size(); ++j) {
        for (int64_t d = 0; d < w[3]; ++d) {
          const double g = kept[j] * float32(input(n, 4), {at[0], at[1], at[2], d});
          towards[j] += g * float32(input(n, 2), {at[0], head, static_cast<int64_t>(j), d});
          part(2, at[0], head, static_cast<int64_t>(j), d) += keys[j] * g;
        }
        all += towards[j] * keys[j];
      }
      for (std::size_t j = 0; j < keys.size(); ++j)
        for (int64_t d = 0; d < q[3]; ++d) {
          const double score = keys[j] * (towards[j] - all) * scale;
          part(0, at[0], at[1], at[2], d) += score * float32(input(n, 1), {at[0], head, static_cast<int64_t>(j), d});
          part(1, at[0], head, static_cast<int64_t>(j), d) += score * float32(input(n, 0), {at[0], at[1], at[2], d});
        }
    });
    int64_t place = 0;
    for (const std::vector<double>& values : parts)
      for (double value : values) store(out, 4 * place++, Scalar{std::bit_cast<uint32_t>(static_cast<float>(value))});
    return true;
  }

  const Graph& graph_;
  std::span<const ArrayRef> params_;
  std::vector<int64_t> symbols_;
  std::set<SymbolId> unknown_;  // to be measured
  RunNumpyLoop run_numpy_loop_;
  std::vector<Array> values_;
  std::vector<std::vector<std::byte>> owned_;                  // by root; moving a vector leaves its bytes in place
  std::map<ValueId, std::vector<std::vector<Scalar>>> given_;  // by if and loop: the elements of their outputs
  std::string failure_;
  unsigned raised_ = 0;  // by FlagRule::apply; beside what the status says
};

}  // namespace

Expected<Interpretation, std::string> interpret(const Graph& graph, std::span<const ArrayRef> params,
                                                std::span<const int64_t> symbols, RunNumpyLoop run_numpy_loop) {
  return Interpreter(graph, params, symbols, run_numpy_loop).run();
}

}  // namespace framejit::graph
