// Calls of a compiled loop: ranges, builtins and pure functions of numbers, functions in Python, which are inlined.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "capture/attributes.h"
#include "capture/builtins.h"
#include "capture/calls.h"
#include "capture/loops/translator.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/instance.h"
#include "capture/py/layouts.h"
#include "capture/py/repr.h"

namespace framejit::capture {

using graph::DType;
using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

constexpr std::size_t kMostInlined = 12;

using One = double (*)(double);
using Two = double (*)(double, double);

// The C functions that the math module calls, for finite arguments with finite results.
#define FRAMEJIT_ONE(name) {#name, reinterpret_cast<const void*>(static_cast<One>(std::name)), Type::F64, 1, Type::F64}
#define FRAMEJIT_TWO(name) {#name, reinterpret_cast<const void*>(static_cast<Two>(std::name)), Type::F64, 2, Type::F64}
const cfg::Function kMath[] = {FRAMEJIT_ONE(sin),   FRAMEJIT_ONE(cos),   FRAMEJIT_ONE(tan),     FRAMEJIT_ONE(asin),
                               FRAMEJIT_ONE(acos),  FRAMEJIT_ONE(atan),  FRAMEJIT_ONE(sinh),    FRAMEJIT_ONE(cosh),
                               FRAMEJIT_ONE(tanh),  FRAMEJIT_ONE(exp),   FRAMEJIT_ONE(log),     FRAMEJIT_ONE(log2),
                               FRAMEJIT_ONE(log10), FRAMEJIT_ONE(log1p), FRAMEJIT_ONE(expm1),   FRAMEJIT_TWO(pow),
                               FRAMEJIT_TWO(atan2), FRAMEJIT_TWO(fmod),  FRAMEJIT_TWO(copysign)};
#undef FRAMEJIT_ONE
#undef FRAMEJIT_TWO

// Functions of math and methods of int, for ints of 64 bits.
int64_t int_gcd(int64_t a, int64_t b) { return std::gcd(a, b); }
int64_t int_sqrt(int64_t n) {
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (root > n / std::max<int64_t>(root, 1)) --root;
  while (root + 1 <= n / (root + 1)) ++root;
  return root;
}
int64_t bit_length(int64_t n) { return std::bit_width(n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n)); }
int64_t bit_count(int64_t n) { return std::popcount(n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n)); }

#define FRAMEJIT_INTS(name, function, operands) \
  {name, reinterpret_cast<const void*>(&function), Type::I64, operands, Type::I64}
const cfg::Function kGcd FRAMEJIT_INTS("gcd", int_gcd, 2), kIntSqrt FRAMEJIT_INTS("isqrt", int_sqrt, 1);
const cfg::Function kIntMethods[] = {FRAMEJIT_INTS("bit_length", bit_length, 1),
                                     FRAMEJIT_INTS("bit_count", bit_count, 1)};
#undef FRAMEJIT_INTS

template <class Result, class... Operands>
Result run_loop(int64_t row, Operands... operands) {
  const auto& loop = *reinterpret_cast<const ScalarLoop*>(row);
  Result result{};
  char* args[] = {reinterpret_cast<char*>(&operands)..., reinterpret_cast<char*>(&result)};
  const intptr_t count = 1, steps[] = {static_cast<intptr_t>(sizeof operands)..., sizeof result};
  loop.function(args, &count, steps, loop.data);
  return result;
}

// Operands are the bits of floats: a call has operands of one type.
double numpy_of_one(int64_t row, int64_t x) { return run_loop<double>(row, x); }
double numpy_of_two(int64_t row, int64_t x, int64_t y) { return run_loop<double>(row, x, y); }
int64_t numpy_truth_of_one(int64_t row, int64_t x) { return run_loop<unsigned char>(row, x); }
int64_t numpy_truth_of_two(int64_t row, int64_t x, int64_t y) { return run_loop<unsigned char>(row, x, y); }

#define FRAMEJIT_NUMPY(name, result, operands) \
  {#name, reinterpret_cast<const void*>(&name), Type::result, operands, Type::I64}
const cfg::Function kNumpy[] = {FRAMEJIT_NUMPY(numpy_of_one, F64, 2), FRAMEJIT_NUMPY(numpy_of_two, F64, 3),
                                FRAMEJIT_NUMPY(numpy_truth_of_one, I64, 2), FRAMEJIT_NUMPY(numpy_truth_of_two, I64, 3)};
#undef FRAMEJIT_NUMPY

Typed null() {
  Typed v;
  v.kind = Kind::Null;
  return v;
}

}  // namespace

void LoopTranslator::do_call(const Instr& i) {
  if (i.kwnames >= 0) throw NotCompiled{"a call with keywords"};
  std::vector<Typed> args(static_cast<std::size_t>(i.arg));
  for (std::size_t k = args.size(); k-- > 0;) args[k] = pop();
  const Typed second = pop(), first = pop();
  const Typed& callable = first.kind == Kind::Null ? second : first;
  if (first.kind != Kind::Null && second.kind == Kind::List && args.size() == 1) {
    append(second, known(std::move(args[0])));
    Typed none;
    none.kind = Kind::Object;
    none.value = executor_.none();
    push(std::move(none));
    frame().pc = frame().view->behind(frame().pc);
    return take_checkpoint(true);
  }
  if (first.kind != Kind::Null && second.is_complex() && args.empty()) {
    push(of_complex(settled(second.ids[0]), op(Op::Neg, Type::F64, settled(second.ids[1])),
                    second.kind == Kind::ComplexScalar));
    frame().pc = frame().view->behind(frame().pc);
    return;
  }
  if (first.kind == Kind::Object && second.kind == Kind::Int && args.empty()) {
    const char* name = reinterpret_cast<PyMethodDescrObject*>(first.value->object.get())->d_method->ml_name;
    for (const cfg::Function& f : kIntMethods)
      if (std::strcmp(f.name, name) == 0) push(of_int(call(f, second.ids[0]), true));
    frame().pc = frame().view->behind(frame().pc);
    return;
  }
  if (first.kind == Kind::Object && second.kind != Kind::Null) {
    Value* method = look(executor_, first.value);
    if (method->kind != ValueKind::Function) throw NotCompiled{"a call of a method"};
    args.insert(args.begin(), second);
    frame().pc = frame().view->behind(frame().pc);
    return enter_function(method, std::move(args));
  }
  if (callable.kind != Kind::Object) throw NotCompiled{"a call of what is no function"};
  Value* f = look(executor_, callable.value);
  frame().pc = frame().view->behind(frame().pc);
  if (f->kind == ValueKind::Object)
    if (Value* function = unwrapped(executor_, f)) f = function;
  if (f->kind == ValueKind::Function && is_itself(f, args)) return push(call_itself(f, args));
  if (f->kind == ValueKind::Function) return enter_function(f, std::move(args));
  if (!f->is_constant()) throw NotCompiled{"a call of an object"};
  for (Typed& a : args) a = known(std::move(a));
  if (is_extremum_of_kinds(f->object.get(), args)) return choose(f->object.get(), args);
  push(call_builtin(f->object.get(), args));
}

/// min() or max() of two numbers that are not of one type: which one it gives decides the type of what follows.
bool LoopTranslator::is_extremum_of_kinds(PyObject* callable, const std::vector<Typed>& args) const {
  if (args.size() != 2 || !args[0].is_number() || !args[1].is_number() || !PyCFunction_Check(callable)) return false;
  if (args[0].kind == args[1].kind && (args[0].kind != Kind::Scalar || args[0].dtype == args[1].dtype)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  const char* name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "builtins") == 0 &&
         (std::strcmp(name, "min") == 0 || std::strcmp(name, "max") == 0);
}

void LoopTranslator::choose(PyObject* callable, const std::vector<Typed>& args) {
  const bool most = std::strcmp(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, "max") == 0;
  const cfg::Id second = truth(compare(most ? Py_GT : Py_LT, args[1], args[0]));
  flush_pending();
  State other = state_;
  push(args[1]);
  other.frames.back().stack.push_back(args[0]);
  const cfg::Edge yes = edge_to(state_), no = edge_to(std::move(other));
  cfg::Block& b = cfg_.blocks[block_];
  b.end = cfg::Block::End::Branch;
  b.condition = second;
  b.to[0] = yes;
  b.to[1] = no;
  ended_ = true;
}

Typed LoopTranslator::call_builtin(PyObject* callable, std::vector<Typed>& args) {
  const auto is = [callable](auto* type) { return callable == reinterpret_cast<PyObject*>(type); };
  const std::size_t count = args.size();
  const auto all = [&](auto test) { return std::all_of(args.begin(), args.end(), test); };
  const bool any_array = std::any_of(args.begin(), args.end(), [](const Typed& v) { return v.is_array(); });
  if (is(&PyRange_Type) && count >= 1 && count <= 3) {
    if (!all([](const Typed& v) { return v.is_integer(); })) throw NotCompiled{"a range of what is no integer"};
    Typed range;
    range.kind = Kind::Range;
    const Typed start = count > 1 ? args[0] : of_int(integer(0), true);
    range.ids = {start.ids[0], args[count > 1 ? 1 : 0].ids[0], count > 2 ? args[2].ids[0] : integer(1)};
    if (!cfg_.is_const(range.ids[2]) || cfg_.at(range.ids[2]).imm == 0) throw NotCompiled{"a range of an unknown step"};
    range.natural = start.natural && cfg_.at(range.ids[2]).imm > 0;
    return range;
  }
  if (is(&PyEnum_Type) && count >= 1 && count <= 2 && (count == 1 || args[1].kind == Kind::Int)) {
    Typed number, joint;
    number.kind = Kind::Iterator;
    number.natural = count == 1 || args[1].natural;
    number.ids = {count == 1 ? integer(0) : args[1].ids[0]};
    joint.kind = Kind::Joint;
    joint.holds = "e";
    joint.items = {std::move(number), iterator_over(args[0])};
    return joint;
  }
  if (is(&PyZip_Type) && count >= 1) {
    Typed joint;
    joint.kind = Kind::Joint;
    joint.holds = "z";
    for (const Typed& a : args) joint.items.push_back(iterator_over(a));
    return joint;
  }
  if (is(&PyComplex_Type) && (count == 1 || count == 2)) return make_complex(args);
  if (is(&PyFloat_Type) && count == 1 && args[0].is_number()) return of_float(settled(as_f64(args[0])));
  if (is(&PyBool_Type) && count == 1) return of_bool(truth(args[0]));
  const auto to_int = [&](cfg::Id value) {
    check(op(Op::Lt, Type::I64, op(Op::Abs, Type::F64, value), number(0x1p62)));
    return of_int(op(Op::ToI64, Type::I64, value));
  };
  if (is(&PyLong_Type) && count == 1 && args[0].is_number()) {
    if (args[0].is_integer()) return of_int(args[0].ids[0], args[0].natural);
    return to_int(settled(as_f64(args[0])));
  }
  if (!PyCFunction_Check(callable)) {
    if (std::optional<Typed> made = call_numpy(callable, args)) return *made;
    throw NotCompiled{"a call of " + short_repr(callable), any_array};
  }
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  const char* name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  const auto named = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  const bool of_math = module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "math") == 0;
  if (of_math) return call_math(name, args);
  if (!module || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "builtins") != 0)
    throw NotCompiled{"a call of " + short_repr(callable)};
  if (named("divmod") && count == 2 &&
      all([](const Typed& v) { return v.kind == Kind::Int || v.kind == Kind::Float; })) {
    Typed both;
    both.kind = Kind::Tuple;
    both.items = {binary(kFloorDiv, args[0], args[1]), binary(kRemainder, args[0], args[1])};
    return both;
  }
  if (named("pow") && count == 2 && all([](const Typed& v) { return v.kind == Kind::Int || v.kind == Kind::Float; }))
    return binary(kPower, args[0], args[1]);
  if (named("len") && count == 1) {
    if (args[0].kind == Kind::Tuple) return of_int(integer(static_cast<int64_t>(args[0].items.size())), true);
    if (const std::optional<Typed> list = list_of(args[0])) return of_int(load(list->ids[0], py::kListSize), true);
    if (const Typed* array = array_of(args[0]); array && array->ids.size() > 1) return of_int(array->ids[1], true);
  }
  if (named("abs") && count == 1 && args[0].is_complex()) return complex_length(args[0]);
  if (named("abs") && count == 1 && args[0].is_number() && args[0].kind != Kind::Bool) {
    const Typed& v = args[0];
    const cfg::Id id = settled(v.ids[0]);
    Typed made = v;
    made.origin = 0;  // another object
    made.natural = true;
    if (type_of(id) != Type::I64) {
      made.ids = {op(Op::Abs, type_of(id), id)};
    } else {
      if (v.kind == Kind::Scalar && v.dtype != DType::I64) throw NotCompiled{"abs() of a small integer"};
      made.ids = {
          op(Op::Select, Type::I64, op(Op::Lt, Type::I64, id, integer(0)), exact(Op::SubExact, integer(0), id), id)};
    }
    return made;
  }
  if ((named("min") || named("max")) && count >= 2 && all([&](const Typed& v) {
        return v.is_number() && v.kind == args[0].kind && v.dtype == args[0].dtype && v.kind != Kind::Bool;
      })) {
    Typed best = args[0];
    best.origin = 0;  // it may be any of them
    best.ids = {settled(best.ids[0])};
    for (std::size_t k = 1; k < count; ++k) {
      const cfg::Id other = settled(args[k].ids[0]), now = best.ids[0];
      const cfg::Id better = named("min") ? op(Op::Lt, Type::I64, other, now) : op(Op::Lt, Type::I64, now, other);
      best.ids = {op(Op::Select, type_of(now), better, other, now)};
      best.natural = named("min") ? best.natural && args[k].natural : best.natural || args[k].natural;
    }
    return best;
  }
  if (named("round") && count == 1) {
    if (args[0].kind == Kind::Int) return args[0];
    if (args[0].kind == Kind::Float) return to_int(op(Op::Rint, Type::F64, args[0].ids[0]));
  }
  throw NotCompiled{"a call of " + std::string(name) + "()", any_array};
}

Typed LoopTranslator::call_math(const char* name, std::vector<Typed>& args) {
  const auto named = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  const auto refused = [&] { return NotCompiled{"a call of math." + std::string(name) + "()"}; };
  if (args.empty() || args.size() > 2) throw refused();
  if (std::all_of(args.begin(), args.end(), [](const Typed& a) { return a.kind == Kind::Int; })) {
    const cfg::Id first = args[0].ids[0];
    if (named("gcd") && args.size() == 2) {
      for (const Typed& a : args) check(op(Op::Ne, Type::I64, a.ids[0], integer(std::numeric_limits<int64_t>::min())));
      return of_int(call(kGcd, first, args[1].ids[0]), true);
    }
    if (named("isqrt") && args.size() == 1) {
      check(op(Op::Le, Type::I64, integer(0), first));
      return of_int(call(kIntSqrt, first), true);
    }
  }
  std::vector<cfg::Id> ids;
  for (Typed& a : args) {
    if (!a.is_number()) throw refused();
    // Logarithms and roundings of ints are computed in another way.
    const bool as_float = named("sqrt") || named("sin") || named("cos") || named("tan") || named("exp") ||
                          named("atan") || named("fabs") || named("radians") || named("degrees") || named("atan2") ||
                          named("pow");
    if (a.is_integer() && !as_float) throw refused();
    ids.push_back(settled(as_f64(a)));
  }
  const cfg::Id x = ids[0];
  if (args.size() == 1) {
    if (named("fabs")) return of_float(op(Op::Abs, Type::F64, x));
    if (named("isnan")) return of_bool(op(Op::Ne, Type::I64, x, x));
    if (named("sqrt")) {
      check(op(Op::Le, Type::I64, number(0.0), x));
      return of_float(op(Op::Sqrt, Type::F64, x));
    }
    if (named("radians")) return of_float(op(Op::Mul, Type::F64, x, number(3.141592653589793 / 180.0)));
    if (named("degrees")) return of_float(op(Op::Mul, Type::F64, x, number(180.0 / 3.141592653589793)));
    for (const auto& [whole, rounded] :
         {std::pair("floor", Op::Floor), std::pair("ceil", Op::Ceil), std::pair("trunc", Op::Trunc)})
      if (named(whole)) {
        if (args[0].kind != Kind::Float) throw refused();  // NumPy's scalars have methods of their own
        const cfg::Id made = op(rounded, Type::F64, x);
        check(op(Op::Lt, Type::I64, op(Op::Abs, Type::F64, made), number(0x1p62)));
        return of_int(op(Op::ToI64, Type::I64, made));
      }
  }
  for (const cfg::Function& f : kMath) {
    if (!named(f.name) || f.operands != static_cast<int>(ids.size())) continue;
    for (const cfg::Id id : ids) check_finite(id);
    const cfg::Id made = call(f, x, ids.size() > 1 ? ids[1] : cfg::kNone);
    check_finite(made);
    return of_float(made);
  }
  throw refused();
}

/// NumPy's functions of one or two numbers, by a loop over float64 with one round.
std::optional<Typed> LoopTranslator::call_scalar_loop(PyObject* callable, const std::vector<Typed>& args) {
  const auto is_float = [](const Typed& v) {
    return v.kind == Kind::Float || (v.kind == Kind::Scalar && v.dtype == DType::F64);
  };
  const auto fits = [&](const Typed& v) {
    return is_float(v) || v.kind == Kind::Int || (v.kind == Kind::Scalar && v.dtype == DType::I64);
  };
  if (!request_.options.scalar_loop || !std::all_of(args.begin(), args.end(), fits)) return std::nullopt;
  const bool of_ints = std::none_of(args.begin(), args.end(), is_float);
  const ScalarLoop* loop = request_.options.scalar_loop(callable, static_cast<int>(args.size()), of_ints);
  if (!loop) return std::nullopt;
  std::vector<cfg::Id> bits;
  for (const Typed& a : args) bits.push_back(op(Op::Bits, Type::I64, settled(as_f64(a))));
  const cfg::Function& function = kNumpy[(loop->gives_bool ? 2 : 0) + (args.size() == 2 ? 1 : 0)];
  cfg::Node n;
  n.op = Op::Call;
  n.type = function.result;
  n.function = &function;
  n.args[0] = integer(reinterpret_cast<int64_t>(loop));
  std::copy(bits.begin(), bits.end(), n.args + 1);
  const cfg::Id made = add(n);
  if (loop->gives_bool) return of_scalar(made, DType::Bool);
  pending_.push_back(made);
  return of_scalar(made, DType::F64);
}

/// NumPy's functions of one or two float64, by the name that the module numpy has them under.
std::optional<Typed> LoopTranslator::call_numpy(PyObject* callable, std::vector<Typed>& args) {
  if (args.empty() || args.size() > 2) return std::nullopt;
  if (!std::all_of(args.begin(), args.end(), [](const Typed& v) {
        return v.kind == Kind::Float || (v.kind == Kind::Scalar && v.dtype == DType::F64);
      }))
    return call_scalar_loop(callable, args);
  static PyObject* const numpy_name = PyUnicode_InternFromString("numpy");
  const Ref<> numpy = Ref<>::steal(PyImport_GetModule(numpy_name));
  if (!numpy || !PyModule_CheckExact(numpy.get())) return PyErr_Clear(), std::nullopt;
  PyObject* dict = PyModule_GetDict(numpy.get());
  const auto is = [&](const char* name) { return PyDict_GetItemString(dict, name) == callable; };
  const cfg::Id x = args[0].ids[0];
  const auto result = [&](cfg::Id made, bool may_warn) {
    if (may_warn) pending_.push_back(made);
    return of_scalar(made, DType::F64);
  };
  if (args.size() == 1) {
    if (is("float64")) return result(settled(x), false);
    if (is("sqrt")) return std::erase(pending_, x), result(op(Op::Sqrt, Type::F64, x), true);
    if (is("absolute") || is("fabs")) return result(op(Op::Abs, Type::F64, settled(x)), false);
    for (const auto& [name, rounded] : {std::pair("floor", Op::Floor), std::pair("ceil", Op::Ceil),
                                        std::pair("trunc", Op::Trunc), std::pair("rint", Op::Rint)})
      if (is(name)) return result(op(rounded, Type::F64, settled(x)), false);
    return call_scalar_loop(callable, args);
  }
  const cfg::Id y = args[1].ids[0];
  if (is("maximum") || is("minimum")) {
    settled(x);
    settled(y);
    const bool most = is("maximum");
    // NaN is propagated.
    const cfg::Id first = op(Op::Or, Type::I64, op(Op::Ne, Type::I64, x, x),
                             most ? op(Op::Le, Type::I64, y, x) : op(Op::Le, Type::I64, x, y));
    check(op(Op::Ne, Type::I64,
             op(Op::Or, Type::I64, op(Op::Ne, Type::I64, x, y), op(Op::Ne, Type::I64, x, number(0.0))), integer(0)));
    return result(op(Op::Select, Type::F64, first, x, y), false);
  }
  return call_scalar_loop(callable, args);
}

void LoopTranslator::guard_code(Value* function) {
  auto* object = reinterpret_cast<PyFunctionObject*>(function->object.get());
  Guard g{};
  g.kind = GuardKind::Code;
  g.source = function->source;
  g.object = Ref<>::share(object->func_code);
  g.key = Ref<>::share(object->func_globals);
  session_.add_guard(std::move(g));
}

void LoopTranslator::enter_function(Value* function, std::vector<Typed> args) {
  const std::string name = short_repr(function->object.get());
  if (!function->source || !PyFunction_Check(function->object.get()))
    throw NotCompiled{"a call of a function made in the loop"};
  auto* object = reinterpret_cast<PyFunctionObject*>(function->object.get());
  auto* code = reinterpret_cast<PyCodeObject*>(object->func_code);
  constexpr int kOther =
      CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  if ((code->co_flags & kOther) || code->co_kwonlyargcount || code->co_nfreevars || code->co_ncellvars ||
      code->co_argcount < static_cast<int>(args.size()))
    throw NotCompiled{"a call of " + name + " in a form that is not inlined"};
  for (const Typed& a : args)
    if (a.is_iterator()) throw NotCompiled{kHeldIterator};
  // Recursions are inlined for as far as they go, but it takes long to predict whether that is of use.
  const auto same = std::count_if(state_.frames.begin(), state_.frames.end(),
                                  [code](const Frame& f) { return f.view->code() == code; });
  if (state_.frames.size() >= kMostInlined || (imagined_graph_ && same > 1))
    throw NotCompiled{"a recursive call of " + name};
  if (request_.options.leave_alone && request_.options.leave_alone(code))
    throw NotCompiled{"a call of " + name + ", which is disabled"};
  guard_code(function);
  if (const auto missing = code->co_argcount - static_cast<int>(args.size()); missing > 0) {
    const auto part = [&](int index) {
      auto source = std::make_shared<Source>();
      source->kind = SourceKind::Default;
      source->base = function->source;
      source->index = index;
      return source;
    };
    PyObject* defaults = object->func_defaults;
    const Py_ssize_t count = defaults && PyTuple_CheckExact(defaults) ? PyTuple_GET_SIZE(defaults) : 0;
    if (missing > count) throw NotCompiled{"a call of " + name + " without an argument"};
    guard(executor_, GuardKind::Length, part(-1), nullptr, nullptr, count);
    for (int k = missing; k > 0; --k) {
      Typed v;
      v.kind = Kind::Object;
      v.value = lazy(executor_, PyTuple_GET_ITEM(defaults, count - k), part(static_cast<int>(count) - k));
      args.push_back(std::move(v));
    }
  }
  std::shared_ptr<const CodeView>& view = views_[code];
  if (!view) view = CodeView::decode(code);
  Frame callee{view, object->func_globals, object->func_builtins, 0, std::move(args), {}};
  callee.locals.resize(static_cast<std::size_t>(view->local_count()));
  state_.frames.push_back(std::move(callee));
}

void LoopTranslator::do_return(Typed v) {
  if (state_.frames.size() == 1) {
    push(std::move(v));
    throw NotCompiled{"the end of the function"};
  }
  state_.frames.pop_back();
  push(std::move(v));
  // All returns of the function go on in one block.
  flush_pending();
  const cfg::Edge edge = edge_to(state_);
  cfg_.blocks[block_].end = cfg::Block::End::Jump;
  cfg_.blocks[block_].to[0] = edge;
  ended_ = true;
}

Typed LoopTranslator::get_attr(const Typed& v, PyObject* name) {
  const std::string text = text_of(name);
  if (v.is_complex()) return complex_part(v, text);
  if (const Typed* array = array_of(v)) {
    const std::size_t rank = (array->ids.size() - 1) / 2;
    if (text == "ndim") return of_int(integer(static_cast<int64_t>(rank)), true);
    if (text == "shape") {
      Typed shape;
      shape.kind = Kind::Tuple;
      for (std::size_t k = 0; k < rank; ++k) shape.items.push_back(of_int(array->ids[1 + k], true));
      return shape;
    }
    throw NotCompiled{"the attribute " + text + " of an array", true};
  }
  if (v.kind != Kind::Object || v.value->kind == ValueKind::Array) throw NotCompiled{"the attribute " + text};
  if (std::optional<Typed> stored = stored_attribute(v, name)) return *stored;
  Captured<Value*> found = capture::get_attr(executor_, v.value, name);
  if (!found || !*found) throw NotCompiled{"the attribute " + text};
  Typed made;
  made.kind = Kind::Object;
  made.value = look(executor_, *found);
  return made;
}

/// Methods of instances, `list.append`, and the conjugate of a complex number, as the interpreter has them in front of
/// the call: the method and what it is of.
bool LoopTranslator::load_method(const Typed& v, PyObject* name) {
  const bool appends = PyUnicode_CompareWithASCIIString(name, "append") == 0;
  const Typed of = known(v);
  for (const cfg::Function& f : kIntMethods)
    if (of.kind == Kind::Int && PyUnicode_CompareWithASCIIString(name, f.name) == 0) {
      pop();
      Typed method;
      method.kind = Kind::Object;
      method.value = session_.constant(type_attr(&PyLong_Type, name));
      push(std::move(method));
      push(of);
      return true;
    }
  if (of.kind == Kind::Object && of.value->kind == ValueKind::Object && !stored_attribute(of, name)) {
    Value* self = nullptr;
    const Captured<Value*> found = capture::get_attr(executor_, of.value, name, &self);
    if (!found || !*found || self != of.value) return false;
    pop();
    Typed method;
    method.kind = Kind::Object;
    method.value = look(executor_, *found);
    push(std::move(method));
    push(of);
    return true;
  }
  const std::optional<Typed> list = appends ? list_of(of) : std::nullopt;
  if (!list && (!of.is_complex() || PyUnicode_CompareWithASCIIString(name, "conjugate") != 0)) return false;
  pop();
  Typed method;
  method.kind = Kind::Object;
  method.value = session_.constant(type_attr(list ? &PyList_Type : &PyComplex_Type, name));
  push(std::move(method));
  push(list ? *list : of);
  return true;
}

/// Is there another item? A number that is not 0, or 1 for what never ends.
cfg::Id LoopTranslator::has_more(const Typed& iterator) {
  if (iterator.kind == Kind::RangeIterator) return op(Op::Ne, Type::I64, iterator.ids[1], integer(0));
  if (iterator.kind == Kind::Joint) {
    cfg::Id all = integer(1);
    for (const Typed& part : iterator.items) all = op(Op::And, Type::I64, all, has_more(part));
    return all;
  }
  if (iterator.items.empty()) return integer(1);
  const Typed& over = iterator.items[0];
  const cfg::Id length = over.kind == Kind::List ? load(over.ids[0], py::kListSize) : over.ids[1];
  return op(Op::Lt, Type::I64, iterator.ids[0], length);
}

/// The next item of an iterator that has one.
Typed LoopTranslator::take(Typed& iterator) {
  if (iterator.kind == Kind::RangeIterator) {
    const cfg::Id next = iterator.ids[0], step = iterator.ids[2];
    iterator.ids = {op(Op::Add, Type::I64, next, step), op(Op::Sub, Type::I64, iterator.ids[1], integer(1)), step};
    return of_int(next, iterator.natural);
  }
  if (iterator.kind == Kind::Joint) {
    Typed tuple;
    tuple.kind = Kind::Tuple;
    for (Typed& part : iterator.items) {
      Typed item = take(part);
      name(item);
      tuple.items.push_back(std::move(item));
    }
    return tuple;
  }
  const cfg::Id at = iterator.ids[0];
  if (iterator.items.empty()) {
    iterator.ids = {exact(Op::AddExact, at, integer(1))};
    return of_int(at, iterator.natural);
  }
  iterator.ids = {op(Op::Add, Type::I64, at, integer(1))};
  const Typed over = iterator.items[0];
  return over.kind == Kind::List ? item_of(over, at) : get_item(over, of_int(at, true));
}

/// The next item of a list or array, or of several.
void LoopTranslator::for_item(const Instr& i) {
  std::vector<Typed>& stack = frame().stack;
  Typed& iterator = stack[stack.size() - py::kIteratorSlots];
  const uint32_t behind = frame().view->behind(frame().pc);
  flush_pending();
  State ended = state_;
  const bool was_there = iterator.object >= 0;
  const cfg::Id more = has_more(iterator);
  const uint32_t here = block_;
  if (was_there) {
    // The interpreter ends an iterator that was there.
    if (!state_.checkpoint) give_up("the state at the head of a loop cannot be kept");
    cfg::Node n;
    n.op = Op::Check;
    n.args[0] = more;
    n.exit = exit_at(*state_.checkpoint, {});
    program_->exits.back().early = false;
    add(n);
  } else {
    // The item is read in a block of its own, behind the test.
    Frame& last = ended.frames.back();
    last.stack.resize(last.stack.size() - py::kIteratorSlots);
    last.pc = static_cast<uint32_t>(i.arg);
    const uint32_t inside = static_cast<uint32_t>(cfg_.blocks.size());
    cfg_.blocks.emplace_back();
    cfg_.blocks.back().level = cfg_.blocks[here].level;
    const cfg::Edge end = edge_to(std::move(ended));
    cfg::Block& b = cfg_.blocks[here];
    b.end = cfg::Block::End::Branch;
    b.condition = more;
    b.to[0].block = inside;
    b.to[1] = end;
    block_ = inside;
  }
  Typed item = take(iterator);
  frame().pc = behind;
  push(std::move(item));
}

/// An iterator over a list, an array or a range; what is one already stays itself.
Typed LoopTranslator::iterator_over(const Typed& v) {
  if (v.kind == Kind::Joint || v.kind == Kind::RangeIterator || v.kind == Kind::Iterator) return v;
  std::optional<Typed> over = list_of(v);
  if (!over)
    if (const Typed* array = array_of(v); array && array->ids.size() > 1) over = *array;
  Typed iterator;
  if (over) {
    if (over->kind == Kind::List && py::kIteratorSlots > 1) throw NotCompiled{"a loop over a list"};
    iterator.kind = Kind::Iterator;
    iterator.natural = true;
    iterator.ids = {integer(0)};
    iterator.items = {*over};
    return iterator;
  }
  if (v.kind != Kind::Range) throw NotCompiled{"a loop over what is no range, array or list"};
  iterator.kind = Kind::RangeIterator;
  iterator.natural = v.natural;
  const cfg::Id start = v.ids[0], stop = v.ids[1], step = v.ids[2];
  const int64_t by = cfg_.at(step).imm;
  const cfg::Id span = by > 0 ? exact(Op::SubExact, stop, start) : exact(Op::SubExact, start, stop);
  const int64_t size = by > 0 ? by : -by;
  const cfg::Id some =
      size == 1 ? span : op(Op::FloorDiv, Type::I64, exact(Op::AddExact, span, integer(size - 1)), integer(size));
  const cfg::Id left = op(Op::Select, Type::I64, op(Op::Lt, Type::I64, integer(0), span), some, integer(0));
  iterator.ids = {start, left, step};
  return iterator;
}

void LoopTranslator::get_iter() {
  push(iterator_over(pop_known()));
  if constexpr (py::kIteratorSlots > 1) push(null());
}

/// Sets the place of an iterator over a range that was there at the entry.
void LoopTranslator::set_range(cfg::Id iterator, cfg::Id next, cfg::Id left) {
  if constexpr (py::kRangeIndex >= 0) {
    const cfg::Id length = load(iterator, py::kRangeLength);
    store(iterator, py::kRangeIndex, op(Op::Sub, Type::I64, length, left));
  } else {
    store(iterator, py::kRangeStart, next);
    store(iterator, py::kRangeLength, left);
  }
}

void LoopTranslator::store(cfg::Id object, int offset, cfg::Id value) {
  cfg::Node n;
  n.op = Op::Store;
  n.args[0] = object;
  n.args[2] = value;
  n.imm = offset;
  add(n);
}

/// An iterator that was there at the entry goes: whoever else holds it finds it where the loop has left it.
void LoopTranslator::give_back(const Typed& v) {
  if (v.object < 0 || (v.kind != Kind::RangeIterator && v.kind != Kind::Iterator && v.kind != Kind::Joint)) return;
  flush_pending();
  const auto give = [&](const auto& self, const Typed& part) -> void {
    for (const Typed& inner : part.items)
      if (part.kind == Kind::Joint) self(self, inner);
    if (part.kind == Kind::Joint) return;
    const cfg::Id iterator = input(Op::Object, part.object);
    if (part.kind == Kind::RangeIterator) set_range(iterator, part.ids[0], part.ids[1]);
    else store(iterator, py::kIteratorIndex, part.ids[0]);
  };
  give(give, v);
  take_checkpoint(true);
}

void LoopTranslator::for_iter(const Instr& i) {
  std::vector<Typed>& stack = frame().stack;
  Typed& iterator = stack[stack.size() - py::kIteratorSlots];
  if (iterator.kind != Kind::RangeIterator) throw NotCompiled{"a loop over what is no range"};
  flush_pending();
  const cfg::Id next = iterator.ids[0], left = iterator.ids[1], step = iterator.ids[2];
  const cfg::Id more = op(Op::Ne, Type::I64, left, integer(0));
  const uint32_t behind = frame().view->behind(frame().pc);
  State ended = state_;
  Frame& over = ended.frames.back();
  over.stack.resize(over.stack.size() - py::kIteratorSlots);
  over.pc = static_cast<uint32_t>(i.arg);
  const bool was_there = iterator.object >= 0;
  const cfg::Id object = was_there ? input(Op::Object, iterator.object) : cfg::kNone;
  iterator.ids = {op(Op::Add, Type::I64, next, step), op(Op::Sub, Type::I64, left, integer(1)), step};
  const bool natural = iterator.natural;
  push(of_int(next, natural));
  frame().pc = behind;
  const cfg::Edge round = edge_to(state_);
  cfg::Edge end;
  if (!was_there) {
    end = edge_to(ended);
  } else {
    // Whoever else holds the iterator finds it at its end.
    end.block = static_cast<uint32_t>(cfg_.blocks.size());
    cfg_.blocks.emplace_back();
    cfg_.blocks.back().level = cfg_.blocks[block_].level;
    const uint32_t here = std::exchange(block_, end.block);
    set_range(object, next, integer(0));
    ended.checkpoint = nullptr;
    const cfg::Edge on = edge_to(ended);
    cfg_.blocks[end.block].end = cfg::Block::End::Jump;
    cfg_.blocks[end.block].to[0] = on;
    block_ = here;
  }
  cfg::Block& b = cfg_.blocks[block_];
  b.end = cfg::Block::End::Branch;
  b.condition = more;
  b.to[0] = round;
  b.to[1] = end;
  ended_ = true;
}

}  // namespace framejit::capture
