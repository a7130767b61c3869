// Compares a plan with the reference interpreter.
#include "oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "graph/passes/fuse.h"
#include "graph/scalar_ops.h"
#include "graph/support/fp_state.h"
#include "graph/text.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {

using namespace graph;

namespace {

std::vector<int64_t> values(const Dims& dims, std::span<const int64_t> symbols) {
  std::vector<int64_t> out;
  for (const Dim& d : dims) out.push_back(d.evaluate(symbols));
  return out;
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

double real_number(std::mt19937_64& random, const Fill& fill) {
  static constexpr double kSpecial[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0, 1e30, -1e30, 1e-30, 0.5, 2.0};
  if (fill.special && random() % 4 == 0) return kSpecial[random() % std::size(kSpecial)];
  return std::normal_distribution<double>(0, 3)(random);
}

void fill_element(std::byte* at, DType dtype, std::mt19937_64& random, const Fill& fill) {
  if (dtype == DType::F32) return put(at, static_cast<float>(real_number(random, fill)));
  if (dtype == DType::F64) return put(at, real_number(random, fill));
  if (dtype == DType::Bool) return put(at, static_cast<uint8_t>(random() & 1));
  int64_t value = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * fill.limit + 1)) - fill.limit;
  if (fill.special && random() % 8 == 0) value = static_cast<int64_t>(random());
  if (is_unsigned_int(dtype) && !fill.special) value = std::llabs(value);
  std::memcpy(at, &value, static_cast<std::size_t>(size_of(dtype)));
}

template <class F>
void for_each_element(std::span<const int64_t> shape, std::span<const int64_t> strides, F f) {
  for (int64_t d : shape)
    if (d == 0) return;
  std::vector<int64_t> position(shape.size(), 0);
  int64_t offset = 0;
  while (true) {
    f(offset);
    std::size_t axis = shape.size();
    while (axis > 0) {
      --axis;
      offset += strides[axis];
      if (++position[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      position[axis] = 0;
      if (axis == 0) return;
    }
    if (shape.empty()) return;
  }
}

bool same_element(DType dtype, const std::byte* a, const std::byte* b) {
  if (dtype == DType::F32) {
    float x, y;
    std::memcpy(&x, a, 4);
    std::memcpy(&y, b, 4);
    if (std::isnan(x) && std::isnan(y)) return true;
  }
  if (dtype == DType::F64) {
    double x, y;
    std::memcpy(&x, a, 8);
    std::memcpy(&y, b, 8);
    if (std::isnan(x) && std::isnan(y)) return true;
  }
  return std::memcmp(a, b, static_cast<std::size_t>(size_of(dtype))) == 0;
}

std::string element_text(DType dtype, const std::byte* at) {
  Scalar s;
  std::memcpy(&s, at, static_cast<std::size_t>(size_of(dtype)));
  return scalar_str(dtype, s);
}

struct LoopData {
  Op op;
  DType operand, result;
};

void run_reference_loop(char** args, const intptr_t* dimensions, const intptr_t* steps, void* data) {
  const LoopData& d = *static_cast<const LoopData*>(data);
  const int count = def(d.op).operands;
  // As some of NumPy's loops do: what was raised before is gone.
  clear_fp_flags();
  for (intptr_t i = 0; i < *dimensions; ++i) {
    Scalar in[3], out;
    for (int a = 0; a < count; ++a)
      std::memcpy(&in[a], args[a] + i * steps[a], static_cast<std::size_t>(size_of(d.operand)));
    apply_scalar(d.op, d.operand, d.result, {in, static_cast<std::size_t>(count)}, out);
    std::memcpy(args[count] + i * steps[count], &out, static_cast<std::size_t>(size_of(d.result)));
  }
}

std::vector<Group> one_each(const Graph& graph, const graph::Block& block) {
  std::vector<Group> groups;
  for (ValueId v : block.nodes) {
    const Node& node = graph.node(v);
    const OpClass cls = def(node.op).cls;
    if (cls == OpClass::View || node.op == Op::Constant || node.op == Op::DimValue || node.op == Op::Output) continue;
    Group g;
    g.nodes = {v};
    if (node.op != Op::Write && cls != OpClass::Control) g.stored = {v};
    g.shape = cls == OpClass::Reduction || cls == OpClass::Write ? graph.type(node.inputs[0]).shape : node.type.shape;
    for (const std::unique_ptr<graph::Block>& inner : node.blocks) g.blocks.push_back(one_each(graph, *inner));
    groups.push_back(std::move(g));
  }
  return groups;
}

}  // namespace

ParamMemory make_param(const Type& type, std::span<const int64_t> symbols, std::mt19937_64& random, const Fill& fill) {
  const std::vector<int64_t> shape = values(type.shape, symbols), strides = values(type.strides, symbols);
  const int64_t item = size_of(type.dtype);
  int64_t low = 0, high = item;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const int64_t reach = std::max<int64_t>(shape[i] - 1, 0) * strides[i];
    (reach < 0 ? low : high) += reach;
  }
  ParamMemory out;
  constexpr int64_t kMargin = 64;
  out.first = kMargin - low;
  out.bytes.resize(static_cast<std::size_t>(high - low + 2 * kMargin));
  for (int64_t at = 0; at + item <= static_cast<int64_t>(out.bytes.size()); at += item)
    fill_element(out.bytes.data() + at, type.dtype, random, fill);
  return out;
}

std::vector<Group> one_each(const Graph& graph) { return one_each(graph, graph.body()); }

std::vector<Group> fused(const Graph& graph, ExecOrder order) {
  PassContext context;
  context.order = order;
  return fuse(graph, context);
}

codegen::NumpyLoop reference_loop(Op op, DType operand, DType result) {
  if (def(op).exactness != Exactness::NumpyLoop || !is_float(operand) || !has_scalar_ops(operand)) return {};
  static std::map<std::tuple<Op, DType, DType>, LoopData> loops;
  LoopData& data = loops[{op, operand, result}];
  data = {op, operand, result};
  return {run_reference_loop, &data};
}

std::vector<codegen::Cpu> cpus() {
  std::vector<codegen::Cpu> out{codegen::select_cpu("avx2")};
  if (codegen::detected_cpu().isa == codegen::Isa::Avx512) out.push_back(codegen::select_cpu("avx512"));
  return out;
}

namespace {

/// The same graph, with a call for each operator that may set flags.
Graph with_calls(const Graph& graph) {
  Graph out = parse_graph(print(graph));
  out.shapes() = graph.shapes();  // with its guards
  for (ValueId v : out.body().nodes) {
    Node& node = out.node(v);
    if (def(node.op).cls == OpClass::Elementwise || node.op == Op::Cast) node.calls = {out.add_call({node.op})};
  }
  return out;
}

}  // namespace

std::string compare(const Graph& given, const std::vector<ParamMemory>& params, std::span<const int64_t> symbols,
                    const CompareOptions& options, std::string* declined) {
  std::optional<Graph> own;
  if (options.attribute) own = with_calls(given);
  const Graph& graph = own ? *own : given;
  codegen::LowerOptions lower_options;
  lower_options.cpu = options.cpu;
  lower_options.numpy_loop = reference_loop;
  lower_options.pairwise_cut = options.pairwise_cut;
  lower_options.attribute = options.attribute;
  auto program = codegen::lower(graph, options.fuse ? fused(graph, options.order) : one_each(graph), lower_options);
  if (!program) {
    if (declined) *declined = program.error();
    return declined ? "" : "declined: " + program.error();
  }
  const std::string listing = codegen::listing(*program);
  PlanOptions plan_options;
  plan_options.beside = options.order == ExecOrder::Breadth;
  if (options.bands) plan_options.block_bytes = options.block_bytes;
  auto plan = Plan::create(std::move(*program), plan_options);
  if (!plan) return plan.error();

  std::vector<ParamMemory> expected = params, actual = params;
  std::vector<ArrayRef> arrays;
  std::vector<char*> pointers, result_pointers;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Type& type = graph.type(graph.params()[i]);
    arrays.push_back(
        {expected[i].bytes.data() + expected[i].first, values(type.shape, symbols), values(type.strides, symbols)});
    pointers.push_back(reinterpret_cast<char*>(actual[i].bytes.data() + actual[i].first));
  }
  auto reference = interpret(graph, arrays, symbols);
  if (!reference) {
    if (declined) *declined = reference.error();
    return declined ? "" : "interpreter: " + reference.error();
  }

  std::vector<std::vector<std::byte>> memory;
  constexpr std::size_t kGuard = 64;
  const auto& roots = (*plan)->program().result_roots;
  for (std::size_t r = 0; r < roots.size(); ++r)
    memory.emplace_back(static_cast<std::size_t>((*plan)->result_bytes(r, symbols)) + 2 * kGuard, std::byte{0xa5});
  for (auto& m : memory) result_pointers.push_back(reinterpret_cast<char*>(m.data() + kGuard));
  raise_fp_flags(kStickyFlags);  // what was raised before must not show
  RunResult run = (*plan)->run(pointers, result_pointers, symbols);
  const std::string where = "\n" + listing + print(graph);
  if (fp_flags() & kReported) return "sticky flags are left" + where;
  const unsigned flags = reference->fp_flags;
  if (run.status == RunStatus::Bailout || run.status == RunStatus::Flagged) {
    for (std::size_t i = 0; i < params.size(); ++i)
      if (actual[i].bytes != params[i].bytes) return "redo left a param changed" + where;
    if (run.status == RunStatus::Flagged)
      return run.flags && !(run.flags & ~flags) ? "" : "flags before writes" + where;
    if (declined) *declined = "redo";
    return declined ? "" : "redo" + where;
  }
  if (run.status != RunStatus::Done) return "status " + std::to_string(static_cast<int>(run.status)) + where;
  const auto& measured = (*plan)->program().measured;
  if (run.measured.size() != measured.size()) return "not all is measured" + where;
  std::set<SymbolId> in_sight;  // behind the run: those of no block
  for (ValueId v : graph.body().nodes)
    if (graph.node(v).op == Op::Measure)
      for (const codegen::Measured& m : measured)
        if (graph.node(v).dim() == Dim::symbol(m.symbol)) in_sight.insert(m.symbol);
  for (std::size_t i = 0; i < measured.size(); ++i)
    if (in_sight.contains(measured[i].symbol) &&
        run.measured[i] != reference->symbols[static_cast<std::size_t>(measured[i].symbol)])
      return "measured otherwise" + where;
  symbols = reference->symbols;

  for (std::size_t r = 0; r < memory.size(); ++r)
    for (std::size_t i = 0; i < kGuard; ++i)
      if (memory[r][i] != std::byte{0xa5} || memory[r][memory[r].size() - 1 - i] != std::byte{0xa5})
        return "written outside of result " + std::to_string(r) + where;
  for (std::size_t k = 0; k < graph.results().size(); ++k) {
    const ValueId v = graph.results()[k];
    const Type& type = graph.type(v);
    if (graph.node(graph.root(v)).op == Op::Param) continue;
    std::size_t r = 0;
    while (roots[r] != graph.root(v)) ++r;
    const std::byte* base = memory[r].data() + kGuard + type.offset.evaluate(symbols);
    const ArrayRef& want = reference->results[k].array;
    std::vector<int64_t> want_offsets;
    for_each_element(want.shape, want.strides, [&](int64_t o) { want_offsets.push_back(o); });
    std::size_t i = 0;
    std::string difference;
    for_each_element(values(type.shape, symbols), values(type.strides, symbols), [&](int64_t o) {
      const std::byte* w = want.data + want_offsets[i];
      if (difference.empty() && !same_element(type.dtype, base + o, w))
        difference = "result " + std::to_string(k) + " element " + std::to_string(i) + ": " +
                     element_text(type.dtype, base + o) + ", expected " + element_text(type.dtype, w);
      ++i;
    });
    if (!difference.empty()) return difference + where;
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Type& type = graph.type(graph.params()[i]);
    const auto item = static_cast<std::size_t>(size_of(type.dtype));
    for (std::size_t at = 0; at + item <= params[i].bytes.size(); at += item)
      if (!same_element(type.dtype, actual[i].bytes.data() + at, expected[i].bytes.data() + at))
        return "param " + std::to_string(i) + " byte " + std::to_string(at) + ": " +
               element_text(type.dtype, actual[i].bytes.data() + at) + ", expected " +
               element_text(type.dtype, expected[i].bytes.data() + at) + where;
  }
  if (options.attribute && (*plan)->program().per_call_flags) {
    if (run.flags || run.undo) return "flags that belong to nobody" + where;
    for (unsigned raised : run.slots) run.flags |= raised;
  }
  if (run.flags != flags) return "flags " + std::to_string(run.flags) + ", expected " + std::to_string(flags) + where;
  if (run.undo) {
    run.undo->rollback();
    for (std::size_t i = 0; i < params.size(); ++i)
      if (actual[i].bytes != params[i].bytes) return "rollback left param " + std::to_string(i) + " changed" + where;
  }
  return "";
}

Graph parse_graph(const std::string& text) {
  auto graph = parse(text);
  if (!graph) {
    ADD_FAILURE() << graph.error().line << ": " << graph.error().message << "\n" << text;
    return Graph();
  }
  return std::move(*graph);
}

void expect_agrees(const std::string& text, std::vector<int64_t> symbols, const Fill& fill) {
  const Graph graph = parse_graph(text);
  std::mt19937_64 random(7);
  std::vector<ParamMemory> params;
  for (ValueId p : graph.params()) params.push_back(make_param(graph.type(p), symbols, random, fill));
  for (const codegen::Cpu& cpu : cpus())
    for (bool fuse : {false, true}) {
      for (bool bands : {false, true})
        EXPECT_EQ(compare(graph, params, symbols, {.cpu = cpu, .fuse = fuse, .bands = bands}), "");
      std::string declined;  // what cannot be attributed
      EXPECT_EQ(compare(graph, params, symbols, {cpu, fuse, 0, true}, &declined), "");
    }
}

}  // namespace framejit::runtime::testing
