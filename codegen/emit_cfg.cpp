// Control-flow graphs to machine code: blocks in the order of the graph, then what rarely runs, then the exits.
#include "codegen/emit_cfg.h"

#include <asmjit/x86.h>

#include <algorithm>
#include <memory>
#include <new>
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
    if (code == asmjit::kErrorOutOfMemory) throw std::bad_alloc();  // what was asked for is not there
    if (text.empty()) text = std::to_string(code) + ": " + message;
  }
  std::string text;
};

/// Blocks in order, the edges between them, and behind all what rarely runs and the exits.
class CfgEmitter : CfgNodes {
 public:
  CfgEmitter(const Cfg& cfg, asmjit::x86::Compiler& cc, Isa isa) : CfgNodes(cfg, cc, isa), isa_(isa) {}

  /// Gives the addresses that stand in tables, each with the label of its place.
  static std::vector<std::pair<const void*, Label>> emit_functions(const Cfg& cfg, asmjit::x86::Compiler& cc, Isa isa,
                                                                   const cfg::SelfCalls* self) {
    CfgEmitter kernel(cfg, cc, isa);
    if (self) {
      asmjit::FuncSignatureBuilder signature;
      describe(*self, signature);
      kernel.itself_.calls = self;
      kernel.itself_.function = cc.newFunc(signature);
    }
    kernel.emit_function();
    std::vector<std::pair<const void*, Label>> tabled = kernel.addresses_.known;
    if (!self) return tabled;
    CfgEmitter called(cfg, cc, isa);
    called.itself_ = kernel.itself_;
    called.emit_called();
    tabled.insert(tabled.end(), called.addresses_.known.begin(), called.addresses_.known.end());
    return tabled;
  }

 private:
  void emit_function() {
    begin(cc_.addFunc(asmjit::FuncSignatureT<int64_t, const void*, const void*, const void*, void*, const void*>()));
    for (Gp* gp : {&symbols_, &pointers_, &objects_, &out_, &poll_}) *gp = cc_.newIntPtr();
    unsigned i = 0;
    for (Gp* gp : {&symbols_, &pointers_, &objects_, &out_, &poll_}) function_->setArg(i++, *gp);
    emit_blocks();
    cc_.endFunc();
    addresses_.emit_table();
  }

  /// The function that calls of the graph by itself call.
  void emit_called() {
    Itself& f = itself_;
    f.is_called = true;
    begin(cc_.addFunc(f.function));
    f.run = cc_.newIntPtr();
    f.depth = cc_.newInt64();
    f.gives_up = cc_.newLabel();
    function_->setArg(0, f.run);
    function_->setArg(1, f.depth);
    for (const cfg::SelfCalls::Argument& argument : f.calls->arguments) {
      f.arguments.push_back(cc_.newInt64());
      function_->setArg(1 + f.arguments.size(), f.arguments.back());
      f.floats.emplace_back();
      if (!argument.is_float) continue;
      f.floats.back() = cc_.newStack(8, 8);
      f.floats.back().setSize(8);
      cc_.mov(f.floats.back(), f.arguments.back());
    }
    using Run = cfg::SelfCallRun;
    objects_ = cc_.newIntPtr();
    poll_ = cc_.newIntPtr();
    cc_.mov(poll_, of_run(offsetof(Run, poll)));
    cc_.mov(objects_, of_run(offsetof(Run, objects)));
    cc_.cmp(f.depth, f.calls->inlined);
    cc_.jl(f.gives_up);
    cc_.cmp(asmjit::x86::byte_ptr(poll_), 0);
    cc_.jne(f.gives_up);
    cc_.cmp(asmjit::x86::rsp, of_run(offsetof(Run, stack_limit)));
    cc_.jb(f.gives_up);
    cc_.add(of_run(offsetof(Run, calls)), 1 + f.calls->inlined);
    emit_blocks();
    cc_.bind(f.gives_up);
    const Gp target = cc_.newIntPtr();
    cc_.mov(target, of_run(offsetof(Run, give_up)));
    asmjit::InvokeNode* call = nullptr;
    cc_.invoke(&call, target, asmjit::FuncSignatureT<void, void*>());
    call->setArg(0, f.run);
    cc_.endFunc();
    addresses_.emit_table();
  }

  void begin(asmjit::FuncNode* function) {
    function_ = function;
    function_->frame().setAvxEnabled();
    if (!itself_.is_called) function_->frame().setAvxCleanup();
    if (isa_ == Isa::Avx512) function_->frame().setAvx512Enabled();
  }

  void emit_blocks() {
    for (std::size_t b = 0; b < cfg_.blocks.size(); ++b) blocks_.push_back(cc_.newLabel());
    for (std::size_t e = 0; e < cfg_.exits.size(); ++e) exits_.push_back(cc_.newLabel());
    taken_.assign(cfg_.exits.size(), false);
    std::vector<uint32_t> order;
    for (uint32_t b : shape_.order)
      if (order.empty() || through(b) == b) order.push_back(b);
    for (std::size_t k = 0; k < order.size(); ++k) {
      next_ = k + 1 < order.size() ? order[k + 1] : kNone;
      emit_block(order[k]);
    }
    for (const auto& [label, edge] : std::exchange(asides_, {})) {
      cc_.bind(label);
      pass(*edge);
      cc_.jmp(blocks_[through(edge->block)]);
    }
    for (const std::function<void()>& emit : std::exchange(rare_, {})) emit();
    for (uint32_t e = 0; e < cfg_.exits.size(); ++e)
      if (taken_[e]) emit_exit(e);
  }

  /// The block in which control does something if it comes to this one, which may only lead on to another.
  uint32_t through(uint32_t from) const {
    uint32_t b = from;
    for (std::size_t steps = 0; steps < cfg_.blocks.size(); ++steps) {
      const Block& block = cfg_.blocks[b];
      const auto is_emitted = [&](Id id) { return !registers_.at_exits[id]; };
      if (block.end != Block::End::Jump || std::any_of(block.nodes.begin(), block.nodes.end(), is_emitted) ||
          !moves(block.to[0]).empty())
        return b;
      b = block.to[0].block;
    }
    return from;  // a ring of such blocks
  }

  void go(const Edge& e, bool last) {
    pass(e);
    const uint32_t to = through(e.block);
    if (!last || to != next_) cc_.jmp(blocks_[to]);
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
        // Moves along the edge back to the head of a loop stand here, those along the other one behind all blocks; also
        // those along an edge into a loop, unless the other one leads to what stands next.
        const uint32_t depths[] = {shape_.depth[block.to[0].block], shape_.depth[block.to[1].block]};
        const uint32_t ends[] = {through(block.to[0].block), through(block.to[1].block)};
        bool first_falls = ends[0] == next_ || (ends[1] != next_ && depths[0] >= depths[1]);
        if (depths[0] != depths[1]) {
          const int inner = depths[0] > depths[1] ? 0 : 1;
          const bool goes_back = shape_.loop[b] == block.to[inner].block;
          if (!moves(block.to[inner]).empty() && (goes_back || ends[1 - inner] != next_)) first_falls = inner == 0;
        }
        const int falls = first_falls ? 0 : 1, jumps = 1 - falls;
        const Edge& other = block.to[jumps];
        Label target = blocks_[ends[jumps]];
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
    if (itself_.is_called) {
      const Id result = values[static_cast<std::size_t>(itself_.calls->results[cfg_.number_of(e)])];
      compute(result);
      if (cfg_.at(result).type == Type::F64) cc_.ret(xmm(result));
      else cc_.ret(gp(result));
    } else {
      leave(e, values);
    }
    for (Id id : std::exchange(computed_, {})) gps_[id] = Gp();
  }

  void leave(uint32_t e, const std::vector<Id>& values) {
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
  }

  const Isa isa_;
  asmjit::FuncNode* function_ = nullptr;
  std::vector<Label> blocks_;
  std::vector<std::pair<Label, const Edge*>> asides_;
  uint32_t next_ = kNone;
  std::vector<Id> computed_;  // at the exit that is being made
};

}  // namespace

Expected<KernelCode, std::string> emit(const cfg::Cfg& cfg, const std::string& name, Isa isa, bool with_listing,
                                       const cfg::SelfCalls* self) {
  if (isa == Isa::None) return Unexpected{std::string("no vector instruction set")};
  use_asmjit_shim();
  asmjit::CodeHolder code;
  code.init(asmjit::Environment::host());
  asmjit::StringLogger logger;
  if (with_listing) code.setLogger(&logger);
  // Nothing may throw where a code holder and a compiler come together. If there is no memory for that, the compiler
  // cannot be destroyed, as asmjit would take it out of the holder.
  auto compiler = std::make_unique<asmjit::x86::Compiler>();
  if (code.attach(compiler.get()) != asmjit::kErrorOk) {
    static_cast<void>(compiler.release());
    throw std::bad_alloc();
  }
  asmjit::x86::Compiler& cc = *compiler;
  ErrorRecorder errors;
  code.setErrorHandler(&errors);
  const auto tabled = CfgEmitter::emit_functions(cfg, cc, isa, self);
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
  for (const auto& [address, label] : tabled)
    out.addresses.push_back({static_cast<uint32_t>(code.labelOffset(label)), 0});
  return out;
}

StoredCode::StoredCode(KernelStore* store, const cfg::Cfg& graph, Isa isa, const std::string& how) : store_(store) {
  if (!store) return;
  key_ = (isa == Isa::Avx512 ? "cfg avx512 " : "cfg avx2 ") + how + ' ' + key_of(graph, addresses_);
  for (const bool eight : {false, true}) addresses_.push_back(function_for_lanes(eight));
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
