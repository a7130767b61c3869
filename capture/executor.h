// Executor: what all frames of one capture share - how existing objects become Values, attribute lookup, calls,
// operators.
//
// No function here runs user code or changes an object. Each either gives the Value that the interpreter would give, or
// a Break; what it did before the Break is taken back by the frame's checkpoint (Session::rollback).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "capture/break.h"
#include "capture/code_view.h"
#include "capture/effects.h"
#include "capture/flow_map.h"
#include "capture/frontend.h"
#include "capture/limits.h"
#include "capture/loops/prediction.h"
#include "capture/region.h"
#include "capture/session.h"

namespace framejit::capture {

using Values = std::vector<Value*>;
inline constexpr std::int64_t kView = -2;     // position of an Iterator that stands for dict.values() or dict.items()
inline constexpr uint32_t kMostVariants = 4;  // of a place where what caches and sets hold is asked for
inline constexpr int kLoadedMethod = 2;       // `iterated` of a BoundMethod of a C method that LOAD_METHOD gave
inline constexpr int kSuper = 1;  // `iterated` of a BoundMethod that stands for super(): items are self and the class
using Keywords = std::vector<std::pair<PyObject*, Value*>>;  // exact str, borrowed from code objects or Constants

class SymbolicFrame;

class Executor {
 public:
  Executor(Session& session, const CaptureOptions& options);
  ~Executor();

  Session& session() { return session_; }
  Effects& effects() { return effects_; }
  const CaptureOptions& options() const { return options_; }
  graph::ShapeEnv& shapes() { return session_.graph().shapes(); }

  // --- objects.cpp: existing objects become Values
  Value* lazy(PyObject* object, SourceRef source);
  Value* look(Value* v);
  Value* wrap(PyObject* object, SourceRef source);
  /// Objects of code constants: immutable, tuples become Tuple.
  Value* literal(PyObject* object);
  /// The same of what an operation gives: another tuple each time.
  Value* fresh(PyObject* object);
  Value* cell_of(PyObject* cell, SourceRef source);
  /// The items of an existing List, Dict under a Length or Keys guard.
  Captured<bool> open(Value* container);
  /// Everything inside is looked at: what a frontend or a recipe is given.
  Captured<bool> force(Value* v);
  struct Forced {
    Values args;
    std::vector<Keyword> keywords;
    std::vector<std::string> names;  // of the keywords
  };
  Captured<Forced> forced(const Values& args, const Keywords& keywords);
  /// The very object, adding an Identity guard where only its kind was guarded; null where there is none.
  PyObject* known(Value* v);
  /// What looking up the name on the class of an Object gives (null: nothing).
  void guard_lookup(const Value* v, PyObject* raw, PyObject* name);
  /// The exact object of what is_plain, and of tuples of these, under Equal guards; null for others.
  Ref<> plain(Value* v);
  /// The same, and other objects whose text is known: dtypes.
  Ref<> plain_text(Value* v);
  /// A Constant in place of a symbolic int or of a float argument, under an Equal guard; null where that is not
  /// possible.
  Value* specialize(Value* v);
  Frontend* frontend_of(const Value& v) const;
  Frontend* frontend_for(PyObject* callable) const;
  /// type(v), borrowed; null: not known.
  PyObject* type_of(Value* v);
  /// A class made in Python goes by the same classes in the same order: `__bases__` can be assigned.
  void guard_mro(PyTypeObject* type);
  void guard(GuardKind kind, const SourceRef& source, PyObject* object = nullptr, PyObject* key = nullptr,
             int64_t number = 0);

  // --- attributes.cpp
  /// With `self`: a method found on the type is given unbound, *self is then v (else null).
  Captured<Value*> get_attr(Value* v, PyObject* name, Value** self = nullptr);
  /// A C method of an exact builtin or array type.
  bool has_method(Value* v, PyObject* name);
  /// A method or property of an array's type that is written in Python, under a guard. Borrowed.
  PyObject* python_member(Value* v, PyObject* name);
  /// Is there such an attribute? Both answers are guarded.
  Captured<bool> has_attr(Value* v, PyObject* name);
  /// `value` null: deletes.
  Captured<bool> set_attr(Value* v, PyObject* name, Value* value);
  /// As object.__setattr__ does: what __setattr__ of the class says does not count.
  Captured<bool> set_attr_generic(Value* v, PyObject* name, Value* value);
  Captured<Value*> load_global(PyObject* globals, PyObject* builtins, PyObject* name, const std::string& module);
  Captured<Value*> global_item(PyObject* dict, PyObject* name, const std::string& module);
  /// `value` null: deletes.
  Captured<bool> store_global(PyObject* dict, PyObject* name, Value* value);

  // --- instances.cpp
  Captured<Value*> make_instance(PyTypeObject* type, const Values& args, const Keywords& keywords);
  // --- named_tuples.cpp
  Captured<Value*> construct_tuple(PyTypeObject* type, const Values& args, const Keywords& keywords);
  /// tuple.__new__(*args)
  Captured<Value*> make_tuple_instance(const Values& args);
  /// An exact tuple of a tuple instance's items, where its class leaves this method to tuple; else null.
  Captured<Value*> as_tuple(Value* v, PyObject* method);
  /// What a named tuple's field holds; null: `descriptor` is none of one.
  Captured<Value*> field_of(Value* v, PyObject* descriptor);
  /// An instance of a builtin exception class that is made by its arguments alone.
  Value* make_exception(PyObject* type, Values args);
  Value* make_exception(PyObject* type);  // with arguments that are not known
  /// The instruction raises this; a frame that catches it goes on.
  Unexpected<Break> raises(PyObject* type, const std::string& text, std::string detail = {});
  Unexpected<Break> key_error(Value* key);
  Unexpected<Break> divides_by_zero();
  /// The same of the error that is set, which is cleared.
  Unexpected<Break> raises_current(std::string detail);
  Captured<Value*> exception_text(Value* e);
  // --- text.cpp
  /// The str that function(*args) gives, a pure function in C of which the args are numbers, strings and tuples of
  /// these. `spec`, a str, says how.
  Captured<Value*> text(PyObject* function, Values args, PyObject* spec = nullptr);
  /// format(value, spec) after the conversion of an f-string: 0 none, 1 str, 2 repr, 3 ascii.
  Captured<Value*> formatted(Value* value, int conversion, Value* spec);
  /// Strings, of which at least one is a Text, one behind the other.
  Captured<Value*> joined(Values parts);
  Captured<Value*> call_slot(PyObject* wrapper, const Values& args, const Keywords& keywords);
  /// The method bound to v, where the class defines it in Python, else null.
  Captured<Value*> special_method(Value* v, PyObject* name);
  /// type(v).name(v, *args) where the class defines it in Python, else null.
  Captured<Value*> special(Value* v, PyObject* name, const Values& args);
  void set_attribute(Value* made, const std::string& name, Value* value);  // of an instance made here; null: deletes
  static Value* attribute(const Value* made, const std::string& name);     // or null

  // --- calls.cpp
  Captured<Value*> call(Value* callable, const Values& args, const Keywords& keywords);
  /// The Python function behind a marked one; null for other objects.
  Value* unwrapped(Value* callable);
  /// Does storing the attribute set a member of the instance and nothing else? Guarded.
  bool stores_plainly(Value* v, PyObject* name);
  /// Does reading it find a member of the instance or of its class, and run nothing? Not guarded.
  bool reads_plainly(const Value* v, PyObject* name) const;
  Captured<Value*> call_function(Value* function, const Values& args, const Keywords& keywords);
  Captured<Value*> make_partial(PyTypeObject* type, const Values& args, const Keywords& keywords);
  Captured<Value*> call_partial(Value* partial, const Values& args, const Keywords& keywords);

  // --- caches.cpp
  /// A call of a functools.lru_cache wrapper.
  Captured<Value*> call_cached(Value* cache, const Values& args, const Keywords& keywords);

  // --- builtins.cpp, builtins_methods.cpp: null result of the lookup: not known
  Captured<Value*> call_builtin(PyObject* callable, const Values& args, const Keywords& keywords);
  /// The function to follow in place of a C one, or null.
  Value* polyfill(PyObject* callable, const Keywords& keywords);
  /// The same also where the arguments decide whether it is followed.
  Value* polyfill(PyObject* callable);
  Captured<Value*> remade_callable(Value* callable);
  Value* dispatched(Value* callable, const Values& args, const Keywords& keywords);
  Captured<Value*> sorted(Values items, Value* key, bool reverse);
  Captured<std::pair<Value*, bool>> sort_order(const Keywords& keywords);  // key (or null) and reverse
  Captured<Value*> call_method(Value* self, const std::string& name, const Values& args, const Keywords& keywords);

  // --- operators.cpp, numbers.cpp
  Captured<Value*> binary(int nb, Value* left, Value* right);
  Captured<Value*> unary(Unary op, Value* v);
  Captured<Value*> compare(int op, Value* left, Value* right);
  Captured<Value*> object_binary(int nb, Value* left, Value* right);
  Captured<Value*> object_compare(int op, Value* left, Value* right);
  Captured<std::pair<Value*, Value*>> as_sequences(const std::string& name, Value* left, Value* right);
  Captured<bool> truth(Value* v);
  /// The truth of what is known at run time only, as a 0-d bool of the graph.
  Captured<graph::ValueId> condition(Value* v);
  /// bool(v) or not v.
  Captured<Value*> truth_value(Value* v, bool negated);
  uint32_t branches = 0;  // that are being captured, in each other
  Captured<bool> is_same(Value* left, Value* right);
  Captured<bool> equal(Value* left, Value* right);  // as `in` and dict lookup do: identity, then ==
  Captured<bool> contains(Value* container, Value* item);
  Captured<Value*> number_binary(int nb, Value* left, Value* right);
  Captured<Value*> number_unary(Unary op, Value* v);
  /// sum() of Python ints and floats where it compensates (3.12); null: one is no such number.
  Captured<Value*> compensated_sum(const Values& items, Value* start);
  Captured<Value*> number_compare(int op, Value* left, Value* right);
  Captured<Value*> to_float(Value* v);
  /// A graph value of dtype F64 for a Python number.
  Captured<graph::ValueId> f64(Value* v);
  /// int() of a float of the graph that is known at run time only.
  Captured<Value*> truncated(graph::ValueId v);

  // --- containers.cpp
  Captured<Value*> get_item(Value* container, Value* key);
  Captured<bool> set_item(Value* container, Value* key, Value* value);
  Captured<bool> del_item(Value* container, Value* key);
  Captured<bool> del_key(Value* dict, Value* key);
  Captured<Value*> length(Value* v);
  Captured<bool> append(Value* list, Value* item);
  Ref<> wanted_key(Value* key);
  /// Replaces `count` items of a List, from `at` on.
  Captured<bool> replace_items(Value* list, std::size_t at, std::size_t count, const Values& fresh);
  /// The place of a key among the items that a Dict has now, or -1.
  int64_t place_of_key(Value* dict, PyObject* key);
  /// The place of a key in a Dict's items (index of the key), or -1. Opens the dict.
  Captured<int64_t> find_key(Value* dict, Value* key);
  /// The value under a plain key of a Dict, or null; guards that key only where the dict was not opened.
  Captured<Value*> dict_peek(Value* dict, Value* key);
  Captured<Value*> missing_item(Value* dict, Value* key);
  Captured<bool> dict_set(Value* dict, Value* key, Value* value);
  /// Its items. `hinted`: asked for its length first, as list() and tuple() do.
  Captured<Values> unpack(Value* iterable, bool hinted = false);
  Captured<Values> unpack_fast(Value* iterable);
  Captured<bool> extend(Value* list, Value* iterable);

  // --- sets.cpp
  Captured<Value*> make_set();
  Ref<> element(Value* v);
  Captured<int64_t> set_size(Value* set);
  Captured<bool> set_add(Value* set, Value* item);
  Captured<bool> set_update(Value* set, Value* iterable);
  Captured<Value*> set_method(Value* set, const std::string& name, const Values& args);
  Captured<Value*> set_binary(int nb, Value* left, Value* right);
  Captured<Value*> set_compare(int op, Value* left, Value* right);
  Captured<bool> set_contains(Value* set, Value* item);
  Captured<Value*> iterate_set(Value* set);

  // --- iterate.cpp
  Captured<Value*> iterate(Value* iterable);
  Captured<Value*> iterator_of(Value* v);
  /// The next item, or null at the end.
  Captured<Value*> next(Value* iterator);

  // --- generators.cpp
  Captured<Value*> resume(Value* generator, Value* sent = nullptr, Value* thrown = nullptr);
  Captured<Value*> generator_method(Value* generator, const std::string& name, const Values& args);
  SymbolicFrame& generator_frame(const Value* generator);
  /// The StopIteration of an iterator that has ended.
  Unexpected<Break> stops(const Value* iterator);
  /// Would dropping the generators of this capture run code?
  bool has_open_handlers() const;

  Value* none() { return session_.constant(Py_None); }
  Value* boolean(bool b) { return session_.constant(b ? Py_True : Py_False); }
  Value* str(const std::string& text);

  uint32_t steps = 0;  // instructions executed, all frames
  Limits limits;
  LoopPrediction loops;
  std::vector<uint32_t> visits;  // by instruction of the outermost frame: how often it was executed
  uint32_t depth = 0;            // inlined frames
  struct OpenCall {
    PyCodeObject* code;
    uint32_t before;  // recursive calls that had begun when this one did
    uint32_t calls;   // that it makes and that are recursive
  };
  std::vector<OpenCall> open_calls;  // from the outermost frame on
  uint32_t unfinished_levels = 0;    // see CaptureOutcome
  SymbolicFrame* frame = nullptr;    // the innermost one
  Value* handled = nullptr;          // the exception being handled, of those that were raised during capture
  void set_handled(Value* exception);
  std::shared_ptr<const CodeView> view_of(PyCodeObject* code);
  /// Graph locations of a code's instructions; 0: not made yet.
  std::vector<uint32_t>& locations(const CodeView* view);
  PyObject* builtins = nullptr;  // of the outermost frame, borrowed

  struct Tracked {
    Value* value;
    SourceRef source;
  };
  const std::unordered_map<PyObject*, Tracked>& tracked() const { return tracked_; }

 private:
  uint32_t level_of(const PyCodeObject* code) const;
  bool finish_recursive(const OpenCall& call, uint32_t level);
  Captured<bool> look_in(PyObject* dict);
  Captured<bool> may_store_in(PyObject* dict);
  Captured<bool> attributes_are_apart();
  bool has_shared_names(const Value* v) const;
  Value* wrap_container(PyObject* object, SourceRef source);
  Captured<Value*> instance_attr_value(Value* v, PyObject* name, Value** self);
  Captured<Value*> super_attr_value(Value* v, PyObject* name, Value** self);
  Captured<Value*> class_attr_value(Value* v, PyObject* name);
  Captured<Value*> bind_descriptor(Value* owner, PyObject* raw, PyObject* name, Value** self);
  Value* function_at(PyObject* function, const std::string& shown);
  Captured<bool> holds(Value* v, PyObject* name);
  Captured<bool> length_hint(Value* v);
  Value* track(PyObject* object, const SourceRef& source, Value* v);
  Captured<Value*> fold(int nb, PyObject* left, PyObject* right);
  Captured<Value*> sequence_binary(int nb, Value* left, Value* right);
  Captured<Value*> int_binary(int nb, const graph::Dim& left, const graph::Dim& right);
  Captured<Value*> runtime_int_binary(int op, Value* left, Value* right);
  Captured<bool> expect_within(Value* v, int64_t bound);
  Captured<graph::ValueId> i64(Value* v);
  Captured<Value*> compare_ids(int op, graph::ValueId a, graph::ValueId b);

  Session& session_;
  const CaptureOptions& options_;
  Effects effects_;
  std::unordered_map<PyObject*, Tracked> tracked_;  // existing mutable objects: one Value each
  std::unordered_map<PyCodeObject*, std::shared_ptr<const CodeView>> views_;
  std::unordered_map<const CodeView*, std::vector<uint32_t>> locations_;
  std::vector<Ref<>> kept_;
  uint32_t recursive_calls_ = 0, finished_level_ = 0;  // the outermost level of recursion at which a call was finished
  int plain_depth_ = 0;                                // tuples that plain() is in
  std::vector<std::unique_ptr<SymbolicFrame>> generators_;  // by position of their Iterators
};

/// An object from outside whose last reference may be the one that goes, and code would run (capture/py/drops.h): it
/// must run before what follows.
bool may_finalize(const Value* v);
bool may_finalize(PyObject* object);
/// The same for what the stack or a local held, `local` being which one of the entered frame: what was in another one
/// is there yet, as no local gives up such an object during capture, and what has other places is held by these.
bool may_finalize_in_slot(const Value* v, int local = -1);
/// The same for what a list held and does not hold any more.
bool may_finalize(const Values& before, const Values& after);
Unexpected<Break> finalizes();
/// How many items an iterator has yet to give, or -1 if that is not known.
int64_t rounds_left(const Value* iterator);
Unexpected<Break> shared_names();
/// An __eq__ that changed what is being searched or compared.
inline Unexpected<Break> changed_by_equality() {
  return break_at(BreakId::UnknownObject, "a list that its items' __eq__ changes");
}
/// Does a container have other items than `items`, those it had at the last question? `changes`: Session::changes()
/// then.
bool has_changed(Session& s, const Value* container, const Values& items, std::size_t& changes);
/// Have keys come or gone since the Iterator over a Dict was made?
bool dict_changed(const Value& iterator);
inline bool is_exact_dict(const Value* v) {
  return v->kind == ValueKind::Dict && (!v->source || PyDict_CheckExact(v->object.get()));
}
/// The class of an Object.
/// A class of a polyfill in Python, whose instances stand for those of another type.
bool is_polyfill_class(const PyTypeObject* type);
inline PyTypeObject* class_of(const Value& v) {
  return v.source ? Py_TYPE(v.object.get()) : reinterpret_cast<PyTypeObject*>(v.object.get());
}
/// An exception made during capture.
bool is_exception(const Value& v);
/// Of a Python class that derives from tuple.
bool is_tuple_class(const PyTypeObject* type);
bool is_tuple_instance(const Value& v);
PyObject* tuple_new();
/// functools.partial, no subclass.
bool is_partial(const PyTypeObject* type);

SourceRef attr_source(const SourceRef& base, PyObject* name);
/// An object whose identity a guard has fixed; `expression` is for printing.
SourceRef fixed_source(PyObject* object, std::string expression);
/// Interned for the life of the process: function-local names only.
PyObject* interned(const char* text);

/// Is it an exact Python number: a constant int, float, bool or complex, a symbolic int, or a run-time number?
bool is_number(const Value& v);
bool is_int_like(const Value& v);   // constant int or bool, or a Dim
graph::Dim dim_of(const Value& v);  // of an is_int_like value that fits int64
bool fits_int64(const Value& v);

}  // namespace framejit::capture
