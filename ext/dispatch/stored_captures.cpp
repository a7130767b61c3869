// Keys, regions and entries of stored captures.
#include "ext/dispatch/stored_captures.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "capture/py/repr.h"
#include "ext/arrays/numpy_api.h"
#include "ext/dispatch/code_state.h"
#include "ext/dispatch/stored_loops.h"
#include "ext/dispatch/stored_objects.h"
#include "ext/library_calls/library_call.h"
#include "ext/module/bind_arguments.h"
#include "ext/module/config.h"
#include "ext/module/control.h"
#include "ext/module/events.h"
#include "ext/module/kernel_store.h"
#include "ext/module/tape_hook.h"
#include "ext/region/stored_plan.h"
#include "graph/pass.h"

namespace framejit::ext::dispatch {

using capture::FrameView;
using capture::Ref;
using capture::Region;
using graph::Graph;
using graph::Op;
using library_calls::LibraryCall;
using library_calls::Piece;
using region::ArchiveReader;
using region::ArchiveWriter;
using region::CompileOptions;
using region::Entry;

namespace {

// ---- keys

/// Python and what NumPy computes with, which its version does not tell alone: its build, and what it was told by the
/// environment. "": that cannot be found out.
std::string identity_of_libraries() {
  std::string out = std::string(Py_GetVersion()) + " ";
  const Ref<> version = Ref<>::steal(PyObject_GetAttrString(arrays::numpy_module(), "__version__"));
  if (version && PyUnicode_Check(version.get())) out += PyUnicode_AsUTF8(version.get());
  const Ref<> core = Ref<>::steal(PyImport_ImportModule("numpy._core._multiarray_umath"));
  const Ref<> file = core ? Ref<>::steal(PyObject_GetAttrString(core.get(), "__file__")) : Ref<>();
  const char* path = file && PyUnicode_Check(file.get()) ? PyUnicode_AsUTF8(file.get()) : nullptr;
  struct stat info;
  if (path && stat(path, &info) == 0)
    out += std::string(" ") + path + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) +
           "." + std::to_string(info.st_mtim.tv_nsec);
  for (const char* name : {"NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES"})
    if (const char* value = std::getenv(name)) out += std::string(" ") + name + "=" + value;
  const bool failed = PyErr_Occurred() != nullptr;
  PyErr_Clear();
  return failed ? std::string() : out;
}

void add_array(ArchiveWriter& a, PyArrayObject* array) {
  const PyArray_Descr* descr = PyArray_DESCR(array);
  a(descr->type_num, descr->byteorder, PyArray_NDIM(array), PyArray_FLAGS(array));
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    a(static_cast<int64_t>(PyArray_DIM(array, i)), static_cast<int64_t>(PyArray_STRIDE(array, i)));
    a.ok = a.ok && !module::is_dynamic(reinterpret_cast<PyObject*>(array), i);
  }
}

/// Adds the properties of an argument that are likely to be guarded, so that calls with other arguments have files of
/// their own. The guards decide.
void add_argument(ArchiveWriter& a, PyObject* object) {
  if (!object) return a.text("unbound");
  a.text(Py_TYPE(object)->tp_name);
  int overflow = 0;
  if (PyArray_CheckExact(object)) add_array(a, reinterpret_cast<PyArrayObject*>(object));
  else if (PyLong_Check(object)) a(static_cast<int64_t>(PyLong_AsLongLongAndOverflow(object, &overflow)));
  else if (PyUnicode_CheckExact(object)) a.text(PyUnicode_GET_LENGTH(object) < 64 ? PyUnicode_AsUTF8(object) : "");
  else if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) a(static_cast<int64_t>(Py_SIZE(object)));
  if (PyErr_Occurred()) PyErr_Clear();
}

std::string key_of(CodeState& state, const FrameView& frame) {
  static const std::string libraries = identity_of_libraries();
  if (libraries.empty()) return {};
  const JitSettings& settings = state.settings();
  const module::Config& config = module::config();
  ArchiveWriter a;
  a.text("captures");
  a.text(libraries);
  a(settings.fullgraph, settings.ast, settings.o1, settings.o2, settings.order, settings.plan.beside,
    settings.plan.block_bytes, settings.plan.resident, settings.plan.threads, settings.plan.memory_limit,
    config.instruction_limit, config.passes, config.profitability, state.compiles_loops());
  std::string code;
  a.ok = add_content(reinterpret_cast<PyObject*>(state.code()), code);
  a.text(code);
  const int count = module::argument_slots(state.code());
  for (int i = 0; i < count; ++i) add_argument(a, frame.locals[i]);
  return a.ok ? std::move(a.bytes) : std::string();
}

// ---- library calls

bool has_form(const LibraryCall& call) {
  return !call.draws && !call.first && !call.sequence && call.count == 1 && call.callable;
}

void write_piece(ArchiveWriter& a, ObjectWriter& objects, const Piece& piece) {
  a(piece.kind, static_cast<uint64_t>(piece.slot), piece.wrap);
  objects.object(piece.object.get());
  a.size(piece.items.size());
  for (const Piece& item : piece.items) write_piece(a, objects, item);
}

Piece read_piece(ArchiveReader& a, ObjectReader& objects, int depth = 0) {
  constexpr uint64_t kMostSlots = 64;
  Piece out;
  uint64_t slot = 0;
  a(out.kind, slot, out.wrap);
  out.slot = slot;
  out.object = objects.object();
  a.ok = a.ok && slot < kMostSlots && out.kind <= Piece::Slice && depth < 32;
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) out.items.push_back(read_piece(a, objects, depth + 1));
  a.ok = a.ok && (out.kind != Piece::Known || out.object) && (out.kind != Piece::Slice || out.items.size() == 3);
  return out;
}

void write_call(ArchiveWriter& a, ObjectWriter& objects, const LibraryCall& call) {
  a.ok = a.ok && has_form(call);
  if (!a.ok) return;
  objects.object(call.callable.get());
  a.size(call.args.size());
  for (const Piece& piece : call.args) write_piece(a, objects, piece);
  a.size(call.keywords.size());
  for (const auto& [name, piece] : call.keywords) {
    objects.object(name.get());
    write_piece(a, objects, piece);
  }
  a(call.nanoseconds, call.result, call.through_view);
  a.size(call.view.size());
  for (const std::size_t axis : call.view) a(static_cast<uint64_t>(axis));
}

std::unique_ptr<LibraryCall> read_call(ArchiveReader& a, ObjectReader& objects) {
  auto call = std::make_unique<LibraryCall>();
  call->callable = objects.object();
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) call->args.push_back(read_piece(a, objects));
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    Ref<> name = objects.object();
    a.ok = a.ok && name && PyUnicode_CheckExact(name.get());
    call->keywords.emplace_back(std::move(name), read_piece(a, objects));
  }
  a(call->nanoseconds, call->result, call->through_view);
  for (std::size_t count = a.size(); count > 0 && a.ok; --count)
    call->view.push_back(static_cast<std::size_t>(a.get<uint64_t>()));
  a.ok = a.ok && call->callable;
  if (!a.ok) return nullptr;
  library_calls::prepare(*call);
  a.ok = has_form(*call);
  return call;
}

// ---- regions

bool has_form(const Graph& graph) {
  // How NumPy computes with complex numbers is found out in each process.
  bool found = true;
  graph::for_each_node(graph, graph.body(), [&](graph::ValueId v) {
    const graph::Node& node = graph.node(v);
    found = found && !graph::is_complex(node.type.dtype) &&
            (node.op != Op::LibraryCall || node.index() >= graph::kFirstRaisingLibraryCall);
  });
  return found;
}

/// Is a break independent of time and of this process?
bool has_form(const capture::Break& b) {
  using capture::BreakId;
  constexpr BreakId kPassing[] = {BreakId::CaptureTime, BreakId::CompileBudget, BreakId::LoweringFailed,
                                  BreakId::CacheMiss,   BreakId::Stress,        BreakId::Unprofitable};
  return !b.while_holds && b.callees.empty() &&
         std::find(std::begin(kPassing), std::end(kPassing), b.id) == std::end(kPassing);
}

void write_breaks(ArchiveWriter& a, const std::vector<capture::Break>& breaks) {
  a.size(breaks.size());
  for (const capture::Break& b : breaks) {
    a.ok = a.ok && has_form(b);
    a(b.id, b.detail, b.instr, b.function, b.file, b.line, b.column, b.end_column, b.raises, b.caught, b.before_loop);
  }
}

void read_breaks(ArchiveReader& a, std::vector<capture::Break>& breaks) {
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    capture::Break b{};
    a(b.id, b.detail, b.instr, b.function, b.file, b.line, b.column, b.end_column, b.raises, b.caught, b.before_loop);
    breaks.push_back(std::move(b));
  }
}

// A member that is added belongs into the functions that write and read them.
static_assert(sizeof(Region) == 352 && sizeof(capture::Input) == 88 && sizeof(capture::Origin) == 32 &&
              sizeof(capture::Recipe) == 96 && sizeof(capture::Effect) == 88 && sizeof(capture::Break) == 192 &&
              sizeof(LibraryCall) == 200 && sizeof(Piece) == 56);

void write_region(ArchiveWriter& a, ObjectWriter& objects, const Region& region) {
  a.size(region.guards.size());
  for (const capture::Guard& guard : region.guards) objects.guard(guard);
  a.size(region.inputs.size());
  for (const capture::Input& input : region.inputs) {
    objects.source(input.source);
    a(input.spec, input.guard);
    a.ok = a.ok && input.spec.wrap != capture::Wrap::Generator;
  }
  a.size(region.origins.size());
  for (const capture::Origin& origin : region.origins) {
    objects.object(origin.file.get());
    objects.object(origin.globals.get());
  }
  a.size(region.recipes.size());
  for (const capture::Recipe& r : region.recipes) {
    a.put(r.kind);
    objects.very_object(r.object.get());
    objects.source(r.source);
    a(r.index, r.wrap, r.writing, r.dim, r.items);
  }
  a.size(region.effects.size());
  for (const capture::Effect& e : region.effects) {
    a(e.kind, e.target, e.key, e.value, e.items);
    objects.very_object(e.object.get());
    objects.object(e.name.get());
    objects.source(e.source);
  }
  a(region.entry, region.exit, region.returns, region.passes_exit, region.is_call, region.locals, region.overwritten,
    region.stack, region.kept, region.result, region.instructions);
  write_breaks(a, region.breaks);
}

void read_region(ArchiveReader& a, ObjectReader& objects, Region& region) {
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) region.guards.push_back(objects.guard());
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    capture::Input input{};
    input.source = objects.source();
    a(input.spec, input.guard);
    region.inputs.push_back(std::move(input));
  }
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    capture::Origin origin;
    origin.file = objects.object();
    origin.globals = objects.object();
    region.origins.push_back(std::move(origin));
  }
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    capture::Recipe r{};
    r.kind = a.get<capture::Recipe::Kind>();
    r.object = objects.object();
    r.source = objects.source();
    a(r.index, r.wrap, r.writing, r.dim, r.items);
    region.recipes.push_back(std::move(r));
  }
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    capture::Effect e{};
    a(e.kind, e.target, e.key, e.value, e.items);
    e.object = objects.object();
    e.name = objects.object();
    e.source = objects.source();
    region.effects.push_back(std::move(e));
  }
  a(region.entry, region.exit, region.returns, region.passes_exit, region.is_call, region.locals, region.overwritten,
    region.stack, region.kept, region.result, region.instructions);
  read_breaks(a, region.breaks);
}

/// Do the numbers lead to what is there? `locations`: of the graph; `slots`: of the frame.
bool is_sound(const Region& region, uint32_t locations, int slots) {
  const std::size_t recipes = region.recipes.size(), instrs = region.view->instrs().size();
  const auto is_recipe = [recipes](uint32_t i) { return i < recipes; };
  const auto may_be_recipe = [recipes](int32_t i) { return i < 0 || static_cast<std::size_t>(i) < recipes; };
  const auto is_slot = [slots](int slot) { return 0 <= slot && slot < slots; };
  for (const capture::Recipe& r : region.recipes)
    if (!std::all_of(r.items.begin(), r.items.end(), is_recipe)) return false;
  for (const capture::Effect& e : region.effects)
    if (!may_be_recipe(e.target) || !may_be_recipe(e.key) || !may_be_recipe(e.value) ||
        !std::all_of(e.items.begin(), e.items.end(), is_recipe))
      return false;
  for (const graph::Call& call : region.graph->calls())
    if (call.origin >= region.origins.size()) return false;
  for (const capture::Guard& guard : region.guards)
    if (guard.location >= locations) return false;
  for (const auto& [slot, recipe] : region.locals)
    if (!is_slot(slot) || !is_recipe(recipe)) return false;
  for (const capture::Break& b : region.breaks)
    if (b.instr >= instrs) return false;
  return (!region.returns || is_recipe(region.result)) && region.entry < instrs && region.exit < instrs &&
         std::all_of(region.overwritten.begin(), region.overwritten.end(), is_slot) &&
         std::all_of(region.stack.begin(), region.stack.end(), is_recipe) &&
         region.inputs.size() == region.graph->params().size();
}

uint32_t locations_of(const Region& region) {
  uint32_t out = 0;
  for (const capture::Guard& guard : region.guards) out = std::max(out, guard.location + 1);
  return out;
}

// ---- entries

enum class Code : uint8_t { None, Program, Loop };

void write_entry(ArchiveWriter& a, ObjectWriter& objects, const Entry& entry) {
  const Region& region = entry.region();
  a.ok = a.ok && has_form(*region.graph);
  write_region(a, objects, region);
  std::set<int64_t> indices;
  graph::for_each_node(*region.graph, region.graph->body(), [&](graph::ValueId v) {
    const graph::Node& node = region.graph->node(v);
    if (node.op == Op::LibraryCall) indices.insert(node.index());
  });
  a.size(indices.size());
  for (const int64_t index : indices) {
    const LibraryCall* call = library_calls::library_call_at(index);
    a.ok = a.ok && call;
    if (!a.ok) return;
    a(index);
    write_call(a, objects, *call);
  }
  region::write_graph(a, *region.graph, locations_of(region));
  if (region.loop) write_loop(a, objects, *region.loop, *entry.loop());
  else region::write_program(a, *region.graph, entry.plan().program());
}

std::shared_ptr<Entry> read_entry(ArchiveReader& a, ObjectReader& objects, Code code, CodeState& state,
                                  const FrameView& frame,
                                  const std::function<CompileOptions(bool is_call)>& options_of) {
  auto region = std::make_shared<Region>();
  region->function = capture::text_of(state.code()->co_qualname);
  region->view = state.view();
  region->globals = Ref<>::share(frame.globals);
  region->builtins = Ref<>::share(frame.builtins);
  read_region(a, objects, *region);
  region::LibraryCallIndices calls;
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    const auto number = a.get<int64_t>();
    if (std::unique_ptr<LibraryCall> call = read_call(a, objects))
      calls[number] = library_calls::library_call_number(std::move(call));
  }
  uint32_t locations = 0;
  if (a.ok) region->graph = region::read_graph(a, calls, locations);
  if (!a.ok || !region->graph || !is_sound(*region, locations, state.view()->local_count())) return nullptr;
  const bool is_call = region->returns && region->entry == 0;
  const CompileOptions options = options_of(is_call);
  std::optional<region::Compiled> compiled;
  if (code == Code::Loop) {
    std::unique_ptr<region::LoopCode> loop_code;
    region->loop = read_loop(a, objects, *region->view, loop_code);
    if (auto none = region::finish({}, options)) compiled = std::move(*none);
    if (compiled) compiled->loop_code = std::move(loop_code);
    if (region->loop) region->loop->findings = state.loops.findings(region->entry);
  } else {
    compiled = region::read_program(a, calls, options);
  }
  if (!a.ok || !a.rest.empty() || !compiled) return nullptr;
  auto entry = Entry::make_stored(std::move(region), std::move(*compiled), options, frame,
                                  is_call ? module::argument_slots(state.code()) : frame.local_count);
  return entry ? std::move(*entry) : nullptr;
}

constexpr const char* kName = "captures";

}  // namespace

bool StoredCaptures::covers(CodeState& state, const CompileSite& place) {
  const JitSettings& settings = state.settings();
  const bool is_first = place.made == 0 && place.failures == 0 && place.churned == 0 && place.varied.names.empty() &&
                        !place.varied.all && state.captures.followed_from == 0;
  const bool is_plain = !settings.trace && !settings.ignore_fp_flags && !settings.constant_parameters &&
                        !settings.stress.any() && !module::events_on(module::Channel::Asm) &&
                        !module::events_on(module::Channel::Kernels);
  return is_first && is_plain && module::disabled_epoch == 0 && !module::tape_hook && !module::force_compiled;
}

std::unique_ptr<StoredCaptures> StoredCaptures::open(CodeState& state, const CompileSite& whole,
                                                     const FrameView& frame) {
  constexpr arrays::NumpyVersion kFirst{2, 2};  // up to there a program could change how dtypes are promoted
  codegen::KernelStore* const store = module::kernel_store(state.settings().cached);
  if (!store || !covers(state, whole) || !state.loops.element_loops().empty() ||
      !state.loops.bytecode_loops().empty() || arrays::numpy_version() < kFirst)
    return nullptr;
  std::string key = key_of(state, frame);
  if (key.empty()) return nullptr;
  std::unique_ptr<StoredCaptures> out(new StoredCaptures(*store, std::move(key)));
  out->is_new_ = !out->read();
  if (out->is_new_) out->records_.clear();
  return out;
}

bool StoredCaptures::read() {
  if (!module::find_captures(store_, key_, file_)) return false;
  ArchiveReader a({reinterpret_cast<const char*>(file_.bytes.data()), file_.bytes.size()});
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    const auto place = a.get<int32_t>();
    records_[place] = a.text();
  }
  return a.ok && a.rest.empty();
}

std::optional<StoredOutcome> StoredCaptures::find(CodeState& state, int32_t place, const FrameView& frame,
                                                  const std::function<CompileOptions(bool is_call)>& options) {
  const auto record = records_.find(place);
  if (record == records_.end()) return std::nullopt;
  ArchiveReader a(record->second);
  StoredOutcome out;
  std::vector<uint32_t> loops;
  std::vector<std::pair<uint32_t, std::string>> bytecode_loops;
  const auto code = a.get<Code>();
  a(out.worth, out.worth_soon, out.work, out.array_work, loops, bytecode_loops);
  read_breaks(a, out.breaks);
  const std::size_t instrs = state.view()->instrs().size();
  a.ok = a.ok && code <= Code::Loop &&
         std::all_of(loops.begin(), loops.end(), [=](uint32_t i) { return i < instrs; }) &&
         std::all_of(out.breaks.begin(), out.breaks.end(), [=](const auto& b) { return b.instr < instrs; });
  if (a.ok && code != Code::None) {
    ObjectReader objects(a, frame, state.code()->co_consts);
    out.entry = read_entry(a, objects, code, state, frame, options);
    if (!out.entry) return std::nullopt;
  }
  if (!a.ok || !a.rest.empty()) return std::nullopt;
  state.loops.element_loops().insert(loops.begin(), loops.end());
  for (auto& [head, reason] : bytecode_loops) state.loops.cannot_compile(head, std::move(reason));
  return out;
}

void StoredCaptures::add(CodeState& state, int32_t place, const FrameView& frame, const StoredOutcome& outcome) {
  ArchiveWriter a;
  const std::set<uint32_t>& loops = state.loops.element_loops();
  const Entry* const entry = outcome.entry.get();
  a.put(!entry ? Code::None : entry->loop() ? Code::Loop : Code::Program);
  std::vector<std::pair<uint32_t, std::string>> bytecode_loops;
  for (const uint32_t head : state.loops.bytecode_loops()) {
    const std::string* reason = state.loops.reason(head);
    bytecode_loops.emplace_back(head, reason ? *reason : "");
  }
  a(outcome.worth, outcome.worth_soon, outcome.work, outcome.array_work,
    std::vector<uint32_t>(loops.begin(), loops.end()), bytecode_loops);
  write_breaks(a, outcome.breaks);
  if (entry) {
    ObjectWriter objects(a, frame, state.code()->co_consts);
    write_entry(a, objects, *entry);
  }
  if (!a.ok) return;
  std::string& added = added_[place];
  added = std::move(a.bytes);
  records_[place] = added;
  changed_ = true;
}

void StoredCaptures::write() {
  if (!std::exchange(changed_, false)) return;
  ArchiveWriter a;
  a.size(records_.size());
  for (const auto& [place, record] : records_) {
    a.put(place);
    a.text(record);
  }
  codegen::KernelCode file;
  file.name = kName;
  file.bytes.assign(a.bytes.begin(), a.bytes.end());
  module::add_captures(store_, key_, file, std::exchange(is_new_, false));
}

}  // namespace framejit::ext::dispatch
