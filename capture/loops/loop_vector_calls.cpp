// Functions of vectors of float64 in a compiled loop: those that give a vector wait like operators, sums and their like
// are NumPy's own.
#include <algorithm>
#include <string_view>

#include "capture/loops/loop_instructions.h"

namespace framejit::capture {

using graph::DType;
using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

constexpr std::size_t kMostListed = 64;
constexpr int64_t kMostSummed = 8192;  // NumPy up to 2.2 adds longer vectors in pieces
const ScalarLoop *add = nullptr, *maximum = nullptr, *minimum = nullptr;  // NumPy's, the same in all loops

/// As ufunc.reduce does it, from a number and the elements that follow.
double reduced(const ScalarLoop& loop, double from, int64_t address, int64_t count, int64_t step) {
  forget_upper_halves();
  char* places[] = {reinterpret_cast<char*>(&from), reinterpret_cast<char*>(address), reinterpret_cast<char*>(&from)};
  const intptr_t number = count, steps[] = {0, step, 0};
  if (count > 0) loop.function(places, &number, steps, loop.data);
  return from;
}

double extremum(const ScalarLoop& loop, int64_t address, int64_t count, int64_t step) {
  return reduced(loop, *reinterpret_cast<const double*>(address), address + step, count - 1, step);
}

double sum(int64_t address, int64_t count, int64_t step) { return reduced(*add, 0.0, address, count, step); }
double most(int64_t address, int64_t count, int64_t step) { return extremum(*maximum, address, count, step); }
double least(int64_t address, int64_t count, int64_t step) { return extremum(*minimum, address, count, step); }

double searched = 0;  // for which number, of the thread that holds the GIL

/// As np.searchsorted finds the first place for the number in a vector that is in order. NaN comes last.
int64_t place_of(int64_t address, int64_t count, int64_t step) {
  const auto less = [](double a, double b) { return a < b || (b != b && a == a); };
  int64_t first = 0, end = count;
  while (first < end) {
    const int64_t middle = first + ((end - first) >> 1);
    if (less(*reinterpret_cast<const double*>(address + middle * step), searched)) first = middle + 1;
    else end = middle;
  }
  return first;
}

const cfg::Function kPlaceOf{"searchsorted", reinterpret_cast<const void*>(&place_of), Type::I64, 3, Type::I64};
const cfg::Function kSum = cfg::prepared({"sum", reinterpret_cast<const void*>(&sum), Type::F64, 3, Type::I64});
const cfg::Function kMost = cfg::prepared({"max", reinterpret_cast<const void*>(&most), Type::F64, 3, Type::I64});
const cfg::Function kLeast = cfg::prepared({"min", reinterpret_cast<const void*>(&least), Type::F64, 3, Type::I64});

const ScalarLoop* loop_of(LoopTranslator& t, const char* name) {
  PyObject* function = numpy_function(name);
  return function && t.request.options.scalar_loop ? t.request.options.scalar_loop(function, 2, DType::F64, false)
                                                   : nullptr;
}

Typed place_in_order(LoopTranslator& t, const Typed& v, const Typed& number) {
  const Typed vector = known(t, v);
  const cfg::Id odd = t.op(Op::And, Type::I64, t.op(Op::Or, Type::I64, vector.ids[0], vector.ids[2]), t.integer(7));
  t.check(t.op(Op::Eq, Type::I64, odd, t.integer(0)));
  t.store(t.address(&searched), 0, t.settled(as_f64(t, number)), cfg::Mem::F64);
  cfg::Node n;
  n.op = Op::CallReads;
  n.type = Type::I64;
  n.function = &kPlaceOf;
  std::copy_n(vector.ids.begin(), 3, n.args);
  return of_scalar(t.add(n), DType::I64);
}

/// A number of a whole vector.
Typed folded(LoopTranslator& t, const cfg::Function& function, const Typed& v) {
  add = loop_of(t, "add");
  maximum = loop_of(t, "maximum");
  minimum = loop_of(t, "minimum");
  if (!add || !maximum || !minimum) throw NotCompiled{"a sum", true};
  const Typed vector = known(t, v);
  // Others are copied or turned round by NumPy.
  const cfg::Id odd = t.op(Op::Or, Type::I64, vector.ids[0], vector.ids[2]);
  t.check(t.op(Op::Eq, Type::I64, t.op(Op::And, Type::I64, odd, t.integer(7)), t.integer(0)));
  t.check(t.op(Op::Lt, Type::I64, t.integer(0), vector.ids[2]));
  t.check(t.op(Op::Le, Type::I64, vector.ids[1], t.integer(kMostSummed)));
  if (&function != &kSum) t.check(t.op(Op::Lt, Type::I64, t.integer(0), vector.ids[1]));
  cfg::Node n;
  n.op = Op::CallReads;
  n.type = Type::F64;
  n.function = &function;
  std::copy_n(vector.ids.begin(), 3, n.args);
  const cfg::Id made = t.add(n);
  // The largest number is infinite, or NaN, without a warning.
  if (&function == &kSum) t.pending.push_back(made);
  return of_scalar(made, DType::F64);
}

std::optional<Typed> fold(LoopTranslator& t, std::string_view name, const Typed& v) {
  if (name == "sum") return folded(t, kSum, v);
  if (name == "max" || name == "amax") return folded(t, kMost, v);
  if (name == "min" || name == "amin") return folded(t, kLeast, v);
  if (name != "mean") return std::nullopt;
  const Typed vector = known(t, v), total = folded(t, kSum, vector);
  t.check(t.op(Op::Lt, Type::I64, t.integer(0), vector.ids[1]));
  return binary(t, kTrueDiv, total, of_int(vector.ids[1], true));
}

bool is_builtin_abs(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return false;
  const auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  return std::string_view(function->m_ml->ml_name) == "abs" && function->m_module &&
         PyUnicode_Check(function->m_module) && PyUnicode_CompareWithASCIIString(function->m_module, "builtins") == 0;
}

Typed applied(LoopTranslator& t, PyObject* function, std::vector<Typed> operands) {
  const auto like = std::find_if(operands.begin(), operands.end(), [](const Typed& v) { return !v.is_number(); });
  const Typed vector = *like;
  for (Typed& other : operands) {
    if (other.is_number()) other = of_float(t.settled(as_f64(t, other)));
    else t.check(t.op(Op::Eq, Type::I64, length_of(other), length_of(vector)));
  }
  Typed callable;
  callable.kind = Kind::Object;
  callable.value = t.session.values().constant(function);
  operands.push_back(std::move(callable));
  t.makes_vectors = true;
  return vector_like(vector, kApply, std::move(operands));
}

/// np.array of numbers, if it is of float64.
std::optional<Typed> listed(LoopTranslator& t, const std::vector<Typed>& items) {
  std::vector<Typed> numbers;
  bool is_float = false;
  for (const Typed& item : items) {
    numbers.push_back(known(t, item));
    const Typed& v = numbers.back();
    if (!v.is_number()) return std::nullopt;
    is_float = is_float || v.kind == Kind::Float || (v.kind == Kind::Scalar && v.dtype == DType::F64);
  }
  if (!is_float || numbers.size() > kMostListed) return std::nullopt;
  const auto count = static_cast<int64_t>(numbers.size());
  Typed made = vector_like(of_int(t.integer(count), true), kListed, std::move(numbers));
  made.seen = {count};
  return made;
}

/// np.linalg.norm: a vector whose elements do not lie side by side is copied in front of the product.
Typed norm(LoopTranslator& t, const Typed& v) {
  const bool is_packed = v.kind == Kind::View && t.cfg.is_const(v.ids[2]) && t.cfg.at(v.ids[2]).imm == sizeof(double);
  if (v.kind == Kind::View)
    t.check(t.op(Op::Eq, Type::I64, t.op(Op::And, Type::I64, t.op(Op::Or, Type::I64, v.ids[0], v.ids[2]), t.integer(7)),
                 t.integer(0)));
  const Typed packed = is_packed ? v : known(t, vector_like(v, kSame, {v}));
  const std::optional<Typed> square = dot_product(t, packed, packed, true);
  if (!square) throw NotCompiled{"a norm", true};
  std::erase(t.pending, square->ids[0]);  // it shows on the root
  const cfg::Id root = t.op(Op::Sqrt, Type::F64, square->ids[0]);
  t.pending.push_back(root);
  return of_scalar(root, DType::F64);
}

}  // namespace

std::optional<Typed> call_of_vectors(LoopTranslator& t, PyObject* callable, const std::vector<Typed>& args) {
  const auto is = [callable](const char* name) { return numpy_function(name) == callable; };
  if (t.recursion.is_recursion || args.empty() || args.size() > 2) return std::nullopt;
  if (args.size() == 1 && args[0].kind == Kind::Int && (is("zeros") || is("ones"))) {
    t.check(t.op(Op::Le, Type::I64, t.integer(0), args[0].ids[0]));
    Typed filled = vector_like(args[0], kFill, {of_float(t.number(is("ones") ? 1.0 : 0.0))});
    if (t.cfg.is_const(args[0].ids[0])) filled.seen = {t.cfg.at(args[0].ids[0]).imm};
    return filled;
  }
  if (args.size() == 1 && (args[0].kind == Kind::Display || args[0].kind == Kind::Tuple) && is("array"))
    return listed(t, args[0].items);
  std::vector<Typed> operands;
  bool any = false;
  for (const Typed& a : args) {
    const std::optional<Typed> vector = as_vector(t, a);
    if (!vector && !a.is_number()) return std::nullopt;
    operands.push_back(vector ? *vector : a);
    any = any || vector;
  }
  if (!any) return std::nullopt;
  if (args.size() == 2) {
    if (is("searchsorted") && operands[1].is_number() && !operands[0].is_number())
      return place_in_order(t, operands[0], operands[1]);
    if (is("maximum") || is("minimum")) return applied(t, callable, std::move(operands));
    return std::nullopt;
  }
  const Typed& v = operands[0];
  if (is("flip")) {
    Typed none, turned;
    none.kind = Kind::Object;
    none.value = t.executor.none();
    turned.kind = Kind::Slice;
    turned.items = {none, none, of_int(t.integer(-1))};
    return get_item(t, known(t, v), turned);
  }
  for (const char* name : {"sum", "mean", "max", "min", "amax", "amin"})
    if (is(name)) return fold(t, name, v);
  if (numpy_function("norm", "linalg") == callable) return norm(t, v);
  if (is("copy")) return vector_like(v, kSame, {v});
  if (is("zeros_like") || is("ones_like"))
    return vector_like(v, kFill, {of_float(t.number(is("ones_like") ? 1.0 : 0.0))});
  for (const char* name : {"sqrt", "absolute", "fabs", "floor", "ceil", "trunc", "rint"})
    if (is(name)) return applied(t, callable, std::move(operands));
  if (is_builtin_abs(callable))
    if (PyObject* absolute = numpy_function("absolute")) return applied(t, absolute, std::move(operands));
  const ScalarLoop* loop =
      t.request.options.scalar_loop ? t.request.options.scalar_loop(callable, 1, DType::F64, false) : nullptr;
  if (loop && loop->same_at_every_place && !loop->gives_bool) return applied(t, callable, std::move(operands));
  return std::nullopt;
}

bool is_vector_method(PyObject* name) {
  for (const char* method : {"sum", "mean", "max", "min", "copy", "dot", "searchsorted"})
    if (PyUnicode_CompareWithASCIIString(name, method) == 0) return true;
  return false;
}

Typed call_vector_method(LoopTranslator& t, const std::string& name, const Typed& v, const std::vector<Typed>& args) {
  const std::optional<Typed> vector = as_vector(t, v);
  std::optional<Typed> made;
  if (vector && args.empty()) made = name == "copy" ? vector_like(*vector, kSame, {*vector}) : fold(t, name, *vector);
  else if (vector && args.size() == 1 && name == "dot") made = dot_product(t, *vector, known(t, args[0]), true);
  else if (vector && args.size() == 1 && name == "searchsorted" && args[0].is_number())
    made = place_in_order(t, *vector, args[0]);
  if (!made) throw NotCompiled{"the method " + name + " of an array", true};
  return *made;
}

std::optional<Typed> gathered(LoopTranslator& t, const Typed& array, const Typed& key) {
  const std::optional<Typed> from = as_vector(t, array);
  const Typed* indices = from ? array_of(t, key) : nullptr;
  if (!indices || indices->ids.size() != 3 || indices->dtype == DType::Bool ||
      !(graph::is_signed_int(indices->dtype) || graph::is_unsigned_int(indices->dtype)))
    return std::nullopt;
  return vector_like(*indices, kGather, {*from, *indices});
}

}  // namespace framejit::capture
