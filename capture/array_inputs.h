// ArrayInputs: the arrays and numbers that a capture has from outside, as params of its graph, and which memory may be
// written.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/break.h"
#include "capture/guard.h"
#include "capture/py/extent.h"
#include "capture/value.h"

namespace framejit::capture {

class Session;

/// A graph param: where it comes from at run time.
struct Input {
  SourceRef source;
  ArraySpec spec;  // wrap says how to get at the data: array memory, or the number itself
  uint32_t guard;  // its Array guard
};

/// May an array be written, as far as that is not its memory's affair? Views of it inherit this.
enum class Writing : uint8_t { Allowed, Warns, Refused, Foreign };

/// Are its objects told apart by identity, because they have memory of their own?
bool by_identity(Wrap wrap);

class ArrayInputs {
 public:
  explicit ArrayInputs(Session& session) : session_(session) {}

  const std::vector<Input>& all() const { return inputs_; }
  /// The value by which the captured program reads an input.
  Value* value(std::size_t i) const { return values_[i]; }
  /// The graph param for an array-like object: finds the one made before for the same object, or guards and adds one.
  /// Two params never stand for one object.
  Value* add(PyObject* object, SourceRef source, ArraySpec spec);

  /// A param is about to be written: guards that it is writeable, and breaks where another array input overlaps it.
  Captured<bool> prepare_write(graph::ValueId dst);
  /// Guards that this stays so. Called when all inputs are known.
  void keep_apart();
  /// An input that was wrapped after a write overlaps the written memory: the instruction must be given up.
  bool has_overlap() const { return overlap_; }

  /// What NumPy lets a program do to an array that it has just been given.
  void set_writing(graph::ValueId v, Writing writing);
  Writing writing(graph::ValueId v) const;
  /// The memory may be that of another value too, which one is known at run time: it is not written any more.
  void share(graph::ValueId v);
  bool is_shared(graph::ValueId v) const;

  /// Drops the inputs from there on.
  void roll_back(std::size_t count, bool overlap);
  std::vector<Input> take() { return std::move(inputs_); }

 private:
  bool overlaps(std::size_t written, std::size_t other);

  Session& session_;
  std::vector<Input> inputs_;
  std::unordered_multimap<std::size_t, std::size_t> index_;  // input_key(): place in inputs_
  std::unordered_set<std::string> names_;
  std::vector<PyObject*> objects_;  // alive during capture: the frame holds them
  std::vector<Value*> values_;
  std::vector<std::optional<Extent>> extents_;  // of the first inputs, as many as a write has asked for
  std::vector<std::size_t> written_;            // inputs that the graph writes
  bool overlap_ = false;                        // an input read after a write shares its memory
  std::set<graph::ValueId> shared_;             // roots
  std::map<graph::ValueId, Writing> writing_;   // of those that are not simply allowed
};

}  // namespace framejit::capture
