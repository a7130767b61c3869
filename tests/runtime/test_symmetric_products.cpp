// A matrix times its own transpose, of which half is computed: to the bit what two matrices give that only have equal
// elements; each element finished once, with its final value; any number of threads.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <random>

#include "codegen/matmul.h"
#include "products.h"
#include "runtime/exec_memory.h"
#include "runtime/execute.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

struct Layout {
  bool transposed = false;
  int64_t pad = 0;  // elements between rows
};

template <class T>
class Symmetric {
 public:
  Symmetric(int64_t m, int64_t k, Layout layout, const codegen::Cpu& cpu, const void* code, int64_t l2_bytes) : m_(m) {
    const int64_t item = sizeof(T), rows = layout.transposed ? k : m, columns = layout.transposed ? m : k;
    const int64_t pitch = (columns + layout.pad) * item;
    p_.core = codegen::MatMulCore(sizeof(T) == 4 ? DType::F32 : DType::F64, cpu.isa == codegen::Isa::Avx512);
    p_.code = code;
    p_.l2_bytes = l2_bytes;
    p_.m = p_.n = m, p_.k = k;
    p_.a_row = p_.b_column = layout.transposed ? item : pitch;
    p_.a_k = p_.b_k = layout.transposed ? pitch : item;
    p_.c_row = (m + layout.pad) * item;
    p_.plan();
    a_ = std::make_unique<Guarded>(rows * pitch);
    equal_ = std::make_unique<Guarded>(rows * pitch);
    std::mt19937_64 random(static_cast<uint64_t>(m * 1000 + k));
    for (int64_t i = 0; i < rows * pitch; i += item) {
      const T value = static_cast<T>(static_cast<double>(random() % 20001) / 10000 - 1);
      std::memcpy(a_->data + i, &value, sizeof(T));
      std::memcpy(equal_->data + i, &value, sizeof(T));
    }
  }

  void expect_same() const {
    std::vector<int> finished(static_cast<std::size_t>(m_ * m_));
    std::vector<T> seen(finished.size());
    const std::vector<T> whole = run(equal_->data, nullptr);
    std::mutex mutex;
    const FinishedTile look = [&](int64_t batch, int64_t row, int64_t row_end, int64_t column, int64_t column_end) {
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(batch, 0);
      for (int64_t i = row; i < row_end; ++i)
        for (int64_t j = column; j < column_end; ++j) {
          ++finished[static_cast<std::size_t>(i * m_ + j)];
          std::memcpy(&seen[static_cast<std::size_t>(i * m_ + j)], c_->data + i * p_.c_row + j * int64_t{sizeof(T)},
                      sizeof(T));
        }
    };
    const std::vector<T> half = run(a_->data, &look);
    EXPECT_EQ(std::memcmp(whole.data(), half.data(), whole.size() * sizeof(T)), 0) << name();
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t j = 0; j < m_; ++j) {
        const auto at = static_cast<std::size_t>(i * m_ + j);
        ASSERT_EQ(finished[at], 1) << name() << " at " << i << "," << j;
        ASSERT_EQ(seen[at], half[static_cast<std::size_t>(i * (p_.c_row / int64_t{sizeof(T)}) + j)]) << name();
      }
  }

 private:
  std::vector<T> run(const char* b, const FinishedTile* finished) const {
    const int64_t bytes = (m_ - 1) * p_.c_row + m_ * int64_t{sizeof(T)};
    c_ = std::make_unique<Guarded>(bytes);
    std::memset(c_->data, 0x55, static_cast<std::size_t>(bytes));
    RunState state;
    run_product(p_, a_->data, b, c_->data, state, finished);
    std::vector<T> out(static_cast<std::size_t>(bytes) / sizeof(T));
    std::memcpy(out.data(), c_->data, static_cast<std::size_t>(bytes));
    return out;
  }
  std::string name() const {
    return std::to_string(m_) + " rows, " + std::to_string(p_.k) + " columns, path " +
           std::to_string(static_cast<int>(p_.way.path));
  }

  int64_t m_;
  Product p_;
  std::unique_ptr<Guarded> a_, equal_;
  mutable std::unique_ptr<Guarded> c_;
};

class SymmetricProducts : public ::testing::Test {
 protected:
  void check(const std::vector<std::pair<int64_t, int64_t>>& shapes, int64_t l2_bytes = 1 << 20) {
    for (const codegen::Cpu& cpu : cpus())
      for (DType dtype : {DType::F32, DType::F64}) {
        auto kernel = codegen::emit_matmul(dtype, cpu.isa);
        ASSERT_TRUE(kernel.has_value());
        const std::span<const uint8_t> piece(kernel->bytes);
        auto block = CodeBlock::seal({&piece, 1});
        ASSERT_TRUE(block.has_value());
        for (auto [m, k] : shapes)
          for (Layout layout : {Layout{false, 0}, Layout{false, 3}, Layout{true, 0}, Layout{true, 5}}) {
            if (dtype == DType::F32) Symmetric<float>(m, k, layout, cpu, block->entry(0), l2_bytes).expect_same();
            else Symmetric<double>(m, k, layout, cpu, block->entry(0), l2_bytes).expect_same();
            if (HasFatalFailure()) return;
          }
      }
  }
};

TEST_F(SymmetricProducts, Tails) {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (int64_t m : {31, 32, 33, 39, 40, 41, 47, 48, 63, 64, 65, 97})
    for (int64_t k : {3, 4, 16, 33, 257}) shapes.emplace_back(m, k);
  check(shapes);
}

TEST_F(SymmetricProducts, BlocksOfColumnsAndDepth) {
  check({{130, 300}, {61, 700}, {200, 520}, {257, 270}}, 16 << 10);
  check({{400, 600}, {333, 40}, {700, 100}});
}

TEST_F(SymmetricProducts, AnyNumberOfThreads) {
  for (int threads : {2, 3}) {
    set_num_threads(threads);
    check({{200, 300}, {333, 129}}, 64 << 10);
    check({{420, 600}});
  }
  set_num_threads(0);
}

}  // namespace
}  // namespace framejit::runtime::testing
