// The code of a thunk.
#include "codegen/thunk.h"

#include <asmjit/x86.h>

#include <cstddef>

#include "codegen/asmjit_shim.h"
#include "graph/support/check.h"

namespace framejit::codegen {

KernelCode emit_thunk(ThunkTarget target, void* context) {
  using namespace asmjit::x86;
  use_asmjit_shim();
  asmjit::CodeHolder code;
  code.init(asmjit::Environment::host());
  Assembler a(&code);
  constexpr Gp kIntegers[] = {rdi, rsi, rdx, rcx, r8, r9};
  constexpr int kBytes = (sizeof(ArgumentRegisters) + 15) / 16 * 16;
  constexpr int kFloats = offsetof(ArgumentRegisters, floats);
  a.endbr64();
  a.push(rbp);
  a.mov(rbp, rsp);
  a.sub(rsp, kBytes);
  for (int i = 0; i < ArgumentRegisters::kIntegers; ++i) a.mov(qword_ptr(rsp, 8 * i), kIntegers[i]);
  for (int i = 0; i < ArgumentRegisters::kFloats; ++i)
    a.movsd(qword_ptr(rsp, kFloats + 8 * i), asmjit::x86::xmm(static_cast<uint32_t>(i)));
  a.mov(rdi, reinterpret_cast<uint64_t>(context));
  a.mov(rsi, rsp);
  a.mov(rax, reinterpret_cast<uint64_t>(target));
  a.call(rax);
  a.mov(rax, qword_ptr(rsp));
  a.movsd(xmm0, qword_ptr(rsp, kFloats));
  a.leave();
  a.ret();
  code.flatten();
  FRAMEJIT_CHECK(code.relocEntries().empty(), "a thunk");
  KernelCode out;
  out.name = "cfunc";
  out.bytes.resize(code.codeSize());
  code.copyFlattenedData(out.bytes.data(), out.bytes.size());
  return out;
}

}  // namespace framejit::codegen
