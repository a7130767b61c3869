// Each row of the operator table is complete: every table and switch that depends on it has an answer.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "graph/op.h"
#include "graph/scalar_ops.h"

namespace framejit::graph {
namespace {

constexpr DType dtype_at(int i) { return static_cast<DType>(i); }

TEST(OpTable, RowsAreNamedAndInOrder) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOpCount; ++i) {
    const OpDef& row = kOps[i];
    EXPECT_EQ(static_cast<int>(row.op), i) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(op_from_name(row.name), row.op);
    EXPECT_EQ(row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string_view::npos) << row.name;
  }
  EXPECT_FALSE(op_from_name("no such operator"));
}

TEST(OpTable, RowsAgreeWithTheirClass) {
  for (const OpDef& row : kOps) {
    SCOPED_TRACE(row.name);
    const bool computes = row.cls == OpClass::Elementwise || row.cls == OpClass::Cast ||
                          row.cls == OpClass::Reduction || row.cls == OpClass::Contraction;
    EXPECT_TRUE(row.operands <= 3 || row.operands == kAnyOperands);
    EXPECT_TRUE(row.operands > 0 || row.cls == OpClass::Source);
    EXPECT_TRUE(!computes || !row.numpy.empty()) << "the NumPy name";
    EXPECT_TRUE(!row.commutative || row.operands == 2);
    EXPECT_TRUE(computes || row.flags == Flags::None);
    EXPECT_EQ(row.cls == OpClass::Reduction, row.name.starts_with("reduce_"));
    EXPECT_TRUE(row.result != ResultRule::Attribute || row.cls == OpClass::Source || row.cls == OpClass::Cast ||
                row.cls == OpClass::Host || row.cls == OpClass::Control);
  }
}

TEST(OpTable, EachOperatorTakesSomeDtypeAndGivesOne) {
  for (const OpDef& row : kOps) {
    SCOPED_TRACE(row.name);
    int taken = 0;
    for (int i = 0; i < kDTypeCount; ++i) {
      if (!takes(row.op, dtype_at(i))) continue;
      ++taken;
      EXPECT_EQ(result_dtype(row.op, dtype_at(i)).has_value(), row.result != ResultRule::Attribute);
    }
    EXPECT_GT(taken, 0);
  }
}

/// The reference has a meaning for each elementwise operator on each dtype that the row takes.
TEST(OpTable, EachElementwiseOperatorHasAReference) {
  for (const OpDef& row : kOps) {
    if (row.cls != OpClass::Elementwise) continue;
    for (int i = 0; i < kDTypeCount; ++i) {
      const DType dtype = dtype_at(i);
      if (!takes(row.op, dtype) || !has_scalar_ops(dtype)) continue;
      const Scalar args[3] = {{1}, {1}, {1}};
      Scalar out;
      EXPECT_TRUE(apply_scalar(row.op, dtype, *result_dtype(row.op, dtype), {args, row.operands}, out))
          << row.name << " of " << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace framejit::graph
