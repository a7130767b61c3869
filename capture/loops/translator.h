// LoopTranslator: the bytecode of a nest of loops, executed over types, becomes a control-flow graph.
//
// A block of the graph is an instruction together with the types of all variables there: code is made anew for each
// combination of types that reaches it (basic block versioning), so that each value has one type and a variable that
// begins as an int and becomes a float needs no test. State that the interpreter may need is kept at checkpoints: in
// front of the first instruction of a block and behind each store. What follows a checkpoint may leave there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/code_view.h"
#include "capture/executor.h"
#include "capture/loops/loop_program.h"
#include "capture/loops/prediction.h"
#include "capture/loops/recursion.h"
#include "capture/region.h"

namespace framejit::capture {

/// The static type of a variable or a stack entry, and its SSA values.
struct Typed {
  enum class Kind : uint8_t {
    Unbound,
    Null,
    Object,
    Int,
    Bool,
    Float,
    Scalar,
    Complex,
    ComplexScalar,
    View,
    Range,
    RangeIterator,
    Tuple,
    List,
    Iterator,
    Joint
  };
  Kind kind = Kind::Unbound;
  Value* value = nullptr;        // Object: what it is
  int slot = -1;                 // Object: the local that holds it since the entry. RangeIterator: place on the
                                 // stack of the entry, of one that was there
  graph::DType dtype{};          // Scalar, View
  int64_t origin = 0;            // of what has an identity: equal for what is one object; 0: not known yet
  bool seldom_negative = false;  // Int: a natural number less a constant
  bool natural = false;          // Int, Scalar, RangeIterator: never below 0
  uint32_t array = 0;            // View: place in LoopProgram::fetched
  std::vector<cfg::Id> ids;      // its values: see LoopObject
  std::vector<Typed> items;      // Tuple. Iterator: what it goes over; none: it counts. Joint: iterators
  int object = -1;               // iterators that were there at the entry: place in LoopProgram::fetched
  std::string holds;  // List: what its items are: f, i, b, or l and what the items of these are; "": not known

  bool is_number() const {
    return kind == Kind::Int || kind == Kind::Bool || kind == Kind::Float || kind == Kind::Scalar;
  }
  bool is_complex() const { return kind == Kind::Complex || kind == Kind::ComplexScalar; }
  bool is_single() const { return is_number() || is_complex(); }
  /// Made by the loop, or a number: variables that hold one of these must hold one object at an exit.
  bool has_identity() const { return is_single() || kind == Kind::Tuple || kind == Kind::View || kind == Kind::Range; }
  /// An array, or what may be one.
  bool is_array() const;
  bool is_iterator() const { return kind == Kind::RangeIterator || kind == Kind::Iterator || kind == Kind::Joint; }
  bool is_integer() const {
    return kind == Kind::Int || kind == Kind::Bool || (kind == Kind::Scalar && !graph::is_float(dtype));
  }
};

/// Binary operators, by the numbers that BINARY_OP has for them; those in place follow.
enum BinaryKind {
  kAdd,
  kAnd,
  kFloorDiv,
  kShl,
  kMatmul,
  kMul,
  kRemainder,
  kOr,
  kPower,
  kShr,
  kSub,
  kTrueDiv,
  kXor,
  kBinaryKinds
};

class LoopTranslator {
 public:
  explicit LoopTranslator(const CaptureRequest& request);
  /// Of a function that calls itself, from its start on; `result`: what it gives, Unbound if that is not known.
  LoopTranslator(const CaptureRequest& request, Typed::Kind result);
  ~LoopTranslator();

  /// The region, or why the loop stays bytecode.
  Expected<std::shared_ptr<Region>, Break> run();
  /// Would the loop at which a capture has arrived be compiled? `graph`: that of the capture.
  bool would_compile(const SymbolicFrame& from, const graph::Graph& graph);
  /// What the function gives where it does not call itself; nothing if that has several types.
  std::optional<Typed::Kind> result_of_recursion() const;
  /// Why not: the first thing that it does not compile.
  const std::string& reason() const { return given_up_.empty() ? first_why_ : given_up_; }
  /// An instruction of the loop that works on a whole array, if one was met.
  std::optional<uint32_t> array_work() const { return array_work_; }

 private:
  struct Frame {
    std::shared_ptr<const CodeView> view;
    PyObject *globals, *builtins;
    uint32_t pc = 0;
    std::vector<Typed> locals, stack;
  };
  /// Attributes of existing instances that the loop has stored.
  struct Attribute {
    Typed value;
    Ref<> name;
  };
  using Attributes = std::map<std::pair<Value*, std::string>, Attribute>;
  struct Checkpoint {
    uint32_t pc;
    std::vector<Typed> locals, stack;
    Attributes attributes;
    int exit = -1;
    int number = 0;
  };
  struct State {
    std::vector<Frame> frames;
    Attributes attributes;
    std::shared_ptr<Checkpoint> checkpoint;
  };
  struct Given {
    State state;
    uint32_t block;
  };
  using Origins = std::map<int64_t, std::size_t>;
  /// Whoever else holds it would not see it advance.
  static constexpr const char* kHeldIterator = "an iterator that a variable holds";
  struct NotCompiled {
    std::string why;
    bool on_array = false;  // an operation on a whole array, which a region does better
  };

  // translator.cpp
  void enter(State& state);
  std::optional<Typed> iterator_at_entry(PyObject* o, const SourceRef& source);
  bool translate_all(State start);
  bool goes_round() const;
  Typed imagined(Value* v);
  void translate(Given given);
  void take_checkpoint(bool required);
  uint32_t exit_at(Checkpoint& checkpoint, std::string why);
  uint32_t exit();
  bool can_make(const Typed& v) const;
  uint32_t object_of(LoopExit& exit, std::vector<cfg::Id>& values, Origins& made, const Typed& v);
  uint32_t fetched(const SourceRef& source);
  void leave(std::string why);
  uint32_t level_of(uint32_t pc);
  cfg::Edge edge_to(State state);
  void jump(uint32_t target);
  void branch(cfg::Id condition, uint32_t yes, uint32_t no);
  void step(const Instr& i);
  std::string key_of(const State& state) const;
  void append_key(std::string& key, const Typed& v, Origins& origins) const;
  void flush_pending();
  bool in_nest(uint32_t pc) const;
  Frame& frame() { return state_.frames.back(); }
  Typed pop();
  Typed pop_known();
  void push(Typed v) {
    name(v);
    frame().stack.push_back(std::move(v));
  }
  void name(Typed& v) {
    if (v.has_identity() && v.origin == 0) v.origin = ++origins_;
    if (v.kind == Typed::Kind::Tuple)
      for (Typed& item : v.items) name(item);
  }
  [[noreturn]] void give_up(std::string why) const;

  // nodes
  cfg::Id add(cfg::Node node);
  cfg::Id op(cfg::Op op, cfg::Type type, cfg::Id a, cfg::Id b = cfg::kNone, cfg::Id c = cfg::kNone);
  cfg::Id exact(cfg::Op op, cfg::Id a, cfg::Id b);
  cfg::Id input(cfg::Op op, int64_t which);
  cfg::Id at_entry(cfg::Node node);
  cfg::Id integer(int64_t value);
  cfg::Id number(double value);
  cfg::Id call(const cfg::Function& function, cfg::Id a, cfg::Id b = cfg::kNone);
  void check(cfg::Id condition);
  void check_finite(cfg::Id value);
  cfg::Type type_of(cfg::Id id) const { return cfg_.at(id).type; }

  // loop_values.cpp
  Typed known(Typed v);
  Typed of_value(Value* v);
  Typed literal(PyObject* object);
  const Typed* array_of(const Typed& v);
  std::optional<Typed> list_of(const Typed& v);
  Typed item_of(const Typed& list, cfg::Id index);
  cfg::Id load(cfg::Id base, int offset, cfg::Mem mem = cfg::Mem::I64, cfg::Id index = cfg::kNone, int scale = 1);
  void check_type(cfg::Id object, PyTypeObject* type);
  void update(const cfg::Function& function, cfg::Id a, cfg::Id b);
  cfg::Id dim(const graph::Dim& d);
  cfg::Id truth(const Typed& v);
  static Typed of_int(cfg::Id id, bool natural = false);
  static Typed of_bool(cfg::Id id);
  static Typed of_float(cfg::Id id);
  static Typed of_scalar(cfg::Id id, graph::DType dtype);
  cfg::Id as_f64(const Typed& v);
  cfg::Id settled(cfg::Id id);

  // loop_attributes.cpp
  std::optional<Typed> stored_attribute(const Typed& v, PyObject* name);
  void store_attribute(const Typed& v, PyObject* name, const Typed& value);
  void keep_apart(const Value* from, const std::string& name,
                  const std::vector<std::pair<Value*, std::string>>& others);

  // recursion.cpp
  void enter_recursion(const State& state);
  bool is_itself(Value* function, const std::vector<Typed>& args) const;
  Typed call_itself(Value* function, const std::vector<Typed>& args);
  void return_from_recursion(const Typed& v);
  std::string finish_recursion();

  // loop_complex.cpp
  static Typed of_complex(cfg::Id real, cfg::Id imaginary, bool of_numpy);
  Typed as_complex(const Typed& v);
  Typed complex_result(cfg::Id real, cfg::Id imaginary, bool of_numpy, bool may_recover);
  Typed complex_product(const Typed& x, const Typed& y, bool of_numpy);
  Typed complex_quotient(const Typed& x, const Typed& y, bool of_numpy);
  Typed complex_power(const Typed& x, const Typed& y, bool of_numpy);
  Typed complex_binary(int op, const Typed& a, const Typed& b);
  Typed complex_unary(Opcode op, const Typed& v);
  Typed complex_compare(int op, const Typed& a, const Typed& b);
  Typed complex_part(const Typed& v, const std::string& name);
  Typed complex_length(const Typed& v);
  Typed make_complex(const std::vector<Typed>& args);

  // loop_operators.cpp
  Typed binary(int nb, const Typed& a, const Typed& b);
  Typed int_binary(int op, const Typed& a, const Typed& b);
  Typed float_binary(int op, cfg::Id a, cfg::Id b);
  Typed scalar_binary(int op, const Typed& a, const Typed& b);
  Typed unary(Opcode op, const Typed& v);
  Typed compare(int op, const Typed& a, const Typed& b);
  cfg::Id contains(const Typed& container, const Typed& item);
  cfg::Id converted(const Typed& v, graph::DType to);
  cfg::Id in_range(cfg::Id value, graph::DType dtype);
  Typed get_item(const Typed& container, const Typed& key);
  void set_item(const Typed& container, const Typed& key, const Typed& value);
  cfg::Id index(const Typed& v, cfg::Id length);
  struct Place {
    cfg::Id base, at;
    Typed view;
  };
  Place place_of(const Typed& array, const Typed& key);

  // loop_calls.cpp
  void do_call(const Instr& i);
  Typed call_builtin(PyObject* callable, std::vector<Typed>& args);
  bool is_extremum_of_kinds(PyObject* callable, const std::vector<Typed>& args) const;
  void choose(PyObject* callable, const std::vector<Typed>& args);
  Typed call_math(const char* name, std::vector<Typed>& args);
  std::optional<Typed> call_numpy(PyObject* callable, std::vector<Typed>& args);
  std::optional<Typed> call_scalar_loop(PyObject* callable, const std::vector<Typed>& args);
  void enter_function(Value* function, std::vector<Typed> args);
  void guard_code(Value* function);
  void do_return(Typed v);
  Typed get_attr(const Typed& v, PyObject* name);
  void get_iter();
  void for_iter(const Instr& i);
  void for_item(const Instr& i);
  Typed iterator_over(const Typed& v);
  cfg::Id has_more(const Typed& iterator);
  Typed take(Typed& iterator);
  void set_range(cfg::Id iterator, cfg::Id next, cfg::Id left);
  void store(cfg::Id object, int offset, cfg::Id value);
  void give_back(const Typed& v);
  bool load_method(const Typed& v, PyObject* name);
  void append(const Typed& list, const Typed& item);

  const CaptureRequest& request_;
  Varied varied_;
  Session session_;
  Executor executor_;
  std::shared_ptr<LoopProgram> program_;
  cfg::Cfg& cfg_;
  uint32_t head_, last_;                              // of the nest: its instructions
  std::vector<std::pair<uint32_t, uint32_t>> loops_;  // the first and last instruction of each
  State state_;                                       // of the block that is being made
  uint32_t block_ = 0;
  bool ended_ = false;
  std::vector<Given> open_;
  std::unordered_map<std::string, uint32_t> blocks_;
  std::vector<uint32_t> begins_at_;   // by block: the instruction of the outermost frame, or none
  std::map<uint32_t, int> versions_;  // by instruction of the outermost frame
  std::unordered_map<const CodeView*, std::vector<bool>> targets_;
  std::unordered_map<PyCodeObject*, std::shared_ptr<const CodeView>> views_;
  std::unordered_map<const Value*, Typed> known_;
  std::unordered_map<int64_t, cfg::Id> integers_;
  std::map<std::pair<int, int64_t>, cfg::Id> inputs_;
  std::vector<cfg::Id> pending_;                    // results of NumPy scalars: not finite, NumPy may have to warn
  std::vector<bool> written_;                       // by graph param
  std::map<std::size_t, PyObject*> array_objects_;  // by graph param: alive during capture
  std::vector<bool> stored_;                        // by local
  std::map<PyObject*, int> iterators_;              // of the entry, with their places in LoopProgram::fetched
  std::vector<cfg::Id> entry_checks_;               // what the loop relies upon of the entry's values
  const graph::Graph* imagined_graph_ = nullptr;    // of values that are known by their types only
  static constexpr int kImagined = 1 << 20;         // `slot` of such an array
  std::string first_why_, given_up_;
  std::optional<uint32_t> array_work_;  // an operation on a whole array, in the outermost frame
  int first_line_ = 0;
  uint64_t steps_ = 0;
  int checkpoints_ = 0;
  int64_t origins_ = 0;
  std::vector<std::pair<Value*, std::string>> read_attributes_, stored_attributes_;  // at any place
  bool is_recursion_ = false, recurses_ = false;
  Typed::Kind result_ = Typed::Kind::Unbound;  // of a recursion
  std::vector<Typed::Kind> parameters_, results_;
  std::unordered_map<PyObject*, Typed> literals_;  // of the code's constants, which live as long as it
};

/// A nest of loops that begins at the request's entry, the head of a loop, as a region that runs as one function of
/// machine code.
Expected<std::shared_ptr<Region>, Break> capture_loop(const CaptureRequest& request);
/// A function that calls itself, from the request's entry, the first instruction that may be left, on.
Expected<std::shared_ptr<Region>, Break> capture_recursion(const CaptureRequest& request);
/// Does the function call itself by its global name, with few arguments?
bool may_recurse(const CaptureRequest& request);
/// How many rounds the loop whose head a frame stands at has before it, if an iterator tells; else -1.
int64_t rounds_before(const CodeView& view, uint32_t head, const LiveSlots& live);
/// Is the instruction the head of a loop?
bool is_loop_head(const CodeView& view, uint32_t instr);
/// The last instruction of the loops that begin there.
uint32_t last_of_nest(const CodeView& view, uint32_t head);

}  // namespace framejit::capture
