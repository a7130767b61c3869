// Each row of the operator table is complete: every table and switch that depends on it has an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

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
                row.cls == OpClass::LibraryCall || row.cls == OpClass::Control);
  }
}

TEST(OpTable, SetsOfDtypesAreThoseOfTheirKinds) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType t = dtype_at(i);
    SCOPED_TRACE(name_of(t));
    const bool integer = is_int(t), floating = is_float(t), complex = is_complex(t), truth = t == DType::Bool;
    EXPECT_EQ(has(Takes::Bool, t), truth);
    EXPECT_EQ(has(Takes::Int, t), integer);
    EXPECT_EQ(has(Takes::Float, t), floating);
    EXPECT_EQ(has(Takes::Complex, t), complex);
    EXPECT_EQ(has(Takes::Integral, t), truth || integer);
    EXPECT_EQ(has(Takes::IntOrFloat, t), integer || floating);
    EXPECT_EQ(has(Takes::Real, t), !complex);
    EXPECT_EQ(has(Takes::Inexact, t), floating || complex);
    EXPECT_EQ(has(Takes::Number, t), !truth);
    EXPECT_TRUE(has(Takes::Any, t));
    EXPECT_EQ(has(Takes::Single, t), t == DType::F32);
    EXPECT_EQ(has(Takes::SingleOrDouble, t), t == DType::F32 || t == DType::F64);
  }
}

/// Own code is for dtypes that the operator takes; elementary functions have bounds, other operators are exact.
TEST(OpTable, OwnCodeIsForWhatARowTakes) {
  constexpr Own kMath = Own::Math | Own::MathInFloat64, kFloat = Own::Float | Own::FloatAtO1;
  for (const OpDef& row : kOps) {
    SCOPED_TRACE(row.name);
    const auto takes_all = [&](auto... dtypes) { return (takes(row.op, dtypes) && ...); };
    EXPECT_TRUE(row.own == Own::None || row.cls == OpClass::Elementwise);
    EXPECT_TRUE(!has(row.own, kFloat | kMath) || takes_all(DType::F32, DType::F64));
    EXPECT_TRUE(!has(row.own, Own::Half) || takes_all(DType::F16));
    EXPECT_TRUE(!has(row.own, Own::Int) || takes_all(DType::I8, DType::I64, DType::U8, DType::U64));
    EXPECT_TRUE(!has(row.own, Own::Bool) || takes_all(DType::Bool));
    EXPECT_TRUE(!has(row.own, Own::Complex) || takes_all(DType::C64, DType::C128));
    EXPECT_LE(has(row.own, Own::Float) + has(row.own, Own::FloatAtO1) + has(row.own, Own::Math) +
                  has(row.own, Own::MathInFloat64),
              1);
    EXPECT_TRUE(!has(row.own, Own::FloatAtO1 | kMath) || row.exactness == Exactness::NumpyLoop);
    EXPECT_TRUE(has(row.own, kMath) || (row.ulps.f32 == 0 && row.ulps.f64 == 0));
    EXPECT_EQ(row.ulps.f32 == 0, row.ulps.f64 == 0);
  }
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

TEST(OpTable, NamesOfTensorsAreOfOneOperator) {
  std::set<std::string_view> functions, primitives;
  for (const OpDef& row : kOps) {
    SCOPED_TRACE(row.name);
    const std::vector<std::string_view> own = words(row.functions);
    for (std::string_view name : own) EXPECT_TRUE(!name.empty() && functions.insert(name).second) << name;
    for (std::string_view name : words(row.methods))
      EXPECT_NE(std::find(own.begin(), own.end(), name), own.end()) << name << " is no function";
    for (std::string_view name : words(row.primitives))
      EXPECT_TRUE(!name.empty() && primitives.insert(name).second) << name;
  }
  EXPECT_GT(functions.size(), 60u);
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
