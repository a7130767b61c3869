// The handlers of canonical instructions. The row of each opcode names one of them (code_view.h).
#pragma once

#include "capture/symbolic_frame.h"

namespace framejit::capture {

using OpcodeHandler = Step(SymbolicFrame& frame, const Instr& i);

OpcodeHandler stack_op, local_op, cell_op, global_op, import_op, attr_op, load_super, operator_op, subscript_op,
    build_op, extend_op, string_op, unpack_op, match_op, jump_op, iterate_op, call_op, call_ex, make_function,
    set_function_attribute, delegate_op, raise_op, handler_op, with_op, return_op, yield_op;
// Breaks.
OpcodeHandler unsupported;
OpcodeHandler unsupported_handling;  // of exceptions
OpcodeHandler suspended;             // others resume the frame, or such a generator

/// Functions that handlers of several files call.
Step push_iterator(SymbolicFrame& frame, Captured<Value*> iterator);
void push_callable(SymbolicFrame& frame, Value* callable, Value* null);
Step raise_exception(Value* exception, BreakId id);

}  // namespace framejit::capture
