// Frontend: a family of arrays (ndarray, Tensor) and the library functions over them. ext implements one each; capture
// knows arrays and their operations only through this.
//
// Every operation either adds graph nodes and gives the Value that eager execution would give (its wrap says the type:
// ndarray or NumPy scalar ...), or breaks with a reason and leaves no trace that Session::rollback would not remove.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "capture/break.h"
#include "capture/session.h"
#include "capture/value.h"

namespace framejit::capture {

using Keyword = std::pair<std::string_view, Value*>;
enum class Unary : uint8_t { Positive, Negative, Invert };

class Frontend {
 public:
  virtual ~Frontend() = default;
  virtual std::string_view name() const = 0;  // "numpy", "tensor"

  /// Is the object an array or scalar of this frontend that it can compile (exact type, supported dtype, native, ...)?
  /// `wrap` makes it an input; Break UnsupportedArray for kin that must stay in the interpreter (subclasses, object
  /// arrays).
  virtual bool owns(PyObject* object) const = 0;
  virtual Captured<Value*> wrap(Session&, PyObject* object, SourceRef source) = 0;
  /// Takes part in operators of this value: an Array with one of this frontend's wraps.
  virtual bool owns(const Value& value) const = 0;

  /// type(value), borrowed; null: not known.
  virtual PyObject* type_of(Session&, const Value&) const { return nullptr; }

  /// Is the callable one of this frontend's functions (np.add, np.where, an ndarray type method descriptor, a dtype
  /// class)?
  virtual bool knows(PyObject* callable) const = 0;
  /// Is it one of those that classes of the library have as methods?
  virtual bool is_method(PyObject*) const { return false; }
  virtual Captured<Value*> call(Session&, PyObject* callable, std::span<Value* const> args,
                                std::span<const Keyword> keywords) = 0;
  /// Is the code of such a function, in Python, or its polyfill followed, and call() asked only where that breaks?
  virtual bool is_followed(PyObject*) const { return false; }

  /// Is the object one of the library's that nothing changes and that compares without effects, but no array: a dtype?
  virtual bool is_fixed(PyObject*) const { return false; }
  /// An attribute of such an object, or of a callable of this frontend's, that is the same for ever; null: none.
  virtual Ref<> fixed_attr(PyObject*, std::string_view) const { return {}; }

  /// Is its text the same for ever: a dtype's?
  virtual bool has_text(PyObject*) const { return false; }

  /// The number that an operator makes of two known ones, of which one is the library's; null: it raises, warns or is
  /// none.
  virtual Ref<> fold(int /*nb*/, PyObject* /*left*/, PyObject* /*right*/) const { return {}; }

  /// At least one operand is this frontend's. `nb` is BINARY_OP's argument (NB_ADD ... NB_INPLACE_XOR).
  virtual Captured<Value*> binary(Session&, int nb, Value* left, Value* right) = 0;
  virtual Captured<Value*> unary(Session&, Unary op, Value* operand) = 0;
  virtual Captured<Value*> compare(Session&, int py_op, Value* left, Value* right) = 0;

  virtual Captured<Value*> get_attr(Session&, Value* array, std::string_view name) = 0;
  virtual Captured<Value*> call_method(Session&, Value* array, std::string_view name, std::span<Value* const> args,
                                       std::span<const Keyword> keywords) = 0;
  virtual Captured<Value*> get_item(Session&, Value* array, Value* key) = 0;
  virtual Captured<bool> set_item(Session&, Value* array, Value* key, Value* value) = 0;
  virtual Captured<Value*> length(Session&, Value* array) = 0;
};

}  // namespace framejit::capture
