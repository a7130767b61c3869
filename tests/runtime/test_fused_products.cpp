// Products that are rounded with a sum: the operators, and what cfg::fuse_products() makes of loops.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/cfg/loops.h"
#include "one_loop.h"

namespace framejit::codegen {
namespace {

constexpr std::size_t kPart = kBytes / 3;
const std::vector<std::vector<std::size_t>> kPlaces{{0, kPart, 2 * kPart}, {8, kPart + 16, 2 * kPart + 5}};

int count(const Cfg& g, Op op) {
  int found = 0;
  for (const cfg::Block& b : g.blocks)
    for (const Id id : b.nodes) found += g.at(id).op == op;
  return found;
}

TEST(FusedProducts, Operators) {
  for (const Type type : {Type::F64, Type::F32}) {
    const cfg::Mem mem = type == Type::F64 ? cfg::Mem::F64 : cfg::Mem::F32;
    for (const Op op : {Op::MulAdd, Op::MulSub, Op::SubMul})
      // Which operands are one value, and which are constants.
      for (int form = 0; form < 9; ++form) {
        OneLoop loop(3);
        const Id a = loop.load(0, mem, loop.i()), b = loop.load(1, mem, loop.i()), c = loop.load(2, mem, loop.i());
        const Id number = loop.number(0.1, type), other = loop.number(-3, type);
        const Id operands[][3] = {{a, b, c},      {a, a, c},      {a, b, a},      {a, b, b},         {a, a, a},
                                  {a, number, c}, {a, b, number}, {a, a, number}, {a, number, other}};
        const Id made = loop.make(op, type, operands[form][0], operands[form][1], operands[form][2]);
        // Some operands are used behind it too, so that their registers are not free.
        const Id kept = form % 2 ? loop.make(Op::Sub, type, made, loop.make(Op::Mul, type, a, b)) : made;
        loop.store(2, mem, loop.i(), kept);
        const Cfg g = loop.end();
        if (type == Type::F64)
          compare(g, std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.1, 0.125, 4.5, 1e100}, kPlaces);
        else compare(g, std::vector<float>{1.5F, -2.25F, 3e-40F, -0.0F, 7.1F, 0.125F, 4.5F}, kPlaces);
      }
  }
}

/// A round's number is the one before times a factor, and so on.
Cfg recurrence(Op op, bool behind) {
  OneLoop loop(2);
  const Id before = loop.load(0, cfg::Mem::F64, loop.i()), x = loop.load(1, cfg::Mem::F64, loop.i());
  loop.store(0, cfg::Mem::F64, loop.i(), loop.make(op, Type::F64, behind ? x : before, x, behind ? before : x), 1);
  return loop.end();
}

TEST(FusedProducts, RoundsThatWaitForEachOther) {
  for (const Op op : {Op::MulAdd, Op::MulSub, Op::SubMul})
    for (const bool behind : {false, true})
      compare(recurrence(op, behind), std::vector<double>{1.5, -0.25, 0.1, -0.0, 0.7, 0.125, 0.45},
              {{80, 400}, {80, 88}}, 0);
}

TEST(FusedProducts, AProductOfOneSumIsFusedInEachPlace) {
  for (const bool first : {false, true})
    for (const Op op : {Op::Add, Op::Sub}) {
      OneLoop loop(3);
      const Id a = loop.load(0, cfg::Mem::F64, loop.i()), b = loop.load(1, cfg::Mem::F64, loop.i());
      const Id product = loop.make(Op::Mul, Type::F64, a, b);
      loop.check_finite(product);
      const Id sum = first ? loop.make(op, Type::F64, product, a) : loop.make(op, Type::F64, a, product);
      loop.check_finite(sum);
      loop.store(2, cfg::Mem::F64, loop.i(), sum);
      Cfg g = loop.end();
      cfg::fuse_products(g);
      const Op fused = op == Op::Add ? Op::MulAdd : first ? Op::MulSub : Op::SubMul;
      EXPECT_EQ(count(g, fused), 1) << cfg::print(g);
      EXPECT_EQ(count(g, Op::CheckFinite), 1) << cfg::print(g);
      compare(g, kFinite, {{0, kPart, 2 * kPart}});
    }
}

TEST(FusedProducts, WhatStaysAsItIs) {
  const auto made = [](auto build) {
    OneLoop loop(3);
    const Id a = loop.load(0, cfg::Mem::F64, loop.i()), b = loop.load(1, cfg::Mem::F64, loop.i());
    loop.store(2, cfg::Mem::F64, loop.i(), build(loop, a, b));
    Cfg g = loop.end();
    cfg::fuse_products(g);
    return count(g, Op::MulAdd) + count(g, Op::MulSub) + count(g, Op::SubMul);
  };
  EXPECT_EQ(
      made([](OneLoop& l, Id a, Id b) { return l.make(Op::Add, Type::F64, l.make(Op::Mul, Type::F64, a, b), b); }), 1);
  // A product that is used twice, one whose own warning counts, and one that is added to nothing.
  EXPECT_EQ(made([](OneLoop& l, Id a, Id b) {
              const Id product = l.make(Op::Mul, Type::F64, a, b);
              return l.make(Op::Mul, Type::F64, l.make(Op::Add, Type::F64, product, b), product);
            }),
            0);
  EXPECT_EQ(made([](OneLoop& l, Id a, Id b) {
              const Id product = l.make(Op::Mul, Type::F64, a, b);
              l.check_finite(product);
              return l.make(Op::Add, Type::F64, product, b);
            }),
            0);
  EXPECT_EQ(made([](OneLoop& l, Id a, Id b) {
              return l.make(Op::Add, Type::F64, l.make(Op::Mul, Type::F64, a, b), l.number(0));
            }),
            0);
  // Integers.
  EXPECT_EQ(made([](OneLoop& l, Id a, Id) {
              const Id i = l.make(Op::Add, Type::I64, l.make(Op::Mul, Type::I64, l.i(), l.i()), l.i());
              return l.make(Op::Add, Type::F64, a, l.make(Op::ToF64, Type::F64, i));
            }),
            0);
}

}  // namespace
}  // namespace framejit::codegen
