// Value: what is known of an object during symbolic execution.
//
//        Constant      the very object is known (under guard), e.g. a function, a module, None, a specialised int
//        Array         a graph value with a wrap: what type of object it stands for
//        Number        a Python int or float that is a run-time input: a Dim, or a 0-d graph value
//        Tuple, List,  containers whose items are Values; new ones, or existing ones under guard (then `source` is
//        Dict, Slice   set)
//        others        see ValueKind
//
// Knowledge only narrows. Values live in the ValueArena of the Session. Containers and objects that change are changed
// with UndoLog::record, so that a transaction can take it back.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "capture/guard.h"
#include "capture/py/ref.h"
#include "capture/source.h"
#include "graph/graph.h"

namespace framejit::capture {

enum class Over : uint8_t { Sequence, Range, Enumerate, Zip, Reversed, Keys, Values, Items, Map, Generator, Set };

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
  Iterator,     // over items, a range, enumerate or zip: see Over
  Function,     // made by MAKE_FUNCTION during capture
  BoundMethod,  // items: self, function
  Cell,         // items[0]: contents or null
  Text,         // a str of what is known at run time only: object(*items), called where the region ends
  Object,       // an existing object under a type guard; attributes are read through it. Without a source: an instance
                // made during capture, `object` is its class and `attributes` all that it holds; of a class that
                // derives from tuple: items
};

struct Value;

/// Finds the keys of a Dict among its items without a search.
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

// What values of a kind have besides what all have.

/// One of several things, which one the graph says.
struct ChoicePart {
  graph::ValueId which = graph::kNoValue;  // 0-d i64; 0: the object is new; k: it is items[k - 1]
  bool never_new = false;                  // `which` is never 0
};
/// Null. With `partial`, a variable of which nothing is known or, with `which`, that is items[which].
struct NullPart : ChoicePart {};
/// With `partial`, a view of one of several arrays; with `which`, an array that a branch chose.
struct ArrayPart : ChoicePart {
  graph::ValueId id = graph::kNoValue;
  Wrap wrap = Wrap::NdArray;
  bool weak = false;               // a wrap PyFloat, PyInt or PyBool: promotes as a Python number
  Value* attributes_of = nullptr;  // of what a gradient goes to: the array whose attributes it has too
};
struct IntPart {
  graph::Dim dim;
};
struct IteratorPart {
  Over over = Over::Sequence;
  std::int64_t position = 0;  // or kView, or kExhausted; of a generator: its number
  graph::Dim start;           // over a Dict: how many keys had been deleted at the start
  Ref<> type;                 // of an iterator that is made by a call of its type
};
inline constexpr std::int64_t kView = -2;  // `position` of what stands for dict.values() or dict.items()

struct MethodPart {
  enum Form : uint8_t {
    Bound,
    Super,   // stands for super(): items are self and the class
    Loaded,  // a C method that LOAD_METHOD gave
  };
  Form form = Bound;
  Ref<> name;  // of a method in C
};
struct DictPart {
  std::int64_t deleted = 0;             // keys
  std::unique_ptr<KeyIndex> key_index;  // made when there are many keys
};
struct InstancePart {
  Attributes attributes;  // that are tracked
};
inline constexpr std::size_t kClosurePart = 2;  // in the items of a function that is made here
struct FunctionPart : InstancePart {
  Ref<> globals;  // of one that is made here
};

struct Value {
  explicit Value(ValueKind kind_of_it = ValueKind::Constant);

  ValueKind kind;
  uint32_t number = 0;  // Values are numbered as they are made
  SourceRef source;     // set: the object exists outside and can be fetched again
  Ref<> object;         // Constant: the object. With a source: the object seen at capture
  std::vector<Value*> items;
  bool partial = false;    // of an existing container: the items are only those that were looked at. Else see the parts
  bool changed = false;    // an existing List or Dict with a store in the log: iterators over it cannot be made again
  bool transient = false;  // no region ends while it lives

  bool is_constant() const { return kind == ValueKind::Constant; }
  bool is_none() const { return is_constant() && object.get() == Py_None; }
  bool is_array() const { return kind == ValueKind::Array; }
  bool is_made() const { return kind == ValueKind::Object && !source; }

  // Of any kind; the default where its kind has none.
  graph::ValueId id() const { return is_array() ? as_array().id : graph::kNoValue; }
  Wrap wrap() const { return is_array() ? as_array().wrap : Wrap::NdArray; }
  bool is_weak() const { return is_array() && as_array().weak; }
  graph::ValueId which() const { return has_choice() ? choice().which : graph::kNoValue; }
  bool is_never_new() const { return has_choice() && choice().never_new; }

  // Of its kind.
  ArrayPart& as_array() { return std::get<ArrayPart>(part_); }
  const ArrayPart& as_array() const { return std::get<ArrayPart>(part_); }
  const graph::Dim& dim() const { return std::get<IntPart>(part_).dim; }
  IntPart& as_int() { return std::get<IntPart>(part_); }
  IteratorPart& as_iterator() { return std::get<IteratorPart>(part_); }
  const IteratorPart& as_iterator() const { return std::get<IteratorPart>(part_); }
  MethodPart& as_method() { return std::get<MethodPart>(part_); }
  const MethodPart& as_method() const { return std::get<MethodPart>(part_); }
  DictPart& as_dict() { return std::get<DictPart>(part_); }
  const DictPart& as_dict() const { return std::get<DictPart>(part_); }
  FunctionPart& as_function() { return std::get<FunctionPart>(part_); }
  /// Of a Null or an Array.
  ChoicePart& choice() { return const_cast<ChoicePart&>(std::as_const(*this).choice()); }
  const ChoicePart& choice() const;
  bool has_attributes() const { return kind == ValueKind::Function || kind == ValueKind::Object; }
  /// If it has_attributes().
  Attributes& attributes() { return const_cast<Attributes&>(std::as_const(*this).attributes()); }
  const Attributes& attributes() const;
  /// The items of a Dict are others than its index says.
  void forget_keys() {
    if (auto* dict = std::get_if<DictPart>(&part_)) dict->key_index.reset();
  }
  /// Takes the last pair of a Dict away.
  void drop_last_pair() {
    items.resize(items.size() - 2);
    if (auto& index = as_dict().key_index) index->covered = std::min(index->covered, items.size() / 2);
  }

 private:
  bool has_choice() const { return is_array() || kind == ValueKind::Null; }

  std::variant<std::monostate, NullPart, ArrayPart, IntPart, IteratorPart, MethodPart, DictPart, InstancePart,
               FunctionPart>
      part_;
};

/// The array of which `v` has the class and the attributes, if a gradient goes to `v`; otherwise `v`.
inline Value* owner_of_attributes(Value* v) {
  Value* const array = v->is_array() ? v->as_array().attributes_of : nullptr;
  return array ? array : v;
}

}  // namespace framejit::capture
