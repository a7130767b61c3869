// Asks framejit._reporting._verify, which copies and compares.
#include "ext/dispatch/predictions.h"

#include <stdexcept>
#include <utility>

#include "capture/py/repr.h"
#include "capture/python_names.h"
#include "ext/dispatch/loop_sites.h"
#include "ext/region/prediction.h"

namespace framejit::ext::dispatch {

using capture::FrameView;
using capture::Ref;
using capture::text_of;

namespace {

Ref<> listed(capture::py::Slots objects, int count, PyObject* unbound) {
  Ref<> list = Ref<>::steal(PyList_New(count));
  for (int i = 0; list && i < count; ++i) PyList_SET_ITEM(list.get(), i, Py_NewRef(objects[i] ? objects[i] : unbound));
  return list;
}

}  // namespace

Predictions::Visit Predictions::visit(PyCodeObject* code, uint32_t site, bool first, const FrameView& frame,
                                      std::string& difference) {
  const Ref<> module = Ref<>::steal(PyImport_ImportModule(python_names::kVerify));
  const Ref<> unbound = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), "UNBOUND")) : Ref<>();
  if (!unbound) return PyErr_Clear(), Visit::Failed;
  if (first) {
    pending_.erase(frame.locals);  // of a frame that was left by an exception
    const Ref<> locals = listed(frame.locals, frame.local_count, unbound.get());
    const Ref<> address = Ref<>::steal(PyLong_FromVoidPtr(const_cast<void*>(frame.locals.address())));
    Ref<>::steal(PyObject_CallMethod(module.get(), "begin", "OOO", address.get(), code, locals.get()));
  }
  const auto at = pending_.find(frame.locals);
  if (at == pending_.end()) return Visit::Ready;
  if (at->second.exit != site) return PyErr_Clear(), Visit::Waiting;
  const Ref<> prediction = std::move(at->second.prediction);
  pending_.erase(at);
  const Ref<> locals = listed(frame.locals, frame.local_count, unbound.get());
  const Ref<> stack = listed(frame.stack, frame.depth, unbound.get());
  const Ref<> said =
      Ref<>::steal(PyObject_CallMethod(module.get(), "check", "OOO", prediction.get(), locals.get(), stack.get()));
  if (!said) throw std::runtime_error("a prediction could not be compared");
  difference = text_of(said.get());
  return Visit::Ready;
}

void Predictions::predict(region::Entry& entry, const FrameView& frame) {
  // The stores of a compiled loop cannot be undone.
  if (entry.loop() || is_passed_before_exit(entry.region())) return;
  Ref<> prediction;
  if (region::predict(entry, frame, prediction) == region::Outcome::Done)
    pending_[frame.locals] = {std::move(prediction), entry.region().exit};
}

}  // namespace framejit::ext::dispatch
