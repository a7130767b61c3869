// _core.register_custom_op(op, function, shape, dtype), _core.forget_custom_op(index).
#include "ext/custom_op.h"

#include <cstring>
#include <map>

#include "ext/batch.h"
#include "ext/loaded_graph.h"
#include "ext/module.h"
#include "ext/numpy_api.h"
#include "ext/numpy_ops_types.h"

namespace framejit::ext {

namespace {

using capture::break_at;
using capture::BreakId;
using capture::Captured;
using capture::Ref;
using capture::Session;
using capture::Value;
using capture::Wrap;
using codegen::HostArray;

struct CustomOp {
  PyObject* op;  // borrowed
  int64_t index;
  Ref<> function;
  Ref<> shape;  // None: that of the first argument; a tuple; or a callable that is given the arguments' shapes
  Ref<> dtype;  // None: that of the first argument; or a descriptor
};

/// By the operator, which whoever compiled a call keeps alive; it forgets itself when it dies.
std::map<PyObject*, std::unique_ptr<CustomOp>>& custom_ops() {
  static auto* map =
      new std::map<PyObject*, std::unique_ptr<CustomOp>>();  // never destroyed: the interpreter is gone by then
  return *map;
}

int64_t next_index = 0;

// ---- the call

/// A copy with the same strides, because NumPy's sums depend on them: the function may keep it.
Ref<> copy_of(const HostArray& a) {
  int64_t low = 0, high = graph::size_of(a.dtype);
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] == 0) high = low;
    (a.strides[i] < 0 ? low : high) += (a.shape[i] - 1) * a.strides[i];
  }
  npy_intp bytes = std::max<int64_t>(high - low, 0);
  Ref<> memory = Ref<>::steal(PyArray_SimpleNew(1, &bytes, NPY_UINT8));
  if (!memory) return {};
  char* at = PyArray_BYTES(reinterpret_cast<PyArrayObject*>(memory.get()));
  std::memcpy(at, a.data + low, static_cast<std::size_t>(bytes));
  PyArray_Descr* descr = descr_of(a.dtype);
  Py_INCREF(descr);
  std::vector<npy_intp> shape(a.shape.begin(), a.shape.end()), strides(a.strides.begin(), a.strides.end());
  Ref<> array = Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(shape.size()), shape.data(),
                                                  strides.data(), at - low, NPY_ARRAY_WRITEABLE, nullptr));
  if (!array || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), memory.release()) < 0) return {};
  return array;
}

/// Is it what a fresh result of the graph would be?
bool fits(PyObject* object, const HostArray& out) {
  if (!object || !PyArray_CheckExact(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  if (dtype_of(PyArray_DESCR(array)) != out.dtype || PyArray_NDIM(array) != static_cast<int>(out.shape.size()))
    return false;
  for (int i = 0; i < PyArray_NDIM(array); ++i)
    if (PyArray_DIM(array, i) != out.shape[static_cast<std::size_t>(i)]) return false;
  constexpr int kFlags = NPY_ARRAY_CARRAY | NPY_ARRAY_OWNDATA;
  return PyArray_CHKFLAGS(array, kFlags);
}

/// The bytecode, which runs again, will call the operator with the same arrays: it raises this error then, which may be
/// one of a signal's handler. Clears the error.
void keep_error(const CustomOp& op, PyObject* args) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  const Ref<> kept = Ref<>::steal(Py_BuildValue("(kOO)", PyThread_get_thread_ident(), args, value));
  if (kept) PyObject_SetAttrString(op.op, "_raised", kept.get());
  PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

bool call_host(void* context, std::span<const HostArray> arrays, graph::FlagRule) {
  const auto* op = static_cast<const CustomOp*>(context);
  struct Gil {
    PyGILState_STATE state = PyGILState_Ensure();
    ~Gil() { PyGILState_Release(state); }
  } gil;
  Ref<> args = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(arrays.size() - 1)));
  for (std::size_t i = 0; args && i + 1 < arrays.size(); ++i) {
    Ref<> copy = copy_of(arrays[i]);
    if (!copy) args = Ref<>();
    if (args) PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), copy.release());
  }
  Ref<> result = args ? Ref<>::steal(PyObject_CallObject(op->function.get(), args.get())) : Ref<>();
  if (args && !result) keep_error(*op, args.get());
  PyErr_Clear();
  if (!fits(result.get(), arrays.back())) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(result.get());
  std::memcpy(arrays.back().data, PyArray_BYTES(array), static_cast<std::size_t>(PyArray_NBYTES(array)));
  return true;
}

// ---- capture

class CustomDoor final : public capture::Door {
 public:
  std::string_view name() const override { return "custom"; }
  bool owns(PyObject*) const override { return false; }
  bool owns(const Value&) const override { return false; }
  bool knows(PyObject* callable) const override {
    return is_custom_op(callable) || is_loaded_graph(callable) || is_batch_function(callable);
  }

  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const capture::Keyword> keywords) override {
    if (is_batch_function(callable)) return call_batch_function(session, callable, args);
    if (is_loaded_graph(callable)) return call_loaded_graph(session, callable, args);
    const CustomOp& op = *custom_ops().at(callable);
    if (args.empty() || !keywords.empty()) return break_at(BreakId::UnsupportedArgument, "custom_op without an array");
    std::vector<graph::ValueId> operands;
    for (const Value* v : args) {
      if (!v->is_array() || v->wrap != Wrap::NdArray || session.graph().type(v->id).rank() == 0)
        return break_at(BreakId::UnsupportedArgument, "an argument of a custom_op that is no array");
      operands.push_back(v->id);
    }
    const graph::Type first = session.graph().type(operands[0]);
    graph::DType dtype = first.dtype;
    if (op.dtype.get() != Py_None) {
      const auto known = dtype_of(reinterpret_cast<PyArray_Descr*>(op.dtype.get()));
      if (!known) return break_at(BreakId::UnsupportedArray, "the dtype of a custom_op");
      dtype = *known;
    }
    graph::Dims shape = first.shape;
    if (op.shape.get() != Py_None && !result_shape(session, op, operands, shape))
      return break_at(BreakId::UnsupportedArgument, "the shape of a custom_op");
    if (shape.empty()) return break_at(BreakId::UnsupportedArgument, "a custom_op that gives a 0-d array");
    if (session.has_flag_actions())
      return break_at(BreakId::UnsupportedArgument, "a custom_op under np.errstate of the region's own");
    return session.array(session.builder().host_call(op.index, std::move(operands), dtype, std::move(shape)),
                         Wrap::NdArray);
  }

  Captured<Value*> wrap(Session&, PyObject*, capture::SourceRef) override { return not_ours(); }
  Captured<Value*> binary(Session&, int, Value*, Value*) override { return not_ours(); }
  Captured<Value*> unary(Session&, capture::Unary, Value*) override { return not_ours(); }
  Captured<Value*> compare(Session&, int, Value*, Value*) override { return not_ours(); }
  Captured<Value*> get_attr(Session&, Value*, std::string_view) override { return not_ours(); }
  Captured<Value*> call_method(Session&, Value*, std::string_view, std::span<Value* const>,
                               std::span<const capture::Keyword>) override {
    return not_ours();
  }
  Captured<Value*> get_item(Session&, Value*, Value*) override { return not_ours(); }
  Captured<bool> set_item(Session&, Value*, Value*, Value*) override { return not_ours(); }
  Captured<Value*> length(Session&, Value*) override { return not_ours(); }

 private:
  static Unexpected<capture::Break> not_ours() { return break_at(BreakId::UnsupportedArgument); }

  /// From the tuple, or from what the callable gives for the arguments' shapes, which are fixed then.
  static bool result_shape(Session& session, const CustomOp& op, const std::vector<graph::ValueId>& operands,
                           graph::Dims& out) {
    Ref<> given = op.shape;
    if (!PyTuple_Check(given.get())) {
      Ref<> shapes = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
      for (std::size_t i = 0; shapes && i < operands.size(); ++i) {
        const graph::Dims dims = session.graph().type(operands[i]).shape;
        PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(dims.size()));
        for (std::size_t d = 0; tuple && d < dims.size(); ++d)
          PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(d),
                           PyLong_FromLongLong(session.graph().shapes().specialize(dims[d])));
        PyTuple_SET_ITEM(shapes.get(), static_cast<Py_ssize_t>(i), tuple);
      }
      if (shapes) given = Ref<>::steal(PyObject_CallObject(op.shape.get(), shapes.get()));
      if (given) given = Ref<>::steal(PySequence_Tuple(given.get()));
    }
    out.clear();
    for (Py_ssize_t i = 0; given && i < PyTuple_GET_SIZE(given.get()); ++i) {
      const long long length = PyLong_AsLongLong(PyTuple_GET_ITEM(given.get(), i));
      if (length < 0) break;
      out.push_back(length);
    }
    const bool known = given && out.size() == static_cast<std::size_t>(PyTuple_GET_SIZE(given.get()));
    const bool interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
    PyErr_Clear();
    if (interrupted) PyErr_SetInterrupt();  // capture cannot raise
    return known;
  }
};

PyObject* register_custom_op(PyObject*, PyObject* args) {
  PyObject *op, *function, *shape, *dtype;
  if (!PyArg_ParseTuple(args, "OOOO:register_custom_op", &op, &function, &shape, &dtype)) return nullptr;
  if (dtype != Py_None && !PyArray_DescrCheck(dtype)) return PyErr_Format(PyExc_TypeError, "dtype must be a np.dtype");
  custom_ops()[op] = std::make_unique<CustomOp>(
      CustomOp{op, next_index, Ref<>::share(function), Ref<>::share(shape), Ref<>::share(dtype)});
  return PyLong_FromLongLong(next_index++);
}

PyObject* forget_custom_op(PyObject*, PyObject* index) {
  const long long number = PyLong_AsLongLong(index);
  if (number == -1 && PyErr_Occurred()) return nullptr;
  for (auto at = custom_ops().begin(); at != custom_ops().end(); ++at)
    if (at->second->index == number) {
      const std::unique_ptr<CustomOp> gone = std::move(at->second);
      custom_ops().erase(at);
      break;
    }
  Py_RETURN_NONE;
}

PyObject* raise_error(PyObject*, PyObject* args) {
  PyObject* error = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (!error || !PyExceptionInstance_Check(error))
    return PyErr_Format(PyExc_TypeError, "raise_error() takes an exception");
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  return nullptr;
}

PyMethodDef methods[] = {
    {"register_custom_op", register_custom_op, METH_VARARGS,
     "register_custom_op(op, function, shape, dtype): its index. `op`, called, gives what `function` gives."},
    {"forget_custom_op", forget_custom_op, METH_O, "forget_custom_op(index): the operator is dead."},
    {"raise_error", raise_error, METH_VARARGS, "raise_error(error, ...): raises it; further arguments are ignored."},
    {nullptr, nullptr, 0, nullptr}};

const ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

std::unique_ptr<capture::Door> make_custom_door() { return std::make_unique<CustomDoor>(); }

bool is_custom_op(PyObject* object) { return custom_ops().count(object) != 0; }

codegen::HostFunction custom_function(int64_t index) {
  for (const auto& [op, custom] : custom_ops())
    if (custom->index == index) return {call_host, custom.get()};
  return {};
}

}  // namespace framejit::ext
