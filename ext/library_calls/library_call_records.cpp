// Library calls in files: see library_call_records.h.
#include "ext/library_calls/library_call_records.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "capture/python_names.h"
#include "capture/warnings.h"
#include "ext/library_calls/library_call.h"
#include "ext/library_calls/listed_functions.h"
#include "graph/pass.h"

namespace framejit::ext::library_calls {

using capture::Ref;
using capture::Wrap;
using graph::DType;

namespace {

constexpr const char* kPieceNames[] = {"known", "operand", "tuple", "list", "slice"};

Ref<> piece_record(const Piece& piece) {
  const char* name = kPieceNames[piece.kind];
  if (piece.kind == Piece::Known) return Ref<>::steal(Py_BuildValue("(sO)", name, piece.object.get()));
  if (piece.kind == Piece::Slot)
    return Ref<>::steal(
        Py_BuildValue("(sni)", name, static_cast<Py_ssize_t>(piece.slot), static_cast<int>(piece.wrap)));
  Ref<> out = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(piece.items.size() + 1)));
  if (!out) return {};
  PyTuple_SET_ITEM(out.get(), 0, PyUnicode_FromString(name));
  for (std::size_t i = 0; i < piece.items.size(); ++i) {
    Ref<> item = piece_record(piece.items[i]);
    if (!item) return {};
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i + 1), item.release());
  }
  return out;
}

bool read_piece(PyObject* record, Piece& out, int depth = 0) {
  const char* name = PyTuple_Check(record) && PyTuple_GET_SIZE(record) > 0 && depth < 32
                         ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(record, 0))
                         : nullptr;
  if (!name) return false;
  const auto kind = std::find_if(std::begin(kPieceNames), std::end(kPieceNames),
                                 [&](const char* known) { return std::string_view(known) == name; });
  if (kind == std::end(kPieceNames)) return false;
  out.kind = static_cast<Piece::Kind>(kind - std::begin(kPieceNames));
  const Py_ssize_t count = PyTuple_GET_SIZE(record);
  if (out.kind == Piece::Known) {
    out.object = count == 2 ? Ref<>::share(PyTuple_GET_ITEM(record, 1)) : Ref<>();
    return out.object && is_immutable(out.object.get());
  }
  if (out.kind == Piece::Slot) {
    const long long slot = count == 3 ? PyLong_AsLongLong(PyTuple_GET_ITEM(record, 1)) : -1;
    const long wrap = count == 3 ? PyLong_AsLong(PyTuple_GET_ITEM(record, 2)) : -1;
    out.slot = static_cast<std::size_t>(slot);
    out.wrap = static_cast<Wrap>(wrap);
    return slot >= 0 && slot < 64 && wrap >= 0 && wrap < static_cast<long>(Wrap::PyComplex);
  }
  for (Py_ssize_t i = 1; i < count; ++i)
    if (!read_piece(PyTuple_GET_ITEM(record, i), out.items.emplace_back(), depth + 1)) return false;
  return out.kind != Piece::Slice || out.items.size() == 3;
}

/// Is it what a library call may call?
bool is_listed(PyObject* callable) {
  if (is_library_function(callable)) return true;
  Ref<> name = Ref<>::steal(PyObject_GetAttrString(callable, "__name__"));
  const char* words = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (words && Py_IS_TYPE(callable, &PyMethodDescr_Type))
    return reinterpret_cast<PyDescrObject*>(callable)->d_type == &PyArray_Type && is_library_method(words);
  static constexpr const char* kOperators[] = {
      "getitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_",
      "or_",     "xor", "neg", "pos", "abs",     "invert",   "lt",  "le",  "eq",     "ne",     "gt",     "ge"};
  const bool is_ufunc = PyObject_TypeCheck(callable, &PyUFunc_Type);
  for (const char* home : {"numpy", "operator", python_names::kLibraryFunctions, python_names::kLibraryGradients}) {
    const bool is_known =
        words && ((home[0] == 'n' && is_ufunc) || home == std::string_view(python_names::kLibraryFunctions) ||
                  (home == std::string_view(python_names::kLibraryGradients) && PyFunction_Check(callable)) ||
                  std::any_of(std::begin(kOperators), std::end(kOperators),
                              [&](const char* known) { return std::string_view(known) == words; }));
    Ref<> module = is_known ? Ref<>::steal(PyImport_ImportModule(home)) : Ref<>();
    Ref<> found = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), words)) : Ref<>();
    capture::clear_error_of_call();
    if (found.get() == callable) return true;
  }
  return false;
}

PyObject* field(PyObject* record, const char* name) { return PyDict_GetItemString(record, name); }

std::unique_ptr<LibraryCall> read_call(PyObject* record) {
  auto call = std::make_unique<LibraryCall>();
  if (!PyDict_Check(record)) return nullptr;
  for (const char* name :
       {"callable", "args", "keywords", "result", "through_view", "sequence", "count", "first", "item"})
    if (!field(record, name)) return nullptr;
  call->result = static_cast<Wrap>(PyLong_AsLong(field(record, "result")));
  call->through_view = field(record, "through_view") == Py_True;
  call->count = PyLong_AsSsize_t(field(record, "count"));
  call->item = PyLong_AsSsize_t(field(record, "item"));
  if (PyErr_Occurred() || call->count < 1 || call->item < 0 ||
      static_cast<unsigned>(call->result) >= static_cast<unsigned>(Wrap::PyComplex))
    return nullptr;
  if (PyObject* first = field(record, "first"); first != Py_None) {
    call->first = library_call_at(PyLong_AsLongLong(first));
    if (!call->first || call->item >= call->first->count) return nullptr;
    return call;
  }
  if (!PyTuple_Check(field(record, "args")) || !PyDict_Check(field(record, "keywords")) ||
      !is_listed(field(record, "callable")))
    return nullptr;
  call->callable = Ref<>::share(field(record, "callable"));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(field(record, "args")); ++i)
    if (!read_piece(PyTuple_GET_ITEM(field(record, "args"), i), call->args.emplace_back())) return nullptr;
  PyObject *name, *piece;
  for (Py_ssize_t at = 0; PyDict_Next(field(record, "keywords"), &at, &name, &piece);) {
    if (!PyUnicode_Check(name)) return nullptr;
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    call->keywords.emplace_back(Ref<>::steal(name), Piece{});
    if (!read_piece(piece, call->keywords.back().second)) return nullptr;
  }
  if (is_left_alone(*call)) return nullptr;
  prepare(*call);
  PyObject* sequence = field(record, "sequence");
  if (sequence == Py_None) return call->count == 1 ? std::move(call) : nullptr;
  if (!PyType_Check(sequence)) return nullptr;
  call->sequence = reinterpret_cast<PyTypeObject*>(Py_NewRef(sequence));
  return call;
}

}  // namespace

Ref<> library_call_record(int64_t index) {
  const LibraryCall* found = library_call_at(index);
  if (!found) {
    PyErr_SetString(PyExc_ValueError, "a custom operator");
    return {};
  }
  const LibraryCall& call = *found;
  Ref<> args = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(call.args.size()))),
        keywords = Ref<>::steal(PyDict_New());
  for (std::size_t i = 0; args && i < call.args.size(); ++i) {
    Ref<> piece = piece_record(call.args[i]);
    if (!piece) return {};
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), piece.release());
  }
  for (const auto& [name, piece] : call.keywords) {
    Ref<> one = piece_record(piece);
    if (!one || !keywords || PyDict_SetItem(keywords.get(), name.get(), one.get()) < 0) return {};
  }
  int64_t first = graph::kFirstRaisingLibraryCall;
  while (call.first && library_call_at(first) != call.first) ++first;
  Ref<> number = call.first ? Ref<>::steal(PyLong_FromLongLong(first)) : Ref<>::share(Py_None);
  if (!args || !keywords || !number) return {};
  auto or_none = [](PyObject* object) { return object ? object : Py_None; };
  return Ref<>::steal(Py_BuildValue(
      "{s:O,s:O,s:O,s:i,s:O,s:O,s:n,s:O,s:n}", "callable", or_none(call.callable.get()), "args", args.get(), "keywords",
      keywords.get(), "result", static_cast<int>(call.result), "through_view", call.through_view ? Py_True : Py_False,
      "sequence", or_none(reinterpret_cast<PyObject*>(call.sequence)), "count", call.count, "first", number.get(),
      "item", call.item));
}

bool library_call_fits(int64_t index, const std::vector<graph::Type>& operands, const graph::Type& result) {
  const LibraryCall* found = library_call_at(index);
  if (!found) return false;
  const LibraryCall& call = *found;
  auto fits = [](Wrap wrap, const graph::Type& type) {
    const DType number = wrap == Wrap::PyFloat ? DType::F64 : wrap == Wrap::PyInt ? DType::I64 : DType::Bool;
    return wrap == Wrap::NdArray || (type.rank() == 0 && (wrap == Wrap::NumpyScalar || type.dtype == number));
  };
  if (!fits(call.result, result)) return false;
  if (call.first) return operands.size() == 1;
  const std::vector<Wrap> wraps = wraps_of(call);
  return std::equal(wraps.begin(), wraps.end(), operands.begin(), operands.end(), fits);
}

std::optional<int64_t> library_call_from_record(PyObject* record) {
  std::unique_ptr<LibraryCall> call = read_call(record);
  if (call) return library_call_number(std::move(call));
  PyErr_SetString(PyExc_ValueError, "a call that cannot be made");
  return std::nullopt;
}

}  // namespace framejit::ext::library_calls
