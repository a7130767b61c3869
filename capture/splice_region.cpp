// Regions: what happens between the question of a site and the landing of an exit.
//
//   site:  UNARY_INVERT region   ask the handler; write the frame, drop what was replaced, set the pad's jumps: True
//   pad:   JUMP_FORWARD landing
//
// or, where the exit is deeper, PUSH_NULL ..., UNARY_INVERT region (write what was pushed), JUMP_FORWARD landing. No
// eval-breaker check, no call out of the loop and no trace event lies between True and the landing, so one pad for a
// code object and one set of values to push for the process are enough.
//
// A region reads the current frame: its code, its position (inside an instruction it is that instruction), its locals
// and stack, globals, builtins and function. The interpreter keeps only the stack pointer in a register; locals
// and the stack below the operand are in memory and current. The depth comes from the site's row in our table. The
// frame's code is compared with the code that the region was made for, so a region that somebody takes out of
// `co_consts` and inverts answers False.
//
// Leaving needs no edit of the frame's next instruction: the region writes locals and stack, drops what was there, sets
// the arguments of the pad's jumps, and answers True.
// - JUMP_FORWARD, EXTENDED_ARG, PUSH_NULL, POP_TOP, LOAD_CONST and POP_JUMP_IF_TRUE do not look at the eval breaker, so
//   neither signal, GIL switch nor finalizer comes between the answer and the landing, and no other frame sees the
//   arguments. JUMP_BACKWARD of the landing does: what is pending is raised there, with the position and the handler of
//   the exit.
// - Slots above the operand cannot be written while the region runs: the next pushes overwrite them. Where the exit is
//   deeper, the pad pushes NULLs and inverts the region once more, which then writes them. Nothing of that can fail.
// - While replaced values are dropped, the frame stands at `FrameUpdate::dropped_at`, for `f_lineno`. The interpreter
//   keeps its own pointer to the next instruction.
// - Entries at the bottom of the stack that do not change stay as they are (`FrameUpdate::kept`): some hold an integer
//   of the interpreter's own, which no object stands for.
// - A region does not run with less than two levels of recursion left: what it takes the place of may raise.
// - Slots that are written own a reference. From 3.14 on a slot may borrow (LOAD_FAST_BORROW): what a region leaves on
//   the stack is made to own one before a local is replaced.
#include "capture/py/frame.h"

#include "capture/splice_region.h"

#include <unistd.h>

#include <utility>

#include "capture/opcodes.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

struct Region {
  PyObject_HEAD std::shared_ptr<SiteTable> table;
};

/// An update and what it displaced, with memory that is used again. More than one is in use when a handler's ask or a
/// finalizer comes here again, or lets another thread run.
struct UpdateSlot {
  FrameUpdate update;
  std::vector<PyObject*> dropped;
  UpdateSlot* next = nullptr;
};
UpdateSlot* free_slots = nullptr;

UpdateSlot* acquire_slot() {
  if (!free_slots) [[unlikely]]
    return new UpdateSlot;
  return std::exchange(free_slots, free_slots->next);
}

void release_slot(UpdateSlot* slot) {
  slot->update.locals.clear();
  slot->update.stack.clear();
  slot->update.kept = 0;
  slot->update.dropped_at = -1;
  slot->dropped.clear();
  slot->next = std::exchange(free_slots, slot);
}

UpdateSlot* pushed = nullptr;  // the pad pushes for the values of its stack
std::size_t pushed_from = 0;   // from this one on
uint64_t internal_errors = 0;

bool ask_handler(PyThreadState* tstate, SiteTable& table, const SiteTable::Site& site, const FrameView& view,
                 FrameUpdate& update) {
  bool ran = false;
  ++table.busy;
  try {
    ran = table.handler->ask(site.instr, view, update);
    if (ran) {
      const uint32_t exit = update.exit_instr;
      FRAMEJIT_CHECK(exit < table.landing.size() && table.landing[exit] >= 0, "exit at no boundary");
      FRAMEJIT_CHECK(update.dropped_at < static_cast<int32_t>(table.own_unit.size()), "dropped_at");
      FRAMEJIT_CHECK(update.stack.size() == static_cast<std::size_t>(table.depth[exit]), "stack depth at the exit");
      FRAMEJIT_CHECK(update.kept <= site.depth && update.kept <= table.depth[exit], "entries kept");
    }
  } catch (const std::exception&) {
    ++internal_errors;
    ran = false;
  }
  if (py::error_set(tstate)) [[unlikely]] {
    ++internal_errors;
    PyErr_Clear();
  }
  if (--table.busy == 0) table.retired.reset();
  return ran;
}

PyObject* answer(bool ran) {
  PyObject* result = ran ? Py_True : Py_False;
  Py_INCREF(result);
  return result;
}

/// Puts the update in the place of locals and of the stack below the operand, and drops what was there.
void write_frame(py::Frame* frame, int site_depth, uint32_t seen_unit, UpdateSlot& slot) {
  FrameUpdate& update = slot.update;
  std::vector<PyObject*>& dropped = slot.dropped;
  py::Slot* locals = py::localsplus(frame);
  py::Slot* stack = py::stack_of(frame);
  auto put = [&](py::Slot& at, PyObject* value) {
    if (PyObject* old = py::owned(std::exchange(at, py::own(value)))) dropped.push_back(old);
  };
  // What stays may borrow from a local that goes.
  if (!update.locals.empty())
    for (int i = 0; i < update.kept; ++i) py::make_owned(stack[i]);
  for (const FrameUpdate::Local& local : update.locals) put(locals[local.slot], local.value);
  const int depth = static_cast<int>(update.stack.size());
  for (int i = update.kept; i < site_depth; ++i) {
    // POP_TOP, which takes those above the exit's depth, does not look for NULL.
    put(stack[i], i < depth ? update.stack[static_cast<std::size_t>(i)] : Py_NewRef(Py_None));
  }
  // Last, as a finalizer may look at the frame.
  py::show_at(frame, seen_unit);
  for (PyObject* old : dropped) Py_DECREF(old);
}

void set_jump(PyCodeObject* code, const PatchedJump& jump, uint32_t target) {
  uint32_t distance = target - jump.end;
  py::set_argument(code, jump.end - 1, static_cast<uint8_t>(distance));
  py::copy_jump(code, jump.end - 1);
  for (uint32_t unit = jump.end - 1; unit-- > jump.unit;) {
    distance >>= 8;  // no EXTENDED_ARG of nothing: debug builds of CPython refuse it
    py::set_unit(code, unit, distance ? kRaw.extended_arg : kRaw.nop, static_cast<uint8_t>(distance));
    py::copy_jump(code, unit);
  }
}

void set_pad(const SiteTable& table, int depth, int exit_depth, uint32_t landing) {
  const SiteTable::Pad& pad = table.pad;
  if (exit_depth == depth) return set_jump(table.code, pad.entry, landing);
  set_jump(table.code, pad.entry,
           exit_depth < depth ? pad.pops_end - static_cast<uint32_t>(depth - exit_depth)
                              : pad.pushes_end - static_cast<uint32_t>(exit_depth - depth));
  set_jump(table.code, pad.out, landing);
}

void write_pushed(py::Slot* stack) {
  UpdateSlot* slot = std::exchange(pushed, nullptr);
  const std::vector<PyObject*>& values = slot->update.stack;
  for (std::size_t i = pushed_from; i < values.size(); ++i) stack[i] = py::own(values[i]);
  release_slot(slot);
}

// nb_invert of a region.
PyObject* ask(PyObject* self) {
  SiteTable& table = table_of(self);
  PyThreadState* tstate = py::thread();
  py::Frame* frame = py::current_frame(tstate);
  if (!frame || py::code_of(frame) != table.code) return answer(false);
  const uint32_t unit = py::unit_of(frame);
  const int32_t index = unit < table.site_at.size() ? table.site_at[unit] : SiteTable::kNoQuestion;
  if (index < 0) {
    if (index == SiteTable::kWritesPushed && pushed) write_pushed(py::stack_of(frame));
    return answer(false);
  }
  if (!table.handler || py::tools_active(tstate, table.code) || !py::has_headroom(tstate) ||
      py::eval_breaker_set(tstate))
    return answer(false);
  const SiteTable::Site site = table.sites[static_cast<std::size_t>(index)];
  const FrameView view{
      {py::slots_at(py::localsplus(frame)), table.code->co_nlocalsplus, py::slots_at(py::stack_of(frame)), site.depth,
       reinterpret_cast<PyObject*>(py::function_of(frame))},
      py::globals_of(frame),
      py::builtins_of(frame),
      py::outlives(frame)};
  UpdateSlot* slot = acquire_slot();
  FrameUpdate& update = slot->update;
  if (!ask_handler(tstate, table, site, view, update)) {
    for (const FrameUpdate::Local& local : update.locals) Py_XDECREF(local.value);
    for (PyObject* value : update.stack) Py_XDECREF(value);
    release_slot(slot);
    return answer(false);
  }
  const uint32_t seen = update.dropped_at < 0 ? update.exit_instr : static_cast<uint32_t>(update.dropped_at);
  write_frame(frame, site.depth, table.own_unit[seen], *slot);
  // Only now, as a finalizer may have come here through another frame of this code.
  const int depth = static_cast<int>(update.stack.size());
  // A loop that is left in one of its rounds goes on there, else it would be entered where it was left.
  const bool leaves_round = site.instr <= update.exit_instr && update.exit_instr <= site.last;
  const int32_t asking = leaves_round ? -1 : table.asking_landing[update.exit_instr];
  set_pad(table, site.depth, depth, static_cast<uint32_t>(asking < 0 ? table.landing[update.exit_instr] : asking));
  if (depth > site.depth) {
    pushed = slot;
    pushed_from = static_cast<std::size_t>(site.depth);
  } else {
    release_slot(slot);
  }
  return answer(true);
}

void free_region(PyObject* self) {
  std::destroy_at(&reinterpret_cast<Region*>(self)->table);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* region_type() {
  static PyTypeObject* type = [] {
    PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(free_region)},
                           {Py_nb_invert, reinterpret_cast<void*>(ask)},
                           {0, nullptr}};
    PyType_Spec spec = {"framejit._core.Region", sizeof(Region), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

}  // namespace

Ref<> make_region(std::shared_ptr<SiteTable> table) {
  PyTypeObject* type = region_type();
  if (!type) return {};
  Ref<> object = Ref<>::steal(type->tp_alloc(type, 0));
  if (object) std::construct_at(&reinterpret_cast<Region*>(object.get())->table, std::move(table));
  return object;
}

void clear_pad(SiteTable& table) {
  for (const PatchedJump& jump : {table.pad.entry, table.pad.out}) set_jump(table.code, jump, jump.end);
}

bool is_region(PyObject* object) { return Py_TYPE(object) == region_type(); }
SiteTable& table_of(PyObject* object) { return *reinterpret_cast<Region*>(object)->table; }

bool tools_active(PyCodeObject* code) { return py::tools_active(py::thread(), code); }
bool any_tool_active(PyCodeObject* code) { return py::any_tool_active(py::thread(), code); }
bool eval_breaker_set() { return py::eval_breaker_set(py::thread()); }
int64_t recursion_left() { return py::recursion_left(py::thread()); }
const unsigned char* eval_breaker_byte() { return static_cast<const unsigned char*>(py::eval_breaker(py::thread())); }
bool signal_pending() { return py::signal_pending() && gettid() == getpid(); }
uint64_t splice_internal_errors() { return internal_errors; }

}  // namespace framejit::capture
