// Control-flow graphs to machine code: blocks in the order of the graph, exits behind all of them.
#include "codegen/emit_cfg.h"

#include <asmjit/x86.h>

#include <utility>
#include <vector>

#include "codegen/asmjit_shim.h"
#include "codegen/emit_cfg_nodes.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace {

using asmjit::Label;
using asmjit::x86::Gp;
using asmjit::x86::Mem;
using cfg::Block;
using cfg::Cfg;
using cfg::Edge;
using cfg::Id;
using cfg::kNone;
using cfg::Node;
using cfg::Type;

class ErrorRecorder : public asmjit::ErrorHandler {
 public:
  void handleError(asmjit::Error code, const char* message, asmjit::BaseEmitter*) override {
    if (text.empty()) text = std::to_string(code) + ": " + message;
  }
  std::string text;
};

/// Blocks in order, the edges between them, and the exits behind all.
class CfgEmitter : CfgNodes {
 public:
  CfgEmitter(const Cfg& cfg, asmjit::x86::Compiler& cc, Isa isa) : CfgNodes(cfg, cc, isa), isa_(isa) {}

  void emit_function() {
    asmjit::FuncNode* function =
        cc_.addFunc(asmjit::FuncSignatureT<int64_t, const void*, const void*, const void*, void*, const void*>());
    function->frame().setAvxEnabled();
    function->frame().setAvxCleanup();
    if (isa_ == Isa::Avx512) function->frame().setAvx512Enabled();
    for (Gp* gp : {&symbols_, &pointers_, &objects_, &out_, &poll_}) *gp = cc_.newIntPtr();
    unsigned i = 0;
    for (Gp* gp : {&symbols_, &pointers_, &objects_, &out_, &poll_}) function->setArg(i++, *gp);
    for (std::size_t b = 0; b < cfg_.blocks.size(); ++b) blocks_.push_back(cc_.newLabel());
    for (std::size_t e = 0; e < cfg_.exits.size(); ++e) exits_.push_back(cc_.newLabel());
    taken_.assign(cfg_.exits.size(), false);
    for (std::size_t k = 0; k < shape_.order.size(); ++k) {
      next_ = k + 1 < shape_.order.size() ? shape_.order[k + 1] : kNone;
      emit_block(shape_.order[k]);
    }
    for (const auto& [label, edge] : std::exchange(asides_, {})) {
      cc_.bind(label);
      pass(*edge);
      cc_.jmp(blocks_[edge->block]);
    }
    for (uint32_t e = 0; e < cfg_.exits.size(); ++e)
      if (taken_[e]) emit_exit(e);
    cc_.endFunc();
    addresses_.emit_table();
  }

  const auto& tabled() const { return addresses_.known; }

 private:
  void go(const Edge& e, bool last) {
    pass(e);
    if (!last || e.block != next_) cc_.jmp(blocks_[e.block]);
  }

  void emit_block(uint32_t b) {
    const Block& block = cfg_.blocks[b];
    cc_.bind(blocks_[b]);
    vectors_.begin_block();
    for (Id id : block.nodes)
      if (!registers_.at_exits[id]) emit_node(id);
    switch (block.end) {
      case Block::End::Jump: go(block.to[0], true); break;
      case Block::End::Leave: cc_.jmp(exit(block.exit)); break;
      case Block::End::Branch: {
        // Moves along the inner edge stand here, those along the other one behind all blocks.
        const uint32_t depths[] = {shape_.depth[block.to[0].block], shape_.depth[block.to[1].block]};
        bool first_falls = block.to[0].block == next_ || (block.to[1].block != next_ && depths[0] >= depths[1]);
        if (depths[0] != depths[1]) {
          const int inner = depths[0] > depths[1] ? 0 : 1;
          if (!moves(block.to[inner]).empty()) first_falls = inner == 0;
        }
        const int falls = first_falls ? 0 : 1, jumps = 1 - falls;
        const Edge& other = block.to[jumps];
        Label target = blocks_[other.block];
        if (!moves(other).empty()) {
          target = cc_.newLabel();
          asides_.emplace_back(target, &other);
        }
        jump_if(block.condition, jumps == 0, target);
        go(block.to[falls], true);
        break;
      }
      case Block::End::Open: FRAMEJIT_CHECK(false, "an open block");
    }
  }

  /// What only exits use is computed anew at each.
  void compute(Id id) {
    if (id == kNone || !registers_.at_exits[id] || gps_[id].isValid()) return;
    for (Id a : cfg_.at(id).args) compute(a);
    computed_.push_back(id);
    emit_node(id);
  }

  void emit_exit(uint32_t e) {
    cc_.bind(exits_[e]);
    const std::vector<Id>& values = cfg_.exits[e].values;
    for (Id v : values) compute(v);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Mem to = asmjit::x86::qword_ptr(out_, static_cast<int32_t>(8 * i));
      const Node& n = cfg_.at(values[i]);
      if (n.type == Type::I64) {
        if (is_small(values[i])) cc_.mov(to, static_cast<int32_t>(n.imm));
        else cc_.mov(to, gp(values[i]));
      } else if (n.type == Type::F64) {
        cc_.vmovsd(to, xmm(values[i]));
      } else {
        cc_.vmovss(asmjit::x86::dword_ptr(out_, static_cast<int32_t>(8 * i)), xmm(values[i]));
      }
    }
    const Gp number = cc_.newInt64();
    set(number, cfg_.number_of(e));
    cc_.ret(number);
    for (Id id : std::exchange(computed_, {})) gps_[id] = Gp();
  }

  const Isa isa_;
  std::vector<Label> blocks_;
  std::vector<std::pair<Label, const Edge*>> asides_;
  uint32_t next_ = kNone;
  std::vector<Id> computed_;  // at the exit that is being made
};

}  // namespace

Expected<KernelCode, std::string> emit(const cfg::Cfg& cfg, const std::string& name, Isa isa, bool with_listing) {
  if (isa == Isa::None) return Unexpected{std::string("no vector instruction set")};
  use_asmjit_shim();
  asmjit::CodeHolder code;
  code.init(asmjit::Environment::host());
  ErrorRecorder errors;
  code.setErrorHandler(&errors);
  asmjit::StringLogger logger;
  if (with_listing) code.setLogger(&logger);
  asmjit::x86::Compiler cc(&code);
  CfgEmitter emitter(cfg, cc, isa);
  emitter.emit_function();
  cc.finalize();
  code.flatten();
  code.resolveUnresolvedLinks();
  FRAMEJIT_CHECK(errors.text.empty(), "asmjit " + errors.text + "\n" + cfg::print(cfg));
  FRAMEJIT_CHECK(!code.hasUnresolvedLinks() && code.relocEntries().empty(), name);
  KernelCode out;
  out.name = name;
  out.bytes.resize(code.codeSize());
  code.copyFlattenedData(out.bytes.data(), out.bytes.size());
  if (with_listing) out.listing.assign(logger.data(), logger.dataSize());
  for (const auto& [address, label] : emitter.tabled())
    out.addresses.push_back({static_cast<uint32_t>(code.labelOffset(label)), 0});
  return out;
}

StoredCode::StoredCode(KernelStore* store, const cfg::Cfg& graph, Isa isa, const std::string& how) : store_(store) {
  if (!store) return;
  key_ = (isa == Isa::Avx512 ? "cfg avx512 " : "cfg avx2 ") + how + ' ' + key_of(graph, addresses_);
  addresses_.push_back(function_for_lanes());
}

bool StoredCode::find(KernelCode& out) const {
  KernelCode code;
  if (!store_ || !store_->find(key_, code) || !code.place(addresses_)) return false;
  out = std::move(code);
  return true;
}

void StoredCode::add(KernelCode code) const {
  if (store_ && code.number(addresses_)) store_->add(key_, code);
}

}  // namespace framejit::codegen
