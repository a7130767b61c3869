// Function._export(*args): the one graph of a call, in the terms of framejit._files._export. Nothing is run.
#include "ext/dispatch/function.h"
#include "ext/dispatch/whole_calls.h"
#include "ext/guards/guard_program_impl.h"
#include "ext/library_calls/library_call_records.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/control.h"
#include "ext/module/module.h"
#include "graph/builder.h"
#include "graph/copy.h"
#include "graph/text.h"

namespace framejit::ext::serialize {

using capture::Effect;
using capture::Recipe;
using capture::Ref;
using guards::LiveSlots;

namespace {

PyObject* refuse(const std::string& why) { return PyErr_Format(PyExc_ValueError, "For 'export', %s.", why.c_str()); }

class Exporter {
 public:
  Exporter(const region::Entry& entry, const LiveSlots& live)
      : region_(entry.region()), graph_(*region_.graph), live_(live), text_(entry.graph_text()) {}

  /// {graph, inputs: [(object, source)], result, prints: [(arguments, names of the last ones)], writes: [(input,
  /// output that is stored there)], outputs: ((result of the graph, wrap), ...), calls: {index: record}}
  PyObject* run() {
    if (!is_pure()) return nullptr;
    Ref<> inputs = Ref<>::steal(PyList_New(0)), calls = Ref<>::steal(PyDict_New()), result = tree(region_.result),
          prints = Ref<>::steal(PyList_New(0)), writes = Ref<>::steal(PyList_New(0)),
          outputs = Ref<>::steal(PyList_New(0));
    if (!inputs || !calls || !result || !prints || !writes || !outputs || !add_inputs(inputs.get()) ||
        !add_calls(calls.get()) || !add_prints(prints.get()))
      return nullptr;
    for (const uint32_t output : outputs_) {
      const Recipe& r = region_.recipes[output];
      if (!add(outputs.get(), r.index, r.wrap)) return nullptr;
    }
    if (!add_writes(writes.get(), outputs.get())) return nullptr;
    outputs = Ref<>::steal(PyList_AsTuple(outputs.get()));
    return outputs ? Py_BuildValue("{s:s,s:O,s:O,s:O,s:O,s:O,s:O}", "graph", text_.c_str(), "inputs", inputs.get(),
                                   "result", result.get(), "prints", prints.get(), "writes", writes.get(), "outputs",
                                   outputs.get(), "calls", calls.get())
                   : nullptr;
  }

 private:
  /// Does it compute, and nothing else?
  bool is_pure() {
    for (const Effect& effect : region_.effects)
      if (effect.kind != Effect::Kind::CountCall && effect.kind != Effect::Kind::Print)
        return refuse("the function changes an object that was there before the call, which a graph in a file cannot"),
               false;
    if (graph_.shapes().symbol_count() != 0)
      return refuse("the shapes of what the function computes are not known before it runs"), false;
    return true;
  }

  using ValueId = graph::ValueId;

  static bool add(PyObject* list, std::size_t first, capture::Wrap wrap) {
    const Ref<> row = Ref<>::steal(Py_BuildValue("(ni)", static_cast<Py_ssize_t>(first), static_cast<int>(wrap)));
    return row && PyList_Append(list, row.get()) == 0;
  }

  /// Makes the graph write into copies of its params, and return them: what loads it stores them.
  bool add_writes(PyObject* writes, PyObject* outputs) {
    std::vector<bool> written(graph_.value_count());
    bool any = false;
    graph::for_each_node(graph_, graph_.body(), [&](ValueId v) {
      if (graph_.node(v).op != graph::Op::Write) return;
      const ValueId root = graph_.root(graph_.node(v).inputs[0]);
      if (graph_.node(root).op == graph::Op::Param) any = written[index(root)] = true;
    });
    if (!any) return true;
    graph::Graph copy(graph_.name());
    graph::GraphBuilder builder(copy);
    std::vector<ValueId> params, copies;
    for (ValueId p : graph_.params())
      params.push_back(builder.param(graph_.type(p), std::string(graph_.node(p).name())));
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!written[index(graph_.params()[i])]) continue;
      params[i] = builder.copy(params[i], 'K');
      const std::size_t result = graph_.results().size() + copies.size();
      copies.push_back(params[i]);
      const Ref<> write = Ref<>::steal(Py_BuildValue("(nn)", static_cast<Py_ssize_t>(i), PyList_GET_SIZE(outputs)));
      if (!write || PyList_Append(writes, write.get()) < 0 || !add(outputs, result, capture::Wrap::Tensor))
        return false;
    }
    std::vector<ValueId> results = graph::append_graph(copy, graph_, params);
    results.insert(results.end(), copies.begin(), copies.end());
    copy.set_results(std::move(results));
    text_ = graph::print(copy);
    return true;
  }

  bool add_inputs(PyObject* list) {
    for (const capture::Input& input : region_.inputs) {
      PyObject* object = guards::fetch_source(*input.source, live_);
      Ref<> row = object ? Ref<>::steal(Py_BuildValue("(Os)", object, input.source->str().c_str())) : Ref<>();
      if (!row || PyList_Append(list, row.get()) < 0) return false;
    }
    return true;
  }

  bool add_calls(PyObject* dict) {
    std::vector<int64_t> indices;
    graph::for_each_node(graph_, graph_.body(), [&](ValueId v) {
      if (graph_.node(v).op == graph::Op::LibraryCall) indices.push_back(graph_.node(v).index());
    });
    for (int64_t index : indices) {
      if (index < graph::kFirstRaisingLibraryCall)
        return refuse("a custom_op is called, which is Python code that a file does not hold"), false;
      Ref<> record = library_calls::library_call_record(index), key = Ref<>::steal(PyLong_FromLongLong(index));
      if (!record || !key || PyDict_SetItem(dict, key.get(), record.get()) < 0) return false;
    }
    return true;
  }

  bool add_prints(PyObject* list) {
    for (const Effect& effect : region_.effects) {
      if (effect.kind != Effect::Kind::Print) continue;
      whole_ = "what is printed";
      Ref<> args = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(effect.items.size())));
      for (std::size_t i = 0; args && i < effect.items.size(); ++i) {
        Ref<> arg = tree(effect.items[i]);
        if (!arg) return false;
        PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), arg.release());
      }
      PyObject* names = effect.name ? effect.name.get() : nullptr;
      Ref<> row = Ref<>::steal(args ? Py_BuildValue(names ? "(OO)" : "(O())", args.get(), names) : nullptr);
      if (!row || PyList_Append(list, row.get()) < 0) return false;
    }
    return true;
  }

  /// What is given back, as tuples: ("result", number of the output), ("value", object), ("fetch", object), ("tuple",
  /// items ...),
  /// ("list", items ...), ("dict", key, value ...), ("choice", number, items ...).
  Ref<> tree(uint32_t recipe, int depth = 0) {
    const Recipe& r = region_.recipes[recipe];
    if (depth > 32) return refuse(std::string(whole_) + " contains itself"), Ref<>();
    switch (r.kind) {
      case Recipe::Kind::Result: {
        if (r.writing != capture::Writing::Allowed)
          return refuse("a part of " + std::string(whole_) + " is an array that cannot be written"), Ref<>();
        std::size_t at = 0;  // equal recipes are one object
        while (at < outputs_.size() && outputs_[at] != recipe) ++at;
        if (at == outputs_.size()) outputs_.push_back(recipe);
        return Ref<>::steal(Py_BuildValue("(sn)", "result", static_cast<Py_ssize_t>(at)));
      }
      case Recipe::Kind::Constant: return Ref<>::steal(Py_BuildValue("(sO)", "value", r.object.get()));
      case Recipe::Kind::Fetch: {
        PyObject* object = guards::fetch_source(*r.source, live_);
        return object ? Ref<>::steal(Py_BuildValue("(sO)", "fetch", object)) : Ref<>();
      }
      case Recipe::Kind::Int:
        if (r.dim.is_const())
          return Ref<>::steal(Py_BuildValue("(sL)", "value", static_cast<long long>(r.dim.value())));
        break;
      case Recipe::Kind::Tuple: return items("tuple", r, depth);
      case Recipe::Kind::List: return items("list", r, depth);
      case Recipe::Kind::Dict: return items("dict", r, depth);
      case Recipe::Kind::Choice: return items("choice", r, depth);
      case Recipe::Kind::Text: return text(r, depth);
      default: break;
    }
    const bool named = r.object && PyType_Check(r.object.get());
    return refuse(std::string(whole_) +
                  " must be of arrays, numbers, str, None, tuples, lists and dicts, but "
                  "has " +
                  (named ? std::string("a ") + reinterpret_cast<PyTypeObject*>(r.object.get())->tp_name
                         : "another object")),
           Ref<>();
  }

  /// ("text", ("value", name of the function), items ...): of those of which texts are made.
  Ref<> text(const Recipe& r, int depth) {
    const char* name = nullptr;
    if (PyCFunction_CheckExact(r.object.get()))
      name = reinterpret_cast<PyCFunctionObject*>(r.object.get())->m_ml->ml_name;
    else if (r.object.get() == reinterpret_cast<PyObject*>(&PyUnicode_Type)) name = "str";
    PyObject* self = name && PyCFunction_CheckExact(r.object.get()) ? PyCFunction_GET_SELF(r.object.get()) : nullptr;
    const bool joins = self && PyUnicode_CheckExact(self) && PyUnicode_GET_LENGTH(self) == 0;
    if (!name || (self && !joins && !PyModule_Check(self)))
      return refuse(std::string(whole_) + " has a text that a file cannot hold"), Ref<>();
    return items("text", r, depth, Ref<>::steal(Py_BuildValue("(ss)", "value", name)));
  }

  /// `first`: an item in front of the recipe's, or null.
  Ref<> items(const char* name, const Recipe& r, int depth, Ref<> first = {}) {
    Ref<> list = Ref<>::steal(PyList_New(0)), kind = Ref<>::steal(PyUnicode_FromString(name));
    if (!list || !kind || PyList_Append(list.get(), kind.get()) < 0) return {};
    if (first && PyList_Append(list.get(), first.get()) < 0) return {};
    for (const uint32_t each : r.items) {
      Ref<> item = tree(each, depth + 1);
      if (!item || PyList_Append(list.get(), item.get()) < 0) return {};
    }
    return Ref<>::steal(PyList_AsTuple(list.get()));
  }

  const capture::Region& region_;
  const graph::Graph& graph_;
  const LiveSlots& live_;
  std::string text_;
  const char* whole_ = "the result";  // of what trees are made
  std::vector<uint32_t> outputs_;     // recipes
};

PyObject* function_export(PyObject* self, PyObject* args) {
  auto* f = reinterpret_cast<dispatch::FunctionObject*>(self);
  std::vector<PyObject*> slots(static_cast<std::size_t>(module::argument_slots(f->state->code())));
  module::BoundExtras extras;
  if (!module::bind_arguments(f->function, &PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args), nullptr, slots.data(),
                              extras))
    return PyErr_Format(PyExc_TypeError, "For 'export', the inputs are not those of the function.");
  if (module::is_disabled(f->state->code()))
    return PyErr_Format(PyExc_RuntimeError, "For 'export', compilation must not be switched off.");
  const std::shared_ptr<dispatch::CodeState> state = f->state;
  try {
    if (!dispatch::precompile_whole(*state, f->function, slots.data())) return nullptr;
    const LiveSlots live{slots.data(), static_cast<int>(slots.size()), nullptr, 0,
                         reinterpret_cast<PyObject*>(f->function)};
    const std::shared_ptr<region::Entry> entry = dispatch::entry_of_call(*state, live);
    if (!entry) return refuse("the function computes nothing from arrays, or nothing that is compiled");
    return Exporter(*entry, live).run();
  } catch (const std::exception& error) {
    return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_RuntimeError, "framejit: %s", error.what());
  }
}

PyMethodDef method = {"_export", function_export, METH_VARARGS,
                      "_export(*args)\n--\n\nThe one graph of such a call, for framejit.export."};

const module::ModulePart part(45, [](PyObject*) {
  PyTypeObject* type = dispatch::function_type();
  const Ref<> descriptor = Ref<>::steal(PyDescr_NewMethod(type, &method));
  if (!descriptor || PyDict_SetItemString(type->tp_dict, method.ml_name, descriptor.get()) < 0) return false;
  PyType_Modified(type);
  return true;
});

}  // namespace

}  // namespace framejit::ext::serialize
