// Which register holds a value, and parallel moves along edges.
#include "codegen/emit_cfg_registers.h"

#include <algorithm>
#include <bit>

namespace framejit::codegen {

using asmjit::x86::Gp;
using asmjit::x86::Mem;
using asmjit::x86::Xmm;
using cfg::Edge;
using cfg::Id;
using cfg::kNone;
using cfg::Node;
using cfg::Type;

bool CfgRegisters::is_small(Id id) const {
  const Node& n = cfg_.at(id);
  return cfg_.is_const(id) && n.type == Type::I64 && !n.is_address && n.imm == static_cast<int32_t>(n.imm);
}

Gp CfgRegisters::gp(Id id) {
  if (cfg_.is_const(id)) {
    const Gp constant = cc_.newInt64();
    set(constant, cfg_.at(id));
    return constant;
  }
  const Id home = registers_.home[id];
  if (!gps_[home].isValid()) {
    gps_[home] = cc_.newInt64();
    weigh(gps_[home], home);
  }
  return gps_[home];
}

Xmm CfgRegisters::xmm(Id id) {
  const Node& n = cfg_.at(id);
  if (cfg_.is_const(id)) {
    const Xmm constant = n.type == Type::F64 ? cc_.newXmmSd() : cc_.newXmmSs();
    load_constant(constant, n);
    return constant;
  }
  const Id home = registers_.home[id];
  if (!xmms_[home].isValid()) {
    xmms_[home] = n.type == Type::F64 ? cc_.newXmmSd() : cc_.newXmmSs();
    weigh(xmms_[home], home);
  }
  return xmms_[home];
}

void CfgRegisters::weigh(const asmjit::BaseReg& reg, Id home) {
  constexpr uint32_t kOfLoop = 80, kMost = 255;
  cc_.virtRegByReg(reg)->setWeight(std::min(kMost, 1 + kOfLoop * registers_.depth[home]));
}

Mem CfgRegisters::constant(const Node& n) {
  return n.type == Type::F64
             ? cc_.newDoubleConst(asmjit::ConstPoolScope::kLocal, std::bit_cast<double>(n.imm))
             : cc_.newFloatConst(asmjit::ConstPoolScope::kLocal, std::bit_cast<float>(static_cast<uint32_t>(n.imm)));
}

void CfgRegisters::load_constant(const Xmm& to, const Node& n) {
  if (n.imm == 0) cc_.vxorps(to, to, to);
  else if (n.type == Type::F64) cc_.vmovsd(to, constant(n));
  else cc_.vmovss(to, constant(n));
}

void CfgRegisters::set(const Gp& to, int64_t value) {
  if (value == static_cast<uint32_t>(value)) cc_.mov(to.r32(), static_cast<uint32_t>(value));
  else cc_.mov(to, value);
}

void CfgRegisters::set(const Gp& to, const Node& constant) {
  if (constant.is_address) addresses_.load(to, reinterpret_cast<const void*>(constant.imm));
  else set(to, constant.imm);
}

void CfgRegisters::move(Id to, Id from) {
  const Node& n = cfg_.at(from);
  if (n.lanes > 1) {
    vectors_.move(to, from);
  } else if (n.type == Type::I64) {
    if (cfg_.is_const(from)) set(gp(to), n);
    else cc_.mov(gp(to), gp(from));
  } else if (cfg_.is_const(from)) {
    load_constant(xmm(to), n);
  } else {
    cc_.vmovaps(xmm(to), xmm(from));
  }
}

std::vector<std::pair<Id, Id>> CfgRegisters::moves(const Edge& e) const {
  std::vector<std::pair<Id, Id>> out;  // to, from
  const std::vector<Id>& params = cfg_.blocks[e.block].params;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (registers_.home[params[i]] != registers_.home[e.args[i]])
      out.emplace_back(registers_.home[params[i]], registers_.home[e.args[i]]);
  return out;
}

void CfgRegisters::pass(const Edge& e) {
  std::vector<std::pair<Id, Id>> open = moves(e);
  std::vector<std::pair<Id, Gp>> held_gp;
  std::vector<std::pair<Id, Xmm>> held_xmm;
  std::vector<std::pair<Id, asmjit::x86::Vec>> held_vectors;
  while (!open.empty()) {
    bool moved = false;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const auto [to, from] = open[i];
      bool read = false;
      for (std::size_t j = 0; j < open.size(); ++j) read = read || (j != i && open[j].second == to);
      if (read) continue;
      move(to, from);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      moved = true;
      break;
    }
    if (moved) continue;
    // A ring: one of its values waits beside.
    const auto [to, from] = open.back();
    open.pop_back();
    if (cfg_.at(from).lanes > 1) {
      held_vectors.emplace_back(to, vectors_.copy(from));
    } else if (cfg_.at(from).type == Type::I64) {
      held_gp.emplace_back(to, cc_.newInt64());
      cc_.mov(held_gp.back().second, gp(from));
    } else {
      held_xmm.emplace_back(to, cfg_.at(from).type == Type::F64 ? cc_.newXmmSd() : cc_.newXmmSs());
      cc_.vmovaps(held_xmm.back().second, xmm(from));
    }
  }
  for (const auto& [to, held] : held_gp) cc_.mov(gp(to), held);
  for (const auto& [to, held] : held_xmm) cc_.vmovaps(xmm(to), held);
  for (const auto& [to, held] : held_vectors) cc_.emit(asmjit::x86::Inst::kIdVmovaps, vectors_.vec(to), held);
}

void CfgRegisters::start(Id result, Id operand) {
  if (registers_.home[result] != registers_.home[operand]) move(result, operand);
}

Mem CfgRegisters::address(const Node& n) {
  Mem at;
  const auto displacement = static_cast<int32_t>(n.imm);
  const bool fixed = n.args[1] == kNone || is_small(n.args[1]);
  const int64_t offset = n.imm + (fixed && n.args[1] != kNone ? cfg_.at(n.args[1]).imm * n.scale : 0);
  if (fixed && offset == static_cast<int32_t>(offset))
    at = asmjit::x86::ptr(gp(n.args[0]), static_cast<int32_t>(offset));
  else
    at = asmjit::x86::ptr(gp(n.args[0]), gp(n.args[1]), static_cast<uint32_t>(std::countr_zero(n.scale)), displacement);
  at.setSize(static_cast<uint32_t>(cfg::size_of(n.mem)));
  return at;
}

}  // namespace framejit::codegen
