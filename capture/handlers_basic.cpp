// Handlers: stack, locals, cells, globals, imports, attributes.
#include "capture/attributes.h"
#include "capture/calls.h"
#include "capture/flow.h"
#include "capture/handlers.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

Step load_method(SymbolicFrame& frame, Value* from, PyObject* name);

}  // namespace

Step stack_op(SymbolicFrame& frame, const Instr& i) {
  Session& session = frame.session();
  switch (i.op) {
    case Opcode::PushNull: frame.push(session.values().make(ValueKind::Null)); break;
    case Opcode::PopTop:
      if (may_finalize_in_slot(frame.stack.back())) return finalizes();
      frame.pop_raw();
      break;
    case Opcode::Copy: frame.push(frame.stack[frame.stack.size() - static_cast<std::size_t>(i.arg)]); break;
    case Opcode::Swap:
      std::swap(frame.stack.back(), frame.stack[frame.stack.size() - static_cast<std::size_t>(i.arg)]);
      break;
    case Opcode::LoadConst: frame.push(literal(frame.executor(), frame.view->constant(i.arg))); break;
    case Opcode::LoadAssertionError: frame.push(session.values().constant(PyExc_AssertionError)); break;
    default: break;  // Nop, Resume
  }
  return Flow::Next;
}

namespace {

/// What a slot of the entered frame held is relied upon by being there (a value that is loaded or deleted, perhaps
/// never looked at), or by not being there (a variable that the region binds and deletes).
void guard_binding(SymbolicFrame& frame, GuardKind kind, SourceRef source) {
  Guard g{};
  g.kind = kind;
  g.source = std::move(source);
  frame.session().guards().add(std::move(g));
}

SourceRef local_source(const SymbolicFrame& frame, int local) {
  return slot_source(SourceKind::Local, local, text_of(frame.view->local_name(local)));
}

/// The deleted contents of a cell of the entered frame, perhaps never looked at, are relied upon by being there.
void guard_contents(SymbolicFrame& frame, const Value* cell) {
  const SourceRef& held = cell->items[0]->source;
  if (cell->source && held && held->kind == SourceKind::Cell && same(*held->base, *cell->source))
    guard_binding(frame, GuardKind::Bound, held);
}

}  // namespace

Step local_op(SymbolicFrame& frame, const Instr& i) {
  Value*& slot = frame.locals[static_cast<std::size_t>(i.arg)];
  const bool stores = i.op == Opcode::StoreFast;
  const bool unbinds = i.op == Opcode::DeleteFast || i.op == Opcode::LoadFastAndClear ||
                       (stores && frame.stack.back()->kind == ValueKind::Null && !frame.stack.back()->partial);
  if (!frame.unbound_at_entry.empty()) {
    const bool unbound = frame.unbound_at_entry[static_cast<std::size_t>(i.arg)];
    if (!unbound && !stores && slot && slot->source) guard_binding(frame, GuardKind::Bound, local_source(frame, i.arg));
    if (unbound && unbinds) guard_binding(frame, GuardKind::Unbound, local_source(frame, i.arg));
  }
  switch (i.op) {
    case Opcode::StoreFast:
      if (slot != frame.stack.back() && may_finalize_in_slot(slot, frame.outermost ? i.arg : -1)) return finalizes();
      slot = frame.pop_raw();
      if (unbinds) slot = nullptr;  // LoadFastAndClear found it unbound
      break;
    case Opcode::DeleteFast:
      if (is_unknown(slot)) return break_at(BreakId::DataDependentBranch, text_of(frame.view->local_name(i.arg)));
      if (may_finalize_in_slot(slot, frame.outermost ? i.arg : -1)) return finalizes();
      if (!slot) return break_at(BreakId::UnboundVariable, text_of(frame.view->local_name(i.arg)));
      slot = nullptr;
      break;
    case Opcode::LoadFastAndClear:
      if (is_unknown(slot)) return break_at(BreakId::DataDependentBranch, text_of(frame.view->local_name(i.arg)));
      frame.push(slot ? slot : frame.session().values().make(ValueKind::Null));
      slot = nullptr;
      break;
    default:  // LoadFast, LoadFastCheck
      if (!slot) return break_at(BreakId::UnboundVariable, text_of(frame.view->local_name(i.arg)));
      if (is_choice(slot)) return split_choice(frame, slot, frame.stack.size());
      if (is_unknown(slot)) return break_at(BreakId::DataDependentBranch, text_of(frame.view->local_name(i.arg)));
      frame.push(slot);
  }
  return Flow::Next;
}

Step cell_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  const auto at = static_cast<std::size_t>(i.arg);
  if (i.op == Opcode::CopyFreeVars) {
    const std::size_t first = frame.locals.size() - at;
    FRAMEJIT_CHECK(frame.closure.size() >= at, "a closure shorter than the code's free variables");
    for (std::size_t k = 0; k < at; ++k) frame.locals[first + k] = frame.closure[k];
    return Flow::Next;
  }
  Value*& slot = frame.locals[at];
  if (i.op == Opcode::MakeCell) {
    Value* cell = frame.session().values().make(ValueKind::Cell);
    if (slot) cell->items.push_back(slot);
    slot = cell;
    return Flow::Next;
  }
  if (!slot || slot->kind != ValueKind::Cell)
    return break_at(BreakId::UnboundVariable, text_of(frame.view->local_name(i.arg)));
  switch (i.op) {
    case Opcode::LoadClosure: frame.push(slot); break;
    case Opcode::LoadDeref:
      if (slot->items.empty()) return break_at(BreakId::UnboundVariable, text_of(frame.view->local_name(i.arg)));
      frame.push(slot->items[0]);
      break;
    case Opcode::StoreDeref:
      if (!slot->items.empty() && may_finalize_in(slot, slot->items[0])) return finalizes();
      x.effects().store_cell(slot, frame.pop_raw());
      break;
    default:  // DeleteDeref
      if (slot->items.empty()) return break_at(BreakId::UnboundVariable, text_of(frame.view->local_name(i.arg)));
      if (may_finalize_in(slot, slot->items[0])) return finalizes();
      guard_contents(frame, slot);
      x.effects().store_cell(slot, nullptr);
  }
  return Flow::Next;
}

Step global_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  PyObject* name = frame.view->name(i.arg);
  if (i.op == Opcode::LoadGlobal) {
    FRAMEJIT_TRY(value, load_global(x, frame.globals, frame.builtins, name));
    push_callable(frame, value, i.flag ? frame.session().values().make(ValueKind::Null) : nullptr);
    return Flow::Next;
  }
  if (!PyDict_CheckExact(frame.globals))
    return break_at(BreakId::UnsupportedInstruction, "globals that are not a plain dict");
  if (may_finalize(PyDict_GetItemWithError(frame.globals, name))) return finalizes();
  if (i.op == Opcode::StoreGlobal) {
    FRAMEJIT_REQUIRE(store_global(x, frame.globals, name, frame.pop_raw()));
    return Flow::Next;
  }
  FRAMEJIT_TRY(present, global_item(x, frame.globals, name));
  if (!present) return break_at(BreakId::UnboundVariable, text_of(name));
  FRAMEJIT_REQUIRE(store_global(x, frame.globals, name, nullptr));
  return Flow::Next;
}

// An import of a module that is loaded already, under a guard on sys.modules and on __import__.
Step import_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  PyObject* name = frame.view->name(i.arg);
  if (i.flag) return break_at(BreakId::UserEffect, "lazy import");
  if (i.op == Opcode::ImportFrom) {
    Value* module = frame.peek(1);
    if (!module->is_constant() || !PyModule_CheckExact(module->object.get()))
      return break_at(BreakId::UserEffect, "an import from an object that is not a module");
    return frame.push_or_break(get_attr(x, module, name));
  }
  Value* from = frame.pop();
  Value* level = frame.pop();
  PyObject* modules = PyImport_GetModuleDict();
  const bool absolute =
      level->is_constant() && PyLong_CheckExact(level->object.get()) && PyLong_AsLong(level->object.get()) == 0;
  if (!absolute || !modules || !PyDict_CheckExact(modules))
    return break_at(BreakId::UserEffect, "import " + text_of(name));
  const std::string full = text_of(name);
  // `import a.b` binds a, `from a.b import c` and `import a.b as d` need a.b itself; all need a.b to be there.
  const std::string wanted = from->is_none() ? full.substr(0, full.find('.')) : full;
  PyObject* result = nullptr;
  for (const std::string& each : {full, wanted}) {
    Ref<> key = Ref<>::steal(PyUnicode_FromStringAndSize(each.data(), static_cast<Py_ssize_t>(each.size())));
    result = key ? PyDict_GetItemWithError(modules, key.get()) : nullptr;
    if (!result || !PyModule_CheckExact(result)) {
      PyErr_Clear();
      return break_at(BreakId::UserEffect, "import " + full);
    }
    auto base = std::make_shared<Source>();
    base->kind = SourceKind::Constant;
    base->object = Ref<>::share(modules);
    base->name = "sys.modules";
    auto source = std::make_shared<Source>();
    source->kind = SourceKind::Item;
    source->base = base;
    source->key = key;
    guard(x, GuardKind::Identity, source, result);
  }
  if (from->kind == ValueKind::Tuple) {
    for (Value* item : from->items) {
      if (!item->is_constant() || !PyDict_GetItemWithError(PyModule_GetDict(result), item->object.get())) {
        PyErr_Clear();
        return break_at(BreakId::UserEffect, "import " + full);
      }
    }
  } else if (!from->is_none()) {
    return break_at(BreakId::UserEffect, "import " + full);
  }
  Ref<> importer = Ref<>::steal(PyUnicode_InternFromString("__import__"));
  FRAMEJIT_TRY(function, load_global(x, frame.globals, frame.builtins, importer.get()));
  function = look(x, function);
  if (!function->is_constant() || !PyCFunction_Check(function->object.get()))
    return break_at(BreakId::UserEffect, "import " + full);
  frame.push(frame.session().values().constant(result));
  return Flow::Next;
}

Step attr_op(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  PyObject* name = frame.view->name(i.arg);
  if (i.op == Opcode::StoreAttr || i.op == Opcode::DeleteAttr) {
    Value* target = frame.pop();
    Value* value = i.op == Opcode::StoreAttr ? frame.pop_raw() : nullptr;
    FRAMEJIT_REQUIRE(set_attr(x, target, name, value));
    return Flow::Next;
  }
  Value* from = frame.pop();
  if (i.op == Opcode::LoadAttr) return frame.push_or_break(get_attr(x, from, name));
  return load_method(frame, from, name);
}

namespace {

/// A method of `from` as the interpreter pushes it: the function and its self, or what was found and NULL.
Step load_method(SymbolicFrame& frame, Value* from, PyObject* name) {
  Value* self = nullptr;
  FRAMEJIT_TRY(found, get_attr(frame.executor(), from, name, &self));
  if (self) {
    frame.push(found);
    frame.push(self);
  } else {
    if (found->kind == ValueKind::BoundMethod && !found->items[1] && found->as_method().form == MethodPart::Bound)
      found->as_method().form = MethodPart::Loaded;
    push_callable(frame, found, frame.session().values().make(ValueKind::Null));
  }
  return Flow::Next;
}

}  // namespace

/// `null`: the NULL that goes with it, or null where none does.
void push_callable(SymbolicFrame& frame, Value* callable, Value* null) {
  if (null && !py::kNullBehindCallable) frame.push(null);
  frame.push(callable);
  if (null && py::kNullBehindCallable) frame.push(null);
}

// super(class, self).name, without a super object.
Step load_super(SymbolicFrame& frame, const Instr& i) {
  Executor& x = frame.executor();
  Value* self = frame.pop();
  Value* cls = frame.pop();
  Value* made_by = frame.pop();
  if (!made_by->is_constant() || made_by->object.get() != reinterpret_cast<PyObject*>(&PySuper_Type))
    return unsupported(frame, i);
  FRAMEJIT_TRY(super, call(x, made_by, {cls, self}, {}));
  if (i.flag) return load_method(frame, super, frame.view->name(i.arg));
  return frame.push_or_break(get_attr(x, super, frame.view->name(i.arg)));
}

}  // namespace framejit::capture
