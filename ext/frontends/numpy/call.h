// Private to the NumPy frontend: calls with their arguments, and the tables of functions and methods.
#pragma once

#include "ext/frontends/numpy/ops.h"

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace framejit::ext::frontends {

struct Call {
  Session& session;
  std::span<Value* const> args;
  std::span<const capture::Keyword> keywords;
  Op op = Op::Param;                // of the row
  DType dtype = graph::DType::F64;  // of a scalar type
  PyObject* callable = nullptr;     // borrowed
};

using Handler = Captured<Value*> (*)(const Call&);

/// One function of the numpy module, or of another one, or method of ndarray (which gets the array as first argument).
struct FunctionRow {
  const char* name;
  Handler handler;
  Op op = Op::Param;
  bool library =
      false;  // what the handler does not compile is a library call: the function is one that could be listed
  const char* home = "numpy";
};

std::span<const FunctionRow> elementwise_functions();
std::span<const FunctionRow> elementwise_methods();
std::span<const FunctionRow> reduction_functions();
std::span<const FunctionRow> reduction_methods();
std::span<const FunctionRow> creation_functions();
std::span<const FunctionRow> creation_methods();
std::span<const FunctionRow> shape_functions();
std::span<const FunctionRow> shape_methods();
std::span<const FunctionRow> product_functions();
std::span<const FunctionRow> product_methods();

/// A ufunc, called; np.float32(x) and the like.
Captured<Value*> call_ufunc(const Call& call);
Captured<Value*> call_scalar_type(const Call& call);
/// np.add.reduce and the like; `callable` is the ufunc.
Captured<Value*> ufunc_reduce(const Call& call);
/// Functions that say how floating-point flags are handled, and NumPy's object that holds the handling.
bool is_of_errors(PyObject* callable);
bool is_error_state(PyObject* object);
Captured<Value*> call_of_errors(const Call& call);
Captured<Value*> array_attribute(Session& session, Value* array, std::string_view name);
bool is_array_attribute(std::string_view name);

/// The arguments in the order of the signature; null where none was given. Breaks where they do not fit it.
Captured<std::vector<Value*>> bind(const Call& call, std::initializer_list<std::string_view> names,
                                   std::size_t required);
inline bool is_no_value(const Value* value) {
  return value->is_constant() && value->object.get() == arrays::no_value();
}
inline bool absent(const Value* value) { return !value || value->is_none() || is_no_value(value); }
/// Breaks unless all of these arguments are absent or None.
Captured<bool> none_given(std::initializer_list<Value*> values);

/// An argument that must be an ndarray that is in the graph (or an input that can be).
Captured<Value*> array_argument(Session& session, Value* value);
/// An array that there is, to be written.
Captured<Value*> output_argument(Session& session, Value* value);
Captured<std::optional<DType>> dtype_argument(Value* value);
/// An exact bool; `otherwise` where it is absent.
Captured<bool> flag_argument(Value* value, bool otherwise);
/// order= of a call: one of `known`.
Captured<char> order_argument(Value* value, char otherwise, std::string_view known);
/// An int that is specialised.
Captured<int64_t> int_argument(Session& session, Value* value);
/// An int or a sequence of ints.
Captured<graph::Dims> dims_argument(Session& session, Value* value);
/// One axis, normalised; WouldRaise where it is out of range.
Captured<int> axis_argument(Session& session, Value* value, int rank);
/// One axis or a tuple of them, sorted; all where absent.
Captured<std::vector<int64_t>> axes_argument(Session& session, Value* value, int rank);

/// The real parts of complex numbers (which: 0), or the imaginary ones: a view of an array.
Value* complex_part(Session& session, Value* x, int64_t which);

inline Value* fresh_array(Session& session, ValueId id) { return session.values().array(id, Wrap::NdArray); }

}  // namespace framejit::ext::frontends
