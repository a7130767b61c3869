// distribute_parts: what is computed element by element of an array that was put together from parts, as np.roll and
// np.concatenate do it, is computed part by part, from where the parts come from.
//
//     %2 = empty : f64[8]                     %2 = view %x : f64[1]   (x[7:])
//     write %2[1:], %x[:7]                    %3 = view %y : f64[1]   (y[:1])
//     write %2[:1], %x[7:]             ->     %4 = add %2, %3 : f64[1]
//     %5 = add %2, %y : f64[8]                ...
//     write %z, %5                            %7 = add %5, %6 : f64[7]
//                                             write %z[:1], %4
//                                             write %z[1:], %7
//
// The array needs no memory then, and is neither written nor read. Values of one shape that are computed from each
// other are an expression, which is cut at the same places along each axis, into cells. A value that something else
// reads is put together from its cells. So is one that is written to memory that the expression reads, because one cell
// would overwrite what another one still needs. Nothing may be written to the source of a part between the write of the
// part and the expression.
//
// Only for shapes that are constant, and operators whose bits do not depend on where an element stands.
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/layout.h"
#include "graph/pass.h"
#include "graph/passes/memory.h"

namespace framejit::graph {

namespace {

constexpr std::size_t kMostParts = 16;
constexpr int kRounds = 3;  // of the search for members: each knows more sinks
constexpr int64_t kMostCells = 32;
constexpr int64_t kMostNodes = 1024;        // of an expression, in all its cells
constexpr int64_t kLeastBytes = 8 << 10;    // of a value; below, nothing is gained, and cells take longer to compile
constexpr int64_t kLargeBytes = 256 << 10;  // from which cells pay that are more than the parts that they replace
constexpr std::size_t kMostBehind = 8;      // values between an expression and the end
constexpr int64_t kShort = 16;              // elements, side by side: as slow as a vector
constexpr int64_t kShortPart = 4;           // of the elements, which may be in cells as short as that

/// Elements [begin, begin + extent) along each axis.
struct Box {
  std::vector<int64_t> begin, extent;

  int64_t size() const { return std::accumulate(extent.begin(), extent.end(), int64_t{1}, std::multiplies<>()); }
  bool meets(const Box& other) const {
    for (std::size_t a = 0; a < begin.size(); ++a)
      if (begin[a] >= other.begin[a] + other.extent[a] || other.begin[a] >= begin[a] + extent[a]) return false;
    return true;
  }
  bool holds(const Box& other) const {
    for (std::size_t a = 0; a < begin.size(); ++a)
      if (other.begin[a] < begin[a] || other.begin[a] + other.extent[a] > begin[a] + extent[a]) return false;
    return true;
  }
};

std::vector<int64_t> numbers(const Dims& dims) {
  std::vector<int64_t> out;
  for (const Dim& d : dims) out.push_back(d.value());
  return out;
}

Dims dims_of(const std::vector<int64_t>& numbers) { return Dims(numbers.begin(), numbers.end()); }

class PartDistributor {
 public:
  PartDistributor(Graph& graph, Block& block) : graph_(graph), block_(block) {}

  bool run() {
    find_parts();
    if (arrays_.empty()) return false;
    find_members();
    find_expressions();
    for (const auto& [first, expression] : expressions_)
      if (!expression.cells.empty()) {
        rewrite();
        return true;
      }
    return false;
  }

 private:
  struct Part {
    Box box;
    std::vector<std::size_t> axes;  // of the array, for each axis of the value: x[0] = y lacks one
    ValueId value;
    int32_t position;  // of its write
  };
  /// An array that is put together from parts, before anything reads it.
  struct Array {
    std::vector<Part> parts;
    std::vector<ValueId> readers;
    bool valid = true;
  };
  /// Values of one shape that are computed from each other.
  struct Expression {
    std::vector<ValueId> members;
    std::vector<Box> cells;                   // empty: it stays as it is
    std::vector<ValueId> operands;            // but for parts
    std::unordered_set<uint32_t> part_roots;  // memory that parts come from
  };

  // ---- what there is

  void find_parts() {
    position_.assign(graph_.value_count(), -1);
    int32_t position = 0;
    for (const ValueId v : block_.nodes) {
      position_[index(v)] = position;
      note(v, position++);
    }
    for (const ValueId v : block_.results) results_.insert(index(v));
    std::erase_if(arrays_, [&](const auto& entry) {
      const auto& [root, array] = entry;
      const std::vector<int64_t> shape = numbers(graph_.node(ValueId{root}).type.shape);
      int64_t elements = 0;
      for (const Part& part : array.parts) elements += part.box.size();
      return !array.valid || array.parts.size() < 2 || elements != Box{{}, shape}.size();
    });
  }

  void note(ValueId v, int32_t position) {
    const Node& n = graph_.node(v);
    for (const ValueId x : used_values(graph_, v)) {
      users_[index(x)].push_back(v);
      const auto array = arrays_.find(index(graph_.root(x)));
      const bool is_place = n.op == Op::Write && x == n.inputs[0] && x != n.inputs[1];
      if (array != arrays_.end() && n.op != Op::View && !is_place) array->second.readers.push_back(v);
    }
    for (const ValueId root : written_roots(graph_, v)) {
      written_[index(root)].push_back(position);
      if (const auto array = arrays_.find(index(root)); array != arrays_.end()) add_part(array->second, root, v);
    }
    if (n.op == Op::Empty && n.type.rank() > 0 && all_const(n.type.shape) && all_const(n.type.strides) &&
        n.type.size().value() > 0)
      arrays_[index(v)];
  }

  void add_part(Array& array, ValueId root, ValueId write) {
    const Node& n = graph_.node(write);
    array.valid = array.valid && n.op == Op::Write && array.readers.empty() && array.parts.size() < kMostParts;
    if (!array.valid) return;
    const ValueId value = n.inputs[1];
    std::vector<std::size_t> axes;
    const std::optional<Box> box = box_of(n.inputs[0], root, &axes);
    const Type& type = graph_.type(value);
    array.valid = box && (type.rank() == 0 || type.shape == graph_.type(n.inputs[0]).shape) &&
                  graph_.root(value) != root &&
                  std::ranges::none_of(array.parts, [&](const Part& other) { return other.box.meets(*box); });
    if (array.valid) array.parts.push_back({*box, std::move(axes), value, position_[index(write)]});
  }

  /// Which elements of an array a view of it has, if they are a block of it. `axes`: those that the view has, if it may
  /// lack some.
  std::optional<Box> box_of(ValueId v, ValueId root, std::vector<std::size_t>* axes) const {
    const Type &type = graph_.type(v), &whole = graph_.type(root);
    if ((!axes && type.rank() != whole.rank()) || type.dtype != whole.dtype || !all_const(type.shape) ||
        !type.offset.is_const())
      return std::nullopt;
    const std::size_t rank = whole.shape.size();
    Box box{std::vector<int64_t>(rank), std::vector<int64_t>(rank, 1)};
    std::size_t at = 0;
    for (std::size_t a = 0; a < rank && at < type.shape.size(); ++a) {
      if (type.strides[at] != whole.strides[a]) continue;
      box.extent[a] = type.shape[at++].value();
      if (axes) axes->push_back(a);
    }
    if (at < type.shape.size()) return std::nullopt;
    int64_t offset = type.is_view() ? type.offset.value() : 0;
    for (const int axis : slowest_first(whole)) {
      const auto a = static_cast<std::size_t>(axis);
      const int64_t stride = whole.strides[a].value();
      if (stride <= 0 || offset < 0) return std::nullopt;
      box.begin[a] = offset / stride;
      offset %= stride;
      if (box.begin[a] + box.extent[a] > whole.shape[a].value()) return std::nullopt;
    }
    if (offset != 0) return std::nullopt;
    return box;
  }

  static std::vector<int> slowest_first(const Type& type) {
    std::vector<int> axes(type.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::ranges::stable_sort(axes, [&](int a, int b) {
      return std::pair(type.strides[a].value(), type.shape[a].value()) >
             std::pair(type.strides[b].value(), type.shape[b].value());
    });
    return axes;
  }

  bool is_expression(ValueId v) const {
    const Node& n = graph_.node(v);
    const OpDef& d = def(n.op);
    return (d.cls == OpClass::Elementwise || d.cls == OpClass::Cast) && d.exactness == Exactness::Native &&
           n.blocks.empty() && n.type.rank() > 0 && all_const(n.type.shape) && all_const(n.type.strides) &&
           n.type.size().value() > 0 && !written_.contains(index(v)) &&
           std::ranges::all_of(n.inputs, [&](ValueId x) { return all_const(graph_.type(x).shape); });
  }

  /// The block of an array put together that an expression at that position reads, if the parts' sources still are as
  /// they were.
  std::optional<Box> parts_read(ValueId x, int32_t position) const {
    const ValueId root = graph_.root(x);
    const auto array = arrays_.find(index(root));
    if (array == arrays_.end()) return std::nullopt;
    std::optional<Box> box = box_of(x, root, nullptr);
    if (!box) return std::nullopt;
    for (const Part& part : array->second.parts)
      if (part.box.meets(*box) && is_written(graph_.root(part.value), part.position, position)) return std::nullopt;
    return box;
  }

  bool is_written(ValueId root, int32_t after, int32_t before) const {
    const auto written = written_.find(index(root));
    if (written == written_.end()) return false;
    const auto next = std::ranges::upper_bound(written->second, after);
    return next != written->second.end() && *next < before;
  }

  // ---- expressions

  /// Is it computed cell by cell, and read so by an expression of that type?
  bool is_inner(ValueId x, const Type& type) const {
    return members_.contains(index(x)) && !sinks_.contains(index(x)) && graph_.type(x).shape == type.shape;
  }

  /// Members are what brings such arrays together, and what lies between them. What is computed of one of these values
  /// alone needs no cells. Sinks are members that others read; they are in memory then, and members read them there,
  /// too.
  void find_members() {
    for (const auto& [root, array] : arrays_)
      for (const Part& part : array.parts) part_values_.insert(index(part.value));
    for (int round = 0; round < kRounds; ++round) {
      members_.clear();
      find_joints();
      const std::size_t before = sinks_.size();
      for (const ValueId v : block_.nodes)
        if (members_.contains(index(v)) && is_seen_outside(v)) sinks_.insert(index(v));
      if (sinks_.size() == before) break;
    }
    go_to_the_end();
    // A value that only members use is a member as well.
    for (auto v = block_.nodes.rbegin(); v != block_.nodes.rend(); ++v)
      if (is_expression(*v) && users_.contains(index(*v)) && !is_seen_outside(*v)) members_.insert(index(*v));
  }

  /// Values between a sink and results, or writes, have cells too: the results are put together then, and the sink is
  /// not.
  void go_to_the_end() {
    for (const ValueId v : block_.nodes) {
      const Type& type = graph_.type(v);
      if (!sinks_.contains(index(v)) || results_.contains(index(v)) || part_values_.contains(index(v)) ||
          type.size().value() * size_of(type.dtype) < kLargeBytes)
        continue;
      std::vector<ValueId> behind;
      if (!lead_to_the_end(v, behind)) continue;
      for (const ValueId next : behind) members_.insert(index(next));
      for (const ValueId next : behind)
        if (is_seen_outside(next)) sinks_.insert(index(next));
      if (!is_seen_outside(v)) sinks_.erase(index(v));
    }
  }

  bool lead_to_the_end(ValueId v, std::vector<ValueId>& behind) const {
    const auto users = users_.find(index(v));
    return users == users_.end() || std::ranges::all_of(users->second, [&](ValueId user) {
             const Node& n = graph_.node(user);
             const bool is_new = !members_.contains(index(user)) && std::ranges::find(behind, user) == behind.end();
             if (!is_new || n.op == Op::Write) return n.op != Op::Write || n.inputs[1] == v;
             if (!is_expression(user) || n.type.shape != graph_.type(v).shape || behind.size() == kMostBehind)
               return false;
             behind.push_back(user);
             return lead_to_the_end(user, behind);
           });
  }

  bool is_seen_outside(ValueId v) const {
    const auto users = users_.find(index(v));
    return results_.contains(index(v)) || part_values_.contains(index(v)) || users == users_.end() ||
           std::ranges::any_of(users->second, [&](ValueId user) {
             return !members_.contains(index(user)) || graph_.type(user).shape != graph_.type(v).shape;
           });
  }

  /// Reads parts, or values that come from different ones.
  void find_joints() {
    std::unordered_map<uint32_t, ValueId> origins;
    for (const ValueId v : block_.nodes) {
      if (!is_expression(v)) continue;
      bool joins = false;
      ValueId origin = kNoValue;
      for (const ValueId x : graph_.node(v).inputs) {
        if (graph_.type(x).shape != graph_.type(v).shape) continue;
        const auto from = origins.find(index(x));
        if (from == origins.end() || sinks_.contains(index(x))) {
          joins = joins || parts_read(x, position_[index(v)]).has_value();
          continue;
        }
        joins = joins || (origin != kNoValue && origin != from->second);
        origin = from->second;
      }
      if (joins) add_members(v, origins);
      if (joins || origin != kNoValue) origins[index(v)] = joins ? v : origin;
    }
  }

  /// A joint, and what lies between it and those that it joins.
  void add_members(ValueId joint, const std::unordered_map<uint32_t, ValueId>& origins) {
    for (std::vector<ValueId> left{joint}; !left.empty();) {
      const ValueId v = left.back();
      left.pop_back();
      if (!members_.insert(index(v)).second) continue;
      for (const ValueId x : graph_.node(v).inputs)
        if (graph_.type(x).shape == graph_.type(v).shape && origins.contains(index(x)) && !sinks_.contains(index(x)))
          left.push_back(x);
    }
  }

  void find_expressions() {
    for (const ValueId v : block_.nodes) {
      if (!members_.contains(index(v))) continue;
      first_[index(v)] = v;
      for (const ValueId x : graph_.node(v).inputs)
        if (is_inner(x, graph_.type(v))) first_[index(first(v))] = first(x);
    }
    for (const ValueId v : block_.nodes)
      if (members_.contains(index(v))) expressions_[index(first(v))].members.push_back(v);
    for (auto& [first, expression] : expressions_) find_cells(expression);
  }

  /// The representative of the expression that a member belongs to.
  ValueId first(ValueId v) {
    while (first_[index(v)] != v) v = first_[index(v)] = first_[index(first_[index(v)])];
    return v;
  }

  void find_cells(Expression& expression) {
    const Type& type = graph_.type(expression.members.front());
    std::vector<std::set<int64_t>> cuts;
    for (const Dim& d : type.shape) cuts.push_back({0, d.value()});
    std::set<uint32_t> arrays;
    for (const ValueId v : expression.members)
      for (const ValueId x : graph_.node(v).inputs) {
        if (is_inner(x, type)) continue;
        const std::optional<Box> box =
            graph_.type(x).shape == type.shape ? parts_read(x, position_[index(v)]) : std::nullopt;
        if (!box) {
          expression.operands.push_back(x);
          continue;
        }
        arrays.insert(index(graph_.root(x)));
        for (const Part& part : arrays_.at(index(graph_.root(x))).parts) {
          expression.part_roots.insert(index(graph_.root(part.value)));
          if (!part.box.meets(*box)) continue;
          for (std::size_t a = 0; a < cuts.size(); ++a)
            for (const int64_t cut : {part.box.begin[a], part.box.begin[a] + part.box.extent[a]})
              if (const int64_t at = cut - box->begin[a]; at > 0 && at < box->extent[a]) cuts[a].insert(at);
        }
      }
    if (pays(expression, type, cuts, arrays)) cut(expression, cuts);
  }

  bool pays(const Expression& expression, const Type& type, const std::vector<std::set<int64_t>>& cuts,
            const std::set<uint32_t>& arrays) const {
    int64_t cells = 1, parts = 0;
    for (const std::set<int64_t>& axis : cuts) cells *= std::min<int64_t>(std::ssize(axis) - 1, kMostCells + 1);
    const std::unordered_set<uint32_t> members = [&] {
      std::unordered_set<uint32_t> out;
      for (const ValueId v : expression.members) out.insert(index(v));
      return out;
    }();
    for (const uint32_t root : arrays)
      if (const Array& array = arrays_.at(root);
          std::ranges::all_of(array.readers, [&](ValueId reader) { return members.contains(index(reader)); }))
        parts += std::ssize(array.parts);
    const int64_t bytes = type.size().value() * size_of(type.dtype);
    const bool is_large = bytes >= kLargeBytes;
    if (bytes < kLeastBytes || parts == 0 || cells == 1 || cells > kMostCells ||
        cells * std::ssize(expression.members) > kMostNodes || (cells > parts + 1 && !is_large))
      return false;
    const std::vector<int> axes = slowest_first(type);
    int64_t in_short = 0;
    const std::set<int64_t>& inner = cuts[static_cast<std::size_t>(axes.back())];
    for (auto end = std::next(inner.begin()); end != inner.end(); ++end)
      if (const int64_t length = *end - *std::prev(end); length < kShort) in_short += length;
    const int64_t length = *inner.rbegin();
    return inner.size() == 2 || in_short * kShortPart <= length || length < kShort;
  }

  static void cut(Expression& expression, const std::vector<std::set<int64_t>>& cuts) {
    expression.cells = {Box{}};
    for (const std::set<int64_t>& axis : cuts) {
      std::vector<Box> finer;
      for (const Box& box : expression.cells)
        for (auto end = std::next(axis.begin()); end != axis.end(); ++end) {
          finer.push_back(box);
          finer.back().begin.push_back(*std::prev(end));
          finer.back().extent.push_back(*end - *std::prev(end));
        }
      expression.cells = std::move(finer);
    }
  }

  // ---- the new nodes

  const Expression* expression_of(ValueId v) {
    if (!members_.contains(index(v))) return nullptr;
    const Expression& expression = expressions_.at(index(first(v)));
    return expression.cells.empty() ? nullptr : &expression;
  }

  void rewrite() {
    const std::vector<ValueId> nodes = std::exchange(block_.nodes, {});
    graph_.open(block_);
    for (const ValueId v : nodes) {
      if (const Expression* const expression = expression_of(v)) {
        for (const Box& cell : expression->cells) {
          const ValueId made = computed(v, *expression, cell);
          cells_[index(v)].push_back(made);
        }
        if (needs_whole(v, *expression)) {
          const ValueId whole = put_together(v, *expression);
          whole_[index(v)] = whole;
        }
        continue;
      }
      if (graph_.node(v).op == Op::Write && write_cells(v)) continue;
      block_.nodes.push_back(v);
      rename_in(v);
    }
    graph_.close();
    for (ValueId& result : block_.results) result = renamed(result);
  }

  ValueId renamed(ValueId x) const {
    const auto found = whole_.find(index(x));
    return found == whole_.end() ? x : found->second;
  }

  void rename_in(ValueId v) {
    Node& n = graph_.node(v);
    for (ValueId& x : n.inputs) x = renamed(x);
    n.type.root = renamed(n.type.root);
    for (const std::unique_ptr<Block>& inner : n.blocks) {
      for (const ValueId nested : inner->nodes) rename_in(nested);
      for (const ValueId param : inner->params) rename_in(param);
      for (ValueId& result : inner->results) result = renamed(result);
    }
  }

  /// Is it read by something else than writes that can be made cell by cell?
  bool needs_whole(ValueId v, const Expression& expression) const {
    if (results_.contains(index(v)) || part_values_.contains(index(v))) return true;
    const auto users = users_.find(index(v));
    return sinks_.contains(index(v)) && users != users_.end() &&
           std::ranges::any_of(users->second, [&](ValueId user) { return !writes_by_cells(user, v, expression); });
  }

  bool writes_by_cells(ValueId write, ValueId v, const Expression& expression) const {
    const Node& n = graph_.node(write);
    return n.op == Op::Write && n.inputs[1] == v && n.inputs[0] != v && position_[index(write)] >= 0 &&
           graph_.type(n.inputs[0]).shape == graph_.type(v).shape && all_const(n.type.strides) &&
           !part_values_.contains(index(v)) && !reads_elsewhere(expression, n.inputs[0]);
  }

  /// Does it read the memory that is written, but for each element in its place?
  bool reads_elsewhere(const Expression& expression, ValueId place) const {
    const ValueId root = graph_.root(place);
    return expression.part_roots.contains(index(root)) || std::ranges::any_of(expression.operands, [&](ValueId x) {
             return graph_.root(x) == root && !same_place(graph_.type(x), graph_.type(place));
           });
  }

  bool write_cells(ValueId write) {
    const ValueId v = graph_.node(write).inputs[1];
    const Expression* const expression = expression_of(v);
    if (!expression || whole_.contains(index(v)) || !writes_by_cells(write, v, *expression)) return false;
    const ValueId place = renamed(graph_.node(write).inputs[0]);
    for (std::size_t i = 0; i < expression->cells.size(); ++i)
      store(view(place, expression->cells[i], write), cells_.at(index(v))[i], write);
    return true;
  }

  ValueId put_together(ValueId v, const Expression& expression) {
    Node empty{};
    empty.op = Op::Empty;
    empty.type = graph_.type(v);
    empty.location = graph_.node(v).location;
    const ValueId whole = graph_.append(std::move(empty));
    for (std::size_t i = 0; i < expression.cells.size(); ++i)
      store(view(whole, expression.cells[i], v), cells_.at(index(v))[i], v);
    return whole;
  }

  void store(ValueId place, ValueId value, ValueId like) {
    Node write{};
    write.op = Op::Write;
    write.inputs = {place, value};
    write.type = graph_.type(place);
    write.location = graph_.node(like).location;
    graph_.append(std::move(write));
  }

  /// The cell of a value, which has bytes; `strides`: if it has fewer axes than the cell.
  ValueId view(ValueId x, const Box& cell, ValueId like, std::optional<Dims> strides = std::nullopt) {
    Node view{};
    view.op = Op::View;
    view.type = graph_.type(x);
    view.type.root = graph_.root(x);
    view.type.shape = dims_of(cell.extent);
    if (strides) view.type.strides = std::move(*strides);
    for (std::size_t a = 0; a < cell.begin.size(); ++a)
      view.type.offset = view.type.offset + Dim(cell.begin[a]) * view.type.strides[a];
    view.inputs = {view.type.root};
    view.location = graph_.node(like).location;
    return graph_.append(std::move(view));
  }

  ValueId computed(ValueId v, const Expression& expression, const Box& cell) {
    std::vector<ValueId> inputs = graph_.node(v).inputs;
    for (ValueId& x : inputs) x = operand(x, v, expression, cell);
    const Node& n = graph_.node(v);
    Node made{};
    made.op = n.op;
    made.inputs = std::move(inputs);
    made.attrs = n.attrs;
    made.type = type_of(n.type, cell);
    made.location = n.location;
    made.calls = n.calls;
    made.flag_rule = n.flag_rule;
    return graph_.append(std::move(made));
  }

  /// Packed, in the order of the whole.
  Type type_of(const Type& whole, const Box& cell) {
    Type type;
    type.dtype = whole.dtype;
    type.shape = dims_of(cell.extent);
    AxisOrder order = slowest_first(whole);
    std::reverse(order.begin(), order.end());
    type.strides = packed_strides(graph_.shapes(), type.dtype, type.shape, order);
    return type;
  }

  /// The cell of an operand of the member `v`.
  ValueId operand(ValueId x, ValueId v, const Expression& expression, const Box& cell) {
    const Type& whole = graph_.type(v);
    const Type& type = graph_.type(x);
    if (is_inner(x, whole)) {
      const auto i = static_cast<std::size_t>(&cell - expression.cells.data());
      return cells_.at(index(x))[i];
    }
    if (type.shape == whole.shape)
      if (const std::optional<Box> box = parts_read(x, position_[index(v)])) return part(x, *box, cell, v);
    x = renamed(x);
    Box own{std::vector<int64_t>(type.shape.size(), 0), numbers(type.shape)};
    bool is_whole = true;
    const std::size_t missing = whole.shape.size() - type.shape.size();
    for (std::size_t a = 0; a < type.shape.size(); ++a) {
      if (own.extent[a] == 1) continue;
      own.begin[a] = cell.begin[a + missing];
      is_whole = is_whole && own.extent[a] == cell.extent[a + missing];
      own.extent[a] = cell.extent[a + missing];
    }
    return is_whole ? x : graph_.node(x).op == Op::Full ? filled(graph_.node(x).inputs[0], own, x) : view(x, own, v);
  }

  ValueId part(ValueId x, const Box& box, const Box& cell, ValueId v) {
    Box wanted = cell;
    for (std::size_t a = 0; a < wanted.begin.size(); ++a) wanted.begin[a] += box.begin[a];
    const std::vector<Part>& parts = arrays_.at(index(graph_.root(x))).parts;
    const Part& found = *std::ranges::find_if(parts, [&](const Part& p) { return p.box.holds(wanted); });
    const ValueId source = renamed(found.value);
    if (graph_.type(source).rank() == 0) return filled(source, cell, v);
    const bool has_all_axes = found.axes.size() == wanted.begin.size();
    if (has_all_axes && found.box.extent == wanted.extent) return source;
    for (std::size_t a = 0; a < wanted.begin.size(); ++a) wanted.begin[a] -= found.box.begin[a];
    if (has_all_axes) return view(source, wanted, v);
    Dims strides(wanted.begin.size(), Dim(0));
    for (std::size_t i = 0; i < found.axes.size(); ++i) strides[found.axes[i]] = graph_.type(source).strides[i];
    return view(source, wanted, v, std::move(strides));
  }

  /// A number in each element, made where it is used.
  ValueId filled(ValueId number, const Box& cell, ValueId like) {
    Node full{};
    full.op = Op::Full;
    full.inputs = {number};
    full.type.dtype = graph_.type(number).dtype;
    full.type.shape = dims_of(cell.extent);
    full.type.strides = c_strides(full.type.dtype, full.type.shape);
    full.location = graph_.node(like).location;
    full.rematerialized = true;
    return graph_.append(std::move(full));
  }

  Graph& graph_;
  Block& block_;
  std::vector<int32_t> position_;
  std::unordered_map<uint32_t, std::vector<ValueId>> users_;    // of the block
  std::unordered_map<uint32_t, std::vector<int32_t>> written_;  // positions, by root
  std::unordered_set<uint32_t> results_;                        // what the block gives
  std::unordered_map<uint32_t, Array> arrays_;                  // by root
  std::unordered_set<uint32_t> part_values_;
  std::unordered_set<uint32_t> members_, sinks_;
  std::unordered_map<uint32_t, ValueId> first_;
  std::unordered_map<uint32_t, Expression> expressions_;      // by representative
  std::unordered_map<uint32_t, std::vector<ValueId>> cells_;  // by member
  std::unordered_map<uint32_t, ValueId> whole_;               // by member: what it is put together in
};

bool distribute(Graph& graph, Block& block) {
  bool changed = PartDistributor(graph, block).run();
  for (std::size_t i = 0; i < block.nodes.size(); ++i)
    for (std::size_t b = 0; b < graph.node(block.nodes[i]).blocks.size(); ++b)
      changed |= distribute(graph, *graph.node(block.nodes[i]).blocks[b]);
  return changed;
}

}  // namespace

bool distribute_parts(Graph& graph, PassContext&) { return has_writes(graph) && distribute(graph, graph.body()); }

}  // namespace framejit::graph
