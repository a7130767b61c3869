// Which guard failed, what it wanted and what it found; and what varied between the calls.
#include <string>

#include "ext/arrays/tensor_object.h"
#include "ext/guards/guard_program_impl.h"

namespace framejit::ext::guards {

using capture::Guard;
using capture::GuardKind;
using capture::Ref;
using capture::SourceRef;

namespace {

std::string text_of(PyObject* text, const char* otherwise) {
  Ref<> owned = Ref<>::steal(text);
  const char* utf8 = owned ? PyUnicode_AsUTF8(owned.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : otherwise;
}

/// repr() of what has a repr of Python's own, shortened; else the type's name and the address-free word "object".
std::string show(PyObject* object) {
  if (!object) return "nothing";
  const bool plain = PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) ||
                     PyBytes_CheckExact(object) || PyBool_Check(object) || object == Py_None;
  if (plain) {
    std::string text = text_of(PyObject_Repr(object), "?");
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
  }
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (PyFunction_Check(object))
    return "function " + text_of(Py_XNewRef(reinterpret_cast<PyFunctionObject*>(object)->func_qualname), "?");
  return std::string(Py_TYPE(object)->tp_name) + " object";
}

std::string dim_text(const graph::Dim& dim, const int64_t* symbols, std::size_t count) {
  const std::optional<int64_t> value = dim.try_evaluate({symbols, count});
  return value ? std::to_string(*value) : "a number beyond 64 bits";
}

/// The first difference between an array and its specification. Dims that name symbols are evaluated with what is bound
/// so far.
void explain_array(const Guard& g, PyObject* object, const int64_t* symbols, std::size_t count, GuardFailure& out) {
  const capture::ArraySpec& spec = g.array;
  const std::string name = g.source->str();
  auto tell = [&](std::string what, std::string expected, std::string found) {
    out.guard = std::move(what) + " == " + expected;
    out.expected = std::move(expected);
    out.found = std::move(found);
  };
  PyTypeObject* type = arrays::guarded_type(g);
  if (!object || Py_TYPE(object) != type)
    return tell("type(" + name + ")", type ? type->tp_name : "?", object ? Py_TYPE(object)->tp_name : "nothing");
  if (spec.wrap != capture::Wrap::NdArray && spec.wrap != capture::Wrap::Tensor)
    return tell(name, "a machine number", show(object));
  PyArrayObject* array = arrays::held_array(spec.wrap, object);
  if (PyArray_DESCR(array) != arrays::descr_of(spec.dtype) &&
      !arrays::same_descr(PyArray_DESCR(array), arrays::type_num_of(spec.dtype)))
    return tell(name + ".dtype", std::string(graph::name_of(spec.dtype)),
                text_of(PyObject_Str(reinterpret_cast<PyObject*>(PyArray_DESCR(array))), "?"));
  if (PyArray_NDIM(array) != static_cast<int>(spec.shape.size()))
    return tell(name + ".ndim", std::to_string(spec.shape.size()), std::to_string(PyArray_NDIM(array)));
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    const std::string expected = dim_text(spec.shape[i], symbols, count);
    if (expected != std::to_string(PyArray_DIM(array, i)) && spec.shape[i].is_const())
      return tell(name + ".shape[" + std::to_string(i) + "]", expected, std::to_string(PyArray_DIM(array, i)));
  }
  if (spec.writeable && !PyArray_ISWRITEABLE(array)) return tell(name + ".flags.writeable", "True", "False");
  if (spec.aligned && !PyArray_ISALIGNED(array)) return tell(name + ".flags.aligned", "True", "False");
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    const std::string expected = dim_text(spec.strides[i], symbols, count);
    if (expected != std::to_string(PyArray_STRIDE(array, i)))
      return tell(name + ".strides[" + std::to_string(i) + "]", expected, std::to_string(PyArray_STRIDE(array, i)));
  }
  tell(name + ".shape", g.str(), "another");
}

/// Known dims and numbers that are different now: these become symbolic in the next entry.
void note_varied(const Guard& g, const LiveSlots& live, std::vector<std::string>& out) {
  if (!g.source) return;
  if (g.kind == GuardKind::Array && (g.array.wrap == capture::Wrap::NdArray || g.array.wrap == capture::Wrap::Tensor)) {
    PyObject* object = fetch_source(*g.source, live);
    if (!object || Py_TYPE(object) != arrays::guarded_type(g)) return;
    PyArrayObject* array = arrays::held_array(g.array.wrap, object);
    if (PyArray_NDIM(array) != static_cast<int>(g.array.shape.size())) return;
    const std::string name = g.source->str();
    for (int i = 0; i < PyArray_NDIM(array); ++i) {
      const graph::Dim& dim = g.array.shape[i];
      if (dim.is_const() && dim.value() != PyArray_DIM(array, i))
        out.push_back(name + ".shape[" + std::to_string(i) + "]");
    }
  } else if (g.kind == GuardKind::Equal && (PyLong_CheckExact(g.object.get()) || PyFloat_CheckExact(g.object.get()))) {
    PyObject* object = fetch_source(*g.source, live);
    if (object && Py_IS_TYPE(object, Py_TYPE(g.object.get())) && !same_value(object, g.object.get()))
      out.push_back(g.source->str());
  } else if (g.kind == GuardKind::Length && g.object) {
    PyObject* object = fetch_source(*g.source, live);
    if (object && PyList_CheckExact(object) && PyList_GET_SIZE(object) != g.number)
      out.push_back("len(" + g.source->str() + ")");
  }
}

/// Names two that should be apart.
void explain_apart(const Guard& g, const LiveSlots& live, GuardFailure& out) {
  const bool distinct = g.kind == GuardKind::Distinct;
  out.expected = distinct ? "distinct objects" : "arrays that share no memory";
  out.found = "others";
  const auto meet = [&](PyObject* a, PyObject* b) {
    if (distinct || !a || !b) return a == b;
    uintptr_t low_a, high_a, low_b, high_b;
    memory_bounds(arrays::as_ndarray(arrays::is_tensor(a) ? arrays::tensor_array(a) : a), low_a, high_a);
    memory_bounds(arrays::as_ndarray(arrays::is_tensor(b) ? arrays::tensor_array(b) : b), low_b, high_b);
    return low_a < high_a && low_b < high_b && low_a < high_b && low_b < high_a;
  };
  std::vector<PyObject*> objects;
  for (const SourceRef& each : g.several) objects.push_back(fetch_source(*each, live));
  for (std::size_t i = 0; i < static_cast<std::size_t>(g.number); ++i)
    for (std::size_t k = i + 1; k < objects.size(); ++k)
      if (meet(objects[i], objects[k])) {
        const std::string a = g.several[i]->str(), b = g.several[k]->str();
        out.found = (distinct ? "one object at " : "memory shared by ") + a + " and " + b;
        return;
      }
}

}  // namespace

std::optional<GuardFailure> GuardProgram::explain(const LiveSlots& live) const {
  std::vector<PyObject*> slots(slots_ + 1);
  std::vector<int64_t> symbols(symbols_ + 1), scalars(2 * input_count() + 2);
  std::vector<char*> params(input_count() + 1);
  Matched m{&live, slots.data(), symbols.data(), params.data(), scalars.data()};
  const int failed = run(m);
  if (failed < 0) return std::nullopt;

  uint32_t number = failed >= kKnown ? known_[failed - kKnown].guard : impl_->code[failed].guard;
  if (failed < kKnown && impl_->code[failed].op == GuardOp::FetchGroup) {
    const DictGroup& group = impl_->groups[impl_->code[failed].number];
    for (const DictGroup::Item& item : group.items) {
      PyObject* value = fetch_item(group.dict, item.key);
      if (!DictGroup::fits(item, value)) {
        number = item.guard;
        break;
      }
    }
  }
  GuardFailure out;
  if (number >= impl_->guards.size()) {
    out.guard = "an object that the entry refers to still exists";
    out.expected = "an object";
    out.found = "nothing";
  } else {
    const Guard& g = impl_->guards[number];
    PyObject* object = g.source ? fetch_source(*g.source, live) : nullptr;
    out.guard = g.str();
    out.location = g.location;
    out.reason = g.reason;
    switch (g.kind) {
      case GuardKind::Array: explain_array(g, object, symbols.data(), symbols_, out); break;
      case GuardKind::Type:
        out.expected = show(g.object.get());
        out.found = object ? Py_TYPE(object)->tp_name : "nothing";
        break;
      case GuardKind::Identity:
      case GuardKind::Equal:
        out.expected = show(g.object.get());
        out.found = show(object);
        if (out.expected == out.found) out.found = "another " + out.found;
        break;
      case GuardKind::Length:
        out.expected = std::to_string(g.number);
        out.found =
            object && (PyTuple_Check(object) || PyList_Check(object) || PyDict_Check(object) || PyAnySet_Check(object))
                ? std::to_string(PyObject_Size(object))
                : show(object);
        break;
      case GuardKind::IntSymbol:
        out.expected = g.object ? "a list" : "an int of 64 bits";
        out.found = show(object);
        break;
      case GuardKind::DimRelation: {
        auto side = [&](const graph::Dim& d) { return dim_text(d, symbols.data(), symbols_); };
        out.expected = g.dim.outcome ? "true" : "false";
        out.found = side(g.dim.left) + " and " + side(g.dim.right);
        break;
      }
      case GuardKind::Distinct:
      case GuardKind::Disjoint: explain_apart(g, live, out); break;
      default:
        out.expected = "true";
        out.found = "false";
        break;
    }
  }
  for (const Guard& g : impl_->guards) note_varied(g, live, out.varied);
  return out;
}

GuardFailure GuardProgram::explain_forced(int number, const LiveSlots& live) const {
  const Guard& g = impl_->guards[static_cast<std::size_t>(number)];
  GuardFailure out;
  out.guard = g.str();
  out.location = g.location;
  out.reason = g.reason;
  out.expected = "true";
  out.found = "true (stress)";
  PyObject* object = g.source ? fetch_source(*g.source, live) : nullptr;
  if (g.kind == GuardKind::Array)
    for (std::size_t i = 0; i < g.array.shape.size(); ++i)
      out.varied.push_back(g.source->str() + ".shape[" + std::to_string(i) + "]");
  if (g.kind == GuardKind::Equal && object && PyLong_CheckExact(object)) out.varied.push_back(g.source->str());
  if (g.kind == GuardKind::Length && g.object) out.varied.push_back("len(" + g.source->str() + ")");
  return out;
}

}  // namespace framejit::ext::guards
