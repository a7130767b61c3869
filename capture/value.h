// Value: what is known of an object during symbolic execution.
//
//        Constant      the very object is known (under guard), e.g. a function, a module, None, a specialised int
//        Array         a graph value with a wrap: what type of object it stands for
//        Number        a Python int or float that is a run-time input: a Dim, or a 0-d graph value
//        Tuple, List,  containers whose items are Values; new ones, or existing ones under guard (then `source` is
//        Dict, Slice   set)
//        others        see ValueKind
//
// Knowledge only narrows. Values live in the Session's arena. Containers and objects that change are changed through
// Session::record, so that a transaction can take it back.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/guard.h"
#include "capture/py/ref.h"
#include "capture/source.h"
#include "graph/graph.h"

namespace framejit::capture {

enum Iterated : int {
  kOverSequence,
  kOverRange,
  kEnumerate,
  kZip,
  kReversed,
  kOverKeys,
  kOverValues,
  kOverItems,
  kMap,
  kGenerator,
  kOverSet
};

enum class ValueKind : uint8_t {
  Null,      // what PUSH_NULL pushes
  Lazy,      // an existing object that nothing was asked of yet: no guard. Never handed to a frontend
  Constant,  // object
  Array,     // id, wrap (NdArray, NumpyScalar, Tensor); also PyFloat/PyBool/PyInt computed from arrays
  Int,       // exact Python int: dim (a symbol or polynomial; a known int is a Constant)
  Tuple,
  List,         // items
  Set,          // a set of plain objects, or an existing frozenset: see sets.cpp
  Dict,         // items[2k], items[2k+1]: keys (hashable Constants) and values in order
  Slice,        // items: start, stop, step
  Range,        // items: start, stop, step
  Iterator,     // over items (`position`), a range, enumerate or zip: see `iterated`
  Function,     // made by MAKE_FUNCTION during capture
  BoundMethod,  // items: self, function
  Cell,         // items[0]: contents or null
  Text,         // a str of what is known at run time only: object(*items), called where the region ends
  Object,       // an existing object under a type guard; attributes are read through it. Without a source: an instance
                // made during capture, `object` is its class and `attributes` all that it holds; of a class that
                // derives from tuple: items
};

/// Finds the keys of a Dict among its items without a search.
struct Value;

struct KeyIndex {
  Ref<> places;  // a dict: key -> the number of its pair, or of a later one where pairs before it were deleted
  std::size_t covered = 0;  // so many pairs are in it
  bool all_plain = false;   // of an existing dict: no lookup in it runs code
};

/// Names and what they are bound to, in the order of their first appearance. Null: unbound.
class Attributes {
 public:
  using Item = std::pair<std::string, Value*>;

  Item* find(const std::string& name) { return const_cast<Item*>(std::as_const(*this).find(name)); }
  const Item* find(const std::string& name) const {
    if (items_.size() <= kFew) {
      const auto at = std::find_if(items_.begin(), items_.end(), [&](const Item& each) { return each.first == name; });
      return at == items_.end() ? nullptr : &*at;
    }
    if (!index_) {
      index_ = std::make_unique<std::unordered_map<std::string, std::size_t>>();
      for (std::size_t i = 0; i < items_.size(); ++i) index_->emplace(items_[i].first, i);
    }
    const auto at = index_->find(name);
    return at == index_->end() ? nullptr : &items_[at->second];
  }
  void append(std::string name, Value* value) {
    if (index_) index_->emplace(name, items_.size());
    items_.emplace_back(std::move(name), value);
  }
  void drop_last() {
    if (index_) index_->erase(items_.back().first);
    items_.pop_back();
  }
  void erase(std::size_t at) {
    index_.reset();
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void insert(std::size_t at, Item item) {
    index_.reset();
    items_.insert(items_.begin() + static_cast<std::ptrdiff_t>(at), std::move(item));
  }
  std::size_t place_of(const Item* item) const { return static_cast<std::size_t>(item - items_.data()); }
  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  static constexpr std::size_t kFew = 8;
  std::vector<Item> items_;
  mutable std::unique_ptr<std::unordered_map<std::string, std::size_t>> index_;  // made when there are many
};

struct Value {
  ValueKind kind = ValueKind::Constant;
  SourceRef source;  // set: the object exists outside and can be fetched again
  Ref<> object;      // Constant: the object. With a source: the object seen at capture
  graph::ValueId id = graph::kNoValue;
  Wrap wrap = Wrap::NdArray;
  graph::Dim dim;  // Int; Iterator over a Dict: its `position` at the start
  std::vector<Value*> items;
  std::int64_t position = 0;  // Iterator; Dict: how many keys were deleted
  int iterated = 0;           // Iterator: an Iterated
  bool partial = false;  // an existing Dict whose items are only the pairs that were looked at; an Array that is a view
                         // of one of several, which one is known at run time; Null: a variable of which nothing is
                         // known, or, with `which`, that is items[which]
  bool changed = false;  // an existing List or Dict with a store in the log: iterators over it cannot be made again
  bool transient = false;  // no region ends while it lives
  graph::ValueId which =
      graph::kNoValue;     // Array that a branch chose: 0-d i64; 0: the object is new; k: it is items[k - 1]
  bool never_new = false;  // with `which`: it is never 0
  uint32_t number = 0;     // Values are numbered as they are made
  bool weak = false;       // Array with wrap PyFloat/PyInt/PyBool: promotes as a Python number
  Ref<> extra;             // Function: code object and the like; owned by the handlers
  Attributes attributes;   // Function, Object: tracked attributes
  std::unique_ptr<KeyIndex> key_index;  // Dict: made when there are many keys

  bool is_constant() const { return kind == ValueKind::Constant; }
  bool is_none() const { return is_constant() && object.get() == Py_None; }
  bool is_array() const { return kind == ValueKind::Array; }
  bool is_made() const { return kind == ValueKind::Object && !source; }
  /// Takes the last pair of a Dict away.
  void drop_last_pair() {
    items.resize(items.size() - 2);
    if (key_index) key_index->covered = std::min(key_index->covered, items.size() / 2);
  }
};

}  // namespace framejit::capture
