// Each invariant, violated.
#include "graph/verify.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/text.h"

namespace framejit::graph {
namespace {

struct Broken {
  int invariant;
  const char* what;
  std::string text;  // the body of a graph with params x and y: f64[4], m: f64[2, 3], b: bool[4], i: i32[4]
  std::string results = "";
};

Graph parsed(const std::string& body, const std::string& results) {
  auto g = parse("graph @f(%x: f64[4], %y: f64[4], %m: f64[2, 3], %b: bool[4], %i: i32[4]) {\n" + body + "\n  return " +
                 results + "\n}\n");
  EXPECT_TRUE(g) << g.error().message << "\n" << body;
  return g ? std::move(*g) : Graph();
}

TEST(Verify, TextThatBreaksAnInvariant) {
  const Broken all[] = {
      {4, "no value", "%5 = constant : f64[]"},
      {4, "attribute of another operator", "%5 = negative %x {axes=[0]} : f64[4]"},
      {4, "no axes", "%5 = reduce_sum %x : f64[]"},
      {4, "axes out of range", "%5 = reduce_sum %x {axes=[1]} : f64[4]"},
      {4, "axes not sorted", "%5 = reduce_sum %m {axes=[1, 0]} : f64[]"},
      {4, "no window", "%5 = view %x : f64[1, 2, 2] root=%x offset=0\n  %6 = convolution %5, %5 : f64[1, 1, 1]"},
      {4, "a window of too few numbers",
       "%5 = view %x : f64[1, 2, 2] root=%x offset=0\n  %6 = convolution %5, %5 {window=[1, 1]} : f64[1, 1, 1]"},
      {4, "a window that stands still",
       "%5 = view %x : f64[1, 2, 2] root=%x offset=0\n  %6 = convolution %5, %5 {window=[1, 0, 0, 0, 1]} : f64[1, 1, "
       "1]"},
      {4, "a window that goes too far",
       "%5 = view %x : f64[1, 2, 2] root=%x offset=0\n  %6 = convolution %5, %5 {window=[1, 2147483648, 0, 0, 1]} : "
       "f64[1, 1, 1]"},
      {5, "operands of two dtypes", "%5 = add %x, %i : f64[4]"},
      {5, "no condition", "%5 = where %x, %x, %y : f64[4]"},
      {5, "dtype not taken", "%5 = sqrt %i : i32[4]"},
      {5, "dtype of the result", "%5 = equal %x, %y : f64[4]"},
      {5, "dim in another dtype", "%5 = dim {dim=3} : f64[]"},
      {5, "iota of bool", "%5 = iota : bool[4]"},
      {6, "negative dimension", "%5 = view %x : f64[-1] strides=[8] root=%x offset=0"},
      {6, "bytes of a view beyond 64 bits", "%5 = view %x : f64[4611686018427387904] strides=[0] root=%x offset=0"},
      {6, "bytes beyond 64 bits of a shape that is empty",
       "%5 = view %x : f64[0, 4611686018427387904] strides=[0, 0] root=%x offset=0"},
      {6, "more than a process has", "%5 = empty : f64[17592186044417]"},
      {6, "last element beyond 64 bits", "%5 = view %x : f64[18014398509481985] strides=[1024] root=%x offset=0"},
      {6, "last element of two axes beyond 64 bits",
       "%5 = view %x : f64[2, 2] strides=[9223372036854775807, 8] root=%x offset=0"},
      {6, "offset beyond 64 bits", "%5 = view %x : f64[4] root=%x offset=9223372036854775807"},
      {6, "offset below 64 bits", "%5 = view %x : f64[2] strides=[-8] root=%x offset=-9223372036854775808"},
      {7, "operand does not broadcast", "%5 = add %x, %m : f64[2, 4]"},
      {7, "rank", "%5 = negative %x : f64[1, 4]"},
      {7, "length that no operand has", "%5 = constant {value=1} : f64[]\n  %6 = negative %5 : f64[3]"},
      {7, "shape of a cast", "%5 = cast %x : f32[5]"},
      {7, "shape of a reduction", "%5 = reduce_sum %m {axes=[0]} : f64[2]"},
      {7, "shape of a product", "%5 = matmul %m, %m : f64[2, 3]"},
      {7, "batch of a product", "%5 = view %x : f64[2, 2, 1] root=%x offset=0\n  %6 = matmul %5, %5 : f64[9, 2, 1]"},
      {7, "batch that an operand lacks",
       "%5 = view %x : f64[2, 1, 2] root=%x offset=0\n  %6 = view %x : f64[2, 1] root=%x offset=0\n  %7 = matmul %5, "
       "%6 : f64[3, 1, 1]"},
      {7, "zeros around an image",
       "%5 = view %x : f64[1, 1, 2, 2] root=%x offset=0\n"
       "  %6 = convolution %5, %5 {window=[1, 2147483647, 2147483647, 0, 1, 1048576, 1048576, 0, 1]} : f64[1, 1, 2, "
       "2]"},
      {7, "shape of a convolution",
       "%5 = view %x : f64[1, 2, 2] root=%x offset=0\n  %6 = convolution %5, %5 {window=[1, 1, 0, 0, 1]} : f64[1, 1, "
       "2]"},
      {7, "channels of a convolution",
       "%5 = view %x : f64[1, 2, 2] root=%x offset=0\n  %6 = convolution %5, %5 {window=[2, 1, 0, 0, 1]} : f64[1, 1, "
       "1]"},
      {7, "0-d constant", "%5 = constant {value=1} : f64[1]"},
      {8, "elementwise into a view", "%5 = negative %x : f64[4] root=%x offset=0"},
      {8, "not packed", "%5 = negative %x : f64[4] strides=[16]"},
      {8, "backwards", "%5 = negative %x : f64[4] strides=[-8]"},
      {9, "root of another operand", "%5 = view %x : f64[4] root=%y offset=0"},
      {9, "no root", "%5 = view %x : f64[4]"},
      {9, "view of a constant", "%5 = constant {value=1} : f64[]\n  %6 = view %5 : f64[1] root=%5 offset=0"},
      {9, "outside of the root", "%5 = view %x : f64[4] root=%x offset=8"},
      {9, "before the root", "%5 = view %x : f64[2] strides=[-8] root=%x offset=0"},
      {10, "value does not broadcast", "write %x, %m"},
      {10, "destination repeats elements", "%5 = view %x : f64[3, 4] strides=[0, 8] root=%x offset=0\n  write %5, %y"},
      {10, "another view of the root", "%5 = view %x : f64[4] strides=[-8] root=%x offset=24\n  write %x, %5"},
  };
  for (const Broken& b : all) {
    const std::optional<std::string> found = verify(parsed(b.text, b.results));
    ASSERT_TRUE(found) << b.what;
    EXPECT_TRUE(found->starts_with("invariant " + std::to_string(b.invariant) + ",")) << b.what << ": " << *found;
    EXPECT_NE(found->find("graph @f("), std::string::npos) << "the graph's text";
  }
}

TEST(Verify, OperandsOfAPut) {
  const auto with = [](const std::string& put) {
    return parse(
        "graph @f(%x: f64[6, 4], %v: f64[5, 4], %w: f32[], %i: i64[5], %m: bool[6], %n: bool[5]) {\n  %6 = put " + put +
        " : f64[6, 4]\n  return %6\n}\n");
  };
  for (const char* sound : {"%x, %v, %i", "%x, %v, %m"}) {
    auto g = with(sound);
    ASSERT_TRUE(g) << g.error().message;
    EXPECT_EQ(verify(*g), std::nullopt) << sound;
  }
  const std::pair<const char*, int> broken[] = {
      {"%x, %v", 3},         {"%x, %w, %i", 5}, {"%x, %v, %x", 5}, {"%x, %v, %m, %i", 5},
      {"%x, %v, %i, %i", 7}, {"%x, %v, %n", 7}, {"%x, %x, %i", 7}, {"%v, %v, %i, %i, %i", 7},
  };
  for (const auto& [text, invariant] : broken) {
    auto g = with(text);
    ASSERT_TRUE(g) << text << ": " << g.error().message;
    const std::optional<std::string> found = verify(*g);
    ASSERT_TRUE(found) << text;
    EXPECT_TRUE(found->starts_with("invariant " + std::to_string(invariant) + ",")) << text << ": " << *found;
  }
}

TEST(Verify, SoundText) {
  EXPECT_EQ(verify(parsed("%5 = where %b, %x, %y : f64[4]\n  write %x, %5\n  %7 = reduce_max %m {axes=[0, 1]} : f64[]",
                          "%7, %x")),
            std::nullopt);
}

/// What no text can say, put into a sound graph.
class VerifyBroken : public ::testing::Test {
 protected:
  void SetUp() override {
    x_ = b_.param({DType::F64, {4}, {8}}, "x");
    y_ = *b_.elementwise(Op::Negative, std::array{x_});
    ASSERT_TRUE(b_.write(y_, x_));
    z_ = *b_.elementwise(Op::Negative, std::array{y_});
    g_.set_results({z_});
    ASSERT_EQ(verify(g_), std::nullopt);
    write_ = g_.body().nodes[1];
  }

  void expect(int invariant) {
    const std::optional<std::string> found = verify(g_);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->starts_with("invariant " + std::to_string(invariant))) << *found;
  }

  Graph g_;
  GraphBuilder b_{g_};
  ValueId x_{}, y_{}, z_{}, write_{};
};

TEST_F(VerifyBroken, ParamAmongTheNodes) { g_.body().nodes.push_back(x_), expect(1); }
TEST_F(VerifyBroken, NodeTwice) { g_.body().nodes.push_back(y_), expect(1); }
TEST_F(VerifyBroken, NodeThatDoesNotExist) { g_.body().nodes.push_back(ValueId{99}), expect(1); }
TEST_F(VerifyBroken, WrongParamNumber) { g_.node(x_).attrs[0].second = int64_t{1}, expect(1); }
TEST_F(VerifyBroken, UseBeforeDefinition) { std::swap(g_.body().nodes[0], g_.body().nodes[2]), expect(2); }
TEST_F(VerifyBroken, WriteAsOperand) { g_.node(z_).inputs[0] = write_, expect(2); }
TEST_F(VerifyBroken, NumberOfOperands) { g_.node(z_).inputs.push_back(x_), expect(3); }
TEST_F(VerifyBroken, Blocks) { g_.node(z_).blocks.push_back(std::make_unique<Block>()), expect(3); }
TEST_F(VerifyBroken, StrideForEachAxis) { g_.node(z_).type.strides.clear(), expect(6); }
TEST_F(VerifyBroken, UnknownSymbol) { g_.node(z_).type.shape[0] = Dim::symbol(SymbolId{3}), expect(6); }
TEST_F(VerifyBroken, TypeOfAWrite) { g_.node(write_).type.shape[0] = 3, expect(10); }
TEST_F(VerifyBroken, WriteAsResult) { g_.set_results({write_}), expect(11); }
TEST_F(VerifyBroken, ResultThatDoesNotExist) { g_.set_results({ValueId{77}}), expect(11); }
TEST_F(VerifyBroken, ParamThatIsAView) { g_.node(x_).type.root = y_, expect(8); }

/// One block of each kind, then broken in one place.
class VerifyBlocks : public ::testing::Test {
 protected:
  void expect(const std::string& text, int invariant) {
    auto g = parse(text);
    ASSERT_TRUE(g) << g.error().message;
    const std::optional<std::string> found = verify(*g);
    ASSERT_TRUE(found) << text;
    EXPECT_TRUE(found->starts_with("invariant " + std::to_string(invariant))) << *found;
  }
  static std::string with(const std::string& nodes) {
    return "graph @f(%x: f64[4], %c: bool[], %n: f64[]) {\n" + nodes + "return\n}\n";
  }
};

TEST_F(VerifyBlocks, Sound) {
  auto g = parse(with(R"(%3 = if %c { %4 = negative %x : f64[4] yield %4 } else { yield %x }
    %5 = output %3 {index=0} : f64[4]
    %6 = loop %5 with %7: f64[4] {
      %8 = copy %7 : f64[4]
      write %8, %n
      yield %c, %8, %n
    }
    %9 = output %6 {index=1} : f64[]
    expect %c
  )"));
  ASSERT_TRUE(g) << g.error().message;
  EXPECT_EQ(verify(*g), std::nullopt);
}
/// A size that one side measures.
static std::string measured(const std::string& behind, const std::string& yields = "") {
  return "%b = greater %x, %n : bool[4]\n%k = constant {value=2} : i64[]\n%3 = if %c {\nmeasure %k {dim=s0, most=4}\n"
         "%5 = compress %b, %x : f64[s0]\nyield " +
         yields + "\n} else { yield " + (yields.empty() ? "" : "%x") + " }\n" + behind;
}
TEST_F(VerifyBlocks, MeasuredOnOneSide) {
  auto g = parse(with(measured("")));
  ASSERT_TRUE(g) << g.error().message;
  EXPECT_EQ(verify(*g), std::nullopt);
}
TEST_F(VerifyBlocks, MeasuredSizeBehindItsBlock) { expect(with(measured("%6 = dim {dim=s0} : i64[]\n")), 15); }
TEST_F(VerifyBlocks, MeasuredTwice) { expect(with(measured("measure %k {dim=s0, most=4}\n")), 15); }
TEST_F(VerifyBlocks, SizeBeforeItIsMeasured) {
  expect(with("%3 = dim {dim=s0} : i64[]\nmeasure %3 {dim=s0, most=4}\n"), 15);
}
TEST_F(VerifyBlocks, ConditionThatIsNoBool) { expect(with("%3 = if %n { yield } else { yield }\n"), 12); }
TEST_F(VerifyBlocks, SidesOfTwoTypes) { expect(with("%3 = if %c { yield %x } else { yield %n }\n"), 12); }
TEST_F(VerifyBlocks, SidesOfTwoLengths) { expect(with("%3 = if %c { yield %x } else { yield }\n"), 12); }
TEST_F(VerifyBlocks, LoopWithoutCondition) { expect(with("%3 = loop %x with %4: f64[4] { yield %4, %4 }\n"), 12); }
TEST_F(VerifyBlocks, CarriedOfAnotherType) { expect(with("%3 = loop %x with %4: f64[4] { yield %c, %n }\n"), 12); }
TEST_F(VerifyBlocks, CarriedThatDoNotMatch) { expect(with("%3 = loop %n with %4: f64[4] { yield %c, %4 }\n"), 12); }
TEST_F(VerifyBlocks, ExpectOfANumber) { expect(with("expect %n\n"), 12); }
TEST_F(VerifyBlocks, OutputThatIsNotThere) {
  expect(with("%3 = if %c { yield %x } else { yield %x }\n%4 = output %3 {index=1} : f64[4]\n"), 13);
}
TEST_F(VerifyBlocks, OutputOfAValue) { expect(with("%3 = output %x {index=0} : f64[4]\n"), 13); }
TEST_F(VerifyBlocks, ControlFlowAsOperand) {
  expect(with("%3 = if %c { yield } else { yield }\n%4 = logical_not %3 : bool[]\n"), 13);
}
TEST_F(VerifyBlocks, WriteOfWhatTheLoopBeginsWith) {
  expect(with("%3 = loop %x with %4: f64[4] { write %x, %n yield %c, %4 }\n"), 14);
}
TEST_F(VerifyBlocks, CarriedThatIsWritten) {
  expect(with("%3 = loop %x with %4: f64[4] { write %4, %n yield %c, %4 }\n"), 14);
}

}  // namespace
}  // namespace framejit::graph
