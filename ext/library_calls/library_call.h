// Library calls as data, and their runs; capture makes them (library_call_capture.h).
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "capture/guard.h"
#include "codegen/kernel.h"
#include "ext/arrays/numpy_api.h"
#include "graph/op.h"

namespace framejit::ext::library_calls {

/// An argument: an object, the operand of a number, or a tuple, list or slice of arguments.
struct Piece {
  enum Kind : uint8_t { Known, Slot, Tuple, List, Slice } kind = Known;
  capture::Ref<> object;
  std::size_t slot = 0;
  capture::Wrap wrap = capture::Wrap::NdArray;
  std::vector<Piece> items;
};

struct LibraryCall;
using RunLibraryCall = decltype(codegen::LibraryFunction::function);

/// Elements of an array in which a loop of ours finds extremes. NumPy's vectors are faster on longer ones, and its call
/// costs more than shorter ones.
inline constexpr int64_t kMostFound = 400;

/// A library call that a loop of ours does.
struct NativeCall {
  LibraryCall* call;
  RunLibraryCall otherwise;
  enum Kind : uint8_t { Gather, Scan, Find, Histogram, Tridiagonal, Cholesky, Triangle, Solve } kind = Gather;
  std::size_t array = 0;  // the operand
  // Operands: of a gather the indices, of a histogram the weights, if there are any, of systems all.
  std::vector<std::size_t> indices;
  std::optional<int64_t> axis = 0;  // of a gather: how many axes stand before the indexed ones; none: over all elements
  graph::Op op = graph::Op::Add;    // of a scan or a search
  int64_t bins = 10;                // of a histogram
  std::optional<std::pair<double, double>> range;  // that the call gives
  int64_t diagonal = 0;                            // of a triangle: which one bounds it
  bool is_upper = false;
  bool given_up = false;  // a system of three diagonals was not one that our loop solves
};

struct LibraryCall {
  capture::Ref<> callable;
  std::vector<Piece> args;
  std::vector<std::pair<capture::Ref<>, Piece>> keywords;
  capture::Ref<> names;              // of the keywords, a tuple; null: there are none
  std::vector<capture::Wrap> wraps;  // of the slots
  int64_t nanoseconds = 0;           // of a call of few elements, at capture
  // A function of LAPACK copies some arguments and computes in the copies. These are the operands in which it may
  // compute instead, and the names of the call's keywords, followed by those of the flags that allow it.
  std::vector<std::size_t> computed_in;
  capture::Ref<> names_with_flags;
  bool quiet = false;       // neither sets a flag nor warns, and never writes to an operand
  bool only_flags = false;  // it warns of nothing but floating-point flags
  bool draws = false;       // from a generator, its first operand; see Draws
  capture::Wrap result = capture::Wrap::NdArray;
  bool through_view = false;  // what is given is a view of the whole of the fresh array
  std::vector<std::size_t>
      view;  // and a transposition of it, where that is known: the axes of the fresh array in the view's order
  // Of a function that gives several things: the first of them. The others have nodes of their own, whose one operand
  // is the memory of this one's result.
  PyTypeObject* sequence = nullptr;  // that they come in; lives for ever
  Py_ssize_t count = 1;
  const LibraryCall* first = nullptr;  // of another one of the things
  Py_ssize_t item = 0;
  std::unique_ptr<NativeCall> native;  // see native_function
};

/// Gathers, scans, places of extremes, histograms and triangles, such as x[i], np.take(x, i, axis), np.cumsum(x),
/// np.argmax(x), np.histogram(x, 20) and np.triu(x), and functions of LAPACK, as loops of ours. `otherwise` is what
/// runs the call with the library, where the loops do not do it. Empty where it is none of these.
codegen::LibraryFunction native_function(LibraryCall& call, RunLibraryCall otherwise, bool o1);
/// Is that so of the function?
inline bool is_of_o1(const NativeCall& native) { return native.kind == NativeCall::Solve; }

/// The call that plans know under this number; null: there is none.
LibraryCall* library_call_at(int64_t index);
/// The same function, of arguments that differ in no more than what the operands are?
bool same_arguments(const LibraryCall& a, const LibraryCall& b);
/// The number under which plans know the call.
int64_t library_call_number(std::unique_ptr<LibraryCall> call);

/// Finds out what each run of the call would find out again.
void prepare(LibraryCall& call);
/// Calls the function, with an object for each operand; null with an exception set where it raises. `flags`: what the
/// flags are set to that let it compute in operands, in the order of `LibraryCall::computed_in`; empty: they are not
/// given.
capture::Ref<> invoke(const LibraryCall& call, const std::vector<capture::Ref<>>& operands,
                      const std::vector<bool>& flags = {});
/// The wraps of the slots, in their order.
std::vector<capture::Wrap> wraps_of(const LibraryCall& call);

/// An item of what a call gives, borrowed.
inline PyObject* item_of(PyObject* items, Py_ssize_t i) {
  return PyList_CheckExact(items) ? PyList_GET_ITEM(items, i) : PyTuple_GET_ITEM(items, i);
}

/// Keeps what a call gives besides its first thing, for the nodes that ask for it: `left` of them, by the memory of the
/// first thing.
void keep_items(const char* memory, capture::Ref<> items, Py_ssize_t left);

/// The fresh array that `array` shows the whole of, in another order of its axes; null: it is none of these.
PyArrayObject* shown_whole(PyArrayObject* array);
/// What a function raises of itself the bytecode will raise; what a signal handler raised in between is raised once we
/// are out of here.
void clear_error();
/// Objects that are the same at each call, and that no function changes.
bool is_immutable(PyObject* o);

/// By the index of the library call; empty where the index is none of these.
codegen::LibraryFunction library_function(int64_t index, bool o1);

/// The arguments of such a call as Python has them, with an object for each operand.
struct LibraryCallArguments {
  capture::Ref<> callable, args, keywords;  // a tuple, a dict
};
/// What the operands are: NdArray, NumpyScalar ...; nothing where the index is none of these.
std::optional<std::vector<capture::Wrap>> library_call_operands(int64_t index);
/// Null members with an exception set where memory ran out.
LibraryCallArguments library_call_arguments(int64_t index, const std::vector<capture::Ref<>>& operands);

}  // namespace framejit::ext::library_calls
