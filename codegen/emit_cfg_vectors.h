// Nodes of control-flow graphs whose values are vectors.
#pragma once

#include <asmjit/x86.h>

#include <map>
#include <vector>

#include "codegen/code_addresses.h"
#include "codegen/cpu.h"
#include "graph/cfg/cfg.h"
#include "graph/cfg/registers.h"

namespace framejit::codegen {

/// The registers of numbers, which the emitter of all other nodes has.
class CfgNumbers {
 public:
  virtual ~CfgNumbers() = default;
  virtual asmjit::x86::Gp gp(cfg::Id id) = 0;
  virtual asmjit::x86::Xmm xmm(cfg::Id id) = 0;
  virtual asmjit::x86::Mem address(const cfg::Node& n) = 0;
  virtual CodeAddresses& addresses() = 0;
};

/// What the code calls, next to the functions of the graph.
const void* function_for_lanes(bool eight);

class CfgVectors {
 public:
  CfgVectors(const cfg::Cfg& cfg, const cfg::Registers& registers, asmjit::x86::Compiler& cc, Isa isa,
             CfgNumbers& numbers)
      : cfg_(cfg), registers_(registers), cc_(cc), wide_(isa == Isa::Avx512), numbers_(numbers) {
    vecs_.resize(cfg.nodes.size());
  }

  /// Masks are known anew in each block.
  void begin_block() {
    masks_.clear();
    conditions_.clear();
    vector_conditions_.clear();
  }
  void emit(cfg::Id id);
  /// Jumps if Finite or AllOf is that.
  void jump_if(cfg::Id id, bool truth, const asmjit::Label& to);
  void emit_sum(cfg::Id id);
  void emit_add_lanes(cfg::Id id);
  void emit_lane(cfg::Id id);
  asmjit::x86::Vec vec(cfg::Id id);
  void move(cfg::Id to, cfg::Id from);
  asmjit::x86::Vec copy(cfg::Id id);

 private:
  using Vec = asmjit::x86::Vec;
  using Mem = asmjit::x86::Mem;
  using KReg = asmjit::x86::KReg;

  Vec fresh(int bytes);
  Vec fresh_like(const cfg::Node& n) { return fresh(bytes_of(n)); }
  static int bytes_of(const cfg::Node& n) { return n.lanes * (n.type == cfg::Type::F32 ? 4 : 8); }
  Mem literal(const std::vector<uint64_t>& parts, int part_bytes);
  Vec all_bits(int bytes);
  Vec repeated(uint64_t bits, const cfg::Node& like);
  KReg first_lanes(const cfg::Node& n, int lanes);
  /// The lanes of a load or a store that take part, if not all do.
  void mask_access(const cfg::Node& n, bool zeroes);
  Mem cell();

  void emit_load(cfg::Id id);
  void emit_store(const cfg::Node& n);
  /// Does each lane have an address of its own? Then, of numbers of 64 bits:
  bool has_addresses(const cfg::Node& n) const;
  Mem addresses_of(const cfg::Node& n);
  /// If the addresses have one distance from each lane to the next one, and all lanes take part: the address of each.
  std::vector<Mem> addresses_apart(const cfg::Node& n);
  void emit_gather(cfg::Id id);
  Vec load_lanes(const std::vector<Mem>& from);
  void store_lanes(const Vec& v, const std::vector<Mem>& to);
  void emit_scatter(const cfg::Node& n);
  void emit_splat(cfg::Id id);
  void emit_ramp(cfg::Id id);
  void emit_reverse(cfg::Id id);
  void emit_select(cfg::Id id);
  void emit_comparison(cfg::Id id);
  void emit_float(cfg::Id id);
  /// See cfg::calls_quick_power().
  void emit_power(cfg::Id id);
  /// A call of Function::in_lanes.
  void emit_call(cfg::Id id);
  /// One of two places for a vector.
  Mem on_stack(int which, const cfg::Node& n);
  void emit_integer(cfg::Id id);
  void multiply(const Vec& to, const Vec& a, const Vec& b);
  void shift_down(const Vec& to, const Vec& a, int by);
  void emit_conversion(cfg::Id id);
  void narrow(const Mem& at, const Vec& v, int size);

  /// The lanes in which a condition holds, or does not. A condition is a comparison, combines conditions, or holds
  /// where a number is not 0.
  KReg mask_register(cfg::Id condition, bool truth = true);
  KReg mask_of(cfg::Id condition, bool truth, const KReg& lanes);
  Vec mask_vector(cfg::Id condition);
  Vec new_mask_vector(cfg::Id condition);

  const cfg::Cfg& cfg_;
  const cfg::Registers& registers_;
  asmjit::x86::Compiler& cc_;
  const bool wide_;
  CfgNumbers& numbers_;
  std::vector<Vec> vecs_;
  std::map<std::pair<cfg::Id, bool>, KReg> masks_;
  std::map<std::pair<cfg::Id, bool>, KReg> conditions_;  // known in this block, and whether they hold
  std::map<cfg::Id, Vec> vector_conditions_;
  bool has_cell_ = false;
  Mem cell_;
  bool has_lanes_ = false;
  Mem lanes_;  // see on_stack()
};

}  // namespace framejit::codegen
