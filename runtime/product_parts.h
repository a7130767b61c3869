// What the ways to run a product share: where its operands lie, calls of the core's parts, and who is told of what is
// done.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "runtime/execute.h"

namespace framejit::runtime {

inline constexpr int64_t kPanelLine = 64;
inline constexpr int64_t kRowBytes = 16 << 10;  // of a stretch of C, or of rows of A that are computed

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
inline int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// Rectangle of C.
struct Block {
  int64_t batch, row, row_end, column, column_end;
};

class ProductParts {
 public:
  ProductParts(const Product& product, const char* a, const char* b, char* c, const FinishedTile* finished)
      : p_(product), core_(product.core), a_(a), b_(b), c_(c), finished_(finished) {}

  Product::Path path() const { return p_.way.path; }
  /// Asked between bands of an image by the ways that take long in one piece; true: the run has ended, C is not wanted.
  void ask(const std::function<bool()>* stops) { stops_ = stops; }

 protected:
  bool stopped() const { return stops_ && (*stops_)(); }

  void finish(int64_t batch, int64_t row, int64_t row_end, int64_t column, int64_t column_end) const {
    if (!finished_) return;
    if (p_.way.swapped) std::swap(row, column), std::swap(row_end, column_end);
    for_matrices(batch, row, row_end, [&](int64_t matrix, int64_t first, int64_t end, int64_t) {
      (*finished_)(matrix, first, end, column, column_end);
    });
  }

  /// Rows of several matrices, where they were joined: f(matrix, its first row, behind its last one, rows before
  /// these).
  template <class F>
  void for_matrices(int64_t batch, int64_t row, int64_t row_end, F&& f) const {
    const int64_t matrices = p_.way.rows / p_.way.matrix_rows, begin = row;
    while (row < row_end) {
      const int64_t matrix = row / p_.way.matrix_rows, first = matrix * p_.way.matrix_rows;
      const int64_t end = std::min(row_end, first + p_.way.matrix_rows);
      f(batch * matrices + matrix, row - first, end - first, row - begin);
      row = end;
    }
  }

  void call(int part, const codegen::MatMulArgs& args) const { codegen::MatMulCore::part(p_.code, part)(&args); }

  void move_to(int64_t batch) {
    a_at_ = a_, b_at_ = b_, c_at_ = c_;
    for (std::size_t i = p_.batch.size(); i-- > 0;) {
      const Product::Axis& axis = p_.batch[i];
      const int64_t position = batch % axis.extent;
      batch /= axis.extent;
      a_at_ += position * axis.a, b_at_ += position * axis.b, c_at_ += position * axis.c;
    }
  }

  /// Calls f(first row, count) for blocks of almost equal height.
  template <class F>
  static void row_blocks(int64_t row, int64_t row_end, int64_t most, F&& f) {
    if (row_end - row <= most) return f(row, row_end - row);
    const int64_t blocks = divide_up(row_end - row, most);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t rows = divide_up(row_end - row, blocks - i);
      f(row, rows);
      row += rows;
    }
  }

  int64_t panel_columns() const { return 2 * core_.lanes; }
  int64_t panel_row() const { return 2 * core_.vector_bytes(); }

  void copy_element(const char* from, char* to) const {
    if (core_.item == 4) std::memcpy(to, from, 4);
    else std::memcpy(to, from, 8);
  }

  const Product& p_;
  const codegen::MatMulCore& core_;
  const char *a_, *b_;
  char* c_;
  const FinishedTile* finished_;
  const std::function<bool()>* stops_ = nullptr;
  const char *a_at_ = nullptr, *b_at_ = nullptr;
  char* c_at_ = nullptr;
};

/// A block of a product with windows; `at` stands at the block's batch.
void run_convolution(const ProductParts& at, const Block& block, char* scratch);

}  // namespace framejit::runtime
