// Regions and gotos: what happens between the question of a site and the landing of an exit.
//
//   site:  UNARY_INVERT region   ask the handler; True: park the update, take any frame hook out
//   go:    CALL goto_function    inlined by the eval loop, now that there is no hook
//            UNARY_INVERT goto   write the parked update into the frame below, put the hook back
//            RETURN_VALUE        the loop reloads next instruction and stack from that frame
//
// No eval-breaker check, no call out of the loop and no trace event lies between True and the goto, so one parked
// update for the process is enough. See splicing.md and py/README.md.
#include "capture/py/frame.h"

#include "capture/splice_region.h"

#include <utility>

#include "capture/opcodes.h"
#include "graph/support/check.h"

#if FRAMEJIT_CAN_SPLICE

namespace framejit::capture {

namespace {

struct Region {
  PyObject_HEAD std::shared_ptr<SiteTable> table;
};

/// An update with memory that is used again. More than one is in use when a handler's ask comes here again, or lets
/// another thread run.
struct UpdateSlot {
  FrameUpdate update;
  UpdateSlot* next = nullptr;
};
UpdateSlot* free_slots = nullptr;

UpdateSlot* acquire_slot() {
  if (!free_slots) [[unlikely]]
    return new UpdateSlot;
  return std::exchange(free_slots, free_slots->next);
}

void release_slot(UpdateSlot* slot) { slot->next = std::exchange(free_slots, slot); }

struct Parked {
  py::Frame* frame = nullptr;  // null: nothing is parked
  py::EvalFunction hook = nullptr;
  uint32_t unit = 0;       // of the landing
  uint32_t seen_unit = 0;  // what finalizers see
  int depth_before = 0;
  UpdateSlot* slot = nullptr;
};

Parked parked;
uint64_t internal_errors = 0;
std::vector<PyObject*> spare_dropped;  // keeps its memory

void drop_values(FrameUpdate& update) {
  for (const FrameUpdate::Local& local : update.locals) Py_XDECREF(local.value);
  for (PyObject* value : update.stack) Py_XDECREF(value);
  update.locals.clear();
  update.stack.clear();
  update.dropped_at = -1;
}

/// After a goto that never came: calling it failed for lack of memory.
[[gnu::cold, gnu::noinline]] void unpark_stale(PyThreadState* tstate) {
  parked.frame = nullptr;
  if (py::eval_slot(tstate) == nullptr) py::eval_slot(tstate) = parked.hook;
  UpdateSlot* slot = std::exchange(parked.slot, nullptr);
  drop_values(slot->update);
  release_slot(slot);
}

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

// nb_invert of a region.
PyObject* ask(PyObject* self) {
  SiteTable& table = *reinterpret_cast<Region*>(self)->table;
  PyThreadState* tstate = py::thread();
  py::Frame* frame = py::current_frame(tstate);
  if (!table.handler || !frame || py::code_of(frame) != table.code) return answer(false);
  if (py::tools_active(tstate) || !py::has_headroom(tstate)) return answer(false);
  if (parked.frame) [[unlikely]]
    unpark_stale(tstate);
  const uint32_t unit = py::unit_of(frame);
  const int32_t index = unit < table.site_at.size() ? table.site_at[unit] : -1;
  if (index < 0) return answer(false);
  const SiteTable::Site site = table.sites[index];

  PyObject** locals = py::localsplus(frame);
  const int local_count = py::code_of(frame)->co_nlocalsplus;
  const FrameView view{locals,
                       local_count,
                       locals + local_count,
                       site.depth,
                       py::globals_of(frame),
                       py::builtins_of(frame),
                       reinterpret_cast<PyObject*>(py::function_of(frame))};
  UpdateSlot* slot = acquire_slot();
  FrameUpdate& update = slot->update;
  if (!ask_handler(tstate, table, site, view, update)) {
    if (!update.locals.empty() || !update.stack.empty()) drop_values(update);
    release_slot(slot);
    return answer(false);
  }
  parked.unit = static_cast<uint32_t>(table.landing[update.exit_instr]);
  const uint32_t seen = update.dropped_at < 0 ? update.exit_instr : static_cast<uint32_t>(update.dropped_at);
  parked.seen_unit = table.own_unit[seen];
  parked.slot = slot;
  parked.depth_before = site.depth;
  parked.frame = frame;
  // With a hook the call of the goto would not be inlined. The field itself: the setter does more in later versions.
  parked.hook = py::eval_slot(tstate);
  py::eval_slot(tstate) = nullptr;
  return answer(true);
}

// nb_invert of the goto object: runs in the goto function's frame, right above the frame that leaves its region.
PyObject* go(PyObject*) {
  PyThreadState* tstate = py::thread();
  py::Frame* here = py::current_frame(tstate);
  py::Frame* frame = here ? py::previous(here) : nullptr;
  if (!parked.frame || parked.frame != frame) Py_RETURN_NONE;  // called by hand
  parked.frame = nullptr;
  py::eval_slot(tstate) = parked.hook;
  UpdateSlot* slot = std::exchange(parked.slot, nullptr);
  FrameUpdate& update = slot->update;
  std::vector<PyObject*> dropped = std::move(spare_dropped);
  dropped.clear();

  PyObject** locals = py::localsplus(frame);
  for (const FrameUpdate::Local& local : update.locals)
    if (PyObject* old = std::exchange(locals[local.slot], local.value)) dropped.push_back(old);
  PyObject** stack = locals + py::code_of(frame)->co_nlocalsplus;
  const int depth = static_cast<int>(update.stack.size());
  for (int i = 0; i < parked.depth_before; ++i)
    if (stack[i]) dropped.push_back(stack[i]);
  for (int i = 0; i < depth; ++i) stack[i] = update.stack[i];
  py::set_depth(frame, depth);
  const uint32_t landing = parked.unit;

  // Last, as a finalizer may look at the frame; and it may come here again through another frame.
  update.locals.clear();
  update.stack.clear();
  update.dropped_at = -1;
  release_slot(slot);
  py::show_at(frame, parked.seen_unit);
  py::show_globals_of(here, frame);
  for (PyObject* old : dropped) Py_DECREF(old);
  dropped.clear();
  py::resume_at(frame, landing);
  spare_dropped = std::move(dropped);
  Py_RETURN_NONE;
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

Ref<> make_goto() {
  PyType_Slot slots[] = {{Py_nb_invert, reinterpret_cast<void*>(go)}, {0, nullptr}};
  PyType_Spec spec = {"framejit._core.Goto", sizeof(PyObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  Ref<> type = Ref<>::steal(PyType_FromSpec(&spec));
  if (!type) return {};
  auto* type_object = reinterpret_cast<PyTypeObject*>(type.get());
  Ref<> object = Ref<>::steal(type_object->tp_alloc(type_object, 0));
  // No RESUME: the frame counts as not begun for ever, so no traceback, _getframe or eval-breaker check sees it.
  const char units[] = {static_cast<char>(kRaw.load_const),   0, static_cast<char>(kRaw.unary_invert), 0,
                        static_cast<char>(kRaw.return_value), 0};
  Ref<> bytecode = Ref<>::steal(PyBytes_FromStringAndSize(units, sizeof units));
  Ref<> globals = Ref<>::steal(PyDict_New());
  if (!object || !bytecode || !globals) return {};
  Ref<> consts = Ref<>::steal(PyTuple_Pack(1, object.get()));
  if (!consts) return {};
  auto code = Ref<PyCodeObject>::steal(py::bare_code("framejit goto", bytecode.get(), consts.get(), 1));
  if (!code) return {};
  return Ref<>::steal(PyFunction_New(reinterpret_cast<PyObject*>(code.get()), globals.get()));
}

}  // namespace

Ref<> make_region(std::shared_ptr<SiteTable> table) {
  PyTypeObject* type = region_type();
  if (!type) return {};
  Ref<> object = Ref<>::steal(type->tp_alloc(type, 0));
  if (object) std::construct_at(&reinterpret_cast<Region*>(object.get())->table, std::move(table));
  return object;
}

bool is_region(PyObject* object) { return Py_TYPE(object) == region_type(); }

PyObject* goto_function() {
  static PyObject* function = nullptr;  // lives as long as the process
  if (!function) function = make_goto().release();
  return function;
}

bool tools_active() { return py::tools_active(py::thread()); }
bool has_headroom() { return py::has_headroom(py::thread()); }
bool eval_breaker_set() { return py::eval_breaker_set(py::thread()); }
bool signal_pending() { return py::signal_pending(); }
uint64_t splice_internal_errors() { return internal_errors; }

}  // namespace framejit::capture

#endif
