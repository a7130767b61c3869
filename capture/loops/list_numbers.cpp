// See list_numbers.h.
#include "capture/loops/list_numbers.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "capture/loops/loop_built.h"
#include "capture/py/cpython/facts.h"
#include "capture/py/layouts.h"
#include "capture/py/no_collection.h"

namespace framejit::capture {

using Type = cfg::Type;

/// Memory that is free again when the loop is left: first a piece that stays, then pieces that are given away. Of the
/// thread that holds the GIL, as the lists are.
struct ListMemory {
  using List = UnboxedLists::List;

  /// Room for so many numbers; null: there is none.
  int64_t* take(int64_t count) {
    if (count <= left) {
      left -= count;
      return std::exchange(next, next + count);
    }
    const bool is_large = count > kPiece / 4;
    std::unique_ptr<int64_t[]> piece(new (std::nothrow) int64_t[static_cast<std::size_t>(is_large ? count : kPiece)]);
    if (!piece) return nullptr;
    pieces.push_back(std::move(piece));
    if (is_large) return pieces.back().get();
    left = kPiece - count;
    next = pieces.back().get() + count;
    return pieces.back().get();
  }

  ListHeader* add(Ref<> list, int64_t count, int64_t capacity, ItemKind kind) {
    constexpr int64_t kWords = sizeof(ListHeader) / sizeof(int64_t);
    const int64_t width = width_of(kind);
    int64_t* const words = list && capacity < kMost / width ? take(kWords + capacity * width) : nullptr;
    if (!words) return nullptr;
    auto* const header = new (words) ListHeader{words + kWords, count, capacity, capacity, count, list.get(), width};
    lists.push_back({std::move(list), header, kind});
    return header;
  }

  static constexpr int64_t kPiece = 1 << 12, kMost = 1 << 28;
  int64_t first[kPiece];
  int64_t* next = first;
  int64_t left = kPiece;
  std::vector<std::unique_ptr<int64_t[]>> pieces;
  std::vector<List> lists;
  UnboxedMemory made;
  bool has_failed = false;  // a list that the loop has made holds something else
};

namespace {

ListMemory memory;

char letter(ItemKind kind, int k) { return static_cast<char>(kind >> 8 * k); }
bool is_tuple(ItemKind kind) { return letter(kind, 0) == '('; }
ItemKind kind_of_rows(ItemKind kind) { return kind >> 8; }

/// The number that an object is; false: it is of another type, too large, or NaN.
inline bool take_number(PyObject* item, char holds, int64_t& to) {
  if (holds == 'f') {
    if (!PyFloat_CheckExact(item)) return false;
    const double number = PyFloat_AS_DOUBLE(item);
    to = std::bit_cast<int64_t>(number);
    return number == number;  // see check_is_number
  }
  if (holds == 'b') {
    to = item == Py_True;
    return PyBool_Check(item);
  }
  if (!PyLong_CheckExact(item)) return false;
  if (py::take_small_int(item, to)) return true;
  int overflow = 0;
  to = PyLong_AsLongLongAndOverflow(item, &overflow);
  return overflow == 0;
}

/// The numbers of a tuple.
bool take_numbers(PyObject* item, ItemKind kind, int64_t* to) {
  const int width = width_of(kind);
  bool fits = PyTuple_CheckExact(item) && PyTuple_GET_SIZE(item) == width;
  for (int k = 0; fits && k < width; ++k) fits = take_number(PyTuple_GET_ITEM(item, k), letter(kind, 1 + k), to[k]);
  return fits;
}

/// The numbers of the header's list; false: an item is of another kind.
bool take_all(const ListHeader& header, ItemKind kind) {
  PyObject** const items = reinterpret_cast<PyListObject*>(header.list)->ob_item;
  const auto each = [&](const auto& take) {
    for (int64_t k = 0; k < header.count; ++k)
      if (!take(items[k], header.numbers + k * header.width)) return false;
    return true;
  };
  // One loop for each, as long lists take long.
  switch (letter(kind, 0)) {
    case 'f': return each([](PyObject* item, int64_t* to) { return take_number(item, 'f', *to); });
    case 'i': return each([](PyObject* item, int64_t* to) { return take_number(item, 'i', *to); });
    case 'b': return each([](PyObject* item, int64_t* to) { return take_number(item, 'b', *to); });
    default: return each([&](PyObject* item, int64_t* to) { return take_numbers(item, kind, to); });
  }
}

PyObject* object_of(int64_t number, char holds) {
  switch (holds) {
    case 'f': return PyFloat_FromDouble(std::bit_cast<double>(number));
    case 'b': return PyBool_FromLong(number != 0);
    default: return PyLong_FromLongLong(number);
  }
}

Ref<> object_of_item(const int64_t* numbers, ItemKind kind) {
  if (!is_tuple(kind)) return Ref<>::steal(object_of(*numbers, letter(kind, 0)));
  const int width = width_of(kind);
  Ref<> tuple = Ref<>::steal(PyTuple_New(width));
  for (int k = 0; tuple && k < width; ++k) {
    PyObject* const part = object_of(numbers[k], letter(kind, 1 + k));
    if (!part) return {};
    PyTuple_SET_ITEM(tuple.get(), k, part);
  }
  return tuple;
}

/// Lets an item that only the list holds have another value. False: it needs another object.
bool set_in_place(PyObject* item, int64_t number, char holds) {
  if (holds != 'f' && holds != 'i') return false;
  if (Py_REFCNT(item) != 1) return false;
  if (holds == 'i') return py::set_int(item, number);
  reinterpret_cast<PyFloatObject*>(item)->ob_fval = std::bit_cast<double>(number);
  return true;
}

int64_t address_of(const ListHeader* header) { return reinterpret_cast<int64_t>(header); }

int64_t note_made(const ListHeader* header) {
  ++memory.made.lists;
  memory.made.bytes += header->count * header->width * static_cast<int64_t>(sizeof(int64_t));
  return address_of(header);
}

ListHeader* unboxed(Ref<> list, ItemKind kind) {
  const auto* const from = reinterpret_cast<const PyListObject*>(list.get());
  const Py_ssize_t count = Py_SIZE(from), capacity = from->allocated;
  ListHeader* const header = memory.add(std::move(list), count, capacity, kind);
  if (header && !take_all(*header, kind)) return memory.lists.pop_back(), nullptr;
  return header;
}

/// No list is a row and something else.
bool are_distinct() {
  static std::vector<PyObject*> all;  // of the thread that holds the GIL; keeps its memory
  all.resize(memory.lists.size());
  std::transform(memory.lists.begin(), memory.lists.end(), all.begin(),
                 [](const auto& known) { return known.list.get(); });
  if (!std::is_sorted(all.begin(), all.end())) std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

/// The rows of a list: first their numbers, one row after the other, then their headers.
ListHeader* unboxed_rows(PyObject* list, ItemKind kind, bool changes) {
  if (!has_rows(list)) return nullptr;
  constexpr int64_t kWords = sizeof(ListHeader) / sizeof(int64_t);
  PyObject** const rows = reinterpret_cast<PyListObject*>(list)->ob_item;
  const int64_t count = PyList_GET_SIZE(list), width = PyList_GET_SIZE(rows[0]);
  int64_t* const numbers =
      width < ListMemory::kMost / count ? memory.take(count * width + (count + 1) * kWords) : nullptr;
  if (!numbers) return nullptr;
  memory.lists.reserve(memory.lists.size() + static_cast<std::size_t>(count) + 1);
  auto* header = reinterpret_cast<ListHeader*>(numbers + count * width);
  const auto add = [&](PyObject* of, int64_t* at, int64_t size, int64_t each, ItemKind holds, bool is_row) {
    new (header) ListHeader{at, size, reinterpret_cast<PyListObject*>(of)->allocated, size, size, of, each};
    memory.lists.push_back({Ref<>::share(of), header, holds, changes, is_row});
    return header++;
  };
  ListHeader* const made = add(list, numbers, count, width, kind, false);
  for (int64_t k = 0; k < count; ++k)
    if (!take_all(*add(rows[k], numbers + k * width, width, 1, kind_of_rows(kind), true), kind_of_rows(kind)))
      return nullptr;
  return are_distinct() ? made : nullptr;
}

int64_t unbox_made(int64_t kind, int64_t) {
  const ListHeader* const header = unboxed(take_last_made(), kind);
  if (!header) return memory.has_failed = true, 0;
  return note_made(header);
}

int64_t new_numbers(int64_t count, int64_t kind, int64_t of_iterable) {
  if (is_full()) return 0;
  [[maybe_unused]] const py::NoCollection no_collection;
  const ListHeader* const header =
      memory.add(Ref<>::steal(PyList_New(0)), count, of_iterable ? room_of_iterable(count) : count, kind);
  if (!header) return PyErr_Clear(), 0;
  return note_made(header);
}

/// What CPython's list_resize() chooses for a list whose size changes by one.
int64_t capacity_for(int64_t count) { return count == 0 ? 0 : (count + (count >> 3) + 6) & ~int64_t{3}; }

int64_t grow_numbers(int64_t address, int64_t count) {
  auto* const header = reinterpret_cast<ListHeader*>(address);
  const int64_t capacity = capacity_for(count);
  if (capacity > header->room) {
    const int64_t room = std::max(capacity, 2 * header->room);
    int64_t* const numbers = room < ListMemory::kMost / header->width ? memory.take(room * header->width) : nullptr;
    if (!numbers) return 0;
    std::copy_n(header->numbers, header->count * header->width, numbers);
    header->numbers = numbers;
    header->room = room;
  }
  header->capacity = capacity;
  return 1;
}

int64_t shrink_numbers(int64_t address, int64_t count) {
  auto* const header = reinterpret_cast<ListHeader*>(address);
  if (count == 0 || header->capacity > py::kKeptRoom) header->capacity = capacity_for(count);
  return 1;
}

}  // namespace

int64_t room_of_iterable(int64_t count) { return (count + 1) & ~int64_t{1}; }

bool set_capacity(PyObject* object, int64_t capacity) {
  auto* const list = reinterpret_cast<PyListObject*>(object);
  if (list->allocated == capacity) return true;
  void* const items = PyMem_Realloc(list->ob_item, static_cast<std::size_t>(capacity) * sizeof(PyObject*));
  if (!items) return PyErr_NoMemory(), false;
  list->ob_item = static_cast<PyObject**>(items);
  list->allocated = capacity;
  return true;
}

namespace {

int64_t* at(int64_t address) { return reinterpret_cast<int64_t*>(address); }

int64_t copy_numbers(int64_t to, int64_t from, int64_t count) { return std::copy_n(at(from), count, at(to)), 1; }
int64_t fill_numbers(int64_t to, int64_t number, int64_t count) { return std::fill_n(at(to), count, number), 1; }
int64_t count_up(int64_t to, int64_t start, int64_t step) {
  for (int64_t k = 0; k < memory.lists.back().header->count; ++k) at(to)[k] = start + k * step;
  return 1;
}

int64_t result = 0;

template <class Number>
Number* numbers_at(int64_t address) {
  return reinterpret_cast<Number*>(address);
}

/// In the order of list.sort(), which is stable: zeros of both signs stay in their order.
template <class Number>
int64_t sort(int64_t numbers, int64_t count) {
  Number* const first = numbers_at<Number>(numbers);
  constexpr int64_t kFew = 32;
  if (count > kFew) return std::stable_sort(first, first + count), 1;
  for (Number* at = first + 1; at < first + count; ++at) std::rotate(std::upper_bound(first, at, *at), at, at + 1);
  return 1;
}

template <class Number>
int64_t leave(Number number) {
  result = std::bit_cast<int64_t>(number);
  return 1;
}

template <class Number>
int64_t most(int64_t numbers, int64_t count) {
  const Number* const first = numbers_at<Number>(numbers);
  return count > 0 ? leave(*std::max_element(first, first + count)) : 0;
}

template <class Number>
int64_t least(int64_t numbers, int64_t count) {
  const Number* const first = numbers_at<Number>(numbers);
  return count > 0 ? leave(*std::min_element(first, first + count)) : 0;
}

int64_t sum_of_floats(int64_t numbers, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += numbers_at<double>(numbers)[k];
  return count > 0 ? leave(sum) : 0;  // the sum of none is an int
}

int64_t sum_of_ints(int64_t numbers, int64_t count) {
  int64_t sum = 0;
  for (int64_t k = 0; k < count; ++k)
    if (__builtin_add_overflow(sum, numbers_at<int64_t>(numbers)[k], &sum)) return 0;
  return leave(sum);
}

}  // namespace

const void* number_from_list() { return &result; }

#define FRAMEJIT_UPDATE(name, operands) {#name, reinterpret_cast<const void*>(&name), Type::I64, operands, Type::I64}
const cfg::Function kUnboxMade FRAMEJIT_UPDATE(unbox_made, 2), kNewNumbers FRAMEJIT_UPDATE(new_numbers, 3),
    kGrowNumbers FRAMEJIT_UPDATE(grow_numbers, 2), kShrinkNumbers FRAMEJIT_UPDATE(shrink_numbers, 2),
    kCopyNumbers FRAMEJIT_UPDATE(copy_numbers, 3),
    kFillNumbers FRAMEJIT_UPDATE(fill_numbers, 3), kCountUp FRAMEJIT_UPDATE(count_up, 3),
    kSumOfFloats FRAMEJIT_UPDATE(sum_of_floats, 2), kSumOfInts FRAMEJIT_UPDATE(sum_of_ints, 2);
#undef FRAMEJIT_UPDATE
#define FRAMEJIT_UPDATE(name, of, type) \
  {#name "_" #of, reinterpret_cast<const void*>(&name<type>), Type::I64, 2, Type::I64}
const cfg::Function kSortFloats FRAMEJIT_UPDATE(sort, floats, double), kSortInts FRAMEJIT_UPDATE(sort, ints, int64_t),
    kMostOfFloats FRAMEJIT_UPDATE(most, floats, double), kMostOfInts FRAMEJIT_UPDATE(most, ints, int64_t),
    kLeastOfFloats FRAMEJIT_UPDATE(least, floats, double), kLeastOfInts FRAMEJIT_UPDATE(least, ints, int64_t);
#undef FRAMEJIT_UPDATE

ItemKind item_kind(const std::string& holds) {
  const auto are_numbers = [](const std::string& letters) {
    return !letters.empty() && letters.find_first_not_of("fib") == std::string::npos;
  };
  std::string letters = holds;
  if (holds.size() == 2 && holds[0] == 'l') {
    if (!are_numbers(letters.substr(1))) return 0;
  } else if (holds.size() > 1) {
    if (holds.size() > sizeof(ItemKind) || holds.front() != '(' || holds.back() != ')') return 0;
    letters.pop_back();
    if (!are_numbers(letters.substr(1))) return 0;
  } else if (!are_numbers(letters)) {
    return 0;
  }
  ItemKind kind = 0;
  for (std::size_t k = letters.size(); k-- > 0;) kind = kind << 8 | letters[k];
  return kind;
}

bool is_of_rows(ItemKind kind) { return letter(kind, 0) == 'l'; }

int width_of(ItemKind kind) {
  int letters = 0;
  while (letters < static_cast<int>(sizeof kind) && letter(kind, letters) != 0) ++letters;
  return is_tuple(kind) ? letters - 1 : letters;
}

bool has_rows(PyObject* list) {
  PyObject** const items = reinterpret_cast<PyListObject*>(list)->ob_item;
  const Py_ssize_t count = PyList_GET_SIZE(list);
  return count > 0 && std::all_of(items, items + count, [&](PyObject* item) {
           return PyList_CheckExact(item) && PyList_GET_SIZE(item) == PyList_GET_SIZE(items[0]);
         });
}

ListHeader* unbox(PyObject* list, ItemKind kind, bool changes) {
  for (std::size_t k = 0; k < memory.lists.size(); ++k) {
    ListMemory::List& known = memory.lists[k];
    if (known.list.get() != list) continue;
    if (known.kind != kind || known.is_row) return nullptr;
    known.changes = known.changes || changes;
    for (std::size_t row = k + 1; row < memory.lists.size() && memory.lists[row].is_row; ++row)
      memory.lists[row].changes = known.changes;
    return known.header;
  }
  if (is_of_rows(kind)) return unboxed_rows(list, kind, changes);
  ListHeader* const header = unboxed(Ref<>::share(list), kind);
  if (header) memory.lists.back().changes = changes;
  return header;
}

bool is_unboxed(PyObject* list) {
  return std::any_of(memory.lists.begin(), memory.lists.end(),
                     [&](const ListMemory::List& known) { return known.list.get() == list; });
}

UnboxedMemory memory_of_unboxed() { return memory.made; }

UnboxedLists::UnboxedLists()
    : lists_(std::exchange(memory.lists, {})),
      memory_(std::exchange(memory.pieces, {})),
      has_failed_(std::exchange(memory.has_failed, false)) {
  memory.next = memory.first;
  memory.left = ListMemory::kPiece;
  memory.made = {};
}

bool UnboxedLists::box(const List& from) {
  if (is_of_rows(from.kind)) return true;  // they are boxed by themselves
  PyObject* const list = from.list.get();
  const ListHeader& header = *from.header;
  const int64_t before = PyList_GET_SIZE(list), width = header.width, both = std::min(before, header.count);
  PyObject** const items = reinterpret_cast<PyListObject*>(list)->ob_item;
  const auto each_bool = [&] {
    for (int64_t k = 0; k < both; ++k) {
      PyObject* const now = header.numbers[k] != 0 ? Py_True : Py_False;
      if (items[k] != now) Py_DECREF(std::exchange(items[k], Py_NewRef(now)));
    }
    return true;
  };
  const auto each = [&](const auto& is_same, char holds) {
    for (int64_t k = 0; k < both; ++k) {
      const int64_t* const numbers = header.numbers + k * width;
      if (is_same(k, numbers) || set_in_place(items[k], *numbers, holds)) continue;
      Ref<> made = object_of_item(numbers, from.kind);
      if (!made) return false;
      Py_DECREF(std::exchange(items[k], made.release()));
    }
    return true;
  };
  const auto each_number = [&](auto holds) {
    return each(
        [&](int64_t k, const int64_t* number) {
          int64_t now = 0;
          return take_number(items[k], holds(), now) && now == *number;
        },
        holds());
  };
  bool complete = true;
  switch (letter(from.kind, 0)) {
    case 'f': complete = each_number([] { return 'f'; }); break;
    case 'i': complete = each_number([] { return 'i'; }); break;
    case 'b': complete = each_bool(); break;
    default:
      complete = each(
          [&](int64_t k, const int64_t* numbers) {
            // A tuple that was taken away and came back equal is another one.
            int64_t now[sizeof(ItemKind)];
            return k < header.kept && take_numbers(items[k], from.kind, now) && std::equal(now, now + width, numbers);
          },
          '(');
  }
  if (!complete) return false;
  if (header.count < before && PyList_SetSlice(list, header.count, before, nullptr) < 0) return false;
  if (!set_capacity(list, header.capacity)) return false;
  for (int64_t k = before; k < header.count; ++k) {
    const Ref<> made = object_of_item(header.numbers + k * width, from.kind);
    if (!made || PyList_Append(list, made.get()) < 0) return false;
  }
  return true;
}

bool UnboxedLists::box(std::span<PyObject* const> going) {
  [[maybe_unused]] const py::NoCollection no_collection;
  bool has_holder = true;  // the list before a row
  return std::all_of(lists_.begin(), lists_.end(), [&](const List& list) {
    const auto holders = Py_REFCNT(list.list.get()) - 1 - std::count(going.begin(), going.end(), list.list.get());
    const bool is_needed = list.is_row ? has_holder || holders > 1 : holders > 0;
    if (!list.is_row) has_holder = is_needed;
    return !is_needed || !list.changes || box(list);
  });
}

}  // namespace framejit::capture
