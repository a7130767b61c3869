// See loop_built.h.
#include "capture/loops/loop_built.h"

#include <bit>

#include "capture/objects.h"

namespace framejit::capture {

using graph::DType;
using Kind = Typed::Kind;
using Type = cfg::Type;

namespace {

int64_t cells[kMostParts];  // of the thread that holds the GIL, between the stores and the call
PyObject* (*make_scalar)(DType dtype, const void* value) = nullptr;

/// A new reference. No Ref in here: several for each tuple would take longer than the tuple.
PyObject* built(uint64_t& code, const int64_t*& cell) {
  const auto next = [&code] { return std::exchange(code, code >> kPartBits) & kPartMask; };
  const uint64_t part = next();
  switch (part) {
    case kFloatPart: return PyFloat_FromDouble(std::bit_cast<double>(*cell++));
    case kIntPart: return PyLong_FromLongLong(*cell++);
    case kBoolPart: return PyBool_FromLong(*cell++ != 0);
    case kScalarPart: return make_scalar(static_cast<DType>(next()), cell++);
    case kCharacterPart: return PyUnicode_FromOrdinal(static_cast<int>(*cell++));
    case kObjectPart: return Py_NewRef(reinterpret_cast<PyObject*>(*cell++));
    default: break;
  }
  PyObject* items[kMostParts];
  Py_ssize_t count = 0;
  bool complete = true;
  while (complete && (code & kPartMask) != kEnd) {
    complete = (items[count] = built(code, cell)) != nullptr;
    count += complete;
  }
  PyObject* const made = !complete ? nullptr : part == kTuplePart ? PyTuple_New(count) : PyList_New(count);
  if (!made) {
    while (count > 0) Py_DECREF(items[--count]);
    return nullptr;
  }
  next();
  for (Py_ssize_t k = 0; k < count; ++k)
    if (part == kTuplePart) PyTuple_SET_ITEM(made, k, items[k]);
    else PyList_SET_ITEM(made, k, items[k]);
  return made;
}

/// Lists and the like that the loop that runs has made, and what it has taken from others. They live until it is left,
/// at the latest when they are many.
std::vector<Ref<>> made_lists;
int64_t made_bytes = 0;

int64_t bytes_of(PyObject* made) {
  const Py_ssize_t items = PyList_CheckExact(made) ? PyList_GET_SIZE(made) : 0;
  return static_cast<int64_t>(sizeof(PyListObject) + sizeof(PyObject*) * static_cast<std::size_t>(items));
}

}  // namespace

bool is_full() {
  constexpr std::size_t kMost = 4096;
  constexpr int64_t kMostBytes = 1 << 24;
  const UnboxedMemory unboxed = memory_of_unboxed();
  if (unboxed.lists >= kMost || unboxed.bytes > kMostBytes) return true;
  if (made_lists.size() < kMost && made_bytes <= kMostBytes) return false;
  // An object that another one holds stays alive without us: what goes from a container is kept here then.
  std::erase_if(made_lists, [](const Ref<>& made) { return Py_REFCNT(made.get()) > 1; });
  made_bytes = 0;
  for (const Ref<>& made : made_lists) made_bytes += bytes_of(made.get());
  return made_lists.size() >= kMost / 2 || made_bytes > kMostBytes / 2;
}

int64_t keep(Ref<> made) {
  if (!made) return PyErr_Clear(), 0;
  made_bytes += bytes_of(made.get());
  made_lists.push_back(std::move(made));
  return reinterpret_cast<int64_t>(made_lists.back().get());
}

bool keep_taken(PyObject* item) {
  if (is_full()) return false;
  made_lists.push_back(Ref<>::share(item));
  return true;
}

Ref<> take_last_made() {
  Ref<> last = std::move(made_lists.back());
  made_lists.pop_back();
  return last;
}

MadeLists::MadeLists() : lists_(std::exchange(made_lists, {})) {
  made_bytes = 0;
  release_generators();
}

Ref<> built(int64_t code) {
  auto rest = static_cast<uint64_t>(code);
  const int64_t* cell = cells;
  if ((rest & kPartMask) < kTuplePart) return Ref<>::steal(built(rest, cell));
  [[maybe_unused]] const py::NoCollection no_collection;
  return Ref<>::steal(built(rest, cell));
}

Ref<> call_with_built(int64_t function, int64_t code) {
  static PyObject* floats[kMostArguments];  // those that earlier calls have let go get new values
  auto rest = static_cast<uint64_t>(code);
  const int64_t* cell = cells;
  Ref<> args[kMostArguments];
  PyObject* borrowed[kMostArguments];
  std::size_t count = 0;
  for (; (rest & kPartMask) != kEnd; ++count) {
    PyObject*& kept = floats[count];
    if ((rest & kPartMask) == kFloatPart && kept && Py_REFCNT(kept) == 1) {
      rest >>= kPartBits;
      reinterpret_cast<PyFloatObject*>(kept)->ob_fval = std::bit_cast<double>(*cell++);
      args[count] = Ref<>::share(kept);
    } else {
      const bool is_float = (rest & kPartMask) == kFloatPart;
      args[count] = Ref<>::steal(built(rest, cell));
      if (!args[count]) return {};
      if (is_float) {
        Py_XDECREF(kept);
        kept = Py_NewRef(args[count].get());
      }
    }
    borrowed[count] = args[count].get();
  }
  return Ref<>::steal(PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), borrowed, count, nullptr));
}

namespace {

int64_t new_tuple(int64_t code, int64_t) {
  if (is_full()) return 0;
  Ref<> tuple = framejit::capture::built(code);
  if (!tuple) return PyErr_Clear(), 0;
  made_lists.push_back(std::move(tuple));
  return reinterpret_cast<int64_t>(made_lists.back().get());
}

const cfg::Function kNewTuple{"new_tuple", reinterpret_cast<const void*>(&new_tuple), Type::I64, 2, Type::I64};

}  // namespace

namespace {

template <class Visit>
void for_each_held(LoopTranslator& t, const Visit& visit) {
  for (LoopFrame& f : t.state.frames)
    for (std::vector<Typed>* all : {&f.locals, &f.stack})
      for (Typed& held : *all) for_each_part(held, visit);
  for (auto& [key, attribute] : t.state.attributes) for_each_part(attribute.value, visit);
}

/// Variables that hold the same tuple: they have to find the object that is made.
std::vector<Typed*> holders_of(LoopTranslator& t, const Typed& v) {
  std::vector<Typed*> out;
  for_each_held(t, [&](Typed& part) {
    if (v.origin != 0 && part.kind == Kind::Tuple && part.origin == v.origin) out.push_back(&part);
  });
  return out;
}

}  // namespace

bool holds_item(LoopTranslator& t) {
  bool found = false;
  for_each_held(t, [&](const Typed& part) { found = found || (part.kind == Kind::Tuple && !part.ids.empty()); });
  return found;
}

bool is_held(LoopTranslator& t, const Typed& tuple) { return !holders_of(t, tuple).empty(); }

Parts::Parts(LoopTranslator& t) : t_(t) { make_scalar = t.request.options.make_scalar; }

void Parts::add(const Typed& v) {
  switch (v.kind) {
    case Kind::Float: return add(kFloatPart, v.ids[0]);
    case Kind::Int: return add(kIntPart, v.ids[0]);
    case Kind::Bool: return add(kBoolPart, v.ids[0]);
    case Kind::Scalar: add(kScalarPart, v.ids[0]); return add(static_cast<uint64_t>(v.dtype), cfg::kNone);
    case Kind::Character: return add(kCharacterPart, v.ids[0]);
    case Kind::List: return add(kObjectPart, boxed(t_, v));
    case Kind::Object:
      if (const std::optional<Typed> list = list_of(t_, v)) return add(kObjectPart, boxed(t_, *list));
      if (!v.value->is_constant()) break;
      t_.program->held.push_back(v.value->object);
      return add(kObjectPart, t_.address(v.value->object.get()));
    case Kind::Tuple:
      if (v.constant) {
        t_.program->held.push_back(Ref<>::share(v.constant));
        return add(kObjectPart, t_.address(v.constant));
      }
      if (!v.ids.empty()) return add(kObjectPart, v.ids[0]);
      if (const std::vector<Typed*> holders = holders_of(t_, v); !holders.empty()) {
        const cfg::Id made = made_tuple(v);
        for (Typed* holder : holders) holder->ids = {made};
        return add(kObjectPart, made);
      }
      [[fallthrough]];
    case Kind::Display:
      add(v.kind == Kind::Tuple ? kTuplePart : kListPart, cfg::kNone);
      for (const Typed& item : v.items) add(known(t_, item));
      return add(kEnd, cfg::kNone);
    default: break;
  }
  throw NotCompiled{"a list of such objects", v.is_array()};
}

cfg::Id Parts::code() {
  t_.flush_pending();
  const cfg::Id at = t_.address(cells);
  for (std::size_t k = 0; k < values_.size(); ++k) {
    const Type type = t_.type_of(values_[k]);
    const cfg::Mem mem = type == Type::F64 ? cfg::Mem::F64 : type == Type::F32 ? cfg::Mem::F32 : cfg::Mem::I64;
    t_.store(at, static_cast<int>(k * sizeof(int64_t)), values_[k], mem);
  }
  return t_.integer(static_cast<int64_t>(code_));
}

cfg::Id Parts::made_tuple(const Typed& v) {
  Parts parts(t_);
  parts.add(kTuplePart, cfg::kNone);
  for (const Typed& item : v.items) parts.add(known(t_, item));
  parts.add(kEnd, cfg::kNone);
  return update(t_, kNewTuple, parts.code(), t_.integer(0));
}

void Parts::add(uint64_t part, cfg::Id value) {
  if (count_ == kMostParts - 1) throw NotCompiled{"a long list or tuple"};
  code_ |= part << (kPartBits * count_++);
  if (value != cfg::kNone) values_.push_back(value);
}

}  // namespace framejit::capture
