// GuardProgram: the guards of a region as a flat program over the live slots of a frame.
//
// A source (capture/source.h) is fetched once, into a slot; guards are tests on slots, cheapest and most telling first.
// The program also fetches what the region needs beside its guards (inputs, objects that recipes name), binds the
// graph's symbols and leaves pointers to the data of the inputs. It runs no Python code and creates no objects.
//
//     fetch.globals @g0 {np, DT}      # skipped while the dict's version tag is the one seen last
//     type      local0  ndarray f64 [s0, 64] C
//     symbol    local1  -> s1
//     relation  s0 == s1
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/guard.h"
#include "capture/session.h"
#include "capture/source.h"
#include "capture/splice.h"
#include "graph/support/expected.h"

namespace framejit::ext::guards {

using capture::LiveSlots;

/// Where an object is found while the program runs.
struct GuardOperand {
  enum Base : uint8_t { Local, Stack, Slot, Fixed, Function, Word };
  Base base = Local;
  uint16_t index = 0;
};

/// What a run of the program leaves behind; the memory is the caller's (sizes: the program's).
struct Matched {
  const LiveSlots* live;
  PyObject** slots;  // fetched objects, borrowed
  int64_t* symbols;
  char** params;     // data of the inputs, in their order
  int64_t* scalars;  // two words for each input whose value has no address of its own
};

/// The argument that most calls bring: an ndarray of known dimensions, C-contiguous, in a local slot. Tested in front
/// of the program proper; all that is compared lies side by side.
struct KnownArray {
  static constexpr int kMaxRank = 4;
  PyTypeObject* type;
  void* descr;
  int type_number;
  int flags;  // that must be set, contiguity among them
  int rank;
  uint16_t local;
  uint16_t input;
  uint32_t guard;
  intptr_t dims[kMaxRank];
};

/// Why an entry did not fit.
struct GuardFailure {
  std::string guard;     // x.shape[0] == 64
  std::string expected;  // "64"
  std::string found;     // "96"
  uint32_t location = 0;
  std::string reason;
  std::vector<std::string> varied;  // names for the Varied profile: what would be symbolic in another entry
};

class GuardProgram {
 public:
  /// `sources`: what recipes and effects fetch. The guards, which do not move, and sources are kept alive by the caller
  /// (the region). Fails with a reason on what cannot be tested, so that the region is not used.
  static Expected<std::unique_ptr<GuardProgram>, std::string> make(const std::vector<capture::Guard>& guards,
                                                                   const std::vector<capture::Input>& inputs,
                                                                   const std::vector<capture::SourceRef>& sources,
                                                                   const graph::ShapeEnv& shapes, int local_count);
  ~GuardProgram();

  std::size_t slot_count() const { return slots_; }
  std::size_t symbol_count() const { return symbols_; }
  std::size_t input_count() const { return input_operands_.size(); }

  /// Do all guards hold? Leaves no Python exception.
  bool match(Matched& m) const noexcept { return run(m) < 0; }
  /// Runs the program again and says which guard failed; nothing where all hold.
  std::optional<GuardFailure> explain(const LiveSlots& live) const;

  /// As explain(), for a guard that holds and is let fail: what it guards is taken to vary.
  GuardFailure explain_forced(int guard, const LiveSlots& live) const;

  /// Where a source given to make() is found after a match.
  GuardOperand operand_of(const capture::SourceRef& source) const;
  PyObject* object(const Matched& m, GuardOperand o) const {
    switch (o.base) {
      case GuardOperand::Local: return m.live->locals[o.index];
      case GuardOperand::Stack: return m.live->stack[o.index];
      case GuardOperand::Word: return m.live->stack.word(o.index);
      case GuardOperand::Slot: return m.slots[o.index];
      case GuardOperand::Function: return m.live->function;
      case GuardOperand::Fixed: break;
    }
    return fixed_[o.index];
  }
  /// Might the region have looked at this object, or hand it on?
  bool sees(const Matched& m, const PyObject* object) const;
  /// Where the inputs are found.
  const std::vector<GuardOperand>& input_operands() const { return input_operands_; }

 private:
  struct Impl;
  friend class GuardCompiler;
  GuardProgram();
  static constexpr int kKnown = 1 << 24;  // result of run: this plus the number of the KnownArray that did not fit
  int run(Matched& m) const noexcept;     // the instruction that failed, or -1

  std::unique_ptr<Impl> impl_;
  std::vector<KnownArray> known_;
  std::size_t slots_ = 0, symbols_ = 0;
  std::vector<PyObject*> fixed_;  // borrowed from sources
  std::vector<GuardOperand> input_operands_;
};

}  // namespace framejit::ext::guards
