// Functions that translate the instructions of a loop, by kind of value. Each makes nodes, or throws NotCompiled.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "capture/loops/translator.h"
#include "graph/support/upper_halves.h"

namespace framejit::capture {

inline constexpr std::size_t kMostInlined = 12;  // frames

inline constexpr const char* kMadeFunction = "a function that is made in the loop";

/// Whoever else holds it would not see it advance.
inline constexpr const char* kHeldIterator = "an iterator that a variable holds";

// loop_entry.cpp: the state when the loop begins.
void enter(LoopTranslator& t, LoopState& state);

// loop_values.cpp: existing objects.
/// Looks at an object: from here on its kind is guarded. A vector that is still to be computed becomes an array.
Typed known(LoopTranslator& t, Typed v);
Typed literal(LoopTranslator& t, PyObject* object);
/// The interpreter has one object for each of these ints, wherever they come from.
inline constexpr int64_t kLeastShared = -5, kMostShared = 256;
constexpr bool is_shared_int(int64_t value) { return value >= kLeastShared && value <= kMostShared; }
/// An array as a View: its address, lengths and strides; null for anything else.
const Typed* array_of(LoopTranslator& t, const Typed& v);
/// Typed::array of a list that is there at the entry, by its place in LoopProgram::fetched.
constexpr uint32_t number_of_entry(uint32_t place) { return (1 + place) << 1; }
/// A list by its address; nothing for anything else.
std::optional<Typed> list_of(LoopTranslator& t, const Typed& v);
/// The item of an existing dict or named tuple under a constant key, such as `p["rate"]`; nothing for anything else.
std::optional<Typed> item_of_object(LoopTranslator& t, const Typed& container, const Typed& key);
/// A tuple by its items, also one that exists; nothing for anything else.
std::optional<Typed> tuple_of(LoopTranslator& t, const Typed& v);
/// The item at an index that is known to be within the list.
Typed item_of(LoopTranslator& t, const Typed& list, cfg::Id index);
/// The address of the object that is this item.
cfg::Id object_in(LoopTranslator& t, const Typed& list, cfg::Id at);
/// The item of a list that is not unboxed, if nothing else says that its items are used.
Typed boxed_item(LoopTranslator& t, const Typed& list, cfg::Id at);
/// Is the value true, as 0 or 1?
cfg::Id truth(LoopTranslator& t, const Typed& v);

// loop_attributes.cpp
/// The contents of a cell: of an existing one, or of one that an inlined function has.
Typed load_cell(LoopTranslator& t, const Typed& cell);
void store_cell(LoopTranslator& t, Typed& cell, const Typed& value);
std::optional<Typed> stored_attribute(LoopTranslator& t, const Typed& v, PyObject* name);
void store_attribute(LoopTranslator& t, const Typed& v, PyObject* name, const Typed& value);

// recursion.cpp
void enter_recursion(LoopTranslator& t, const LoopState& state);
bool is_itself(LoopTranslator& t, Value* function, const std::vector<Typed>& args);
Typed call_itself(LoopTranslator& t, Value* function, const std::vector<Typed>& args);
void return_from_recursion(LoopTranslator& t, const Typed& v);
/// Why it cannot be compiled as a recursion, or "".
std::string finish_recursion(LoopTranslator& t);

// loop_complex.cpp
Typed as_complex(LoopTranslator& t, const Typed& v);
Typed complex_binary(LoopTranslator& t, int op, const Typed& a, const Typed& b);
Typed complex_unary(LoopTranslator& t, Opcode op, const Typed& v);
Typed complex_compare(LoopTranslator& t, int op, const Typed& a, const Typed& b);
Typed complex_part(LoopTranslator& t, const Typed& v, const std::string& name);
Typed complex_length(LoopTranslator& t, const Typed& v);
Typed make_complex(LoopTranslator& t, const std::vector<Typed>& args);

// loop_operators.cpp
/// Is an operator on Python's numbers the one on NumPy's scalars, as long as no check of it fails?
bool is_computed_alike(int nb, graph::DType dtype);
/// The result of such an operator if at least one operand is an Either, and none is a Scalar.
Typed either_binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b);
Typed binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b);
Typed unary(LoopTranslator& t, Opcode op, const Typed& v);
Typed compare(LoopTranslator& t, int op, const Typed& a, const Typed& b);
cfg::Id contains(LoopTranslator& t, const Typed& container, const Typed& item);
cfg::Id as_f64(LoopTranslator& t, const Typed& v);
/// The value as NumPy converts it for an operator whose common type is `to`, or to store it.
cfg::Id converted(LoopTranslator& t, const Typed& v, graph::DType to);
/// The same integer, which a float64 can hold; else the interpreter goes on.
cfg::Id exact_in_float(LoopTranslator& t, cfg::Id value);
/// The absolute value of an integer, of the same type.
cfg::Id magnitude(LoopTranslator& t, const Typed& v);
/// The common type of two scalars of NumPy's.
graph::DType common(graph::DType a, graph::DType b);
/// How a number of this type, or a part of one that is complex, lies in memory.
cfg::Mem memory_of(graph::DType t);
Typed get_item(LoopTranslator& t, const Typed& container, const Typed& key);
void set_item(LoopTranslator& t, const Typed& container, const Typed& key, const Typed& value);
void require_writeable(LoopTranslator& t, const Typed& view);

// loop_lists.cpp
/// How Typed::holds names the items of a list that holds values of this type; "": they cannot be read.
std::string held_as(const Typed& v);
/// Puts a number in the place of another one. Objects that nobody else sees take the new value.
void store_in_list(LoopTranslator& t, cfg::Id slot, const Typed& value);
void append(LoopTranslator& t, const Typed& list, const Typed& item);
/// `list.pop()`. `is_unpacked`: a tuple goes at once.
Typed take_last(LoopTranslator& t, const Typed& list, bool is_unpacked);
/// A new list, of a display.
Typed made_list(LoopTranslator& t, const Typed& display);
/// `list * number` and `list + list`; nothing for anything else.
std::optional<Typed> list_binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b);
Typed part_of_list(LoopTranslator& t, const Typed& list, const Typed& key);
/// `sum`, `max`, `min` and `sorted` of a list of floats or of ints; nothing for anything else.
std::optional<Typed> builtin_of_list(LoopTranslator& t, PyObject* builtin, const std::string& name, const Typed& v);
/// `list(v)`, of a list or a range; nothing for anything else.
std::optional<Typed> list_from(LoopTranslator& t, const Typed& v);
/// A number that a function of numbers gives, one in C without effects, which is called with objects.
Typed call_with_objects(LoopTranslator& t, PyObject* function, const std::vector<Typed>& args, Typed::Kind result);

/// Does one of two things, each in a block of its own. The translation goes on in a third one.
template <class One, class Other>
void either(LoopTranslator& t, cfg::Id condition, const One& one, const Other& other) {
  const uint32_t here = t.block;
  const uint32_t level = t.cfg.blocks[here].level;
  const uint32_t first = t.new_block(level), second = t.new_block(level), behind = t.new_block(level);
  cfg::Block& b = t.cfg.blocks[here];
  b.end = cfg::Block::End::Branch;
  b.condition = condition;
  b.to[0].block = first;
  b.to[1].block = second;
  const auto end = [&] {
    t.cfg.blocks[t.block].end = cfg::Block::End::Jump;
    t.cfg.blocks[t.block].to[0].block = behind;
  };
  t.block = first;
  one();
  end();
  t.block = second;
  other();
  end();
  t.block = behind;
}

/// Makes a call with an effect. Gives what the function gives, which is not 0.
cfg::Id update(LoopTranslator& t, const cfg::Function& function, cfg::Id a, cfg::Id b, cfg::Id c = cfg::kNone);

// loop_unboxed.cpp
/// Lets the loop have the numbers of a list that is there at the entry, if they are to be unboxed. `place`: the list's
/// in LoopProgram::fetched.
void unbox_at_entry(LoopTranslator& t, Typed& list, uint32_t place);
/// The same for a list that the loop has just made.
void unbox_where_made(LoopTranslator& t, Typed& list);
/// Is a new list to be made of the numbers of these operands, lists and displays? If so, make_numbers gives it room for
/// `count` numbers, and the functions that follow give it these. `of_iterable`: list() or sorted() makes it.
bool makes_numbers(LoopTranslator& t, Typed& list, const std::vector<Typed>& operands);
void make_numbers(LoopTranslator& t, Typed& list, cfg::Id count, bool of_iterable = false);
/// How many numbers such an operand has.
cfg::Id numbers_in(LoopTranslator& t, const Typed& operand);
/// From the place `at` on, the numbers of an operand.
void put_numbers(LoopTranslator& t, const Typed& list, cfg::Id at, const Typed& operand);
/// A part of another list, from `first` on.
void put_part(LoopTranslator& t, const Typed& list, const Typed& from, cfg::Id first);
/// One number in all places.
void put_copies(LoopTranslator& t, const Typed& list, const Typed& number);
/// Sorts them.
void sort_numbers(LoopTranslator& t, const Typed& list);
/// `sum`, `max` or `min` of a list; nothing if it is not unboxed.
std::optional<Typed> number_of_list(LoopTranslator& t, const std::string& name, const Typed& list);
/// The numbers from `start` on, which differ by `step`.
void put_range(LoopTranslator& t, const Typed& list, cfg::Id start, cfg::Id step);
/// How many items a list has.
cfg::Id count_of(LoopTranslator& t, const Typed& list);
/// The address of a list whose objects are needed.
cfg::Id boxed(LoopTranslator& t, const Typed& list);
/// The same where they are needed only if the result of the instruction is not made of numbers.
cfg::Id boxed_operand(LoopTranslator& t, const Typed& list);
Typed unboxed_item(LoopTranslator& t, const Typed& list, cfg::Id at);
void store_unboxed(LoopTranslator& t, const Typed& list, cfg::Id at, const Typed& value);
/// Leaves the loop if a float that a list gives or gets is NaN: `in` and `==` of lists compare objects first, so one
/// NaN object is not another.
void check_is_number(LoopTranslator& t, const Typed& value);
/// False: the list is not unboxed, and nothing was done.
bool append_unboxed(LoopTranslator& t, const Typed& list, const Typed& item);
/// As take_last; nothing if the list is not unboxed.
std::optional<Typed> take_last_unboxed(LoopTranslator& t, const Typed& list, bool is_unpacked);

// loop_text.cpp
/// An existing exact str by its characters; nothing for anything else.
std::optional<Typed> string_of(LoopTranslator& t, const Typed& v);
cfg::Id address_of_string(LoopTranslator& t, const Typed& string);
/// The character at an index that is known to be within the str.
Typed character_at(LoopTranslator& t, const Typed& string, cfg::Id index);
/// Characters with each other or with a constant; nothing if there is no character among the operands.
std::optional<Typed> compare_characters(LoopTranslator& t, int op, const Typed& a, const Typed& b);
/// Is the character in the str?
cfg::Id contains_character(LoopTranslator& t, const Typed& string, const Typed& character);
/// `ord`, `chr` and `int` of a character; nothing for anything else.
std::optional<Typed> call_on_character(LoopTranslator& t, PyObject* callable, const Typed& v);
/// Has a character such a method?
bool is_character_method(PyObject* name);
Typed call_character_method(LoopTranslator& t, const std::string& name, const Typed& character);

// loop_draws.cpp
/// Is it an existing np.random.Generator?
bool is_generator(const Typed& v);
/// Its `random()`
Typed draw_from(LoopTranslator& t, const Typed& generator);
/// A call without arguments of random.random, np.random.rand and the like; nothing for anything else.
std::optional<Typed> draw_by(LoopTranslator& t, PyObject* callable);
/// A loop is left.
void release_generators();

// loop_views.cpp: parts of arrays, and what is computed of them.
/// The part of an axis that a slice chooses, as the index of its first element, how many there are, and the step from
/// one to the next; nothing if the key is no slice. `is_known`: one of its ends is a constant, or one of the axis.
struct Cut {
  cfg::Id first, count, step;
  bool is_known = true, down = false;
};
std::optional<Cut> cut_of(LoopTranslator& t, const Typed& key, cfg::Id length);
/// np.dot (`by_dot`) or @ of two vectors of float64; nothing for anything else.
std::optional<Typed> dot_product(LoopTranslator& t, const Typed& a, const Typed& b, bool by_dot);

// loop_vectors.cpp: operators on whole vectors of float64.
/// The operator of two vectors, or of a vector and a number; nothing for anything else.
std::optional<Typed> vector_binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b);
std::optional<Typed> vector_negative(LoopTranslator& t, const Typed& v);
/// A result that takes the place of the operator's first operand, and is not there yet. Its last item is what held it.
bool is_in_place(const Typed& v);
/// The result as an array that the loop makes.
Typed temporary(LoopTranslator& t, const Typed& v);
/// A place in memory for a new array, which nothing that is still needed has.
struct RoomForArray {
  uint32_t number;
  cfg::Id address;
};
RoomForArray room_for_array(LoopTranslator& t);
/// An address in the memory for arrays.
cfg::Id scratch(LoopTranslator& t, int64_t elements);
/// Stores a number or a vector in a vector that is a part of an array.
void store_vector(LoopTranslator& t, const Typed& target, const Typed& value);

cfg::Id length_of(const Typed& v);
/// A vector of float64, or nothing.
std::optional<Typed> as_vector(LoopTranslator& t, const Typed& v);
/// With this operator and these operands, which has as many elements as `like`.
Typed vector_like(const Typed& like, int op, std::vector<Typed> operands);

// loop_matrices.cpp: matrices, and vectors of other types than float64.
/// The operator of two of them, or of one and a number, or the product with a vector; nothing for anything else.
std::optional<Typed> matrix_binary(LoopTranslator& t, int nb, const Typed& a, const Typed& b);
/// Stores such an array in another one. False: they are none.
bool store_matrix(LoopTranslator& t, const Typed& target, const Typed& value);

// loop_vector_calls.cpp: functions of vectors of float64.
/// A function of NumPy's, or abs; nothing for anything else.
std::optional<Typed> call_of_vectors(LoopTranslator& t, PyObject* callable, const std::vector<Typed>& args);
/// Has an array such a method?
bool is_vector_method(PyObject* name);
Typed call_vector_method(LoopTranslator& t, const std::string& name, const Typed& v, const std::vector<Typed>& args);
/// The elements at the indices that an array holds; nothing for any other key.
std::optional<Typed> gathered(LoopTranslator& t, const Typed& array, const Typed& key);

// loop_calls.cpp
/// A function or type of the module numpy, or of a module in it, by its name. Null if a program has replaced it.
/// Borrowed.
PyObject* numpy_function(const char* name, const char* module = nullptr);
/// NumPy's functions of one or two numbers, and of two vectors; nothing for anything else.
std::optional<Typed> call_numpy(LoopTranslator& t, PyObject* callable, const std::vector<Typed>& args);
void do_call(LoopTranslator& t, const Instr& i);
void guard_code(LoopTranslator& t, Value* function);
void do_return(LoopTranslator& t, Typed v);
Typed get_attr(LoopTranslator& t, const Typed& v, PyObject* name);
/// Methods of instances, `list.append`, `list.pop`, `random` of a generator, and the conjugate of a complex number, as
/// the interpreter has them in front of the call: the method and what it is of. False: it is none of these.
bool load_method(LoopTranslator& t, const Typed& v, PyObject* name);

/// The least or the largest of numbers of one type.
Typed extremum(LoopTranslator& t, bool most, const std::vector<Typed>& numbers);

// loop_comprehensions.cpp
/// MAKE_FUNCTION of a comprehension, and SET_FUNCTION_ATTRIBUTE, which gives it its closure from 3.13 on.
void make_function(LoopTranslator& t, const Instr& i);
/// Enters the code of a list comprehension, or pushes a generator. False: the function is no comprehension.
bool call_comprehension(LoopTranslator& t, Typed function, const Typed& iterable);
/// The items of an array, a list or a range as a generator, if `callable` consumes such; nothing for anything else.
std::optional<Typed> items_for(LoopTranslator& t, PyObject* callable, const Typed& v);
/// Enters the code of a generator expression that is the argument of `callable`.
void consume(LoopTranslator& t, PyObject* callable, const Typed& generator);
void yield_value(LoopTranslator& t);
/// FOR_ITER of a loop that the compiler wrote in place of a call of any(), all(), list() or tuple().
void short_loop(LoopTranslator& t, const Instr& i);
/// The consumer's result, at the end of the values.
Typed consumed(LoopTranslator& t, Consumer consumer);

// loop_iterators.cpp
/// Lets the iterator of an enumerate or zip object count how many items are left, if all its parts do or have no end.
void count_items(Typed& joint, const std::function<cfg::Id(cfg::Op, cfg::Id, cfg::Id, cfg::Id)>& node);
/// range(start, stop, step)
Typed range_from(LoopTranslator& t, const Typed& start, const Typed& stop, const Typed& step);
/// An iterator over a list, a short tuple, an array or a range; what is one already stays itself.
Typed iterator_over(LoopTranslator& t, const Typed& v);
void get_iter(LoopTranslator& t);
void for_iter(LoopTranslator& t, const Instr& i);
void for_item(LoopTranslator& t, const Instr& i);
void give_back(LoopTranslator& t, const Typed& v);

}  // namespace framejit::capture
