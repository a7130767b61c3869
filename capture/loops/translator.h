// LoopTranslator: the bytecode of a nest of loops, executed over types, becomes a control-flow graph.
//
// A block of the graph is an instruction together with the types of all variables there: code is made anew for each
// combination of types that reaches it (basic block versioning), so that each value has one type and a variable that
// begins as an int and becomes a float needs no test.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/executor.h"
#include "capture/loops/dead_locals.h"
#include "capture/loops/loop_builder.h"
#include "capture/loops/prediction.h"
#include "capture/loops/recursion.h"

namespace framejit::capture {

/// Which locals differ between the rounds of a loop in a way that one version of the loop can handle.
struct VersionHints {
  std::set<std::size_t> negative;  // locals that are ints below 0 in some rounds
  std::set<std::size_t> either;    // locals that are Python's numbers or scalars of NumPy
  std::set<std::pair<std::size_t, std::size_t>>
      twins;  // that hold one object in some rounds, and one is dead at a head
  /// How Typed::holds names what is appended to lists of unknown items, by Typed::array; "": it is of several kinds.
  /// Lists that are there at the entry have even numbers, others have a number by the instruction that makes them.
  std::map<uint32_t, std::string> appended;
  /// Lists by the same numbers: those that are to be unboxed, and those whose objects are needed.
  std::set<uint32_t> unboxed, boxed;
  std::set<uint32_t> growing;  // lists whose length changes
  std::set<uint32_t> outer;    // lists from which the loop takes lists, which may be those of the entry
  bool boxes_all = false;      // no list is to be unboxed
};

/// There is more to know: the translation begins anew.
struct Retranslate {
  VersionHints hints;
};

class LoopTranslator : public LoopBuilder {
 public:
  explicit LoopTranslator(const CaptureRequest& request, VersionHints hints = {});
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
  const std::string& reason() const { return given_up_.empty() ? first_why : given_up_; }
  /// An instruction of the loop that works on a whole array, if one was met.
  std::optional<uint32_t> array_work() const { return array_work_; }
  bool has_gaps() const { return has_gaps_; }

  // For the functions of instructions (loop_instructions.h).
  Typed pop();
  Typed pop_known();
  /// As pop_known, but of a str its characters.
  Typed pop_container();
  /// As pop_known, but also a vector that is still to be computed.
  Typed pop_operand();
  /// A slice made of the last `parts` values.
  Typed pop_slice(int parts);
  /// To a list of which it is not known what it holds, such a value is appended.
  void note_appended(const Typed& list, const std::string& held);
  /// What a list holds, as Typed::holds has it, or what is appended to it.
  std::string items_of(const Typed& list);
  /// The loop is to have the numbers of a list: of one that is there at the entry, or one that it makes.
  bool is_to_unbox(const Typed& list) const;
  /// As what a list could be unboxed; 0: it could not.
  ItemKind kind_to_unbox(const Typed& list) const;
  /// A list of rows in a nest, which is this object, is unboxed from the first translation on: inner loops are likely
  /// to use the items.
  void expect_rows(const Typed& list, PyObject* object);
  /// Does the length of a list that is unboxed change?
  bool is_to_grow(const Typed& list) const;
  /// An item is read or stored.
  void note_item(const Typed& list);
  /// A builtin goes through the whole list.
  void note_whole(const Typed& list);
  /// An item is taken from the end.
  void note_taken(const Typed& list);
  /// An item is appended or taken away.
  void note_growing(const Typed& list);
  /// A list of unknown items that is to be unboxed holds what is appended to it.
  void complete(Typed& list);
  /// The loop makes a list.
  void note_made(const Typed& list);
  /// The instruction is cheaper if the list is unboxed.
  void prefer_unboxed(const Typed& list);
  /// The instruction needs the objects of the list.
  void require_boxed(const Typed& list);
  /// The list that is an item of a list, without its values.
  Typed inner_list(const Typed& outer);
  void push(Typed v);
  /// Gives the value an identity, if it can have one.
  void name(Typed& v);
  /// Is the instruction the head of a loop of a nest? There the types of dead variables become values. Otherwise each
  /// variable of the inner loops would double the versions, because it is not set in the first round. A loop alone
  /// keeps its types: it has one version more, for its first round, and its rounds carry no tags.
  bool has_tags(uint32_t pc);
  bool is_dead_at(uint32_t pc, std::size_t local);
  /// To the block for a state, which is made if there is none yet.
  cfg::Edge edge_to(LoopState to);
  uint32_t new_block(uint32_t level);
  /// Ends the block: control goes on in one of two states.
  void part(cfg::Id condition, LoopState yes, LoopState no);

  Varied varied;
  Session session;
  Executor executor;
  std::vector<uint32_t> begins_at;  // by block: the instruction of the outermost frame, or none
  /// Existing objects that the loop has looked at.
  struct Objects {
    std::unordered_map<PyCodeObject*, std::shared_ptr<const CodeView>> views;
    std::unordered_map<const Value*, Typed> known;
    std::unordered_map<PyObject*, Typed> literals;     // of the code's constants, which live as long as it
    std::vector<bool> written;                         // by graph param
    std::map<std::size_t, PyObject*> arrays;           // by graph param: alive during capture
    std::vector<std::pair<PyObject*, int>> iterators;  // of the entry, with their places in LoopProgram::fetched
    std::map<std::pair<const CodeView*, uint32_t>, std::size_t> temporaries;  // by instruction: the usual number
  };
  Objects objects;
  /// Attributes of instances that are read or stored at any place.
  struct AttributeUses {
    std::vector<std::pair<Value*, std::string>> read, stored;
  };
  AttributeUses attributes;
  std::vector<cfg::Id> entry_checks;                // what the loop relies upon of the entry's values
  bool makes_vectors = false, cuts_arrays = false;  // operators on vectors, and parts of arrays, were met
  bool makes_matrices = false;                      // and operators on matrices
  bool makes_products = false;                      // of matrices: a region would call NumPy for each
  bool carries_vectors = false;                     // a round goes on with a vector of the round before
  std::vector<Typed> in_hand;  // what the instruction has taken from the stack, as far as it is of arrays
  int64_t origins = 0;
  struct OfRecursion {
    bool is_recursion = false, recurses = false;
    bool is_whole = false;  // any function, which need not call itself: `recurses` says that it returns
    Typed::Kind result = Typed::Kind::Unbound;
    std::vector<Typed::Kind> parameters, results;
  };
  OfRecursion recursion;

 private:
  struct Given {
    LoopState state;
    uint32_t block;
  };
  LoopTranslator(const CaptureRequest& request, uint32_t last);
  /// False: it cannot be compiled at all, and `given_up_` says why.
  bool translate_all(LoopState start);
  bool goes_round() const;
  Typed imagined(Value* v, int level = 0);
  void translate(Given given);
  const std::vector<std::pair<uint32_t, uint32_t>>& loops();
  std::optional<int64_t> tag_of(const Typed& v, std::size_t local);
  using Twins = std::map<std::size_t, std::size_t>;
  using Holders = std::map<int64_t, int>;  // by identity: how many values have it
  /// For each local that is dead at the head of a loop and may hold the same object as another local: that one.
  Twins twins_at(uint32_t pc);
  std::set<std::size_t> part_twins(std::vector<Typed>& locals, const Twins& twin_of, Holders& holders);
  void link_twins(std::vector<Typed>& locals, const Twins& twin_of, Holders& holders,
                  const std::set<std::size_t>& equal);
  /// A dead variable or an Either.
  Typed tagged(const Typed& v, int64_t tag, bool is_dead);
  void tag(LoopState& to);
  /// Does the state at the head of a loop differ from an earlier one only in what hints are for?
  void compare_versions(uint32_t pc, const std::vector<Typed>& locals);
  /// The operand of an instruction whose type has to be decided before it is translated; null: there is none.
  const Typed* undecided(const Instr& i);
  /// The instruction is translated once for each type of a number.
  void decide(const Typed& either);
  uint32_t level_of(const LoopState& at);
  bool boxes_all() const;
  bool has_rows_of_one_length(uint32_t list) const;
  /// May a list that stays as it is hold one of those that are there at the entry?
  bool hides_lists() const;
  /// Begins anew if lists have been found that are to be unboxed.
  void choose_lists();
  /// Is the loop left for a return of what is computed of items of lists? Then the lists may be needed no longer.
  bool returns_item(const LoopFrame& f);
  void jump(uint32_t target);
  void branch(cfg::Id condition, uint32_t yes, uint32_t no);
  void step(const Instr& i);

  std::vector<std::pair<uint32_t, uint32_t>> loops_;  // the first and last instruction of each
  std::optional<DeadLocals> dead_;                    // once it is asked for
  VersionHints hints_;
  std::map<uint32_t, PyObject*> outer_lists_;  // of the entry, alive during capture
  std::set<uint32_t> asked_for_items_;         // of lists of unknown items
  std::map<uint32_t, uint32_t> made_at_;       // by the number of a list: how many loops are around where it is made
  std::set<uint32_t> uses_;  // of lists whose items are used in a loop that is further in, or taken away
  std::map<uint32_t, std::vector<std::vector<Typed>>> locals_at_;  // by the head of a loop, of each version
  std::vector<Given> open_;
  std::unordered_map<std::string, uint32_t> blocks_;
  Identities identities_;
  // By instruction of the outermost frame, and round of the loops over tuples that are around it.
  std::map<std::pair<uint32_t, std::vector<int>>, int> versions_;
  std::unordered_map<const CodeView*, std::vector<bool>> targets_;
  std::string given_up_;
  std::optional<uint32_t> array_work_;  // an operation on a whole array, in the outermost frame
  bool has_gaps_ = false;               // the nest has an instruction without a form
  uint64_t steps_ = 0;
};

/// A nest of loops that begins at the request's entry, the head of a loop, as a region that runs as one function of
/// machine code.
Expected<std::shared_ptr<Region>, Break> capture_loop(const CaptureRequest& request);
/// A function that calls itself, from the request's entry, the first instruction that may be left, on.
Expected<std::shared_ptr<Region>, Break> capture_recursion(const CaptureRequest& request);
/// A function of numbers and arrays from the request's entry to its returns. What it stores in arrays is stored when it
/// is left elsewhere.
Expected<std::shared_ptr<Region>, Break> capture_function(const CaptureRequest& request);
/// Does the function call itself by its global name, with few arguments?
bool may_recurse(const CaptureRequest& request);
/// How many rounds the loop whose head a frame stands at has before it, if an iterator tells; else -1.
int64_t rounds_before(const CodeView& view, uint32_t head, const LiveSlots& live);

}  // namespace framejit::capture
