// Attributes of instances in a compiled loop. One that the loop stores is a variable like others, and the instance gets
// it where the loop is left: nothing looks at the instance before.
#include <algorithm>

#include "capture/attributes.h"
#include "capture/loops/translator.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/repr.h"

namespace framejit::capture {

using Kind = Typed::Kind;

/// What another object has under that name stays what it was: the objects are two.
void LoopTranslator::keep_apart(const Value* from, const std::string& name,
                                const std::vector<std::pair<Value*, std::string>>& others) {
  for (const auto& [value, its_name] : others) {
    if (value == from || its_name != name) continue;
    if (value->object.get() == from->object.get()) throw NotCompiled{"attributes of an object with two names"};
    session_.add_guard(identity_guard(from->source, value->source, false));
  }
}

std::optional<Typed> LoopTranslator::stored_attribute(const Typed& v, PyObject* name) {
  const std::string text = text_of(name);
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Object || !v.value->source) return std::nullopt;
  // What a property gives goes by other attributes.
  if (!reads_plainly(v.value, name)) throw NotCompiled{"the attribute " + text + ", which is computed"};
  const std::pair<Value*, std::string> key(v.value, text);
  keep_apart(v.value, text, stored_attributes_);
  if (std::find(read_attributes_.begin(), read_attributes_.end(), key) == read_attributes_.end())
    read_attributes_.push_back(key);
  const auto at = state_.attributes.find(key);
  return at == state_.attributes.end() ? std::nullopt : std::optional(at->second.value);
}

void LoopTranslator::store_attribute(const Typed& v, PyObject* name, const Typed& value) {
  const std::string text = text_of(name);
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Object || !v.value->source)
    throw NotCompiled{"a store to an attribute of what is no instance"};
  if (!value.is_single()) throw NotCompiled{"a store to an attribute of what is no number"};
  const std::pair<Value*, std::string> key(v.value, text);
  if (state_.attributes.count(key) == 0) {
    // There is a number before, which runs no code when it goes.
    const Captured<Value*> before = capture::get_attr(executor_, v.value, name);
    Typed number;
    number.kind = Kind::Object;
    if (before && *before) number.value = look(executor_, *before);
    if (!number.value || !known(number).is_single()) throw NotCompiled{"a store to an attribute that holds no number"};
    if (!stores_plainly(executor_, v.value, name)) throw NotCompiled{"a store to an attribute that may run code"};
    if (!has_own_dict(v.value->object.get())) throw NotCompiled{"a store to an attribute of a shared __dict__"};
    if (has_instance_dict(Py_TYPE(v.value->object.get()))) guard(executor_, GuardKind::OwnDict, v.value->source);
    keep_apart(v.value, text, read_attributes_);
    keep_apart(v.value, text, stored_attributes_);
    if (std::find(stored_attributes_.begin(), stored_attributes_.end(), key) == stored_attributes_.end())
      stored_attributes_.push_back(key);
  }
  state_.attributes[key] = {value, Ref<>::share(name)};
}

}  // namespace framejit::capture
