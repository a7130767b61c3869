// The verifier. The invariants of a Graph, by number:
//
//  1  Params are Op::Param with their position as index, and stand in no list of nodes; each value
//     stands in the body once.
//  2  An operand is defined before its use, and is not a write.
//  3  A node has as many operands as its row says; if has two blocks, loop one, others none.
//  4  A node has exactly the attributes of its operator: constant a value, dim a dimension, reductions their axes
//     (sorted, distinct, in range), params an index and maybe a name.
//  5  Operands have one dtype, which the operator takes (where: the first is bool); the result has the dtype of the
//     row.
//  6  A type has a stride for each axis, no negative dimension, and no symbol that the graph's ShapeEnv does not know.
//     NumPy would make an array of its shape, and a fresh value fits the memory of a process.
//  7  The result shape is the operator's. Symbolic dimensions that differ pass: a guard may say that they are equal.
//  8  A value that is neither param, view nor write is fresh: its root is itself, its strides are those of
//     packed memory in some order of the axes.
//  9  A view (and a write) shares the root of its first operand, which is a param or a fresh value that has bytes; its
//     dtype is the root's; its elements lie inside of the root's bytes where those are known.
// 10  A write has the type of its destination; the destination repeats no element; the value broadcasts to it and is no
//     other view of the same root (a copy of that is, since all is read before the first store).
// 11  Results are values of the body, or of their block, and neither writes nor control flow.
// 12  Blocks: the condition of if, the first result of a loop's body and the operand of expect are one bool; both
//     blocks of an if give the same types; what a loop begins with, carries and ends its rounds with have the same
//     types, packed.
// 13  An output is one of an if or of a loop that has so many, of its type. Nothing else has control flow as operand.
// 14  What a loop carries is not written; nor is, in its body, what it begins with.
// 15  What is measured is a 0-d i64, and its symbol a measured one that nothing measures twice. No type depends on
//     the symbol before it is measured, or after the block in which it is.
#include "graph/verify.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "graph/layout.h"
#include "graph/text.h"

namespace framejit::graph {

namespace {

struct Violation {
  int invariant;
  ValueId node;
  std::string detail;
};

bool may_be_equal(const Dim& a, const Dim& b) {
  if (a.is_const() && b.is_const()) return a.value() == b.value();
  const std::optional<Dim> d = difference(a, b);
  return !d || !d->is_const() || d->value() == 0;
}

bool may_be_equal(const Dims& a, const Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Dim& x, const Dim& y) { return may_be_equal(x, y); });
}

bool is_empty(const Dims& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return d == Dim(0); });
}

/// Lowest and highest byte offset of an element, and the bytes of the last one; both dims constant.
std::pair<int64_t, int64_t> extent(const Type& t) {
  Dim low = 0, high = size_of(t.dtype);
  for (int i = 0; i < t.rank(); ++i) {
    const Dim last = (t.shape[i] - 1) * t.strides[i];
    Dim& end = last.value() < 0 ? low : high;
    end = end + last;
  }
  return {low.value(), high.value()};
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), defined_(graph.value_count(), false), block_of_(graph.value_count(), nullptr) {}

  std::optional<Violation> run() {
    for (std::size_t i = 0; i < graph_.params().size() && !found_; ++i) {
      try {
        param(graph_.params()[i], i);
      } catch (const DimOverflow& overflow) {
        report(6, graph_.params()[i], overflow.what());
      }
    }
    block(graph_.body());
    return found_;
  }

 private:
  void block(const Block& b) {
    const Block* const around = std::exchange(block_, &b);
    for (ValueId v : b.nodes) {
      if (found_) return;
      try {
        node(v);
      } catch (const DimOverflow& overflow) {
        report(6, v, overflow.what());
      }
    }
    for (ValueId v : b.results) {
      if (found_) return;
      if (!is_defined(v)) report(11, kNoValue, "a result is not defined");
      else if (graph_.node(v).op == Op::Write || is_control(graph_.node(v).op)) report(11, v, "a write is a result");
    }
    block_ = around;
  }

  /// What is defined within is not visible behind.
  void inner(const Block& b) {
    for (ValueId v : b.params) {
      if (!define(v)) return;
      const Node& n = graph_.node(v);
      if (n.op != Op::Carried || !n.attrs.empty()) return report(1, v, "is not what a block carries");
      shape_and_strides(v, n.type);
      fresh(v, n.type);
    }
    const std::size_t known = measured_.size();
    block(b);
    if (found_) return;
    measured_.resize(known);
    for (ValueId v : b.params) defined_[index(v)] = false;
    for (ValueId v : b.nodes) defined_[index(v)] = false;
  }

  bool is_condition(ValueId v) const {
    const Type& t = graph_.type(v);
    return t.dtype == DType::Bool && t.rank() == 0;
  }

  bool same_type(ValueId a, ValueId b) const {
    const Type &x = graph_.type(a), &y = graph_.type(b);
    return x.dtype == y.dtype && may_be_equal(x.shape, y.shape) && may_be_equal(x.strides, y.strides);
  }

  void control(ValueId v, const Node& n) {
    const std::size_t expected = n.op == Op::If ? 2 : n.op == Op::Loop ? 1 : 0;
    if (n.blocks.size() != expected) return report(3, v, "blocks");
    if (n.type.dtype != DType::Bool || n.type.rank() != 0 || n.type.is_view()) return report(12, v, "has a type");
    if (n.op == Op::Measure) return measure(v, n);
    if (n.op != Op::Loop && !is_condition(n.inputs[0])) return report(12, v, "the condition is no bool");
    for (const std::unique_ptr<Block>& b : n.blocks) inner(*b);
    if (found_ || n.op == Op::Expect) return;
    const Block& first = *n.blocks[0];
    if (n.op == Op::If) {
      const Block& second = *n.blocks[1];
      if (!first.params.empty() || !second.params.empty()) return report(12, v, "a side carries nothing");
      if (!std::equal(first.results.begin(), first.results.end(), second.results.begin(), second.results.end(),
                      [&](ValueId a, ValueId b) { return same_type(a, b); }))
        report(12, v, "the sides give different types");
      return;
    }
    if (first.params.size() != n.inputs.size() || first.results.size() < n.inputs.size() + 1 ||
        !is_condition(first.results[0]))
      return report(12, v, "carried values, or the condition");
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      if (!same_type(n.inputs[i], first.params[i]) || !same_type(first.results[i + 1], first.params[i]))
        return report(12, v, "a carried value changes its type");
    for (ValueId root : written_roots(graph_, v))
      for (ValueId input : n.inputs)
        if (graph_.root(input) == root) return report(14, v, "the body writes what the loop begins with");
  }

  void measure(ValueId v, const Node& n) {
    const Type& count = graph_.type(n.inputs[0]);
    const AttrValue *dim = n.find(AttrKey::Dim), *most = n.find(AttrKey::Most);
    if (n.attrs.size() != 2 || !dim || !most || !std::holds_alternative<Dim>(*dim) ||
        !std::holds_alternative<Dim>(*most))
      return report(4, v, "a measure has a dimension, and what is the most");
    std::vector<SymbolId> symbol;
    n.dim().collect_symbols(symbol);
    symbols(v, n.most());
    if (count.dtype != DType::I64 || count.rank() != 0 || symbol.size() != 1 || !(n.dim() == Dim::symbol(symbol[0])) ||
        !graph_.shapes().is_measured(n.dim()))
      return report(15, v, "what is measured");
    if (!ever_measured_.insert(symbol[0]).second) report(15, v, n.dim().str() + " is measured twice");
    measured_.push_back(symbol[0]);
  }

  void output(ValueId v, const Node& n) {
    const Node& from = graph_.node(n.inputs[0]);
    if (from.op != Op::If && from.op != Op::Loop) return report(13, v, "of something else");
    const std::size_t at = static_cast<std::size_t>(n.index()) + (from.op == Op::Loop ? 1 : 0);
    if (n.index() < 0 || at >= from.blocks[0]->results.size() || !same_type(v, from.blocks[0]->results[at]))
      report(13, v, "number or type");
  }

  void report(int invariant, ValueId v, std::string detail) {
    if (!found_) found_ = {invariant, v, std::move(detail)};
  }

  bool is_defined(ValueId v) const { return index(v) < defined_.size() && defined_[index(v)]; }

  bool define(ValueId v) {
    if (index(v) >= defined_.size()) {
      report(1, kNoValue, "a value that does not exist");
      return false;
    }
    if (defined_[index(v)] || block_of_[index(v)] != nullptr) report(1, v, "is in the graph twice");
    defined_[index(v)] = true;
    block_of_[index(v)] = block_ ? block_ : &graph_.body();
    return !found_;
  }

  void param(ValueId v, std::size_t position) {
    if (!define(v)) return;
    const Node& n = graph_.node(v);
    const AttrValue* number = n.find(AttrKey::Index);
    if (n.op != Op::Param || number == nullptr || *number != AttrValue(static_cast<int64_t>(position)))
      return report(1, v, "is no param, or not with its position as index");
    shape_and_strides(v, n.type);
    if (n.type.is_view()) report(8, v, "a param owns its bytes");
  }

  void node(ValueId v) {
    if (index(v) < defined_.size() && graph_.node(v).op == Op::Param) return report(1, v, "a param is among the nodes");
    if (index(v) >= defined_.size() || defined_[index(v)]) {
      define(v);
      return;
    }
    const Node& n = graph_.node(v);
    for (ValueId input : n.inputs) {
      if (!is_defined(input)) return report(2, v, "an operand is not defined before");
      if (graph_.node(input).op == Op::Write) return report(2, v, "an operand is a write");
      if (is_control(graph_.node(input).op) && n.op != Op::Output) return report(13, v, "an operand is control flow");
    }
    define(v);
    if (!takes_operands(n.op, n.inputs.size())) return report(3, v, "number of operands");
    if (is_control(n.op)) return control(v, n);
    if (!n.blocks.empty()) return report(3, v, "blocks");
    attributes(v, n);
    if (n.op == Op::Output) {
      if (!found_) output(v, n);
    } else {
      dtypes(v, n);
    }
    shape_and_strides(v, n.type);
    if (found_) return;
    result_shape(v, n);
    if (def(n.op).cls == OpClass::View || def(n.op).cls == OpClass::Write) shared(v, n);
    else fresh(v, n.type);
    if (n.op == Op::Write && !found_) write(v, n);
  }

  void attributes(ValueId v, const Node& n) {
    const bool reduction = def(n.op).cls == OpClass::Reduction;
    const bool has_index = n.op == Op::LibraryCall || n.op == Op::Output;
    const bool has_attribute = reduction || has_index || n.op == Op::Convolution || n.op == Op::ConvolutionWeights ||
                               n.op == Op::Attention || n.op == Op::AttentionGradients || n.op == Op::Constant ||
                               n.op == Op::DimValue;
    const std::size_t expected = has_attribute ? 1 : 0;
    if (n.attrs.size() != expected) return report(4, v, "number of attributes");
    if (expected == 0) return;
    const auto& [key, value] = n.attrs[0];
    if (n.op == Op::Constant) {
      if (key != AttrKey::Value || !std::holds_alternative<Scalar>(value)) report(4, v, "a constant has a value");
    } else if (n.op == Op::DimValue) {
      if (key != AttrKey::Dim || !std::holds_alternative<Dim>(value)) return report(4, v, "a dim has a dimension");
      symbols(v, std::get<Dim>(value));
    } else if (n.op == Op::Convolution || n.op == Op::ConvolutionWeights) {
      const auto* numbers = std::get_if<std::vector<int64_t>>(&value);
      if (key != AttrKey::Window || numbers == nullptr || !Window::from(*numbers))
        report(4, v, "a convolution has a window");
    } else if (has_index || n.op == Op::Attention || n.op == Op::AttentionGradients) {
      if (key != AttrKey::Index) return report(4, v, "a library call, an output and attention have an index");
      if (!has_index && (n.index() < 0 || n.index() > static_cast<int64_t>(Causal::FromLast)))
        report(4, v, "which keys a query sees");
    } else {
      const auto* axes = std::get_if<std::vector<int64_t>>(&value);
      if (key != AttrKey::Axes || axes == nullptr) return report(4, v, "a reduction has axes");
      const int64_t rank = graph_.type(n.inputs[0]).rank();
      for (std::size_t i = 0; i < axes->size(); ++i)
        if ((*axes)[i] < 0 || (*axes)[i] >= rank || (i && (*axes)[i] <= (*axes)[i - 1]))
          return report(4, v, "axes are sorted, distinct and in range");
    }
  }

  void dtypes(ValueId v, const Node& n) {
    if (n.op == Op::LibraryCall) return;
    if (n.inputs.empty()) {
      const bool is_dim = n.op == Op::DimValue && n.type.dtype != DType::I64;
      if (is_dim || (n.op == Op::Iota && !is_int(n.type.dtype) && !is_float(n.type.dtype)))
        report(5, v, "dtype of the result");
      return;
    }
    const bool attention =
        (n.op == Op::Attention || n.op == Op::AttentionGradients) && AttentionOperands::fits(n.op, n.inputs.size());
    std::size_t state = n.inputs.size();  // none
    if (attention) state = AttentionOperands(n.op, n.inputs.size()).state.value_or(state);
    if (n.op == Op::Put) return put_dtypes(v, n);
    const DType operand = graph_.type(n.inputs.back()).dtype;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      const bool is_mask = (n.op == Op::Where || n.op == Op::Compress || n.op == Op::Expand) && i == 0;
      const DType expected = is_mask ? DType::Bool : i == state ? DType::U64 : operand;
      if (graph_.type(n.inputs[i]).dtype != expected) return report(5, v, "operands differ in dtype");
    }
    if (!takes(n.op, operand)) return report(5, v, "the operator does not take " + std::string(name_of(operand)));
    const std::optional<DType> result = result_dtype(n.op, operand);
    if (n.op == Op::View) return;  // of bytes
    if (result && n.type.dtype != *result) report(5, v, "dtype of the result");
  }

  void put_dtypes(ValueId v, const Node& n) {
    if (n.inputs.size() < 3) return report(3, v, "an array, values and places");
    const auto dtype = [&](std::size_t i) { return graph_.type(n.inputs[i]).dtype; };
    if (dtype(0) != dtype(1) || dtype(0) != n.type.dtype) return report(5, v, "operands differ in dtype");
    for (std::size_t i = 2; i < n.inputs.size(); ++i)
      if (!is_int(dtype(i)) && !(dtype(i) == DType::Bool && n.inputs.size() == 3))
        return report(5, v, "places are integers, or one mask");
  }

  void put_shape(ValueId v, const Node& n) {
    const Dims &all = graph_.type(n.inputs[0]).shape, &given = graph_.type(n.inputs[1]).shape,
               &first = graph_.type(n.inputs[2]).shape;
    const bool masked = graph_.type(n.inputs[2]).dtype == DType::Bool;
    const std::size_t indexed = masked ? first.size() : n.inputs.size() - 2;
    bool fits = indexed > 0 && indexed <= all.size() && may_be_equal(n.type.shape, all);
    for (std::size_t i = 2; i < n.inputs.size() && !masked; ++i)
      fits = fits && graph_.type(n.inputs[i]).rank() == 1 && may_be_equal(graph_.type(n.inputs[i]).shape, first);
    if (fits && masked) fits = !given.empty() && may_be_equal(first, Dims(all.begin(), all.begin() + indexed));
    if (fits && !given.empty()) {
      Dims wanted{masked ? given[0] : first[0]};
      wanted.insert(wanted.end(), all.begin() + static_cast<std::ptrdiff_t>(indexed), all.end());
      fits = may_be_equal(given, wanted);
    }
    if (!fits) report(7, v, "shapes of an array, values and places");
  }

  void symbols(ValueId v, const Dim& d) {
    if (d.is_const()) return;
    std::vector<SymbolId> used;
    d.collect_symbols(used);
    for (SymbolId s : used)
      if (static_cast<std::size_t>(s) >= graph_.shapes().symbol_count()) report(6, v, "unknown symbol in " + d.str());
      else if (graph_.shapes().is_measured(Dim::symbol(s)) &&
               std::find(measured_.begin(), measured_.end(), s) == measured_.end())
        report(15, v, d.str() + " is not measured here");
  }

  void shape_and_strides(ValueId v, const Type& t) {
    if (t.shape.size() != t.strides.size()) return report(6, v, "a stride for each axis");
    for (const Dim& d : t.shape) {
      if (d.is_const() && d.value() < 0) return report(6, v, "negative dimension");
      symbols(v, d);
    }
    for (const Dim& d : t.strides) symbols(v, d);
    symbols(v, t.offset);
    if (!all_const(t.shape)) return;
    Dim bytes = size_of(t.dtype);
    for (const Dim& d : t.shape) bytes = bytes * max(d, 1);
    const bool fresh = !t.is_view() && graph_.node(v).op != Op::Param;
    if (fresh && bytes.value() > kMostMemory) report(6, v, "more bytes than a process has");
  }

  void result_shape(ValueId v, const Node& n) {
    const Dims& shape = n.type.shape;
    switch (def(n.op).cls) {
      case OpClass::Source:
        if (n.op == Op::Output || n.op == Op::Carried) return;
        if (n.op == Op::Iota ? shape.size() != 1 : n.op != Op::Full && n.op != Op::Empty && !shape.empty())
          report(7, v, "rank");
        if (n.op == Op::Full && graph_.type(n.inputs[0]).rank() != 0) report(7, v, "full of a 0-d value");
        return;
      case OpClass::Elementwise: return elementwise_shape(v, n);
      case OpClass::Cast:
      case OpClass::Copy:
        if (!may_be_equal(shape, graph_.type(n.inputs[0]).shape)) report(7, v, "shape of the operand");
        return;
      case OpClass::Reduction: return reduction_shape(v, n);
      case OpClass::Contraction:
        if (n.op == Op::MatMul) return contraction_shape(v, n);
        if (n.op == Op::Convolution) return convolution_shape(v, n, graph_.type(n.inputs[1]).shape, n.type.shape);
        if (n.op == Op::ConvolutionWeights)
          return convolution_shape(v, n, n.type.shape, graph_.type(n.inputs[1]).shape);
        return attention_shape(v, n);
      case OpClass::LibraryCall:
        if (n.op == Op::Put) put_shape(v, n);
        return;
      case OpClass::View:
      case OpClass::Control:
      case OpClass::Write: return;
    }
  }

  bool broadcasts(const Dims& from, const Dims& to) const {
    if (from.size() > to.size()) return false;
    const std::size_t missing = to.size() - from.size();
    for (std::size_t i = 0; i < from.size(); ++i)
      if (!(from[i] == Dim(1)) && !may_be_equal(from[i], to[missing + i])) return false;
    return true;
  }

  void elementwise_shape(ValueId v, const Node& n) {
    std::size_t rank = 0;
    for (ValueId input : n.inputs) {
      const Dims& shape = graph_.type(input).shape;
      rank = std::max(rank, shape.size());
      if (!broadcasts(shape, n.type.shape)) return report(7, v, "an operand does not broadcast to the result");
    }
    if (rank != n.type.shape.size()) return report(7, v, "rank");
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const bool given = std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId input) {
        const Dims& shape = graph_.type(input).shape;
        const std::size_t missing = rank - shape.size();
        return axis >= missing && may_be_equal(shape[axis - missing], n.type.shape[axis]);
      });
      if (!given) return report(7, v, "no operand has the length of an axis");
    }
  }

  void reduction_shape(ValueId v, const Node& n) {
    const Dims& operand = graph_.type(n.inputs[0]).shape;
    Dims kept;
    for (std::size_t i = 0; i < operand.size(); ++i)
      if (!std::binary_search(n.axes().begin(), n.axes().end(), static_cast<int64_t>(i))) kept.push_back(operand[i]);
    if (!may_be_equal(kept, n.type.shape)) report(7, v, "the axes that are left");
  }

  void contraction_shape(ValueId v, const Node& n) {
    const Dims &a = graph_.type(n.inputs[0]).shape, &b = graph_.type(n.inputs[1]).shape, &c = n.type.shape;
    if (a.empty() || b.empty()) return report(7, v, "a product of 0-d values");
    const std::size_t batch = std::max(a.size(), b.size()) < 3 ? 0 : std::max(a.size(), b.size()) - 2;
    const bool rank = c.size() == batch + (a.size() > 1) + (b.size() > 1);
    const bool rows = rank && (a.size() < 2 || may_be_equal(c[batch], a[a.size() - 2]));
    const bool columns = rank && (b.size() < 2 || may_be_equal(c.back(), b.back()));
    for (const Dims* factor : {&a, &b}) {
      const std::size_t own = factor->size() < 3 ? 0 : factor->size() - 2;
      const Dims axes(factor->begin(), factor->begin() + static_cast<std::ptrdiff_t>(own));
      if (rank && !broadcasts(axes, {c.begin(), c.begin() + static_cast<std::ptrdiff_t>(batch)}))
        return report(7, v, "batch of a product");
    }
    if (!rows || !columns || !may_be_equal(a.back(), b[b.size() < 2 ? 0 : b.size() - 2]))
      report(7, v, "shape of a product");
  }

  void convolution_shape(ValueId v, const Node& n, const Dims& filter, const Dims& result) {
    const Dims& image = graph_.type(n.inputs[0]).shape;
    const Window window = n.window();
    const std::size_t rank = window.axes.size() + 2;
    if (image.size() != rank || filter.size() != rank || !all_const(filter))
      return report(7, v, "ranks of a convolution");
    const bool channels =
        filter[0].value() % window.groups == 0 && may_be_equal(image[1], filter[1] * Dim(window.groups));
    if (std::any_of(filter.begin() + 2, filter.end(), [](const Dim& size) { return size.value() < 1; }))
      return report(7, v, "an empty window");
    const Dim bytes = product(window.padded(image)) * size_of(n.type.dtype);
    if (bytes.is_const() && bytes.value() > kMostMemory) return report(7, v, "the zeros around an image");
    Dims expected = {image[0], filter[0]};
    for (std::size_t i = 2; i < rank; ++i) expected.push_back(window.axes[i - 2].places(image[i], filter[i].value()));
    if (!channels || !may_be_equal(result, expected)) report(7, v, "shape of a convolution");
  }

  void attention_shape(ValueId v, const Node& n) {
    if (!AttentionOperands::fits(n.op, n.inputs.size())) return report(3, v, "number of operands");
    const AttentionOperands at(n.op, n.inputs.size());
    const auto shape = [&](std::size_t i) -> const Dims& { return graph_.type(n.inputs[i]).shape; };
    const Dims &q = shape(0), &k = shape(1), &w = shape(2);
    if (q.size() != 4 || k.size() != 4 || w.size() != 4 || shape(3) != Dims{1} || !q[1].is_const() || !k[1].is_const())
      return report(7, v, "ranks of attention");
    const bool heads = k[1].value() > 0 && q[1].value() % k[1].value() == 0;
    const Dims result = {q[0], q[1], q[2], w[3]};
    bool fits =
        heads && may_be_equal(Dims{q[0], q[3], k[1], k[2]}, Dims{k[0], k[3], w[1], w[2]}) && may_be_equal(k[0], w[0]);
    fits = fits && (n.op == Op::Attention ? may_be_equal(n.type.shape, result)
                                          : may_be_equal(shape(*at.g), result) && may_be_equal(shape(*at.y), result) &&
                                                n.type.rank() == 1 &&
                                                may_be_equal(n.type.shape[0], product(q) + product(k) + product(w)));
    if (!fits) return report(7, v, "shape of attention");
    if (at.mask && !broadcasts(shape(*at.mask), {q[0], q[1], q[2], k[2]})) return report(7, v, "mask of attention");
    if (at.state && (shape(*at.probability) != Dims{1} || shape(*at.state) != Dims{1}))
      report(7, v, "what attention drops");
  }

  void fresh(ValueId v, const Type& t) {
    if (t.is_view()) return report(8, v, "is a view but the operator gives fresh memory");
    if (found_ || !all_const(t.shape) || !all_const(t.strides) || is_empty(t.shape)) return;
    std::vector<std::size_t> axes(t.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::erase_if(axes, [&](std::size_t i) { return t.shape[i] == Dim(1); });
    std::sort(axes.begin(), axes.end(),
              [&](std::size_t a, std::size_t b) { return t.strides[a].value() < t.strides[b].value(); });
    int64_t stride = size_of(t.dtype);
    for (std::size_t i : axes) {
      if (t.strides[i].value() != stride) return report(8, v, "strides of memory that is not packed");
      stride *= t.shape[i].value();
    }
  }

  void shared(ValueId v, const Node& n) {
    const Type& t = n.type;
    if (!t.is_view() || t.root != graph_.root(n.inputs[0])) return report(9, v, "root of the first operand");
    const Op owner = graph_.node(t.root).op;
    if (graph_.type(t.root).is_view() || owner == Op::Constant || owner == Op::DimValue)
      return report(9, v, "the root has no bytes of its own");
    const Type& root = graph_.type(t.root);
    const bool known = t.offset.is_const() && all_const(t.shape) && all_const(t.strides) && all_const(root.shape) &&
                       all_const(root.strides);
    if (!known || is_empty(t.shape)) return;
    const auto [low, high] = extent(t);
    const auto [first, end] = extent(root);
    if (is_empty(root.shape) || (t.offset + low).value() < first || (t.offset + high).value() > end)
      report(9, v, "elements outside of the root");
  }

  void write(ValueId v, const Node& n) {
    const Type &dst = graph_.type(n.inputs[0]), &t = n.type;
    if (t.shape != dst.shape || t.strides != dst.strides || !(t.offset == dst.offset))
      return report(10, v, "type of the destination");
    for (int i = 0; i < dst.rank() && !is_empty(dst.shape); ++i)  // an empty array has strides of 0
      if (dst.strides[i] == Dim(0) && dst.shape[i].is_const() && dst.shape[i].value() > 1)
        return report(10, v, "the destination repeats elements");
    if (graph_.node(t.root).op == Op::Carried) return report(14, v, "the destination is carried by a loop");
    const Type& value = graph_.type(n.inputs[1]);
    if (!broadcasts(value.shape, dst.shape)) report(10, v, "the value does not broadcast");
    const bool same_root = graph_.root(n.inputs[0]) == graph_.root(n.inputs[1]);
    if (same_root && !same_place(dst, value)) report(10, v, "the value is another view of the destination's root");
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::vector<const Block*> block_of_;  // null: not seen
  const Block* block_ = nullptr;
  std::vector<SymbolId> measured_;  // those whose value is known here
  std::set<SymbolId> ever_measured_;
  std::optional<Violation> found_;
};

}  // namespace

std::optional<std::string> verify(const Graph& graph) {
  const std::optional<Violation> found = Verifier(graph).run();
  if (!found) return std::nullopt;
  std::string text = "invariant " + std::to_string(found->invariant);
  if (found->node != kNoValue) {
    const std::string name = value_names(graph)[index(found->node)];
    text += ", " + (name.empty() ? "a value outside of the body" : name) + " (" +
            std::string(name_of(graph.node(found->node).op)) + ")";
  }
  return text + ": " + found->detail + "\n" + print(graph);
}

}  // namespace framejit::graph
