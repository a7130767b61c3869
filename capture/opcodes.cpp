// The opcode table of the CPython that this is compiled for.
#include "capture/opcodes.h"

#include <opcode.h>

namespace framejit::capture {

namespace {

constexpr std::array<OpcodeRow, 256> make_table() {
  std::array<OpcodeRow, 256> table{};
#define FRAMEJIT_RAW(name, op, caches, form) table[name] = {Opcode::op, caches, ArgForm::form, true};
#if PY_VERSION_HEX < 0x030c0000
#include "capture/opcodes_311.inc"
#elif PY_VERSION_HEX < 0x030d0000
#include "capture/opcodes_312.inc"
#else
#include "capture/opcodes_313.inc"
#endif
#undef FRAMEJIT_RAW
  return table;
}

constexpr std::array<OpcodeRow, 256> kTable = make_table();

constexpr RawOpcodes make_raw() {
  RawOpcodes raw{};
  raw.extended_arg = EXTENDED_ARG;
  raw.resume = RESUME;
  raw.call = CALL;
  raw.load_const = LOAD_CONST;
  raw.unary_invert = UNARY_INVERT;
  raw.return_value = RETURN_VALUE;
  raw.jump_forward = JUMP_FORWARD;
  raw.jump_backward = JUMP_BACKWARD;
  raw.jump_backward_no_interrupt = JUMP_BACKWARD_NO_INTERRUPT;
  raw.push_null = PUSH_NULL;
  raw.pop_top = POP_TOP;
  raw.nop = NOP;
  raw.send = SEND;
  raw.yield_value = YIELD_VALUE;
  raw.push_exc_info = PUSH_EXC_INFO;
  raw.end_async_for = END_ASYNC_FOR;
  raw.return_generator = RETURN_GENERATOR;
#if PY_VERSION_HEX < 0x030c0000
  raw.precall = PRECALL;
  raw.pop_jump_forward_if_true = POP_JUMP_FORWARD_IF_TRUE;
  raw.cleanup_throw = raw.end_for = raw.end_send = kNoOpcode;
#else
  raw.precall = kNoOpcode;
  raw.pop_jump_forward_if_true = POP_JUMP_IF_TRUE;
  raw.cleanup_throw = CLEANUP_THROW;
  raw.end_for = END_FOR;
  raw.end_send = END_SEND;
#endif
#if PY_VERSION_HEX < 0x030d0000
  raw.kw_names = KW_NAMES;
  raw.call_kw = kNoOpcode;
#else
  raw.kw_names = kNoOpcode;
  raw.call_kw = CALL_KW;
#endif
  return raw;
}

}  // namespace

const RawOpcodes kRaw = make_raw();

const std::array<OpcodeRow, 256>& opcode_table() { return kTable; }

}  // namespace framejit::capture
