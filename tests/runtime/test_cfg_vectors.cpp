// Loops of vectors: the graph without passes beside the one with vectors, interpreted and as machine code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "one_loop.h"

namespace framejit::codegen {
namespace {

Cfg scaled_sum(bool checked) {
  OneLoop loop(3);
  const Id a = loop.load(0, cfg::Mem::F64, loop.i()), b = loop.load(1, cfg::Mem::F64, loop.i());
  const Id sum = loop.make(Op::Add, Type::F64, loop.make(Op::Mul, Type::F64, a, loop.number(2.0)), b);
  if (checked) loop.check_finite(sum);
  loop.store(2, cfg::Mem::F64, loop.i(), sum);
  return loop.end();
}

TEST(CfgVectors, ArraysApartAndNotAligned) {
  compare(scaled_sum(true), kFinite, {{0, kThird, 2 * kThird}, {8, kThird + 16, 2 * kThird + 5}, {0, 0, kThird}});
}

TEST(CfgVectors, ArraysThatOverlap) {
  std::vector<std::vector<std::size_t>> places;
  // What is stored lies before, at and behind what is read, by up to more than a vector.
  for (std::size_t k = 0; k <= 20; ++k) places.push_back({80, 2 * kThird, 8 * k});
  for (std::size_t k : {1, 4, 7, 9, 63}) places.push_back({80, 2 * kThird, 80 + k});
  compare(scaled_sum(false), kFinite, places);
}

TEST(CfgVectors, ResultsThatAreNotFiniteLeaveWhereTheyArise) {
  for (std::size_t where = 0; where < 30; where += 3) {
    std::vector<double> values(96, 1.25);
    values[where] = 1.7e308;
    compare(scaled_sum(true), values, {{0, kThird, 2 * kThird}});
  }
  compare(scaled_sum(false), kAll, {{0, kThird, 2 * kThird}});
}

TEST(CfgVectors, OperatorsOnFloats) {
  for (const Type type : {Type::F64, Type::F32}) {
    const cfg::Mem mem = type == Type::F64 ? cfg::Mem::F64 : cfg::Mem::F32;
    for (const Op op :
         {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Neg, Op::Abs, Op::Sqrt, Op::Floor, Op::Ceil, Op::Trunc, Op::Rint}) {
      OneLoop loop(3);
      const Id a = loop.load(0, mem, loop.i()), b = loop.load(1, mem, loop.i());
      // Which of two numbers that are none comes out is not laid down.
      const Id made = loop.make(op, type, a, cfg::info(op).operands > 1 ? b : kNone);
      loop.store(2, mem, loop.i(), loop.make(Op::Select, type, loop.make(Op::Eq, Type::I64, made, made), made, a));
      if (type == Type::F64) {
        compare(loop.end(), kAll, {{0, kThird, 2 * kThird}});
      } else {
        std::vector<float> narrow;
        for (const double v : kAll) narrow.push_back(static_cast<float>(v));
        compare(loop.end(), narrow, {{0, kThird, 2 * kThird}});
      }
    }
  }
}

TEST(CfgVectors, ChoicesByComparisons) {
  for (const Op op : {Op::Eq, Op::Ne, Op::Lt, Op::Le})
    for (const bool swapped : {false, true}) {
      OneLoop floats(3);
      const Id a = floats.load(0, cfg::Mem::F64, floats.i()), b = floats.load(1, cfg::Mem::F64, floats.i());
      const Id c = floats.make(op, Type::I64, a, b);
      floats.store(2, cfg::Mem::F64, floats.i(),
                   floats.make(Op::Select, Type::F64, c, swapped ? b : a, swapped ? a : b));
      compare(floats.end(), kAll, {{0, kThird + 8, 2 * kThird}});

      OneLoop integers(3);
      const Id x = integers.load(0, cfg::Mem::I64, integers.i()), y = integers.load(1, cfg::Mem::I64, integers.i());
      const Id d = integers.make(op, Type::I64, x, y);
      const Id chosen = integers.make(Op::Select, Type::I64, d, swapped ? y : x, integers.i());
      integers.store(2, cfg::Mem::I64, integers.i(), integers.make(Op::Add, Type::I64, chosen, d));
      compare(integers.end(), std::vector<int64_t>{5, -3, 7, 7, std::numeric_limits<int64_t>::min(), 0, 5, 1 << 20},
              {{0, kThird + 8, 2 * kThird}});
    }
}

const std::vector<int64_t> kIntegers{5,
                                     -3,
                                     7,
                                     std::numeric_limits<int64_t>::min(),
                                     0,
                                     1 << 20,
                                     -1,
                                     std::numeric_limits<int64_t>::max(),
                                     -0x123456789abcdef,
                                     0x7fffffff80000001,
                                     1 << 31};

TEST(CfgVectors, OperatorsOnIntegers) {
  for (const Op op : {Op::Add, Op::Sub, Op::Mul, Op::And, Op::Or, Op::Xor, Op::Neg, Op::Abs, Op::Ones, Op::Below}) {
    OneLoop loop(3);
    const Id a = loop.load(0, cfg::Mem::I64, loop.i()), b = loop.load(1, cfg::Mem::I64, loop.i());
    loop.store(2, cfg::Mem::I64, loop.i(), loop.make(op, Type::I64, a, cfg::info(op).operands > 1 ? b : kNone));
    compare(loop.end(), kIntegers, {{0, kThird, 2 * kThird}});
  }
  for (const Op op : {Op::Shl, Op::Shr})
    for (const int64_t by : {1, 5, 32, 63}) {
      OneLoop loop(2);
      const Id a = loop.load(0, cfg::Mem::I64, loop.i());
      loop.store(1, cfg::Mem::I64, loop.i(), loop.make(op, Type::I64, a, loop.constant(by)));
      compare(loop.end(), kIntegers, {{0, kThird}});
    }
}

TEST(CfgVectors, IntegersThatAreCutOff) {
  using cfg::Mem;
  for (const Mem mem : {Mem::I8, Mem::U8, Mem::I16, Mem::U16, Mem::I32, Mem::U32}) {
    OneLoop loop(2);
    loop.store(1, Mem::I64, loop.i(), loop.extend(loop.load(0, Mem::I64, loop.i()), mem));
    compare(loop.end(), kIntegers, {{0, kThird}});
  }
}

TEST(CfgVectors, FloatsOfSmallIntegers) {
  using cfg::Mem;
  for (const Mem mem : {Mem::I8, Mem::U8, Mem::I16, Mem::U16, Mem::I32, Mem::U32}) {
    OneLoop loop(2);
    const Id a = loop.make(Op::Sub, Type::I64, loop.load(0, mem, loop.i()), loop.constant(100));
    loop.store(1, Mem::F64, loop.i(), loop.make(Op::ToF64, Type::F64, a));
    compare(loop.end(), std::vector<uint8_t>{1, 200, 255, 128, 127, 0, 3, 77, 254, 100, 13, 0, 0, 0}, {{0, kThird}});
  }
}

TEST(CfgVectors, IntegersOfAllSizes) {
  using cfg::Mem;
  for (const Mem mem : {Mem::I8, Mem::U8, Mem::I16, Mem::U16, Mem::I32, Mem::U32, Mem::I64}) {
    OneLoop loop(2);
    const Id a = loop.load(0, mem, loop.i()), b = loop.load(0, mem, loop.i(), 1);
    loop.store(1, mem, loop.i(), loop.make(Op::Add, Type::I64, a, b));
    compare(loop.end(), std::vector<uint8_t>{1, 200, 255, 128, 127, 0, 3, 77, 254, 91, 13}, {{0, 500}, {8, 8}, {5, 4}});
  }
}

TEST(CfgVectors, SizesThatDiffer) {
  using cfg::Mem;
  OneLoop loop(2);
  const Id a = loop.load(0, Mem::U8, loop.i());
  loop.store(1, Mem::I32, loop.i(), loop.make(Op::Sub, Type::I64, a, loop.constant(100)));
  std::vector<std::vector<std::size_t>> places{{0, 256}};
  for (std::size_t k : {0, 3, 40, 100, 200}) places.push_back({k, 96});
  compare(loop.end(), std::vector<uint8_t>{1, 200, 255, 128, 127, 0, 3, 77, 254, 91, 13}, places);
}

TEST(CfgVectors, LoopsThatCountDown) {
  OneLoop loop(3, true);
  const Id a = loop.load(0, cfg::Mem::F64, loop.i()), b = loop.load(1, cfg::Mem::F64, loop.i());
  const Id sum = loop.make(Op::Sub, Type::F64, a, b);
  loop.check_finite(sum);
  loop.store(2, cfg::Mem::F64, loop.i(), sum);
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t k = 0; k <= 20; ++k) places.push_back({80, 2 * kThird, 8 * k});
  compare(loop.end(), std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.0, 0.125, 4.5}, places);
}

TEST(CfgVectors, BothDirectionsInOneLoop) {
  OneLoop loop(3);
  const Id mirrored = loop.make(Op::Sub, Type::I64, loop.constant(30), loop.i());
  const Id a = loop.load(0, cfg::Mem::F64, loop.i()), b = loop.load(1, cfg::Mem::F64, mirrored);
  loop.store(2, cfg::Mem::F64, loop.i(), loop.make(Op::Add, Type::F64, a, b));
  compare(loop.end(), kFinite, {{0, 256, 512}, {0, 256, 264}, {160, 160, 160}, {160, 160, 0}});
}

TEST(CfgVectors, WhatIsReadAtOnePlace) {
  OneLoop loop(3);
  const Id a = loop.load(0, cfg::Mem::F64, loop.i()), b = loop.load(1, cfg::Mem::F64, loop.constant(2));
  loop.store(2, cfg::Mem::F64, loop.i(), loop.make(Op::Add, Type::F64, a, b));
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t k = 0; k <= 24; ++k) places.push_back({400, 8 * k, 80});
  compare(loop.end(), kFinite, places);
}

/// `into[i] = min(into[i], into[at] + from[i])`, as the shortest paths of Floyd and Warshall have it.
Cfg shortest(int64_t at, bool checked, bool counted, bool reads_itself) {
  OneLoop loop(2);
  const Id count = counted ? loop.carried(3) : kNone;
  const Id one = loop.load(1, cfg::Mem::F64, loop.constant(at)), a = loop.load(0, cfg::Mem::F64, loop.i());
  const Id sum = loop.make(Op::Add, Type::F64, one, a);
  if (checked) loop.check_finite(sum);
  const Id old = loop.load(reads_itself ? 1 : 0, cfg::Mem::F64, loop.i());
  const Id less = loop.make(Op::Lt, Type::I64, sum, old);
  loop.store(1, cfg::Mem::F64, loop.i(), loop.make(Op::Select, Type::F64, less, sum, old));
  if (!counted) return loop.end();
  const Id more = loop.make(Op::Select, Type::I64, less, loop.constant(1), loop.constant(0));
  return loop.end({loop.make(Op::Add, Type::I64, count, more)});
}

TEST(CfgVectors, AStoreThatComesToWhatIsReadAtOnePlace) {
  for (const bool checked : {false, true})
    for (const bool counted : {false, true})
      for (const bool reads_itself : {false, true})
        for (const int64_t at : {-1, 0, 1, 5, 6, 7, 8, 9, 14, 15, 16, 17, 23, 24, 25, 26, 27})
          compare(shortest(at, checked, counted, reads_itself), checked ? kAll : kFinite,
                  {{480, 160}, {0, 240}, {160, 160}});
}

TEST(CfgVectors, AStoreOfIntegersThatComesToWhatIsReadAtOnePlace) {
  for (const int64_t at : {0, 3, 7, 8, 20})
    for (const cfg::Mem mem : {cfg::Mem::I64, cfg::Mem::I32}) {
      OneLoop loop(2);
      const Id one = loop.load(1, mem, loop.constant(at)), a = loop.load(0, mem, loop.i());
      loop.store(1, mem, loop.i(),
                 loop.make(Op::Xor, Type::I64, one, loop.make(Op::Add, Type::I64, a, loop.constant(1))));
      const Cfg made = loop.end();
      if (mem == cfg::Mem::I64)
        compare(made, std::vector<int64_t>{5, -3, 11, 0, 1 << 20, -7}, {{480, 160}, {160, 160}});
      else compare(made, std::vector<int32_t>{5, -3, 11, 0, 1 << 20, -7}, {{480, 160}, {160, 160}});
    }
}

/// The most vectors that one block loads.
std::size_t most_loads(const Cfg& g) {
  std::size_t most = 0;
  for (const cfg::Block& b : g.blocks) {
    const auto loads = std::count_if(b.nodes.begin(), b.nodes.end(),
                                     [&](Id id) { return g.at(id).op == Op::Load && g.at(id).lanes > 1; });
    most = std::max(most, static_cast<std::size_t>(loads));
  }
  return most;
}

TEST(CfgVectors, ShortRoundsAreDoneInPairsOfVectors) {
  for (const bool checked : {false, true}) {
    Cfg g = scaled_sum(checked);
    cfg::optimize(g, 32);
    EXPECT_EQ(most_loads(g), 4u) << cfg::print(g);
  }
  // Each round reads what the sixth round before it has stored: two vectors of four cannot be done at once, and no
  // vector of eight.
  OneLoop loop(1);
  loop.store(0, cfg::Mem::F64, loop.i(), loop.make(Op::Neg, Type::F64, loop.load(0, cfg::Mem::F64, loop.i(), -6)));
  Cfg g = loop.end();
  compare(g, kFinite, {{80}}, 32);
  cfg::optimize(g, 32);
  EXPECT_EQ(most_loads(g), 1u) << cfg::print(g);
}

TEST(CfgVectors, WhatAllRoundsReadIsReadOnce) {
  // out[i] = a[i] * b[2], where b is apart.
  OneLoop loop(3);
  const Id a = loop.load(0, cfg::Mem::F64, loop.i()), b = loop.load(1, cfg::Mem::F64, loop.constant(2));
  loop.store(2, cfg::Mem::F64, loop.i(), loop.make(Op::Mul, Type::F64, a, b));
  Cfg g = loop.end();
  cfg::optimize(g, 32);
  const cfg::Shape shape = cfg::shape_of(g);
  std::size_t in_vectors = 0;
  for (uint32_t k = 0; k < g.blocks.size(); ++k) {
    const auto has = [&](bool vectors) {
      return std::any_of(g.blocks[k].nodes.begin(), g.blocks[k].nodes.end(),
                         [&](Id id) { return g.at(id).op == Op::Load && (g.at(id).lanes > 1) == vectors; });
    };
    if (!has(true)) continue;
    ++in_vectors;
    EXPECT_GT(shape.depth[k], 0u);
    EXPECT_FALSE(has(false)) << cfg::print(g);
  }
  EXPECT_EQ(in_vectors, 2u) << cfg::print(g);
}

TEST(CfgVectors, TwoStoresThatMeet) {
  OneLoop loop(3);
  const Id a = loop.load(0, cfg::Mem::F64, loop.i());
  loop.store(1, cfg::Mem::F64, loop.i(), a);
  loop.store(2, cfg::Mem::F64, loop.i(), loop.make(Op::Neg, Type::F64, a));
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t k = 0; k <= 20; ++k) places.push_back({400, 80, 8 * k});
  compare(loop.end(), kFinite, places);
}

TEST(CfgVectors, WhatIsReadBehindAStore) {
  OneLoop loop(3);
  const Id a = loop.load(0, cfg::Mem::F64, loop.i());
  loop.store(1, cfg::Mem::F64, loop.i(), a);
  const Id b = loop.load(2, cfg::Mem::F64, loop.i());
  loop.store(0, cfg::Mem::F64, loop.i(), loop.make(Op::Add, Type::F64, a, b));
  std::vector<std::vector<std::size_t>> places;
  for (std::size_t k = 0; k <= 20; ++k) places.push_back({500, 80, 8 * k});
  for (std::size_t k = 0; k <= 20; ++k) places.push_back({8 * k, 80, 500});
  compare(loop.end(), kFinite, places);
}

TEST(CfgVectors, ChecksOfNumbersThatAreRead) {
  OneLoop loop(2);
  const Id a = loop.load(0, cfg::Mem::F64, loop.i());
  loop.check(loop.make(Op::Le, Type::I64, loop.number(0.0), a));
  loop.store(1, cfg::Mem::F64, loop.i(), loop.make(Op::Sqrt, Type::F64, a));
  const Cfg g = loop.end();
  compare(g, std::vector<double>{4.0, 2.0, 0.25, -0.0}, {{0, 400}});
  for (std::size_t where = 0; where < 30; where += 3) {
    std::vector<double> values(96, 2.0);
    values[where] = -1.0;
    compare(g, values, {{0, 400}});
  }
}

TEST(CfgVectors, ArmsThatStore) {
  // out[i] = a[i] * 2 if a[i] < b[i] else b[i]; the same without the second store.
  for (const bool both : {true, false})
    for (const bool down : {false, true}) {
      OneLoop loop(3, down);
      const Id a = loop.load(0, cfg::Mem::F64, loop.i()), b = loop.load(1, cfg::Mem::F64, loop.i());
      loop.choice(
          loop.make(Op::Lt, Type::I64, a, b), Type::F64,
          [&] {
            const Id twice = loop.make(Op::Add, Type::F64, a, a);
            loop.check_finite(twice);
            loop.store(2, cfg::Mem::F64, loop.i(), twice);
            return twice;
          },
          [&] {
            if (both) loop.store(2, cfg::Mem::F64, loop.i(), b);
            return b;
          });
      const Cfg g = loop.end();
      std::vector<std::vector<std::size_t>> places{{0, kThird, 2 * kThird}};
      for (std::size_t k = 0; k <= 20; ++k) places.push_back({80, 2 * kThird, 8 * k});
      compare(g, std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.0, 0.125, 4.5}, places);
      compare(g, kAll, places);
    }
}

TEST(CfgVectors, ArmsOfSeveralBranchesThatStoreAtOnePlace) {
  // out[i] = -1 if a[i] < -1, else 1 if 1 < a[i], else a[i]; also without the last store.
  for (const bool all : {true, false}) {
    OneLoop loop(2);
    const Id a = loop.load(0, cfg::Mem::F64, loop.i()), low = loop.number(-1.0), high = loop.number(1.0);
    const auto store = [&](Id value) {
      loop.store(1, cfg::Mem::F64, loop.i(), value);
      return value;
    };
    loop.choice(
        loop.make(Op::Lt, Type::I64, a, low), Type::F64, [&] { return store(low); },
        [&] {
          return loop.choice(
              loop.make(Op::Lt, Type::I64, high, a), Type::F64, [&] { return store(high); },
              [&] { return all ? store(a) : a; });
        });
    Cfg g = loop.end();
    compare(g, kAll, {{0, kThird}, {80, 80}, {80, 96}});
    cfg::optimize(g, 32);
    std::size_t masked = 0;
    for (const cfg::Block& b : g.blocks)
      for (const Id id : b.nodes) masked += g.at(id).op == Op::Store && g.at(id).where != kNone;
    EXPECT_EQ(masked == 0, all) << cfg::print(g);
  }
}

TEST(CfgVectors, WhatOnlyOneArmReads) {
  OneLoop loop(3);
  const Id a = loop.load(0, cfg::Mem::F64, loop.i());
  const Id chosen = loop.choice(
      loop.make(Op::Lt, Type::I64, a, loop.number(1.0)), Type::F64,
      [&] { return loop.load(1, cfg::Mem::F64, loop.i()); }, [&] { return a; });
  loop.store(2, cfg::Mem::F64, loop.i(), loop.make(Op::Neg, Type::F64, chosen));
  compare(loop.end(), kAll, {{0, kThird, 2 * kThird}, {80, 80, 80}, {80, 96, 88}});
}

TEST(CfgVectors, SumsOfIntegers) {
  using cfg::Mem;
  for (const int64_t start : {int64_t{0}, int64_t{-7}, std::numeric_limits<int64_t>::max() - 3}) {
    // count += 1 if image[i] > 128; out[i] = 255 or 0.
    OneLoop loop(2);
    const Id count = loop.carried(start);
    const Id pixel = loop.load(0, Mem::U8, loop.i());
    const Id next = loop.choice(
        loop.make(Op::Lt, Type::I64, loop.constant(128), pixel), Type::I64,
        [&] {
          loop.store(1, Mem::U8, loop.i(), loop.constant(255));
          return loop.add_exact(count, loop.constant(1));
        },
        [&] {
          loop.store(1, Mem::U8, loop.i(), loop.constant(0));
          return count;
        });
    compare(loop.end({next}), std::vector<uint8_t>{1, 200, 255, 128, 127, 0, 3, 77, 254, 91, 13}, {{0, 256}, {0, 0}},
            start <= 0 ? 64 : 0);

    OneLoop plain(1);
    const Id total = plain.carried(start);
    const Id sum = plain.add_exact(total, plain.load(0, Mem::I32, plain.i()));
    compare(plain.end({sum}), std::vector<int32_t>{1, -200, 1 << 20, -5, 127}, {{0}}, start <= 0 ? 64 : 0);
  }
}

TEST(CfgVectors, SumsThatOverflowLeave) {
  for (std::size_t where = 0; where < 30; where += 3) {
    OneLoop loop(3);
    const Id a = loop.load(0, cfg::Mem::I64, loop.i()), b = loop.load(1, cfg::Mem::I64, loop.i());
    loop.store(2, cfg::Mem::I64, loop.i(), loop.add_exact(a, b));
    std::vector<int64_t> values(96, -3);
    values[where] = std::numeric_limits<int64_t>::min() + 2;
    compare(loop.end(), values, {{0, kThird, 2 * kThird}});
  }
}

TEST(CfgVectors, DivisionsOfSmallNumbers) {
  for (const int64_t by : {2, 3, 7, 9, 255, 256, 1000003})
    for (const Op op : {Op::FloorDiv, Op::FloorMod}) {
      OneLoop loop(2);
      const Id a = loop.load(0, cfg::Mem::U16, loop.i()), b = loop.load(0, cfg::Mem::U8, loop.i());
      const Id large = loop.make(Op::Mul, Type::I64, a, b);
      loop.store(1, cfg::Mem::I32, loop.i(), loop.make(op, Type::I64, large, loop.constant(by)));
      const bool wide = detected_cpu().isa == Isa::Avx512;
      Cfg g = loop.end(), with = g;
      cfg::optimize(with, 64);
      EXPECT_TRUE(has_vectors(with));
      if (wide) {
        const Kernel kernel(with, Isa::Avx512);
        for (int64_t n = 0; n <= 26; ++n) {
          Memory memories[2];
          int64_t out[4] = {};
          const unsigned char waits = 0;
          for (int way = 0; way < 2; ++way) {
            fill(memories[way], std::vector<uint8_t>{1, 200, 255, 255, 127, 0, 3, 77, 254, 91, 13});
            char* pointers[] = {memories[way].at(0), memories[way].at(256)};
            if (way) kernel.function()(&n, pointers, nullptr, out, &waits);
            else cfg::interpret(g, {&n, pointers, nullptr}, out, kMostNodes);
          }
          EXPECT_EQ(memories[1].bytes, memories[0].bytes) << by << ", " << n << " rounds";
        }
      }
    }
}

/// Moves numbers between places that are `step` times `scale` bytes apart, and writes numbers that are `step` apart.
Cfg moves_apart(cfg::Mem mem, int lanes, int64_t step, bool is_known, int scale) {
  Cfg g;
  g.blocks.emplace_back();
  g.exits.resize(1);
  g.blocks[0].end = cfg::Block::End::Leave;
  g.blocks[0].exit = 0;
  const auto number = [&](Op op, int64_t imm) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.imm = imm;
    return add(g, 0, n);
  };
  const auto vector = [&](Node n) {
    n.lanes = static_cast<uint8_t>(lanes);
    return add(g, 0, n);
  };
  const auto ramp = [&](Id start, Id by) {
    Node n;
    n.op = Op::Ramp;
    n.type = Type::I64;
    n.args[0] = start;
    n.args[1] = by;
    return vector(n);
  };
  const Id by = is_known ? number(Op::Const, step) : number(Op::Symbol, 0);
  Node load;
  load.op = Op::Load;
  load.mem = mem == cfg::Mem::F64 ? mem : cfg::Mem::I64;
  load.type = cfg::type_of(load.mem);
  load.args[0] = number(Op::Pointer, 0);
  load.args[1] = ramp(number(Op::Const, 0), by);
  load.scale = static_cast<uint8_t>(scale);
  load.imm = 8;
  Node store = load;
  store.op = Op::Store;
  store.type = Type::None;
  store.mem = mem;
  store.args[2] = vector(load);
  store.args[0] = number(Op::Pointer, 1);
  vector(store);
  Node lasting;
  lasting.op = Op::Store;
  lasting.mem = cfg::Mem::I64;
  lasting.args[0] = number(Op::Pointer, 2);
  lasting.args[2] = ramp(number(Op::Symbol, 1), by);
  vector(lasting);
  return g;
}

TEST(CfgVectors, LanesThatAreOneStepApart) {
  for (const Isa isa : {Isa::Avx2, Isa::Avx512}) {
    if (isa > detected_cpu().isa) continue;
    const int lanes = isa == Isa::Avx512 ? 8 : 4;
    for (const cfg::Mem mem : {cfg::Mem::F64, cfg::Mem::I64, cfg::Mem::I32, cfg::Mem::U8})
      for (const int64_t bytes : {8, -8, 16, 24, -40, 0})
        for (const bool is_known : {true, false})
          for (const int scale : {1, 8}) {
            const int64_t step = bytes / scale;
            const Cfg g = moves_apart(mem, lanes, step, is_known, scale);
            ASSERT_EQ(cfg::verify(g), "") << cfg::print(g);
            const Kernel kernel(g, isa);
            std::vector<int64_t> memory[2];
            for (int way = 0; way < 2; ++way) {
              for (int64_t k = 0; k < 200; ++k) memory[way].push_back(k * 0x01020304050607);
              char* const middle = reinterpret_cast<char*>(memory[way].data() + 50);
              char* const pointers[] = {middle, middle + 800, reinterpret_cast<char*>(memory[way].data())};
              const std::vector<int64_t> symbols{step, 1000};
              if (way == 0) interpreted(g, symbols, pointers);
              else kernel.run(symbols, pointers);
            }
            EXPECT_EQ(memory[1], memory[0]) << cfg::print(g);
          }
  }
}

TEST(CfgVectors, TheVerifierFindsOtherLanes) {
  Cfg g = scaled_sum(true);
  cfg::optimize(g, 32);
  ASSERT_EQ(cfg::verify(g), "");
  Cfg wrong = g;
  for (Node& n : wrong.nodes)
    if (n.op == Op::Add && n.type == Type::F64 && n.lanes > 1) n.lanes = 2;
  EXPECT_NE(cfg::verify(wrong).find("other lanes"), std::string::npos);
  wrong = g;
  for (Node& n : wrong.nodes)
    if (n.op == Op::Finite) n.lanes = 4;
  EXPECT_NE(cfg::verify(wrong).find("other lanes"), std::string::npos);
  wrong = g;
  for (uint32_t b = 0; b < wrong.blocks.size(); ++b)
    for (Id id : wrong.blocks[b].nodes)
      if (wrong.at(id).op == Op::Load && wrong.at(id).lanes > 1 && wrong.blocks[b].end == cfg::Block::End::Branch) {
        const auto aside = static_cast<uint32_t>(wrong.blocks.size());
        wrong.exits.push_back({{id}});
        wrong.blocks.emplace_back();
        wrong.blocks[aside].end = cfg::Block::End::Leave;
        wrong.blocks[aside].exit = static_cast<uint32_t>(wrong.exits.size() - 1);
        wrong.blocks[b].to[0] = {aside, {}};
        EXPECT_NE(cfg::verify(wrong).find("lists a vector"), std::string::npos);
        return;
      }
  FAIL() << cfg::print(g);
}

}  // namespace
}  // namespace framejit::codegen
