// Random graphs through fusion, lowering and plans, against the reference interpreter. FRAMEJIT_SEED runs one of them,
// FRAMEJIT_SEEDS says how many to run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "../graph/random_flow.h"
#include "graph/pass.h"
#include "graph/text.h"
#include "oracle.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

using namespace graph;
using graph::testing::RandomFlow;

constexpr DType kTested[] = {DType::F64, DType::F32, DType::F32, DType::I64,
                             DType::I32, DType::I16, DType::U8,  DType::Bool};

class RandomProgram : RandomFlow {
 public:
  explicit RandomProgram(uint64_t seed) : RandomFlow(seed) {
    // Two axes around the vector width, or large enough for several tiles.
    static constexpr int64_t kLengths[] = {1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 130, 700};
    const bool symbolic = pick(2);
    for (Dim& d : shape_) {
      const int64_t n = kLengths[pick(12)];
      d = symbolic && n > 1 ? graph.shapes().fresh(n) : Dim(n);
    }
    for (int i = 0; i < 4; ++i) param();
    steps(2 + pick(14));
    if (pick(3) == 0) {
      graph.begin_gradient();
      steps(2 + pick(14));
    }
    std::vector<ValueId> results;
    for (int i = pick(3); i >= 0; --i) results.push_back(any());
    graph.set_results(results);
    const std::vector<int64_t> hints = graph.shapes().hints();
    Fill fill;
    fill.special = pick(3) == 0;
    std::mt19937_64 contents(seed + 1);
    for (ValueId p : graph.params()) memory.push_back(make_param(graph.type(p), hints, contents, fill));
  }

  using RandomFlow::graph;
  std::vector<ParamMemory> memory;

 private:
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

  void step() override {
    switch (pick(16)) {
      case 0: add(builder_.constant(DType::F64, {0x4004000000000000, 0})); return;
      case 1: add(*builder_.cast(any(), kTested[pick(8)])); return;
      case 2: return view();
      case 3: add(builder_.copy(any(), pick(2) ? 'C' : 'K')); return;
      case 4: return write();
      case 5:
      case 6: return reduce();
      case 7: return numpy_loop();
      case 8: return branch();
      case 9: return loop();
      case 10:
      case 11: return choose();
      default: return elementwise();
    }
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

  void numpy_loop() {
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
    if (!may_write(destination)) return;
    auto written = builder_.write(destination, any_of(graph.type(destination).dtype));
    (void)written;
  }

  Dims shape_{0, 0};
};

void run_seed(uint64_t seed, int& declined_count) {
  RandomProgram program(seed);
  const std::vector<int64_t> hints = program.graph.shapes().hints();
  if (seed % 3 == 0) {
    PassContext context;
    context.verify = true;
    context.least_again = 1;
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
      ASSERT_EQ(compare(program.graph, program.memory, hints, {.cpu = cpu, .fuse = fuse, .bands = true}, &declined), "")
          << "FRAMEJIT_SEED=" << seed;
      ASSERT_EQ(compare(program.graph, program.memory, hints, {cpu, fuse, 0, true}, &declined), "")
          << "FRAMEJIT_SEED=" << seed;
      for (const ExecOrder order : {ExecOrder::Breadth, ExecOrder::Depth})
        ASSERT_EQ(compare(program.graph, program.memory, hints, {cpu, fuse, 0, false, order}, &declined), "")
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
