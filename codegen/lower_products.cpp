// Products: a step of its own for each matrix product, convolution and attention, with the element by element work
// before and behind a product that it takes along.
#include <algorithm>
#include <array>

#include "codegen/lower_parts.h"
#include "graph/passes/memory.h"

namespace framejit::codegen::detail {

namespace {

MatMulStep new_product(Lowerer& l, const Part& part, DType dtype, std::string name) {
  if (!has_matmul(dtype)) fail("a product of " + std::string(graph::name_of(dtype)));
  MatMulStep step;
  step.group = part.group;
  step.dtype = dtype;
  step.name = std::move(name) + std::string(graph::name_of(dtype));
  step.kernel = l.kernels.add_matmul(dtype);
  step.core = MatMulCore(dtype, l.options.cpu.isa == Isa::Avx512);
  step.l2_bytes = l.options.cpu.l2_bytes;
  return step;
}

void take_narrow(Lowerer& l, NarrowProduct kind, bool in_amx, bool in_vectors, MatMulStep& step) {
  if (!in_amx && !in_vectors) return;
  step.narrow = in_amx ? l.kernels.add_amx_matmul(kind) : l.kernels.add_narrow_matmul(kind);
  step.in_amx = in_amx;
}

/// The narrow core that gives the same 32 bits, for factors that were made of narrower integers.
std::optional<NarrowProduct> integers_of(Lowerer& l, ValueId a, ValueId b) {
  std::array<DType, 2> from;
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId root = l.graph.root(i == 0 ? a : b);
    const Node& made = l.graph.node(root);
    const DType dtype = l.graph.type(i == 0 ? a : b).dtype;
    if (made.op != Op::Cast || l.written.contains(root) || made.type.dtype != dtype || !graph::is_int(dtype) ||
        graph::size_of(dtype) != 4)
      return std::nullopt;
    from[i] = l.graph.type(made.inputs[0]).dtype;
  }
  const auto fits_u8 = [](DType t) { return t == DType::U8 || t == DType::Bool; };
  const auto fits_s8 = [](DType t) { return t == DType::I8 || t == DType::Bool; };
  const auto fits_s16 = [&](DType t) { return fits_u8(t) || fits_s8(t) || t == DType::I16; };
  if (fits_u8(from[0]) && fits_s8(from[1])) return NarrowProduct::Int8;
  return fits_s16(from[0]) && fits_s16(from[1]) ? std::optional(NarrowProduct::Int16) : std::nullopt;
}

/// The innermost `axes` axes are those of the matrix or vector, whose strides are given; the others are aligned with
/// `batch`.
LoopOperand matrix(Lowerer& l, ValueId v, int axes, const Dims& batch, Dim row, Dim column) {
  const graph::Type& type = l.graph.type(v);
  LoopOperand out;
  out.buffer = l.buffer_of(l.graph.root(v));
  out.dtype = type.dtype;
  out.offset = type.offset;
  const std::size_t own = static_cast<std::size_t>(type.rank() - axes);
  out.strides.assign(batch.size() - own, 0);
  for (std::size_t i = 0; i < own; ++i) {
    const Dim& target = batch[batch.size() - own + i];
    const bool moves = type.shape[i] == target ? !l.facts.is_one(target) : !l.facts.decide_one(type.shape[i]);
    out.strides.push_back(moves ? type.strides[i] : Dim(0));
  }
  out.strides.push_back(std::move(row));
  out.strides.push_back(std::move(column));
  return out;
}

/// The part that computes all of A element by element, for this product alone, if it may wait for the product: what it
/// reads is not written until then. None where flags have owners, as for epilogues.
const Part* producer_of(Lowerer& l, const Part& product, const Part* epilogue) {
  const Node& node = l.graph.node(product.nodes[0]);
  const ValueId a = node.inputs[0], root = l.graph.root(a);
  if (l.program.per_call_flags || l.result_number.contains(root) || l.written.contains(root) ||
      root == l.graph.root(node.inputs[1]) || !same_view(l.graph, a, root))
    return nullptr;
  if (l.last_reader.at(root) != static_cast<std::size_t>(&product - l.parts.data())) return nullptr;
  const Part* const found = std::find_if(static_cast<const Part*>(l.parts.data()), &product,
                                         [&](const Part& part) { return part.stored.contains(root); });
  if (found == &product || !l.loop_of.contains(found)) return nullptr;
  const Part& part = *found;
  if (part.stored.size() != 1 || part.shape != l.graph.type(a).shape || l.rule_of(part) != l.rule_of(product))
    return nullptr;
  std::set<ValueId> inputs;
  for (ValueId v : part.nodes) {
    if (l.cls(v) != OpClass::Elementwise && l.cls(v) != OpClass::Cast) return nullptr;
    for (ValueId input : l.graph.node(v).inputs) inputs.insert(l.graph.root(input));
  }
  const Part* const end = epilogue ? epilogue : &product;
  for (const Part* between = &part + 1; between < end; ++between)
    for (ValueId other : between->nodes) {
      for (ValueId written : graph::written_roots(l.graph, other))
        if (inputs.contains(written)) return nullptr;
      if (between < &product)
        for (ValueId used : graph::used_values(l.graph, other))
          if (l.graph.root(used) == root) return nullptr;
    }
  return &part;
}

/// Over all axes; nothing where it needs more than that.
std::optional<LoopStep> one_kernel(Lowerer& l, const StepSpec& spec) {
  LoopStep step = build_step(spec, l.context);
  const bool one =
      step.stages.size() == 1 && std::holds_alternative<KernelIndex>(step.stages[0].code) && step.scratch_slots == 0;
  const bool indexed =
      std::any_of(step.operands.begin(), step.operands.end(), [](const LoopOperand& o) { return o.index; });
  return one && !indexed ? std::optional(std::move(step)) : std::nullopt;
}

StepSpec whole_spec(Lowerer& l, const Part& part) {
  StepSpec spec = new_step(part);
  spec.whole_axes = true;
  fill_elementwise(l, spec, part.nodes, part.stored);
  return spec;
}

void take_producer(Lowerer& l, const Part& product, const Part* epilogue, MatMulStep& step) {
  const Part* const part = producer_of(l, product, epilogue);
  if (!part || step.batch.size() + 2 != part->shape.size()) return;
  step.producer = one_kernel(l, whole_spec(l, *part));
  step.producer_step = static_cast<uint32_t>(l.loop_of[part]);
}

/// Of length 1: the kernel goes along the one before it.
void drop_last_axis(StepSpec& spec) {
  spec.shape.pop_back();
  for (Term& t : spec.terms)
    if (t.kind == Term::kLoad) t.access.strides.pop_back();
  for (StoreTerm& s : spec.stores) s.access.strides.pop_back();
}

/// A product that only its epilogue reads lies where the epilogue's first result of that dtype will.
void place_in_result(Lowerer& l, const Part& part, ValueId product, LoopStep& epilogue) {
  const auto reader = l.last_reader.find(product);
  const auto here = static_cast<std::size_t>(&part - l.parts.data());
  if (l.result_number.contains(product) || reader == l.last_reader.end() || reader->second != here) return;
  const graph::Type& type = l.graph.type(product);
  for (ValueId v : part.nodes) {
    const graph::Type& own = l.graph.type(v);
    if (!part.stored.contains(v) || own.dtype != type.dtype || own.strides != type.strides) continue;
    const BufferIndex before = l.buffer_of(product), result = l.buffer_of(v);
    for (LoopOperand& o : epilogue.operands)
      if (!o.scratch && o.buffer == before) o.buffer = result;
    l.buffers[product] = result;
    return;
  }
}

/// Is it the same for each row, and contiguous along them?
bool is_row(const StepSpec& spec, TermId t) {
  const Access& access = spec.terms[t].access;
  if (spec.terms[t].kind != Term::kLoad || access.strides.back() != Dim(graph::size_of(access.dtype))) return false;
  return std::all_of(access.strides.begin(), access.strides.end() - 1, [](const Dim& d) { return d == Dim(0); });
}

/// relu(product + bias), or one of both, where it is all that there is to do.
std::optional<TileEpilogue> tile_epilogue(const StepSpec& spec, BufferIndex product) {
  TileEpilogue out;
  std::set<TermId> seen;
  const auto is_product = [&](TermId t) {
    return spec.terms[t].kind == Term::kLoad && spec.terms[t].access.buffer == product;
  };
  const auto is_zero = [&](TermId t) {
    return spec.terms[t].kind == Term::kConstant && spec.terms[t].constant == graph::Scalar{};
  };
  if (spec.stores.size() != 1) return std::nullopt;
  TermId at = spec.stores[0].value;
  const auto is = [&](Op op) { return spec.terms[at].kind == Term::kApply && spec.terms[at].op == op; };
  if (is(Op::Maximum)) {
    const std::vector<TermId>& args = spec.terms[at].args;
    if (!is_zero(args[0]) && !is_zero(args[1])) return std::nullopt;
    out.relu = is_zero(args[0]) ? Relu::ZeroFirst : Relu::ZeroSecond;
    seen.insert(at);
    at = args[is_zero(args[0]) ? 1 : 0];
  }
  if (is(Op::Add)) {
    const std::vector<TermId>& args = spec.terms[at].args;
    const TermId row = args[is_product(args[0]) ? 1 : 0];
    if (is_product(row) || !is_row(spec, row)) return std::nullopt;
    const Access& access = spec.terms[row].access;
    out.bias =
        LoopOperand{.buffer = access.buffer, .dtype = access.dtype, .offset = access.offset, .strides = access.strides};
    seen.insert(at);
    at = args[is_product(args[0]) ? 0 : 1];
  }
  const bool all = std::all_of(spec.kept.begin(), spec.kept.end(), [&](TermId t) { return seen.contains(t); });
  return is_product(at) && all && !seen.empty() ? std::optional(out) : std::nullopt;
}

void lower_epilogue(Lowerer& l, const Part& part, ValueId product, MatMulStep& out) {
  StepSpec spec = whole_spec(l, part);
  const bool column = !out.windows && l.facts.is_one(spec.shape.back());
  if (column) drop_last_axis(spec);
  std::optional<LoopStep> step = one_kernel(l, spec);
  if (!step) return;
  const BufferIndex before = l.buffer_of(product);
  place_in_result(l, part, product, *step);
  out.epilogue = std::move(step);
  if (!out.windows && !column && graph::is_float(out.dtype) && l.buffer_of(product) != before)
    out.in_registers = tile_epilogue(spec, before);
}

/// Where the result lies is known when its epilogue is.
template <class F>
void add_product(Lowerer& l, const Part& part, const Part* epilogue, MatMulStep step, F&& result) {
  if (epilogue) lower_epilogue(l, *epilogue, part.nodes[0], step);
  step.c = result();
  step.c.written = true;
  const bool separate = epilogue && !step.epilogue;
  l.program.steps.emplace_back(std::move(step));
  if (separate) lower_elementwise(l, *epilogue, epilogue->nodes, epilogue->stored);
}

/// At O0 too: whoever makes the node answers for it (a float ndarray's product stays NumPy's, a Tensor's is this core
/// eagerly as well, and sums of integers have one value).
void lower_matmul(Lowerer& l, const Part& part, const Part* epilogue) {
  const ValueId v = part.nodes[0];
  const Node& node = l.graph.node(v);
  const graph::Type &left = l.graph.type(node.inputs[0]), &right = l.graph.type(node.inputs[1]), &out = node.type;
  const Dim item(graph::size_of(left.dtype));
  const bool rows = left.rank() >= 2, columns = right.rank() >= 2;
  MatMulStep step = new_product(l, part, left.dtype, "matmul_");
  if (l.options.narrow_products && left.dtype == DType::F32)
    take_narrow(l, NarrowProduct::BFloat16, l.options.cpu.amx_bf16, l.options.cpu.avx512_bf16, step);
  if (const std::optional<NarrowProduct> kind = integers_of(l, node.inputs[0], node.inputs[1])) {
    const bool bytes = *kind == NarrowProduct::Int8;
    take_narrow(l, *kind, bytes && l.options.cpu.amx_int8, l.options.cpu.vnni, step);
    if (step.narrow) step.dtype = bytes ? DType::I8 : DType::I16;  // of what the factors hold
  }
  step.batch = Dims(out.shape.begin(), out.shape.end() - rows - columns);
  step.m = rows ? left.shape.end()[-2] : Dim(1);
  step.k = left.shape.back();
  step.n = columns ? right.shape.back() : Dim(1);
  step.a = matrix(l, node.inputs[0], 1 + rows, step.batch, rows ? left.strides.end()[-2] : item, left.strides.back());
  step.b = matrix(l, node.inputs[1], 1 + columns, step.batch, columns ? right.strides.end()[-2] : right.strides.back(),
                  columns ? right.strides.back() : item);
  const Node& root = l.graph.node(l.graph.root(node.inputs[1]));
  step.constant_b = root.op == Op::Param && static_cast<std::size_t>(root.index()) < l.options.constant_params.size() &&
                    l.options.constant_params[static_cast<std::size_t>(root.index())];
  if (rows) take_producer(l, part, epilogue, step);
  const Dims batch = step.batch;
  add_product(l, part, epilogue, std::move(step),
              [&] { return matrix(l, v, rows + columns, batch, rows ? out.strides.end()[-1 - columns] : item, item); });
}

bool is_packed(const graph::Type& type) {
  return std::find(type.shape.begin(), type.shape.end(), Dim(0)) != type.shape.end() ||
         type.strides == graph::c_strides(type.dtype, type.shape);
}

Windows windows_of(const graph::Type& image, const Dims& filter, const Dims& result, const graph::Window& window) {
  Windows windows;
  windows.channel = image.strides[1];
  windows.groups = window.groups;
  const std::size_t space = window.axes.size(), missing = Windows::kAxes - space;
  if (space > Windows::kAxes) fail("a convolution over more than three axes of space");
  for (std::size_t i = 0; i < missing; ++i) windows.axes[i].image = windows.axes[i].result = 1;
  for (std::size_t i = 0; i < space; ++i) {
    const graph::Window::Axis& a = window.axes[i];
    windows.axes[missing + i] = {
        image.shape[i + 2], result[i + 2], image.strides[i + 2], filter[i + 2].value(), a.stride, a.dilation, a.before};
  }
  return windows;
}

/// An operand of a convolution: strides from image to image, group to group, and of its rows and columns.
LoopOperand grouped(Lowerer& l, ValueId v, const graph::Window& window, std::optional<Dim> image, Dim group, Dim row,
                    Dim column) {
  LoopOperand out;
  out.buffer = l.buffer_of(l.graph.root(v));
  out.dtype = l.graph.type(v).dtype;
  out.offset = l.graph.type(v).offset;
  if (image) out.strides.push_back(std::move(*image));
  if (window.groups > 1) out.strides.push_back(std::move(group));
  out.strides.insert(out.strides.end(), {std::move(row), std::move(column)});
  return out;
}

/// The weights, [channels out, channels * window], times the windows of the image.
void lower_convolution(Lowerer& l, const Part& part, const Part* epilogue) {
  const ValueId v = part.nodes[0];
  const Node& node = l.graph.node(v);
  const graph::Type &image = l.graph.type(node.inputs[0]), &filter = l.graph.type(node.inputs[1]), &out = node.type;
  const graph::Window window = node.window();
  if (!is_packed(filter)) fail("a convolution by weights that are not contiguous");
  MatMulStep step = new_product(l, part, image.dtype, "convolution_");
  const Dim groups(window.groups), item(graph::size_of(image.dtype));
  step.m = floordiv(filter.shape[0], groups);
  step.k = product(std::span(filter.shape).subspan(1));
  step.n = product(std::span(out.shape).subspan(2));
  step.windows = windows_of(image, filter.shape, out.shape, window);
  step.winograd = l.options.o1;
  step.batch = {image.shape[0]};
  if (window.groups > 1) step.batch.push_back(groups);
  step.a = grouped(l, node.inputs[1], window, Dim(0), step.m * filter.strides[0], filter.strides[0], item);
  step.b = grouped(l, node.inputs[0], window, image.strides[0], filter.shape[1] * image.strides[1], 0, 0);
  const Dim group = step.m * out.strides[1];
  add_product(l, part, epilogue, std::move(step),
              [&] { return grouped(l, v, window, out.strides[0], group, out.strides[1], item); });
}

/// For each image the cotangent of its result, [channels out, places], times the image's windows, [places, window *
/// channels]; their sum.
void lower_weights(Lowerer& l, const Part& part) {
  const ValueId v = part.nodes[0];
  const Node& node = l.graph.node(v);
  const graph::Type &image = l.graph.type(node.inputs[0]), &result = l.graph.type(node.inputs[1]), &filter = node.type;
  const graph::Window window = node.window();
  if (!is_packed(result)) fail("a cotangent that is not contiguous");
  MatMulStep step = new_product(l, part, image.dtype, "convolution_weights_");
  const Dim groups(window.groups), item(graph::size_of(image.dtype));
  step.m = floordiv(filter.shape[0], groups);
  step.k = product(std::span(result.shape).subspan(2));
  step.n = product(std::span(filter.shape).subspan(1));
  step.windows = windows_of(image, filter.shape, result.shape, window);
  step.windows->transposed = true;
  step.summed = image.shape[0];
  step.next_a = result.strides[0];
  step.next_b = image.strides[0];
  if (window.groups > 1) step.batch.push_back(groups);
  step.a = grouped(l, node.inputs[1], window, std::nullopt, step.m * result.strides[1], result.strides[1], item);
  step.b = grouped(l, node.inputs[0], window, std::nullopt, filter.shape[1] * image.strides[1], 0, 0);
  const Dim group = step.m * filter.strides[0];
  add_product(l, part, nullptr, std::move(step),
              [&] { return grouped(l, v, window, std::nullopt, group, filter.strides[0], item); });
}

}  // namespace

void lower_product(Lowerer& l, const Part& part, const Part* epilogue) {
  const Node& node = l.graph.node(part.nodes[0]);
  const Op op = node.op;
  if (op != Op::MatMul && graph::is_int(node.type.dtype))
    fail("a convolution of " + std::string(graph::name_of(node.type.dtype)));
  op == Op::MatMul        ? lower_matmul(l, part, epilogue)
  : op == Op::Convolution ? lower_convolution(l, part, epilogue)
                          : lower_weights(l, part);
}

const Part* epilogue_of(const Lowerer& l, const Part& product) {
  const ValueId v = product.nodes[0];
  const Node& node = l.graph.node(v);
  if (l.program.per_call_flags || node.op == Op::ConvolutionWeights || node.type.rank() < 2 ||
      l.graph.type(node.inputs[0]).rank() < 2 || l.graph.type(node.inputs[1]).rank() < 2)
    return nullptr;
  const auto reads = [&](const Part& part, ValueId root) {
    return std::any_of(part.nodes.begin(), part.nodes.end(), [&](ValueId user) {
      const std::vector<ValueId> inputs = graph::used_values(l.graph, user);
      return std::any_of(inputs.begin(), inputs.end(), [&](ValueId i) { return l.graph.root(i) == root; });
    });
  };
  for (const Part* part = &product + 1; part < l.parts.data() + l.parts.size(); ++part) {
    for (ValueId other : part->nodes)
      for (ValueId root : graph::written_roots(l.graph, other))
        for (ValueId input : node.inputs)
          if (root == l.graph.root(input)) return nullptr;
    if (!reads(*part, v)) continue;
    if (l.rule_of(*part) != l.rule_of(product)) return nullptr;
    if (part->shape != node.type.shape) return nullptr;
    for (ValueId other : part->nodes) {
      if (l.cls(other) != OpClass::Elementwise && l.cls(other) != OpClass::Cast) return nullptr;
      for (ValueId input : l.graph.node(other).inputs)
        if (l.graph.root(input) == v && !same_view(l.graph, input, v)) return nullptr;
    }
    for (const Part* later = &product + 1; later < part; ++later)
      if (is_product(l, *later) && reads(*part, later->nodes[0])) return nullptr;
    return part;
  }
  return nullptr;
}

bool is_product(const Lowerer& l, const Part& part) {
  const Op op = l.graph.node(part.nodes[0]).op;
  return part.nodes.size() == 1 && graph::def(op).cls == OpClass::Contraction && op != Op::Attention &&
         op != Op::AttentionGradients;
}

void lower_attention(Lowerer& l, const Part& part) {
  const ValueId v = part.nodes[0];
  const Node& node = l.graph.node(v);
  const Dims &q = l.graph.type(node.inputs[0]).shape, &k = l.graph.type(node.inputs[1]).shape;
  const auto causal = static_cast<graph::Causal>(node.index());
  const graph::AttentionOperands places(node.op, node.inputs.size());
  AttentionStep step;
  step.name = graph::name_of(node.op);
  step.group = part.group;
  step.product = l.kernels.add_matmul(DType::F32);
  step.softmax = l.kernels.add_softmax();
  step.core = MatMulCore(DType::F32, l.options.cpu.isa == Isa::Avx512);
  step.l2_bytes = l.options.cpu.l2_bytes;
  step.batch = q[0], step.heads = q[1], step.key_heads = k[1];
  step.queries = q[2], step.keys = k[2], step.depth = q[3], step.width = l.graph.type(node.inputs[2]).shape[3];
  step.causal = causal != graph::Causal::None;
  if (causal == graph::Causal::FromLast) step.ahead = step.keys - step.queries;
  const auto operand = [&](ValueId of) {
    const graph::Type& type = l.graph.type(of);
    LoopOperand o;
    o.buffer = l.buffer_of(l.graph.root(of));
    o.dtype = type.dtype;
    o.offset = type.offset;
    o.strides = type.strides;
    return o;
  };
  step.q = operand(node.inputs[0]), step.k = operand(node.inputs[1]), step.v = operand(node.inputs[2]);
  step.scale = operand(node.inputs[3]);
  if (places.g) step.g = operand(node.inputs[*places.g]), step.y = operand(node.inputs[*places.y]);
  if (places.state)
    step.probability = operand(node.inputs[*places.probability]), step.state = operand(node.inputs[*places.state]);
  if (places.mask) {
    const Dims batch = {q[0], q[1], q[2], k[2]};
    const graph::Type& type = l.graph.type(node.inputs[*places.mask]);
    step.mask = operand(node.inputs[*places.mask]);
    step.mask->strides.assign(4, 0);
    const std::size_t missing = 4 - type.shape.size();
    for (std::size_t i = 0; i < type.shape.size(); ++i)
      if (type.shape[i] == batch[missing + i] ? !l.facts.is_one(batch[missing + i])
                                              : !l.facts.decide_one(type.shape[i]))
        step.mask->strides[missing + i] = type.strides[i];
  }
  step.out = operand(v);
  step.out.written = true;
  l.program.steps.emplace_back(std::move(step));
}

}  // namespace framejit::codegen::detail
