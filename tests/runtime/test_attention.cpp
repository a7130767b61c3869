// Attention against the interpreter, which sums in float64; threads to the bit.
#include <cmath>
#include <cstring>

#include "products.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

struct Case {
  int64_t batch, heads, key_heads, queries, keys, depth, width;
  int causal = 0;
  const char* mask = "";     // its shape
  bool by_length = false;    // q, k and v lie as [batch, length, heads, depth]
  const char* dropped = "";  // the probability
  bool backward = false;

  int64_t results() const {
    return backward ? batch * (heads * queries * depth + key_heads * keys * (depth + width))
                    : batch * heads * queries * width;
  }
};

std::string dims(std::initializer_list<int64_t> shape) {
  std::string out = "f32[";
  for (int64_t d : shape) out += (out.back() == '[' ? "" : ", ") + std::to_string(d);
  return out + "]";
}

std::string text(const Case& c) {
  const auto operand = [&](int64_t heads, int64_t length, int64_t depth) {
    std::string out = dims({c.batch, heads, length, depth});
    if (c.by_length)
      out += " strides=[" + std::to_string(length * heads * depth * 4) + ", " + std::to_string(depth * 4) + ", " +
             std::to_string(heads * depth * 4) + ", 4]";
    return out;
  };
  const std::string mask = c.mask, dropped = c.dropped;
  const std::string more =
      std::string(mask.empty() ? "" : ", %m: f32" + mask) + (dropped.empty() ? "" : ", %s: u64[1]");
  const std::string tail = std::string(mask.empty() ? "" : ", %m") + (dropped.empty() ? "" : ", %s, %9");
  const std::string index = " {index=" + std::to_string(c.causal) + "} : ";
  const std::string numbers =
      (dropped.empty() ? "" : "  %8 = constant {value=" + dropped + "} : f32[]\n  %9 = full %8 : f32[1]\n") +
      std::string("  %10 = constant {value=0.25} : f32[]\n  %11 = full %10 : f32[1]\n");
  const std::string result = dims({c.batch, c.heads, c.queries, c.width});
  if (c.backward) {
    // The result comes from the operator itself: the cotangents take it as it is.
    const std::string operands = "%q, %k, %v, %11";
    return "graph @f(%q: " + operand(c.heads, c.queries, c.depth) + ", %k: " + operand(c.key_heads, c.keys, c.depth) +
           ", %v: " + operand(c.key_heads, c.keys, c.width) + ", %g: " + operand(c.heads, c.queries, c.width) + more +
           ") {\n" + numbers + "  %12 = attention " + operands + tail + index + result +
           "\n  %13 = attention_gradients " + operands + ", %g, %12" + tail + index + "f32[" +
           std::to_string(c.results()) + "]\n  return %13\n}";
  }
  return "graph @f(%q: " + operand(c.heads, c.queries, c.depth) + ", %k: " + operand(c.key_heads, c.keys, c.depth) +
         ", %v: " + operand(c.key_heads, c.keys, c.width) + more + ") {\n" + numbers +
         "  %12 = attention %q, %k, %v, %11" + tail + index + result + "\n  return %12\n}";
}

const Case kCases[] = {
    {1, 1, 1, 1, 1, 1, 1},
    {2, 3, 3, 5, 7, 8, 9},
    {1, 2, 1, 20, 33, 16, 16, 1},
    {1, 2, 1, 20, 33, 16, 16, 2},
    {1, 1, 1, 33, 20, 16, 16, 1},
    {1, 1, 1, 33, 20, 16, 16, 2},  // the first queries see nothing
    {2, 4, 2, 130, 300, 24, 40, 0, "[130, 300]"},
    {2, 4, 2, 130, 300, 24, 40, 1, "[2, 1, 1, 300]", true},
    {1, 4, 1, 257, 513, 64, 64, 2, "", true},
    {2, 2, 2, 9, 600, 64, 64, 0, "[2, 2, 9, 1]"},
    {1, 8, 2, 1, 700, 64, 64, 2},  // a token after others
    {1, 2, 2, 300, 3, 5, 130},
    {2, 2, 2, 0, 3, 5, 4},
    {1, 1, 1, 3, 5, 4, 4, 0, "", false, "0.5"},
    {2, 4, 2, 130, 300, 24, 40, 1, "[2, 1, 1, 300]", true, "0.25"},
    {1, 2, 1, 33, 20, 16, 16, 2, "", false, "0.1"},
    {1, 2, 2, 9, 600, 64, 64, 0, "[9, 600]", false, "1"},
    {1, 2, 2, 9, 17, 8, 8, 0, "", false, "0"},
};

std::vector<std::byte> attended(const Case& c, const Graph& graph, const std::vector<ParamMemory>& params,
                                const codegen::Cpu& cpu) {
  codegen::LowerOptions options;
  options.cpu = cpu;
  auto program = codegen::lower(graph, fused(graph), options);
  EXPECT_TRUE(program.has_value()) << program.error();
  auto plan = Plan::create(std::move(*program));
  EXPECT_TRUE(plan.has_value());
  const Guarded out(c.results() * 4);
  std::vector<char*> pointers;
  for (const ParamMemory& p : params)
    pointers.push_back(reinterpret_cast<char*>(const_cast<std::byte*>(p.bytes.data())) + p.first);
  char* results[] = {out.data};
  EXPECT_EQ((*plan)->run(pointers, results, {}).status, RunStatus::Done);
  const auto* bytes = reinterpret_cast<const std::byte*>(out.data);
  return {bytes, bytes + c.results() * 4};
}

/// All cases of one kind; with threads to the bit.
void check(bool backward) {
  initialize_scheduler();
  std::mt19937_64 random(21);
  for (const codegen::Cpu& cpu : cpus())
    for (Case c : kCases) {
      c.backward = backward;
      const Graph graph = parse_graph(text(c));
      std::vector<ParamMemory> params;
      std::vector<graph::ArrayRef> refs;
      for (ValueId p : graph.params()) {
        const graph::Type& type = graph.type(p);
        params.push_back(make_param(type, {}, random, {}));
        auto* floats = reinterpret_cast<float*>(params.back().bytes.data());
        for (std::size_t i = 0; i < params.back().bytes.size() / 4; ++i)
          floats[i] = static_cast<float>(static_cast<double>(random() % 20001) / 10000 - 1);
      }
      for (std::size_t i = 0; i < params.size(); ++i) {
        const graph::Type& type = graph.type(graph.params()[i]);
        std::vector<int64_t> shape, strides;
        for (const graph::Dim& d : type.shape) shape.push_back(d.value());
        for (const graph::Dim& d : type.strides) strides.push_back(d.value());
        refs.push_back({params[i].bytes.data() + params[i].first, shape, strides});
      }
      auto want = graph::interpret(graph, refs, {});
      ASSERT_TRUE(want.has_value());
      const std::vector<std::byte> got = attended(c, graph, params, cpu);
      // A score is off by eps (depth + 2) times the sum of its absolute terms, here at most depth / 4, and a mask; a
      // weight by twice that and a few ulp; sums of up to `keys` weights by as many eps. Values are at most 1.
      const double eps = 6e-8;
      // Backward a cotangent is a sum of `queries` or `keys` such values, products of which are sums of at most `width`
      // terms.
      const double terms = backward ? static_cast<double>((c.heads / c.key_heads + 1) * (c.queries + c.keys) + 16) *
                                          0.1 * static_cast<double>(c.width + 1)
                                    : 1.0;
      const double bound = terms * eps *
                           (2.0 * static_cast<double>(c.depth + 2) * (static_cast<double>(c.depth) / 4 + 1) +
                            static_cast<double>(c.keys) + 16);
      const auto* exact = reinterpret_cast<const float*>(want->results[0].array.data);
      const auto* values = reinterpret_cast<const float*>(got.data());
      for (std::size_t i = 0; i < got.size() / 4; ++i) {
        if (std::isnan(exact[i])) {
          EXPECT_TRUE(std::isnan(values[i])) << text(c) << " at " << i;
          continue;
        }
        ASSERT_NEAR(values[i], exact[i], bound) << text(c) << " at " << i;
      }
      for (int threads : {2, 3}) {
        set_num_threads(threads);
        EXPECT_EQ(attended(c, graph, params, cpu), got) << threads;
      }
      set_num_threads(1);
    }
  set_num_threads(0);
}

TEST(Attention, AgainstFloat64) { check(false); }
TEST(Attention, GradientsAgainstFloat64) { check(true); }

TEST(Attention, NoMatrixOfScores) {
  for (const bool backward : {false, true}) {
    const Graph graph = parse_graph(text({1, 16, 4, 4096, 4096, 64, 64, 1, "", false, "", backward}));
    codegen::LowerOptions options;
    options.cpu = cpus().back();
    auto program = codegen::lower(graph, fused(graph), options);
    ASSERT_TRUE(program.has_value());
    const std::string step =
        std::string(backward ? "attention_gradients" : "attention") + " [1, 16, 4096, 64] x [4, 4096, 64] causal";
    EXPECT_NE(codegen::listing(*program).find(step), std::string::npos) << codegen::listing(*program);
    for (const codegen::Buffer& b : program->buffers) {
      if (b.kind == codegen::BufferKind::Temp) {
        EXPECT_LE(b.bytes.value(), backward ? 16 * 4096 * 64 * 4 : 4);  // the result
      }
    }
  }
}

}  // namespace
}  // namespace framejit::runtime::testing
