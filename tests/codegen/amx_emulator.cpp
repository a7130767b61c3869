#include "amx_emulator.h"

#include <gtest/gtest.h>
#include <ucontext.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

namespace framejit::codegen::testing {

namespace {

constexpr int kRegisters = 8;

struct Register {
  uint8_t bytes[16][64];
};

/// Of a thread; what a handler touches has to be there already.
struct State {
  uint8_t configuration[64];
  Register tiles[kRegisters];

  bool configured() const { return configuration[0] == 1; }
  int rows(int tile) const { return configuration[48 + tile]; }
  int row_bytes(int tile) const { return configuration[16 + 2 * tile] | configuration[17 + 2 * tile] << 8; }
  /// Is it a register that may be used?
  bool usable(int tile) const {
    return tile < kRegisters && configured() && rows(tile) > 0 && row_bytes(tile) % 4 == 0;
  }
};
thread_local State state{};
std::atomic<int64_t> products{0};

bool configure(const uint8_t* from) {
  uint8_t next[64];
  std::memcpy(next, from, 64);
  if (next[0] > 1 || next[1] != 0) return false;
  for (int i = 2; i < 16; ++i)
    if (next[i] != 0) return false;
  for (int tile = 0; tile < 16; ++tile) {
    const int row_bytes = next[16 + 2 * tile] | next[17 + 2 * tile] << 8, rows = next[48 + tile];
    if (row_bytes > 64 || rows > 16 || (rows == 0) != (row_bytes == 0) || (tile >= kRegisters && rows > 0))
      return false;
  }
  std::memset(&state, 0, sizeof state);
  if (next[0] == 1) std::memcpy(state.configuration, next, 64);
  return true;
}

bool load(int tile, const uint8_t* from, int64_t stride) {
  if (!state.usable(tile)) return false;
  std::memset(&state.tiles[tile], 0, sizeof(Register));
  for (int row = 0; row < state.rows(tile); ++row)
    std::memcpy(state.tiles[tile].bytes[row], from + row * stride, static_cast<std::size_t>(state.row_bytes(tile)));
  return true;
}

bool store(int tile, uint8_t* to, int64_t stride) {
  if (!state.usable(tile)) return false;
  for (int row = 0; row < state.rows(tile); ++row)
    std::memcpy(to + row * stride, state.tiles[tile].bytes[row], static_cast<std::size_t>(state.row_bytes(tile)));
  return true;
}

/// Numbers below the normal ones are zeros, before and after.
float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }

float bfloat16_at(const uint8_t* from) {
  const uint32_t bits = static_cast<uint32_t>(from[0]) << 16 | static_cast<uint32_t>(from[1]) << 24;
  float value;
  std::memcpy(&value, &bits, 4);
  return flushed(value);
}

/// The dot product of two groups of bytes, added to `sum`, which wraps.
int32_t add_bytes(int32_t sum, const uint8_t* a, const uint8_t* b, bool a_signed, bool b_signed) {
  for (int i = 0; i < 4; ++i) {
    const int x = a_signed ? static_cast<int8_t>(a[i]) : a[i], y = b_signed ? static_cast<int8_t>(b[i]) : b[i];
    sum = static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(x * y));
  }
  return sum;
}

template <class RowOfC>
bool each_row(int c, int a, int b, RowOfC&& f) {
  for (int tile : {c, a, b})
    if (!state.usable(tile)) return false;
  if (c == a || a == b || c == b) return false;
  if (state.rows(c) != state.rows(a) || state.row_bytes(c) != state.row_bytes(b) ||
      state.row_bytes(a) / 4 != state.rows(b))
    return false;
  for (int row = 0; row < state.rows(c); ++row) f(state.tiles[c].bytes[row], state.tiles[a].bytes[row]);
  products.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool multiply_bfloat16(int c, int a, int b) {
  const int groups = state.rows(b), columns = state.row_bytes(c) / 4;
  return each_row(c, a, b, [&](uint8_t* to, const uint8_t* row) {
    for (int n = 0; n < columns; ++n) {
      float sums[2] = {0, 0}, old;
      for (int k = 0; k < groups; ++k)
        for (int half = 0; half < 2; ++half)
          sums[half] = flushed(std::fma(bfloat16_at(row + 4 * k + 2 * half),
                                        bfloat16_at(state.tiles[b].bytes[k] + 4 * n + 2 * half), sums[half]));
      std::memcpy(&old, to + 4 * n, 4);
      const float sum = flushed(flushed(old) + flushed(sums[0] + sums[1]));
      std::memcpy(to + 4 * n, &sum, 4);
    }
  });
}

bool multiply_bytes(int c, int a, int b, bool a_signed, bool b_signed) {
  const int groups = state.rows(b), columns = state.row_bytes(c) / 4;
  return each_row(c, a, b, [&](uint8_t* to, const uint8_t* row) {
    for (int n = 0; n < columns; ++n) {
      int32_t sum;
      std::memcpy(&sum, to + 4 * n, 4);
      for (int k = 0; k < groups; ++k)
        sum = add_bytes(sum, row + 4 * k, state.tiles[b].bytes[k] + 4 * n, a_signed, b_signed);
      std::memcpy(to + 4 * n, &sum, 4);
    }
  });
}

/// The general registers in the order of their numbers.
constexpr int kGeneral[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/// An instruction with a VEX prefix of three bytes, which all of AMX have.
struct Instruction {
  int prefix, opcode, length;
  int reg, rm, vvvv;  // registers
  bool in_memory, has_sib;
  uint8_t* address;
  int64_t index;

  static bool decode(const uint8_t* at, const greg_t* general, Instruction& out) {
    if (at[0] != 0xc4 || (at[1] & 0x1f) != 2 || (at[2] & 0x84) != 0) return false;  // map 0f 38, W 0, L 0
    const bool r = !(at[1] & 0x80), x = !(at[1] & 0x40), b = !(at[1] & 0x20);
    out.prefix = at[2] & 3;
    out.vvvv = (~at[2] >> 3) & 15;
    out.opcode = at[3];
    const int modrm = at[4], mod = modrm >> 6;
    out.reg = (modrm >> 3 & 7) + 8 * r;
    out.rm = (modrm & 7) + 8 * b;
    out.in_memory = mod != 3;
    out.has_sib = out.in_memory && (modrm & 7) == 4;
    out.length = 5;
    out.index = 0;
    out.address = nullptr;
    if (!out.in_memory) return true;
    int64_t address = 0;
    int base = out.rm;
    if (out.has_sib) {
      const int sib = at[5], number = (sib >> 3 & 7) + 8 * x;
      ++out.length;
      base = (sib & 7) + 8 * b;
      if (number != 4) out.index = general[kGeneral[number]] << (sib >> 6);
    }
    if (mod == 0 && (base & 7) == 5) return false;  // no base: not among what is generated
    address = general[kGeneral[base]];
    if (mod == 1) address += static_cast<int8_t>(at[out.length]), out.length += 1;
    if (mod == 2) {
      int32_t displacement;
      std::memcpy(&displacement, at + out.length, 4);
      address += displacement, out.length += 4;
    }
    out.address = reinterpret_cast<uint8_t*>(address);
    return true;
  }

  enum Prefix { kNone, k66, kF3, kF2 };

  bool run() const {
    const bool unused = vvvv == 0;
    switch (opcode) {
      case 0x49:
        if (prefix == kNone && unused && in_memory) return configure(address + index);
        if (prefix == k66 && unused && in_memory) {
          std::memcpy(address + index, state.configuration, 64);
          return true;
        }
        if (prefix == kNone && unused && rm == 0 && reg == 0) {
          std::memset(&state, 0, sizeof state);
          return true;
        }
        if (prefix == kF2 && unused && !in_memory && rm == 0 && state.usable(reg)) {
          std::memset(&state.tiles[reg], 0, sizeof(Register));
          return true;
        }
        return false;
      case 0x4b:
        if (!unused || !has_sib) return false;
        if (prefix == kF2 || prefix == k66) return load(reg, address, index);
        return prefix == kF3 && store(reg, address, index);
      case 0x5c: return !in_memory && prefix == kF3 && multiply_bfloat16(reg, rm, vvvv);
      case 0x5e:
        return !in_memory &&
               multiply_bytes(reg, rm, vvvv, prefix == kF2 || prefix == kF3, prefix == kF2 || prefix == k66);
      default: return false;
    }
  }
};

void on_illegal(int, siginfo_t*, void* context) {
  greg_t* const general = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  Instruction instruction{};
  if (Instruction::decode(reinterpret_cast<const uint8_t*>(general[REG_RIP]), general, instruction) &&
      instruction.run()) {
    general[REG_RIP] += instruction.length;
    return;
  }
  signal(SIGILL, SIG_DFL);  // raised again by the same instruction
}

}  // namespace

AmxEmulator::AmxEmulator() {
  emulates_ = !(detected_cpu().amx_bf16 && detected_cpu().amx_int8 && allow_amx());
  if (!emulates_) return;
  struct sigaction action{};
  action.sa_sigaction = on_illegal;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &before_);
}

AmxEmulator::~AmxEmulator() {
  if (emulates_) sigaction(SIGILL, &before_, nullptr);
}

Cpu AmxEmulator::add_to(Cpu base) {
  base.amx_bf16 = base.amx_int8 = true;
  return base;
}

int64_t AmxEmulator::emulated() { return products.load(); }

bool AmxEmulator::released() {
  uint8_t configuration[64];
  asm volatile("sttilecfg %0" : "=m"(configuration));
  return configuration[0] == 0;
}

}  // namespace framejit::codegen::testing
