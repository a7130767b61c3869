// List comprehensions and generator expressions of a compiled loop. Each is a nest of loops in a function of its own
// (a list comprehension up to 3.11), and that function is inlined. It makes a list, or it gives each value to what
// consumes it (Consumer), such as sum(), whose only argument it is. Nothing else sees a generator, so none is made.
//
// The call of it is where a region may begin, as at a loop's head (CodeView::begins_nest), if nothing else holds the
// iterator that it is given. Nothing is seen of a comprehension before it is complete, so its checks lead back to in
// front of the call, and the interpreter does the whole of it.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"

namespace framejit::capture {

using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

PyCodeObject* code_of(const Typed& function) {
  PyObject* const object = function.value->object.get();
  return reinterpret_cast<PyCodeObject*>(
      PyFunction_Check(object) ? reinterpret_cast<PyFunctionObject*>(object)->func_code : object);
}

struct NamedConsumer {
  const char* name;
  Consumer consumer;
};
constexpr NamedConsumer kConsumers[] = {{"sum", Consumer::Sum},
                                        {"any", Consumer::Any},
                                        {"all", Consumer::All},
                                        {"min", Consumer::Min},
                                        {"max", Consumer::Max}};

Consumer consumer_of(PyObject* callable) {
  if (callable == reinterpret_cast<PyObject*>(&PyList_Type)) return Consumer::List;
  if (!PyCFunction_Check(callable)) return Consumer::None;
  PyObject* const module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  if (!module || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "builtins") != 0)
    return Consumer::None;
  for (const NamedConsumer& c : kConsumers)
    if (std::strcmp(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, c.name) == 0) return c.consumer;
  return Consumer::None;
}

/// The code of a generator expression that gives each item as it is, or null.
PyObject* code_of_items() {
  static PyObject* const found = []() -> PyObject* {
    const Ref<> outer = Ref<>::steal(Py_CompileString("(x for x in ())", "<items>", Py_eval_input));
    if (!outer) return PyErr_Clear(), nullptr;
    PyObject* const constants = reinterpret_cast<PyCodeObject*>(outer.get())->co_consts;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(constants); ++k)
      if (PyObject* const constant = PyTuple_GET_ITEM(constants, k); PyCode_Check(constant)) return Py_NewRef(constant);
    return nullptr;
  }();
  return found;
}

/// How many entries of the caller's stack hold what has come of the values so far.
std::size_t held_by(Consumer consumer) {
  if (consumer == Consumer::Sum) return 1 + py::kSumCompensates;
  return consumer == Consumer::Any || consumer == Consumer::All || consumer == Consumer::None ? 0 : 1;
}

void enter_comprehension(LoopTranslator& t, const Typed& function, Typed iterable, Consumer consumer) {
  PyCodeObject* const code = code_of(function);
  const bool is_made = PyCode_Check(function.value->object.get());
  if (t.state.frames.size() >= kMostInlined) throw NotCompiled{"comprehensions in each other"};
  std::shared_ptr<const CodeView>& view = t.objects.views[code];
  if (!view) view = CodeView::decode(code);
  LoopFrame callee{view, t.frame().globals, t.frame().builtins, 0, {std::move(iterable)}, {}, consumer};
  callee.locals.resize(static_cast<std::size_t>(view->local_count()));
  if (!is_made) guard_code(t, function.value);
  if (is_made && function.items.size() != static_cast<std::size_t>(code->co_nfreevars))
    throw NotCompiled{kMadeFunction};
  for (int k = 0; k < code->co_nfreevars; ++k) {
    Typed& cell = callee.locals[callee.locals.size() - static_cast<std::size_t>(code->co_nfreevars - k)];
    if (is_made) {
      const Typed& closure = function.items[static_cast<std::size_t>(k)];
      cell = closure.kind == Kind::Cell && closure.items.empty()
                 ? t.frame().locals[static_cast<std::size_t>(closure.slot)]
                 : closure;
      continue;
    }
    auto* const object = reinterpret_cast<PyFunctionObject*>(function.value->object.get());
    auto source = std::make_shared<Source>();
    source->kind = SourceKind::Closure;
    source->base = function.value->source;
    source->index = k;
    cell.kind = Kind::Object;
    cell.value = lazy(t.executor, PyTuple_GET_ITEM(object->func_closure, k), std::move(source));
  }
  t.state.frames.push_back(std::move(callee));
}

/// sum() of floats, as the interpreter adds them from 3.12 on (Neumaier's algorithm).
void add_compensated(LoopTranslator& t, Typed& sum, Typed& lost, const Typed& value) {
  const cfg::Id a = sum.ids[0], b = value.ids[0];
  const auto f64 = [&](Op op, cfg::Id x, cfg::Id y) { return t.op(op, Type::F64, x, y); };
  const cfg::Id total = f64(Op::Add, a, b);
  const cfg::Id a_is_larger = t.op(Op::Le, Type::I64, t.op(Op::Abs, Type::F64, b), t.op(Op::Abs, Type::F64, a));
  const cfg::Id large = t.op(Op::Select, Type::F64, a_is_larger, a, b);
  const cfg::Id small = t.op(Op::Select, Type::F64, a_is_larger, b, a);
  lost = of_float(f64(Op::Add, lost.ids[0], f64(Op::Add, f64(Op::Sub, large, total), small)));
  sum = of_float(total);
}

/// The sum with what was lost, unless that is 0 or not finite.
Typed compensated(LoopTranslator& t, const Typed& sum, const Typed& lost) {
  if (sum.kind != Kind::Float) return sum;
  const cfg::Id c = lost.ids[0], zero = t.number(0.0);
  const cfg::Id is_finite = t.op(Op::Eq, Type::I64, t.op(Op::Sub, Type::F64, c, c), zero);
  const cfg::Id counts = t.op(Op::And, Type::I64, is_finite, t.op(Op::Ne, Type::I64, c, zero));
  return of_float(t.op(Op::Select, Type::F64, counts, t.op(Op::Add, Type::F64, sum.ids[0], c), sum.ids[0]));
}

void give(LoopTranslator& t, Consumer consumer, std::vector<Typed>& stack, Typed value) {
  Typed& held = stack.back();
  switch (consumer) {
    case Consumer::Sum:
      if constexpr (py::kSumCompensates) {
        Typed& sum = stack[stack.size() - 2];
        const bool is_whole = value.kind == Kind::Int || value.kind == Kind::Bool;
        if (sum.kind == Kind::Float && (value.kind == Kind::Float || (py::kSumCompensatesAll && is_whole)))
          return add_compensated(t, sum, held, of_float(as_f64(t, value)));
        if (py::kSumCompensatesAll && (sum.is_complex() || value.is_complex()))
          throw NotCompiled{"a sum of complex numbers"};
        if (sum.kind == Kind::Float && value.kind == Kind::Scalar) throw NotCompiled{"a sum of two kinds of floats"};
        sum = binary(t, kAdd, sum, value);
        return t.name(sum);
      } else {
        held = binary(t, kAdd, held, value);
        return t.name(held);
      }
    case Consumer::Min:
    case Consumer::Max:
      held = held.kind == Kind::Null ? value : extremum(t, consumer == Consumer::Max, {held, value});
      return t.name(held);
    default: {
      const Typed list = held;
      return append(t, list, value);
    }
  }
}

void push_empty_list(LoopTranslator& t) {
  Typed start;
  start.kind = Kind::Display;
  t.push(made_list(t, start));
}

}  // namespace

void make_function(LoopTranslator& t, const Instr& i) {
  constexpr int kClosure = 8;
  Typed function = t.pop(), closure;
  if (i.op == Opcode::SetFunctionAttribute) {
    closure = t.pop();
    if (function.kind != Kind::Function || i.arg != kClosure) throw NotCompiled{kMadeFunction};
    function.items = std::move(closure.items);
    return t.push(std::move(function));
  }
  if (i.arg & kClosure) closure = t.pop();
  if ((i.arg & ~kClosure) || function.kind != Kind::Object || !is_comprehension(code_of(function)))
    throw NotCompiled{kMadeFunction};
  function.kind = Kind::Function;
  function.items = std::move(closure.items);
  t.push(std::move(function));
}

bool call_comprehension(LoopTranslator& t, Typed function, const Typed& iterable) {
  if (function.kind == Kind::Object) {
    Value* const existing = look(t.executor, function.value);
    if (existing->kind != ValueKind::Function || !existing->source || !existing->object ||
        !PyFunction_Check(existing->object.get()))
      return false;
    function.value = existing;
    if (!is_comprehension(code_of(function))) return false;
    function.kind = Kind::Function;
  }
  t.frame().pc = t.frame().view->behind(t.frame().pc);
  if (!(code_of(function)->co_flags & CO_GENERATOR)) {
    enter_comprehension(t, function, iterable, Consumer::None);
    return true;
  }
  Typed generator;
  generator.kind = Kind::Generator;
  generator.items = {std::move(function), iterable};
  t.push(std::move(generator));
  return true;
}

std::optional<Typed> items_for(LoopTranslator& t, PyObject* callable, const Typed& v) {
  const Consumer consumer = consumer_of(callable);
  if (consumer == Consumer::None || t.recursion.is_recursion || !code_of_items()) return std::nullopt;
  const Typed* const array = array_of(t, v);
  const std::optional<Typed> list = list_of(t, v);
  const bool is_test = consumer == Consumer::Any || consumer == Consumer::All;
  if (list ? !is_test && held_as(*list) != "lb" : array ? array->ids.size() != 3 : v.kind != Kind::Range)
    return std::nullopt;
  if (consumer == Consumer::List && !array) return std::nullopt;
  Typed function, generator;
  function.kind = Kind::Function;
  function.value = t.session.values().constant(code_of_items());
  generator.kind = Kind::Generator;
  generator.items = {std::move(function), iterator_over(t, v)};
  return generator;
}

void consume(LoopTranslator& t, PyObject* callable, const Typed& generator) {
  const Consumer consumer = consumer_of(callable);
  Typed start;
  switch (consumer) {
    case Consumer::None: throw NotCompiled{"a generator expression that is no argument of sum(), any() or the like"};
    case Consumer::Sum:
      t.push(of_int(t.integer(0), true));
      if (py::kSumCompensates) t.push(of_float(t.number(0.0)));
      break;
    case Consumer::Min:
    case Consumer::Max:
      start.kind = Kind::Null;
      t.push(std::move(start));
      break;
    case Consumer::List: push_empty_list(t); break;
    case Consumer::Any:
    case Consumer::All: break;
  }
  enter_comprehension(t, generator.items[0], generator.items[1], consumer);
}

void short_loop(LoopTranslator& t, const Instr& i) {
  using ShortLoop = CodeView::ShortLoop;
  const ShortLoop loop = t.frame().view->short_loop_at(t.frame().pc);
  if (loop.kind == ShortLoop::None) throw NotCompiled{"a loop over a generator"};
  for (int k = 1; k < py::kIteratorSlots; ++k) t.pop();
  const Typed generator = t.pop();
  t.frame().pc = static_cast<uint32_t>(i.arg);  // once all items are given
  if (loop.kind == ShortLoop::List) {
    // The list that is there is empty and stays so, as the interpreter may do the whole.
    t.pop();
    push_empty_list(t);
  }
  const Consumer consumer = loop.kind == ShortLoop::Any   ? Consumer::Any
                            : loop.kind == ShortLoop::All ? Consumer::All
                                                          : Consumer::List;
  enter_comprehension(t, generator.items[0], generator.items[1], consumer);
  t.frame().found = loop.found;
}

void yield_value(LoopTranslator& t) {
  const Consumer consumer = t.frame().consumer;
  if (consumer == Consumer::None) throw NotCompiled{"a yield"};
  Typed value = t.pop();
  value = value.kind == Kind::Display ? made_list(t, value) : known(t, std::move(value));
  Typed none;
  none.kind = Kind::Object;
  none.value = t.executor.none();
  t.frame().pc = t.frame().view->behind(t.frame().pc);
  if (held_by(consumer) > 0) {
    give(t, consumer, t.state.frames[t.state.frames.size() - 2].stack, std::move(value));
    return t.push(std::move(none));
  }
  const cfg::Id is_true = truth(t, value);
  t.flush_pending();
  LoopState done = t.state;
  t.push(std::move(none));
  const uint32_t found = t.frame().found;
  done.frames.pop_back();
  if (found) done.frames.back().pc = found;
  else done.frames.back().stack.push_back(of_bool(t.integer(consumer == Consumer::Any)));
  if (consumer == Consumer::Any) t.part(is_true, std::move(done), t.state);
  else t.part(is_true, t.state, std::move(done));
}

Typed consumed(LoopTranslator& t, Consumer consumer) {
  if (consumer == Consumer::Any || consumer == Consumer::All) return of_bool(t.integer(consumer == Consumer::All));
  Typed last = t.pop();
  if (last.kind == Kind::Null) throw NotCompiled{"min() or max() of nothing"};
  if (consumer == Consumer::Sum && py::kSumCompensates) return compensated(t, t.pop(), last);
  return last;
}

}  // namespace framejit::capture
