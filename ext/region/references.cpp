// Which references are given up, and what happens when such an object dies.
#include "ext/region/references.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "ext/library_calls/custom_op.h"

namespace framejit::ext::region {

using capture::HeldRef;
using capture::Ref;

References::References(const capture::Region& region) {
  std::unordered_set<const capture::Source*> seen;
  auto object = [this](const HeldRef& ref) {
    if (ref) refs_.push_back(&ref);
  };
  auto source = [&](const capture::SourceRef& ref) {
    for (const capture::Source* s = ref.get(); s && seen.insert(s).second; s = s->base.get()) {
      object(s->key);
      object(s->object);
      for (const HeldRef& part : s->parts) object(part);
    }
  };
  for (const capture::Guard& g : region.guards) {
    object(g.object);
    object(g.key);
    source(g.source);
    source(g.other);
    for (const capture::SourceRef& each : g.several) source(each);
  }
  for (const capture::Input& input : region.inputs) source(input.source);
  for (const capture::Origin& origin : region.origins) {
    object(origin.file);
    object(origin.globals);
  }
  for (const capture::Recipe& r : region.recipes) {
    object(r.object);
    source(r.source);
  }
  for (const capture::Effect& e : region.effects) {
    object(e.object);
    object(e.name);
    source(e.source);
  }
  if (region.loop) {
    for (const capture::SourceRef& s : region.loop->fetched) source(s);
    for (const capture::LoopExit& exit : region.loop->exits)
      for (const capture::LoopObject& o : exit.objects) object(o.object);
  }
  object(region.globals);
  object(region.builtins);
}

References::~References() {
  if (watcher_) PyCapsule_SetContext(watcher_.get(), nullptr);
}

int References::traverse(visitproc visit, void* arg) const {
  for (const HeldRef* ref : refs_)
    if (*ref && !ref->is_weak())
      if (const int result = visit(ref->get(), arg)) return result;
  return 0;
}

void References::weaken(std::function<void()> on_broken) {
  std::map<PyObject*, Py_ssize_t> counts;
  std::map<PyObject*, PyObject*> modules;  // by their namespaces, which have no weak references of their own
  for (const HeldRef* ref : refs_)
    if (PyModule_Check(ref->get())) modules.emplace(PyModule_GetDict(ref->get()), ref->get());
  for (const HeldRef* ref : refs_) {
    PyObject* object = ref->get();
    if (modules.count(object)) ++counts[object];
    const bool for_ever =
        PyType_Check(object) && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE);
    // A run calls custom operators: it must not lose one on the way.
    if (PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) && !for_ever && !library_calls::is_custom_op(object))
      ++counts[object];
  }
  if (counts.empty()) return;
  static PyMethodDef method = {"framejit_note_death", note_death, METH_O, nullptr};
  watcher_ = Ref<>::steal(PyCapsule_New(this, nullptr, nullptr));
  const Ref<> callback = watcher_ ? Ref<>::steal(PyCFunction_New(&method, watcher_.get())) : Ref<>();
  if (callback) PyCapsule_SetContext(watcher_.get(), this);
  on_broken_ = std::move(on_broken);
  std::unordered_set<PyObject*> weak;
  for (const auto& [object, count] : counts) {
    if (Py_REFCNT(object) <= count || !callback) continue;
    const auto module = modules.find(object);
    Ref<> weakref = Ref<>::steal(PyWeakref_NewRef(module == modules.end() ? object : module->second, callback.get()));
    if (!weakref) continue;
    dependencies_.push_back({std::move(weakref), object});
    weak.insert(object);
  }
  for (const HeldRef* ref : refs_)
    if (weak.count(ref->get())) ref->weaken();
  if (PyErr_Occurred()) PyErr_Clear();
}

PyObject* References::note_death(PyObject* capsule, PyObject* weakref) {
  auto* self = static_cast<References*>(PyCapsule_GetContext(capsule));
  if (!self) Py_RETURN_NONE;
  const auto at = std::find_if(self->dependencies_.begin(), self->dependencies_.end(),
                               [weakref](const Dependency& each) { return each.weakref.get() == weakref; });
  if (at == self->dependencies_.end()) Py_RETURN_NONE;
  for (const HeldRef* ref : self->refs_)
    if (ref->get() == at->object) ref->forget();
  self->dependencies_.erase(at);
  self->broken_ = true;
  const std::function<void()> on_broken = self->on_broken_;  // it may go
  on_broken();
  Py_RETURN_NONE;
}

}  // namespace framejit::ext::region
