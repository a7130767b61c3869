// CodeView: decoded, immutable bytecode in one canonical instruction set for all versions of CPython.
//
// Caches, EXTENDED_ARG and PRECALL are folded away, specialisations undone (co_code is clean), KW_NAMES joined to its
// CALL. Nothing behind this header knows a CPython version.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/py/ref.h"

namespace framejit::capture {

// X(Name, handler): the canonical opcodes, each with the member of SymbolicFrame that executes it and what its arg
// means.
// clang-format off: one line for each
#define FRAMEJIT_OPCODES(X)                                                                                          \
  X(Nop, stack_op)                                                                                                   \
  X(Resume, stack_op) /* where */                                                                                    \
  X(PushNull, stack_op)                                                                                              \
  X(PopTop, stack_op)                                                                                                \
  X(Copy, stack_op) /* i */                                                                                          \
  X(Swap, stack_op) /* i */                                                                                          \
  X(LoadConst, stack_op) /* index of CodeView::constant() */                                                         \
  X(LoadFast, local_op) /* local */                                                                                  \
  X(LoadFastCheck, local_op)                                                                                         \
  X(LoadFastAndClear, local_op)                                                                                      \
  X(StoreFast, local_op)                                                                                             \
  X(DeleteFast, local_op)                                                                                            \
  X(MakeCell, cell_op)                                                                                               \
  X(CopyFreeVars, cell_op)                                                                                           \
  X(ReturnGenerator, yield_op)                                                                                       \
  X(LoadClosure, cell_op)                                                                                            \
  X(LoadDeref, cell_op)                                                                                              \
  X(StoreDeref, cell_op)                                                                                             \
  X(DeleteDeref, cell_op)                                                                                            \
  X(LoadClassDeref, unsupported)                                                                                     \
  X(LoadGlobal, global_op) /* name; flag: push NULL first */                                                         \
  X(StoreGlobal, global_op)                                                                                          \
  X(DeleteGlobal, global_op)                                                                                         \
  X(LoadName, unsupported)                                                                                           \
  X(StoreName, unsupported)                                                                                          \
  X(DeleteName, unsupported)                                                                                         \
  X(LoadBuildClass, unsupported)                                                                                     \
  X(LoadAssertionError, stack_op)                                                                                    \
  X(SetupAnnotations, unsupported)                                                                                   \
  X(ImportName, import_op)                                                                                           \
  X(ImportFrom, import_op)                                                                                           \
  X(ImportStar, unsupported)                                                                                         \
  X(LoadAttr, attr_op) /* name */                                                                                    \
  X(LoadMethod, attr_op) /* name; pushes method,self or NULL,attr */                                                 \
  X(LoadSuperAttr, load_super) /* name; flag: as LoadMethod */                                                       \
  X(LoadSpecial, with_op) /* 0: __enter__, 1: __exit__, 2, 3: of async with */                                       \
  X(StoreAttr, attr_op)                                                                                              \
  X(DeleteAttr, attr_op)                                                                                             \
  X(BinarySubscr, subscript_op)                                                                                      \
  X(StoreSubscr, subscript_op)                                                                                       \
  X(DeleteSubscr, subscript_op)                                                                                      \
  X(BinarySlice, subscript_op)                                                                                       \
  X(StoreSlice, subscript_op)                                                                                        \
  X(UnaryPositive, operator_op)                                                                                      \
  X(UnaryNegative, operator_op)                                                                                      \
  X(UnaryNot, operator_op)                                                                                           \
  X(UnaryInvert, operator_op)                                                                                        \
  X(ToBool, operator_op)                                                                                             \
  X(BinaryOp, operator_op) /* NB_* kind */                                                                           \
  X(CompareOp, operator_op) /* Py_LT.. Py_GE */                                                                      \
  X(IsOp, operator_op) /* 1: is not */                                                                               \
  X(ContainsOp, operator_op) /* 1: not in */                                                                         \
  X(BuildTuple, build_op)                                                                                            \
  X(BuildList, build_op)                                                                                             \
  X(BuildSet, build_op)                                                                                              \
  X(BuildMap, build_op)                                                                                              \
  X(BuildConstKeyMap, build_op)                                                                                      \
  X(BuildString, string_op)                                                                                          \
  X(BuildSlice, build_op)                                                                                            \
  X(ListAppend, extend_op)                                                                                           \
  X(SetAdd, extend_op)                                                                                               \
  X(MapAdd, extend_op)                                                                                               \
  X(ListExtend, extend_op)                                                                                           \
  X(SetUpdate, extend_op)                                                                                            \
  X(DictUpdate, extend_op)                                                                                           \
  X(DictMerge, extend_op)                                                                                            \
  X(ListToTuple, extend_op)                                                                                          \
  X(FormatValue, string_op)                                                                                          \
  X(UnpackSequence, unpack_op)                                                                                       \
  X(UnpackEx, unpack_op)                                                                                             \
  X(GetLen, match_op)                                                                                                \
  X(MatchMapping, match_op)                                                                                          \
  X(MatchSequence, match_op)                                                                                         \
  X(MatchKeys, match_op)                                                                                             \
  X(MatchClass, match_op)                                                                                            \
  X(Jump, jump_op) /* target */                                                                                      \
  X(PopJumpIfFalse, jump_op)                                                                                         \
  X(PopJumpIfTrue, jump_op)                                                                                          \
  X(PopJumpIfNone, jump_op)                                                                                          \
  X(PopJumpIfNotNone, jump_op)                                                                                       \
  X(JumpIfFalseOrPop, jump_op)                                                                                       \
  X(JumpIfTrueOrPop, jump_op)                                                                                        \
  X(GetIter, iterate_op)                                                                                             \
  X(ForIter, iterate_op) /* target */                                                                                \
  X(EndFor, unsupported)                                                                                             \
  X(PopIter, iterate_op)                                                                                             \
  X(Call, call_op) /* positional + keyword count; kwnames */                                                         \
  X(CallFunctionEx, call_ex) /* flag 1: kwargs */                                                                    \
  X(MakeFunction, make_function) /* flags */                                                                         \
  X(SetFunctionAttribute, set_function_attribute)                                                                    \
  X(ReturnValue, return_op)                                                                                          \
  X(ReturnConst, return_op)                                                                                          \
  X(YieldValue, yield_op)                                                                                            \
  X(Send, delegate_op)                                                                                               \
  X(EndSend, suspended)                                                                                              \
  X(GetYieldFromIter, delegate_op)                                                                                   \
  X(GetAwaitable, suspended)                                                                                         \
  X(GetAIter, suspended)                                                                                             \
  X(GetANext, suspended)                                                                                             \
  X(EndAsyncFor, suspended)                                                                                          \
  X(BeforeAsyncWith, suspended)                                                                                      \
  X(AsyncGenWrap, suspended)                                                                                         \
  X(CleanupThrow, suspended)                                                                                         \
  X(RaiseVarargs, raise_op)                                                                                          \
  X(Reraise, raise_op)                                                                                               \
  X(PushExcInfo, handler_op)                                                                                         \
  X(PopExcept, handler_op)                                                                                           \
  X(CheckExcMatch, handler_op)                                                                                       \
  X(CheckEgMatch, unsupported_handling)                                                                                      \
  X(PrepReraiseStar, unsupported_handling)                                                                                   \
  X(BeforeWith, with_op)                                                                                             \
  X(WithExceptStart, with_op)                                                                                        \
  X(PrintExpr, unsupported)                                                                                          \
  X(Intrinsic, unsupported)                                                                                          \
  X(LoadLocals, unsupported)                                                                                         \
  X(BuildInterpolation, unsupported)                                                                                 \
  X(BuildTemplate, unsupported)                                                                                      \
  X(Unknown, unsupported)
// clang-format on

enum class Opcode : uint8_t {
#define FRAMEJIT_OPCODE_ENUM(name, handler) name,
  FRAMEJIT_OPCODES(FRAMEJIT_OPCODE_ENUM)
#undef FRAMEJIT_OPCODE_ENUM
};
std::string_view name_of(Opcode op);

/// Jumps that a round of a loop may end with.
constexpr bool may_end_round(Opcode op) {
  switch (op) {
    case Opcode::Jump:
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue:
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone: return true;
    default: return false;
  }
}

struct Instr {
  Opcode op;
  // LoadGlobal: pushes NULL too. Jumps: backward. CompareOp: makes a bool of it (3.13). LoadSuperAttr: method form.
  // ImportName: lazy (3.15). CallFunctionEx: the mapping may be NULL (3.14).
  bool flag = false;
  int32_t arg = 0;       // as stated above; jumps: index of the target Instr
  uint32_t offset = 0;   // raw code unit where a frame would resume to execute this (KW_NAMES / PRECALL included)
  int32_t kwnames = -1;  // Call: consts index of the keyword names, or -1
  int32_t line = -1, end_line = -1, column = -1, end_column = -1;  // -1: the line table says none
  int16_t depth = -1;                                              // stack depth before it; -1: unreachable
  bool boundary = false;  // may a region begin or end in front of it (splicing rules)?
};

/// Is it the code of a list comprehension (up to 3.11) or of a generator expression?
bool is_comprehension(const PyCodeObject* code);

struct Handler {  // one entry of the exception table, in Instr indices
  uint32_t start, end, target;
  uint16_t depth;
  bool lasti;
  bool of_generator;  // makes a RuntimeError of a StopIteration that leaves a generator (3.12)
};

class FlowMap;
struct RawCode;

class CodeView {
 public:
  enum class Keep : uint8_t { Code, Contents };
  /// Opcodes that are not known become Unknown, and code that no compiler made a single Unknown. The view keeps the
  /// code object alive; with Keep::Contents only its constants and names, for views that hang on the code object
  /// themselves (on a mark of hook.h, say) and would keep it for ever: code() is then for use while the code object
  /// lives.
  static std::shared_ptr<const CodeView> decode(PyCodeObject* code, Keep keep = Keep::Code);

  PyCodeObject* code() const { return code_; }
  std::span<const Instr> instrs() const { return instrs_; }
  std::span<const Handler> handlers() const { return handlers_; }
  /// Index of the instruction at a raw code-unit offset, or -1.
  int at_offset(uint32_t offset) const;
  /// The instruction to go on with behind `i`: where the compiler has copied the end of a function into its paths,
  /// paths go on in the last copy, where they meet.
  uint32_t behind(uint32_t i) const { return merged(i + 1); }
  uint32_t merged(uint32_t i) const { return i < merged_.size() ? merged_[i] : i; }
  /// The innermost handler of the program's own that covers instruction `i`, or null.
  const Handler* handler_of(uint32_t i) const;
  /// May the program go on in this code after instruction `i` has raised? Not where all its handlers do is raise again.
  bool may_catch(uint32_t i) const;

  /// Does anything jump back, or call a comprehension?
  bool may_loop() const { return !loop_ends_.empty(); }
  /// Does a round of a loop begin with instruction `i`?
  bool is_loop_head(uint32_t i) const { return begins_nest(i) && instrs_[i].op != Opcode::Call; }
  /// Does instruction `i` call the function of a list comprehension, or of a generator expression that is the only
  /// argument of the call that follows, or whose items a short loop takes? Its loops are in the code of that function.
  bool calls_comprehension(uint32_t i) const { return begins_nest(i) && instrs_[i].op == Opcode::Call; }
  /// Either of these.
  bool begins_nest(uint32_t i) const { return i < loop_ends_.size() && loop_ends_[i] != kNoLoop; }
  /// From 3.14 on the compiler writes any(), all() and tuple() of a generator expression as a loop, and from 3.15 on
  /// list(). The loop of any() and all() ends at the first item that is true, or false; the others append to a list.
  struct ShortLoop {
    enum Kind : uint8_t { None, Any, All, List } kind = None;
    uint32_t last = 0, found = 0;  // its last instruction, and where it goes on once an item is found
  };
  /// With its head at `i`.
  ShortLoop short_loop_at(uint32_t i) const;
  /// The last instruction of the loop whose head is `i`, with the loops that share its head, or of the comprehension;
  /// `i` if there is none.
  uint32_t last_of_nest(uint32_t i) const { return begins_nest(i) ? loop_ends_[i] : i; }

  /// By instruction: does a loop go on there once it has ended or is left?
  std::vector<bool> behind_loops() const;

  /// Of co_consts; behind these, what instructions hold that need no constant.
  PyObject* constant(int i) const { return PyTuple_GET_ITEM(consts_.get(), i); }
  PyObject* name(int i) const { return PyTuple_GET_ITEM(names_.get(), i); }
  int local_count() const { return static_cast<int>(locals_.size()); }
  PyObject* local_name(int i) const { return locals_[i]; }  // fast locals, cells, free variables: localsplus order
  bool is_cell(int i) const;                                // localsplus slot i holds a cell once the prologue has run
  bool is_free(int i) const;

  /// Made when first asked for.
  const FlowMap& flow_map() const;

  CodeView();
  ~CodeView();

 private:
  void read_instructions(const RawCode& raw);
  void leave_alone();
  void turn_jumps_over_jumps();
  void take_calls_for_loops();
  void merge_copies();
  bool is_copy(uint32_t a, uint32_t b) const;
  void find_loops();
  void find_comprehensions();

  PyCodeObject* code_ = nullptr;
  Ref<> kept_code_, consts_, names_, local_names_, local_kinds_;
  std::vector<Instr> instrs_;
  std::vector<Handler> handlers_;
  std::vector<PyObject*> locals_;  // borrowed from local_names_
  std::vector<int32_t> index_of_;  // raw unit -> Instr
  std::vector<uint32_t> merged_;   // by Instr: itself, or its last copy; empty if there are no copies
  static constexpr uint32_t kNoLoop = UINT32_MAX;
  std::vector<uint32_t> loop_ends_;  // by Instr: see last_of_nest(); empty if there are no loops
  mutable std::unique_ptr<FlowMap> flow_map_;
};

}  // namespace framejit::capture
