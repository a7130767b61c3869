// Which methods there are, and the states of generators around a run.
#include "ext/library_calls/draws.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ext/arrays/result_arrays.h"

namespace framejit::ext::library_calls {

using capture::Once;
using capture::Ref;

namespace {

// Those that give one fresh array of a known dtype, and run no code in Python.
constexpr DrawMethod kMethods[] = {
    {"random", 0},
    {"standard_normal", 0},
    {"standard_exponential", 0},
    {"standard_cauchy", 0},
    {"normal", 2},
    {"uniform", 2},
    {"lognormal", 2},
    {"laplace", 2},
    {"logistic", 2},
    {"gumbel", 2},
    {"gamma", 2},
    {"beta", 2},
    {"binomial", 2},
    {"f", 2},
    {"vonmises", 2},
    {"wald", 2},
    {"exponential", 1},
    {"standard_gamma", 1},
    {"chisquare", 1},
    {"poisson", 1},
    {"geometric", 1},
    {"rayleigh", 1},
    {"weibull", 1},
    {"pareto", 1},
    {"power", 1},
    {"standard_t", 1},
    {"triangular", 3},
    {"integers", 2},
    {"choice", 1},
    {"permutation", 0},
    {"permuted", -1},
};

struct Method {
  PyObject* callable;
  const DrawMethod* row;
};

/// Those that the class has as methods of Python.
std::vector<Method> find_methods() {
  std::vector<Method> found;
  auto* type = reinterpret_cast<PyObject*>(arrays::generator_type());
  for (const DrawMethod& row : kMethods) {
    PyObject* callable = PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(type)->tp_dict, row.name);
    const descrgetfunc bind = callable ? Py_TYPE(callable)->tp_descr_get : nullptr;
    // Of older versions they bind to other objects, which capture does not make.
    const Ref<> bound = bind ? Ref<>::steal(bind(callable, Py_None, type)) : Ref<>();
    PyErr_Clear();
    if (bound && Py_IS_TYPE(bound.get(), &PyMethod_Type)) found.push_back({Py_NewRef(callable), &row});
  }
  return found;
}

PyObject* name_of_module(const char* module, const char* name) {
  const Ref<> found = Ref<>::steal(PyImport_ImportModule(module));
  PyObject* object = found ? PyObject_GetAttrString(found.get(), name) : nullptr;
  if (!object) PyErr_Clear();
  return object;
}

/// Bit generators of NumPy, whose state is all that they have.
bool is_known(PyObject* bits) {
  static constexpr std::array kNames = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"};
  static constinit std::array<Once, kNames.size()> types;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (reinterpret_cast<PyObject*>(Py_TYPE(bits)) ==
        types[i].get([&] { return name_of_module("numpy.random", kNames[i]); }))
      return true;
  return false;
}

/// A lock that the thread which holds it may take again, as the methods do. Those of NumPy before 2.4 are none.
bool is_reentrant(PyObject* lock) {
  static constinit Once type;
  return reinterpret_cast<PyObject*>(Py_TYPE(lock)) == type.get([] { return name_of_module("_thread", "RLock"); });
}

Ref<> bits_of(PyObject* generator) {
  if (!Py_IS_TYPE(generator, arrays::generator_type())) return {};
  Ref<> bits = Ref<>::steal(PyObject_GetAttrString(generator, "bit_generator"));
  return bits && is_known(bits.get()) ? std::move(bits) : Ref<>();
}

}  // namespace

const DrawMethod* draw_method(PyObject* callable) {
  if (!arrays::generator_type()) return nullptr;
  static const auto* const methods = new std::vector<Method>(find_methods());
  const auto at =
      std::find_if(methods->begin(), methods->end(), [&](const Method& m) { return m.callable == callable; });
  return at == methods->end() ? nullptr : at->row;
}

thread_local Draws* Draws::current_ = nullptr;

bool Draws::allows(PyObject* generator) {
  const Ref<> bits = bits_of(generator);
  const Ref<> lock = bits ? Ref<>::steal(PyObject_GetAttrString(bits.get(), "lock")) : Ref<>();
  PyErr_Clear();
  return lock && is_reentrant(lock.get());
}

bool Draws::take(PyObject* generator) {
  Draws* const run = current_;
  Ref<> bits = run ? bits_of(generator) : Ref<>();
  if (!bits) return PyErr_Clear(), false;
  for (const Held& held : run->held_)
    if (held.bits.get() == bits.get()) return true;
  Ref<> lock = Ref<>::steal(PyObject_GetAttrString(bits.get(), "lock"));
  const Ref<> taken = lock && is_reentrant(lock.get())
                          ? Ref<>::steal(PyObject_CallMethod(lock.get(), "acquire", "O", Py_False))
                          : Ref<>();
  if (taken.get() != Py_True) return PyErr_Clear(), false;
  Ref<> state = Ref<>::steal(PyObject_GetAttrString(bits.get(), "state"));
  if (!state) {
    PyErr_Clear();
    Ref<>::steal(PyObject_CallMethod(lock.get(), "release", nullptr));
    return PyErr_Clear(), false;
  }
  run->held_.push_back({std::move(bits), std::move(lock), std::move(state)});
  return true;
}

void Draws::release() {
  for (const Held& held : held_)
    if (!Ref<>::steal(PyObject_CallMethod(held.lock.get(), "release", nullptr))) PyErr_WriteUnraisable(held.lock.get());
  held_.clear();
}

void Draws::keep() { release(); }

Draws::~Draws() {
  current_ = outer_;
  if (held_.empty()) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  for (const Held& held : held_)
    if (PyObject_SetAttrString(held.bits.get(), "state", held.state.get()) < 0) PyErr_WriteUnraisable(held.bits.get());
  release();
  PyErr_Restore(type, value, traceback);
}

}  // namespace framejit::ext::library_calls
