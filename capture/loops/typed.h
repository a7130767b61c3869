// Typed: what is known of a variable in a compiled loop, and its SSA values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "capture/value.h"
#include "graph/cfg/cfg.h"

namespace framejit::capture {

/// The static type of a variable or a stack entry, and its SSA values.
struct Typed {
  enum class Kind : uint8_t {
    Unbound,
    Null,
    Object,
    Int,
    Bool,
    Float,
    Scalar,
    Complex,
    ComplexScalar,
    View,
    Vector,
    Range,
    RangeIterator,
    Tuple,
    Slice,
    Display,
    List,
    Iterator,
    Joint,
    Dead,
    Either,
    Function,
    Generator,
    Cell,
    String,
    Character
  };
  static constexpr int kImagined = 1 << 20;         // `slot` of an array that is known by its type only
  static constexpr int kTemporary = kImagined + 1;  // and of one that the loop has made
  Kind kind = Kind::Unbound;
  Value* value =
      nullptr;  // Object, String: what it is. Function: an existing one, or the code of one that the loop makes
  PyObject* constant = nullptr;  // Tuple: the constant of the code that it is, within the block that loads it
  int slot = -1;                 // Object: the local that holds it since the entry. RangeIterator: place on the
                  // stack of the entry, of one that was there. Cell: the local of the frame that has it, or
                  // -1 for the variable itself
  graph::DType dtype{};  // Scalar, View. Either: float64 or int64; it is such a scalar of NumPy, or Python's number
  int64_t origin = 0;    // of what has an identity: equal for what is one object; 0: not known yet
  int64_t twin = 0;      // Dead: the origin of what may be the same object; if it is, the fourth of `ids` is 1
  bool seldom_negative = false;  // Int: where it is an index below 0, the interpreter does the round
  bool natural = false;          // Int, Scalar, RangeIterator: never below 0
  bool is_fixed = false;         // Int: a constant in this version
  uint32_t array = 0;   // View: place in LoopProgram::fetched, or number of the temporary. List: see VersionHints.
                        // String: how many bytes a character has, 0 if all are ASCII
  bool whole = false;   // View: not a part of an array
  bool turned = false;  // View: made by a slice that goes down
  bool packed = false;  // View: known to have its elements side by side, in C order
  std::vector<int64_t> seen;  // View, Vector: the lengths, or those of the array that it is a part of, at capture
  int op = 0;                 // Vector: as BINARY_OP has it, or a VectorKind. Iterator over a tuple: its next item
  std::vector<cfg::Id> ids;   // its values: see LoopObject. String: where its characters are, and how many. Tuple: its
                              // address, if a list holds it. Dead, Either: those of LoopObject::Kind::Tagged. List:
                              // its address; if it is unboxed, then where its numbers are, and how many, or
                              // where its header is
  std::vector<Typed> items;   // Tuple. Display: of a list that is being made. Slice: from, to and step. Iterator: what
                              // it goes over; none: it counts. Joint: iterators. Vector: operands. Function: the cells
                              // of its closure. Generator: its function, and what it goes over. Cell: what it holds
  int object = -1;            // iterators that were there at the entry: place in LoopProgram::fetched
  std::string holds;          // List: what its items are: f, i, b, or l and what the items of these are; "": not known

  bool is_number() const {
    return kind == Kind::Int || kind == Kind::Bool || kind == Kind::Float || kind == Kind::Scalar;
  }
  bool is_complex() const { return kind == Kind::Complex || kind == Kind::ComplexScalar; }
  bool is_single() const { return is_number() || is_complex(); }
  /// Made by the loop, or a number: variables that hold one of these must hold one object at an exit.
  bool has_identity() const {
    return is_single() || kind == Kind::Character || kind == Kind::Tuple || kind == Kind::View || kind == Kind::Range ||
           kind == Kind::Either;
  }
  /// A list whose numbers the loop keeps, instead of its objects.
  bool is_unboxed() const { return kind == Kind::List && ids.size() > 1; }
  /// An array, or what may be one.
  bool is_array() const;
  /// Over a tuple: each round has versions of its own, so the place needs no value.
  bool goes_over_tuple() const { return kind == Kind::Iterator && !items.empty() && items[0].kind == Kind::Tuple; }
  /// Only the stack holds it, and only until the instruction that it is for.
  bool is_passing() const { return kind == Kind::Function || kind == Kind::Generator || kind == Kind::Cell; }
  bool is_iterator() const { return kind == Kind::RangeIterator || kind == Kind::Iterator || kind == Kind::Joint; }
  /// Of an iterator: how many items are left; none: it is not known, or there is no end.
  cfg::Id left() const {
    if (kind == Kind::RangeIterator || (kind == Kind::Iterator && ids.size() > 1)) return ids[1];
    return kind == Kind::Joint && !ids.empty() ? ids[0] : cfg::kNone;
  }
  /// An existing float, such as np.inf.
  bool is_float_object() const;
  /// The NumPy type, float64 or int64, of an Either and of a number that may become one; nothing for other values.
  std::optional<graph::DType> wide_number() const {
    if (kind == Kind::Float || is_float_object()) return graph::DType::F64;
    if (kind == Kind::Int) return graph::DType::I64;
    const bool has_type = kind == Kind::Either || kind == Kind::Scalar;
    return has_type && (dtype == graph::DType::F64 || dtype == graph::DType::I64) ? std::optional(dtype) : std::nullopt;
  }
  /// An Either as the scalar of NumPy that it may be.
  Typed as_scalar() const;
  bool is_integer() const {
    return kind == Kind::Int || kind == Kind::Bool || (kind == Kind::Scalar && !graph::is_float(dtype));
  }
};

/// Binary operators, by the numbers that BINARY_OP has for them; those in place follow.
enum BinaryKind {
  kAdd,
  kAnd,
  kFloorDiv,
  kShl,
  kMatmul,
  kMul,
  kRemainder,
  kOr,
  kPower,
  kShr,
  kSub,
  kTrueDiv,
  kXor,
  kBinaryKinds
};
/// Other vectors, as Typed::op: the negative of an operand; the operand; one number in all places; a function of the
/// operands in front of it; the elements of the first operand at the indices that the second one holds; the operands.
enum VectorKind { kNegative = -1, kSame = -2, kFill = -3, kApply = -4, kGather = -5, kListed = -6 };

/// Calls f for what makes up the value, and for what makes up its items.
template <class F>
void for_each_part(Typed& v, F&& f) {
  f(v);
  for (Typed& i : v.items) for_each_part(i, f);
}

Typed of_int(cfg::Id id, bool natural = false);
Typed of_bool(cfg::Id id);
Typed of_float(cfg::Id id);
Typed of_scalar(cfg::Id id, graph::DType dtype);
Typed of_complex(cfg::Id real, cfg::Id imaginary, bool of_numpy);

}  // namespace framejit::capture
