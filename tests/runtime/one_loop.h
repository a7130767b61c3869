// One loop over arrays: its graph without passes beside the one with them, interpreted and as machine code.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cfg_graphs.h"

namespace framejit::codegen {

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

inline bool has_vectors(const Cfg& g) {
  for (const cfg::Block& b : g.blocks)
    for (const Id id : b.nodes)
      if (g.at(id).lanes > 1) return true;
  return false;
}

inline constexpr std::size_t kBytes = 8 * 96;

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
/// `widest`: the bytes of the widest vectors that the passes make of the loop, 0 if none.
template <class T>
void compare(const Cfg& plain, const std::vector<T>& values, const std::vector<std::vector<std::size_t>>& places,
             std::size_t widest = 64) {
  ASSERT_EQ(cfg::verify(plain), "");
  for (const Isa isa : {Isa::Avx2, Isa::Avx512}) {
    if (isa > detected_cpu().isa) continue;
    Cfg passes = plain;
    cfg::optimize(passes, isa == Isa::Avx512 ? 64 : 32);
    ASSERT_EQ(cfg::verify(passes), "") << cfg::print(passes);
    EXPECT_EQ(has_vectors(passes), (isa == Isa::Avx512 ? 64 : 32) <= widest) << cfg::print(passes);
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

inline const std::vector<double> kFinite{1.5, -2.25, 1e300, 3e-310, -0.0, 7.0, 0.125, -1e-320, 4.5, 0.0, 9.75};
inline const std::vector<double> kAll{1.5,
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
inline constexpr std::size_t kThird = kBytes / 3;

}  // namespace framejit::codegen
