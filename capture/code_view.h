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

// X(Name): canonical opcodes. What arg means stands behind each.
// clang-format off: one line for each kind of instruction
#define FRAMEJIT_OPCODES(X)                                                                                             \
  X(Nop) X(Resume) /* where */ X(PushNull) X(PopTop) X(Copy) /* i */ X(Swap) /* i */                                    \
  X(LoadConst) /* index of CodeView::constant() */ X(LoadFast) /* local */ X(LoadFastCheck) X(LoadFastAndClear) X(StoreFast)             \
  X(DeleteFast) X(MakeCell) X(CopyFreeVars) X(ReturnGenerator) X(LoadClosure) X(LoadDeref) X(StoreDeref) X(DeleteDeref) \
  X(LoadClassDeref) X(LoadGlobal) /* name; flag: push NULL first */ X(StoreGlobal) X(DeleteGlobal) X(LoadName)          \
  X(StoreName) X(DeleteName) X(LoadBuildClass) X(LoadAssertionError) X(SetupAnnotations) X(ImportName) X(ImportFrom)    \
  X(ImportStar) X(LoadAttr) /* name */ X(LoadMethod) /* name; pushes method,self or NULL,attr */                       \
  X(LoadSuperAttr) /* name; flag: as LoadMethod */ X(LoadSpecial) /* 0: __enter__, 1: __exit__, 2, 3: of async with */  \
  X(StoreAttr) X(DeleteAttr) X(BinarySubscr) X(StoreSubscr) X(DeleteSubscr) X(BinarySlice) X(StoreSlice)                \
  X(UnaryPositive) X(UnaryNegative) X(UnaryNot) X(UnaryInvert) X(ToBool) X(BinaryOp) /* NB_* kind */                    \
  X(CompareOp) /* Py_LT.. Py_GE */ X(IsOp) /* 1: is not */ X(ContainsOp) /* 1: not in */                                \
  X(BuildTuple) X(BuildList) X(BuildSet) X(BuildMap) X(BuildConstKeyMap) X(BuildString) X(BuildSlice) X(ListAppend)     \
  X(SetAdd) X(MapAdd) X(ListExtend) X(SetUpdate) X(DictUpdate) X(DictMerge) X(ListToTuple) X(FormatValue)               \
  X(UnpackSequence) X(UnpackEx) X(GetLen) X(MatchMapping) X(MatchSequence) X(MatchKeys) X(MatchClass)                   \
  X(Jump) /* target */ X(PopJumpIfFalse) X(PopJumpIfTrue) X(PopJumpIfNone) X(PopJumpIfNotNone) X(JumpIfFalseOrPop)      \
  X(JumpIfTrueOrPop) X(GetIter) X(ForIter) /* target */ X(EndFor) X(PopIter)                                                     \
  X(Call) /* positional + keyword count; kwnames */ X(CallFunctionEx) /* flag 1: kwargs */ X(MakeFunction) /* flags */  \
  X(SetFunctionAttribute) X(ReturnValue) X(ReturnConst) X(YieldValue) X(Send) X(EndSend) X(GetYieldFromIter)            \
  X(GetAwaitable) X(GetAIter) X(GetANext) X(EndAsyncFor) X(BeforeAsyncWith) X(AsyncGenWrap) X(CleanupThrow)             \
  X(RaiseVarargs) X(Reraise) X(PushExcInfo) X(PopExcept) X(CheckExcMatch) X(CheckEgMatch) X(PrepReraiseStar)            \
  X(BeforeWith) X(WithExceptStart) X(PrintExpr) X(Intrinsic) X(LoadLocals) X(BuildInterpolation) X(BuildTemplate) X(Unknown)
// clang-format on

enum class Opcode : uint8_t {
#define FRAMEJIT_OPCODE_ENUM(name) name,
  FRAMEJIT_OPCODES(FRAMEJIT_OPCODE_ENUM)
#undef FRAMEJIT_OPCODE_ENUM
};
std::string_view name_of(Opcode op);

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
  void merge_copies();
  bool is_copy(uint32_t a, uint32_t b) const;

  PyCodeObject* code_ = nullptr;
  Ref<> kept_code_, consts_, names_, local_names_, local_kinds_;
  std::vector<Instr> instrs_;
  std::vector<Handler> handlers_;
  std::vector<PyObject*> locals_;  // borrowed from local_names_
  std::vector<int32_t> index_of_;  // raw unit -> Instr
  std::vector<uint32_t> merged_;   // by Instr: itself, or its last copy; empty if there are no copies
  mutable std::unique_ptr<FlowMap> flow_map_;
};

}  // namespace framejit::capture
