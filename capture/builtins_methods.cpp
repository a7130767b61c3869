// C methods of lists, dicts, tuples, strings and numbers over Values; methods of arrays go to their door.
#include <algorithm>
#include <cstring>

#include "capture/builtins.h"
#include "capture/py/repr.h"

namespace framejit::capture {

namespace {

void set_items(Session& s, Value* v, Values items) {
  Values before = std::move(v->items);
  v->items = std::move(items);
  s.record([v, before = std::move(before)] { v->items = before; });
}

Unexpected<Break> unsupported(const std::string& method) {
  return break_at(BreakId::UnsupportedArgument, method + "()");
}

Captured<Value*> list_method(Executor& x, Value* list, const std::string& name, const Values& args) {
  Session& s = x.session();
  if (name == "append" && args.size() == 1) {
    FRAMEJIT_TRY(done, x.append(list, args[0]));
    (void)done;
    return x.none();
  }
  if (name == "extend" && args.size() == 1) {
    FRAMEJIT_TRY(items, x.unpack(x.look(args[0])));
    for (Value* item : items) {
      FRAMEJIT_TRY(done, x.append(list, item));
      (void)done;
    }
    return x.none();
  }
  FRAMEJIT_TRY(opened, x.open(list));
  (void)opened;
  Values items = list->items;
  Value* result = x.none();
  auto place = [&](Value* at, int64_t limit) -> Captured<int64_t> {
    at = x.look(at);
    if (!is_int_like(*at) || !fits_int64(*at)) return unsupported("list." + name);
    int64_t i = dim_of(*x.specialize(at)).value();
    if (i < 0) i += static_cast<int64_t>(items.size());
    return std::min(std::max<int64_t>(i, -1), limit);
  };
  if (name == "pop" && args.size() <= 1) {
    const auto size = static_cast<int64_t>(items.size());
    int64_t at = size - 1;
    if (args.size() == 1) {
      FRAMEJIT_TRY(given, place(args[0], size));
      at = given;
    }
    if (at < 0 || at >= size) return break_at(BreakId::WouldRaise, "pop index out of range");
    result = items[static_cast<std::size_t>(at)];
    items.erase(items.begin() + at);
  } else if (name == "insert" && args.size() == 2) {
    FRAMEJIT_TRY(at, place(args[0], static_cast<int64_t>(items.size())));
    items.insert(items.begin() + std::max<int64_t>(at, 0), args[1]);
  } else if (name == "reverse" && args.empty()) {
    std::reverse(items.begin(), items.end());
  } else if (name == "clear" && args.empty()) {
    items.clear();
  } else if (name == "copy" && args.empty()) {
    Value* copy = s.make(ValueKind::List);
    copy->items = std::move(items);
    return copy;
  } else {
    return break_at(BreakId::UnknownCallable, "'list." + name + "'");
  }
  set_items(s, list, std::move(items));
  if (list->source) x.effects().replace(list);
  return result;
}

Captured<Value*> dict_method(Executor& x, Value* dict, const std::string& name, const Values& args,
                             const Keywords& keywords) {
  Session& s = x.session();
  if ((name == "keys" || name == "values" || name == "items") && args.empty()) {
    Value* view = s.make(ValueKind::Iterator);
    view->iterated = name == "keys" ? kOverKeys : name == "values" ? kOverValues : kOverItems;
    view->position = kView;
    view->items = {dict};
    return view;
  }
  if (name == "get" && (args.size() == 1 || args.size() == 2)) {
    FRAMEJIT_TRY(found, x.dict_peek(dict, x.look(args[0])));
    return found ? found : args.size() == 2 ? args[1] : x.none();
  }
  if (name == "setdefault" && args.size() == 2) {
    FRAMEJIT_TRY(at, x.find_key(dict, x.look(args[0])));
    if (at >= 0) return dict->items[static_cast<std::size_t>(at) + 1];
    FRAMEJIT_TRY(stored, x.dict_set(dict, x.look(args[0]), args[1]));
    (void)stored;
    return args[1];
  }
  if (name == "pop" && (args.size() == 1 || args.size() == 2)) {
    FRAMEJIT_TRY(at, x.find_key(dict, x.look(args[0])));
    if (at < 0) return args.size() == 2 ? Captured<Value*>(args[1]) : break_at(BreakId::WouldRaise, "KeyError");
    Value* value = dict->items[static_cast<std::size_t>(at) + 1];
    FRAMEJIT_TRY(deleted, x.del_item(dict, x.look(args[0])));
    (void)deleted;
    return value;
  }
  if (name == "update" && args.size() <= 1) {
    if (args.size() == 1) {
      Value* other = x.look(args[0]);
      if (other->kind != ValueKind::Dict) return unsupported("dict.update");
      FRAMEJIT_TRY(opened, x.open(other));
      (void)opened;
      const Values pairs = other->items;
      for (std::size_t k = 0; k < pairs.size(); k += 2) {
        FRAMEJIT_TRY(stored, x.dict_set(dict, pairs[k], pairs[k + 1]));
        (void)stored;
      }
    }
    for (const auto& [key, value] : keywords) {
      FRAMEJIT_TRY(stored, x.dict_set(dict, s.constant(key), value));
      (void)stored;
    }
    return x.none();
  }
  if (name == "copy" && args.empty()) {
    FRAMEJIT_TRY(opened, x.open(dict));
    (void)opened;
    Value* copy = s.make(ValueKind::Dict);
    copy->items = dict->items;
    return copy;
  }
  return break_at(BreakId::UnknownCallable, "'dict." + name + "'");
}

Captured<Value*> tuple_method(Executor& x, Value* tuple, const std::string& name, const Values& args) {
  if ((name != "count" && name != "index") || args.size() != 1)
    return break_at(BreakId::UnknownCallable, "'tuple." + name + "'");
  int64_t count = 0;
  for (std::size_t i = 0; i < tuple->items.size(); ++i) {
    FRAMEJIT_TRY(same, x.equal(x.look(tuple->items[i]), x.look(args[0])));
    if (same && name == "index") return x.session().integer(graph::Dim(static_cast<int64_t>(i)));
    count += same;
  }
  if (name == "index") return break_at(BreakId::WouldRaise, "tuple.index(x): x not in tuple");
  return x.session().integer(graph::Dim(count));
}

// Methods of immutable constants without effects, whose results are no larger than a little.
constexpr const char* kPure[] = {"lower",      "upper",      "strip",        "lstrip",       "rstrip",
                                 "startswith", "endswith",   "split",        "rsplit",       "find",
                                 "rfind",      "count",      "isdigit",      "isalpha",      "isidentifier",
                                 "title",      "capitalize", "removeprefix", "removesuffix", "bit_length",
                                 "is_integer", "conjugate",  "partition",    "rpartition"};

Captured<Value*> constant_method(Executor& x, Value* self, const std::string& name, const Values& args) {
  PyObject* o = self->object.get();
  bool known = false;
  for (const char* pure : kPure) known = known || name == pure;
  Ref<> packed = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  if (!packed) PyErr_Clear();
  if (!known || !packed || !is_plain(o))
    return break_at(BreakId::UnknownCallable, "'" + std::string(Py_TYPE(o)->tp_name) + "." + name + "'");
  for (std::size_t i = 0; i < args.size(); ++i) {
    Value* arg = x.look(args[i]);
    PyObject* object =
        arg->is_constant() || (arg->kind == ValueKind::Tuple && !arg->source) ? arg->object.get() : nullptr;
    if (!object || !is_plain(object)) return unsupported(name);
    PyTuple_SET_ITEM(packed.get(), static_cast<Py_ssize_t>(i), Ref<>::share(object).release());
  }
  Ref<> method = Ref<>::steal(PyObject_GetAttrString(o, name.c_str()));
  Ref<> result = method ? Ref<>::steal(PyObject_Call(method.get(), packed.get(), nullptr)) : Ref<>();
  if (!result) {
    PyErr_Clear();
    return break_at(BreakId::WouldRaise, name);
  }
  if (PyList_CheckExact(result.get())) {
    Value* list = x.session().make(ValueKind::List);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(result.get()); ++i)
      list->items.push_back(x.literal(PyList_GET_ITEM(result.get(), i)));
    return list;
  }
  return x.literal(result.get());
}

}  // namespace

Captured<Value*> Executor::call_method(Value* self, const std::string& name, const Values& args,
                                       const Keywords& keywords) {
  if (Door* door = door_of(*self)) {
    Values forced;
    for (Value* a : args) {
      forced.push_back(look(a));
      FRAMEJIT_TRY(ok, force(forced.back()));
      (void)ok;
    }
    std::vector<std::string> names;
    names.reserve(keywords.size());
    std::vector<Keyword> named;
    for (const auto& [key, value] : keywords) {
      names.push_back(text_of(key));
      named.emplace_back(names.back(), look(value));
      FRAMEJIT_TRY(ok, force(named.back().second));
      (void)ok;
    }
    return door->call_method(session_, self, name, forced, named);
  }
  if (!keywords.empty() && !(self->kind == ValueKind::Dict && name == "update")) return unsupported(name);
  switch (self->kind) {
    case ValueKind::List: return list_method(*this, self, name, args);
    case ValueKind::Dict: return dict_method(*this, self, name, args, keywords);
    case ValueKind::Tuple: return tuple_method(*this, self, name, args);
    case ValueKind::Constant: return constant_method(*this, self, name, args);
    case ValueKind::Iterator:
      if (self->iterated == kGenerator) return generator_method(self, name, args);
      break;
    case ValueKind::Int:
    case ValueKind::Array:
      if (Value* known_value = specialize(self)) return constant_method(*this, known_value, name, args);
      break;
    default: break;
  }
  return break_at(BreakId::UnknownCallable, "'" + name + "'");
}

}  // namespace framejit::capture
