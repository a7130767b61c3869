// Guards: what must hold of the inputs for a compiled entry to be used. Data; ext compiles them
// (ext/guards/guard_program.h).
//
// Every guard prints itself as a Python expression, knows the user's line that made it, and holds for the inputs that
// it was made from (checked after capture).
#pragma once

#include <string>
#include <vector>

#include "capture/source.h"
#include "graph/graph.h"

namespace framejit::capture {

/// What an object is when a frontend makes it an operand, and how a result is given back.
enum class Wrap : uint8_t {
  NdArray,      // exact numpy.ndarray, any rank
  NumpyScalar,  // numpy.float64(...), numpy.bool_(...): 0-d
  PyFloat,      // 0-d F64 in the graph
  PyInt,        // 0-d I64 in the graph, or a Dim
  PyBool,       // 0-d Bool in the graph
  PyComplex,    // 0-d C128
  Tensor,       // framejit.Tensor
  Generator,    // numpy.random.Generator: 0-d I64 in the graph, its address; an operand of library calls only
};

/// What is required of an array-like input. Dims that are a bare symbol seen for the first time bind that symbol.
struct ArraySpec {
  Wrap wrap = Wrap::NdArray;
  graph::DType dtype = graph::DType::F64;
  graph::Dims shape;
  graph::Dims strides;     // bytes; equal to graph::c_strides: tested by the C-contiguous flag
  bool writeable = false;  // required, because the graph writes it
  bool aligned = true;
};

/// The kinds, each with its place in the order of tests, cheapest and most telling first (0: of a local, before all
/// others), and whether the test fails where the source is unbound. To add one: a row here, its text in Guard::str(),
/// its test in ext/guards/guard_program.cpp.
// clang-format off
#define FRAMEJIT_GUARD_KINDS(X)                                                                                        \
  /* source is object */                                                                                               \
  X(Identity, 1, true)                                                                                                 \
  /* type(source) is object */                                                                                         \
  X(Type, 1, true)                                                                                                     \
  /* exact int, str, bytes, bool, None, float (by bits), or tuple of these: equal to object in type and value */       \
  X(Equal, 1, true)                                                                                                    \
  /* the slot is unbound; of a Cached source: nothing is kept under the key */                                         \
  X(Unbound, 1, false)                                                                                                 \
  /* the slot is bound, to whatever */                                                                                 \
  X(Bound, 1, false)                                                                                                   \
  /* exact function whose __code__ is object and whose __globals__ is key */                                           \
  X(Code, 1, true)                                                                                                     \
  /* source is other (true at capture) */                                                                              \
  X(SameObject, 2, false)                                                                                              \
  /* of the objects `several`, each of the first `number` is none of the others */                                     \
  X(Distinct, 2, false)                                                                                                \
  /* the dict of source's attributes, if there is one, is held by no other object */                                   \
  X(OwnDict, 2, true)                                                                                                  \
  /* no class was registered with an abstract one since: their number is `number` (capture/py/abstract.h) */           \
  X(Registrations, 2, false)                                                                                           \
  /* how many items: of a tuple (also of a class of its own), exact list, dict, set or frozenset; object is list: the  \
     number may vary, as only len() or the truth of the list was asked for */                                          \
  X(Length, 2, true)                                                                                                   \
  /* exact str, in one piece, of characters of `number` bytes each; 0: all are ASCII */                                \
  X(Width, 2, true)                                                                                                    \
  /* the MRO of the class that source is: the `parts` of source */                                                     \
  X(Mro, 2, true)                                                                                                      \
  /* looking up the key on type(source)'s MRO gives object (raw, no descriptor called); no object: nothing; number is  \
     1: on the MRO of the type that source is */                                                                       \
  X(TypeAttr, 2, true)                                                                                                 \
  /* `key` is not found: no source: in the dict `object` (a module's); source an exact dict or defaultdict (then number\
     is 1): in it; else in the instance dict of source (attribute shadowing), which may be missing */                  \
  X(HasNot, 3, true)                                                                                                   \
  /* the exact set or frozenset has the key (number is 1), or has it not (0) */                                        \
  X(Member, 3, true)                                                                                                   \
  /* exact set or frozenset whose elements are, in the order of iteration, the items of the tuple `object`; no object: \
     all are plain keys, and at most `number` */                                                                       \
  X(Elements, 3, true)                                                                                                 \
  /* exact dict or defaultdict whose keys are, in order, the items of the tuple `object` */                            \
  X(Keys, 3, true)                                                                                                     \
  /* exact int that fits int64, or, if object is list, how many items an exact list has; binds the symbol of `dim` */  \
  X(IntSymbol, 4, true)                                                                                                \
  /* `array`: binds symbols too */                                                                                     \
  X(Array, 4, true)                                                                                                    \
  /* relation between bound symbols */                                                                                 \
  X(DimRelation, 5, false)                                                                                             \
  /* of the arrays `several`, the memory of each of the first `number` overlaps that of no other */                    \
  X(Disjoint, 6, false)
// clang-format on

enum class GuardKind : uint8_t {
#define FRAMEJIT_KIND(name, order, needs_object) name,
  FRAMEJIT_GUARD_KINDS(FRAMEJIT_KIND)
#undef FRAMEJIT_KIND
};

struct Guard {
  GuardKind kind;
  SourceRef source;  // none: the guard is about `several`, or about no object
  SourceRef other;
  std::vector<SourceRef> several;
  HeldRef object;
  HeldRef key;
  int64_t number = 0;
  ArraySpec array;
  graph::DimGuard dim{graph::Relation::Eq, 0, 0, true};
  uint32_t location = 0;  // in the graph's table: the user's line that made it
  std::string reason;     // "x * w[None, :]"; may be empty
  std::string shown;      // DimRelation: printed with what the symbols stand for

  std::string str() const;    // x.shape[0] == 64
  std::string about() const;  // what it looks at, whatever it expects there
};

/// Is the object at `a` the one at `b`, as `same` says?
Guard identity_guard(SourceRef a, SourceRef b, bool same);

}  // namespace framejit::capture
