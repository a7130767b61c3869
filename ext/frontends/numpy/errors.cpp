// np.seterr, np.geterr, and what np.errstate of NumPy 2 is made of: the handling of floating-point flags, as the
// region's own state (capture/session.h). np.errstate itself is Python code that capture follows.
#include "ext/frontends/numpy/call.h"

#include "ext/arrays/numpy_api.h"

namespace framejit::ext::frontends {

namespace {

constexpr const char* kClasses[] = {"divide", "over", "under", "invalid"};
constexpr std::string_view kActions[] = {"ignore", "warn", "raise", "call", "print", "log"};

enum class Function : uint8_t { None, SetErr, GetErr, Make, Set, Reset };

/// The context variable of NumPy 2 that holds the handling; null in NumPy 1.
PyObject* state_variable() {
  static PyObject* const variable = PyObject_GetAttrString(arrays::umath_module(), "_extobj_contextvar");
  PyErr_Clear();
  return variable;
}

Function function_of(PyObject* callable) {
  static PyObject* const set = PyObject_GetAttrString(arrays::numpy_module(), "seterr");
  static PyObject* const get = PyObject_GetAttrString(arrays::numpy_module(), "geterr");
  static PyObject* const make = PyObject_GetAttrString(arrays::umath_module(), "_make_extobj");
  PyErr_Clear();
  if (callable == set) return Function::SetErr;
  if (callable == get) return Function::GetErr;
  if (callable == make) return Function::Make;
  if (!PyCFunction_Check(callable) || PyCFunction_GET_SELF(callable) != state_variable() || !state_variable())
    return Function::None;
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  return name == "set" ? Function::Set : name == "reset" ? Function::Reset : Function::None;
}

Unexpected<Break> unsupported() {
  return break_at(BreakId::UnsupportedArgument, "such handling of floating-point errors");
}

/// A str that is known at run time only: what was set where the region began.
Value* action_value(Session& session, const Ref<>& action) {
  if (action) return session.values().constant(action.get());
  Value* unknown = session.values().make(ValueKind::Object);
  unknown->object = Ref<>::share(reinterpret_cast<PyObject*>(&PyUnicode_Type));
  unknown->transient = true;
  return unknown;
}

Captured<Ref<>> action_of(Value* value) {
  if (value->kind == ValueKind::Object && value->transient) return Ref<>();
  PyObject* text = value->is_constant() ? value->object.get() : nullptr;
  if (!text || !PyUnicode_CheckExact(text)) return unsupported();
  for (std::string_view known : kActions)
    if (PyUnicode_CompareWithASCIIString(text, known.data()) == 0) return Ref<>::share(text);
  return unsupported();
}

/// A function that np.errstate(call=) takes. Nothing that it is called for happens in a region.
bool is_handler(const Value* value) {
  return value->is_none() || value->kind == ValueKind::Function ||
         (value->is_constant() && PyCFunction_Check(value->object.get()));
}

/// The present handling with what these arguments change.
Captured<capture::FlagActions> changed(const Call& call) {
  FRAMEJIT_TRY(given, bind(call, {"all", "divide", "over", "under", "invalid", "call"}, 0));
  if (given[5] && (call.args.size() > 5 || function_of(call.callable) != Function::Make || !is_handler(given[5])))
    return unsupported();
  capture::FlagActions actions = call.session.flag_rules().actions();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    Value* value = absent(given[i + 1]) ? given[0] : given[i + 1];
    if (absent(value)) continue;
    FRAMEJIT_TRY(action, action_of(value));
    actions[i] = std::move(action);
  }
  return actions;
}

/// A handling, or the token for going back to it.
Value* as_value(Session& session, const capture::FlagActions& actions) {
  std::vector<Value*> items;
  for (const Ref<>& action : actions) items.push_back(action_value(session, action));
  Value* made = session.values().tuple(std::move(items));
  made->transient = true;
  return made;
}

Captured<capture::FlagActions> from_value(const Call& call) {
  if (call.args.size() != 1 || !call.keywords.empty()) return unsupported();
  const Value* value = call.args[0];
  capture::FlagActions actions;
  if (value->kind != ValueKind::Tuple || !value->transient || value->items.size() != actions.size())
    return unsupported();
  for (std::size_t i = 0; i < actions.size(); ++i) {
    FRAMEJIT_TRY(action, action_of(value->items[i]));
    actions[i] = std::move(action);
  }
  return actions;
}

/// What np.geterr() gives.
Value* as_dict(Session& session, const capture::FlagActions& actions) {
  Value* dict = session.values().make(ValueKind::Dict);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Ref<> key = Ref<>::steal(PyUnicode_InternFromString(kClasses[i]));
    dict->items.push_back(session.values().constant(key.get()));
    dict->items.push_back(action_value(session, actions[i]));
  }
  return dict;
}

}  // namespace

bool is_error_state(PyObject* object) { return object == state_variable() && object; }

bool is_of_errors(PyObject* callable) { return function_of(callable) != Function::None; }

Captured<Value*> call_of_errors(const Call& call) {
  Session& session = call.session;
  const capture::FlagActions before = session.flag_rules().actions();
  switch (function_of(call.callable)) {
    case Function::GetErr:
      if (!call.args.empty() || !call.keywords.empty()) break;
      return as_dict(session, before);
    case Function::SetErr: {
      FRAMEJIT_TRY(actions, changed(call));
      session.flag_rules().set(std::move(actions));
      return as_dict(session, before);
    }
    case Function::Make: {
      FRAMEJIT_TRY(actions, changed(call));
      return as_value(session, actions);
    }
    case Function::Set: {
      FRAMEJIT_TRY(actions, from_value(call));
      session.flag_rules().set(std::move(actions));
      return as_value(session, before);
    }
    case Function::Reset: {
      FRAMEJIT_TRY(actions, from_value(call));
      session.flag_rules().set(std::move(actions));
      return session.values().constant(Py_None);
    }
    case Function::None: break;
  }
  return unsupported();
}

}  // namespace framejit::ext::frontends
