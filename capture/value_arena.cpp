#include "capture/value_arena.h"

#include <algorithm>
#include <utility>

#include "capture/array_inputs.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

bool is_python_number(Wrap wrap) {
  return wrap == Wrap::PyFloat || wrap == Wrap::PyInt || wrap == Wrap::PyBool || wrap == Wrap::PyComplex;
}

}  // namespace

Value* ValueArena::make(ValueKind kind) {
  values_.push_back(std::make_unique<Value>(kind));
  values_.back()->number = static_cast<uint32_t>(values_.size() - 1);
  return values_.back().get();
}

Value* ValueArena::constant(PyObject* object) {
  FRAMEJIT_CHECK(object, "constant without an object");
  Value* v = make(ValueKind::Constant);
  v->object = Ref<>::share(object);
  return v;
}

Value* ValueArena::array(graph::ValueId id, Wrap wrap) {
  Value* v = make(ValueKind::Array);
  v->as_array().id = id;
  v->as_array().wrap = wrap;
  v->as_array().weak = is_python_number(wrap);
  v->partial = by_identity(wrap) && builder_.graph().type(id).is_view() &&
               (inputs_.is_shared(id) || inputs_.writing(id) == Writing::Foreign);
  return v;
}

Value* ValueArena::integer(const graph::Dim& dim) {
  if (dim.is_const()) {
    Ref<> number = Ref<>::steal(PyLong_FromLongLong(dim.value()));
    if (!number) PyErr_Clear();
    FRAMEJIT_CHECK(number, "no memory for an int");
    return constant(number.get());
  }
  if (builder_.graph().shapes().is_measured(dim)) {
    Value* number = array(builder_.dim_value(dim), Wrap::PyInt);
    number->as_array().weak = true;
    return number;
  }
  Value* v = make(ValueKind::Int);
  v->as_int().dim = dim;
  return v;
}

Value* ValueArena::tuple(std::vector<Value*> items) {
  Value* v = make(ValueKind::Tuple);
  v->items = std::move(items);
  return v;
}

bool ValueArena::is_of_tensor(graph::ValueId id) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const auto& v) { return v->is_array() && v->wrap() == Wrap::Tensor && v->id() == id; });
}

}  // namespace framejit::capture
