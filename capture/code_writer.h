// CodeWriter: instructions to code, line table and exception table, byte for byte as CPython's compiler writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/code_raw.h"

namespace framejit::capture {

/// An instruction to write. Jumps name the item that they go to.
struct CodeItem {
  uint8_t op;
  uint32_t arg = 0;
  int32_t target = -1;   // item index; arg is then computed
  int32_t handler = -1;  // index into CodeWriter::handlers
  Position position;
  uint8_t prefixes = 0;  // at least so many EXTENDED_ARG
};

struct ItemHandler {
  uint32_t target;  // item index
  uint16_t depth;
  bool lasti;
};

struct WrittenCode {
  std::string code, linetable, exceptiontable;
  std::vector<uint32_t> offsets;  // item -> code unit of its first prefix
};

class CodeWriter {
 public:
  std::vector<CodeItem> items;
  std::vector<ItemHandler> handlers;

  /// Items and handlers of `raw`, nothing inserted.
  static CodeWriter copy_of(const RawCode& raw);

  WrittenCode write(int firstlineno) const;

 private:
  struct Layout {
    std::vector<uint32_t> offsets;  // one more than items: the end
    std::vector<uint32_t> args;
    std::vector<uint8_t> prefixes;
  };
  Layout lay_out() const;
  std::string write_units(const Layout& layout) const;
  std::string write_positions(const Layout& layout, int firstlineno) const;
  std::string write_handlers(const Layout& layout) const;
};

}  // namespace framejit::capture
