// Attributes of instances in a compiled loop. One that the loop stores is a variable like others, and the instance gets
// it where the loop is left: nothing looks at the instance before.
#include <algorithm>

#include "capture/attributes.h"
#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"

namespace framejit::capture {

using Kind = Typed::Kind;

namespace {

/// What another object has under that name stays what it was: the objects are two.
void keep_apart(LoopTranslator& t, const Value* from, const std::string& name,
                const std::vector<std::pair<Value*, std::string>>& others) {
  for (const auto& [value, its_name] : others) {
    if (value == from || its_name != name) continue;
    if (value->object.get() == from->object.get()) throw NotCompiled{"attributes of an object with two names"};
    t.session.guards().add(identity_guard(from->source, value->source, false));
  }
}

}  // namespace

std::optional<Typed> stored_attribute(LoopTranslator& t, const Typed& v, PyObject* name) {
  const std::string text = text_of(name);
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Object || !v.value->source) return std::nullopt;
  // What a property gives goes by other attributes.
  if (!reads_plainly(v.value, name)) throw NotCompiled{"the attribute " + text + ", which is computed"};
  const std::pair<Value*, std::string> key(v.value, text);
  keep_apart(t, v.value, text, t.attributes.stored);
  if (std::find(t.attributes.read.begin(), t.attributes.read.end(), key) == t.attributes.read.end())
    t.attributes.read.push_back(key);
  const auto at = t.state.attributes.find(key);
  return at == t.state.attributes.end() ? std::nullopt : std::optional(at->second.value);
}

void store_attribute(LoopTranslator& t, const Typed& v, PyObject* name, const Typed& value) {
  const std::string text = text_of(name);
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Object || !v.value->source)
    throw NotCompiled{"a store to an attribute of what is no instance"};
  if (!value.is_single()) throw NotCompiled{"a store to an attribute of what is no number"};
  const std::pair<Value*, std::string> key(v.value, text);
  if (t.state.attributes.count(key) == 0) {
    // There is a number before, which runs no code when it goes.
    const Captured<Value*> before = get_attr(t.executor, v.value, name);
    Typed number;
    number.kind = Kind::Object;
    if (before && *before) number.value = look(t.executor, *before);
    if (!number.value || !known(t, number).is_single())
      throw NotCompiled{"a store to an attribute that holds no number"};
    if (!stores_plainly(t.executor, v.value, name)) throw NotCompiled{"a store to an attribute that may run code"};
    if (!has_own_dict(v.value->object.get())) throw NotCompiled{"a store to an attribute of a shared __dict__"};
    if (has_instance_dict(Py_TYPE(v.value->object.get()))) guard(t.executor, GuardKind::OwnDict, v.value->source);
    keep_apart(t, v.value, text, t.attributes.read);
    keep_apart(t, v.value, text, t.attributes.stored);
    if (std::find(t.attributes.stored.begin(), t.attributes.stored.end(), key) == t.attributes.stored.end())
      t.attributes.stored.push_back(key);
  }
  t.state.attributes[key] = {value, Ref<>::share(name)};
}

}  // namespace framejit::capture
