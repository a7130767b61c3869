// Rounds of a loop that depend on each other: several at once, what they hand on, and what only exits use.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "one_loop.h"

namespace framejit::codegen {
namespace {

TEST(CfgUnrolled, WhatIsHandedToTheNextRound) {
  // out[i + 1] = out[i] + x[i]
  OneLoop loop(2);
  const Id sum =
      loop.make(Op::Add, Type::F64, loop.load(0, cfg::Mem::F64, loop.i()), loop.load(1, cfg::Mem::F64, loop.i()));
  loop.check_finite(sum);
  loop.store(0, cfg::Mem::F64, loop.i(), sum, 1);
  const Cfg g = loop.end();
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t k = 0; k <= 24; ++k) places.push_back({80, 8 * k});
  for (std::size_t k : {1, 77, 90}) places.push_back({80, k});
  compare(g, std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.0, 0.125, 4.5}, places, 0);
  for (std::size_t where = 0; where < 30; where += 3) {
    std::vector<double> values(96, 1.25);
    values[where] = 1.7e308;
    values[where + 1] = 1.7e308;
    compare(g, values, {{0, 400}, {0, 8}}, 0);
  }
}

TEST(CfgUnrolled, WhatIsAddedUpAtOnePlace) {
  // out[2] -= x[i] * y[i]; what is read may lie at the place.
  OneLoop loop(3);
  const Id place = loop.constant(2);
  const Id product =
      loop.make(Op::Mul, Type::F64, loop.load(1, cfg::Mem::F64, loop.i()), loop.load(2, cfg::Mem::F64, loop.i()));
  const Id rest = loop.make(Op::Sub, Type::F64, loop.load(0, cfg::Mem::F64, place), product);
  loop.check_finite(rest);
  loop.store(0, cfg::Mem::F64, place, rest);
  const Cfg g = loop.end();
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t k = 0; k <= 40; ++k) places.push_back({8 * k, 80, 400});
  for (std::size_t k : {1, 61, 77, 90}) places.push_back({k, 80, 400});
  compare(g, std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.0, 0.125, 4.5}, places, 0);
  compare(g, kAll, places, 0);
}

TEST(CfgExitValues, WhatOnlyExitsUseFollowsFromTheCount) {
  // What the round before was, and whether there was one, as the interpreter has to find it.
  for (const bool down : {false, true})
    for (const bool is_index : {false, true}) {
      OneLoop loop(2, down);
      loop.carried(-5);
      const Id value = loop.load(0, cfg::Mem::F64, loop.i());
      loop.check_finite(value);
      loop.store(1, cfg::Mem::F64, loop.i(), loop.make(Op::Sqrt, Type::F64, value));
      Cfg g = loop.end({is_index ? loop.i() : loop.constant(1)});
      compare(g, kFinite, {{0, 400}, {0, 8}, {8, 0}});
      compare(g, kAll, {{0, 400}, {0, 8}, {8, 0}});
      cfg::optimize(g, 32);
      const cfg::Shape shape = cfg::shape_of(g);
      std::size_t loops = 0;
      for (const uint32_t b : shape.order) {
        if (shape.loop[b] != b) continue;
        ++loops;
        EXPECT_EQ(g.blocks[b].params.size(), 1u) << cfg::print(g);
      }
      EXPECT_EQ(loops, 3u) << cfg::print(g);
    }
}

TEST(CfgExitValues, WhatRoundsReadIsHandedOn) {
  OneLoop loop(2);
  const Id before = loop.carried(-5);
  loop.store(0, cfg::Mem::I64, loop.i(), before);
  const Cfg g = loop.end({loop.i()});
  compare(g, std::vector<int64_t>{1, 2, 3}, {{0, 400}}, 0);
}

/// out[i] and more[i] are drawn from one another: x -> (by * x + 12345) % 2**bits.
Cfg draws(int64_t by, int bits, int64_t start) {
  OneLoop loop(2);
  const Id mask = loop.constant((int64_t{1} << bits) - 1);
  const auto next = [&](Id x) {
    const Id product = loop.exact(Op::MulExact, x, loop.constant(by));
    return loop.make(Op::And, Type::I64, loop.exact(Op::AddExact, product, loop.constant(12345)), mask);
  };
  const Id x = next(loop.carried(start)), y = next(x);
  loop.store(0, cfg::Mem::I64, loop.i(), x);
  loop.store(1, cfg::Mem::I64, loop.i(), y);
  return loop.end({y});
}

TEST(CfgCongruences, DrawsWaitForOneProduct) {
  for (const auto& [by, bits, start] : {std::tuple{int64_t{1103515245}, 31, int64_t{7}},
                                        {int64_t{-3}, 40, int64_t{5}},
                                        {int64_t{6364136223846793005}, 20, int64_t{3}}}) {
    Cfg g = draws(by, bits, start);
    compare(g, std::vector<int64_t>{1, 2, 3}, {{0, 256}}, 0);
    cfg::optimize(g, 32);
    std::size_t exact = 0, from_params = 0;
    for (const cfg::Block& b : g.blocks)
      for (const Id id : b.nodes) {
        const Node& n = g.at(id);
        exact += n.op == Op::MulExact || n.op == Op::AddExact;
        from_params += n.op == Op::Mul && g.is_param[n.args[0]];
      }
    const bool is_small = by == 1103515245;
    EXPECT_EQ(exact == 0, is_small) << cfg::print(g);
    EXPECT_EQ(from_params > 1, is_small) << cfg::print(g);
  }
}

TEST(CfgCongruences, SumsThatMayOverflowAreChecked) {
  // Both the number that begins and the remainders are small, or one of them is not.
  for (const int64_t start : {int64_t{1}, int64_t{1} << 62}) {
    OneLoop loop(1);
    const Id x = loop.carried(start);
    loop.store(0, cfg::Mem::I64, loop.i(), x);
    const Id sum = loop.exact(Op::AddExact, loop.exact(Op::AddExact, x, x), loop.constant(int64_t{1} << 61));
    Cfg g = loop.end({loop.make(Op::FloorMod, Type::I64, sum, loop.constant(1000003))});
    compare(g, std::vector<int64_t>{1, 2, 3}, {{0}}, 0);
    cfg::optimize(g, 32);
    EXPECT_EQ(cfg::print(g).find("add.exact") == std::string::npos, start == 1) << cfg::print(g);
  }
}

TEST(CfgUnrolled, WhatIsAddedUpAtOnePlaceStaysInARegister) {
  OneLoop loop(2);
  const Id place = loop.constant(0);
  const Id sum =
      loop.make(Op::Add, Type::F64, loop.load(0, cfg::Mem::F64, place), loop.load(1, cfg::Mem::F64, loop.i()));
  loop.store(0, cfg::Mem::F64, place, sum);
  Cfg g = loop.end();
  cfg::optimize(g, 32);
  std::size_t without = 0;  // blocks that do several rounds and do not read the sum from memory
  for (const cfg::Block& b : g.blocks) {
    std::size_t of_sum = 0, others = 0;
    for (const Id id : b.nodes) {
      const Node& n = g.at(id);
      if (n.op == Op::Load) ++(n.args[1] == kNone || g.is_const(n.args[1]) ? of_sum : others);
    }
    without += others > 1 && of_sum == 0;
  }
  EXPECT_EQ(without, 1u) << cfg::print(g);
}

TEST(CfgUnrolled, PlacesThatMoveDifferently) {
  // out[i] = out[i - 1] + x[3 * i] + y[i], counted up and down.
  for (const bool down : {false, true}) {
    OneLoop loop(3, down);
    const Id third = loop.load(1, cfg::Mem::F64, loop.make(Op::Mul, Type::I64, loop.i(), loop.constant(3)));
    const Id sum = loop.make(Op::Add, Type::F64, loop.load(0, cfg::Mem::F64, loop.i(), down ? 1 : -1), third);
    loop.store(0, cfg::Mem::F64, loop.i(), loop.make(Op::Add, Type::F64, sum, loop.load(2, cfg::Mem::F64, loop.i())));
    std::vector<std::vector<std::size_t>> places;
    for (std::size_t k = 1; k <= 16; ++k) places.push_back({8 * k, 96, 64});
    for (std::size_t k = 1; k <= 16; ++k) places.push_back({64, 128, 8 * k});
    compare(loop.end(), std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.0, 0.125, 4.5}, places, 0);
  }
}

TEST(CfgUnrolled, DivisionsThatOneArmDoes) {
  OneLoop loop(2);
  const Id sum = loop.carried(0);
  const Id a = loop.load(0, cfg::Mem::I64, loop.i()), b = loop.load(1, cfg::Mem::I64, loop.i());
  const Id quotient = loop.choice(
      loop.make(Op::Ne, Type::I64, b, loop.constant(0)), Type::I64,
      [&] { return loop.make(Op::FloorDiv, Type::I64, a, b); }, [&] { return loop.constant(0); });
  compare(loop.end({loop.add_exact(quotient, loop.make(Op::Neg, Type::I64, sum))}),
          std::vector<int64_t>{7, 0, 5, 3, 0, 2, 9}, {{0, 400}, {0, 8}, {8, 0}}, false);
}

TEST(CfgUnrolled, OneStoreThatMovesIntoWhatItHasStored) {
  OneLoop loop(1);
  loop.store(0, cfg::Mem::F64, loop.i(), loop.load(0, cfg::Mem::F64, loop.i()), 1);
  compare(loop.end(), kFinite, {{0}}, 0);
}

}  // namespace
}  // namespace framejit::codegen
