// Compiling and running loops.
#include "ext/region/compiled_loop.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include "capture/loops/recursion.h"
#include "capture/loops/translator.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/layouts.h"
#include "capture/py/range_iterator.h"
#include "codegen/emit_cfg.h"
#include "ext/arrays/errstate.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/result_arrays.h"
#include "ext/module/config.h"
#include "ext/module/module.h"
#include "ext/module/stats.h"
#include "ext/region/flag_warnings.h"
#include "ext/region/grouped_products.h"
#include "ext/region/long_runs.h"
#include "graph/cfg/loops.h"
#include "graph/support/check.h"
#include "graph/support/clock.h"
#include "graph/support/fp_state.h"
#include "runtime/perf_names.h"

namespace framejit::ext::region {

using arrays::descr_of;
using capture::LoopExit;
using capture::LoopObject;
using capture::Ref;
using guards::Matched;

namespace {

namespace py = capture::py;

constexpr int64_t kLongNanoseconds = 20'000;
constexpr int64_t kWorthwhileNanoseconds = 1'000;
constexpr std::size_t kValuesOnStack = 64;
constexpr int kMostRank = 64;  // of NumPy 2
constexpr int64_t kFirstRuns = 4;
constexpr int64_t kNeverWidened = 1'000'000'000'000;  // nanoseconds

Ref<> range_of(int64_t start, int64_t stop, int64_t step) {
  return Ref<>::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "LLL",
                                            static_cast<long long>(start), static_cast<long long>(stop),
                                            static_cast<long long>(step)));
}

int64_t widen_after = 2'000'000;  // nanoseconds of runs; 0: the first run is enough

/// One for all loops: none of them lets go of the GIL while it runs. Null: there is no memory.
void* scratch() {
  using Program = capture::LoopProgram;
  constexpr std::size_t kPart = Program::kResultAt * sizeof(double);
  constexpr std::size_t kParts = (Program::kScratchLength * sizeof(double) + kPart - 1) / kPart;
  static void* const memory = std::aligned_alloc(kPart, kParts * kPart);
  return memory;
}

/// Does NumPy's warning of an operation run no code that could look at arrays, and raise nothing?
bool nobody_sees_warnings() {
  const std::optional<WarningRules> rules = warning_rules();
  return rules && (rules->watched == 0 || rules->log || stderr_takes_warnings());
}

/// Looks at the graph as it was captured.
void note_flow(const cfg::Cfg& graph, LoopCode& code) {
  const cfg::Shape shape = cfg::shape_of(graph);
  code.goes_round = shape.goes_round;
  code.is_flat = true;
  std::vector<bool> is_behind(graph.blocks.size(), false);
  for (const uint32_t b : shape.order) {
    is_behind[b] = true;
    // Loops of one head have one depth, and a loop with several heads has none.
    code.is_flat = code.is_flat && shape.depth[b] <= 1 && graph.blocks[b].level <= 1;
    for (int k = 0; k < graph.blocks[b].successors(); ++k) {
      const uint32_t next = graph.blocks[b].to[k].block;
      code.is_flat = code.is_flat && (!is_behind[next] || shape.dominates(next, b));
    }
  }
}

/// The memory of an array; nothing if it has no elements.
std::optional<runtime::ParallelLoop::Memory> memory_of(PyObject* o) {
  if (!o || !PyArray_Check(o)) return std::nullopt;
  auto* const array = arrays::as_ndarray(o);
  auto first = reinterpret_cast<int64_t>(PyArray_DATA(array)), last = first + PyArray_ITEMSIZE(array);
  for (int axis = 0; axis < PyArray_NDIM(array); ++axis) {
    if (PyArray_DIM(array, axis) == 0) return std::nullopt;
    const int64_t far = (PyArray_DIM(array, axis) - 1) * PyArray_STRIDE(array, axis);
    (far < 0 ? first : last) += far;
  }
  return std::pair(first, last);
}

/// Bytes of a vector, 0: there are none.
int vector_width() {
  switch (module::target_cpu().isa) {
    case codegen::Isa::Avx512: return 64;
    case codegen::Isa::Avx2: return 32;
    case codegen::Isa::None: break;
  }
  return 0;
}

}  // namespace

Expected<codegen::KernelCode, std::string> CompiledLoop::code_of(cfg::Cfg& graph, const std::string& name,
                                                                 std::optional<int> vector_bytes, bool& is_found,
                                                                 std::optional<cfg::Cfg>* copy) const {
  const codegen::Isa isa = module::target_cpu().isa;
  const codegen::StoredCode stored(store_, graph, isa, vector_bytes ? std::to_string(*vector_bytes) : "optimized");
  codegen::KernelCode code;
  is_found = stored.find(code);
  if (!is_found) {
    if (copy) *copy = graph;
    FRAMEJIT_TRY(emitted, emit(graph, name, vector_bytes));
    code = std::move(emitted);
    stored.add(code);
  }
#ifndef NDEBUG
  if (is_found) {
    cfg::Cfg again = graph;
    FRAMEJIT_TRY(emitted, emit(again, name, vector_bytes));
    FRAMEJIT_CHECK(emitted.bytes == code.bytes, "stored code is not that of\n" + cfg::print(again));
  }
#endif
  return code;
}

Expected<CompiledLoop::Kernel, std::string> CompiledLoop::seal(const codegen::KernelCode& code, const std::string& name,
                                                               std::optional<int> saved_passes) {
  const std::span<const uint8_t> piece(code.bytes);
  FRAMEJIT_TRY(block, runtime::CodeBlock::seal({&piece, 1}));
  runtime::name_for_perf(block.entry(0), piece.size(), name);
  return Kernel{std::move(block), code.listing, {}, {}, saved_passes};
}

Expected<CompiledLoop::Kernel, std::string> CompiledLoop::compile_graph(cfg::Cfg& graph, const std::string& name,
                                                                        std::optional<int> vector_bytes) const {
  bool is_found = false;
  FRAMEJIT_TRY(code, code_of(graph, name, vector_bytes, is_found));
  return seal(code, name, is_found ? vector_bytes : std::nullopt);
}

Expected<codegen::KernelCode, std::string> CompiledLoop::emit(cfg::Cfg& graph, const std::string& name,
                                                              std::optional<int> vector_bytes) const {
  if (vector_bytes) cfg::optimize(graph, *vector_bytes);
  const std::string wrong = cfg::verify(graph);
  FRAMEJIT_CHECK(wrong.empty(), wrong + "\n" + cfg::print(graph));
  return codegen::emit(graph, name, module::target_cpu().isa, listed_, self_);
}

Expected<CompiledLoop::Kernel, std::string> CompiledLoop::compile(cfg::Cfg& graph, int vector_bytes,
                                                                  cfg::ParallelLoops& loops) const {
#ifndef NDEBUG
  FRAMEJIT_CHECK(cfg::verify(graph).empty(), cfg::verify(graph) + "\n" + cfg::print(graph));
#endif
  if (vector_bytes == 0 || (!loops.for_threads && !loops.vectors)) return compile_graph(graph, name_, vector_bytes);
  cfg::optimize(graph, vector_bytes, &loops);
  if (loops.needs_vectors && !loops.have_vectors()) return Unexpected<std::string>("no vectors of an outer loop");
  FRAMEJIT_TRY(out, compile_graph(graph, name_, std::nullopt));
  for (std::unique_ptr<cfg::ParallelLoop>& loop : loops.found) {
    for (const cfg::Cfg* part : {&loop->body, loop->checks ? &*loop->checks : nullptr}) {
      const std::string wrong = part ? cfg::verify(*part) : "";
      FRAMEJIT_CHECK(wrong.empty(), wrong + "\n" + cfg::print(*part));
    }
    FRAMEJIT_TRY(body, compile_graph(loop->body, name_ + ".rounds", vector_bytes));
    const auto kernel = reinterpret_cast<codegen::CfgFn>(const_cast<void*>(body.code.entry(0)));
    auto runner = std::make_unique<runtime::ParallelLoop>(
        *loop, [kernel](const int64_t* symbols, char* const* pointers, int64_t* values, const unsigned char* poll) {
          return kernel(symbols, pointers, nullptr, values, poll);
        });
    out.listing += body.listing;
    out.parallel.push_back({std::move(loop), std::move(body.code), std::move(runner)});
  }
  return out;
}

std::string CompiledLoop::graph_text() const {
  const std::optional<int> saved = kernels_[use_].saved_passes;
  if (!saved) return cfg::print(program_->cfg);
  cfg::Cfg copy = program_->cfg;
  cfg::optimize(copy, *saved);
  return cfg::print(copy);
}

std::size_t CompiledLoop::code_bytes() const {
  std::size_t bytes = 0;
  for (const Kernel& kernel : kernels_) {
    bytes += kernel.code.bytes();
    for (const ParallelPart& part : kernel.parallel) bytes += part.code.bytes();
  }
  return bytes;
}

Expected<std::unique_ptr<CompiledLoop>, std::string> CompiledLoop::make(const capture::Region& region,
                                                                        const guards::GuardProgram& guards,
                                                                        Options options) {
  auto loop = std::make_unique<CompiledLoop>();
  std::shared_ptr<capture::LoopProgram> program = region.loop;
  cfg::Cfg& graph = program->cfg;
  if (program->has_scratch && !scratch()) return Unexpected<std::string>("no memory for vectors");
  const int width = vector_width();
  const bool widened = options.widened || program->has_long_vectors;
  const bool may_widen = !widened && !options.interpreted && !program->recursion && width > 0;
  const int64_t start = now_ns();
  loop->region_ = &region;
  loop->name_ = region.function;
  loop->listed_ = options.listing;
  if (program->recursion) {
    loop->self_ = &program->recursion->self;
    if (!options.interpreted) cfg::inline_self_calls(graph, program->recursion->self, program->recursion->at_start);
  }
  graph.fuses_products = options.o1;
  if (options.o1) cfg::drop_powers(graph);
  if (!options.listing && !options.interpreted && !program->recursion) loop->store_ = options.store;
  // A call of itself may be given up by an exception, for which bodies of loops have no way out.
  const bool calls_itself = program->recursion != nullptr;
  const int vector_bytes = widened ? width : 0;
  cfg::ParallelLoops loops{.for_threads = vector_bytes > 0 && !calls_itself && runtime::ParallelLoop::is_wanted(),
                           .vectors = options.widened && !calls_itself};
  if (vector_bytes == 0) {
    const bool is_given = options.code != nullptr;
    bool is_found = is_given;
    if (!is_given) {
      options.code = std::make_unique<LoopCode>();
      if (may_widen || loop->store_) note_flow(graph, *options.code);
      const bool is_kept = loop->store_ || (may_widen && options.code->goes_round);
      FRAMEJIT_TRY(code, loop->code_of(graph, loop->name_, 0, is_found, is_kept ? &loop->captured_ : nullptr));
      options.code->kernel = std::move(code);
    }
    loop->may_widen_ = may_widen && options.code->goes_round;
    loop->is_flat_ = options.code->is_flat;
    FRAMEJIT_TRY(kernel, seal(options.code->kernel, loop->name_, is_found ? std::optional(0) : std::nullopt));
    loop->kernels_[0] = std::move(kernel);
    if (loop->store_ && !is_given && options.code->kernel.addresses.empty()) loop->code_ = std::move(options.code);
  } else {
    if (loop->store_) loop->captured_ = graph;
    FRAMEJIT_TRY(kernel, loop->compile(graph, vector_bytes, loops));
    loop->kernels_[0] = std::move(kernel);
  }
  loop->compile_ns_ = now_ns() - start;
  for (const capture::SourceRef& source : program->fetched) loop->operands_.push_back(guards.operand_of(source));
  for (const cfg::Exit& exit : graph.exits) loop->most_values_ = std::max(loop->most_values_, exit.values.size());
  loop->taken_.assign(graph.exits.size(), 0);
  loop->guards_ = &guards;
  loop->interpreted_ = options.interpreted;
  for (const LoopExit& exit : program->exits) {
    loop->most_made_ = std::max(loop->most_made_, exit.objects.size());
    loop->most_held_ = std::max(loop->most_held_, exit.objects.size() + exit.attributes.size());
    loop->most_locals_ = std::max(loop->most_locals_, exit.locals.size());
    loop->most_stack_ = std::max(loop->most_stack_, exit.stack.size());
  }
  loop->program_ = std::move(program);
  return loop;
}

/// Compiles the loop for several rounds at once. The kernels take turns from the next run on.
void CompiledLoop::widen() {
  const cfg::Cfg captured = captured_ ? std::move(*captured_) : program_->cfg;
  captured_.reset();
  may_widen_ = false;
  const int64_t start = now_ns();
  const bool for_threads = runtime::ParallelLoop::is_wanted();
  cfg::ParallelLoops ways[] = {{.for_threads = for_threads, .vectors = false},
                               {.for_threads = for_threads, .vectors = true, .needs_vectors = true}};
  std::size_t kernels = 1;
  for (cfg::ParallelLoops& loops : ways) {
    cfg::Cfg graph = captured;
    auto kernel = compile(graph, vector_width(), loops);
    if (!kernel) break;
    for (const cfg::Exit& exit : graph.exits) most_values_ = std::max(most_values_, exit.values.size());
    kernels_[kernels] = std::move(*kernel);
    graphs_[kernels++] = std::move(graph);
  }
  module::stats.compile_ns += now_ns() - start;
  if (kernels == 1) return;
  ++module::stats.loops_widened;
  turns_ = kernels;
}

/// The time of the faster half of runs: other processes make some of them slow.
int64_t CompiledLoop::faster_half(std::vector<int64_t> ns) {
  std::sort(ns.begin(), ns.end());
  return std::accumulate(ns.begin(), ns.begin() + kTurns / 2, int64_t{0});
}

/// A run that was cut goes on with the code for several rounds at once.
void CompiledLoop::note_run(int64_t nanoseconds, bool was_cut) try {
  if (may_widen_) {
    run_ns_ += nanoseconds;
    if (run_ns_ <= widen_after || (widen_after > 0 && run_ns_ <= kTimesCompiled * compile_ns_)) return;
    widen();
    if (was_cut && turns_ > 0) use_ = 1;
  } else if (turns_ > 0) {
    kernels_[use_].ns.push_back(nanoseconds);
    std::size_t turn = 0;
    for (const Kernel& kernel : kernels_) turn += kernel.ns.size();
    const bool is_over = turn >= turns_ * kTurns;
    // In no order that other turns may follow, as the runs may be on arrays of two sizes: the sum of the digits of a
    // number (Thue and Morse).
    for (use_ = 0; turn > 0; turn /= turns_) use_ += turn % turns_;
    use_ %= turns_;
    if (!is_over) return;
    std::array<int64_t, kKernels> took{};
    for (std::size_t k = 0; k < turns_; ++k) took[k] = faster_half(std::move(kernels_[k].ns));
    use_ = static_cast<std::size_t>(std::min_element(took.begin(), took.begin() + turns_) - took.begin());
    if (use_ > 0) program_->cfg = std::move(graphs_[use_]);
    turns_ = 0;
    graphs_ = {};
  }
} catch (const std::exception&) {  // the run has had its effects: the kernel that there is stays
  ++module::stats.internal_errors;
}

Ref<> CompiledLoop::object(const LoopExit& exit, uint32_t index, const int64_t* values, const Matched& m,
                           std::vector<Ref<>>& made) const {
  if (!made[index]) made[index] = new_object(exit, index, values, m, made);
  return made[index];
}

Ref<> CompiledLoop::new_object(const LoopExit& exit, uint32_t index, const int64_t* values, const Matched& m,
                               std::vector<Ref<>>& made) const {
  using Kind = LoopObject::Kind;
  using Tag = capture::LoopTag;
  const LoopObject& o = exit.objects[index];
  const int64_t* v = values + o.value;
  switch (o.kind) {
    case Kind::Null: return {};
    case Kind::Constant: return Ref<>::share(o.object.get());
    case Kind::Fetch: return Ref<>::share(fetched(o.index, m));
    case Kind::Int: return Ref<>::steal(PyLong_FromLongLong(v[0]));
    case Kind::Bool: return Ref<>::share(v[0] ? Py_True : Py_False);
    case Kind::Float: return Ref<>::steal(PyFloat_FromDouble(std::bit_cast<double>(v[0])));
    case Kind::Scalar: return Ref<>::steal(arrays::make_scalar(o.dtype, v));
    case Kind::Character: return Ref<>::steal(PyUnicode_FromOrdinal(static_cast<int>(v[0])));
    case Kind::Complex:
      return Ref<>::steal(PyComplex_FromDoubles(std::bit_cast<double>(v[0]), std::bit_cast<double>(v[1])));
    case Kind::ComplexScalar:
      return Ref<>::steal(PyArray_Scalar(const_cast<int64_t*>(v), descr_of(graph::DType::C128), nullptr));
    case Kind::View: {
      PyObject* base = fetched(o.index, m);
      npy_intp dims[kMostRank], strides[kMostRank];
      for (int k = 0; k < o.rank; ++k) {
        dims[k] = v[1 + k];
        strides[k] = v[1 + o.rank + k];
      }
      PyArray_Descr* descr = descr_of(o.dtype);
      Py_INCREF(descr);
      Ref<> view =
          Ref<>::steal(PyArray_NewFromDescr(&PyArray_Type, descr, o.rank, dims, strides, reinterpret_cast<void*>(v[0]),
                                            PyArray_FLAGS(arrays::as_ndarray(base)) & NPY_ARRAY_WRITEABLE, nullptr));
      if (!view || PyArray_SetBaseObject(arrays::as_ndarray(view.get()), Py_NewRef(base)) < 0) return {};
      return view;
    }
    case Kind::Array: {
      npy_intp dims[kMostRank];
      std::copy(v + 1, v + 1 + o.rank, dims);
      PyArray_Descr* descr = descr_of(o.dtype);
      Py_INCREF(descr);
      Ref<> array = Ref<>::steal(PyArray_SimpleNewFromDescr(o.rank, dims, descr));
      if (array)
        std::memcpy(PyArray_DATA(arrays::as_ndarray(array.get())), reinterpret_cast<void*>(v[0]),
                    static_cast<std::size_t>(PyArray_NBYTES(arrays::as_ndarray(array.get()))));
      return array;
    }
    case Kind::Range: return range_of(v[0], v[1], v[2]);
    case Kind::RangeIterator: return py::range_iterator(v[0], v[1], v[2]);
    case Kind::Advanced: {
      PyObject* iterator = fetched(o.index, m);
      py::advance(iterator, v[0], v[1]);
      return Ref<>::share(iterator);
    }
    case Kind::Pointer: return Ref<>::share(reinterpret_cast<PyObject*>(v[0]));
    case Kind::Iterator: {
      const Ref<> over = object(exit, o.parts[0], values, m, made);
      Ref<> iterator = over ? Ref<>::steal(PyObject_GetIter(over.get())) : Ref<>();
      if (iterator) py::field(iterator.get(), py::kIteratorIndex) = v[0];
      return iterator;
    }
    case Kind::Resumed: {
      PyObject* iterator = fetched(o.index, m);
      py::field(iterator, py::kIteratorIndex) = v[0];
      return Ref<>::share(iterator);
    }
    case Kind::Parts:
      for (const uint32_t part : o.parts) object(exit, part, values, m, made);
      return Ref<>::share(fetched(o.index, m));
    case Kind::Enumerate: {
      const Ref<> from = object(exit, o.parts[0], values, m, made), over = object(exit, o.parts[1], values, m, made);
      if (!from || !over) return {};
      return Ref<>::steal(
          PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyEnum_Type), over.get(), from.get(), nullptr));
    }
    case Kind::Zip: {
      const Ref<> parts = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(o.parts.size())));
      for (std::size_t k = 0; parts && k < o.parts.size(); ++k) {
        Ref<> part = object(exit, o.parts[k], values, m, made);
        if (!part) return {};
        PyTuple_SET_ITEM(parts.get(), static_cast<Py_ssize_t>(k), part.release());
      }
      return parts ? Ref<>::steal(PyObject_CallObject(reinterpret_cast<PyObject*>(&PyZip_Type), parts.get())) : Ref<>();
    }
    case Kind::Tagged:
      if (!o.parts.empty() && v[3] != 0) return object(exit, o.parts[0], values, m, made);
      switch (v[0]) {
        case Tag::kInt: return Ref<>::steal(PyLong_FromLongLong(v[1]));
        case Tag::kBool: return Ref<>::share(v[1] ? Py_True : Py_False);
        case Tag::kFloat: return Ref<>::steal(PyFloat_FromDouble(std::bit_cast<double>(v[2])));
        case Tag::kPointer: return Ref<>::share(reinterpret_cast<PyObject*>(v[1]));
        case Tag::kCharacter: return Ref<>::steal(PyUnicode_FromOrdinal(static_cast<int>(v[1])));
        default: {
          const auto dtype = static_cast<graph::DType>(v[0] - Tag::kScalar);
          const int64_t* value = dtype == graph::DType::F64 ? v + 2 : v + 1;
          return Ref<>::steal(PyArray_Scalar(const_cast<int64_t*>(value), descr_of(dtype), nullptr));
        }
      }
    case Kind::Tuple: {
      Ref<> tuple = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(o.parts.size())));
      for (std::size_t k = 0; tuple && k < o.parts.size(); ++k) {
        Ref<> part = object(exit, o.parts[k], values, m, made);
        if (!part) return {};
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(k), part.release());
      }
      return tuple;
    }
  }
  return {};
}

bool CompiledLoop::unbox(const Matched& m) {
  if (program_->unboxed.empty()) return true;
  unboxed_.clear();
  for (const capture::UnboxedList& list : program_->unboxed) {
    capture::ListHeader* const header = capture::unbox(fetched(list.list, m), list.kind, list.is_stored || list.grows);
    if (!header) break;
    unboxed_.push_back(header);
  }
  // The loop would not see what is done to a list under a name that it has other values for.
  const auto is_unboxed = [&](uint32_t list, bool grows) {
    return std::any_of(program_->unboxed.begin(), program_->unboxed.end(), [&](const capture::UnboxedList& other) {
      return other.grows == grows && fetched(other.list, m) == fetched(list, m);
    });
  };
  if (unboxed_.size() < program_->unboxed.size() ||
      std::any_of(program_->unboxed.begin(), program_->unboxed.end(),
                  [&](const capture::UnboxedList& list) { return is_unboxed(list.list, !list.grows); }) ||
      std::any_of(program_->boxed.begin(), program_->boxed.end(),
                  [&](uint32_t list) { return capture::is_unboxed(fetched(list, m)); })) {
    const capture::MadeLists dropped;
    boxes_lists_ = true;
    return false;
  }
  return true;
}

bool CompiledLoop::is_short(const Matched& m) const {
  constexpr int64_t kFewNodes = 100'000;
  if (!is_flat_) return false;
  const int64_t rounds = capture::rounds_before(*region_->view, region_->entry, *m.live);
  return 0 <= rounds && rounds <= kFewNodes / static_cast<int64_t>(program_->cfg.nodes.size());
}

/// Finds the memory of all arrays of the frame and of the guards, of lists of numbers, and of intermediate vectors.
void CompiledLoop::find_memory(const Matched& m) {
  memory_.clear();
  const auto add = [&](const void* first, int64_t bytes) {
    memory_.emplace_back(reinterpret_cast<int64_t>(first), reinterpret_cast<int64_t>(first) + bytes);
  };
  const auto see = [&](PyObject* o) {
    if (const auto memory = memory_of(o)) memory_.push_back(*memory);
  };
  for (int i = 0; i < m.live->local_count; ++i) see(m.live->locals[i]);
  for (std::size_t i = 0; i < guards_->slot_count(); ++i) see(m.slots[i]);
  for (const auto& list : unboxed_)
    add(list->numbers, list->count * list->width * static_cast<int64_t>(sizeof(double)));
  using Program = capture::LoopProgram;
  if (program_->has_scratch) add(scratch(), Program::kScratchLength * sizeof(double));
}

bool CompiledLoop::drops_locals() const {
  return std::any_of(program_->exits.begin(), program_->exits.end(),
                     [](const LoopExit& exit) { return exit.returned != LoopExit::kStays; });
}

bool CompiledLoop::box(capture::MadeLists& lists, const LoopExit& exit, const Matched& m) {
  if (program_->unboxed.empty()) return lists.box({});
  going_.clear();
  // A slot with tags need not hold a reference.
  for (int i = 0; !py::kTaggedSlots && exit.returned != LoopExit::kStays && i < m.live->local_count; ++i)
    if (i != exit.returned) going_.push_back(m.live->locals[i]);
  return lists.box(going_);
}

bool CompiledLoop::boxes_lists() const {
  // With objects, a loop that reads them is taken to run for half as long again, and one that makes objects three times
  // as long: its rounds then have calls.
  constexpr int64_t kStored = 4;
  const bool makes_objects = std::any_of(
      program_->unboxed.begin(), program_->unboxed.end(),
      [](const capture::UnboxedList& list) { return list.is_stored && list.kind != capture::item_kind("b"); });
  const bool is_known = runs() > kFewUnboxed || unboxing_ns_ > kLongUnboxing;
  return boxes_lists_ || (is_known && 2 * unboxing_ns_ > unboxed_ns_ * (makes_objects ? kStored : 1));
}

Outcome CompiledLoop::run(const Matched& m, capture::FrameUpdate& update) {
  // The room for what the frame gets: once the loop has had its effects, there is no way back.
  std::vector<Ref<>> made, held;
  made.reserve(most_made_);
  held.reserve(most_held_);
  update.locals.reserve(update.locals.size() + most_locals_);
  update.stack.reserve(update.stack.size() + most_stack_);
  int64_t on_stack[kValuesOnStack];
  std::unique_ptr<int64_t[]> on_heap;
  if (most_values_ > kValuesOnStack) on_heap.reset(new int64_t[most_values_]);
  int64_t* values = on_heap ? on_heap.get() : on_stack;
  constexpr std::size_t kObjectsOnStack = 16;
  void* objects_on_stack[kObjectsOnStack];
  std::vector<void*> objects_on_heap;
  const std::size_t in_front = 1 + capture::LoopProgram::kOfUnboxed * program_->unboxed.size();
  void** objects = objects_on_stack + in_front;
  if (in_front + operands_.size() > kObjectsOnStack) {
    objects_on_heap.resize(in_front + operands_.size());
    objects = objects_on_heap.data() + in_front;
  }
  objects[capture::LoopProgram::kScratch] = program_->has_scratch ? scratch() : nullptr;
  if (program_->stores_at_once)
    static_cast<int64_t*>(scratch())[capture::LoopProgram::kAtOnceAt] = static_cast<int64_t>(nobody_sees_warnings());
  for (std::size_t i = 0; i < operands_.size(); ++i) objects[i] = fetched(static_cast<uint32_t>(i), m);
  const auto kernel = reinterpret_cast<codegen::CfgFn>(const_cast<void*>(kernels_[use_].code.entry(0)));
  if (!may_widen_) captured_.reset();
  code_.reset();
  const bool timed = may_widen_ || turns_ > 0;
  // A loop that is hardly ever left early is not given up: the clock takes longer than what a short one does.
  const bool measures =
      timed || !program_->unboxed.empty() || (left_early_ < 4 * kFewExits && 64 * left_early_ >= runs());
  const unsigned char* poll = capture::eval_breaker_byte();
  for (ParallelPart& part : kernels_[use_].parallel) {
    part.runner->set_poll(poll);
    part.runner->set_memory(&memory_);
    part.runner->set_unseen_warnings(&nobody_sees_warnings);
  }
  const cfg::Inputs inputs{m.symbols, m.params, objects};
  // Runs that were short so far are not watched, nor are first runs that will be.
  const bool may_be_long = may_widen_ && (runs() < kFirstRuns ? !is_short(m) : run_ns_ > kLongNanoseconds * runs());
  std::optional<LongRun> watch(std::in_place, may_be_long && widen_after < kNeverWidened);
  const int64_t before_unboxing = program_->unboxed.empty() ? 0 : now_ns();
  if (!unbox(m)) return Outcome::Miss;
  for (std::size_t k = 0; k < unboxed_.size(); ++k) {
    void* const numbers = unboxed_[k]->numbers;
    objects[capture::LoopProgram::numbers_of(k)] = program_->unboxed[k].grows ? unboxed_[k] : numbers;
    objects[capture::LoopProgram::count_of(k)] = reinterpret_cast<void*>(unboxed_[k]->count);
    objects[capture::LoopProgram::width_of(k)] = reinterpret_cast<void*>(unboxed_[k]->width);
  }
  if (!kernels_[use_].parallel.empty() || program_->grouped_products > 0) find_memory(m);
  if (program_->grouped_products > 0) {
    std::vector<runtime::ParallelLoop::Memory> changed{memory_.back()};  // intermediate vectors
    for (const uint32_t array : program_->written)
      if (const auto memory = memory_of(fetched(array, m))) changed.push_back(*memory);
    grouped_products().begin(memory_, changed);
  }
  const int64_t start = measures ? now_ns() : 0;
  const int64_t number = program_->recursion ? program_->recursion->run(interpreted_ ? nullptr : kernel, program_->cfg,
                                                                        inputs, values, poll, capture::recursion_left())
                         : interpreted_      ? cfg::interpret(program_->cfg, inputs, values, INT64_MAX)
                                             : kernel(m.symbols, m.params, objects, values, poll);
  const bool was_cut = watch->was_asked();
  watch.reset();
  clear_fp_flags();
  if (!kernels_[use_].parallel.empty()) {
    const int64_t shared = std::exchange(parallel_rounds_, 0), in_vectors = std::exchange(vector_rounds_, 0);
    for (const ParallelPart& part : kernels_[use_].parallel) {
      parallel_rounds_ += part.runner->rounds_done();
      vector_rounds_ += part.runner->rounds_alone();
    }
    module::stats.parallel_rounds += parallel_rounds_ - shared;
    module::stats.vector_rounds += vector_rounds_ - in_vectors;
  }
  if (program_->recursion) recursive_calls_ += program_->recursion->calls;
  const LoopExit& exit = program_->exits[static_cast<std::size_t>(number)];
  ++taken_[static_cast<std::size_t>(number)];
  ++(exit.early ? left_early_ : finished_);
  wrapped_ += exit.wraps;
  const int64_t took = measures ? now_ns() - start : 0;
  capture::MadeLists made_lists;
  measured_ += measures;
  if (!unboxed_.empty()) unboxed_ns_ += took;
  boxes_lists_ = boxes_lists_ || made_lists.has_failed();
  if (exit.early && took > kLongNanoseconds) ++long_rounds_;
  if (took > kWorthwhileNanoseconds) ++worthwhile_;
  update.exit_instr = exit.instr;
  update.kept = exit.kept;
  // New objects may start a garbage collection, whose callbacks may let go of what the loop has found.
  made.resize(exit.objects.size());
  for (std::size_t i = 0; i < exit.objects.size(); ++i) {
    const LoopObject& o = exit.objects[i];
    if (o.kind == LoopObject::Kind::View) held.push_back(Ref<>::share(fetched(o.index, m)));
    if (o.kind == LoopObject::Kind::Fetch || o.kind == LoopObject::Kind::Pointer ||
        o.kind == LoopObject::Kind::Array ||  // its memory is any loop's from then on
        (o.kind == LoopObject::Kind::Tagged && values[o.value] == capture::LoopTag::kPointer))
      made[i] = new_object(exit, static_cast<uint32_t>(i), values, m, made);
  }
  for (const LoopExit::Attribute& attribute : exit.attributes) held.push_back(Ref<>::share(fetched(attribute.of, m)));
  bool complete = box(made_lists, exit, m);
  if (!unboxed_.empty()) unboxing_ns_ += now_ns() - took - before_unboxing;
  const auto make = [&](uint32_t index) -> PyObject* {
    const Ref<> o = object(exit, index, values, m, made);
    if (!o && exit.objects[index].kind != LoopObject::Kind::Null &&
        exit.objects[index].kind != LoopObject::Kind::Fetch) {
      complete = false;
      return Py_NewRef(Py_None);
    }
    return Py_XNewRef(o.get());
  };
  for (const auto& [slot, index] : exit.locals) {
    const LoopObject& o = exit.objects[index];
    if (o.kind == LoopObject::Kind::Tagged && values[o.value] == capture::LoopTag::kAsBefore) continue;
    update.locals.push_back({slot, make(index)});
  }
  for (std::size_t i = 0; i < exit.stack.size(); ++i) {
    if (static_cast<int>(i) >= exit.kept) {
      update.stack.push_back(make(exit.stack[i]));
    } else {
      const LoopObject::Kind kind = exit.objects[exit.stack[i]].kind;
      if (kind == LoopObject::Kind::Advanced || kind == LoopObject::Kind::Resumed || kind == LoopObject::Kind::Parts)
        Py_DECREF(make(exit.stack[i]));
      update.stack.push_back(nullptr);
    }
  }
  for (const LoopExit::Attribute& attribute : exit.attributes) {
    const Ref<> value = Ref<>::steal(make(attribute.object));
    complete = complete && PyObject_GenericSetAttr(fetched(attribute.of, m), attribute.name.get(), value.get()) == 0;
  }
  if (timed) note_run(took, was_cut);
  return complete ? Outcome::Done : Outcome::Error;
}

namespace {

PyObject* set_widen_after(PyObject*, PyObject* nanoseconds) {
  const long long given = PyLong_AsLongLong(nanoseconds);
  if (given < 0) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "nanoseconds must not be negative, but got %lld", given);
    return nullptr;
  }
  return PyLong_FromLongLong(std::exchange(widen_after, given));
}

PyObject* set_parallel_eager(PyObject*, PyObject* eager) {
  const int given = PyObject_IsTrue(eager);
  return given < 0 ? nullptr : PyBool_FromLong(runtime::ParallelLoop::set_eager(given != 0));
}

PyMethodDef methods[] = {
    {"set_parallel_eager", set_parallel_eager, METH_O,
     "set_parallel_eager(eager): whether rounds are shared out among threads in pieces of a few, for tests; else only "
     "where that pays.\nGives what it was."},
    {"set_widen_after", set_widen_after, METH_O,
     "set_widen_after(nanoseconds): for how long a loop runs before it is compiled for several rounds at once, for "
     "tests; 0: after its first run.\nGives what it was."},
    {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

}  // namespace framejit::ext::region
