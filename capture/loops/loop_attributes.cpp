// Attributes of instances in a compiled loop. One that the loop stores is a variable like others, and the instance gets
// it where the loop is left: nothing looks at the instance before. Objects whose attributes of one name are read and
// stored are known to be distinct. Properties are refused, because they may depend on such an attribute.
//
// A variable that functions share is a cell. What the loop stores in an existing cell is written at the exit, as an
// attribute is. Cells of inlined functions are variables (Kind::Cell).
#include <algorithm>
#include <cstddef>

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

PyObject* name_of_contents() {
  static PyObject* const name = PyUnicode_InternFromString("cell_contents");
  return name;
}

void note_use(std::vector<std::pair<Value*, std::string>>& uses, const std::pair<Value*, std::string>& key) {
  if (std::find(uses.begin(), uses.end(), key) == uses.end()) uses.push_back(key);
}

/// The value and the name under which the contents of a cell are kept, however it is reached.
std::pair<Value*, std::string> key_of_cell(LoopTranslator& t, const Typed& cell) {
  if (cell.kind != Kind::Object || !cell.value->source || !PyCell_Check(cell.value->object.get()))
    throw NotCompiled{"a variable of a function around it", t.imagined_graph != nullptr};
  return {cell_of(t.executor, cell.value->object.get(), cell.value->source), text_of(name_of_contents())};
}

}  // namespace

Typed load_cell(LoopTranslator& t, const Typed& cell) {
  if (cell.kind == Kind::Cell) {
    if (cell.items[0].kind == Kind::Unbound) throw NotCompiled{"a variable that is not bound"};
    return cell.items[0];
  }
  const auto key = key_of_cell(t, cell);
  keep_apart(t, key.first, key.second, t.attributes.stored);
  note_use(t.attributes.read, key);
  if (const auto at = t.state.attributes.find(key); at != t.state.attributes.end()) return at->second.value;
  if (key.first->items.empty()) throw NotCompiled{"a variable that is not bound"};
  Typed v;
  v.kind = Kind::Object;
  v.value = key.first->items[0];
  guard(t.executor, GuardKind::Bound, v.value->source);
  return v;
}

void store_cell(LoopTranslator& t, Typed& cell, const Typed& value) {
  if (cell.kind == Kind::Cell) {
    cell.items = {value};
    return;
  }
  if (!value.is_single())
    throw NotCompiled{"a store to a variable that functions share, of something that is not a number"};
  const auto key = key_of_cell(t, cell);
  if (t.state.attributes.count(key) == 0) {
    // There is a number before, or nothing, so no code runs when it goes.
    Typed before;
    before.kind = Kind::Object;
    if (key.first->items.empty()) {
      cfg::Node contents;
      contents.op = cfg::Op::Load;
      contents.type = cfg::Type::I64;
      contents.args[0] = t.input(cfg::Op::Object, t.fetched(key.first->source));
      contents.imm = offsetof(PyCellObject, ob_ref);
      t.check(t.op(cfg::Op::Eq, cfg::Type::I64, t.at_entry(contents), t.integer(0)));
    } else {
      before.value = look(t.executor, key.first->items[0]);
      if (!known(t, before).is_single()) throw NotCompiled{"a store to a variable that functions share"};
    }
    keep_apart(t, key.first, key.second, t.attributes.read);
    keep_apart(t, key.first, key.second, t.attributes.stored);
    note_use(t.attributes.stored, key);
  }
  t.state.attributes[key] = {value, Ref<>::share(name_of_contents())};
}

std::optional<Typed> stored_attribute(LoopTranslator& t, const Typed& v, PyObject* name) {
  const std::string text = text_of(name);
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Object || !v.value->source) return std::nullopt;
  // What a property gives goes by other attributes.
  if (!reads_plainly(v.value, name)) throw NotCompiled{"the attribute " + text + ", which is computed"};
  const std::pair<Value*, std::string> key(v.value, text);
  keep_apart(t, v.value, text, t.attributes.stored);
  note_use(t.attributes.read, key);
  const auto at = t.state.attributes.find(key);
  return at == t.state.attributes.end() ? std::nullopt : std::optional(at->second.value);
}

void store_attribute(LoopTranslator& t, const Typed& v, PyObject* name, const Typed& value) {
  const std::string text = text_of(name);
  if (v.kind != Kind::Object || v.value->kind != ValueKind::Object || !v.value->source)
    throw NotCompiled{"a store to an attribute of something that is not an instance"};
  if (!value.is_single()) throw NotCompiled{"a store to an attribute of something that is not a number"};
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
    note_use(t.attributes.stored, key);
  }
  t.state.attributes[key] = {value, Ref<>::share(name)};
}

}  // namespace framejit::capture
