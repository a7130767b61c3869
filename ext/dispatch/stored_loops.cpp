// Control-flow graphs and exits as bytes.
#include "ext/dispatch/stored_loops.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "capture/code_view.h"
#include "ext/arrays/numpy_api.h"
#include "ext/module/config.h"

// The linker's: where this module begins and ends.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];
extern "C" __attribute__((visibility("hidden"))) const char _end[];

namespace framejit::cfg {

FRAMEJIT_FIELDS(Edge, x.block, x.args)
FRAMEJIT_FIELDS(Block, x.params, x.nodes, x.end, x.condition, x.to[0], x.to[1], x.exit, x.level, x.begins_round)
FRAMEJIT_FIELDS(Exit, x.values, x.number)

}  // namespace framejit::cfg

namespace framejit::capture {

FRAMEJIT_FIELDS(UnboxedList, x.list, x.kind, x.grows, x.is_stored)

}  // namespace framejit::capture

namespace framejit::ext::dispatch {

using capture::LoopExit;
using capture::LoopObject;
using capture::LoopProgram;
using capture::Ref;
using region::ArchiveReader;
using region::ArchiveWriter;

namespace {

/// The kinds of things to which constant addresses of a graph point.
enum class Target : uint8_t { Module, Held, Object };

/// Data of this module lie at the same distance from its begin in each process that runs this build.
bool is_in_module(const void* address) {
  const auto* at = static_cast<const char*>(address);
  return __ehdr_start <= at && at < _end;
}

void write_offset(ArchiveWriter& a, const void* address) {
  a.ok = a.ok && is_in_module(address);
  a.put(static_cast<int64_t>(static_cast<const char*>(address) - __ehdr_start));
}

const void* read_offset(ArchiveReader& a) {
  const auto offset = a.get<int64_t>();
  a.ok = a.ok && 0 <= offset && offset < _end - __ehdr_start;
  return a.ok ? __ehdr_start + offset : nullptr;
}

/// An object that lives for ever and has a name, if the address is that of one.
PyObject* lasting_object(const void* address) {
  auto* object = static_cast<PyObject*>(const_cast<void*>(address));
  if (object == Py_None || object == Py_True || object == Py_False) return object;
  for (int i = 0; i < graph::kDTypeCount; ++i)
    if (reinterpret_cast<PyObject*>(arrays::scalar_type_of(static_cast<graph::DType>(i))) == object) return object;
  return is_known_type(object) ? object : nullptr;
}

void write_address(ArchiveWriter& a, ObjectWriter& objects, const LoopProgram& program, const void* address) {
  const auto held = std::find_if(program.held.begin(), program.held.end(),
                                 [address](const capture::HeldRef& each) { return each.get() == address; });
  if (held != program.held.end()) {
    a.put(Target::Held);
    return a.put(static_cast<uint32_t>(held - program.held.begin()));
  }
  if (PyObject* object = lasting_object(address)) {
    a.put(Target::Object);
    return objects.object(object);
  }
  a.put(Target::Module);
  write_offset(a, address);
}

const void* read_address(ArchiveReader& a, ObjectReader& objects, const LoopProgram& program) {
  switch (a.get<Target>()) {
    case Target::Held: {
      const auto number = a.get<uint32_t>();
      a.ok = a.ok && number < program.held.size();
      return a.ok ? program.held[number].get() : nullptr;
    }
    case Target::Object: {
      const Ref<> object = objects.object();
      a.ok = a.ok && object && lasting_object(object.get());
      return object.get();
    }
    case Target::Module: return read_offset(a);
  }
  a.ok = false;
  return nullptr;
}

// A member that is added belongs into these functions.
static_assert(sizeof(cfg::Node) == 64 && sizeof(cfg::Block) == 136 && sizeof(cfg::Exit) == 32 &&
              sizeof(LoopObject) == 64 && sizeof(LoopExit) == 160 && sizeof(LoopProgram) == 344);

/// The members of a node that are kept as they are.
template <class Node, class F>
void with_plain_fields(Node& n, F&& f) {
  static_assert(std::extent_v<decltype(n.args)> == 5);
  f(n.args[0], n.args[1], n.args[2], n.args[3], n.args[4], n.op, n.type, n.mem, n.scale, n.lanes, n.count, n.from_last,
    n.where, n.exit, n.natural, n.of_natural, n.is_address);
}

void write_graph(ArchiveWriter& a, ObjectWriter& objects, const LoopProgram& program, const cfg::Cfg& graph) {
  a.size(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const cfg::Node& n = graph.nodes[i];
    with_plain_fields(n, [&a](const auto&... members) { a(members...); });
    a.put(static_cast<bool>(graph.is_param[i]));
    if (n.is_address) write_address(a, objects, program, reinterpret_cast<const void*>(n.imm));
    else a.put(n.imm);
    a.put(n.function != nullptr);
    a.ok = a.ok && (!n.function || !n.function->prepared);
    if (n.function) write_offset(a, n.function);
  }
  a(graph.blocks, graph.exits);
}

void read_graph(ArchiveReader& a, ObjectReader& objects, LoopProgram& program) {
  cfg::Cfg& graph = program.cfg;
  std::size_t count = a.size();
  graph.nodes.reserve(count);
  graph.is_param.reserve(count);
  for (; count > 0 && a.ok; --count) {
    cfg::Node n;
    with_plain_fields(n, [&a](auto&... members) { a.plain(members...); });
    const auto is_param = a.get<bool>();
    if (n.is_address) n.imm = reinterpret_cast<int64_t>(read_address(a, objects, program));
    else n.imm = a.get<int64_t>();
    if (a.get<bool>()) n.function = static_cast<const cfg::Function*>(read_offset(a));
    graph.nodes.push_back(n);
    graph.is_param.push_back(is_param);
  }
  a(graph.blocks, graph.exits);
}

void write_exit(ArchiveWriter& a, ObjectWriter& objects, const LoopExit& exit) {
  a.put(exit.instr);
  a.size(exit.objects.size());
  for (const LoopObject& o : exit.objects) {
    a.put(o.kind);
    objects.very_object(o.object.get());
    a(o.index, o.dtype, o.value, o.rank, o.parts);
  }
  a.size(exit.attributes.size());
  for (const LoopExit::Attribute& attribute : exit.attributes) {
    a(attribute.of, attribute.object);
    objects.object(attribute.name.get());
  }
  a(exit.locals, exit.stack, exit.kept, exit.why, exit.early, exit.wraps, exit.line, exit.returned);
}

LoopExit read_exit(ArchiveReader& a, ObjectReader& objects) {
  LoopExit exit;
  exit.instr = a.get<uint32_t>();
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    LoopObject o;
    o.kind = a.get<LoopObject::Kind>();
    o.object = objects.object();
    a(o.index, o.dtype, o.value, o.rank, o.parts);
    exit.objects.push_back(std::move(o));
  }
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) {
    LoopExit::Attribute attribute{};
    a(attribute.of, attribute.object);
    attribute.name = objects.object();
    a.ok = a.ok && attribute.name;
    exit.attributes.push_back(std::move(attribute));
  }
  a(exit.locals, exit.stack, exit.kept, exit.why, exit.early, exit.wraps, exit.line, exit.returned);
  return exit;
}

/// Do the numbers lead to what is there?
bool is_sound(const LoopProgram& program, const capture::CodeView& view) {
  const std::size_t fetched = program.fetched.size();
  if (program.exits.size() != program.cfg.exits.size() || program.cfg.blocks.empty()) return false;
  for (std::size_t i = 0; i < program.exits.size(); ++i) {
    const LoopExit& exit = program.exits[i];
    const std::size_t objects = exit.objects.size(), values = program.cfg.exits[i].values.size();
    const auto is_object = [objects](uint32_t number) { return number < objects; };
    for (const LoopObject& o : exit.objects)
      if (o.index >= std::max<std::size_t>(fetched, 1) || o.value > values || o.rank < 0 || o.rank > 64 ||
          !std::all_of(o.parts.begin(), o.parts.end(), is_object))
        return false;
    for (const LoopExit::Attribute& attribute : exit.attributes)
      if (attribute.of >= fetched || !is_object(attribute.object)) return false;
    for (const auto& [slot, object] : exit.locals)
      if (slot < 0 || slot >= view.local_count() || !is_object(object)) return false;
    if (exit.instr >= view.instrs().size() || exit.kept < 0 ||
        static_cast<std::size_t>(exit.kept) > exit.stack.size() ||
        !std::all_of(exit.stack.begin(), exit.stack.end(), is_object))
      return false;
  }
  for (const capture::UnboxedList& list : program.unboxed)
    if (list.list >= fetched) return false;
  const auto is_fetched = [fetched](uint32_t place) { return place < fetched; };
  return std::all_of(program.boxed.begin(), program.boxed.end(), is_fetched) &&
         std::all_of(program.written.begin(), program.written.end(), is_fetched) &&
         (!module::config().strict || cfg::verify(program.cfg).empty());
}

}  // namespace

void write_loop(ArchiveWriter& a, ObjectWriter& objects, const LoopProgram& program, const region::CompiledLoop& loop) {
  a.ok = a.ok && loop.captured() && !program.recursion;
  if (!a.ok) return;
  a.size(program.fetched.size());
  for (const capture::SourceRef& source : program.fetched) objects.source(source);
  a.size(program.held.size());
  for (const capture::HeldRef& held : program.held) objects.very_object(held.get());
  write_graph(a, objects, program, *loop.captured());
  a.size(program.exits.size());
  for (const LoopExit& exit : program.exits) write_exit(a, objects, exit);
  a(program.carried, program.line, program.last_line, program.has_scratch, program.grouped_products,
    program.has_long_vectors, program.stores_at_once, program.unboxed, program.boxed, program.written);
  a.put(loop.code() != nullptr);
  if (loop.code())
    a(loop.code()->kernel.name, loop.code()->kernel.bytes, loop.code()->goes_round, loop.code()->is_flat);
}

std::shared_ptr<LoopProgram> read_loop(ArchiveReader& a, ObjectReader& objects, const capture::CodeView& view,
                                       std::unique_ptr<region::LoopCode>& code) {
  auto program = std::make_shared<LoopProgram>();
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) program->fetched.push_back(objects.source());
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) program->held.emplace_back(objects.object());
  read_graph(a, objects, *program);
  for (std::size_t count = a.size(); count > 0 && a.ok; --count) program->exits.push_back(read_exit(a, objects));
  a(program->carried, program->line, program->last_line, program->has_scratch, program->grouped_products,
    program->has_long_vectors, program->stores_at_once, program->unboxed, program->boxed, program->written);
  if (a.get<bool>()) {
    code = std::make_unique<region::LoopCode>();
    a(code->kernel.name, code->kernel.bytes, code->goes_round, code->is_flat);
  }
  a.ok = a.ok && is_sound(*program, view) &&
         std::none_of(program->fetched.begin(), program->fetched.end(), [](const auto& source) { return !source; });
  return a.ok ? program : nullptr;
}

}  // namespace framejit::ext::dispatch
