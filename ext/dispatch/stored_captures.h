// Captures in the disk cache: what another process has captured and compiled runs here without either.
//
// A file holds what captures of one code object came to, for calls with such arguments: by place, an entry, or that
// nothing was compiled there. An entry is the guards of a region, its recipes, its graph and its program or loop.
// Objects stand in it as values, by names in modules that are known, or by where the guards find them. Of code that was
// captured, and of classes, it holds all that they consist of: a function with one other instruction, or a class with
// one other method, is another one. What was read is found again at the same places, must be equal to what the file
// says, and is guarded as in the process that made the file. What has anything else in it is not kept.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/break.h"
#include "capture/splice.h"
#include "codegen/kernel.h"
#include "ext/region/compiled_region.h"

namespace framejit::ext::dispatch {

class CodeState;
struct CompileSite;

/// The result of a capture.
struct StoredOutcome {
  std::shared_ptr<region::Entry> entry;  // null: nothing was compiled
  double worth = 0, worth_soon = 0;      // see region::worth
  std::vector<capture::Break> breaks;
  uint64_t work = 0;  // see CaptureOutcome
  bool array_work = false;
};

class StoredCaptures {
 public:
  static constexpr int32_t kWhole = -1;  // the place of whole calls; others are those of sites, by instruction

  /// For the code of `state`, of which a call begins with `frame`: the first one that is captured. Null: captures are
  /// not kept, or what this process knows of the function, or what it was told, has a say in them.
  static std::unique_ptr<StoredCaptures> open(CodeState& state, const CompileSite& whole,
                                              const capture::FrameView& frame);

  /// May what this process finds out at the place be left to the file, and be kept in it?
  static bool covers(CodeState& state, const CompileSite& place);

  /// `options`: for an entry, which runs a whole call or does not.
  std::optional<StoredOutcome> find(CodeState& state, int32_t place, const capture::FrameView& frame,
                                    const std::function<region::CompileOptions(bool is_call)>& options);
  /// Before the entry is inserted. Kept once write() is called.
  void add(CodeState& state, int32_t place, const capture::FrameView& frame, const StoredOutcome& outcome);
  void write();

 private:
  StoredCaptures(codegen::KernelStore& store, std::string key) : store_(store), key_(std::move(key)) {}
  bool read();

  codegen::KernelStore& store_;
  const std::string key_;
  codegen::KernelCode file_;  // as it was read
  std::map<int32_t, std::string> added_;
  std::map<int32_t, std::string_view> records_;  // of the file, or added
  bool changed_ = false, is_new_ = false;        // since the last write(); the file was not there
};

}  // namespace framejit::ext::dispatch
