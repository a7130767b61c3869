// Objects that a compiled loop has made of its numbers, and what it keeps until it is left.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "capture/loops/loop_instructions.h"
#include "capture/py/no_collection.h"

namespace framejit::capture {

/// The parts of an object that is built of the numbers in `cells`: 4 bits of a code for each. After a scalar of
/// NumPy comes its dtype.
enum Part : uint64_t {
  kEnd,
  kFloatPart,
  kIntPart,
  kBoolPart,
  kScalarPart,
  kCharacterPart,
  kObjectPart,
  kTuplePart,
  kListPart
};
inline constexpr int kPartBits = 4, kMostParts = 64 / kPartBits;
inline constexpr uint64_t kPartMask = (1 << kPartBits) - 1;
static_assert(graph::kDTypeCount <= 1 << kPartBits);

/// The object that a code describes. Null: an exception is set.
Ref<> built(int64_t code);

/// Calls a function with the objects that a code describes, at most kMostArguments. Null: an exception is set.
inline constexpr std::size_t kMostArguments = 3;
Ref<> call_with_built(int64_t function, int64_t code);

/// Has the loop made so many objects that it should be left, so that those that nothing holds go?
bool is_full();
/// Keeps an object until the loop is left: variables of the loop hold addresses, and no references. Its address, or 0.
int64_t keep(Ref<> made);
template <class Make>
int64_t keep_made(Make&& make) {
  if (is_full()) return 0;
  [[maybe_unused]] const py::NoCollection no_collection;
  return keep(Ref<>::steal(make()));
}
/// Gives what was kept last.
Ref<> take_last_made();
/// The same for an item that is taken from a list, and that a variable of the loop gets. False: there are too many.
bool keep_taken(PyObject* item);

/// Does a variable hold a tuple that a list has, or had?
bool holds_item(LoopTranslator& t);
/// Does a variable hold this tuple?
bool is_held(LoopTranslator& t, const Typed& tuple);

/// Collects what an object is built of.
class Parts {
 public:
  explicit Parts(LoopTranslator& t);
  void add(const Typed& v);
  /// Stores the parts, for the call that follows, and gives the code.
  cfg::Id code();

 private:
  cfg::Id made_tuple(const Typed& v);
  void add(uint64_t part, cfg::Id value);

  LoopTranslator& t_;
  uint64_t code_ = 0;
  int count_ = 0;
  std::vector<cfg::Id> values_;
};

}  // namespace framejit::capture
