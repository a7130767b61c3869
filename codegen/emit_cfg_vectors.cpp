// Vectors: registers of 16 to 64 bytes. With AVX-512, conditions are mask registers, and so are the lanes that take
// part; with AVX2, conditions are vectors of bits, and all lanes take part.
#include "codegen/emit_cfg_vectors.h"

#include <immintrin.h>

#include <bit>

#include "codegen/emit_cfg_fused.h"
#include "codegen/emit_cfg_power.h"
#include "graph/support/check.h"
#include "graph/support/upper_halves.h"

namespace framejit::codegen {

namespace {

using asmjit::x86::Gp;
using asmjit::x86::Xmm;
using cfg::Id;
using cfg::kNone;
using cfg::Node;
using cfg::Op;
using cfg::Type;
namespace I = asmjit::x86::Inst;
using Cond = asmjit::x86::CondCode;

}  // namespace

CfgVectors::Vec CfgVectors::fresh(int bytes) {
  if (bytes == 64) return cc_.newZmm();
  if (bytes == 32) return cc_.newYmm();
  FRAMEJIT_CHECK(bytes == 16, "a vector of " + std::to_string(bytes) + " bytes");
  return cc_.newXmm();
}

CfgVectors::Vec CfgVectors::vec(Id id) {
  const Id home = registers_.home[id];
  if (!vecs_[home].isValid()) {
    vecs_[home] = fresh_like(cfg_.at(id));
    constexpr uint32_t kOfLoop = 80, kMost = 255;
    cc_.virtRegByReg(vecs_[home])->setWeight(std::min(kMost, 1 + kOfLoop * registers_.depth[home]));
  }
  return vecs_[home];
}

void CfgVectors::move(Id to, Id from) { cc_.emit(I::kIdVmovaps, vec(to), vec(from)); }

CfgVectors::Vec CfgVectors::copy(Id id) {
  const Vec out = fresh_like(cfg_.at(id));
  cc_.emit(I::kIdVmovaps, out, vec(id));
  return out;
}

CfgVectors::Mem CfgVectors::literal(const std::vector<uint64_t>& parts, int part_bytes) {
  std::vector<uint8_t> bytes;
  for (const uint64_t part : parts)
    for (int i = 0; i < part_bytes; ++i) bytes.push_back(static_cast<uint8_t>(part >> (8 * i)));
  return cc_.newConst(asmjit::ConstPoolScope::kLocal, bytes.data(), bytes.size());
}

CfgVectors::Mem CfgVectors::cell() {
  if (!has_cell_) {
    has_cell_ = true;
    cell_ = cc_.newStack(8, 8);
    cell_.setSize(8);
  }
  return cell_;
}

CfgVectors::Vec CfgVectors::all_bits(int bytes) {
  const Vec out = fresh(bytes);
  if (wide_) cc_.vpternlogq(out, out, out, 255);
  else cc_.vpcmpeqd(out, out, out);
  return out;
}

CfgVectors::Vec CfgVectors::repeated(uint64_t bits, const Node& like) {
  const Vec out = fresh_like(like);
  const bool narrow = like.type == Type::F32;
  const Mem at = literal({bits}, narrow ? 4 : 8);
  narrow ? cc_.vbroadcastss(out, at) : out.isXmm() ? cc_.vmovddup(out, at) : cc_.vbroadcastsd(out, at);
  return out;
}

CfgVectors::KReg CfgVectors::first_lanes(const Node& n, int lanes) {
  const auto [at, first] = masks_.emplace(std::pair(n.count, n.from_last), KReg());
  if (first) {
    const Gp bits = cc_.newInt32(), count = cc_.newInt32();
    cc_.mov(bits, (1u << lanes) - 1);
    if (n.from_last) {
      // The others are below them.
      cc_.mov(count, lanes);
      cc_.sub(count, numbers_.gp(n.count).r32());
      cc_.shlx(bits, bits, count);
    } else {
      cc_.bzhi(bits, bits, numbers_.gp(n.count).r32());
    }
    at->second = cc_.newKw();
    cc_.kmovw(at->second, bits);
  }
  return at->second;
}

void CfgVectors::mask_access(const Node& n, bool zeroes) {
  if (n.count == kNone && n.where == kNone) return;
  KReg mask;
  if (n.where != kNone && n.count != kNone) {
    mask = cc_.newKw();
    cc_.kandw(mask, mask_register(n.where), first_lanes(n, n.lanes));
  } else if (n.where != kNone) {
    mask = mask_register(n.where);
  } else {
    mask = first_lanes(n, n.lanes);
  }
  cc_.k(mask);
  if (zeroes) cc_.z();
}

bool CfgVectors::has_addresses(const Node& n) const { return n.args[1] != kNone && cfg_.at(n.args[1]).lanes > 1; }

CfgVectors::Mem CfgVectors::addresses_of(const Node& n) {
  return asmjit::x86::ptr(numbers_.gp(n.args[0]), vec(n.args[1]), static_cast<uint32_t>(std::countr_zero(n.scale)),
                          static_cast<int32_t>(n.imm));
}

std::vector<CfgVectors::Mem> CfgVectors::addresses_apart(const Node& n) {
  const Node& ramp = cfg_.at(n.args[1]);
  if (n.where != kNone || n.count != kNone || cfg_.is_param[n.args[1]] || ramp.op != Op::Ramp) return {};
  if (!cfg_.is_const(ramp.args[0]) || cfg_.at(ramp.args[0]).imm != 0) return {};
  const Gp base = numbers_.gp(n.args[0]), step = numbers_.gp(ramp.args[1]);
  const Gp distance = cc_.newInt64(), three = cc_.newInt64();
  cc_.mov(distance, step);
  if (n.scale > 1) cc_.shl(distance, std::countr_zero(n.scale));
  cc_.lea(three, asmjit::x86::ptr(distance, distance, 1));
  std::vector<Mem> out;
  Gp from = base;
  for (int i = 0; i < n.lanes; i += 4) {
    if (i > 0) {
      const Gp next = cc_.newInt64();
      cc_.lea(next, asmjit::x86::ptr(from, distance, 2));
      from = next;
    }
    const auto at = static_cast<int32_t>(n.imm);
    out.push_back(asmjit::x86::ptr(from, at, 8));
    out.push_back(asmjit::x86::ptr(from, distance, 0, at, 8));
    out.push_back(asmjit::x86::ptr(from, distance, 1, at, 8));
    out.push_back(asmjit::x86::ptr(from, three, 0, at, 8));
  }
  return out;
}

CfgVectors::Vec CfgVectors::load_lanes(const std::vector<Mem>& from) {
  std::vector<Vec> parts;
  for (std::size_t i = 0; i < from.size(); i += 2) {
    const Xmm two = cc_.newXmm();
    cc_.vmovsd(two, from[i]);
    cc_.vmovhpd(two, two, from[i + 1]);
    parts.push_back(two);
  }
  std::vector<Vec> halves;
  for (std::size_t i = 0; i < parts.size(); i += 2) {
    halves.push_back(cc_.newYmm());
    cc_.vinsertf128(halves.back().ymm(), parts[i].ymm(), parts[i + 1].xmm(), 1);
  }
  if (halves.size() == 1) return halves[0];
  const Vec out = cc_.newZmm();
  cc_.vinsertf64x4(out.zmm(), halves[0].zmm(), halves[1].ymm(), 1);
  return out;
}

void CfgVectors::store_lanes(const Vec& v, const std::vector<Mem>& to) {
  for (std::size_t i = 0; i < to.size(); i += 4) {
    Vec half = v.ymm();
    if (i > 0) {
      half = cc_.newYmm();
      cc_.vextractf64x4(half.ymm(), v.zmm(), 1);
    }
    const Xmm upper = cc_.newXmm();
    cc_.vextractf128(upper, half.ymm(), 1);
    cc_.vmovlpd(to[i], half.xmm());
    cc_.vmovhpd(to[i + 1], half.xmm());
    cc_.vmovlpd(to[i + 2], upper);
    cc_.vmovhpd(to[i + 3], upper);
  }
}

void CfgVectors::emit_gather(Id id) {
  const Node& n = cfg_.at(id);
  // On some processors the instruction that gathers takes several times as long.
  if (const std::vector<Mem> apart = addresses_apart(n); !apart.empty())
    return void(cc_.emit(I::kIdVmovaps, vec(id), load_lanes(apart)));
  const bool f64 = n.mem == cfg::Mem::F64;
  const Vec out = fresh_like(n);
  cc_.emit(wide_ ? I::kIdVpxorq : I::kIdVpxor, out, out, out);
  const Mem at = addresses_of(n);
  // The instruction clears the mask.
  if (wide_) {
    const KReg lanes = cc_.newKw();
    if (n.where == kNone) cc_.kxnorw(lanes, lanes, lanes);
    else cc_.kmovw(lanes, mask_register(n.where));
    cc_.k(lanes);
    f64 ? cc_.vgatherqpd(out, at) : cc_.vpgatherqq(out, at);
  } else {
    const Vec lanes = n.where == kNone ? all_bits(bytes_of(n)) : fresh_like(n);
    if (n.where != kNone) cc_.emit(I::kIdVmovaps, lanes, mask_vector(n.where));
    f64 ? cc_.vgatherqpd(out, at, lanes) : cc_.vpgatherqq(out, at, lanes);
  }
  cc_.emit(I::kIdVmovaps, vec(id), out);
}

void CfgVectors::emit_scatter(const Node& n) {
  const Vec v = vec(n.args[2]);
  const int size = cfg::size_of(n.mem);
  if (size == 8)
    if (const std::vector<Mem> apart = addresses_apart(n); !apart.empty()) return store_lanes(v, apart);
  if (wide_ && size == 8) {
    const KReg lanes = cc_.newKw();
    if (n.where == kNone) cc_.kxnorw(lanes, lanes, lanes);
    else cc_.kmovw(lanes, mask_register(n.where));
    const Mem at = addresses_of(n);
    cc_.k(lanes);
    n.mem == cfg::Mem::F64 ? cc_.vscatterqpd(at, v) : cc_.vpscatterqq(at, v);
    return;
  }
  // There is no instruction for it: one lane after the other.
  Mem index = on_stack(0, cfg_.at(n.args[1])), value = on_stack(1, cfg_.at(n.args[2]));
  cc_.emit(I::kIdVmovups, index, vec(n.args[1]));
  cc_.emit(I::kIdVmovups, value, v);
  const int apart = n.mem == cfg::Mem::F32 ? 4 : 8;
  index.setSize(8);
  value.setSize(static_cast<uint32_t>(apart));
  const Gp lanes = cc_.newInt32(), number = cc_.newInt64(), at = cc_.newInt64();
  if (n.where != kNone && wide_) cc_.kmovw(lanes, mask_register(n.where));
  else if (n.where != kNone) cc_.vmovmskpd(lanes, mask_vector(n.where));
  for (int i = 0; i < n.lanes; ++i) {
    const asmjit::Label next = cc_.newLabel();
    if (n.where != kNone) {
      cc_.test(lanes, 1 << i);
      cc_.jz(next);
    }
    Mem to = asmjit::x86::ptr(numbers_.gp(n.args[0]), at, static_cast<uint32_t>(std::countr_zero(n.scale)),
                              static_cast<int32_t>(n.imm), static_cast<uint32_t>(size));
    cc_.mov(at, index.cloneAdjusted(8 * i));
    if (apart == 4) cc_.mov(number.r32(), value.cloneAdjusted(apart * i));
    else cc_.mov(number, value.cloneAdjusted(apart * i));
    if (size == 8) cc_.mov(to, number);
    else if (size == 4) cc_.mov(to, number.r32());
    else if (size == 2) cc_.mov(to, number.r16());
    else cc_.mov(to, number.r8());
    cc_.bind(next);
  }
}

void CfgVectors::emit_load(Id id) {
  const Node& n = cfg_.at(id);
  if (has_addresses(n)) return emit_gather(id);
  Mem at = numbers_.address(n);
  at.setSize(static_cast<uint32_t>(n.lanes * cfg::size_of(n.mem)));
  const Vec to = vec(id);
  if (!wide_ && n.where != kNone) return void(cc_.vmaskmovpd(to, mask_vector(n.where), at));
  if (wide_) mask_access(n, true);
  switch (n.mem) {
    case cfg::Mem::F64: return void(cc_.vmovupd(to, at));
    case cfg::Mem::F32: return void(cc_.vmovups(to, at));
    case cfg::Mem::I64: return void(wide_ ? cc_.vmovdqu64(to, at) : cc_.vmovdqu(to, at));
    case cfg::Mem::I32: return void(cc_.vpmovsxdq(to, at));
    case cfg::Mem::U32: return void(cc_.vpmovzxdq(to, at));
    case cfg::Mem::I16: return void(cc_.vpmovsxwq(to, at));
    case cfg::Mem::U16: return void(cc_.vpmovzxwq(to, at));
    case cfg::Mem::I8: return void(cc_.vpmovsxbq(to, at));
    case cfg::Mem::U8: return void(cc_.vpmovzxbq(to, at));
  }
}

/// Four numbers of 64 bits, cut off. Only without AVX-512.
void CfgVectors::narrow(const Mem& at, const Vec& v, int size) {
  const Xmm high = cc_.newXmm(), low = cc_.newXmm();
  cc_.vextracti128(high, v.ymm(), 1);
  cc_.vshufps(low, v.xmm(), high, 0x88);
  if (size == 4) return void(cc_.vmovups(at, low));
  // Their low bytes come together.
  std::vector<uint64_t> from;
  for (uint64_t i = 0; i < 16; ++i) {
    const uint64_t part = i / static_cast<uint64_t>(size), byte = i % static_cast<uint64_t>(size);
    from.push_back(part < 4 ? 4 * part + byte : 0x80);
  }
  cc_.vpshufb(low, low, literal(from, 1));
  if (size == 2) cc_.vmovlps(at, low);
  else cc_.vmovss(at, low);
}

void CfgVectors::emit_store(const Node& n) {
  if (has_addresses(n)) return emit_scatter(n);
  Mem at = numbers_.address(n);
  const int size = cfg::size_of(n.mem);
  at.setSize(static_cast<uint32_t>(n.lanes * size));
  const Vec v = vec(n.args[2]);
  if (n.mem != cfg::Mem::F32 && size < 8 && !wide_) return narrow(at, v, size);
  if (!wide_ && n.where != kNone) return void(cc_.vmaskmovpd(at, mask_vector(n.where), v));
  if (wide_) mask_access(n, false);
  if (n.mem == cfg::Mem::F64) cc_.vmovupd(at, v);
  else if (n.mem == cfg::Mem::F32) cc_.vmovups(at, v);
  else if (size == 8) wide_ ? cc_.vmovdqu64(at, v) : cc_.vmovdqu(at, v);
  else if (size == 4) cc_.vpmovqd(at, v);
  else if (size == 2) cc_.vpmovqw(at, v);
  else cc_.vpmovqb(at, v);
}

void CfgVectors::emit_splat(Id id) {
  const Node& n = cfg_.at(id);
  const Vec to = vec(id);
  if (n.type == Type::F32) return void(cc_.vbroadcastss(to, numbers_.xmm(n.args[0])));
  if (n.type == Type::F64) {
    const Xmm from = numbers_.xmm(n.args[0]);
    return void(to.isXmm() ? cc_.vmovddup(to, from) : cc_.vbroadcastsd(to, from));
  }
  if (wide_) {
    cc_.vpbroadcastq(to, numbers_.gp(n.args[0]));
  } else {
    cc_.mov(cell(), numbers_.gp(n.args[0]));
    cc_.vpbroadcastq(to, cell());
  }
}

void CfgVectors::emit_ramp(Id id) {
  const Node& n = cfg_.at(id);
  const Vec to = vec(id);
  if (cfg_.is_const(n.args[1])) {
    std::vector<uint64_t> apart;
    for (uint64_t i = 0; i < n.lanes; ++i) apart.push_back(i * static_cast<uint64_t>(cfg_.at(n.args[1]).imm));
    emit_splat(id);
    return void(cc_.vpaddq(to, to, literal(apart, 8)));
  }
  const Mem lanes = on_stack(0, n);
  const Gp number = cc_.newInt64();
  cc_.mov(number, numbers_.gp(n.args[0]));
  for (int i = 0; i < n.lanes; ++i) {
    if (i > 0) cc_.add(number, numbers_.gp(n.args[1]));
    Mem lane = lanes.cloneAdjusted(8 * i);
    lane.setSize(8);
    cc_.mov(lane, number);
  }
  cc_.emit(I::kIdVmovups, to, lanes);
}

void CfgVectors::emit_reverse(Id id) {
  const Node& n = cfg_.at(id);
  const Vec to = vec(id), from = vec(n.args[0]);
  if (n.lanes == 4) {
    if (n.type == Type::F32) cc_.vpermilps(to, from, 0x1b);
    else cc_.vpermpd(to, from, 0x1b);
    return;
  }
  std::vector<uint64_t> order;
  for (uint64_t i = n.lanes; i-- > 0;) order.push_back(i);
  const Vec which = fresh_like(n);
  cc_.emit(I::kIdVmovups, which, literal(order, n.type == Type::F32 ? 4 : 8));
  if (n.type == Type::F32) cc_.vpermps(to, which, from);
  else cc_.vpermpd(to, which, from);
}

CfgVectors::KReg CfgVectors::mask_register(Id condition, bool truth) {
  const auto [at, first] = conditions_.emplace(std::pair(condition, truth), KReg());
  if (!first) return at->second;
  const KReg out = mask_of(condition, truth, {});
  return conditions_[{condition, truth}] = out;
}

CfgVectors::KReg CfgVectors::mask_of(Id condition, bool truth, const KReg& lanes) {
  const Node& n = cfg_.at(condition);
  if (!lanes.isValid() && cfg::negates_condition(cfg_, condition)) return mask_register(n.args[0], !truth);
  const KReg out = cc_.newKw();
  if (!lanes.isValid() && cfg::combines_conditions(cfg_, condition)) {
    // Neither: both do not hold.
    const KReg a = mask_register(n.args[0], truth), b = mask_register(n.args[1], truth);
    (n.op == Op::And) == truth ? cc_.kandw(out, a, b) : cc_.korw(out, a, b);
    return out;
  }
  if (cfg_.is_param[condition] || !cfg::is_comparison(n.op)) {
    const Vec v = vec(condition);
    if (lanes.isValid()) cc_.k(lanes);
    truth ? cc_.vptestmq(out, v, v) : cc_.vptestnmq(out, v, v);
    return out;
  }
  const Vec a = vec(n.args[0]), b = vec(n.args[1]);
  const Type type = cfg_.at(n.args[0]).type;
  constexpr int kOpposite = 4;
  if (lanes.isValid()) cc_.k(lanes);
  if (type == Type::I64) {
    const int holds = n.op == Op::Eq ? 0 : n.op == Op::Ne ? 4 : n.op == Op::Le ? 2 : 1;
    const int predicate = truth ? holds : holds ^ kOpposite;
    n.op == Op::Below ? cc_.vpcmpuq(out, a, b, predicate) : cc_.vpcmpq(out, a, b, predicate);
  } else {
    const int holds = n.op == Op::Lt ? 17 : n.op == Op::Le ? 18 : n.op == Op::Eq ? 0 : 4;
    const int predicate = truth ? holds : holds ^ kOpposite;
    type == Type::F64 ? cc_.vcmppd(out, a, b, predicate) : cc_.vcmpps(out, a, b, predicate);
  }
  return out;
}

CfgVectors::Vec CfgVectors::mask_vector(Id condition) {
  const auto [at, first] = vector_conditions_.emplace(condition, Vec());
  if (!first) return at->second;
  const Vec out = new_mask_vector(condition);
  return vector_conditions_[condition] = out;
}

CfgVectors::Vec CfgVectors::new_mask_vector(Id condition) {
  const Node& n = cfg_.at(condition);
  if (cfg::combines_conditions(cfg_, condition)) {
    const Vec both = fresh_like(n), a = mask_vector(n.args[0]), b = mask_vector(n.args[1]);
    n.op == Op::And ? cc_.vpand(both, a, b) : cc_.vpor(both, a, b);
    return both;
  }
  if (cfg::negates_condition(cfg_, condition)) {
    const Vec opposite = fresh_like(n);
    cc_.vpxor(opposite, mask_vector(n.args[0]), all_bits(bytes_of(n)));
    return opposite;
  }
  const bool compares = !cfg_.is_param[condition] && cfg::is_comparison(n.op);
  const Node& compared = compares ? cfg_.at(n.args[0]) : n;
  const Vec out = fresh_like(compared);
  const auto inverted = [&] { cc_.vpxor(out, out, all_bits(bytes_of(compared))); };
  if (!compares) {
    const Vec zero = fresh_like(n);
    cc_.vpxor(zero, zero, zero);
    cc_.vpcmpeqq(out, vec(condition), zero);
    inverted();
    return out;
  }
  const Vec a = vec(n.args[0]), b = vec(n.args[1]);
  if (compared.type == Type::I64) {
    if (n.op == Op::Eq || n.op == Op::Ne) {
      cc_.vpcmpeqq(out, a, b);
    } else if (n.op == Op::Below) {
      // Natural numbers compare as signed ones do whose sign is the other one.
      const Vec sign = repeated(uint64_t{1} << 63, compared), flipped = fresh_like(compared);
      cc_.vpxor(flipped, a, sign);
      cc_.vpxor(out, b, sign);
      cc_.vpcmpgtq(out, out, flipped);
    } else if (n.op == Op::Lt) cc_.vpcmpgtq(out, b, a);
    else cc_.vpcmpgtq(out, a, b);
    if (n.op == Op::Ne || n.op == Op::Le) inverted();
  } else {
    const int predicate = n.op == Op::Lt ? 17 : n.op == Op::Le ? 18 : n.op == Op::Eq ? 0 : 4;
    compared.type == Type::F64 ? cc_.vcmppd(out, a, b, predicate) : cc_.vcmpps(out, a, b, predicate);
  }
  return out;
}

void CfgVectors::emit_select(Id id) {
  const Node& n = cfg_.at(id);
  const Node& c = cfg_.at(n.args[0]);
  const bool compares = !cfg_.is_param[n.args[0]] && cfg::is_comparison(c.op);
  const Vec to = vec(id), yes = vec(n.args[1]), no = vec(n.args[2]);
  if (compares && n.type != Type::I64 && c.op == Op::Lt && cfg_.at(c.args[0]).type == n.type) {
    // As for numbers: the second operand where neither is the lesser.
    const bool least = n.args[1] == c.args[0] && n.args[2] == c.args[1];
    const bool most = n.args[1] == c.args[1] && n.args[2] == c.args[0];
    if (least) return void(n.type == Type::F64 ? cc_.vminpd(to, yes, no) : cc_.vminps(to, yes, no));
    if (most) return void(n.type == Type::F64 ? cc_.vmaxpd(to, yes, no) : cc_.vmaxps(to, yes, no));
  }
  if (wide_) {
    // Not vblendm, for which the register allocator keeps what the result held before from round to round.
    const bool has_yes = to.id() == yes.id();
    const KReg mask = mask_register(n.args[0], !has_yes);  // before the result is written, which may be compared
    if (!has_yes && to.id() != no.id()) cc_.emit(I::kIdVmovaps, to, no);
    cc_.k(mask);
    cc_.emit(n.type == Type::F32 ? I::kIdVmovaps : I::kIdVmovapd, to, has_yes ? no : yes);
    return;
  }
  const Vec mask = mask_vector(n.args[0]);
  n.type == Type::F32 ? cc_.vblendvps(to, no, yes, mask) : cc_.vblendvpd(to, no, yes, mask);
}

/// 1 or 0 in each lane.
void CfgVectors::emit_comparison(Id id) {
  if (!registers_.wanted[id]) return;
  const Vec to = vec(id);
  if (wide_) {
    const KReg mask = mask_register(id);
    cc_.vpmovm2q(to, mask);
    cc_.vpsrlq(to, to, 63);
    return;
  }
  const Vec mask = mask_vector(id);
  cc_.vpsrlq(to, mask, 63);
}

void CfgVectors::emit_float(Id id) {
  const Node& n = cfg_.at(id);
  const bool f64 = n.type == Type::F64;
  const Vec to = vec(id), a = vec(n.args[0]);
  const Vec b = cfg::info(n.op).operands > 1 ? vec(n.args[1]) : a;
  switch (n.op) {
    case Op::Add: return void(f64 ? cc_.vaddpd(to, a, b) : cc_.vaddps(to, a, b));
    case Op::Sub: return void(f64 ? cc_.vsubpd(to, a, b) : cc_.vsubps(to, a, b));
    case Op::Mul: return void(f64 ? cc_.vmulpd(to, a, b) : cc_.vmulps(to, a, b));
    case Op::Div: return void(f64 ? cc_.vdivpd(to, a, b) : cc_.vdivps(to, a, b));
    case Op::Sqrt: return void(f64 ? cc_.vsqrtpd(to, a) : cc_.vsqrtps(to, a));
    case Op::MulAdd:
    case Op::MulSub:
    case Op::SubMul: return emit_fused(cc_, n.op, n.type, true, to, a, b, vec(n.args[2]));
    case Op::Neg: return void(cc_.vxorps(to, a, repeated(f64 ? uint64_t{1} << 63 : uint64_t{1} << 31, n)));
    case Op::Abs: return void(cc_.vandps(to, a, repeated(f64 ? ~(uint64_t{1} << 63) : ~(uint64_t{1} << 31), n)));
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc:
    case Op::Rint: {
      const int mode = n.op == Op::Floor ? 9 : n.op == Op::Ceil ? 10 : n.op == Op::Trunc ? 11 : 8;
      if (to.isZmm()) return void(f64 ? cc_.vrndscalepd(to, a, mode) : cc_.vrndscaleps(to, a, mode));
      return void(f64 ? cc_.vroundpd(to, a, mode) : cc_.vroundps(to, a, mode));
    }
    default: FRAMEJIT_CHECK(false, cfg::info(n.op).text);
  }
}

namespace {

// Results go into the vector in a register: a load of a vector would wait for stores of single lanes.
__attribute__((target("avx512f"))) void put_into_eight(double* results, const double* found, uint64_t lanes) {
  __m512d all = _mm512_loadu_pd(results);
  for (; lanes != 0; lanes &= lanes - 1)
    all =
        _mm512_mask_mov_pd(all, static_cast<__mmask8>(lanes & -lanes), _mm512_set1_pd(found[std::countr_zero(lanes)]));
  _mm512_storeu_pd(results, all);
}

__attribute__((target("avx2"))) void put_into_four(double* results, const double* found, uint64_t lanes) {
  __m256d all = _mm256_loadu_pd(results);
  const __m256i bits = _mm256_setr_epi64x(1, 2, 4, 8);
  for (; lanes != 0; lanes &= lanes - 1) {
    const __m256i here = _mm256_cmpeq_epi64(bits, _mm256_set1_epi64x(static_cast<int64_t>(lanes & -lanes)));
    all = _mm256_blendv_pd(all, _mm256_set1_pd(found[std::countr_zero(lanes)]), _mm256_castsi256_pd(here));
  }
  _mm256_storeu_pd(results, all);
}

/// The lanes whose bit is 0.
template <auto put_into>
void call_in_lanes(double (*function)(double, double), const double* x, double exponent, double* results,
                   int64_t done) {
  forget_upper_halves();
  double found[8];
  for (auto lanes = ~static_cast<uint64_t>(done); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    found[lane] = function(x[lane], exponent);
  }
  put_into(results, found, ~static_cast<uint64_t>(done));
}

}  // namespace

const void* function_for_lanes(bool eight) {
  return reinterpret_cast<const void*>(eight ? &call_in_lanes<put_into_eight> : &call_in_lanes<put_into_four>);
}

CfgVectors::Mem CfgVectors::on_stack(int which, const Node& n) {
  constexpr int kBytes = 64;
  if (!has_lanes_) {
    has_lanes_ = true;
    lanes_ = cc_.newStack(2 * kBytes, kBytes);
  }
  Mem at = lanes_.cloneAdjusted(which * kBytes);
  at.setSize(static_cast<uint32_t>(bytes_of(n)));
  return at;
}

void CfgVectors::emit_call(Id id) {
  const Node& n = cfg_.at(id);
  const Mem numbers = on_stack(0, n), results = on_stack(1, n);
  cc_.emit(I::kIdVmovups, numbers, vec(n.args[1]));
  const Gp first = cc_.newInt64(), in = cc_.newIntPtr(), out = cc_.newIntPtr(), count = cc_.newInt64(),
           target = cc_.newIntPtr();
  const Node& given = cfg_.at(cfg_.at(n.args[0]).args[0]);
  if (given.is_address) numbers_.addresses().load(first, reinterpret_cast<const void*>(given.imm));
  else cc_.mov(first, given.imm);
  cc_.lea(in, numbers);
  cc_.lea(out, results);
  cc_.mov(count, static_cast<int64_t>(n.lanes));
  numbers_.addresses().load(target, n.function->in_lanes);
  asmjit::InvokeNode* call = nullptr;
  cc_.invoke(&call, target, asmjit::FuncSignatureT<void, int64_t, void*, void*, int64_t>(asmjit::CallConvId::kCDecl));
  call->setArg(0, first);
  call->setArg(1, in);
  call->setArg(2, out);
  call->setArg(3, count);
  cc_.emit(I::kIdVmovups, vec(id), results);
}

void CfgVectors::emit_power(Id id) {
  const Node& n = cfg_.at(id);
  const double exponent = std::bit_cast<double>(cfg_.at(cfg_.at(n.args[1]).args[0]).imm);
  const Vec x = vec(n.args[0]);
  const auto number = [&](double value) { return repeated(std::bit_cast<uint64_t>(value), n); };
  const QuickPower quick = emit_quick_power(cc_, exponent, x, true, number, [&] { return fresh_like(n); });
  constexpr int kNotLess = 29;  // and not NaN
  const Gp done = cc_.newInt64();
  if (wide_) {
    const KReg near = cc_.newKw();
    cc_.vcmppd(near, quick.least, quick.limit, kNotLess);
    cc_.kmovw(done.r32(), near);
  } else {
    const Vec near = fresh_like(n);
    cc_.vcmppd(near, quick.least, quick.limit, kNotLess);
    cc_.vmovmskpd(done.r32(), near);
  }
  const asmjit::Label end = cc_.newLabel();
  cc_.cmp(done.r32(), (1 << n.lanes) - 1);
  cc_.je(end);
  const Mem of_x = on_stack(0, n), of_result = on_stack(1, n);
  cc_.emit(I::kIdVmovups, of_x, x);
  cc_.emit(I::kIdVmovups, of_result, quick.result);
  const Gp function = cc_.newIntPtr(), xs = cc_.newIntPtr(), results = cc_.newIntPtr(), target = cc_.newIntPtr();
  const Xmm second = cc_.newXmmSd();
  cc_.or_(done, -(1 << n.lanes));
  numbers_.addresses().load(function, n.function->address);
  cc_.lea(xs, of_x);
  cc_.lea(results, of_result);
  cc_.vmovsd(second, literal({std::bit_cast<uint64_t>(exponent)}, 8));
  numbers_.addresses().load(target, function_for_lanes(n.lanes == 8));
  asmjit::InvokeNode* call = nullptr;
  cc_.invoke(&call, target,
             asmjit::FuncSignatureT<void, void*, void*, double, void*, int64_t>(asmjit::CallConvId::kCDecl));
  call->setArg(0, function);
  call->setArg(1, xs);
  call->setArg(2, second);
  call->setArg(3, results);
  call->setArg(4, done);
  cc_.emit(I::kIdVmovups, quick.result, of_result);
  cc_.bind(end);
  cc_.emit(I::kIdVmovaps, vec(id), quick.result);
}

/// The low 64 bits of products, without AVX-512: those of the low halves, and the low halves of those across.
void CfgVectors::multiply(const Vec& to, const Vec& a, const Vec& b) {
  const Vec one = cc_.newYmm(), other = cc_.newYmm(), low = cc_.newYmm();
  cc_.vpsrlq(one, a, 32);
  cc_.vpmuludq(one, one, b);
  cc_.vpsrlq(other, b, 32);
  cc_.vpmuludq(other, other, a);
  cc_.vpaddq(one, one, other);
  cc_.vpsllq(one, one, 32);
  cc_.vpmuludq(low, a, b);
  cc_.vpaddq(to, low, one);
}

/// Arithmetically. Without AVX-512 the sign is extended from where the shift leaves it.
void CfgVectors::shift_down(const Vec& to, const Vec& a, int by) {
  if (wide_) return void(cc_.vpsraq(to, a, by));
  const Vec sign = cc_.newYmm();
  cc_.vbroadcastsd(sign, literal({uint64_t{1} << (63 - by)}, 8));
  cc_.vpsrlq(to, a, by);
  cc_.vpxor(to, to, sign);
  cc_.vpsubq(to, to, sign);
}

void CfgVectors::emit_integer(Id id) {
  const Node& n = cfg_.at(id);
  const Vec to = vec(id), a = vec(n.args[0]);
  const Vec b = cfg::info(n.op).operands > 1 ? vec(n.args[1]) : a;
  // By a constant that has been put into all lanes.
  const auto shift = [&] { return static_cast<int>(cfg_.at(cfg_.at(n.args[1]).args[0]).imm); };
  switch (n.op) {
    case Op::Add: return void(cc_.vpaddq(to, a, b));
    case Op::Sub: return void(cc_.vpsubq(to, a, b));
    case Op::Mul:
      if (n.of_natural) return void(cc_.vpmuludq(to, a, b));
      return wide_ ? void(cc_.vpmullq(to, a, b)) : multiply(to, a, b);
    case Op::And: return void(wide_ ? cc_.vpandq(to, a, b) : cc_.vpand(to, a, b));
    case Op::Or: return void(wide_ ? cc_.vporq(to, a, b) : cc_.vpor(to, a, b));
    case Op::Xor: return void(wide_ ? cc_.vpxorq(to, a, b) : cc_.vpxor(to, a, b));
    case Op::Shl: return void(cc_.vpsllq(to, a, shift()));
    case Op::Shr: return n.of_natural ? void(cc_.vpsrlq(to, a, shift())) : shift_down(to, a, shift());
    case Op::Abs: {
      if (wide_) return void(cc_.vpabsq(to, a));
      const Vec sign = fresh_like(n), turned = fresh_like(n);
      cc_.vpxor(sign, sign, sign);
      cc_.vpcmpgtq(sign, sign, a);
      cc_.vpxor(turned, a, sign);
      return void(cc_.vpsubq(to, turned, sign));
    }
    case Op::Extend: {
      const int cut = 64 - 8 * cfg::size_of(n.mem);
      const bool is_signed = n.mem == cfg::Mem::I8 || n.mem == cfg::Mem::I16 || n.mem == cfg::Mem::I32;
      cc_.vpsllq(to, a, cut);
      return is_signed ? shift_down(to, to, cut) : void(cc_.vpsrlq(to, to, cut));
    }
    case Op::Ones: {
      if (wide_ && asmjit::CpuInfo::host().hasFeature(asmjit::CpuFeatures::X86::kAVX512_VPOPCNTDQ))
        return void(cc_.vpopcntq(to, a));
      // Half a byte at a time by a table of 16 bytes, then the sum of eight bytes.
      const Vec table = fresh_like(n), halves = fresh_like(n), low = fresh_like(n), high = fresh_like(n);
      const Mem entries = literal({0x0302020102010100, 0x0403030203020201}, 8);
      cc_.emit(wide_ ? I::kIdVbroadcasti64x2 : I::kIdVbroadcasti128, table, entries);
      cc_.emit(I::kIdVmovaps, halves, repeated(0x0f0f0f0f0f0f0f0f, n));
      cc_.emit(wide_ ? I::kIdVpandq : I::kIdVpand, low, a, halves);
      cc_.vpsrlq(high, a, 4);
      cc_.emit(wide_ ? I::kIdVpandq : I::kIdVpand, high, high, halves);
      cc_.vpshufb(low, table, low);
      cc_.vpshufb(high, table, high);
      cc_.vpaddb(low, low, high);
      cc_.emit(wide_ ? I::kIdVpxorq : I::kIdVpxor, high, high, high);
      return void(cc_.vpsadbw(to, low, high));
    }
    case Op::Neg: {
      const Vec zero = fresh_like(n);
      if (wide_) cc_.vpxorq(zero, zero, zero);
      else cc_.vpxor(zero, zero, zero);
      return void(cc_.vpsubq(to, zero, a));
    }
    default: FRAMEJIT_CHECK(false, cfg::info(n.op).text);
  }
}

void CfgVectors::emit_conversion(Id id) {
  const Node& n = cfg_.at(id);
  const Vec to = vec(id), a = vec(n.args[0]);
  if (n.op == Op::ToI64) return void(cc_.vcvttpd2qq(to, a));
  if (n.op == Op::ToF32) return void(cc_.vcvtpd2ps(to, a));
  if (cfg_.at(n.args[0]).type == Type::F32) return void(cc_.vcvtps2pd(to, a));
  if (wide_) return void(cc_.vcvtqq2pd(to, a));
  // Below 2 ** 51, see can_be_lanes(): 1.5 * 2 ** 52 more is a float whose last bits they are.
  const Vec large = repeated(std::bit_cast<uint64_t>(0x1.8p52), n), sum = fresh_like(n);
  cc_.vpaddq(sum, a, large);
  cc_.vsubpd(to, sum, large);
}

void CfgVectors::jump_if(Id id, bool truth, const asmjit::Label& to) {
  const Node& n = cfg_.at(id);
  const Node& of = cfg_.at(n.args[0]);
  const auto all = static_cast<uint32_t>((uint64_t{1} << of.lanes) - 1);
  if (n.op == Op::AllOf) {
    const Gp bits = cc_.newInt32();
    if (wide_) {
      // Lanes where it does not hold.
      const KReg fails =
          n.count == kNone ? mask_register(n.args[0], false) : mask_of(n.args[0], false, first_lanes(n, of.lanes));
      cc_.kortestw(fails, fails);
      return void(cc_.j(truth ? Cond::kZ : Cond::kNZ, to));
    }
    const bool compares = !cfg_.is_param[n.args[0]] && cfg::is_comparison(of.op);
    const Vec mask = mask_vector(n.args[0]);
    if (compares && cfg_.at(of.args[0]).type == Type::F32) cc_.vmovmskps(bits, mask);
    else cc_.vmovmskpd(bits, mask);
    cc_.cmp(bits, static_cast<int32_t>(all));
    return void(cc_.j(truth ? Cond::kE : Cond::kNE, to));
  }
  const bool f64 = of.type == Type::F64;
  const Vec v = vec(n.args[0]);
  if (wide_) {
    constexpr int kNanOrInfinity = 0x99;
    const KReg bad = cc_.newKw();
    if (n.count != kNone) cc_.k(first_lanes(n, of.lanes));
    f64 ? cc_.vfpclasspd(bad, v, kNanOrInfinity) : cc_.vfpclassps(bad, v, kNanOrInfinity);
    cc_.kortestw(bad, bad);
    return void(cc_.j(truth ? Cond::kZ : Cond::kNZ, to));
  }
  // A number less itself is 0, of which no bit is set, or NaN if it is not finite.
  const Vec difference = fresh_like(of);
  f64 ? cc_.vsubpd(difference, v, v) : cc_.vsubps(difference, v, v);
  cc_.vptest(difference, difference);
  cc_.j(truth ? Cond::kZ : Cond::kNZ, to);
}

void CfgVectors::emit_sum(Id id) {
  const Node& n = cfg_.at(id);
  Vec sum = fresh_like(cfg_.at(n.args[0]));
  const Vec v = vec(n.args[0]);
  if (n.count != kNone) {
    cc_.k(first_lanes(n, cfg_.at(n.args[0]).lanes)).z();
    cc_.vmovdqa64(sum, v);
  } else {
    cc_.emit(I::kIdVmovaps, sum, v);
  }
  if (sum.isZmm()) {
    const Vec high = cc_.newYmm(), both = cc_.newYmm();
    cc_.vextracti64x4(high, sum, 1);
    cc_.vpaddq(both, high, sum.ymm());
    sum = both;
  }
  const Vec high = cc_.newXmm(), low = cc_.newXmm();
  cc_.vextracti128(high, sum, 1);
  cc_.vpaddq(low, high, sum.xmm());
  cc_.vpshufd(high, low, 0xee);
  cc_.vpaddq(low, low, high);
  cc_.vmovlps(cell(), low.xmm());
  cc_.mov(numbers_.gp(id), cell());
}

void CfgVectors::emit_add_lanes(Id id) {
  const Node& n = cfg_.at(id);
  const Node& of = cfg_.at(n.args[0]);
  Mem lane = on_stack(0, of);
  cc_.emit(I::kIdVmovups, lane, vec(n.args[0]));
  const Xmm sum = cc_.newXmmSd();
  cc_.vmovaps(sum, numbers_.xmm(n.args[1]));
  lane.setSize(8);
  for (int i = 0; i < of.lanes; ++i) cc_.vaddsd(sum, sum, lane.cloneAdjusted(8 * i));
  cc_.vmovaps(numbers_.xmm(id), sum);
}

void CfgVectors::emit_lane(Id id) {
  const Node& n = cfg_.at(id);
  const Node& of = cfg_.at(n.args[0]);
  Mem lane = on_stack(0, of);
  cc_.emit(I::kIdVmovups, lane, vec(n.args[0]));
  const int size = n.type == Type::F32 ? 4 : 8;
  if (cfg_.is_const(n.args[1])) lane.addOffset(cfg_.at(n.args[1]).imm * size);
  else lane.setIndex(numbers_.gp(n.args[1]), size == 4 ? 2 : 3);
  lane.setSize(static_cast<uint32_t>(size));
  if (n.type == Type::I64) cc_.mov(numbers_.gp(id), lane);
  else if (n.type == Type::F64) cc_.vmovsd(numbers_.xmm(id), lane);
  else cc_.vmovss(numbers_.xmm(id), lane);
}

void CfgVectors::emit(Id id) {
  const Node& n = cfg_.at(id);
  switch (n.op) {
    case Op::Load: return emit_load(id);
    case Op::Store: return emit_store(n);
    case Op::Splat: return emit_splat(id);
    case Op::Ramp: return emit_ramp(id);
    case Op::Reverse: return emit_reverse(id);
    case Op::Select: return emit_select(id);
    case Op::ToF64:
    case Op::ToF32:
    case Op::ToI64: return emit_conversion(id);
    case Op::Bits: return void(cc_.emit(I::kIdVmovaps, vec(id), vec(n.args[0])));
    case Op::Call: return n.function->in_lanes ? emit_call(id) : emit_power(id);
    default: break;
  }
  if (cfg::is_comparison(n.op) || cfg::combines_conditions(cfg_, id)) return emit_comparison(id);
  if (n.type == Type::I64) emit_integer(id);
  else emit_float(id);
}

}  // namespace framejit::codegen
