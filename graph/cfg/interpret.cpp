// The reference interpreter: what machine code is compared with.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

namespace {

double f64(int64_t bits) { return std::bit_cast<double>(bits); }
int64_t bits(double v) { return std::bit_cast<int64_t>(v); }
float f32(int64_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b)); }
int64_t bits(float v) { return static_cast<int64_t>(std::bit_cast<uint32_t>(v)); }

int64_t load(Mem mem, const char* at) {
  const auto read = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<int64_t>(value);
  };
  switch (mem) {
    case Mem::I8: return read(int8_t{});
    case Mem::U8: return read(uint8_t{});
    case Mem::I16: return read(int16_t{});
    case Mem::U16: return read(uint16_t{});
    case Mem::I32: return read(int32_t{});
    case Mem::U32:
    case Mem::F32: return read(uint32_t{});
    default: return read(int64_t{});
  }
}

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/// As fused instructions do it: NaN keeps its sign.
template <class F>
F negated(F v) {
  return std::isnan(v) ? v : -v;
}

template <class F>
int64_t float_op(Op op, F a, F b, F c) {
  switch (op) {
    case Op::Add: return bits(a + b);
    case Op::Sub: return bits(a - b);
    case Op::Mul: return bits(a * b);
    case Op::Div: return bits(a / b);
    case Op::MulAdd: return bits(std::fma(a, b, c));
    case Op::MulSub: return bits(std::fma(a, b, negated(c)));
    case Op::SubMul: return bits(std::fma(negated(a), b, c));
    case Op::Neg: return bits(-a);
    case Op::Abs: return bits(std::fabs(a));
    case Op::Sqrt: return bits(std::sqrt(a));
    case Op::Floor: return bits(std::floor(a));
    case Op::Ceil: return bits(std::ceil(a));
    case Op::Trunc: return bits(std::trunc(a));
    case Op::Rint: return bits(std::nearbyint(a));
    case Op::Eq: return a == b;
    case Op::Ne: return a != b;
    case Op::Lt: return a < b;
    case Op::Le: return a <= b;
    default: return 0;
  }
}

int64_t int_op(Op op, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case Op::Add:
    case Op::AddExact: return static_cast<int64_t>(ua + ub);
    case Op::Sub:
    case Op::SubExact: return static_cast<int64_t>(ua - ub);
    case Op::Mul:
    case Op::MulExact: return static_cast<int64_t>(ua * ub);
    case Op::Neg: return static_cast<int64_t>(0 - ua);
    case Op::Ones: return std::popcount(ua);
    case Op::FloorDiv: return floor_div(a, b);
    case Op::FloorMod: return floor_mod(a, b);
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    case Op::Shl: return static_cast<int64_t>(ua << (ub & 63));
    case Op::Shr: return a >> (ub & 63);
    case Op::Eq: return a == b;
    case Op::Ne: return a != b;
    case Op::Lt: return a < b;
    case Op::Le: return a <= b;
    case Op::Below: return ua < ub;
    case Op::Abs: return a < 0 ? static_cast<int64_t>(0 - ua) : a;
    default: return 0;
  }
}

bool overflows(Op op, int64_t a, int64_t b) {
  int64_t out;
  if (op == Op::AddExact) return __builtin_add_overflow(a, b, &out);
  if (op == Op::SubExact) return __builtin_sub_overflow(a, b, &out);
  return __builtin_mul_overflow(a, b, &out);
}

template <class Result, class Operand>
Result call_as(const Function& f, const int64_t* a) {
  const auto at = [a](int i) { return std::bit_cast<Operand>(a[i]); };
  if (f.operands == 1) return reinterpret_cast<Result (*)(Operand)>(f.address)(at(0));
  if (f.operands == 2) return reinterpret_cast<Result (*)(Operand, Operand)>(f.address)(at(0), at(1));
  if (f.operands == 3) return reinterpret_cast<Result (*)(Operand, Operand, Operand)>(f.address)(at(0), at(1), at(2));
  using OfFive = Result (*)(Operand, Operand, Operand, Operand, Operand);
  return reinterpret_cast<OfFive>(f.address)(at(0), at(1), at(2), at(3), at(4));
}

int64_t call(const Function& f, const int64_t* a) {
  const bool of_ints = f.operand == Type::I64;
  if (f.result == Type::I64) return of_ints ? call_as<int64_t, int64_t>(f, a) : call_as<int64_t, double>(f, a);
  return bits(of_ints ? call_as<double, int64_t>(f, a) : call_as<double, double>(f, a));
}

bool is_finite(Type type, int64_t v) { return type == Type::F64 ? std::isfinite(f64(v)) : std::isfinite(f32(v)); }

int64_t truncated(double v) {
  return v >= -0x1p63 && v < 0x1p63 ? static_cast<int64_t>(v) : std::numeric_limits<int64_t>::min();
}

}  // namespace

int64_t interpret(const Cfg& cfg, const Inputs& in, int64_t* out, int64_t most) {
  // By value: where the numbers of its lanes stand.
  std::vector<std::size_t> place;
  std::size_t count = 0;
  for (const Node& n : cfg.nodes) {
    place.push_back(count);
    count += n.lanes;
  }
  std::vector<int64_t> numbers(count, 0);
  const auto value = [&](Id id, int lane = 0) -> int64_t& {
    return numbers[place[id] + static_cast<std::size_t>(lane)];
  };
  const auto leave = [&](uint32_t exit) {
    for (std::size_t i = 0; i < cfg.exits[exit].values.size(); ++i) out[i] = value(cfg.exits[exit].values[i]);
    return static_cast<int64_t>(cfg.number_of(exit));
  };
  for (uint32_t b = 0;;) {
    const Block& block = cfg.blocks[b];
    for (Id id : block.nodes) {
      if (--most < 0) return -1;
      const Node& n = cfg.at(id);
      const Type of = n.args[0] == kNone ? Type::None : cfg.at(n.args[0]).type;
      const int lanes = n.args[0] == kNone || n.op == Op::Store ? n.lanes : std::max(n.lanes, cfg.at(n.args[0]).lanes);
      const int taking_part = n.count == kNone ? lanes : static_cast<int>(value(n.count));
      if (n.op == Op::Finite || n.op == Op::AllOf) value(id) = 1;
      if (n.op == Op::SumOf) value(id) = 0;
      for (int lane = 0; lane < lanes; ++lane) {
        int64_t a[Node::kMostOperands];
        for (int i = 0; i < Node::kMostOperands; ++i) {
          const Id v = n.args[i];
          a[i] = v == kNone ? 0 : value(v, cfg.at(v).lanes > 1 ? (n.op == Op::Reverse ? lanes - 1 - lane : lane) : 0);
        }
        const auto address = [&] {
          const bool neighbours = n.args[1] == kNone || cfg.at(n.args[1]).lanes == 1;
          const auto apart = neighbours ? static_cast<uint64_t>(lane) * static_cast<uint64_t>(size_of(n.mem)) : 0;
          return reinterpret_cast<char*>(static_cast<uint64_t>(a[0]) + static_cast<uint64_t>(a[1]) * n.scale +
                                         static_cast<uint64_t>(n.imm) + apart);
        };
        const bool takes_part = (n.from_last ? lane >= lanes - taking_part : lane < taking_part) &&
                                (n.where == kNone || value(n.where, lane) != 0);
        int64_t& result = value(id, n.lanes > 1 ? lane : 0);
        switch (n.op) {
          case Op::Const: result = n.imm; break;
          case Op::Symbol: result = in.symbols[n.imm]; break;
          case Op::Pointer: result = reinterpret_cast<int64_t>(in.pointers[n.imm]); break;
          case Op::Object: result = reinterpret_cast<int64_t>(in.objects[n.imm]); break;
          case Op::AddExact:
          case Op::SubExact:
          case Op::MulExact:
            if (overflows(n.op, a[0], a[1])) return leave(n.exit);
            result = int_op(n.op, a[0], a[1]);
            break;
          case Op::ToF64:
            result = bits(of == Type::I64 ? static_cast<double>(a[0]) : static_cast<double>(f32(a[0])));
            break;
          case Op::ToF32: result = bits(static_cast<float>(f64(a[0]))); break;
          case Op::ToI64: result = truncated(f64(a[0])); break;
          case Op::Extend: result = load(n.mem, reinterpret_cast<const char*>(&a[0])); break;
          case Op::Select: result = a[0] ? a[1] : a[2]; break;
          case Op::Load: result = takes_part ? load(n.mem, address()) : 0; break;
          case Op::Store:
            if (takes_part) std::memcpy(address(), &a[2], static_cast<std::size_t>(size_of(n.mem)));
            break;
          case Op::Check:
            if (!a[0]) return leave(n.exit);
            break;
          case Op::CheckFinite:
            if (!is_finite(of, a[0])) return leave(n.exit);
            break;
          case Op::Poll: break;
          case Op::Waits: result = 0; break;
          case Op::Call:
          case Op::CallReads:
          case Op::CallItself:
          case Op::Update: result = call(*n.function, a); break;
          case Op::Bits:
          case Op::Splat:
          case Op::Reverse: result = a[0]; break;
          case Op::Ramp: result = int_op(Op::Add, a[0], int_op(Op::Mul, lane, a[1])); break;
          case Op::Finite: result &= !takes_part || is_finite(of, a[0]); break;
          case Op::AllOf: result &= !takes_part || a[0] != 0; break;
          case Op::Lane:
            if (lane == a[1]) result = a[0];
            break;
          case Op::AddLanes: result = bits(f64(lane == 0 ? a[1] : result) + f64(a[0])); break;
          case Op::SumOf:
            if (takes_part) result = int_op(Op::Add, result, a[0]);
            break;
          default:
            result = of == Type::F64   ? float_op<double>(n.op, f64(a[0]), f64(a[1]), f64(a[2]))
                     : of == Type::F32 ? float_op<float>(n.op, f32(a[0]), f32(a[1]), f32(a[2]))
                                       : int_op(n.op, a[0], a[1]);
        }
      }
    }
    if (block.end == Block::End::Leave) return leave(block.exit);
    const Edge& e = block.to[block.end == Block::End::Branch && !value(block.condition) ? 1 : 0];
    std::vector<int64_t> given;
    for (Id v : e.args)
      for (int lane = 0; lane < cfg.at(v).lanes; ++lane) given.push_back(value(v, lane));
    std::size_t next = 0;
    for (Id p : cfg.blocks[e.block].params)
      for (int lane = 0; lane < cfg.at(p).lanes; ++lane) value(p, lane) = given[next++];
    b = e.block;
  }
}

}  // namespace framejit::cfg
