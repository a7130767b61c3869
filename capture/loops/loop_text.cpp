// Strings in a compiled loop: a character is a number, its code point. A str is an existing one, or a constant, and the
// width of its characters is guarded (GuardKind::Width). Only instructions that look into it see its characters
// (pop_container); for others it is an object whose value is guarded.
#include <algorithm>
#include <cstring>
#include <utility>

#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/layouts.h"

namespace framejit::capture {

using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

int64_t is_digit(int64_t c) { return Py_UNICODE_ISDIGIT(static_cast<Py_UCS4>(c)) != 0; }
int64_t is_alpha(int64_t c) { return Py_UNICODE_ISALPHA(static_cast<Py_UCS4>(c)) != 0; }
int64_t is_alnum(int64_t c) { return Py_UNICODE_ISALNUM(static_cast<Py_UCS4>(c)) != 0; }
int64_t is_space(int64_t c) { return Py_UNICODE_ISSPACE(static_cast<Py_UCS4>(c)) != 0; }
int64_t is_upper(int64_t c) { return Py_UNICODE_ISUPPER(static_cast<Py_UCS4>(c)) != 0; }
int64_t is_lower(int64_t c) { return Py_UNICODE_ISLOWER(static_cast<Py_UCS4>(c)) != 0; }

int64_t has_character(int64_t string, int64_t character) {
  auto* const object = reinterpret_cast<PyObject*>(string);
  return PyUnicode_FindChar(object, static_cast<Py_UCS4>(character), 0, PyUnicode_GET_LENGTH(object), 1) >= 0;
}

#define FRAMEJIT_CHARACTER(name, function, operands) \
  {name, reinterpret_cast<const void*>(&function), Type::I64, operands, Type::I64}
const cfg::Function kTests[] = {FRAMEJIT_CHARACTER("isdigit", is_digit, 1), FRAMEJIT_CHARACTER("isalpha", is_alpha, 1),
                                FRAMEJIT_CHARACTER("isalnum", is_alnum, 1), FRAMEJIT_CHARACTER("isspace", is_space, 1),
                                FRAMEJIT_CHARACTER("isupper", is_upper, 1), FRAMEJIT_CHARACTER("islower", is_lower, 1)};
const cfg::Function kHasCharacter FRAMEJIT_CHARACTER("has_character", has_character, 2);
#undef FRAMEJIT_CHARACTER

Typed of_code_point(cfg::Id id) {
  Typed v;
  v.kind = Kind::Character;
  v.ids = {id};
  return v;
}

/// The text of a constant, or null.
PyObject* constant_text(const Typed& v) {
  const bool is_text = (v.kind == Kind::Object || v.kind == Kind::String) && v.value->is_constant() &&
                       PyUnicode_CheckExact(v.value->object.get());
  return is_text ? v.value->object.get() : nullptr;
}

}  // namespace

std::optional<Typed> string_of(LoopTranslator& t, const Typed& v) {
  if (v.kind == Kind::String) return v;
  if (v.kind != Kind::Object || !v.value->object || (!v.value->source && !v.value->is_constant())) return std::nullopt;
  const int width = py::width_of(v.value->object.get());
  if (width < 0) return std::nullopt;
  Typed string;
  string.kind = Kind::String;
  string.value = v.value;
  string.array = static_cast<uint32_t>(width);
  if (v.value->source) guard(t.executor, GuardKind::Width, v.value->source, nullptr, nullptr, width);
  const cfg::Id object = address_of_string(t, string);
  cfg::Node length, characters;
  length.op = Op::Load;
  characters.op = Op::Add;
  length.type = characters.type = Type::I64;
  length.args[0] = characters.args[0] = object;
  length.imm = py::kTextLength;
  characters.args[1] = t.integer(py::characters_at(width));
  string.ids = {t.at_entry(characters), t.at_entry(length)};
  return string;
}

cfg::Id address_of_string(LoopTranslator& t, const Typed& string) {
  if (string.value->source) return t.input(Op::Object, t.fetched(string.value->source));
  t.program->held.push_back(string.value->object);
  return t.address(string.value->object.get());
}

Typed character_at(LoopTranslator& t, const Typed& string, cfg::Id index) {
  const int size = std::max(static_cast<int>(string.array), 1);
  const cfg::Mem mem = size == 1 ? cfg::Mem::U8 : size == 2 ? cfg::Mem::U16 : cfg::Mem::U32;
  return of_code_point(t.load(string.ids[0], 0, mem, index, size));
}

std::optional<Typed> compare_characters(LoopTranslator& t, int op, const Typed& a, const Typed& b) {
  if (a.kind != Kind::Character && b.kind != Kind::Character) return std::nullopt;
  const auto code_point = [&](const Typed& v) -> cfg::Id {
    if (v.kind == Kind::Character) return v.ids[0];
    PyObject* const text = constant_text(v);
    if (!text) throw NotCompiled{"a comparison of a character with something that is not a constant"};
    return PyUnicode_GET_LENGTH(text) == 1 ? t.integer(PyUnicode_READ_CHAR(text, 0)) : cfg::kNone;
  };
  const cfg::Id x = code_point(a), y = code_point(b);
  if (x == cfg::kNone || y == cfg::kNone) {
    if (op != Py_EQ && op != Py_NE) throw NotCompiled{"the order of a character and a longer text"};
    return of_bool(t.integer(op == Py_NE));
  }
  switch (op) {
    case Py_LT: return of_bool(t.op(Op::Lt, Type::I64, x, y));
    case Py_LE: return of_bool(t.op(Op::Le, Type::I64, x, y));
    case Py_EQ: return of_bool(t.op(Op::Eq, Type::I64, x, y));
    case Py_NE: return of_bool(t.op(Op::Ne, Type::I64, x, y));
    case Py_GT: return of_bool(t.op(Op::Lt, Type::I64, y, x));
    default: return of_bool(t.op(Op::Le, Type::I64, y, x));
  }
}

cfg::Id contains_character(LoopTranslator& t, const Typed& string, const Typed& character) {
  constexpr Py_ssize_t kFew = 8;  // comparisons, instead of a call
  const cfg::Id c = character.ids[0];
  PyObject* const text = string.value->source ? nullptr : constant_text(string);
  if (!text || PyUnicode_GET_LENGTH(text) > kFew) return t.call(kHasCharacter, address_of_string(t, string), c);
  cfg::Id found = t.integer(0);
  for (Py_ssize_t k = 0; k < PyUnicode_GET_LENGTH(text); ++k)
    found = t.op(Op::Or, Type::I64, found, t.op(Op::Eq, Type::I64, c, t.integer(PyUnicode_READ_CHAR(text, k))));
  return found;
}

std::optional<Typed> call_on_character(LoopTranslator& t, PyObject* callable, const Typed& v) {
  const auto is_builtin = [&](const char* name) {
    if (!PyCFunction_Check(callable)) return false;
    PyObject* const module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
    return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "builtins") == 0 &&
           std::strcmp(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, name) == 0;
  };
  const auto below = [&](cfg::Id value, int64_t limit) { return t.op(Op::Below, Type::I64, value, t.integer(limit)); };
  if (v.kind == Kind::Int && is_builtin("chr")) {
    constexpr int64_t kCodePoints = 0x110000;
    t.check(below(v.ids[0], kCodePoints));
    return of_code_point(v.ids[0]);
  }
  if (v.kind != Kind::Character) return std::nullopt;
  if (is_builtin("ord")) return of_int(v.ids[0], true);
  if (callable == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    const cfg::Id digit = t.op(Op::Sub, Type::I64, v.ids[0], t.integer('0'));
    t.check(below(digit, 10));  // the interpreter knows other digits
    return of_int(digit, true);
  }
  if (callable == reinterpret_cast<PyObject*>(&PyUnicode_Type)) return v;
  return std::nullopt;
}

bool is_character_method(PyObject* name) {
  return std::any_of(std::begin(kTests), std::end(kTests),
                     [&](const cfg::Function& f) { return PyUnicode_CompareWithASCIIString(name, f.name) == 0; }) ||
         PyUnicode_CompareWithASCIIString(name, "upper") == 0 || PyUnicode_CompareWithASCIIString(name, "lower") == 0;
}

Typed call_character_method(LoopTranslator& t, const std::string& name, const Typed& character) {
  const cfg::Id c = character.ids[0];
  for (const cfg::Function& f : kTests)
    if (name == f.name) return of_bool(t.call(f, c));
  // Of ASCII characters only: others may become several.
  constexpr int64_t kAscii = 128, kLetters = 26, kShift = 'a' - 'A';
  t.check(t.op(Op::Below, Type::I64, c, t.integer(kAscii)));
  const bool is_upper = name == "upper";
  const cfg::Id from = t.op(Op::Sub, Type::I64, c, t.integer(is_upper ? 'a' : 'A'));
  const cfg::Id changes = t.op(Op::Below, Type::I64, from, t.integer(kLetters));
  return of_code_point(
      t.op(Op::Select, Type::I64, changes, t.op(Op::Add, Type::I64, c, t.integer(is_upper ? -kShift : kShift)), c));
}

}  // namespace framejit::capture
