// Vasm: vector instructions that look the same on AVX2 and AVX-512.
//
// A vector holds `lanes` elements of one size. The lane count is one for a whole nest (set by its widest dtype), so a
// vector of a narrower dtype is a partial register: xmm up to 16 bytes, then ymm, then zmm. Its unused upper bytes hold
// anything finite-or-not of integer dtypes only: float vectors always fill their register (lanes * 4 >= 16).
//
// A mask is a k register on AVX-512; on AVX2 a vector of lanes of some size, all ones or all zeros.
// Every function gives a new virtual register and leaves its operands alone, unless it says "in place".
#pragma once

#include <asmjit/x86.h>

#include <utility>
#include <vector>

#include "codegen/cpu.h"
#include "graph/dtype.h"

namespace framejit::codegen {

using asmjit::Label;
using asmjit::x86::Gp;
using asmjit::x86::KReg;
using asmjit::x86::Mem;
using asmjit::x86::Vec;
using InstId = asmjit::x86::Inst::Id;
namespace I = asmjit::x86::Inst;
using graph::DType;

struct Mask {
  KReg k;        // Avx512
  Vec v;         // Avx2
  int size = 0;  // Avx2: bytes of a lane of `v`
};

/// What an expression is in registers: `m` for bool, `v` else.
struct Value {
  Vec v;
  Mask m;
  bool valid = false;
};

enum class Cmp : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Unordered };

/// Quiet float predicates of cmpps. Gt and Ge are Lt and Le with operands swapped.
inline constexpr int kCmpImm[] = {0x00 /* EQ_OQ */,
                                  0x04 /* NEQ_UQ */,
                                  0x11 /* LT_OQ */,
                                  0x12 /* LE_OQ */,
                                  0x1e /* GT_OQ */,
                                  0x1d /* GE_OQ */,
                                  0x03 /* UNORD_Q */};

class Vasm {
 public:
  Vasm(asmjit::x86::Compiler& compiler, bool use_avx512, int lane_count)
      : cc(compiler), avx512(use_avx512), lanes(lane_count) {}

  asmjit::x86::Compiler& cc;
  const bool avx512;
  int lanes;  // changed only by LaneScope

  // Registers and constants.
  int bytes(int size) const { return lanes * size; }
  Vec fresh(int size);
  Vec fresh_bytes(int register_bytes);
  Gp gp() { return cc.newGpq(); }
  /// A constant in every lane, as a memory operand for an instruction on lanes of `size`.
  Mem const_mem(int size, uint64_t bits);
  /// A table in the constant pool, of up to 64 bytes.
  Mem const_table(const void* data, std::size_t table_bytes);
  /// A table of any size behind the function; `emit_tables` puts it there. `data` lives until then.
  Mem large_table(const void* data, std::size_t table_bytes);
  void emit_tables();
  Vec splat(int size, uint64_t bits);
  Vec splat_f(int size, double value);
  /// A splat that is made once, before the loops, while there are registers for that. Not to be changed in place.
  Vec constant(int size, uint64_t bits);
  /// The same, in memory where it is not shared.
  asmjit::Operand constant_operand(int size, uint64_t bits);
  /// From here on constants may be shared; the point is outside of all loops.
  void share_constants() { anchor_ = cc.cursor(); }
  /// Code that hardly ever runs makes its own.
  class NoSharing {
   public:
    explicit NoSharing(Vasm& vasm) : vasm_(vasm), saved_(vasm.sharing_) { vasm.sharing_ = false; }
    ~NoSharing() { vasm_.sharing_ = saved_; }
    NoSharing(const NoSharing&) = delete;
    NoSharing& operator=(const NoSharing&) = delete;

   private:
    Vasm& vasm_;
    bool saved_;
  };
  Vec zero(int size);
  Vec ones(int size);
  Vec copy(int size, const Vec& a);
  /// A scratch area on the stack, one for each slot.
  Mem scratch(int slot);

  // Whole-register memory access of lanes * size bytes, unaligned.
  Vec load(int size, const Mem& from);
  void store(int size, const Mem& to, const Vec& a);
  Vec broadcast(int size, const Mem& from);
  /// Elements of `element` bytes into a register for lanes of `size`.
  Vec broadcast_as(int element, int size, const Mem& from);
  Vec broadcast_gp(int size, const Gp& from);

  // Bitwise.
  Vec bit_and(int size, const Vec& a, const Vec& b) { return bitwise(size, I::kIdVpand, I::kIdVpandd, a, b); }
  Vec bit_or(int size, const Vec& a, const Vec& b) { return bitwise(size, I::kIdVpor, I::kIdVpord, a, b); }
  Vec bit_xor(int size, const Vec& a, const Vec& b) { return bitwise(size, I::kIdVpxor, I::kIdVpxord, a, b); }
  /// ~a & b
  Vec bit_andnot(int size, const Vec& a, const Vec& b) { return bitwise(size, I::kIdVpandn, I::kIdVpandnd, a, b); }
  Vec bit_not(int size, const Vec& a) { return bit_xor(size, a, ones(size)); }
  Vec and_const(int size, const Vec& a, uint64_t bits) {
    return bitwise(size, I::kIdVpand, I::kIdVpandd, a, pattern(size, bits));
  }
  Vec or_const(int size, const Vec& a, uint64_t bits) {
    return bitwise(size, I::kIdVpor, I::kIdVpord, a, pattern(size, bits));
  }
  Vec xor_const(int size, const Vec& a, uint64_t bits) {
    return bitwise(size, I::kIdVpxor, I::kIdVpxord, a, pattern(size, bits));
  }

  // Integer arithmetic on lanes of 1, 2, 4, 8 bytes; of 4 and 8 bytes `b` may be a memory operand.
  Vec iadd(int size, const Vec& a, const asmjit::Operand& b);
  Vec isub(int size, const Vec& a, const asmjit::Operand& b);
  Vec imul(int size, const Vec& a, const Vec& b);
  Vec imin(int size, bool is_signed, const Vec& a, const Vec& b);
  Vec imax(int size, bool is_signed, const Vec& a, const Vec& b);
  Vec iabs(int size, const Vec& a);
  /// Shifts by a constant, lanes of 2, 4, 8 bytes; arithmetic right shifts of 8 bytes too.
  Vec shl(int size, const Vec& a, int count);
  Vec shr(int size, const Vec& a, int count);
  Vec sar(int size, const Vec& a, int count);
  /// Shifts by lanes; counts are unsigned, and those >= the width give 0, or the sign for `sar_v`.
  Vec shl_v(int size, const Vec& a, const Vec& counts);
  Vec shr_v(int size, const Vec& a, const Vec& counts);
  Vec sar_v(int size, const Vec& a, const Vec& counts);

  // Float arithmetic on lanes of 4 and 8 bytes; `b` and `c` may be memory operands.
  Vec fadd(int size, const Vec& a, const asmjit::Operand& b) { return fp(size, I::kIdVaddps, I::kIdVaddpd, a, b); }
  Vec fsub(int size, const Vec& a, const asmjit::Operand& b) { return fp(size, I::kIdVsubps, I::kIdVsubpd, a, b); }
  Vec fmul(int size, const Vec& a, const asmjit::Operand& b) { return fp(size, I::kIdVmulps, I::kIdVmulpd, a, b); }
  Vec fdiv(int size, const Vec& a, const asmjit::Operand& b) { return fp(size, I::kIdVdivps, I::kIdVdivpd, a, b); }
  /// x86 semantics: b where unordered or equal; raises invalid on any NaN.
  Vec fmax_x86(int size, const Vec& a, const asmjit::Operand& b) { return fp(size, I::kIdVmaxps, I::kIdVmaxpd, a, b); }
  Vec fmin_x86(int size, const Vec& a, const asmjit::Operand& b) { return fp(size, I::kIdVminps, I::kIdVminpd, a, b); }
  Vec fsqrt(int size, const Vec& a);
  /// a * b + c; c - a * b; a * b - c. One of `b` and `c` may be a memory operand.
  Vec fma(int size, const Vec& a, const asmjit::Operand& b, const asmjit::Operand& c);
  Vec fnma(int size, const Vec& a, const asmjit::Operand& b, const asmjit::Operand& c);
  Vec fms(int size, const Vec& a, const asmjit::Operand& b, const asmjit::Operand& c);
  enum Rounding { kNearest = 0, kFloor = 1, kCeil = 2, kTrunc = 3 };
  Vec fround(int size, const Vec& a, Rounding mode);
  Vec fabs(int size, const Vec& a) { return and_const(size, a, ~sign_bit(size)); }
  Vec fneg(int size, const Vec& a) { return xor_const(size, a, sign_bit(size)); }
  static constexpr uint64_t sign_bit(int size) { return uint64_t{1} << (size * 8 - 1); }

  // Comparisons and masks.
  Mask fcmp(int size, Cmp predicate, const Vec& a, const Vec& b);
  Mask icmp(int size, bool is_signed, Cmp predicate, const Vec& a, const Vec& b);
  /// a > b of signed integers of 4 and 8 bytes; `b` may be a memory operand.
  Mask igreater(int size, const Vec& a, const asmjit::Operand& b);
  Mask nonzero(int size, const Vec& a);
  Mask mask_const(bool value);
  Mask mask_and(const Mask& a, const Mask& b) { return mask_op(I::kIdKandq, I::kIdVpand, a, b); }
  Mask mask_or(const Mask& a, const Mask& b) { return mask_op(I::kIdKorq, I::kIdVpor, a, b); }
  Mask mask_xor(const Mask& a, const Mask& b) { return mask_op(I::kIdKxorq, I::kIdVpxor, a, b); }
  Mask mask_not(const Mask& a);
  /// AVX2: the mask with lanes of `size`.
  Vec mask_lanes(const Mask& m, int size);
  /// m ? a : b
  Vec select(int size, const Mask& m, const Vec& a, const Vec& b);
  Mask mask_select(const Mask& m, const Mask& a, const Mask& b);
  /// m ? a : 0
  Vec keep(int size, const Mask& m, const Vec& a);
  /// m ? 0 : a
  Vec drop(int size, const Mask& m, const Vec& a);
  /// Jumps where any of the lanes is set (`any`), or none.
  void branch(const Mask& m, bool any, const Label& target);

  // Between lane sizes.
  Vec widen(const Vec& a, int from, int to, bool is_signed);
  Vec narrow(const Vec& a, int from, int to);
  Vec lower_half(const Vec& a, int register_bytes) const;
  Vec upper_half(const Vec& a, int register_bytes);
  Vec concat(const Vec& low, const Vec& high, int half_bytes);
  /// Of the elements of `low` and then `high`: those at even places, those at odd ones. Lanes of 4 and 8 bytes.
  std::pair<Vec, Vec> unzip(int size, const Vec& low, const Vec& high);
  /// The reverse: elements of `even` and `odd` by turns; the lower half of that, the upper one.
  std::pair<Vec, Vec> zip(int size, const Vec& even, const Vec& odd);

  /// Instruction on two operands into a new register of lanes of `size`.
  Vec op(InstId id, int size, const asmjit::Operand& a, const asmjit::Operand& b);
  Vec op1(InstId id, int size, const asmjit::Operand& a);

  // Status flags, raised by an instruction that sets just them.
  void raise_divide();
  void raise_overflow();
  void raise_invalid();

  static constexpr int kScratchSlots = 4;

 private:
  static InstId by_size(int size, InstId b, InstId w, InstId d, InstId q) {
    return size == 1 ? b : size == 2 ? w : size == 4 ? d : q;
  }
  Vec bitwise(int size, InstId avx2, InstId evex, const Vec& a, const asmjit::Operand& b);
  /// Bits for `bitwise`, in memory where its instruction takes them there.
  asmjit::Operand pattern(int size, uint64_t bits) {
    return avx512 || size < 4 ? asmjit::Operand(splat(size, bits)) : asmjit::Operand(const_mem(size, bits));
  }
  /// Of the lanes of `a` and then `b` those that the table names, an index for each lane (AVX-512).
  Vec pick(int size, const Vec& a, const Vec& b, const uint64_t (&indices)[16]);
  Vec fp(int size, InstId ps, InstId pd, const Vec& a, const asmjit::Operand& b) {
    return op(size == 4 ? ps : pd, size, a, b);
  }
  Vec fma_op(int size, const InstId (&ids)[4], const Vec& a, const asmjit::Operand& b, const asmjit::Operand& c);
  Mask mask_op(InstId k, InstId v, const Mask& a, const Mask& b);
  Mask icmp_avx2(int size, bool is_signed, Cmp predicate, const Vec& a, const Vec& b);
  /// Lanes of `size` done as even and odd lanes of twice the size.
  template <class F>
  Vec by_halves(int size, bool is_signed, const Vec& a, const Vec& b, F&& f);

  struct Table {
    const void* data;
    std::size_t size;
    Label label;
  };

  struct Shared {
    int bytes, size;
    uint64_t bits;
    Vec vec;
  };

  asmjit::BaseNode* anchor_ = nullptr;  // shared constants are made behind it
  std::vector<Shared> shared_;
  bool sharing_ = true;

  Vec shared_constant(int size, uint64_t bits);
  Mem scratch_[kScratchSlots];
  std::vector<Table> tables_;
};

/// Other lane count for a while: horizontal steps of folds.
class LaneScope {
 public:
  LaneScope(Vasm& vasm, int lane_count) : vasm_(vasm), saved_(vasm.lanes) { vasm.lanes = lane_count; }
  ~LaneScope() { vasm_.lanes = saved_; }
  LaneScope(const LaneScope&) = delete;
  LaneScope& operator=(const LaneScope&) = delete;

 private:
  Vasm& vasm_;
  int saved_;
};

/// Bits of a number in a float dtype of `size` bytes.
uint64_t float_bits(int size, double value);

}  // namespace framejit::codegen
