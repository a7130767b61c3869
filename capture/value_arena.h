// ValueArena: makes the Values of one capture and owns them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "capture/value.h"
#include "graph/builder.h"

namespace framejit::capture {

class ArrayInputs;

class ValueArena {
 public:
  ValueArena(graph::GraphBuilder& builder, const ArrayInputs& inputs) : builder_(builder), inputs_(inputs) {}

  Value* make(ValueKind kind);
  Value* constant(PyObject* object);  // takes a reference of its own; the caller keeps its
  Value* array(graph::ValueId id, Wrap wrap);
  Value* integer(const graph::Dim& dim);  // Constant for a known one, an array for what is measured
  Value* tuple(std::vector<Value*> items);

  /// How many were made: the number of the next one.
  std::size_t size() const { return values_.size(); }
  /// Is the memory that of a Tensor?
  bool is_of_tensor(graph::ValueId id) const;

 private:
  graph::GraphBuilder& builder_;
  const ArrayInputs& inputs_;
  std::vector<std::unique_ptr<Value>> values_;
};

}  // namespace framejit::capture
