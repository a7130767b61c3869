#include "ext/frontends/batch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ext/arrays/tensor_object.h"
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
PyObject* batch_watch(PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* batch_written(PyObject*, PyObject*) { Py_RETURN_NONE; }

PyMethodDef functions[] = {{"_batch_begin", batch_begin, METH_NOARGS, nullptr},
                           {"_batch", batch, METH_VARARGS, nullptr},
                           {"_batch_watch", batch_watch, METH_NOARGS, nullptr},
                           {"_batch_written", batch_written, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(46, [](PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; });

/// A sample that is being captured, and what it has written of the memory that was there before.
struct Sample {
  int64_t session;
  std::size_t nodes;                                 // of the graph, blocks included, when it began
  std::vector<std::pair<ValueId, ValueId>> written;  // root, and a copy from before
};

/// The samples that this thread captures now; those of outer calls of vmap come first. A capture that ends early leaves
/// its samples here, and the next capture removes them.
thread_local std::vector<Sample> samples_under_way;

void watch(Session& session) {
  std::vector<Sample>& all = samples_under_way;
  std::erase_if(all, [&](const Sample& one) { return one.session != session.serial(); });
  all.push_back({session.serial(), session.graph().mark().nodes, {}});
  session.undo().learn([serial = session.serial(), nodes = all.back().nodes] {
    std::erase_if(samples_under_way, [&](const Sample& one) { return one.session == serial && one.nodes >= nodes; });
  });
}

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

/// The Parameters that the sample wrote, and which of the given arrays.
Captured<Value*> written(Session& session, const Value& given) {
  Value* none = session.values().constant(Py_None);
  std::vector<const Value*> arrays;
  if (samples_under_way.empty() || samples_under_way.back().session != session.serial() ||
      session.graph().is_in_block() || !take_arrays(given, arrays))
    return none;
  const Sample sample = samples_under_way.back();
  samples_under_way.pop_back();
  session.undo().learn([sample] { samples_under_way.push_back(sample); });
  const graph::Graph& graph = session.graph();
  std::vector<Value*> parameters, changed;
  for (const auto& [root, before] : sample.written) {
    if (graph.node(root).op != graph::Op::Param) continue;
    Value* input = session.inputs().value(graph.node(root).index());
    if (input->wrap() != Wrap::Tensor || Py_TYPE(input->object.get()) == arrays::tensor_type()) continue;
    parameters.push_back(session.values().tuple({input, session.values().array(before, Wrap::Tensor)}));
  }
  for (const Value* array : arrays) {
    const auto wrote = [&](const auto& one) { return one.first == graph.root(array->id()); };
    const bool found = std::any_of(sample.written.begin(), sample.written.end(), wrote);
    changed.push_back(session.values().constant(found ? Py_True : Py_False));
  }
  Value* first = session.values().tuple(std::move(parameters));
  return session.values().tuple({first, session.values().tuple(std::move(changed))});
}

PyCFunction method_of(PyObject* callable) {
  return PyCFunction_CheckExact(callable) ? reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_meth : nullptr;
}

class BatchFrontend final : public FunctionFrontend {
 public:
  std::string_view name() const override { return "batches"; }
  bool knows(PyObject* callable) const override {
    PyCFunction method = method_of(callable);
    return method && (method == batch_begin || method == batch || method == batch_watch || method == batch_written);
  }
  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const capture::Keyword>) override {
    PyCFunction method = method_of(callable);
    if (args.size() != (method == batch ? 4u : method == batch_written ? 1u : 0u))
      return break_at(BreakId::WouldRaise, "arguments of a batch");
    if (method == batch_watch) {
      watch(session);
      return session.values().constant(Py_None);
    }
    return method == batch_begin ? begin(session) : method == batch ? end(session, args) : written(session, *args[0]);
  }
};

}  // namespace

Captured<bool> note_batch_write(Session& session, ValueId root) {
  for (std::size_t i = 0; i < samples_under_way.size(); ++i) {
    Sample& sample = samples_under_way[i];
    const auto wrote = [&](const auto& one) { return one.first == root; };
    const bool own = graph::index(root) >= sample.nodes && session.graph().node(root).op != graph::Op::Param;
    if (sample.session != session.serial() || own || std::any_of(sample.written.begin(), sample.written.end(), wrote))
      continue;
    if (session.graph().is_in_block())
      return break_at(BreakId::UnsupportedArgument, "vmap: a branch or loop that assigns to what was there before");
    sample.written.emplace_back(root, session.builder().copy(root, 'C'));
    session.undo().learn([i, root] {
      if (i < samples_under_way.size())
        std::erase_if(samples_under_way[i].written, [&](const auto& one) { return one.first == root; });
    });
  }
  return true;
}

std::unique_ptr<capture::Frontend> make_batch_frontend() { return std::make_unique<BatchFrontend>(); }

}  // namespace framejit::ext::frontends
