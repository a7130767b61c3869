// Functions under functools.lru_cache. What is kept for the arguments is an object from outside, found in the cache;
// that the cache was asked is an effect. Where nothing is kept the function must run, which is a break.
#include "capture/caches.h"

#include "capture/attributes.h"
#include "capture/calls.h"
#include "capture/instances.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/lru_cache.h"
#include "capture/py/repr.h"
#include "capture/sets.h"

namespace framejit::capture {

namespace {

/// Do hash and equality of its instances go by identity?
bool is_told_by_identity(Executor& x, const Value* v) {
  for (const char* name : {"__hash__", "__eq__"}) {
    PyObject* raw = type_attr(class_of(*v), name);
    if (raw != type_attr(&PyBaseObject_Type, name)) return false;
    guard_lookup(x, v, raw, interned(name));
  }
  return true;
}

/// The very object that an argument is to the cache, under guards that tell it from all that are another key; null for
/// what has a hash or equality of its own.
Ref<> key_part(Executor& x, Value* v) {
  v = look(x, v);
  if (v->kind == ValueKind::Int) return {};  // it varies
  if (v->kind == ValueKind::Object && v->source && is_told_by_identity(x, v)) {
    guard(x, GuardKind::Identity, v->source, v->object.get());
    return v->object;
  }
  if (PyObject* function = v->kind == ValueKind::Function ? known(x, v) : nullptr) return Ref<>::share(function);
  if (v->is_constant()) {
    for (const Frontend* frontend : x.session().frontends())
      if (frontend->is_fixed(v->object.get())) return v->object;
    if (PyModule_CheckExact(v->object.get()) || PyCFunction_Check(v->object.get())) return v->object;
  }
  return element(x, v);
}

}  // namespace

Captured<Value*> call_cached(Executor& x, Value* cache, const Values& args, const Keywords& keywords) {
  PyObject* object = cache->object.get();
  guard(x, GuardKind::Identity, cache->source, object);
  if (lru_keeps_nothing(object)) {
    x.effects().count_call(object, nullptr);
    PyObject* function = lru_function(object);
    return call(x, wrap(x, function, fixed_source(function, cache->source->str() + ".__wrapped__")), args, keywords);
  }
  std::vector<Ref<>> parts;
  std::vector<std::pair<Ref<>, Ref<>>> named;
  std::string shown;
  bool known = x.options().variants < kMostVariants;
  for (std::size_t i = 0; known && i < args.size(); ++i) {
    parts.push_back(key_part(x, args[i]));
    known = static_cast<bool>(parts.back());
    shown += (shown.empty() ? "" : ", ") + short_repr(parts.back().get());
  }
  for (std::size_t i = 0; known && i < keywords.size(); ++i) {
    named.emplace_back(Ref<>::share(keywords[i].first), key_part(x, keywords[i].second));
    known = static_cast<bool>(named.back().second);
    shown += (shown.empty() ? "" : ", ") + text_of(keywords[i].first) + "=" + short_repr(named.back().second.get());
  }
  const std::string name = cache->source->str();
  if (!known)
    return break_at(BreakId::UnknownCallable, "cached " + name + "() of what varies, or has an __eq__ of its own");
  auto source = std::make_shared<Source>();
  source->kind = SourceKind::Cached;
  source->base = cache->source;
  source->name = "(" + shown + ")";
  source->parts = lru_key_parts(object, parts, named);
  const Ref<> key = lru_key(source->parts);
  PyObject* kept = key ? lru_result(object, key.get()) : nullptr;
  if (!kept) {
    source->base = fixed_source(object, name);
    auto absent = std::make_shared<Guard>();
    absent->kind = GuardKind::Unbound;
    absent->source = source;
    Unexpected<Break> miss = break_at(BreakId::CacheMiss, source->str());
    miss.error.while_holds = std::move(absent);
    return miss;
  }
  guard(x, GuardKind::Bound, source);
  x.effects().count_call(object, source);
  return look(x, lazy(x, kept, source));
}

}  // namespace framejit::capture
