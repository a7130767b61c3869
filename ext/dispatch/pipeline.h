// The way from bytecode to an entry:
//
//     may_compile      is another entry wanted, and is there time for it?
//     compile_at       captures: a loop, a recursion or a region; compiles it, if it saves more than it costs
//     Entry::make      region/: fold, optimize -> fuse -> lower -> plan (compile.cpp), link
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ext/dispatch/code_state.h"

namespace framejit::ext::dispatch {

struct CompileResult {
  std::shared_ptr<region::Entry> entry;         // null: nothing came of it, the breaks say why
  std::shared_ptr<region::Entry> first_region;  // of a whole call: what comes before the break
  std::vector<capture::Break> breaks;
  bool interrupted = false;  // by a signal: as if there had been no attempt
  bool unprofitable = false;
  bool returned = false;  // the call was followed to its end
};

/// No entry of the place fits: may another one be compiled? False with an exception set under a stance that forbids it.
bool may_compile(CodeState& state, CompileSite& place, const guards::LiveSlots& live);
/// `whole`: from the function's start, for a whole call.
CompileResult compile_at(CodeState& state, CompileSite& place, uint32_t instr, const capture::FrameView& frame,
                         bool whole);
/// A function of numbers and arrays as one piece of machine code, to be entered like a loop at its first instruction.
/// The failure is a sentence.
Expected<std::shared_ptr<region::Entry>, std::string> compile_function(CodeState& state,
                                                                       const capture::FrameView& frame);
/// Is the site in a loop that is going to be compiled as a loop, once it has had more rounds?
bool waits_for_loop(CodeState& state, const CompileSite& place, uint32_t site, const capture::FrameView& frame);

}  // namespace framejit::ext::dispatch
