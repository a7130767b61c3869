// Reductions against the reference interpreter, which adds up in NumPy's order.
#include <gtest/gtest.h>

#include "oracle.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

std::string shape(std::initializer_list<int> dims) {
  std::string out = "[";
  for (int d : dims) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
  return out + "]";
}

TEST(Reductions, SumsOfOneAxis) {
  for (const char* t : {"f32", "f64"})
    for (int n : {0, 1, 3, 7, 8, 9, 15, 16, 127, 128, 129, 130, 136, 255, 1000, 8192, 8193, 20000, 100003}) {
      const std::string s = shape({n}), d(t);
      expect_agrees("graph @f(%a: " + d + s + ") {\n  %1 = reduce_sum %a {axes=[0]} : " + d + "[]\n  return %1\n}\n");
      expect_agrees("graph @f(%a: " + d + s + " strides=[24], %b: " + d + s + ") {\n  %2 = multiply %a, %b : " + d + s +
                    "\n  %3 = reduce_sum %2 {axes=[0]} : " + d + "[]\n  return %3\n}\n");
    }
}

TEST(Reductions, MinusZero) {
  expect_agrees(R"(graph @f(%a: f64[5]) {
    %1 = constant {value=0} : f64[]
    %2 = multiply %a, %1 : f64[5]
    %3 = absolute %2 : f64[5]
    %4 = negative %3 : f64[5]
    %5 = reduce_sum %4 {axes=[0]} : f64[]
    return %5
  })");
}

TEST(Reductions, AxesOfMatrices) {
  for (auto [m, n] : {std::pair{1, 1}, {3, 5}, {17, 33}, {200, 9}, {9, 200}, {130, 260}, {1, 300}, {300, 1}}) {
    const std::string in = "f32" + shape({m, n}), rows = "f32" + shape({m}), columns = "f32" + shape({n});
    expect_agrees("graph @f(%a: " + in + ") {\n  %1 = reduce_sum %a {axes=[1]} : " + rows +
                  "\n  %2 = reduce_sum %a {axes=[0]} : " + columns +
                  "\n  %3 = reduce_sum %a {axes=[0, 1]} : f32[]\n  return %1, %2, %3\n}\n");
    // F order.
    const std::string f = in + " strides=[4, " + std::to_string(4 * m) + "]";
    expect_agrees("graph @f(%a: " + f + ") {\n  %1 = reduce_sum %a {axes=[1]} : " + rows +
                  "\n  %2 = reduce_sum %a {axes=[0]} : " + columns +
                  "\n  %3 = reduce_sum %a {axes=[0, 1]} : f32[]\n  return %1, %2, %3\n}\n");
    // Padded rows: the axes do not follow each other.
    const std::string p = in + " strides=[" + std::to_string(4 * n + 12) + ", 4]";
    expect_agrees("graph @f(%a: " + p + ") {\n  %1 = reduce_sum %a {axes=[1]} : " + rows +
                  "\n  %2 = reduce_sum %a {axes=[0]} : " + columns +
                  "\n  %3 = reduce_sum %a {axes=[0, 1]} : f32[]\n  return %1, %2, %3\n}\n");
  }
}

TEST(Reductions, ThreeAxes) {
  for (const char* axes : {"[0]", "[1]", "[2]", "[0, 1]", "[0, 2]", "[1, 2]", "[0, 1, 2]"}) {
    const std::string list(axes);
    std::string out = "f64[";
    const int dims[] = {13, 21, 35};
    for (int i = 0; i < 3; ++i)
      if (list.find(std::to_string(i)) == std::string::npos)
        out += (out.back() == '[' ? "" : ", ") + std::to_string(dims[i]);
    out += "]";
    expect_agrees(
        "graph @f(%a: f64[13, 21, 35], %b: f64[35]) {\n  %2 = multiply %a, %b : f64[13, 21, 35]\n  %3 = reduce_sum %2 "
        "{axes=" +
        list + "} : " + out + "\n  %4 = reduce_sum %a {axes=" + list + "} : " + out + "\n  return %3, %4\n}\n");
  }
}

TEST(Reductions, Integers) {
  for (const char* t : {"i8", "i16", "i32", "i64", "u8", "u32", "u64"}) {
    const std::string d(t);
    Fill fill;
    fill.special = true;
    for (const char* op : {"reduce_sum", "reduce_prod", "reduce_min", "reduce_max"}) {
      const std::string o(op);
      expect_agrees("graph @f(%a: " + d + "[43, 71]) {\n  %1 = " + o + " %a {axes=[0]} : " + d + "[71]\n  %2 = " + o +
                        " %a {axes=[1]} : " + d + "[43]\n  %3 = " + o + " %a {axes=[0, 1]} : " + d +
                        "[]\n  return %1, %2, %3\n}\n",
                    {}, fill);
    }
  }
}

TEST(Reductions, FloatExtremes) {
  for (const char* t : {"f32", "f64"}) {
    const std::string d(t);
    for (const char* op : {"reduce_min", "reduce_max", "reduce_prod"}) {
      const std::string o(op);
      expect_agrees("graph @f(%a: " + d + "[43, 71]) {\n  %1 = " + o + " %a {axes=[0]} : " + d + "[71]\n  %2 = " + o +
                    " %a {axes=[1]} : " + d + "[43]\n  %3 = " + o + " %a {axes=[0, 1]} : " + d +
                    "[]\n  return %1, %2, %3\n}\n");
    }
  }
}

TEST(Reductions, ZeroOrNanIsNumPys) {
  const Graph graph = parse_graph(R"(graph @f(%a: f64[20], %w: f64[20]) {
    %2 = constant {value=0} : f64[]
    write %w, %2
    %4 = multiply %a, %2 : f64[20]
    %5 = reduce_max %4 {axes=[0]} : f64[]
    return %5
  })");
  std::mt19937_64 random(1);
  std::vector<ParamMemory> params;
  for (ValueId p : graph.params()) params.push_back(make_param(graph.type(p), {}, random, {}));
  for (const codegen::Cpu& cpu : cpus()) {
    std::string declined;
    EXPECT_EQ(compare(graph, params, {}, {cpu}, &declined), "");
    EXPECT_EQ(declined, "redo");
  }
}

TEST(Reductions, AnyAndAll) {
  for (int n : {0, 1, 64, 1000}) {
    const std::string s = shape({n});
    expect_agrees("graph @f(%a: f32" + s + ", %b: bool" + s +
                  ") {\n  %2 = reduce_any %b {axes=[0]} : bool[]\n  %3 = reduce_all %a {axes=[0]} : bool[]" +
                  "\n  %4 = constant {value=9} : f32[]\n  %5 = greater %a, %4 : bool" + s +
                  "\n  %6 = reduce_any %5 {axes=[0]} : bool[]\n  return %2, %3, %6\n}\n");
  }
  expect_agrees(R"(graph @f(%a: bool[40, 50]) {
    %1 = reduce_any %a {axes=[0]} : bool[50]
    %2 = reduce_all %a {axes=[1]} : bool[40]
    return %1, %2
  })");
}

TEST(Reductions, WithNumpyLoops) {
  for (int n : {5, 300, 5000, 40000}) {
    const std::string s = shape({n});
    expect_agrees("graph @f(%a: f32" + s + ") {\n  %1 = exp %a : f32" + s + "\n  %2 = add %1, %a : f32" + s +
                  "\n  %3 = reduce_sum %2 {axes=[0]} : f32[]\n  return %3, %1\n}\n");
  }
  expect_agrees(R"(graph @f(%a: f64[300, 40], %b: f64[40]) {
    %2 = add %a, %b : f64[300, 40]
    %3 = exp %2 : f64[300, 40]
    %4 = reduce_sum %3 {axes=[0, 1]} : f64[]
    %5 = reduce_sum %3 {axes=[1]} : f64[300]
    %6 = reduce_sum %3 {axes=[0]} : f64[40]
    %7 = reduce_max %3 {axes=[0, 1]} : f64[]
    return %4, %5, %6, %7
  })");
}

TEST(Reductions, SymbolicSizes) {
  for (int64_t n : {1, 2, 9, 300})
    for (int64_t m : {2, 17, 1000})
      expect_agrees(R"(graph @f(%a: f64[s0, s1]) {
        %1 = multiply %a, %a : f64[s0, s1]
        %2 = reduce_sum %1 {axes=[1]} : f64[s0]
        %3 = reduce_sum %1 {axes=[0, 1]} : f64[]
        %4 = reduce_sum %a {axes=[0]} : f64[s1]
        return %2, %3, %4
      })",
                    {n, m});
}

TEST(Reductions, SameForAnyNumberOfThreads) {
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    expect_agrees(R"(graph @f(%a: f32[1000003]) {
      %1 = multiply %a, %a : f32[1000003]
      %2 = reduce_sum %1 {axes=[0]} : f32[]
      %3 = reduce_max %1 {axes=[0]} : f32[]
      return %2, %3
    })");
    expect_agrees(R"(graph @f(%a: f64[1000, 601], %b: i32[1000, 601]) {
      %2 = reduce_sum %a {axes=[1]} : f64[1000]
      %3 = reduce_sum %a {axes=[0]} : f64[601]
      %4 = reduce_sum %a {axes=[0, 1]} : f64[]
      %5 = reduce_sum %b {axes=[0, 1]} : i32[]
      return %2, %3, %4, %5
    })");
  }
  set_num_threads(0);
}

}  // namespace
}  // namespace framejit::runtime::testing
