// Graph: appending, locations, transactions.
#include "graph/graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/support/check.h"

namespace framejit::graph {

std::array<uint8_t, 16> element_of(DType dtype, const Scalar& value) {
  std::array<uint8_t, 16> out{};
  const auto part = static_cast<std::size_t>(size_of(part_of(dtype)));
  std::memcpy(out.data(), &value.lo, part);
  if (is_complex(dtype)) std::memcpy(out.data() + part, &value.hi, part);
  return out;
}

Scalar scalar_from(DType dtype, const void* element) {
  Scalar out;
  const auto part = static_cast<std::size_t>(size_of(part_of(dtype)));
  std::memcpy(&out.lo, element, part);
  if (is_complex(dtype)) std::memcpy(&out.hi, static_cast<const uint8_t*>(element) + part, part);
  return out;
}

Dims c_strides(DType dtype, std::span<const Dim> shape) {
  Dims strides(shape.size());
  Dim stride = size_of(dtype);
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == Dim(0)) return Dims(shape.size(), 0);
    strides[i] = stride;
    stride = stride * shape[i];
  }
  return strides;
}

bool same_place(const Type& a, const Type& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides && a.offset == b.offset;
}

const AttrValue* Node::find(AttrKey key) const {
  for (const auto& [k, value] : attrs)
    if (k == key) return &value;
  return nullptr;
}

namespace {

template <class T>
const T& required(const Node& node, AttrKey key) {
  const AttrValue* value = node.find(key);
  const T* held = value ? std::get_if<T>(value) : nullptr;
  FRAMEJIT_CHECK(held != nullptr, std::string(name_of(node.op)) + " lacks an attribute");
  return *held;
}

}  // namespace

const std::vector<int64_t>& Node::axes() const { return required<std::vector<int64_t>>(*this, AttrKey::Axes); }
const Scalar& Node::value() const { return required<Scalar>(*this, AttrKey::Value); }
Window Node::window() const {
  std::optional<Window> out = Window::from(required<std::vector<int64_t>>(*this, AttrKey::Window));
  FRAMEJIT_CHECK(out, "a window");
  return std::move(*out);
}

std::optional<Window> Window::from(const std::vector<int64_t>& numbers) {
  Window out;
  if (numbers.size() % 4 != 1 || numbers[0] < 1) return std::nullopt;
  out.groups = numbers[0];
  for (std::size_t i = 1; i < numbers.size(); i += 4) {
    const Axis& a = out.axes.emplace_back(Axis{numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
    if (a.stride < 1 || a.before < 0 || a.after < 0 || a.dilation < 1) return std::nullopt;
    if (std::max({a.stride, a.before, a.after, a.dilation}) > kMost) return std::nullopt;
  }
  return out;
}

Dims Window::padded(Dims image) const {
  for (std::size_t i = 0; i < axes.size(); ++i)
    image[i + 2] = image[i + 2] + (Dim(axes[i].before) + Dim(axes[i].after));
  return image;
}

std::vector<int64_t> Window::numbers() const {
  std::vector<int64_t> out = {groups};
  for (const Axis& a : axes) out.insert(out.end(), {a.stride, a.before, a.after, a.dilation});
  return out;
}

const Dim& Node::dim() const { return required<Dim>(*this, AttrKey::Dim); }
const Dim& Node::most() const { return required<Dim>(*this, AttrKey::Most); }
AttentionOperands::AttentionOperands(Op op, std::size_t count) {
  std::size_t next = 4;
  if (op == Op::AttentionGradients) g = next++, y = next++;
  const std::size_t rest = count - next;
  if (rest == 1 || rest == 3) mask = next++;
  if (rest >= 2) state = next++, probability = next++;
}

int64_t Node::index() const { return required<int64_t>(*this, AttrKey::Index); }

std::string_view Node::name() const {
  const AttrValue* value = find(AttrKey::Name);
  const std::string* held = value ? std::get_if<std::string>(value) : nullptr;
  return held ? std::string_view(*held) : std::string_view();
}

ValueId Graph::append(Node node) {
  const ValueId id{static_cast<uint32_t>(nodes_.size())};
  Block& block = current();
  (node.op == Op::Param ? body_.params : node.op == Op::Carried ? block.params : block.nodes).push_back(id);
  nodes_.push_back(std::move(node));
  return id;
}

uint32_t Graph::add_location(Location location) {
  const Location& last = locations_.back();
  const bool same = last.line == location.line && last.column == location.column &&
                    last.end_column == location.end_column && last.file == location.file;
  if (!same) locations_.push_back(std::move(location));
  return static_cast<uint32_t>(locations_.size() - 1);
}

std::vector<std::size_t> Graph::gradient_starts() const {
  std::vector<std::size_t> out;
  std::size_t at = body_.nodes.size();
  // Passes put new nodes between old ones, so that only what is old tells that no gradient has begun yet.
  for (auto first = gradients_.rbegin(); first != gradients_.rend(); ++first) {
    while (at > 0 && body_.nodes[at - 1] >= *first) --at;
    if (at < body_.nodes.size() && (out.empty() || out.back() != at)) out.push_back(at);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::optional<Graph> Graph::with_result(ValueId result) const {
  Graph out(name_);
  for (const Node& n : nodes_) {
    if (!n.blocks.empty()) return std::nullopt;
    out.nodes_.push_back({n.op, n.inputs, n.attrs, n.type, n.location, n.calls, n.flag_rule, {}, n.rematerialized});
  }
  out.body_ = {body_.params, body_.nodes, {result}};
  out.shapes_ = shapes_;
  out.locations_ = locations_;
  out.calls_ = calls_;
  out.gradients_ = gradients_;
  return out;
}

Graph::Mark Graph::mark() const {
  const Block& block = open_.empty() ? body_ : *open_.back();
  return {nodes_.size(), block.nodes.size(), body_.params.size(), gradients_.size(), shapes_.mark()};
}

void Graph::rollback(const Mark& m) {
  FRAMEJIT_CHECK(m.nodes <= nodes_.size(), "rollback to a later state");
  nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(m.nodes), nodes_.end());
  current().nodes.resize(m.block_nodes);
  body_.params.resize(m.params);
  gradients_.resize(m.gradients);
  shapes_.rollback(m.shapes);
}

namespace {

/// Values, each of which is noted once. Blocks can be nested deeply, and each of them is looked through: there is a
/// byte for each value of the graph.
class Noted {
 public:
  explicit Noted(const Graph& graph) : noted_(graph.value_count(), false) {}
  /// False where it was noted before.
  bool add(ValueId v) { return !std::exchange(noted_[index(v)], char{true}); }
  bool contains(ValueId v) const { return noted_[index(v)]; }

 private:
  std::vector<char> noted_;
};

/// Appends what the block uses; `known`: that, and what it, and the blocks around it up to the node in question,
/// define.
void collect_used(const Graph& graph, const Block& block, Noted& known, std::vector<ValueId>& out) {
  const auto use = [&](ValueId v) {
    if (known.add(v)) out.push_back(v);
  };
  for (ValueId v : block.params) known.add(v);
  for (ValueId v : block.nodes) {
    const Node& n = graph.node(v);
    for (ValueId input : n.inputs) use(input);
    if (n.type.is_view()) use(n.type.root);
    for (const std::unique_ptr<Block>& inner : n.blocks) collect_used(graph, *inner, known, out);
    known.add(v);
  }
  for (ValueId v : block.results) use(v);
}

}  // namespace

std::vector<ValueId> used_values(const Graph& graph, ValueId v) {
  const Node& n = graph.node(v);
  if (n.blocks.empty()) return n.inputs;
  std::vector<ValueId> out = n.inputs;
  Noted known(graph);
  for (ValueId input : n.inputs) known.add(input);
  for (const std::unique_ptr<Block>& block : n.blocks) collect_used(graph, *block, known, out);
  return out;
}

std::vector<ValueId> written_roots(const Graph& graph, const Block& block) {
  std::vector<ValueId> out;
  Noted known(graph);
  for_each_node(graph, block, [&](ValueId v) {
    known.add(v);
    const Node& n = graph.node(v);
    if (n.op == Op::Write && known.add(n.type.root)) out.push_back(n.type.root);
  });
  return out;
}

std::vector<ValueId> written_roots(const Graph& graph, ValueId v) {
  const Node& n = graph.node(v);
  if (n.op == Op::Write) return {n.type.root};
  std::vector<ValueId> out;
  for (const std::unique_ptr<Block>& block : n.blocks)
    for (ValueId root : written_roots(graph, *block))
      if (std::find(out.begin(), out.end(), root) == out.end()) out.push_back(root);
  return out;
}

}  // namespace framejit::graph
