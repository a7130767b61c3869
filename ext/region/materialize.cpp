// Objects from recipes.
#include "ext/region/materialize.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "capture/py/cpython/facts.h"
#include "capture/py/interpreter.h"
#include "capture/py/lru_cache.h"
#include "ext/arrays/tensor_object.h"
#include "ext/guards/guard_program_impl.h"
#include "runtime/allocator.h"

namespace framejit::ext::region {

using arrays::as_ndarray;
using capture::Recipe;
using capture::Ref;
using capture::Wrap;
using graph::ValueId;

namespace {

bool is_mutable(const Recipe& r) {
  return r.kind == Recipe::Kind::List || r.kind == Recipe::Kind::Dict || r.kind == Recipe::Kind::Cell ||
         r.kind == Recipe::Kind::Instance;
}

/// While it is in scope no cycle collection begins: its callbacks and finalizers could change what the guards have
/// vouched for, and move the memory of inputs. From 3.12 on none begins where objects are made.
class NoCollection {
 public:
  explicit NoCollection(bool wanted) : held_(!capture::py::kCollectsAtEvalBreaker && wanted && PyGC_Disable()) {}
  ~NoCollection() {
    if (held_) PyGC_Enable();
  }
  NoCollection(const NoCollection&) = delete;

 private:
  bool held_;
};

/// Where a store of the list's item goes; -1: nowhere.
Py_ssize_t place_in(PyObject* list, PyObject* index) {
  const Py_ssize_t size = PyList_GET_SIZE(list);
  Py_ssize_t at = PyLong_AsSsize_t(index);
  if (at < 0) at += size;
  return at < size ? std::max<Py_ssize_t>(at, -1) : -1;
}

/// A key that was deleted would come back as the last one.
bool is_undoable(const capture::Effect& e) {
  using Kind = capture::Effect::Kind;
  return e.kind != Kind::SetChange && e.kind != Kind::CountCall &&
         (e.value >= 0 || (e.kind != Kind::StoreGlobal && e.kind != Kind::StoreItem));
}

bool is_array(Wrap wrap) { return wrap == Wrap::NdArray || wrap == Wrap::Tensor; }

/// Can the value be written into the object after it was made?
bool is_open(Wrap wrap, graph::DType dtype) {
  return wrap == Wrap::PyFloat || wrap == Wrap::PyComplex || (wrap == Wrap::NumpyScalar && dtype != graph::DType::Bool);
}

}  // namespace

std::vector<capture::SourceRef> Materializer::sources(const capture::Region& region) {
  std::vector<capture::SourceRef> out;
  for (const Recipe& r : region.recipes)
    if (r.kind == Recipe::Kind::Fetch) out.push_back(r.source);
  for (const capture::Input& input : region.inputs) out.push_back(input.source);
  return out;
}

Expected<std::unique_ptr<Materializer>, std::string> Materializer::make(const capture::Region& region,
                                                                        const guards::GuardProgram& guards,
                                                                        const runtime::Plan& plan) {
  std::unique_ptr<Materializer> out(new Materializer(region, guards, plan));
  if (std::string why = out->analyse(); !why.empty()) return Unexpected<std::string>{std::move(why)};
  return out;
}

std::string Materializer::analyse() {
  const graph::Graph& graph = *region_.graph;
  for (const ValueId root : plan_.program().result_roots) {
    roots_.emplace_back();
    roots_.back().layout = arrays::ArrayLayout::make(graph.type(root));
  }
  root_count_ = roots_.size();
  const std::size_t n = region_.recipes.size();
  result_of_.assign(n, -1);
  visited_.assign(n, 0);
  filled_.assign(n, 0);
  is_late_.assign(n, 0);
  fill_late_.assign(n, 0);
  for (uint32_t i = 0; i < n; ++i) {
    if (region_.recipes[i].kind == Recipe::Kind::Result)
      if (std::string why = analyse_result(i); !why.empty()) return why;
  }
  for (Result& result : results_) {
    // A number whose root is nothing else is written in place by the kernel.
    if (result.kind != Result::RootNumber) continue;
    Root& root = roots_[result.number];
    if (root.storage == Storage::Hidden) {
      root.storage = is_open(result.wrap, root.layout.dtype) ? Storage::Number : Storage::Cell;
      root.wrap = result.wrap;
      if (root.storage == Storage::Number) result.kind = Result::RootObject;
    }
  }
  for (std::size_t k = 0; k < root_count_; ++k)
    if (roots_[k].storage == Storage::Array && is_measured(plan_.program().result_roots[k])) {
      roots_[k].storage = Storage::Measured;
      measures_ = true;
    }
  for (const Root& root : roots_)
    if (root.storage == Storage::Cell && (!root.layout.constant || root.layout.bytes > 16))
      return "a number of more than one element";
  for (uint32_t i = 0; i < n; ++i) order(i);
  for (uint32_t i = 0; i < n; ++i)
    if (is_mutable(region_.recipes[i])) order_fill(i);
  early_collects_ = may_collect(early_);
  late_collects_ = may_collect(late_);
  for (const capture::Effect& e : region_.effects)  // the last one may do so: it is there when that is over
    effects_collect_ = effects_collect_ ||
                       (region_.effects.size() > 1 && (e.kind == capture::Effect::Kind::StoreAttr || !is_undoable(e) ||
                                                       e.kind == capture::Effect::Kind::ListReplace));
  return {};
}

std::string Materializer::analyse_result(uint32_t recipe) {
  const graph::Graph& graph = *region_.graph;
  const Recipe& r = region_.recipes[recipe];
  if (r.index >= graph.results().size()) return "a result that the graph does not have";
  const ValueId value = graph.results()[r.index];
  const ValueId root = graph.root(value);
  const bool view = value != root;
  Result result{Result::RootObject,       r.wrap,   0, arrays::ArrayLayout::make(graph.type(value)),
                graph.type(value).offset, r.writing};
  if (!result.layout.descr) return "NumPy has no dtype for a result";

  const std::vector<ValueId>& params = graph.params();
  for (uint32_t p = 0; p < params.size(); ++p) {
    if (params[p] != root) continue;
    result.number = p;
    if (is_array(r.wrap)) result.kind = view ? Result::ParamView : Result::ParamObject;
    else result.kind = !view && region_.inputs[p].spec.wrap == r.wrap ? Result::ParamObject : Result::ParamNumber;
    if (result.kind == Result::ParamView && region_.inputs[p].spec.wrap == Wrap::Tensor) return "a view of a Tensor";
    result_of_[recipe] = static_cast<int32_t>(results_.size());
    results_.push_back(std::move(result));
    return {};
  }

  const std::vector<ValueId>& fresh = plan_.program().result_roots;
  for (uint32_t k = 0; k < fresh.size(); ++k) {
    if (fresh[k] != root) continue;
    result.number = k;
    if (!is_array(r.wrap)) {
      result.kind = Result::RootNumber;
      if (view) roots_[k].storage = Storage::Array;
    } else {
      bool taken = false;  // two recipes are two objects, even where equal computations were joined
      for (const Result& other : results_) taken = taken || (other.kind == Result::RootObject && other.number == k);
      result.kind = view ? Result::RootView : taken ? Result::RootCopy : Result::RootObject;
      roots_[k].storage = Storage::Array;
    }
    result_of_[recipe] = static_cast<int32_t>(results_.size());
    results_.push_back(std::move(result));
    return {};
  }
  return "a result that the program does not give back";
}

// Steps are put in order once. Mutable containers exist before what they contain, so that they may contain themselves.

void Materializer::order(uint32_t recipe) {
  if (visited_[recipe] || region_.recipes[recipe].kind == Recipe::Kind::Null) return;
  visited_[recipe] = 1;
  const Recipe& r = region_.recipes[recipe];
  bool late = false;
  if (r.kind == Recipe::Kind::Result) {
    const Result& result = results_[result_of_[recipe]];
    late = result.kind == Result::RootNumber || result.kind == Result::ParamNumber || result.kind == Result::RootCopy ||
           is_measured(region_.graph->results()[r.index]);
  } else if (r.kind == Recipe::Kind::Int) {
    late = region_.graph->shapes().is_measured(r.dim);
  } else if (!is_mutable(r)) {
    late = r.kind == Recipe::Kind::Text;
    for (const uint32_t item : r.items) {
      order(item);
      late = late || is_late_[item];
      if (r.kind == Recipe::Kind::Iterator && is_mutable(region_.recipes[item])) {
        order_fill(item);
        late = late || fill_late_[item];
      }
    }
  }
  is_late_[recipe] = late;
  (r.kind == Recipe::Kind::Fetch || r.kind == Recipe::Kind::Constant ? first_
   : late                                                            ? late_
                                                                     : early_)
      .push_back(step_of(recipe));
}

Materializer::Step Materializer::step_of(uint32_t recipe) const {
  switch (region_.recipes[recipe].kind) {
    case Recipe::Kind::Fetch: return {Step::Fetch, recipe, 0, guards_.operand_of(region_.recipes[recipe].source)};
    case Recipe::Kind::Result: {
      const Result& result = results_[static_cast<std::size_t>(result_of_[recipe])];
      if (result.kind == Result::RootObject && result.wrap != Wrap::Tensor &&
          result.writing == capture::Writing::Allowed)
        return {Step::Root, recipe, result.number};
      if (result.kind == Result::ParamObject) return {Step::Fetch, recipe, 0, guards_.input_operands()[result.number]};
      break;
    }
    default: break;
  }
  return {Step::Make, recipe};
}

void Materializer::order_fill(uint32_t recipe) {
  if (filled_[recipe]) return;
  filled_[recipe] = 1;
  bool late = false;
  for (const uint32_t item : region_.recipes[recipe].items) {
    order(item);
    late = late || is_late_[item];
  }
  fill_late_[recipe] = late;
  (late ? late_ : early_).push_back({Step::Fill, recipe});
}

// Running.

bool Materializer::allocate_root(Workspace& w, std::size_t k) const {
  const Root& root = roots_[k];
  switch (root.storage) {
    case Storage::Array: {
      w.roots[k] = arrays::new_array(root.layout, symbols(w));
      if (!w.roots[k]) return false;
      w.results[k] = PyArray_BYTES(as_ndarray(w.roots[k]));
      return true;
    }
    case Storage::Number:
      w.roots[k] = arrays::new_number(root.wrap, root.layout.dtype);
      if (!w.roots[k]) return false;
      w.results[k] = arrays::number_memory(root.wrap, w.roots[k]);
      return true;
    case Storage::Cell: w.results[k] = reinterpret_cast<char*>(&w.cells[2 * k]); return true;
    case Storage::Measured:
    case Storage::Hidden: {
      const int64_t bytes = plan_.result_bytes(k, symbols(w));
      w.results[k] = static_cast<char*>(runtime::allocate(bytes > 0 ? static_cast<std::size_t>(bytes) : 1));
      if (w.results[k]) return true;
      PyErr_NoMemory();
      return false;
    }
  }
  return false;
}

/// Does its size, or that of the memory it lies in, depend on what is measured?
bool Materializer::is_measured(ValueId v) const {
  const graph::Graph& graph = *region_.graph;
  const auto is = [&](const graph::Dim& d) { return graph.shapes().is_measured(d); };
  const graph::Type &type = graph.type(v), &root = graph.type(graph.root(v));
  return is(type.offset) || std::any_of(type.shape.begin(), type.shape.end(), is) ||
         std::any_of(root.shape.begin(), root.shape.end(), is);
}

bool Materializer::make_measured(Workspace& w) const {
  for (std::size_t k = 0; k < root_count_; ++k) {
    const Root& root = roots_[k];
    if (root.storage != Storage::Measured) continue;
    const graph::Type& type = region_.graph->type(plan_.program().result_roots[k]);
    const int64_t bytes = (type.size() * graph::size_of(type.dtype)).evaluate(symbols(w));
    w.roots[k] =
        bytes > 0 ? arrays::new_array(root.layout, symbols(w)) : arrays::new_empty_array(root.layout, symbols(w));
    if (!w.roots[k]) return false;
    char* const made = PyArray_BYTES(as_ndarray(w.roots[k]));
    std::memcpy(made, w.results[k], static_cast<std::size_t>(bytes));
    runtime::release(std::exchange(w.results[k], made));
  }
  return true;
}

namespace {

/// False with an exception set also if a size is beyond 64 bits.
template <class Make>
bool in_64_bits(Make make) {
  try {
    return make();
  } catch (const graph::DimOverflow& error) {
    PyErr_SetString(PyExc_OverflowError, error.what());
    return false;
  }
}

}  // namespace

bool Materializer::prepare(Workspace& w) const {
  return in_64_bits([&] { return make_early(w); });
}

bool Materializer::make_late(Workspace& w) const {
  return in_64_bits([&] { return (!measures_ || make_measured(w)) && (late_.empty() || run_late(w)); });
}

bool Materializer::make_early(Workspace& w) const {
  if (!first_.empty() && !run(w, first_)) return false;
  for (std::size_t k = 0; k < root_count_; ++k)
    if (!allocate_root(w, k)) return false;
  if (!early_collects_) return run(w, early_);
  const NoCollection none(true);
  return run(w, early_);
}

bool Materializer::run_late(Workspace& w) const {
  const NoCollection none(late_collects_);
  return run(w, late_);
}

/// Do they make objects that the cycle collector knows of?
bool Materializer::may_collect(const std::vector<Step>& steps) const {
  return std::any_of(steps.begin(), steps.end(), [this](const Step& step) {
    const Recipe::Kind kind = region_.recipes[step.recipe].kind;
    const bool plain = kind == Recipe::Kind::Result || kind == Recipe::Kind::Constant || kind == Recipe::Kind::Int ||
                       kind == Recipe::Kind::Choice || kind == Recipe::Kind::Range;
    return step.how == Step::Make && !plain;
  });
}

bool Materializer::run(Workspace& w, const std::vector<Step>& steps) const {
  for (const Step& step : steps) switch (step.how) {
      case Step::Root: w.objects[step.recipe] = Py_NewRef(w.roots[step.root]); break;
      case Step::Fetch: w.objects[step.recipe] = Py_NewRef(guards_.object(*w.matched, step.operand)); break;
      case Step::Fill:
        if (!fill(w, step.recipe)) return false;
        break;
      case Step::Make:
        w.objects[step.recipe] = create(w, step.recipe);
        if (!w.objects[step.recipe]) return false;
        break;
    }
  return true;
}

void Materializer::drop(Workspace& w) const {
  for (std::size_t k = 0; k < root_count_; ++k) {
    const bool hidden = roots_[k].storage == Storage::Hidden || (roots_[k].storage == Storage::Measured && !w.roots[k]);
    if (hidden && w.results[k]) runtime::release(w.results[k]);
    Py_XDECREF(w.roots[k]);
  }
  for (std::size_t i = 0; i < recipe_count_; ++i) Py_XDECREF(w.objects[i]);
}

PyObject* Materializer::create(Workspace& w, uint32_t recipe) const {
  const Recipe& r = region_.recipes[recipe];
  auto item = [&](std::size_t i) { return w.objects[r.items[i]]; };
  switch (r.kind) {
    case Recipe::Kind::Null:
    case Recipe::Kind::Fetch: return nullptr;  // a step of its own
    case Recipe::Kind::Constant: return Py_XNewRef(r.object.get());
    case Recipe::Kind::Result: return create_result(w, results_[result_of_[recipe]]);
    case Recipe::Kind::Choice: {
      PyObject* chosen = item(1 + static_cast<std::size_t>(PyLong_AsSize_t(item(0))));
      return Py_XNewRef(chosen);
    }
    case Recipe::Kind::Int: return PyLong_FromLongLong(r.dim.is_const() ? r.dim.value() : r.dim.evaluate(symbols(w)));
    case Recipe::Kind::Tuple: {
      PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(r.items.size()));
      if (!tuple) return nullptr;
      for (std::size_t i = 0; i < r.items.size(); ++i)
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), Py_NewRef(item(i)));
      return tuple;
    }
    case Recipe::Kind::List: return PyList_New(0);
    case Recipe::Kind::Dict: return PyDict_New();
    case Recipe::Kind::Cell: return PyCell_New(nullptr);
    case Recipe::Kind::Set: {
      Ref<> set = Ref<>::steal(PySet_New(nullptr));
      for (std::size_t i = 0; set && i + 1 < r.items.size(); i += 2)
        if (!capture::change_set(set.get(), static_cast<int>(PyLong_AsLong(item(i))), item(i + 1))) return nullptr;
      return set.release();
    }
    case Recipe::Kind::Slice: return PySlice_New(item(0), item(1), item(2));
    case Recipe::Kind::Range:
      return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyRange_Type), item(0), item(1), item(2),
                                          nullptr);
    case Recipe::Kind::Function: return create_function(w, r);
    case Recipe::Kind::BoundMethod: return PyMethod_New(item(1), item(0));
    case Recipe::Kind::Iterator: return create_iterator(w, r);
    case Recipe::Kind::Instance: {
      Ref<> nothing = Ref<>::steal(PyTuple_New(0));
      auto* type = reinterpret_cast<PyTypeObject*>(r.object.get());
      return nothing && type ? type->tp_new(type, nothing.get(), nullptr) : nullptr;
    }
    case Recipe::Kind::Call:
    case Recipe::Kind::Text: return call(w, r).release();
    case Recipe::Kind::Method: return PyObject_GetAttr(item(0), r.object.get());
  }
  return nullptr;
}

PyObject* Materializer::create_result(Workspace& w, const Result& result) const {
  const int64_t offset = result.offset.is_const() ? result.offset.value() : result.offset.evaluate(symbols(w));
  auto wrapped = [&](PyObject* array) {
    if (array) arrays::restrict_writing(as_ndarray(array), result.writing);
    return array && result.wrap == Wrap::Tensor ? arrays::tensor_from_array(array) : array;
  };
  auto number = [&](char* data) -> PyObject* {
    if (!is_open(result.wrap, result.layout.dtype)) return arrays::python_number(result.wrap, data);
    PyObject* object = arrays::new_number(result.wrap, result.layout.dtype);
    if (object)
      std::memcpy(arrays::number_memory(result.wrap, object), data,
                  static_cast<std::size_t>(graph::size_of(result.layout.dtype)));
    return object;
  };
  switch (result.kind) {
    case Result::RootObject: return wrapped(Py_NewRef(w.roots[result.number]));
    case Result::RootCopy: return wrapped(PyArray_NewCopy(as_ndarray(w.roots[result.number]), NPY_KEEPORDER));
    case Result::RootView:
      return wrapped(
          arrays::new_view(result.layout, w.results[result.number] + offset, w.roots[result.number], symbols(w)));
    case Result::RootNumber: return number(w.results[result.number] + offset);
    case Result::ParamObject: return nullptr;  // a step of its own
    case Result::ParamView: {
      PyObject* base = guards_.object(*w.matched, guards_.input_operands()[result.number]);
      return wrapped(arrays::new_view(result.layout, w.matched->params[result.number] + offset, base, symbols(w)));
    }
    case Result::ParamNumber: return number(w.matched->params[result.number] + offset);
  }
  return nullptr;
}

PyObject* Materializer::create_function(Workspace& w, const Recipe& r) const {
  auto item = [&](std::size_t i) -> PyObject* {
    PyObject* object = i < r.items.size() ? w.objects[r.items[i]] : nullptr;
    return object == Py_None ? nullptr : object;
  };
  Ref<> function = Ref<>::steal(PyFunction_NewWithQualName(item(0), item(1), item(2)));
  if (!function) return nullptr;
  if (PyObject* defaults = item(3))
    if (PyFunction_SetDefaults(function.get(), defaults) < 0) return nullptr;
  if (PyObject* defaults = item(4))
    if (PyFunction_SetKwDefaults(function.get(), defaults) < 0) return nullptr;
  if (PyObject* closure = item(5))
    if (PyFunction_SetClosure(function.get(), closure) < 0) return nullptr;
  if (PyObject* annotate = item(6)) capture::set_annotate(function.get(), annotate);
  if (r.object) {
    // MAKE_FUNCTION stores a tuple of names and values as it is; the function makes a dict of it when asked.
    auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
    Py_XSETREF(f->func_annotations, Py_NewRef(r.object.get()));
  }
  return function.release();
}

Ref<> Materializer::call(Workspace& w, const Recipe& r) const {
  std::vector<PyObject*> items;
  for (const uint32_t i : r.items) items.push_back(w.objects[i]);
  return Ref<>::steal(PyObject_Vectorcall(r.object.get(), items.data(), items.size(), nullptr));
}

PyObject* Materializer::create_iterator(Workspace& w, const Recipe& r) const {
  Ref<> iterator;
  if (!r.object) {
    iterator = Ref<>::steal(PyObject_GetIter(w.objects[r.items[0]]));
  } else {
    iterator = call(w, r);
  }
  for (uint32_t i = 0; iterator && i < r.index; ++i) {
    Ref<> passed = Ref<>::steal(PyIter_Next(iterator.get()));
    if (!passed) return PyErr_Occurred() ? nullptr : iterator.release();
  }
  return iterator.release();
}

bool Materializer::fill(Workspace& w, uint32_t recipe) const {
  const Recipe& r = region_.recipes[recipe];
  PyObject* container = w.objects[recipe];
  auto item = [&](std::size_t i) { return w.objects[r.items[i]]; };
  switch (r.kind) {
    case Recipe::Kind::List:
      for (std::size_t i = 0; i < r.items.size(); ++i)
        if (PyList_Append(container, item(i)) < 0) return false;
      return true;
    case Recipe::Kind::Dict:
      for (std::size_t i = 0; i + 1 < r.items.size(); i += 2)
        if (PyDict_SetItem(container, item(i), item(i + 1)) < 0) return false;
      return true;
    case Recipe::Kind::Instance:
      for (std::size_t i = 0; i + 1 < r.items.size(); i += 2)
        if (PyObject_GenericSetAttr(container, item(i), item(i + 1)) < 0) return false;
      return true;
    case Recipe::Kind::Cell:
      if (!r.items.empty() && item(0)) PyCell_SET(container, Py_NewRef(item(0)));
      return true;
    default: return true;
  }
}

// Effects.

bool Materializer::commit(Workspace& w, std::vector<PyObject*>& trash) const {
  const NoCollection none(effects_collect_);
  trash.reserve(trash.size() + region_.effects.size());
  for (const capture::Effect& effect : region_.effects)
    if (!store(w, effect, trash)) return false;
  return true;
}

bool Materializer::take_back(Workspace& w, const std::vector<PyObject*>& trash, std::size_t first) const {
  const auto end = region_.effects.begin() + static_cast<std::ptrdiff_t>(trash.size() - first);
  if (!std::all_of(region_.effects.begin(), end, is_undoable)) return false;
  const NoCollection none(effects_collect_);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  bool undone = true;
  for (std::size_t i = trash.size(); undone && i-- > first;) undone = undo(w, region_.effects[i - first], trash[i]);
  PyErr_Restore(type, value, traceback);
  return undone;
}

void Materializer::complete(Workspace& w) const {
  for (std::size_t i = 0; i < recipe_count_; ++i)
    if (!w.objects[i] && region_.recipes[i].kind != Recipe::Kind::Null) w.objects[i] = Py_NewRef(Py_None);
}

bool Materializer::store(Workspace& w, const capture::Effect& e, std::vector<PyObject*>& trash) const {
  using Kind = capture::Effect::Kind;
  PyObject* target = e.target >= 0 ? w.objects[e.target] : nullptr;
  PyObject* value = e.value >= 0 ? w.objects[e.value] : nullptr;
  PyObject* key = e.name ? e.name.get() : e.key >= 0 ? w.objects[e.key] : nullptr;
  Ref<> displaced;
  auto set_in = [&](PyObject* dict) {
    displaced = Ref<>::share(PyDict_GetItemWithError(dict, key));
    return (value ? PyDict_SetItem(dict, key, value) : PyDict_DelItem(dict, key)) == 0;
  };
  bool done = false;
  switch (e.kind) {
    case Kind::StoreCell:
      displaced = Ref<>::steal(PyCell_GET(target));
      PyCell_SET(target, Py_XNewRef(value));
      done = true;
      break;
    case Kind::StoreGlobal: done = set_in(e.object.get()); break;
    case Kind::StoreAttr:
      displaced = Ref<>::share(guards::fetch_attribute(target, key));
      done = PyObject_GenericSetAttr(target, key, value) == 0;
      break;
    case Kind::StoreItem: {
      if (PyDict_Check(target)) {
        done = set_in(target);
        break;
      }
      const Py_ssize_t at = place_in(target, key);
      if (at < 0) {
        PyErr_SetString(PyExc_IndexError, "list assignment index out of range");
        break;
      }
      displaced = Ref<>::steal(PyList_GET_ITEM(target, at));
      PyList_SET_ITEM(target, at, Py_NewRef(value));
      done = true;
      break;
    }
    case Kind::ListExtend: {
      const Py_ssize_t before = PyList_GET_SIZE(target);
      done = std::all_of(e.items.begin(), e.items.end(),
                         [&](uint32_t item) { return PyList_Append(target, w.objects[item]) == 0; });
      if (!done) PyList_SetSlice(target, before, PyList_GET_SIZE(target), nullptr);
      break;
    }
    case Kind::ListReplace: {
      const Ref<> items = Ref<>::steal(PyList_New(static_cast<Py_ssize_t>(e.items.size())));
      for (std::size_t i = 0; items && i < e.items.size(); ++i)
        PyList_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), Py_NewRef(w.objects[e.items[i]]));
      if (items) displaced = Ref<>::steal(PyList_GetSlice(target, 0, PyList_GET_SIZE(target)));
      done = displaced && PyList_SetSlice(target, 0, PyList_GET_SIZE(target), items.get()) == 0;
      break;
    }
    case Kind::SetChange: done = capture::change_set(target, static_cast<int>(PyLong_AsLong(key)), value); break;
    case Kind::CountCall: {
      if (!e.source) {
        capture::lru_count_miss(e.object.get());
        done = true;
        break;
      }
      const Ref<> looked_up = capture::lru_key(e.source->parts);
      if (looked_up) capture::lru_count_hit(e.object.get(), looked_up.get());
      done = static_cast<bool>(looked_up);
      break;
    }
  }
  if (done) trash.push_back(displaced.release());
  return done;
}

/// As before store(). `displaced`: what that appended.
bool Materializer::undo(Workspace& w, const capture::Effect& e, PyObject* displaced) const {
  using Kind = capture::Effect::Kind;
  PyObject* target = e.object ? e.object.get() : w.objects[e.target];
  PyObject* key = e.name ? e.name.get() : e.key >= 0 ? w.objects[e.key] : nullptr;
  switch (e.kind) {
    case Kind::StoreCell: return PyCell_Set(target, displaced) == 0;
    case Kind::StoreGlobal: break;
    case Kind::StoreAttr:  // it shone through from the class
      if (displaced == _PyType_Lookup(Py_TYPE(target), key)) displaced = nullptr;
      return PyObject_GenericSetAttr(target, key, displaced) == 0;
    case Kind::StoreItem:
      if (PyDict_Check(target)) break;
      return PyList_SetItem(target, place_in(target, key), Py_NewRef(displaced)) == 0;
    case Kind::ListExtend: {
      const Py_ssize_t size = PyList_GET_SIZE(target);
      return PyList_SetSlice(target, size - static_cast<Py_ssize_t>(e.items.size()), size, nullptr) == 0;
    }
    case Kind::ListReplace: return PyList_SetSlice(target, 0, PyList_GET_SIZE(target), displaced) == 0;
    case Kind::SetChange:
    case Kind::CountCall: return false;
  }
  return (displaced ? PyDict_SetItem(target, key, displaced) : PyDict_DelItem(target, key)) == 0;
}

}  // namespace framejit::ext::region
