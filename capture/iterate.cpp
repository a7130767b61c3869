// Iterators over known sequences: position and what they run over; each step is taken during capture.
#include "capture/iterate.h"

#include <algorithm>
#include <cmath>

#include "capture/attributes.h"
#include "capture/calls.h"
#include "capture/containers.h"
#include "capture/generators.h"
#include "capture/instances.h"
#include "capture/named_tuples.h"
#include "capture/numbers.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/sets.h"

namespace framejit::capture {

namespace {

/// Keys that are deleted leave holes that an iterator sees even where the number of keys is the same again.
Captured<Value*> start_dict(Executor& x, Value* it, Value* dict) {
  FRAMEJIT_TRY(n, length(x, dict));
  it->items = {dict, n};
  it->as_iterator().start = graph::Dim(dict->as_dict().deleted);
  return it;
}

constexpr std::int64_t kExhausted = -1;
constexpr int64_t kIteratedRows = 64;

void move_to(Session& s, Value* it, std::int64_t position) {
  const std::int64_t before = it->as_iterator().position;
  it->as_iterator().position = position;
  s.undo().record(it, [it, before] { it->as_iterator().position = before; });
}

}  // namespace

bool dict_changed(const Value& it) {
  const Value& dict = *it.items[0];
  return static_cast<int64_t>(dict.items.size() / 2) != dim_of(*it.items[1]).value() ||
         dict.as_dict().deleted != it.as_iterator().start.value();
}

Captured<Value*> iterate(Executor& x, Value* v) {
  Over over = Over::Sequence;
  switch (v->kind) {
    case ValueKind::Iterator:
      if (v->as_iterator().position != kView) return v;
      {
        Value* it = x.values().make(ValueKind::Iterator);
        it->as_iterator().over = v->as_iterator().over;
        return start_dict(x, it, v->items[0]);
      }
    case ValueKind::Tuple:
    case ValueKind::List: break;
    case ValueKind::Range:
      for (Value* part : v->items)
        if (!part->is_constant()) return break_at(BreakId::UnknownIterable, "a range whose bounds vary");
      over = Over::Range;
      break;
    case ValueKind::Dict: {
      Value* it = x.values().make(ValueKind::Iterator);
      it->as_iterator().over = Over::Keys;
      return start_dict(x, it, v);
    }
    case ValueKind::Array: {
      Frontend* frontend = frontend_of(x, *v);
      if (!frontend) return break_at(BreakId::WouldRaise, "iteration over a number");
      if (x.session().graph().type(v->id()).rank() == 0)
        return break_at(BreakId::WouldRaise, "iteration over a 0-d array");
      FRAMEJIT_TRY(size, frontend->length(x.session(), v));
      if (size->is_array()) return break_at(BreakId::UnknownIterable, "as many rows as a mask has chosen");
      if (size->is_constant() ? dim_of(*size).value() > kIteratedRows : x.shapes().hint(size->dim()) > kIteratedRows)
        return break_at(BreakId::CapturedTooMuch, "the rows of an array");
      if (!size->is_constant()) specialize(x, size);
      break;
    }
    case ValueKind::Set: return iterate_set(x, v);
    case ValueKind::Object: {
      FRAMEJIT_TRY(it, iterator_of(x, v));
      if (it) return it;
      FRAMEJIT_TRY(tuple, as_tuple(x, v, interned("__iter__")));
      return tuple ? iterate(x, tuple) : break_at(BreakId::UnknownIterable);
    }
    case ValueKind::Constant:
      if (PyUnicode_CheckExact(v->object.get())) break;
      if (PyFrozenSet_CheckExact(v->object.get()) && is_plain(v->object.get())) return iterate_set(x, v);
      if (PyType_Check(v->object.get())) {
        FRAMEJIT_TRY(it, iterator_of(x, v));
        if (it) return it;
      }
      [[fallthrough]];
    default: return break_at(BreakId::UnknownIterable);
  }
  Value* it = x.values().make(ValueKind::Iterator);
  it->as_iterator().over = over;
  it->items = {v};
  return it;
}

/// What an `__iter__` in Python gives; null where there is none.
Captured<Value*> iterator_of(Executor& x, Value* v) {
  FRAMEJIT_TRY(it, special(x, v, interned("__iter__"), {}));
  if (!it) return it;
  it = look(x, it);
  if (it->kind == ValueKind::Iterator && it->as_iterator().position != kView) return it;
  if (it->kind != ValueKind::Object) return break_at(BreakId::UnknownIterable);
  static PyObject* const kNext = interned("__next__");
  PyObject* next = type_attr(class_of(*it), kNext);
  guard_lookup(x, it, next, kNext);
  return next ? Captured<Value*>(it) : break_at(BreakId::WouldRaise, "__iter__() gives no iterator");
}

int64_t rounds_left(const Value* it) {
  if (it->kind != ValueKind::Iterator || it->as_iterator().position < 0) return -1;
  switch (it->as_iterator().over) {
    case Over::Sequence: {
      const Value* over = it->items[0];
      const bool known = !over->is_array() && !over->is_constant() && !over->partial;
      return known ? std::max<int64_t>(0, std::ssize(over->items) - it->as_iterator().position) : -1;
    }
    case Over::Range: {
      const Values& bounds = it->items[0]->items;
      const int64_t start = dim_of(*bounds[0]).value(), stop = dim_of(*bounds[1]).value(),
                    step = dim_of(*bounds[2]).value();
      const double rounds = std::ceil((static_cast<double>(stop) - static_cast<double>(start)) / step);
      return static_cast<int64_t>(std::clamp(rounds - static_cast<double>(it->as_iterator().position), 0.0, 1e15));
    }
    case Over::Enumerate: return rounds_left(it->items[0]);
    case Over::Zip: {
      int64_t least = INT64_MAX;
      for (const Value* each : it->items) least = std::min(least, rounds_left(each));
      return it->items.empty() ? 0 : least;
    }
    default: return -1;
  }
}

Captured<Value*> next_item(Executor& x, Value* it) {
  if (it->kind == ValueKind::Object) {  // an iterator in Python
    static PyObject* const kNext = interned("__next__");
    Captured<Value*> item = special(x, it, kNext, {});
    if (item) return *item ? item : break_at(BreakId::UnknownIterable, "an iterator from outside");
    const Value* raised = item.error().raised;
    if (raised && PyType_IsSubtype(class_of(*raised), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
      return static_cast<Value*>(nullptr);
    return item;
  }
  x.session().work().spend(8);
  auto end = [&]() -> Captured<Value*> {
    move_to(x.session(), it, kExhausted);
    return static_cast<Value*>(nullptr);
  };
  if (it->as_iterator().position == kView) return break_at(BreakId::WouldRaise, "next() of a view");
  if (it->as_iterator().position == kExhausted) return static_cast<Value*>(nullptr);
  if (it->as_iterator().over == Over::Generator) return resume_generator(x, it);
  const auto at = static_cast<std::size_t>(it->as_iterator().position);
  switch (it->as_iterator().over) {
    case Over::Sequence: {
      Value* over = it->items[0];
      Value* item = nullptr;
      if (over->is_array()) {
        Frontend* frontend = frontend_of(x, *over);
        FRAMEJIT_TRY(size, frontend->length(x.session(), over));
        Value* n = specialize(x, size);
        if (it->as_iterator().position >= dim_of(*n).value()) return end();
        FRAMEJIT_TRY(row,
                     frontend->get_item(x.session(), over, x.values().integer(graph::Dim(it->as_iterator().position))));
        item = row;
      } else if (over->is_constant()) {
        if (it->as_iterator().position >= PyUnicode_GET_LENGTH(over->object.get())) return end();
        Ref<> letter = Ref<>::steal(PySequence_GetItem(over->object.get(), it->as_iterator().position));
        if (!letter) {
          PyErr_Clear();
          return break_at(BreakId::WouldRaise, "iteration over a str");
        }
        item = x.values().constant(letter.get());
      } else {
        FRAMEJIT_REQUIRE(open(x, over));  // a list may have grown since
        if (at >= over->items.size()) return end();
        item = over->items[at];
      }
      move_to(x.session(), it, it->as_iterator().position + 1);
      return item;
    }
    case Over::Range: {
      const Value* range = it->items[0];
      const int64_t start = dim_of(*range->items[0]).value(), stop = dim_of(*range->items[1]).value(),
                    step = dim_of(*range->items[2]).value();
      const int64_t value = start + it->as_iterator().position * step;
      if (step > 0 ? value >= stop : value <= stop) return end();
      move_to(x.session(), it, it->as_iterator().position + 1);
      return x.values().integer(graph::Dim(value));
    }
    case Over::Reversed: {
      Value* over = it->items[0];
      const int64_t size = dim_of(*it->items[1]).value();
      if (over->items.size() < static_cast<std::size_t>(size - it->as_iterator().position) ||
          it->as_iterator().position >= size)
        return end();
      Value* item = over->items[static_cast<std::size_t>(size - 1 - it->as_iterator().position)];
      move_to(x.session(), it, it->as_iterator().position + 1);
      return item;
    }
    case Over::Enumerate: {
      FRAMEJIT_TRY(item, next_item(x, it->items[0]));
      if (!item) return static_cast<Value*>(nullptr);
      FRAMEJIT_TRY(count,
                   number_binary(x, 0, it->items[1], x.values().integer(graph::Dim(it->as_iterator().position))));
      move_to(x.session(), it, it->as_iterator().position + 1);
      return x.values().tuple({count, item});
    }
    case Over::Zip: {
      Values items;
      for (Value* inner : it->items) {
        FRAMEJIT_TRY(item, next_item(x, inner));
        if (!item) return static_cast<Value*>(nullptr);
        items.push_back(item);
      }
      if (items.empty()) return static_cast<Value*>(nullptr);
      return x.values().tuple(std::move(items));
    }
    case Over::Map: {
      Values args;
      for (std::size_t i = 1; i < it->items.size(); ++i) {
        FRAMEJIT_TRY(item, next_item(x, it->items[i]));
        if (!item) return static_cast<Value*>(nullptr);
        args.push_back(item);
      }
      return call(x, it->items[0], args, {});
    }
    case Over::Set: {
      if (static_cast<int64_t>(it->items[0]->items.size()) != dim_of(*it->items[2]).value())
        return break_at(BreakId::WouldRaise, "set changed during iteration");
      if (at >= it->items[1]->items.size()) return end();
      move_to(x.session(), it, it->as_iterator().position + 1);
      return it->items[1]->items[at];
    }
    case Over::Generator: break;
    case Over::Keys:
    case Over::Values:
    case Over::Items: {
      Value* dict = it->items[0];
      FRAMEJIT_REQUIRE(open(x, dict));
      if (dict_changed(*it)) return break_at(BreakId::WouldRaise, "dictionary changed size during iteration");
      if (2 * at >= dict->items.size()) return end();
      Value* key = literal(x, dict->items[2 * at]->object.get());
      Value* value = dict->items[2 * at + 1];
      move_to(x.session(), it, it->as_iterator().position + 1);
      if (it->as_iterator().over == Over::Keys) return key;
      return it->as_iterator().over == Over::Values ? value : x.values().tuple({key, value});
    }
  }
  return break_at(BreakId::UnknownIterable);
}

}  // namespace framejit::capture
