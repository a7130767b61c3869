// Loads and stores of operands: whole vectors and masked tails; contiguous, broadcast and strided.
#include <numeric>

#include "codegen/emit_nest.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace x86 = asmjit::x86;

namespace {
constexpr int shift_of(int size) { return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3; }
}  // namespace

NestOperands::NestOperands(const LoopNest& nest, x86::Compiler& cc, bool avx512)
    : nest_(nest), cc_(cc), v_(cc, avx512, nest_lanes(nest, avx512)) {}

void NestOperands::load_arguments() {
  for (std::size_t i = 0; i < nest_.operands.size(); ++i) {
    const NestOperand& operand = nest_.operands[i];
    OperandState o;
    o.dtype = operand.dtype;
    o.size = graph::size_of(operand.dtype);
    o.part = graph::size_of(graph::part_of(operand.dtype));
    o.access = operand.access;
    o.row = cc_.newIntPtr();
    cc_.mov(o.row, x86::qword_ptr(ptrs_, static_cast<int>(8 * i)));
    if (o.access == Access::Strided || rows_) o.at = cc_.newIntPtr();
    if (o.access == Access::Strided) {
      o.stride = cc_.newIntPtr();
      o.step = cc_.newIntPtr();
      cc_.mov(o.stride, x86::qword_ptr(strides_, static_cast<int>(16 * i)));
      cc_.imul(o.step, o.stride, asmjit::Imm(v_.lanes));
      o.thrice = cc_.newIntPtr();
      cc_.lea(o.thrice, x86::ptr(o.stride, o.stride, 1));
      if (o.size >= 4) {
        // Offsets of the lanes, for gathers.
        const int per_gather = std::min(v_.avx512 ? 8 : 4, v_.lanes);
        for (int part = 0; part * per_gather < v_.lanes; ++part) {
          uint64_t numbers[8];
          std::iota(numbers, numbers + 8, static_cast<uint64_t>(part * per_gather));
          LaneScope scope(v_, per_gather);
          const Mem table = v_.const_table(numbers, static_cast<std::size_t>(8 * per_gather));
          o.index[part] = v_.imul(8, v_.load(8, table), v_.broadcast_gp(8, o.stride));
        }
      }
    }
    operands_.push_back(o);
  }
}

Mem NestOperands::address(const OperandState& o, int u) {
  const int displacement = u * v_.lanes * o.size;
  if (o.access == Access::Broadcast) return x86::ptr(rows_ ? o.at : o.row);
  if (o.access == Access::Strided) return x86::ptr(o.at);
  if (rows_) return x86::ptr(o.at, displacement);
  if (o.size == 16) {
    const Gp twice = v_.gp();
    cc_.lea(twice, x86::ptr(index_, index_));
    return x86::ptr(o.row, twice, 3, displacement);
  }
  return x86::ptr(o.row, index_, shift_of(o.size), displacement);
}

Value NestOperands::to_value(DType t, const Vec& loaded) {
  Value r;
  r.valid = true;
  if (t == DType::Bool) r.m = v_.nonzero(1, loaded);
  else r.v = loaded;
  return r;
}

Vec NestOperands::to_memory(DType t, const Value& value) {
  return t == DType::Bool ? v_.keep(1, value.m, v_.splat(1, 1)) : value.v;
}

Vec NestOperands::iota(int size) {
  uint8_t table[64] = {};
  for (int i = 0; i < v_.lanes; ++i) table[i * size] = static_cast<uint8_t>(i);
  return v_.load(size, v_.const_table(table, std::max(16, v_.bytes(size))));
}

Mask NestOperands::tail_mask(int size) {
  Mask m;
  m.size = size;
  if (v_.avx512) m.k = tail_k_;
  else if (size >= 4) m.v = tail_lanes_[size == 8];
  else m = v_.icmp(size, true, Cmp::Gt, v_.broadcast_gp(size, count_), iota(size));
  return m;
}

/// The lanes of one half of a tail whose elements are two parts each.
Mask NestOperands::tail_mask_of_parts(int size, int half) {
  Mask m;
  m.size = size;
  if (v_.avx512) m.k = tail_parts_k_[half];
  else m.v = tail_parts_lanes_[size == 8][half];
  return m;
}

Vec NestOperands::load_broadcast(const OperandState& o, int part) {
  return v_.broadcast(o.part, address(o, 0).cloneAdjusted(part * o.part));
}

/// Strided elements put together, `width` bytes of them: one load each, which is faster than a gather.
Vec NestOperands::load_elements(OperandState& o, int part, int width) {
  std::vector<x86::Xmm> parts;
  for_each_element(o, part, width, [&](int i, const Mem& at) {
    const int place = i % std::max(1, 16 / o.size);
    if (place == 0) {
      LaneScope scope(v_, 16);
      parts.push_back((o.size < 4 ? v_.zero(1) : v_.fresh(1)).xmm());
    }
    const x86::Xmm r = parts.back();
    switch (o.size) {
      case 1: cc_.vpinsrb(r, r, at, asmjit::Imm(place)); break;
      case 2: cc_.vpinsrw(r, r, at, asmjit::Imm(place)); break;
      case 4:
        if (place == 0) cc_.vmovss(r, at);
        else cc_.vinsertps(r, r, at, asmjit::Imm(place << 4));
        break;
      case 8:
        if (place == 0) cc_.vmovsd(r, at);
        else cc_.vmovhps(r, r, at);
        break;
      default: cc_.vmovups(r, at); break;
    }
  });
  std::vector<Vec> pieces(parts.begin(), parts.end());
  for (int bytes = 16; pieces.size() > 1; bytes *= 2) {
    for (std::size_t i = 0; 2 * i < pieces.size(); ++i) pieces[i] = v_.concat(pieces[2 * i], pieces[2 * i + 1], bytes);
    pieces.resize(pieces.size() / 2);
  }
  return pieces[0];
}

/// The reverse.
void NestOperands::store_elements(OperandState& o, int part, int width, const Vec& a) {
  x86::Xmm piece;
  for_each_element(o, part, width, [&](int i, const Mem& at) {
    const int each = std::max(1, 16 / o.size), place = i % each;
    if (i == 0) piece = a.xmm();
    if (place == 0 && i > 0) {
      piece = cc_.newXmm();
      if (v_.avx512) cc_.vextracti32x4(piece, width == 64 ? a : Vec(a.ymm()), asmjit::Imm(i / each));
      else cc_.vextracti128(piece, a.ymm(), asmjit::Imm(1));
    }
    switch (o.size) {
      case 1: cc_.vpextrb(at, piece, asmjit::Imm(place)); break;
      case 2: cc_.vpextrw(at, piece, asmjit::Imm(place)); break;
      case 4:
        if (place == 0) cc_.vmovss(at, piece);
        else cc_.vextractps(at, piece, asmjit::Imm(place));
        break;
      case 8:
        if (place == 0) cc_.vmovsd(at, piece);
        else cc_.vmovhps(at, piece);
        break;
      default: cc_.vmovups(at, piece); break;
    }
  });
}

Value NestOperands::load_operand(int operand, int u, int part) {
  OperandState& o = operands_[operand];
  if (o.access == Access::Broadcast) return to_value(o.dtype, load_broadcast(o, part));
  if (graph::is_complex(o.dtype)) {
    if (tail_ && o.access == Access::Strided) return to_value(o.dtype, gather(o, part));
    if (!o.parts[0].valid) load_parts(o, u);
    return o.parts[part];
  }
  return to_value(o.dtype, tail_ ? load_tail(o, u) : load_lanes(o, u));
}

/// Complex elements as they lie in memory: the parts take turns. A tail's idle places hold anything.
Vec NestOperands::load_half(OperandState& o, int u, int half) {
  const Mem from = address(o, u).cloneAdjusted(half * v_.bytes(o.part));
  if (!tail_) return o.access == Access::Strided ? load_elements(o, half, v_.bytes(o.part)) : v_.load(o.part, from);
  const Vec r = v_.fresh(o.part);
  const Mask live = tail_mask_of_parts(o.part, half);
  if (v_.avx512) {
    cc_.k(live.k).z();
    cc_.emit(o.part == 4 ? I::kIdVmovups : I::kIdVmovupd, r, from);
  } else {
    cc_.emit(o.part == 4 ? I::kIdVmaskmovps : I::kIdVmaskmovpd, r, live.v, from);
  }
  return r;
}

/// Both parts of complex elements.
void NestOperands::load_parts(OperandState& o, int u) {
  const Vec low = load_half(o, u, 0);
  const auto [real, imaginary] = v_.unzip(o.part, low, load_half(o, u, 1));
  const Vec parts[2] = {real, imaginary};
  for (int part = 0; part < 2; ++part) {
    o.parts[part].valid = true;
    o.parts[part].v = tail_ ? v_.select(o.part, tail_mask(o.part), parts[part],
                                        v_.broadcast(o.part, address(o, u).cloneAdjusted(part * o.part)))
                            : parts[part];
  }
}

Vec NestOperands::load_lanes(OperandState& o, int u) {
  return o.access == Access::Contiguous ? v_.load(o.size, address(o, u)) : load_elements(o, 0, v_.bytes(o.size));
}

Vec NestOperands::load_tail(OperandState& o, int u) {
  if (o.access == Access::Strided) return o.size >= 4 ? gather(o) : gather_by_element(o, u);
  const Mem at = address(o, u);
  if (v_.avx512) {
    const Vec r = v_.broadcast(o.size, at);
    cc_.k(tail_k_);
    switch (o.size) {
      case 1: cc_.vmovdqu8(r, at); break;
      case 2: cc_.vmovdqu16(r, at); break;
      case 4: cc_.vmovdqu32(r, at); break;
      default: cc_.vmovdqu64(r, at); break;
    }
    return r;
  }
  if (o.size < 4) return gather_by_element(o, u);
  const Vec loaded = v_.fresh(o.size);
  const Mask live = tail_mask(o.size);
  if (o.size == 4) cc_.vpmaskmovd(loaded, live.v, at);
  else cc_.vpmaskmovq(loaded, live.v, at);
  return v_.select(o.size, live, loaded, v_.broadcast(o.size, at));
}

/// Strided elements of a tail, of 4 and 8 bytes.
Vec NestOperands::gather(OperandState& o, int part) {
  const int size = o.part, displacement = part * size;
  // Offsets are 64 bits wide, so a vector of 4-byte elements may need two gathers.
  const int per_gather = std::min(v_.avx512 ? 8 : 4, v_.lanes), count = (v_.lanes + per_gather - 1) / per_gather;
  Vec halves[2];
  for (int half = 0; half < count; ++half) {
    const Mem from = x86::ptr(o.at, o.index[half], 0, displacement);
    const Vec r = v_.fresh_bytes(per_gather * size);
    LaneScope scope(v_, per_gather);
    cc_.vmovups(r, v_.broadcast(size, x86::ptr(o.at, displacement)));
    if (v_.avx512) {
      const KReg k = cc_.newKq();
      if (half == 0) cc_.kmovq(k, tail_k_);
      else cc_.kshiftrq(k, tail_k_, asmjit::Imm(8));
      cc_.k(k).emit(size == 4 ? I::kIdVpgatherqd : I::kIdVpgatherqq, r, from);
    } else {
      const Vec live = v_.fresh(size);
      if (count == 1) cc_.vmovups(live, tail_lanes_[size == 8]);
      else if (half == 0) cc_.vmovups(live, tail_lanes_[0].xmm());
      else cc_.vextracti128(live.xmm(), tail_lanes_[0].ymm(), asmjit::Imm(1));
      cc_.emit(size == 4 ? I::kIdVpgatherqd : I::kIdVpgatherqq, r, from, live);
    }
    halves[half] = r;
  }
  return count == 1 ? halves[0] : v_.concat(halves[0], halves[1], per_gather * size);
}

Vec NestOperands::gather_by_element(OperandState& o, int u) {
  const Mem buffer = v_.scratch(2);
  v_.store(o.size, buffer, v_.broadcast(o.size, address(o, u)));
  const Gp from = v_.gp(), element = v_.gp();
  cc_.lea(from, address(o, u));
  for_each_lane([&](const Gp& lane) {
    Mem to = buffer.cloneAdjusted(0);
    to.setIndex(lane, shift_of(o.size));
    to.setSize(o.size);
    if (o.size == 1) {
      cc_.movzx(element.r32(), x86::byte_ptr(from));
      cc_.mov(to, element.r8());
    } else {
      cc_.movzx(element.r32(), x86::word_ptr(from));
      cc_.mov(to, element.r16());
    }
    if (o.access == Access::Strided) cc_.add(from, o.stride);
    else cc_.add(from, o.size);
  });
  return v_.load(o.size, buffer);
}

void NestOperands::scatter_by_element(OperandState& o, int u, const Vec& a) {
  const Mem buffer = v_.scratch(2);
  v_.store(o.size, buffer, a);
  const Gp to = v_.gp(), element = v_.gp();
  cc_.lea(to, address(o, u));
  for_each_lane([&](const Gp& lane) {
    Mem from = buffer.cloneAdjusted(0);
    from.setIndex(lane, shift_of(o.size));
    from.setSize(o.size);
    switch (o.size) {
      case 1:
        cc_.movzx(element.r32(), from);
        cc_.mov(x86::byte_ptr(to), element.r8());
        break;
      case 2:
        cc_.movzx(element.r32(), from);
        cc_.mov(x86::word_ptr(to), element.r16());
        break;
      case 4:
        cc_.mov(element.r32(), from);
        cc_.mov(x86::dword_ptr(to), element.r32());
        break;
      default:
        cc_.mov(element, from);
        cc_.mov(x86::qword_ptr(to), element);
        break;
    }
    if (o.access == Access::Strided) cc_.add(to, o.stride);
    else cc_.add(to, o.size);
  });
}

void NestOperands::store_parts(int operand, int u, const Vec& real, const Vec& imaginary, bool non_temporal) {
  OperandState& o = operands_[operand];
  const bool strided = o.access == Access::Strided;
  if (o.access == Access::Broadcast || (strided && tail_)) return scatter_parts(o, u, real, imaginary);
  const auto [low, high] = v_.zip(o.part, real, imaginary);
  const Vec halves[2] = {low, high};
  if (strided) {
    for (int half = 0; half < 2; ++half) store_elements(o, half, v_.bytes(o.part), halves[half]);
    return;
  }
  const Mem at = address(o, u);
  for (int half = 0; half < 2; ++half) {
    const Mem to = at.cloneAdjusted(half * v_.bytes(o.part));
    if (tail_) {
      const Mask live = tail_mask_of_parts(o.part, half);
      if (v_.avx512) {
        cc_.k(live.k);
        cc_.emit(o.part == 4 ? I::kIdVmovups : I::kIdVmovupd, to, halves[half]);
      } else {
        cc_.emit(o.part == 4 ? I::kIdVmaskmovps : I::kIdVmaskmovpd, to, live.v, halves[half]);
      }
    } else if (non_temporal) {
      cc_.vmovntps(to, halves[half]);
    } else {
      v_.store(o.part, to, halves[half]);
    }
  }
}

void NestOperands::scatter_parts(OperandState& o, int u, const Vec& real, const Vec& imaginary) {
  const Mem buffers[2] = {v_.scratch(2), v_.scratch(3)};
  v_.store(o.part, buffers[0], real);
  v_.store(o.part, buffers[1], imaginary);
  const Gp to = v_.gp(), element = v_.gp();
  cc_.lea(to, address(o, u));
  for_each_lane([&](const Gp& lane) {
    for (int part = 0; part < 2; ++part) {
      Mem from = buffers[part];
      from.setIndex(lane, shift_of(o.part));
      from.setSize(o.part);
      const Gp word = o.part == 4 ? Gp(element.r32()) : element;
      cc_.mov(word, from);
      Mem at = x86::ptr(to, part * o.part);
      at.setSize(o.part);
      cc_.mov(at, word);
    }
    if (o.access == Access::Strided) cc_.add(to, o.stride);
  });
}

void NestOperands::store_operand(int operand, int u, const Value& value, bool non_temporal) {
  OperandState& o = operands_[operand];
  const Vec a = to_memory(o.dtype, value);
  if (o.access == Access::Strided && !tail_) return store_elements(o, 0, v_.bytes(o.size), a);
  // A written operand of stride 0 is one element written again and again: the last lane wins.
  if (o.access != Access::Contiguous) return scatter_by_element(o, u, a);
  const Mem to = address(o, u);
  if (!tail_) {
    if (non_temporal && v_.bytes(o.size) >= 16) cc_.vmovntps(to, a);
    else v_.store(o.size, to, a);
    return;
  }
  if (v_.avx512) {
    cc_.k(tail_k_);
    switch (o.size) {
      case 1: cc_.vmovdqu8(to, a); break;
      case 2: cc_.vmovdqu16(to, a); break;
      case 4: cc_.vmovdqu32(to, a); break;
      default: cc_.vmovdqu64(to, a); break;
    }
  } else if (o.size == 4) {
    cc_.vpmaskmovd(to, tail_lanes_[0], a);
  } else if (o.size == 8) {
    cc_.vpmaskmovq(to, tail_lanes_[1], a);
  } else {
    scatter_by_element(o, u, a);
  }
}

void NestOperands::advance_strided() {
  for (OperandState& o : operands_)
    if (o.access == Access::Strided) cc_.add(o.at, o.step);
}

}  // namespace framejit::codegen
