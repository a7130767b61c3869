// Random numbers in a compiled loop: random.random(), and random() of NumPy's generators, from the stream that the
// interpreter would draw them from.
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/loops/loop_instructions.h"
#include "capture/objects.h"
#include "capture/py/instance.h"
#include "capture/py/no_collection.h"

namespace framejit::capture {

using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

double drawn = 0;  // the last one, of the thread that holds the GIL

/// The first fields of the bitgen_t of NumPy's C interface for random numbers.
struct BitGenerator {
  void* state;
  uint64_t (*next_uint64)(void* state);
  uint32_t (*next_uint32)(void* state);
  double (*next_double)(void* state);
};

/// A lock that is held.
class Held {
 public:
  Held() = default;
  explicit Held(Ref<> lock) : lock_(std::move(lock)) {}
  Held(Held&&) = default;
  Held& operator=(Held&&) = default;
  ~Held() {
    if (!lock_) return;
    const Ref<> done = Ref<>::steal(PyObject_CallMethod(lock_.get(), "release", nullptr));
    if (!done) PyErr_Clear();
  }

 private:
  Ref<> lock_;
};

/// A generator from which the loop that runs draws. Its lock is held, so that no thread that has no GIL is in the
/// middle of a draw.
struct Drawn {
  PyObject* generator;
  Ref<> bits;
  const BitGenerator* functions;
  Held lock;
};
std::vector<Drawn> generators;

Ref<> attribute(PyObject* of, const char* name) { return Ref<>::steal(PyObject_GetAttrString(of, name)); }

bool is_lock(PyObject* object) {
  const std::string_view name = Py_TYPE(object)->tp_name;
  return name == "_thread.lock" || name == "_thread.RLock";
}

/// Null: somebody draws from it just now, or it is none of NumPy's own. An exception may be set.
const BitGenerator* functions_of(PyObject* generator) {
  for (const Drawn& d : generators)
    if (d.generator == generator) return d.functions;
  [[maybe_unused]] const py::NoCollection no_collection;
  Ref<> bits = attribute(generator, "bit_generator");
  if (!bits) {  // an np.random.RandomState
    PyErr_Clear();
    bits = attribute(generator, "_bit_generator");
  }
  if (!bits || PyType_HasFeature(Py_TYPE(bits.get()), Py_TPFLAGS_HEAPTYPE)) return nullptr;
  const Ref<> capsule = attribute(bits.get(), "capsule");
  if (!capsule || !PyCapsule_IsValid(capsule.get(), "BitGenerator")) return nullptr;
  const auto* functions = static_cast<const BitGenerator*>(PyCapsule_GetPointer(capsule.get(), "BitGenerator"));
  Ref<> lock = attribute(bits.get(), "lock");
  if (!lock || !is_lock(lock.get())) return nullptr;
  const Ref<> got = Ref<>::steal(PyObject_CallMethod(lock.get(), "acquire", "O", Py_False));
  if (!got || got.get() != Py_True) return nullptr;
  generators.push_back({generator, std::move(bits), functions, Held(std::move(lock))});
  return functions;
}

int64_t draw_by_generator(int64_t generator, int64_t) {
  const BitGenerator* functions = functions_of(reinterpret_cast<PyObject*>(generator));
  if (!functions) return PyErr_Clear(), 0;
  drawn = functions->next_double(functions->state);
  return 1;
}

/// The method that random.random is bound to, or null.
PyObject* method_of_random() {
  PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "_random");
  const Ref<> type = module ? attribute(module, "Random") : Ref<>();
  if (!type || !PyType_Check(type.get())) return PyErr_Clear(), nullptr;
  PyObject* const method = type_attr(reinterpret_cast<PyTypeObject*>(type.get()), "random");
  return method && Py_IS_TYPE(method, &PyMethodDescr_Type) ? method : nullptr;
}

PyMethodDef* definition(PyObject* method) { return reinterpret_cast<PyMethodDescrObject*>(method)->d_method; }

/// random.random, of whatever generator of that module.
bool is_random(PyObject* callable) {
  PyObject* const method = PyCFunction_CheckExact(callable) ? method_of_random() : nullptr;
  return method && definition(method) == reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
}

/// An instance of random.Random, or of a class derived from it that draws like it.
bool is_instance_of_random(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("random");
  if (Py_TYPE(object)->tp_getattro != PyObject_GenericGetAttr) return false;
  PyObject* const method = type_attr(Py_TYPE(object), name);
  return method && Py_IS_TYPE(method, &PyMethodDescr_Type) && method == method_of_random();
}

/// `random` of an instance, if it is still the method of its class.
int64_t draw_by_instance(int64_t instance, int64_t method) {
  static PyObject* const name = PyUnicode_InternFromString("random");
  auto *const object = reinterpret_cast<PyObject*>(instance), *const expected = reinterpret_cast<PyObject*>(method);
  if (type_attr(Py_TYPE(object), name) != expected) return 0;
  [[maybe_unused]] const py::NoCollection no_collection;
  const Ref<> own = Ref<>::steal(PyObject_GenericGetDict(object, nullptr));
  if (!own) PyErr_Clear();
  else if (PyDict_GetItemWithError(own.get(), name)) return 0;
  const Ref<> made = Ref<>::steal(definition(expected)->ml_meth(object, nullptr));
  if (!made) return PyErr_Clear(), 0;
  drawn = PyFloat_AS_DOUBLE(made.get());
  return 1;
}

int64_t draw_by_function(int64_t function, int64_t) {
  auto* const object = reinterpret_cast<PyObject*>(function);
  const Ref<> made = Ref<>::steal(PyCFunction_GET_FUNCTION(object)(PyCFunction_GET_SELF(object), nullptr));
  if (!made) return PyErr_Clear(), 0;
  drawn = PyFloat_AS_DOUBLE(made.get());
  return 1;
}

const cfg::Function kByGenerator{"draw_by_generator", reinterpret_cast<const void*>(&draw_by_generator), Type::I64, 2,
                                 Type::I64},
    kByInstance{"draw_by_instance", reinterpret_cast<const void*>(&draw_by_instance), Type::I64, 2, Type::I64},
    kByFunction{"draw_by_function", reinterpret_cast<const void*>(&draw_by_function), Type::I64, 2, Type::I64};

bool is_of_numpy(PyObject* object, const char* type) {
  PyObject* const found = numpy_function(type, "random");
  return found && Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(found));
}

/// np.random.rand, np.random.random or np.random.random_sample.
bool is_legacy(PyObject* callable) {
  if (!PyMethod_Check(callable) || !is_of_numpy(PyMethod_GET_SELF(callable), "RandomState")) return false;
  for (const char* name : {"rand", "random", "random_sample"}) {
    const Ref<> method = attribute(reinterpret_cast<PyObject*>(Py_TYPE(PyMethod_GET_SELF(callable))), name);
    if (method && method.get() == PyMethod_GET_FUNCTION(callable)) return true;
  }
  PyErr_Clear();
  return false;
}

Typed draw(LoopTranslator& t, const cfg::Function& function, cfg::Id from, cfg::Id method) {
  if (t.recursion.is_recursion) throw NotCompiled{"a random number"};
  update(t, function, from, method);
  return of_float(t.load(t.address(&drawn), 0, cfg::Mem::F64));
}

}  // namespace

bool is_generator(const Typed& v) {
  if (v.kind != Kind::Object || !v.value->source || !v.value->object) return false;
  PyObject* const object = v.value->object.get();
  return is_of_numpy(object, "Generator") || is_of_numpy(object, "RandomState") || is_instance_of_random(object);
}

Typed draw_from(LoopTranslator& t, const Typed& generator) {
  PyObject* const object = generator.value->object.get();
  guard(t.executor, GuardKind::Type, generator.value->source, reinterpret_cast<PyObject*>(Py_TYPE(object)));
  const cfg::Id from = t.input(Op::Object, t.fetched(generator.value->source));
  if (!is_instance_of_random(object)) return draw(t, kByGenerator, from, t.integer(0));
  return draw(t, kByInstance, from, t.address(method_of_random()));
}

std::optional<Typed> draw_by(LoopTranslator& t, PyObject* callable) {
  const bool of_random = is_random(callable);
  if (!of_random && !is_legacy(callable)) return std::nullopt;
  PyObject* const from = of_random ? callable : PyMethod_GET_SELF(callable);
  t.program->held.push_back(Ref<>::share(from));
  return draw(t, of_random ? kByFunction : kByGenerator, t.address(from), t.integer(0));
}

void release_generators() { generators.clear(); }

}  // namespace framejit::capture
