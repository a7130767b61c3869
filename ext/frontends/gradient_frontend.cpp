// The functions that framejit._autodiff._primitives gives to _core.set_tape_functions. Called, they keep a tape;
// captured, they are these:
//
//     begin(), begin(True)     where the function that is differentiated begins: a Tuple of the number of nodes so far.
//                              True: for a step of a tape. Whole numbers vary in arrays too, not in Tensors alone, and
//                              the gradient of an input that nothing flows to is (), so that the tape stops there
//     is_kept()                has any begun?
//     close(tape)              nothing
//     watch(tape, x)           x under a value of its own, so that no other use of the same array counts
//     pull(tape, outputs, seeds, inputs)
//                              the gradients: nodes that graph/passes/grad.h appends. A seed of None is ones
//     restore(x, watched, given)
//                              x, a result, or where it is one of those watched the very array
//     stop(x)                  a copy through which no gradient goes
//     ones(x)                  an array of ones like x
//     quiet()                  a mark: a Tuple of two numbers
//     check_quiet(mark)        nothing, and a break if what was there before has changed since
#include "ext/frontends/gradient_frontend.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ext/arrays/numpy_api.h"
#include "ext/frontends/function_frontend.h"
#include "ext/frontends/library_gradients.h"
#include "ext/frontends/numpy/ops.h"
#include "ext/module/module.h"
#include "graph/layout.h"
#include "graph/passes/grad.h"

namespace framejit::ext::frontends {

using capture::BreakId;
using capture::Keyword;
using capture::ValueKind;

namespace {

enum class TapeFunction : uint8_t { Begin, IsKept, Close, Watch, Pull, Restore, Stop, Ones, Quiet, CheckQuiet, Count };
constexpr const char* kNames[] = {"begin",   "is_kept", "close", "watch", "pull",
                                  "restore", "stop",    "ones",  "quiet", "check_quiet"};
static_assert(std::size(kNames) == static_cast<std::size_t>(TapeFunction::Count));

std::array<PyObject*, std::size(kNames)> functions{};  // kept for the life of the process

std::optional<TapeFunction> tape_function(PyObject* callable) {
  for (std::size_t i = 0; i < functions.size(); ++i)
    if (functions[i] == callable && callable) return static_cast<TapeFunction>(i);
  return std::nullopt;
}

bool is_inexact(DType dtype) { return graph::is_float(dtype) || graph::is_complex(dtype); }

class GradientFrontend final : public FunctionFrontend {
 public:
  std::string_view name() const override { return "gradients"; }
  bool knows(PyObject* callable) const override { return tape_function(callable).has_value(); }

  Captured<Value*> call(Session& session, PyObject* callable, std::span<Value* const> args,
                        std::span<const Keyword> keywords) override {
    static constexpr std::size_t kArguments[] = {0, 0, 1, 2, 4, 3, 1, 1, 0, 1};
    const TapeFunction function = *tape_function(callable);
    const bool of_all = function == TapeFunction::Begin && args.size() == 1 && args[0]->is_constant();
    if (!keywords.empty() || (!of_all && args.size() != kArguments[static_cast<std::size_t>(function)]))
      return break_at(BreakId::UnsupportedArgument, "arguments of a function of tapes");
    switch (function) {
      case TapeFunction::Begin: return begin(session, of_all && args[0]->object.get() == Py_True);
      case TapeFunction::IsKept: return session.values().constant(session.tapes().any() ? Py_True : Py_False);
      case TapeFunction::Close: return session.values().constant(Py_None);
      case TapeFunction::Watch: return watch(session, args[0], args[1]);
      case TapeFunction::Pull: return pull(session, args[0], args[1], args[2], args[3]);
      case TapeFunction::Restore: return restore(args[0], args[1], args[2]);
      case TapeFunction::Stop: return stop(session, args[0]);
      case TapeFunction::Ones: return ones(session, args[0]);
      case TapeFunction::Quiet: return quiet(session);
      case TapeFunction::CheckQuiet: return check_quiet(session, args[0]);
      case TapeFunction::Count: break;
    }
    return not_ours();
  }

 private:
  static Captured<Value*> begin(Session& session, bool of_all) {
    const auto nodes = static_cast<int64_t>(session.graph().body().nodes.size());
    Value* tape = session.values().tuple({session.values().integer(nodes)});
    if (of_all) tape->items.push_back(session.values().constant(Py_True));
    tape->transient = true;
    session.tapes().add();
    return tape;
  }

  static Captured<std::size_t> first_node(Value* tape) {
    if (tape->kind != ValueKind::Tuple || !tape->transient)
      return break_at(BreakId::UnsupportedArgument, "a tape that runs already");
    return static_cast<std::size_t>(PyLong_AsLongLong(tape->items[0]->object.get()));
  }

  static bool is_of_all(const Value& tape) { return tape.items.size() == 2; }

  /// A float as a value of the graph.
  static Captured<Value*> as_array(Session& session, Value* x) {
    if (x->is_array()) return x;
    if (!x->is_constant() || !PyFloat_CheckExact(x->object.get()))
      return break_at(BreakId::UnsupportedArgument, "a gradient with respect to an argument that is not an array");
    const double number = PyFloat_AS_DOUBLE(x->object.get());
    graph::Scalar bits;
    std::memcpy(&bits.lo, &number, sizeof number);
    return session.values().array(session.builder().constant(DType::F64, bits), Wrap::PyFloat);
  }

  static Captured<Value*> watch(Session& session, Value* tape, Value* x) {
    FRAMEJIT_REQUIRE(first_node(tape));
    FRAMEJIT_TRY(array, as_array(session, x));
    const graph::Type type = session.graph().type(array->id());
    if (!is_inexact(type.dtype) && array->wrap() != Wrap::Tensor && !is_of_all(*tape))
      return break_at(BreakId::UnsupportedArgument, "a gradient with respect to integers");
    const ValueId id = type.rank() == 0 ? session.builder().copy(array->id(), 'C')
                                        : session.builder().view(array->id(), type.shape, type.strides, 0);
    Value* watched = session.values().array(id, array->wrap());
    watched->as_array().weak = array->is_weak();
    Value* before = array->as_array().attributes_of;
    watched->as_array().attributes_of = before ? before : array;
    return watched;
  }

  /// The seed in the shape and dtype of the output.
  static Captured<ValueId> seed_of(Session& session, ValueId output, Value* seed) {
    graph::GraphBuilder& builder = session.builder();
    const graph::Type type = session.graph().type(output);
    ValueId id;
    if (seed->is_none()) {
      id = one(session, type.dtype);
    } else {
      FRAMEJIT_TRY(array, as_array(session, seed));
      FRAMEJIT_TRY(converted, cast(session, array->id(), type.dtype));
      id = converted;
    }
    if (session.graph().type(id).rank() == 0 && type.rank() > 0) return builder.full(id, type.shape);
    const graph::Dims given = session.graph().type(id).shape;
    bool fits = given.size() == type.shape.size();
    for (std::size_t i = 0; fits && i < given.size(); ++i)
      fits = session.graph().shapes().fits(given[i], type.shape[i]);
    if (!fits) return break_at(BreakId::WouldRaise, "sens of another shape than the output");
    return id;
  }

  static ValueId one(Session& session, DType dtype) {
    const double number = 1;
    graph::Scalar bits;
    std::memcpy(&bits.lo, &number, sizeof number);
    const ValueId id = session.builder().constant(DType::F64, bits);
    return dtype == DType::F64 ? id : *session.builder().cast(id, dtype);
  }

  static Captured<Value*> pull(Session& session, Value* tape, Value* outputs, Value* seeds, Value* inputs) {
    graph::GradientRequest request;
    FRAMEJIT_TRY(first, first_node(tape));
    request.first = first;
    if (outputs->kind != ValueKind::Tuple || seeds->kind != ValueKind::Tuple || inputs->kind != ValueKind::Tuple ||
        outputs->items.size() != seeds->items.size())
      return break_at(BreakId::UnsupportedArgument, "outputs and seeds of a gradient");
    // Whole numbers vary in Tensors, as MindSpore has it, and not in arrays.
    request.integers = is_of_all(*tape) || std::any_of(inputs->items.begin(), inputs->items.end(), [](const Value* x) {
                         return x->is_array() && x->wrap() == Wrap::Tensor;
                       });
    for (std::size_t i = 0; i < outputs->items.size(); ++i) {
      const Value* output = outputs->items[i];
      if (!output->is_array() || !(request.integers || is_inexact(session.graph().type(output->id()).dtype))) continue;
      FRAMEJIT_TRY(seed, seed_of(session, output->id(), seeds->items[i]));
      request.outputs.push_back(output->id());
      request.seeds.push_back(seed);
    }
    for (const Value* input : inputs->items) {
      if (!input->is_array())
        return break_at(BreakId::UnsupportedArgument, "a gradient with respect to an argument that is not an array");
      request.wrt.push_back(input->id());
    }
    request.stops = session.tapes().stops();
    request.library = library_gradients(session);
    request.o1 = session.o1();
    const uint32_t location = session.position().location();
    session.graph().begin_gradient();
    auto made = graph::append_gradients(session.builder(), request);
    session.position().set_location(location);
    if (!made) return break_at(BreakId::NoGradient, made.error().why);
    if (!made->inserted.empty())
      session.undo().record([&graph = session.graph(), inserted = made->inserted] {
        std::vector<ValueId>& nodes = graph.body().nodes;
        std::erase_if(nodes,
                      [&](ValueId v) { return std::find(inserted.begin(), inserted.end(), v) != inserted.end(); });
      });
    std::vector<Value*> out;
    for (std::size_t i = 0; i < request.wrt.size(); ++i) {
      if (is_of_all(*tape) && !made->reached[i]) {
        out.push_back(session.values().tuple({}));
        continue;
      }
      const Wrap wrap = inputs->items[i]->wrap();
      ValueId id = made->values[i];
      if (wrap == Wrap::Tensor && !graph::is_c_contiguous(session.graph().shapes(), session.graph().type(id)))
        id = session.builder().copy(id, 'C');
      out.push_back(session.values().array(id, wrap));
    }
    return session.values().tuple(std::move(out));
  }

  static Captured<Value*> restore(Value* x, const Value* watched, const Value* given) {
    const bool sequences = watched->kind == ValueKind::Tuple && given->kind == ValueKind::Tuple;
    for (std::size_t i = 0; sequences && i < std::min(watched->items.size(), given->items.size()); ++i)
      if (x == watched->items[i]) return given->items[i];
    return x;
  }

  static Captured<Value*> stop(Session& session, Value* x) {
    if (!x->is_array()) return x;
    const ValueId id = session.builder().copy(x->id(), x->wrap() == Wrap::Tensor ? 'C' : 'K');
    session.tapes().add_stop(id);
    return session.values().array(id, x->wrap());
  }

  static Captured<Value*> quiet(Session& session) {
    const Session::Mark mark = session.mark();
    Value* out = session.values().tuple({session.values().integer(static_cast<int64_t>(mark.undo)),
                                         session.values().integer(static_cast<int64_t>(mark.values))});
    out->transient = true;
    return out;
  }

  static Captured<Value*> check_quiet(Session& session, const Value* given) {
    if (given->kind != ValueKind::Tuple || !given->transient)
      return break_at(BreakId::UnsupportedArgument, "a mark of another region");
    Session::Mark mark = session.mark();
    const auto number = [&](std::size_t i) {
      return static_cast<std::size_t>(PyLong_AsLongLong(given->items[i]->object.get()));
    };
    mark.undo = number(0);
    mark.values = number(1);
    if (!is_pure(session, mark)) return break_at(BreakId::UserEffect, "hooks of several gradients have effects");
    return session.values().constant(Py_None);
  }

  static Captured<Value*> ones(Session& session, Value* x) {
    FRAMEJIT_TRY(array, as_array(session, x));
    const graph::Type type = session.graph().type(array->id());
    return session.values().array(session.builder().full(one(session, type.dtype), type.shape), array->wrap());
  }
};

PyObject* set_tape_functions(PyObject*, PyObject* table) {
  if (!PyDict_CheckExact(table)) return PyErr_Format(PyExc_TypeError, "set_tape_functions() takes a dict");
  for (std::size_t i = 0; i < functions.size(); ++i) {
    PyObject* function = PyDict_GetItemString(table, kNames[i]);
    if (!function) return PyErr_Format(PyExc_KeyError, "%s", kNames[i]);
    Py_XSETREF(functions[i], Py_NewRef(function));
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_tape_functions", set_tape_functions, METH_O,
     "set_tape_functions(dict): the functions of framejit._autodiff that capture turns into gradients."},
    {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(43, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

std::unique_ptr<capture::Frontend> make_gradient_frontend() { return std::make_unique<GradientFrontend>(); }

}  // namespace framejit::ext::frontends
