#include "capture/executor.h"

#include <algorithm>

#include "capture/symbolic_frame.h"
#include "graph/support/check.h"

namespace framejit::capture {

uint32_t OpenCalls::level_of(const PyCodeObject* code) const {
  return static_cast<uint32_t>(
      std::count_if(calls_.begin(), calls_.end(), [code](const Call& call) { return call.code == code; }));
}

bool OpenCalls::is_exhausted(uint32_t level) {
  if (level == 0 || recursive_calls_ < most_recursive_) return false;
  unfinished_levels_ = finished_level_ > 0 ? finished_level_ : level;
  return true;
}

void OpenCalls::begin(PyCodeObject* code, uint32_t level) {
  if (level > 0) ++calls_.back().calls;
  calls_.push_back({code, recursive_calls_ += level > 0, 0});
}

bool OpenCalls::end(uint32_t level, bool has_result) {
  const Call call = calls_.back();
  calls_.pop_back();
  return has_result && level > 0 && goes_too_far(call, level);
}

bool OpenCalls::goes_too_far(const Call& call, uint32_t level) {
  if (finished_level_ > 0 && finished_level_ <= level) return false;
  finished_level_ = level;
  if (call.calls < 2) return false;
  uint64_t calls = recursive_calls_ - call.before + 1;
  uint32_t fits = level;
  for (uint32_t outer = level; outer-- > 0;) {
    calls = std::min<uint64_t>(calls, UINT32_MAX) * call.calls + 1;
    if (calls <= most_recursive_) fits = outer;
  }
  if (fits > 0) unfinished_levels_ = fits;
  return fits > 0;
}

Executor::Executor(Session& session, const CaptureOptions& options)
    : limits(options), calls(options.recursive_calls), session_(session), options_(options), effects_(session) {}

Executor::~Executor() = default;  // where SymbolicFrame is complete

Value* Executor::str(const std::string& text) {
  Ref<> object = Ref<>::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  if (!object) PyErr_Clear();
  FRAMEJIT_CHECK(object, "no memory for a str");
  return session_.values().constant(object.get());
}

Value* Executor::track(PyObject* object, const SourceRef& source, Value* v) {
  tracked_.emplace(object, Tracked{v, source});
  kept_.push_back(Ref<>::share(object));
  session_.undo().learn([this, object] {
    tracked_.erase(object);
    kept_.pop_back();
  });
  return v;
}

void Executor::keep(PyObject* object) {
  kept_.push_back(Ref<>::share(object));
  session_.undo().learn([this] { kept_.pop_back(); });
}

std::shared_ptr<const CodeView> Executor::view_of(PyCodeObject* code) {
  auto& view = views_[code];
  if (!view) view = CodeView::decode(code);
  return view;
}

std::vector<uint32_t>& Executor::locations(const CodeView* view) {
  std::vector<uint32_t>& ids = locations_[view];
  ids.resize(view->instrs().size(), 0);
  return ids;
}

void Executor::set_handled(Value* exception) {
  session_.undo().learn([this, before = handled_] { handled_ = before; });
  handled_ = exception;
}

Value* Executor::make_generator(std::unique_ptr<SymbolicFrame> its_frame) {
  its_frame->generator = true;
  Value* it = session_.values().make(ValueKind::Iterator);
  it->as_iterator().over = Over::Generator;
  it->as_iterator().position = static_cast<std::int64_t>(generators_.size());
  generators_.push_back(std::move(its_frame));
  return it;
}

SymbolicFrame& Executor::generator_frame(const Value* generator) {
  return *generators_[static_cast<std::size_t>(generator->as_iterator().position)];
}

bool Executor::has_open_handlers() const {
  for (const auto& frame_of_generator : generators_)
    if (frame_of_generator->holds_handlers()) return true;
  return false;
}

}  // namespace framejit::capture
