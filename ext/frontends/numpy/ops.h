// Elementwise operations of the NumPy frontend: operands, their conversion to the dtypes of NumPy's loop, and the graph
// nodes that do what the loop does.
#pragma once

#include "ext/arrays/promotion.h"

#include <span>
#include <string>

#include "capture/frontend.h"
#include "capture/session.h"
#include "capture/value.h"

namespace framejit::ext::frontends {

using capture::Break;
using capture::break_at;
using capture::BreakId;
using capture::Captured;
using capture::Ref;
using capture::Session;
using capture::Value;
using capture::ValueKind;
using capture::Wrap;
using graph::DType;
using graph::Op;
using graph::ValueId;

/// A value in a role that promotion knows: an array, a NumPy scalar, a Python number.
struct Operand {
  arrays::OperandType type;
  ValueId id = graph::kNoValue;  // what is computed at run time; else `type.value` or `dim` says it
  graph::Dim dim;                // a symbolic Python int
  bool symbolic = false;
  Value* value = nullptr;

  bool literal() const { return type.literal; }
  bool is_array() const { return value->is_array() && value->wrap() == Wrap::NdArray; }
};

/// np.array of a list or tuple.
Captured<Value*> array_of_items(Session& session, Value* sequence);

/// Breaks where the value is of a type that NumPy would treat in a way of its own (lists, foreign objects).
Captured<Operand> operand(Session& session, Value* value);

/// An exact ndarray or NumPy scalar as an input of the graph; UnsupportedArray for its kin.
Captured<Value*> wrap_object(Session& session, PyObject* object, capture::SourceRef source);
bool compilable(PyObject* object);

/// Makes a Python float that comes from outside a known one, under a guard; not where it was seen to vary.
bool specialize_number(Session& session, Operand& number, const char* reason);
/// The operand as elements of `to`, as NumPy converts the operands of a ufunc and what is assigned to an array.
Captured<ValueId> convert(Session& session, const Operand& operand, DType to);
/// astype: 'unsafe' casts. Breaks for those whose result depends on the position in memory.
Captured<ValueId> cast(Session& session, ValueId x, DType to);

/// Where an operand lies partly in the memory that is written, or that memory is reversed (or, for squares and absolute
/// values of complex numbers, has gaps), NumPy's loops may run on other paths than they do on fresh memory.
bool is_odd_place(Session& session, graph::Op op, ValueId out, std::span<Value* const> operands);

/// The value of an element, 0-d. A bool of memory whose byte is neither 0 nor 1 is 1 then, as NumPy's scalars are.
ValueId copy_element(Session& session, ValueId element);

/// Does the ufunc of `op` convert all operands to `dtype`, and return it, without being told so?
bool computes_in(Session& session, Op op, std::span<Value* const> values, DType dtype);

/// The ufunc of `op`, called. The result is a NumPy scalar if all operands are 0-d.
Captured<Value*> apply_ufunc(Session& session, Op op, std::span<Value* const> values);
/// The same for operands that were looked at already. With a mask: where it is false the result is anything, and sets
/// no flag.
Captured<Value*> apply_ufunc(Session& session, Op op, std::span<const Operand> operands,
                             ValueId mask = graph::kNoValue);
/// +x, and the ufuncs that give back integers as they are.
Captured<Value*> positive(Session& session, const Operand& x);
/// np.where: always an ndarray.
Captured<Value*> where(Session& session, Value* condition, Value* x, Value* y);
/// np.clip and ndarray.clip. Null or None bounds are absent.
Captured<Value*> clip(Session& session, Value* x, Value* low, Value* high);

// The operators.
Captured<Value*> binary_operator(Session& session, int nb, Value* left, Value* right);
Captured<Value*> unary_operator(Session& session, capture::Unary op, Value* operand);
Captured<Value*> compare_operator(Session& session, int py_op, Value* left, Value* right);
/// The operator @, np.matmul and np.dot (matmul.cpp).
Captured<Value*> matrix_product(Session& session, Value* left, Value* right);

/// The product of arrays of one integer dtype, truncated to it. order: as GraphBuilder::matmul.
Captured<ValueId> integer_product(Session& session, ValueId a, ValueId b, char order);

/// Stores an operand into an array (a view or a whole one): converts, broadcasts, writes. Breaks where NumPy would
/// refuse.
Captured<bool> store(Session& session, ValueId dst, Value* value);
/// Is it a tuple or a list of Python's? As an operand it is the array that NumPy makes of it.
bool is_sequence(const Value& value);
/// Stores the result of a ufunc into the array that it was told to write: cast under the 'same_kind' rule, broadcast to
/// it.
Captured<bool> store_result(Session& session, ValueId dst, ValueId result);
/// Stores elements of dst's dtype.
Captured<bool> write(Session& session, ValueId dst, ValueId value);

/// A BuildResult as a captured one: an operator that does not apply raises.
template <class T>
Captured<T> built(Expected<T, graph::ShapeError> result) {
  if (!result) return break_at(BreakId::WouldRaise, result.error().message);
  return *result;
}

/// A 0-d array gives a scalar, as the results of ufuncs, reductions and integer indices do.
inline Wrap scalar_wrap(const graph::Type& type) { return type.rank() == 0 ? Wrap::NumpyScalar : Wrap::NdArray; }

/// An array or NumPy scalar of this frontend.
inline bool is_owned(const Value& value) {
  return value.is_array() && (value.wrap() == Wrap::NdArray || value.wrap() == Wrap::NumpyScalar);
}

/// The array that a Tensor holds, as NumPy's functions take it; any other value as it is.
Value* array_of_tensor(Session& session, Value* value);

/// The type's name, for the words of a break.
std::string type_name(const Value& value);

}  // namespace framejit::ext::frontends
