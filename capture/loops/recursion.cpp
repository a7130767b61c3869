// Running recursions, and which functions are compiled as such.
#include "capture/loops/recursion.h"

#include <algorithm>
#include <bit>
#include <climits>

#include "capture/direct_calls.h"
#include "capture/loops/loop_instructions.h"
#include "capture/py/c_stack.h"

namespace framejit::capture {

using Kind = Typed::Kind;

namespace {

struct Abandoned {};  // of an interpreted graph

}  // namespace

int64_t Recursion::run(Kernel kernel, const cfg::Cfg& graph, const cfg::Inputs& inputs, int64_t* out,
                       const unsigned char* poll_byte, int64_t most_depth) {
  symbols = inputs.symbols;
  pointers = inputs.pointers;
  objects = inputs.objects;
  poll = poll_byte;
  depth = most_depth;
  calls = 0;
  if (kernel && depth < self.inlined) return at_start;
  graph_ = &graph;
  const py::StackEnds& ends = py::stack_ends();
  // Stacks that a program has made itself, outside of the thread's, are taken for large ones.
  stack_limit = py::stack_position() >= ends.end ? ends.end + ends.low : 0;
  if (kernel) {
    // Machine code leaves nothing that has to be put in order.
    give_up = [](cfg::SelfCallRun* r) { std::longjmp(static_cast<Recursion*>(r)->start_, 1); };
    if (_setjmp(start_) == 0) return kernel(symbols, pointers, objects, out, poll);
  } else {
    give_up = [](cfg::SelfCallRun*) { throw Abandoned{}; };
    try {
      return cfg::interpret(graph, inputs, out, INT64_MAX);
    } catch (const Abandoned&) {
    }
  }
  calls = 0;
  return at_start;
}

int64_t recurse(int64_t recursion, int64_t first, int64_t second, int64_t third, int64_t fourth) {
  auto& r = *static_cast<Recursion*>(reinterpret_cast<cfg::SelfCallRun*>(recursion));
  if (--r.depth < 0 || *r.poll != 0 || py::stack_position() < r.stack_limit) r.give_up(&r);
  ++r.calls;
  int64_t symbols[Recursion::kMostInputs];
  char* pointers[Recursion::kMostInputs];
  std::copy_n(r.symbols, r.symbol_count, symbols);
  std::copy_n(r.pointers, r.pointer_count, pointers);
  int64_t given[Recursion::kMostArguments] = {first, second, third, fourth};
  for (std::size_t k = 0; k < r.self.arguments.size(); ++k) {
    const cfg::SelfCalls::Argument& argument = r.self.arguments[k];
    if (argument.is_float) pointers[argument.input] = reinterpret_cast<char*>(&given[k]);
    else symbols[argument.input] = given[k];
  }
  int64_t out[Recursion::kMostValues];
  const int64_t exit = cfg::interpret(*r.graph_, {symbols, pointers, r.objects}, out, INT64_MAX);
  ++r.depth;
  const int32_t place = r.self.results[static_cast<std::size_t>(exit)];
  if (place < 0) r.give_up(&r);
  return out[place];
}

double recurse_to_float(int64_t recursion, int64_t first, int64_t second, int64_t third, int64_t fourth) {
  return std::bit_cast<double>(recurse(recursion, first, second, third, fourth));
}

// Translation.

/// The arguments of the function, each a number that is an input of the graph.
void enter_recursion(LoopTranslator& t, const LoopState& state) {
  const PyCodeObject* code = t.request.view->code();
  t.program->recursion = std::make_shared<Recursion>();
  Recursion& r = *t.program->recursion;
  r.self.function = {"recurse",
                     t.recursion.result == Kind::Float ? reinterpret_cast<const void*>(&recurse_to_float)
                                                       : reinterpret_cast<const void*>(&recurse),
                     t.recursion.result == Kind::Float ? cfg::Type::F64 : cfg::Type::I64, 1 + Recursion::kMostArguments,
                     cfg::Type::I64};
  for (int k = 0; k < code->co_argcount; ++k) {
    const Typed v = known(t, state.frames[0].locals[static_cast<std::size_t>(k)]);
    const bool is_float = v.kind == Kind::Float;
    if (!is_float && v.kind != Kind::Int) throw NotCompiled{"an argument that is no int or float"};
    const cfg::Node& n = t.cfg.at(v.ids[0]);
    const bool is_input =
        is_float ? n.op == cfg::Op::Load && t.cfg.at(n.args[0]).op == cfg::Op::Pointer : n.op == cfg::Op::Symbol;
    if (!is_input) throw NotCompiled{"an argument that is a constant"};
    r.self.arguments.push_back({is_float, static_cast<uint32_t>(is_float ? t.cfg.at(n.args[0]).imm : n.imm)});
    t.recursion.parameters.push_back(v.kind);
  }
  LoopExit start;
  start.instr = t.request.entry;
  start.line = t.request.view->instrs()[t.request.entry].line;
  start.early = true;
  r.at_start = static_cast<uint32_t>(t.cfg.exits.size());
  t.program->exits.push_back(std::move(start));
  t.cfg.exits.emplace_back();
}

bool is_itself(LoopTranslator& t, Value* function, const std::vector<Typed>& args) {
  if (!t.program->recursion || !function->source || !PyFunction_Check(function->object.get())) return false;
  const auto* object = reinterpret_cast<PyFunctionObject*>(function->object.get());
  return object->func_code == reinterpret_cast<PyObject*>(t.request.view->code()) &&
         object->func_globals == t.request.frame.globals && args.size() == t.recursion.parameters.size();
}

Typed call_itself(LoopTranslator& t, Value* function, const std::vector<Typed>& args) {
  if (t.recursion.result == Kind::Unbound) throw NotCompiled{"a recursive call"};
  cfg::Node n;
  n.op = cfg::Op::CallItself;
  n.exit = t.program->recursion->at_start;
  n.function = &t.program->recursion->self.function;
  n.type = n.function->result;
  n.args[0] = t.address(static_cast<cfg::SelfCallRun*>(t.program->recursion.get()));
  std::fill(n.args + 1, n.args + n.function->operands, t.integer(0));
  for (std::size_t k = 0; k < args.size(); ++k) {
    const Typed v = known(t, args[k]);
    if (v.kind != t.recursion.parameters[k]) throw NotCompiled{"a recursive call with an argument of another type"};
    n.args[1 + k] = v.kind == Kind::Float ? t.op(cfg::Op::Bits, cfg::Type::I64, v.ids[0]) : v.ids[0];
  }
  guard_code(t, function);
  t.recursion.recurses = true;
  const cfg::Id made = t.add(n);
  return t.recursion.result == Kind::Float  ? of_float(made)
         : t.recursion.result == Kind::Bool ? of_bool(made)
                                            : of_int(made);
}

/// The function's end: the interpreter returns the value, or recurse() gives it.
void return_from_recursion(LoopTranslator& t, const Typed& v) {
  t.flush_pending();
  t.take_checkpoint(true);
  if (!t.state.checkpoint || t.state.checkpoint->pc != t.frame().pc) throw NotCompiled{"a result that cannot be kept"};
  const uint32_t exit = t.exit_at(*t.state.checkpoint, {});
  t.program->exits[exit].early = false;
  if (t.recursion.is_whole) t.recursion.recurses = true;
  cfg::Block& b = t.cfg.blocks[t.block];
  b.end = cfg::Block::End::Leave;
  b.exit = exit;
  t.ended = true;
  if (v.kind != Kind::Int && v.kind != Kind::Float && v.kind != Kind::Bool) return;
  t.recursion.results.push_back(v.kind);
  if (v.kind != t.recursion.result) return;
  std::vector<int32_t>& results = t.program->recursion->self.results;
  results.resize(exit + 1, -1);
  results[exit] = static_cast<int32_t>(t.cfg.exits[exit].values.size());
  t.cfg.exits[exit].values.push_back(v.ids[0]);
}

std::string finish_recursion(LoopTranslator& t) {
  if (t.recursion.is_whole) {
    if (!t.recursion.recurses) return t.first_why.empty() ? "no return of it is compiled" : t.first_why;
    bool stores = false, has_objects = false;
    for (const cfg::Node& n : t.cfg.nodes) {
      if (n.op == cfg::Op::Update) return "a change of a list";
      stores = stores || n.op == cfg::Op::Store;
      has_objects = has_objects || n.op == cfg::Op::Object;
    }
    if (stores && has_objects) return "stores, next to objects that are not arrays";  // only arrays are taken back
    return {};
  }
  Recursion& r = *t.program->recursion;
  if (!t.recursion.recurses) return t.first_why.empty() ? "no recursive call of it is compiled" : t.first_why;
  r.self.results.resize(t.cfg.exits.size(), -1);
  for (const cfg::Exit& e : t.cfg.exits)
    if (e.values.size() > Recursion::kMostValues) return "too many variables";
  for (const cfg::Node& n : t.cfg.nodes) {
    if (n.op == cfg::Op::Symbol || n.op == cfg::Op::Pointer) {
      std::size_t& count = n.op == cfg::Op::Symbol ? r.symbol_count : r.pointer_count;
      count = std::max(count, static_cast<std::size_t>(n.imm) + 1);
      if (count > Recursion::kMostInputs) return "too many inputs";
    }
    if (cfg::info(n.op).effect == cfg::Effect::Writes) return "stores";
  }
  return {};
}

Expected<std::shared_ptr<Region>, Break> capture_recursion(const CaptureRequest& request) {
  // What it gives where it does not call itself is what its calls give.
  LoopTranslator first(request, Kind::Unbound);
  auto nothing = first.run();
  const std::optional<Kind> result = first.result_of_recursion();
  if (!result) return nothing;
  return LoopTranslator(request, *result).run();
}

Expected<std::shared_ptr<Region>, Break> capture_function(const CaptureRequest& request) {
  LoopTranslator translator(request, Kind::Unbound);
  translator.recursion.is_whole = true;
  return translator.run();
}

std::optional<Typed::Kind> LoopTranslator::result_of_recursion() const {
  if (recursion.results.empty()) return std::nullopt;
  for (const Kind kind : recursion.results)
    if (kind != recursion.results[0]) return std::nullopt;
  return recursion.results[0];
}

bool may_recurse(const CaptureRequest& request) {
  const PyCodeObject* code = request.view->code();
  constexpr int kOther =
      CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  if ((code->co_flags & kOther) || code->co_kwonlyargcount || code->co_nfreevars || code->co_ncellvars ||
      code->co_argcount == 0 || code->co_argcount > static_cast<int>(Recursion::kMostArguments) ||
      request.frame.depth != 0 || !PyDict_CheckExact(request.frame.globals))
    return false;
  for (const GlobalCall& call : global_calls(*request.view)) {
    PyObject* callable = PyDict_GetItemWithError(request.frame.globals, call.name);
    if (!callable) PyErr_Clear();
    else if (PyObject* function = PyFunction_Check(callable) ? callable : request.options.unwrap(callable);
             function && reinterpret_cast<PyFunctionObject*>(function)->func_code ==
                             reinterpret_cast<PyObject*>(request.view->code()))
      return true;
  }
  return false;
}

}  // namespace framejit::capture
