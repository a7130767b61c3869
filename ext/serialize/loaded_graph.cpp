// _core.LoadedGraph: a graph from its text, as a callable. What framejit.load reads from a file.
//
// LoadedGraph(text, outputs, calls): `outputs` are (result of the graph, wrap), `calls` the indices of library calls by
// those in the text.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/py/until_exit.h"
#include "ext/arrays/result_arrays.h"
#include "ext/arrays/tensor_object.h"
#include "ext/frontends/frontends.h"
#include "ext/frontends/function_frontend.h"
#include "ext/library_calls/library_call_records.h"
#include "ext/module/module.h"
#include "ext/module/tape_hook.h"
#include "ext/region/compile.h"
#include "graph/copy.h"
#include "graph/passes/memory.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace framejit::ext::serialize {

using arrays::ArrayLayout;
using arrays::as_ndarray;
using capture::break_at;
using capture::BreakId;
using capture::Captured;
using capture::Ref;
using capture::Session;
using capture::Value;
using capture::Wrap;
using graph::Graph;
using graph::Op;
using graph::ValueId;

namespace {

struct Output {
  std::size_t result;
  Wrap wrap;
};

struct Loaded {
  Graph graph;
  std::unique_ptr<Graph> optimized;  // with `plan`, once something has called it that is not compiled
  std::unique_ptr<runtime::Plan> plan;
  std::vector<Output> outputs;
};

struct LoadedObject {
  PyObject_HEAD Loaded* loaded;
};

PyTypeObject* the_type = nullptr;

const Loaded& loaded_of(PyObject* self) { return *reinterpret_cast<LoadedObject*>(self)->loaded; }

/// All nodes get indices of this process for their library calls, and rules that drop floating-point flags. What is
/// wrong, if anything.
std::string settle(Graph& graph, PyObject* calls) {
  std::string wrong;
  graph::for_each_node(graph, graph.body(), [&](ValueId v) {
    graph::Node& node = graph.node(v);
    if (node.op == Op::Write && graph.node(graph.root(node.inputs[0])).op == Op::Param)
      wrong = "it writes into an input";
    // They write as many rows as they count, which is known where there is a Measure, so not here.
    if (node.op != Op::Param && (node.type.size() * graph::size_of(node.type.dtype)).value() > graph::kMostMemory)
      wrong = "an array that is larger than all memory";
    if (node.op == Op::Compress || node.op == Op::Expand || node.op == Op::Nonzero)
      wrong = "a mask that decides a size";
    if (node.op == Op::LibraryCall || graph::may_set_flags(graph, v)) node.flag_rule = graph::FlagRule::drop();
    if (node.op != Op::LibraryCall) return;
    Ref<> old = Ref<>::steal(PyLong_FromLongLong(node.index()));
    PyObject* known = old ? PyDict_GetItemWithError(calls, old.get()) : nullptr;
    const int64_t index = known ? PyLong_AsLongLong(known) : -1;
    std::vector<graph::Type> operands;
    for (ValueId input : node.inputs) operands.push_back(graph.type(input));
    if (!library_calls::library_call_fits(index, operands, node.type)) wrong = "a library call that is not known";
    for (auto& [key, value] : node.attrs)
      if (key == graph::AttrKey::Index) value = index;
  });
  PyErr_Clear();
  return wrong;
}

std::unique_ptr<Graph> read_graph(const char* text, PyObject* calls, std::string& wrong) {
  auto parsed = graph::parse(text);
  if (!parsed) {
    wrong = "line " + std::to_string(parsed.error().line) + ": " + parsed.error().message;
    return nullptr;
  }
  auto graph = std::make_unique<Graph>(std::move(*parsed));
  if (graph->shapes().symbol_count() != 0) wrong = "its shapes are not known";
  if (wrong.empty()) wrong = graph::verify(*graph).value_or("");
  if (wrong.empty()) wrong = settle(*graph, calls);
  return wrong.empty() ? std::move(graph) : nullptr;
}

bool read_outputs(PyObject* given, const Graph& graph, std::vector<Output>& out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    int result = -1, wrap = -1;
    if (!PyTuple_Check(PyTuple_GET_ITEM(given, i)) ||
        !PyArg_ParseTuple(PyTuple_GET_ITEM(given, i), "ii", &result, &wrap))
      return false;
    if (result < 0 || static_cast<std::size_t>(result) >= graph.results().size() || wrap < 0 ||
        wrap > static_cast<int>(Wrap::Tensor))
      return false;
    const graph::Type& type = graph.type(graph.results()[static_cast<std::size_t>(result)]);
    const Output output{static_cast<std::size_t>(result), static_cast<Wrap>(wrap)};
    if (output.wrap != Wrap::NdArray && output.wrap != Wrap::Tensor && type.rank() != 0) return false;
    if (output.wrap == Wrap::PyFloat && type.dtype != graph::DType::F64) return false;
    if (output.wrap == Wrap::PyInt && type.dtype != graph::DType::I64) return false;
    if (output.wrap == Wrap::PyBool && type.dtype != graph::DType::Bool) return false;
    if (output.wrap == Wrap::PyComplex || !ArrayLayout::make(type).descr) return false;
    out.push_back(output);
  }
  return true;
}

PyObject* loaded_new(PyTypeObject* type, PyObject* args, PyObject*) {
  const char* text;
  PyObject *outputs, *calls;
  if (!PyArg_ParseTuple(args, "sO!O!", &text, &PyTuple_Type, &outputs, &PyDict_Type, &calls)) return nullptr;
  std::string wrong;
  std::unique_ptr<Graph> graph = read_graph(text, calls, wrong);
  std::unique_ptr<Graph> other = graph ? read_graph(text, calls, wrong) : nullptr;
  auto loaded = std::make_unique<Loaded>();
  if (graph && !read_outputs(outputs, *graph, loaded->outputs)) wrong = "its results are not those of the graph";
  PyErr_Clear();
  if (!wrong.empty()) return PyErr_Format(PyExc_ValueError, "the graph is not sound: %s", wrong.c_str());
  loaded->graph = std::move(*graph);
  loaded->optimized = std::move(other);
  auto* self = reinterpret_cast<LoadedObject*>(type->tp_alloc(type, 0));
  if (self) self->loaded = loaded.release();
  return reinterpret_cast<PyObject*>(self);
}

void loaded_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<LoadedObject*>(self)->loaded;
  type->tp_free(self);
  Py_DECREF(type);
}

// ---- the call, where nothing is compiled around it

/// An array with the memory of the argument, or a copy that lies as the param does. Null with an exception set.
Ref<> as_operand(PyObject* arg, const graph::Type& type) {
  Ref<> array = Ref<>::share(arrays::is_tensor(arg) ? arrays::tensor_array(arg) : arg);
  if (!PyArray_CheckExact(array.get())) return PyErr_SetString(PyExc_TypeError, "arrays are needed"), Ref<>();
  PyArrayObject* given = as_ndarray(array.get());
  bool fits = arrays::dtype_of(PyArray_DESCR(given)) == type.dtype && PyArray_NDIM(given) == type.rank(),
       lies = PyArray_ISALIGNED(given);
  for (int i = 0; fits && i < type.rank(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    fits = type.shape[at] == graph::Dim(PyArray_DIM(given, i));
    lies = lies && type.strides[at] == graph::Dim(PyArray_STRIDE(given, i));
  }
  if (!fits) return PyErr_Format(PyExc_ValueError, "an argument is not %s", graph::str(type).c_str()), Ref<>();
  if (lies) return array;
  Ref<> copy = Ref<>::steal(arrays::new_array(ArrayLayout::make(type), {}));
  if (!copy || PyArray_CopyInto(as_ndarray(copy.get()), given) < 0) return {};
  return copy;
}

PyObject* as_output(Wrap wrap, Ref<> array) {
  if (!array || wrap == Wrap::NdArray) return array.release();
  if (wrap == Wrap::Tensor) return arrays::tensor_from_result(array.release());
  char* data = PyArray_BYTES(as_ndarray(array.get()));
  if (wrap == Wrap::NumpyScalar) return PyArray_Scalar(data, PyArray_DESCR(as_ndarray(array.get())), nullptr);
  if (wrap == Wrap::PyFloat) return PyFloat_FromDouble(*reinterpret_cast<const double*>(data));
  return arrays::python_number(wrap, data);
}

const runtime::Plan* plan_of(Loaded& loaded) {
  if (loaded.plan) return loaded.plan.get();
  region::CompileOptions options;
  options.ignore_fp_flags = true;
  auto compiled = compile(*loaded.optimized, options);
  if (!compiled)
    return PyErr_Format(PyExc_RuntimeError, "the graph is not compiled: %s", compiled.error().c_str()), nullptr;
  loaded.plan = std::move(compiled->plan);
  return loaded.plan.get();
}

PyObject* loaded_call(PyObject* self, PyObject* args, PyObject*) {
  if (module::tape_hook) {
    std::vector<PyObject*> all{self};
    all.insert(all.end(), &PyTuple_GET_ITEM(args, 0), &PyTuple_GET_ITEM(args, 0) + PyTuple_GET_SIZE(args));
    if (PyObject * taped; module::on_tape("LoadedGraph", all.data(), static_cast<Py_ssize_t>(all.size()), taped))
      return taped;
  }
  Loaded& loaded = *reinterpret_cast<LoadedObject*>(self)->loaded;
  const std::vector<ValueId>& params = loaded.graph.params();
  if (PyTuple_GET_SIZE(args) != static_cast<Py_ssize_t>(params.size()))
    return PyErr_Format(PyExc_TypeError, "%zu arguments are needed", params.size());
  const runtime::Plan* plan = plan_of(loaded);
  if (!plan) return nullptr;
  const Graph& graph = *loaded.optimized;
  std::vector<Ref<>> arrays(graph.value_count());  // by root
  std::vector<char*> given, memory;
  for (std::size_t i = 0; i < params.size(); ++i) {
    Ref<>& array = arrays[index(graph.params()[i])];
    array = as_operand(PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i)), graph.type(graph.params()[i]));
    if (!array) return nullptr;
    given.push_back(PyArray_BYTES(as_ndarray(array.get())));
  }
  for (ValueId root : plan->program().result_roots) {
    Ref<>& array = arrays[index(root)];
    array = Ref<>::steal(arrays::new_array(ArrayLayout::make(graph.type(root)), {}));
    if (!array) return nullptr;
    memory.push_back(PyArray_BYTES(as_ndarray(array.get())));
  }
  runtime::RunResult run;
  if (plan->cost({}) < region::kReleaseAbove) {
    run = plan->run(given, memory, {});
  } else {
    PyThreadState* state = PyEval_SaveThread();
    run = plan->run(given, memory, {});
    capture::py::until_exit([&] { PyEval_RestoreThread(state); });
  }
  if (run.status == runtime::RunStatus::OutOfMemory) return PyErr_NoMemory();
  if (run.status != runtime::RunStatus::Done) {
    PyErr_SetString(PyExc_RuntimeError,
                    "for these values the exported function raised an error, or did what its graph does not hold");
    return nullptr;
  }
  Ref<> out = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(loaded.outputs.size())));
  std::vector<bool> taken(graph.value_count(), false);
  for (std::size_t i = 0; out && i < loaded.outputs.size(); ++i) {
    const ValueId v = graph.results()[loaded.outputs[i].result], root = graph.root(v);
    Ref<> array = arrays[index(root)];
    if (v != root)
      array = Ref<>::steal(arrays::new_view(ArrayLayout::make(graph.type(v)),
                                            PyArray_BYTES(as_ndarray(array.get())) + graph.type(v).offset.value(),
                                            array.get(), {}));
    else if (taken[index(v)])  // two results are two objects
      array = Ref<>::steal(PyArray_NewCopy(as_ndarray(array.get()), NPY_KEEPORDER));
    taken[index(v)] = true;
    PyObject* made = as_output(loaded.outputs[i].wrap, std::move(array));
    if (!made) return nullptr;
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), made);
  }
  return out.release();
}

/// (dtype, shape, strides) of each param.
PyObject* loaded_params(PyObject* self, void*) {
  const Graph& graph = loaded_of(self).graph;
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (ValueId p : graph.params()) {
    const ArrayLayout layout = ArrayLayout::make(graph.type(p));
    if (!layout.descr)
      return PyErr_Format(PyExc_ValueError, "NumPy has no dtype for %s", graph::str(graph.type(p)).c_str());
    Ref<> shape = Ref<>::steal(PyTuple_New(layout.rank)), strides = Ref<>::steal(PyTuple_New(layout.rank));
    for (int i = 0; shape && strides && i < layout.rank; ++i) {
      PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(graph.type(p).shape[static_cast<std::size_t>(i)].value()));
      PyTuple_SET_ITEM(strides.get(), i,
                       PyLong_FromLongLong(graph.type(p).strides[static_cast<std::size_t>(i)].value()));
    }
    Ref<> row = shape && strides ? Ref<>::steal(PyTuple_Pack(3, layout.descr, shape.get(), strides.get())) : Ref<>();
    if (!row || !list || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* loaded_str(PyObject* self) {
  const std::string text = graph::print(loaded_of(self).graph);
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

char kParams[] = "params";
PyGetSetDef getset[] = {{kParams, loaded_params, nullptr, nullptr, nullptr},
                        {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(loaded_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(loaded_dealloc)},
                       {Py_tp_call, reinterpret_cast<void*>(loaded_call)},
                       {Py_tp_str, reinterpret_cast<void*>(loaded_str)},
                       {Py_tp_getset, getset},
                       {0, nullptr}};
PyType_Spec spec = {"framejit._core.LoadedGraph", sizeof(LoadedObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

/// _library_call(index): see library_call_record().
PyObject* library_call_of_index(PyObject*, PyObject* index) {
  const long long number = PyLong_AsLongLong(index);
  return PyErr_Occurred() ? nullptr : library_calls::library_call_record(number).release();
}

PyObject* library_call_index(PyObject*, PyObject* record) {
  const std::optional<int64_t> index = library_calls::library_call_from_record(record);
  return index ? PyLong_FromLongLong(*index) : nullptr;
}

PyMethodDef functions[] = {{"_library_call", library_call_of_index, METH_O, nullptr},
                           {"_library_call_index", library_call_index, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

/// The call as nodes of the graph that is being captured. Breaks where the operands are not of the types of the params.
Captured<Value*> call_loaded_graph(Session& session, PyObject* callable, std::span<Value* const> args) {
  const Loaded& loaded = loaded_of(callable);
  const Graph& from = loaded.graph;
  Graph& to = session.graph();
  if (args.size() != from.params().size())
    return break_at(BreakId::WouldRaise, "number of arguments of a loaded graph");
  std::vector<ValueId> params;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const graph::Type& type = from.type(from.params()[i]);
    if (!args[i]->is_array() || to.type(args[i]->id()).dtype != type.dtype ||
        to.type(args[i]->id()).shape != type.shape || to.type(args[i]->id()).strides != type.strides)
      return break_at(BreakId::UnsupportedArgument, "a loaded graph of what is not " + graph::str(type));
    params.push_back(args[i]->id());
  }
  bool blocks = false;
  graph::for_each_node(from, from.body(), [&](ValueId v) { blocks = blocks || !from.node(v).blocks.empty(); });
  if (blocks && session.tapes().any())
    return break_at(BreakId::UnsupportedArgument, "the gradient of a loaded graph with branches or loops");
  const std::size_t before = to.value_count();
  const std::vector<ValueId> results = graph::append_graph(to, from, params);
  for (std::size_t i = before; i < to.value_count(); ++i)
    to.node(static_cast<ValueId>(i)).location = session.position().location();
  std::vector<Value*> items;
  for (const Output& output : loaded.outputs)
    items.push_back(session.values().array(results[output.result], output.wrap));
  return session.values().tuple(std::move(items));
}

class LoadedGraphFrontend final : public frontends::FunctionFrontend {
 public:
  std::string_view name() const override { return "loaded graphs"; }
  bool knows(PyObject* callable) const override { return Py_IS_TYPE(callable, the_type); }
  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const capture::Keyword>) override {
    return call_loaded_graph(session, callable, args);
  }
};

const module::ModulePart part(45, [](PyObject* module) {
  the_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  frontends::add_frontend(std::make_unique<LoadedGraphFrontend>());
  return the_type && PyModule_AddObjectRef(module, "LoadedGraph", reinterpret_cast<PyObject*>(the_type)) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
});

}  // namespace

}  // namespace framejit::ext::serialize
