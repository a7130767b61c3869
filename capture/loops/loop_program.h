// LoopProgram: a nest of loops over scalars and array elements as one control-flow graph, with what the interpreter
// needs where it is left.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/loops/list_numbers.h"
#include "capture/py/ref.h"
#include "capture/source.h"
#include "graph/cfg/cfg.h"
#include "graph/dtype.h"

namespace framejit::capture {

struct LoopFindings;
struct Recursion;

/// How an object that is live at an exit is made of the values that the exit lists. Indices of values are places in
/// cfg::Exit::values, indices of parts are places in LoopExit::objects.
struct LoopObject {
  enum class Kind : uint8_t {
    Null,      // NULL on the stack, or an unbound local
    Constant,  // object
    Fetch,     // what was there at the entry: object `index` of LoopProgram::fetched
    Int,       // a value
    Bool,
    Float,
    Scalar,         // of NumPy, of `dtype`
    Character,      // its code point
    Complex,        // real part, imaginary part
    ComplexScalar,  // of NumPy
    View,           // of array `index` of LoopProgram::fetched: address, then lengths, then strides
    Array,          // a new one of `dtype`, in C order, with these elements: address, then lengths
    Range,          // start, stop, step
    RangeIterator,  // next, how many are left, step
    Advanced,       // an iterator over a range, object `index` of LoopProgram::fetched: next, how many are left
    Tuple,          // parts
    Pointer,        // an object, by its address
    Iterator,       // over part 0: the next index
    Resumed,        // another iterator, object `index` of LoopProgram::fetched: the next index
    Enumerate,      // over part 1, from the value of part 0 on
    Zip,            // of its parts
    Parts,          // an enumerate or zip object, `index` of LoopProgram::fetched, with its parts advanced
    Tagged,  // one of LoopTag, then its value or address if it is no float, then its value if it is one. If it has
             // a part: it is that object if the next value is not 0
  } kind = Kind::Null;
  HeldRef object;
  uint32_t index = 0;
  graph::DType dtype = graph::DType::F64;
  uint32_t value = 0;  // the first of its values
  int rank = 0;
  std::vector<uint32_t> parts;
};

/// The run-time tag of a dead variable: the type of its value. For scalars of NumPy, the dtype is added to kScalar.
struct LoopTag {
  static constexpr int64_t kAsBefore = 0, kInt = 1, kBool = 2, kFloat = 3, kPointer = 4, kCharacter = 5, kScalar = 6;
};

struct LoopExit {
  uint32_t instr = 0;
  std::vector<LoopObject> objects;
  std::vector<std::pair<int, uint32_t>> locals;  // slots that change: an object
  std::vector<uint32_t> stack;                   // the whole stack, bottom first
  struct Attribute {
    uint32_t of;  // LoopProgram::fetched
    Ref<> name;
    uint32_t object;
  };
  std::vector<Attribute> attributes;  // that change
  int kept = 0;                       // so many entries at its bottom are those of the entry
  std::string why;                    // what the interpreter has to do there, if the loop never does it
  bool early = false;                 // the interpreter goes on in the loop
  bool wraps = false;                 // an index below 0 is left to the interpreter
  int line = 0;
  /// The frame returns at once, so its numbers and lists are no longer needed, except for this local; -1: except for
  /// what is on the stack, or a constant.
  static constexpr int kStays = -2;
  int returned = kStays;
};

/// A list of the entry whose numbers the loop has.
struct UnboxedList {
  uint32_t list;  // its place in LoopProgram::fetched
  ItemKind kind;
  bool grows;              // its length changes
  bool is_stored = false;  // its items are stored
};

/// Takes over the lists that loops have made since the last one was left, and what they have taken from lists.
/// Variables of the loop, which hold no references, may use them until this goes.
class MadeLists {
 public:
  MadeLists();
  /// Gives lists that are unboxed their objects, before another loop may run, unless only we and `going` hold them.
  /// False: no memory, an exception is set.
  bool box(std::span<PyObject* const> going) { return unboxed_.box(going); }
  /// Was there a list in the loop that could not be unboxed?
  bool has_failed() const { return unboxed_.has_failed(); }

 private:
  std::vector<Ref<>> lists_;
  UnboxedLists unboxed_;
};

struct LoopProgram {
  /// The graph's object `kScratch` is memory for vectors of float64. Its first part holds arrays that the loop makes.
  /// Each has room for two, so one can be computed while the one before is still needed. Its second part holds one
  /// result that will be stored in an array. The memory is aligned to the size of the first part.
  static constexpr int64_t kScratch = -1;
  /// The objects for `unboxed[k]`: where its numbers are, or its header, if it grows; how many items; how long rows
  /// are.
  static constexpr int64_t kOfUnboxed = 3;
  static constexpr int64_t numbers_of(std::size_t k) { return -2 - kOfUnboxed * static_cast<int64_t>(k); }
  static constexpr int64_t count_of(std::size_t k) { return numbers_of(k) - 1; }
  static constexpr int64_t width_of(std::size_t k) { return numbers_of(k) - 2; }
  static constexpr int64_t kTemporaries = 8, kTemporaryLength = 1 << 10, kResultLength = 1 << 14;
  static constexpr int64_t kResultAt = 2 * kTemporaries * kTemporaryLength;
  /// The word behind the memory for vectors: see `stores_at_once`.
  static constexpr int64_t kAtOnceAt = kResultAt + kResultLength, kScratchLength = kAtOnceAt + 1;

  cfg::Cfg cfg;
  std::vector<LoopExit> exits;       // of the same numbers as those of the graph
  std::vector<SourceRef> fetched;    // the objects that the graph's inputs and the exits name
  std::vector<HeldRef> held;         // objects whose addresses are constants of the graph
  std::vector<std::string> carried;  // for reports: the variables that change, with their types
  int line = 0, last_line = 0;
  bool has_scratch = false;
  /// Results are stored in arrays at once, if the word at kAtOnceAt is not 0. What is stored in part when the loop is
  /// left is computed again by the interpreter, so nobody may look at it before: no warning may raise or run code.
  bool stores_at_once = false;
  int grouped_products = 0;       // sites whose products may be done for several rounds at once
  bool has_long_vectors = false;  // for which several elements at once pay from the first run on
  std::shared_ptr<LoopFindings> findings;
  std::vector<UnboxedList> unboxed;      // lists of the entry that are unboxed
  std::vector<uint32_t> boxed;           // other lists of the entry that it reads or changes: places in `fetched`
  std::vector<uint32_t> written;         // arrays of the entry that it changes: places in `fetched`
  std::shared_ptr<Recursion> recursion;  // of a function that calls itself
};

}  // namespace framejit::capture
