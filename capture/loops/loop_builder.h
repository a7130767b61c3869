// LoopBuilder: the nodes of a loop's control-flow graph, and the exits at which the interpreter goes on.
//
// State that the interpreter may need is kept at checkpoints: in front of the first instruction of a block and behind
// each store. What follows a checkpoint may leave there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/code_view.h"
#include "capture/loops/loop_program.h"
#include "capture/loops/typed.h"
#include "capture/region.h"

namespace framejit::capture {

/// The loop cannot be compiled at all.
struct GivenUp {
  std::string why;
};
[[noreturn]] inline void give_up(std::string why) { throw GivenUp{std::move(why)}; }

/// The loop is left in front of the instruction that is being translated.
struct NotCompiled {
  std::string why;
  bool on_array = false;  // an operation on a whole array, which a region does better
};

/// The builtin that takes the values of a generator expression.
enum class Consumer : uint8_t { None, Sum, Any, All, Min, Max, List };

struct LoopFrame {
  std::shared_ptr<const CodeView> view;
  PyObject *globals, *builtins;
  uint32_t pc = 0;
  std::vector<Typed> locals, stack;
  Consumer consumer = Consumer::None;
  uint32_t found = 0;  // where the caller goes on once any() or all() is decided; 0: behind the call, with the result
};

/// Attributes of existing instances, and the contents of cells, that the loop has stored.
struct StoredAttribute {
  Typed value;
  Ref<> name;
};
struct InOrderOfValues {  // that of their numbers, so that two processes make the same code
  bool operator()(const std::pair<Value*, std::string>& a, const std::pair<Value*, std::string>& b) const {
    return std::tie(a.first->number, a.second) < std::tie(b.first->number, b.second);
  }
};
using StoredAttributes = std::map<std::pair<Value*, std::string>, StoredAttribute, InOrderOfValues>;

struct LoopCheckpoint {
  uint32_t pc;
  std::vector<Typed> locals, stack;
  StoredAttributes attributes;
  int exit = -1;
  int number = 0;
  uint32_t block = cfg::kNone;  // where it was taken, behind so many nodes
  std::size_t nodes = 0;
};

struct LoopState {
  std::vector<LoopFrame> frames;
  StoredAttributes attributes;
  std::shared_ptr<LoopCheckpoint> checkpoint;
};

/// By the identity of what has one, the number of its object.
using Origins = std::map<int64_t, std::size_t>;

/// Numbers the identities that one pass over a state meets, from 0 on. Passes are many, so they share the memory.
class Identities {
 public:
  void begin() {
    ++pass_;
    count_ = 0;
  }
  /// The number of an identity, and whether this pass meets it for the first time.
  std::pair<std::size_t, bool> meet(int64_t origin) {
    const auto at = static_cast<std::size_t>(origin);
    if (at >= met_.size()) met_.resize(2 * at + 1);
    if (met_[at].pass == pass_) return {met_[at].number, false};
    met_[at] = {pass_, count_};
    return {count_++, true};
  }
  /// Its number, if this pass has met it.
  std::optional<std::size_t> number_of(int64_t origin) const {
    const auto at = static_cast<std::size_t>(origin);
    return at < met_.size() && met_[at].pass == pass_ ? std::optional(met_[at].number) : std::nullopt;
  }

 private:
  struct Met {
    uint64_t pass = 0;
    std::size_t number = 0;
  };
  std::vector<Met> met_;
  uint64_t pass_ = 0;
  std::size_t count_ = 0;
};

inline constexpr int place_on_stack(int slot) { return -2 - slot; }

/// Can the interpreter be given the object at an exit?
bool can_make(const Typed& v);

class LoopBuilder {
 public:
  /// From the instruction `head` of the outermost frame to `last`.
  LoopBuilder(const CaptureRequest& request, uint32_t head, uint32_t last);

  bool in_nest(uint32_t pc) const { return head <= pc && pc <= last; }
  /// Have many indices been below 0? If not, those that are none when the loop begins are taken to stay so.
  bool wraps_indices() const { return program->findings && program->findings->wraps_indices; }
  /// At the call behind a generator expression: are all of its items there, in a list?
  bool has_items(uint32_t pc, const std::vector<Typed>& stack) const {
    return pc == last && pc != head && request.view->calls_comprehension(head) && !stack.empty() &&
           stack.back().kind == Typed::Kind::List;
  }
  LoopFrame& frame() { return state.frames.back(); }

  // Nodes of the block that is being made.
  cfg::Id add(cfg::Node node);
  cfg::Id op(cfg::Op op, cfg::Type type, cfg::Id a, cfg::Id b = cfg::kNone, cfg::Id c = cfg::kNone);
  cfg::Id exact(cfg::Op op, cfg::Id a, cfg::Id b);
  cfg::Id load(cfg::Id base, int offset, cfg::Mem mem = cfg::Mem::I64, cfg::Id index = cfg::kNone, int scale = 1);
  void store(cfg::Id base, int offset, cfg::Id value, cfg::Mem mem = cfg::Mem::I64);
  cfg::Id call(const cfg::Function& function, cfg::Id a, cfg::Id b = cfg::kNone);
  void check(cfg::Id condition);
  /// `raises`: plain Python raises an error where it is not finite; else NumPy warns at most.
  void check_finite(cfg::Id value, bool raises = false);
  cfg::Type type_of(cfg::Id id) const { return cfg.at(id).type; }
  /// A result of NumPy's scalars that a conversion or comparison would hide: is it one of which NumPy may warn?
  cfg::Id settled(cfg::Id id);
  void flush_pending();

  // Nodes of the first block.
  cfg::Id at_entry(cfg::Node node);
  /// The same of an operator on integers.
  cfg::Id int_at_entry(cfg::Op op, cfg::Id a, cfg::Id b, cfg::Id c = cfg::kNone) {
    cfg::Node n;
    n.op = op;
    n.type = cfg::Type::I64;
    n.args[0] = a;
    n.args[1] = b;
    n.args[2] = c;
    return at_entry(n);
  }
  cfg::Id input(cfg::Op op, int64_t which);
  cfg::Id integer(int64_t value);
  cfg::Id address(const void* of);
  cfg::Id number(double value);

  // Exits.
  void take_checkpoint(bool required);
  uint32_t exit_at(LoopCheckpoint& checkpoint, std::string why);
  uint32_t exit();
  /// Ends the block: the loop is left here.
  void leave(std::string why);
  /// The place of an object among those that are fetched when the loop begins.
  uint32_t fetched(const SourceRef& source);

  const CaptureRequest& request;
  const std::shared_ptr<LoopProgram> program;
  cfg::Cfg& cfg;  // of the program
  const uint32_t head, last;
  LoopState state;  // of the block that is being made
  uint32_t block = 0;
  bool ended = false;                            // the block
  std::vector<cfg::Id> pending;                  // results of NumPy scalars: not finite, NumPy may have to warn
  std::vector<bool> stored;                      // by local
  const graph::Graph* imagined_graph = nullptr;  // of values that are known by their types only
  std::string first_why;                         // the loop is left somewhere
  int first_line = 0;

 private:
  uint32_t object_of(LoopExit& exit, std::vector<cfg::Id>& values, Origins& made, const Typed& v);

  std::unordered_map<int64_t, cfg::Id> integers_, numbers_;  // constants, the latter by their bits
  std::unordered_map<const void*, cfg::Id> addresses_;
  std::map<std::pair<int, int64_t>, cfg::Id> inputs_;
  int checkpoints_ = 0;
};

}  // namespace framejit::capture
