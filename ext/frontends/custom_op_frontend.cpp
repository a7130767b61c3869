#include "ext/frontends/custom_op_frontend.h"

#include "ext/arrays/numpy_api.h"
#include "ext/frontends/function_frontend.h"
#include "ext/library_calls/custom_op.h"

namespace framejit::ext::frontends {

namespace {

using capture::break_at;
using capture::BreakId;
using capture::Captured;
using capture::Ref;
using capture::Session;
using capture::Value;
using capture::Wrap;

class CustomOpFrontend final : public FunctionFrontend {
 public:
  std::string_view name() const override { return "custom"; }
  bool knows(PyObject* callable) const override { return library_calls::is_custom_op(callable); }

  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const capture::Keyword> keywords) override {
    const library_calls::CustomOp& op = *library_calls::custom_op(callable);
    if (args.empty() || !keywords.empty()) return break_at(BreakId::UnsupportedArgument, "custom_op without an array");
    std::vector<graph::ValueId> operands;
    for (const Value* v : args) {
      if (!v->is_array() || v->wrap() != Wrap::NdArray || session.graph().type(v->id()).rank() == 0)
        return break_at(BreakId::UnsupportedArgument, "an argument of a custom_op that is not an array");
      operands.push_back(v->id());
    }
    const graph::Type first = session.graph().type(operands[0]);
    graph::DType dtype = first.dtype;
    if (op.dtype.get() != Py_None) {
      const auto known = arrays::dtype_of(reinterpret_cast<PyArray_Descr*>(op.dtype.get()));
      if (!known) return break_at(BreakId::UnsupportedArray, "the dtype of a custom_op");
      dtype = *known;
    }
    graph::Dims shape = first.shape;
    if (op.shape.get() != Py_None && !result_shape(session, op, operands, shape))
      return break_at(BreakId::UnsupportedArgument, "the shape of a custom_op");
    if (shape.empty()) return break_at(BreakId::UnsupportedArgument, "a custom_op that gives a 0-d array");
    if (session.flag_rules().any())
      return break_at(BreakId::UnsupportedArgument, "a custom_op under np.errstate of the region's own");
    return session.values().array(
        session.builder().library_call(op.index, std::move(operands), dtype, std::move(shape)), Wrap::NdArray);
  }

 private:
  /// From the tuple, or from what the callable gives for the arguments' shapes, which are fixed then.
  static bool result_shape(Session& session, const library_calls::CustomOp& op,
                           const std::vector<graph::ValueId>& operands, graph::Dims& out) {
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

}  // namespace

std::unique_ptr<capture::Frontend> make_custom_op_frontend() { return std::make_unique<CustomOpFrontend>(); }

}  // namespace framejit::ext::frontends
