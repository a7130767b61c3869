// Source: how to fetch an object again at the next call. Guards, inputs and rebuilt results share it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/py/ref.h"

namespace framejit::capture {

struct Source;
using SourceRef = std::shared_ptr<const Source>;

enum class SourceKind : uint8_t {
  Local,     // localsplus slot `index` of the entry frame (a cell slot gives the cell)
  Stack,     // stack slot `index` at the entry of the region
  Word,      // the word of that slot, with its tags (py::Slots): no object
  Constant,  // `object` itself (kept alive here); `name`: the expression that an Identity, TypeAttr or Code guard found
             // it at
  Global,    // item `key` of the module dict `object`
  Builtin,   // item `key` of the builtins dict `object`
  Cell,      // contents of the cell `base`
  Closure,   // cell `index` of the function `base`; no base: of the frame's own function
  Attr,  // base.key without calling anything: of an instance, its dict, else the raw object on its type's MRO (a slot's
         // member descriptor: the slot); of a type, the raw object on its own MRO. Missing: the guard that reads it
         // fails
  Item,  // base[key] of an exact dict, or base[index] of an exact tuple or list
  Default,  // positional default `index` of the function `base`; with a key: keyword-only default; index -1 and no key:
            // the whole `__defaults__`, None where there are none
  Self,     // __self__ of the bound method `base`, also of a builtin one; of an iterator, what it takes its items from
  Method,   // its __func__; of a builtin one the class's descriptor
  Cached,   // what the functools.lru_cache wrapper `base` keeps under the key made of `parts`; `name`: the arguments
};

struct Source {
  SourceKind kind;
  SourceRef base;
  int index = -1;
  HeldRef key;
  HeldRef object;
  std::string name;            // of a local, for printing
  std::vector<HeldRef> parts;  // of a Cached one; of a class under an Mro guard

  /// As a Python expression: x, self.weights[0], sim.DT.
  std::string str() const;
  /// The number of steps from where the chain begins.
  int depth() const { return base ? base->depth() + 1 : 0; }
};

bool same(const Source& a, const Source& b);
/// Equal for sources that are the same.
std::size_t hash_of(const Source& s);

struct SourceHash {
  std::size_t operator()(const SourceRef& s) const { return hash_of(*s); }
};
struct SourceSame {
  bool operator()(const SourceRef& a, const SourceRef& b) const { return same(*a, *b); }
};
using SourceSet = std::unordered_set<SourceRef, SourceHash, SourceSame>;
template <typename T>
using SourceMap = std::unordered_map<SourceRef, T, SourceHash, SourceSame>;

/// A local (with its name) or a stack slot of the entry frame.
SourceRef slot_source(SourceKind kind, int index, std::string name);

}  // namespace framejit::capture
