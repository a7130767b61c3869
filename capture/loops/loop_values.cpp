// Existing objects in a compiled loop: numbers and arrays become inputs, other objects are constants.
#include <algorithm>

#include "capture/loops/translator.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/layouts.h"
#include "graph/layout.h"

namespace framejit::capture {

using Kind = Typed::Kind;

bool Typed::is_array() const {
  return kind == Kind::View || (kind == Kind::Object && (value->kind == ValueKind::Array ||
                                                         (value->is_constant() && value->object.get() == Py_Ellipsis)));
}

Typed LoopTranslator::of_int(cfg::Id id, bool natural) {
  Typed v;
  v.kind = Kind::Int;
  v.ids = {id};
  v.natural = natural;
  return v;
}

Typed LoopTranslator::of_bool(cfg::Id id) {
  Typed v;
  v.kind = Kind::Bool;
  v.ids = {id};
  v.natural = true;
  return v;
}

Typed LoopTranslator::of_float(cfg::Id id) {
  Typed v;
  v.kind = Kind::Float;
  v.ids = {id};
  return v;
}

Typed LoopTranslator::of_scalar(cfg::Id id, graph::DType dtype) {
  Typed v;
  v.kind = Kind::Scalar;
  v.dtype = dtype;
  v.ids = {id};
  v.natural = dtype == graph::DType::Bool || graph::is_unsigned_int(dtype);
  return v;
}

Typed LoopTranslator::literal(PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    Typed v;
    v.kind = Kind::Tuple;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) v.items.push_back(literal(PyTuple_GET_ITEM(object, i)));
    return v;
  }
  if (const auto known_one = literals_.find(object); known_one != literals_.end()) return known_one->second;
  Typed v;
  v.kind = Kind::Object;
  v.value = session_.constant(object);
  Typed number = of_value(v.value);
  if (!number.is_single()) return v;
  number.origin = ++origins_;
  literals_.emplace(object, number);
  return number;
}

namespace {

bool has_machine_type(graph::DType t) {
  return t != graph::DType::F16 && t != graph::DType::BF16 && t != graph::DType::U64 && !graph::is_complex(t);
}

cfg::Mem mem_of(graph::DType t) {
  switch (t) {
    case graph::DType::Bool:
    case graph::DType::U8: return cfg::Mem::U8;
    case graph::DType::I8: return cfg::Mem::I8;
    case graph::DType::I16: return cfg::Mem::I16;
    case graph::DType::U16: return cfg::Mem::U16;
    case graph::DType::I32: return cfg::Mem::I32;
    case graph::DType::U32: return cfg::Mem::U32;
    case graph::DType::F32: return cfg::Mem::F32;
    case graph::DType::F64: return cfg::Mem::F64;
    default: return cfg::Mem::I64;
  }
}

}  // namespace

/// A number, where the object is one that the loop can compute with; else an Object of the same value.
Typed LoopTranslator::of_value(Value* v) {
  Typed object;
  object.kind = Kind::Object;
  object.value = v;
  if (v->is_constant()) {
    PyObject* o = v->object.get();
    if (PyBool_Check(o)) return of_bool(integer(o == Py_True));
    if (PyLong_CheckExact(o)) {
      int overflow = 0;
      const long long number = PyLong_AsLongLongAndOverflow(o, &overflow);
      return overflow ? object : of_int(integer(number), number >= 0);
    }
    if (PyFloat_CheckExact(o)) return of_float(number(PyFloat_AS_DOUBLE(o)));
    if (PyComplex_CheckExact(o))
      return of_complex(number(PyComplex_RealAsDouble(o)), number(PyComplex_ImagAsDouble(o)), false);
    return object;
  }
  if (v->kind == ValueKind::Int) return of_int(dim(v->dim));
  if (v->kind != ValueKind::Array) return object;
  const graph::Type& type = session_.graph().type(v->id);
  if (v->wrap != Wrap::PyFloat && v->wrap != Wrap::NumpyScalar && v->wrap != Wrap::PyComplex) return object;
  const bool is_complex = type.dtype == graph::DType::C128;
  if (!is_complex && !has_machine_type(type.dtype))
    throw NotCompiled{"a number of type " + std::string(graph::name_of(type.dtype))};
  const std::vector<graph::ValueId>& params = session_.graph().params();
  const auto at = std::find(params.begin(), params.end(), v->id) - params.begin();
  if (at == static_cast<std::ptrdiff_t>(params.size())) throw NotCompiled{"a number that is computed"};
  cfg::Node n;
  n.op = cfg::Op::Load;
  n.mem = mem_of(type.dtype);
  n.type = cfg::type_of(n.mem);
  n.args[0] = input(cfg::Op::Pointer, at);
  if (is_complex) {
    n.mem = cfg::Mem::F64;
    n.type = cfg::Type::F64;
  }
  const cfg::Id loaded = at_entry(n);
  if (is_complex) {
    n.imm = sizeof(double);
    return of_complex(loaded, at_entry(n), v->wrap != Wrap::PyComplex);
  }
  return v->wrap == Wrap::PyFloat ? of_float(loaded) : of_scalar(loaded, type.dtype);
}

/// Looks at an object: from here on its kind is guarded.
Typed LoopTranslator::known(Typed v) {
  if (v.kind != Kind::Object) return v;
  Value* value = look(executor_, v.value);
  if (const auto at = known_.find(value); at != known_.end()) {
    if (at->second.kind != Kind::Object) return at->second;
  } else {
    Typed made = of_value(value);
    if (made.is_single()) made.origin = ++origins_;
    known_.emplace(value, made);
    if (made.kind != Kind::Object) return made;
  }
  v.value = value;
  if (value->kind == ValueKind::Tuple && v.slot == -1 && !value->items.empty()) return v;
  return v;
}

cfg::Id LoopTranslator::dim(const graph::Dim& d) {
  if (d.is_const()) return integer(d.value());
  std::vector<graph::SymbolId> symbols;
  d.collect_symbols(symbols);
  if (symbols.size() == 1 && d == graph::Dim::symbol(symbols[0]))
    return input(cfg::Op::Symbol, static_cast<int64_t>(symbols[0]));
  throw NotCompiled{"a length that is computed"};
}

/// An array as a View: its address, lengths and strides; null for anything else.
const Typed* LoopTranslator::array_of(const Typed& v) {
  if (v.kind == Kind::View) return &v;
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Array || v.value->wrap != Wrap::NdArray) return nullptr;
  Typed& made = known_[v.value];
  if (made.kind == Kind::View) return &made;
  const graph::Type& type = session_.graph().type(v.value->id);
  if (!has_machine_type(type.dtype) && type.dtype != graph::DType::C128)
    throw NotCompiled{"an array of " + std::string(graph::name_of(type.dtype))};
  const std::vector<graph::ValueId>& params = session_.graph().params();
  const auto at = std::find(params.begin(), params.end(), v.value->id) - params.begin();
  if (at == static_cast<std::ptrdiff_t>(params.size())) throw NotCompiled{"an array that is computed"};
  Typed view;
  view.kind = Kind::View;
  view.dtype = type.dtype;
  view.array = fetched(v.value->source);
  view.slot = static_cast<int>(at);  // of the inputs
  array_objects_[static_cast<std::size_t>(at)] = v.value->object.get();
  view.ids.push_back(input(cfg::Op::Pointer, at));
  for (const graph::Dim& d : type.shape) view.ids.push_back(dim(d));
  const std::size_t rank = type.shape.size();
  const auto product = [&](cfg::Id a, cfg::Id b) {
    cfg::Node n;
    n.op = cfg::Op::Mul;
    n.type = cfg::Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    return at_entry(n);
  };
  std::vector<cfg::Id> strides(rank);
  const bool c_order = type.strides == graph::c_strides(type.dtype, type.shape);
  const bool symbolic =
      std::any_of(type.strides.begin(), type.strides.end(), [](const auto& d) { return !d.is_const(); });
  cfg::Id stride = integer(graph::size_of(type.dtype));
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t axis = c_order ? rank - 1 - k : k;
    if (!symbolic && !c_order) {
      strides[axis] = integer(type.strides[axis].value());
      continue;
    }
    strides[axis] = stride;
    if (k + 1 < rank) stride = product(stride, view.ids[1 + axis]);
  }
  view.ids.insert(view.ids.end(), strides.begin(), strides.end());
  made = std::move(view);
  return &made;
}

namespace {

/// The kind of the items of a list, by its first item.
std::string held_by(PyObject* list, int depth = 0) {
  constexpr int kDeep = 4;
  PyObject* first = PyList_GET_SIZE(list) > 0 ? PyList_GET_ITEM(list, 0) : nullptr;
  if (first && PyFloat_CheckExact(first)) return "f";
  if (first && PyLong_CheckExact(first)) return "i";
  if (first && PyBool_Check(first)) return "b";
  return first && PyList_CheckExact(first) && depth < kDeep ? "l" + held_by(first, depth + 1) : "";
}

}  // namespace

/// A list by its address; nothing for anything else.
std::optional<Typed> LoopTranslator::list_of(const Typed& v) {
  if (v.kind == Kind::List) return v;
  if (v.kind != Kind::Object || v.value->kind != ValueKind::List || !v.value->source || !v.value->object)
    return std::nullopt;
  Typed list;
  list.kind = Kind::List;
  list.ids = {input(cfg::Op::Object, fetched(v.value->source))};
  list.holds = held_by(v.value->object.get());
  return list;
}

cfg::Id LoopTranslator::load(cfg::Id base, int offset, cfg::Mem mem, cfg::Id at, int scale) {
  cfg::Node n;
  n.op = cfg::Op::Load;
  n.mem = mem;
  n.type = cfg::type_of(mem);
  n.args[0] = base;
  n.args[1] = at;
  n.scale = static_cast<uint8_t>(scale);
  n.imm = offset;
  return add(n);
}

void LoopTranslator::check_type(cfg::Id object, PyTypeObject* type) {
  check(op(cfg::Op::Eq, cfg::Type::I64, load(object, py::kTypeField), integer(reinterpret_cast<int64_t>(type))));
}

/// The item at an index that is known to be within the list.
Typed LoopTranslator::item_of(const Typed& list, cfg::Id at) {
  if (list.holds.empty()) throw NotCompiled{"an item of a list of other things than numbers"};
  const cfg::Id item = load(load(list.ids[0], py::kListItems), 0, cfg::Mem::I64, at, sizeof(PyObject*));
  switch (list.holds[0]) {
    case 'f': check_type(item, &PyFloat_Type); return of_float(load(item, py::kFloatValue, cfg::Mem::F64));
    case 'i': {
      // Ints of one digit.
      check_type(item, &PyLong_Type);
      const cfg::Id tag = load(item, py::kIntTag), digit = load(item, py::kIntDigit, cfg::Mem::U32);
      if constexpr (py::kIntsHaveTags) {
        check(op(cfg::Op::Below, cfg::Type::I64, tag, integer(2 << 3)));
        const cfg::Id sign =
            op(cfg::Op::Sub, cfg::Type::I64, integer(1), op(cfg::Op::And, cfg::Type::I64, tag, integer(3)));
        return of_int(op(cfg::Op::Mul, cfg::Type::I64, sign, digit));
      } else {
        check(op(cfg::Op::Below, cfg::Type::I64, op(cfg::Op::Add, cfg::Type::I64, tag, integer(1)), integer(3)));
        return of_int(op(cfg::Op::Mul, cfg::Type::I64, tag, digit));
      }
    }
    case 'b': {
      const cfg::Id yes = op(cfg::Op::Eq, cfg::Type::I64, item, integer(reinterpret_cast<int64_t>(Py_True)));
      const cfg::Id no = op(cfg::Op::Eq, cfg::Type::I64, item, integer(reinterpret_cast<int64_t>(Py_False)));
      check(op(cfg::Op::Or, cfg::Type::I64, yes, no));
      return of_bool(yes);
    }
    default: {
      check_type(item, &PyList_Type);
      Typed inner;
      inner.kind = Kind::List;
      inner.ids = {item};
      inner.holds = list.holds.substr(1);
      return inner;
    }
  }
}

/// Is the value true, as 0 or 1?
cfg::Id LoopTranslator::truth(const Typed& v) {
  switch (v.kind) {
    case Kind::Bool: return v.ids[0];
    case Kind::Int:
    case Kind::Float:
    case Kind::Scalar: {
      if (v.kind == Kind::Scalar && v.dtype == graph::DType::Bool) return v.ids[0];
      const cfg::Id value = settled(v.ids[0]);
      if (type_of(value) == cfg::Type::I64) return op(cfg::Op::Ne, cfg::Type::I64, value, integer(0));
      cfg::Id zero = number(0.0);
      if (type_of(value) == cfg::Type::F32) zero = op(cfg::Op::ToF32, cfg::Type::F32, zero);
      return op(cfg::Op::Ne, cfg::Type::I64, value, zero);
    }
    case Kind::Object:
      if (v.value->is_none()) return integer(0);
      throw NotCompiled{"the truth of an object"};
    case Kind::Tuple: return integer(!v.items.empty());
    default: throw NotCompiled{"the truth of an object"};
  }
}

/// A result of NumPy's scalars that a conversion or comparison would hide: is it one of which NumPy may warn?
cfg::Id LoopTranslator::settled(cfg::Id id) {
  const auto at = std::find(pending_.begin(), pending_.end(), id);
  if (at == pending_.end()) return id;
  pending_.erase(at);
  check_finite(id);
  return id;
}

}  // namespace framejit::capture
