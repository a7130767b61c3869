// Gradients of graphs: each row of the operator table against central differences of the reference interpreter in
// float64, to the second order; memory: views, writes, copies of what is overwritten.
#include "graph/passes/grad.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "graph/interpret.h"
#include "graph/mask_operators.h"
#include "graph/network_operators.h"
#include "graph/scalar_cast.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace framejit::graph {
namespace {

using Shape = std::vector<int64_t>;
using Data = std::vector<double>;
using Builder = std::function<ValueId(GraphBuilder&, const std::vector<ValueId>&)>;

Dims dims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

struct Case {
  Builder build;
  std::vector<Shape> shapes;
  std::vector<Data> data;
  std::vector<std::size_t> wrt;
  int order = 2;
};

int64_t count(const Shape& shape) {
  int64_t out = 1;
  for (int64_t n : shape) out *= n;
  return out;
}

ValueId weighted_sum(GraphBuilder& b, ValueId v, double first) {
  // Different weights for different elements: ones would hide mistakes.
  const Dims shape = b.graph().type(v).shape;
  const ValueId n = b.iota(DType::F64, b.graph().type(v).size());
  const ValueId start = b.constant(DType::F64, scalar_of(first)), step = b.constant(DType::F64, scalar_of(0.25));
  const std::array<ValueId, 2> scaled = {n, step};
  const ValueId weights = *b.elementwise(Op::Multiply, scaled);
  const std::array<ValueId, 2> moved = {weights, start};
  const std::array<ValueId, 2> both = {v, *b.reshape(*b.elementwise(Op::Add, moved), shape)};
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) axes.push_back(i);
  return *b.reduce(Op::ReduceSum, *b.elementwise(Op::Multiply, both), axes);
}

ValueId one(GraphBuilder& b) { return b.constant(DType::F64, scalar_of(1.0)); }

/// A graph that gives the sum of what the case builds (order 0), of its gradients (order 1) ..., and the gradients of
/// that.
struct Made {
  Graph graph;
  std::vector<ValueId> inputs;
  ValueId sum;
};

std::optional<std::string> make(const Case& c, int order, bool gradients, Made& out) {
  GraphBuilder b(out.graph);
  for (const Shape& shape : c.shapes)
    out.inputs.push_back(b.param(Type{DType::F64, dims(shape), c_strides(DType::F64, dims(shape))}, ""));
  std::vector<ValueId> wrt;
  for (std::size_t at : c.wrt) wrt.push_back(out.inputs[at]);
  ValueId value = c.build(b, out.inputs);
  for (int i = 0;; ++i) {
    out.sum = weighted_sum(b, value, 0.5 + i);
    if (i == order && !gradients) {
      out.graph.set_results({out.sum});
      return std::nullopt;
    }
    GradientRequest request;
    request.wrt = wrt;
    request.outputs = {out.sum};
    request.seeds = {one(b)};
    auto made = append_gradients(b, request);
    if (!made) return made.error().why;
    if (i == order) {
      out.graph.set_results(made->values);
      return std::nullopt;
    }
    ValueId total = graph::kNoValue;
    for (ValueId v : made->values) {
      const ValueId sum = weighted_sum(b, v, 1.5);
      const std::array<ValueId, 2> both = {total == kNoValue ? sum : total, sum};
      total = total == kNoValue ? sum : *b.elementwise(Op::Add, both);
    }
    value = total;
  }
}

std::vector<Data> run(const Graph& graph, std::vector<Data> data, const std::vector<Shape>& shapes) {
  std::vector<ArrayRef> params;
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::vector<int64_t> strides(shapes[i].size());
    int64_t step = 8;
    for (std::size_t k = shapes[i].size(); k-- > 0; step *= shapes[i][k]) strides[k] = step;
    params.push_back({reinterpret_cast<std::byte*>(data[i].data()), shapes[i], strides});
  }
  auto out = interpret(graph, params, {});
  EXPECT_TRUE(out) << out.error();
  std::vector<Data> results;
  for (const InterpretedArray& r : out->results) {
    Data flat;
    std::vector<int64_t> at(r.array.shape.size(), 0);
    for (int64_t n = count(r.array.shape); n-- > 0;) {
      const std::byte* p = r.array.data;
      for (std::size_t k = 0; k < at.size(); ++k) p += at[k] * r.array.strides[k];
      double x;
      std::memcpy(&x, p, sizeof x);
      flat.push_back(x);
      for (std::size_t k = at.size(); k-- > 0;) {
        if (++at[k] < r.array.shape[k]) break;
        at[k] = 0;
      }
    }
    results.push_back(std::move(flat));
  }
  return results;
}

void check(const Case& c, const std::string& name) {
  SCOPED_TRACE(name);
  for (int order = 0; order < c.order; ++order) {
    SCOPED_TRACE("order " + std::to_string(order + 1));
    Made forward, backward;
    ASSERT_EQ(make(c, order, false, forward), std::nullopt);
    ASSERT_EQ(make(c, order, true, backward), std::nullopt);
    const auto violation = verify(backward.graph);
    ASSERT_FALSE(violation) << *violation << print(backward.graph);
    const std::vector<Data> gradients = run(backward.graph, c.data, c.shapes);
    for (std::size_t i = 0; i < c.wrt.size(); ++i) {
      for (std::size_t k = 0; k < c.data[c.wrt[i]].size(); ++k) {
        const double x = c.data[c.wrt[i]][k], h = 1e-5 * std::max(1.0, std::abs(x));
        std::vector<Data> up = c.data, down = c.data;
        up[c.wrt[i]][k] = x + h;
        down[c.wrt[i]][k] = x - h;
        const double difference =
            (run(forward.graph, up, c.shapes)[0][0] - run(forward.graph, down, c.shapes)[0][0]) / (2 * h);
        EXPECT_NEAR(gradients[i][k], difference, 2e-5 * std::max(1.0, std::abs(difference)))
            << "operand " << c.wrt[i] << " element " << k;
      }
    }
  }
}

/// Where an operator is smooth.
std::pair<double, double> range_of(Op op) {
  switch (op) {
    case Op::Log:
    case Op::Log2:
    case Op::Log10:
    case Op::Sqrt:
    case Op::Power:
    case Op::Reciprocal:
    case Op::Cbrt:
    case Op::Divide:
    case Op::Hypot:
    case Op::Xlogy:
    case Op::Remainder:
    case Op::Fmod: return {0.5, 2.4};
    case Op::Arccosh: return {1.2, 3};
    case Op::Logit: return {0.1, 0.9};
    case Op::Arcsin:
    case Op::Arccos:
    case Op::Arctanh:
    case Op::Xlog1py:
    case Op::Log1p: return {-0.8, 0.8};
    default: return {-1.6, 1.7};
  }
}

Data random_data(std::mt19937& random, const Shape& shape, std::pair<double, double> range) {
  std::uniform_real_distribution<double> draw(range.first, range.second);
  Data out;
  for (int64_t i = 0; i < count(shape); ++i) {
    double x = draw(random);
    while (std::abs(x) < 0.05 || std::abs(x - std::round(x)) < 0.02) x = draw(random);  // away from 0 and from steps
    out.push_back(x);
  }
  return out;
}

Builder elementwise(Op op) {
  return [op](GraphBuilder& b, const std::vector<ValueId>& x) { return *b.elementwise(op, x); };
}

/// How to build each operator that is not elementwise; one that is missing here fails the test.
std::map<Op, Case> others() {
  std::map<Op, Case> out;
  for (Op op : {Op::ReduceSum, Op::ReduceProd, Op::ReduceMin, Op::ReduceMax})
    out[op] = {
        [op](GraphBuilder& b, const std::vector<ValueId>& x) { return *b.reduce(op, x[0], {1}); }, {{3, 4}}, {}, {0}};
  out[Op::Cast] = {
      [](GraphBuilder& b, const std::vector<ValueId>& x) { return *b.cast(*b.cast(x[0], DType::F64), DType::F64); },
      {{3, 4}},
      {},
      {0}};
  out[Op::Copy] = {[](GraphBuilder& b, const std::vector<ValueId>& x) { return b.copy(x[0], 'C'); }, {{3, 4}}, {}, {0}};
  out[Op::Full] = {[](GraphBuilder& b, const std::vector<ValueId>& x) { return b.full(x[0], {3, 2}); }, {{}}, {}, {0}};
  out[Op::MatMul] = {[](GraphBuilder& b, const std::vector<ValueId>& x) { return *b.matmul(x[0], x[1]); },
                     {{2, 3, 4}, {4, 5}},
                     {},
                     {0, 1}};
  const auto two_of_three = [](GraphBuilder& b) {
    const std::array<ValueId, 2> both = {b.iota(DType::F64, 3), b.constant(DType::F64, scalar_of(1.5))};
    return *b.elementwise(Op::Less, both);
  };
  out[Op::Compress] = {
      [=](GraphBuilder& b, const std::vector<ValueId>& x) { return *append_compress(b, two_of_three(b), x[0], 2); },
      {{3, 4}},
      {},
      {0}};
  out[Op::Expand] = {
      [=](GraphBuilder& b, const std::vector<ValueId>& x) { return append_expand(b, two_of_three(b), x[0]); },
      {{2, 4}},
      {},
      {0}};
  Window window;
  window.axes = {{2, 1, 2, 1}, {1, 0, 1, 2}};
  window.groups = 2;
  out[Op::Convolution] = {
      [window](GraphBuilder& b, const std::vector<ValueId>& x) { return *append_convolution(b, x[0], x[1], window); },
      {{2, 4, 5, 6}, {6, 2, 3, 2}},
      {},
      {0, 1}};
  out[Op::ConvolutionWeights] = {[window](GraphBuilder& b, const std::vector<ValueId>& x) {
                                   return *append_convolution_weights(b, x[0], x[1], window, {6, 2, 3, 2});
                                 },
                                 {{2, 4, 5, 6}, {2, 6, 3, 5}},
                                 {},
                                 {0, 1}};
  return out;
}

TEST(Grad, EachOperatorOfTheTableAgainstDifferences) {
  std::mt19937 random(5);
  std::map<Op, Case> special = others();
  for (const OpDef& row : kOps) {
    SCOPED_TRACE(row.name);
    const bool none = !why_no_gradient(row.op).empty();
    // Attention is of float32 alone; library calls and some functions are the library's: tests/tensor/test_grad_*.py.
    // Conjugates: tests/grad/test_complex.py.
    constexpr Op kElsewhere[] = {Op::Conjugate,   Op::Attention, Op::AttentionGradients,
                                 Op::LibraryCall, Op::Gamma,     Op::Gammaln};
    if (std::find(std::begin(kElsewhere), std::end(kElsewhere), row.op) != std::end(kElsewhere)) {
      EXPECT_FALSE(none);
      continue;
    }
    if (row.cls != OpClass::Elementwise) {
      if (special.count(row.op) == 0) {
        EXPECT_TRUE(none) << "an operator without a case";
        continue;
      }
      Case c = special[row.op];
      for (const Shape& shape : c.shapes) c.data.push_back(random_data(random, shape, {-1.6, 1.7}));
      check(c, std::string(row.name));
      continue;
    }
    if (!takes(row.op, DType::F64)) {
      EXPECT_TRUE(none);
      continue;
    }
    const auto result = result_dtype(row.op, DType::F64);
    Case c;
    c.build = elementwise(row.op);
    c.shapes = {{3, 4}};
    c.wrt = {0};
    if (row.operands >= 2) {
      c.shapes.push_back({4});  // broadcast
      c.wrt.push_back(1);
    }
    if (row.operands == 3) c.shapes.push_back({3, 1}), c.wrt.push_back(2);
    for (const Shape& shape : c.shapes) c.data.push_back(random_data(random, shape, range_of(row.op)));
    if (row.op == Op::Heaviside || row.op == Op::Nextafter) c.wrt = {0};
    if (row.op == Op::Copysign) c.wrt = {0};
    if (row.op == Op::Where) {
      c.shapes = {{3, 4}, {4}, {3, 1}};
      c.data.clear();
      for (const Shape& shape : c.shapes) c.data.push_back(random_data(random, shape, {-1, 1}));
      c.wrt = {1, 2};
      c.build = [](GraphBuilder& b, const std::vector<ValueId>& x) {
        const std::array<ValueId, 2> signs = {x[0], b.constant(DType::F64, scalar_of(0.0))};
        const std::array<ValueId, 3> all = {*b.elementwise(Op::Less, signs), x[1], x[2]};
        return *b.elementwise(Op::Where, all);
      };
    }
    if (result != DType::F64) {
      EXPECT_TRUE(none);
      continue;
    }
    check(c, std::string(row.name));
  }
}

TEST(Grad, ProductsOfVectorsAndBatches) {
  std::mt19937 random(6);
  const std::vector<std::pair<Shape, Shape>> pairs = {{{3}, {3}},
                                                      {{3}, {3, 2}},
                                                      {{2, 3}, {3}},
                                                      {{3}, {4, 3, 2}},
                                                      {{4, 2, 3}, {3}},
                                                      {{1, 2, 3}, {5, 3, 2}},
                                                      {{2, 1, 2, 3}, {4, 3, 1}}};
  for (const auto& [a, b] : pairs) {
    Case c = others()[Op::MatMul];
    c.shapes = {a, b};
    for (const Shape& shape : c.shapes) c.data.push_back(random_data(random, shape, {-1, 1}));
    check(c, "matmul");
  }
}

TEST(Grad, Convolutions) {
  std::mt19937 random(7);
  struct Row {
    Shape image, filter;
    Window window;
  };
  const std::vector<Row> rows = {
      {{1, 2, 7}, {3, 2, 3}, {1, {{1, 0, 0, 1}}}},
      {{2, 3, 8}, {3, 1, 3}, {3, {{3, 2, 1, 2}}}},
      {{1, 2, 6}, {2, 2, 1}, {1, {{2, 3, 3, 1}}}},    // windows in the padding alone
      {{1, 2, 40}, {2, 2, 3}, {1, {{18, 1, 1, 1}}}},  // steps larger than the window, and many
      {{2, 2, 9, 11}, {2, 2, 5, 4}, {1, {{2, 2, 1, 1}, {3, 0, 2, 1}}}},
      {{2, 2, 7, 6}, {2, 2, 2, 1}, {1, {{3, 0, 0, 1}, {2, 1, 4, 1}}}},
      {{2, 2, 5, 4}, {3, 2, 2, 3}, {1, {{2, 1, 1, 1}, {3, 2, 0, 1}}}},
      {{1, 2, 4, 3, 4}, {2, 1, 2, 2, 2}, {2, {{1, 1, 0, 1}, {2, 0, 1, 1}, {1, 0, 0, 2}}}},
  };
  for (const Row& row : rows) {
    Case c;
    c.build = [&](GraphBuilder& b, const std::vector<ValueId>& x) {
      return *append_convolution(b, x[0], x[1], row.window);
    };
    c.shapes = {row.image, row.filter};
    c.wrt = {0, 1};
    for (const Shape& shape : c.shapes) c.data.push_back(random_data(random, shape, {-1, 1}));
    check(c, "convolution");
  }
}

TEST(Grad, AProductWithAZero) {
  Case c = others()[Op::ReduceProd];
  c.data = {{1.5, 0, 2, 3, 1, 2, 3, 4, 0, 2, 0, 1}};
  c.order = 1;
  check(c, "prod");
}

TEST(Grad, ExtremesThatAreEqualShare) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.param(Type{DType::F64, {4}, {8}}, "x");
  GradientRequest request;
  request.outputs = {*b.reduce(Op::ReduceMax, x, {0})};
  request.wrt = {x};
  request.seeds = {one(b)};
  graph.set_results(append_gradients(b, request)->values);
  EXPECT_EQ(run(graph, {{2, 5, 5, 1}}, {{4}}), (std::vector<Data>{{0, 0.5, 0.5, 0}}));
}

TEST(Grad, Memory) {
  const auto times = [](GraphBuilder& b, ValueId x, ValueId y) {
    const std::array<ValueId, 2> both = {x, y};
    return *b.elementwise(Op::Multiply, both);
  };
  std::mt19937 random(8);
  const auto check_of = [&](const char* name, Shape shape, Builder build) {
    Case c;
    c.build = std::move(build);
    c.shapes = {shape};
    c.wrt = {0};
    c.data = {random_data(random, shape, {0.5, 1.5})};
    check(c, name);
  };
  check_of("a part is overwritten, and what was there was used", {6},
           [&](GraphBuilder& b, const std::vector<ValueId>& x) {
             const ValueId y = times(b, x[0], x[0]);
             const ValueId square = times(b, y, y);
             (void)b.write(b.slice(y, 0, 1, 3, 1), b.slice(square, 0, 3, 3, 1));
             return times(b, times(b, y, square), y);
           });
  check_of("the argument itself is written", {6}, [&](GraphBuilder& b, const std::vector<ValueId>& x) {
    const ValueId before = times(b, x[0], x[0]);
    (void)b.write(b.slice(x[0], 0, 0, 3, 2), b.slice(before, 0, 5, 3, -1));
    return times(b, x[0], before);
  });
  check_of("a view of a view, turned, with steps and repeats", {4, 6},
           [&](GraphBuilder& b, const std::vector<ValueId>& x) {
             const std::array<int, 2> turn = {1, 0};
             const ValueId part = b.slice(b.transpose(x[0], turn), 0, 5, 3, -2);
             const ValueId column = b.expand_dims(b.select(part, 1, 2), 1);
             return times(b, part, *b.broadcast_to(column, {3, 4}));
           });
  check_of("windows that overlap", {7}, [&](GraphBuilder& b, const std::vector<ValueId>& x) {
    const ValueId y = times(b, x[0], x[0]);
    const ValueId windows = b.view(y, {5, 3}, {8, 8}, 0);
    return times(b, windows, windows);
  });
  check_of("a loop of updates", {5}, [&](GraphBuilder& b, const std::vector<ValueId>& x) {
    const ValueId y = b.copy(x[0], 'C');
    for (int i = 0; i < 4; ++i)
      (void)b.write(b.select(y, 0, i + 1), times(b, b.select(y, 0, i), b.select(y, 0, i + 1)));
    return y;
  });
  check_of("a reshape that copies", {3, 4}, [&](GraphBuilder& b, const std::vector<ValueId>& x) {
    const std::array<int, 2> turn = {1, 0};
    const ValueId flat = *b.reshape(b.transpose(x[0], turn), {12});
    return times(b, flat, flat);
  });
}

TEST(Grad, AnArgumentWithGaps) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.param(Type{DType::F64, {3}, {-16}}, "x");
  const std::array<ValueId, 2> both = {b.slice(x, 0, 1, 2, 1), b.slice(x, 0, 0, 2, 1)};
  const ValueId y = *b.elementwise(Op::Multiply, both);
  GradientRequest request;
  request.outputs = {*b.reduce(Op::ReduceSum, y, {0})};
  request.wrt = {x};
  request.seeds = {one(b)};
  graph.set_results(append_gradients(b, request)->values);
  ASSERT_FALSE(verify(graph));
  Data memory = {5, 0, 3, 0, 2};
  const ArrayRef given{reinterpret_cast<std::byte*>(memory.data() + 4), {3}, {-16}};
  auto out = interpret(graph, std::vector<ArrayRef>{given}, {});
  const ArrayRef& r = out->results[0].array;
  Data found;
  for (int i = 0; i < 3; ++i) {
    double v;
    std::memcpy(&v, r.data + i * r.strides[0], sizeof v);
    found.push_back(v);
  }
  EXPECT_EQ(found, (Data{3, 7, 3}));
}

TEST(Grad, WhatIsWatchedAndWhatStops) {
  auto parsed = parse(R"(graph @f(%x: f64[2]) {
  %1 = view %x : f64[2] root=%x offset=0
  %2 = copy %1 : f64[2]
  %3 = multiply %1, %x : f64[2]
  %4 = multiply %3, %2 : f64[2]
  return %4
})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  Graph& graph = *parsed;
  GraphBuilder b(graph);
  const ValueId ones = b.full(one(b), {2});
  GradientRequest request;
  request.outputs = {graph.results()[0]};
  request.seeds = {ones};
  request.wrt = {graph.body().nodes[0]};
  request.stops = {graph.body().nodes[1]};
  graph.set_results(append_gradients(b, request)->values);
  EXPECT_EQ(run(graph, {{2, 3}}, {{2}}), (std::vector<Data>{{4, 9}})) << "x by itself and the copy are constants";
}

TEST(Grad, WhyThereIsNone) {
  Graph graph;
  GraphBuilder b(graph);
  const ValueId x = b.param(Type{DType::F64, {3}, {8}}, "x");
  GradientRequest request;
  request.outputs = {b.library_call(1, {x}, DType::F64, {3})};
  request.seeds = {b.full(one(b), {3})};
  request.wrt = {x};
  auto made = append_gradients(b, request);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().why, "a library call");
  EXPECT_EQ(made.error().node, request.outputs[0]);
}

}  // namespace
}  // namespace framejit::graph
