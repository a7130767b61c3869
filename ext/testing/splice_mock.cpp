// The mock interpreter. What it executes runs no user code, cannot fail, and drops no object whose finalizer could be
// seen except by its last instruction.
#include "ext/testing/splice_mock.h"

#include <utility>

#include "graph/support/check.h"

#include <algorithm>

#include "capture/py/cpython/facts.h"
#include "capture/py/interpreter.h"

namespace framejit::ext::testing {

using namespace capture;

namespace {

bool is_number(PyObject* o) { return PyLong_CheckExact(o) || PyFloat_CheckExact(o); }
bool is_truth(PyObject* o) { return o == Py_True || o == Py_False; }

/// Dropping it runs no code of the user's.
bool is_inert(PyObject* o) {
  return !o || o == Py_None || is_number(o) || PyBool_Check(o) || PyUnicode_CheckExact(o) || PyBytes_CheckExact(o);
}

enum class Step { Done, Last, Refused };  // Last: executed, and nothing may follow in this stretch

/// The state of a frame, as new references.
struct MachineState {
  std::vector<Ref<>> locals, stack;
  uint32_t at = 0;
  std::size_t untouched = 0;  // entries at the bottom of the stack that were never taken off
};

class Machine {
 public:
  Machine(const CodeView& view, const FrameView& frame, uint32_t at) : view_(view), frame_(frame) {
    for (int i = 0; i < frame.local_count; ++i) s_.locals.push_back(Ref<>::share(frame.locals[i]));
    for (int i = 0; i < frame.depth; ++i) s_.stack.push_back(Ref<>::share(frame.stack[i]));
    s_.at = last_ = at;
    s_.untouched = s_.stack.size();
    keep();
  }

  /// Executes at most `count` instructions; gives how many before the boundary at which the state was kept last.
  uint64_t run(unsigned count) {
    uint64_t done = 0, kept = 0;
    for (unsigned i = 0; i < count; ++i) {
      const uint32_t at = s_.at;
      const Step step = execute(view_.instrs()[at]);
      if (step == Step::Refused) break;
      ++done;
      last_ = at;
      if (view_.instrs()[s_.at].boundary) {
        keep();
        kept = done;
      }
      if (step == Step::Last) break;
    }
    return kept;
  }

  void write(FrameUpdate& update) {
    update.exit_instr = kept_.at;
    update.dropped_at = static_cast<int32_t>(kept_last_);
    for (int i = 0; i < frame_.local_count; ++i)
      if (kept_.locals[i].get() != frame_.locals[i]) update.locals.push_back({i, kept_.locals[i].release()});
    // Those that hold no object have to stay, the others may be written again.
    update.kept = static_cast<int>(kept_.untouched);
    for (std::size_t i = 0; i < kept_.stack.size(); ++i)
      update.stack.push_back(i < kept_.untouched ? nullptr : kept_.stack[i].release());
  }

 private:
  void keep() {
    kept_ = s_;
    kept_last_ = last_;
  }

  PyObject* top(std::size_t i = 1) { return s_.stack[s_.stack.size() - i].get(); }
  void push(Ref<> value) { s_.stack.push_back(std::move(value)); }
  Ref<> pop() {
    Ref<> value = std::move(s_.stack.back());
    s_.stack.pop_back();
    s_.untouched = std::min(s_.untouched, s_.stack.size());
    return value;
  }
  bool is_hidden(std::size_t i) const {
    const std::size_t at = s_.stack.size() - i;
    return at < s_.untouched && frame_.stack.is_integer(static_cast<int64_t>(at));
  }
  Step next() {
    ++s_.at;
    return Step::Done;
  }
  Step push_or_refuse(PyObject* borrowed) {
    if (!borrowed) return Step::Refused;
    push(Ref<>::share(borrowed));
    return next();
  }
  Step jump(const Instr& instr, bool taken) {
    s_.at = taken ? static_cast<uint32_t>(instr.arg) : s_.at + 1;
    return Step::Done;
  }
  /// The pops of `count` operands, then `result`. A result that could not be made leaves the state alone.
  Step replace(std::size_t count, Ref<> result) {
    if (!result) {
      PyErr_Clear();
      return Step::Refused;
    }
    for (std::size_t i = 0; i < count; ++i) pop();
    push(std::move(result));
    return next();
  }

  Step execute(const Instr& instr) {
    if (instr.flag && instr.op != Opcode::LoadGlobal && eval_breaker_set()) return Step::Refused;  // backward jump
    switch (instr.op) {
      case Opcode::Nop: return next();
      case Opcode::PushNull: push({}); return next();
      case Opcode::LoadConst: return push_or_refuse(view_.constant(instr.arg));
      case Opcode::LoadFast: return push_or_refuse(s_.locals[instr.arg].get());
      case Opcode::LoadClosure: return push_or_refuse(s_.locals[instr.arg].get());
      case Opcode::LoadDeref: return push_or_refuse(cell_contents(instr));
      case Opcode::LoadGlobal: return load_global(instr);
      case Opcode::StoreFast: return store_fast(instr.arg, true);
      case Opcode::DeleteFast: return s_.locals[instr.arg] ? store_fast(instr.arg, false) : Step::Refused;
      case Opcode::PopTop: return pop_top();
      case Opcode::Copy:
        if (is_hidden(static_cast<std::size_t>(instr.arg))) return Step::Refused;
        push(s_.stack[s_.stack.size() - instr.arg]);
        return next();
      case Opcode::Swap: return swap(static_cast<std::size_t>(instr.arg));
      case Opcode::Jump: return jump(instr, true);
      case Opcode::PopJumpIfTrue:
      case Opcode::PopJumpIfFalse: return conditional_jump(instr, instr.op == Opcode::PopJumpIfTrue);
      case Opcode::PopJumpIfNone:
      case Opcode::PopJumpIfNotNone: return none_jump(instr, instr.op == Opcode::PopJumpIfNone);
      case Opcode::JumpIfTrueOrPop:
      case Opcode::JumpIfFalseOrPop: return jump_or_pop(instr, instr.op == Opcode::JumpIfTrueOrPop);
      case Opcode::ForIter: return for_iter(instr);
      case Opcode::IsOp: return is_op(instr);
      case Opcode::UnaryNot:
        if (!is_truth(top())) return Step::Refused;
        return replace(1, Ref<>::share(top() == Py_True ? Py_False : Py_True));
      case Opcode::CompareOp: return compare(instr);
      case Opcode::BinaryOp: return binary(instr);
      case Opcode::BinarySubscr: return subscript();
      case Opcode::BuildTuple: return build_tuple(instr.arg);
      case Opcode::UnpackSequence: return unpack(instr.arg);
      default: return Step::Refused;
    }
  }

  Step swap(std::size_t i) {
    for (std::size_t k = 1; k <= i; ++k)
      if (is_hidden(k)) return Step::Refused;
    std::swap(s_.stack.back(), s_.stack[s_.stack.size() - i]);
    s_.untouched = std::min(s_.untouched, s_.stack.size() - i);
    return next();
  }

  PyObject* cell_contents(const Instr& instr) {
    PyObject* cell = s_.locals[instr.arg].get();
    return cell && PyCell_Check(cell) ? PyCell_GET(cell) : nullptr;
  }

  Step load_global(const Instr& instr) {
    PyObject* name = view_.name(instr.arg);
    PyObject* value = nullptr;
    for (PyObject* dict : {frame_.globals, frame_.builtins}) {
      if (!PyDict_CheckExact(dict)) return Step::Refused;
      value = PyDict_GetItemWithError(dict, name);
      if (value) break;
      PyErr_Clear();
    }
    if (!value || is_lazy_import(value)) return Step::Refused;  // reading it imports what it names
    if (instr.flag && !py::kNullBehindCallable) push({});
    const Step step = push_or_refuse(value);
    if (instr.flag && py::kNullBehindCallable) push({});
    return step;
  }

  Step store_fast(int32_t slot, bool from_stack) {
    const bool inert = is_inert(s_.locals[slot].get());
    s_.locals[slot] = from_stack ? pop() : Ref<>();
    next();
    return inert ? Step::Done : Step::Last;
  }

  Step pop_top() {
    const bool inert = is_inert(pop().get());
    next();
    return inert ? Step::Done : Step::Last;
  }

  Step conditional_jump(const Instr& instr, bool on) {
    if (!is_truth(top())) return Step::Refused;
    return jump(instr, (pop().get() == Py_True) == on);
  }

  Step none_jump(const Instr& instr, bool on) {
    if (!is_inert(top())) return Step::Refused;
    return jump(instr, (pop().get() == Py_None) == on);
  }

  Step jump_or_pop(const Instr& instr, bool on) {
    if (!is_truth(top())) return Step::Refused;
    const bool taken = (top() == Py_True) == on;
    if (!taken) pop();
    return jump(instr, taken);
  }

  // Goes round a loop over a list, tuple or range. That changes the iterator, so it must be kept: only onto boundaries.
  Step for_iter(const Instr& instr) {
    PyObject* iterator = top(py::kIteratorSlots);
    PyTypeObject* type = Py_TYPE(iterator);
    if (type != &PyListIter_Type && type != &PyTupleIter_Type && type != &PyRangeIter_Type) return Step::Refused;
    const std::span<const Instr> instrs = view_.instrs();
    if (!instrs[s_.at + 1].boundary || !instrs[instr.arg].boundary) return Step::Refused;
    Ref<> value = Ref<>::steal(type->tp_iternext(iterator));
    if (value) {
      push(std::move(value));
      return next();
    }
    PyErr_Clear();
    for (int i = 0; i < py::kIteratorSlots; ++i) pop();
    s_.at = static_cast<uint32_t>(instr.arg);
    return Step::Last;  // the list may die now
  }

  Step is_op(const Instr& instr) {
    if (!is_inert(top()) || !is_inert(top(2))) return Step::Refused;
    const bool same = (top() == top(2)) != (instr.arg != 0);
    return replace(2, Ref<>::share(same ? Py_True : Py_False));
  }

  Step compare(const Instr& instr) {
    const bool strings = PyUnicode_CheckExact(top(2)) && PyUnicode_CheckExact(top());
    if (!strings && !(is_number(top(2)) && is_number(top()))) return Step::Refused;
    return replace(2, Ref<>::steal(PyObject_RichCompare(top(2), top(), instr.arg)));
  }

  Step binary(const Instr& instr) {
    if (!is_number(top(2)) || !is_number(top())) return Step::Refused;
    switch (instr.arg) {
      case 0:  // NB_ADD
      case 13: return replace(2, Ref<>::steal(PyNumber_Add(top(2), top())));
      case 5:  // NB_MULTIPLY
      case 18: return replace(2, Ref<>::steal(PyNumber_Multiply(top(2), top())));
      case 10:  // NB_SUBTRACT
      case 23: return replace(2, Ref<>::steal(PyNumber_Subtract(top(2), top())));
      default: return Step::Refused;
    }
  }

  Step subscript() {
    PyObject *sequence = top(2), *index = top();
    if (!PyLong_CheckExact(index)) return Step::Refused;
    const Py_ssize_t i = PyLong_AsSsize_t(index);
    if (i < 0) {
      PyErr_Clear();
      return Step::Refused;
    }
    PyObject* item = nullptr;
    if (PyList_CheckExact(sequence) && i < PyList_GET_SIZE(sequence)) item = PyList_GET_ITEM(sequence, i);
    if (PyTuple_CheckExact(sequence) && i < PyTuple_GET_SIZE(sequence)) item = PyTuple_GET_ITEM(sequence, i);
    if (!item) return Step::Refused;
    replace(2, Ref<>::share(item));
    return Step::Last;  // the sequence may die now
  }

  Step build_tuple(int32_t count) {
    if (count == 0) return Step::Refused;
    Ref<> tuple = Ref<>::steal(PyTuple_New(count));
    if (!tuple) return replace(0, {});
    for (int32_t i = 0; i < count; ++i)
      PyTuple_SET_ITEM(tuple.get(), i, Ref<>::share(top(static_cast<std::size_t>(count - i))).release());
    return replace(static_cast<std::size_t>(count), std::move(tuple));
  }

  Step unpack(int32_t count) {
    PyObject* sequence = top();
    if (!PyTuple_CheckExact(sequence) || PyTuple_GET_SIZE(sequence) != count) return Step::Refused;
    Ref<> tuple = pop();
    for (int32_t i = count - 1; i >= 0; --i) push(Ref<>::share(PyTuple_GET_ITEM(tuple.get(), i)));
    return next();
  }

  const CodeView& view_;
  const FrameView& frame_;
  MachineState s_, kept_;
  uint32_t last_ = 0, kept_last_ = 0;  // the instruction executed last: where values are dropped
};

class MockHandler final : public SiteHandler {
 public:
  MockHandler(std::shared_ptr<const CodeView> view, uint64_t seed, unsigned share, MockCounters* counters)
      : view_(std::move(view)), random_(seed | 1), share_(share), counters_(counters) {}

  bool ask(uint32_t site, const FrameView& frame, FrameUpdate& update) override {
    ++counters_->asked;
    const uint64_t dice = draw();
    if ((dice & 255) >= share_) return false;
    Machine machine(*view_, frame, site);
    counters_->instructions += machine.run((dice >> 8) % 13);
    machine.write(update);
    ++counters_->exits;
    if (static_cast<int>(update.stack.size()) != frame.depth) ++counters_->moves;
    return true;
  }

 private:
  uint64_t draw() {  // xorshift
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ >> 11;
  }

  std::shared_ptr<const CodeView> view_;
  uint64_t random_;
  unsigned share_;
  MockCounters* counters_;
};

}  // namespace

std::shared_ptr<SiteHandler> make_mock_handler(std::shared_ptr<const CodeView> view, uint64_t seed, unsigned share,
                                               MockCounters* counters) {
  return std::make_shared<MockHandler>(std::move(view), seed, share, counters);
}

}  // namespace framejit::ext::testing
