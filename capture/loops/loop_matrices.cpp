// Small matrices in a compiled loop, and vectors that are not of float64: products and operators by element are calls
// of NumPy's own loops, one for each operation, so results are its own to the bit.
//
// A result is an array that the loop makes (loop_vectors.cpp). The operands of a call are in `form`, which all compiled
// loops share: nothing runs between the stores and the call. A call that sets a flag of which NumPy warns gives 0,
// and the loop is left. Its result is no longer needed then, so the memory for arrays holds nothing that is missed.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "capture/loops/loop_instructions.h"
#include "graph/support/check.h"
#include "graph/support/fp_state.h"

namespace framejit::capture {

using graph::DType;
using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

constexpr int64_t kMostBytes = LoopProgram::kTemporaryLength * sizeof(double);
constexpr int64_t kMostProducts = 1 << 15;  // regions share out larger ones among threads
constexpr int64_t kMostGrouped = 1 << 20;   // ... which pays less than doing those of several rounds at once

struct Form {
  intptr_t counts[4];
  intptr_t steps[9];
  double numbers[2][2];  // operands that are no arrays, each in the type of the arrays
  intptr_t site;         // of a product that may be done for several rounds at once
};
Form form;

constexpr std::array kTypes{DType::F64, DType::C128, DType::F32, DType::I64, DType::I32};

/// Each operator has a function for each type: number (place of the operator) * types + (place of the type).
constexpr std::array<std::pair<int, const char*>, 5> kOperators{
    {{kMatmul, "matmul"}, {kAdd, "add"}, {kSub, "subtract"}, {kMul, "multiply"}, {kTrueDiv, "divide"}}};
constexpr std::size_t kFunctionCount = kOperators.size() * kTypes.size();
std::array<ScalarLoop, kFunctionCount> loops;  // NumPy's, the same in all compiled loops
bool (*ignores_flags)(unsigned flags) = nullptr;
GroupedProduct grouped_product = nullptr;

template <std::size_t kLoop>
int64_t run_loop(int64_t a, int64_t b, int64_t out) {
  forget_upper_halves();
  clear_fp_flags();
  char* places[] = {reinterpret_cast<char*>(a), reinterpret_cast<char*>(b), reinterpret_cast<char*>(out)};
  loops[kLoop].function(places, form.counts, form.steps, loops[kLoop].data);
  forget_upper_halves();
  const unsigned raised = fp_flags() & kReportedFlags;
  return raised == 0 || ignores_flags(raised);
}

/// A product at O1.
template <std::size_t kLoop>
int64_t run_grouped(int64_t a, int64_t b, int64_t out) {
  char* places[] = {reinterpret_cast<char*>(a), reinterpret_cast<char*>(b), reinterpret_cast<char*>(out)};
  return grouped_product(kTypes[kLoop], places, form.counts, form.steps, form.site) || run_loop<kLoop>(a, b, out);
}

int64_t copy(int64_t to, int64_t from, int64_t bytes) {
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), static_cast<std::size_t>(bytes));
  return 1;
}

cfg::Function function_of(std::size_t loop, int64_t (*run)(int64_t, int64_t, int64_t)) {
  return cfg::prepared(
      {kOperators[loop / kTypes.size()].second, reinterpret_cast<const void*>(run), Type::I64, 3, Type::I64});
}

template <std::size_t... kLoops>
std::array<cfg::Function, sizeof...(kLoops)> functions_of(std::index_sequence<kLoops...>) {
  return {function_of(kLoops, run_loop<kLoops>)...};
}

template <std::size_t... kLoops>
std::array<cfg::Function, sizeof...(kLoops)> grouped_functions_of(std::index_sequence<kLoops...>) {
  return {function_of(kLoops, run_grouped<kLoops>)...};
}

static_assert(kOperators[0].first == kMatmul);
const auto kFunctions = functions_of(std::make_index_sequence<kFunctionCount>());
const auto kGroupedFunctions = grouped_functions_of(std::make_index_sequence<kTypes.size()>());  // of kMatmul
const cfg::Function kCopy{"copy", reinterpret_cast<const void*>(&copy), Type::I64, 3, Type::I64};

std::size_t rank_of(const Typed& v) { return v.ids.size() / 2; }

int64_t size_of(const Typed& v) { return graph::size_of(v.dtype); }

bool has_type(const Typed& v) { return std::find(kTypes.begin(), kTypes.end(), v.dtype) != kTypes.end(); }

/// Vectors of float64 are done by element (loop_vectors.cpp).
bool is_matrix(const Typed& v) {
  return v.kind == Kind::View && has_type(v) && rank_of(v) <= 2 && !(v.dtype == DType::F64 && rank_of(v) == 1);
}

/// A matrix, or a vector beside one.
std::optional<Typed> array_in(LoopTranslator& t, const Typed& v) {
  if (v.kind != Kind::View && v.kind != Kind::Object) return std::nullopt;
  const Typed* found = array_of(t, v);
  if (!found || rank_of(*found) > 2 || !has_type(*found)) return std::nullopt;
  return *found;
}

int64_t seen_elements(const Typed& v) {
  int64_t count = 1;
  for (const int64_t length : v.seen) count *= length;
  return count;
}

/// How many elements there are. They lie side by side, or the loop does not do it.
cfg::Id packed_count(LoopTranslator& t, const Typed& v) {
  if (!v.packed) {
    if (rank_of(v) == 2) throw NotCompiled{"a matrix whose elements are apart", true};
    t.check(t.op(Op::Eq, Type::I64, v.ids[2], t.integer(size_of(v))));
  }
  return rank_of(v) == 1 ? v.ids[1] : t.op(Op::Mul, Type::I64, v.ids[1], v.ids[2]);
}

/// NumPy makes a copy of what is not aligned.
void check_aligned(LoopTranslator& t, const Typed& v) {
  if (v.slot == Typed::kTemporary) return;
  cfg::Id all = v.ids[0];
  for (std::size_t k = 1 + rank_of(v); k < v.ids.size(); ++k) all = t.op(Op::Or, Type::I64, all, v.ids[k]);
  const int64_t part = cfg::size_of(memory_of(v.dtype));
  t.check(t.op(Op::Eq, Type::I64, t.op(Op::And, Type::I64, all, t.integer(part - 1)), t.integer(0)));
}

void store(LoopTranslator& t, const void* place, cfg::Id value) {
  t.store(t.address(&form), static_cast<int>(static_cast<const char*>(place) - reinterpret_cast<const char*>(&form)),
          value);
}

void store(LoopTranslator& t, const intptr_t& place, int64_t value) { store(t, &place, t.integer(value)); }

/// The loop of an operator on arrays of a type.
const cfg::Function& function_for(LoopTranslator& t, int kind, DType dtype) {
  const auto type = static_cast<std::size_t>(std::find(kTypes.begin(), kTypes.end(), dtype) - kTypes.begin());
  for (std::size_t k = 0; k < kOperators.size(); ++k) {
    if (kOperators[k].first != kind) continue;
    const std::size_t at = kTypes.size() * k + type;
    if (!loops[at].function && t.request.options.array_loop)
      loops[at] = t.request.options.array_loop(kOperators[k].second, dtype);
    ignores_flags = t.request.options.ignores_flags;
    if (!loops[at].function || !ignores_flags) break;
    if (kind != kMatmul || !t.request.options.grouped_product) return kFunctions[at];
    grouped_product = t.request.options.grouped_product;
    return kGroupedFunctions[at];
  }
  throw NotCompiled{"an operator on matrices", true};
}

/// A new array that is to be computed.
Typed new_array(LoopTranslator& t, DType dtype, std::vector<cfg::Id> lengths, std::vector<int64_t> seen) {
  Typed made;
  made.kind = Kind::View;
  made.dtype = dtype;
  made.seen = std::move(seen);
  const int64_t size = graph::size_of(dtype);
  if (seen_elements(made) > kMostBytes / size) throw NotCompiled{"a new array", true};
  cfg::Id count = t.integer(1);
  for (const cfg::Id length : lengths) {
    t.check(t.op(Op::Below, Type::I64, length, t.integer(kMostBytes / size + 1)));
    count = t.op(Op::Mul, Type::I64, count, length);
  }
  t.check(t.op(Op::Below, Type::I64, t.op(Op::Sub, Type::I64, count, t.integer(1)), t.integer(kMostBytes / size)));
  const RoomForArray room = room_for_array(t);
  made.slot = Typed::kTemporary;
  made.array = room.number;
  made.whole = made.packed = true;
  made.ids = {room.address};
  made.ids.insert(made.ids.end(), lengths.begin(), lengths.end());
  if (lengths.size() == 2) made.ids.push_back(t.op(Op::Mul, Type::I64, lengths[1], t.integer(size)));
  made.ids.push_back(t.integer(size));
  t.name(made);
  t.in_hand.push_back(made);
  return made;
}

Typed product(LoopTranslator& t, const Typed& a, const Typed& b) {
  if (a.dtype != b.dtype) throw NotCompiled{"a product of arrays of two types", true};
  const cfg::Function& function = function_for(t, kMatmul, a.dtype);
  const bool rows = rank_of(a) == 2, columns = rank_of(b) == 2;
  const cfg::Id one = t.integer(1), zero = t.integer(0);
  const cfg::Id depth = a.ids[rows ? 2 : 1];
  const auto stride = [&](const Typed& v, std::size_t axis) {
    const cfg::Id is_one = t.op(Op::Eq, Type::I64, v.ids[1 + axis], one);
    return t.op(Op::Select, Type::I64, is_one, zero, v.ids[1 + rank_of(v) + axis]);
  };
  std::vector<cfg::Id> lengths;
  std::vector<int64_t> seen;
  if (rows) lengths.push_back(a.ids[1]), seen.push_back(a.seen[0]);
  if (columns) lengths.push_back(b.ids[2]), seen.push_back(b.seen[1]);
  const bool is_number = lengths.empty();  // which is the one element of an array
  if (is_number) lengths.push_back(one), seen.push_back(1);
  const bool is_grouped = t.request.options.grouped_product && rows != columns && a.slot != Typed::kTemporary &&
                          b.slot != Typed::kTemporary && (a.dtype == DType::F64 || a.dtype == DType::F32);
  if (seen_elements(a) * (columns ? b.seen[1] : 1) > (is_grouped ? kMostGrouped : kMostProducts))
    throw NotCompiled{"a product of matrices", true};
  t.check(t.op(Op::Eq, Type::I64, depth, b.ids[1]));
  t.check(t.op(Op::Lt, Type::I64, zero, depth));
  t.check(t.op(Op::Le, Type::I64, depth, t.integer(kMostProducts)));
  check_aligned(t, a);
  check_aligned(t, b);
  const Typed made = new_array(t, a.dtype, std::move(lengths), std::move(seen));
  // The strides of an axis of length 1, or of one that is not there, are 0 in NumPy's calls.
  const cfg::Id counts[] = {one, rows ? a.ids[1] : one, depth, columns ? b.ids[2] : one};
  const cfg::Id steps[] = {zero,
                           zero,
                           zero,
                           rows ? stride(a, 0) : zero,
                           stride(a, rows ? 1 : 0),
                           stride(b, 0),
                           columns ? stride(b, 1) : zero,
                           rows ? stride(made, 0) : zero,
                           columns ? stride(made, rows ? 1 : 0) : zero};
  for (std::size_t k = 0; k < std::size(counts); ++k) store(t, &form.counts[k], counts[k]);
  for (std::size_t k = 0; k < std::size(steps); ++k) store(t, &form.steps[k], steps[k]);
  if (t.request.options.grouped_product) store(t, form.site, is_grouped ? t.program->grouped_products++ : -1);
  update(t, function, a.ids[0], b.ids[0], made.ids[0]);
  return is_number ? get_item(t, made, of_int(zero, true)) : made;
}

/// The operator by element, with its results at an address.
void by_element(LoopTranslator& t, int kind, const Typed& a, const Typed& b, cfg::Id address) {
  const Typed& like = is_matrix(a) ? a : b;
  const cfg::Function& function = function_for(t, kind, like.dtype);
  const int64_t size = size_of(like);
  cfg::Id places[2];
  for (std::size_t k = 0; k < 2; ++k) {
    const Typed& v = k == 0 ? a : b;
    if (is_matrix(v)) {
      check_aligned(t, v);
      places[k] = v.ids[0];
      store(t, form.steps[k], size);
      continue;
    }
    const bool is_complex = like.dtype == DType::C128;
    const std::vector<cfg::Id> parts = is_complex ? as_complex(t, v).ids : std::vector{converted(t, v, like.dtype)};
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const auto offset = reinterpret_cast<const char*>(&form.numbers[k][part]) - reinterpret_cast<const char*>(&form);
      t.store(t.address(&form), static_cast<int>(offset), t.settled(parts[part]), memory_of(like.dtype));
    }
    places[k] = t.address(&form.numbers[k]);
    store(t, form.steps[k], 0);
  }
  store(t, form.steps[2], size);
  store(t, &form.counts[0], packed_count(t, like));
  update(t, function, places[0], places[1], address);
}

/// Has the operator with such an array a result of the array's type?
bool is_operand(const Typed& v, const Typed& beside) {
  if (is_matrix(v)) return v.dtype == beside.dtype && rank_of(v) == rank_of(beside);
  if (beside.dtype == DType::C128) return v.is_single();
  if (beside.dtype == DType::F64) return v.is_number();
  if (v.kind == Kind::Scalar) return v.dtype == beside.dtype;
  return v.kind == Kind::Int || v.kind == Kind::Bool || (v.kind == Kind::Float && beside.dtype == DType::F32);
}

void check_same_lengths(LoopTranslator& t, const Typed& a, const Typed& b) {
  for (std::size_t k = 1; k <= rank_of(a); ++k) t.check(t.op(Op::Eq, Type::I64, a.ids[k], b.ids[k]));
  packed_count(t, a);
  packed_count(t, b);
}

std::vector<cfg::Id> lengths_of(const Typed& v) {
  return {v.ids.begin() + 1, v.ids.begin() + 1 + static_cast<std::ptrdiff_t>(rank_of(v))};
}

}  // namespace

std::optional<Typed> matrix_binary(LoopTranslator& t, int nb, const Typed& x, const Typed& y) {
  const int kind = nb % kBinaryKinds;
  const std::optional<Typed> left = array_in(t, x), right = array_in(t, y);
  const Typed a = left ? *left : x, b = right ? *right : y;
  if (t.recursion.is_recursion || (!is_matrix(a) && !is_matrix(b))) return std::nullopt;
  if (kind == kMatmul) {
    if (!left || !right || nb >= kBinaryKinds) return std::nullopt;
    t.makes_products = true;
    return product(t, a, b);
  }
  const Typed& like = is_matrix(a) ? a : b;
  if ((kind != kAdd && kind != kSub && kind != kMul && kind != kTrueDiv) || !is_operand(a, like) ||
      !is_operand(b, like) || (kind == kTrueDiv && graph::is_int(like.dtype)))
    return std::nullopt;
  t.makes_vectors = t.makes_matrices = true;
  if (is_matrix(a) && is_matrix(b)) check_same_lengths(t, a, b);
  if (nb < kBinaryKinds || !is_matrix(a)) {
    packed_count(t, like);
    const Typed made = new_array(t, like.dtype, lengths_of(like), like.seen);
    by_element(t, kind, a, b, made.ids[0]);
    return made;
  }
  // How NumPy computes products and quotients of complex numbers may depend on where they are stored.
  if (like.dtype == DType::C128 && (kind == kMul || kind == kTrueDiv)) return std::nullopt;
  require_writeable(t, a);
  Typed changed;
  changed.kind = Kind::Vector;
  changed.dtype = a.dtype;
  changed.op = nb;
  changed.seen = a.seen;
  changed.items = {a, b};
  return changed;
}

bool store_matrix(LoopTranslator& t, const Typed& target, const Typed& value) {
  if (!is_matrix(target)) return false;
  Typed from = value;
  if (is_in_place(value)) {
    from = value.items[0];
    for (std::size_t k = 0; k < target.ids.size(); ++k) t.check(t.op(Op::Eq, Type::I64, target.ids[k], from.ids[k]));
    if (seen_elements(target) * size_of(target) > kMostBytes) throw NotCompiled{"an assignment to a matrix", true};
    const cfg::Id room = scratch(t, LoopProgram::kResultAt);
    t.check(t.op(Op::Below, Type::I64, packed_count(t, target), t.integer(kMostBytes / size_of(target) + 1)));
    by_element(t, value.op % kBinaryKinds, from, value.items[1], room);
    from.ids[0] = room;
  } else {
    const std::optional<Typed> array = array_in(t, value);
    if (!array || array->dtype != target.dtype || rank_of(*array) != rank_of(target)) return false;
    from = *array;
    check_same_lengths(t, target, from);
    check_aligned(t, from);
  }
  check_aligned(t, target);
  require_writeable(t, target);
  update(t, kCopy, target.ids[0], from.ids[0],
         t.op(Op::Mul, Type::I64, packed_count(t, target), t.integer(size_of(target))));
  return true;
}

}  // namespace framejit::capture
