// Folds against plain models: NumPy's pairwise leaf to the bit, row folds, any order, strict left folds.
#include <bit>
#include <cmath>
#include <random>

#include "harness.h"
#include "reference.h"

namespace framejit::codegen::testing {
namespace {

using enum Access;

struct Shape {
  int64_t n, rows;
};

/// Input of one fold: `rows` x `n` elements with strides in bytes.
struct Input {
  DType dtype;
  GuardedBuffer buffer;
  char* first;
  int64_t inner, outer;
  uint64_t at(int64_t row, int64_t i) const { return read_element(dtype, first + row * outer + i * inner); }
};

Input make_input(DType t, Shape s, int64_t inner_elements, std::mt19937_64& random, bool special) {
  const int size = graph::size_of(t);
  const int64_t inner = inner_elements * size, outer = std::abs(inner) * std::max<int64_t>(s.n, 1) + size;
  GuardedBuffer buffer(static_cast<std::size_t>(outer * std::max<int64_t>(s.rows, 1) + size));
  char* first = buffer.data() + (inner < 0 ? std::abs(inner) * std::max<int64_t>(s.n - 1, 0) : 0);
  Input in{t, std::move(buffer), first, inner, outer};
  const auto specials = special_values(t);
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t i = 0; i < s.n; ++i) {
      uint64_t bits;
      if (t == DType::Bool) bits = random() % 8 == 0;
      else if (special) bits = specials[random() % specials.size()];
      else if (graph::is_float(t)) bits = from_double(t, (static_cast<double>(random() % 2000000) - 1e6) / 777.0);
      else bits = random();
      write_element(t, in.first + row * outer + i * inner, bits);
    }
  return in;
}

Op elementwise_of(DType t, Op combine) {
  if (t != DType::Bool) return combine;
  return combine == Op::LogicalAnd ? Op::Multiply : combine == Op::LogicalOr ? Op::Add : combine;
}

uint64_t combined(Op combine, DType t, uint64_t a, uint64_t b, unsigned* flags) {
  const uint64_t args[3] = {a, b, 0};
  return reference_apply(elementwise_of(t, combine), t, args, false, flags);
}

/// NumPy's pairwise sum of up to 128 elements.
template <class T>
T pairwise_model(const std::vector<T>& x) {
  T total = T(-0.0);
  std::size_t i = 0;
  if (x.size() >= 8) {
    T r[8];
    for (int j = 0; j < 8; ++j) r[j] = x[j];
    for (i = 8; i + 8 <= x.size(); i += 8)
      for (int j = 0; j < 8; ++j) r[j] += x[i + j];
    total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  }
  for (; i < x.size(); ++i) total += x[i];
  return total;
}

uint64_t pairwise_bits(DType t, const std::vector<uint64_t>& bits) {
  if (t == DType::F32) {
    std::vector<float> x;
    for (uint64_t b : bits) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(b)));
    return std::bit_cast<uint32_t>(pairwise_model(x));
  }
  std::vector<double> x;
  for (uint64_t b : bits) x.push_back(std::bit_cast<double>(b));
  return std::bit_cast<uint64_t>(pairwise_model(x));
}

class Folds : public ::testing::TestWithParam<Isa> {};

/// Rows of their own lengths.
unsigned run_leaves(const Executable& code, char* const* ptrs, const int64_t* strides,
                    const std::vector<int64_t>& lengths) {
  return run_kernel(code, ptrs, strides, static_cast<int64_t>(reinterpret_cast<intptr_t>(lengths.data())),
                    std::ssize(lengths));
}

TEST_P(Folds, PairwiseLeaf) {
  std::mt19937_64 random(7);
  // The source is cast to the summed dtype and squared where both are the same.
  const std::pair<DType, DType> kinds[] = {{DType::F32, DType::F32}, {DType::F64, DType::F64},
                                           {DType::F64, DType::F32}, {DType::F32, DType::F64},
                                           {DType::I8, DType::F32},  {DType::Bool, DType::F64}};
  for (auto [source, t] : kinds)
    for (Access access : {Contiguous, Strided}) {
      LoopNest nest;
      uint16_t x = add_load(nest, source, access);
      if (source != t) x = add_apply(nest, Op::Cast, source, t, {x});
      else x = add_apply(nest, Op::Square, t, t, {x});
      add_store(nest, t, Broadcast, x);
      nest.fold = Fold::PairwiseLeaf;
      const Executable code = compile(nest, GetParam());
      for (int64_t n = 0; n <= 128; ++n)
        for (bool special : {false, true}) {
          const Shape shape{n, 1 + n % 3};
          const Input in = make_input(source, shape, access == Strided ? -3 : 1, random, special);
          std::vector<double> out(4, 99.0);
          const int size = graph::size_of(t);
          char* ptrs[] = {in.first, reinterpret_cast<char*>(out.data())};
          const int64_t strides[] = {in.inner, in.outer - n * in.inner, 0, size};
          run_leaves(code, ptrs, strides, std::vector<int64_t>(static_cast<std::size_t>(shape.rows), n));
          for (int64_t row = 0; row < shape.rows; ++row) {
            std::vector<uint64_t> values;
            unsigned flags = 0;
            for (int64_t i = 0; i < n; ++i) {
              const uint64_t args[3] = {in.at(row, i), 0, 0};
              values.push_back(source != t ? reference_cast(source, t, args[0], &flags)
                                           : reference_apply(Op::Square, t, args, false, &flags));
            }
            const uint64_t want = pairwise_bits(t, values), got = read_element(t, ptrs[1] + row * size);
            ASSERT_TRUE(same_element(t, want, got)) << isa_name(GetParam()) << " n " << n << " row " << row << "\n"
                                                    << nest.str() << std::hex << want << " " << got;
          }
        }
    }
}

TEST_P(Folds, PairwiseLeavesFollowEachOther) {
  std::mt19937_64 random(8);
  for (Access access : {Contiguous, Strided}) {
    LoopNest nest;
    uint16_t x = add_load(nest, DType::F32, access);
    add_store(nest, DType::F32, Broadcast, x);
    nest.fold = Fold::PairwiseLeaf;
    const Executable code = compile(nest, GetParam());
    const std::vector<int64_t> lengths = {120, 128, 8, 5, 0, 17, 128};
    const Input in = make_input(DType::F32, {406, 1}, access == Strided ? 2 : 1, random, false);
    std::vector<float> out(lengths.size(), 99.0f);
    char* ptrs[] = {in.first, reinterpret_cast<char*>(out.data())};
    const int64_t strides[] = {in.inner, 0, 0, 4};
    run_leaves(code, ptrs, strides, lengths);
    int64_t at = 0;
    for (std::size_t row = 0; row < lengths.size(); at += lengths[row++]) {
      std::vector<uint64_t> values;
      for (int64_t i = 0; i < lengths[row]; ++i) values.push_back(in.at(0, at + i));
      ASSERT_EQ(pairwise_bits(DType::F32, values), std::bit_cast<uint32_t>(out[row]))
          << isa_name(GetParam()) << " row " << row;
    }
  }
}

TEST_P(Folds, PairwiseLeafFlags) {
  LoopNest nest;
  add_store(nest, DType::F64, Broadcast, add_load(nest, DType::F64, Contiguous));
  nest.fold = Fold::PairwiseLeaf;
  const Executable code = compile(nest, GetParam());
  for (int n : {1, 7, 8, 13, 128}) {
    std::vector<double> x(n, 1.0), out(1);
    char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(out.data())};
    const int64_t strides[4] = {8, 0, 0, 0};
    EXPECT_EQ(run_leaves(code, ptrs, strides, {n}), 0u);
    EXPECT_EQ(out[0], n);
    if (n < 2) continue;
    x[0] = HUGE_VAL;
    x[1] = -HUGE_VAL;
    EXPECT_EQ(run_leaves(code, ptrs, strides, {n}), static_cast<unsigned>(kInvalid));
    x[0] = x[1] = 1.7e308;
    EXPECT_EQ(run_leaves(code, ptrs, strides, {n}), static_cast<unsigned>(kOverflow));
  }
}

struct FoldCase {
  Op combine;
  DType dtype;
};

std::vector<FoldCase> cases(bool float_sums) {
  std::vector<FoldCase> out;
  for (DType t : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64,
                  DType::F32, DType::F64}) {
    for (Op op : {Op::Minimum, Op::Maximum}) out.push_back({op, t});
    if (!graph::is_float(t) || float_sums)
      for (Op op : {Op::Add, Op::Multiply}) out.push_back({op, t});
  }
  for (Op op : {Op::LogicalAnd, Op::LogicalOr}) out.push_back({op, DType::Bool});
  return out;
}

/// AnyOrder (integers, minimum, maximum: order does not show) and LeftFold have one model.
void check_scalar_fold(Fold fold, const FoldCase& c, Isa isa) {
  std::mt19937_64 random(11);
  for (Access access : {Contiguous, Strided}) {
    LoopNest nest;
    add_store(nest, c.dtype, Broadcast, add_load(nest, c.dtype, access));
    nest.fold = fold;
    nest.combine = c.combine;
    const Executable code = compile(nest, isa);
    const int size = graph::size_of(c.dtype);
    for (int64_t n = 0; n <= 300; n += n < 140 ? 1 : 37)
      for (bool special : {false, true}) {
        const Shape shape{n, n % 3};
        const Input in = make_input(c.dtype, shape, access == Strided ? 2 : 1, random, special);
        uint64_t start = c.dtype == DType::Bool ? c.combine == Op::LogicalAnd : from_double(c.dtype, 3);
        std::vector<char> out(3 * 8);
        for (int row = 0; row < 3; ++row) write_element(c.dtype, out.data() + row * size, start);
        char* ptrs[] = {in.first, out.data()};
        const int64_t strides[] = {in.inner, in.outer, 0, size};
        const unsigned flags = run_kernel(code, ptrs, strides, n, shape.rows);
        unsigned want_flags = 0;
        for (int64_t row = 0; row < shape.rows; ++row) {
          uint64_t want = start;
          for (int64_t i = 0; i < n; ++i) want = combined(c.combine, c.dtype, want, in.at(row, i), &want_flags);
          const uint64_t got = read_element(c.dtype, out.data() + row * size);
          // Which zero a minimum gives is the caller's to decide.
          const bool zeros = graph::is_float(c.dtype) && fold == Fold::AnyOrder && as_double(c.dtype, want) == 0 &&
                             as_double(c.dtype, got) == 0;
          ASSERT_TRUE(zeros || same_element(c.dtype, want, got))
              << isa_name(isa) << " n " << n << " special " << special << "\n"
              << nest.str() << std::hex << want << " " << got;
        }
        ASSERT_EQ(flags, want_flags) << nest.str() << n;
      }
  }
}

TEST_P(Folds, AnyOrder) {
  for (const FoldCase& c : cases(false)) {
    check_scalar_fold(Fold::AnyOrder, c, GetParam());
    if (HasFatalFailure()) return;
  }
}

TEST_P(Folds, LeftFold) {
  for (const FoldCase& c : cases(true)) {
    check_scalar_fold(Fold::LeftFold, c, GetParam());
    if (HasFatalFailure()) return;
  }
}

TEST_P(Folds, AnyOrderFloatSum) {
  for (DType t : {DType::F32, DType::F64}) {
    LoopNest nest;
    add_store(nest, t, Broadcast, add_load(nest, t, Contiguous));
    nest.fold = Fold::AnyOrder;
    nest.o1 = true;
    const Executable code = compile(nest, GetParam());
    std::mt19937_64 random(3);
    for (int64_t n : {0, 1, 5, 16, 63, 64, 65, 1000}) {
      const Input in = make_input(t, {n, 1}, 1, random, false);
      double out[1] = {};
      write_element(t, out, from_double(t, 0.5));
      char* ptrs[] = {in.first, reinterpret_cast<char*>(out)};
      const int64_t strides[] = {in.inner, 0, 0, 0};
      EXPECT_EQ(run_kernel(code, ptrs, strides, n), 0u);
      long double want = 0.5L, magnitude = 1;
      for (int64_t i = 0; i < n; ++i) {
        want += as_double(t, in.at(0, i));
        magnitude += std::fabs(as_double(t, in.at(0, i)));
      }
      EXPECT_NEAR(as_double(t, read_element(t, out)), static_cast<double>(want),
                  static_cast<double>(magnitude) * (t == DType::F32 ? 1e-6 : 1e-14));
    }
  }
}

/// Of lengths around those of vectors, blocks and runs: within the bound of NumPy's order, with what else is stored,
/// and NumPy's flags.
TEST_P(Folds, Blocks) {
  std::mt19937_64 random(4);
  enum Kind { Loaded, Squared, Shifted, Wide };
  for (DType t : {DType::F32, DType::F64})
    for (Kind kind : {Loaded, Squared, Shifted, Wide})
      for (Access access : {Contiguous, Strided}) {
        LoopNest nest;
        nest.o1 = true;
        const DType source = kind == Wide ? DType::I16 : t;
        uint16_t x = add_load(nest, source, access);
        if (kind == Wide) x = add_apply(nest, Op::Cast, source, t, {x});
        const uint16_t element = x;
        if (kind == Shifted) x = add_apply(nest, Op::Subtract, t, t, {x, add_load(nest, t, Broadcast)});
        if (kind == Squared || kind == Shifted) x = add_apply(nest, Op::Multiply, t, t, {x, x});
        add_store(nest, t, Broadcast, x);
        if (kind == Wide) add_store(nest, t, Contiguous, element);
        nest.fold = Fold::Blocks;
        const Executable code = compile(nest, GetParam());
        const int64_t longest = longest_run(nest, GetParam());
        const int size = graph::size_of(t);
        std::vector<int64_t> lengths = {longest / 8 - 1,  longest / 8, longest / 8 + 3,
                                        longest / 2 + 33, longest - 1, longest};
        for (int64_t n = 1; n < 140; ++n) lengths.push_back(n);
        for (int64_t n : lengths) {
          const Shape shape{n, 1 + n % 3};
          const Input in = make_input(source, shape, access == Strided ? -3 : 1, random, false);
          std::vector<double> out(4, 99.0), shift(1), copy(static_cast<std::size_t>(n * shape.rows));
          write_element(t, shift.data(), from_double(t, 0.75));
          std::vector<char*> ptrs = {in.first};
          std::vector<int64_t> strides = {in.inner, in.outer};
          const auto operand = [&](std::vector<double>& of, int64_t inner, int64_t outer) {
            ptrs.push_back(reinterpret_cast<char*>(of.data()));
            strides.insert(strides.end(), {inner, outer});
          };
          if (kind == Shifted) operand(shift, 0, 0);
          operand(out, 0, size);
          if (kind == Wide) operand(copy, size, size * n);
          ASSERT_EQ(run_kernel(code, ptrs.data(), strides.data(), n, shape.rows), 0u);
          for (int64_t row = 0; row < shape.rows; ++row) {
            long double want = 0, magnitude = 0;
            for (int64_t i = 0; i < n; ++i) {
              long double value = as_double(source, in.at(row, i));
              if (kind == Wide) {
                ASSERT_EQ(as_double(t, read_element(t, reinterpret_cast<char*>(copy.data()) + (row * n + i) * size)),
                          static_cast<double>(value));
              }
              if (kind == Shifted) value -= 0.75L;
              if (kind == Squared || kind == Shifted) value *= value;
              want += value;
              magnitude += std::fabs(value);
            }
            const long double unit = t == DType::F32 ? 0x1p-24L : 0x1p-53L,
                              steps = 13 + std::log2(static_cast<long double>(n));
            ASSERT_LE(std::fabs(as_double(t, read_element(t, reinterpret_cast<char*>(out.data()) + row * size)) - want),
                      magnitude * unit * steps)
                << isa_name(GetParam()) << " n " << n << " row " << row << "\n"
                << nest.str();
          }
        }
      }
}

TEST_P(Folds, BlocksSpecial) {
  LoopNest nest;
  nest.o1 = true;
  add_store(nest, DType::F64, Broadcast, add_load(nest, DType::F64, Contiguous));
  nest.fold = Fold::Blocks;
  const Executable code = compile(nest, GetParam());
  const double inf = HUGE_VAL, most = 1.7e308;
  const auto sum = [&](std::vector<double> x, double& out) {
    char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(&out)};
    const int64_t strides[] = {8, 0, 0, 0};
    return run_kernel(code, ptrs, strides, std::ssize(x));
  };
  double out = 0;
  for (std::size_t n : {2, 5, 8, 33, 100}) {
    EXPECT_EQ(sum(std::vector<double>(n, -0.0), out), 0u);
    EXPECT_TRUE(out == 0 && !std::signbit(out));
    std::vector<double> x(n, 1.0);
    x[n - 1] = std::nan("");
    EXPECT_EQ(sum(x, out), 0u);
    EXPECT_TRUE(std::isnan(out));
    x[n - 1] = inf;
    EXPECT_EQ(sum(x, out), 0u);
    EXPECT_EQ(out, inf);
    x[0] = -inf;
    EXPECT_EQ(sum(x, out), static_cast<unsigned>(kInvalid));
    x[0] = x[n - 1] = most;
    EXPECT_EQ(sum(x, out), static_cast<unsigned>(kOverflow));
  }
}

TEST_P(Folds, Rows) {
  std::mt19937_64 random(5);
  for (const FoldCase& c : cases(true))
    for (int layout = 0; layout < 4; ++layout) {
      // 0: contiguous; 1: strided input; 2: strided output; 3: input broadcast along the row
      LoopNest nest;
      add_store(nest, c.dtype, layout == 2 ? Strided : Contiguous,
                add_load(nest, c.dtype,
                         layout == 1   ? Strided
                         : layout == 3 ? Broadcast
                                       : Contiguous));
      nest.fold = Fold::Rows;
      nest.combine = c.combine;
      const Executable code = compile(nest, GetParam());
      const int size = graph::size_of(c.dtype);
      for (int64_t n = 0; n <= 300; n += n < 70 ? 1 : 23) {
        const Shape shape{n, n % 5};
        const Input in = make_input(c.dtype, shape, layout == 1 ? -2 : 1, random, n % 2);
        const int64_t inner = layout == 3 ? 0 : in.inner, out_inner = layout == 2 ? 3 * size : size;
        GuardedBuffer out(static_cast<std::size_t>(out_inner * std::max<int64_t>(n, 1)));
        std::memset(out.data(), 0, out.size());
        std::vector<uint64_t> want;
        for (int64_t i = 0; i < n; ++i) {
          want.push_back(c.dtype == DType::Bool ? random() & 1 : from_double(c.dtype, static_cast<double>(i % 50)));
          write_element(c.dtype, out.data() + i * out_inner, want.back());
        }
        unsigned want_flags = 0;
        for (int64_t row = 0; row < shape.rows; ++row)
          for (int64_t i = 0; i < n; ++i)
            want[i] = combined(c.combine, c.dtype, want[i], in.at(row, layout == 3 ? 0 : i), &want_flags);
        char* ptrs[] = {in.first, out.data()};
        const int64_t strides[] = {inner, in.outer, out_inner, 0};
        ASSERT_EQ(run_kernel(code, ptrs, strides, n, shape.rows), want_flags) << nest.str() << n;
        for (int64_t i = 0; i < n; ++i)
          ASSERT_TRUE(same_element(c.dtype, want[i], read_element(c.dtype, out.data() + i * out_inner)))
              << isa_name(GetParam()) << " layout " << layout << " n " << n << " at " << i << "\n"
              << nest.str();
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Isas, Folds, ::testing::ValuesIn(isas()), [](const auto& i) { return isa_name(i.param); });

}  // namespace
}  // namespace framejit::codegen::testing
