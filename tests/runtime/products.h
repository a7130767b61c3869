// What the tests of matrix products and of convolutions share.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "oracle.h"

namespace framejit::runtime::testing {

/// Memory between two unmapped pages; its end stands right before the second.
class Guarded {
 public:
  explicit Guarded(int64_t bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE);
    size_ = (bytes + page - 1) / page * page + 2 * page;
    map_ = static_cast<char*>(
        mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_, static_cast<std::size_t>(page), PROT_NONE);
    mprotect(map_ + size_ - page, static_cast<std::size_t>(page), PROT_NONE);
    data = map_ + size_ - page - bytes;
  }
  ~Guarded() { munmap(map_, static_cast<std::size_t>(size_)); }
  Guarded(const Guarded&) = delete;
  char* data;
  char* begin() const { return map_ + sysconf(_SC_PAGESIZE); }
  int64_t room() const { return size_ - 2 * sysconf(_SC_PAGESIZE); }

 private:
  char* map_;
  int64_t size_;
};

struct Ran {
  std::vector<std::vector<std::byte>> results;
  std::string listing;
  int64_t memory = 0;  // of temporaries and scratch
  unsigned flags = 0;
};

inline Ran run_graph(const std::string& text, const std::vector<std::vector<std::byte>>& params,
                     const codegen::Cpu& cpu, std::vector<int64_t> symbols = {}, bool narrow = false) {
  const Graph graph = parse_graph(text);
  codegen::LowerOptions options;
  options.cpu = cpu;
  options.o1 = true;
  options.narrow_products = narrow;
  options.numpy_loop = reference_loop;
  auto program = codegen::lower(graph, fused(graph), options);
  if (!program) {
    ADD_FAILURE() << program.error();
    return {};
  }
  Ran out;
  out.listing = codegen::listing(*program);
  auto plan = Plan::create(std::move(*program));
  if (!plan) {
    ADD_FAILURE() << plan.error();
    return {};
  }
  std::vector<char*> pointers, results;
  for (const auto& p : params) pointers.push_back(reinterpret_cast<char*>(const_cast<std::byte*>(p.data())));
  for (std::size_t i = 0; i < (*plan)->program().result_roots.size(); ++i) {
    out.results.emplace_back(static_cast<std::size_t>((*plan)->result_bytes(static_cast<uint32_t>(i), symbols)));
    results.push_back(reinterpret_cast<char*>(out.results.back().data()));
  }
  const RunResult run = (*plan)->run(pointers, results, symbols);
  EXPECT_EQ(run.status, RunStatus::Done);
  out.memory = (*plan)->buffer_bytes(symbols);
  out.flags = run.flags;
  return out;
}

/// The sizes and the layout of a product.
struct ProductCase {
  int64_t m, n, k;
  bool at = false, bt = false;  // stored transposed
  int64_t batch = 1;
  bool shared_b = false;  // one B for all of the batch
  int64_t pad = 0;        // elements between rows
  int64_t spread = 1;     // elements from a column to the next
  int64_t l2_bytes = 1 << 20;
};

}  // namespace framejit::runtime::testing
