// Elementwise programs against the reference interpreter: layouts, sizes around the vector width, NumPy loops, in-place
// writes.
#include <gtest/gtest.h>

#include "oracle.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

TEST(Elementwise, Sizes) {
  for (int n : {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000}) {
    const std::string s = "[" + std::to_string(n) + "]";
    expect_agrees("graph @f(%a: f32" + s + ", %b: f32" + s + ", %c: f32" + s + ") {\n  %3 = multiply %a, %b : f32" + s +
                  "\n  %4 = add %3, %c : f32" + s + "\n  return %4\n}\n");
  }
}

TEST(Elementwise, SymbolicSizes) {
  for (int64_t n : {0, 1, 5, 64, 1001})
    expect_agrees(R"(graph @f(%a: f64[s0, 3], %b: f64[3]) {
      %2 = multiply %a, %b : f64[s0, 3]
      %3 = add %2, %a : f64[s0, 3]
      return %3, %2
    })",
                  {n});
}

TEST(Elementwise, Scalars) {
  expect_agrees(R"(graph @f(%a: f64[], %b: f64[]) {
    %2 = divide %a, %b : f64[]
    return %2
  })");
  expect_agrees(R"(graph @f(%a: f32[40], %b: f32[], %c: f32[1]) {
    %3 = add %b, %b : f32[]
    %4 = multiply %a, %3 : f32[40]
    %5 = add %4, %c : f32[40]
    return %5, %3
  })");
}

TEST(Elementwise, Layouts) {
  // Strided, reversed, transposed, broadcast.
  expect_agrees(R"(graph @f(%a: f32[50] strides=[8], %b: f32[50] strides=[-4], %c: f32[50] strides=[0]) {
    %3 = add %a, %b : f32[50]
    %4 = multiply %3, %c : f32[50]
    return %4
  })");
  expect_agrees(R"(graph @f(%a: f64[20, 30], %b: f64[20, 30] strides=[8, 160], %c: f64[30], %d: f64[20, 1]) {
    %4 = add %a, %b : f64[20, 30]
    %5 = multiply %4, %c : f64[20, 30]
    %6 = subtract %5, %d : f64[20, 30]
    return %6
  })");
  expect_agrees(R"(graph @f(%a: f64[20, 30] strides=[8, 160], %b: f64[20, 30] strides=[8, 160]) {
    %2 = add %a, %b : f64[20, 30] strides=[8, 160]
    return %2
  })");
  expect_agrees(R"(graph @f(%a: i16[4, 5, 6] strides=[200, 20, 4], %b: i16[5, 1]) {
    %2 = multiply %a, %b : i16[4, 5, 6]
    %3 = view %2 : i16[6, 4] strides=[2, 60] root=%2 offset=24
    %4 = negative %3 : i16[6, 4] strides=[2, 12]
    return %4, %3
  })");
}

TEST(Elementwise, ManyDtypes) {
  for (const char* t : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64"}) {
    const std::string d(t);
    Fill fill;
    fill.special = true;
    expect_agrees("graph @f(%a: " + d + "[77], %b: " + d + "[77]) {\n  %2 = add %a, %b : " + d +
                      "[77]\n  %3 = maximum %2, %a : " + d + "[77]\n  %4 = floor_divide %3, %b : " + d +
                      "[77]\n  %5 = less %4, %a : bool[77]\n  %6 = where %5, %2, %b : " + d +
                      "[77]\n  return %6, %4, %5\n}\n",
                  {}, fill);
  }
}

TEST(Elementwise, FillsAndRanges) {
  expect_agrees(R"(graph @f(%a: f32[]) {
    %1 = full %a : f32[3, 40]
    %2 = iota : i64[1000]
    %3 = iota : f32[70]
    %4 = multiply %3, %3 : f32[70]
    return %1, %2, %4
  })");
  expect_agrees(R"(graph @f() {
    %0 = dim {dim=3*s0} : i64[]
    %1 = iota : i32[s0]
    %2 = constant {value=2.5} : f64[]
    return %0, %1, %2
  })",
                {33});
}

TEST(Elementwise, NumpyLoops) {
  Fill fill;
  fill.special = true;
  for (int n : {1, 40, 63, 300, 9000, 70000}) {
    const std::string s = "[" + std::to_string(n) + "]";
    expect_agrees("graph @f(%a: f32" + s + ", %b: f32" + s + ") {\n  %2 = multiply %a, %b : f32" + s +
                      "\n  %3 = exp %2 : f32" + s + "\n  %4 = add %3, %a : f32" + s + "\n  %5 = arctan2 %4, %b : f32" +
                      s + "\n  %6 = sin %a : f32" + s + "\n  %7 = subtract %5, %6 : f32" + s + "\n  return %7, %3\n}\n",
                  {}, fill);
  }
  expect_agrees(R"(graph @f(%a: f64[300, 70], %b: f64[70], %c: f64[300, 70] strides=[8, 2400], %p: f64[]) {
    %4 = add %a, %b : f64[300, 70]
    %5 = log %4 : f64[300, 70]
    %6 = power %5, %p : f64[300, 70]
    %7 = tanh %c : f64[300, 70] strides=[8, 2400]
    %8 = multiply %6, %7 : f64[300, 70]
    return %8
  })",
                {}, fill);
  expect_agrees(R"(graph @f(%a: f64[s0, s1] strides=[16*s1, 16]) {
    %1 = cos %a : f64[s0, s1]
    %2 = fmax %1, %a : f64[s0, s1]
    %3 = add %2, %1 : f64[s0, s1]
    return %3
  })",
                {37, 90}, fill);
}

TEST(Elementwise, PowerTakesWholeArraysAsWhole) {
  expect_agrees(R"(graph @f(%a: f64[200], %p: f64[]) {
    %2 = full %p : f64[200]
    %3 = power %a, %2 : f64[200]
    return %3
  })");
}

TEST(Elementwise, DeclinesWhatIsNumPysBusiness) {
  const Graph graph = parse_graph(R"(graph @f(%a: f64[20] strides=[-8]) {
    %1 = exp %a : f64[20]
    return %1
  })");
  std::mt19937_64 random(1);
  std::vector<ParamMemory> params{make_param(graph.type(graph.params()[0]), {}, random, {})};
  std::string declined;
  EXPECT_EQ(compare(graph, params, {}, {cpus()[0]}, &declined), "");
  EXPECT_NE(declined.find("negative stride"), std::string::npos) << declined;
}

TEST(Elementwise, Writes) {
  expect_agrees(R"(graph @f(%a: f32[100], %b: f32[100]) {
    %2 = add %a, %b : f32[100]
    write %a, %2
    %4 = multiply %a, %b : f32[100]
    write %b, %4
    return %a
  })");
  // Through views; the later read sees the earlier write.
  expect_agrees(R"(graph @f(%a: f64[10, 12], %c: f64[]) {
    %2 = view %a : f64[8, 12] strides=[96, 8] root=%a offset=192
    %3 = view %a : f64[8, 12] strides=[96, 8] root=%a offset=0
    %4 = multiply %3, %c : f64[8, 12]
    write %2, %4
    %6 = add %3, %2 : f64[8, 12]
    return %6
  })");
  expect_agrees(R"(graph @f(%a: i32[30], %c: i32[]) {
    %2 = view %a : i32[10] strides=[12] root=%a offset=0
    write %2, %c
    %4 = add %a, %a : i32[30]
    return %4
  })");
  // Into fresh memory.
  expect_agrees(R"(graph @f(%a: f64[10, 12], %c: f64[12]) {
    %2 = multiply %a, %a : f64[10, 12]
    %3 = view %2 : f64[12] strides=[8] root=%2 offset=96
    write %3, %c
    %5 = add %2, %a : f64[10, 12]
    return %2, %5
  })");
}

TEST(Elementwise, UndoPutsBack) {
  Fill fill;
  fill.special = true;
  expect_agrees(R"(graph @f(%a: f32[7, 9] strides=[40, 4], %b: f32[9]) {
    %2 = divide %b, %a : f32[7, 9]
    write %a, %2
    %4 = view %a : f32[7] strides=[40] root=%a offset=8
    %5 = multiply %4, %4 : f32[7]
    write %4, %5
    return %5
  })",
                {}, fill);
}

TEST(Elementwise, FlagsHaveOwners) {
  Graph graph = parse_graph(R"(graph @f(%x: f64[5000], %y: f64[5000], %c: f64[]) {
    %3 = multiply %x, %c : f64[5000]
    write %x, %3
    %5 = add %3, %y : f64[5000]
    write %x, %5
    return %x
  })");
  for (ValueId v : graph.body().nodes)
    if (graph.node(v).op != graph::Op::Write) graph.node(v).calls = {graph.add_call({graph.node(v).op})};
  codegen::LowerOptions options;
  options.cpu = cpus().back();
  options.attribute = true;
  auto program = codegen::lower(graph, fused(graph), options);
  ASSERT_TRUE(program) << program.error();
  EXPECT_TRUE(program->per_call_flags);
  EXPECT_EQ(program->flag_slots, (std::vector<std::vector<uint32_t>>{{0}, {1}}));
  EXPECT_EQ(program->steps.size(), 1u);
  EXPECT_TRUE(std::get<codegen::LoopStep>(program->steps[0]).guarded);
  auto plan = Plan::create(std::move(*program));
  ASSERT_TRUE(plan);
  for (int which = 0; which < 4; ++which)
    for (std::size_t at : {std::size_t{0}, std::size_t{1000}, std::size_t{4999}})
      for (int threads : {1, 2}) {
        set_num_threads(threads);
        std::vector<double> x(5000), y(5000, 1);
        double c = 1.5;
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
        const std::size_t many =
            at == 1000 ? 300 : 5000;  // elements from one that overflows to the next: in a few rows, or in many
        if (which & 1)
          for (std::size_t i = at; i < 5000; i += many) x[i] = 1.7e308;
        if (which & 2) x[4999 - at] = 1e308, y[4999 - at] = 1e308;
        std::vector<double> want(5000);
        for (std::size_t i = 0; i < want.size(); ++i) {
          const double product = x[i] * c;
          want[i] = product + y[i];
        }
        std::vector<char*> params{reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data()),
                                  reinterpret_cast<char*>(&c)};
        const RunResult run = (*plan)->run(params, {}, {});
        EXPECT_EQ(run.status, RunStatus::Done);
        EXPECT_EQ(run.flags, 0u);
        std::vector<unsigned> slots{which & 1 ? kOverflow : 0u, which & 2 ? kOverflow : 0u};
        if (which == 0) slots.clear();
        EXPECT_EQ(run.slots, slots) << which << " " << at;
        EXPECT_EQ(x, want) << which << " " << at;
      }
  set_num_threads(0);
}

/// Flags of several short rows are looked at together, if nothing is overwritten that is read.
TEST(Elementwise, FlagsOfShortRowsHaveOwners) {
  constexpr int64_t kRows = 300, kColumns = 23;
  Graph graph = parse_graph(R"(graph @f(%x: f64[300, 24], %y: f64[300, 24], %z: f64[300, 23]) {
    %3 = view %x : f64[300, 23] strides=[192, 8] root=%x offset=8
    %4 = view %y : f64[300, 23] strides=[192, 8] root=%y offset=0
    %5 = multiply %3, %4 : f64[300, 23]
    %6 = add %5, %4 : f64[300, 23]
    write %z, %6
    return
  })");
  for (ValueId v : graph.body().nodes)
    if (graph.node(v).op != graph::Op::View && graph.node(v).op != graph::Op::Write)
      graph.node(v).calls = {graph.add_call({graph.node(v).op})};
  for (const codegen::Cpu& cpu : cpus()) {
    codegen::LowerOptions options;
    options.cpu = cpu;
    options.attribute = true;
    auto program = codegen::lower(graph, fused(graph), options);
    ASSERT_TRUE(program) << program.error();
    ASSERT_TRUE(std::get<codegen::LoopStep>(program->steps[0]).guarded);
    EXPECT_TRUE(std::get<codegen::LoopStep>(program->steps[0]).guarded->saved.empty());
    auto plan = Plan::create(std::move(*program));
    ASSERT_TRUE(plan);
    for (int which = 0; which < 4; ++which)
      for (const int64_t apart : {1, 7, 40, 44, 45, 46, 100, 299}) {
        std::vector<double> x(kRows * 24), y(kRows * 24, 2), want, got(kRows * kColumns);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
        for (int64_t row = apart - 1; row < kRows; row += apart) {
          if (which & 1) x[row * 24 + 5] = 1.7e308;
          if (which & 2) x[row * 24 + 23] = 1, y[row * 24 + 22] = 1e308;
        }
        for (int64_t row = 0; row < kRows; ++row)
          for (int64_t i = 0; i < kColumns; ++i)
            want.push_back(x[row * 24 + i + 1] * y[row * 24 + i] + y[row * 24 + i]);
        std::vector<char*> params{reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data()),
                                  reinterpret_cast<char*>(got.data())};
        const RunResult run = (*plan)->run(params, {}, {});
        EXPECT_EQ(run.status, RunStatus::Done);
        std::vector<unsigned> slots{which & 1 ? kOverflow : 0u, which & 2 ? kOverflow : 0u};
        if (which == 0) slots.clear();
        EXPECT_EQ(run.slots, slots) << which << " " << apart;
        EXPECT_EQ(got, want) << which << " " << apart;
      }
  }
}

/// A step of one stage for each call has room for the scratch of the largest group.
TEST(Elementwise, FlagsOfTheLargestGroupsHaveOwners) {
  // Rounds of an elimination by columns, which write columns of b and d.
  std::string text = "graph @f(%a: f64[40, 20], %b: f64[40, 20], %c: f64[40, 20], %d: f64[40, 20]) {\n";
  const auto name = [](char array, int column) { return "%" + std::string(1, array) + std::to_string(column); };
  int column = 0;
  const auto add = [&](const std::string& result, const std::string& node) {
    text += "  " + result + " = " + node + " : f64[40]";
    if (node.starts_with("view"))
      text += " strides=[160] root=" + node.substr(5) + " offset=" + std::to_string(8 * column);
    text += "\n";
  };
  for (; column < 20; ++column)
    for (char array : {'a', 'b', 'c', 'd'}) add(name(array, column), "view %" + std::string(1, array));
  for (int k = 1; k < 20; ++k) {
    const std::string w = name('w', k), b = name('x', k), d = name('y', k);
    add(w, "divide " + name('a', k) + ", " + (k == 1 ? name('b', 0) : name('x', k - 1)));
    add(name('p', k), "multiply " + w + ", " + name('c', k - 1));
    add(b, "subtract " + name('b', k) + ", " + name('p', k));
    text += "  write " + name('b', k) + ", " + b + "\n";
    add(name('q', k), "multiply " + w + ", " + (k == 1 ? name('d', 0) : name('y', k - 1)));
    add(d, "subtract " + name('d', k) + ", " + name('q', k));
    text += "  write " + name('d', k) + ", " + d + "\n";
  }
  Graph graph = parse_graph(text + "  return %b, %d\n}\n");
  for (ValueId v : graph.body().nodes)
    if (graph.node(v).op != graph::Op::Write && graph.node(v).op != graph::Op::View)
      graph.node(v).calls = {graph.add_call({graph.node(v).op})};
  codegen::LowerOptions options;
  options.cpu = cpus().back();
  options.attribute = true;
  auto program = codegen::lower(graph, fused(graph), options);
  ASSERT_TRUE(program) << program.error();
  EXPECT_TRUE(program->per_call_flags);
  for (const codegen::Step& step : program->steps)
    EXPECT_TRUE(std::get<codegen::LoopStep>(step).guarded) << program->steps.size();
}

TEST(Elementwise, FlagsOfWhatNobodyReads) {
  const Graph graph = parse_graph(R"(graph @f(%a: f64[10]) {
    %1 = constant {value=0} : f64[]
    %2 = divide %a, %1 : f64[10]
    %3 = add %a, %a : f64[10]
    return %3
  })");
  std::mt19937_64 random(1);
  std::vector<ParamMemory> params{make_param(graph.type(graph.params()[0]), {}, random, {})};
  for (const codegen::Cpu& cpu : cpus()) EXPECT_EQ(compare(graph, params, {}, {cpu}), "");
}

/// Stores bypass the cache where all that a step touches is more than its share of the third level.
TEST(Elementwise, StreamingStores) {
  const auto streams = [](int64_t n, int64_t l3_bytes) {
    const std::string s = "[" + std::to_string(n) + "]";
    const Graph graph = parse_graph("graph @f(%a: f64" + s + ", %b: f64" + s + ") {\n  %2 = add %a, %b : f64" + s +
                                    "\n  return %2\n}\n");
    codegen::LowerOptions options;
    options.cpu = cpus()[0];
    options.cpu.l2_bytes = 64 << 10, options.cpu.l3_bytes = l3_bytes;
    auto program = codegen::lower(graph, fused(graph), options);
    return program && std::get<codegen::LoopStep>(program->steps[0]).stages[0].streaming.has_value();
  };
  constexpr int64_t kCache = 1 << 20, kElements = kCache / 8;  // three arrays
  EXPECT_FALSE(streams(kElements / 8 - 1, kCache));
  EXPECT_TRUE(streams(kElements / 8, kCache));
  EXPECT_FALSE(streams(kElements / 8, 2 * kCache));
}

TEST(Elementwise, Threads) {
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    expect_agrees(R"(graph @f(%a: f32[300001], %b: f32[300001]) {
      %2 = divide %a, %b : f32[300001]
      %3 = exp %2 : f32[300001]
      %4 = subtract %3, %a : f32[300001]
      return %4, %2
    })");
    expect_agrees(R"(graph @f(%a: f64[600, 700], %b: f64[600, 700] strides=[8, 4800]) {
      %2 = add %a, %b : f64[600, 700]
      %3 = iota : i64[400000]
      return %2, %3
    })");
  }
  set_num_threads(0);
}

}  // namespace
}  // namespace framejit::runtime::testing
