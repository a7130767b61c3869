// The registers of the values of a control-flow graph.
#pragma once

#include <asmjit/x86.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "codegen/emit_cfg_vectors.h"
#include "graph/cfg/registers.h"

namespace framejit::codegen {

/// A value is a virtual register of asmjit's compiler, and so is a parameter of a block; values move along edges.
class CfgRegisters : protected CfgNumbers {
 protected:
  using Label = asmjit::Label;
  using Gp = asmjit::x86::Gp;
  using Mem = asmjit::x86::Mem;
  using Xmm = asmjit::x86::Xmm;
  using Id = cfg::Id;
  using Node = cfg::Node;

  CfgRegisters(const cfg::Cfg& cfg, asmjit::x86::Compiler& cc, Isa isa)
      : cfg_(cfg),
        cc_(cc),
        shape_(cfg::shape_of(cfg)),
        registers_(cfg::assign_registers(cfg, shape_)),
        gps_(cfg.nodes.size()),
        xmms_(cfg.nodes.size()),
        vectors_(cfg, registers_, cc, isa, *this),
        addresses_(cc) {}

  bool is_small(Id id) const;
  Gp gp(Id id) override;
  Xmm xmm(Id id) override;
  /// What inner loops use is the last to be kept on the stack.
  void weigh(const asmjit::BaseReg& reg, Id home);
  Mem constant(const Node& n);
  void load_constant(const Xmm& to, const Node& n);
  void set(const Gp& to, int64_t value);
  void set(const Gp& to, const Node& constant);
  void move(Id to, Id from);
  /// Which values move into which registers along an edge.
  std::vector<std::pair<Id, Id>> moves(const cfg::Edge& e) const;
  /// All parameters of the target at once.
  void pass(const cfg::Edge& e);
  /// The result's register holds the operand.
  void start(Id result, Id operand);
  Mem address(const Node& n) override;
  CodeAddresses& addresses() override { return addresses_; }

  const cfg::Cfg& cfg_;
  asmjit::x86::Compiler& cc_;
  const cfg::Shape shape_;
  const cfg::Registers registers_;
  std::vector<Gp> gps_;
  std::vector<Xmm> xmms_;
  CfgVectors vectors_;
  CodeAddresses addresses_;
};

}  // namespace framejit::codegen
