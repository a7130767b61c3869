// Control-flow graphs of tests: how they are made and run.
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

}  // namespace framejit::codegen
