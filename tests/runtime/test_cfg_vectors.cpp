// Loops of vectors: the graph without passes beside the one with vectors, interpreted and as machine code.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "cfg_graphs.h"

namespace framejit::codegen {
namespace {

using cfg::kNone;

/// for i in range(n): BODY, with a check of finite results and a poll. Leaves by exit 0 at the end, by exit 1 where a
/// check fails, by exit 2 where the interpreter waits; each with i.
class OneLoop {
 public:
  /// `down`: i counts from n - 1 to 0.
  explicit OneLoop(int arrays, bool down = false) : down_(down) {
    for (int i = 0; i < 4; ++i) g_.blocks.emplace_back();
    g_.exits.resize(3);
    n_ = input(Op::Symbol, 0);
    for (int k = 0; k < arrays; ++k) arrays_.push_back(input(Op::Pointer, k));
    at_ = 1;
    const Id zero = constant(0), one = constant(1);
    // The entry leads to a block of its own in front of the loop.
    g_.blocks[0].end = cfg::Block::End::Jump;
    g_.blocks[0].to[0] = {1, {}};
    const Id first = down ? make(Op::Sub, Type::I64, n_, one) : zero;
    g_.blocks[1].end = cfg::Block::End::Branch;
    g_.blocks[1].condition = make(Op::Lt, Type::I64, zero, n_);
    g_.blocks[1].to[0] = {2, {first}};
    g_.blocks[1].to[1] = {3, {first}};
    i_ = g_.add_param(2, Type::I64);
    const Id last = g_.add_param(3, Type::I64);
    g_.blocks[3].end = cfg::Block::End::Leave;
    g_.blocks[3].exit = 0;
    g_.exits[0].values = {last};
    g_.exits[1].values = {i_};
    g_.exits[2].values = {i_};
    at_ = 2;
  }

  Id i() const { return i_; }

  Id make(Op op, Type type, Id a, Id b = kNone, Id c = kNone) {
    Node n;
    n.op = op;
    n.type = type;
    n.args[0] = a;
    n.args[1] = b;
    n.args[2] = c;
    return add(n);
  }
  Id constant(int64_t value) {
    Node n;
    n.type = Type::I64;
    n.imm = value;
    return add(n);
  }
  Id number(double value, Type type = Type::F64) {
    Node n;
    n.type = type;
    n.imm = type == Type::F64 ? std::bit_cast<int64_t>(value)
                              : static_cast<int64_t>(std::bit_cast<uint32_t>(static_cast<float>(value)));
    return add(n);
  }
  Id load(std::size_t array, cfg::Mem mem, Id index, int64_t plus = 0) {
    Node n;
    n.op = Op::Load;
    n.type = cfg::type_of(mem);
    access(n, array, mem, index, plus);
    return add(n);
  }
  void store(std::size_t array, cfg::Mem mem, Id index, Id value, int64_t plus = 0) {
    Node n;
    n.op = Op::Store;
    access(n, array, mem, index, plus);
    n.args[2] = value;
    add(n);
  }
  Id extend(Id value, cfg::Mem mem) {
    Node n;
    n.op = Op::Extend;
    n.type = Type::I64;
    n.mem = mem;
    n.args[0] = value;
    return add(n);
  }
  void check_finite(Id value) {
    Node n;
    n.op = Op::CheckFinite;
    n.args[0] = value;
    n.exit = 1;
    add(n);
  }
  void check(Id condition) {
    Node n;
    n.op = Op::Check;
    n.args[0] = condition;
    n.exit = 1;
    add(n);
  }

  /// Control splits and meets again; the arms give values of one type.
  template <class Yes, class No>
  Id choice(Id condition, Type type, Yes yes, No no) {
    const uint32_t from = at_, first = static_cast<uint32_t>(g_.blocks.size());
    for (int k = 0; k < 3; ++k) g_.blocks.emplace_back();
    const uint32_t join = first + 2;
    g_.blocks[from].end = cfg::Block::End::Branch;
    g_.blocks[from].condition = condition;
    for (const int k : {0, 1}) {
      g_.blocks[from].to[k] = {first + static_cast<uint32_t>(k), {}};
      at_ = first + static_cast<uint32_t>(k);
      const Id value = k == 0 ? yes() : no();
      g_.blocks[at_].end = cfg::Block::End::Jump;
      g_.blocks[at_].to[0] = {join, {value}};
    }
    at_ = join;
    return g_.add_param(join, type);
  }
  /// A number that each round gives to the next one.
  Id carried(int64_t start) {
    at_ = 1;
    const Id first = constant(start);
    at_ = 2;
    g_.blocks[1].to[0].args.push_back(first);
    g_.blocks[1].to[1].args.push_back(first);
    const Id param = g_.add_param(2, Type::I64);
    g_.exits[0].values.push_back(g_.add_param(3, Type::I64));
    g_.exits[1].values.push_back(param);
    g_.exits[2].values.push_back(param);
    return param;
  }
  Id add_exact(Id a, Id b) { return exact(Op::AddExact, a, b); }
  Id exact(Op op, Id a, Id b) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    n.exit = 1;
    return add(n);
  }

  Cfg end(std::vector<Id> carried = {}) {
    Node poll;
    poll.op = Op::Poll;
    poll.exit = 2;
    add(poll);
    carried.insert(carried.begin(), make(down_ ? Op::Sub : Op::Add, Type::I64, i_, constant(1)));
    const Id again = make(Op::Ne, Type::I64, carried[0], down_ ? constant(-1) : n_);
    g_.blocks[at_].end = cfg::Block::End::Branch;
    g_.blocks[at_].condition = again;
    g_.blocks[at_].to[0] = {2, carried};
    g_.blocks[at_].to[1] = {3, carried};
    return std::move(g_);
  }

 private:
  Id add(Node n) {
    const Id id = g_.add(n);
    g_.blocks[at_].nodes.push_back(id);
    return id;
  }
  Id input(Op op, int64_t which) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.imm = which;
    return add(n);
  }
  void access(Node& n, std::size_t array, cfg::Mem mem, Id index, int64_t plus) {
    n.mem = mem;
    n.scale = static_cast<uint8_t>(cfg::size_of(mem));
    n.args[0] = arrays_[array];
    n.args[1] = index;
    n.imm = plus * cfg::size_of(mem);
  }

  Cfg g_;
  const bool down_;
  uint32_t at_ = 0;
  Id n_ = kNone, i_ = kNone;
  std::vector<Id> arrays_;
};

bool has_vectors(const Cfg& g) {
  for (const cfg::Block& b : g.blocks)
    for (const Id id : b.nodes)
      if (g.at(id).lanes > 1) return true;
  return false;
}

constexpr std::size_t kBytes = 8 * 96;

/// Memory that arrays are parts of.
struct Memory {
  std::vector<unsigned char> bytes = std::vector<unsigned char>(kBytes);
  char* at(std::size_t offset) { return reinterpret_cast<char*>(bytes.data()) + offset; }
};

template <class T>
void fill(Memory& m, const std::vector<T>& values) {
  for (std::size_t i = 0; (i + 1) * sizeof(T) <= kBytes; ++i)
    std::memcpy(m.at(i * sizeof(T)), &values[i % values.size()], sizeof(T));
}

/// All lengths from nothing to beyond three of the largest vectors, with arrays at these offsets of one memory.
template <class T>
void compare(const Cfg& plain, const std::vector<T>& values, const std::vector<std::vector<std::size_t>>& places,
             bool vectors = true) {
  ASSERT_EQ(cfg::verify(plain), "");
  for (const Isa isa : {Isa::Avx2, Isa::Avx512}) {
    if (isa > detected_cpu().isa) continue;
    Cfg passes = plain;
    cfg::optimize(passes, isa == Isa::Avx512 ? 64 : 32);
    ASSERT_EQ(cfg::verify(passes), "") << cfg::print(passes);
    EXPECT_EQ(has_vectors(passes), vectors) << cfg::print(passes);
    const Kernel kernel(passes, isa);
    constexpr int kLanes = 64 / (std::is_same_v<T, float> ? 4 : 8);
    for (const std::vector<std::size_t>& offsets : places)
      for (int64_t n = 0; n <= 3 * kLanes + 2; ++n)
        for (const unsigned char waits : {0, 1}) {
          Memory memories[3];
          int64_t left[3], out[3][4] = {};
          for (int way = 0; way < 3; ++way) {
            fill(memories[way], values);
            std::vector<char*> pointers;
            for (const std::size_t offset : offsets) pointers.push_back(memories[way].at(offset));
            if (way < 2)
              left[way] = cfg::interpret(way ? passes : plain, {&n, pointers.data(), nullptr}, out[way], kMostNodes);
            else left[way] = kernel.function()(&n, pointers.data(), nullptr, out[way], &waits);
          }
          EXPECT_EQ(left[1], left[0]) << "interpreted, " << n << " rounds";
          EXPECT_EQ(memories[1].bytes, memories[0].bytes) << "interpreted, " << n << " rounds";
          EXPECT_EQ(out[1][0], out[0][0]);
          EXPECT_EQ(out[1][1], out[0][1]);
          if (waits) {
            // It leaves behind the first round, unless a check fails there.
            EXPECT_TRUE(n == 0 || left[2] == 2 || left[2] == 1);
            continue;
          }
          EXPECT_EQ(left[2], left[0]) << "compiled, " << n << " rounds";
          EXPECT_EQ(memories[2].bytes, memories[0].bytes) << "compiled, " << n << " rounds";
          EXPECT_EQ(out[2][0], out[0][0]);
          EXPECT_EQ(out[2][1], out[0][1]);
          if (::testing::Test::HasFailure()) FAIL() << cfg::print(passes);
        }
  }
}

const std::vector<double> kFinite{1.5, -2.25, 1e300, 3e-310, -0.0, 7.0, 0.125, -1e-320, 4.5, 0.0, 9.75};
const std::vector<double> kAll{1.5,
                               -2.25,
                               std::numeric_limits<double>::infinity(),
                               3e-310,
                               -0.0,
                               7.0,
                               0.125,
                               std::numeric_limits<double>::quiet_NaN(),
                               4.5,
                               0.0,
                               9.75,
                               -std::numeric_limits<double>::infinity(),
                               2.0};
constexpr std::size_t kThird = kBytes / 3;

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
  // What stands 6 numbers in front is stored by the vector before.
  OneLoop loop(1);
  loop.store(0, cfg::Mem::F64, loop.i(), loop.make(Op::Neg, Type::F64, loop.load(0, cfg::Mem::F64, loop.i(), -6)));
  Cfg g = loop.end();
  compare(g, kFinite, {{80}});
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
            start <= 0);

    OneLoop plain(1);
    const Id total = plain.carried(start);
    const Id sum = plain.add_exact(total, plain.load(0, Mem::I32, plain.i()));
    compare(plain.end({sum}), std::vector<int32_t>{1, -200, 1 << 20, -5, 127}, {{0}}, start <= 0);
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
  compare(g, std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.0, 0.125, 4.5}, places, false);
  for (std::size_t where = 0; where < 30; where += 3) {
    std::vector<double> values(96, 1.25);
    values[where] = 1.7e308;
    values[where + 1] = 1.7e308;
    compare(g, values, {{0, 400}, {0, 8}}, false);
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
  compare(g, std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.0, 0.125, 4.5}, places, false);
  compare(g, kAll, places, false);
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
  compare(g, std::vector<int64_t>{1, 2, 3}, {{0, 400}}, false);
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
    compare(g, std::vector<int64_t>{1, 2, 3}, {{0, 256}}, false);
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
    compare(g, std::vector<int64_t>{1, 2, 3}, {{0}}, false);
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
    compare(loop.end(), std::vector<double>{1.5, -2.25, 3e-310, -0.0, 7.0, 0.125, 4.5}, places, false);
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
  compare(loop.end(), kFinite, {{0}}, false);
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
