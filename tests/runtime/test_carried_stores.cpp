// Rounds that wait for what the round before has stored: the number comes in a register, and what a loop stores, and
// leaves with, is what it was.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <string>

#include "cfg_graphs.h"

namespace framejit::codegen {
namespace {

using cfg::Mem;

/// One round:
///
///     left = m[j + back]; up = u[j]
///     if up & 1: m[j] = left + up
///     else: (either stores) m[j] = left * 3
///     (other) m[j + other] = up
struct Loop {
  Mem mem = Mem::I64;
  int64_t back = -1;    // elements from where a round stores to where it loads
  int64_t step = 1;     // from round to round
  bool either = true;   // do both ways of a round store?
  int64_t other = 0;    // where else a round stores, or 0
  bool chain = true;    // does what is stored depend on what is loaded?
  bool into_u = false;  // the other store writes to u, which may be the same memory
};

/// Pointers: m and u, in the middle of their memory; symbols: how many rounds.
Cfg graph_of(const Loop& loop) {
  Cfg g;
  g.blocks.resize(6);
  g.exits.resize(2);
  const Type type = cfg::type_of(loop.mem);
  const auto pointer = [&](int64_t which) {
    Node n;
    n.op = Op::Pointer;
    n.type = Type::I64;
    n.imm = which;
    return add(g, 0, n);
  };
  const Id m = pointer(0), u = pointer(1), count = node(g, 0, Op::Symbol, Type::I64), zero = constant(g, 0, 0);
  g.blocks[0].end = cfg::Block::End::Branch;
  g.blocks[0].condition = node(g, 0, Op::Lt, Type::I64, zero, count);
  g.blocks[0].to[0] = {1, {zero, zero}};
  g.blocks[0].to[1] = {5, {}};
  const Id i = g.add_param(1, Type::I64), j = g.add_param(1, Type::I64);
  const auto access = [&](uint32_t block, Op op, Id base, int64_t place, Id value) {
    Node n;
    n.op = op;
    n.type = op == Op::Load ? type : Type::None;
    n.mem = loop.mem;
    n.scale = static_cast<uint8_t>(cfg::size_of(loop.mem));
    n.args[0] = base;
    n.args[1] = j;
    n.args[2] = value;
    n.imm = place * cfg::size_of(loop.mem);
    return add(g, block, n);
  };
  const auto number = [&](uint32_t block, int64_t n) {
    const Id k = constant(g, block, n);
    return type == Type::I64 ? k : node(g, block, type == Type::F64 ? Op::ToF64 : Op::ToF32, type, k);
  };
  const Id left = access(1, Op::Load, m, loop.back, cfg::kNone), up = access(1, Op::Load, u, 0, cfg::kNone);
  const Id whole = type == Type::I64 ? up : node(g, 1, Op::ToI64, Type::I64, up);
  g.blocks[1].end = cfg::Block::End::Branch;
  g.blocks[1].condition = node(g, 1, Op::And, Type::I64, whole, constant(g, 1, 1));
  g.blocks[1].to[0] = {2, {}};
  g.blocks[1].to[1] = {3, {}};
  const Id from = loop.chain ? left : up;
  access(2, Op::Store, m, 0, node(g, 2, Op::Add, type, from, up));
  if (loop.either) access(3, Op::Store, m, 0, node(g, 3, Op::Mul, type, from, number(3, 3)));
  for (const uint32_t b : {2u, 3u}) g.blocks[b].end = cfg::Block::End::Jump, g.blocks[b].to[0] = {4, {}};
  if (loop.other != 0) access(4, Op::Store, loop.into_u ? u : m, loop.other, up);
  const Id next = node(g, 4, Op::Add, Type::I64, i, constant(g, 4, 1)),
           place = node(g, 4, Op::Add, Type::I64, j, constant(g, 4, loop.step));
  Node poll;
  poll.op = Op::Poll;
  poll.exit = 1;
  add(g, 4, poll);
  g.exits[1].values = {next, left};
  g.blocks[4].end = cfg::Block::End::Branch;
  g.blocks[4].condition = node(g, 4, Op::Lt, Type::I64, next, count);
  g.blocks[4].to[0] = {1, {next, place}};
  g.blocks[4].to[1] = {5, {}};
  g.blocks[5].end = cfg::Block::End::Leave;
  g.blocks[5].exit = 0;
  g.exits[0].values = {count};
  return g;
}

int loads_in_loops(const Cfg& g) {
  const cfg::Shape shape = cfg::shape_of(g);
  int found = 0;
  for (uint32_t b : shape.order)
    for (Id id : g.blocks[b].nodes) found += shape.depth[b] > 0 && g.at(id).op == Op::Load;
  return found;
}

constexpr int kElements = 96, kMiddle = 48;
using Memory = std::array<std::byte, 2 * kElements * 8>;

Memory filled(Mem mem, std::mt19937_64& random) {
  Memory memory;
  for (int k = 0; k < 2 * kElements; ++k) {
    std::byte* at = memory.data() + k * cfg::size_of(mem);
    const auto n = static_cast<int64_t>(random() % 200) - 100;
    const double d = static_cast<double>(n);
    const float f = static_cast<float>(n);
    if (mem == Mem::F64) std::memcpy(at, &d, 8);
    else if (mem == Mem::F32) std::memcpy(at, &f, 4);
    else std::memcpy(at, &n, static_cast<std::size_t>(cfg::size_of(mem)));
  }
  return memory;
}

void expect_same(const Loop& loop, int loads) {
  const Cfg g = graph_of(loop);
  ASSERT_EQ(cfg::verify(g), "");
  Cfg passes = g;
  cfg::optimize(passes);
  ASSERT_EQ(cfg::verify(passes), "") << cfg::print(passes);
  EXPECT_EQ(loads_in_loops(passes), loads) << cfg::print(passes);
  const Kernel kernel(passes, Isa::Avx2);
  std::mt19937_64 random(5);
  for (const int64_t apart : {kElements, 3, 1, 0, -1})  // u lies so many elements behind m
    for (const unsigned char waits : {0, 1})
      for (int64_t rounds = 0; rounds < 12; ++rounds) {
        const Memory before = filled(loop.mem, random);
        Memory plain = before, compiled = before;
        const auto pointers = [&](Memory& memory) {
          char* const m = reinterpret_cast<char*>(memory.data()) + kMiddle * cfg::size_of(loop.mem);
          return std::array<char*, 2>{m, m + apart * cfg::size_of(loop.mem)};
        };
        const auto of_plain = pointers(plain), of_compiled = pointers(compiled);
        const Result got = kernel.run({rounds}, of_compiled.data(), &waits);
        if (waits == 0) {
          const Result expected = interpreted(g, {rounds}, of_plain.data());
          EXPECT_EQ(got.exit, expected.exit);
          EXPECT_EQ(got.values, expected.values);
        } else if (rounds > 0) {  // left behind the first round
          interpreted(g, {1}, of_plain.data());
          EXPECT_EQ(got.exit, 1);
          EXPECT_EQ(got.values[0], 1);
        }
        EXPECT_EQ(compiled, plain) << rounds << "\n" << cfg::print(passes);
      }
}

TEST(CarriedStores, OfEachTypeInBothDirections) {
  for (const Mem mem : {Mem::I8, Mem::U8, Mem::I16, Mem::U16, Mem::I32, Mem::U32, Mem::I64, Mem::F32, Mem::F64})
    for (const int64_t step : {1, -1, 2, -3}) expect_same({.mem = mem, .back = -step, .step = step}, 1);
}

TEST(CarriedStores, APlaceThatNoOtherStoreMeets) {
  expect_same({.other = 7}, 1);
  expect_same({.other = 1}, 1);  // the next round overwrites it after its load
  expect_same({.back = -2, .step = 2, .other = 1}, 1);
  expect_same({.other = -1}, 2);
  expect_same({.back = -2, .step = 2, .other = -2}, 2);
  expect_same({.other = 3, .into_u = true}, 2);
}

TEST(CarriedStores, OnlyWhatEachRoundStoresAndWaitsFor) {
  expect_same({.back = -2}, 2);       // by the round before the last one
  expect_same({.either = false}, 2);  // one way stores nothing
  expect_same({.chain = false}, 2);   // no round waits
}

}  // namespace
}  // namespace framejit::codegen
