// Random graphs through fusion, lowering and plans, against the reference interpreter. FRAMEJIT_SEED runs one of them,
// FRAMEJIT_SEEDS says how many to run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "graph/builder.h"
#include "graph/pass.h"
#include "graph/text.h"
#include "oracle.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

using namespace graph;

constexpr DType kTested[] = {DType::F64, DType::F32, DType::F32, DType::I64,
                             DType::I32, DType::I16, DType::U8,  DType::Bool};

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed), builder_(graph) {
    // Two axes around the vector width, or large enough for several tiles.
    static constexpr int64_t kLengths[] = {1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 130, 700};
    const bool symbolic = pick(2);
    for (Dim& d : shape_) {
      const int64_t n = kLengths[pick(12)];
      d = symbolic && n > 1 ? graph.shapes().fresh(n) : Dim(n);
    }
    for (int i = 0; i < 4; ++i) param();
    steps(2 + pick(14));
    std::vector<ValueId> results;
    for (int i = pick(3); i >= 0; --i) results.push_back(any());
    graph.set_results(results);
    const std::vector<int64_t> hints = graph.shapes().hints();
    Fill fill;
    fill.special = pick(3) == 0;
    std::mt19937_64 contents(seed + 1);
    for (ValueId p : graph.params()) memory.push_back(make_param(graph.type(p), hints, contents, fill));
  }

  Graph graph;
  std::vector<ParamMemory> memory;

 private:
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

  void param() {
    const DType dtype = kTested[pick(8)];
    const int64_t item = size_of(dtype);
    Dims shape, strides;
    switch (pick(9)) {
      case 0: break;
      case 1: shape = {shape_[1]}, strides = {item}; break;
      case 2: shape = {shape_[0], 1}, strides = {item, item}; break;
      case 3: shape = shape_, strides = {Dim(item), shape_[0] * Dim(item)}; break;
      case 4: shape = shape_, strides = {shape_[1] * Dim(3 * item), Dim(2 * item)}; break;
      case 5: shape = shape_, strides = {shape_[1] * Dim(-item), Dim(item)}; break;
      case 6: shape = shape_, strides = {shape_[1] * Dim(item), Dim(-item)}; break;
      default: shape = shape_, strides = {shape_[1] * Dim(item), Dim(item)}; break;
    }
    add(builder_.param({dtype, shape, strides}, ""));
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }

  void step() {
    switch (pick(16)) {
      case 0: add(builder_.constant(DType::F64, {0x4004000000000000, 0})); return;
      case 1: add(*builder_.cast(any(), kTested[pick(8)])); return;
      case 2: return view();
      case 3: add(builder_.copy(any(), pick(2) ? 'C' : 'K')); return;
      case 4: return write();
      case 5:
      case 6: return reduce();
      case 7: return host();
      case 8: return branch();
      case 9: return loop();
      default: return elementwise();
    }
  }

  /// Fills a block; what is made in it is not seen behind it.
  template <class F>
  void within(Block& block, F&& fill) {
    const std::vector<ValueId> seen = values_;
    const std::size_t around = std::exchange(block_, graph.value_count());
    graph.open(block);
    ++depth_;
    fill();
    --depth_;
    graph.close();
    block_ = around;
    values_ = seen;
  }

  bool may_leave(ValueId v) const {
    const Type& type = graph.type(v);
    return graph.node(v).op != Op::Write && type.strides == c_strides(type.dtype, type.shape);
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
    body->results = given;
    const ValueId v = builder_.loop(initial, std::move(body));
    for (std::size_t i = 0; i + 1 < given.size(); ++i) add(builder_.output(v, static_cast<int64_t>(i)));
  }

  void elementwise() {
    static constexpr Op kOps[] = {Op::Add,     Op::Subtract,    Op::Multiply,   Op::Divide,    Op::Minimum,
                                  Op::Maximum, Op::Less,        Op::Equal,      Op::Where,     Op::Negative,
                                  Op::Sqrt,    Op::FloorDivide, Op::Square,     Op::Rint,      Op::LogicalAnd,
                                  Op::IsNan,   Op::Absolute,    Op::BitwiseXor, Op::Remainder, Op::Clip};
    const Op op = kOps[pick(20)];
    const DType dtype = kTested[pick(8)];
    if (!takes(op, dtype)) return;
    std::vector<ValueId> operands;
    for (int i = 0; i < def(op).operands; ++i)
      operands.push_back(any_of(op == Op::Where && i == 0 ? DType::Bool : dtype));
    if (BuildResult r = builder_.elementwise(op, operands)) add(*r);
  }

  void host() {
    static constexpr Op kOps[] = {Op::Exp, Op::Log, Op::Sin, Op::Tanh, Op::Arctan2, Op::Power, Op::Hypot, Op::Fmax};
    const Op op = kOps[pick(8)];
    const DType dtype = pick(2) ? DType::F32 : DType::F64;
    std::vector<ValueId> operands;
    for (int i = 0; i < def(op).operands; ++i) operands.push_back(any_of(dtype));
    if (BuildResult r = builder_.elementwise(op, operands)) add(*r);
  }

  void reduce() {
    static constexpr Op kOps[] = {Op::ReduceSum, Op::ReduceSum, Op::ReduceMax, Op::ReduceMin,
                                  Op::ReduceAny, Op::ReduceAll, Op::ReduceProd};
    const ValueId x = any();
    const int rank = graph.type(x).rank();
    if (rank == 0) return;
    std::vector<int64_t> axes;
    for (int axis = 0; axis < rank; ++axis)
      if (pick(2)) axes.push_back(axis);
    if (axes.empty()) axes.push_back(pick(rank));
    if (BuildResult r = builder_.reduce(kOps[pick(7)], x, axes)) add(*r);
  }

  void view() {
    const ValueId x = any();
    const int rank = graph.type(x).rank();
    if (rank == 0) return;
    const int axis = pick(rank);
    const Dim& d = graph.type(x).shape[static_cast<std::size_t>(axis)];
    switch (pick(4)) {
      case 0:
        if (rank == 2) add(builder_.transpose(x, std::vector<int>{1, 0}));
        return;
      case 1:
        if (d.is_const() && d.value() > 3) add(builder_.slice(x, axis, 1, (d.value() - 1) / 2, 2));
        return;
      case 2:
        if (d.is_const() && d.value() > 1) add(builder_.slice(x, axis, d - Dim(1), d, -1));
        return;
      default: add(builder_.select(x, axis, 0)); return;
    }
  }

  void write() {
    const ValueId destination = any();
    for (const Dim& s : graph.type(destination).strides)
      if (s == Dim(0)) return;
    const Op root = graph.node(graph.root(destination)).op;
    if (root == Op::Constant || graph.node(destination).op == Op::Write) return;
    // A block writes what is made in it only.
    if (index(graph.root(destination)) < block_ || root == Op::Carried) return;
    auto written = builder_.write(destination, any_of(graph.type(destination).dtype));
    (void)written;
  }

  std::mt19937_64 random_;
  GraphBuilder builder_;
  Dims shape_{0, 0};
  std::vector<ValueId> values_;
  std::size_t block_ = 0;  // number of the first value of the open block
  int depth_ = 0;
};

void run_seed(uint64_t seed, int& declined_count) {
  RandomProgram program(seed);
  const std::vector<int64_t> hints = program.graph.shapes().hints();
  if (seed % 3 == 0) {
    PassContext context;
    context.verify = true;
    optimize(program.graph, context);
  }
  static constexpr int kThreads[] = {1, 2, 3, 7};
  set_num_threads(kThreads[seed % 4]);
  for (const codegen::Cpu& cpu : cpus())
    for (bool fuse : {true, false}) {
      std::string declined;
      ASSERT_EQ(compare(program.graph, program.memory, hints, {cpu, fuse, 0}, &declined), "")
          << "FRAMEJIT_SEED=" << seed;
      declined_count += !declined.empty();
      ASSERT_EQ(compare(program.graph, program.memory, hints, {cpu, fuse, 0, true}, &declined), "")
          << "FRAMEJIT_SEED=" << seed;
    }
  set_num_threads(0);
}

TEST(Random, PlansAgreeWithTheInterpreter) {
  const char* one = std::getenv("FRAMEJIT_SEED");
  const char* many = std::getenv("FRAMEJIT_SEEDS");
  const uint64_t first = one ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t last = one ? first : many ? std::strtoull(many, nullptr, 10) : 300;
  int declined = 0;
  for (uint64_t seed = first; seed <= last && !HasFatalFailure(); ++seed) run_seed(seed, declined);
  RecordProperty("declined", declined);
  // A test that declines most of what it is given tests nothing.
  if (!one) {
    EXPECT_LT(declined, static_cast<int>(4 * (last - first + 1)) / 4);
  }
}

}  // namespace
}  // namespace framejit::runtime::testing
