// C methods of lists, dicts, tuples, strings and numbers over Values; methods of arrays go to their frontend.
#include <algorithm>
#include <cstring>

#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/calls.h"
#include "capture/containers.h"
#include "capture/generators.h"
#include "capture/instances.h"
#include "capture/named_tuples.h"
#include "capture/numbers.h"
#include "capture/objects.h"
#include "capture/operators.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"
#include "capture/sets.h"
#include "capture/text.h"

namespace framejit::capture {

namespace {

void set_items(Session& s, Value* v, Values items) {
  Values before = std::move(v->items);
  v->items = std::move(items);
  s.undo().record(v, [v, before = std::move(before)] { v->items = before; });
}

Unexpected<Break> unsupported(const std::string& method) {
  return break_at(BreakId::UnsupportedArgument, method + "()");
}

Captured<Value*> list_method(Executor& x, Value* list, const std::string& name, const Values& args) {
  Session& s = x.session();
  if (name == "append" && args.size() == 1) {
    FRAMEJIT_REQUIRE(append(x, list, args[0]));
    return x.none();
  }
  if (name == "extend" && args.size() == 1) {
    FRAMEJIT_REQUIRE(extend(x, list, look(x, args[0])));
    return x.none();
  }
  FRAMEJIT_REQUIRE(open(x, list));
  const auto size = static_cast<int64_t>(list->items.size());
  auto place = [&](Value* at, int64_t limit) -> Captured<int64_t> {
    at = look(x, at);
    if (!is_int_like(*at) || !fits_int64(*at)) return unsupported("list." + name);
    int64_t i = dim_of(*specialize(x, at)).value();
    if (i < 0) i += size;
    return std::min(std::max<int64_t>(i, -1), limit);
  };
  if (name == "pop" && args.size() <= 1) {
    int64_t at = size - 1;
    if (args.size() == 1) {
      FRAMEJIT_TRY(given, place(args[0], size));
      at = given;
    }
    if (size == 0) return raises(x, PyExc_IndexError, "pop from empty list");
    if (at < 0 || at >= size) return raises(x, PyExc_IndexError, "pop index out of range");
    Value* result = list->items[static_cast<std::size_t>(at)];
    FRAMEJIT_REQUIRE(replace_items(x, list, static_cast<std::size_t>(at), 1, {}));
    return result;
  }
  if (name == "insert" && args.size() == 2) {
    FRAMEJIT_TRY(at, place(args[0], size));
    FRAMEJIT_REQUIRE(replace_items(x, list, static_cast<std::size_t>(std::max<int64_t>(at, 0)), 0, {args[1]}));
    return x.none();
  }
  Values items = list->items;
  s.work().spend(items.size());
  if (name == "reverse" && args.empty()) {
    std::reverse(items.begin(), items.end());
  } else if (name == "clear" && args.empty()) {
    items.clear();
  } else if ((name == "index" || name == "count" || name == "remove") && args.size() == 1) {
    int64_t count = 0;
    std::size_t changes = s.undo().changes();
    for (std::size_t i = 0; i < items.size(); ++i) {
      FRAMEJIT_TRY(same, equal(x, look(x, items[i]), look(x, args[0])));
      if (has_changed(s, list, items, changes)) return changed_by_equality();
      count += same;
      if (!same || name == "count") continue;
      if (name == "index") return s.values().integer(graph::Dim(static_cast<int64_t>(i)));
      FRAMEJIT_REQUIRE(replace_items(x, list, i, 1, {}));
      return x.none();
    }
    if (name == "count") return s.values().integer(graph::Dim(count));
    if (name == "index") {
      Unexpected<Break> missing = break_at(BreakId::WouldRaise, "list.index(x): x not in list");
      missing.error.raised = make_exception(x, PyExc_ValueError);
      return missing;
    }
    return raises(x, PyExc_ValueError, "list.remove(x): x not in list");
  } else if (name == "copy" && args.empty()) {
    Value* copy = s.values().make(ValueKind::List);
    copy->items = std::move(items);
    return copy;
  } else {
    return break_at(BreakId::UnknownCallable, "'list." + name + "'");
  }
  if (may_finalize_in(list, list->items, items)) return finalizes();
  set_items(s, list, std::move(items));
  if (list->source) x.effects().replace(list);
  return x.none();
}

Captured<Value*> dict_method(Executor& x, Value* dict, const std::string& name, const Values& args,
                             const Keywords& keywords) {
  Session& s = x.session();
  if ((name == "keys" || name == "values" || name == "items") && args.empty()) {
    Value* view = s.values().make(ValueKind::Iterator);
    view->as_iterator().over = name == "keys" ? Over::Keys : name == "values" ? Over::Values : Over::Items;
    view->as_iterator().position = kView;
    view->items = {dict};
    return view;
  }
  if (name == "get" && (args.size() == 1 || args.size() == 2)) {
    FRAMEJIT_TRY(found, dict_peek(x, dict, look(x, args[0])));
    return found ? found : args.size() == 2 ? args[1] : x.none();
  }
  if (name == "setdefault" && args.size() == 2) {
    FRAMEJIT_TRY(at, find_key(x, dict, look(x, args[0])));
    if (at >= 0) return dict->items[static_cast<std::size_t>(at) + 1];
    FRAMEJIT_REQUIRE(dict_set(x, dict, look(x, args[0]), args[1]));
    return args[1];
  }
  if (name == "pop" && (args.size() == 1 || args.size() == 2)) {
    FRAMEJIT_TRY(at, find_key(x, dict, look(x, args[0])));
    if (at < 0) return args.size() == 2 ? Captured<Value*>(args[1]) : key_error(x, args[0]);
    Value* value = dict->items[static_cast<std::size_t>(at) + 1];
    FRAMEJIT_REQUIRE(del_item(x, dict, look(x, args[0])));
    return value;
  }
  if (name == "update" && args.size() <= 1) {
    if (args.size() == 1) {
      Value* other = look(x, args[0]);
      if (other->kind != ValueKind::Dict) return unsupported("dict.update");
      FRAMEJIT_REQUIRE(open(x, other));
      const Values pairs = other->items;
      for (std::size_t k = 0; k < pairs.size(); k += 2) {
        FRAMEJIT_REQUIRE(dict_set(x, dict, pairs[k], pairs[k + 1]));
      }
    }
    for (const auto& [key, value] : keywords) {
      FRAMEJIT_REQUIRE(dict_set(x, dict, s.values().constant(key), value));
    }
    return x.none();
  }
  if (name == "copy" && args.empty() && is_exact_dict(dict)) {
    FRAMEJIT_REQUIRE(open(x, dict));
    Value* copy = s.values().make(ValueKind::Dict);
    copy->items = dict->items;
    return copy;
  }
  // Not clear() and popitem(): a live iterator can tell them from deletions one by one.
  return break_at(BreakId::UnknownCallable, "'dict." + name + "'");
}

Captured<Value*> tuple_method(Executor& x, Value* tuple, const std::string& name, const Values& args) {
  if ((name != "count" && name != "index") || args.size() != 1)
    return break_at(BreakId::UnknownCallable, "'tuple." + name + "'");
  int64_t count = 0;
  for (std::size_t i = 0; i < tuple->items.size(); ++i) {
    FRAMEJIT_TRY(same, equal(x, look(x, tuple->items[i]), look(x, args[0])));
    if (same && name == "index") return x.values().integer(graph::Dim(static_cast<int64_t>(i)));
    count += same;
  }
  if (name == "index") return raises(x, PyExc_ValueError, "tuple.index(x): x not in tuple");
  return x.values().integer(graph::Dim(count));
}

constexpr Py_ssize_t kLongText = 10000;

// Methods of immutable constants without effects, whose results are no larger than a little.
constexpr const char* kPure[] = {
    "lower",        "upper",     "strip",      "lstrip",       "rstrip",       "startswith", "endswith",
    "split",        "rsplit",    "find",       "rfind",        "count",        "isdigit",    "isalpha",
    "isidentifier", "title",     "capitalize", "removeprefix", "removesuffix", "bit_length", "is_integer",
    "conjugate",    "partition", "rpartition", "isspace",      "isalnum",      "islower",    "isupper",
    "index",        "rindex",    "splitlines", "encode",       "decode",       "hex",        "as_integer_ratio",
    "casefold",     "swapcase"};

Captured<Value*> join(Executor& x, PyObject* separator, Value* parts) {
  FRAMEJIT_TRY(items, unpack_fast(x, parts));
  Value* const parts_tuple = x.values().tuple(std::move(items));
  Ref<> texts = plain(x, parts_tuple);
  if (!texts) {
    Ref<> join = Ref<>::steal(PyObject_GetAttrString(separator, "join"));
    return text(x, join.get(), {parts_tuple});
  }
  Ref<> text = Ref<>::steal(PyUnicode_Join(separator, texts.get()));
  return text ? Captured<Value*>(x.values().constant(text.get())) : raises_current(x, "join()");
}

Captured<Value*> fold_method(Executor& x, Value* self, const std::string& name, const Values& args,
                             const Keywords& keywords) {
  Ref<> packed = plain(x, x.values().tuple(args));
  Ref<> named = Ref<>::steal(PyDict_New());
  for (const auto& [key, value] : keywords) {
    Ref<> known = plain(x, value);
    if (!known || !named || PyDict_SetItem(named.get(), key, known.get()) < 0) named = {};
  }
  PyErr_Clear();
  if (!packed && name == "format" && keywords.empty() && PyUnicode_CheckExact(self->object.get())) {
    Ref<> format = Ref<>::steal(PyObject_GetAttrString(self->object.get(), "format"));
    return text(x, format.get(), args, self->object.get());
  }
  if (!packed || !named) return break_at(BreakId::UnknownObject, "text of a value");
  Ref<> method = Ref<>::steal(PyObject_GetAttrString(self->object.get(), name.c_str()));
  Ref<> result = method ? Ref<>::steal(PyObject_Call(method.get(), packed.get(), named.get())) : Ref<>();
  return result ? fresh(x, result.get()) : Captured<Value*>(raises_current(x, name));
}

Captured<Value*> constant_method(Executor& x, Value* self, const std::string& name, const Values& args,
                                 const Keywords& keywords) {
  PyObject* o = self->object.get();
  if (PyUnicode_CheckExact(o) && name == "join" && args.size() == 1) return join(x, o, look(x, args[0]));
  if (PyUnicode_CheckExact(o) && (name == "format" || name == "replace")) {
    Py_ssize_t size = PyUnicode_GET_LENGTH(o);
    for (Value* arg : args) {
      Ref<> given = plain(x, arg);
      if (given && PyUnicode_CheckExact(given.get())) size *= 1 + PyUnicode_GET_LENGTH(given.get());
    }
    const bool wide = name == "format" && text_of(o).find_first_of("*<>=^0123456789") != std::string::npos &&
                      text_of(o).find_first_of("{") != std::string::npos && PyUnicode_GET_LENGTH(o) > 200;
    if (size > kLongText || wide) return break_at(BreakId::CapturedTooMuch, name);
    return fold_method(x, self, name, args, keywords);
  }
  const bool is_text = PyUnicode_CheckExact(o) || PyBytes_CheckExact(o);
  if (is_text && PyObject_Size(o) > kLongText) return break_at(BreakId::CapturedTooMuch, "a method of a long text");
  bool known = false;
  for (const char* pure : kPure) known = known || name == pure;
  Ref<> packed = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  if (!packed) PyErr_Clear();
  if (!known || !packed || !is_plain(o))
    return break_at(BreakId::UnknownCallable, "'" + std::string(Py_TYPE(o)->tp_name) + "." + name + "'");
  for (std::size_t i = 0; i < args.size(); ++i) {
    Value* arg = look(x, args[i]);
    PyObject* object =
        arg->is_constant() || (arg->kind == ValueKind::Tuple && !arg->source) ? arg->object.get() : nullptr;
    if (!object || !is_plain(object)) return unsupported(name);
    PyTuple_SET_ITEM(packed.get(), static_cast<Py_ssize_t>(i), Ref<>::share(object).release());
  }
  Ref<> method = Ref<>::steal(PyObject_GetAttrString(o, name.c_str()));
  Ref<> result = method ? Ref<>::steal(PyObject_Call(method.get(), packed.get(), nullptr)) : Ref<>();
  if (!result) return raises_current(x, name);
  if (PyList_CheckExact(result.get())) {
    Value* list = x.values().make(ValueKind::List);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result.get()); ++i)
      list->items.push_back(fresh(x, PyList_GET_ITEM(result.get(), i)));
    return list;
  }
  return fresh(x, result.get());
}

}  // namespace

Captured<Value*> call_method(Executor& x, Value* self, const std::string& name, const Values& args,
                             const Keywords& keywords) {
  if (Frontend* frontend = frontend_of(x, *self)) {
    auto* type = reinterpret_cast<PyTypeObject*>(frontend->type_of(x.session(), *self));
    if (PyObject* raw = type ? type_attr(type, name.c_str()) : nullptr)
      if (Value* function = polyfill(x, raw)) {
        Values all{self};
        all.insert(all.end(), args.begin(), args.end());
        return call_function(x, function, all, keywords);
      }
    FRAMEJIT_TRY(given, forced(x, args, keywords));
    return frontend->call_method(x.session(), self, name, given.args, given.keywords);
  }
  if (self->kind == ValueKind::List && name == "sort" && args.empty()) {
    FRAMEJIT_REQUIRE(open(x, self));
    FRAMEJIT_TRY(order, sort_order(x, keywords));
    Values items = self->items;
    set_items(x.session(), self, {});  // as long as it is sorted
    FRAMEJIT_TRY(result, sorted(x, std::move(items), order.first, order.second));
    if (!self->items.empty()) return break_at(BreakId::WouldRaise, "list modified during sort");
    set_items(x.session(), self, result->items);
    if (self->source) x.effects().replace(self);
    return x.none();
  }
  const bool taken = (self->kind == ValueKind::Dict && name == "update") || (self->is_constant() && name == "format");
  if (!keywords.empty() && !taken) return unsupported(name);
  switch (self->kind) {
    case ValueKind::List: return list_method(x, self, name, args);
    case ValueKind::Set: return set_method(x, self, name, args);
    case ValueKind::Dict: return dict_method(x, self, name, args, keywords);
    case ValueKind::Tuple: return tuple_method(x, self, name, args);
    case ValueKind::Constant: return constant_method(x, self, name, args, keywords);
    case ValueKind::Iterator:
      if (self->as_iterator().over == Over::Generator) return generator_method(x, self, name, args);
      break;
    case ValueKind::Object: {
      FRAMEJIT_TRY(tuple, as_tuple(x, self, interned(name.c_str())));
      if (tuple) return tuple_method(x, tuple, name, args);
      break;
    }
    case ValueKind::Int:
    case ValueKind::Array:
      if (Value* known_value = specialize(x, self)) return constant_method(x, known_value, name, args, keywords);
      break;
    default: break;
  }
  return break_at(BreakId::UnknownCallable, "'" + name + "'");
}

}  // namespace framejit::capture
