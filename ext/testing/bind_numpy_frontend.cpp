// _core._FrontendSession: the NumPy frontend, driven from Python without bytecode. For tests: what a program gives in
// the graph is compared with what NumPy gives.
//
// Values of the session are numbers (handles) wrapped in a 1-tuple; anything else is a constant.
#include <memory>
#include <string>
#include <vector>

#include "ext/arrays/errstate.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/numpy_loops.h"
#include "ext/arrays/numpy_probe.h"
#include "ext/frontends/numpy/frontend.h"
#include "ext/frontends/numpy/ops.h"
#include "ext/module/module.h"
#include "graph/text.h"

namespace framejit::ext::testing {

using capture::Break;
using capture::BreakId;
using capture::Captured;
using capture::Ref;
using capture::Session;
using capture::Value;
using capture::ValueKind;
using capture::Wrap;
using graph::DType;
using graph::ValueId;
namespace {

struct Driver {
  capture::Varied varied;
  std::unique_ptr<capture::Frontend> frontend;
  std::unique_ptr<Session> session;
  std::vector<Value*> values;
};

struct FrontendSession {
  PyObject_HEAD Driver* driver;
};

PyObject* break_error;  // _core._FrontendBreak(code, message)

PyObject* raise_break(const Break& reason) {
  std::string code(capture::code_of(reason.id));
  Ref<> args = Ref<>::steal(Py_BuildValue("(ss)", code.c_str(), reason.detail.c_str()));
  if (args) PyErr_SetObject(break_error, args.get());
  return nullptr;
}

/// A (handle,) tuple for values that need the session, else the constant itself; tuples of values become tuples.
PyObject* give(Driver& driver, Value* value) {
  if (value->is_constant()) return Py_NewRef(value->object.get());
  if (value->kind == ValueKind::Tuple) {
    Ref<> tuple = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(value->items.size())));
    for (std::size_t i = 0; tuple && i < value->items.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), give(driver, value->items[i]));
    return Py_BuildValue("(sN)", "tuple", tuple.release());
  }
  driver.values.push_back(value);
  return Py_BuildValue("(sn)", "value", static_cast<Py_ssize_t>(driver.values.size() - 1));
}

PyObject* give(Driver& driver, Captured<Value*> value) {
  return value ? give(driver, *value) : raise_break(value.error());
}

/// ("value", n), ("tuple", items), ("list", items), ("slice", items), ("const", object).
Value* take(Driver& driver, PyObject* object) {
  const char* tag = nullptr;
  PyObject* rest = nullptr;
  if (!PyArg_ParseTuple(object, "sO", &tag, &rest)) return nullptr;
  std::string kind = tag;
  if (kind == "value") return driver.values[static_cast<std::size_t>(PyLong_AsSsize_t(rest))];
  if (kind == "const") return driver.session->values().constant(rest);
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rest); ++i) {
    Value* item = take(driver, PyTuple_GET_ITEM(rest, i));
    if (!item) return nullptr;
    items.push_back(item);
  }
  if (kind == "tuple") return driver.session->values().tuple(std::move(items));
  Value* made = driver.session->values().make(kind == "list" ? ValueKind::List : ValueKind::Slice);
  made->items = std::move(items);
  return made;
}

bool take_all(Driver& driver, PyObject* tuple, std::vector<Value*>& out) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    out.push_back(take(driver, PyTuple_GET_ITEM(tuple, i)));
    if (!out.back()) return false;
  }
  return true;
}

/// Runs one operation of the frontend; a break leaves no trace.
template <class F>
PyObject* transaction(Driver& driver, F&& run) {
  Session::Mark mark = driver.session->mark();
  PyObject* result = run();
  if (!result && PyErr_ExceptionMatches(break_error)) driver.session->rollback(mark);
  return result;
}

Driver& driver_of(PyObject* self) { return *reinterpret_cast<FrontendSession*>(self)->driver; }

PyObject* session_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* names = nullptr;
  if (!PyArg_ParseTuple(args, "|O!", &PyTuple_Type, &names)) return nullptr;
  auto driver = std::make_unique<Driver>();
  driver->frontend = frontends::make_numpy_frontend();
  if (!driver->frontend) return nullptr;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
    if (!name) return nullptr;
    driver->varied.names.insert(name);
  }
  driver->session =
      std::make_unique<Session>("f", driver->varied, std::vector<capture::Frontend*>{driver->frontend.get()});
  PyObject* self = type->tp_alloc(type, 0);
  if (self) reinterpret_cast<FrontendSession*>(self)->driver = driver.release();
  return self;
}

void session_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<FrontendSession*>(self)->driver;
  type->tp_free(self);
  Py_DECREF(type);
}

/// input(object, name): wraps it as the local variable of that name.
PyObject* session_input(PyObject* self, PyObject* args) {
  PyObject* object;
  const char* name;
  if (!PyArg_ParseTuple(args, "Os", &object, &name)) return nullptr;
  Driver& driver = driver_of(self);
  auto source = std::make_shared<capture::Source>();
  source->kind = capture::SourceKind::Local;
  source->index = static_cast<int>(driver.session->inputs().all().size());
  source->name = name;
  return transaction(driver, [&] { return give(driver, driver.frontend->wrap(*driver.session, object, source)); });
}

/// number(value): an int becomes a symbolic int, a float a run-time float that promotes as a Python number.
PyObject* session_number(PyObject* self, PyObject* number) {
  Driver& driver = driver_of(self);
  Session& session = *driver.session;
  Value* value = nullptr;
  if (PyLong_CheckExact(number)) {
    value = session.values().make(ValueKind::Int);
    value->as_int().dim = session.graph().shapes().fresh(PyLong_AsLongLong(number));
  } else {
    value = session.values().array(session.builder().param({DType::F64, {}, {}}, "number"), Wrap::PyFloat);
    value->as_array().weak = true;
  }
  return give(driver, value);
}

PyObject* session_binary(PyObject* self, PyObject* args) {
  int nb;
  PyObject *left, *right;
  if (!PyArg_ParseTuple(args, "iOO", &nb, &left, &right)) return nullptr;
  Driver& driver = driver_of(self);
  Value *a = take(driver, left), *b = take(driver, right);
  if (!a || !b) return nullptr;
  return transaction(driver, [&] { return give(driver, driver.frontend->binary(*driver.session, nb, a, b)); });
}

PyObject* session_compare(PyObject* self, PyObject* args) {
  int op;
  PyObject *left, *right;
  if (!PyArg_ParseTuple(args, "iOO", &op, &left, &right)) return nullptr;
  Driver& driver = driver_of(self);
  Value *a = take(driver, left), *b = take(driver, right);
  if (!a || !b) return nullptr;
  return transaction(driver, [&] { return give(driver, driver.frontend->compare(*driver.session, op, a, b)); });
}

PyObject* session_unary(PyObject* self, PyObject* args) {
  int op;
  PyObject* operand;
  if (!PyArg_ParseTuple(args, "iO", &op, &operand)) return nullptr;
  Driver& driver = driver_of(self);
  Value* x = take(driver, operand);
  if (!x) return nullptr;
  return transaction(driver, [&] {
    return give(driver, driver.frontend->unary(*driver.session, static_cast<capture::Unary>(op), x));
  });
}

/// call(function, args, {name: value}); call(name, (self, ...), ...) calls a method.
PyObject* session_call(PyObject* self, PyObject* args) {
  PyObject *callable, *positional, *named;
  if (!PyArg_ParseTuple(args, "OO!O!", &callable, &PyTuple_Type, &positional, &PyDict_Type, &named)) return nullptr;
  Driver& driver = driver_of(self);
  std::vector<Value*> values;
  if (!take_all(driver, positional, values)) return nullptr;
  std::vector<capture::Keyword> keywords;
  PyObject *key, *object;
  Py_ssize_t at = 0;
  while (PyDict_Next(named, &at, &key, &object)) {
    Value* value = take(driver, object);
    const char* name = PyUnicode_AsUTF8(key);
    if (!value || !name) return nullptr;
    keywords.emplace_back(name, value);
  }
  return transaction(driver, [&]() -> PyObject* {
    if (PyUnicode_Check(callable)) {
      std::span<Value* const> rest = std::span<Value* const>(values).subspan(1);
      return give(driver,
                  driver.frontend->call_method(*driver.session, values[0], PyUnicode_AsUTF8(callable), rest, keywords));
    }
    if (!driver.frontend->knows(callable)) return raise_break({BreakId::UnknownCallable, "unknown"});
    return give(driver, driver.frontend->call(*driver.session, callable, values, keywords));
  });
}

PyObject* session_attribute(PyObject* self, PyObject* args) {
  PyObject* array;
  const char* name;
  if (!PyArg_ParseTuple(args, "Os", &array, &name)) return nullptr;
  Driver& driver = driver_of(self);
  Value* x = take(driver, array);
  if (!x) return nullptr;
  return transaction(driver, [&] { return give(driver, driver.frontend->get_attr(*driver.session, x, name)); });
}

PyObject* session_get_item(PyObject* self, PyObject* args) {
  PyObject *array, *key;
  if (!PyArg_ParseTuple(args, "OO", &array, &key)) return nullptr;
  Driver& driver = driver_of(self);
  Value *x = take(driver, array), *k = take(driver, key);
  if (!x || !k) return nullptr;
  return transaction(driver, [&] { return give(driver, driver.frontend->get_item(*driver.session, x, k)); });
}

PyObject* session_set_item(PyObject* self, PyObject* args) {
  PyObject *array, *key, *value;
  if (!PyArg_ParseTuple(args, "OOO", &array, &key, &value)) return nullptr;
  Driver& driver = driver_of(self);
  Value *x = take(driver, array), *k = take(driver, key), *v = take(driver, value);
  if (!x || !k || !v) return nullptr;
  return transaction(driver, [&]() -> PyObject* {
    Captured<bool> done = driver.frontend->set_item(*driver.session, x, k, v);
    return done ? Py_NewRef(Py_None) : raise_break(done.error());
  });
}

Ref<> dims_tuple(const graph::Graph& graph, std::span<const graph::Dim> dims) {
  Ref<> tuple = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (std::size_t i = 0; tuple && i < dims.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(graph.shapes().hint(dims[i])));
  return tuple;
}

/// describe(value) -> (wrap, dtype, shape, strides, root's handle in the graph), dimensions as seen at capture.
PyObject* session_describe(PyObject* self, PyObject* handle) {
  static constexpr const char* kWraps[] = {"array", "scalar", "float", "int", "bool", "complex", "tensor"};
  Driver& driver = driver_of(self);
  Value* value = take(driver, handle);
  if (!value) return nullptr;
  const graph::Graph& graph = driver.session->graph();
  if (value->kind == ValueKind::Int) return Py_BuildValue("(sL)", "int", graph.shapes().hint(value->dim()));
  const graph::Type& type = graph.type(value->id());
  const char* dtype = arrays::descr_of(type.dtype) ? arrays::scalar_type_of(type.dtype)->tp_name : "";
  return Py_BuildValue("(ssNNn)", kWraps[static_cast<int>(value->wrap())], dtype,
                       dims_tuple(graph, type.shape).release(), dims_tuple(graph, type.strides).release(),
                       static_cast<Py_ssize_t>(graph::index(graph.root(value->id()))));
}

/// text(values...) -> the graph that returns them.
PyObject* session_text(PyObject* self, PyObject* args) {
  Driver& driver = driver_of(self);
  std::vector<Value*> values;
  if (!take_all(driver, args, values)) return nullptr;
  std::vector<ValueId> results;
  for (Value* value : values) results.push_back(value->id());
  driver.session->graph().set_results(std::move(results));
  return PyUnicode_FromString(graph::print(driver.session->graph()).c_str());
}

PyObject* session_guards(PyObject* self, PyObject*) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  const graph::Graph& graph = driver_of(self).session->graph();
  for (const graph::DimGuard& guard : graph.shapes().guards()) {
    static constexpr const char* kRelations[] = {"==", "!=", "<", "<="};
    std::string text = guard.left.str() + " " + kRelations[static_cast<int>(guard.relation)] + " " + guard.right.str();
    Ref<> line = Ref<>::steal(PyUnicode_FromString((guard.outcome ? text : "not " + text).c_str()));
    if (!line || PyList_Append(list.get(), line.get()) < 0) return nullptr;
  }
  return list.release();
}

PyMethodDef methods[] = {{"input", session_input, METH_VARARGS, nullptr},
                         {"number", session_number, METH_O, nullptr},
                         {"binary", session_binary, METH_VARARGS, nullptr},
                         {"compare", session_compare, METH_VARARGS, nullptr},
                         {"unary", session_unary, METH_VARARGS, nullptr},
                         {"call", session_call, METH_VARARGS, nullptr},
                         {"attribute", session_attribute, METH_VARARGS, nullptr},
                         {"get_item", session_get_item, METH_VARARGS, nullptr},
                         {"set_item", session_set_item, METH_VARARGS, nullptr},
                         {"describe", session_describe, METH_O, nullptr},
                         {"text", session_text, METH_VARARGS, nullptr},
                         {"guards", session_guards, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(session_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(session_dealloc)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"framejit._core._FrontendSession", sizeof(FrontendSession), 0, Py_TPFLAGS_DEFAULT, slots};

/// The probes of the running NumPy, as a dict.
PyObject* probe(PyObject*, PyObject*) {
  const arrays::NumpyProbe& found = arrays::numpy_probe();
  const arrays::SumOrder sums = arrays::sum_order();
  return Py_BuildValue("{sOsOsLsOsO}", "promotion_known", found.promotion_known ? Py_True : Py_False, "sums_known",
                       sums.known ? Py_True : Py_False, "pairwise_cut", static_cast<long long>(sums.pairwise_cut),
                       "wide_power", found.wide_power ? Py_True : Py_False, "clip_drops_bounds",
                       found.clip_drops_bounds ? Py_True : Py_False);
}

/// errstate(flags) -> (all ignored?, buffer size).
PyObject* errstate(PyObject*, PyObject* flags) {
  arrays::ErrState state = arrays::ErrState::current();
  auto raised = static_cast<unsigned>(PyLong_AsUnsignedLong(flags));
  return Py_BuildValue("(OL)", arrays::all_ignored(raised) ? Py_True : Py_False,
                       static_cast<long long>(state.buffer_size()));
}

/// loop(op, dtype, result) -> the address of NumPy's inner loop, 0 where there is none.
PyObject* loop(PyObject*, PyObject* args) {
  const char *op, *operand_type, *result_name;
  if (!PyArg_ParseTuple(args, "sss", &op, &operand_type, &result_name)) return nullptr;
  auto which = graph::op_from_name(op);
  auto from = graph::dtype_from_name(operand_type), to = graph::dtype_from_name(result_name);
  if (!which || !from || !to) return PyLong_FromLong(0);
  return PyLong_FromVoidPtr(reinterpret_cast<void*>(arrays::numpy_loop(*which, *from, *to).function));
}

PyMethodDef functions[] = {{"_numpy_probe", probe, METH_NOARGS, nullptr},
                           {"_numpy_errstate", errstate, METH_O, nullptr},
                           {"_numpy_loop", loop, METH_VARARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

bool init(PyObject* module) {
  if (!arrays::import_numpy() || PyModule_AddFunctions(module, functions) < 0) return false;
  break_error = PyErr_NewException("framejit._core._FrontendBreak", PyExc_Exception, nullptr);
  Ref<> type = Ref<>::steal(PyType_FromSpec(&spec));
  return break_error && type && PyModule_AddObjectRef(module, "_FrontendBreak", break_error) == 0 &&
         PyModule_AddObjectRef(module, "_FrontendSession", type.get()) == 0;
}

module::ModulePart part(900, init);

}  // namespace

}  // namespace framejit::ext::testing
