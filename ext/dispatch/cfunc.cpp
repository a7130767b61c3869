// _core.CFunction: a marked function as a function of C, at an address.
//
// Its thunk (codegen/thunk.h) comes here with the registers of the arguments. They become objects, and an entry that
// was compiled for the whole function runs on them. If there is none, or if it is left before the function's end, the
// Python function is called. What the machine code has stored in arrays is taken back before.
#include <Python.h>
#include <structmember.h>

#include <array>
#include <bit>
#include <climits>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "capture/py/until_exit.h"
#include "capture/splice.h"
#include "codegen/thunk.h"
#include "ext/arrays/numpy_api.h"
#include "ext/dispatch/function.h"
#include "ext/dispatch/pipeline.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/control.h"
#include "ext/module/module.h"
#include "ext/module/stats.h"
#include "ext/module/tape_hook.h"
#include "runtime/exec_memory.h"

namespace framejit::ext::dispatch {

using capture::FrameUpdate;
using capture::FrameView;
using capture::Ref;
using codegen::ArgumentRegisters;
using region::Entry;
using region::Outcome;

namespace {

constexpr int kMostTries = 3;              // compilations
constexpr Py_ssize_t kBorrowed = 1 << 20;  // references to an object on the stack, which must not end by itself

/// What a parameter or the result is in C.
enum class CType : char { Float64 = 'd', Float32 = 'f', Int32 = 'i', Int64 = 'l', Pointer = 'p', None = 'v' };

struct Parameter {
  CType type;
  bool is_array = false;
  int length_of = -1;  // of an array: the parameter that says how many elements there are
  int64_t length = 0;  // else so many
  int place = 0;       // among the registers of its kind
};

class CFunction {
 public:
  CFunction(FunctionObject* function, CType result, std::vector<Parameter> parameters)
      : function_(Ref<>::share(reinterpret_cast<PyObject*>(function))),
        result_(result),
        parameters_(std::move(parameters)),
        arrays_(parameters_.size()) {}

  /// "" or why there is no address.
  std::string make_address() {
    const codegen::KernelCode code = codegen::emit_thunk(
        [](void* self, ArgumentRegisters* registers) { static_cast<CFunction*>(self)->enter(*registers); }, this);
    const std::span<const uint8_t> piece(code.bytes);
    auto block = runtime::CodeBlock::seal({&piece, 1});
    if (!block) return block.error();
    thunk_ = std::move(*block);
    return {};
  }
  const void* address() const { return thunk_.entry(0); }
  bool is_compiled() const { return entry_ != nullptr; }
  const std::string& reason() const { return reason_; }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_.get());
    for (const Ref<>& array : arrays_) Py_VISIT(array.get());
    return entry_ ? entry_->references().traverse(visit, arg) : 0;
  }
  void clear() {
    entry_.reset();
    for (Ref<>& array : arrays_) array = {};
    // The function stays: whoever has the address may call it until the very end.
  }

 private:
  void enter(ArgumentRegisters& registers) {
    const bool held = PyGILState_Check() != 0;
    const PyGILState_STATE state = held ? PyGILState_LOCKED : capture::py::until_exit(PyGILState_Ensure);
    // An error of an earlier call is on its way to the caller's caller.
    if (PyErr_Occurred()) give_nothing(registers);
    else if (!run(registers) && !call_python(registers)) fail(registers, held);
    if (!held) PyGILState_Release(state);
  }

  void give_nothing(ArgumentRegisters& registers) const {
    registers.integers[0] = 0;
    registers.floats[0] = result_ == CType::Float32 ? std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN())
                                                    : std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
  }

  /// A function that gives an int says by 0 that it has failed, by the convention of scipy.ndimage: the error stays for
  /// its caller. Others have no way to say so.
  void fail(ArgumentRegisters& registers, bool held) const {
    if (!held || (result_ != CType::Int32 && result_ != CType::Int64)) PyErr_WriteUnraisable(function_.get());
    give_nothing(registers);
  }

  FunctionObject* function() const { return reinterpret_cast<FunctionObject*>(function_.get()); }
  int64_t integer(const Parameter& p, const ArgumentRegisters& registers) const {
    const uint64_t word = registers.integers[p.place];
    return p.type == CType::Int32 ? static_cast<int32_t>(word) : static_cast<int64_t>(word);
  }
  double number(const Parameter& p, const ArgumentRegisters& registers) const {
    const uint64_t word = registers.floats[p.place];
    return p.type == CType::Float32 ? std::bit_cast<float>(static_cast<uint32_t>(word)) : std::bit_cast<double>(word);
  }
  int64_t length(const Parameter& p, const ArgumentRegisters& registers) const {
    return p.length_of < 0 ? p.length : integer(parameters_[static_cast<std::size_t>(p.length_of)], registers);
  }

  static int type_num(CType type) {
    switch (type) {
      case CType::Float64: return NPY_FLOAT64;
      case CType::Float32: return NPY_FLOAT32;
      case CType::Int32: return NPY_INT32;
      default: return NPY_INT64;
    }
  }

  /// An array over the caller's memory; null with an exception set.
  Ref<> array(const Parameter& p, const ArgumentRegisters& registers) const {
    npy_intp dims[] = {length(p, registers)};
    auto* data = reinterpret_cast<void*>(registers.integers[p.place]);
    if (dims[0] < 0 || (!data && dims[0] > 0)) {
      PyErr_Format(PyExc_ValueError, "a C caller gave an array of %zd elements at %p", dims[0], data);
      return {};
    }
    if (!data) return Ref<>::steal(PyArray_SimpleNew(1, dims, type_num(p.type)));
    return Ref<>::steal(PyArray_SimpleNewFromData(1, dims, type_num(p.type), data));
  }

  Ref<> object(const Parameter& p, const ArgumentRegisters& registers) const {
    if (p.is_array) return array(p, registers);
    if (p.type == CType::Float64 || p.type == CType::Float32)
      return Ref<>::steal(PyFloat_FromDouble(number(p, registers)));
    if (p.type == CType::Pointer) return Ref<>::steal(PyLong_FromUnsignedLongLong(registers.integers[p.place]));
    return Ref<>::steal(PyLong_FromLongLong(integer(p, registers)));
  }

  /// False: an exception is set.
  bool take(PyObject* value, ArgumentRegisters& registers) const {
    switch (result_) {
      case CType::None: return true;
      case CType::Float64:
      case CType::Float32: {
        const double given = PyFloat_AsDouble(value);
        if (given == -1.0 && PyErr_Occurred()) return false;
        registers.floats[0] = result_ == CType::Float32 ? std::bit_cast<uint32_t>(static_cast<float>(given))
                                                        : std::bit_cast<uint64_t>(given);
        return true;
      }
      default: {
        const Ref<> index = Ref<>::steal(PyNumber_Index(value));
        const long long given = index ? PyLong_AsLongLong(index.get()) : -1;
        if (given == -1 && PyErr_Occurred()) return false;
        if (result_ == CType::Int32 && given != static_cast<int32_t>(given)) {
          PyErr_Format(PyExc_OverflowError, "the result %lld does not fit into an int of C", given);
          return false;
        }
        registers.integers[0] = static_cast<uint64_t>(given);
        return true;
      }
    }
  }

  bool call_python(ArgumentRegisters& registers) const {
    std::vector<Ref<>> objects;
    std::vector<PyObject*> args;
    for (const Parameter& p : parameters_) {
      objects.push_back(object(p, registers));
      if (!objects.back()) return false;
      args.push_back(objects.back().get());
    }
    const Ref<> held = Ref<>::share(function_.get());
    const Ref<> result = Ref<>::steal(PyObject_Vectorcall(held.get(), args.data(), args.size(), nullptr));
    return result && take(result.get(), registers);
  }

  /// The cached array of a parameter, if nothing else refers to it, over other memory.
  PyObject* moved(std::size_t k, const ArgumentRegisters& registers) {
    const Parameter& p = parameters_[k];
    Ref<>& kept = arrays_[k];
    const int64_t count = length(p, registers);
    auto* data = reinterpret_cast<char*>(registers.integers[p.place]);
    if (!kept || Py_REFCNT(kept.get()) != 1 || !data || count < 0) return (kept = array(p, registers)).get();
    auto* fields = reinterpret_cast<PyArrayObject_fields*>(kept.get());
    fields->data = data;
    fields->dimensions[0] = count;
    const int aligned =
        static_cast<int>(reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(fields->strides[0]));
    if (aligned == 0) fields->flags |= NPY_ARRAY_ALIGNED;
    else fields->flags &= ~NPY_ARRAY_ALIGNED;
    return kept.get();
  }

  /// False, with no exception set: the Python function has to do it.
  bool run(ArgumentRegisters& registers) {
    if (busy_ || (tries_ >= kMostTries && !entry_)) return false;
    const std::shared_ptr<CodeState> state = function()->state;
    PyCodeObject* code = state->code();
    // The call makes another state.
    if (function()->function->func_code != reinterpret_cast<PyObject*>(code)) return false;
    if (capture::tools_active(code) || module::bytecode_only() || module::is_disabled(code)) return false;
    if (of_.get() != code) {  // the first call, or the function got another __code__
      entry_.reset();
      of_ = Ref<PyCodeObject>::share(code);
      tries_ = 0;
    }
    struct Busy {
      bool& flag;
      explicit Busy(bool& f) : flag(f) { flag = true; }
      ~Busy() { flag = false; }
    } busy(busy_);
    try {
      return run_entry(*state, registers);
    } catch (const std::exception&) {
      ++module::stats.internal_errors;
      tries_ = kMostTries;
      entry_.reset();
      PyErr_Clear();
      return false;
    }
  }

  bool run_entry(CodeState& state, ArgumentRegisters& registers) {
    if (!entry_) compile(state, registers);
    if (!entry_) return false;
    std::array<PyFloatObject, ArgumentRegisters::kFloats> floats;
    std::array<Ref<>, ArgumentRegisters::kIntegers> integers;
    locals_.assign(locals_.size(), nullptr);
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      const Parameter& p = parameters_[k];
      const auto place = static_cast<std::size_t>(p.place);
      if (p.is_array) {
        locals_[k] = moved(k, registers);
      } else if (p.type == CType::Float64 || p.type == CType::Float32) {
        // Nothing keeps an argument longer than the run.
        Py_SET_TYPE(&floats[place], &PyFloat_Type);
        Py_SET_REFCNT(&floats[place], kBorrowed);
        floats[place].ob_fval = number(p, registers);
        locals_[k] = reinterpret_cast<PyObject*>(&floats[place]);
      } else {
        locals_[k] = (integers[place] = object(p, registers)).get();
      }
      if (!locals_[k]) return PyErr_Clear(), false;
    }
    const Saved saved(*this, registers);
    FrameUpdate& update = update_;
    const FrameView frame = frame_of(locals_);
    Outcome outcome = entry_->enter(frame, update);
    if (outcome == Outcome::Miss && tries_ < kMostTries) {
      entry_.reset();
      compile(state, registers);
      if (entry_) outcome = entry_->enter(frame, update);
    }
    Ref<> value;
    const capture::Instr& end = state.view()->instrs()[outcome == Outcome::Done ? update.exit_instr : 0];
    if (outcome == Outcome::Done && end.op == capture::Opcode::ReturnValue && update.stack.size() == 1)
      value = Ref<>::share(update.stack[0]);
    else if (outcome == Outcome::Done && end.op == capture::Opcode::ReturnConst)
      value = Ref<>::share(state.view()->constant(end.arg));
    for (const FrameUpdate::Local& local : update.locals) Py_XDECREF(local.value);
    for (PyObject* item : update.stack) Py_XDECREF(item);
    update.locals.clear();
    update.stack.clear();
    const bool done = value && take(value.get(), registers);
    PyErr_Clear();
    if (!done) saved.put_back();
    else ++module::stats.frames_captured;
    return done;
  }

  FrameView frame_of(const std::vector<PyObject*>& locals) const {
    PyFunctionObject* python = function()->function;
    return {{locals.data(), static_cast<int>(locals.size()), nullptr, 0, reinterpret_cast<PyObject*>(python)},
            python->func_globals,
            python->func_builtins};
  }

  void compile(CodeState& state, const ArgumentRegisters& registers) {
    if (!state.view() || static_cast<std::size_t>(module::argument_slots(state.code())) != parameters_.size()) {
      reason_ = "it takes other arguments";
      tries_ = kMostTries;
      return;
    }
    ++tries_;
    std::vector<Ref<>> objects;
    std::vector<PyObject*> locals(static_cast<std::size_t>(state.view()->local_count()));
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      objects.push_back(object(parameters_[k], registers));
      if (!objects.back()) return PyErr_Clear();
      locals[k] = objects.back().get();
    }
    locals_.resize(locals.size());
    auto entry = compile_function(state, frame_of(locals));
    if (!entry) {
      reason_ = entry.error();
      tries_ = kMostTries;  // another call would come to the same
      return;
    }
    reason_.clear();
    entry_ = std::move(*entry);
    entry_->references().weaken([] {});  // one that is broken does not fit any more
    writes_ = false;
    for (const auto& input : entry_->region().inputs) writes_ = writes_ || input.spec.writeable;
  }

  /// The contents of all arrays, if the entry writes any of them.
  class Saved {
   public:
    Saved(const CFunction& of, const ArgumentRegisters& registers) {
      if (!of.writes_) return;
      for (const Parameter& p : of.parameters_) {
        if (!p.is_array) continue;
        const bool wide = p.type == CType::Float64 || p.type == CType::Int64;
        const std::size_t bytes = static_cast<std::size_t>(of.length(p, registers)) * (wide ? 8 : 4);
        auto* from = reinterpret_cast<char*>(registers.integers[p.place]);
        parts_.push_back({from, std::vector<char>(from, from + bytes)});
      }
    }
    void put_back() const {
      for (const auto& [to, bytes] : parts_) std::memcpy(to, bytes.data(), bytes.size());
    }

   private:
    std::vector<std::pair<char*, std::vector<char>>> parts_;
  };

  const Ref<> function_;
  const CType result_;
  const std::vector<Parameter> parameters_;
  std::vector<Ref<>> arrays_;  // of array parameters: for runs of the entry
  runtime::CodeBlock thunk_;
  Ref<PyCodeObject> of_;
  std::shared_ptr<Entry> entry_;
  // Of the run that is going on.
  std::vector<PyObject*> locals_;
  FrameUpdate update_{};
  bool writes_ = false, busy_ = false;
  int tries_ = 0;
  std::string reason_;
};

struct CFunctionObject {
  PyObject_HEAD CFunction* impl;
  PyObject* weakrefs;
};

CFunction& impl_of(PyObject* self) { return *reinterpret_cast<CFunctionObject*>(self)->impl; }

bool is_float(const Parameter& p) { return !p.is_array && (p.type == CType::Float64 || p.type == CType::Float32); }

/// CFunction(function, result, parameters): see framejit._api._cfunc, which checks them.
PyObject* cfunction_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *listed;
  int result;
  if (!PyArg_ParseTuple(args, "O!CO!:CFunction", function_type(), &function, &result, &PyTuple_Type, &listed))
    return nullptr;
  std::vector<Parameter> parameters;
  int integers = 0, floats = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(listed); ++i) {
    int code, is_array, length_of;
    long long length;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(listed, i), "CpiL", &code, &is_array, &length_of, &length)) return nullptr;
    Parameter p{static_cast<CType>(code), is_array != 0, length_of, length, 0};
    if (length_of >= PyTuple_GET_SIZE(listed)) return PyErr_SetString(PyExc_ValueError, "no such parameter"), nullptr;
    p.place = is_float(p) ? floats++ : integers++;
    parameters.push_back(p);
  }
  if (integers > ArgumentRegisters::kIntegers || floats > ArgumentRegisters::kFloats)
    return PyErr_SetString(PyExc_ValueError, "more parameters than registers"), nullptr;
  Ref<> self = Ref<>::steal(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  auto* impl =
      new CFunction(reinterpret_cast<FunctionObject*>(function), static_cast<CType>(result), std::move(parameters));
  reinterpret_cast<CFunctionObject*>(self.get())->impl = impl;
  if (const std::string why = impl->make_address(); !why.empty())
    return PyErr_SetString(PyExc_OSError, why.c_str()), nullptr;
  return self.release();
}

void cfunction_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (reinterpret_cast<CFunctionObject*>(self)->weakrefs) PyObject_ClearWeakRefs(self);
  delete std::exchange(reinterpret_cast<CFunctionObject*>(self)->impl, nullptr);
  type->tp_free(self);
  Py_DECREF(type);
}

int cfunction_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const CFunction* impl = reinterpret_cast<CFunctionObject*>(self)->impl;
  return impl ? impl->traverse(visit, arg) : 0;
}

int cfunction_clear(PyObject* self) {
  if (CFunction* impl = reinterpret_cast<CFunctionObject*>(self)->impl) impl->clear();
  return 0;
}

PyObject* get_address(PyObject* self, void*) { return PyLong_FromVoidPtr(const_cast<void*>(impl_of(self).address())); }
PyObject* get_is_compiled(PyObject* self, void*) { return PyBool_FromLong(impl_of(self).is_compiled()); }
PyObject* get_reason(PyObject* self, void*) {
  const std::string& why = impl_of(self).reason();
  return PyUnicode_DecodeUTF8(why.data(), static_cast<Py_ssize_t>(why.size()), "replace");
}

PyGetSetDef getset[] = {
    {"address", get_address, nullptr, "Where the function of C is.", nullptr},
    {"is_compiled", get_is_compiled, nullptr, "Whether a call has compiled it.", nullptr},
    {"reason", get_reason, nullptr, "Why calls are calls of the Python function; empty: they are not.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(CFunctionObject, weakrefs), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(cfunction_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(cfunction_dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(cfunction_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(cfunction_clear)},
                       {Py_tp_getset, getset},
                       {Py_tp_members, members},
                       {0, nullptr}};

PyType_Spec spec = {"framejit._core.CFunction", sizeof(CFunctionObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE, slots};

const module::ModulePart part(50, [](PyObject* module) {
  const Ref<> type = Ref<>::steal(PyType_FromModuleAndSpec(module, &spec, nullptr));
  return type && PyModule_AddObjectRef(module, "CFunction", type.get()) == 0;
});

}  // namespace

}  // namespace framejit::ext::dispatch
