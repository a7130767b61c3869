// grad: reverse mode over memory.
//
// A cotangent belongs to memory, not to a name: each *base* (a fresh value, a param, a view in `wrt` or a stop) has one
// of its own shape, and that of a view is the same view of it. Going backwards from the last node,
//
//     y = f(x)        gives x's base what the operator's row makes of y's cotangent
//     write dst, v    gives v the cotangent of dst, and dst has none before it: what lay there was overwritten
//     view            nothing: it is part of its base
//     if c            gives what its sides use what another branch by c computes: each side once more, then backwards
//
// so in-place updates, views of them, slices and parts of complex numbers need no rules. Rules want operands as they
// were when the node ran: those that are written later are copied in front of the write (`inserted`).
//
// The cotangent of z = x + iy is dL/dx + i dL/dy, MindSpore's and PyTorch's: that of z for w = f(z), f analytic, is
// that of w times the conjugate of f'(z). Rules are written for reals, linear in g, so a conjugate before and behind
// makes them this.
//
// With GradientRequest::integers whole numbers have cotangents too, in their own dtype, as MindSpore has them: a cast
// to integers is followed like any other, and what comes to an operand is cast to the operand's dtype. Truth values
// vary with truth values only.
//
// Relies on: program order is memory order; two params do not overlap where one is written.
#include "graph/passes/grad.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "graph/passes/cotangents.h"
#include "graph/passes/fuse_attention.h"
#include "graph/passes/grad_rules.h"

namespace framejit::graph {

namespace {

bool is_inexact(DType dtype) { return is_float(dtype) || is_complex(dtype); }

/// The row's formula is computed in whole numbers. Others divide, or take logarithms: these are computed in float64.
bool is_exact_in(Op op, DType dtype) {
  switch (op) {
    case Op::Cast:
    case Op::Copy:
    case Op::Full:
    case Op::Where:
    case Op::Compress:
    case Op::Expand:
    case Op::ReduceSum:
    case Op::LibraryCall: return true;
    case Op::Add:
    case Op::Subtract:
    case Op::Multiply:
    case Op::Negative:
    case Op::Square:
    case Op::Absolute:
    case Op::Minimum:
    case Op::Maximum:
    case Op::Fmin:
    case Op::Fmax:
    case Op::Clip:
    case Op::MatMul: return dtype != DType::Bool;
    default: return false;
  }
}

/// Branches whose sides can be computed again, and nothing else. What they write is of integers, such as the state of
/// a generator of random numbers, and not used in parts.
bool is_branch_alone(const Graph& graph, ValueId v, const std::vector<ValueId>& used,
                     const std::vector<ValueId>& written) {
  if (graph.node(v).op != Op::If) return false;
  bool alone = std::none_of(written.begin(), written.end(), [&](ValueId root) {
    return is_inexact(graph.type(root).dtype) ||
           std::any_of(used.begin(), used.end(), [&](ValueId x) { return x != root && graph.root(x) == root; });
  });
  for (const std::unique_ptr<Block>& side : graph.node(v).blocks)
    for_each_node(graph, *side,
                  [&](ValueId x) { alone = alone && graph.node(x).op != Op::Loop && graph.node(x).op != Op::Measure; });
  return alone;
}

/// Nodes are appended to the block.
struct OpenBlock {
  Graph& graph;
  OpenBlock(Graph& of, Block& block) : graph(of) { graph.open(block); }
  ~OpenBlock() { graph.close(); }
  OpenBlock(const OpenBlock&) = delete;
};

/// What stands for the values of a block that is repeated.
using Names = std::map<ValueId, ValueId>;

ValueId in(const Names& names, ValueId v) {
  const auto found = names.find(v);
  return found == names.end() ? v : found->second;
}

class Reverse {
 public:
  /// Of the nodes of a block, which is the one that nodes are appended to.
  Reverse(GraphBuilder& builder, const GradientRequest& request, Block& body)
      : builder_(builder),
        graph_(builder.graph()),
        math_(builder),
        cotangents_(math_),
        request_(request),
        body_(body),
        end_(body.nodes.size()) {
    for (ValueId v : request.wrt) cotangents_.set_apart(v);
    for (ValueId v : request.stops) cotangents_.set_apart(v);
    stops_.insert(request.stops.begin(), request.stops.end());
  }

  Expected<Gradients, NoGradient> run() {
    look_forward();
    if (flow_ != kNoValue)
      return Unexpected<NoGradient>{
          {"a loop that depends on an array value, or a branch that writes into arrays", flow_}};
    if (auto found = mixed_memory()) return Unexpected<NoGradient>{std::move(*found)};
    for (std::size_t i = 0; i < request_.outputs.size(); ++i) add(request_.outputs[i], request_.seeds[i]);
    for (std::size_t at = end_; at-- > request_.first;) {
      const ValueId v = body_.nodes[at];
      if (!active_[index(v)]) continue;
      builder_.set_location(graph_.node(v).location);
      if (graph_.node(v).op == Op::Write) {
        backward_write(v);
      } else if (auto why = graph_.node(v).op == Op::If ? backward_branch(v, at) : backward(v, at)) {
        return Unexpected<NoGradient>{std::move(*why)};
      }
      if (cotangents_.failure()) return Unexpected<NoGradient>{*cotangents_.failure()};
    }
    Gradients out;
    for (ValueId v : request_.wrt) {
      out.reached.push_back(cotangents_.of(v) != kNoValue);
      out.values.push_back(finished(v));
    }
    place_saved(out.inserted);
    return out;
  }

 private:
  // ---- what depends on `wrt`

  bool can_vary(DType dtype) const { return request_.integers || is_inexact(dtype); }

  bool varies(ValueId v) const {
    return can_vary(graph_.type(v).dtype) && varying_.count(index(cotangents_.base(v))) != 0;
  }

  void look_forward() {
    active_.assign(graph_.value_count(), false);
    for (ValueId v : request_.wrt) varying_.insert(index(v));
    const std::vector<ValueId>& nodes = body_.nodes;
    for (std::size_t at = request_.first; at < end_; ++at) {
      const ValueId v = nodes[at];
      const Node& n = graph_.node(v);
      if (n.op == Op::Write) {
        const ValueId target = cotangents_.base(n.inputs[0]);
        writes_[index(graph_.root(v))].push_back(at);
        if (varies(n.inputs[1]) && can_vary(n.type.dtype) && stops_.count(target) == 0) varying_.insert(index(target));
        active_[index(v)] = varies(target);
        continue;
      }
      if (n.op == Op::Expect || n.op == Op::Measure) continue;
      if (n.op == Op::Output && graph_.node(n.inputs[0]).op == Op::If) {
        outputs_[index(n.inputs[0])].push_back(v);
        if (active_[index(n.inputs[0])] && can_vary(n.type.dtype)) varying_.insert(index(v));
        continue;
      }
      if (is_control(n.op)) {
        const std::vector<ValueId> used = used_values(graph_, v), written = written_roots(graph_, v);
        for (ValueId root : written) writes_[index(root)].push_back(at);
        active_[index(v)] = std::any_of(used.begin(), used.end(), [&](ValueId x) { return varies(x); });
        if (active_[index(v)] && !is_branch_alone(graph_, v, used, written)) flow_ = v;
        continue;
      }
      if (n.op == Op::View || cotangents_.is_apart(v) || !can_vary(n.type.dtype)) continue;
      if (std::none_of(n.inputs.begin(), n.inputs.end(), [&](ValueId x) {
            return varies(x) &&
                   (n.type.dtype != DType::Bool || graph_.type(x).dtype == DType::Bool || n.op == Op::Cast);
          }))
        continue;
      if (gradient_row(n.op).rule == nullptr) continue;
      varying_.insert(index(v));
      active_[index(v)] = true;
    }
  }

  /// Is memory that is written, and varies, also reached other than through its base?
  std::optional<NoGradient> mixed_memory() const {
    std::unordered_map<uint32_t, ValueId> written;  // root: base
    const std::vector<ValueId>& nodes = body_.nodes;
    for (std::size_t at = request_.first; at < end_; ++at)
      if (const Node& n = graph_.node(nodes[at]); n.op == Op::Write && active_[index(nodes[at])])
        written.emplace(index(graph_.root(nodes[at])), cotangents_.base(n.inputs[0]));
    for (std::size_t at = request_.first; at < end_ && !written.empty(); ++at) {
      const Node& n = graph_.node(nodes[at]);
      if (n.op == Op::View) continue;
      for (ValueId x : used_values(graph_, nodes[at]))
        if (const auto found = written.find(index(graph_.root(x)));
            found != written.end() && found->second != cotangents_.base(x))
          return NoGradient{"an array that is written is also reached around the argument", nodes[at]};
    }
    return std::nullopt;
  }

  // ---- operands as they were

  /// `v` as it was in front of the node at `at`.
  E operand_at(ValueId v, std::size_t at) {
    const auto writes = writes_.find(index(graph_.root(v)));
    if (writes == writes_.end()) return math_.of(v);
    const auto next = std::lower_bound(writes->second.begin(), writes->second.end(), at);
    if (next == writes->second.end()) return math_.of(v);
    auto [saved, missing] = saved_.try_emplace({*next, index(v)}, kNoValue);
    if (missing) {
      saved->second = builder_.copy(v, 'K');
      body_.nodes.pop_back();  // place_saved puts it where it belongs
    }
    return math_.of(saved->second);
  }

  void place_saved(std::vector<ValueId>& inserted) {
    std::vector<ValueId>& nodes = body_.nodes;
    std::vector<ValueId> out;
    auto next = saved_.begin();
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      for (; next != saved_.end() && next->first.first == at; ++next) {
        out.push_back(next->second);
        inserted.push_back(next->second);
      }
      out.push_back(nodes[at]);
    }
    if (!inserted.empty()) nodes = std::move(out);
  }

  // ---- cotangents

  void add(ValueId v, ValueId value) {
    if (varies(v)) cotangents_.add(v, value);
  }

  std::optional<NoGradient> backward(ValueId v, std::size_t at) {
    const ValueId g = cotangents_.of(v);
    if (g == kNoValue) return std::nullopt;
    const Op op = graph_.node(v).op;
    if (op == Op::MatMul && request_.o1 && attention_backward(v, g)) return std::nullopt;
    const std::vector<ValueId> inputs = graph_.node(v).inputs;
    std::vector<bool> needed;
    for (ValueId x : inputs) needed.push_back(varies(x));
    const DType dtype = graph_.type(v).dtype;
    const bool turned = is_complex(dtype) && !knows_complex(op);
    const bool in_floats = !is_inexact(dtype) && !is_exact_in(op, dtype);
    const auto as_computed = [&](E x) { return in_floats ? math_.cast(x, DType::F64) : x; };
    const Backward node{math_,
                        op,
                        inputs,
                        needed,
                        v,
                        turned ? math_.conjugate(math_.of(g)) : as_computed(math_.of(g)),
                        [&](std::size_t i) { return as_computed(operand_at(inputs[i], at)); },
                        [&] { return as_computed(operand_at(v, at + 1)); },
                        request_.library};
    BackwardResult rule = gradient_row(op).rule(node);
    if (!rule) return std::move(rule.error());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!needed[i] || (*rule)[i] == kNoValue) continue;
      E c = math_.of((*rule)[i]);
      if (!is_complex(graph_.type(inputs[i]).dtype)) c = math_.cast(math_.real(c), graph_.type(inputs[i]).dtype);
      else if (turned) c = math_.conjugate(c);
      add(inputs[i], c.id);
    }
    cotangents_.erase(v);
    return std::nullopt;
  }

  /// A block's nodes once more, in the block that is open, under other names.
  void repeat(const Block& block, Names& names, std::vector<ValueId>& stops) {
    for (ValueId v : block.nodes) {
      const Op op = graph_.node(v).op;
      if (op == Op::Expect) continue;  // it has held
      builder_.set_location(graph_.node(v).location);
      if (op == Op::If) {
        std::unique_ptr<Block> sides[2];
        for (std::size_t k : {0, 1}) {
          sides[k] = std::make_unique<Block>();
          const OpenBlock opened(graph_, *sides[k]);
          const Block& side = *graph_.node(v).blocks[k];
          repeat(side, names, stops);
          for (ValueId result : side.results) sides[k]->results.push_back(in(names, result));
        }
        names[v] = builder_.branch(in(names, graph_.node(v).inputs[0]), std::move(sides[0]), std::move(sides[1]));
        continue;
      }
      const Node& n = graph_.node(v);
      Node again{n.op, n.inputs, n.attrs, n.type, n.location};
      for (ValueId& x : again.inputs) x = in(names, x);
      if (n.type.is_view()) {
        again.type.offset = graph_.type(again.inputs[0]).offset + (n.type.offset - graph_.type(n.inputs[0]).offset);
        again.type.root = graph_.root(again.inputs[0]);
      }
      names[v] = graph_.append(std::move(again));
      if (stops_.count(v)) stops.push_back(names[v]);
    }
  }

  /// A branch by the same condition, whose sides compute theirs again and go back.
  std::optional<NoGradient> backward_branch(ValueId v, std::size_t at) {
    std::vector<std::pair<std::size_t, ValueId>> seeds;  // by the number of the result
    for (ValueId output : outputs_[index(v)])
      if (const ValueId g = cotangents_.of(output); g != kNoValue) {
        seeds.emplace_back(static_cast<std::size_t>(graph_.node(output).index()), g);
        cotangents_.erase(output);
      }
    if (seeds.empty()) return std::nullopt;
    Names names;
    std::vector<ValueId> outer, wrt;
    std::vector<ValueId> used = used_values(graph_, v);
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (ValueId x : used) {
      const ValueId then = operand_at(x, at).id;
      if (graph_.type(then).strides != graph_.type(x).strides)
        return NoGradient{"a branch on arrays that are written after it", v};
      names[x] = then;
      if (varies(x)) outer.push_back(x), wrt.push_back(then);
    }
    std::unique_ptr<Block> sides[2];
    for (std::size_t k : {0, 1}) {
      sides[k] = std::make_unique<Block>();
      const OpenBlock opened(graph_, *sides[k]);
      GradientRequest request;
      request.wrt = wrt;
      request.library = request_.library;
      request.integers = request_.integers;
      Names inside = names;
      for (ValueId root : written_roots(graph_, v)) inside[root] = builder_.copy(in(names, root), 'K');
      repeat(*graph_.node(v).blocks[k], inside, request.stops);
      for (const auto& [number, g] : seeds) {
        request.outputs.push_back(in(inside, graph_.node(v).blocks[k]->results[number]));
        request.seeds.push_back(g);
      }
      auto made = Reverse(builder_, request, *sides[k]).run();
      if (!made) return std::move(made.error());
      for (ValueId x : made->values) {
        const Type& type = graph_.type(x);
        sides[k]->results.push_back(type.strides == c_strides(type.dtype, type.shape) ? x : builder_.copy(x, 'C'));
      }
    }
    const ValueId back = builder_.branch(in(names, graph_.node(v).inputs[0]), std::move(sides[0]), std::move(sides[1]));
    for (std::size_t i = 0; i < outer.size(); ++i) add(outer[i], builder_.output(back, static_cast<int64_t>(i)));
    return std::nullopt;
  }

  /// Of the last product of an attention that is written out: what lies in between gets no cotangent from it.
  bool attention_backward(ValueId v, ValueId g) {
    if (written_.empty()) written_ = written_memory(graph_);
    written_.resize(graph_.value_count(), true);
    const std::optional<AttentionPattern> found = match_attention(graph_, v, written_);
    if (!found || written_[index(v)] || (found->mask && varies(*found->mask))) return false;
    // The rows all of whose keys are closed have weights, by which nothing comes to the queries.
    if (found->closed && found->closed->finite) return false;
    for (ValueId x : found->scores)
      if (cotangents_.is_apart(x) ||
          std::find(request_.outputs.begin(), request_.outputs.end(), x) != request_.outputs.end())
        return false;
    const E scale = math_.of(builder_.full(math_.number(static_cast<double>(found->scale), DType::F32).id, {1}));
    const std::vector<int> turned = {0, 1, 3, 2};
    std::vector<ValueId> operands = {found->q, math_.permute(math_.of(found->k), turned).id, found->v, scale.id, g, v};
    if (const std::optional<ValueId> mask = found->whole_mask(builder_)) operands.push_back(*mask);
    const std::array<E, 3> cotangents = attention_gradients(operands, Causal::None, math_);
    add(found->q, cotangents[0].id);
    add(found->k, math_.permute(cotangents[1], turned).id);
    add(found->v, cotangents[2].id);
    cotangents_.erase(v);
    return true;
  }

  void backward_write(ValueId v) {
    const ValueId dst = graph_.node(v).inputs[0], value = graph_.node(v).inputs[1], of = cotangents_.base(dst);
    ValueId g = cotangents_.of(dst);
    if (g == kNoValue) return;
    // What is assigned to a Parameter is not followed: it stays the same Parameter.
    if (graph_.node(of).op == Op::Param && same_place(graph_.type(dst), graph_.type(of)) &&
        stops_.count(cotangents_.base(value)) != 0)
      return;
    if (dst == of) {
      cotangents_.erase(of);
    } else {
      if (varies(value)) g = builder_.copy(g, 'K');
      cotangents_.clear(dst);
    }
    if (varies(value)) add(value, math_.unbroadcast(math_.of(g), graph_.type(value).shape).id);
  }

  /// With memory of its own that nobody else has.
  ValueId finished(ValueId v) {
    ValueId c = cotangents_.of(v);
    if (c == kNoValue) return math_.zeros(graph_.type(v).dtype, graph_.type(v).shape).id;
    const ValueId root = graph_.root(c);
    if (index(root) >= active_.size() && same_place(graph_.type(c), graph_.type(root))) c = root;
    const Node& n = graph_.node(c);
    const bool fresh = index(c) >= active_.size() && !n.type.is_view() && n.op != Op::Constant &&
                       n.op != Op::DimValue && given_.insert(index(c)).second &&
                       std::find(request_.seeds.begin(), request_.seeds.end(), c) == request_.seeds.end();
    return fresh ? c : builder_.copy(c, 'K');
  }

  GraphBuilder& builder_;
  Graph& graph_;
  Math math_;
  Cotangents cotangents_;
  const GradientRequest& request_;
  Block& body_;
  const std::size_t end_;  // nodes from here on are ours
  std::set<ValueId> stops_;
  std::set<uint32_t> varying_;                                     // bases
  std::vector<bool> active_;                                       // nodes to go through, by value
  std::unordered_map<uint32_t, std::vector<std::size_t>> writes_;  // by root: where it is written
  std::map<std::pair<std::size_t, uint32_t>, ValueId> saved_;      // in front of that write, the value: its copy
  std::unordered_map<uint32_t, std::vector<ValueId>> outputs_;     // of branches
  std::set<uint32_t> given_;
  std::vector<bool> written_;  // roots; asked for once
  ValueId flow_ = kNoValue;    // control flow that depends on `wrt`, and is not followed
};

}  // namespace

Expected<Gradients, NoGradient> append_gradients(GraphBuilder& builder, const GradientRequest& request) {
  if (builder.graph().is_in_block())
    return Unexpected<NoGradient>{{"a gradient in a branch or loop that depends on an array value", kNoValue}};
  return Reverse(builder, request, builder.graph().body()).run();
}

}  // namespace framejit::graph
