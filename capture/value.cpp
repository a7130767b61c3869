#include "capture/value.h"

namespace framejit::capture {

Value::Value(ValueKind kind_of_it) : kind(kind_of_it) {
  switch (kind) {
    case ValueKind::Null: part_.emplace<NullPart>(); break;
    case ValueKind::Array: part_.emplace<ArrayPart>(); break;
    case ValueKind::Int: part_.emplace<IntPart>(); break;
    case ValueKind::Iterator: part_.emplace<IteratorPart>(); break;
    case ValueKind::BoundMethod: part_.emplace<MethodPart>(); break;
    case ValueKind::Dict: part_.emplace<DictPart>(); break;
    case ValueKind::Object: part_.emplace<InstancePart>(); break;
    case ValueKind::Function: part_.emplace<FunctionPart>(); break;
    default: break;
  }
}

const ChoicePart& Value::choice() const {
  if (auto* array = std::get_if<ArrayPart>(&part_)) return *array;
  return std::get<NullPart>(part_);
}

const Attributes& Value::attributes() const {
  if (auto* function = std::get_if<FunctionPart>(&part_)) return function->attributes;
  return std::get<InstancePart>(part_).attributes;
}

}  // namespace framejit::capture
