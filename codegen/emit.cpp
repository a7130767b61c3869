// emit(): a LoopNest to position-independent bytes, through asmjit's register allocator.
#include "codegen/emit.h"

#include <memory>
#include <new>
#include <string>

#include "codegen/asmjit_shim.h"
#include "codegen/emit_nest.h"
#include "graph/support/check.h"

namespace framejit::codegen {

namespace {

class ErrorRecorder : public asmjit::ErrorHandler {
 public:
  void handleError(asmjit::Error code, const char* message, asmjit::BaseEmitter*) override {
    if (code == asmjit::kErrorOutOfMemory) throw std::bad_alloc();  // what was asked for is not there
    if (text.empty()) text = std::to_string(code) + ": " + message;
  }
  std::string text;
};

/// The first thing in the nest that cannot be emitted, or "".
std::string denied(const LoopNest& nest, Isa isa) {
  if (isa == Isa::None) return "no vector instruction set";
  const auto supported = [](DType t) { return t != DType::BF16 && !graph::is_complex(t); };
  for (const NestOperand& o : nest.operands)
    if (!supported(graph::part_of(o.dtype))) return "operand of " + std::string(graph::name_of(o.dtype));
  for (const Expr& e : nest.body) {
    if (e.kind == ExprKind::Apply) {
      const DType operand = e.op == graph::Op::Where ? e.dtype : e.operand_dtype;
      if (!emits(e.op, operand, e.dtype, nest.o1, isa))
        return std::string(graph::name_of(e.op)) + " on " + std::string(graph::name_of(e.operand_dtype));
    } else if (!supported(e.dtype) || (e.kind == ExprKind::InnerIndex && e.dtype == DType::Bool)) {
      return "value of " + std::string(graph::name_of(e.dtype));
    }
  }
  if (nest.stores.empty()) return "no store";
  if (nest.fold != Fold::None && graph::is_complex(nest.operands[nest.stores[0].operand].dtype) &&
      nest.fold != Fold::PairwiseLeaf && (nest.fold != Fold::Rows || nest.combine != graph::Op::Add))
    return "a fold of complex numbers that is no sum";
  if (nest.guarded && nest.fold != Fold::None) return "a guarded fold";
  if (nest.fold != Fold::None && nest.fold != Fold::PairwiseLeaf) {
    const DType t = nest.body[nest.stores[0].expr].dtype;
    const bool logical = nest.combine == graph::Op::LogicalOr || nest.combine == graph::Op::LogicalAnd;
    if (logical ? t != DType::Bool : !emits(nest.combine, t, t, nest.o1, isa))
      return "fold by " + std::string(graph::name_of(nest.combine)) + " of " + std::string(graph::name_of(t));
  }
  if (nest.fold == Fold::Blocks &&
      (nest.combine != graph::Op::Add || !has_blocks(nest.body[nest.stores[0].expr].dtype)))
    return "a sum in blocks of " + std::string(graph::name_of(nest.body[nest.stores[0].expr].dtype));
  if (nest.fold == Fold::PairwiseLeaf && !graph::is_float(nest.body[nest.stores[0].expr].dtype))
    return "pairwise sum of " + std::string(graph::name_of(nest.body[nest.stores[0].expr].dtype));
  return {};
}

}  // namespace

bool emits(graph::Op op, graph::DType operand, graph::DType result, bool o1, Isa isa) {
  return isa != Isa::None && has_op(op, operand, result, o1);
}

bool has_blocks(graph::DType summed) { return summed == graph::DType::F32 || summed == graph::DType::F64; }

int64_t longest_run(const LoopNest& nest, Isa isa) {
  return int64_t{kBlock} * kBlock * nest_accumulators(nest) * nest_lanes(nest, isa == Isa::Avx512);
}

Expected<KernelCode, std::string> emit(const LoopNest& nest, Isa isa, bool with_listing) {
  use_asmjit_shim();
  if (std::string reason = denied(nest, isa); !reason.empty()) return Unexpected{reason};

  asmjit::CodeHolder code;
  code.init(asmjit::Environment::host());
  asmjit::StringLogger logger;
  if (with_listing) code.setLogger(&logger);
  // Nothing may throw where a code holder and a compiler come together. If there is no memory for that, the compiler
  // cannot be destroyed, as asmjit would take it out of the holder.
  auto compiler = std::make_unique<asmjit::x86::Compiler>();
  if (code.attach(compiler.get()) != asmjit::kErrorOk) {
    static_cast<void>(compiler.release());
    throw std::bad_alloc();
  }
  asmjit::x86::Compiler& cc = *compiler;
  ErrorRecorder errors;
  code.setErrorHandler(&errors);
#ifdef NDEBUG
  const bool validates = with_listing;
#else
  const bool validates = true;
#endif
  if (validates)
    cc.addDiagnosticOptions(asmjit::DiagnosticOptions::kValidateAssembler |
                            asmjit::DiagnosticOptions::kValidateIntermediate);
  NestEmitter emitter(nest, cc, isa == Isa::Avx512);
  emitter.emit_function();
  cc.finalize();
  code.flatten();
  code.resolveUnresolvedLinks();
  FRAMEJIT_CHECK(errors.text.empty(), "asmjit " + errors.text + "\n" + nest.str());
  // Nothing but jumps and reads inside these bytes: they run wherever they are put.
  FRAMEJIT_CHECK(!code.hasUnresolvedLinks() && code.relocEntries().empty(), nest.str());

  KernelCode out;
  out.name = nest.name;
  out.bytes.resize(code.codeSize());
  code.copyFlattenedData(out.bytes.data(), out.bytes.size());
  if (with_listing) out.listing.assign(logger.data(), logger.dataSize());
  return out;
}

}  // namespace framejit::codegen
