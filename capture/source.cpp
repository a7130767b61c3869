// Sources as Python expressions, and their equality.
#include "capture/source.h"

#include <algorithm>

#include "capture/py/repr.h"

namespace framejit::capture {

std::string Source::str() const {
  const std::string from = base ? base->str() : std::string();
  switch (kind) {
    case SourceKind::Local: return name.empty() ? "local[" + std::to_string(index) + "]" : name;
    case SourceKind::Stack: return "stack[" + std::to_string(index) + "]";
    case SourceKind::Word: return "word[" + std::to_string(index) + "]";
    case SourceKind::Constant: return name.empty() ? short_repr(object.get()) : name;
    case SourceKind::Global: {
      // A name of another module is qualified; the frame's own globals are told by an empty `name`.
      std::string key_text = text_of(key.get());
      return name.empty() ? key_text : name + "." + key_text;
    }
    case SourceKind::Builtin: return text_of(key.get());
    case SourceKind::Cell: return from;
    case SourceKind::Closure:
      return name.empty() ? (base ? from + "." : "") + "__closure__[" + std::to_string(index) + "]" : name;
    case SourceKind::Attr: return from + "." + text_of(key.get());
    case SourceKind::Item: return from + "[" + (key ? short_repr(key.get()) : std::to_string(index)) + "]";
    case SourceKind::Default:
      if (key) return from + ".__kwdefaults__[" + short_repr(key.get()) + "]";
      return index < 0 ? from + ".__defaults__" : from + ".__defaults__[" + std::to_string(index) + "]";
    case SourceKind::Self: return from + ".__self__";
    case SourceKind::Method: return from + ".__func__";
    case SourceKind::Cached: return from + name;
  }
  return {};
}

SourceRef slot_source(SourceKind kind, int index, std::string name) {
  auto s = std::make_shared<Source>();
  s->kind = kind;
  s->index = index;
  s->name = std::move(name);
  return s;
}

bool same(const Source& a, const Source& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.index != b.index || a.object.get() != b.object.get()) return false;
  if (!same_key(a.key.get(), b.key.get())) return false;
  const auto same_part = [](const HeldRef& x, const HeldRef& y) { return same_key(x.get(), y.get()); };
  if (!std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same_part)) return false;
  if (!a.base || !b.base) return a.base == b.base;
  return same(*a.base, *b.base);
}

std::size_t hash_of(const Source& s) {
  std::size_t hash = static_cast<std::size_t>(s.kind) * 31 + static_cast<std::size_t>(s.index);
  hash = hash * 1000003 + reinterpret_cast<std::size_t>(s.object.get());
  hash = hash * 1000003 + key_hash(s.key.get());
  return s.base ? hash * 1000003 + hash_of(*s.base) : hash;
}

}  // namespace framejit::capture
