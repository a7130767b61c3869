// The numbers of unboxed lists: a compiled loop keeps them in memory of its own, instead of the objects in the lists.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capture/py/ref.h"
#include "graph/cfg/cfg.h"

namespace framejit::capture {

/// The fields of an unboxed list that machine code reads and changes. Its address stays the same while the loop runs.
struct ListHeader {
  int64_t* numbers;  // `width` for each item: integers, truths, or the bits of floats
  int64_t count;     // of items
  int64_t capacity;  // in items: what the interpreter's list would have, which programs can measure
  int64_t room;      // in items: of `numbers`, at least the capacity
  int64_t kept;      // so many items at its beginning have never been taken away
  PyObject* list;
  int64_t width;  // numbers for each item; of a list of rows, how long each is
};

/// The type of the items: the letters of Typed::holds, the first one in the lowest byte. 0: no such list is unboxed.
using ItemKind = int64_t;
/// Floats, ints or bools, or tuples of a few of these, or lists of floats, ints or bools: rows.
ItemKind item_kind(const std::string& holds);
int width_of(ItemKind kind);
bool is_of_rows(ItemKind kind);
/// Are the items of a list lists of one length? Their numbers then lie one row after the other.
bool has_rows(PyObject* list);

/// Gives the loop that is about to run the numbers of a list, which it changes or only reads; null: it holds something
/// else, it or one of its rows is a row that the loop has already, or there is no memory.
ListHeader* unbox(PyObject* list, ItemKind kind, bool changes);
/// Has the loop the numbers of a list?
bool is_unboxed(PyObject* list);

/// For how many items list() and sorted() make room, as CPython's list_preallocate_exact() does.
int64_t room_of_iterable(int64_t count);
/// Gives a list room for so many items, no fewer than it has. False: no memory, an exception is set.
bool set_capacity(PyObject* list, int64_t capacity);

/// How many lists that the loop has made are unboxed, and what their numbers took at first.
struct UnboxedMemory {
  std::size_t lists = 0;
  int64_t bytes = 0;
};
UnboxedMemory memory_of_unboxed();

/// The lists of a loop that is left.
class UnboxedLists {
 public:
  UnboxedLists();
  /// Makes objects of the numbers of all lists that others than `going` hold. False: no memory, an exception is set.
  bool box(std::span<PyObject* const> going);
  bool has_failed() const { return has_failed_; }

 private:
  struct List {
    Ref<> list;
    ListHeader* header;
    ItemKind kind;
    bool changes = true, is_row = false;
  };
  friend struct ListMemory;
  static bool box(const List& list);

  std::vector<List> lists_;
  std::vector<std::unique_ptr<int64_t[]>> memory_;
  bool has_failed_;
};

// Updates of a graph. They give the header of a list, or 1.
extern const cfg::Function kUnboxMade;  // kind: of the list that the loop has made last
// count, kind, whether list() or sorted() makes it: a list whose objects are made only if somebody else holds it
extern const cfg::Function kNewNumbers;
extern const cfg::Function kGrowNumbers;    // header, new count: where it exceeds the capacity
extern const cfg::Function kShrinkNumbers;  // header, new count: where it is below half of the capacity
extern const cfg::Function kCopyNumbers;    // to, from, how many
extern const cfg::Function kFillNumbers;    // to, number, how many
extern const cfg::Function kCountUp;        // to, start, step: all numbers of the list that was made last

// Numbers, how many. The last six give 0 if there are none, or if the sum does not fit.
extern const cfg::Function kSortFloats, kSortInts;
extern const cfg::Function kSumOfFloats, kSumOfInts, kMostOfFloats, kMostOfInts, kLeastOfFloats, kLeastOfInts;
/// Where the last six leave their result.
const void* number_from_list();

}  // namespace framejit::capture
