// Test binding of capture: framejit._core._capture(function, locals, ...) runs the symbolic executor alone and
// describes the region as text: graph, guards, recipes, effects, breaks.
#include <string>
#include <vector>

#include "capture/py/repr.h"
#include "capture/region.h"
#include "capture/text.h"
#include "ext/frontends/numpy/frontend.h"
#include "ext/module/module.h"
#include "graph/text.h"

namespace framejit::ext::testing {

namespace {

using namespace capture;

const char* wrap_name(Wrap wrap) {
  switch (wrap) {
    case Wrap::NdArray: return "array";
    case Wrap::NumpyScalar: return "scalar";
    case Wrap::PyFloat: return "float";
    case Wrap::PyInt: return "int";
    case Wrap::PyBool: return "bool";
    case Wrap::PyComplex: return "complex";
    case Wrap::Tensor: return "tensor";
    case Wrap::Generator: return "generator";
  }
  return "?";
}

/// A recipe as an expression; what contains itself ends in "...".
std::string text(const Region& region, uint32_t index, int depth = 0) {
  const Recipe& r = region.recipes[index];
  if (depth > 8) return "...";
  auto items = [&] {
    std::string out;
    for (std::size_t i = 0; i < r.items.size(); ++i) out += (i ? ", " : "") + text(region, r.items[i], depth + 1);
    return out;
  };
  switch (r.kind) {
    case Recipe::Kind::Null: return "NULL";
    case Recipe::Kind::Constant: return short_repr(r.object.get());
    case Recipe::Kind::Fetch: return "<" + r.source->str() + ">";
    case Recipe::Kind::Result: return std::string(wrap_name(r.wrap)) + " " + std::to_string(r.index);
    case Recipe::Kind::Choice: return "choice(" + items() + ")";
    case Recipe::Kind::Int: return "int " + r.dim.str();
    case Recipe::Kind::Tuple: return "(" + items() + ")";
    case Recipe::Kind::List: return "[" + items() + "]";
    case Recipe::Kind::Dict: return "{" + items() + "}";
    case Recipe::Kind::Set: return "set(" + items() + ")";
    case Recipe::Kind::Slice: return "slice(" + items() + ")";
    case Recipe::Kind::Range: return "range(" + items() + ")";
    case Recipe::Kind::Function: return "function(" + items() + ")";
    case Recipe::Kind::BoundMethod: return "method(" + items() + ")";
    case Recipe::Kind::Cell: return "cell(" + items() + ")";
    case Recipe::Kind::Iterator: {
      const std::string over = !r.object && r.items.size() == 3 ? "range(" + items() + ")" : items();
      return (r.object ? short_repr(r.object.get()) : "iter") + "(" + over + ")" +
             (r.index ? "+" + std::to_string(r.index) : "");
    }
    case Recipe::Kind::Call:
    case Recipe::Kind::Text: return short_repr(r.object.get()) + "(" + items() + ")";
    case Recipe::Kind::Instance: return short_repr(r.object.get()) + "(" + items() + ")";
    case Recipe::Kind::Method: return "getattr(" + items() + ", " + short_repr(r.object.get()) + ")";
  }
  return "?";
}

constexpr const char* kSetChanges[] = {"add", "update", "discard", "clear"};

std::string text(const Region& region, const Effect& e) {
  auto part = [&](int32_t i) { return i < 0 ? std::string("NULL") : text(region, static_cast<uint32_t>(i)); };
  std::string items;
  for (std::size_t i = 0; i < e.items.size(); ++i) items += (i ? ", " : "") + text(region, e.items[i]);
  switch (e.kind) {
    case Effect::Kind::StoreCell: return "cell " + part(e.target) + " = " + part(e.value);
    case Effect::Kind::StoreGlobal: return "global " + text_of(e.name.get()) + " = " + part(e.value);
    case Effect::Kind::StoreAttr: return part(e.target) + "." + text_of(e.name.get()) + " = " + part(e.value);
    case Effect::Kind::StoreItem: return part(e.target) + "[" + part(e.key) + "] = " + part(e.value);
    case Effect::Kind::ListExtend: return part(e.target) + ".extend(" + items + ")";
    case Effect::Kind::ListReplace: return part(e.target) + "[:] = [" + items + "]";
    case Effect::Kind::SetChange:
      return part(e.target) + " " + kSetChanges[PyLong_AsLong(region.recipes[e.key].object.get())] + " " +
             part(e.value);
    case Effect::Kind::Print: return "print(" + items + ")" + (e.name ? " " + short_repr(e.name.get()) : "");
    case Effect::Kind::CountCall: return e.source ? "hit " + e.source->str() : "miss " + short_repr(e.object.get());
  }
  return "?";
}

Ref<> str(const std::string& s) {
  return Ref<>::steal(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

bool put(PyObject* dict, const char* key, Ref<> value) {
  return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

Ref<> strings(const std::vector<std::string>& all) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (const std::string& s : all)
    if (!list || PyList_Append(list.get(), str(s).get()) < 0) return {};
  return list;
}

Ref<> describe(const std::vector<Break>& breaks) {
  Ref<> list = Ref<>::steal(PyList_New(0));
  for (const Break& b : breaks) {
    Ref<> row = Ref<>::steal(Py_BuildValue("(sssiI)", std::string(code_of(b.id)).c_str(), b.detail.c_str(),
                                           b.function.c_str(), b.line, b.instr));
    if (!row || !list || PyList_Append(list.get(), row.get()) < 0) return {};
  }
  return list;
}

Ref<> describe(const Region& region) {
  Ref<> out = Ref<>::steal(PyDict_New());
  if (!out) return {};
  PyObject* d = out.get();
  std::vector<std::string> guards, inputs, stack, effects;
  for (const Guard& g : region.guards) guards.push_back(g.str());
  for (const Input& i : region.inputs) inputs.push_back(i.source->str());
  for (uint32_t i : region.stack) stack.push_back(text(region, i));
  for (const Effect& e : region.effects) effects.push_back(text(region, e));
  Ref<> locals = Ref<>::steal(PyDict_New());
  for (const auto& [slot, recipe] : region.locals)
    if (!locals || PyDict_SetItem(locals.get(), region.view->local_name(slot), str(text(region, recipe)).get()) < 0)
      return {};
  const Instr& exit = region.view->instrs()[region.exit];
  const bool ok = put(d, "graph", str(graph::print(*region.graph))) && put(d, "guards", strings(guards)) &&
                  put(d, "inputs", strings(inputs)) && put(d, "stack", strings(stack)) &&
                  put(d, "effects", strings(effects)) && put(d, "locals", locals) &&
                  put(d, "returns", Ref<>::steal(PyBool_FromLong(region.returns))) &&
                  put(d, "result", region.returns ? str(text(region, region.result)) : Ref<>::share(Py_None)) &&
                  put(d, "exit", Ref<>::steal(PyLong_FromLong(region.exit))) &&
                  put(d, "exit_line", Ref<>::steal(PyLong_FromLong(exit.line))) &&
                  put(d, "exit_op", str(std::string(name_of(exit.op)))) &&
                  put(d, "instructions", Ref<>::steal(PyLong_FromLong(region.instructions)));
  return ok ? out : Ref<>();
}

Frontend* numpy_frontend() {
  static Frontend* const frontend = frontends::make_numpy_frontend().release();
  return frontend;
}

/// _capture(function, locals, entry=0, stack=(), varied=(), dynamic=False, instruction_limit=20000, fullgraph=False)
PyObject* run_capture(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"function",          "locals",    "entry", "stack", "varied", "dynamic",
                                "instruction_limit", "fullgraph", nullptr};
  PyObject *function, *locals, *stack = nullptr, *varied_names = nullptr;
  unsigned entry = 0, limit = 20000;
  int dynamic = 0, fullgraph = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|IO!O!pIp", const_cast<char**>(names), &PyFunction_Type,
                                   &function, &PyDict_Type, &locals, &entry, &PyTuple_Type, &stack, &PyTuple_Type,
                                   &varied_names, &dynamic, &limit, &fullgraph))
    return nullptr;
  auto* f = reinterpret_cast<PyFunctionObject*>(function);
  try {
    if (!numpy_frontend()) return nullptr;
    CaptureRequest request;
    request.view = CodeView::decode(reinterpret_cast<PyCodeObject*>(f->func_code));
    request.entry = entry;
    request.is_call = entry == 0;
    request.frontends = {numpy_frontend()};
    request.options.instruction_limit = limit;
    request.options.fullgraph = fullgraph != 0;
    Varied varied;
    varied.all = dynamic != 0;
    for (Py_ssize_t i = 0; varied_names && i < PyTuple_GET_SIZE(varied_names); ++i)
      varied.names.insert(text_of(PyTuple_GET_ITEM(varied_names, i)));
    request.varied = &varied;
    std::vector<PyObject*> slots(static_cast<std::size_t>(request.view->local_count()), nullptr);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(locals, &at, &key, &value);)
      for (int i = 0; i < request.view->local_count(); ++i)
        if (PyUnicode_Compare(request.view->local_name(i), key) == 0) slots[static_cast<std::size_t>(i)] = value;
    // On the stack, NULL is given as the type `NotImplementedType`.
    std::vector<PyObject*> entries;
    for (Py_ssize_t i = 0; stack && i < PyTuple_GET_SIZE(stack); ++i) {
      PyObject* item = PyTuple_GET_ITEM(stack, i);
      entries.push_back(item == reinterpret_cast<PyObject*>(Py_TYPE(Py_NotImplemented)) ? nullptr : item);
    }
    request.frame = FrameView{
        {slots.data(), static_cast<int>(slots.size()), entries.data(), static_cast<int>(entries.size()), function},
        f->func_globals,
        f->func_builtins};
    const CaptureOutcome outcome = capture::capture(request);
    Ref<> result = outcome.region ? describe(*outcome.region) : Ref<>::share(Py_None);
    Ref<> breaks = result ? describe(outcome.breaks) : Ref<>();
    if (PyErr_Occurred() || !breaks) return nullptr;
    return Py_BuildValue("(OO)", result.get(), breaks.get());
  } catch (const std::exception& e) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

PyMethodDef methods[] = {{"_capture", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_capture)),
                          METH_VARARGS | METH_KEYWORDS, "Executes a function symbolically; (region or None, breaks)."},
                         {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(60, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace
}  // namespace framejit::ext::testing
