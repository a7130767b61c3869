// Machine code of control-flow graphs beside the reference interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "cfg_graphs.h"
#include "codegen/emit_cfg.h"

namespace framejit::codegen {
namespace {

using cfg::Cfg;
using cfg::Id;
using cfg::Node;
using cfg::Op;
using cfg::Type;

/// A number of the type, from the cell of memory that a pointer leads to.
Id input(Cfg& g, Type type, int64_t which) {
  Node pointer;
  pointer.op = Op::Pointer;
  pointer.type = Type::I64;
  pointer.imm = which;
  Node load;
  load.op = Op::Load;
  load.type = type;
  load.mem = type == Type::I64 ? cfg::Mem::I64 : type == Type::F64 ? cfg::Mem::F64 : cfg::Mem::F32;
  load.args[0] = add(g, 0, pointer);
  return add(g, 0, load);
}

/// An operator on two inputs. Leaves by exit 0 if it fails, else by exit 1 with its value.
Cfg of_two(Op op, Type type) {
  Cfg g;
  g.blocks.emplace_back();
  g.exits.resize(2);
  const Id a = input(g, type, 0), b = input(g, type, 1);
  const bool compares = op == Op::Eq || op == Op::Ne || op == Op::Lt || op == Op::Le || op == Op::Below;
  Node n;
  n.op = op;
  n.type = compares ? Type::I64 : type;
  n.args[0] = a;
  if (cfg::info(op).operands > 1) n.args[1] = b;
  if (cfg::info(op).effect == cfg::Effect::Checks) n.exit = 0;
  const Id result = add(g, 0, n);
  g.exits[1].values = {result};
  g.blocks[0].end = cfg::Block::End::Leave;
  g.blocks[0].exit = 1;
  return g;
}

std::vector<int64_t> edges(Type type) {
  std::vector<int64_t> out;
  if (type == Type::I64)
    for (const int64_t v : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{7}, int64_t{-7}, int64_t{8}, int64_t{63},
                            int64_t{1} << 31, (int64_t{1} << 31) - 1, -(int64_t{1} << 31), int64_t{1} << 53,
                            std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()})
      out.push_back(v);
  else
    for (const double v :
         {0.0, -0.0, 1.0, -1.5, 2.5, 1e300, -1e-300, 4503599627370497.5, std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      out.push_back(type == Type::F64 ? std::bit_cast<int64_t>(v)
                                      : static_cast<int64_t>(std::bit_cast<uint32_t>(static_cast<float>(v))));
  return out;
}

bool same(const Result& a, const Result& b, Type type) {
  if (a.exit != b.exit) return false;
  if (a.exit == 0) return true;
  const int64_t x = a.values[0], y = b.values[0];
  // Which of two numbers that are none comes out is not laid down.
  if (type == Type::F64 && std::isnan(std::bit_cast<double>(x))) return std::isnan(std::bit_cast<double>(y));
  if (type == Type::F32 && std::isnan(std::bit_cast<float>(static_cast<uint32_t>(x))))
    return std::isnan(std::bit_cast<float>(static_cast<uint32_t>(y)));
  return x == y;
}

void check_operator(Op op, Type type) {
  const Cfg g = of_two(op, type);
  ASSERT_EQ(cfg::verify(g), "");
  for (const Isa isa : {Isa::Avx2, Isa::Avx512}) {
    if (isa > detected_cpu().isa) continue;
    const Kernel kernel(g, isa);
    for (int64_t a : edges(type))
      for (int64_t b : edges(type)) {
        const bool divides = op == Op::FloorDiv || op == Op::FloorMod;
        if (divides && (b == 0 || b == -1)) continue;
        if ((op == Op::Shl || op == Op::Shr) && (b < 0 || b > 63)) continue;
        char* const pointers[] = {reinterpret_cast<char*>(&a), reinterpret_cast<char*>(&b)};
        const Result expected = interpreted(g, {}, pointers), got = kernel.run({}, pointers);
        const bool is_float = g.nodes[g.exits[1].values[0]].type != Type::I64;
        EXPECT_TRUE(same(got, expected, is_float ? type : Type::I64))
            << cfg::info(op).text << " " << a << " " << b << ": " << got.values[0] << " for " << expected.values[0];
      }
  }
}

TEST(EmitCfg, OperatorsOnIntegers) {
  for (const Op op : {Op::Add,      Op::Sub,      Op::Mul,      Op::Neg,      Op::Ones, Op::Abs, Op::AddExact,
                      Op::SubExact, Op::MulExact, Op::FloorDiv, Op::FloorMod, Op::And,  Op::Or,  Op::Xor,
                      Op::Shl,      Op::Shr,      Op::Eq,       Op::Ne,       Op::Lt,   Op::Le,  Op::Below})
    check_operator(op, Type::I64);
}

TEST(EmitCfg, DivisionsByConstants) {
  for (const int64_t divisor :
       {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, int64_t{7}, int64_t{10}, int64_t{64}, int64_t{641},
        int64_t{1000003}, (int64_t{1} << 31) - 1, int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 40,
        int64_t{1} << 62, (int64_t{1} << 62) + 1, std::numeric_limits<int64_t>::max()})
    for (const Op op : {Op::FloorDiv, Op::FloorMod}) {
      Cfg g;
      g.blocks.emplace_back();
      g.exits.resize(1);
      const Id a = input(g, Type::I64, 0);
      g.exits[0].values = {node(g, 0, op, Type::I64, a, constant(g, 0, divisor))};
      g.blocks[0].end = cfg::Block::End::Leave;
      g.blocks[0].exit = 0;
      const Kernel kernel(g, Isa::Avx2);
      std::vector<int64_t> numbers = edges(Type::I64);
      for (uint64_t k = 0; k < 7; ++k)
        for (const int64_t near : {divisor, -divisor, 5 * (divisor >> 3), int64_t{1} << 62})
          numbers.push_back(static_cast<int64_t>(static_cast<uint64_t>(near) + k - 3));
      for (int64_t number : numbers) {
        char* const pointers[] = {reinterpret_cast<char*>(&number)};
        EXPECT_EQ(kernel.run({}, pointers).values[0], interpreted(g, {}, pointers).values[0])
            << number << " by " << divisor;
      }
    }
}

TEST(EmitCfg, AQuotientAndARemainderOfTheSameNumbers) {
  for (const int64_t divisor : {int64_t{7}, int64_t{10}, int64_t{16}, int64_t{1000003}, (int64_t{1} << 62) + 1}) {
    Cfg g;
    g.blocks.resize(3);
    g.exits.resize(1);
    const Id a = input(g, Type::I64, 0), by = constant(g, 0, divisor);
    // In a loop, as the passes leave other graphs early.
    g.blocks[0].end = cfg::Block::End::Jump;
    g.blocks[0].to[0] = {1, {a}};
    const Id p = g.add_param(1, Type::I64);
    const Id rest = node(g, 1, Op::FloorMod, Type::I64, p, by), quotient = node(g, 1, Op::FloorDiv, Type::I64, p, by);
    g.blocks[1].end = cfg::Block::End::Branch;
    g.blocks[1].condition = node(g, 1, Op::Lt, Type::I64, constant(g, 1, 1 << 20), quotient);
    g.blocks[1].to[0] = {1, {quotient}};
    g.blocks[1].to[1] = {2, {}};
    g.exits[0].values = {quotient, rest};
    g.blocks[2].end = cfg::Block::End::Leave;
    g.blocks[2].exit = 0;
    ASSERT_EQ(cfg::verify(g), "");
    Cfg passes = g;
    cfg::optimize(passes);
    ASSERT_EQ(cfg::verify(passes), "") << cfg::print(passes);
    const std::string text = cfg::print(passes);
    EXPECT_EQ(text.find("floormod"), std::string::npos) << text;
    EXPECT_EQ(text.find("floordiv") == std::string::npos, divisor == 16) << text;  // a shift and a mask
    const Kernel kernel(passes, Isa::Avx2);
    for (int64_t number : edges(Type::I64)) {
      char* const pointers[] = {reinterpret_cast<char*>(&number)};
      EXPECT_EQ(kernel.run({}, pointers).values, interpreted(g, {}, pointers).values) << number << " by " << divisor;
    }
  }
}

TEST(EmitCfg, QuotientsByPowersOf2AreProducts) {
  for (const double divisor : {2.0, -0.5, 1.0, 0x1p31, 0x1p-300, 0x1p1022, 0x1p1023, 0x1p-1022, 3.0, 0.0, -0.0,
                               std::numeric_limits<double>::infinity(), std::numeric_limits<double>::denorm_min()}) {
    Cfg g;
    g.blocks.emplace_back();
    g.exits.resize(1);
    Node by;
    by.type = Type::F64;
    by.imm = std::bit_cast<int64_t>(divisor);
    const Id a = input(g, Type::F64, 0);
    g.exits[0].values = {node(g, 0, Op::Div, Type::F64, a, add(g, 0, by))};
    g.blocks[0].end = cfg::Block::End::Leave;
    g.blocks[0].exit = 0;
    Cfg passes = g;
    cfg::optimize(passes);
    int exponent = 0;
    const bool is_product = std::abs(std::frexp(divisor, &exponent)) == 0.5 && std::isnormal(1 / divisor);
    EXPECT_EQ(cfg::print(passes).find("= div ") == std::string::npos, is_product) << divisor;
    for (int64_t number : edges(Type::F64)) {
      char* const pointers[] = {reinterpret_cast<char*>(&number)};
      EXPECT_EQ(Kernel(passes, Isa::Avx2).run({}, pointers).values, interpreted(g, {}, pointers).values) << divisor;
    }
  }
}

TEST(EmitCfg, OperatorsOnFloats) {
  for (const Type type : {Type::F64, Type::F32})
    for (const Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Neg, Op::Abs, Op::Sqrt, Op::Floor, Op::Ceil, Op::Trunc,
                        Op::Rint, Op::Eq, Op::Ne, Op::Lt, Op::Le})
      check_operator(op, type);
}

/// for i in 0..n: s, t = t, s + a[i]; leaves with s, t, i by exit 0, and by exit 1 where a number is not finite.
Cfg swapped_sums() {
  Cfg g;
  for (int i = 0; i < 4; ++i) g.blocks.emplace_back();
  g.exits.resize(3);
  Node symbol;
  symbol.op = Op::Symbol;
  symbol.type = Type::I64;
  const Id n = add(g, 0, symbol);
  Node pointer;
  pointer.op = Op::Pointer;
  pointer.type = Type::I64;
  const Id data = add(g, 0, pointer), zero = constant(g, 0, 0), one = constant(g, 0, 1);
  Node start;
  start.type = Type::F64;
  const Id nothing = add(g, 0, start);
  g.blocks[0].end = cfg::Block::End::Jump;
  g.blocks[0].to[0] = {1, {zero, nothing, nothing}};
  const Id i = g.add_param(1, Type::I64), s = g.add_param(1, Type::F64), t = g.add_param(1, Type::F64);
  g.blocks[1].end = cfg::Block::End::Branch;
  g.blocks[1].condition = node(g, 1, Op::Lt, Type::I64, i, n);
  g.blocks[1].to[0] = {2, {}};
  g.blocks[1].to[1] = {3, {}};
  Node load;
  load.op = Op::Load;
  load.type = Type::F64;
  load.mem = cfg::Mem::F64;
  load.scale = 8;
  load.args[0] = data;
  load.args[1] = i;
  const Id sum = node(g, 2, Op::Add, Type::F64, s, add(g, 2, load));
  Node finite;
  finite.op = Op::CheckFinite;
  finite.args[0] = sum;
  finite.exit = 1;
  add(g, 2, finite);
  Node poll;
  poll.op = Op::Poll;
  poll.exit = 2;
  add(g, 2, poll);
  g.blocks[2].end = cfg::Block::End::Jump;
  g.blocks[2].to[0] = {1, {node(g, 2, Op::Add, Type::I64, i, one), t, sum}};
  g.blocks[3].end = cfg::Block::End::Leave;
  g.blocks[3].exit = 0;
  for (cfg::Exit& e : g.exits) e.values = {s, t, i};
  return g;
}

TEST(EmitCfg, ALoopAndItsExits) {
  Cfg plain = swapped_sums(), passes = swapped_sums();
  cfg::optimize(passes);
  ASSERT_EQ(cfg::verify(plain), "");
  ASSERT_EQ(cfg::verify(passes), "") << cfg::print(passes);
  std::vector<double> data{1.5, -2.0, 4.0, 8.25, 16.0};
  for (int64_t n = 0; n <= 5; ++n)
    for (const bool infinite : {false, true}) {
      data[3] = infinite ? std::numeric_limits<double>::infinity() : 8.25;
      char* const pointers[] = {reinterpret_cast<char*>(data.data())};
      const Result expected = interpreted(plain, {n}, pointers);
      EXPECT_EQ(expected.exit, n > 3 && infinite ? 1 : 0);
      for (const Cfg& g : {plain, passes}) {
        const Result got = Kernel(g, Isa::Avx2).run({n}, pointers), again = interpreted(g, {n}, pointers);
        EXPECT_EQ(got.exit, expected.exit);
        EXPECT_EQ(got.values, expected.values);
        EXPECT_EQ(again.values, expected.values);
      }
    }
}

/// Two loops hand two parameters round, which change places, and one value is what both are given; the inner loop also
/// hands round the counter of the outer one.
Cfg handed_round() {
  Cfg g;
  g.blocks.resize(6);
  g.exits.resize(1);
  Node symbol;
  symbol.op = Op::Symbol;
  symbol.type = Type::I64;
  const Id n = add(g, 0, symbol);
  symbol.imm = 1;
  const Id x = add(g, 0, symbol), zero = constant(g, 0, 0), one = constant(g, 0, 1);
  const auto jump = [&g](uint32_t from, uint32_t to, std::vector<Id> args) {
    g.blocks[from].end = cfg::Block::End::Jump;
    g.blocks[from].to[0] = {to, std::move(args)};
  };
  const auto branch = [&g](uint32_t from, Id condition, uint32_t yes, uint32_t no) {
    g.blocks[from].end = cfg::Block::End::Branch;
    g.blocks[from].condition = condition;
    g.blocks[from].to[0] = {yes, {}};
    g.blocks[from].to[1] = {no, {}};
  };
  jump(0, 1, {zero, x, x});
  const Id i = g.add_param(1, Type::I64), a = g.add_param(1, Type::I64), b = g.add_param(1, Type::I64);
  branch(1, node(g, 1, Op::Lt, Type::I64, i, n), 2, 5);
  jump(2, 3, {zero, i, b, a});
  const Id j = g.add_param(3, Type::I64), k = g.add_param(3, Type::I64);
  const Id c = g.add_param(3, Type::I64), d = g.add_param(3, Type::I64);
  branch(3, node(g, 3, Op::Lt, Type::I64, j, n), 4, 2);
  g.blocks[3].to[1] = {1, {node(g, 3, Op::Add, Type::I64, k, one), c, d}};
  jump(4, 3, {node(g, 4, Op::Add, Type::I64, j, one), k, d, c});
  g.blocks[5].end = cfg::Block::End::Leave;
  g.blocks[5].exit = 0;
  g.exits[0].values = {a, b, i};
  return g;
}

TEST(EmitCfg, ParametersThatLoopsHandRound) {
  Cfg plain = handed_round(), passes = handed_round();
  ASSERT_EQ(cfg::verify(plain), "");
  cfg::optimize(passes);
  ASSERT_EQ(cfg::verify(passes), "") << cfg::print(passes);
  for (const cfg::Block& b : passes.blocks) EXPECT_LE(b.params.size(), 2U) << cfg::print(passes);
  EXPECT_EQ(passes.exits[0].values[0], passes.exits[0].values[1]);
  EXPECT_FALSE(passes.is_param[passes.exits[0].values[0]]) << cfg::print(passes);
  for (int64_t n = 0; n <= 4; ++n)
    for (const Cfg& g : {plain, passes}) {
      const std::vector<int64_t> expected{7, 7, n}, got = Kernel(g, Isa::Avx2).run({n, 7}, nullptr).values;
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got.begin()));
      EXPECT_EQ(interpreted(g, {n, 7}, nullptr).values, got);
    }
}

/// Adds up a count that goes down. Where it is left in the middle, the next count is given.
Cfg counted_down() {
  Cfg g;
  g.blocks.resize(3);
  g.exits.resize(2);
  Node symbol;
  symbol.op = Op::Symbol;
  symbol.type = Type::I64;
  const Id n = add(g, 0, symbol), zero = constant(g, 0, 0), one = constant(g, 0, 1), down = constant(g, 0, -1);
  g.blocks[0].end = cfg::Block::End::Jump;
  g.blocks[0].to[0] = {1, {n, zero}};
  const Id left = g.add_param(1, Type::I64), sum = g.add_param(1, Type::I64);
  const Id next = node(g, 1, Op::Add, Type::I64, left, down);
  Node added;
  added.op = Op::AddExact;
  added.type = Type::I64;
  added.args[0] = sum;
  added.args[1] = left;
  added.exit = 1;
  const Id total = add(g, 1, added);
  g.blocks[1].end = cfg::Block::End::Branch;
  g.blocks[1].condition = node(g, 1, Op::Ne, Type::I64, left, one);
  g.blocks[1].to[0] = {1, {next, total}};
  g.blocks[1].to[1] = {2, {}};
  g.blocks[2].end = cfg::Block::End::Leave;
  g.blocks[2].exit = 0;
  g.exits[0].values = {total};
  g.exits[1].values = {next, sum};
  return g;
}

TEST(EmitCfg, ANextCountThatAnExitGivesStaysInFrontOfIt) {
  Cfg plain = counted_down(), passes = counted_down();
  ASSERT_EQ(cfg::verify(plain), "");
  cfg::optimize(passes);
  ASSERT_EQ(cfg::verify(passes), "") << cfg::print(passes);
  for (const int64_t n : {int64_t{1}, int64_t{5}, std::numeric_limits<int64_t>::max()})
    for (const Cfg& g : {plain, passes}) {
      const Result expected = interpreted(plain, {n}, nullptr), got = Kernel(g, Isa::Avx2).run({n}, nullptr);
      EXPECT_EQ(got.exit, n > 5 ? 1 : 0);
      EXPECT_EQ(got.values, expected.values);
    }
}

TEST(EmitCfg, LoadsAreMadeAgainBehindStoresOnly) {
  Cfg g;
  g.blocks.resize(3);
  g.exits.resize(2);
  Node pointer;
  pointer.op = Op::Pointer;
  pointer.type = Type::I64;
  const Id base = add(g, 0, pointer), way = node(g, 0, Op::Symbol, Type::I64);
  const auto load = [&](uint32_t block) {
    Node n;
    n.op = Op::Load;
    n.type = Type::I64;
    n.args[0] = base;
    return add(g, block, n);
  };
  const Id first = load(0);
  g.blocks[0].end = cfg::Block::End::Branch;
  g.blocks[0].condition = way;
  g.blocks[0].to[0].block = 1;
  g.blocks[0].to[1].block = 2;
  g.exits[0].values = {load(1), first};
  Node store;
  store.op = Op::Store;
  store.args[0] = base;
  store.args[2] = constant(g, 2, 5);
  add(g, 2, store);
  g.exits[1].values = {load(2), first};
  for (const uint32_t b : {1, 2}) {
    g.blocks[b].end = cfg::Block::End::Leave;
    g.blocks[b].exit = b - 1;
  }
  ASSERT_EQ(cfg::verify(g), "");
  Cfg passes = g;
  cfg::optimize(passes);
  EXPECT_EQ(passes.exits[0].values[0], passes.exits[0].values[1]) << cfg::print(passes);
  EXPECT_NE(passes.exits[1].values[0], passes.exits[1].values[1]) << cfg::print(passes);
  EXPECT_TRUE(passes.is_const(passes.exits[1].values[0])) << cfg::print(passes);  // what was stored
  for (int64_t way_taken = 0; way_taken <= 1; ++way_taken) {
    int64_t cell = 42;
    char* pointers[] = {reinterpret_cast<char*>(&cell)};
    const std::vector<int64_t> got = Kernel(passes, Isa::Avx2).run({way_taken}, pointers).values;
    EXPECT_EQ(got[0], way_taken ? 42 : 5);
    EXPECT_EQ(got[1], 42);
  }
}

/// for i in 0..9: total += the number at pointer 0, which each round may store anew; leaves with the total.
Cfg sums_of_one_number(bool stores) {
  Cfg g;
  g.blocks.resize(3);
  g.exits.resize(1);
  const Id base = node(g, 0, Op::Pointer, Type::I64), zero = constant(g, 0, 0);
  const auto load = [&](uint32_t block) { return node(g, block, Op::Load, Type::I64, base); };
  g.blocks[0].end = cfg::Block::End::Jump;
  g.blocks[0].to[0] = {1, {zero, load(0)}};
  const Id i = g.add_param(1, Type::I64), total = g.add_param(1, Type::I64);
  const Id sum = node(g, 1, Op::Add, Type::I64, total, load(1)),
           next = node(g, 1, Op::Add, Type::I64, i, constant(g, 1, 1));
  if (stores) {
    Node store;
    store.op = Op::Store;
    store.args[0] = base;
    store.args[2] = sum;
    add(g, 1, store);
  }
  g.blocks[1].end = cfg::Block::End::Branch;
  g.blocks[1].condition = node(g, 1, Op::Lt, Type::I64, next, constant(g, 1, 9));
  g.blocks[1].to[0] = {1, {next, sum}};
  g.blocks[1].to[1] = {2, {}};
  g.blocks[2].end = cfg::Block::End::Leave;
  g.blocks[2].exit = 0;
  g.exits[0].values = {sum};
  return g;
}

TEST(EmitCfg, ALoopThatStoresNothingLoadsNothingAgain) {
  for (const bool stores : {false, true}) {
    const Cfg g = sums_of_one_number(stores);
    ASSERT_EQ(cfg::verify(g), "");
    Cfg passes = g;
    cfg::optimize(passes);
    const std::string text = cfg::print(passes);
    const std::size_t first = text.find("load."), loop = text.find("# loop depth 1");
    ASSERT_LT(first, loop) << text;
    EXPECT_EQ(text.find("load.", loop) != std::string::npos, stores) << text;
    int64_t before = 3, after = 3;
    char *plain[] = {reinterpret_cast<char*>(&before)}, *compiled[] = {reinterpret_cast<char*>(&after)};
    EXPECT_EQ(Kernel(passes, Isa::Avx2).run({}, compiled).values, interpreted(g, {}, plain).values);
    EXPECT_EQ(after, before);
  }
}

TEST(EmitCfg, ABlockDoesNotPollAfterTheOnlyOneThatLeadsToIt) {
  Cfg g = sums_of_one_number(false);
  g.exits.push_back({g.blocks[1].params, 1});
  for (const uint32_t block : {1, 2}) {
    Node poll;
    poll.op = Op::Poll;
    poll.exit = 1;
    add(g, block, poll);
  }
  ASSERT_EQ(cfg::verify(g), "");
  cfg::optimize(g);
  const std::string text = cfg::print(g);
  const std::size_t only = text.find("poll");
  EXPECT_NE(only, std::string::npos) << text;
  EXPECT_EQ(text.find("poll", only + 1), std::string::npos) << text;
  EXPECT_LT(text.find("# loop depth 1"), only) << text;
}

TEST(EmitCfg, WhatOneBranchUsesIsComputedThere) {
  // Each round stores i * i * i if i is not the symbol.
  Cfg g;
  g.blocks.resize(5);
  g.exits.resize(1);
  const Id base = node(g, 0, Op::Pointer, Type::I64), symbol = node(g, 0, Op::Symbol, Type::I64),
           zero = constant(g, 0, 0);
  g.blocks[0].end = cfg::Block::End::Jump;
  g.blocks[0].to[0] = {1, {zero}};
  const Id i = g.add_param(1, Type::I64);
  const Id cube = node(g, 1, Op::Mul, Type::I64, node(g, 1, Op::Mul, Type::I64, i, i), i);
  g.blocks[1].end = cfg::Block::End::Branch;
  g.blocks[1].condition = node(g, 1, Op::Eq, Type::I64, i, symbol);
  g.blocks[1].to[0] = {3, {}};
  g.blocks[1].to[1] = {2, {}};
  Node store;
  store.op = Op::Store;
  store.args[0] = base;
  store.args[2] = cube;
  add(g, 2, store);
  g.blocks[2].end = cfg::Block::End::Jump;
  g.blocks[2].to[0] = {3, {}};
  const Id next = node(g, 3, Op::Add, Type::I64, i, constant(g, 3, 1));
  g.blocks[3].end = cfg::Block::End::Branch;
  g.blocks[3].condition = node(g, 3, Op::Lt, Type::I64, next, constant(g, 3, 6));
  g.blocks[3].to[0] = {1, {next}};
  g.blocks[3].to[1] = {4, {}};
  g.blocks[4].end = cfg::Block::End::Leave;
  g.blocks[4].exit = 0;
  ASSERT_EQ(cfg::verify(g), "");
  Cfg passes = g;
  cfg::optimize(passes);
  ASSERT_EQ(cfg::verify(passes), "");
  for (const cfg::Block& block : passes.blocks) {
    const auto has = [&](Op op) {
      return std::any_of(block.nodes.begin(), block.nodes.end(), [&](Id id) { return passes.at(id).op == op; });
    };
    EXPECT_EQ(has(Op::Mul), has(Op::Store)) << cfg::print(passes);
  }
  for (const int64_t skipped : {0, 3, 5, 9}) {
    int64_t before = -1, after = -1;
    char *plain[] = {reinterpret_cast<char*>(&before)}, *compiled[] = {reinterpret_cast<char*>(&after)};
    interpreted(g, {skipped}, plain);
    Kernel(passes, Isa::Avx2).run({skipped}, compiled);
    EXPECT_EQ(after, before) << skipped;
  }
}

TEST(EmitCfg, AnIndexIsCheckedAgainOnceTheLengthMayBeAnother) {
  // Each round reads the length, checks i and i + 1, and makes the length one less.
  Cfg g;
  g.blocks.resize(3);
  g.exits.resize(3);
  Node pointer;
  pointer.op = Op::Pointer;
  pointer.type = Type::I64;
  const Id base = add(g, 0, pointer), zero = constant(g, 0, 0);
  g.blocks[0].end = cfg::Block::End::Jump;
  g.blocks[0].to[0] = {1, {zero}};
  const Id i = g.add_param(1, Type::I64);
  Node load;
  load.op = Op::Load;
  load.type = Type::I64;
  load.args[0] = base;
  const Id length = add(g, 1, load);
  const auto check = [&](Id index, uint32_t exit) {
    Node n;
    n.op = Op::Check;
    n.args[0] = node(g, 1, Op::Below, Type::I64, index, length);
    n.exit = exit;
    add(g, 1, n);
  };
  check(i, 0);
  const Id next = node(g, 1, Op::Add, Type::I64, i, constant(g, 1, 1));
  check(next, 1);
  Node store;
  store.op = Op::Store;
  store.args[0] = base;
  store.args[2] = node(g, 1, Op::Sub, Type::I64, length, constant(g, 1, 1));
  add(g, 1, store);
  g.blocks[1].end = cfg::Block::End::Branch;
  g.blocks[1].condition = node(g, 1, Op::Lt, Type::I64, next, constant(g, 1, 40));
  g.blocks[1].to[0] = {1, {next}};
  g.blocks[1].to[1] = {2, {}};
  g.blocks[2].end = cfg::Block::End::Leave;
  g.blocks[2].exit = 2;
  for (cfg::Exit& exit : g.exits) exit.values = {i};
  ASSERT_EQ(cfg::verify(g), "");
  Cfg passes = g;
  cfg::optimize(passes);
  for (const int64_t first : {10, 11, 1000}) {
    int64_t before = first, after = first;
    char *plain[] = {reinterpret_cast<char*>(&before)}, *compiled[] = {reinterpret_cast<char*>(&after)};
    const Result expected = interpreted(g, {}, plain), got = Kernel(passes, Isa::Avx2).run({}, compiled);
    EXPECT_EQ(got.exit, expected.exit) << cfg::print(passes);
    EXPECT_EQ(got.values, expected.values);
  }
}

TEST(EmitCfg, WhatIsStoredIsReadAsItFits) {
  for (const cfg::Mem mem : {cfg::Mem::U8, cfg::Mem::I8, cfg::Mem::I16, cfg::Mem::U32, cfg::Mem::I64})
    for (const int64_t distance : {0, 1, 8}) {
      Cfg g;
      g.blocks.resize(1);
      g.exits.resize(1);
      Node pointer;
      pointer.op = Op::Pointer;
      pointer.type = Type::I64;
      const Id base = add(g, 0, pointer), value = node(g, 0, Op::Symbol, Type::I64);
      Node store, load;
      store.op = Op::Store;
      store.mem = mem;
      store.args[0] = base;
      store.args[2] = value;
      add(g, 0, store);
      load.op = Op::Load;
      load.type = Type::I64;
      load.mem = mem;
      load.args[0] = base;
      load.imm = distance;
      g.exits[0].values = {add(g, 0, load)};
      g.blocks[0].end = cfg::Block::End::Leave;
      g.blocks[0].exit = 0;
      ASSERT_EQ(cfg::verify(g), "");
      Cfg passes = g;
      cfg::optimize(passes);
      EXPECT_EQ(passes.exits[0].values[0] == value, mem == cfg::Mem::I64 && distance == 0) << cfg::print(passes);
      for (const int64_t number : {int64_t{300}, int64_t{-1}, int64_t{-40000}, int64_t{1} << 40}) {
        int64_t before[3] = {11, 22, 33}, after[3] = {11, 22, 33};
        char *plain[] = {reinterpret_cast<char*>(before)}, *compiled[] = {reinterpret_cast<char*>(after)};
        EXPECT_EQ(Kernel(passes, Isa::Avx2).run({number}, compiled).values, interpreted(g, {number}, plain).values);
      }
    }
}

TEST(EmitCfg, ALoopIsLeftWhereTheInterpreterWaits) {
  const Cfg g = swapped_sums();
  std::vector<double> data{1.5, -2.0};
  char* const pointers[] = {reinterpret_cast<char*>(data.data())};
  const unsigned char waits = 1;
  const Result got = Kernel(g, Isa::Avx2).run({2}, pointers, &waits);
  EXPECT_EQ(got.exit, 2);
  EXPECT_EQ(got.values[2], 0);
}

TEST(EmitCfg, IndicesThatAreConstant) {
  // Those of large arrays are beyond what an address can hold beside its registers.
  for (const int64_t index : {int64_t{0}, int64_t{3}, int64_t{-2}, (int64_t{1} << 28) - 1, int64_t{1} << 28,
                              int64_t{1} << 30, int64_t{1} << 40}) {
    Cfg g;
    g.blocks.emplace_back();
    g.exits.resize(1);
    Node pointer;
    pointer.op = Op::Pointer;
    pointer.type = Type::I64;
    Node load;
    load.op = Op::Load;
    load.type = Type::I64;
    load.args[0] = add(g, 0, pointer);
    load.args[1] = constant(g, 0, index);
    load.scale = 8;
    g.exits[0].values = {add(g, 0, load)};
    g.blocks[0].end = cfg::Block::End::Leave;
    g.blocks[0].exit = 0;
    int64_t cell = 42;
    char* const base = reinterpret_cast<char*>(reinterpret_cast<intptr_t>(&cell) - 8 * index);
    EXPECT_EQ(interpreted(g, {}, &base).values[0], 42) << index;
    EXPECT_EQ(Kernel(g, Isa::Avx2).run({}, &base).values[0], 42) << index;
  }
}

/// A graph that moves elements of one array, at places that a vector tells, to places of another one.
Cfg moves(cfg::Mem mem, int lanes, bool some) {
  Cfg g;
  g.blocks.emplace_back();
  g.exits.resize(1);
  g.blocks[0].end = cfg::Block::End::Leave;
  g.blocks[0].exit = 0;
  const auto vector = [&](Node n) {
    n.lanes = static_cast<uint8_t>(lanes);
    return add(g, 0, n);
  };
  Id pointers[4];
  for (int64_t k = 0; k < 4; ++k) {
    Node n;
    n.op = Op::Pointer;
    n.type = Type::I64;
    n.imm = k;
    pointers[k] = add(g, 0, n);
  }
  const auto load = [&](int from, Id index, cfg::Mem what, Id where) {
    Node n;
    n.op = Op::Load;
    n.type = cfg::type_of(what);
    n.mem = what;
    n.args[0] = pointers[from];
    n.args[1] = index;
    n.scale = static_cast<uint8_t>(index == cfg::kNone ? 1 : cfg::size_of(what));
    n.imm = index == cfg::kNone ? 0 : cfg::size_of(what);
    n.where = where;
    return vector(n);
  };
  const Id places = load(2, cfg::kNone, cfg::Mem::I64, cfg::kNone);
  const Id where = some ? load(3, cfg::kNone, cfg::Mem::I64, cfg::kNone) : cfg::kNone;
  const Id value = cfg::size_of(mem) == 8 ? load(0, places, mem, where) : load(0, cfg::kNone, mem, cfg::kNone);
  Node store;
  store.op = Op::Store;
  store.mem = mem;
  store.args[0] = pointers[1];
  store.args[1] = places;
  store.args[2] = value;
  store.scale = static_cast<uint8_t>(cfg::size_of(mem));
  store.imm = cfg::size_of(mem);
  store.where = where;
  vector(store);
  return g;
}

TEST(EmitCfg, LanesWithAddressesOfTheirOwn) {
  using cfg::Mem;
  for (const Isa isa : {Isa::Avx2, Isa::Avx512}) {
    if (isa > detected_cpu().isa) continue;
    const int lanes = isa == Isa::Avx512 ? 8 : 4;
    for (const Mem mem : {Mem::F64, Mem::I64, Mem::I32, Mem::U32, Mem::I16, Mem::U8, Mem::F32})
      for (const bool some : {false, true}) {
        const Cfg g = moves(mem, lanes, some);
        ASSERT_EQ(cfg::verify(g), "") << cfg::print(g);
        const Kernel kernel(g, isa);
        // Some lanes that do not take part have addresses that nothing may touch.
        std::vector<int64_t> places{5, 0, 7, 2, 6, 1, 3, 4}, where{1, 0, -1, 5, 0, 0, 1, 2};
        for (std::size_t k = 0; some && k < where.size(); ++k)
          if (where[k] == 0) places[k] = int64_t{1} << 50;
        std::vector<unsigned char> memory[2];
        for (int way = 0; way < 2; ++way) {
          for (int k = 0; k < 160; ++k) memory[way].push_back(static_cast<unsigned char>(3 * k));
          char* const from = reinterpret_cast<char*>(memory[way].data());
          char* const pointers[] = {from, from + 80, reinterpret_cast<char*>(places.data()),
                                    reinterpret_cast<char*>(where.data())};
          if (way == 0) interpreted(g, {}, pointers);
          else kernel.run({}, pointers);
        }
        EXPECT_EQ(memory[1], memory[0]) << cfg::print(g);
      }
  }
}

TEST(EmitCfg, TheVerifierFindsWhatIsWrong) {
  Cfg g = swapped_sums();
  g.blocks[1].to[0].args = {g.blocks[1].condition};
  EXPECT_NE(cfg::verify(g).find("number of arguments"), std::string::npos);
  g = swapped_sums();
  g.exits[0].values.push_back(g.blocks[2].nodes[0]);
  EXPECT_NE(cfg::verify(g).find("where it is not defined"), std::string::npos);
  g = swapped_sums();
  g.blocks[3].end = cfg::Block::End::Open;
  EXPECT_NE(cfg::verify(g).find("is open"), std::string::npos);
  g = swapped_sums();
  g.blocks[2].to[0].args[1] = g.blocks[1].condition;
  EXPECT_NE(cfg::verify(g).find("another type"), std::string::npos);
}

TEST(EmitCfg, TextNamesBlocksValuesAndExits) {
  const std::string text = cfg::print(swapped_sums());
  for (const char* part : {"block1(%5: i64, %6: f64, %7: f64):  # loop depth 1", "load.f64 %1 %5 *8", "check.finite",
                           "else exit1", "branch %8 block2() block3()", "leave exit0", "exit2: %6 %7 %5"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

}  // namespace
}  // namespace framejit::codegen
