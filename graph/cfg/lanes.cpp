#include "graph/cfg/lanes.h"

#include <optional>

#include "graph/cfg/intervals.h"
#include "graph/cfg/registers.h"

namespace framejit::cfg {

namespace {

/// Is an integer one that AVX2 can convert?
bool is_small(const Cfg& cfg, Id v) {
  constexpr int64_t kEnd = int64_t{1} << 51;
  const std::optional<Interval> found = interval(cfg, v);
  return found && found->low > -kEnd && found->high < kEnd;
}

int size_of_type(Type type) { return type == Type::F32 ? 4 : 8; }

}  // namespace

Type compared_type(const Cfg& cfg, Id condition) {
  const bool compares = !cfg.is_param[condition] && is_comparison(cfg.at(condition).op);
  return compares ? cfg.at(cfg.at(condition).args[0]).type : Type::I64;
}

bool can_be_lanes(const Cfg& cfg, const Node& n, bool is_wide) {
  const Type of = cfg.at(n.args[0]).type;
  if (n.type == Type::I64) {
    switch (n.op) {
      case Op::Add:
      case Op::Sub:
      case Op::And:
      case Op::Or:
      case Op::Xor:
      case Op::Neg:
      case Op::Mul:
      case Op::Extend:
      case Op::Abs:
      case Op::Ones: return true;
      case Op::Bits: return of == Type::F64;
      case Op::Shl:
      case Op::Shr: {
        const std::optional<int64_t> by = number(cfg, n.args[1]);
        return by && *by >= 0 && *by < 64;
      }
      case Op::Eq:
      case Op::Ne:
      case Op::Lt:
      case Op::Le:
      case Op::Below: return true;
      case Op::ToI64: return is_wide;
      case Op::Select: return is_wide || compared_type(cfg, n.args[0]) != Type::F32;
      default: return false;
    }
  }
  switch (n.op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Neg:
    case Op::Abs:
    case Op::Sqrt:
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc:
    case Op::Rint:
    case Op::MulAdd:
    case Op::MulSub:
    case Op::SubMul: return true;
    case Op::Call: return calls_in_lanes(cfg, n);
    case Op::ToF64: return of == Type::F32 || is_wide || is_small(cfg, n.args[0]);
    case Op::ToF32: return of == Type::F64;
    case Op::Select: return is_wide || size_of_type(compared_type(cfg, n.args[0])) == size_of_type(n.type);
    default: return false;
  }
}

}  // namespace framejit::cfg
