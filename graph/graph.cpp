// Graph: appending, locations, transactions.
#include "graph/graph.h"

#include "graph/support/check.h"

namespace framejit::graph {

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
  }
  return out;
}

std::vector<int64_t> Window::numbers() const {
  std::vector<int64_t> out = {groups};
  for (const Axis& a : axes) out.insert(out.end(), {a.stride, a.before, a.after, a.dilation});
  return out;
}

const Dim& Node::dim() const { return required<Dim>(*this, AttrKey::Dim); }
int64_t Node::index() const { return required<int64_t>(*this, AttrKey::Index); }

std::string_view Node::name() const {
  const AttrValue* value = find(AttrKey::Name);
  const std::string* held = value ? std::get_if<std::string>(value) : nullptr;
  return held ? std::string_view(*held) : std::string_view();
}

ValueId Graph::append(Node node) { return append(body_, std::move(node)); }

ValueId Graph::append(Block& block, Node node) {
  const ValueId id{static_cast<uint32_t>(nodes_.size())};
  (node.op == Op::Param ? block.params : block.nodes).push_back(id);
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

Graph::Mark Graph::mark() const { return {nodes_.size(), body_.nodes.size(), body_.params.size(), shapes_.mark()}; }

void Graph::rollback(const Mark& m) {
  FRAMEJIT_CHECK(m.nodes <= nodes_.size(), "rollback to a later state");
  nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(m.nodes), nodes_.end());
  body_.nodes.resize(m.body_nodes);
  body_.params.resize(m.params);
  shapes_.rollback(m.shapes);
}

}  // namespace framejit::graph
