// The opcode table of the CPython that this is compiled for.
#include "capture/opcodes.h"

#include <opcode.h>

#include <string_view>

namespace framejit::capture {

namespace {

constexpr std::array<OpcodeRow, 256> make_table() {
  std::array<OpcodeRow, 256> table{};
#define FRAMEJIT_RAW(name, op, caches, form) table[name] = {Opcode::op, caches, ArgForm::form, true};
#include "capture/py/cpython/opcodes.inc"
#undef FRAMEJIT_RAW
  return table;
}

constexpr std::array<OpcodeRow, 256> kTable = make_table();

constexpr int number_of(std::string_view wanted) {
#define FRAMEJIT_RAW(name, op, caches, form) \
  if (wanted == #name) return name;
#include "capture/py/cpython/opcodes.inc"
#undef FRAMEJIT_RAW
  return kNoOpcode;
}

constexpr int first_of(std::string_view one, std::string_view other) {
  return number_of(one) != kNoOpcode ? number_of(one) : number_of(other);
}

}  // namespace

const RawOpcodes kRaw = {
    .extended_arg = number_of("EXTENDED_ARG"),
    .resume = number_of("RESUME"),
    .kw_names = number_of("KW_NAMES"),
    .precall = number_of("PRECALL"),
    .call = number_of("CALL"),
    .call_kw = number_of("CALL_KW"),
    .load_const = number_of("LOAD_CONST"),
    .unary_invert = number_of("UNARY_INVERT"),
    .return_value = number_of("RETURN_VALUE"),
    .jump_forward = number_of("JUMP_FORWARD"),
    .jump_backward = number_of("JUMP_BACKWARD"),
    .jump_backward_no_interrupt = number_of("JUMP_BACKWARD_NO_INTERRUPT"),
    .pop_jump_if_true = first_of("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE"),
    .push_null = number_of("PUSH_NULL"),
    .pop_top = number_of("POP_TOP"),
    .nop = number_of("NOP"),
    .send = number_of("SEND"),
    .yield_value = number_of("YIELD_VALUE"),
    .push_exc_info = number_of("PUSH_EXC_INFO"),
    .end_async_for = number_of("END_ASYNC_FOR"),
    .cleanup_throw = number_of("CLEANUP_THROW"),
    .end_for = number_of("END_FOR"),
    .end_send = number_of("END_SEND"),
    .return_generator = number_of("RETURN_GENERATOR"),
    .load_special = number_of("LOAD_SPECIAL"),
    .pop_iter = number_of("POP_ITER"),
    .not_taken = number_of("NOT_TAKEN"),
    .call_intrinsic_1 = number_of("CALL_INTRINSIC_1"),
};

const std::array<OpcodeRow, 256>& opcode_table() { return kTable; }

}  // namespace framejit::capture
