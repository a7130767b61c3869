// SplicedSites: the spliced code of a code object, and the places in it at which regions begin.
//
// The code is owned by who runs it, and owns the state that its sites ask.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "capture/splice.h"
#include "ext/dispatch/code_unit.h"
#include "ext/dispatch/compile_site.h"

namespace framejit::ext::dispatch {

class SplicedSites {
 public:
  /// Null: the code cannot be spliced, which is not tried again.
  std::unique_ptr<capture::SplicedCode> splice(CodeUnit& unit, std::shared_ptr<capture::SiteHandler> handler);
  void forget() { code_ = nullptr; }
  const capture::SplicedCode* code() const { return code_; }
  bool is_unsplicable() const { return unsplicable_; }

  /// The code to run instead of the user's, or null: there is none, or all of its sites are dormant. Counts a call;
  /// sites that gave nothing are tried again after some. `compiled`: something was, once.
  PyCodeObject* replacement(const CodeUnit& unit, bool compiled);
  /// Have there been enough calls to tell what is compiled?
  bool is_tried() const { return calls_ > kTries; }
  void count_anew() { calls_ = 0; }

  /// By Instr index; null: no region begins there.
  CompileSite* at(uint32_t site) const { return site < places_.size() ? places_[site].get() : nullptr; }
  std::size_t size() const { return places_.size(); }
  void set_dormant(CompileSite& place, uint32_t site, bool dormant);
  std::size_t dormant_count() const { return dormant_; }

 private:
  static constexpr int64_t kTries = 24;

  void wake();
  bool has_nothing_awake(const CodeUnit& unit, bool compiled) const;

  capture::SplicedCode* code_ = nullptr;
  std::vector<std::unique_ptr<CompileSite>> places_;
  int64_t calls_ = 0;
  std::size_t dormant_ = 0;
  bool unsplicable_ = false;
};

}  // namespace framejit::ext::dispatch
