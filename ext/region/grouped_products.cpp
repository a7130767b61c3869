#include "ext/region/grouped_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "ext/module/config.h"
#include "ext/module/core_code.h"
#include "ext/module/stats.h"
#include "graph/support/fp_state.h"
#include "runtime/allocator.h"
#include "runtime/execute.h"

namespace framejit::ext::region {

namespace {

constexpr int64_t kLeastBytes = 64 << 10;  // of a matrix: a smaller one stays in the first-level cache
constexpr int64_t kMostRows = 14;          // those of the largest tile of a core
constexpr int64_t kMostDropped = 8, kMostWanted = 64;

template <class T>
bool is_finite(const char* row, int64_t count) {
  const T* const numbers = reinterpret_cast<const T*>(row);
  T sum = 0;  // 0 * x is 0, or NaN
  for (int64_t i = 0; i < count; ++i) sum += numbers[i] * T(0);
  return sum == T(0);
}

}  // namespace

bool GroupedProducts::Call::is_like(const Call& o) const {
  return depth == o.depth && vector_step == o.vector_step && matrix_row == o.matrix_row &&
         matrix_column == o.matrix_column && dtype == o.dtype;
}

GroupedProducts::Call GroupedProducts::Call::after(int64_t rounds, int64_t vector_by, int64_t dropped) const {
  Call later = *this;
  later.vector += rounds * vector_by;
  later.matrix += rounds * dropped * matrix_column;
  later.columns -= rounds * dropped;
  return later;
}

void GroupedProducts::begin(const std::vector<Memory>& arrays, const std::vector<Memory>& changed) {
  readable_.clear();
  for (const Memory& array : arrays)
    if (std::none_of(changed.begin(), changed.end(),
                     [&](const Memory& other) { return array.first < other.second && other.first < array.second; }))
      readable_.push_back(array);
  for (Site& site : sites_) {
    std::vector<char> results = std::move(site.results);
    site = {};
    site.results = std::move(results);
  }
}

/// Do elements that lie so, (length, step) along each axis, belong to one array that does not change?
bool GroupedProducts::may_read(int64_t address, std::initializer_list<std::pair<int64_t, int64_t>> axes,
                               int64_t item) const {
  int64_t first = address, end = address + item;
  for (const auto& [length, step] : axes) (step < 0 ? first : end) += (length - 1) * step;
  return std::any_of(readable_.begin(), readable_.end(),
                     [&](const Memory& array) { return array.first <= first && end <= array.second; });
}

bool GroupedProducts::compute(Site& site, const Call& call) {
  const int64_t item = graph::size_of(call.dtype);
  int64_t rows = std::min(site.next_rows, kMostRows);
  if (site.dropped > 0) rows = std::min(rows, (call.columns - 1) / site.dropped + 1);
  // Near the end of a loop, fewer rounds are left.
  while (rows > 1 && !may_read(call.vector, {{rows, site.vector_by}, {call.depth, call.vector_step}}, item)) --rows;
  if (rows < 2 || !may_read(call.matrix, {{call.depth, call.matrix_row}, {call.columns, call.matrix_column}}, item))
    return false;
  const codegen::Cpu& cpu = module::target_cpu();
  const runtime::CodeBlock* const code = module::matmul_code(call.dtype);
  if (!code) return false;
  runtime::Product product;
  product.core = codegen::MatMulCore(call.dtype, cpu.isa == codegen::Isa::Avx512);
  product.code = code->entry(0);
  product.l2_bytes = cpu.l2_bytes;
  product.m = rows, product.n = call.columns, product.k = call.depth;
  product.a_row = site.vector_by, product.a_k = call.vector_step;
  product.b_k = call.matrix_row, product.b_column = call.matrix_column;
  product.c_row = call.columns * item;
  product.plan();
  try {
    site.results.resize(static_cast<std::size_t>(rows * product.c_row));
  } catch (const std::bad_alloc&) {
    return false;
  }
  runtime::RunState state;
  state.buffers = nullptr;
  if (product.scratch_bytes > 0) {
    state.reserve = static_cast<char*>(runtime::allocate(static_cast<std::size_t>(product.scratch_bytes)));
    if (!state.reserve) return false;
  }
  char* const reserve = state.reserve;
  runtime::run_product(product, reinterpret_cast<const char*>(call.vector), reinterpret_cast<const char*>(call.matrix),
                       site.results.data(), state);
  runtime::release(reserve);
  clear_fp_flags();
  site.first = call;
  site.rows = rows, site.row = 0;
  site.next_rows = 2 * rows;
  return true;
}

bool GroupedProducts::multiply(graph::DType dtype, char** places, const intptr_t* counts, const intptr_t* steps,
                               int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(sites_.size())) return false;
  const bool is_row = counts[1] == 1;  // times a matrix; else a matrix times a column
  const int64_t item = graph::size_of(dtype);
  Call call;
  call.dtype = dtype, call.depth = counts[2], call.columns = counts[is_row ? 3 : 1];
  call.vector = reinterpret_cast<int64_t>(places[is_row ? 0 : 1]);
  call.matrix = reinterpret_cast<int64_t>(places[is_row ? 1 : 0]);
  call.vector_step = steps[is_row ? 4 : 5];
  call.matrix_row = steps[is_row ? 5 : 4], call.matrix_column = steps[is_row ? 6 : 3];
  if (call.depth * call.columns * item < kLeastBytes) return false;
  Site& site = sites_[static_cast<std::size_t>(number)];
  const Call before = std::exchange(site.last, call);
  const auto is_next = [&](const Call& from, int64_t rounds) {
    const Call expected = from.after(rounds, site.vector_by, site.dropped);
    return call.is_like(expected) && call.vector == expected.vector && call.matrix == expected.matrix &&
           call.columns == expected.columns;
  };
  if (site.row >= site.rows || !is_next(site.first, site.row)) {
    if (site.row < site.rows) site.next_rows = 2;
    // Where most of a group was computed for nothing, operands have to move alike for longer before the next one.
    if (2 * site.row <= site.rows && site.rows > 0) site.wanted = std::min(2 * site.wanted, kMostWanted);
    site.rows = site.row = 0;
    const int64_t vector_by = call.vector - before.vector, dropped = before.columns - call.columns;
    if (vector_by != site.vector_by || dropped != site.dropped) site.steady = 0;
    site.vector_by = vector_by, site.dropped = dropped;
    if (dropped < 0 || dropped > kMostDropped || !is_next(before, 1)) return site.steady = 0, false;
    if (++site.steady < site.wanted || !compute(site, call)) return false;
  }
  const char* const row = site.results.data() + (site.row * site.first.columns + site.row * site.dropped) * item;
  ++site.row;
  // NumPy has the warnings, and its own NaN.
  if (!(item == 4 ? is_finite<float>(row, call.columns) : is_finite<double>(row, call.columns))) return false;
  ++module::stats.grouped_products;
  std::memcpy(places[2], row, static_cast<std::size_t>(call.columns * item));
  return true;
}

GroupedProducts& grouped_products() {
  static auto& products = *new GroupedProducts;
  return products;
}

bool grouped_product(graph::DType dtype, char** places, const intptr_t* counts, const intptr_t* steps, int64_t site) {
  return grouped_products().multiply(dtype, places, counts, steps, site);
}

}  // namespace framejit::ext::region
