// Vectors times one matrix, a product in each round of a compiled loop, several rounds at once (O1).
//
//     for i in range(n):                     rounds 0, 1   as NumPy multiplies
//         out[i] = rows[i] @ matrix          round 2       rows[2:4] @ matrix; row 2 is its result, row 3 is kept
//                                            round 4       rows[4:8] @ matrix ...
//
// The operands of the next rounds are predicted from how they have moved so far. If a round multiplies something else,
// the prediction begins anew, later each time: a wrong one costs time, and nothing else. Only arrays of the program are
// read, and none that the loop may change.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "graph/dtype.h"
#include "runtime/parallel_loop.h"

namespace framejit::ext::region {

class GroupedProducts {
 public:
  using Memory = runtime::ParallelLoop::Memory;

  /// A loop begins. `changed`: what it writes.
  void begin(const std::vector<Memory>& arrays, const std::vector<Memory>& changed);

  /// As NumPy's loop of matmul would be called; `site`: the number of the product in the loop. False: not done.
  bool multiply(graph::DType dtype, char** places, const intptr_t* counts, const intptr_t* steps, int64_t site);

 private:
  /// C[n] = a vector times a matrix [depth, n]; bytes from one element to the next.
  struct Call {
    int64_t vector = 0, matrix = 0;  // addresses
    int64_t depth = 0, columns = 0, vector_step = 0, matrix_row = 0, matrix_column = 0;
    graph::DType dtype = graph::DType::F64;

    bool is_like(const Call& other) const;
    /// The same, so many rounds later.
    Call after(int64_t rounds, int64_t vector_by, int64_t dropped) const;
  };
  struct Site {
    Call last, first;                    // of the round before; of the group
    int64_t rows = 0, row = 0;           // of the group, which begins with `first`; the next one that is wanted
    int64_t vector_by = 0, dropped = 0;  // how the vector moves from round to round, and columns that are left out
    int64_t next_rows = 2;               // of the next group: groups grow as long as they are used
    int64_t steady = 0, wanted = 1;      // rounds in which the operands moved alike, and how many a group begins after
    std::vector<char> results;           // [rows, first.columns]
  };

  bool may_read(int64_t address, std::initializer_list<std::pair<int64_t, int64_t>> axes, int64_t item) const;
  /// The results of as many rounds as can be had, from `call` on. False: just as well alone.
  bool compute(Site& site, const Call& call);

  std::vector<Memory> readable_;
  std::array<Site, 4> sites_;
};

/// That of the loop that runs; with the GIL.
GroupedProducts& grouped_products();
/// CaptureOptions::grouped_product.
bool grouped_product(graph::DType dtype, char** places, const intptr_t* counts, const intptr_t* steps, int64_t site);

}  // namespace framejit::ext::region
