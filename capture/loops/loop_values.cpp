// Existing objects in a compiled loop: numbers and arrays become inputs, other objects are constants.
#include <algorithm>

#include "capture/containers.h"
#include "capture/loops/loop_instructions.h"
#include "capture/named_tuples.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/layouts.h"
#include "graph/layout.h"

namespace framejit::capture {

namespace {

Typed of_value(LoopTranslator& t, Value* v);
cfg::Id dim(LoopTranslator& t, const graph::Dim& d);

}  // namespace

using Kind = Typed::Kind;

bool Typed::is_array() const {
  return kind == Kind::View || kind == Kind::Vector ||
         (kind == Kind::Object &&
          (value->kind == ValueKind::Array || (value->is_constant() && value->object.get() == Py_Ellipsis)));
}

bool Typed::is_float_object() const {
  return kind == Kind::Object && slot == -1 && value->is_constant() && PyFloat_CheckExact(value->object.get());
}

Typed Typed::as_scalar() const {
  Typed v = *this;
  v.kind = Kind::Scalar;
  v.ids = {ids[dtype == graph::DType::F64 ? 2 : 1]};
  return v;
}

Typed of_int(cfg::Id id, bool natural) {
  Typed v;
  v.kind = Kind::Int;
  v.ids = {id};
  v.natural = natural;
  return v;
}

Typed of_bool(cfg::Id id) {
  Typed v;
  v.kind = Kind::Bool;
  v.ids = {id};
  v.natural = true;
  return v;
}

Typed of_float(cfg::Id id) {
  Typed v;
  v.kind = Kind::Float;
  v.ids = {id};
  return v;
}

Typed of_scalar(cfg::Id id, graph::DType dtype) {
  Typed v;
  v.kind = Kind::Scalar;
  v.dtype = dtype;
  v.ids = {id};
  v.natural = dtype == graph::DType::Bool || graph::is_unsigned_int(dtype);
  return v;
}

Typed literal(LoopTranslator& t, PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    Typed v;
    v.kind = Kind::Tuple;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      v.items.push_back(literal(t, PyTuple_GET_ITEM(object, i)));
    v.constant = object;
    return v;
  }
  if (PySlice_Check(object)) {  // a constant of the code on CPython 3.14 and later
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    Typed v;
    v.kind = Kind::Slice;
    for (PyObject* item : {slice->start, slice->stop, slice->step}) v.items.push_back(literal(t, item));
    return v;
  }
  if (const auto known_one = t.objects.literals.find(object); known_one != t.objects.literals.end())
    return known_one->second;
  Typed v;
  v.kind = Kind::Object;
  v.value = t.session.values().constant(object);
  Typed number = of_value(t, v.value);
  if (!number.is_single()) {  // one value, so that it makes one version
    t.objects.literals.emplace(object, v);
    return v;
  }
  if (number.kind != Kind::Int || !is_shared_int(t.cfg.at(number.ids[0]).imm)) number.origin = ++t.origins;
  t.objects.literals.emplace(object, number);
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

/// A number, where the object is one that the loop can compute with; else an Object of the same value.
Typed of_value(LoopTranslator& t, Value* v) {
  Typed object;
  object.kind = Kind::Object;
  object.value = v;
  if (v->is_constant()) {
    PyObject* o = v->object.get();
    if (PyBool_Check(o)) return of_bool(t.integer(o == Py_True));
    if (PyLong_CheckExact(o)) {
      int overflow = 0;
      const long long number = PyLong_AsLongLongAndOverflow(o, &overflow);
      return overflow ? object : of_int(t.integer(number), number >= 0);
    }
    if (PyFloat_CheckExact(o)) return of_float(t.number(PyFloat_AS_DOUBLE(o)));
    if (PyComplex_CheckExact(o))
      return of_complex(t.number(PyComplex_RealAsDouble(o)), t.number(PyComplex_ImagAsDouble(o)), false);
    return object;
  }
  if (v->kind == ValueKind::Int) return of_int(dim(t, v->dim()));
  if (v->kind != ValueKind::Array) return object;
  const graph::Type& type = t.session.graph().type(v->id());
  if (v->wrap() != Wrap::PyFloat && v->wrap() != Wrap::NumpyScalar && v->wrap() != Wrap::PyComplex) return object;
  const bool is_complex = type.dtype == graph::DType::C128;
  if (!is_complex && !has_machine_type(type.dtype))
    throw NotCompiled{"a number of type " + std::string(graph::name_of(type.dtype))};
  const std::vector<graph::ValueId>& params = t.session.graph().params();
  const auto at = std::find(params.begin(), params.end(), v->id()) - params.begin();
  if (at == static_cast<std::ptrdiff_t>(params.size())) throw NotCompiled{"a number that is computed"};
  cfg::Node n;
  n.op = cfg::Op::Load;
  n.mem = mem_of(type.dtype);
  n.type = cfg::type_of(n.mem);
  n.args[0] = t.input(cfg::Op::Pointer, at);
  if (is_complex) {
    n.mem = cfg::Mem::F64;
    n.type = cfg::Type::F64;
  }
  const cfg::Id loaded = t.at_entry(n);
  if (is_complex) {
    n.imm = sizeof(double);
    return of_complex(loaded, t.at_entry(n), v->wrap() != Wrap::PyComplex);
  }
  return v->wrap() == Wrap::PyFloat ? of_float(loaded) : of_scalar(loaded, type.dtype);
}

}  // namespace

/// Looks at an object: from here on its kind is guarded.
Typed known(LoopTranslator& t, Typed v) {
  if (v.kind == Kind::Vector) return temporary(t, v);
  if (v.kind != Kind::Object) return v;
  Value* value = look(t.executor, v.value);
  if (const auto at = t.objects.known.find(value); at != t.objects.known.end()) {
    if (at->second.kind != Kind::Object) return at->second;
  } else {
    Typed made = of_value(t, value);
    if (made.is_single()) made.origin = ++t.origins;
    t.objects.known.emplace(value, made);
    if (made.kind != Kind::Object) return made;
  }
  v.value = value;
  if (value->kind == ValueKind::Tuple && v.slot == -1 && !value->items.empty()) return v;
  return v;
}

namespace {

cfg::Id dim(LoopTranslator& t, const graph::Dim& d) {
  if (d.is_const()) return t.integer(d.value());
  std::vector<graph::SymbolId> symbols;
  d.collect_symbols(symbols);
  if (symbols.size() == 1 && d == graph::Dim::symbol(symbols[0]))
    return t.input(cfg::Op::Symbol, static_cast<int64_t>(symbols[0]));
  throw NotCompiled{"a length that is computed"};
}

}  // namespace

/// An array as a View: its address, lengths and strides; null for anything else.
const Typed* array_of(LoopTranslator& t, const Typed& v) {
  if (v.kind == Kind::View) return &v;
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Array || v.value->wrap() != Wrap::NdArray) return nullptr;
  Typed& made = t.objects.known[v.value];
  if (made.kind == Kind::View) return &made;
  const graph::Type& type = t.session.graph().type(v.value->id());
  if (!has_machine_type(type.dtype) && type.dtype != graph::DType::C128)
    throw NotCompiled{"an array of " + std::string(graph::name_of(type.dtype))};
  const std::vector<graph::ValueId>& params = t.session.graph().params();
  const auto at = std::find(params.begin(), params.end(), v.value->id()) - params.begin();
  if (at == static_cast<std::ptrdiff_t>(params.size())) throw NotCompiled{"an array that is computed"};
  Typed view;
  view.kind = Kind::View;
  view.dtype = type.dtype;
  view.array = t.fetched(v.value->source);
  view.slot = static_cast<int>(at);  // of the inputs
  t.objects.arrays[static_cast<std::size_t>(at)] = v.value->object.get();
  view.ids.push_back(t.input(cfg::Op::Pointer, at));
  for (const graph::Dim& d : type.shape) {
    view.ids.push_back(dim(t, d));
    if (!d.is_const()) t.cfg.nodes[view.ids.back()].natural = true;
    view.seen.push_back(t.session.graph().shapes().hint(d));
  }
  const std::size_t rank = type.shape.size();
  const auto product = [&](cfg::Id a, cfg::Id b) {
    cfg::Node n;
    n.op = cfg::Op::Mul;
    n.type = cfg::Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    return t.at_entry(n);
  };
  std::vector<cfg::Id> strides(rank);
  const bool c_order = type.strides == graph::c_strides(type.dtype, type.shape);
  const bool symbolic =
      std::any_of(type.strides.begin(), type.strides.end(), [](const auto& d) { return !d.is_const(); });
  cfg::Id stride = t.integer(graph::size_of(type.dtype));
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t axis = c_order ? rank - 1 - k : k;
    if (!symbolic && !c_order) {
      strides[axis] = t.integer(type.strides[axis].value());
      continue;
    }
    strides[axis] = stride;
    if (k + 1 < rank) stride = product(stride, view.ids[1 + axis]);
  }
  view.ids.insert(view.ids.end(), strides.begin(), strides.end());
  view.packed = c_order;
  made = std::move(view);
  return &made;
}

namespace {

/// NumPy's type of this name, or null.
PyTypeObject* scalar_type(const char* name) { return reinterpret_cast<PyTypeObject*>(numpy_function(name)); }

/// How Typed::holds names the items of a list, by the first one.
std::string held_by(PyObject* list, int depth = 0);

std::string held_name(PyObject* item, int depth) {
  constexpr int kDeep = 4;
  if (PyFloat_CheckExact(item)) return "f";
  if (PyLong_CheckExact(item)) return "i";
  if (PyBool_Check(item)) return "b";
  if (py::width_of(item) == 0 && PyUnicode_GET_LENGTH(item) == 1) return "u";
  if (Py_IS_TYPE(item, scalar_type("float64"))) return "d";
  if (Py_IS_TYPE(item, scalar_type("int64"))) return "q";
  if (PyList_CheckExact(item) && depth < kDeep) return "l" + held_by(item, depth + 1);
  if (!PyTuple_CheckExact(item)) return "";
  std::string out = "(";
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(item); ++k) {
    const std::string part = held_name(PyTuple_GET_ITEM(item, k), kDeep);
    if (part.size() != 1) return "";
    out += part;
  }
  return out + ")";
}

std::string held_by(PyObject* list, int depth) {
  return PyList_GET_SIZE(list) > 0 ? held_name(PyList_GET_ITEM(list, 0), depth) : "";
}

}  // namespace

/// A list by its address; nothing for anything else.
std::optional<Typed> list_of(LoopTranslator& t, const Typed& v) {
  if (v.kind == Kind::List) return v;
  if (v.kind != Kind::Object || v.value->kind != ValueKind::List || !v.value->source || !v.value->object)
    return std::nullopt;
  Typed list;
  list.kind = Kind::List;
  const uint32_t place = t.fetched(v.value->source);
  list.ids = {t.input(cfg::Op::Object, place)};
  list.array = number_of_entry(place);
  list.holds = held_by(v.value->object.get());
  t.expect_rows(list, v.value->object.get());
  unbox_at_entry(t, list, place);
  return list;
}

std::optional<Typed> item_of_object(LoopTranslator& t, const Typed& container, const Typed& key) {
  if (container.kind != Kind::Object) return std::nullopt;
  Value* of = look(t.executor, container.value);
  if (!of->source || (of->kind != ValueKind::Dict && !is_tuple_instance(*of))) return std::nullopt;
  Value* at = nullptr;
  if (key.kind == Kind::Object && key.value->is_constant()) at = key.value;
  if (key.kind == Kind::Int && t.cfg.is_const(key.ids[0]))
    at = t.session.values().integer(graph::Dim(t.cfg.at(key.ids[0]).imm));
  if (!at) return std::nullopt;
  const Captured<Value*> found = get_item(t.executor, of, at);
  if (!found || !*found) throw NotCompiled{"an item of a dict or tuple"};
  Typed item;
  item.kind = Kind::Object;
  item.value = look(t.executor, *found);
  return item;
}

std::optional<Typed> tuple_of(LoopTranslator& t, const Typed& v) {
  if (v.kind == Kind::Tuple) return v;
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Tuple) return std::nullopt;
  Typed tuple;
  tuple.kind = Kind::Tuple;
  for (Value* item : v.value->items) {
    Typed object;
    object.kind = Kind::Object;
    object.value = item;
    tuple.items.push_back(known(t, std::move(object)));
  }
  return tuple;
}

namespace {

void check_type(LoopTranslator& t, cfg::Id object, PyTypeObject* type) {
  t.check(t.op(cfg::Op::Eq, cfg::Type::I64, t.load(object, py::kTypeField), t.address(type)));
}

/// The number, tuple or list in an object that a list or tuple holds. `holds`: its kind, as in Typed::holds.
Typed unboxed(LoopTranslator& t, cfg::Id item, const std::string& holds) {
  const auto scalar = [&](const char* name, graph::DType dtype) {
    PyTypeObject* type = scalar_type(name);
    if (!type) throw NotCompiled{"an item of a list that holds something other than numbers"};
    check_type(t, item, type);
    return of_scalar(t.load(item, py::kScalarValue, mem_of(dtype)), dtype);
  };
  switch (holds.empty() ? '?' : holds[0]) {
    case 'f': {
      check_type(t, item, &PyFloat_Type);
      const Typed number = of_float(t.load(item, py::kFloatValue, cfg::Mem::F64));
      check_is_number(t, number);
      return number;
    }
    case 'd': return scalar("float64", graph::DType::F64);
    case 'q': return scalar("int64", graph::DType::I64);
    case 'i': {
      // Ints of one digit.
      check_type(t, item, &PyLong_Type);
      const cfg::Id tag = t.load(item, py::kIntTag), digit = t.load(item, py::kIntDigit, cfg::Mem::U32);
      if constexpr (py::kIntsHaveTags) {
        t.check(t.op(cfg::Op::Below, cfg::Type::I64, tag, t.integer(2 << 3)));
        const cfg::Id sign =
            t.op(cfg::Op::Sub, cfg::Type::I64, t.integer(1), t.op(cfg::Op::And, cfg::Type::I64, tag, t.integer(3)));
        return of_int(t.op(cfg::Op::Mul, cfg::Type::I64, sign, digit));
      } else {
        t.check(
            t.op(cfg::Op::Below, cfg::Type::I64, t.op(cfg::Op::Add, cfg::Type::I64, tag, t.integer(1)), t.integer(3)));
        return of_int(t.op(cfg::Op::Mul, cfg::Type::I64, tag, digit));
      }
    }
    case 'b': {
      const cfg::Id yes = t.op(cfg::Op::Eq, cfg::Type::I64, item, t.address(Py_True));
      const cfg::Id no = t.op(cfg::Op::Eq, cfg::Type::I64, item, t.address(Py_False));
      t.check(t.op(cfg::Op::Or, cfg::Type::I64, yes, no));
      return of_bool(yes);
    }
    case 'u': {  // a str of one ASCII character
      check_type(t, item, &PyUnicode_Type);
      const auto [mask, bits] = py::state_of_ascii();
      const cfg::Id state = t.load(item, py::kTextState, cfg::Mem::U32);
      t.check(t.op(cfg::Op::Eq, cfg::Type::I64, t.op(cfg::Op::And, cfg::Type::I64, state, t.integer(mask)),
                   t.integer(bits)));
      t.check(t.op(cfg::Op::Eq, cfg::Type::I64, t.load(item, py::kTextLength), t.integer(1)));
      Typed character;
      character.kind = Kind::Character;
      character.ids = {t.load(item, py::characters_at(0), cfg::Mem::U8)};
      return character;
    }
    case '(': {
      check_type(t, item, &PyTuple_Type);
      const std::size_t count = holds.size() - 2;
      t.check(t.op(cfg::Op::Eq, cfg::Type::I64, t.load(item, py::kListSize), t.integer(static_cast<int64_t>(count))));
      Typed tuple;
      tuple.kind = Kind::Tuple;
      tuple.ids = {item};
      for (std::size_t k = 0; k < count; ++k)
        tuple.items.push_back(unboxed(t, t.load(item, py::kTupleItems + static_cast<int>(k * sizeof(PyObject*))),
                                      holds.substr(k + 1, 1)));
      return tuple;
    }
    default: throw NotCompiled{"an item of a list that holds something other than numbers"};
  }
}

}  // namespace

/// The item at an index that is known to be within the list.
Typed item_of(LoopTranslator& t, const Typed& list, cfg::Id at) {
  t.note_item(list);
  return list.is_unboxed() ? unboxed_item(t, list, at) : boxed_item(t, list, at);
}

cfg::Id object_in(LoopTranslator& t, const Typed& list, cfg::Id at) {
  return t.load(t.load(list.ids[0], py::kListItems), 0, cfg::Mem::I64, at, sizeof(PyObject*));
}

Typed boxed_item(LoopTranslator& t, const Typed& list, cfg::Id at) {
  const std::string holds = t.items_of(list);
  if (holds.empty()) throw NotCompiled{"an item of a list that holds something other than numbers"};
  const cfg::Id item = object_in(t, list, at);
  if (holds[0] != 'l') return unboxed(t, item, holds);
  Typed inner = t.inner_list(list);
  check_type(t, item, &PyList_Type);
  inner.ids = {item};
  inner.holds = holds.substr(1);
  return inner;
}

/// Is the value true, as 0 or 1?
cfg::Id truth(LoopTranslator& t, const Typed& v) {
  switch (v.kind) {
    case Kind::Bool: return v.ids[0];
    case Kind::Int:
    case Kind::Float:
    case Kind::Scalar: {
      if (v.kind == Kind::Scalar && v.dtype == graph::DType::Bool) return v.ids[0];
      const cfg::Id value = t.settled(v.ids[0]);
      if (t.type_of(value) == cfg::Type::I64) return t.op(cfg::Op::Ne, cfg::Type::I64, value, t.integer(0));
      cfg::Id zero = t.number(0.0);
      if (t.type_of(value) == cfg::Type::F32) zero = t.op(cfg::Op::ToF32, cfg::Type::F32, zero);
      return t.op(cfg::Op::Ne, cfg::Type::I64, value, zero);
    }
    case Kind::Object:
      if (v.value->is_none()) return t.integer(0);
      if (const std::optional<Typed> list = list_of(t, v)) return truth(t, *list);
      throw NotCompiled{"the truth of an object"};
    case Kind::Tuple: return t.integer(!v.items.empty());
    case Kind::Character: return t.integer(1);
    case Kind::List: return t.op(cfg::Op::Ne, cfg::Type::I64, count_of(t, v), t.integer(0));
    default: throw NotCompiled{"the truth of an object"};
  }
}

}  // namespace framejit::capture
