// What the makers of random graphs share: values to pick from, and branches and loops around what a maker makes.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "graph/mask_operators.h"
#include "graph/text.h"

namespace framejit::graph::testing {

class RandomFlow {
 public:
  explicit RandomFlow(uint64_t seed) : builder_(graph), random_(seed), rules_(seed), has_rules_(rules_() % 3 == 0) {}
  virtual ~RandomFlow() = default;

  Graph graph;

 protected:
  virtual void step() = 0;

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  ValueId any() { return values_[static_cast<std::size_t>(pick(static_cast<int>(values_.size())))]; }

  ValueId any_of(DType dtype) {
    for (int i = 0; i < 10; ++i) {
      const ValueId v = any();
      if (graph.type(v).dtype == dtype) return v;
    }
    return add(*builder_.cast(any(), dtype));
  }

  ValueId add(ValueId v) {
    values_.push_back(v);
    return v;
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      if (has_rules_ && rules_() % 4 == 0) builder_.set_flag_rule(any_rule());
      step();
    }
  }

  /// What np.errstate may say.
  FlagRule any_rule() {
    FlagRule rule;
    for (const FlagName& flag : kFlagNames) {
      const auto what = rules_() % 4;
      if (what == 0) rule.trapped |= flag.bit;
      if (what == 1) rule.ignored |= flag.bit;
    }
    return rules_() % 3 ? rule : FlagRule{};
  }

  /// Fills a block; what is made in it is not seen behind it.
  template <class F>
  void within(Block& block, F&& fill) {
    const std::vector<ValueId> seen = values_;
    const std::size_t around = std::exchange(first_symbol_, graph.shapes().symbol_count());
    graph.open(block);
    ++depth_;
    fill();
    --depth_;
    graph.close();
    first_symbol_ = around;
    values_ = seen;
  }

  /// No loop carries it, or has begun with it and goes on around here.
  bool may_write(ValueId v) const {
    const ValueId root = graph.root(v);
    if (graph.node(root).op == Op::Constant || graph.node(v).op == Op::Write || graph.node(root).op == Op::Carried)
      return false;
    return std::find(begun_with_.begin(), begun_with_.end(), root) == begun_with_.end();
  }

  bool may_leave(ValueId v) const {
    const Type& type = graph.type(v);
    return graph.node(v).op != Op::Write && type.strides == c_strides(type.dtype, type.shape) &&
           !graph.shapes().is_measured(type.shape, first_symbol_);
  }

  bool alike(ValueId a, ValueId b) const {
    const Type &x = graph.type(a), &y = graph.type(b);
    return x.dtype == y.dtype && x.shape == y.shape;
  }

  /// Some value of that type; the given one where there is no other.
  ValueId any_like(ValueId v) {
    for (int i = 0; i < 20; ++i)
      if (const ValueId other = any(); may_leave(other) && alike(v, other)) return other;
    return v;
  }

  ValueId condition() {
    ValueId v = any_of(DType::Bool);
    std::vector<int64_t> axes(static_cast<std::size_t>(graph.type(v).rank()));
    std::iota(axes.begin(), axes.end(), 0);
    return axes.empty() ? v : *builder_.reduce(pick(2) ? Op::ReduceAny : Op::ReduceAll, v, axes);
  }

  void branch() {
    if (depth_ == 3) return;
    const ValueId decides = condition();
    std::vector<ValueId> given[2];
    const std::size_t begin = graph.value_count();
    auto first = std::make_unique<Block>(), second = std::make_unique<Block>();
    within(*first, [&] {
      steps(pick(5));
      for (int i = pick(4); i >= 0; --i)
        if (const ValueId v = any(); may_leave(v)) given[0].push_back(v);
    });
    within(*second, [&] {
      steps(pick(5));
      for (ValueId v : given[0]) {
        const ValueId other = any_like(v);
        given[1].push_back(other == v && index(v) >= begin ? like(v) : other);
      }
    });
    first->results = given[0];
    second->results = given[1];
    const ValueId v = builder_.branch(decides, std::move(first), std::move(second));
    for (std::size_t i = 0; i < given[0].size(); ++i) add(builder_.output(v, static_cast<int64_t>(i)));
  }

  /// What a mask chooses, as much as it turns out to be.
  void choose() {
    const ValueId mask = any_of(DType::Bool), x = any();
    const Dims of_mask = graph.type(mask).shape, shape = graph.type(x).shape;
    if (of_mask.empty() || of_mask.size() > shape.size() || !std::equal(of_mask.begin(), of_mask.end(), shape.begin()))
      return;
    std::vector<int64_t> axes(of_mask.size());
    std::iota(axes.begin(), axes.end(), 0);
    const ValueId count = *builder_.reduce(Op::ReduceSum, *builder_.cast(mask, DType::I64), axes);
    add(*append_compress(builder_, mask, x, builder_.measure(count, product(of_mask))));
  }

  /// A new value of the type of one that is not in reach.
  ValueId like(ValueId v) {
    const Type type = graph.type(v);
    const ValueId zero = builder_.constant(type.dtype, {});
    return type.rank() == 0 ? zero : builder_.full(zero, type.shape);
  }

  void loop() {
    if (depth_ == 3) return;
    std::vector<ValueId> initial{builder_.constant(DType::I64, {})};
    for (int i = pick(4); i > 0; --i)
      if (const ValueId v = any(); may_leave(v)) initial.push_back(v);
    auto body = std::make_unique<Block>();
    std::vector<ValueId> given(1);
    const std::size_t around = begun_with_.size();
    for (ValueId v : initial) begun_with_.push_back(graph.root(v));
    within(*body, [&] {
      std::vector<ValueId> carried;
      for (ValueId v : initial) {
        const Type type = graph.type(v);
        carried.push_back(add(builder_.carried({type.dtype, type.shape, type.strides})));
      }
      steps(1 + pick(5));
      const ValueId round[] = {carried[0], builder_.constant(DType::I64, {1, 0})};
      given.push_back(*builder_.elementwise(Op::Add, round));
      for (std::size_t i = 1; i < carried.size(); ++i) given.push_back(pick(5) ? any_like(carried[i]) : carried[i]);
      const ValueId most[] = {given[1], builder_.constant(DType::I64, {static_cast<uint64_t>(1 + pick(4)), 0})};
      given[0] = *builder_.elementwise(Op::Less, most);
      if (pick(3) == 0) {
        const ValueId both[] = {given[0], condition()};
        given[0] = *builder_.elementwise(Op::LogicalAnd, both);
      }
      for (int i = pick(3); i > 0; --i)
        if (const ValueId v = any(); may_leave(v)) given.push_back(v);
    });
    begun_with_.resize(around);
    body->results = given;
    const ValueId v = builder_.loop(initial, std::move(body));
    for (std::size_t i = 0; i + 1 < given.size(); ++i) add(builder_.output(v, static_cast<int64_t>(i)));
  }

  GraphBuilder builder_;
  std::vector<ValueId> values_;
  std::vector<ValueId> begun_with_;  // roots of what the loops around here began with

 private:
  std::mt19937_64 random_, rules_;
  const bool has_rules_;
  int depth_ = 0;
  std::size_t first_symbol_ = 0;  // of those that the block makes
};

}  // namespace framejit::graph::testing
