// Products: a step of its own for each matrix product, convolution and attention, with the element by element work
// before and behind a product that it takes along.
#include <algorithm>
#include <array>

#include "codegen/lowerer.h"
#include "graph/passes/memory.h"

namespace framejit::codegen::detail {

namespace {

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

/// Of length 1: the kernel goes along the one before it.
void drop_last_axis(StepSpec& spec) {
  spec.shape.pop_back();
  for (Term& t : spec.terms)
    if (t.kind == Term::kLoad) t.access.strides.pop_back();
  for (StoreTerm& s : spec.stores) s.access.strides.pop_back();
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

}  // namespace

void Lowerer::lower_product(const Part& part, const Part* epilogue) {
  const Node& node = graph_.node(part.nodes[0]);
  const Op op = node.op;
  if (op != Op::MatMul && graph::is_int(node.type.dtype))
    fail("a convolution of " + std::string(graph::name_of(node.type.dtype)));
  op == Op::MatMul        ? lower_matmul(part, epilogue)
  : op == Op::Convolution ? lower_convolution(part, epilogue)
                          : lower_weights(part);
}

void Lowerer::lower_matmul(const Part& part, const Part* epilogue) {
  const ValueId v = part.nodes[0];
  const Node& node = graph_.node(v);
  const graph::Type &left = graph_.type(node.inputs[0]), &right = graph_.type(node.inputs[1]), &out = node.type;
  const Dim item(graph::size_of(left.dtype));
  const bool rows = left.rank() >= 2, columns = right.rank() >= 2;
  MatMulStep step = new_product(part, left.dtype, "matmul_");
  if (options_.narrow_products && left.dtype == DType::F32)
    take_narrow(NarrowProduct::BFloat16, options_.cpu.amx_bf16, options_.cpu.avx512_bf16, step);
  if (const std::optional<NarrowProduct> kind = integers_of(node.inputs[0], node.inputs[1])) {
    const bool bytes = *kind == NarrowProduct::Int8;
    take_narrow(*kind, bytes && options_.cpu.amx_int8, options_.cpu.vnni, step);
    if (step.narrow) step.dtype = bytes ? DType::I8 : DType::I16;  // of what the factors hold
  }
  step.batch = Dims(out.shape.begin(), out.shape.end() - rows - columns);
  step.m = rows ? left.shape.end()[-2] : Dim(1);
  step.k = left.shape.back();
  step.n = columns ? right.shape.back() : Dim(1);
  step.a = matrix(node.inputs[0], 1 + rows, step.batch, rows ? left.strides.end()[-2] : item, left.strides.back());
  step.b = matrix(node.inputs[1], 1 + columns, step.batch, columns ? right.strides.end()[-2] : right.strides.back(),
                  columns ? right.strides.back() : item);
  const Node& root = graph_.node(graph_.root(node.inputs[1]));
  step.constant_b = root.op == Op::Param && static_cast<std::size_t>(root.index()) < options_.constant_params.size() &&
                    options_.constant_params[static_cast<std::size_t>(root.index())];
  if (rows) take_producer(part, epilogue, step);
  const Dims batch = step.batch;
  add_product(part, epilogue, std::move(step),
              [&] { return matrix(v, rows + columns, batch, rows ? out.strides.end()[-1 - columns] : item, item); });
}

void Lowerer::take_narrow(NarrowProduct kind, bool in_amx, bool in_vectors, MatMulStep& step) {
  if (!in_amx && !in_vectors) return;
  step.narrow = in_amx ? kernels_.add_amx_matmul(kind) : kernels_.add_narrow_matmul(kind);
  step.in_amx = in_amx;
}

std::optional<NarrowProduct> Lowerer::integers_of(ValueId a, ValueId b) const {
  std::array<DType, 2> from;
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId root = graph_.root(i == 0 ? a : b);
    const Node& made = graph_.node(root);
    const DType dtype = graph_.type(i == 0 ? a : b).dtype;
    if (made.op != Op::Cast || written_.contains(root) || made.type.dtype != dtype || !graph::is_int(dtype) ||
        graph::size_of(dtype) != 4)
      return std::nullopt;
    from[i] = graph_.type(made.inputs[0]).dtype;
  }
  const auto fits_u8 = [](DType t) { return t == DType::U8 || t == DType::Bool; };
  const auto fits_s8 = [](DType t) { return t == DType::I8 || t == DType::Bool; };
  const auto fits_s16 = [&](DType t) { return fits_u8(t) || fits_s8(t) || t == DType::I16; };
  if (fits_u8(from[0]) && fits_s8(from[1])) return NarrowProduct::Int8;
  return fits_s16(from[0]) && fits_s16(from[1]) ? std::optional(NarrowProduct::Int16) : std::nullopt;
}

MatMulStep Lowerer::new_product(const Part& part, DType dtype, std::string name) {
  if (!has_matmul(dtype)) fail("a product of " + std::string(graph::name_of(dtype)));
  MatMulStep step;
  step.group = part.group;
  step.dtype = dtype;
  step.name = std::move(name) + std::string(graph::name_of(dtype));
  step.kernel = kernels_.add_matmul(dtype);
  step.core = MatMulCore(dtype, options_.cpu.isa == Isa::Avx512);
  step.l2_bytes = options_.cpu.l2_bytes;
  return step;
}

template <class F>
void Lowerer::add_product(const Part& part, const Part* epilogue, MatMulStep step, F&& result) {
  if (epilogue) lower_epilogue(*epilogue, part.nodes[0], step);
  step.c = result();
  step.c.written = true;
  const bool separate = epilogue && !step.epilogue;
  program_.steps.emplace_back(std::move(step));
  if (separate) lower_elementwise(*epilogue, epilogue->nodes, epilogue->stored);
}

void Lowerer::lower_convolution(const Part& part, const Part* epilogue) {
  const ValueId v = part.nodes[0];
  const Node& node = graph_.node(v);
  const graph::Type &image = graph_.type(node.inputs[0]), &filter = graph_.type(node.inputs[1]), &out = node.type;
  const graph::Window window = node.window();
  if (!is_packed(filter)) fail("a convolution by weights that are not contiguous");
  MatMulStep step = new_product(part, image.dtype, "convolution_");
  const Dim groups(window.groups), item(graph::size_of(image.dtype));
  step.m = floordiv(filter.shape[0], groups);
  step.k = product(std::span(filter.shape).subspan(1));
  step.n = product(std::span(out.shape).subspan(2));
  step.windows = windows_of(image, filter.shape, out.shape, window);
  step.winograd = options_.o1;
  step.batch = {image.shape[0]};
  if (window.groups > 1) step.batch.push_back(groups);
  step.a = grouped(node.inputs[1], window, Dim(0), step.m * filter.strides[0], filter.strides[0], item);
  step.b = grouped(node.inputs[0], window, image.strides[0], filter.shape[1] * image.strides[1], 0, 0);
  const Dim group = step.m * out.strides[1];
  add_product(part, epilogue, std::move(step),
              [&] { return grouped(v, window, out.strides[0], group, out.strides[1], item); });
}

void Lowerer::lower_weights(const Part& part) {
  const ValueId v = part.nodes[0];
  const Node& node = graph_.node(v);
  const graph::Type &image = graph_.type(node.inputs[0]), &result = graph_.type(node.inputs[1]), &filter = node.type;
  const graph::Window window = node.window();
  if (!is_packed(result)) fail("a cotangent that is not contiguous");
  MatMulStep step = new_product(part, image.dtype, "convolution_weights_");
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
  step.a = grouped(node.inputs[1], window, std::nullopt, step.m * result.strides[1], result.strides[1], item);
  step.b = grouped(node.inputs[0], window, std::nullopt, filter.shape[1] * image.strides[1], 0, 0);
  const Dim group = step.m * filter.strides[0];
  add_product(part, nullptr, std::move(step),
              [&] { return grouped(v, window, std::nullopt, group, filter.strides[0], item); });
}

LoopOperand Lowerer::grouped(ValueId v, const graph::Window& window, std::optional<Dim> image, Dim group, Dim row,
                             Dim column) {
  LoopOperand out;
  out.buffer = buffer_of(graph_.root(v));
  out.dtype = graph_.type(v).dtype;
  out.offset = graph_.type(v).offset;
  if (image) out.strides.push_back(std::move(*image));
  if (window.groups > 1) out.strides.push_back(std::move(group));
  out.strides.insert(out.strides.end(), {std::move(row), std::move(column)});
  return out;
}

LoopOperand Lowerer::matrix(ValueId v, int axes, const Dims& batch, Dim row, Dim column) {
  const graph::Type& type = graph_.type(v);
  LoopOperand out;
  out.buffer = buffer_of(graph_.root(v));
  out.dtype = type.dtype;
  out.offset = type.offset;
  const std::size_t own = static_cast<std::size_t>(type.rank() - axes);
  out.strides.assign(batch.size() - own, 0);
  for (std::size_t i = 0; i < own; ++i) {
    const Dim& target = batch[batch.size() - own + i];
    const bool moves = type.shape[i] == target ? !facts_.is_one(target) : !facts_.decide_one(type.shape[i]);
    out.strides.push_back(moves ? type.strides[i] : Dim(0));
  }
  out.strides.push_back(std::move(row));
  out.strides.push_back(std::move(column));
  return out;
}

const Part* Lowerer::epilogue_of(const Part& product) const {
  const ValueId v = product.nodes[0];
  const Node& node = graph_.node(v);
  if (program_.per_call_flags || node.op == Op::ConvolutionWeights || node.type.rank() < 2 ||
      graph_.type(node.inputs[0]).rank() < 2 || graph_.type(node.inputs[1]).rank() < 2)
    return nullptr;
  const auto reads = [&](const Part& part, ValueId root) {
    return std::any_of(part.nodes.begin(), part.nodes.end(), [&](ValueId user) {
      const std::vector<ValueId> inputs = graph::used_values(graph_, user);
      return std::any_of(inputs.begin(), inputs.end(), [&](ValueId i) { return graph_.root(i) == root; });
    });
  };
  for (const Part* part = &product + 1; part < parts_.data() + parts_.size(); ++part) {
    for (ValueId other : part->nodes)
      for (ValueId root : graph::written_roots(graph_, other))
        for (ValueId input : node.inputs)
          if (root == graph_.root(input)) return nullptr;
    if (!reads(*part, v)) continue;
    if (rule_of(*part) != rule_of(product)) return nullptr;
    if (part->shape != node.type.shape) return nullptr;
    for (ValueId other : part->nodes) {
      if (cls(other) != OpClass::Elementwise && cls(other) != OpClass::Cast) return nullptr;
      for (ValueId input : graph_.node(other).inputs)
        if (graph_.root(input) == v && !same_view(graph_, input, v)) return nullptr;
    }
    for (const Part* later = &product + 1; later < part; ++later)
      if (is_product(*later) && reads(*part, later->nodes[0])) return nullptr;
    return part;
  }
  return nullptr;
}

const Part* Lowerer::producer_of(const Part& product, const Part* epilogue) {
  const Node& node = graph_.node(product.nodes[0]);
  const ValueId a = node.inputs[0], root = graph_.root(a);
  if (program_.per_call_flags || result_number_.contains(root) || written_.contains(root) ||
      root == graph_.root(node.inputs[1]) || !same_view(graph_, a, root))
    return nullptr;
  if (last_reader_.at(root) != static_cast<std::size_t>(&product - parts_.data())) return nullptr;
  const Part* const found = std::find_if(static_cast<const Part*>(parts_.data()), &product,
                                         [&](const Part& part) { return part.stored.contains(root); });
  if (found == &product || !loop_of_.contains(found)) return nullptr;
  const Part& part = *found;
  if (part.stored.size() != 1 || part.shape != graph_.type(a).shape || rule_of(part) != rule_of(product))
    return nullptr;
  std::set<ValueId> inputs;
  for (ValueId v : part.nodes) {
    if (cls(v) != OpClass::Elementwise && cls(v) != OpClass::Cast) return nullptr;
    for (ValueId input : graph_.node(v).inputs) inputs.insert(graph_.root(input));
  }
  const Part* const end = epilogue ? epilogue : &product;
  for (const Part* between = &part + 1; between < end; ++between)
    for (ValueId other : between->nodes) {
      for (ValueId written : graph::written_roots(graph_, other))
        if (inputs.contains(written)) return nullptr;
      if (between < &product)
        for (ValueId used : graph::used_values(graph_, other))
          if (graph_.root(used) == root) return nullptr;
    }
  return &part;
}

void Lowerer::take_producer(const Part& product, const Part* epilogue, MatMulStep& step) {
  const Part* const part = producer_of(product, epilogue);
  if (!part || step.batch.size() + 2 != part->shape.size()) return;
  step.producer = one_kernel(whole_spec(*part));
  step.producer_step = static_cast<uint32_t>(loop_of_[part]);
}

bool Lowerer::is_product(const Part& part) const {
  const Op op = graph_.node(part.nodes[0]).op;
  return part.nodes.size() == 1 && graph::def(op).cls == OpClass::Contraction && op != Op::Attention &&
         op != Op::AttentionGradients;
}

void Lowerer::lower_epilogue(const Part& part, ValueId product, MatMulStep& out) {
  StepSpec spec = whole_spec(part);
  const bool column = !out.windows && facts_.is_one(spec.shape.back());
  if (column) drop_last_axis(spec);
  std::optional<LoopStep> step = one_kernel(spec);
  if (!step) return;
  const BufferIndex before = buffer_of(product);
  place_in_result(part, product, *step);
  out.epilogue = std::move(step);
  if (!out.windows && !column && graph::is_float(out.dtype) && buffer_of(product) != before)
    out.in_registers = tile_epilogue(spec, before);
}

StepSpec Lowerer::whole_spec(const Part& part) {
  StepSpec spec = new_step(part);
  spec.whole_axes = true;
  fill_elementwise(spec, part.nodes, part.stored);
  return spec;
}

std::optional<LoopStep> Lowerer::one_kernel(const StepSpec& spec) {
  LoopStep step = build_step(spec, context_);
  const bool one =
      step.stages.size() == 1 && std::holds_alternative<KernelIndex>(step.stages[0].code) && step.scratch_slots == 0;
  const bool indexed =
      std::any_of(step.operands.begin(), step.operands.end(), [](const LoopOperand& o) { return o.index; });
  return one && !indexed ? std::optional(std::move(step)) : std::nullopt;
}

void Lowerer::place_in_result(const Part& part, ValueId product, LoopStep& epilogue) {
  const auto reader = last_reader_.find(product);
  const auto here = static_cast<std::size_t>(&part - parts_.data());
  if (result_number_.contains(product) || reader == last_reader_.end() || reader->second != here) return;
  const graph::Type& type = graph_.type(product);
  for (ValueId v : part.nodes) {
    const graph::Type& own = graph_.type(v);
    if (!part.stored.contains(v) || own.dtype != type.dtype || own.strides != type.strides) continue;
    const BufferIndex before = buffer_of(product), result = buffer_of(v);
    for (LoopOperand& o : epilogue.operands)
      if (!o.scratch && o.buffer == before) o.buffer = result;
    buffers_[product] = result;
    return;
  }
}

void Lowerer::lower_attention(const Part& part) {
  const ValueId v = part.nodes[0];
  const Node& node = graph_.node(v);
  const Dims &q = graph_.type(node.inputs[0]).shape, &k = graph_.type(node.inputs[1]).shape;
  const auto causal = static_cast<graph::Causal>(node.index());
  const graph::AttentionOperands places(node.op, node.inputs.size());
  AttentionStep step;
  step.name = graph::name_of(node.op);
  step.group = part.group;
  step.product = kernels_.add_matmul(DType::F32);
  step.softmax = kernels_.add_softmax();
  step.core = MatMulCore(DType::F32, options_.cpu.isa == Isa::Avx512);
  step.l2_bytes = options_.cpu.l2_bytes;
  step.batch = q[0], step.heads = q[1], step.key_heads = k[1];
  step.queries = q[2], step.keys = k[2], step.depth = q[3], step.width = graph_.type(node.inputs[2]).shape[3];
  step.causal = causal != graph::Causal::None;
  if (causal == graph::Causal::FromLast) step.ahead = step.keys - step.queries;
  const auto operand = [&](ValueId of) {
    const graph::Type& type = graph_.type(of);
    LoopOperand o;
    o.buffer = buffer_of(graph_.root(of));
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
    const graph::Type& type = graph_.type(node.inputs[*places.mask]);
    step.mask = operand(node.inputs[*places.mask]);
    step.mask->strides.assign(4, 0);
    const std::size_t missing = 4 - type.shape.size();
    for (std::size_t i = 0; i < type.shape.size(); ++i)
      if (type.shape[i] == batch[missing + i] ? !facts_.is_one(batch[missing + i]) : !facts_.decide_one(type.shape[i]))
        step.mask->strides[missing + i] = type.strides[i];
  }
  step.out = operand(v);
  step.out.written = true;
  program_.steps.emplace_back(std::move(step));
}

}  // namespace framejit::codegen::detail
