// See callees.h. A code object may be within reach of several functions, each with settings and entries of its own.
#include "ext/callees.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ext/control.h"

namespace framejit::ext {

/// Hangs on the code object.
class ReachedCode final : public capture::FrameInterceptor {
 public:
  explicit ReachedCode(PyCodeObject* code) : code_(code) {}
  ~ReachedCode() override;

  Outcome enter(PyFunctionObject* function, PyCodeObject* code, PyObject** locals, int local_count) override {
    const uint64_t id = capture::ReachScope::id();
    for (const auto& [owner, compiled] : by_owner_)
      if (owner == id)
        if (const std::shared_ptr<MarkedCode> held = compiled.lock()) return held->enter(function, code, locals, local_count);
    return {};
  }

  bool knows(uint64_t owner) const {
    return std::any_of(by_owner_.begin(), by_owner_.end(), [&](const auto& known) { return known.first == owner && !known.second.expired(); });
  }
  void add(uint64_t owner, std::weak_ptr<MarkedCode> compiled) {
    std::erase_if(by_owner_, [](const auto& known) { return known.second.expired(); });
    by_owner_.emplace_back(owner, std::move(compiled));
  }

 private:
  PyCodeObject* code_;
  std::vector<std::pair<uint64_t, std::weak_ptr<MarkedCode>>> by_owner_;
};

namespace {

std::unordered_map<PyCodeObject*, std::weak_ptr<ReachedCode>>& reached() {
  static auto* map = new std::unordered_map<PyCodeObject*, std::weak_ptr<ReachedCode>>;  // code objects die last
  return *map;
}

/// The import system holds locks that capture, which imports, would wait for.
bool may_be_reached(PyCodeObject* code) {
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (!file) PyErr_Clear();
  return file && !std::string_view(file).starts_with("<frozen importlib") && (code->co_flags & CO_OPTIMIZED) && !is_marked(code) &&
         !is_disabled(code);
}

}  // namespace

ReachedCode::~ReachedCode() {
  const auto at = reached().find(code_);
  if (at != reached().end() && at->second.expired()) reached().erase(at);
}

void Callees::add(PyCodeObject* code, const std::shared_ptr<CodeState>& owner) {
  if (code == owner->code() || !may_be_reached(code)) return;
  std::shared_ptr<ReachedCode> hung = reached()[code].lock();
  if (!hung) {
    hung = std::make_shared<ReachedCode>(code);
    if (!capture::mark_code(code, hung, true)) return;
    reached()[code] = hung;
  }
  if (hung->knows(owner->reach())) return;
  std::erase_if(all_, [](const Callee& callee) { return callee.code.expired(); });
  auto compiled = std::make_shared<MarkedCode>(code, owner->settings(), owner);
  hung->add(owner->reach(), compiled);
  all_.push_back({hung, std::move(compiled)});
}

bool Callees::any_awake() const {
  return std::any_of(all_.begin(), all_.end(), [](const Callee& callee) { return !callee.code.expired() && !callee.compiled->state().is_asleep(); });
}

std::vector<CodeState*> Callees::states() const {
  std::vector<CodeState*> out;
  for (const Callee& callee : all_)
    if (!callee.code.expired()) out.push_back(&callee.compiled->state());
  return out;
}

int Callees::traverse(visitproc visit, void* arg) const {
  int result = 0;
  for (const Callee& callee : all_)
    if (!result) result = callee.compiled->state().traverse(visit, arg);
  return result;
}

}  // namespace framejit::ext
