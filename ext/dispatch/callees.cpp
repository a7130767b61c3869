// See callees.h. A code object may be within reach of several functions, each with settings and entries of its own.
#include "ext/dispatch/callees.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ext/arrays/numpy_api.h"
#include "ext/arrays/tensor_object.h"
#include "ext/dispatch/code_state.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/control.h"

namespace framejit::ext::dispatch {

/// Hangs on the code object.
class CalleeInterceptor final : public capture::FrameInterceptor {
 public:
  explicit CalleeInterceptor(PyCodeObject* code) : code_(code) {}
  ~CalleeInterceptor() override;

  Outcome enter(PyFunctionObject* function, PyCodeObject* code, capture::py::Slots locals, int local_count) override {
    const uint64_t id = capture::ActiveFunctionScope::id();
    for (CompiledFor& entry : compiled_for_)
      if (entry.owner == id) {
        if (entry.cold > 0 && --entry.cold > 0 && !is_given_arrays(function, code, locals)) return {};
        if (const std::shared_ptr<MarkedCode> held = entry.compiled.lock())
          return held->enter(function, code, locals, local_count);
      }
    return {};
  }

  bool knows(uint64_t owner) const {
    return std::any_of(compiled_for_.begin(), compiled_for_.end(),
                       [&](const CompiledFor& entry) { return entry.owner == owner && !entry.compiled.expired(); });
  }
  void add(uint64_t owner, std::weak_ptr<MarkedCode> compiled) {
    std::erase_if(compiled_for_, [](const CompiledFor& entry) { return entry.compiled.expired(); });
    compiled_for_.push_back({owner, std::move(compiled)});
  }

 private:
  static bool is_given_arrays(PyFunctionObject* function, PyCodeObject* code, capture::py::Slots locals);

  /// Calls that are plain, where no array is to be seen: most of what is called behind a break has nothing to compile.
  static constexpr int kColdCalls = 16;
  struct CompiledFor {
    uint64_t owner;
    std::weak_ptr<MarkedCode> compiled;
    int cold = kColdCalls;
  };
  PyCodeObject* code_;
  std::vector<CompiledFor> compiled_for_;
};

namespace {

std::unordered_map<PyCodeObject*, std::weak_ptr<CalleeInterceptor>>& reached() {
  static auto* map = new std::unordered_map<PyCodeObject*, std::weak_ptr<CalleeInterceptor>>;  // code objects die last
  return *map;
}

/// The import system holds locks that capture, which imports, would wait for.
bool may_be_reached(PyCodeObject* code) {
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (!file) PyErr_Clear();
  return file && !std::string_view(file).starts_with("<frozen importlib") && (code->co_flags & CO_OPTIMIZED) &&
         !is_marked(code) && !module::is_disabled(code);
}

bool is_array(PyObject* object) { return object && (PyArray_Check(object) || arrays::is_tensor(object)); }

bool holds_array(PyObject* object) {
  if (object && PyTuple_CheckExact(object))
    return PyTuple_GET_SIZE(object) > 0 && is_array(PyTuple_GET_ITEM(object, 0));
  if (object && PyList_CheckExact(object)) return PyList_GET_SIZE(object) > 0 && is_array(PyList_GET_ITEM(object, 0));
  return is_array(object);
}

}  // namespace

bool CalleeInterceptor::is_given_arrays(PyFunctionObject* function, PyCodeObject* code, capture::py::Slots locals) {
  for (int i = 0; i < module::argument_slots(code); ++i)
    if (holds_array(locals[i])) return true;
  PyObject* closure = function->func_closure;
  for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i)
    if (PyObject* cell = PyTuple_GET_ITEM(closure, i); PyCell_Check(cell) && holds_array(PyCell_GET(cell))) return true;
  return false;
}

CalleeInterceptor::~CalleeInterceptor() {
  const auto at = reached().find(code_);
  if (at != reached().end() && at->second.expired()) reached().erase(at);
}

void CalleeRegistry::add(PyCodeObject* code, const std::shared_ptr<CodeState>& owner, const CallSite& called_from) {
  if (code == owner->code() || !may_be_reached(code)) return;
  std::shared_ptr<CalleeInterceptor> hung = reached()[code].lock();
  if (!hung) {
    hung = std::make_shared<CalleeInterceptor>(code);
    if (!capture::mark_code(code, hung, true)) return;
    reached()[code] = hung;
  }
  if (hung->knows(owner->function_id)) return;
  std::erase_if(all_, [](const Callee& callee) { return callee.code.expired(); });
  auto compiled = make_marked_code(code, owner->settings(), owner);
  compiled->state().called_from = called_from;
  hung->add(owner->function_id, compiled);
  all_.push_back({hung, std::move(compiled)});
}

bool CalleeRegistry::any_awake() const {
  return std::any_of(all_.begin(), all_.end(), [](const Callee& callee) {
    return !callee.code.expired() && !callee.compiled->state().is_asleep();
  });
}

std::vector<CodeState*> CalleeRegistry::states() const {
  std::vector<CodeState*> out;
  for (const Callee& callee : all_)
    if (!callee.code.expired()) out.push_back(&callee.compiled->state());
  return out;
}

int CalleeRegistry::traverse(visitproc visit, void* arg) const {
  int result = 0;
  for (const Callee& callee : all_)
    if (!result) result = callee.compiled->state().traverse(visit, arg);
  return result;
}

}  // namespace framejit::ext::dispatch
