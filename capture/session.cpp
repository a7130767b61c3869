// Session: the graph, guards and inputs of one capture, and how they are taken back.
#include "capture/session.h"

#include <algorithm>
#include <cctype>
#include <cfenv>
#include <map>
#include <numeric>

#include "capture/frontend.h"
#include "capture/py/extent.h"
#include "capture/py/repr.h"
#include "graph/support/check.h"

namespace framejit::capture {

namespace {

bool by_identity(Wrap wrap) { return wrap == Wrap::NdArray || wrap == Wrap::Tensor; }
bool is_python_number(Wrap wrap) {
  return wrap == Wrap::PyFloat || wrap == Wrap::PyInt || wrap == Wrap::PyBool || wrap == Wrap::PyComplex;
}

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

bool same_source(const SourceRef& a, const SourceRef& b) { return a == b || (a && b && same(*a, *b)); }

bool same_dim_guard(const graph::DimGuard& a, const graph::DimGuard& b) {
  return a.relation == b.relation && a.outcome == b.outcome && a.left == b.left && a.right == b.right;
}

/// By what an input is found again: an array is one object, numbers and scalars are known by where they come from.
std::size_t input_key(PyObject* object, const Source& source, Wrap wrap) {
  return by_identity(wrap) ? std::hash<PyObject*>()(object) : hash_of(source);
}

std::size_t guard_hash(const Guard& g) {
  std::size_t hash = static_cast<std::size_t>(g.kind) + reinterpret_cast<std::size_t>(g.object.get());
  hash = hash * 1000003 + key_hash(g.key.get());
  if (g.kind == GuardKind::DimRelation) hash = hash * 1000003 + (g.dim.left.hash() * 31 ^ g.dim.right.hash());
  for (const SourceRef& each : {g.source, g.other})
    if (each) hash = hash * 1000003 + hash_of(*each);
  for (const SourceRef& each : g.several) hash = hash * 1000003 + hash_of(*each);
  return hash;
}

}  // namespace

Session::Session(std::string name, const Varied& varied, std::vector<Frontend*> frontends)
    : serial_([] {
        static int64_t last = 0;  // with the GIL only
        return ++last;
      }()),
      graph_(std::make_unique<graph::Graph>(std::move(name))),
      builder_(*graph_),
      measures_(builder_, *graph_, undo_),
      varied_(varied),
      frontends_(std::move(frontends)) {}

Value* Session::make(ValueKind kind) {
  arena_.push_back(std::make_unique<Value>(kind));
  arena_.back()->number = static_cast<uint32_t>(arena_.size() - 1);
  return arena_.back().get();
}

Value* Session::constant(PyObject* object) {
  FRAMEJIT_CHECK(object, "constant without an object");
  Value* v = make(ValueKind::Constant);
  v->object = Ref<>::share(object);
  return v;
}

Value* Session::array(graph::ValueId id, Wrap wrap) {
  Value* v = make(ValueKind::Array);
  v->as_array().id = id;
  v->as_array().wrap = wrap;
  v->as_array().weak = is_python_number(wrap);
  v->partial = by_identity(wrap) && graph_->type(id).is_view() && (is_shared(id) || writing(id) == Writing::Foreign);
  return v;
}

bool Session::is_of_tensor(graph::ValueId id) const {
  return std::any_of(arena_.begin(), arena_.end(),
                     [&](const auto& v) { return v->is_array() && v->wrap() == Wrap::Tensor && v->id() == id; });
}

Value* Session::integer(const graph::Dim& dim) {
  if (dim.is_const()) {
    Ref<> number = Ref<>::steal(PyLong_FromLongLong(dim.value()));
    if (!number) PyErr_Clear();
    FRAMEJIT_CHECK(number, "no memory for an int");
    return constant(number.get());
  }
  if (graph_->shapes().is_measured(dim)) {
    Value* number = array(builder_.dim_value(dim), Wrap::PyInt);
    number->as_array().weak = true;
    return number;
  }
  Value* v = make(ValueKind::Int);
  v->as_int().dim = dim;
  return v;
}

Value* Session::tuple(std::vector<Value*> items) {
  Value* v = make(ValueKind::Tuple);
  v->items = std::move(items);
  return v;
}

Value* Session::array_input(PyObject* object, SourceRef source, ArraySpec spec) {
  const std::size_t key = input_key(object, *source, spec.wrap);
  const auto [first, last] = input_index_.equal_range(key);
  for (auto at = first; at != last; ++at) {
    const std::size_t i = at->second;
    const bool equal_source = same_source(inputs_[i].source, source);
    // Numbers and scalars are immutable: only arrays are one thing behind two names.
    if (by_identity(spec.wrap) ? input_objects_[i] != object : !equal_source) continue;
    if (!equal_source) add_guard(identity_guard(source, inputs_[i].source, true));
    return input_values_[i];
  }
  graph::Type type;
  type.dtype = spec.dtype;
  type.shape = spec.shape;
  type.strides = spec.strides;
  std::string name = graph_name(source->str(), inputs_.size());
  if (input_names_.count(name)) name += "_" + std::to_string(inputs_.size());
  input_names_.insert(name);
  graph::ValueId id = builder_.param(std::move(type), name);
  Guard g{};
  g.kind = GuardKind::Array;
  g.source = source;
  g.array = spec;
  if (spec.wrap == Wrap::Tensor) g.object = Ref<>::share(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  g.location = location_;
  const auto guard = static_cast<uint32_t>(guards_.size());
  guards_.push_back(std::move(g));

  Value* v = array(id, spec.wrap);
  v->source = source;
  v->object = Ref<>::share(object);
  input_index_.emplace(key, inputs_.size());
  inputs_.push_back(Input{source, spec, guard});
  input_objects_.push_back(object);
  input_values_.push_back(v);
  if (by_identity(spec.wrap))
    for (std::size_t w : written_)
      if (overlaps(w, inputs_.size() - 1)) overlap_ = true;
  return v;
}

void Session::add_guard(Guard guard) {
  constexpr int kMostSteps = 100;
  if (guard.source && guard.source->depth() > kMostSteps) too_deep_ = true;
  const std::size_t hash = guard_hash(guard);
  const auto [first, last] = guard_index_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Guard& g = guards_[it->second];
    if (g.kind == guard.kind && g.object.get() == guard.object.get() && g.number == guard.number &&
        same_source(g.source, guard.source) && same_source(g.other, guard.other) &&
        std::equal(g.several.begin(), g.several.end(), guard.several.begin(), guard.several.end(), same_source) &&
        same_key(g.key.get(), guard.key.get()) && g.kind != GuardKind::Array && g.kind != GuardKind::IntSymbol &&
        (g.kind != GuardKind::DimRelation || same_dim_guard(g.dim, guard.dim)))
      return;
  }
  if (guard.location == 0) guard.location = location_;
  guard_index_.emplace(hash, guards_.size());
  guards_.push_back(std::move(guard));
}

bool Session::overlaps(std::size_t written, std::size_t other) {
  for (std::size_t i = extents_.size(); i < inputs_.size(); ++i)
    extents_.push_back(by_identity(inputs_[i].spec.wrap) ? extent_of(input_objects_[i]) : std::nullopt);
  const std::optional<Extent>&a = extents_[written], &b = extents_[other];
  return !a || !b || a->overlaps(*b);
}

void Session::keep_memory_apart() {
  if (written_.empty()) return;
  Guard g{};
  g.kind = GuardKind::Disjoint;
  g.number = static_cast<int64_t>(written_.size());
  for (const std::size_t i : written_) g.several.push_back(inputs_[i].source);
  for (const Input& in : inputs_)
    if (by_identity(in.spec.wrap) && !in.spec.writeable) g.several.push_back(in.source);
  if (g.several.size() > 1) add_guard(std::move(g));
}

Captured<bool> Session::check_nodes() {
  constexpr int kMostAxes = 32;  // of NumPy 1; newer ones have 64
  for (; checked_ < graph_->value_count(); ++checked_) {
    const graph::Node& node = graph_->node(graph::ValueId{static_cast<uint32_t>(checked_)});
    const graph::Type& type = node.type;
    if (type.rank() > kMostAxes) return break_at(BreakId::UnsupportedArray, "an array of more than 32 axes");
    // NumPy allocates what a loop of ours may never have in memory.
    const int64_t most = type.is_view() ? std::numeric_limits<int64_t>::max() : graph::kMostMemory;
    if (node.op != graph::Op::Param && !graph_->shapes().limit({type.shape, graph::size_of(type.dtype), most}))
      return break_at(BreakId::WouldRaise, "an array that is too large");
  }
  return true;
}

void Session::set_writing(graph::ValueId v, Writing writing) {
  if (this->writing(v) == Writing::Foreign) return;
  writing_[v] = writing;
  undo_.learn([this, v] { writing_.erase(v); });
}

Writing Session::writing(graph::ValueId v) const {
  for (;; v = graph_->node(v).inputs[0]) {
    const auto found = writing_.find(v);
    if (found != writing_.end()) return found->second;
    if (!graph_->type(v).is_view()) return Writing::Allowed;
  }
}

Captured<bool> Session::prepare_write(graph::ValueId dst) {
  if (writing(dst) == Writing::Warns)
    return break_at(BreakId::UnsupportedArgument, "assignment to an array that warns of it");
  if (writing(dst) == Writing::Foreign)
    return break_at(BreakId::UnsupportedArgument, "assignment to a view whose base is no array");
  if (writing(dst) == Writing::Refused) return break_at(BreakId::WouldRaise, "assignment destination is read-only");
  const graph::ValueId root = graph_->root(dst);
  work_.spend(inputs_.size());
  // What a run may have to put back is then all of the array.
  constexpr int64_t kSmall = 4096;
  const graph::Type &type = graph_->type(dst), &whole = graph_->type(root);
  const bool anywhere = graph_->shapes().is_measured(type.offset) || graph_->shapes().is_measured(type.shape);
  if (anywhere && graph_->shapes().hint(whole.size()) > kSmall + 4 * graph_->shapes().hint(type.size()))
    return break_at(BreakId::UnsupportedArgument,
                    "a few items of a large array, at a place that is known at run time only");
  if (is_shared(root) || graph_->node(root).op == graph::Op::Carried)
    return break_at(BreakId::OverlappingMemory, "a write of what a branch chose, or of what a loop carries");
  if (graph_->node(root).op != graph::Op::Param) return true;  // memory that the graph made
  const auto i = static_cast<std::size_t>(graph_->node(root).index());
  if (inputs_[i].spec.writeable) return true;  // it is written already
  if (!by_identity(inputs_[i].spec.wrap)) return break_at(BreakId::UnsupportedArgument, "write into a scalar");
  std::optional<Extent> extent = extent_of(input_objects_[i]);
  if (!extent) return break_at(BreakId::UnsupportedArray, "memory that cannot be examined");
  if (!extent->writeable) return break_at(BreakId::WouldRaise, "assignment destination is read-only");
  for (std::size_t j = 0; j < inputs_.size(); ++j)
    if (j != i && by_identity(inputs_[j].spec.wrap) && overlaps(i, j))
      return break_at(BreakId::OverlappingMemory, inputs_[i].source->str() + " and " + inputs_[j].source->str());
  guards_[inputs_[i].guard].array.writeable = true;
  inputs_[i].spec.writeable = true;
  written_.push_back(i);
  undo_.learn([this, i] {
    guards_[inputs_[i].guard].array.writeable = false;
    inputs_[i].spec.writeable = false;
    written_.pop_back();
  });
  return true;
}

void Session::set_location(uint32_t location) {
  location_ = location;
  builder_.set_location(location);
}

void Session::set_flag_actions(FlagActions actions) {
  constexpr int kBits[] = {FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW, FE_INVALID};
  const auto before = std::make_shared<FlagActions>(std::exchange(flag_actions_, std::move(actions)));
  const graph::FlagRule rule_before = builder_.flag_rule();
  undo_.record([this, before, rule_before] {
    flag_actions_ = *before;
    builder_.set_flag_rule(rule_before);
  });
  graph::FlagRule rule;
  for (std::size_t i = 0; i < flag_actions_.size(); ++i) {
    PyObject* action = flag_actions_[i].get();
    if (!action) continue;
    uint8_t& set = PyUnicode_CompareWithASCIIString(action, "ignore") == 0 ? rule.ignored : rule.trapped;
    set = static_cast<uint8_t>(set | kBits[i]);
  }
  builder_.set_flag_rule(rule);
}

void Session::mark_call(std::size_t first) {
  if (!globals_) return;
  for (std::size_t i = first; i < graph_->value_count(); ++i) {
    graph::Node& node = graph_->node(graph::ValueId{static_cast<uint32_t>(i)});
    const bool flags = graph::def(node.op).cls == graph::OpClass::Elementwise &&
                       graph::may_set_flags(node.op, graph_->type(node.inputs.back()).dtype);
    if (!flags) continue;
    uint32_t origin = 0;
    while (origin < origins_.size() &&
           (origins_[origin].file.get() != file_ || origins_[origin].globals.get() != globals_))
      ++origin;
    if (origin == origins_.size()) origins_.push_back({Ref<>::share(file_), Ref<>::share(globals_)});
    node.calls = {graph_->add_call({node.op, location_, origin})};
    // What is computed in another dtype than that of out= is cast by the ufunc itself.
    for (std::size_t j = i + 1; j < graph_->value_count(); ++j) {
      graph::Node& cast = graph_->node(graph::ValueId{static_cast<uint32_t>(j)});
      if (cast.op == graph::Op::Cast && graph::index(cast.inputs[0]) == i) cast.calls = node.calls;
    }
  }
}

namespace {

using Names = std::map<std::string, std::string>;

std::string shown(const graph::Dim& dim, const Names& names) {
  const std::string text = dim.str();
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool start = text[i] == 's' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1])));
    std::size_t end = i + 1;
    while (start && end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    auto found = start ? names.find(text.substr(i, end - i)) : names.end();
    out += found != names.end() ? found->second : text.substr(i, end - i);
    i = end;
  }
  return out;
}

}  // namespace

void Session::show_dim_guards() {
  Names names;  // of every symbol, the expression whose value it is
  auto bind = [&](const graph::Dim& d, const std::string& name) {
    if (!d.is_const()) names.emplace(d.str(), name);
  };
  for (const Input& in : inputs_)
    for (std::size_t k = 0; k < in.spec.shape.size(); ++k)
      bind(in.spec.shape[k], in.source->str() + ".shape[" + std::to_string(k) + "]");
  for (const Guard& g : guards_)
    if (g.kind == GuardKind::IntSymbol) bind(g.dim.left, g.source->str());
  static constexpr const char* kYes[] = {" == ", " != ", " < ", " <= "};
  static constexpr const char* kNo[] = {" != ", " == ", " >= ", " > "};
  for (Guard& g : guards_) {
    if (g.kind != GuardKind::DimRelation) continue;
    const auto relation = static_cast<std::size_t>(g.dim.relation);
    g.shown = shown(g.dim.left, names) + (g.dim.outcome ? kYes : kNo)[relation] + shown(g.dim.right, names);
  }
}

void Session::sync_dim_guards() {
  const std::vector<graph::DimGuard>& recorded = graph_->shapes().guards();
  if (recorded.size() == dim_guards_) return;
  const std::size_t before = dim_guards_;
  for (std::size_t i = dim_guards_; i < recorded.size(); ++i) {
    if (graph_->shapes().is_measured(recorded[i].left) || graph_->shapes().is_measured(recorded[i].right)) continue;
    Guard g{};
    g.kind = GuardKind::DimRelation;
    g.dim = recorded[i];
    add_guard(std::move(g));
  }
  dim_guards_ = recorded.size();
  undo_.learn([this, before] { dim_guards_ = before; });
}

Session::Mark Session::mark() const {
  return {graph_->mark(), guards_.size(), inputs_.size(), undo_.changes(), arena_.size(), overlap_};
}

void Session::share(graph::ValueId v) {
  const graph::ValueId root = graph_->root(v);
  if (!shared_.insert(root).second) return;
  undo_.learn([this, root] { shared_.erase(root); });
}

void Session::rollback(const Mark& m) {
  undo_.roll_back(m.undo);
  for (std::size_t i = m.guards; i < guards_.size(); ++i) {
    const auto [first, last] = guard_index_.equal_range(guard_hash(guards_[i]));
    const auto at = std::find_if(first, last, [i](const auto& entry) { return entry.second == i; });
    if (at != last) guard_index_.erase(at);
  }
  guards_.erase(guards_.begin() + static_cast<std::ptrdiff_t>(m.guards), guards_.end());
  for (std::size_t i = m.inputs; i < inputs_.size(); ++i) {
    const auto [first, last] =
        input_index_.equal_range(input_key(input_objects_[i], *inputs_[i].source, inputs_[i].spec.wrap));
    const auto at = std::find_if(first, last, [i](const auto& entry) { return entry.second == i; });
    if (at != last) input_index_.erase(at);
    input_names_.erase(std::string(graph_->node(input_values_[i]->id()).name()));
  }
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(m.inputs), inputs_.end());
  input_objects_.resize(m.inputs);
  extents_.resize(std::min(extents_.size(), m.inputs));
  input_values_.resize(m.inputs);
  overlap_ = m.overlap;
  too_deep_ = false;
  graph_->rollback(m.graph);
  checked_ = std::min(checked_, graph_->value_count());
}

}  // namespace framejit::capture
