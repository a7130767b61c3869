// GraphBuilder and Graph: shapes, guards, aliasing, errors, transactions. Layouts are compared with NumPy in
// test_numpy.cpp.
#include "graph/builder.h"

#include <gtest/gtest.h>

#include "graph/network_operators.h"
#include "graph/support/check.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace framejit::graph {
namespace {

class Builder : public ::testing::Test {
 protected:
  ValueId param(Dims shape, DType dtype = DType::F64) {
    Dims strides = c_strides(dtype, shape);
    return b_.param({dtype, std::move(shape), std::move(strides)}, "");
  }
  BuildResult add(ValueId a, ValueId b) { return b_.elementwise(Op::Add, std::array{a, b}); }
  std::string type(ValueId v) { return str(g_.type(v)); }
  void TearDown() override { EXPECT_EQ(verify(g_).value_or(""), ""); }

  Graph g_;
  GraphBuilder b_{g_};
};

TEST_F(Builder, BroadcastsWithoutGuardsWhereTheFormIsEqual) {
  const Dim n = g_.shapes().fresh(5);
  const ValueId x = param({n, 3}), y = param({3}), z = param({n, 1});
  const std::size_t before = g_.shapes().guards().size();
  EXPECT_EQ(type(*add(x, y)), "f64[s0, 3]");
  EXPECT_EQ(type(*add(x, z)), "f64[s0, 3]");
  for (std::size_t i = before; i < g_.shapes().guards().size(); ++i)
    EXPECT_EQ(g_.shapes().guards()[i].left, Dim(0)) << "only that a dimension is not 0";
}

TEST_F(Builder, BroadcastOfSymbolsIsGuarded) {
  const Dim n = g_.shapes().fresh(5), m = g_.shapes().fresh(5), one = g_.shapes().fresh(1);
  EXPECT_EQ(type(*add(param({n}), param({m}))), "f64[s0]");
  EXPECT_TRUE(g_.shapes().guards()[0].outcome);
  EXPECT_EQ(type(*add(param({n}), param({5}))), "f64[5]");
  EXPECT_EQ(type(*add(param({n}), param({one}))), "f64[s0]");
}

TEST_F(Builder, ErrorsHaveNumPysShapes) {
  const auto failed = add(param({3}), param({2, 4}));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "operands could not be broadcast together with shapes (3,) (2,4)");
  const auto wrong = b_.reshape(param({2, 3}), {4});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "cannot reshape array of size 6 into shape (4,)");
  const auto write = b_.write(param({3}), param({4}));
  ASSERT_FALSE(write);
  EXPECT_EQ(write.error().message, "could not broadcast input array from shape (4,) into shape (3,)");
  EXPECT_FALSE(b_.reduce(Op::ReduceMax, param({0, 3}), {0}));
  EXPECT_TRUE(b_.reduce(Op::ReduceSum, param({0, 3}), {0}));
  EXPECT_FALSE(b_.broadcast_to(param({3}), {4}));
  EXPECT_FALSE(b_.matmul(param({2, 3}), param({2, 3})));
  EXPECT_FALSE(b_.matmul(param({}), param({3})));
}

TEST_F(Builder, MisuseIsAnInternalError) {
  EXPECT_THROW((void)add(param({3}), param({3}, DType::F32)), InternalError);
  EXPECT_THROW((void)b_.elementwise(Op::Sqrt, std::array{param({3}, DType::I32)}), InternalError);
  EXPECT_THROW((void)b_.reduce(Op::ReduceSum, param({3}), {1}), InternalError);
}

TEST_F(Builder, ViewsAddUpToTheRoot) {
  const ValueId x = param({4, 6});
  const ValueId a = b_.slice(x, 1, 1, 3, 2), b = b_.select(a, 0, 2), c = b_.slice(b, 0, 2, 3, -1);
  EXPECT_EQ(type(c), "f64[3] strides=[-16]");
  EXPECT_EQ(g_.type(c).root, x);
  EXPECT_EQ(g_.type(c).offset, Dim(8 + 2 * 48 + 32));
  EXPECT_EQ(type(b_.expand_dims(c, 0)), "f64[1, 3] strides=[0, -16]");
  EXPECT_EQ(type(b_.transpose(x, std::array{1, 0})), "f64[6, 4] strides=[8, 48]");
  EXPECT_EQ(type(*b_.broadcast_to(b, {2, 1, 3})), "f64[2, 1, 3] strides=[0, 0, 16]");
}

TEST_F(Builder, ReshapeIsAViewOrACopy) {
  const ValueId x = param({4, 6});
  EXPECT_EQ(g_.root(*b_.reshape(x, {24})), x);
  const ValueId t = b_.transpose(x, std::array{1, 0});
  const ValueId flat = *b_.reshape(t, {24});
  EXPECT_NE(g_.root(flat), x);
  EXPECT_EQ(g_.node(g_.root(flat)).op, Op::Copy);
  const Dim n = g_.shapes().fresh(5);
  EXPECT_EQ(type(*b_.reshape(param({n, 4}), {2 * n, 2})), "f64[2*s0, 2]");
}

TEST_F(Builder, WriteCopiesWhatOverlaps) {
  const ValueId x = param({8});
  const ValueId ahead = b_.slice(x, 0, 1, 7, 1), behind = b_.slice(x, 0, 0, 7, 1);
  const ValueId w = *b_.write(ahead, behind);
  EXPECT_EQ(g_.node(g_.node(w).inputs[1]).op, Op::Copy);
  const ValueId same = *b_.write(ahead, ahead);
  EXPECT_EQ(g_.node(same).inputs[1], ahead);
  EXPECT_TRUE(b_.write(x, param({1, 1, 8}))) << "leading axes of length 1 are dropped";
}

TEST_F(Builder, Products) {
  EXPECT_EQ(type(*b_.matmul(param({2, 3}), param({3, 4}))), "f64[2, 4]");
  EXPECT_EQ(type(*b_.matmul(param({3}), param({3, 4}))), "f64[4]");
  EXPECT_EQ(type(*b_.matmul(param({2, 3}), param({3}))), "f64[2]");
  EXPECT_EQ(type(*b_.matmul(param({3}), param({3}))), "f64[]");
  EXPECT_EQ(type(*b_.matmul(param({5, 1, 2, 3}), param({7, 3, 4}))), "f64[5, 7, 2, 4]");
}

TEST_F(Builder, Convolutions) {
  const auto built = [&](Dims x, Dims w, Window window) {
    return append_convolution(b_, param(std::move(x)), param(std::move(w)), window);
  };
  EXPECT_EQ(type(*built({2, 3, 9, 8}, {5, 3, 3, 3}, {1, {{1, 1, 1, 1}, {2, 0, 1, 1}}})), "f64[2, 5, 9, 4]");
  EXPECT_EQ(type(*built({2, 4, 9}, {6, 2, 3}, {2, {{1, 0, 0, 2}}})), "f64[2, 6, 5]");
  EXPECT_EQ(type(*built({1, 1, 2, 2, 2}, {1, 1, 2, 2, 2}, {1, {{}, {}, {}}})), "f64[1, 1, 1, 1, 1]");
  EXPECT_FALSE(built({2, 4, 9}, {6, 3, 3}, {1, {{}}})) << "channels";
  EXPECT_FALSE(built({2, 4, 9}, {5, 2, 3}, {2, {{}}})) << "groups";
  EXPECT_FALSE(built({2, 4, 2}, {5, 4, 3}, {1, {{}}})) << "a window larger than the image";
  EXPECT_FALSE(built({2, 4}, {5, 4}, {1, {{}}})) << "rank";
}

TEST_F(Builder, ViewOfAConstantIsAViewOfACopy) {
  const ValueId v = b_.expand_dims(b_.constant(DType::I64, {3}), 0);
  EXPECT_EQ(g_.node(g_.root(v)).op, Op::Copy);
}

/// x is broadcast along an axis, then promoted: NumPy's iterator sees the stride of 0.
TEST_F(Builder, LayoutFollowsWhatTheIteratorSaw) {
  const ValueId x = b_.param({DType::F32, {2, 3}, {0, 4}}, "");
  const ValueId y = b_.param({DType::F64, {2, 3}, {8, 16}}, "");
  const ValueId cast = *b_.cast(x, DType::F64);
  EXPECT_EQ(type(*b_.elementwise(Op::Add, std::array{cast, y}, std::array{x, y})), "f64[2, 3] strides=[8, 16]");
}

TEST_F(Builder, RollbackForgets) {
  const ValueId x = param({4});
  const std::string before = print(g_);
  const Graph::Mark mark = g_.mark();
  const Dim n = g_.shapes().fresh(4);
  ASSERT_TRUE(add(x, param({n})));
  g_.rollback(mark);
  EXPECT_EQ(print(g_), before);
  EXPECT_EQ(g_.shapes().symbol_count(), 0u);
  EXPECT_TRUE(g_.shapes().guards().empty());
  EXPECT_EQ(index(*add(x, x)), 1u);
}

TEST_F(Builder, EmptyShapes) {
  EXPECT_EQ(type(*add(param({0, 3}), param({3}))), "f64[0, 3]");
  const Dim n = g_.shapes().fresh(0);
  EXPECT_EQ(g_.type(*add(param({n, 3}), param({3}))).strides[0], Dim(0));
}

}  // namespace
}  // namespace framejit::graph
