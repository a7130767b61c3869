// Random graphs: what they compute is the same before and after the passes, after printing and parsing, and by groups.
// FRAMEJIT_SEED runs one of them, FRAMEJIT_SEEDS says how many to run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "graph/copy.h"
#include "graph/interpret.h"
#include "graph/pass.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "group_executor.h"
#include "random_flow.h"

namespace framejit::graph {
namespace {

using testing::RandomFlow;

constexpr DType kTested[] = {DType::F64, DType::F32, DType::I64, DType::I16, DType::U8, DType::Bool};

/// A graph with its inputs.
class RandomGraph : RandomFlow {
 public:
  explicit RandomGraph(unsigned seed) : RandomFlow(seed) {
    rows_ = graph.shapes().fresh(3 + pick(3));
    flows_ = pick(2) == 0;
    for (int i = 0; i < 4; ++i) param();
    steps(4 + pick(24));
    if (pick(3) == 0) {
      graph.begin_gradient();
      steps(4 + pick(24));
    }
    std::vector<ValueId> results;
    for (int i = pick(4); i >= 0; --i) results.push_back(any());
    graph.set_results(results);
  }

  /// New copies of the memory of the params.
  std::vector<std::vector<std::byte>> memory() const { return memory_; }

  std::vector<ArrayRef> refs(std::vector<std::vector<std::byte>>& bytes) const {
    std::vector<ArrayRef> out;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const Type& t = graph.type(graph.params()[i]);
      out.push_back({bytes[i].data() + first_[i], numbers(t.shape), numbers(t.strides)});
    }
    return out;
  }

  using RandomFlow::graph;

 private:
  std::vector<int64_t> numbers(const Dims& dims) const {
    std::vector<int64_t> out;
    for (const Dim& d : dims) out.push_back(graph.shapes().hint(d));
    return out;
  }

  /// [], [4], [s0, 4] or [s0, 1], in C or F order, strided or backwards.
  void param() {
    const DType dtype = kTested[pick(6)];
    const int item = size_of(dtype), kind = pick(5);
    Dims shape, strides;
    if (kind >= 1) shape = {4}, strides = {item};
    if (kind >= 2) shape = {rows_, 4}, strides = {4 * item, item};
    if (kind == 3) strides = {item, rows_ * item};
    if (kind == 4) strides = {16 * item, -2 * item};
    int64_t low = 0, high = item;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const int64_t last = (graph.shapes().hint(shape[i]) - 1) * graph.shapes().hint(strides[i]);
      (last < 0 ? low : high) += last;
    }
    first_.push_back(-low);
    std::vector<std::byte> bytes(static_cast<std::size_t>(high - low));
    for (std::size_t i = 0; i + static_cast<std::size_t>(item) <= bytes.size(); i += static_cast<std::size_t>(item))
      element(dtype, bytes.data() + i);
    memory_.push_back(std::move(bytes));
    values_.push_back(builder_.param({dtype, shape, strides}, pick(2) ? "p" : ""));
  }

  void element(DType dtype, std::byte* to) {
    static constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.5, 3e300, 1e-320, __builtin_inf(), __builtin_nan("")};
    const double x = pick(4) ? (pick(2000) - 1000) / 64.0 : kSpecial[pick(8)];
    const float f = static_cast<float>(x);
    const uint64_t bits =
        dtype == DType::Bool ? static_cast<uint64_t>(pick(2)) : static_cast<uint64_t>(pick(300) - 150);
    const void* from = dtype == DType::F64 ? static_cast<const void*>(&x) : dtype == DType::F32 ? &f : nullptr;
    std::memcpy(to, from ? from : &bits, static_cast<std::size_t>(size_of(dtype)));
  }

  void step() override {
    switch (pick(12)) {
      case 0: values_.push_back(constant(kTested[pick(6)])); return;
      case 1: add(*builder_.cast(any(), kTested[pick(6)])); return;
      case 2: return view();
      case 3: values_.push_back(builder_.copy(any(), pick(2) ? 'C' : 'K')); return;
      case 4:
      case 5: return write();
      case 6: return reduce();
      case 7:
        if (pick(3) == 0) values_.push_back(builder_.full(constant(kTested[pick(6)]), {rows_, 4}));
        return elementwise();
      case 8:
        if (flows_) return pick(2) ? branch() : loop();
        return elementwise();
      default: return elementwise();
    }
  }

  ValueId constant(DType dtype) {
    Scalar s;
    element(dtype, reinterpret_cast<std::byte*>(&s.lo));
    return builder_.constant(dtype, s);
  }

  void elementwise() {
    static constexpr Op kOpsUsed[] = {Op::Add,        Op::Subtract, Op::Multiply,   Op::Divide,   Op::FloorDivide,
                                      Op::Remainder,  Op::Minimum,  Op::Maximum,    Op::Negative, Op::Absolute,
                                      Op::Square,     Op::Sqrt,     Op::Exp,        Op::Equal,    Op::Less,
                                      Op::Where,      Op::Clip,     Op::BitwiseXor, Op::IsNan,    Op::Sign,
                                      Op::LogicalNot, Op::LeftShift};
    const Op op = kOpsUsed[pick(22)];
    const DType dtype = graph.type(any()).dtype;
    if (!takes(op, dtype)) return;
    std::vector<ValueId> operands;
    for (int i = 0; i < def(op).operands; ++i)
      operands.push_back(any_of(op == Op::Where && i == 0 ? DType::Bool : dtype));
    if (auto v = builder_.elementwise(op, operands)) values_.push_back(*v);
  }

  void reduce() {
    static constexpr Op kReductions[] = {Op::ReduceSum, Op::ReduceProd, Op::ReduceMin, Op::ReduceMax, Op::ReduceAny};
    const ValueId x = any();
    std::vector<int64_t> axes;
    for (int i = 0; i < graph.type(x).rank(); ++i)
      if (pick(2)) axes.push_back(i);
    auto v = builder_.reduce(kReductions[pick(5)], x, axes);
    if (!v) return;
    values_.push_back(*v);
    if (pick(2) && !axes.empty()) values_.push_back(builder_.keep_dims(*v, x, axes));
  }

  void view() {
    const ValueId x = any();
    const int rank = graph.type(x).rank();
    if (rank == 0) return;
    const int axis = pick(rank);
    const bool columns = graph.type(x).shape[axis] == Dim(4);
    const bool rows = graph.type(x).shape[axis] == rows_;
    switch (pick(6)) {
      case 0:
        if (columns) values_.push_back(builder_.slice(x, axis, 3, 4, -1));
        break;
      case 1:
        if (columns) values_.push_back(builder_.slice(x, axis, pick(2), 2, 2));
        break;
      case 2:
        if (columns || rows) values_.push_back(builder_.select(x, axis, pick(3)));
        break;
      case 3: {
        const int swapped[] = {1, 0};
        if (rank == 2) values_.push_back(builder_.transpose(x, swapped));
        break;
      }
      case 4:
        if (rows) values_.push_back(builder_.slice(x, axis, pick(2), rows_ - 1, 1));
        break;
      default:
        if (auto v = builder_.reshape(x, {graph.type(x).size()})) values_.push_back(*v);
    }
  }

  void write() {
    const ValueId dst = any();
    const Type type = graph.type(dst);  // a copy: more nodes follow
    if (!may_write(dst)) return;
    for (const Dim& stride : type.strides)
      if (stride == Dim(0)) return;
    ValueId value = any_of(type.dtype);
    if (pick(2)) {  // an in-place operation
      const ValueId operands[] = {dst, value};
      const Op op = type.dtype == DType::Bool ? Op::BitwiseXor : pick(2) ? Op::Add : Op::Multiply;
      auto computed = builder_.elementwise(op, operands);
      if (!computed || graph.type(*computed).rank() != type.rank()) return;
      value = *computed;
    }
    (void)builder_.write(dst, value).has_value();
  }

  Dim rows_;
  bool flows_ = false;  // has control flow
  std::vector<std::vector<std::byte>> memory_;
  std::vector<int64_t> first_;
};

/// Everything that can be seen of a run. NaN payloads are made equal: which of two survives is NumPy's to choose.
struct Seen {
  std::vector<std::vector<std::byte>> results, params;
  unsigned flags = 0;
};

template <class T>
void quiet_nans(std::vector<std::byte>& bytes) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T x;
    std::memcpy(&x, bytes.data() + i, sizeof(T));
    if (x == x) continue;
    x = std::numeric_limits<T>::quiet_NaN();
    std::memcpy(bytes.data() + i, &x, sizeof(T));
  }
}

void quiet_nans(DType dtype, std::vector<std::byte>& bytes) {
  if (dtype == DType::F32) quiet_nans<float>(bytes);
  if (dtype == DType::F64) quiet_nans<double>(bytes);
}

void quiet_nans(const Graph& g, Seen& seen) {
  for (std::size_t i = 0; i < seen.results.size(); ++i) quiet_nans(g.type(g.results()[i]).dtype, seen.results[i]);
  for (std::size_t i = 0; i < seen.params.size(); ++i) quiet_nans(g.type(g.params()[i]).dtype, seen.params[i]);
}

Seen run(const RandomGraph& source, const Graph& g) {
  std::vector<std::vector<std::byte>> memory = source.memory();
  auto out = interpret(g, source.refs(memory), source.graph.shapes().hints());
  EXPECT_TRUE(out) << out.error();
  Seen seen;
  if (!out) return seen;
  for (std::size_t i = 0; i < out->results.size(); ++i)
    seen.results.push_back(executor::packed(out->results[i].array, size_of(g.type(g.results()[i]).dtype)));
  seen.params = std::move(memory);
  seen.flags = out->fp_flags;
  quiet_nans(g, seen);
  return seen;
}

Seen run_by_groups(const RandomGraph& source, const Graph& g, executor::Order order, ExecOrder of_groups) {
  std::vector<std::vector<std::byte>> memory = source.memory();
  PassContext context;
  context.order = of_groups;
  const std::vector<Group> groups = fuse(g, context);
  executor::Executed out = executor::run_groups(g, groups, source.refs(memory), source.graph.shapes().hints(), order);
  EXPECT_TRUE(out.all_stored);
  Seen seen{std::move(out.results), std::move(memory), 0};
  quiet_nans(g, seen);
  return seen;
}

/// A graph of nothing but its params, to which all else was appended.
Graph part_of_another(const Graph& graph) {
  Graph out(graph.name());
  for (std::size_t i = 0; i < graph.shapes().symbol_count(); ++i) out.shapes().fresh(2);
  for (ValueId p : graph.params()) out.append({Op::Param, {}, graph.node(p).attrs, graph.type(p)});
  const std::vector<ValueId> params = out.params();
  out.set_results(append_graph(out, graph, params));
  return out;
}

TEST(RandomGraphs, MeanTheSameInEveryForm) {
  const char* chosen = std::getenv("FRAMEJIT_SEED");
  const char* count = std::getenv("FRAMEJIT_SEEDS");
  const unsigned first = chosen ? static_cast<unsigned>(std::atoi(chosen)) : 0;
  const unsigned last = first + (chosen ? 1 : count ? static_cast<unsigned>(std::atoi(count)) : 600);
  int rematerialized = 0;  // graphs in which something is
  for (unsigned seed = first; seed < last && !::testing::Test::HasFailure(); ++seed) {
    RandomGraph source(seed);
    const std::string text = print(source.graph);
    SCOPED_TRACE("FRAMEJIT_SEED=" + std::to_string(seed) + "\n" + text);
    ASSERT_EQ(verify(source.graph).value_or(""), "");
    auto parsed = parse(text);
    ASSERT_TRUE(parsed) << parsed.error().line << ": " << parsed.error().message;
    ASSERT_EQ(print(*parsed), text);
    ASSERT_EQ(print(part_of_another(*parsed)), text);
    const Seen expected = run(source, source.graph);
    // Groups of blocks are run by plans (tests/runtime/test_random.cpp).
    bool flows = false;
    for_each_node(source.graph, source.graph.body(),
                  [&](ValueId v) { flows = flows || is_control(source.graph.node(v).op); });
    const Seen reread = run(source, *parsed);
    EXPECT_TRUE(reread.results == expected.results);
    EXPECT_TRUE(reread.params == expected.params);
    EXPECT_EQ(reread.flags, expected.flags);
    for (const bool optimized : {false, true}) {
      if (optimized) {
        PassContext context;
        context.verify = true;
        context.least_again = 1;
        for (const Pass& pass : all_passes()) {
          PhaseScope scope(pass.name, *parsed, context);
          const bool changed = pass.run(*parsed, context);
          rematerialized += changed && pass.name == "rematerialize";
          const std::string once = print(*parsed);
          EXPECT_FALSE(pass.run(*parsed, context)) << pass.name << " is idempotent";
          EXPECT_EQ(print(*parsed), once) << pass.name << " is idempotent";
        }
        const Seen after = run(source, *parsed);
        EXPECT_TRUE(after.results == expected.results) << print(*parsed);
        EXPECT_TRUE(after.params == expected.params) << print(*parsed);
        EXPECT_EQ(after.flags, expected.flags) << print(*parsed);
      }
      if (flows) continue;
      for (executor::Order order :
           {executor::Order::ElementByElement, executor::Order::Backwards, executor::Order::NodeByNode}) {
        for (ExecOrder of_groups : {ExecOrder::Program, ExecOrder::Breadth, ExecOrder::Depth}) {
          const Seen grouped = run_by_groups(source, *parsed, order, of_groups);
          EXPECT_TRUE(grouped.results == expected.results) << print(*parsed);
          EXPECT_TRUE(grouped.params == expected.params) << print(*parsed);
        }
      }
    }
  }
  if (!chosen && !::testing::Test::HasFailure()) {
    EXPECT_GT(rematerialized, 0);
  }
}

}  // namespace
}  // namespace framejit::graph
