#include "ext/frontends/batch.h"

#include <utility>
#include <vector>

#include "ext/frontends/function_frontend.h"
#include "ext/module/module.h"
#include "graph/passes/batch.h"
#include "graph/passes/memory.h"

namespace framejit::ext::frontends {

using capture::break_at;
using capture::BreakId;
using capture::Captured;
using capture::Ref;
using capture::Session;
using capture::Value;
using capture::ValueKind;
using capture::Wrap;
using graph::ValueId;

namespace {

PyObject* batch_begin(PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* batch(PyObject*, PyObject*) { Py_RETURN_NONE; }

PyMethodDef functions[] = {{"_batch_begin", batch_begin, METH_NOARGS, nullptr},
                           {"_batch", batch, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(46, [](PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; });

/// Where one sample began: the session, and its length then.
Captured<Value*> begin(Session& session) {
  const Session::Mark mark = session.mark();
  Ref<> at = Ref<>::steal(Py_BuildValue("(Lnnn)", static_cast<long long>(session.serial()),
                                        static_cast<Py_ssize_t>(session.graph().body().nodes.size()),
                                        static_cast<Py_ssize_t>(mark.undo), static_cast<Py_ssize_t>(mark.values)));
  if (!at || session.graph().is_in_block()) return session.values().constant(Py_None);
  return session.values().constant(at.get());
}

/// The arrays in a tuple; false where it holds anything else.
bool take_arrays(const Value& tuple, std::vector<const Value*>& out) {
  if (tuple.kind != ValueKind::Tuple || tuple.partial) return false;
  for (const Value* item : tuple.items) {
    if (!item->is_array() || item->wrap() == Wrap::PyComplex) return false;
    out.push_back(item);
  }
  return true;
}

Captured<Value*> end(Session& session, std::span<Value* const> args) {
  Value* none = session.values().constant(Py_None);
  long long serial;
  Py_ssize_t nodes;
  Session::Mark mark = session.mark();
  std::vector<const Value*> results, samples, batches;
  if (!args[0]->is_constant() || !PyTuple_Check(args[0]->object.get()) || session.graph().is_in_block()) return none;
  Py_ssize_t undo, values;
  if (!PyArg_ParseTuple(args[0]->object.get(), "Lnnn", &serial, &nodes, &undo, &values)) return PyErr_Clear(), none;
  mark.undo = static_cast<std::size_t>(undo);
  mark.values = static_cast<std::size_t>(values);
  if (serial != session.serial() || !is_pure(session, mark) || !take_arrays(*args[1], results) ||
      !take_arrays(*args[2], samples) || !take_arrays(*args[3], batches) || samples.empty() ||
      samples.size() != batches.size())
    return none;
  graph::Graph& graph = session.graph();
  graph::BatchRequest request;
  request.first = static_cast<std::size_t>(nodes);
  request.o1 = session.o1();
  request.stops = session.tapes().stops();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const graph::Type &one = graph.type(samples[i]->id()), &all = graph.type(batches[i]->id());
    if (all.rank() != one.rank() + 1 || !std::equal(one.shape.begin(), one.shape.end(), all.shape.begin() + 1) ||
        all.shape[0] != graph.type(batches[0]->id()).shape[0])
      return none;
    request.samples.push_back(samples[i]->id());
    request.batches.push_back(batches[i]->id());
  }
  for (const Value* result : results) request.outputs.push_back(result->id());
  const std::optional<graph::Batch> made = graph::append_batch(session.builder(), request);
  if (!made) return none;
  for (ValueId v : made->stops) session.tapes().add_stop(v);
  // The sample's own nodes are dead, and their flags those of the batch.
  std::vector<std::pair<ValueId, graph::FlagRule>> before;
  for (ValueId v : made->nodes) {
    before.emplace_back(v, graph.node(v).flag_rule);
    if (graph::may_set_flags(graph, v)) graph.node(v).flag_rule = graph::FlagRule::drop();
  }
  session.undo().learn([&graph, before] {
    for (const auto& [v, rule] : before) graph.node(v).flag_rule = rule;
  });
  std::vector<Value*> items;
  for (std::size_t i = 0; i < results.size(); ++i)
    items.push_back(
        session.values().array(made->outputs[i], results[i]->wrap() == Wrap::Tensor ? Wrap::Tensor : Wrap::NdArray));
  return session.values().tuple(std::move(items));
}

PyCFunction method_of(PyObject* callable) {
  return PyCFunction_CheckExact(callable) ? reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_meth : nullptr;
}

class BatchFrontend final : public FunctionFrontend {
 public:
  std::string_view name() const override { return "batches"; }
  bool knows(PyObject* callable) const override {
    return method_of(callable) && (method_of(callable) == batch_begin || method_of(callable) == batch);
  }
  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const capture::Keyword>) override {
    if (args.size() != (method_of(callable) == batch_begin ? 0u : 4u))
      return break_at(BreakId::WouldRaise, "arguments of a batch");
    return args.empty() ? begin(session) : end(session, args);
  }
};

}  // namespace

std::unique_ptr<capture::Frontend> make_batch_frontend() { return std::make_unique<BatchFrontend>(); }

}  // namespace framejit::ext::frontends
