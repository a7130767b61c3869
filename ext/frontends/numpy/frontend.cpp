// The NumPy frontend: what is an operand, which callables are known, and the way to the files that do the work.
#include "ext/frontends/numpy/frontend.h"

#include "ext/frontends/numpy/call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>

#include "ext/arrays/errstate.h"
#include "ext/arrays/numpy_probe.h"
#include "ext/frontends/numpy/index.h"
#include "ext/frontends/numpy/library_call_capture.h"
#include "ext/library_calls/draws.h"
#include "ext/library_calls/listed_functions.h"
#include "ext/module/control.h"
#include "ext/module/module.h"

namespace framejit::ext::frontends {

using arrays::dtype_of;
using arrays::numpy_module;
using capture::SourceRef;
using graph::Dim;
using library_calls::is_library_method;

namespace {

/// ndarrays proper whose elements the graph has a type for.
std::optional<DType> array_dtype(PyObject* object) {
  if (!PyArray_CheckExact(object)) return std::nullopt;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  // Unaligned arrays go through NumPy's buffers, which changes how sums are cut.
  if (!PyArray_ISALIGNED(array)) return std::nullopt;
  return dtype_of(PyArray_DESCR(array));
}

/// A length of an input: a symbol where earlier captures saw it vary, or it is marked. Lengths 0 and 1 are constants.
Dim input_dim(Session& session, PyArrayObject* array, int i, const std::string& name) {
  const int64_t value = PyArray_DIM(array, i);
  const bool varies =
      value > 1 && (session.varied().contains(name) || module::is_dynamic(reinterpret_cast<PyObject*>(array), i));
  return varies ? session.graph().shapes().fresh(value) : Dim(value);
}

graph::Dims fortran_strides(DType dtype, std::span<const Dim> shape) {
  graph::Dims strides;
  Dim step = graph::size_of(dtype);
  for (const Dim& dim : shape) {
    strides.push_back(step);
    step = step * dim;
  }
  return strides;
}

bool has_strides(PyArrayObject* array, const graph::ShapeEnv& shapes, const graph::Dims& strides) {
  for (int i = 0; i < PyArray_NDIM(array); ++i)
    if (shapes.hint(strides[static_cast<std::size_t>(i)]) != PyArray_STRIDE(array, i)) return false;
  return true;
}

/// Strides as functions of the shape where the array is contiguous, so that they vary with it; else as they are: what
/// is compiled depends on their order.
graph::Dims input_strides(Session& session, PyArrayObject* array, DType dtype, const graph::Dims& shape) {
  for (graph::Dims strides : {graph::c_strides(dtype, shape), fortran_strides(dtype, shape)})
    if (has_strides(array, session.graph().shapes(), strides)) return strides;
  graph::Dims strides;
  for (int i = 0; i < PyArray_NDIM(array); ++i) strides.emplace_back(PyArray_STRIDE(array, i));
  return strides;
}

}  // namespace

bool compilable(PyObject* object) {
  if (!arrays::numpy_probe().promotion_known) return false;
  return array_dtype(object) || arrays::scalar_dtype_of(object);
}

Captured<Value*> wrap_object(Session& session, PyObject* object, SourceRef source) {
  if (!compilable(object))
    return break_at(BreakId::UnsupportedArray, std::string("an array of type ") + Py_TYPE(object)->tp_name);
  capture::ArraySpec spec;
  graph::ShapeEnv& shapes = session.graph().shapes();
  graph::ShapeEnv::Mark before = shapes.mark();
  std::size_t values = session.graph().value_count();
  if (std::optional<DType> dtype = array_dtype(object)) {
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    std::string name = source->str();
    spec.dtype = *dtype;
    for (int i = 0; i < PyArray_NDIM(array); ++i)
      spec.shape.push_back(input_dim(session, array, i, name + ".shape[" + std::to_string(i) + "]"));
    spec.strides = input_strides(session, array, *dtype, spec.shape);
  } else {
    spec.wrap = Wrap::NumpyScalar;
    spec.dtype = *arrays::scalar_dtype_of(object);
  }
  Value* input = session.inputs().add(object, std::move(source), std::move(spec));
  // The same object met again: the symbols made for it here stand for nothing.
  if (graph::index(input->id()) < values) shapes.rollback(before);
  return input;
}

namespace {

struct Known {
  Handler handler = nullptr;
  Op op = Op::Param;
  DType dtype = DType::F64;
  bool library = false;
};

/// NumPy's functions by identity. They are kept alive for ever. A program uses few of them, so functions and ufuncs are
/// looked up by their names when they are met. All are listed when the first callable of another kind is.
class Functions {
 public:
  const Known* find(PyObject* callable) {
    if (const auto at = known_.find(callable); at != known_.end()) return &at->second;
    const bool ufunc = PyObject_TypeCheck(callable, &PyUFunc_Type);
    if (!listed_) {
      if (is_builtin(callable) || !PyCallable_Check(callable)) return nullptr;
      if (ufunc) add_by_name(reinterpret_cast<PyUFuncObject*>(callable));
      else if (const auto function = library_calls::function_name(callable))
        return add_by_name(callable, function->name);
      if (!known_.contains(callable)) list();
    }
    if (const auto at = known_.find(callable); at != known_.end()) return &at->second;
    return ufunc ? find_late(callable) : nullptr;
  }

 private:
  static std::array<std::span<const FunctionRow>, 5> all_rows() {
    return {elementwise_functions(), reduction_functions(), creation_functions(), shape_functions(),
            product_functions()};
  }

  /// A function or a class of the builtins.
  static bool is_builtin(PyObject* callable) {
    if (PyCFunction_Check(callable)) {
      PyObject* home = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
      return home && PyUnicode_Check(home) && PyUnicode_CompareWithASCIIString(home, "builtins") == 0;
    }
    if (!PyType_Check(callable)) return false;
    const auto* type = reinterpret_cast<PyTypeObject*>(callable);  // others have their modules in their names
    return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !std::strchr(type->tp_name, '.');
  }

  /// The clip ufunc has no NumPy name of its own; np.clip is a function.
  static bool is_listed(const graph::OpDef& row) {
    return row.op != Op::Clip && row.op != Op::Where && !arrays::is_of_scipy(row.op);
  }

  void add_by_name(PyUFuncObject* ufunc) {
    for (const graph::OpDef& row : graph::kOps)
      if (ufunc->name && row.numpy == ufunc->name && is_listed(row) && arrays::ufunc_of(row.op) == ufunc)
        return add(reinterpret_cast<PyObject*>(ufunc), {call_ufunc, row.op, DType::F64, true});
  }

  const Known* add_by_name(PyObject* function, std::string_view name) {
    for (std::span<const FunctionRow> rows : all_rows())
      for (const FunctionRow& row : rows)
        if (row.name == name && own(row, Ref<>::steal(PyImport_ImportModule(row.home)).get()) == function) {
          add(function, {row.handler, row.op, DType::F64, row.library});
          return &known_.at(function);
        }
    return nullptr;
  }

  void list() {  // runs code of NumPy's, and so perhaps other threads
    for (const graph::OpDef& row : graph::kOps)
      if (PyUFuncObject* ufunc = is_listed(row) ? arrays::ufunc_of(row.op) : nullptr)
        add(reinterpret_cast<PyObject*>(ufunc), {call_ufunc, row.op, DType::F64, true});
    const char* home = nullptr;
    Ref<> module;
    for (std::span<const FunctionRow> rows : all_rows())
      for (const FunctionRow& row : rows) {
        if (row.home != home) module = Ref<>::steal(PyImport_ImportModule(home = row.home));
        if (PyObject* found = own(row, module.get())) add(found, {row.handler, row.op, DType::F64, row.library});
      }
    for (int i = 0; i < graph::kDTypeCount; ++i)
      if (PyTypeObject* type = arrays::scalar_type_of(static_cast<DType>(i)))
        add(reinterpret_cast<PyObject*>(type), {call_scalar_type, Op::Cast, static_cast<DType>(i)});
    listed_ = true;
  }

  void add(PyObject* object, Known known) {
    if (known_.emplace(object, known).second) Py_INCREF(object);
  }

  /// `__module__`, which NumPy's functions have in their dicts.
  static Ref<> home_of(PyObject* function) {
    static PyObject* const kName = PyUnicode_InternFromString("__module__");
    PyObject** own = _PyObject_GetDictPtr(function);
    PyObject* home = own && *own ? PyDict_GetItemWithError(*own, kName) : nullptr;
    return home ? Ref<>::share(home) : Ref<>::steal(PyObject_GetAttr(function, kName));
  }

  /// The function of a row. Null if what has that name is not NumPy's own, but a replacement by someone.
  static PyObject* own(const FunctionRow& row, PyObject* module) {
    PyObject* names = module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
    PyObject* found = names ? PyDict_GetItemString(names, row.name) : nullptr;
    const bool ufunc = found && PyObject_TypeCheck(found, &PyUFunc_Type);
    const Ref<> home = found && !ufunc ? home_of(found) : Ref<>();
    const char* words = home && PyUnicode_Check(home.get()) ? PyUnicode_AsUTF8(home.get()) : nullptr;
    const bool is_own =
        ufunc || (words && (std::string_view(words).starts_with("numpy") || std::string_view(words) == row.home));
    PyErr_Clear();
    return is_own ? found : nullptr;
  }

  /// Is gamma NaN at its poles, as the operator is? The installed SciPy is asked: up to 1.13 it was infinite.
  static bool is_nan_at_poles(PyObject* gamma) {
    static std::optional<bool> answer;
    if (answer || !arrays::scipy_is_silent()) return answer.value_or(false);
    const arrays::ScopedErrState quiet(0);
    const Ref<> found = Ref<>::steal(PyObject_CallFunction(gamma, "d", -1.0));
    answer = found && std::isnan(PyFloat_AsDouble(found.get()));
    PyErr_Clear();
    return *answer;
  }

  /// SciPy's ufuncs, which may be imported after NumPy's were listed.
  static const Known* find_late(PyObject* callable) {
    static const std::vector<Known> late = [] {
      std::vector<Known> all;
      for (const graph::OpDef& row : graph::kOps)
        if (arrays::is_of_scipy(row.op)) all.push_back({call_ufunc, row.op, DType::F64, true});
      return all;
    }();
    for (const Known& known : late)
      if (reinterpret_cast<PyObject*>(arrays::ufunc_of(known.op)) == callable)
        return known.op == Op::Gamma && !is_nan_at_poles(callable) ? nullptr : &known;
    return nullptr;
  }

  std::unordered_map<PyObject*, Known> known_;
  bool listed_ = false;
};

Functions& functions() {
  static constinit Functions* all = nullptr;  // holds references: never destroyed
  if (!all) all = new Functions;
  return *all;
}

const FunctionRow* find_method(std::string_view name) {
  for (std::span<const FunctionRow> rows :
       {elementwise_methods(), reduction_methods(), creation_methods(), shape_methods(), product_methods()})
    for (const FunctionRow& row : rows)
      if (row.name == name) return &row;
  return nullptr;
}

/// Methods that are followed on NumPy's scalars too.
bool is_scalar_method(std::string_view name) { return name == "astype" || name == "item" || name == "__abs__"; }

/// Reductions of a NumPy scalar, which give the scalar, or whether it is one that counts as true; null: another method.
Captured<Value*> reduced_scalar(Session& session, Value* scalar, std::string_view name) {
  if (name == "any" || name == "all") {
    FRAMEJIT_TRY(truth, cast(session, scalar->id(), DType::Bool));
    return session.values().array(truth, Wrap::NumpyScalar);
  }
  return name == "max" || name == "min" ? scalar : nullptr;
}

/// A method of ndarray. ndarray's type has it for ever.
Ref<> method_of(std::string_view name) {
  Ref<> found =
      Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyArray_Type), std::string(name).c_str()));
  PyErr_Clear();
  return found;
}

/// Methods and functions that write into their first argument, and give None.
bool is_method_in_place(std::string_view name) { return name == "sort" || name == "partition" || name == "put"; }

bool is_function_in_place(PyObject* callable) {
  static const std::array<PyObject*, 3> all = [] {
    std::array<PyObject*, 3> found{PyObject_GetAttrString(numpy_module(), "putmask"),
                                   PyObject_GetAttrString(numpy_module(), "place"),
                                   PyObject_GetAttrString(numpy_module(), "put_along_axis")};
    PyErr_Clear();
    return found;
  }();
  return std::find(all.begin(), all.end(), callable) != all.end();
}

/// What `own` makes of a call, or else, where the function may be one, a library call.
template <class Own>
Captured<Value*> or_library_call(Session& session, PyObject* callable, std::span<Value* const> args,
                                 std::span<const capture::Keyword> keywords, bool library, Own&& own) {
  const Session::Mark mark = session.mark();
  Captured<Value*> result = own();
  if (result || !library || result.error().id != BreakId::UnsupportedArgument) return result;
  session.rollback(mark);
  Captured<Value*> called = library_call(session, callable, args, keywords);
  return called ? called : result;  // the first reason is the telling one
}

/// The name of a method of ndarray that is called through the type: np.ndarray.sum(x).
std::optional<std::string_view> method_name(PyObject* callable) {
  if (Py_TYPE(callable) != &PyMethodDescr_Type) return std::nullopt;
  auto* descriptor = reinterpret_cast<PyMethodDescrObject*>(callable);
  if (PyDescr_TYPE(descriptor) != &PyArray_Type) return std::nullopt;
  return descriptor->d_method->ml_name;
}

/// A method of a ufunc, np.add.reduce; null: it is none.
PyObject* ufunc_of_method(PyObject* callable) {
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  return self && PyObject_TypeCheck(self, &PyUFunc_Type) ? self : nullptr;
}

/// f.outer(a, b) is f(a[..., None ...], b).
Captured<Value*> ufunc_outer(const Call& call, PyObject* ufunc) {
  if (call.args.size() != 2 || !call.keywords.empty() || !functions().find(ufunc))
    return break_at(BreakId::UnsupportedArgument, "outer() with such arguments");
  Session& session = call.session;
  FRAMEJIT_TRY(a, array_argument(session, call.args[0]));
  FRAMEJIT_TRY(b, array_argument(session, call.args[1]));
  graph::Dims shape = session.graph().type(a->id()).shape;
  if (session.graph().shapes().equal(session.graph().type(a->id()).size(), 0))
    return break_at(BreakId::UnsupportedArgument, "outer() of an empty array");
  for (int i = 0; i < session.graph().type(b->id()).rank(); ++i) shape.push_back(Dim(1));
  FRAMEJIT_TRY(column, built(session.builder().reshape(a->id(), std::move(shape))));
  Value* const both[] = {fresh_array(session, column), b};
  return call_ufunc({session, both, {}, functions().find(ufunc)->op, DType::F64, ufunc});
}

Captured<Value*> call_ufunc_method(const Call& call, PyObject* ufunc) {
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(call.callable)->m_ml->ml_name;
  if (name == "outer") return ufunc_outer(call, ufunc);
  if (name == "at") return call_in_place(call.session, call.callable, call.args, call.keywords, false);
  if (name == "accumulate" || name == "reduceat")
    return library_call(call.session, call.callable, call.args, call.keywords);
  if (name != "reduce") return break_at(BreakId::UnknownCallable, "ufunc." + std::string(name));
  const Session::Mark mark = call.session.mark();
  Captured<Value*> own = ufunc_reduce({call.session, call.args, call.keywords, Op::Param, DType::F64, ufunc});
  if (own) return own;
  call.session.rollback(mark);
  return library_call(call.session, call.callable, call.args, call.keywords);
}

/// Functions of dtypes and the like, asked at capture: np.issubdtype(dtype, np.integer).
bool is_of_dtypes(PyObject* callable) {
  static const std::vector<PyObject*>* const all = [] {
    auto* found = new std::vector<PyObject*>{reinterpret_cast<PyObject*>(&PyArrayDescr_Type)};
    for (const char* name : {"issubdtype", "promote_types", "can_cast", "result_type", "finfo", "iinfo", "isdtype"})
      // The module's __getattr__ for what is not there would be captured, and ask here again.
      if (PyObject* function = PyDict_GetItemString(PyModule_GetDict(numpy_module()), name))
        found->push_back(Py_NewRef(function));
    return found;
  }();
  return std::find(all->begin(), all->end(), callable) != all->end();
}

/// np.finfo(dtype) and np.iinfo(dtype).
bool is_limits(PyObject* object) {
  static PyObject* const finfo = PyObject_GetAttrString(numpy_module(), "finfo");
  static PyObject* const iinfo = PyObject_GetAttrString(numpy_module(), "iinfo");
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return type == finfo || type == iinfo;
}

Captured<Value*> call_of_dtypes(Session& session, PyObject* callable, std::span<Value* const> args,
                                std::span<const capture::Keyword> keywords) {
  static PyObject* const result_type = PyObject_GetAttrString(numpy_module(), "result_type");
  static PyObject* const can_cast = PyObject_GetAttrString(numpy_module(), "can_cast");
  std::vector<PyObject*> stack;
  for (Value* value : args) {
    PyObject* object = value->is_constant() ? value->object.get() : nullptr;
    // What an array promotes to its dtype does; in NumPy 2 only, and only where an array may stand.
    const bool may_be_array = callable == result_type || (callable == can_cast && stack.empty());
    const bool array =
        value->is_array() && value->wrap() == Wrap::NdArray && session.graph().type(value->id()).rank() > 0;
    if (array && may_be_array && arrays::numpy_version().major >= 2)
      object = reinterpret_cast<PyObject*>(arrays::descr_of(session.graph().type(value->id()).dtype));
    const bool plain = object && (PyArray_DescrCheck(object) || PyType_Check(object) || PyUnicode_CheckExact(object) ||
                                  PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object));
    if (!plain || !keywords.empty())
      return break_at(BreakId::UnsupportedArgument, "a function of dtypes with such arguments");
    stack.push_back(object);
  }
  Ref<> result = Ref<>::steal(PyObject_Vectorcall(callable, stack.data(), stack.size(), nullptr));
  PyErr_Clear();
  const bool known =
      result && (PyBool_Check(result.get()) || is_limits(result.get()) ||
                 (PyArray_DescrCheck(result.get()) && dtype_of(reinterpret_cast<PyArray_Descr*>(result.get()))));
  if (!known) return break_at(BreakId::UnsupportedArgument, "a function of dtypes with such arguments");
  return session.values().constant(result.get());
}

/// Functions, not ufuncs, that take a Tensor as the array that it holds and return new memory.
bool is_function_of_tensors(PyObject* callable) {
  static const std::vector<PyObject*>* const all = [] {
    auto* found = new std::vector<PyObject*>;
    for (const char* name : {"sum", "prod", "mean", "std", "var", "max", "min", "amax", "amin", "all", "any", "clip",
                             "where", "dot", "count_nonzero"})
      if (PyObject* function = PyDict_GetItemString(PyModule_GetDict(numpy_module()), name))
        found->push_back(Py_NewRef(function));
    return found;
  }();
  return std::find(all->begin(), all->end(), callable) != all->end() || library_calls::is_library_function(callable);
}

/// The arguments of a function, with arrays in place of Tensors where it takes these so: never as what is written to.
std::vector<Value*> with_arrays(Session& session, PyObject* callable, std::span<Value* const> args) {
  std::vector<Value*> all(args.begin(), args.end());
  const bool ufunc = PyObject_TypeCheck(callable, &PyUFunc_Type);
  if (!ufunc && !is_function_of_tensors(callable)) return all;
  const int inputs = ufunc ? reinterpret_cast<PyUFuncObject*>(callable)->nin : 3;
  for (int i = 0; i < inputs && i < static_cast<int>(all.size()); ++i)
    all[static_cast<std::size_t>(i)] = array_of_tensor(session, all[static_cast<std::size_t>(i)]);
  return all;
}

class NumpyFrontend final : public capture::Frontend {
 public:
  std::string_view name() const override { return "numpy"; }

  bool owns(PyObject* object) const override { return compilable(object); }
  Captured<Value*> wrap(Session& session, PyObject* object, SourceRef source) override {
    return wrap_object(session, object, std::move(source));
  }
  bool owns(const Value& value) const override { return is_owned(value); }

  PyObject* type_of(Session& session, const Value& value) const override {
    if (!value.is_array()) return nullptr;
    if (value.wrap() == Wrap::NumpyScalar)
      return reinterpret_cast<PyObject*>(arrays::scalar_type_of(session.graph().type(value.id()).dtype));
    return value.wrap() == Wrap::NdArray ? reinterpret_cast<PyObject*>(&PyArray_Type) : nullptr;
  }

  bool is_method(PyObject* callable) const override { return library_calls::draw_method(callable) != nullptr; }
  bool knows(PyObject* callable) const override {
    std::optional<std::string_view> method = method_name(callable);
    return method ? find_method(*method) || is_library_method(*method) || is_method_in_place(*method)
                  : functions().find(callable) || library_calls::is_library_function(callable) ||
                        is_function_in_place(callable) || ufunc_of_method(callable) || is_of_dtypes(callable) ||
                        is_of_errors(callable) || is_method(callable);
  }

  bool is_followed(PyObject* callable) const override { return library_calls::is_followed(callable); }
  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const capture::Keyword> keywords) override {
    prepare(session);
    if (std::optional<std::string_view> method = method_name(callable)) {
      if (args.empty() || !is_owned(*args[0]) || args[0]->wrap() != Wrap::NdArray)
        return break_at(BreakId::UnsupportedArgument, "a method of ndarray, called with something else");
      return call_method(session, args[0], *method, args.subspan(1), keywords);
    }
    if (PyObject* ufunc = ufunc_of_method(callable))
      return call_ufunc_method({session, args, keywords, Op::Param, DType::F64, callable}, ufunc);
    if (is_method(callable)) return draw(session, callable, args, keywords);
    if (is_of_dtypes(callable)) return call_of_dtypes(session, callable, args, keywords);
    if (is_of_errors(callable)) return call_of_errors({session, args, keywords, Op::Param, DType::F64, callable});
    if (is_function_in_place(callable)) return call_in_place(session, callable, args, keywords, true);
    const Known* known = functions().find(callable);
    const std::vector<Value*> arrays = with_arrays(session, callable, args);
    if (!known) return library_call(session, callable, arrays, keywords);
    return or_library_call(session, callable, arrays, keywords, known->library, [&] {
      return known->handler({session, arrays, keywords, known->op, known->dtype, callable});
    });
  }

  Ref<> fold(int nb, PyObject* left, PyObject* right) const override { return fold_numbers(nb, left, right); }
  bool is_fixed(PyObject* object) const override {
    return is_error_state(object) || is_limits(object) || object == arrays::no_value() ||
           (PyArray_DescrCheck(object) && dtype_of(reinterpret_cast<PyArray_Descr*>(object)));
  }
  bool has_text(PyObject* object) const override { return PyArray_DescrCheck(object) && is_fixed(object); }
  Ref<> fixed_attr(PyObject* object, std::string_view name) const override {
    static constexpr std::string_view kOfDTypes[] = {
        "kind",      "type",     "name",      "char", "num",   "itemsize", "str",    "byteorder",
        "alignment", "isnative", "hasobject", "ndim", "shape", "names",    "fields", "subdtype"};
    static constexpr std::string_view kOfLimits[] = {"eps",  "epsneg", "max",       "min", "tiny", "smallest_normal",
                                                     "bits", "dtype",  "resolution"};
    static constexpr std::string_view kOfErrors[] = {"set", "reset"};
    static constexpr std::string_view kOfUfuncs[] = {"reduce", "accumulate", "outer", "reduceat",
                                                     "at",     "nin",        "nout",  "nargs"};
    const bool known = is_error_state(object) ? std::count(std::begin(kOfErrors), std::end(kOfErrors), name)
                       : is_limits(object)    ? std::count(std::begin(kOfLimits), std::end(kOfLimits), name)
                       : is_fixed(object)     ? std::count(std::begin(kOfDTypes), std::end(kOfDTypes), name)
                       : PyObject_TypeCheck(object, &PyUFunc_Type)
                           ? std::count(std::begin(kOfUfuncs), std::end(kOfUfuncs), name)
                           : 0;
    Ref<> found = known ? Ref<>::steal(PyObject_GetAttrString(object, std::string(name).c_str())) : Ref<>();
    PyErr_Clear();
    return found;
  }

  Captured<Value*> binary(Session& session, int nb, Value* left, Value* right) override {
    prepare(session);
    return binary_operator(session, nb, array_of_tensor(session, left), array_of_tensor(session, right));
  }
  Captured<Value*> unary(Session& session, capture::Unary op, Value* value) override {
    prepare(session);
    return unary_operator(session, op, value);
  }
  Captured<Value*> compare(Session& session, int py_op, Value* left, Value* right) override {
    prepare(session);
    return compare_operator(session, py_op, array_of_tensor(session, left), array_of_tensor(session, right));
  }

  Captured<Value*> get_attr(Session& session, Value* array, std::string_view name) override {
    prepare(session);
    return array_attribute(session, array, name);
  }

  Captured<Value*> call_method(Session& session, Value* array, std::string_view name, std::span<Value* const> args,
                               std::span<const capture::Keyword> keywords) override {
    prepare(session);
    const FunctionRow* row = find_method(name);
    bool scalar = array->wrap() == Wrap::NumpyScalar;
    if (!row && !scalar && is_library_method(name)) {
      Ref<> method = method_of(name);
      std::vector<Value*> all{array};
      all.insert(all.end(), args.begin(), args.end());
      return library_call(session, method.get(), all, keywords);
    }
    if (scalar && args.empty() && keywords.empty()) {
      FRAMEJIT_TRY(reduced, reduced_scalar(session, array, name));
      if (reduced) return reduced;
    }
    if (!row && !scalar && is_method_in_place(name)) {
      std::vector<Value*> all{array};
      all.insert(all.end(), args.begin(), args.end());
      return call_in_place(session, method_of(name).get(), all, keywords, name != "put");
    }
    if (!row || (scalar && !is_scalar_method(name)))
      return break_at(BreakId::UnknownCallable, "method ." + std::string(name) + "()");
    std::vector<Value*> all{array};
    all.insert(all.end(), args.begin(), args.end());
    Ref<> method = row->library && !scalar ? method_of(name) : Ref<>();
    return or_library_call(session, method.get(), all, keywords, static_cast<bool>(method),
                           [&] { return row->handler({session, all, keywords, row->op, DType::F64, method.get()}); });
  }

  Captured<Value*> get_item(Session& session, Value* array, Value* key) override {
    prepare(session);
    return read_item(session, array, key);
  }
  Captured<bool> set_item(Session& session, Value* array, Value* key, Value* value) override {
    prepare(session);
    return write_item(session, array, none_for_true(session, key), value);
  }

  Captured<Value*> length(Session& session, Value* array) override {
    const graph::Type& type = session.graph().type(array->id());
    if (type.rank() == 0) return break_at(BreakId::WouldRaise, "len() of unsized object");
    return session.values().integer(type.shape[0]);
  }

 private:
  static void prepare(Session& session) { session.builder().set_location(session.position().location()); }
};

/// _core._numpy_way(callable or attribute of ndarray) -> (way, dtypes), what becomes of a call: "native", "loop"
/// (NumPy's inner loop in compiled ones), "library" or "" (none of these tables has it), and the dtypes of the operands
/// for which an operator is so, or "" where it goes by the call.
PyObject* numpy_way(PyObject*, PyObject* callable) {
  if (!arrays::import_numpy()) return nullptr;
  const std::optional<std::string_view> method = method_name(callable);
  const bool attribute = Py_IS_TYPE(callable, &PyGetSetDescr_Type) && PyDescr_TYPE(callable) == &PyArray_Type;
  const Known* known = method || attribute ? nullptr : functions().find(callable);
  std::string way, dtypes;
  if (method      ? find_method(*method) != nullptr
      : attribute ? is_array_attribute(reinterpret_cast<PyGetSetDescrObject*>(callable)->d_getset->name)
                  : known != nullptr) {
    way = "native";
  } else if (method ? is_library_method(*method) || is_method_in_place(*method)
                    : (library_calls::is_library_function(callable) && !library_calls::is_followed(callable)) ||
                          is_function_in_place(callable)) {
    way = "library";
  } else if (!method && !attribute && (is_of_dtypes(callable) || is_of_errors(callable))) {
    way = "capture";
  }
  if (known && PyObject_TypeCheck(callable, &PyUFunc_Type)) {
    const graph::OpDef& row = graph::def(known->op);
    if (row.exactness != graph::Exactness::Native) way = "loop";
    for (int i = 0; i < graph::kDTypeCount; ++i)
      if (graph::takes(known->op, static_cast<DType>(i)))
        dtypes += (dtypes.empty() ? "" : " ") + std::string(graph::name_of(static_cast<DType>(i)));
  }
  return Py_BuildValue("(ss)", way.c_str(), dtypes.c_str());
}

PyMethodDef kWays[] = {{"_numpy_way", numpy_way, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(42, [](PyObject* module) { return PyModule_AddFunctions(module, kWays) == 0; });

}  // namespace

std::unique_ptr<capture::Frontend> make_numpy_frontend() {
  if (!arrays::import_numpy()) return nullptr;
  return std::make_unique<NumpyFrontend>();
}

}  // namespace framejit::ext::frontends
