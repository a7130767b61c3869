// Instructions of a GuardProgram, shared by its compiler, its interpreter and the explanation of failures.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capture/py/dict_version.h"
#include "ext/arrays/result_arrays.h"
#include "ext/guards/guard_program.h"

namespace framejit::ext::guards {

/// A dimension ready to evaluate: most are a constant or one symbol.
struct DimCode {
  enum Kind : uint8_t { Const, Symbol, General };
  Kind kind = Const;
  int64_t value = 0;  // Const: the value; Symbol: its number
  const graph::Dim* dim = nullptr;

  /// Whether there is a value: it may overflow.
  bool evaluate(const int64_t* symbols, std::size_t symbol_count, int64_t& out) const {
    switch (kind) {
      case Const: out = value; return true;
      case Symbol: out = symbols[value]; return true;
      case General: break;
    }
    const std::optional<int64_t> known = dim->try_evaluate({symbols, symbol_count});
    if (known) out = *known;
    return known.has_value();
  }
  bool is(int64_t number, const int64_t* symbols, std::size_t symbol_count) const {
    int64_t own = 0;
    return evaluate(symbols, symbol_count, own) && own == number;
  }
};

struct ArrayTest {
  /// How the strides are tested: by the C-contiguous flag alone (every dimension is known and above 1, so that the flag
  /// implies them), against a running product, or one by one.
  enum Layout : uint8_t { Flag, Product, Exact };

  capture::Wrap wrap;
  Layout layout;
  PyTypeObject* type;
  PyArray_Descr* descr;  // of NdArray and Tensor; borrowed: builtin descriptors live for ever
  int type_number;
  int flags;  // that must be set
  int rank;
  int64_t item_size;
  int32_t input;  // number of the input whose data pointer this leaves behind, or -1
  std::vector<DimCode> shape, strides;
  std::vector<uint8_t> binds;  // shape[i] is a symbol that is seen here for the first time
};

/// Type and value are the same: exact int, str, bytes, bool, None, float by its bits, complex likewise, and tuples of
/// these.
bool same_value(PyObject* a, PyObject* b);

/// Names looked up in one dict. While its version is the one seen last the values are too.
struct DictGroup {
  struct Item {
    PyObject* key;
    Py_hash_t hash;
    PyObject* expected;  // null: any
    bool by_value;       // a number that is equal to it will do
    bool absent;         // must not be there
    int32_t slot;        // where the value goes, or -1
    uint32_t guard;      // that fails with it
    PyObject* value;     // seen last; borrowed from the dict
  };
  /// Is a name bound as the guards say?
  static bool fits(const Item& item, PyObject* value) {
    if (item.absent) return value == nullptr;
    if (!value) return false;
    return !item.expected || value == item.expected || (item.by_value && same_value(value, item.expected));
  }
  PyObject* dict;
  capture::DictVersion version;
  uint64_t tag = 0;
  std::vector<Item> items;
  std::vector<uint32_t> wanted;  // items with a slot
};

/// A cached lookup of one attribute on instances of a type. Valid until the type changes.
struct KnownAttribute {
  PyTypeObject* type = nullptr;
  unsigned version = 0;         // of the type
  PyObject* of_type = nullptr;  // what instances without one of their own have; borrowed, may be null
  Py_ssize_t position = 0;      // among the attributes of an instance, the last time
};

enum class GuardOp : uint8_t {
  FetchGroup,  // number: group
  FetchCell,
  FetchClosure,
  FetchAttr,  // number: known attribute
  FetchKey,
  FetchIndex,
  FetchDefault,
  FetchKeywordDefault,
  FetchSelf,
  FetchMethod,
  FetchCached,
  NotCached,  // an Unbound guard of a Cached source
#define FRAMEJIT_OP(name, order, fails_unbound) name,
  FRAMEJIT_GUARD_KINDS(FRAMEJIT_OP)
#undef FRAMEJIT_OP
};

/// The instruction that tests a kind of guard.
constexpr GuardOp op_of(capture::GuardKind kind) {
  return static_cast<GuardOp>(static_cast<int>(GuardOp::NotCached) + 1 + static_cast<int>(kind));
}

struct GuardInstr {
  GuardOp op;
  GuardOperand a, b;
  uint16_t out = 0;    // slot that a fetch fills
  uint32_t guard = 0;  // for explanations
  PyObject* object = nullptr;
  PyObject* key = nullptr;
  int64_t number = 0;
  const capture::Source* source = nullptr;  // FetchCached, NotCached, Mro
};

struct RelationTest {
  graph::Relation relation;
  DimCode left, right;
  bool outcome;
};

/// The first `count` objects, or the memory of these arrays, are apart from all others.
struct ApartTest {
  std::vector<GuardOperand> operands;
  std::size_t count;
  struct Range {
    uintptr_t low, high;
    bool first;  // one of the first `count`
  };
  // Kept so that a test allocates nothing.
  mutable std::vector<PyObject*> objects;
  mutable std::vector<Range> ranges;
};

struct GuardProgram::Impl {
  std::vector<GuardInstr> code;
  std::vector<ArrayTest> arrays;
  std::vector<RelationTest> relations;
  std::vector<ApartTest> apart;
  mutable std::vector<DictGroup> groups;
  mutable std::vector<KnownAttribute> attributes;
  capture::SourceMap<GuardOperand> sources;
  const unsigned long long* registrations = nullptr;
  std::span<const capture::Guard> guards;  // the caller's
};

// Fetches. Borrowed results that live as long as their holder is not changed; null where there is none. No user code
// runs and no exception is left.
PyObject* fetch_attribute(PyObject* base, PyObject* key);
/// The same, by what is known of the attribute where that holds for `base`, and noted otherwise.
PyObject* fetch_attribute(PyObject* base, PyObject* key, KnownAttribute& known);
PyObject* fetch_item(PyObject* dict, PyObject* key);
PyObject* fetch_index(PyObject* sequence, int64_t index);
PyObject* fetch_closure(PyObject* function, int64_t index);
PyObject* fetch_self(PyObject* method);
PyObject* fetch_method(PyObject* method);
PyObject* fetch_default(PyObject* function, int64_t index);
PyObject* fetch_keyword_default(PyObject* function, PyObject* key);
/// What a cache keeps under the key of a Cached source.
PyObject* fetch_cached(PyObject* cache, const capture::Source& source);
/// Follows a source through all its bases.
PyObject* fetch_source(const capture::Source& source, const LiveSlots& live);

/// Is the key missing from an exact dict (`in_dict`), or from the instance dict of an object?
bool lacks_attribute(PyObject* object, PyObject* key, bool in_dict);
/// The first and the past-the-end byte that an array can touch; equal for an array without elements.
void memory_bounds(PyArrayObject* array, uintptr_t& low, uintptr_t& high);
bool array_fits(const ArrayTest& test, PyObject* object, Matched& m, std::size_t symbol_count);

}  // namespace framejit::ext::guards
