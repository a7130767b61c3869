// Decoding of co_code, co_linetable and co_exceptiontable; stack depths by flow analysis; where insertions are legal.
#include "capture/code_raw.h"

#include "capture/py/cpython/facts.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

void require(bool condition, const char* why) {
  if (!condition) [[unlikely]]
    throw StrangeCode(why);
}

/// Reads the bytes of a table that CPython made.
class ByteReader {
 public:
  explicit ByteReader(PyObject* bytes)
      : at_(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes))), end_(at_ + PyBytes_GET_SIZE(bytes)) {}

  bool done() const { return at_ == end_; }
  uint8_t byte() {
    require(at_ < end_, "table of a code object ends early");
    return *at_++;
  }
  // Line table: little end first, bit 6 continues.
  uint32_t varint() {
    uint32_t value = 0;
    for (int shift = 0;; shift += 6) {
      uint8_t b = byte();
      value |= static_cast<uint32_t>(b & 63) << shift;
      if (!(b & 64)) return value;
    }
  }
  int32_t signed_varint() {
    uint32_t value = varint();
    return (value & 1) ? -static_cast<int32_t>(value >> 1) : static_cast<int32_t>(value >> 1);
  }
  // Exception table: big end first; bit 7 marks the start of an entry.
  uint32_t big_varint() {
    uint8_t b = byte();
    uint32_t value = b & 63;
    while (b & 64) {
      b = byte();
      value = value << 6 | (b & 63);
    }
    return value;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

bool is_jump(ArgForm form) { return form == ArgForm::Forward || form == ArgForm::Backward; }

bool ends_flow(Opcode op) {
  switch (op) {
    case Opcode::Jump:
    case Opcode::ReturnValue:
    case Opcode::ReturnConst:
    case Opcode::RaiseVarargs:
    case Opcode::Reraise: return true;
    default: return false;
  }
}

}  // namespace

RawCode::RawCode(PyCodeObject* code) {
  read_instructions(code);
  read_positions(code);
  read_handlers(code);
  find_depths();
  find_boundaries();
}

void RawCode::read_instructions(PyCodeObject* code) {
  Ref<> bytes = Ref<>::steal(PyCode_GetCode(code));  // specialisations and instrumentation undone
  FRAMEJIT_CHECK(bytes, "co_code");
  const auto* units = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes.get()));
  const auto count = static_cast<uint32_t>(PyBytes_GET_SIZE(bytes.get()) / 2);
  index_of.assign(count + 1, -1);
  for (uint32_t at = 0; at < count;) {
    RawInstr instr;
    instr.offset = at;
    while (units[2 * at] == kRaw.extended_arg && at + 1 < count) {
      instr.arg = (instr.arg | units[2 * at + 1]) << 8;
      ++instr.prefixes;
      ++at;
    }
    instr.op = units[2 * at];
    instr.arg |= units[2 * at + 1];
    instr.caches = opcode_table()[instr.op].caches;
    index_of[instr.offset] = static_cast<int32_t>(instrs.size());
    at = instr.next_offset();
    instrs.push_back(instr);
  }
  for (RawInstr& instr : instrs) {
    const ArgForm form = opcode_table()[instr.op].form;
    if (!is_jump(form) && form != ArgForm::Back) continue;
    const uint32_t to = form == ArgForm::Forward ? instr.next_offset() + instr.arg : instr.next_offset() - instr.arg;
    require(to < count && index_of[to] >= 0, "jump into the middle of an instruction");
    require(form != ArgForm::Backward || to < instr.next_offset(), "jump back that goes nowhere");
    instr.target = index_of[to];
  }
}

// The format: Objects/locations.md of CPython.
void RawCode::read_positions(PyCodeObject* code) {
  ByteReader table(code->co_linetable);
  int32_t line = code->co_firstlineno;
  uint32_t unit = 0;
  while (!table.done()) {
    const uint8_t first = table.byte();
    const uint32_t length = (first & 7u) + 1;
    const unsigned form = (first >> 3) & 15;
    Position position;
    if (form == 15) {
      // no location
    } else if (form == 14) {
      line += table.signed_varint();
      position.line = line;
      position.end_line = line + static_cast<int32_t>(table.varint());
      position.column = static_cast<int32_t>(table.varint()) - 1;
      position.end_column = static_cast<int32_t>(table.varint()) - 1;
    } else if (form == 13) {
      line += table.signed_varint();
      position.line = position.end_line = line;
    } else if (form >= 10) {
      line += static_cast<int32_t>(form) - 10;
      position.line = position.end_line = line;
      position.column = table.byte();
      position.end_column = table.byte();
    } else {
      const uint8_t second = table.byte();
      position.line = position.end_line = line;
      position.column = static_cast<int32_t>(form * 8 + (second >> 4));
      position.end_column = position.column + (second & 15);
    }
    for (uint32_t i = 0; i < length; ++i, ++unit)
      if (unit < index_of.size() && index_of[unit] >= 0) instrs[index_of[unit]].position = position;
  }
}

void RawCode::read_handlers(PyCodeObject* code) {
  ByteReader table(code->co_exceptiontable);
  while (!table.done()) {
    const uint32_t start = table.big_varint();
    const uint32_t end = start + table.big_varint();
    const uint32_t target = table.big_varint();
    const uint32_t depth = table.big_varint();
    require(start <= end && end < index_of.size() && target < index_of.size() && index_of[start] >= 0 &&
                index_of[target] >= 0,
            "exception table points into the middle of an instruction");
    const uint32_t last = index_of[end] >= 0 ? static_cast<uint32_t>(index_of[end]) : instrs.size();
    RawHandler handler{static_cast<uint32_t>(index_of[start]), last, static_cast<uint32_t>(index_of[target]),
                       static_cast<uint16_t>(depth >> 1), (depth & 1) != 0};
    for (uint32_t i = handler.start; i < handler.end; ++i) instrs[i].handler = static_cast<int32_t>(handlers.size());
    handlers.push_back(handler);
  }
}

void RawCode::find_depths() {
  constexpr int kMostDepth = 30000;  // the effect of what is no opcode is beyond it too
  std::vector<uint32_t> work;
  auto reach = [&](uint32_t i, int64_t depth) {
    if (i >= instrs.size() || instrs[i].depth >= 0) return;
    require(depth >= 0 && depth <= kMostDepth, "stack depth out of range");
    instrs[i].depth = static_cast<int16_t>(depth);
    work.push_back(i);
  };
  reach(0, 0);
  while (!work.empty()) {
    const uint32_t i = work.back();
    work.pop_back();
    const RawInstr& instr = instrs[i];
    const int64_t depth = instr.depth;
    if (instr.handler >= 0) {
      const RawHandler& handler = handlers[instr.handler];
      reach(handler.target, handler.depth + handler.lasti + 1);
    }
    const Opcode op = opcode_table()[instr.op].op;
    if (instr.target >= 0 && is_jump(opcode_table()[instr.op].form))
      reach(instr.target, depth + PyCompile_OpcodeStackEffectWithJump(instr.op, static_cast<int>(instr.arg), 1));
    if (ends_flow(op)) continue;
    // The table says 0 of RETURN_GENERATOR; the resumed generator finds the value sent.
    const int effect = instr.op == kRaw.return_generator
                           ? 1
                           : PyCompile_OpcodeStackEffectWithJump(instr.op, static_cast<int>(instr.arg), 0);
    reach(i + 1, depth + effect);
  }
}

// The rules of splicing: nothing in the prologue, inside a call, around suspension points (gen.throw and gi_yieldfrom
// look at the neighbours of the instruction a generator is suspended at), or where the first instruction of a handler
// must be.
void RawCode::find_boundaries() {
  bool prologue = true;
  for (uint32_t i = 0; i < instrs.size(); ++i) {
    RawInstr& instr = instrs[i];
    const int op = instr.op;
    const int before = i > 0 ? instrs[i - 1].op : kNoOpcode;
    if (!prologue) {
      bool legal = instr.depth >= 0;
      legal &= op != kRaw.resume && op != kRaw.send && op != kRaw.jump_backward_no_interrupt;
      legal &= op != kRaw.push_exc_info && op != kRaw.end_async_for && op != kRaw.cleanup_throw && op != kRaw.end_for &&
               op != kRaw.end_send;
      legal &= op != kRaw.pop_iter && op != kRaw.not_taken;
      if constexpr (py::kLoopEndInstructions > 1) legal &= !(before == kRaw.end_for && op == kRaw.pop_top);
      if constexpr (py::kKeepsSpecialCallsTogether) legal &= before != kRaw.load_special;
      legal &= !(before == kRaw.send && op == kRaw.yield_value);
      legal &= !(op == kRaw.precall && before == kRaw.kw_names);
      legal &= !(op == kRaw.call && (before == kRaw.precall || before == kRaw.kw_names));
      legal &= op != kRaw.call_kw;  // the names are pushed right in front of it
      instr.boundary = legal;
    }
    if (op == kRaw.resume) prologue = false;
  }
}

}  // namespace framejit::capture
