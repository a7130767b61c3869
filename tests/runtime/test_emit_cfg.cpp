// Machine code of control-flow graphs beside the reference interpreter.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "codegen/emit_cfg.h"
#include "runtime/exec_memory.h"

namespace framejit::codegen {
namespace {

using cfg::Cfg;
using cfg::Id;
using cfg::Node;
using cfg::Op;
using cfg::Type;

constexpr int64_t kMostNodes = 1 << 20;
constexpr unsigned char kNobodyWaits = 0;

struct Result {
  int64_t exit;
  std::vector<int64_t> values;
};

Result interpreted(const Cfg& g, const std::vector<int64_t>& symbols, char* const* pointers) {
  Result r{0, std::vector<int64_t>(16, 0)};
  r.exit = cfg::interpret(g, {symbols.data(), pointers, nullptr}, r.values.data(), kMostNodes);
  return r;
}

class Kernel {
 public:
  Kernel(const Cfg& g, Isa isa) {
    auto made = emit(g, "test", isa);
    EXPECT_TRUE(made.has_value());
    const std::span<const uint8_t> piece(made->bytes);
    code_ = std::move(*runtime::CodeBlock::seal({&piece, 1}));
  }
  Result run(const std::vector<int64_t>& symbols, char* const* pointers,
             const unsigned char* poll = &kNobodyWaits) const {
    Result r{0, std::vector<int64_t>(16, 0)};
    const auto kernel = reinterpret_cast<CfgFn>(const_cast<void*>(code_.entry(0)));
    r.exit = kernel(symbols.data(), pointers, nullptr, r.values.data(), poll);
    return r;
  }

 private:
  runtime::CodeBlock code_;
};

Id add(Cfg& g, uint32_t block, Node n) {
  const Id id = g.add(n);
  g.blocks[block].nodes.push_back(id);
  return id;
}

Id node(Cfg& g, uint32_t block, Op op, Type type, Id a = cfg::kNone, Id b = cfg::kNone, Id c = cfg::kNone) {
  Node n;
  n.op = op;
  n.type = type;
  n.args[0] = a;
  n.args[1] = b;
  n.args[2] = c;
  return add(g, block, n);
}

Id constant(Cfg& g, uint32_t block, int64_t value) {
  Node n;
  n.type = Type::I64;
  n.imm = value;
  return add(g, block, n);
}

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
  for (const Op op : {Op::Add,      Op::Sub,      Op::Mul,      Op::Neg, Op::Abs, Op::AddExact, Op::SubExact,
                      Op::MulExact, Op::FloorDiv, Op::FloorMod, Op::And, Op::Or,  Op::Xor,      Op::Shl,
                      Op::Shr,      Op::Eq,       Op::Ne,       Op::Lt,  Op::Le,  Op::Below})
    check_operator(op, Type::I64);
}

TEST(EmitCfg, DivisionsByConstants) {
  for (const int64_t divisor : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, int64_t{7}, int64_t{10}, int64_t{64},
                                int64_t{641}, int64_t{1000003}, (int64_t{1} << 31) - 1, int64_t{1} << 40,
                                (int64_t{1} << 62) + 1, std::numeric_limits<int64_t>::max()})
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
      for (int64_t k = -3; k <= 3; ++k)
        for (const int64_t near : {divisor, -divisor, 5 * (divisor >> 3), int64_t{1} << 62})
          numbers.push_back(near + k);
      for (int64_t number : numbers) {
        char* const pointers[] = {reinterpret_cast<char*>(&number)};
        EXPECT_EQ(kernel.run({}, pointers).values[0], interpreted(g, {}, pointers).values[0])
            << number << " by " << divisor;
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
