// Promotion: see promotion.h.
#include "ext/arrays/promotion.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "capture/warnings.h"

namespace framejit::ext::arrays {

using capture::break_at;
using capture::BreakId;
using capture::Captured;
using capture::Ref;
using graph::DType;
using graph::Op;

namespace {

capture::Ref<> find_ufunc(std::string_view name) {
  std::size_t dot = name.rfind('.');
  Ref<> module;
  if (dot == std::string_view::npos) {
    // np.clip and np.where are functions; the ufunc behind np.clip lives in umath.
    module = Ref<>::share(umath_module());
  } else {
    Ref<> key = Ref<>::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(dot)));
    if (key) module = Ref<>::steal(PyImport_GetModule(key.get()));
    name.remove_prefix(dot + 1);
  }
  Ref<> found = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), std::string(name).c_str())) : Ref<>();
  capture::clear_error_of_call();
  return found && PyObject_TypeCheck(found.get(), &PyUFunc_Type) ? found : Ref<>();
}

}  // namespace

PyUFuncObject* ufunc_of(Op op) {
  static std::array<PyObject*, graph::kOpCount> table{};
  static std::array<bool, graph::kOpCount> looked{};
  const graph::OpDef& row = graph::def(op);
  if (row.cls != graph::OpClass::Elementwise || row.numpy.empty()) return nullptr;
  int at = static_cast<int>(op);
  if (!table[at] && !looked[at]) {
    table[at] = find_ufunc(row.numpy).release();
    looked[at] = row.numpy.find('.') == std::string_view::npos;  // scipy may be imported later
  }
  return reinterpret_cast<PyUFuncObject*>(table[at]);
}

namespace {

Ref<> as_object(PyArray_Descr* descr) { return Ref<>::share(reinterpret_cast<PyObject*>(descr)); }

Captured<DType> take_dtype(PyObject* descr) {
  if (PyArray_DescrCheck(descr))
    if (auto dtype = dtype_of(reinterpret_cast<PyArray_Descr*>(descr))) return *dtype;
  Ref<> text = Ref<>::steal(PyObject_Str(descr));
  const char* words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  std::string name = words ? words : "an unknown dtype";
  PyErr_Clear();
  return break_at(BreakId::UnsupportedArgument, "NumPy computes this in " + name);
}

/// The words of the exception that is set, which is cleared.
std::string exception_text() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Ref<> t = Ref<>::steal(type), v = Ref<>::steal(value), b = Ref<>::steal(traceback);
  Ref<> text = v ? Ref<>::steal(PyObject_Str(v.get())) : Ref<>();
  const char* words = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  std::string result = words ? words : "";
  PyErr_Clear();
  return result;
}

// NumPy 2: dtypes decide.

Ref<> weak_or_descr(const OperandType& operand, bool any_strong) {
  if (!operand.literal || !any_strong) return as_object(descr_of(operand.dtype));
  PyTypeObject* type = graph::is_complex(operand.dtype) ? &PyComplex_Type
                       : graph::is_float(operand.dtype) ? &PyFloat_Type
                                                        : &PyLong_Type;
  return Ref<>::share(reinterpret_cast<PyObject*>(type));
}

bool has_strong(std::span<const OperandType> operands) {
  for (const OperandType& operand : operands)
    if (!operand.literal) return true;
  return false;
}

bool all_of_type(const char* types, std::size_t count, int type_num) {
  return std::all_of(types, types + count, [&](char type) { return type == type_num; });
}

/// ldexp, and functions of SciPy whose order may be an integer.
bool takes_integers_beside_floats(const PyUFuncObject* ufunc) {
  for (int loop = 0; loop < ufunc->ntypes; ++loop) {
    const char *types = ufunc->types + loop * ufunc->nargs, *end = types + ufunc->nin;
    if (std::any_of(types, end, [](char type) { return PyTypeNum_ISINTEGER(type); }) &&
        std::any_of(types, end, [](char type) { return PyTypeNum_ISFLOAT(type); }))
      return true;
  }
  return false;
}

/// The loop over float32 or float64 for operands of that dtype and Python's ints and floats. NumPy 2 takes it if there
/// is one, and need not be asked.
std::optional<LoopTypes> loop_of_equal_floats(const PyUFuncObject* ufunc, std::span<const OperandType> operands) {
  std::optional<DType> dtype;
  bool literals = false;
  for (const OperandType& operand : operands) {
    if (operand.literal) literals = true;
    else if (dtype && *dtype != operand.dtype) return std::nullopt;
    else dtype = operand.dtype;
    if (graph::is_complex(operand.dtype)) return std::nullopt;
  }
  if (dtype != DType::F32 && dtype != DType::F64) return std::nullopt;
  if (literals && takes_integers_beside_floats(ufunc)) return std::nullopt;
  for (int loop = 0; loop < ufunc->ntypes; ++loop) {
    const char* types = ufunc->types + loop * ufunc->nargs;
    if (!all_of_type(types, operands.size(), type_num_of(*dtype))) continue;
    const std::optional<DType> out = dtype_of_type_num(types[operands.size()]);
    if (!out) return std::nullopt;
    return LoopTypes{{*dtype, *dtype, *dtype}, *out};
  }
  return std::nullopt;
}

Captured<LoopTypes> loop_types_by_dtype(PyUFuncObject* ufunc, std::span<const OperandType> operands) {
  int count = static_cast<int>(operands.size());
  Ref<> dtypes = Ref<>::steal(PyTuple_New(count + 1));
  bool strong = has_strong(operands);
  for (int i = 0; i < count; ++i) PyTuple_SET_ITEM(dtypes.get(), i, weak_or_descr(operands[i], strong).release());
  PyTuple_SET_ITEM(dtypes.get(), count, Ref<>::share(Py_None).release());
  Ref<> resolved =
      Ref<>::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(ufunc), "resolve_dtypes", "(O)", dtypes.get()));
  if (!resolved) return break_at(BreakId::WouldRaise, exception_text());
  LoopTypes types;
  for (int i = 0; i < count; ++i) {
    FRAMEJIT_TRY(dtype, take_dtype(PyTuple_GET_ITEM(resolved.get(), i)));
    types.in[i] = dtype;
  }
  FRAMEJIT_TRY(out, take_dtype(PyTuple_GET_ITEM(resolved.get(), count)));
  types.out = out;
  return types;
}

// NumPy 1: a scalar among arrays counts as the smallest type of its kind that holds its value, unless its kind (bool,
// integer, float or complex) is above that of every array. The samples are one value for each such type; an answer that
// is the same for all of them does not depend on the value.

int kind_order(DType dtype) { return dtype == DType::Bool ? 0 : graph::is_int(dtype) ? 1 : 2; }

bool values_count(std::span<const OperandType> operands) {
  int arrays = -1, scalars = -1;
  for (const OperandType& operand : operands) {
    int& highest = operand.scalar ? scalars : arrays;
    highest = std::max(highest, kind_order(operand.dtype));
  }
  return arrays >= 0 && arrays >= scalars;
}

/// A Python int that NumPy 1 makes an uint64 or an object.
bool is_huge(const OperandType& operand) {
  if (!operand.literal || !operand.value || !PyLong_CheckExact(operand.value)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(operand.value, &overflow);
  return overflow != 0;
}

std::vector<Ref<>> samples(const OperandType& operand, bool value_based) {
  auto array = [&](PyObject* number) {
    Py_INCREF(descr_of(operand.dtype));
    return Ref<>::steal(PyArray_FromAny(number, descr_of(operand.dtype), 0, 0, NPY_ARRAY_FORCECAST, nullptr));
  };
  std::vector<Ref<>> result;
  if (!operand.scalar || !value_based) {
    npy_intp none = 0;
    result.push_back(Ref<>::steal(PyArray_SimpleNew(1, &none, type_num_of(operand.dtype))));
  } else if (operand.value) {
    result.push_back(operand.literal ? Ref<>::share(operand.value) : array(operand.value));
  } else if (graph::is_float(operand.dtype) || graph::is_complex(operand.dtype)) {
    for (double value : {1.0, 1e10, 1e300}) {
      if ((graph::size_of(graph::part_of(operand.dtype)) == 4 && value > 1e30) ||
          (operand.dtype == DType::F16 && value > 1))
        continue;
      Ref<> number = Ref<>::steal(PyFloat_FromDouble(value));
      result.push_back(array(number.get()));
    }
  } else if (graph::is_int(operand.dtype)) {
    int bits = 8 * graph::size_of(operand.dtype) - (graph::is_signed_int(operand.dtype) ? 1 : 0);
    for (int width : {0, 7, 8, 15, 16, 31, 32, 63}) {
      if (width >= bits) break;
      Ref<> number = Ref<>::steal(PyLong_FromUnsignedLongLong(1ULL << width));
      result.push_back(array(number.get()));
      if (!graph::is_signed_int(operand.dtype)) continue;
      number = Ref<>::steal(PyLong_FromLongLong(-(1LL << width) - 1));
      result.push_back(array(number.get()));
    }
  } else {
    result.push_back(array(Py_False));
  }
  return result;
}

using Ask = std::function<Captured<LoopTypes>(const std::vector<PyObject*>&)>;

bool equal(const LoopTypes& a, const LoopTypes& b) { return a.in == b.in && a.out == b.out; }

Captured<LoopTypes> ask_by_value(std::span<const OperandType> operands, const Ask& ask) {
  bool by_value = values_count(operands);
  std::vector<std::vector<Ref<>>> choices;
  for (const OperandType& operand : operands) {
    if (is_huge(operand)) return break_at(BreakId::ScalarOverflow, "a Python int beyond int64");
    choices.push_back(samples(operand, by_value));
  }
  std::optional<LoopTypes> answer;
  std::vector<std::size_t> at(operands.size(), 0);
  while (true) {
    std::vector<PyObject*> chosen;
    for (std::size_t i = 0; i < at.size(); ++i) chosen.push_back(choices[i][at[i]].get());
    for (PyObject* sample : chosen)
      if (!sample) return break_at(BreakId::UnsupportedArgument, exception_text());
    FRAMEJIT_TRY(types, ask(chosen));
    if (answer && !equal(*answer, types))
      return break_at(BreakId::UnsupportedArgument, "this NumPy promotes by the value of a scalar");
    answer = types;
    std::size_t i = 0;
    while (i < at.size() && ++at[i] == choices[i].size()) at[i++] = 0;
    if (i == at.size()) return *answer;
  }
}

bool can_cast(PyObject* sample, int type_num, bool by_value) {
  Ref<> array = PyArray_Check(sample) ? Ref<>::share(sample) : Ref<>::steal(PyArray_FROM_O(sample));
  if (!array) return false;
  Ref<> to = Ref<>::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type_num)));
  auto* from = reinterpret_cast<PyArrayObject*>(array.get());
  auto* descr = reinterpret_cast<PyArray_Descr*>(to.get());
  return by_value ? PyArray_CanCastArrayTo(from, descr, NPY_SAFE_CASTING)
                  : PyArray_CanCastTypeTo(PyArray_DESCR(from), descr, NPY_SAFE_CASTING);
}

bool is_nd_array(PyObject* sample) {
  return PyArray_Check(sample) && PyArray_NDIM(reinterpret_cast<PyArrayObject*>(sample)) > 0;
}

/// The types of the first loop whose operand types all satisfy `fits(operand, type_num)`, or null.
template <class Fits>
const char* find_loop(PyUFuncObject* ufunc, const std::vector<PyObject*>& operands, Fits fits) {
  for (int loop = 0; loop < ufunc->ntypes; ++loop) {
    const char* types = ufunc->types + loop * ufunc->nargs;
    bool all = true;
    for (int i = 0; i < ufunc->nin && all; ++i) all = fits(operands[i], types[i]);
    if (all) return types;
  }
  return nullptr;
}

/// The loop of NumPy 1: the one of exactly these dtypes, unless scalars count by value, else the first one that every
/// operand casts to safely. SciPy's ufuncs have float64 before float32, so the first need not be the exact one.
Captured<LoopTypes> search_loop(PyUFuncObject* ufunc, const std::vector<PyObject*>& operands, bool by_value,
                                DType result) {
  auto is_exact = [](PyObject* operand, int type_num) {
    return is_nd_array(operand) && PyArray_TYPE(reinterpret_cast<PyArrayObject*>(operand)) == type_num;
  };
  auto casts = [&](PyObject* operand, int type_num) { return can_cast(operand, type_num, by_value); };
  const char* types = find_loop(ufunc, operands, is_exact);
  if (!types) types = find_loop(ufunc, operands, casts);
  if (!types || types[ufunc->nin] != type_num_of(result))
    return break_at(BreakId::UnsupportedArgument, "the loop that NumPy runs is not known");
  LoopTypes found;
  found.out = result;
  for (int i = 0; i < ufunc->nin; ++i) {
    std::optional<DType> dtype = dtype_of_type_num(types[i]);
    if (!dtype) return break_at(BreakId::UnsupportedArgument, "NumPy computes this in another dtype");
    found.in[i] = *dtype;
  }
  return found;
}

Captured<LoopTypes> loop_types_by_value(PyUFuncObject* ufunc, std::span<const OperandType> operands) {
  bool by_value = values_count(operands), integers = true;
  for (const OperandType& operand : operands) integers = integers && kind_order(operand.dtype) < 2;
  return ask_by_value(operands, [&](const std::vector<PyObject*>& chosen) -> Captured<LoopTypes> {
    Ref<> result =
        Ref<>::steal(PyObject_Vectorcall(reinterpret_cast<PyObject*>(ufunc), chosen.data(), chosen.size(), nullptr));
    if (!result) return break_at(BreakId::WouldRaise, exception_text());
    Ref<> descr;
    if (PyArray_Check(result.get())) descr = as_object(PyArray_DESCR(reinterpret_cast<PyArrayObject*>(result.get())));
    else if (PyArray_IsScalar(result.get(), Generic))  // a product of two vectors
      descr = Ref<>::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromScalar(result.get())));
    if (!descr) return break_at(BreakId::UnsupportedArgument, "a function whose result is not an array");
    FRAMEJIT_TRY(out, take_dtype(descr.get()));
    // The one resolver that does not search: integers divide as doubles.
    if (ufunc == ufunc_of(Op::Divide) && integers) return LoopTypes{{DType::F64, DType::F64, DType::F64}, DType::F64};
    return search_loop(ufunc, chosen, by_value, out);
  });
}

/// Later versions of NumPy 1 compare int64 with uint64 by loops of their own, which the search does not see.
bool mixes_signs(std::span<const OperandType> operands) {
  bool is_signed = false, is_unsigned = false;
  for (const OperandType& operand : operands) {
    is_signed = is_signed || graph::is_signed_int(operand.dtype);
    is_unsigned = is_unsigned || operand.dtype == DType::U64;
  }
  return is_signed && is_unsigned;
}

/// Answers by dtype do not change: they are kept.
std::string key_of(PyUFuncObject* ufunc, std::span<const OperandType> operands) {
  std::string key(reinterpret_cast<const char*>(&ufunc), sizeof ufunc);
  for (const OperandType& operand : operands) {
    key.push_back(static_cast<char>(operand.dtype));
    key.push_back(operand.literal ? 'w' : 's');
  }
  return key;
}

}  // namespace

Captured<LoopTypes> loop_types(PyUFuncObject* ufunc, std::span<const OperandType> operands) {
  if (!ufunc || ufunc->nin != static_cast<int>(operands.size()) || ufunc->nout != 1)
    return break_at(BreakId::UnsupportedArgument, "another number of operands");
  bool by_dtype = numpy_version().major >= 2;
  static std::map<std::string, LoopTypes> known;
  std::string key;
  if (by_dtype) {
    if (const std::optional<LoopTypes> found = loop_of_equal_floats(ufunc, operands)) return *found;
    key = key_of(ufunc, operands);
    auto found = known.find(key);
    if (found != known.end()) return found->second;
  }
  FRAMEJIT_TRY(types, by_dtype ? loop_types_by_dtype(ufunc, operands) : loop_types_by_value(ufunc, operands));
  for (std::size_t i = 1; i < operands.size(); ++i)
    if (types.in[i] != types.in[0]) return break_at(BreakId::UnsupportedArgument, "a loop over mixed dtypes");
  if (!by_dtype && types.out == DType::Bool && graph::is_float(types.in[0]) && mixes_signs(operands))
    return break_at(BreakId::UnsupportedArgument, "comparison of int64 with uint64");
  if (by_dtype) known.emplace(std::move(key), types);
  return types;
}

Captured<DType> result_type(std::span<const OperandType> operands) {
  static PyObject* function = PyObject_GetAttrString(numpy_module(), "result_type");
  auto ask = [&](const std::vector<PyObject*>& chosen) -> Captured<LoopTypes> {
    Ref<> result = Ref<>::steal(PyObject_Vectorcall(function, chosen.data(), chosen.size(), nullptr));
    if (!result) return break_at(BreakId::WouldRaise, exception_text());
    FRAMEJIT_TRY(out, take_dtype(result.get()));
    return LoopTypes{{}, out};
  };
  if (numpy_version().major < 2) {
    FRAMEJIT_TRY(types, ask_by_value(operands, ask));
    return types.out;
  }
  // A Python number counts by its type alone: any value stands for all.
  Ref<> one = Ref<>::steal(PyLong_FromLong(1)), real = Ref<>::steal(PyFloat_FromDouble(1)),
        pair = Ref<>::steal(PyComplex_FromDoubles(1, 1));
  std::vector<PyObject*> chosen;
  bool strong = has_strong(operands);
  for (const OperandType& operand : operands) {
    if (operand.literal && strong)
      chosen.push_back(graph::is_complex(operand.dtype) ? pair.get()
                       : graph::is_float(operand.dtype) ? real.get()
                                                        : one.get());
    else chosen.push_back(reinterpret_cast<PyObject*>(descr_of(operand.dtype)));
  }
  FRAMEJIT_TRY(types, ask(chosen));
  return types.out;
}

}  // namespace framejit::ext::arrays
