// What framejit._traced._library_gradients says of a call, an expression of calls and operands, as library calls in the
// graph.
#include "ext/frontends/library_gradients.h"

#include "capture/python_names.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/promotion.h"
#include "ext/frontends/numpy/library_call_capture.h"
#include "ext/library_calls/library_call.h"

namespace framejit::ext::frontends {

using library_calls::LibraryCallArguments;

namespace {

using graph::LibraryBackward;
using graph::NoGradient;

/// framejit._traced._library_gradients; borrowed, null with the error cleared.
PyObject* rules() {
  static constinit capture::Once once;
  PyObject* module = once.get([] { return PyImport_ImportModule(python_names::kLibraryGradients); });
  PyErr_Clear();
  return module;
}

Ref<> attribute(PyObject* object, const char* name) {
  Ref<> out = Ref<>::steal(PyObject_GetAttrString(object, name));
  PyErr_Clear();
  return out;
}

bool is_a(PyObject* object, const char* type) {
  Ref<> wanted = rules() ? attribute(rules(), type) : Ref<>();
  return wanted && Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(wanted.get()));
}

class Expression {
 public:
  Expression(Session& session, const LibraryBackward& at, const std::vector<Wrap>& wraps)
      : session_(session), at_(at), wraps_(wraps) {}

  Captured<Value*> evaluate(PyObject* o) {
    if (is_a(o, "Operand")) return operand(o);
    if (is_a(o, "Call")) return call(o);
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
      std::vector<Value*> items;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
        FRAMEJIT_TRY(item, evaluate(PySequence_Fast_GET_ITEM(o, i)));
        items.push_back(item);
      }
      return sequence(PyTuple_CheckExact(o) ? ValueKind::Tuple : ValueKind::List, std::move(items));
    }
    if (PySlice_Check(o)) {
      auto* slice = reinterpret_cast<PySliceObject*>(o);
      std::vector<Value*> items;
      for (PyObject* part : {slice->start, slice->stop, slice->step}) {
        FRAMEJIT_TRY(item, evaluate(part));
        items.push_back(item);
      }
      return sequence(ValueKind::Slice, std::move(items));
    }
    return session_.values().constant(o);
  }

 private:
  Captured<Value*> sequence(ValueKind kind, std::vector<Value*> items) {
    Value* out = session_.values().make(kind);
    out->items = std::move(items);
    return out;
  }

  Captured<Value*> operand(PyObject* o) {
    Ref<> number = attribute(o, "number");
    const long at = number ? PyLong_AsLong(number.get()) : -3;
    PyErr_Clear();
    if (at == -1) return session_.values().array(at_.cotangent, Wrap::NdArray);
    if (at == -2) return session_.values().array(at_.result(), Wrap::NdArray);
    if (at < 0) return break_at(BreakId::NoGradient, "a rule with an operand that does not exist");
    return session_.values().array(at_.operand(static_cast<std::size_t>(at)), wraps_[static_cast<std::size_t>(at)]);
  }

  Captured<Value*> call(PyObject* o) {
    Ref<> function = attribute(o, "function"), args = attribute(o, "args"), named = attribute(o, "keywords");
    if (!function || !args || !named) return break_at(BreakId::NoGradient, "a rule without a call");
    FRAMEJIT_TRY(all, evaluate(args.get()));
    std::vector<capture::Keyword> keywords;
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(named.get(), &i, &key, &value);) {
      FRAMEJIT_TRY(one, evaluate(value));
      keywords.emplace_back(PyUnicode_AsUTF8(key), one);
    }
    return library_call(session_, function.get(), all->items, keywords);
  }

  Session& session_;
  const LibraryBackward& at_;
  const std::vector<Wrap>& wraps_;
};

bool is_inexact(DType dtype) { return graph::is_float(dtype) || graph::is_complex(dtype); }

std::string name_of(PyObject* callable) {
  Ref<> name = attribute(callable, "__name__");
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  return text ? text : "a library call";
}

Ref<> operand_object(std::size_t number) {
  Ref<> type = rules() ? attribute(rules(), "Operand") : Ref<>();
  return type ? Ref<>::steal(PyObject_CallFunction(type.get(), "n", static_cast<Py_ssize_t>(number))) : Ref<>();
}

/// In the shape and dtype of the operand; complex numbers stay that.
Captured<ValueId> like_operand(Session& session, ValueId id, ValueId operand) {
  const DType own = session.graph().type(id).dtype, dtype = session.graph().type(operand).dtype;
  FRAMEJIT_TRY(converted, cast(session, id, graph::is_complex(own) ? own : dtype));
  const graph::Dims shape = session.graph().type(operand).shape;
  if (session.graph().type(converted).shape == shape) return converted;
  return built(session.builder().reshape(converted, shape));
}

/// An operator as the call of its ufunc, which has been found: it was captured.
LibraryCallArguments ufunc_arguments(Op op, std::span<const Ref<>> operands) {
  LibraryCallArguments call{Ref<>::share(reinterpret_cast<PyObject*>(arrays::ufunc_of(op))),
                            Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(operands.size()))),
                            Ref<>::steal(PyDict_New())};
  for (std::size_t i = 0; call.args && i < operands.size(); ++i)
    PyTuple_SET_ITEM(call.args.get(), static_cast<Py_ssize_t>(i), Py_XNewRef(operands[i].get()));
  return call;
}

Expected<std::vector<ValueId>, NoGradient> cotangents(Session& session, const LibraryBackward& at) {
  const graph::Node& node = session.graph().node(at.call);
  const std::vector<ValueId> inputs = node.inputs;
  const bool is_call = node.op == Op::LibraryCall;
  const auto wraps =
      is_call ? library_calls::library_call_operands(node.index()) : std::vector<Wrap>(inputs.size(), Wrap::NdArray);
  const auto none = [&](std::string why) { return Unexpected<NoGradient>{{std::move(why), at.call}}; };
  if (!wraps || !rules()) {
    const library_calls::LibraryCall* made = is_call ? library_calls::library_call_at(node.index()) : nullptr;
    return none(made ? name_of((made->first ? made->first : made)->callable.get()) : "a custom_op");
  }
  std::vector<Ref<>> handles;
  for (std::size_t i = 0; i < wraps->size(); ++i) handles.push_back(operand_object(i));
  const LibraryCallArguments call =
      is_call ? library_calls::library_call_arguments(node.index(), handles) : ufunc_arguments(node.op, handles);
  if (!call.args || !call.keywords) {
    PyErr_Clear();
    return none("no memory");
  }
  std::vector<ValueId> out(inputs.size(), graph::kNoValue);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!at.needed[i]) continue;
    const bool part = graph::is_complex(session.graph().type(inputs[i]).dtype) &&
                      !graph::is_complex(session.graph().type(at.call).dtype);
    Ref<> expression =
        Ref<>::steal(PyObject_CallMethod(rules(), part ? "gradient_of_part" : "gradient", "OnOO", call.callable.get(),
                                         static_cast<Py_ssize_t>(i), call.args.get(), call.keywords.get()));
    PyErr_Clear();
    if (expression.get() == Py_NotImplemented &&
        !(is_inexact(session.graph().type(inputs[i]).dtype) && is_inexact(session.graph().type(at.call).dtype)))
      continue;  // places, counts and masks: nothing comes from or to them
    if (!expression || expression.get() == Py_NotImplemented) return none(name_of(call.callable.get()));
    if (expression.get() == Py_None) continue;
    Captured<Value*> value = Expression(session, at, *wraps).evaluate(expression.get());
    if (!value || !(*value)->is_array()) return none(name_of(call.callable.get()) + " of these arguments");
    Captured<ValueId> fitting = like_operand(session, (*value)->id(), inputs[i]);
    if (!fitting) return none(name_of(call.callable.get()) + " of these arguments");
    out[i] = *fitting;
  }
  return out;
}

/// Functions of complex numbers, and products of vectors and matrices.
std::optional<Op> same_as(Session& session, ValueId call) {
  const graph::Node& node = session.graph().node(call);
  const auto wraps = library_calls::library_call_operands(node.index());
  const bool complex = graph::is_complex(node.type.dtype);
  if (!wraps || (!complex && node.type.dtype != DType::F32 && node.type.dtype != DType::F64)) return std::nullopt;
  std::vector<Ref<>> handles;
  for (std::size_t i = 0; i < wraps->size(); ++i) handles.push_back(operand_object(i));
  const LibraryCallArguments given = library_calls::library_call_arguments(node.index(), handles);
  PyErr_Clear();
  if (!given.args || !given.keywords || PyDict_GET_SIZE(given.keywords.get()) != 0) return std::nullopt;
  if (PyTuple_GET_SIZE(given.args.get()) != static_cast<Py_ssize_t>(handles.size())) return std::nullopt;
  for (std::size_t i = 0; i < handles.size(); ++i)
    if (PyTuple_GET_ITEM(given.args.get(), static_cast<Py_ssize_t>(i)) != handles[i].get()) return std::nullopt;
  if (complex) {
    for (int i = 0; i < graph::kOpCount; ++i) {
      const Op op = static_cast<Op>(i);
      if (reinterpret_cast<PyObject*>(arrays::ufunc_of(op)) == given.callable.get() &&
          graph::why_no_gradient(op).empty())
        return op;
    }
    return std::nullopt;
  }
  const std::string name = name_of(given.callable.get());
  if (handles.size() != 2 || (name != "matmul" && name != "dot")) return std::nullopt;
  for (ValueId x : node.inputs) {
    const int rank = session.graph().type(x).rank();
    if (rank < 1 || (name == "dot" && rank > 2)) return std::nullopt;
  }
  return Op::MatMul;
}

}  // namespace

graph::LibraryGradients library_gradients(Session& session) {
  return {[&session](ValueId call) { return same_as(session, call); },
          [&session](const LibraryBackward& at) { return cotangents(session, at); }};
}

}  // namespace framejit::ext::frontends
