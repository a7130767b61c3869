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
#include "capture/loops/loop_instructions.h"
#include "capture/named_tuples.h"
#include "capture/objects.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/instance.h"
#include "capture/py/layouts.h"
#include "capture/py/repr.h"

namespace framejit::capture {

namespace {

bool is_extremum_of_kinds(PyObject* callable, const std::vector<Typed>& args);
void choose(LoopTranslator& t, PyObject* callable, const std::vector<Typed>& args);
Typed call_builtin(LoopTranslator& t, PyObject* callable, std::vector<Typed>& args);
Typed call_math(LoopTranslator& t, PyObject* callable, const char* name, std::vector<Typed>& args);
void enter_function(LoopTranslator& t, Value* function, std::vector<Typed> args, PyObject* keywords);

}  // namespace

using graph::DType;
using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

/// A float without its fraction. What is not finite, or does not fit, gives the least integer.
Typed to_int(LoopTranslator& t, cfg::Id value) {
  std::erase(t.pending, value);
  const cfg::Id made = t.op(Op::ToI64, Type::I64, value);
  t.check(t.op(Op::Ne, Type::I64, made, t.integer(std::numeric_limits<int64_t>::min())));
  return of_int(made);
}

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
  forget_upper_halves();
  const auto& loop = *reinterpret_cast<const ScalarLoop*>(row);
  Result result{};
  char* args[] = {reinterpret_cast<char*>(&operands)..., reinterpret_cast<char*>(&result)};
  // NumPy gives scalars steps of 0, by which its power knows that all exponents are 2.
  const intptr_t count = 1, steps[] = {(static_cast<void>(operands), intptr_t{0})..., sizeof result};
  loop.function(args, &count, steps, loop.data);
  return result;
}

// Operands are the bits of floats: a call has operands of one type.
double numpy_of_one(int64_t row, int64_t x) { return run_loop<double>(row, x); }
double numpy_of_two(int64_t row, int64_t x, int64_t y) { return run_loop<double>(row, x, y); }
int64_t numpy_truth_of_one(int64_t row, int64_t x) { return run_loop<unsigned char>(row, x); }
int64_t numpy_truth_of_two(int64_t row, int64_t x, int64_t y) { return run_loop<unsigned char>(row, x, y); }

// The same in float32, whose numbers are those of float64 here.
float single(int64_t bits) { return static_cast<float>(std::bit_cast<double>(bits)); }
double numpy_single_of_one(int64_t row, int64_t x) { return run_loop<float>(row, single(x)); }
double numpy_single_of_two(int64_t row, int64_t x, int64_t y) { return run_loop<float>(row, single(x), single(y)); }
int64_t numpy_single_truth_of_one(int64_t row, int64_t x) { return run_loop<unsigned char>(row, single(x)); }
int64_t numpy_single_truth_of_two(int64_t row, int64_t x, int64_t y) {
  return run_loop<unsigned char>(row, single(x), single(y));
}

void numpy_of_several(int64_t row, const void* numbers, void* results, int64_t count) {
  forget_upper_halves();
  const auto& loop = *reinterpret_cast<const ScalarLoop*>(row);
  char* args[] = {static_cast<char*>(const_cast<void*>(numbers)), static_cast<char*>(results)};
  const intptr_t rounds = count, steps[] = {sizeof(double), sizeof(double)};
  loop.function(args, &rounds, steps, loop.data);
}

#define FRAMEJIT_NUMPY(name, result, operands) \
  cfg::prepared({#name, reinterpret_cast<const void*>(&name), Type::result, operands, Type::I64})
const cfg::Function kNumpy[] = {FRAMEJIT_NUMPY(numpy_of_one, F64, 2), FRAMEJIT_NUMPY(numpy_of_two, F64, 3),
                                FRAMEJIT_NUMPY(numpy_truth_of_one, I64, 2), FRAMEJIT_NUMPY(numpy_truth_of_two, I64, 3)};
const cfg::Function kNumpySingle[] = {
    FRAMEJIT_NUMPY(numpy_single_of_one, F64, 2), FRAMEJIT_NUMPY(numpy_single_of_two, F64, 3),
    FRAMEJIT_NUMPY(numpy_single_truth_of_one, I64, 2), FRAMEJIT_NUMPY(numpy_single_truth_of_two, I64, 3)};
#undef FRAMEJIT_NUMPY
const cfg::Function kNumpyAtOnce = [] {
  cfg::Function function = kNumpy[0];
  function.in_lanes = numpy_of_several;
  return function;
}();

}  // namespace

void do_call(LoopTranslator& t, const Instr& i) {
  PyObject* const keywords = i.kwnames >= 0 ? t.frame().view->constant(i.kwnames) : nullptr;
  std::vector<Typed> args(static_cast<std::size_t>(i.arg));
  for (std::size_t k = args.size(); k-- > 0;) args[k] = t.pop();
  const Typed second = t.pop(), first = t.pop();
  const Typed& callable = first.kind == Kind::Null ? second : first;
  if (args.empty() && t.frame().view->calls_comprehension(t.frame().pc) &&
      (first.kind == Kind::Object || first.kind == Kind::Function) && call_comprehension(t, first, second))
    return;
  const auto no_keywords = [&] {
    if (keywords) throw NotCompiled{"a call with keywords"};
  };
  // Below the text of an `assert` is a class, not a method of that text.
  if (first.kind == Kind::Object && second.kind != Kind::Null && first.value->object &&
      PyType_Check(first.value->object.get()))
    throw NotCompiled{"a call of a class"};
  if (first.kind != Kind::Null && second.kind == Kind::List) {
    no_keywords();
    const char* name = reinterpret_cast<PyMethodDescrObject*>(first.value->object.get())->d_method->ml_name;
    if (std::strcmp(name, "append") == 0 && args.size() == 1) {
      append(t, second, known(t, std::move(args[0])));
      Typed none;
      none.kind = Kind::Object;
      none.value = t.executor.none();
      t.push(std::move(none));
    } else if (std::strcmp(name, "pop") == 0 && args.empty()) {
      const CodeView& view = *t.frame().view;
      t.push(take_last(t, second, view.instrs()[view.behind(t.frame().pc)].op == Opcode::UnpackSequence));
    } else {
      throw NotCompiled{"a call of list." + std::string(name) + "() with such arguments"};
    }
    t.frame().pc = t.frame().view->behind(t.frame().pc);
    return t.take_checkpoint(true);
  }
  if (first.kind != Kind::Null && second.is_complex() && args.empty()) {
    t.push(of_complex(t.settled(second.ids[0]), t.op(Op::Neg, Type::F64, t.settled(second.ids[1])),
                      second.kind == Kind::ComplexScalar));
    t.frame().pc = t.frame().view->behind(t.frame().pc);
    return;
  }
  if (first.kind == Kind::Object && (second.kind == Kind::View || is_generator(second))) no_keywords();
  if (first.kind == Kind::Object && second.kind == Kind::Int && args.empty()) {
    const char* name = reinterpret_cast<PyMethodDescrObject*>(first.value->object.get())->d_method->ml_name;
    for (const cfg::Function& f : kIntMethods)
      if (std::strcmp(f.name, name) == 0) t.push(of_int(t.call(f, second.ids[0]), true));
    t.frame().pc = t.frame().view->behind(t.frame().pc);
    return;
  }
  if (first.kind == Kind::Object && second.kind == Kind::Character && args.empty()) {
    no_keywords();
    t.push(call_character_method(
        t, reinterpret_cast<PyMethodDescrObject*>(first.value->object.get())->d_method->ml_name, second));
    t.frame().pc = t.frame().view->behind(t.frame().pc);
    return;
  }
  if (first.kind == Kind::Object && second.kind == Kind::View) {
    const char* name = reinterpret_cast<PyMethodDescrObject*>(first.value->object.get())->d_method->ml_name;
    t.push(call_vector_method(t, name, second, args));
    t.frame().pc = t.frame().view->behind(t.frame().pc);
    return;
  }
  const auto drew = [&t](Typed number) {
    t.push(std::move(number));
    t.frame().pc = t.frame().view->behind(t.frame().pc);
    t.take_checkpoint(true);
  };
  if (first.kind == Kind::Object && is_generator(second)) {
    if (!args.empty()) throw NotCompiled{"a random number with arguments"};
    return drew(draw_from(t, second));
  }
  if (first.kind == Kind::Object && second.kind != Kind::Null) {
    Value* method = look(t.executor, first.value);
    if (method->kind != ValueKind::Function) throw NotCompiled{"a call of a method"};
    args.insert(args.begin(), second);
    t.frame().pc = t.frame().view->behind(t.frame().pc);
    return enter_function(t, method, std::move(args), keywords);
  }
  if (callable.kind != Kind::Object) throw NotCompiled{"a call of something that is not a function"};
  Value* f = look(t.executor, callable.value);
  if (args.empty() && f->object && (f->is_constant() || f->source))
    if (std::optional<Typed> number = draw_by(t, f->object.get())) {
      if (!f->is_constant()) guard(t.executor, GuardKind::Identity, f->source, f->object.get());
      return drew(std::move(*number));
    }
  const uint32_t here = t.frame().pc;
  t.frame().pc = t.frame().view->behind(here);
  if (!keywords && f->object && (f->is_constant() || (f->kind == ValueKind::Object && f->source))) {
    std::vector<Typed> operands;
    for (const Typed& a : args) operands.push_back(a.kind == Kind::Vector ? a : known(t, a));
    if (std::optional<Typed> made = call_of_vectors(t, f->object.get(), operands)) {
      if (!f->is_constant()) guard(t.executor, GuardKind::Identity, f->source, f->object.get());
      return t.push(std::move(*made));
    }
  }
  if (f->kind == ValueKind::Object)
    if (Value* function = unwrapped(t.executor, f)) f = function;
  if (!keywords && f->kind == ValueKind::Function && is_itself(t, f, args)) return t.push(call_itself(t, f, args));
  if (f->kind == ValueKind::Function) return enter_function(t, f, std::move(args), keywords);
  no_keywords();
  if (!f->is_constant()) throw NotCompiled{"a call of an object"};
  if (args.size() == 1 && args[0].kind == Kind::Generator) {
    if (f->object.get() != reinterpret_cast<PyObject*>(&PyTuple_Type)) return consume(t, f->object.get(), args[0]);
    // The items become a list, of which the interpreter makes the tuple.
    t.push(first);
    t.push(second);
    t.frame().pc = here;
    return consume(t, reinterpret_cast<PyObject*>(&PyList_Type), args[0]);
  }
  for (Typed& a : args) {
    const std::optional<Typed> string = string_of(t, a);
    a = string ? *string : known(t, std::move(a));
  }
  if (args.size() == 1)
    if (const std::optional<Typed> items = items_for(t, f->object.get(), args[0]))
      return consume(t, f->object.get(), *items);
  if (is_extremum_of_kinds(f->object.get(), args)) return choose(t, f->object.get(), args);
  t.push(call_builtin(t, f->object.get(), args));
}

namespace {

/// min() or max() of two numbers that are not of one type: which one it gives decides the type of what follows.
bool is_extremum_of_kinds(PyObject* callable, const std::vector<Typed>& args) {
  if (args.size() != 2 || !args[0].is_number() || !args[1].is_number() || !PyCFunction_Check(callable)) return false;
  if (args[0].kind == args[1].kind && (args[0].kind != Kind::Scalar || args[0].dtype == args[1].dtype)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  const char* name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "builtins") == 0 &&
         (std::strcmp(name, "min") == 0 || std::strcmp(name, "max") == 0);
}

void choose(LoopTranslator& t, PyObject* callable, const std::vector<Typed>& args) {
  const bool most = std::strcmp(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, "max") == 0;
  const cfg::Id second = truth(t, compare(t, most ? Py_GT : Py_LT, args[1], args[0]));
  t.flush_pending();
  LoopState other = t.state;
  t.push(args[1]);
  other.frames.back().stack.push_back(args[0]);
  const cfg::Edge yes = t.edge_to(t.state), no = t.edge_to(std::move(other));
  cfg::Block& b = t.cfg.blocks[t.block];
  b.end = cfg::Block::End::Branch;
  b.condition = second;
  b.to[0] = yes;
  b.to[1] = no;
  t.ended = true;
}

}  // namespace

Typed extremum(LoopTranslator& t, bool most, const std::vector<Typed>& numbers) {
  Typed best = numbers[0];
  for (const Typed& v : numbers)
    if (!v.is_number() || v.kind == Kind::Bool || v.kind != best.kind || v.dtype != best.dtype)
      throw NotCompiled{most ? "a call of max()" : "a call of min()", v.is_array()};
  best.origin = 0;  // it may be any of them
  best.ids = {t.settled(best.ids[0])};
  for (std::size_t k = 1; k < numbers.size(); ++k) {
    const cfg::Id other = t.settled(numbers[k].ids[0]), now = best.ids[0];
    const cfg::Id better = most ? t.op(Op::Lt, Type::I64, now, other) : t.op(Op::Lt, Type::I64, other, now);
    best.ids = {t.op(Op::Select, t.type_of(now), better, other, now)};
    best.natural = most ? best.natural || numbers[k].natural : best.natural && numbers[k].natural;
  }
  return best;
}

namespace {

Typed call_builtin(LoopTranslator& t, PyObject* callable, std::vector<Typed>& args) {
  const auto is = [callable](auto* type) { return callable == reinterpret_cast<PyObject*>(type); };
  const std::size_t count = args.size();
  const auto all = [&](auto test) { return std::all_of(args.begin(), args.end(), test); };
  const bool any_array = std::any_of(args.begin(), args.end(), [](const Typed& v) { return v.is_array(); });
  if (is(&PyRange_Type) && count >= 1 && count <= 3) {
    if (!all([](const Typed& v) { return v.is_integer(); }))
      throw NotCompiled{"a range of something that is not an integer"};
    const Typed start = count > 1 ? args[0] : of_int(t.integer(0), true);
    return range_from(t, start, args[count > 1 ? 1 : 0], count > 2 ? args[2] : of_int(t.integer(1), true));
  }
  const auto choose = [&](Op op, cfg::Id a, cfg::Id b, cfg::Id c) { return t.op(op, Type::I64, a, b, c); };
  if (is(&PyEnum_Type) && count >= 1 && count <= 2 && (count == 1 || args[1].kind == Kind::Int)) {
    Typed number, joint;
    number.kind = Kind::Iterator;
    number.natural = count == 1 || args[1].natural;
    number.ids = {count == 1 ? t.integer(0) : args[1].ids[0]};
    joint.kind = Kind::Joint;
    joint.holds = "e";
    joint.items = {std::move(number), iterator_over(t, args[0])};
    count_items(joint, choose);
    return joint;
  }
  if (is(&PyZip_Type) && count >= 1) {
    Typed joint;
    joint.kind = Kind::Joint;
    joint.holds = "z";
    for (const Typed& a : args) joint.items.push_back(iterator_over(t, a));
    count_items(joint, choose);
    return joint;
  }
  if (count == 1)
    if (std::optional<Typed> made = call_on_character(t, callable, args[0])) return *made;
  if (is(&PyList_Type) && count == 1)
    if (std::optional<Typed> made = list_from(t, args[0])) return *made;
  if (is(&PyComplex_Type) && (count == 1 || count == 2)) return make_complex(t, args);
  if (is(&PyFloat_Type) && count == 1 && args[0].kind == Kind::String) {  // float("inf")
    Value* const text = look(t.executor, args[0].value);
    if (!text->is_constant()) throw NotCompiled{"a call of float() with a str"};
    const Ref<> made = Ref<>::steal(PyFloat_FromString(text->object.get()));
    if (!made) PyErr_Clear();
    else return of_float(t.number(PyFloat_AS_DOUBLE(made.get())));
  }
  if (is(&PyFloat_Type) && count == 1 && args[0].is_number()) return of_float(t.settled(as_f64(t, args[0])));
  if (is(&PyBool_Type) && count == 1) return of_bool(truth(t, args[0]));
  if (is(&PyLong_Type) && count == 1 && args[0].is_number()) {
    if (args[0].is_integer()) return of_int(args[0].ids[0], args[0].natural);
    return to_int(t, as_f64(t, args[0]));
  }
  if (!PyCFunction_Check(callable)) {
    if (std::optional<Typed> made = call_numpy(t, callable, args)) return *made;
    throw NotCompiled{"a call of " + short_repr(callable), any_array};
  }
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  const char* name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  const auto named = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  const bool of_math = module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "math") == 0;
  if (of_math) return call_math(t, callable, name, args);
  if (!module || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "builtins") != 0)
    throw NotCompiled{"a call of " + short_repr(callable)};
  if (count == 1)
    if (std::optional<Typed> made = builtin_of_list(t, callable, name, args[0])) return *made;
  if (named("divmod") && count == 2 &&
      all([](const Typed& v) { return v.kind == Kind::Int || v.kind == Kind::Float; })) {
    Typed both;
    both.kind = Kind::Tuple;
    both.items = {binary(t, kFloorDiv, args[0], args[1]), binary(t, kRemainder, args[0], args[1])};
    return both;
  }
  if (named("pow") && count == 2 && all([](const Typed& v) { return v.kind == Kind::Int || v.kind == Kind::Float; }))
    return binary(t, kPower, args[0], args[1]);
  if (named("len") && count == 1) {
    if (args[0].kind == Kind::Tuple) return of_int(t.integer(static_cast<int64_t>(args[0].items.size())), true);
    if (const std::optional<Typed> list = list_of(t, args[0])) return of_int(count_of(t, *list), true);
    if (args[0].kind == Kind::String) return of_int(args[0].ids[1], true);
    if (args[0].kind == Kind::Character) return of_int(t.integer(1), true);
    if (const Typed* array = array_of(t, args[0]); array && array->ids.size() > 1) return of_int(array->ids[1], true);
  }
  if (named("abs") && count == 1 && args[0].is_complex()) return complex_length(t, args[0]);
  if (named("abs") && count == 1 && args[0].is_number() && args[0].kind != Kind::Bool) {
    const Typed& v = args[0];
    const cfg::Id id = t.settled(v.ids[0]);
    Typed made = v;
    made.origin = 0;  // another object
    made.natural = true;
    if (t.type_of(id) != Type::I64) {
      made.ids = {t.op(Op::Abs, t.type_of(id), id)};
    } else {
      made.ids = {magnitude(t, v)};
    }
    return made;
  }
  if ((named("min") || named("max")) && count >= 2) return extremum(t, named("max"), args);
  if (named("round") && count == 2 && args[0].kind == Kind::Float && args[1].kind == Kind::Int)
    return call_with_objects(t, callable, args, Kind::Float);
  if (named("round") && count == 1) {
    if (args[0].kind == Kind::Int) return args[0];
    if (args[0].kind == Kind::Float || (args[0].kind == Kind::Scalar && args[0].dtype == DType::F64))
      return to_int(t, t.op(Op::Rint, Type::F64, args[0].ids[0]));
  }
  throw NotCompiled{"a call of " + std::string(name) + "()", any_array};
}

/// A scalar of NumPy's integers, but no bool.
bool is_integer_scalar(const Typed& v) { return v.kind == Kind::Scalar && graph::is_int(v.dtype); }

/// Functions of math that have no form of their own, and what they give for numbers.
std::optional<Kind> result_of_math(std::string_view name) {
  for (const char* known : {"hypot", "erf", "erfc", "gamma", "lgamma", "cbrt", "exp2", "remainder", "nextafter", "ulp",
                            "ldexp", "asinh", "acosh", "atanh", "log", "log2", "log10", "log1p"})
    if (name == known) return Kind::Float;
  for (const char* known : {"comb", "perm", "factorial", "lcm", "floor", "ceil", "trunc"})
    if (name == known) return Kind::Int;
  return name == "isclose" ? std::optional(Kind::Bool) : std::nullopt;
}

Typed call_math(LoopTranslator& t, PyObject* callable, const char* name, std::vector<Typed>& args) {
  const auto named = [&](const char* wanted) { return std::strcmp(name, wanted) == 0; };
  const auto refused = [&] { return NotCompiled{"a call of math." + std::string(name) + "()"}; };
  const bool has_form = std::any_of(std::begin(kMath), std::end(kMath), [&](const cfg::Function& f) {
    return named(f.name) && f.operands == static_cast<int>(args.size());
  });
  const bool of_ints = std::any_of(args.begin(), args.end(), [](const Typed& a) { return a.is_integer(); });
  const bool is_rounding = named("floor") || named("ceil") || named("trunc");
  const bool all_numbers = std::all_of(args.begin(), args.end(), [](const Typed& a) { return a.is_number(); });
  if ((named("floor") || named("ceil")) && args.size() == 1 && is_integer_scalar(args[0]))
    return of_int(exact_in_float(t, args[0].ids[0]), args[0].natural);
  if (const std::optional<Kind> result = result_of_math(name);
      result && !args.empty() && all_numbers && (of_ints || (!has_form && !is_rounding)))
    return call_with_objects(t, callable, args, *result);
  if (args.empty() || args.size() > 2) throw refused();
  if (std::all_of(args.begin(), args.end(), [](const Typed& a) { return a.kind == Kind::Int; })) {
    const cfg::Id first = args[0].ids[0];
    if (named("gcd") && args.size() == 2) {
      for (const Typed& a : args)
        t.check(t.op(Op::Ne, Type::I64, a.ids[0], t.integer(std::numeric_limits<int64_t>::min())));
      return of_int(t.call(kGcd, first, args[1].ids[0]), true);
    }
    if (named("isqrt") && args.size() == 1) {
      t.check(t.op(Op::Le, Type::I64, t.integer(0), first));
      return of_int(t.call(kIntSqrt, first), true);
    }
  }
  std::vector<cfg::Id> ids;
  for (Typed& a : args) {
    if (!a.is_number()) throw refused();
    // Logarithms and roundings of ints are computed in another way.
    const bool as_float = named("isnan") || named("isinf") || named("isfinite") || named("sqrt") || named("sin") ||
                          named("cos") || named("tan") || named("exp") || named("atan") || named("fabs") ||
                          named("radians") || named("degrees") || named("atan2") || named("pow");
    if (a.is_integer() && !as_float) throw refused();
    ids.push_back(t.settled(as_f64(t, a)));
  }
  const cfg::Id x = ids[0];
  if (args.size() == 1) {
    if (named("fabs")) return of_float(t.op(Op::Abs, Type::F64, x));
    if (named("isnan")) return of_bool(t.op(Op::Ne, Type::I64, x, x));
    if (named("isfinite")) return of_bool(t.op(Op::Eq, Type::I64, t.op(Op::Sub, Type::F64, x, x), t.number(0.0)));
    if (named("isinf"))
      return of_bool(
          t.op(Op::Eq, Type::I64, t.op(Op::Abs, Type::F64, x), t.number(std::numeric_limits<double>::infinity())));
    if (named("sqrt")) {
      t.check(t.op(Op::Le, Type::I64, t.number(0.0), x));
      return of_float(t.op(Op::Sqrt, Type::F64, x));
    }
    if (named("radians")) return of_float(t.op(Op::Mul, Type::F64, x, t.number(3.141592653589793 / 180.0)));
    if (named("degrees")) return of_float(t.op(Op::Mul, Type::F64, x, t.number(180.0 / 3.141592653589793)));
    for (const auto& [whole, rounded] :
         {std::pair("floor", Op::Floor), std::pair("ceil", Op::Ceil), std::pair("trunc", Op::Trunc)})
      if (named(whole)) {
        // NumPy's float32 has no method for trunc.
        const bool is_single = args[0].kind == Kind::Scalar && args[0].dtype == DType::F32;
        if (args[0].is_integer() || (is_single && rounded == Op::Trunc)) throw refused();
        const cfg::Id made = t.op(rounded, Type::F64, x);
        return to_int(t, made);
      }
  }
  for (const cfg::Function& f : kMath) {
    if (!named(f.name) || f.operands != static_cast<int>(ids.size())) continue;
    for (const cfg::Id id : ids) t.check_finite(id, true);
    const cfg::Id made = t.call(f, x, ids.size() > 1 ? ids[1] : cfg::kNone);
    t.check_finite(made, true);
    return of_float(made);
  }
  throw refused();
}

/// The type in which NumPy computes functions that give floats, if it is float64 or float32. Python's numbers become
/// what the others are.
std::optional<DType> type_of_floats(const std::vector<Typed>& args) {
  std::optional<DType> out;
  for (const Typed& v : args) {
    if (v.kind == Kind::Float || v.kind == Kind::Int) continue;
    if (v.kind != Kind::Scalar) return std::nullopt;
    // For one integer of 16 bits there is a loop over float32, for one of 8 bits over float16.
    const bool is_short = graph::is_int(v.dtype) && graph::size_of(v.dtype) == 2 && args.size() == 1;
    const bool is_wide = graph::is_int(v.dtype) && graph::size_of(v.dtype) >= 4;
    if (!graph::is_float(v.dtype) && !is_short && !is_wide) return std::nullopt;
    const DType one = v.dtype == DType::F32 || is_short ? DType::F32 : DType::F64;
    out = out && *out != one ? DType::F64 : one;
  }
  return out.value_or(DType::F64);
}

/// NumPy's functions of one or two numbers, by a loop over floats with one round.
std::optional<Typed> call_scalar_loop(LoopTranslator& t, PyObject* callable, const std::vector<Typed>& args) {
  const std::optional<DType> type = type_of_floats(args);
  if (!t.request.options.scalar_loop || !type) return std::nullopt;
  const bool of_ints = std::all_of(args.begin(), args.end(), [](const Typed& v) { return v.is_integer(); });
  const ScalarLoop* loop = t.request.options.scalar_loop(callable, static_cast<int>(args.size()), *type, of_ints);
  if (!loop) return std::nullopt;
  std::vector<cfg::Id> bits;
  for (const Typed& a : args) {
    const cfg::Id narrow = t.settled(converted(t, a, *type));
    const cfg::Id wide = *type == DType::F64 ? narrow : t.op(Op::ToF64, Type::F64, narrow);
    bits.push_back(t.op(Op::Bits, Type::I64, wide));
  }
  const bool at_once = loop->same_at_every_place && args.size() == 1 && *type == DType::F64;
  const cfg::Function& function =
      at_once ? kNumpyAtOnce
              : (*type == DType::F64 ? kNumpy : kNumpySingle)[(loop->gives_bool ? 2 : 0) + (args.size() == 2 ? 1 : 0)];
  cfg::Node n;
  n.op = Op::Call;
  n.type = function.result;
  n.function = &function;
  n.args[0] = t.address(loop);
  std::copy(bits.begin(), bits.end(), n.args + 1);
  const cfg::Id called = t.add(n);
  if (loop->gives_bool) return of_scalar(called, DType::Bool);
  const cfg::Id made = *type == DType::F64 ? called : t.op(Op::ToF32, Type::F32, called);
  t.pending.push_back(made);
  return of_scalar(made, *type);
}

}  // namespace

namespace {

PyObject* numpy_variables() {
  static PyObject* const numpy_name = PyUnicode_InternFromString("numpy");
  const Ref<> numpy = Ref<>::steal(PyImport_GetModule(numpy_name));
  if (!numpy || !PyModule_CheckExact(numpy.get())) return PyErr_Clear(), nullptr;
  return PyModule_GetDict(numpy.get());
}

}  // namespace

PyObject* numpy_function(const char* name, const char* module) {
  PyObject* variables = numpy_variables();
  if (variables && module) {
    PyObject* inner = PyDict_GetItemString(variables, module);
    variables = inner && PyModule_CheckExact(inner) ? PyModule_GetDict(inner) : nullptr;
  }
  PyObject* found = variables ? PyDict_GetItemString(variables, name) : nullptr;
  if (!found || PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_HEAPTYPE)) return nullptr;
  if (PyFunction_Check(found)) {
    PyObject* of = PyDict_GetItemString(PyFunction_GetGlobals(found), "__name__");
    if (!of || !PyUnicode_Check(of) || text_of(of).rfind("numpy.", 0) != 0) return nullptr;
  }
  const Ref<> own = Ref<>::steal(PyObject_GetAttrString(found, "__name__"));
  if (!own) PyErr_Clear();
  return own && PyUnicode_Check(own.get()) && PyUnicode_CompareWithASCIIString(own.get(), name) == 0 ? found : nullptr;
}

namespace {

/// np.isnan and its like, of any number.
std::optional<Typed> truth_of_float(LoopTranslator& t, PyObject* callable, const Typed& v) {
  const auto is = [&](const char* name) { return numpy_function(name) == callable; };
  const bool asks_finite = is("isfinite");
  if (!asks_finite && !is("isnan") && !is("isinf")) return std::nullopt;
  if (v.is_integer()) return of_scalar(t.integer(asks_finite), DType::Bool);
  const cfg::Id x = t.settled(as_f64(t, v));
  if (is("isnan")) return of_scalar(t.op(Op::Ne, Type::I64, x, x), DType::Bool);
  if (asks_finite)
    return of_scalar(t.op(Op::Eq, Type::I64, t.op(Op::Sub, Type::F64, x, x), t.number(0.0)), DType::Bool);
  const cfg::Id infinity = t.number(std::numeric_limits<double>::infinity());
  return of_scalar(t.op(Op::Eq, Type::I64, t.op(Op::Abs, Type::F64, x), infinity), DType::Bool);
}

/// A call of np.absolute, np.sign, np.maximum or np.minimum with integers, at least one of them a NumPy scalar.
std::optional<Typed> call_numpy_of_integers(LoopTranslator& t, PyObject* callable, const std::vector<Typed>& args) {
  const auto is = [&](const char* name) { return numpy_function(name) == callable; };
  if (args.size() == 1) {
    const cfg::Id x = args[0].ids[0];
    const DType dtype = args[0].dtype;
    if (is("absolute")) {
      Typed made = of_scalar(magnitude(t, args[0]), dtype);
      made.natural = true;
      return made;
    }
    if (is("sign")) {
      const cfg::Id above = t.op(Op::Lt, Type::I64, t.integer(0), x), below = t.op(Op::Lt, Type::I64, x, t.integer(0));
      return of_scalar(t.op(Op::Sub, Type::I64, above, below), dtype);
    }
    return std::nullopt;
  }
  const bool most = is("maximum");
  if (!most && !is("minimum")) return std::nullopt;
  const auto fits = [](const Typed& v) { return is_integer_scalar(v) || v.kind == Kind::Int; };
  if (!fits(args[0]) || !fits(args[1])) return std::nullopt;
  const DType dtype = args[0].kind == Kind::Int   ? args[1].dtype
                      : args[1].kind == Kind::Int ? args[0].dtype
                                                  : common(args[0].dtype, args[1].dtype);
  const cfg::Id x = converted(t, args[0], dtype), y = converted(t, args[1], dtype);
  const cfg::Id first = t.op(Op::Lt, Type::I64, most ? y : x, most ? x : y);
  return of_scalar(t.op(Op::Select, Type::I64, first, x, y), dtype);
}

}  // namespace

/// Functions are told by their names in the module numpy.
std::optional<Typed> call_numpy(LoopTranslator& t, PyObject* callable, const std::vector<Typed>& args) {
  if (args.empty() || args.size() > 2) return std::nullopt;
  const auto is = [&](const char* name) { return numpy_function(name) == callable; };
  if (args.size() == 2 && args[0].is_array() && args[1].is_array())
    return is("dot") ? dot_product(t, args[0], args[1], true) : std::nullopt;
  if (!std::all_of(args.begin(), args.end(), [](const Typed& v) { return v.is_number(); })) return std::nullopt;
  if (args.size() == 1) {
    if (std::optional<Typed> made = truth_of_float(t, callable, args[0])) return made;
    for (const auto& [name, dtype] : {std::pair("float32", DType::F32), std::pair("float64", DType::F64)}) {
      if (!is(name) || args[0].kind == Kind::Bool || (args[0].kind == Kind::Scalar && args[0].dtype == DType::Bool))
        continue;
      if (args[0].is_integer()) exact_in_float(t, args[0].ids[0]);
      return of_scalar(t.settled(converted(t, args[0], dtype)), dtype);
    }
  }
  if (std::any_of(args.begin(), args.end(), [](const Typed& v) { return is_integer_scalar(v); }))
    if (std::optional<Typed> made = call_numpy_of_integers(t, callable, args)) return made;
  const std::optional<DType> found = type_of_floats(args);
  const auto is_float = [](const Typed& v) { return !v.is_integer(); };
  if (!found || std::none_of(args.begin(), args.end(), is_float)) return call_scalar_loop(t, callable, args);
  const DType dtype = *found;
  const Type type = dtype == DType::F32 ? Type::F32 : Type::F64;
  const auto number = [&](double value) {
    return type == Type::F64 ? t.number(value) : t.op(Op::ToF32, type, t.number(value));
  };
  const auto result = [&](cfg::Id made, bool may_warn) {
    if (may_warn) t.pending.push_back(made);
    return of_scalar(made, dtype);
  };
  if (args.size() == 1) {
    const cfg::Id x = args[0].ids[0];
    if (is("sqrt")) return std::erase(t.pending, x), result(t.op(Op::Sqrt, type, x), true);
    if (is("absolute") || is("fabs")) return result(t.op(Op::Abs, type, t.settled(x)), false);
    for (const auto& [name, rounded] : {std::pair("floor", Op::Floor), std::pair("ceil", Op::Ceil),
                                        std::pair("trunc", Op::Trunc), std::pair("rint", Op::Rint)}) {
      if (!is(name)) continue;
      const cfg::Id wide = t.op(rounded, Type::F64, t.settled(as_f64(t, args[0])));
      return result(type == Type::F64 ? wide : t.op(Op::ToF32, type, wide), false);
    }
    return call_scalar_loop(t, callable, args);
  }
  if (is("maximum") || is("minimum")) {
    const cfg::Id x = t.settled(converted(t, args[0], dtype)), y = t.settled(converted(t, args[1], dtype));
    const bool most = is("maximum");
    // NaN is propagated.
    const cfg::Id first = t.op(Op::Or, Type::I64, t.op(Op::Ne, Type::I64, x, x),
                               most ? t.op(Op::Le, Type::I64, y, x) : t.op(Op::Le, Type::I64, x, y));
    t.check(t.op(Op::Ne, Type::I64,
                 t.op(Op::Or, Type::I64, t.op(Op::Ne, Type::I64, x, y), t.op(Op::Ne, Type::I64, x, number(0.0))),
                 t.integer(0)));
    return result(t.op(Op::Select, type, first, x, y), false);
  }
  return call_scalar_loop(t, callable, args);
}

void guard_code(LoopTranslator& t, Value* function) {
  auto* object = reinterpret_cast<PyFunctionObject*>(function->object.get());
  Guard g{};
  g.kind = GuardKind::Code;
  g.source = function->source;
  g.object = Ref<>::share(object->func_code);
  g.key = Ref<>::share(object->func_globals);
  t.session.guards().add(std::move(g));
}

namespace {

/// `keywords`: the names of the last arguments, or null.
void enter_function(LoopTranslator& t, Value* function, std::vector<Typed> args, PyObject* keywords) {
  const std::string name = short_repr(function->object.get());
  if (!function->source || !PyFunction_Check(function->object.get()))
    throw NotCompiled{"a call of a function made in the loop"};
  auto* object = reinterpret_cast<PyFunctionObject*>(function->object.get());
  auto* code = reinterpret_cast<PyCodeObject*>(object->func_code);
  constexpr int kOther =
      CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  const auto positional = static_cast<std::size_t>(code->co_argcount);
  if ((code->co_flags & kOther) || code->co_kwonlyargcount || code->co_ncellvars || positional < args.size())
    throw NotCompiled{"a call of " + name + " in a form that is not inlined"};
  for (Typed& a : args) {
    if (a.is_iterator()) throw NotCompiled{kHeldIterator};
    if (a.is_passing()) throw NotCompiled{kMadeFunction};
    if (a.kind == Kind::Display) a = made_list(t, a);
    if (a.kind == Kind::Vector) a = known(t, std::move(a));
    t.name(a);
  }
  // Recursions are inlined for as far as they go, but it takes long to predict whether that is of use.
  const auto same = std::count_if(t.state.frames.begin(), t.state.frames.end(),
                                  [code](const LoopFrame& f) { return f.view->code() == code; });
  if (t.state.frames.size() >= kMostInlined || (t.imagined_graph && same > 1))
    throw NotCompiled{"a recursive call of " + name};
  if (t.request.options.leave_alone && t.request.options.leave_alone(code))
    throw NotCompiled{"a call of " + name + ", which is disabled"};
  guard_code(t, function);
  std::shared_ptr<const CodeView>& view = t.objects.views[code];
  if (!view) view = CodeView::decode(code);
  if (keywords) {
    std::vector<Typed> placed(args.begin(), args.end() - PyTuple_GET_SIZE(keywords));
    placed.resize(positional);  // Unbound: missing
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(keywords); ++k) {
      PyObject* const keyword = PyTuple_GET_ITEM(keywords, k);
      std::size_t at = static_cast<std::size_t>(code->co_posonlyargcount);
      while (at < positional && PyUnicode_Compare(view->local_name(static_cast<int>(at)), keyword) != 0) ++at;
      if (at == positional || placed[at].kind != Kind::Unbound)
        throw NotCompiled{"a call of " + name + " with such a keyword"};
      placed[at] = std::move(args[args.size() - static_cast<std::size_t>(PyTuple_GET_SIZE(keywords) - k)]);
    }
    args = std::move(placed);
  }
  args.resize(positional);
  const auto is_missing = [](const Typed& a) { return a.kind == Kind::Unbound; };
  if (std::any_of(args.begin(), args.end(), is_missing)) {
    const auto part = [&](int index) {
      auto source = std::make_shared<Source>();
      source->kind = SourceKind::Default;
      source->base = function->source;
      source->index = index;
      return source;
    };
    PyObject* defaults = object->func_defaults;
    const Py_ssize_t count = defaults && PyTuple_CheckExact(defaults) ? PyTuple_GET_SIZE(defaults) : 0;
    guard(t.executor, GuardKind::Length, part(-1), nullptr, nullptr, count);
    for (std::size_t k = 0; k < positional; ++k) {
      if (!is_missing(args[k])) continue;
      const Py_ssize_t at = count - static_cast<Py_ssize_t>(positional - k);
      if (at < 0) throw NotCompiled{"a call of " + name + " without an argument"};
      args[k].kind = Kind::Object;
      args[k].value = lazy(t.executor, PyTuple_GET_ITEM(defaults, at), part(static_cast<int>(at)));
    }
  }
  LoopFrame callee{view, object->func_globals, object->func_builtins, 0, std::move(args), {}};
  callee.locals.resize(static_cast<std::size_t>(view->local_count()));
  for (int k = 0; k < code->co_nfreevars; ++k) {
    auto source = std::make_shared<Source>();
    source->kind = SourceKind::Closure;
    source->base = function->source;
    source->index = k;
    Typed& cell = callee.locals[callee.locals.size() - static_cast<std::size_t>(code->co_nfreevars - k)];
    cell.kind = Kind::Object;
    cell.value = lazy(t.executor, PyTuple_GET_ITEM(object->func_closure, k), std::move(source));
  }
  t.state.frames.push_back(std::move(callee));
}

}  // namespace

void do_return(LoopTranslator& t, Typed v) {
  if (t.state.frames.size() == 1) {
    t.push(std::move(v));
    throw NotCompiled{"the end of the function"};
  }
  if (v.kind == Kind::Display) v = made_list(t, v);
  if (v.is_passing()) throw NotCompiled{kMadeFunction};
  const Consumer consumer = t.frame().consumer;
  const bool is_search = t.frame().found != 0;
  t.state.frames.pop_back();
  if (consumer != Consumer::None) v = consumed(t, consumer);
  if (!is_search) t.push(std::move(v));
  // All returns of the function go on in one block.
  t.flush_pending();
  const cfg::Edge edge = t.edge_to(t.state);
  t.cfg.blocks[t.block].end = cfg::Block::End::Jump;
  t.cfg.blocks[t.block].to[0] = edge;
  t.ended = true;
}

Typed get_attr(LoopTranslator& t, const Typed& v, PyObject* name) {
  const std::string text = text_of(name);
  if (v.is_complex()) return complex_part(t, v, text);
  if (const Typed* array = array_of(t, v)) {
    const std::size_t rank = (array->ids.size() - 1) / 2;
    if (text == "ndim") return of_int(t.integer(static_cast<int64_t>(rank)), true);
    if (text == "shape") {
      Typed shape;
      shape.kind = Kind::Tuple;
      for (std::size_t k = 0; k < rank; ++k) shape.items.push_back(of_int(array->ids[1 + k], true));
      return shape;
    }
    if (text == "size") {
      cfg::Id size = t.integer(1);
      for (std::size_t k = 0; k < rank; ++k) size = t.op(Op::Mul, Type::I64, size, array->ids[1 + k]);
      return of_int(size, true);
    }
    if (text == "T" && rank > 0) {
      Typed turned = *array;
      std::reverse(turned.ids.begin() + 1, turned.ids.begin() + 1 + static_cast<std::ptrdiff_t>(rank));
      std::reverse(turned.ids.begin() + 1 + static_cast<std::ptrdiff_t>(rank), turned.ids.end());
      std::reverse(turned.seen.begin(), turned.seen.end());
      turned.origin = 0;
      turned.whole = turned.packed = false;
      return turned;
    }
    throw NotCompiled{"the attribute " + text + " of an array", true};
  }
  if (v.kind != Kind::Object || v.value->kind == ValueKind::Array) throw NotCompiled{"the attribute " + text};
  if (!is_tuple_instance(*v.value))
    if (std::optional<Typed> stored = stored_attribute(t, v, name)) return *stored;
  Captured<Value*> found = get_attr(t.executor, v.value, name);
  if (!found || !*found) throw NotCompiled{"the attribute " + text};
  Typed made;
  made.kind = Kind::Object;
  made.value = look(t.executor, *found);
  return made;
}

/// Methods of instances, `list.append`, `list.pop`, `random` of a generator, and the conjugate of a complex number, as
/// the interpreter has them in front of the call: the method and what it is of.
bool load_method(LoopTranslator& t, const Typed& v, PyObject* name) {
  const bool of_list =
      PyUnicode_CompareWithASCIIString(name, "append") == 0 || PyUnicode_CompareWithASCIIString(name, "pop") == 0;
  const Typed of = known(t, v);
  for (const cfg::Function& f : kIntMethods)
    if (of.kind == Kind::Int && PyUnicode_CompareWithASCIIString(name, f.name) == 0) {
      t.pop();
      Typed method;
      method.kind = Kind::Object;
      method.value = t.session.values().constant(type_attr(&PyLong_Type, name));
      t.push(std::move(method));
      t.push(of);
      return true;
    }
  if (of.kind == Kind::Character && is_character_method(name)) {
    t.pop();
    Typed method;
    method.kind = Kind::Object;
    method.value = t.session.values().constant(type_attr(&PyUnicode_Type, name));
    t.push(std::move(method));
    t.push(of);
    return true;
  }
  if (is_generator(of) && PyUnicode_CompareWithASCIIString(name, "random") == 0) {
    t.pop();
    Typed method;
    method.kind = Kind::Object;
    method.value = t.session.values().constant(type_attr(Py_TYPE(of.value->object.get()), name));
    t.push(std::move(method));
    t.push(of);
    return true;
  }
  if (const Typed* array = is_vector_method(name) ? array_of(t, of) : nullptr) {
    PyObject* type = numpy_function("ndarray");
    PyObject* raw = type && PyType_Check(type) ? type_attr(reinterpret_cast<PyTypeObject*>(type), name) : nullptr;
    if (!raw || !Py_IS_TYPE(raw, &PyMethodDescr_Type)) return false;
    const Typed vector = *array;
    t.pop();
    Typed method;
    method.kind = Kind::Object;
    method.value = t.session.values().constant(raw);
    t.push(std::move(method));
    t.push(vector);
    return true;
  }
  if (of.kind == Kind::Object && of.value->kind == ValueKind::Object && !stored_attribute(t, of, name)) {
    Value* self = nullptr;
    const Captured<Value*> found = get_attr(t.executor, of.value, name, &self);
    if (!found || !*found || self != of.value) return false;
    t.pop();
    Typed method;
    method.kind = Kind::Object;
    method.value = look(t.executor, *found);
    t.push(std::move(method));
    t.push(of);
    return true;
  }
  const std::optional<Typed> list = of_list ? list_of(t, of) : std::nullopt;
  if (!list && (!of.is_complex() || PyUnicode_CompareWithASCIIString(name, "conjugate") != 0)) return false;
  t.pop();
  Typed method;
  method.kind = Kind::Object;
  method.value = t.session.values().constant(type_attr(list ? &PyList_Type : &PyComplex_Type, name));
  t.push(std::move(method));
  t.push(list ? *list : of);
  return true;
}

}  // namespace framejit::capture
