// Addresses that machine code loads: a table after the code has them, so another process can put in its own.
#pragma once

#include <asmjit/x86.h>

#include <utility>
#include <vector>

namespace framejit::codegen {

class CodeAddresses {
 public:
  explicit CodeAddresses(asmjit::x86::Compiler& cc) : cc_(cc) {}

  void load(const asmjit::x86::Gp& to, const void* address) { cc_.mov(to, asmjit::x86::qword_ptr(label_of(address))); }
  template <class Function>
  void load(const asmjit::x86::Gp& to, Function* function)
    requires std::is_function_v<Function>
  {
    load(to, reinterpret_cast<const void*>(function));
  }

  /// After the function, at the end.
  void emit_table() {
    if (!known.empty()) cc_.align(asmjit::AlignMode::kData, sizeof(void*));
    for (const auto& [address, label] : known) {
      cc_.bind(label);
      cc_.embedUInt64(reinterpret_cast<uint64_t>(address));
    }
  }

  std::vector<std::pair<const void*, asmjit::Label>> known;

 private:
  asmjit::Label label_of(const void* address) {
    for (const auto& [of, label] : known)
      if (of == address) return label;
    return known.emplace_back(address, cc_.newLabel()).second;
  }

  asmjit::x86::Compiler& cc_;
};

}  // namespace framejit::codegen
