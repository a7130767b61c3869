// Encoding of instructions, line table and exception table.
#include "capture/code_writer.h"

#include <algorithm>

#include "capture/py/cpython/facts.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

uint8_t prefixes_for(uint32_t arg) {
  if (arg > 0xffffff) return 3;
  if (arg > 0xffff) return 2;
  return arg > 0xff ? 1 : 0;
}

uint8_t caches_of(const CodeItem& item) { return opcode_table()[item.op].caches; }

/// Writes line table entries; see Objects/locations.md of CPython and write_location_info_entry() of its compiler.
class LocationWriter {
 public:
  LocationWriter(int line, std::size_t items) : line_(line) { out_.reserve(4 * items); }

  void add(const Position& position, uint32_t units) {
    while (units > 8) {
      entry(position, 8);
      units -= 8;
    }
    if (units > 0) entry(position, units);
  }
  std::string take() const { return {out_.begin(), out_.end()}; }

 private:
  void entry(const Position& p, uint32_t units) {
    if (p.line < 0) return head(15, units);
    const int32_t delta = p.line - line_;
    const bool one_line = p.end_line == p.line || p.end_line == -1;
    if (p.column < 0 || p.end_column < 0) {
      if (one_line) {
        head(13, units);
        signed_varint(delta);
        line_ = p.line;
        return;
      }
    } else if (p.end_line == p.line) {
      if (delta == 0 && p.column < 80 && p.end_column >= p.column && p.end_column - p.column < 16) {
        head(static_cast<unsigned>(p.column >> 3), units);
        byte(static_cast<unsigned>((p.column & 7) << 4 | (p.end_column - p.column)));
        return;
      }
      if (delta >= 0 && delta < 3 && p.column < 128 && p.end_column < 128) {
        head(static_cast<unsigned>(10 + delta), units);
        byte(static_cast<unsigned>(p.column));
        byte(static_cast<unsigned>(p.end_column));
        line_ = p.line;
        return;
      }
    }
    head(14, units);
    signed_varint(delta);
    varint(static_cast<uint32_t>(p.end_line - p.line));
    varint(static_cast<uint32_t>(p.column + 1));
    varint(static_cast<uint32_t>(p.end_column + 1));
    line_ = p.line;
  }

  void byte(unsigned value) { out_.push_back(static_cast<uint8_t>(value)); }
  void head(unsigned form, uint32_t units) { byte(0x80 | form << 3 | (units - 1)); }
  void varint(uint32_t value) {
    for (; value >= 64; value >>= 6) byte(64 | (value & 63));
    byte(value);
  }
  void signed_varint(int32_t value) {
    varint(value < 0 ? (0u - static_cast<uint32_t>(value)) << 1 | 1 : static_cast<uint32_t>(value) << 1);
  }

  std::vector<uint8_t> out_;
  int32_t line_;
};

/// Big end first, six bits a byte; the first byte of an entry carries bit 7.
void put_handler_number(std::string& out, uint32_t value, unsigned mark) {
  for (int shift = 30; shift > 0; shift -= 6)
    if (value >> shift) {
      out.push_back(static_cast<char>(((value >> shift) & 63) | 64 | mark));
      mark = 0;
    }
  out.push_back(static_cast<char>((value & 63) | mark));
}

}  // namespace

CodeWriter CodeWriter::copy_of(const RawCode& raw) {
  CodeWriter writer;
  for (const RawInstr& instr : raw.instrs) {
    // As many prefixes as the compiler gave it: sizes depend on each other, and there it may not have found the least
    // ones.
    writer.items.push_back({instr.op, instr.arg, instr.target, instr.handler, instr.position, instr.prefixes});
  }
  for (const RawHandler& handler : raw.handlers)
    writer.handlers.push_back({handler.target, handler.depth, handler.lasti});
  return writer;
}

WrittenCode CodeWriter::write(int firstlineno) const {
  Layout layout = lay_out();
  WrittenCode out;
  out.code = write_units(layout);
  out.linetable = write_positions(layout, firstlineno);
  out.exceptiontable = write_handlers(layout);
  layout.offsets.pop_back();
  out.offsets = std::move(layout.offsets);
  return out;
}

// Sizes only grow from round to round, so this ends; the compiler's own loop comes to the same sizes.
CodeWriter::Layout CodeWriter::lay_out() const {
  const std::size_t count = items.size();
  Layout layout;
  layout.offsets.resize(count + 1);
  layout.args.resize(count);
  layout.prefixes.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    layout.args[i] = items[i].target >= 0 ? 0 : items[i].arg;
    layout.prefixes[i] = std::max(items[i].prefixes, prefixes_for(layout.args[i]));
  }
  for (bool stable = false; !stable;) {
    stable = true;
    uint32_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      layout.offsets[i] = at;
      at += layout.prefixes[i] + 1u + caches_of(items[i]);
    }
    layout.offsets[count] = at;
    for (std::size_t i = 0; i < count; ++i) {
      const CodeItem& item = items[i];
      if (item.target < 0) continue;
      const uint32_t from = layout.offsets[i + 1];
      const uint32_t to = layout.offsets[item.target];
      const bool forward = opcode_table()[item.op].form == ArgForm::Forward;
      FRAMEJIT_CHECK(forward == (to >= from), "direction of a jump");
      layout.args[i] = forward ? to - from : from - to;
      const uint8_t prefixes = prefixes_for(layout.args[i]);
      if (prefixes > layout.prefixes[i]) {
        layout.prefixes[i] = prefixes;
        stable = false;
      }
    }
  }
  return layout;
}

std::string CodeWriter::write_units(const Layout& layout) const {
  std::string out(2 * layout.offsets.back(), '\0');
  char* at = out.data();
  const auto unit = [&at](int op, uint32_t arg) {
    *at++ = static_cast<char>(op);
    *at++ = static_cast<char>(arg & 0xff);
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (int k = layout.prefixes[i]; k > 0; --k) unit(kRaw.extended_arg, layout.args[i] >> (8 * k));
    unit(items[i].op, layout.args[i]);
    at += 2 * caches_of(items[i]);
  }
  return out;
}

std::string CodeWriter::write_positions(const Layout& layout, int firstlineno) const {
  LocationWriter writer(firstlineno, items.size());
  for (std::size_t i = 0; i < items.size();) {
    std::size_t end = i + 1;
    if (py::kJoinsLocations)
      while (end < items.size() && items[end].position == items[i].position) ++end;
    writer.add(items[i].position, layout.offsets[end] - layout.offsets[i]);
    i = end;
  }
  return writer.take();
}

std::string CodeWriter::write_handlers(const Layout& layout) const {
  std::string out;
  for (std::size_t i = 0; i < items.size();) {
    const int32_t current = items[i].handler;
    std::size_t end = i + 1;
    while (end < items.size() && items[end].handler == current) ++end;
    if (current >= 0) {
      const ItemHandler& handler = handlers[current];
      put_handler_number(out, layout.offsets[i], 0x80);
      put_handler_number(out, layout.offsets[end] - layout.offsets[i], 0);
      put_handler_number(out, layout.offsets[handler.target], 0);
      put_handler_number(out, static_cast<uint32_t>(handler.depth) << 1 | (handler.lasti ? 1 : 0), 0);
    }
    i = end;
  }
  return out;
}

}  // namespace framejit::capture
