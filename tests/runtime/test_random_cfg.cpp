// Random control-flow graphs: without passes, with them, and as machine code.
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
#include "graph/cfg/loops.h"

namespace framejit::codegen {
namespace {

/// Random nests of counted loops over three integers, two floats and two arrays, with choices, stores and exits.
class RandomNest : RandomGraph {
 public:
  explicit RandomNest(uint64_t seed) : RandomGraph(seed) {}

  Cfg make() {
    g_.blocks.emplace_back();
    for (int64_t k = 0; k < 2; ++k) lengths_.push_back(input_of(Op::Symbol, k));
    for (int64_t k = 0; k < 2; ++k) arrays_.push_back(input_of(Op::Pointer, k));
    for (int64_t k = 0; k < 3; ++k) vars_.push_back(constant(g_, 0, below(4) - 1));
    for (int k = 0; k < 2; ++k) {
      Node start;
      start.type = Type::F64;
      start.imm = std::bit_cast<int64_t>(0.5 + static_cast<double>(k));
      vars_.push_back(add(g_, 0, start));
    }
    const uint32_t first = block();
    g_.blocks[0].end = cfg::Block::End::Jump;
    g_.blocks[0].to[0] = {first, {}};
    at_ = first;
    for (int k = 0; k < 2; ++k) loop(2);
    g_.blocks[at_].end = cfg::Block::End::Leave;
    g_.blocks[at_].exit = exit();
    return std::move(g_);
  }

 private:
  using RandomGraph::make;
  Id any_int() { return below(3) == 0 ? constant(g_, at_, below(9) - 2) : vars_[static_cast<std::size_t>(below(3))]; }

  /// An element of an array at a checked index, which may count from the end.
  Node element(std::size_t which) {
    Id index = any_int();
    if (below(2)) index = exact(below(2) ? Op::AddExact : Op::SubExact, index, constant(g_, at_, below(3)));
    if (below(2))
      index = make(Op::Select, Type::I64, make(Op::Lt, Type::I64, index, constant(g_, at_, 0)),
                   make(Op::Add, Type::I64, index, lengths_[which]), index);
    check(Op::Check, make(Op::Below, Type::I64, index, lengths_[which]));
    Node n;
    n.mem = which == 0 ? cfg::Mem::F64 : cfg::Mem::I64;
    n.type = cfg::type_of(n.mem);
    if (below(2)) {
      n.args[0] = make(Op::Add, Type::I64, arrays_[which],
                       make(Op::Mul, Type::I64, index, below(2) ? constant(g_, at_, 8) : eight()));
    } else {
      n.args[0] = arrays_[which];
      n.args[1] = index;
      n.scale = 8;
    }
    return n;
  }
  Id eight() {  // that no pass can know
    return make(Op::Add, Type::I64, constant(g_, at_, 8), make(Op::Sub, Type::I64, lengths_[0], lengths_[0]));
  }

  void statement(int depth) {
    Id& i = vars_[static_cast<std::size_t>(below(3))];
    Id& f = vars_[static_cast<std::size_t>(3 + below(2))];
    switch (below(11)) {
      case 0: i = exact(Op::AddExact, i, any_int()); return;
      case 1: i = exact(Op::SubExact, i, constant(g_, at_, 1)); return;
      case 2: i = make(Op::And, Type::I64, i, constant(g_, at_, 7)); return;
      case 3: i = exact(Op::MulExact, i, any_int()); return;
      case 4: {
        Node n = element(0);
        n.op = Op::Load;
        const Id loaded = add(g_, at_, n);
        constexpr Op kFused[] = {Op::MulAdd, Op::MulSub, Op::SubMul};
        if (below(4) == 0)
          f = make(kFused[below(3)], Type::F64, f, loaded, vars_[static_cast<std::size_t>(3 + below(2))]);
        else f = make(below(2) ? Op::Add : Op::Mul, Type::F64, f, loaded);
        if (below(2)) check(Op::CheckFinite, f);
        return;
      }
      case 5: {
        Node n = element(1);
        n.op = Op::Load;
        i = add(g_, at_, n);
        return;
      }
      case 6:
      case 7: {
        const std::size_t which = static_cast<std::size_t>(below(2));
        Node n = element(which);
        n.op = Op::Store;
        n.type = Type::None;
        n.args[2] = which == 0 ? f : i;
        add(g_, at_, n);
        return;
      }
      case 8: f = make(Op::Select, Type::F64, make(Op::Lt, Type::I64, vars_[3], vars_[4]), vars_[3], vars_[4]); return;
      case 9: choice(depth); return;
      default:
        if (depth <= 0) return;
        if (below(3) == 0) loop_with_two_entries(depth - 1);
        else loop(depth - 1);
    }
  }

  cfg::Edge all_to(uint32_t b, std::vector<Id> more = {}) {
    cfg::Edge e{b, vars_};
    e.args.insert(e.args.end(), more.begin(), more.end());
    return e;
  }
  void take_params(uint32_t b) {
    for (Id& v : vars_) v = g_.add_param(b, g_.at(v).type);
  }

  void choice(int depth) {
    const Id condition = below(2) ? make(below(2) ? Op::Lt : Op::Le, Type::I64, any_int(), any_int())
                                  : make(Op::Lt, Type::I64, vars_[3], vars_[4]);
    const uint32_t from = at_, yes = block(), no = block(), join = block();
    const std::vector<Id> before = vars_;
    g_.blocks[from].end = cfg::Block::End::Branch;
    g_.blocks[from].condition = condition;
    g_.blocks[from].to[0] = {yes, {}};
    g_.blocks[from].to[1] = {no, {}};
    for (const uint32_t arm : {yes, no}) {
      at_ = arm;
      vars_ = before;
      for (int64_t k = below(3); k > 0; --k) statement(depth > 0 ? depth - 1 : 0);
      g_.blocks[at_].end = cfg::Block::End::Jump;
      g_.blocks[at_].to[0] = all_to(join);
    }
    take_params(join);
    at_ = join;
  }

  /// do { A or B } while (i < n), where the first round has its own test: the loop is entered at A and at B.
  void loop_with_two_entries(int depth) {
    const Id limit = lengths_[static_cast<std::size_t>(below(2))];
    ++level_;
    const uint32_t arms[] = {block(), block()}, join = block();
    --level_;
    const auto choose = [&](Id count) {
      g_.blocks[at_].condition = make(Op::Lt, Type::I64, vars_[0], vars_[static_cast<std::size_t>(1 + below(2))]);
      g_.blocks[at_].end = cfg::Block::End::Branch;
      for (const int k : {0, 1}) g_.blocks[at_].to[k] = all_to(arms[k], {count});
    };
    choose(constant(g_, at_, 0));
    ++level_;
    std::vector<Id> counts;
    for (const uint32_t arm : arms) {
      at_ = arm;
      take_params(arm);
      const Id count = g_.add_param(arm, Type::I64);
      vars_[static_cast<std::size_t>(below(3))] = count;
      for (int64_t k = 1 + below(3); k > 0; --k) statement(depth);
      g_.blocks[at_].end = cfg::Block::End::Jump;
      g_.blocks[at_].to[0] = all_to(join, {count});
    }
    at_ = join;
    take_params(join);
    const Id count = make(Op::Add, Type::I64, g_.add_param(join, Type::I64), constant(g_, join, 1));
    check(Op::Poll, cfg::kNone);
    const uint32_t again = block();
    --level_;
    const uint32_t behind = block();
    g_.blocks[join].condition = make(Op::Lt, Type::I64, count, limit);
    g_.blocks[at_].end = cfg::Block::End::Branch;
    g_.blocks[at_].to[0] = {again, {}};
    g_.blocks[at_].to[1] = {behind, {}};
    at_ = again;
    ++level_;
    choose(count);
    --level_;
    at_ = behind;
  }

  /// for v in range(start, stop, step), as the translator writes it.
  void loop(int depth) {
    const Id zero = constant(g_, at_, 0), start = any_int(), step = constant(g_, at_, 1 + below(2));
    const Id span =
        exact(Op::SubExact, below(2) ? lengths_[static_cast<std::size_t>(below(2))] : constant(g_, at_, 5), start);
    const Id left = make(Op::Select, Type::I64, make(Op::Lt, Type::I64, zero, span), span, zero);
    ++level_;
    const uint32_t head = block(), body = block();
    g_.blocks[at_].end = cfg::Block::End::Jump;
    g_.blocks[at_].to[0] = all_to(head, {start, left});
    take_params(head);
    const Id next = g_.add_param(head, Type::I64), more = g_.add_param(head, Type::I64);
    const std::vector<Id> at_head = vars_;
    at_ = head;
    g_.blocks[head].condition = make(Op::Ne, Type::I64, more, constant(g_, head, 0));
    g_.blocks[head].end = cfg::Block::End::Branch;
    g_.blocks[head].to[0] = {body, {}};
    at_ = body;
    vars_[static_cast<std::size_t>(below(2))] = next;
    for (int64_t k = 1 + below(4); k > 0; --k) statement(depth);
    check(Op::Poll, cfg::kNone);
    const Id on = make(Op::Add, Type::I64, next, step);
    const Id fewer = make(Op::Sub, Type::I64, more, constant(g_, at_, 1));
    g_.blocks[at_].end = cfg::Block::End::Jump;
    g_.blocks[at_].to[0] = all_to(head, {on, fewer});
    --level_;
    const uint32_t behind = block();
    g_.blocks[head].to[1] = {behind, {}};
    at_ = behind;
    vars_ = at_head;
  }

  std::vector<Id> lengths_, arrays_;
};

TEST(EmitCfg, RandomNestsKeepTheirMeaning) {
  const char* const first = std::getenv("FRAMEJIT_SEED");
  const char* const count = std::getenv("FRAMEJIT_SEEDS");
  const int64_t from = first ? std::atoll(first) : 0, seeds = count ? std::atoll(count) : 1000;
  constexpr std::size_t kElements = 40;
  int finished = 0, widened = 0;
  for (int64_t seed = from; seed < from + seeds; ++seed) {
    Cfg plain = RandomNest(static_cast<uint64_t>(seed)).make();
    if (seed % 4 == 0) cfg::fuse_products(plain);
    ASSERT_EQ(cfg::verify(plain), "") << cfg::print(plain);
    Cfg passes = plain;
    const Isa isa = seed % 3 == 0 ? Isa::Avx2 : std::min(Isa::Avx512, detected_cpu().isa);
    cfg::optimize(passes, seed % 3 == 1 ? 0 : isa == Isa::Avx512 ? 64 : 32);
    ASSERT_EQ(cfg::verify(passes), "") << "seed " << seed << "\n" << cfg::print(passes);
    widened += cfg::print(passes).find("waits") != std::string::npos;
    const Kernel kernel(passes, isa), unchanged(plain, Isa::Avx2);
    for (const int64_t length : {0, 1, 6, 9, 21, 38}) {
      std::vector<double> floats[4];
      std::vector<int64_t> integers[4];
      Result results[4];
      for (int way = 0; way < 4; ++way) {
        for (int64_t k = 0; k < static_cast<int64_t>(kElements); ++k) {
          floats[way].push_back(k == 5 && seed % 7 == 0 ? std::numeric_limits<double>::infinity()
                                                        : 0.25 * static_cast<double>(k * 5 % 11));
          integers[way].push_back(k * 7 % 10 - (seed % 3 == 0 ? 3 : 0));
        }
        char* const pointers[] = {reinterpret_cast<char*>(floats[way].data()),
                                  reinterpret_cast<char*>(integers[way].data())};
        const std::vector<int64_t> symbols{length, length + seed % 2};
        results[way] = way == 0   ? interpreted(plain, symbols, pointers)
                       : way == 1 ? interpreted(passes, symbols, pointers)
                       : way == 2 ? kernel.run(symbols, pointers)
                                  : unchanged.run(symbols, pointers);
        if (results[0].exit < 0) break;       // too many rounds
        if (results[way].exit < 0) continue;  // passes may execute more nodes, such as both sides of a choice
        EXPECT_EQ(results[way].exit, results[0].exit) << "seed " << seed << ", way " << way << ", length " << length;
        EXPECT_EQ(results[way].values, results[0].values)
            << "seed " << seed << ", way " << way << ", length " << length;
        EXPECT_EQ(std::memcmp(floats[way].data(), floats[0].data(), 8 * kElements), 0)
            << "seed " << seed << ", way " << way;
        EXPECT_EQ(integers[way], integers[0]) << "seed " << seed << ", way " << way;
      }
      finished += results[0].exit >= 0;
    }
    if (HasFailure()) FAIL() << cfg::print(plain) << "\n" << cfg::print(passes);
  }
  EXPECT_GT(finished, seeds);
  EXPECT_GT(widened, seeds / 10);
}

}  // namespace
}  // namespace framejit::codegen
