// RawCode: a code object's instructions one by one, with position, handler and stack depth, before they are made
// canonical. CodeView (reading) and CodeWriter (writing) both start from it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "capture/opcodes.h"
#include "capture/py/ref.h"

namespace framejit::capture {

/// Thrown for code that no compiler made: its bytes are no instructions, or its jumps and tables lead nowhere.
class StrangeCode : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where an instruction stands in the source; -1: not known.
struct Position {
  int32_t line = -1, end_line = -1, column = -1, end_column = -1;
  bool operator==(const Position&) const = default;
};

struct RawInstr {
  uint8_t op = 0;
  uint8_t prefixes = 0;   // EXTENDED_ARG units in front of it
  uint8_t caches = 0;     // cache units behind it
  bool boundary = false;  // may something be inserted in front of it?
  int16_t depth = -1;     // stack depth before it; -1: unreachable
  uint32_t arg = 0;
  uint32_t offset = 0;   // in code units, of the first prefix
  int32_t target = -1;   // jumps: index of the instruction gone to; of ArgForm::Back, the one named
  int32_t handler = -1;  // index into RawCode::handlers
  Position position;

  uint32_t next_offset() const { return offset + prefixes + 1u + caches; }
};

/// One entry of the exception table; [start, end) and target are instruction indices.
struct RawHandler {
  uint32_t start, end, target;
  uint16_t depth;
  bool lasti;
};

struct RawCode {
  std::vector<RawInstr> instrs;
  std::vector<RawHandler> handlers;
  std::vector<int32_t> index_of;  // code unit -> instruction that starts there, or -1

  explicit RawCode(PyCodeObject* code);

 private:
  void read_instructions(PyCodeObject* code);
  void read_positions(PyCodeObject* code);
  void read_handlers(PyCodeObject* code);
  void find_depths();
  void find_boundaries();
};

}  // namespace framejit::capture
