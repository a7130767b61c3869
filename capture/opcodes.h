// The raw opcodes of the running version: canonical opcode, inline cache entries and the form of the argument.
#pragma once

#include <array>
#include <cstdint>

#include "capture/code_view.h"

namespace framejit::capture {

/// How the raw argument becomes the canonical one.
enum class ArgForm : uint8_t {
  None,         // no argument
  Plain,        // as it is
  Forward,      // jump: code units behind the instruction and its caches
  Backward,     // jump: code units before that point
  Global,       // arg >> 1 is the name; low bit: pushes NULL as well
  Attribute,    // arg >> 1 is the name; low bit: method form (3.12 and later)
  Compare4,     // arg >> 4 is the comparison (3.12)
  Compare5,     // arg >> 5 is the comparison, bit 16: the result becomes a bool (3.13)
  Pair,         // two local slots of four bits: two canonical instructions (3.13)
  Super,        // arg >> 2 is the name; bit 0: method form, bit 1: super() was given two arguments (3.12)
  Subscript,    // kind of a binary operator, of which 26 is a subscript (3.14)
  CallEx,       // CALL_FUNCTION_EX that finds a mapping or NULL on the stack (3.14)
  SmallInt,     // the int itself: a constant of the view (3.14)
  Common,       // number of a constant that the interpreter holds (3.14)
  Back,         // code units back to the instruction that a tool is told of; no jump (3.14)
  Iterator,     // GET_ITER: 3 for `yield from` (3.15)
  Import,       // arg >> 2 is the name, the rest says whether the import is lazy (3.15)
  Intrinsic1,   // number of a CALL_INTRINSIC_1 function
  Intrinsic2,   // number of a CALL_INTRINSIC_2 function
  FormatPlain,  // FORMAT_SIMPLE: FormatValue without a spec
  FormatSpec,   // FORMAT_WITH_SPEC: FormatValue with a spec on the stack
};

struct OpcodeRow {
  Opcode op = Opcode::Unknown;
  uint8_t caches = 0;
  ArgForm form = ArgForm::None;
  bool known = false;
};

/// Indexed by raw opcode.
const std::array<OpcodeRow, 256>& opcode_table();

/// Raw opcodes that the writer and the decoder name. Those that this version lacks are kNoOpcode.
inline constexpr int kNoOpcode = -1;
struct RawOpcodes {
  int extended_arg, resume, kw_names, precall, call, call_kw, load_const, unary_invert, return_value, jump_forward,
      jump_backward, jump_backward_no_interrupt, pop_jump_if_true, push_null, pop_top, nop, send, yield_value,
      push_exc_info, end_async_for, cleanup_throw, end_for, end_send, return_generator, load_special, pop_iter,
      not_taken, call_intrinsic_1;
};
extern const RawOpcodes kRaw;

}  // namespace framejit::capture
