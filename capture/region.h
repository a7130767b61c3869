// Region: what capture gives to the compiler - a graph, guards, inputs, and how to leave.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "capture/break.h"
#include "capture/code_view.h"
#include "capture/guard.h"
#include "capture/loops/loop_program.h"
#include "capture/loops/prediction.h"
#include "capture/session.h"
#include "capture/splice.h"

namespace framejit::capture {

/// What is done to a set, in order, from the empty one on.
enum SetChange : int { kSetAdd, kSetUpdate, kSetDiscard, kSetClear };
/// False: an error is set.
bool change_set(PyObject* set, int how, PyObject* operand);

/// How to make an object that is live at the exit. A tree; equal objects share one recipe (by index), so that identity
/// holds. All recipes are made before the first effect is committed and before the first slot of the frame is written.
/// Lists, dicts and cells may contain themselves: make them empty first, fill them last.
struct Recipe {
  enum class Kind : uint8_t {
    Null,      // NULL on the stack, or an unbound local
    Constant,  // object
    Fetch,     // source
    Result,    // graph result `index`, given back as `wrap` (a view result: see graph type's root)
    Choice,    // items: a number, and the objects of which it chooses one, from 0 on
    Int,       // Python int: value of `dim`
    Tuple,
    List,
    Dict,
    Set,  // items: a SetChange and its operand, in turn
    Slice,
    Range,        // items (Dict: key, value, key, value ...)
    Function,     // items: code, globals, name, defaults or null, kwdefaults or null, closure or null,
                  // __annotate__ or null (annotations: object)
    BoundMethod,  // items: self, function
    Cell,         // items: contents or nothing
    Iterator,     // object: the type to call on items (enumerate, zip, reversed; null: iter(), of the range of the
                  // items if they are three); then advanced `index` times
    Instance,     // of the class `object`, made by object.__new__; items: name, value, name, value ...
    Call,         // object(*items): a C function that runs no user code
    Text,         // the same, once all numbers are known
    Method,       // getattr(items[0], object): a C method of an exact builtin or array; runs no user code
  } kind;
  HeldRef object;
  SourceRef source;
  uint32_t index = 0;
  Wrap wrap = Wrap::NdArray;
  Writing writing = Writing::Allowed;  // Result: what is more than its base says
  graph::Dim dim;
  std::vector<uint32_t> items;  // indices into Region::recipes
};

/// A plain store that is made after the graph has succeeded. In program order.
struct Effect {
  enum class Kind : uint8_t {
    StoreCell,    // target[0] cell, value (none: delete)
    StoreGlobal,  // object: dict, key, value (none: delete)
    StoreAttr,    // target, key, value: instance dict store, no user code
    StoreItem,    // target exact list or dict, key recipe, value (none: delete, of a dict)
    ListExtend,   // target exact list, items: values
    ListReplace,  // target exact list: items become its contents
    SetChange,    // target exact set: the SetChange `key` with the operand `value`
    CountCall,    // of the functools.lru_cache wrapper `object`: a hit of `source`, or (none) a miss
    Print,        // `object` is print, called with the items; the last ones are named by the tuple `name`, if any
  } kind;
  int32_t target = -1, key = -1, value = -1;  // recipe indices, -1: none
  HeldRef object;
  HeldRef name;
  std::vector<uint32_t> items;
  SourceRef source;
};

struct Region {
  std::string function;  // qualified name, for logs
  std::shared_ptr<const CodeView> view;
  uint32_t entry = 0;
  bool is_call =
      false;  // a call begins here: no instruction has changed the frame's variables, nor made cells // Instr index
  uint32_t exit = 0;                    // Instr index; with `returns`: of the return instruction
  bool returns = false;                 // the region ends by returning recipe `result`
  bool passes_exit = false;             // it may come by its exit before it is there for good
  std::unique_ptr<graph::Graph> graph;  // its results are what the recipes' Result indices name
  /// A nest of loops that runs in place of the graph, which has params only; it has exits of its own.
  std::shared_ptr<LoopProgram> loop;
  std::vector<Guard> guards;
  std::vector<Input> inputs;    // one for each graph param
  std::vector<Origin> origins;  // of the graph's calls
  std::vector<Recipe> recipes;
  std::vector<std::pair<int, uint32_t>> locals;  // localsplus slots that change: recipe
  std::vector<int> overwritten;                  // localsplus slots that do not keep what they held at the entry
  std::vector<uint32_t> stack;                   // recipes, bottom first, at the exit
  uint32_t kept = 0;                             // entries of the stack at the entry that stay at its bottom
  uint32_t result = 0;                           // with `returns`
  std::vector<Effect> effects;
  std::vector<Break> breaks;  // the break that ended it (none with `returns`), and callees not inlined
  uint32_t instructions = 0;  // executed symbolically
  HeldRef globals, builtins;  // of the frame: the region fits no other function with the same code
};

/// A loop of a ufunc of NumPy's over float64, whose results are float64 or bool.
struct ScalarLoop {
  void (*function)(char** args, const intptr_t* count, const intptr_t* steps, void* data);
  void* data;
  bool gives_bool;
  bool same_at_every_place;  // of several numbers, each gives what it would give alone
};

/// The sum of the products of `count` float64 at two addresses, so many bytes apart, which is written to `result`.
using VectorDot = void (*)(void* a, intptr_t a_step, void* b, intptr_t b_step, void* result, intptr_t count, void*);

/// A product of a vector and a matrix as NumPy's loop of matmul would be called, or false. Products of one `site` are
/// expected to follow each other, round after round.
using GroupedProduct = bool (*)(graph::DType dtype, char** places, const intptr_t* counts, const intptr_t* steps,
                                int64_t site);

struct CaptureOptions {
  bool fullgraph = false;
  bool o1 = false;
  bool loops = false;       // those over scalars and elements are left to be compiled as loops
  bool any_work = false;    // a region without array work is one too (stress)
  int64_t break_every = 0;  // stress: a region ends after so many instructions of its own frame; 0: never for that
  uint32_t instruction_limit = 20000;    // executed at most, and for each graph node
  uint32_t instructions_per_node = 100;  // so many more: deep networks need 20 to 30
  uint32_t idle_limit = 5000;            // instructions at most since the last array operation
  int64_t time_limit_ns = 0;             // of the thread's own time; 0: none
  /// Graph nodes at most: passes and code generation take longer than capture.
  uint64_t most_nodes() const { return instruction_limit / 4; }
  /// The same for one loop of a function that has to be one graph.
  uint64_t most_nodes_of_loop() const { return instruction_limit * uint64_t{3} / 2; }
  uint32_t inline_depth = 16;
  uint32_t recursive_calls = 400;  // of a function from within itself, followed in one capture
  uint32_t variants = 0;           // entries that were made for this place before
  uint32_t unroll_nodes = 4000;    // graph nodes that one loop of many rounds may add before it is left to the bytecode
  uint32_t unroll_rounds = 32;     // rounds that are not many: the layers of a network
  /// The Python function behind a callable (a jitted function), borrowed, or null.
  PyObject* (*unwrap)(PyObject* callable) = nullptr;
  /// The Python function behind a callable that runs it and may raise other errors than it does; borrowed, or null.
  PyObject* (*explained)(PyObject* callable) = nullptr;
  /// The Python function that a function of NumPy's runs where no argument has a __array_function__ of its own;
  /// borrowed, or null.
  PyObject* (*implementation)(PyObject* callable) = nullptr;
  /// The loop of a ufunc of NumPy's with `count` operands of `dtype` (float64 or float32) and one result, or null.
  /// `of_ints`: the operands are integers that NumPy converts to `dtype`; null if the ufunc has a loop for integers.
  /// Lives for ever.
  const struct ScalarLoop* (*scalar_loop)(PyObject* callable, int count, graph::DType dtype, bool of_ints) = nullptr;
  /// The loop of NumPy's operator of this name with operands and results of a dtype; without a function: there is none.
  struct ScalarLoop (*array_loop)(const char* ufunc, graph::DType dtype) = nullptr;
  /// Does NumPy ignore the floating-point flags, as np.errstate is now?
  bool (*ignores_flags)(unsigned flags) = nullptr;
  /// A scalar of NumPy, of a value in memory.
  PyObject* (*make_scalar)(graph::DType dtype, const void* value) = nullptr;
  VectorDot vector_dot = nullptr;            // NumPy's, for np.dot and @ of vectors of float64
  GroupedProduct grouped_product = nullptr;  // of compiled loops, at O1
  /// The Python function that is followed in place of a C function or type, borrowed, or null.
  PyObject* (*polyfill)(PyObject* callable) = nullptr;
  /// capture_mode='trace': the one way that a branch on an array value goes is recorded. Gives the truth of a region
  /// that gives a bool, for what is captured from; nothing where it cannot be had. Unset: both ways become blocks of
  /// the graph.
  std::function<std::optional<bool>(std::shared_ptr<struct Region>)> decide;
  /// Code that is never inlined (framejit.disable).
  bool (*leave_alone)(PyCodeObject* code) = nullptr;
};

/// Facts about a loop that its compiled code has found out. The loop is captured again then.
struct LoopFindings {
  bool wraps_indices = false;  // indices that are a natural number less a constant are often below 0
  bool boxes_lists = false;    // lists cannot give their numbers to the loop, or that takes longer than the loop
};

struct CaptureRequest {
  std::shared_ptr<const CodeView> view;
  uint32_t entry = 0;    // an Instr index
  bool is_call = false;  // a call begins: the variables are its arguments, the stack is empty, cells are not made
  FrameView frame;       // concrete locals and stack
  const Varied* varied = nullptr;
  /// Heads of loops (Instr indices) that earlier captures found to be too long and to do no array work: captures end in
  /// front of them.
  std::set<uint32_t>* element_loops = nullptr;
  /// Those that cannot be compiled as loops.
  const std::set<uint32_t>* bytecode_loops = nullptr;
  /// Loops of which earlier captures found that they would not compile.
  RefusedLoops* refused_loops = nullptr;
  /// The facts about the loop that begins at `entry`; null: it is no such loop.
  std::shared_ptr<LoopFindings> findings;
  std::vector<Frontend*> frontends;
  CaptureOptions options;
};

struct CaptureOutcome {
  std::shared_ptr<Region> region;  // null: nothing worth compiling (no graph node) before the break
  std::vector<Break> breaks;
  /// Code of the callees that were being followed where capture stopped.
  std::vector<Ref<PyCodeObject>> reached;
  /// A signal came. Nothing was found out: the interpreter runs its handler, and capture is tried again another time.
  bool interrupted = false;
  /// Recursive calls were too many: those that many levels further in may be few enough.
  uint32_t unfinished_levels = 0;
  uint64_t work = 0;        // in instructions
  bool array_work = false;  // was found, whether a region came of it or not
  bool returned = false;    // the end was reached, whether a region came of it or not
};

/// Executes symbolically from the entry to a return or to the first break. Runs no user code, has no effect on any
/// object.
CaptureOutcome capture(const CaptureRequest& request);

}  // namespace framejit::capture
