// The interpreter of guard programs.
#include "ext/guards/guard_program.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "capture/py/instance.h"
#include "capture/py/interpreter.h"
#include "capture/py/layouts.h"
#include "capture/py/repr.h"
#include "ext/arrays/tensor_object.h"
#include "ext/guards/guard_program_impl.h"

namespace framejit::ext::guards {

namespace {

/// The item that is not as expected, or -1.
[[gnu::noinline]] int refresh(DictGroup& group) {
  // The tag is read first: should a lookup of a key with the same hash run user code that changes the dict, the next
  // match looks again.
  const uint64_t tag = group.version.now();
  group.tag = 0;
  for (std::size_t i = 0; i < group.items.size(); ++i) {
    DictGroup::Item& item = group.items[i];
    PyObject* value = _PyDict_GetItem_KnownHash(group.dict, item.key, item.hash);
    if (!value && PyErr_Occurred()) PyErr_Clear();
    if (!DictGroup::fits(item, value)) return static_cast<int>(i);
    item.value = value;
  }
  group.tag = tag;
  return -1;
}

bool keys_are(PyObject* dict, PyObject* keys) {
  if (!capture::is_known_dict(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return false;
  Py_ssize_t position = 0, i = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value)) {
    PyObject* expected = PyTuple_GET_ITEM(keys, i++);
    if (key != expected && !same_value(key, expected)) return false;
  }
  return true;
}

bool elements_are(PyObject* set, PyObject* elements, int64_t most) {
  if (!PyAnySet_CheckExact(set)) return false;
  if (elements ? PySet_GET_SIZE(set) != PyTuple_GET_SIZE(elements) : PySet_GET_SIZE(set) > most) return false;
  Py_ssize_t position = 0, i = 0;
  PyObject* element;
  Py_hash_t hash;
  while (_PySet_NextEntry(set, &position, &element, &hash)) {
    PyObject* expected = elements ? PyTuple_GET_ITEM(elements, i++) : nullptr;
    if (elements ? element != expected && !same_value(element, expected) : !capture::is_plain_key(element))
      return false;
  }
  return true;
}

bool mro_is(PyObject* type, const capture::Source& source) {
  PyObject* mro = type && PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type)->tp_mro : nullptr;
  return mro && PyTuple_GET_SIZE(mro) == static_cast<Py_ssize_t>(source.parts.size()) &&
         std::equal(source.parts.begin(), source.parts.end(), &PyTuple_GET_ITEM(mro, 0),
                    [](const capture::HeldRef& part, const PyObject* cls) { return part.get() == cls; });
}

/// Up to this count all pairs are compared, which is faster than a sort.
constexpr std::size_t kFew = 4;

bool are_distinct(const ApartTest& test) {
  std::vector<PyObject*>& objects = test.objects;
  if (objects.size() <= kFew) {
    for (std::size_t i = 0; i < test.count; ++i)
      for (std::size_t j = i + 1; j < objects.size(); ++j)
        if (objects[i] == objects[j]) return false;
    return true;
  }
  const auto rest = objects.begin() + static_cast<std::ptrdiff_t>(test.count);
  std::sort(objects.begin(), rest);
  return std::adjacent_find(objects.begin(), rest) == rest &&
         std::none_of(rest, objects.end(), [&](PyObject* o) { return std::binary_search(objects.begin(), rest, o); });
}

ApartTest::Range range_of(const ApartTest& test, std::size_t i) {
  PyObject* array = test.objects[i];  // their Array guards were tested: they are ndarrays or Tensors
  ApartTest::Range range{0, 0, i < test.count};
  memory_bounds(arrays::as_ndarray(arrays::is_tensor(array) ? arrays::tensor_array(array) : array), range.low,
                range.high);
  return range;
}

bool are_disjoint(const ApartTest& test) {
  const std::size_t count = test.objects.size();
  if (count <= kFew) {
    std::array<ApartTest::Range, kFew> few;
    for (std::size_t i = 0; i < count; ++i) {
      few[i] = range_of(test, i);
      for (std::size_t j = 0; j < std::min(i, test.count); ++j)
        if (std::max(few[i].low, few[j].low) < std::min(few[i].high, few[j].high)) return false;
    }
    return true;
  }
  std::vector<ApartTest::Range>& ranges = test.ranges;
  ranges.clear();
  for (std::size_t i = 0; i < count; ++i)
    if (const ApartTest::Range range = range_of(test, i); range.low < range.high) ranges.push_back(range);
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  uintptr_t end = 0, end_of_first = 0;  // of all so far, and of the first `count` among them
  for (const ApartTest::Range& range : ranges) {
    if (range.low < (range.first ? end : end_of_first)) return false;
    end = std::max(end, range.high);
    if (range.first) end_of_first = std::max(end_of_first, range.high);
  }
  return true;
}

bool holds(const RelationTest& test, const int64_t* symbols, std::size_t symbol_count) {
  int64_t left = 0, right = 0;
  return test.left.evaluate(symbols, symbol_count, left) && test.right.evaluate(symbols, symbol_count, right) &&
         graph::related(test.relation, left, right) == test.outcome;
}

}  // namespace

bool array_fits(const ArrayTest& test, PyObject* object, Matched& m, std::size_t symbol_count) {
  if (Py_TYPE(object) != test.type) return false;
  char* data = nullptr;
  switch (test.wrap) {
    case capture::Wrap::Tensor:
    case capture::Wrap::NdArray: {
      PyArrayObject* held = arrays::held_array(test.wrap, object);
      const auto* array = reinterpret_cast<PyArrayObject_fields*>(held);
      if (array->descr != test.descr && !arrays::same_descr(array->descr, test.type_number)) return false;
      if (array->nd != test.rank || (array->flags & test.flags) != test.flags) return false;
      for (int i = 0; i < test.rank; ++i) {
        if (test.binds[i]) m.symbols[test.shape[i].value] = array->dimensions[i];
        else if (!test.shape[i].is(array->dimensions[i], m.symbols, symbol_count)) return false;
      }
      if (test.layout == ArrayTest::Product) {
        int64_t stride = test.item_size;
        for (int i = test.rank - 1; i >= 0; --i) {
          if (array->strides[i] != stride) return false;
          stride *= array->dimensions[i];
        }
      } else if (test.layout == ArrayTest::Exact) {
        for (int i = 0; i < test.rank; ++i)
          if (!test.strides[i].is(array->strides[i], m.symbols, symbol_count)) return false;
      }
      data = array->data;
      break;
    }
    case capture::Wrap::NumpyScalar: data = arrays::scalar_value(object); break;
    case capture::Wrap::PyFloat:
      data = reinterpret_cast<char*>(&reinterpret_cast<PyFloatObject*>(object)->ob_fval);
      break;
    case capture::Wrap::PyComplex:
      data = reinterpret_cast<char*>(&reinterpret_cast<PyComplexObject*>(object)->cval);
      break;
    case capture::Wrap::PyInt: {
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
      if (overflow) return false;
      if (test.input < 0) return true;
      m.scalars[2 * test.input] = value;
      data = reinterpret_cast<char*>(&m.scalars[2 * test.input]);
      break;
    }
    case capture::Wrap::Generator:
      if (test.input < 0) return true;
      m.scalars[2 * test.input] = reinterpret_cast<int64_t>(object);
      data = reinterpret_cast<char*>(&m.scalars[2 * test.input]);
      break;
    case capture::Wrap::PyBool:
      if (test.input < 0) return true;
      m.scalars[2 * test.input] = object == Py_True;
      data = reinterpret_cast<char*>(&m.scalars[2 * test.input]);
      break;
  }
  if (test.input >= 0) m.params[test.input] = data;
  return true;
}

namespace {

inline bool known_array_fits(const KnownArray& test, PyObject* object) {
  if (!object || Py_TYPE(object) != test.type) return false;
  const auto* array = reinterpret_cast<PyArrayObject_fields*>(object);
  if (array->descr != test.descr && !arrays::same_descr(array->descr, test.type_number)) [[unlikely]]
    return false;
  if (array->nd != test.rank || (array->flags & test.flags) != test.flags) return false;
  for (int axis = 0; axis < test.rank; ++axis)
    if (array->dimensions[axis] != test.dims[axis]) return false;
  return true;
}

}  // namespace

int GuardProgram::run(Matched& m) const noexcept {
  const capture::py::Slots locals = m.live->locals;
  for (const KnownArray& test : known_) {
    PyObject* array = locals[test.local];
    if (!known_array_fits(test, array)) return kKnown + static_cast<int>(&test - known_.data());
    m.params[test.input] = reinterpret_cast<PyArrayObject_fields*>(array)->data;
  }
  const GuardInstr* const begin = impl_->code.data();
  const GuardInstr* const end = begin + impl_->code.size();
  const std::size_t symbol_count = symbols_;
  for (const GuardInstr* i = begin; i != end; ++i) {
    bool ok = false;
    switch (i->op) {
      case GuardOp::FetchGroup: {
        DictGroup& group = impl_->groups[i->number];
        if (!group.version.is(group.tag) && refresh(group) >= 0) break;
        for (const uint32_t item : group.wanted) m.slots[group.items[item].slot] = group.items[item].value;
        ok = true;
        break;
      }
      case GuardOp::FetchCell: {
        PyObject* cell = object(m, i->a);
        PyObject* value = cell && PyCell_Check(cell) ? PyCell_GET(cell) : nullptr;
        m.slots[i->out] = value;
        ok = value != nullptr;
        break;
      }
      case GuardOp::FetchClosure: ok = (m.slots[i->out] = fetch_closure(object(m, i->a), i->number)) != nullptr; break;
      case GuardOp::FetchAttr: {
        KnownAttribute& known = impl_->attributes[static_cast<std::size_t>(i->number)];
        ok = (m.slots[i->out] = fetch_attribute(object(m, i->a), i->key, known)) != nullptr;
        break;
      }
      case GuardOp::FetchKey: ok = (m.slots[i->out] = fetch_item(object(m, i->a), i->key)) != nullptr; break;
      case GuardOp::FetchIndex: ok = (m.slots[i->out] = fetch_index(object(m, i->a), i->number)) != nullptr; break;
      case GuardOp::FetchDefault: ok = (m.slots[i->out] = fetch_default(object(m, i->a), i->number)) != nullptr; break;
      case GuardOp::FetchKeywordDefault:
        ok = (m.slots[i->out] = fetch_keyword_default(object(m, i->a), i->key)) != nullptr;
        break;
      case GuardOp::FetchSelf: ok = (m.slots[i->out] = fetch_self(object(m, i->a))) != nullptr; break;
      case GuardOp::FetchMethod: ok = (m.slots[i->out] = fetch_method(object(m, i->a))) != nullptr; break;
      case GuardOp::FetchCached: ok = (m.slots[i->out] = fetch_cached(object(m, i->a), *i->source)) != nullptr; break;
      case GuardOp::Bound: ok = object(m, i->a) != nullptr; break;
      case GuardOp::Identity: ok = object(m, i->a) == i->object; break;
      case GuardOp::Type: {
        PyObject* o = object(m, i->a);
        ok = o && reinterpret_cast<PyObject*>(Py_TYPE(o)) == i->object;
        break;
      }
      case GuardOp::Equal: {
        PyObject* o = object(m, i->a);
        ok = o == i->object || (o && same_value(o, i->object));
        break;
      }
      case GuardOp::Array: {
        PyObject* o = object(m, i->a);
        ok = o && array_fits(impl_->arrays[i->number], o, m, symbol_count);
        break;
      }
      case GuardOp::IntSymbol: {
        PyObject* o = object(m, i->a);
        if (i->object) {
          ok = o && PyList_CheckExact(o);
          if (ok) m.symbols[i->number] = PyList_GET_SIZE(o);
          break;
        }
        if (!o || !PyLong_CheckExact(o)) break;
        int overflow = 0;
        m.symbols[i->number] = PyLong_AsLongLongAndOverflow(o, &overflow);
        ok = overflow == 0;
        break;
      }
      case GuardOp::Length: {
        PyObject* o = object(m, i->a);
        if (!o) break;
        if (PyTuple_Check(o) || PyList_CheckExact(o)) ok = Py_SIZE(o) == i->number;
        else
          ok = (capture::is_known_dict(o) && PyDict_GET_SIZE(o) == i->number) ||
               (PyAnySet_CheckExact(o) && PySet_GET_SIZE(o) == i->number);
        break;
      }
      case GuardOp::Width: {
        PyObject* o = object(m, i->a);
        ok = o && capture::py::width_of(o) == i->number;
        break;
      }
      case GuardOp::Member: {
        PyObject* o = object(m, i->a);
        const int found = o && PyAnySet_CheckExact(o) ? PySet_Contains(o, i->key) : -1;
        if (found < 0 && PyErr_Occurred()) PyErr_Clear();
        ok = found == i->number;
        break;
      }
      case GuardOp::Elements: {
        PyObject* o = object(m, i->a);
        ok = o && elements_are(o, i->object, i->number);
        break;
      }
      case GuardOp::Keys: {
        PyObject* o = object(m, i->a);
        ok = o && keys_are(o, i->object);
        break;
      }
      case GuardOp::Unbound: ok = object(m, i->a) == nullptr; break;
      case GuardOp::NotCached: ok = fetch_cached(object(m, i->a), *i->source) == nullptr; break;
      case GuardOp::HasNot: {
        PyObject* o = object(m, i->a);
        ok = o && lacks_attribute(o, i->key, i->number == 1);
        break;
      }
      case GuardOp::TypeAttr: {
        PyObject* o = object(m, i->a);
        PyObject* type = i->number == 1 ? o : reinterpret_cast<PyObject*>(o ? Py_TYPE(o) : nullptr);
        ok = type && PyType_Check(type) && _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), i->key) == i->object;
        break;
      }
      case GuardOp::Mro: ok = mro_is(object(m, i->a), *i->source); break;
      case GuardOp::Code: {
        PyObject* o = object(m, i->a);
        ok = o && PyFunction_Check(o) && PyFunction_GET_CODE(o) == i->object &&
             (!i->key || PyFunction_GET_GLOBALS(o) == i->key);
        break;
      }
      case GuardOp::DimRelation: ok = holds(impl_->relations[i->number], m.symbols, symbol_count); break;
      case GuardOp::Disjoint:
      case GuardOp::Distinct: {
        const ApartTest& test = impl_->apart[i->number];
        test.objects.clear();
        for (const GuardOperand& operand : test.operands) test.objects.push_back(object(m, operand));
        ok = i->op == GuardOp::Distinct ? are_distinct(test) : are_disjoint(test);
        break;
      }
      case GuardOp::SameObject: ok = object(m, i->a) == object(m, i->b); break;
      case GuardOp::OwnDict: {
        PyObject* o = object(m, i->a);
        ok = o && capture::has_own_dict(o);
        break;
      }
      case GuardOp::Registrations: ok = *impl_->registrations == static_cast<unsigned long long>(i->number); break;
    }
    if (!ok) return static_cast<int>(i - begin);
  }
  return -1;
}

GuardProgram::GuardProgram() : impl_(std::make_unique<Impl>()) {}
GuardProgram::~GuardProgram() = default;

bool GuardProgram::sees(const Matched& m, const PyObject* object) const {
  auto among = [object](PyObject* const* objects, std::size_t count) {
    return std::find(objects, objects + count, object) != objects + count;
  };
  const LiveSlots& live = *m.live;
  return among(m.slots, slots_) || live.locals.holds(live.local_count, object) ||
         live.stack.holds(live.depth, object) || among(fixed_.data(), fixed_.size());
}

}  // namespace framejit::ext::guards
