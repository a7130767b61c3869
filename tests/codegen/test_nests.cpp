// Whole nests: random expressions over mixed dtypes, several stores, outer loops, in-place operands, streaming stores.
#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "harness.h"
#include "reference.h"

namespace framejit::codegen::testing {
namespace {

constexpr DType kDTypes[] = {DType::Bool, DType::I8,  DType::I16, DType::I32, DType::I64, DType::U8,
                             DType::U16,  DType::U32, DType::U64, DType::F32, DType::F64};

struct RandomNest {
  LoopNest nest;
  std::mt19937_64 random;

  uint16_t pick(std::size_t from = 0) { return static_cast<uint16_t>(from + random() % (nest.body.size() - from)); }

  explicit RandomNest(uint64_t seed, int expressions) : random(seed) {
    nest.name = "random" + std::to_string(seed);
    const int loads = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i < loads; ++i) {
      const DType t = kDTypes[random() % 11];
      add_load(nest, t, static_cast<Access>(random() % 3));
    }
    for (int i = 0; i < 2; ++i) {
      const DType t = kDTypes[random() % 11];
      const auto specials = special_values(t);
      add_constant(nest, t, specials[random() % specials.size()]);
    }
    if (random() % 3 == 0) {
      Expr e{};
      e.kind = ExprKind::InnerIndex;
      e.dtype = random() % 2 ? DType::I64 : DType::F32;
      nest.body.push_back(e);
    }
    while (static_cast<int>(nest.body.size()) < expressions) {
      const graph::OpDef& row = graph::kOps[random() % graph::kOpCount];
      const uint16_t a = pick();
      const DType t = nest.body[a].dtype;
      if (row.op == Op::Cast) {
        const DType to = kDTypes[random() % 11];
        if (emits(Op::Cast, t, to, false, Isa::Avx2)) add_apply(nest, Op::Cast, t, to, {a});
        continue;
      }
      if (row.cls != graph::OpClass::Elementwise) continue;
      if (row.op == Op::Where) {
        std::vector<uint16_t> conditions;
        for (std::size_t i = 0; i < nest.body.size(); ++i)
          if (nest.body[i].dtype == DType::Bool) conditions.push_back(static_cast<uint16_t>(i));
        if (conditions.empty()) continue;
        add_apply(nest, Op::Where, t, t, {conditions[random() % conditions.size()], a, same_type(t)});
        continue;
      }
      const DType result = row.result == graph::ResultRule::Bool ? DType::Bool : t;
      if (!emits(row.op, t, result, false, Isa::Avx2)) continue;
      std::vector<uint16_t> args = {a};
      while (args.size() < row.operands) args.push_back(same_type(t));
      add_apply(nest, row.op, t, result, args);
    }
    const int stores = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < stores; ++i) {
      const uint16_t e = i == 0 ? static_cast<uint16_t>(nest.body.size() - 1) : pick();
      add_store(nest, nest.body[e].dtype, random() % 4 ? Access::Contiguous : Access::Strided, e);
    }
  }

  uint16_t same_type(DType t) {
    std::vector<uint16_t> same;
    for (std::size_t i = 0; i < nest.body.size(); ++i)
      if (nest.body[i].dtype == t) same.push_back(static_cast<uint16_t>(i));
    return same[random() % same.size()];
  }
};

struct Buffers {
  std::vector<GuardedBuffer> memory;
  std::vector<char*> first;
  std::vector<int64_t> strides;
};

Buffers make_buffers(const LoopNest& nest, int64_t n, int64_t rows, std::mt19937_64& random) {
  Buffers b;
  for (const NestOperand& o : nest.operands) {
    const int size = graph::size_of(o.dtype);
    const int64_t inner = o.access == Access::Broadcast ? 0 : o.access == Access::Contiguous ? size : -2 * size - 1;
    const int64_t outer = std::abs(inner) * std::max<int64_t>(n, 1) + size;
    b.memory.emplace_back(static_cast<std::size_t>(outer * rows + size));
    GuardedBuffer& m = b.memory.back();
    b.first.push_back(inner >= 0 ? m.data() : m.data() + std::abs(inner) * (n - 1));
    b.strides.push_back(inner);
    b.strides.push_back(outer);
    const auto specials = special_values(o.dtype);
    for (int64_t r = 0; r < rows && !o.written; ++r)
      for (int64_t i = 0; i < (inner ? n : 1); ++i) {
        const uint64_t bits = random() % 2 || o.dtype == DType::Bool
                                  ? specials[random() % specials.size()]
                                  : from_double(o.dtype, static_cast<double>(random() % 50));
        write_element(o.dtype, b.first.back() + r * outer + i * inner, bits);
      }
  }
  return b;
}

/// Values of all expressions for one element.
std::vector<uint64_t> interpret(const LoopNest& nest, const std::vector<bool>& invariant, const Buffers& b, int64_t row,
                                int64_t i, unsigned* flags) {
  std::vector<uint64_t> values;
  for (const Expr& e : nest.body) {
    const auto arg = [&](int k) { return values[e.args[k]]; };
    uint64_t bits = 0;
    switch (e.kind) {
      case ExprKind::Load: {
        const std::size_t o = e.args[0];
        bits = read_element(e.dtype, b.first[o] + row * b.strides[2 * o + 1] + i * b.strides[2 * o]);
        break;
      }
      case ExprKind::Constant: bits = e.constant.lo; break;
      case ExprKind::InnerIndex: bits = from_double(e.dtype, static_cast<double>(i)); break;
      case ExprKind::Apply: {
        if (e.op == Op::Cast) {
          bits = reference_cast(e.operand_dtype, e.dtype, arg(0), flags);
          break;
        }
        const int count = graph::def(e.op).operands;
        const uint64_t args[3] = {arg(0), count > 1 ? arg(1) : 0, count > 2 ? arg(2) : 0};
        bits = reference_apply(e.op, e.operand_dtype, args,
                               e.op == Op::Clip && invariant[e.args[1]] && invariant[e.args[2]], flags);
        break;
      }
    }
    values.push_back(bits);
  }
  return values;
}

std::vector<bool> invariants(const LoopNest& nest) {
  std::vector<bool> out;
  for (const Expr& e : nest.body) {
    bool same = e.kind == ExprKind::Constant ||
                (e.kind == ExprKind::Load && nest.operands[e.args[0]].access == Access::Broadcast);
    if (e.kind == ExprKind::Apply) {
      same = true;
      for (int a = 0; a < graph::def(e.op).operands; ++a) same = same && out[e.args[a]];
    }
    out.push_back(same);
  }
  return out;
}

void check_nest(const LoopNest& nest, Isa isa, std::mt19937_64& random, std::initializer_list<int64_t> lengths) {
  const Executable code = compile(nest, isa);
  const std::vector<bool> invariant = invariants(nest);
  for (int64_t n : lengths) {
    const int64_t rows = 1 + static_cast<int64_t>(random() % 3);
    Buffers b = make_buffers(nest, n, rows, random);
    unsigned want_flags = 0;
    std::vector<std::vector<uint64_t>> want;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < n; ++i) want.push_back(interpret(nest, invariant, b, row, i, &want_flags));
    const unsigned flags = run_kernel(code, b.first.data(), b.strides.data(), n, rows);
    ASSERT_EQ(flags, want_flags) << isa_name(isa) << " n " << n << "\n" << nest.str();
    for (const NestStore& s : nest.stores)
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < n; ++i) {
          const DType t = nest.operands[s.operand].dtype;
          const uint64_t got =
              read_element(t, b.first[s.operand] + row * b.strides[2 * s.operand + 1] + i * b.strides[2 * s.operand]);
          ASSERT_TRUE(same_element(t, want[row * n + i][s.expr], got))
              << nest.name << " " << isa_name(isa) << " n " << n << " row " << row << " at " << i << " store of e"
              << s.expr << std::hex << " want 0x" << want[row * n + i][s.expr] << " got 0x" << got << "\n"
              << nest.str();
        }
  }
}

/// Which NaN survives is no promise, so nests in which the sign or the bits of a NaN are looked at compare unequal at
/// random.
bool looks_at_nan_bits(const LoopNest& nest) {
  return std::any_of(nest.body.begin(), nest.body.end(), [](const Expr& e) {
    return e.kind == ExprKind::Apply && graph::is_float(e.operand_dtype) &&
           (e.op == Op::SignBit || e.op == Op::Copysign);
  });
}

class Nests : public ::testing::TestWithParam<Isa> {};

TEST_P(Nests, RandomExpressions) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    RandomNest r(seed, 6 + static_cast<int>(seed % 40));
    if (looks_at_nan_bits(r.nest)) continue;
    check_nest(r.nest, GetParam(), r.random, {0, 1, 3, 7, 8, 9, 17, 64, 130});
    if (HasFatalFailure()) return;
  }
}

TEST_P(Nests, LargeBodies) {
  for (uint64_t seed = 1000; seed < 1040; ++seed) {
    RandomNest r(seed, 150);
    if (looks_at_nan_bits(r.nest)) continue;
    check_nest(r.nest, GetParam(), r.random, {1, 5, 16, 67});
    if (HasFatalFailure()) return;
  }
}

/// Each expression needs the one before; two vectors take turns in the loop.
TEST_P(Nests, LongChains) {
  std::mt19937_64 random(7);
  for (const DType t : {DType::F64, DType::F32}) {
    for (const Access access : {Access::Contiguous, Access::Broadcast}) {
      LoopNest nest;
      const uint16_t start = add_load(nest, t, Access::Contiguous), c = add_load(nest, t, access);
      const uint16_t i = add_load(nest, DType::I64, Access::Contiguous);
      uint16_t x = start, count = i;
      while (nest.body.size() < 200) {
        x = add_apply(nest, Op::Divide, t, t, {add_apply(nest, Op::Add, t, t, {x, c}), start});
        x = add_apply(nest, Op::Sqrt, t, t, {add_apply(nest, Op::Absolute, t, t, {x})});
        const uint16_t less = add_apply(nest, Op::Less, t, DType::Bool, {x, c});
        x = add_apply(nest, Op::Where, t, t, {less, x, add_apply(nest, Op::Multiply, t, t, {x, x})});
        count = add_apply(nest, Op::Where, DType::I64, DType::I64, {less, count, i});
      }
      add_store(nest, t, Access::Contiguous, x);
      add_store(nest, DType::I64, Access::Contiguous, count);
      check_nest(nest, GetParam(), random, {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Nests, InPlace) {
  LoopNest nest;
  const uint16_t a = add_load(nest, DType::F32, Access::Contiguous), b = add_load(nest, DType::F32, Access::Contiguous);
  add_store(nest, DType::F32, Access::Contiguous, add_apply(nest, Op::Add, DType::F32, DType::F32, {a, b}));
  const Executable code = compile(nest, GetParam());
  for (int n = 0; n < 80; ++n) {
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i), y[i] = 0.25f;
    char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data()),
                    reinterpret_cast<char*>(x.data())};
    const int64_t strides[] = {4, 0, 4, 0, 4, 0};
    run_kernel(code, ptrs, strides, n);
    for (int i = 0; i < n; ++i) ASSERT_EQ(x[i], static_cast<float>(i) + 0.25f);
  }
}

TEST_P(Nests, Guarded) {
  LoopNest nest;
  const uint16_t a = add_load(nest, DType::F32, Access::Contiguous);
  add_store(nest, DType::F32, Access::Contiguous, a);
  add_store(nest, DType::F32, Access::Contiguous, add_apply(nest, Op::Square, DType::F32, DType::F32, {a}));
  nest.guarded = true;
  const Executable code = compile(nest, GetParam());
  const auto kernel = reinterpret_cast<GuardedFn>(const_cast<void*>(code.entry()));
  constexpr int64_t kRows = 5;
  for (int64_t n : {1, 7, 16, 37})
    for (int64_t flagged = 0; flagged <= kRows; ++flagged) {
      std::vector<float> x(kRows * n), kept(n);
      for (int64_t i = 0; i < kRows * n; ++i) x[i] = static_cast<float>(i + 2);
      if (flagged < kRows) x[flagged * n + n - 1] = 3e38f;
      const std::vector<float> old = x;
      char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(kept.data()),
                      reinterpret_cast<char*>(x.data())};
      const int64_t strides[] = {4, 4 * n, 4, 0, 4, 4 * n};
      _mm_setcsr(_mm_getcsr() & ~0x3fu);
      ASSERT_EQ(kernel(ptrs, strides, n, kRows), kRows - flagged);
      _mm_setcsr(_mm_getcsr() & ~0x3fu);
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t i = 0; i < n; ++i) {
          const float was = old[row * n + i];
          ASSERT_EQ(x[row * n + i], row <= flagged ? was * was : was);
        }
      const int64_t last = std::min(flagged, kRows - 1);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(kept[i], old[last * n + i]);
    }
}

TEST_P(Nests, GuardedTogether) {
  LoopNest nest;
  const uint16_t a = add_load(nest, DType::F32, Access::Contiguous);
  add_store(nest, DType::F32, Access::Contiguous, add_apply(nest, Op::Square, DType::F32, DType::F32, {a}));
  nest.guarded = nest.guards_together = true;
  const Executable code = compile(nest, GetParam());
  const auto kernel = reinterpret_cast<GuardedFn>(const_cast<void*>(code.entry()));
  for (int64_t n : {1, 7, 16, 37, 511, 512, 513, 1023, 1024, 1025})
    for (int64_t rows : {1, 2, 3, 30, 70, 147, 1100}) {
      const int64_t together = (kGuardedElements + n - 1) / n;
      for (int64_t flagged : {int64_t{0}, int64_t{1}, rows / 2, rows - 1, rows}) {
        std::vector<float> x(rows * n), y(rows * n, -1);
        for (int64_t i = 0; i < rows * n; ++i) x[i] = static_cast<float>(i % 1000 + 2);
        if (flagged < rows) x[flagged * n + n - 1] = 3e38f;
        char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data())};
        const int64_t strides[] = {4, 4 * n, 4, 4 * n};
        _mm_setcsr(_mm_getcsr() & ~0x3fu);
        ASSERT_EQ(kernel(ptrs, strides, n, rows), flagged < rows ? rows - flagged / together * together : 0);
        _mm_setcsr(_mm_getcsr() & ~0x3fu);
        const int64_t done = flagged < rows ? std::min(rows, (flagged / together + 1) * together) : rows;
        for (int64_t i = 0; i < rows * n; ++i) ASSERT_EQ(y[i], i < done * n ? x[i] * x[i] : -1);
      }
    }
}

/// Rows with a divisor each: within one unit and a half where it is of middling magnitude, to the bit elsewhere, with
/// the quotient's flags.
TEST_P(Nests, SharedDivisors) {
  for (DType t : {DType::F32, DType::F64})
    for (Access access : {Access::Contiguous, Access::Strided}) {
      LoopNest nest;
      nest.o1 = nest.shares_divisors = true;
      const uint16_t quotient =
          add_apply(nest, Op::Divide, t, t, {add_load(nest, t, access), add_load(nest, t, Access::Broadcast)});
      add_store(nest, t, Access::Contiguous, add_apply(nest, Op::Negative, t, t, {quotient}));
      const Executable code = compile(nest, GetParam());
      std::mt19937_64 random(2);
      std::vector<uint64_t> divisors = special_values(t);
      const int size = graph::size_of(t), half = t == DType::F32 ? 63 : 511;
      for (double d : {3.0, -7.5, 1.1, std::ldexp(1.3, half - 1), std::ldexp(-1.3, -half), std::ldexp(1.3, half + 1),
                       std::ldexp(1.3, -half - 2)})
        divisors.push_back(from_double(t, d));
      const auto rows = static_cast<int64_t>(divisors.size());
      std::size_t products = 0;
      for (int64_t n = 1; n < 70; n += n < 20 ? 1 : 7)
        for (bool special : {false, true}) {
          const auto specials = special_values(t);
          const int64_t inner = access == Access::Strided ? 2 * size : size;
          GuardedBuffer x(static_cast<std::size_t>(rows * n * inner)), d(static_cast<std::size_t>(rows * size)),
              out(static_cast<std::size_t>(rows * n * size));
          for (int64_t i = 0; i < rows * n; ++i)
            write_element(t, x.data() + i * inner,
                          special ? specials[random() % specials.size()]
                                  : from_double(t, static_cast<double>(random() % 1000) + 1));
          for (int64_t row = 0; row < rows; ++row)
            write_element(t, d.data() + row * size, divisors[static_cast<std::size_t>(row)]);
          for (int64_t row = 0; row < rows; ++row) {
            char* ptrs[] = {x.data() + row * n * inner, d.data() + row * size, out.data() + row * n * size};
            const int64_t strides[] = {inner, 0, 0, 0, size, 0};
            const unsigned flags = run_kernel(code, ptrs, strides, n);
            const uint64_t divisor = divisors[static_cast<std::size_t>(row)];
            const double magnitude = std::fabs(as_double(t, divisor));
            const bool shared = magnitude > std::ldexp(1.0, -half) && magnitude < std::ldexp(1.0, half);
            unsigned want_flags = 0;
            for (int64_t i = 0; i < n; ++i) {
              const uint64_t args[3] = {read_element(t, ptrs[0] + i * inner), divisor, 0};
              const uint64_t want = reference_apply(Op::Divide, t, args, false, &want_flags);
              const uint64_t got = read_element(t, ptrs[2] + i * size) ^ (uint64_t{1} << (8 * size - 1));
              if (same_element(t, want, got)) continue;
              ASSERT_TRUE(shared) << nest.str() << std::hex << args[0] << " " << divisor << " " << want << " " << got;
              ++products;
              ASSERT_LE(std::max(want, got) - std::min(want, got), 1u)
                  << nest.str() << std::hex << args[0] << " " << divisor;
            }
            // Which results are tiny and inexact may be seen otherwise.
            ASSERT_EQ(flags & ~(shared ? kUnderflow : 0u), want_flags & ~(shared ? kUnderflow : 0u))
                << nest.str() << std::hex << divisor;
          }
        }
      EXPECT_GT(products, 0u);
    }
}

TEST_P(Nests, StreamingStores) {
  LoopNest nest;
  const uint16_t a = add_load(nest, DType::F64, Access::Contiguous);
  add_store(nest, DType::F64, Access::Contiguous, add_apply(nest, Op::Square, DType::F64, DType::F64, {a}));
  add_store(nest, DType::Bool, Access::Contiguous, add_apply(nest, Op::IsNan, DType::F64, DType::Bool, {a}));
  for (NestStore& s : nest.stores) s.non_temporal = true;
  const Executable code = compile(nest, GetParam());
  alignas(64) double x[208], z[208];
  uint8_t m[208];
  for (int i = 0; i < 208; ++i) x[i] = i;
  for (int offset : {0, 1}) {
    std::fill_n(z, 208, -1.0);
    char* ptrs[] = {reinterpret_cast<char*>(x), reinterpret_cast<char*>(z + offset), reinterpret_cast<char*>(m)};
    const int64_t strides[] = {8, 0, 8, 0, 1, 0};
    run_kernel(code, ptrs, strides, 205);
    for (int i = 0; i < 205; ++i) ASSERT_EQ(z[i + offset], x[i] * x[i]);
    ASSERT_EQ(z[205 + offset], -1.0);
  }
}

TEST_P(Nests, BoolBytesOtherThanOneAreTrue) {
  LoopNest nest;
  const uint16_t a = add_load(nest, DType::Bool, Access::Contiguous);
  add_store(nest, DType::Bool, Access::Contiguous, add_apply(nest, Op::Invert, DType::Bool, DType::Bool, {a}));
  const Executable code = compile(nest, GetParam());
  uint8_t x[70], z[70];
  for (int i = 0; i < 70; ++i) x[i] = static_cast<uint8_t>(i % 3 ? 0x80 + i : 0);
  char* ptrs[] = {reinterpret_cast<char*>(x), reinterpret_cast<char*>(z)};
  const int64_t strides[] = {1, 0, 1, 0};
  run_kernel(code, ptrs, strides, 70);
  for (int i = 0; i < 70; ++i) ASSERT_EQ(z[i], i % 3 == 0) << i;
}

TEST(NestText, NamesEverything) {
  LoopNest nest;
  const uint16_t a = add_load(nest, DType::F32, Access::Contiguous), c = add_constant(nest, DType::F32, 0x40000000);
  add_store(nest, DType::F32, Access::Strided, add_apply(nest, Op::Multiply, DType::F32, DType::F32, {a, c}));
  nest.stores[0].non_temporal = true;
  EXPECT_EQ(
      nest.str(),
      "nest\n  op0 f32 contiguous\n  op1 f32 strided written\n  e0 = load op0 : f32\n  e1 = constant 0x40000000 : f32\n"
      "  e2 = multiply f32 e0 e1 : f32\n  store op1 <- e2 streaming\n");
}

INSTANTIATE_TEST_SUITE_P(Isas, Nests, ::testing::ValuesIn(isas()), [](const auto& i) { return isa_name(i.param); });

}  // namespace
}  // namespace framejit::codegen::testing
