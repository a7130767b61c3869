// From raw instructions to the canonical set.
#include "capture/code_view.h"

#include <algorithm>
#include <numeric>

#include "capture/code_raw.h"
#include "capture/py/cpython/facts.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

// CALL_INTRINSIC_1 functions that were instructions of their own in 3.11.
Opcode intrinsic1(uint32_t number) {
  switch (number) {
    case 1: return Opcode::PrintExpr;
    case 2: return Opcode::ImportStar;
    case 4: return Opcode::AsyncGenWrap;
    case 5: return Opcode::UnaryPositive;
    case 6: return Opcode::ListToTuple;
    default: return Opcode::Intrinsic;
  }
}

constexpr int kSubscript = 26;               // NB_SUBSCR
constexpr int kLazyImport = 1;               // of IMPORT_NAME
constexpr int kIteratorOfYield = 3;          // of GET_ITER
constexpr uint32_t kStopIterationError = 3;  // of CALL_INTRINSIC_1

/// As it was when framejit was imported: a program may put another function in its place.
PyObject* own_builtin(const char* name) {
  PyObject* builtins = PyEval_GetBuiltins();
  return builtins ? Py_XNewRef(PyDict_GetItemString(builtins, name)) : nullptr;
}
PyObject* const kAll = own_builtin("all");
PyObject* const kAny = own_builtin("any");

/// What LOAD_COMMON_CONSTANT pushes.
Ref<> common_constant(uint32_t number) {
  switch (number) {
    case 0: return Ref<>::share(PyExc_AssertionError);
    case 1: return Ref<>::share(PyExc_NotImplementedError);
    case 2: return Ref<>::share(reinterpret_cast<PyObject*>(&PyTuple_Type));
    case 3: return Ref<>::share(kAll);
    case 4: return Ref<>::share(kAny);
    case 5: return Ref<>::share(reinterpret_cast<PyObject*>(&PyList_Type));
    case 6: return Ref<>::share(reinterpret_cast<PyObject*>(&PySet_Type));
    case 7: return Ref<>::share(Py_None);
    case 8: return Ref<>::steal(PyUnicode_FromString(""));
    case 9: return Ref<>::share(Py_True);
    case 10: return Ref<>::share(Py_False);
    case 11: return Ref<>::steal(PyLong_FromLong(-1));
    default: return {};
  }
}

class Canonicalizer {
 public:
  /// `constants`: so many the code has.
  Canonicalizer(const RawCode& raw, std::vector<Instr>& out, Py_ssize_t constants)
      : raw_(raw), out_(out), constants_(static_cast<int32_t>(constants)) {}

  /// Objects that instructions hold: the constants behind those of the code.
  const std::vector<Ref<>>& literals() const { return literals_; }

  /// Appends the canonical form of the raw instruction at `i`; gives the number of raw instructions it took.
  uint32_t append(uint32_t i) {
    const RawInstr& first = raw_.instrs[i];
    if (first.op == kRaw.kw_names || first.op == kRaw.precall) return append_call(i);
    if (first.op == kRaw.load_const && kRaw.call_kw >= 0 && i + 1 < raw_.instrs.size() &&
        raw_.instrs[i + 1].op == kRaw.call_kw)
      return append_call(i);
    const OpcodeRow& row = opcode_table()[first.op];
    Instr instr = start(first, first, row.op);
    const auto arg = static_cast<int32_t>(first.arg);
    switch (row.form) {
      case ArgForm::None: break;
      case ArgForm::Plain: instr.arg = arg; break;
      case ArgForm::Forward:
      case ArgForm::Backward:
        instr.arg = first.target;  // raw index; made canonical once all are known
        instr.flag = row.form == ArgForm::Backward;
        break;
      case ArgForm::Global:
        instr.arg = arg >> 1;
        instr.flag = arg & 1;
        break;
      case ArgForm::Attribute:
        instr.arg = arg >> 1;
        if (arg & 1) instr.op = Opcode::LoadMethod;
        break;
      case ArgForm::Compare4: instr.arg = arg >> 4; break;
      case ArgForm::Compare5:
        instr.arg = arg >> 5;
        instr.flag = (arg & 16) != 0;
        break;
      case ArgForm::Intrinsic1:
        instr.op = intrinsic1(first.arg);
        instr.arg = arg;
        break;
      case ArgForm::Intrinsic2:
        if (arg == 1) instr.op = Opcode::PrepReraiseStar;
        instr.arg = arg;
        break;
      case ArgForm::FormatPlain: break;
      case ArgForm::FormatSpec: instr.arg = 4; break;
      case ArgForm::Pair: return append_pair(first, row.op);
      case ArgForm::Super:
        instr.arg = arg >> 2;
        instr.flag = arg & 1;
        break;
      case ArgForm::Subscript:
        if (arg == kSubscript) instr.op = Opcode::BinarySubscr;
        else instr.arg = arg;
        break;
      case ArgForm::CallEx:
        instr.arg = 1;
        instr.flag = true;
        break;
      case ArgForm::SmallInt: hold(instr, Ref<>::steal(PyLong_FromLong(arg))); break;
      case ArgForm::Common: hold(instr, common_constant(first.arg)); break;
      case ArgForm::Back: break;
      case ArgForm::Iterator:
        if (arg == kIteratorOfYield) instr.op = Opcode::GetYieldFromIter;
        break;
      case ArgForm::Import:
        instr.arg = arg >> 2;
        instr.flag = (arg & 3) == kLazyImport;
        break;
    }
    out_.push_back(instr);
    return 1;
  }

 private:
  static Instr start(const RawInstr& from, const RawInstr& place, Opcode op) {
    Instr instr{op};
    instr.offset = from.offset;
    instr.depth = from.depth;
    instr.boundary = from.boundary;
    instr.line = place.position.line;
    instr.end_line = place.position.end_line;
    instr.column = place.position.column;
    instr.end_column = place.position.end_column;
    return instr;
  }

  /// Makes a constant of the view of it.
  void hold(Instr& instr, Ref<> literal) {
    if (!literal) {
      PyErr_Clear();
      instr.op = Opcode::Unknown;
      return;
    }
    std::size_t at = 0;
    while (at < literals_.size() && literals_[at].get() != literal.get()) ++at;
    if (at == literals_.size()) literals_.push_back(std::move(literal));
    instr.arg = constants_ + static_cast<int32_t>(at);
  }

  // KW_NAMES, PRECALL and CALL; on 3.13 LOAD_CONST and CALL_KW.
  uint32_t append_call(uint32_t i) {
    uint32_t last = i;
    int32_t names = -1;
    if (raw_.instrs[i].op == kRaw.kw_names || raw_.instrs[i].op == kRaw.load_const) {
      names = static_cast<int32_t>(raw_.instrs[i].arg);
      ++last;
    }
    if (last < raw_.instrs.size() && raw_.instrs[last].op == kRaw.precall) ++last;
    if (last >= raw_.instrs.size()) throw StrangeCode("the code ends in a call");
    Instr instr = start(raw_.instrs[i], raw_.instrs[last], Opcode::Call);
    instr.arg = static_cast<int32_t>(raw_.instrs[last].arg);
    instr.kwnames = names;
    out_.push_back(instr);
    return last - i + 1;
  }

  // 3.13: two accesses of locals in one instruction. Nothing can stand between them.
  uint32_t append_pair(const RawInstr& raw, Opcode first_op) {
    const int effect = PyCompile_OpcodeStackEffectWithJump(raw.op, static_cast<int>(raw.arg), 0);
    Instr first = start(raw, raw, first_op);
    first.arg = static_cast<int32_t>(raw.arg >> 4);
    Instr second = first;
    second.op = effect == -2 ? Opcode::StoreFast : Opcode::LoadFast;
    second.arg = static_cast<int32_t>(raw.arg & 15);
    second.boundary = false;
    if (raw.depth >= 0) second.depth = static_cast<int16_t>(raw.depth + (first_op == Opcode::LoadFast ? 1 : -1));
    out_.push_back(first);
    out_.push_back(second);
    return 1;
  }

  const RawCode& raw_;
  std::vector<Instr>& out_;
  std::vector<Ref<>> literals_;
  int32_t constants_;
};

bool is_jump(Opcode op) {
  switch (op) {
    case Opcode::Jump:
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue:
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone:
    case Opcode::JumpIfFalseOrPop:
    case Opcode::JumpIfTrueOrPop:
    case Opcode::ForIter:
    case Opcode::Send: return true;
    default: return false;
  }
}

/// The constants of a code object and, behind them, `more`.
Ref<> all_constants(PyObject* consts, const std::vector<Ref<>>& more) {
  if (more.empty()) return Ref<>::share(consts);
  const Py_ssize_t count = PyTuple_GET_SIZE(consts);
  Ref<> all = Ref<>::steal(PyTuple_New(count + static_cast<Py_ssize_t>(more.size())));
  FRAMEJIT_CHECK(all, "no memory for constants");
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(all.get(), i, Ref<>::share(PyTuple_GET_ITEM(consts, i)).release());
  for (std::size_t i = 0; i < more.size(); ++i)
    PyTuple_SET_ITEM(all.get(), count + static_cast<Py_ssize_t>(i), Ref<>(more[i]).release());
  return all;
}

/// Where an instruction goes to whose target is `target`: an iterator or a receiver that is at its end is popped, and
/// what stands there to pop it is passed.
uint32_t target_past_end(const RawCode& raw, Opcode op, uint32_t target) {
  if (op == Opcode::ForIter && raw.instrs[target].op == kRaw.end_for) target += py::kLoopEndInstructions;
  else if (op == Opcode::Send && raw.instrs[target].op == kRaw.end_send) target += py::kSendEndInstructions;
  else return target;
  if (target >= raw.instrs.size()) throw StrangeCode("the code ends in the end of a loop");
  return op == Opcode::Send && raw.instrs[target].op == kRaw.not_taken ? target + 1 : target;
}

constexpr int kCellFlag = 0x40, kFreeFlag = 0x80;  // CO_FAST_CELL, CO_FAST_FREE

int local_kind(PyObject* kinds, int i) { return static_cast<unsigned char>(PyBytes_AS_STRING(kinds)[i]); }

}  // namespace

std::string_view name_of(Opcode op) {
  switch (op) {
#define FRAMEJIT_OPCODE_NAME(name, handler) \
  case Opcode::name: return #name;
    FRAMEJIT_OPCODES(FRAMEJIT_OPCODE_NAME)
#undef FRAMEJIT_OPCODE_NAME
  }
  return "?";
}

std::shared_ptr<const CodeView> CodeView::decode(PyCodeObject* code, Keep keep) {
  auto view = std::make_shared<CodeView>();
  view->code_ = code;
  if (keep == Keep::Code) view->kept_code_ = Ref<>::share(reinterpret_cast<PyObject*>(code));
  view->names_ = Ref<>::share(code->co_names);
  view->local_names_ = Ref<>::share(code->co_localsplusnames);
  view->local_kinds_ = Ref<>::share(code->co_localspluskinds);
  view->consts_ = Ref<>::share(code->co_consts);
  for (Py_ssize_t i = 0; i < code->co_nlocalsplus; ++i)
    view->locals_.push_back(PyTuple_GET_ITEM(code->co_localsplusnames, i));
  try {
    view->read_instructions(RawCode(code));
  } catch (const StrangeCode&) {
    view->leave_alone();
  }
  return view;
}

/// One instruction that is not known: capture breaks there, and there is no place where a region may begin.
void CodeView::leave_alone() {
  instrs_.assign(1, Instr{Opcode::Unknown});
  handlers_.clear();
  index_of_.clear();
  merged_.clear();
  loop_ends_.clear();
}

void CodeView::read_instructions(const RawCode& raw) {
  std::vector<int32_t> canonical(raw.instrs.size() + 1, -1);  // raw index -> Instr
  Canonicalizer canonicalizer(raw, instrs_, PyTuple_GET_SIZE(consts_.get()));
  for (uint32_t i = 0; i < raw.instrs.size();) {
    const auto index = static_cast<int32_t>(instrs_.size());
    const uint32_t taken = canonicalizer.append(i);
    for (uint32_t k = 0; k < taken; ++k) canonical[i + k] = index;
    i += taken;
  }
  canonical[raw.instrs.size()] = static_cast<int32_t>(instrs_.size());
  consts_ = all_constants(consts_.get(), canonicalizer.literals());

  index_of_.assign(raw.index_of.size(), -1);
  for (uint32_t unit = 0; unit < raw.index_of.size(); ++unit)
    if (raw.index_of[unit] >= 0) index_of_[unit] = canonical[raw.index_of[unit]];
  for (uint32_t i = 0; i < raw.instrs.size(); ++i)
    if (raw.instrs[i].target >= 0)
      instrs_[canonical[i]].arg =
          canonical[target_past_end(raw, instrs_[canonical[i]].op, static_cast<uint32_t>(raw.instrs[i].target))];
  for (const RawHandler& handler : raw.handlers)
    handlers_.push_back({static_cast<uint32_t>(canonical[handler.start]), static_cast<uint32_t>(canonical[handler.end]),
                         static_cast<uint32_t>(canonical[handler.target]), handler.depth, handler.lasti,
                         raw.instrs[handler.target].op == kRaw.call_intrinsic_1 &&
                             raw.instrs[handler.target].arg == kStopIterationError});
  turn_jumps_over_jumps();
  take_calls_for_loops();
  merge_copies();
  find_loops();
  find_comprehensions();
}

bool is_comprehension(const PyCodeObject* code) {
  constexpr int kOther = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  const char* const name = (code->co_flags & CO_GENERATOR) ? "<genexpr>" : "<listcomp>";
  return code->co_argcount == 1 && !(code->co_flags & kOther) &&
         PyUnicode_CompareWithASCIIString(code->co_name, name) == 0;
}

/// `continue` and the end of a round may jump to different places.
void CodeView::find_loops() {
  std::vector<std::pair<uint32_t, uint32_t>> back;  // jumps: from, to
  for (uint32_t i = 0; i < instrs_.size(); ++i)
    if (may_end_round(instrs_[i].op) && static_cast<uint32_t>(instrs_[i].arg) <= i)
      back.emplace_back(i, static_cast<uint32_t>(instrs_[i].arg));
  if (back.empty()) return;
  loop_ends_.assign(instrs_.size(), kNoLoop);
  for (const auto& [end, head] : back) {
    if (loop_ends_[head] != kNoLoop) continue;
    uint32_t last = head;
    for (const auto& [from, to] : back)
      if (from >= head && head <= to && to <= last) last = from;
    loop_ends_[head] = last;
  }
}

CodeView::ShortLoop CodeView::short_loop_at(uint32_t i) const {
  const auto next = [this](uint32_t k) {
    do k = behind(k);
    while (k < instrs_.size() && (instrs_[k].op == Opcode::Nop || instrs_[k].op == Opcode::ToBool));
    return k;
  };
  const auto is_at = [this](uint32_t k, Opcode op) { return k < instrs_.size() && instrs_[k].op == op; };
  if (!is_at(i, Opcode::ForIter)) return {};
  const uint32_t first = next(i);
  if (is_at(first, Opcode::ListAppend) && instrs_[first].arg == 1 + py::kIteratorSlots) {
    const uint32_t last = next(first);
    const bool is_back = is_at(last, Opcode::Jump) && instrs_[last].arg == static_cast<int32_t>(i);
    return is_back ? ShortLoop{ShortLoop::List, last} : ShortLoop{};
  }
  const bool is_any = is_at(first, Opcode::PopJumpIfFalse);
  if (!(is_any || is_at(first, Opcode::PopJumpIfTrue)) || instrs_[first].arg != static_cast<int32_t>(i)) return {};
  const uint32_t found = next(first);
  if (!is_at(found, Opcode::PopIter)) return {};
  return {is_any ? ShortLoop::Any : ShortLoop::All, first, next(found)};
}

void CodeView::find_comprehensions() {
  const auto code_at = [this](uint32_t i) -> PyCodeObject* {
    if (i >= instrs_.size() || instrs_[i].op != Opcode::LoadConst) return nullptr;
    PyObject* const o = constant(instrs_[i].arg);
    return PyCode_Check(o) ? reinterpret_cast<PyCodeObject*>(o) : nullptr;
  };
  for (uint32_t i = 2; i < instrs_.size(); ++i) {
    const Instr& call = instrs_[i];
    if (call.op != Opcode::Call || call.arg != 0 || call.kwnames >= 0) continue;
    // From 3.15 on the function itself asks for the iterator.
    if (py::kIteratorSlots == 1 && instrs_[i - 1].op != Opcode::GetIter) continue;
    // The function lies below its argument since it was made.
    const PyCodeObject* code = nullptr;
    for (uint32_t made = i - 1; made-- > 1 && !code && instrs_[made].depth >= call.depth - 2;) {
      if (instrs_[made].op != Opcode::MakeFunction) continue;
      const uint32_t after = made + (instrs_[made + 1].op == Opcode::SetFunctionAttribute ? 2 : 1);
      if (instrs_[after].depth == call.depth - 1) code = code_at(made - 1);
    }
    if (!code || !is_comprehension(code)) continue;
    uint32_t last = i;
    if (code->co_flags & CO_GENERATOR) {
      last = behind(i);
      const uint32_t head = last < instrs_.size() && instrs_[last].op == Opcode::PushNull ? behind(last) : last;
      if (const ShortLoop loop = short_loop_at(head); loop.kind != ShortLoop::None) {
        loop_ends_[head] = kNoLoop;
        last = loop.last;
      } else if (last >= instrs_.size() || instrs_[last].op != Opcode::Call || instrs_[last].arg != 1 ||
                 instrs_[last].kwnames >= 0) {
        continue;
      }
    }
    if (loop_ends_.empty()) loop_ends_.assign(instrs_.size(), kNoLoop);
    loop_ends_[i] = last;
  }
}

/// A conditional jump over a jump back (3.12 has no conditional jumps back) becomes a conditional jump back, and what
/// it jumped over does nothing. In between may be what tools are told of.
std::vector<bool> CodeView::behind_loops() const {
  std::vector<bool> behind(instrs_.size(), false);
  for (uint32_t head = 0; head < loop_ends_.size(); ++head) {
    if (!is_loop_head(head)) continue;
    for (uint32_t i = head; i <= loop_ends_[head]; ++i)
      if (is_jump(instrs_[i].op) && instrs_[i].arg > static_cast<int32_t>(loop_ends_[head]))
        behind[static_cast<std::size_t>(instrs_[i].arg)] = true;
  }
  return behind;
}

void CodeView::turn_jumps_over_jumps() {
  auto opposite = [](Opcode op) {
    switch (op) {
      case Opcode::PopJumpIfFalse: return Opcode::PopJumpIfTrue;
      case Opcode::PopJumpIfTrue: return Opcode::PopJumpIfFalse;
      case Opcode::PopJumpIfNone: return Opcode::PopJumpIfNotNone;
      case Opcode::PopJumpIfNotNone: return Opcode::PopJumpIfNone;
      default: return Opcode::Unknown;
    }
  };
  std::vector<bool> reached(instrs_.size() + 1, false);
  for (const Instr& instr : instrs_)
    if (is_jump(instr.op)) reached[static_cast<std::size_t>(instr.arg)] = true;
  for (const Handler& handler : handlers_) reached[handler.target] = true;
  for (uint32_t i = 0; i < instrs_.size(); ++i) {
    if (opposite(instrs_[i].op) == Opcode::Unknown || instrs_[i].flag) continue;
    uint32_t back = i + 1;
    while (back < instrs_.size() && instrs_[back].op == Opcode::Nop && !instrs_[back].boundary && !reached[back])
      ++back;
    if (back >= instrs_.size() || instrs_[back].op != Opcode::Jump || !instrs_[back].flag || reached[back]) continue;
    if (instrs_[i].arg != static_cast<int32_t>(back) + 1) continue;
    instrs_[i].op = opposite(instrs_[i].op);
    instrs_[i].arg = instrs_[back].arg;
    instrs_[i].flag = true;
    instrs_[back].op = Opcode::Nop;
    instrs_[back].flag = instrs_[back].boundary = false;
    instrs_[back].arg = 0;
  }
}

/// any(), all() and tuple() of a generator expression are loops if the name means the builtin (3.14), and calls if not.
/// The calls give the same, so their places are those of other versions.
void CodeView::take_calls_for_loops() {
  for (uint32_t i = 0; i + 3 < instrs_.size(); ++i) {
    const Instr &load = instrs_[i + 1], &jump = instrs_[i + 3];
    if (instrs_[i].op != Opcode::Copy || instrs_[i].arg != 1 || load.op != Opcode::LoadConst ||
        instrs_[i + 2].op != Opcode::IsOp || instrs_[i + 2].arg != 0 || jump.op != Opcode::PopJumpIfFalse ||
        static_cast<uint32_t>(jump.arg) <= i || !PyCallable_Check(constant(load.arg)))
      continue;
    instrs_[i].op = Opcode::Jump;
    instrs_[i].arg = jump.arg;
  }
}

bool CodeView::is_copy(uint32_t a, uint32_t b) const {
  const Instr &x = instrs_[a], &y = instrs_[b];
  return x.op == y.op && x.arg == y.arg && x.flag == y.flag && x.kwnames == y.kwnames && x.depth == y.depth &&
         x.boundary == y.boundary && x.line >= 0 && x.line == y.line && x.end_line == y.end_line &&
         x.column == y.column && x.end_column == y.end_column && handler_of(a) == handler_of(b);
}

void CodeView::merge_copies() {
  constexpr std::size_t kMostReturns = 200;
  std::vector<uint32_t> returns;
  for (uint32_t i = 0; i < instrs_.size() && returns.size() < kMostReturns; ++i)
    if ((instrs_[i].op == Opcode::ReturnValue || instrs_[i].op == Opcode::ReturnConst) && instrs_[i].depth >= 0)
      returns.push_back(i);
  for (const uint32_t copy : returns) {
    const auto last = std::find_if(returns.rbegin(), returns.rend(), [&](uint32_t r) { return is_copy(copy, r); });
    if (last == returns.rend() || *last == copy) continue;  // one without a line is no copy, not even of itself
    if (merged_.empty()) {
      merged_.resize(instrs_.size());
      std::iota(merged_.begin(), merged_.end(), 0u);
    }
    for (uint32_t k = 0; k <= copy && is_copy(copy - k, *last - k) && (k == 0 || !is_jump(instrs_[copy - k].op)); ++k)
      merged_[copy - k] = *last - k;
  }
  for (Instr& instr : instrs_)
    if (is_jump(instr.op)) instr.arg = static_cast<int32_t>(merged(static_cast<uint32_t>(instr.arg)));
}

int CodeView::at_offset(uint32_t offset) const { return offset < index_of_.size() ? index_of_[offset] : -1; }

const Handler* CodeView::handler_of(uint32_t i) const {
  // Entries are sorted by start and do not overlap.
  auto after = std::upper_bound(handlers_.begin(), handlers_.end(), i,
                                [](uint32_t index, const Handler& handler) { return index < handler.start; });
  if (after == handlers_.begin()) return nullptr;
  const Handler& handler = *(after - 1);
  return i < handler.end && !handler.of_generator ? &handler : nullptr;
}

bool CodeView::may_catch(uint32_t i) const {
  while (const Handler* handler = handler_of(i)) {
    i = handler->target;
    while (instrs_[i].op != Opcode::Reraise && instrs_[i].op != Opcode::RaiseVarargs) {
      const Opcode op = instrs_[i].op;
      if (is_jump(op) || op == Opcode::ReturnValue || op == Opcode::ReturnConst || ++i == instrs_.size()) return true;
    }
  }
  return false;
}

bool CodeView::is_cell(int i) const { return (local_kind(local_kinds_.get(), i) & (kCellFlag | kFreeFlag)) != 0; }

bool CodeView::is_free(int i) const { return (local_kind(local_kinds_.get(), i) & kFreeFlag) != 0; }

}  // namespace framejit::capture
