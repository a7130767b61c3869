// Helpers of tests that make control-flow graphs and run them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "codegen/emit_cfg.h"
#include "runtime/exec_memory.h"

namespace framejit::codegen {

using cfg::Cfg;
using cfg::Id;
using cfg::Node;
using cfg::Op;
using cfg::Type;

inline constexpr int64_t kMostNodes = 1 << 20;
inline constexpr unsigned char kNobodyWaits = 0;

struct Result {
  int64_t exit;
  std::vector<int64_t> values;
};

inline Result interpreted(const Cfg& g, const std::vector<int64_t>& symbols, char* const* pointers) {
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
  CfgFn function() const { return reinterpret_cast<CfgFn>(const_cast<void*>(code_.entry(0))); }
  Result run(const std::vector<int64_t>& symbols, char* const* pointers,
             const unsigned char* poll = &kNobodyWaits) const {
    Result r{0, std::vector<int64_t>(16, 0)};
    r.exit = function()(symbols.data(), pointers, nullptr, r.values.data(), poll);
    return r;
  }

 private:
  runtime::CodeBlock code_;
};

inline Id add(Cfg& g, uint32_t block, Node n) {
  const Id id = g.add(n);
  g.blocks[block].nodes.push_back(id);
  return id;
}

inline Id node(Cfg& g, uint32_t block, Op op, Type type, Id a = cfg::kNone, Id b = cfg::kNone, Id c = cfg::kNone) {
  Node n;
  n.op = op;
  n.type = type;
  n.args[0] = a;
  n.args[1] = b;
  n.args[2] = c;
  return add(g, block, n);
}

inline Id constant(Cfg& g, uint32_t block, int64_t value) {
  Node n;
  n.type = Type::I64;
  n.imm = value;
  return add(g, block, n);
}

/// Random graphs are made block by block, over variables that each exit lists.
class RandomGraph {
 protected:
  explicit RandomGraph(uint64_t seed) : state_(seed * 2654435761u + 1) {}

  int64_t below(int64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(n));
  }
  Id input_of(Op op, int64_t which) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.imm = which;
    return add(g_, 0, n);
  }
  uint32_t block() {
    g_.blocks.emplace_back();
    g_.blocks.back().level = level_;
    return static_cast<uint32_t>(g_.blocks.size() - 1);
  }
  uint32_t exit() {
    g_.exits.push_back({vars_});
    return static_cast<uint32_t>(g_.exits.size() - 1);
  }
  Id make(Op op, Type type, Id a, Id b = cfg::kNone, Id c = cfg::kNone) { return node(g_, at_, op, type, a, b, c); }
  Id exact(Op op, Id a, Id b) {
    Node n;
    n.op = op;
    n.type = Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    n.exit = exit();
    return add(g_, at_, n);
  }
  void check(Op op, Id a) {
    Node n;
    n.op = op;
    if (a != cfg::kNone) n.args[0] = a;
    n.exit = exit();
    add(g_, at_, n);
  }

  Cfg g_;
  uint64_t state_;
  uint32_t at_ = 0, level_ = 0;
  std::vector<Id> vars_;
};

}  // namespace framejit::codegen
