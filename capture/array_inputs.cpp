#include "capture/array_inputs.h"

#include <algorithm>
#include <cctype>

#include "capture/session.h"

namespace framejit::capture {

bool by_identity(Wrap wrap) { return wrap == Wrap::NdArray || wrap == Wrap::Tensor; }

namespace {

// A graph name: letters, digits and underscores.
std::string graph_name(const std::string& expression, std::size_t number) {
  std::string out;
  for (char c : expression) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') out += c;
    else if (!out.empty() && out.back() != '_') out += '_';
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "p" + std::to_string(number);
  return out;
}

/// By what an input is found again: an array is one object, numbers and scalars are known by where they come from.
std::size_t input_key(PyObject* object, const Source& source, Wrap wrap) {
  return by_identity(wrap) ? std::hash<PyObject*>()(object) : hash_of(source);
}

}  // namespace

Value* ArrayInputs::add(PyObject* object, SourceRef source, ArraySpec spec) {
  const std::size_t key = input_key(object, *source, spec.wrap);
  const auto [first, last] = index_.equal_range(key);
  for (auto at = first; at != last; ++at) {
    const std::size_t i = at->second;
    const bool equal_source = same_source(inputs_[i].source, source);
    // Numbers and scalars are immutable: only arrays are one thing behind two names.
    if (by_identity(spec.wrap) ? objects_[i] != object : !equal_source) continue;
    if (!equal_source) session_.guards().add(identity_guard(source, inputs_[i].source, true));
    return values_[i];
  }
  graph::Type type;
  type.dtype = spec.dtype;
  type.shape = spec.shape;
  type.strides = spec.strides;
  std::string name = graph_name(source->str(), inputs_.size());
  if (names_.count(name)) name += "_" + std::to_string(inputs_.size());
  names_.insert(name);
  graph::ValueId id = session_.builder().param(std::move(type), name);
  Guard g{};
  g.kind = GuardKind::Array;
  g.source = source;
  g.array = spec;
  if (spec.wrap == Wrap::Tensor) g.object = Ref<>::share(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  g.location = session_.position().location();
  const uint32_t guard = session_.guards().append(std::move(g));

  Value* v = session_.values().array(id, spec.wrap);
  v->source = source;
  v->object = Ref<>::share(object);
  index_.emplace(key, inputs_.size());
  inputs_.push_back(Input{source, spec, guard});
  objects_.push_back(object);
  values_.push_back(v);
  if (by_identity(spec.wrap))
    for (std::size_t w : written_)
      if (overlaps(w, inputs_.size() - 1)) overlap_ = true;
  return v;
}

bool ArrayInputs::overlaps(std::size_t written, std::size_t other) {
  for (std::size_t i = extents_.size(); i < inputs_.size(); ++i)
    extents_.push_back(by_identity(inputs_[i].spec.wrap) ? extent_of(objects_[i]) : std::nullopt);
  const std::optional<Extent>&a = extents_[written], &b = extents_[other];
  return !a || !b || a->overlaps(*b);
}

void ArrayInputs::keep_apart() {
  if (written_.empty()) return;
  Guard g{};
  g.kind = GuardKind::Disjoint;
  g.number = static_cast<int64_t>(written_.size());
  for (const std::size_t i : written_) g.several.push_back(inputs_[i].source);
  for (const Input& in : inputs_)
    if (by_identity(in.spec.wrap) && !in.spec.writeable) g.several.push_back(in.source);
  if (g.several.size() > 1) session_.guards().add(std::move(g));
}

void ArrayInputs::set_writing(graph::ValueId v, Writing writing) {
  if (this->writing(v) == Writing::Foreign) return;
  writing_[v] = writing;
  session_.undo().learn([this, v] { writing_.erase(v); });
}

Writing ArrayInputs::writing(graph::ValueId v) const {
  for (;; v = session_.graph().node(v).inputs[0]) {
    const auto found = writing_.find(v);
    if (found != writing_.end()) return found->second;
    if (!session_.graph().type(v).is_view()) return Writing::Allowed;
  }
}

Captured<bool> ArrayInputs::prepare_write(graph::ValueId dst) {
  if (writing(dst) == Writing::Warns)
    return break_at(BreakId::UnsupportedArgument, "assignment to an array that warns of it");
  if (writing(dst) == Writing::Foreign)
    return break_at(BreakId::UnsupportedArgument, "assignment to a view whose base is not an array");
  if (writing(dst) == Writing::Refused) return break_at(BreakId::WouldRaise, "assignment destination is read-only");
  const graph::ValueId root = session_.graph().root(dst);
  session_.work().spend(inputs_.size());
  // A run that is undone would then have to restore all of the array.
  constexpr int64_t kSmall = 4096;
  const graph::Type &type = session_.graph().type(dst), &whole = session_.graph().type(root);
  const bool anywhere =
      session_.graph().shapes().is_measured(type.offset) || session_.graph().shapes().is_measured(type.shape);
  if (anywhere &&
      session_.graph().shapes().hint(whole.size()) > kSmall + 4 * session_.graph().shapes().hint(type.size()))
    return break_at(BreakId::UnsupportedArgument,
                    "a few items of a large array, at a place that is known at run time only");
  if (is_shared(root) || session_.graph().node(root).op == graph::Op::Carried)
    return break_at(BreakId::OverlappingMemory, "a write of what a branch chose, or of what a loop carries");
  if (session_.graph().node(root).op != graph::Op::Param) return true;  // memory that the graph made
  const auto i = static_cast<std::size_t>(session_.graph().node(root).index());
  if (inputs_[i].spec.writeable) return true;  // it is written already
  if (!by_identity(inputs_[i].spec.wrap)) return break_at(BreakId::UnsupportedArgument, "write into a scalar");
  std::optional<Extent> extent = extent_of(objects_[i]);
  if (!extent) return break_at(BreakId::UnsupportedArray, "memory that cannot be examined");
  if (!extent->writeable) return break_at(BreakId::WouldRaise, "assignment destination is read-only");
  for (std::size_t j = 0; j < inputs_.size(); ++j)
    if (j != i && by_identity(inputs_[j].spec.wrap) && overlaps(i, j))
      return break_at(BreakId::OverlappingMemory, inputs_[i].source->str() + " and " + inputs_[j].source->str());
  session_.guards()[inputs_[i].guard].array.writeable = true;
  inputs_[i].spec.writeable = true;
  written_.push_back(i);
  session_.undo().learn([this, i] {
    session_.guards()[inputs_[i].guard].array.writeable = false;
    inputs_[i].spec.writeable = false;
    written_.pop_back();
  });
  return true;
}

void ArrayInputs::share(graph::ValueId v) {
  const graph::ValueId root = session_.graph().root(v);
  if (!shared_.insert(root).second) return;
  session_.undo().learn([this, root] { shared_.erase(root); });
}

bool ArrayInputs::is_shared(graph::ValueId v) const { return shared_.count(session_.graph().root(v)) != 0; }

void ArrayInputs::roll_back(std::size_t count, bool overlap) {
  for (std::size_t i = count; i < inputs_.size(); ++i) {
    const auto [first, last] = index_.equal_range(input_key(objects_[i], *inputs_[i].source, inputs_[i].spec.wrap));
    const auto at = std::find_if(first, last, [i](const auto& entry) { return entry.second == i; });
    if (at != last) index_.erase(at);
    names_.erase(std::string(session_.graph().node(values_[i]->id()).name()));
  }
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(count), inputs_.end());
  objects_.resize(count);
  extents_.resize(std::min(extents_.size(), count));
  values_.resize(count);
  overlap_ = overlap;
}

}  // namespace framejit::capture
