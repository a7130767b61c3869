// Nodes of control-flow graphs whose values are numbers.
#include "codegen/emit_cfg_nodes.h"

#include <bit>
#include <limits>
#include <utility>

#include "codegen/emit_cfg_fused.h"
#include "codegen/emit_cfg_power.h"
#include "graph/support/check.h"

namespace framejit::codegen {

using asmjit::Label;
using asmjit::x86::Gp;
using asmjit::x86::Mem;
using asmjit::x86::Xmm;
using cfg::Id;
using cfg::is_comparison;
using cfg::kNone;
using cfg::Node;
using cfg::Op;
using cfg::Type;
using Cond = asmjit::x86::CondCode;

const Label& CfgNodes::exit(uint32_t e) {
  if (itself_.is_called && itself_.calls->results[cfg_.number_of(e)] < 0) return itself_.gives_up;
  std::vector<int64_t> key{cfg_.number_of(e)};
  for (Id v : cfg_.exits[e].values) key.push_back(v);
  e = same_exits_.emplace(std::move(key), e).first->second;
  taken_[e] = true;
  return exits_[e];
}

Cond CfgNodes::compare(const Node& n) {
  Id a = n.args[0], b = n.args[1];
  Cond when = n.op == Op::Eq   ? Cond::kEqual
              : n.op == Op::Ne ? Cond::kNotEqual
              : n.op == Op::Lt ? Cond::kSignedLT
              : n.op == Op::Le ? Cond::kSignedLE
                               : Cond::kUnsignedLT;
  if (cfg_.is_const(a) && !is_small(b)) {
    std::swap(a, b);
    when = asmjit::x86::reverseCond(when);
  }
  const Gp left = gp(a);
  const bool is_equality = n.op == Op::Eq || n.op == Op::Ne;
  if (is_equality && cfg_.is_const(b) && cfg_.at(b).imm == std::numeric_limits<int64_t>::min()) {
    cc_.cmp(left, 1);  // overflows for the least integer only
    return n.op == Op::Eq ? Cond::kO : Cond::kNO;
  }
  if (is_small(b) && cfg_.at(b).imm == 0 && n.op != Op::Below) cc_.test(left, left);
  else if (is_small(b)) cc_.cmp(left, static_cast<int32_t>(cfg_.at(b).imm));
  else cc_.cmp(left, gp(b));
  return when;
}

void CfgNodes::compare_floats(Type type, const Xmm& a, const Xmm& b) {
  if (type == Type::F64) cc_.vucomisd(a, b);
  else cc_.vucomiss(a, b);
}

void CfgNodes::compare_finite(Id id) {
  const bool wide = cfg_.at(id).type == Type::F64;
  const Xmm difference = wide ? cc_.newXmmSd() : cc_.newXmmSs(), a = xmm(id);
  wide ? cc_.vsubsd(difference, a, a) : cc_.vsubss(difference, a, a);
  compare_floats(cfg_.at(id).type, difference, difference);
}

void CfgNodes::jump_if(Id condition, bool truth, const Label& to) {
  const Node& n = cfg_.at(condition);
  if (n.op == Op::Waits) {
    cc_.cmp(asmjit::x86::byte_ptr(poll_), 0);
    return void(cc_.j(truth ? Cond::kNE : Cond::kE, to));
  }
  if (n.op == Op::Finite && cfg_.at(n.args[0]).lanes == 1) {
    compare_finite(n.args[0]);
    return void(cc_.j(truth ? Cond::kNP : Cond::kP, to));
  }
  if (n.op == Op::Finite || n.op == Op::AllOf) return vectors_.jump_if(condition, truth, to);
  if (cfg_.is_param[condition] || !is_comparison(n.op)) {
    const Gp value = gp(condition);
    cc_.test(value, value);
    cc_.j(truth ? Cond::kNZ : Cond::kZ, to);
    return;
  }
  const Type type = cfg_.at(n.args[0]).type;
  if (type == Type::I64) {
    const Cond when = compare(n);
    cc_.j(truth ? when : asmjit::x86::negateCond(when), to);
    return;
  }
  // Not a number: neither above nor equal.
  if (n.op == Op::Lt || n.op == Op::Le) {
    compare_floats(type, xmm(n.args[1]), xmm(n.args[0]));
    const Cond when = n.op == Op::Lt ? Cond::kA : Cond::kAE;
    cc_.j(truth ? when : asmjit::x86::negateCond(when), to);
    return;
  }
  compare_floats(type, xmm(n.args[0]), xmm(n.args[1]));
  if ((n.op == Op::Ne) == truth) {
    cc_.j(Cond::kP, to);
    cc_.j(Cond::kNE, to);
  } else {
    const Label past = cc_.newLabel();
    cc_.j(Cond::kP, past);
    cc_.j(Cond::kE, to);
    cc_.bind(past);
  }
}

void CfgNodes::emit_comparison(Id id) {
  if (!registers_.wanted[id]) return;
  const Node& n = cfg_.at(id);
  const Gp made = cc_.newInt64();
  const Type type = cfg_.at(n.args[0]).type;
  // A register of which only a byte was written would be kept from one round to the next.
  if (type == Type::I64) {
    cc_.xor_(made.r32(), made.r32());
    const Cond when = compare(n);
    cc_.set(when, made.r8());
  } else if (n.op == Op::Lt || n.op == Op::Le) {
    cc_.xor_(made.r32(), made.r32());
    compare_floats(type, xmm(n.args[1]), xmm(n.args[0]));
    cc_.set(n.op == Op::Lt ? Cond::kA : Cond::kAE, made.r8());
  } else {
    const Label past = cc_.newLabel();
    cc_.mov(made, 1);
    jump_if(id, true, past);
    cc_.xor_(made.r32(), made.r32());
    cc_.bind(past);
  }
  cc_.mov(gp(id), made);
}

void CfgNodes::emit_load(Id id) {
  const Node& n = cfg_.at(id);
  const Mem at = address(n);
  switch (n.mem) {
    case cfg::Mem::I8:
    case cfg::Mem::I16: cc_.movsx(gp(id), at); break;
    case cfg::Mem::U8:
    case cfg::Mem::U16: cc_.movzx(gp(id).r32(), at); break;
    case cfg::Mem::I32: cc_.movsxd(gp(id), at); break;
    case cfg::Mem::U32: cc_.mov(gp(id).r32(), at); break;
    case cfg::Mem::I64: cc_.mov(gp(id), at); break;
    case cfg::Mem::F32: cc_.vmovss(xmm(id), at); break;
    case cfg::Mem::F64: cc_.vmovsd(xmm(id), at); break;
  }
}

void CfgNodes::emit_store(const Node& n) {
  const Mem at = address(n);
  switch (n.mem) {
    case cfg::Mem::F32: cc_.vmovss(at, xmm(n.args[2])); return;
    case cfg::Mem::F64: cc_.vmovsd(at, xmm(n.args[2])); return;
    default: break;
  }
  if (is_small(n.args[2]) && n.mem != cfg::Mem::I8 && n.mem != cfg::Mem::U8 && n.mem != cfg::Mem::I16 &&
      n.mem != cfg::Mem::U16) {
    cc_.mov(at, static_cast<int32_t>(cfg_.at(n.args[2]).imm));
    return;
  }
  const Gp value = gp(n.args[2]);
  switch (cfg::size_of(n.mem)) {
    case 1: cc_.mov(at, value.r8()); break;
    case 2: cc_.mov(at, value.r16()); break;
    case 4: cc_.mov(at, value.r32()); break;
    default: cc_.mov(at, value); break;
  }
}

template <class F, class G>
void CfgNodes::two(Id id, F with_register, G with_small) {
  const Node& n = cfg_.at(id);
  Id a = n.args[0], b = n.args[1];
  const bool commutes = n.op != Op::Sub && n.op != Op::SubExact && n.op != Op::Shl && n.op != Op::Shr;
  if (commutes && !is_small(b) && registers_.home[b] == registers_.home[id]) std::swap(a, b);
  if (is_small(b)) {
    start(id, a);
    with_small(gp(id), static_cast<int32_t>(cfg_.at(b).imm));
  } else if (!cfg_.is_const(b) && registers_.home[b] == registers_.home[id]) {
    const Gp other = cc_.newInt64();
    cc_.mov(other, gp(b));
    start(id, a);
    with_register(gp(id), other);
  } else {
    start(id, a);
    with_register(gp(id), gp(b));
  }
}

bool CfgNodes::is_apart(Id id) const {
  const Node& n = cfg_.at(id);
  return registers_.home[id] != registers_.home[n.args[0]] && registers_.home[id] != registers_.home[n.args[1]];
}

void CfgNodes::emit_integer(Id id) {
  const Node& n = cfg_.at(id);
  const auto exact = [&] {
    if (n.exit != kNone) cc_.j(Cond::kO, exit(n.exit));
  };
  switch (n.op) {
    case Op::Add:
      if (is_apart(id) && !cfg_.is_const(n.args[0]) && (!cfg_.is_const(n.args[1]) || is_small(n.args[1])))
        return void(cc_.lea(gp(id), cfg_.is_const(n.args[1])
                                        ? asmjit::x86::ptr(gp(n.args[0]), static_cast<int32_t>(cfg_.at(n.args[1]).imm))
                                        : asmjit::x86::ptr(gp(n.args[0]), gp(n.args[1]))));
      [[fallthrough]];
    case Op::AddExact:
      two(id, [&](Gp r, Gp b) { cc_.add(r, b); }, [&](Gp r, int32_t b) { cc_.add(r, b); });
      return exact();
    case Op::Sub:
    case Op::SubExact:
      two(id, [&](Gp r, Gp b) { cc_.sub(r, b); }, [&](Gp r, int32_t b) { cc_.sub(r, b); });
      return exact();
    case Op::Mul:
    case Op::MulExact:
      if (is_small(n.args[1]) && !cfg_.is_const(n.args[0]))
        cc_.imul(gp(id), gp(n.args[0]), static_cast<int32_t>(cfg_.at(n.args[1]).imm));
      else two(id, [&](Gp r, Gp b) { cc_.imul(r, b); }, [&](Gp r, int32_t b) { cc_.imul(r, r, b); });
      return exact();
    case Op::And: return two(id, [&](Gp r, Gp b) { cc_.and_(r, b); }, [&](Gp r, int32_t b) { cc_.and_(r, b); });
    case Op::Or: return two(id, [&](Gp r, Gp b) { cc_.or_(r, b); }, [&](Gp r, int32_t b) { cc_.or_(r, b); });
    case Op::Xor: return two(id, [&](Gp r, Gp b) { cc_.xor_(r, b); }, [&](Gp r, int32_t b) { cc_.xor_(r, b); });
    case Op::Shl:
      if (is_small(n.args[1])) return two(id, [](Gp, Gp) {}, [&](Gp r, int32_t b) { cc_.shl(r, b); });
      return void(cc_.shlx(gp(id), gp(n.args[0]), gp(n.args[1])));
    case Op::Shr:
      if (is_small(n.args[1])) return two(id, [](Gp, Gp) {}, [&](Gp r, int32_t b) { cc_.sar(r, b); });
      return void(cc_.sarx(gp(id), gp(n.args[0]), gp(n.args[1])));
    case Op::Neg: start(id, n.args[0]); return void(cc_.neg(gp(id)));
    case Op::Ones: return void(cc_.popcnt(gp(id), gp(n.args[0])));
    case Op::Abs: {
      const Gp negative = cc_.newInt64();
      cc_.mov(negative, gp(n.args[0]));
      cc_.neg(negative);
      start(id, n.args[0]);
      cc_.test(gp(id), gp(id));
      return void(cc_.cmovs(gp(id), negative));
    }
    case Op::FloorDiv:
    case Op::FloorMod: return emit_division(id);
    default: FRAMEJIT_CHECK(false, cfg::info(n.op).text);
  }
}

void CfgNodes::emit_division(Id id) {
  const Node& n = cfg_.at(id);
  const int64_t constant = cfg_.is_const(n.args[1]) ? cfg_.at(n.args[1]).imm : 0;
  if (constant > 0 && std::has_single_bit(static_cast<uint64_t>(constant))) {
    start(id, n.args[0]);
    if (n.op == Op::FloorDiv) return void(cc_.sar(gp(id), std::countr_zero(static_cast<uint64_t>(constant))));
    if (constant - 1 == static_cast<int32_t>(constant - 1))
      return void(cc_.and_(gp(id), static_cast<int32_t>(constant - 1)));
    const Gp mask = cc_.newInt64();
    set(mask, constant - 1);
    return void(cc_.and_(gp(id), mask));
  }
  if (constant > 1) return emit_division_by(id, constant);
  const Gp quotient = cc_.newInt64(), rest = cc_.newInt64(), fix = cc_.newInt64(), zero = cc_.newInt64();
  const Gp divisor = gp(n.args[1]);
  const Label divide = cc_.newLabel(), narrow = cc_.newLabel(), done = cc_.newLabel();
  cc_.mov(quotient, gp(n.args[0]));
  if (n.op == Op::FloorMod) {
    // A dividend from 0 to below the divisor is the remainder: an index that wraps around is mostly such a number.
    cc_.mov(rest, quotient);
    cc_.cmp(rest, divisor);
    cc_.jge(divide);
    cc_.test(rest, rest);
    cc_.jns(done);
    cc_.bind(divide);
  }
  // Divisions of 32 bits take a fraction of the time.
  cc_.mov(fix, quotient);
  cc_.or_(fix, divisor);
  cc_.shr(fix, 31);
  cc_.jz(narrow);
  cc_.cqo(rest, quotient);
  cc_.idiv(rest, quotient, divisor);
  cc_.mov(fix, rest);
  cc_.xor_(fix, divisor);
  cc_.sar(fix, 63);
  cc_.xor_(zero.r32(), zero.r32());
  cc_.test(rest, rest);
  cc_.cmovz(fix, zero);
  if (n.op == Op::FloorDiv) {
    cc_.add(quotient, fix);
  } else {
    cc_.and_(fix, divisor);
    cc_.add(rest, fix);
  }
  cc_.jmp(done);
  cc_.bind(narrow);
  cc_.xor_(rest.r32(), rest.r32());
  cc_.div(rest.r32(), quotient.r32(), divisor.r32());
  cc_.bind(done);
  cc_.mov(gp(id), n.op == Op::FloorDiv ? quotient : rest);
}

void CfgNodes::emit_division_by(Id id, int64_t divisor) {
  const Node& n = cfg_.at(id);
  // 2 ** bits is the least power of 2 that is not below the divisor; numbers have 63 bits.
  const int bits = 64 - std::countl_zero(static_cast<uint64_t>(divisor - 1));
  const auto reciprocal =
      static_cast<uint64_t>((static_cast<unsigned __int128>(1) << (63 + bits)) / static_cast<uint64_t>(divisor)) + 1;
  const Gp sign = cc_.newInt64(), number = cc_.newInt64(), high = cc_.newInt64(), factor = cc_.newInt64();
  const Gp dividend = gp(n.args[0]);
  cc_.mov(number, dividend);
  if (!n.of_natural) {
    cc_.mov(sign, dividend);
    cc_.sar(sign, 63);
    cc_.xor_(number, sign);
  }
  cc_.mov(factor, reciprocal);
  cc_.mul(high, number, factor);
  if (bits > 1) cc_.shr(high, bits - 1);
  if (!n.of_natural) cc_.xor_(high, sign);
  if (n.op == Op::FloorDiv) return void(cc_.mov(gp(id), high));
  const Gp rest = cc_.newInt64();
  if (divisor <= std::numeric_limits<int32_t>::max()) {
    cc_.imul(high, high, divisor);
  } else {
    cc_.mov(factor, divisor);
    cc_.imul(high, factor);
  }
  cc_.mov(rest, dividend);
  cc_.sub(rest, high);
  cc_.mov(gp(id), rest);
}

void CfgNodes::emit_float(Id id) {
  const Node& n = cfg_.at(id);
  const bool wide = n.type == Type::F64;
  const Xmm result = xmm(id), a = xmm(n.args[0]);
  const auto mask = [&](uint64_t bits64, uint32_t bits32) {
    const Xmm m = wide ? cc_.newXmmSd() : cc_.newXmmSs();
    Node c;
    c.type = n.type;
    c.imm = static_cast<int64_t>(wide ? bits64 : bits32);
    load_constant(m, c);
    return m;
  };
  if (info(n.op).operands == 3) {
    const auto operand = [&](Id v, bool may_be_constant) -> asmjit::Operand {
      if (may_be_constant && cfg_.is_const(v) && cfg_.at(v).imm != 0) return constant(cfg_.at(v));
      return xmm(v);
    };
    const asmjit::Operand b = operand(n.args[1], true);
    return emit_fused(cc_, n.op, n.type, false, result, a, b, operand(n.args[2], !b.isMem()));
  }
  if (info(n.op).operands == 2 && cfg_.is_const(n.args[1]) && cfg_.at(n.args[1]).imm != 0) {
    const Mem b = constant(cfg_.at(n.args[1]));
    switch (n.op) {
      case Op::Add: wide ? cc_.vaddsd(result, a, b) : cc_.vaddss(result, a, b); return;
      case Op::Sub: wide ? cc_.vsubsd(result, a, b) : cc_.vsubss(result, a, b); return;
      case Op::Mul: wide ? cc_.vmulsd(result, a, b) : cc_.vmulss(result, a, b); return;
      default: wide ? cc_.vdivsd(result, a, b) : cc_.vdivss(result, a, b); return;
    }
  }
  switch (n.op) {
    case Op::Add: wide ? cc_.vaddsd(result, a, xmm(n.args[1])) : cc_.vaddss(result, a, xmm(n.args[1])); break;
    case Op::Sub: wide ? cc_.vsubsd(result, a, xmm(n.args[1])) : cc_.vsubss(result, a, xmm(n.args[1])); break;
    case Op::Mul: wide ? cc_.vmulsd(result, a, xmm(n.args[1])) : cc_.vmulss(result, a, xmm(n.args[1])); break;
    case Op::Div: wide ? cc_.vdivsd(result, a, xmm(n.args[1])) : cc_.vdivss(result, a, xmm(n.args[1])); break;
    case Op::Sqrt: wide ? cc_.vsqrtsd(result, a, a) : cc_.vsqrtss(result, a, a); break;
    case Op::Neg: cc_.vxorps(result, a, mask(uint64_t{1} << 63, uint32_t{1} << 31)); break;
    case Op::Abs: cc_.vandps(result, a, mask(~(uint64_t{1} << 63), ~(uint32_t{1} << 31))); break;
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc:
    case Op::Rint: {
      const int mode = n.op == Op::Floor ? 9 : n.op == Op::Ceil ? 10 : n.op == Op::Trunc ? 11 : 8;
      wide ? cc_.vroundsd(result, a, a, mode) : cc_.vroundss(result, a, a, mode);
      break;
    }
    default: FRAMEJIT_CHECK(false, cfg::info(n.op).text);
  }
}

Mem CfgNodes::of_run(std::size_t offset) const {
  return asmjit::x86::qword_ptr(itself_.run, static_cast<int32_t>(offset));
}

int CfgNodes::argument_of(const Node& input) const {
  const std::vector<cfg::SelfCalls::Argument>& arguments = itself_.calls->arguments;
  for (std::size_t k = 0; k < arguments.size(); ++k)
    if (arguments[k].is_float == (input.op == Op::Pointer) && arguments[k].input == input.imm)
      return static_cast<int>(k);
  return -1;
}

void CfgNodes::emit_input(Id id) {
  const Node& n = cfg_.at(id);
  const auto at = static_cast<int32_t>(8 * n.imm);
  if (!itself_.is_called)
    return void(cc_.mov(gp(id), asmjit::x86::qword_ptr(n.op == Op::Symbol ? symbols_ : pointers_, at)));
  if (const int k = argument_of(n); k >= 0) {
    if (n.op == Op::Symbol) cc_.mov(gp(id), itself_.arguments[static_cast<std::size_t>(k)]);
    else cc_.lea(gp(id), itself_.floats[static_cast<std::size_t>(k)]);
    return;
  }
  const Gp inputs = cc_.newIntPtr();
  cc_.mov(inputs,
          of_run(n.op == Op::Symbol ? offsetof(cfg::SelfCallRun, symbols) : offsetof(cfg::SelfCallRun, pointers)));
  cc_.mov(gp(id), asmjit::x86::qword_ptr(inputs, at));
}

void CfgNodes::describe(const cfg::SelfCalls& self, asmjit::FuncSignatureBuilder& signature) {
  signature.setCallConvId(asmjit::CallConvId::kCDecl);
  signature.setRet(self.function.result == Type::F64 ? asmjit::TypeId::kFloat64 : asmjit::TypeId::kInt64);
  for (std::size_t k = 0; k < 2 + self.arguments.size(); ++k) signature.addArg(asmjit::TypeId::kInt64);
}

asmjit::InvokeNode* CfgNodes::call_itself(const Node& n) {
  const std::size_t count = itself_.calls->arguments.size();
  const Gp run = itself_.is_called ? itself_.run : gp(n.args[0]), depth = cc_.newInt64();
  Gp given[Node::kMostOperands - 1];
  for (std::size_t k = 0; k < count; ++k) given[k] = gp(n.args[1 + k]);
  if (itself_.is_called) cc_.mov(depth, itself_.depth);
  else cc_.mov(depth, asmjit::x86::qword_ptr(run, offsetof(cfg::SelfCallRun, depth)));
  cc_.sub(depth, 1 + static_cast<int32_t>(n.imm));
  asmjit::FuncSignatureBuilder signature;
  describe(*itself_.calls, signature);
  asmjit::InvokeNode* call = nullptr;
  cc_.invoke(&call, itself_.function->label(), signature);
  call->setArg(0, run);
  call->setArg(1, depth);
  for (std::size_t k = 0; k < count; ++k) call->setArg(2 + k, given[k]);
  return call;
}

asmjit::InvokeNode* CfgNodes::call(const Node& n) {
  const cfg::Function& f = *n.function;
  if (n.op == Op::CallItself) return call_itself(n);
  asmjit::FuncSignatureBuilder signature;
  signature.setCallConvId(asmjit::CallConvId::kCDecl);
  const auto type = [](Type t) { return t == Type::I64 ? asmjit::TypeId::kInt64 : asmjit::TypeId::kFloat64; };
  signature.setRet(type(f.result));
  for (int i = 0; i < f.operands; ++i) signature.addArg(type(f.operand));
  // Constants are loaded in front of the call.
  Gp integers[Node::kMostOperands];
  Xmm floats[Node::kMostOperands];
  for (int i = 0; i < f.operands; ++i)
    if (f.operand == Type::I64) integers[i] = gp(n.args[i]);
    else floats[i] = xmm(n.args[i]);
  const Gp target = cc_.newIntPtr();
  addresses_.load(target, f.address);
  asmjit::InvokeNode* call = nullptr;
  cc_.invoke(&call, target, signature);
  for (int i = 0; i < f.operands; ++i)
    if (f.operand == Type::I64) call->setArg(static_cast<std::size_t>(i), integers[i]);
    else call->setArg(static_cast<std::size_t>(i), floats[i]);
  return call;
}

void CfgNodes::emit_call(Id id) {
  const Node& n = cfg_.at(id);
  asmjit::InvokeNode* made = call(n);
  if (n.function->result == Type::I64) {
    const Gp result = cc_.newInt64();
    made->setRet(0, result);
    cc_.mov(gp(id), result);
  } else {
    const Xmm result = cc_.newXmmSd();
    made->setRet(0, result);
    cc_.vmovaps(xmm(id), result);
  }
}

void CfgNodes::emit_power(Id id) {
  const Node& n = cfg_.at(id);
  const auto exponent = std::bit_cast<double>(cfg_.at(n.args[1]).imm);
  const auto number = [&](double value) {
    const double lanes[] = {value, value};
    return cc_.newConst(asmjit::ConstPoolScope::kLocal, lanes, sizeof lanes);
  };
  const QuickPower quick =
      emit_quick_power(cc_, exponent, xmm(n.args[0]), false, number, [&] { return cc_.newXmmSd(); });
  const Label done = cc_.newLabel(), calls = cc_.newLabel();
  cc_.vucomisd(quick.least.xmm(), quick.limit.xmm());
  cc_.jb(calls);  // for NaN too
  cc_.bind(done);
  cc_.vmovaps(xmm(id), quick.result.xmm());
  rare_.emplace_back([this, &n, done, calls, result = quick.result] {
    cc_.bind(calls);
    const Xmm called = cc_.newXmmSd();
    call(n)->setRet(0, called);
    cc_.vmovaps(result, called);
    cc_.jmp(done);
  });
}

void CfgNodes::emit_select(Id id) {
  const Node& n = cfg_.at(id);
  const Node& c = cfg_.at(n.args[0]);
  const bool compares = !cfg_.is_param[n.args[0]] && is_comparison(c.op);
  const Type compared = compares ? cfg_.at(c.args[0]).type : Type::I64;
  if (n.type == Type::I64 && (compared == Type::I64 || c.op == Op::Lt || c.op == Op::Le)) {
    const Gp yes = gp(n.args[1]), to = gp(id);
    // The result may share the register of a value that is still to be read.
    const auto is_to = [&](Id v) { return !cfg_.is_const(v) && cfg_.at(v).type == Type::I64 && gp(v).id() == to.id(); };
    const bool in_place = !is_to(n.args[1]) && (compares ? !is_to(c.args[0]) && !is_to(c.args[1]) : !is_to(n.args[0]));
    const Gp made = in_place ? to : cc_.newInt64();
    if (cfg_.is_const(n.args[2])) set(made, cfg_.at(n.args[2]));
    else cc_.mov(made, gp(n.args[2]));
    Cond when = Cond::kNZ;
    if (!compares) cc_.test(gp(n.args[0]), gp(n.args[0]));
    else if (compared == Type::I64) when = compare(c);
    else {
      compare_floats(compared, xmm(c.args[1]), xmm(c.args[0]));
      when = c.op == Op::Lt ? Cond::kA : Cond::kAE;
    }
    cc_.cmov(when, made, yes);
    if (!in_place) cc_.mov(to, made);
    return;
  }
  if (n.type != Type::I64 && compared == n.type) {
    const int predicate = c.op == Op::Lt ? 17 : c.op == Op::Le ? 18 : c.op == Op::Eq ? 0 : 4;
    const bool wide = n.type == Type::F64;
    // The processor's minimum and maximum give their second operand where neither is the lesser.
    if (c.op == Op::Lt && n.args[1] == c.args[0] && n.args[2] == c.args[1]) {
      if (wide) cc_.vminsd(xmm(id), xmm(n.args[1]), xmm(n.args[2]));
      else cc_.vminss(xmm(id), xmm(n.args[1]), xmm(n.args[2]));
      return;
    }
    if (c.op == Op::Lt && n.args[1] == c.args[1] && n.args[2] == c.args[0]) {
      if (wide) cc_.vmaxsd(xmm(id), xmm(n.args[1]), xmm(n.args[2]));
      else cc_.vmaxss(xmm(id), xmm(n.args[1]), xmm(n.args[2]));
      return;
    }
    const Xmm mask = wide ? cc_.newXmmSd() : cc_.newXmmSs(), yes = xmm(n.args[1]), no = xmm(n.args[2]);
    if (wide) cc_.vcmpsd(mask, xmm(c.args[0]), xmm(c.args[1]), predicate);
    else cc_.vcmpss(mask, xmm(c.args[0]), xmm(c.args[1]), predicate);
    if (wide) cc_.vblendvpd(xmm(id), no, yes, mask);
    else cc_.vblendvps(xmm(id), no, yes, mask);
    return;
  }
  const Label past = cc_.newLabel();
  if (n.type == Type::I64) {
    const Gp made = cc_.newInt64();
    cc_.mov(made, gp(n.args[1]));
    const Gp other = gp(n.args[2]);
    jump_if(n.args[0], true, past);
    cc_.mov(made, other);
    cc_.bind(past);
    cc_.mov(gp(id), made);
    return;
  }
  const Xmm made = n.type == Type::F64 ? cc_.newXmmSd() : cc_.newXmmSs();
  cc_.vmovaps(made, xmm(n.args[1]));
  const Xmm other = xmm(n.args[2]);
  jump_if(n.args[0], true, past);
  cc_.vmovaps(made, other);
  cc_.bind(past);
  cc_.vmovaps(xmm(id), made);
}

void CfgNodes::emit_node(Id id) {
  const Node& n = cfg_.at(id);
  if (n.lanes > 1) return vectors_.emit(id);
  switch (n.op) {
    case Op::Const:
    case Op::Waits:
    case Op::Finite:
    case Op::AllOf: return;  // those are asked where control depends on them
    case Op::SumOf: return vectors_.emit_sum(id);
    case Op::AddLanes: return vectors_.emit_add_lanes(id);
    case Op::Lane: return vectors_.emit_lane(id);
    case Op::Symbol:
    case Op::Pointer: return emit_input(id);
    case Op::Object: return void(cc_.mov(gp(id), asmjit::x86::qword_ptr(objects_, static_cast<int32_t>(8 * n.imm))));
    case Op::Load: return emit_load(id);
    case Op::Store: return emit_store(n);
    case Op::Check: return jump_if(n.args[0], false, exit(n.exit));
    case Op::CheckFinite: compare_finite(n.args[0]); return void(cc_.j(Cond::kP, exit(n.exit)));
    case Op::Poll: cc_.cmp(asmjit::x86::byte_ptr(poll_), 0); return void(cc_.j(Cond::kNE, exit(n.exit)));
    case Op::Call:
      if (cfg::calls_quick_power(cfg_, n)) return emit_power(id);
      [[fallthrough]];
    case Op::CallReads:
    case Op::CallItself:
    case Op::Update: return emit_call(id);
    case Op::Bits: {
      // Not by vmovq: of a spilled register asmjit 1.9 makes a form that loads another register.
      if (!has_cell_) {
        has_cell_ = true;
        cell_ = cc_.newStack(8, 8);
        cell_.setSize(8);
      }
      cc_.vmovsd(cell_, xmm(n.args[0]));
      return void(cc_.mov(gp(id), cell_));
    }
    case Op::Select: return emit_select(id);
    case Op::ToF64: {
      const Xmm result = xmm(id);
      if (cfg_.at(n.args[0]).type == Type::F32) return void(cc_.vcvtss2sd(result, xmm(n.args[0]), xmm(n.args[0])));
      cc_.vxorps(result, result, result);
      return void(cc_.vcvtsi2sd(result, result, gp(n.args[0])));
    }
    case Op::ToF32: return void(cc_.vcvtsd2ss(xmm(id), xmm(n.args[0]), xmm(n.args[0])));
    case Op::ToI64: return void(cc_.vcvttsd2si(gp(id), xmm(n.args[0])));
    case Op::Extend:
      switch (n.mem) {
        case cfg::Mem::I8: return void(cc_.movsx(gp(id), gp(n.args[0]).r8()));
        case cfg::Mem::U8: return void(cc_.movzx(gp(id).r32(), gp(n.args[0]).r8()));
        case cfg::Mem::I16: return void(cc_.movsx(gp(id), gp(n.args[0]).r16()));
        case cfg::Mem::U16: return void(cc_.movzx(gp(id).r32(), gp(n.args[0]).r16()));
        case cfg::Mem::I32: return void(cc_.movsxd(gp(id), gp(n.args[0]).r32()));
        case cfg::Mem::U32: return void(cc_.mov(gp(id).r32(), gp(n.args[0]).r32()));
        default: return void(cc_.mov(gp(id), gp(n.args[0])));
      }
    default: break;
  }
  if (is_comparison(n.op)) return emit_comparison(id);
  if (n.type == Type::I64) return emit_integer(id);
  emit_float(id);
}

}  // namespace framejit::codegen
