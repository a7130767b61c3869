// The NumPy door: what is an operand, which callables are known, and the way to the files that do the work.
#include "ext/numpy_door.h"

#include "ext/numpy_door_parts.h"

#include <string>
#include <unordered_map>

#include "ext/control.h"
#include "ext/numpy_index.h"
#include "ext/numpy_probe.h"

namespace framejit::ext {

using capture::SourceRef;
using graph::Dim;

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
  const bool varies = value > 1 && (session.varied().contains(name) || is_dynamic(reinterpret_cast<PyObject*>(array), i));
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

/// Strides as functions of the shape where the array is contiguous, so that they vary with it.
graph::Dims input_strides(Session& session, PyArrayObject* array, DType dtype, const graph::Dims& shape,
                          const std::string& name) {
  for (graph::Dims strides : {graph::c_strides(dtype, shape), fortran_strides(dtype, shape)})
    if (has_strides(array, session.graph().shapes(), strides)) return strides;
  graph::Dims strides;
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    // Sign and zero decide what is compiled: a symbol is a positive stride.
    int64_t stride = PyArray_STRIDE(array, i);
    std::string where = name + ".strides[" + std::to_string(i) + "]";
    bool varies = stride > 0 && session.varied().names.count(where) != 0;
    strides.push_back(varies ? session.graph().shapes().fresh(stride) : Dim(stride));
  }
  return strides;
}

}  // namespace

bool compilable(PyObject* object) {
  if (!numpy_probe().promotion_known) return false;
  return array_dtype(object) || scalar_dtype_of(object);
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
      spec.shape.push_back(
          input_dim(session, array, i, name + ".shape[" + std::to_string(i) + "]"));
    spec.strides = input_strides(session, array, *dtype, spec.shape, name);
  } else {
    spec.wrap = Wrap::NumpyScalar;
    spec.dtype = *scalar_dtype_of(object);
  }
  Value* input = session.array_input(object, std::move(source), std::move(spec));
  // The same object met again: the symbols made for it here stand for nothing.
  if (graph::index(input->id) < values) shapes.rollback(before);
  return input;
}

namespace {

struct Known {
  Handler handler = nullptr;
  Op op = Op::Param;
  DType dtype = DType::F64;
};

/// The functions by identity. They are kept alive for ever.
class Functions {
 public:
  Functions() {
    for (const graph::OpDef& row : graph::kOps) {
      // The clip ufunc has no NumPy name of its own; np.clip is a function.
      if (row.op == Op::Clip || row.op == Op::Where) continue;
      if (PyUFuncObject* ufunc = ufunc_of(row.op)) add(reinterpret_cast<PyObject*>(ufunc), {call_ufunc, row.op});
    }
    for (std::span<const FunctionRow> rows :
         {elementwise_functions(), reduction_functions(), creation_functions(), shape_functions(), product_functions()})
      for (const FunctionRow& row : rows) add_named(row);
    for (int i = 0; i < graph::kDTypeCount; ++i)
      if (PyTypeObject* type = scalar_type_of(static_cast<DType>(i)))
        add(reinterpret_cast<PyObject*>(type), {call_scalar_type, Op::Cast, static_cast<DType>(i)});
  }

  const Known* find(PyObject* callable) const {
    auto at = known_.find(callable);
    if (at != known_.end()) return &at->second;
    return PyObject_TypeCheck(callable, &PyUFunc_Type) ? find_late(callable) : nullptr;
  }

 private:
  void add(PyObject* object, Known known) {
    if (known_.emplace(object, known).second) Py_INCREF(object);
  }

  /// What is not NumPy's own under that name (a replacement by someone) is not known.
  void add_named(const FunctionRow& row) {
    Ref<> found = Ref<>::steal(PyObject_GetAttrString(numpy_module(), row.name));
    bool ufunc = found && PyObject_TypeCheck(found.get(), &PyUFunc_Type);
    Ref<> home = found && !ufunc ? Ref<>::steal(PyObject_GetAttrString(found.get(), "__module__")) : Ref<>();
    const char* words = home && PyUnicode_Check(home.get()) ? PyUnicode_AsUTF8(home.get()) : nullptr;
    bool own = ufunc || (words && std::string_view(words).starts_with("numpy"));
    PyErr_Clear();
    if (own) add(found.get(), {row.handler, row.op});
  }

  /// SciPy's ufuncs, imported after NumPy's were listed.
  static const Known* find_late(PyObject* callable) {
    static const Known late[] = {{call_ufunc, Op::Erf}, {call_ufunc, Op::Ndtr}};
    for (const Known& known : late)
      if (reinterpret_cast<PyObject*>(ufunc_of(known.op)) == callable) return &known;
    return nullptr;
  }

  std::unordered_map<PyObject*, Known> known_;
};

const Functions& functions() {
  static const Functions* all = new Functions;  // holds references: never destroyed
  return *all;
}

const FunctionRow* find_method(std::string_view name) {
  for (std::span<const FunctionRow> rows :
       {elementwise_methods(), reduction_methods(), creation_methods(), shape_methods(), product_methods()})
    for (const FunctionRow& row : rows)
      if (row.name == name) return &row;
  return nullptr;
}

/// The name of a method of ndarray that is called through the type: np.ndarray.sum(x).
std::optional<std::string_view> method_name(PyObject* callable) {
  if (Py_TYPE(callable) != &PyMethodDescr_Type) return std::nullopt;
  auto* descriptor = reinterpret_cast<PyMethodDescrObject*>(callable);
  if (PyDescr_TYPE(descriptor) != &PyArray_Type) return std::nullopt;
  return descriptor->d_method->ml_name;
}

class NumpyDoor final : public capture::Door {
 public:
  std::string_view name() const override { return "numpy"; }

  bool owns(PyObject* object) const override { return compilable(object); }
  Captured<Value*> wrap(Session& session, PyObject* object, SourceRef source) override {
    return wrap_object(session, object, std::move(source));
  }
  bool owns(const Value& value) const override { return is_owned(value); }

  PyObject* type_of(const Value& value) const override {
    bool array = value.is_array() && value.wrap == Wrap::NdArray;
    return array ? reinterpret_cast<PyObject*>(&PyArray_Type) : nullptr;
  }

  bool knows(PyObject* callable) const override {
    std::optional<std::string_view> method = method_name(callable);
    return method ? find_method(*method) != nullptr : functions().find(callable) != nullptr;
  }

  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const capture::Keyword> keywords) override {
    prepare(session);
    if (std::optional<std::string_view> method = method_name(callable)) {
      if (args.empty() || !is_owned(*args[0]) || args[0]->wrap != Wrap::NdArray)
        return break_at(BreakId::UnsupportedArgument, "a method of ndarray, called with something else");
      return call_method(session, args[0], *method, args.subspan(1), keywords);
    }
    const Known* known = functions().find(callable);
    if (!known) return break_at(BreakId::UnknownCallable);
    return known->handler({session, args, keywords, known->op, known->dtype});
  }

  Captured<Value*> binary(Session& session, int nb, Value* left, Value* right) override {
    prepare(session);
    return binary_operator(session, nb, left, right);
  }
  Captured<Value*> unary(Session& session, capture::Unary op, Value* value) override {
    prepare(session);
    return unary_operator(session, op, value);
  }
  Captured<Value*> compare(Session& session, int py_op, Value* left, Value* right) override {
    prepare(session);
    return compare_operator(session, py_op, left, right);
  }

  Captured<Value*> get_attr(Session& session, Value* array, std::string_view name) override {
    prepare(session);
    return array_attribute(session, array, name);
  }

  Captured<Value*> call_method(Session& session, Value* array, std::string_view name, std::span<Value* const> args,
                               std::span<const capture::Keyword> keywords) override {
    prepare(session);
    const FunctionRow* row = find_method(name);
    bool scalar = array->wrap == Wrap::NumpyScalar;
    if (!row || (scalar && name != "astype" && name != "__abs__"))
      return break_at(BreakId::UnknownCallable, "method ." + std::string(name) + "()");
    std::vector<Value*> all{array};
    all.insert(all.end(), args.begin(), args.end());
    return row->handler({session, all, keywords, row->op});
  }

  Captured<Value*> get_item(Session& session, Value* array, Value* key) override {
    prepare(session);
    return read_item(session, array, key);
  }
  Captured<bool> set_item(Session& session, Value* array, Value* key, Value* value) override {
    prepare(session);
    return write_item(session, array, key, value);
  }

  Captured<Value*> length(Session& session, Value* array) override {
    const graph::Type& type = session.graph().type(array->id);
    if (type.rank() == 0) return break_at(BreakId::WouldRaise, "len() of unsized object");
    return session.integer(type.shape[0]);
  }

 private:
  static void prepare(Session& session) { session.builder().set_location(session.location()); }
};

}  // namespace

std::unique_ptr<capture::Door> make_numpy_door() {
  if (!import_numpy()) return nullptr;
  return std::make_unique<NumpyDoor>();
}

}  // namespace framejit::ext
