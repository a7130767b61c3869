// O1's own vector math: error in ulp against long double, special values, flags. Which functions there are and their
// bounds say the rows of the operator table, and graph/scalar_float.h what they are.
#include <cmath>
#include <limits>
#include <random>

#include "graph/scalar_float.h"
#include "harness.h"

namespace framejit::codegen::testing {
namespace {

/// The rows of own functions of so many operands.
std::vector<graph::OpDef> functions(int operands) {
  std::vector<graph::OpDef> out;
  for (const graph::OpDef& row : graph::kOps)
    if (has(row.own, graph::Own::Math | graph::Own::MathInFloat64) && row.operands == operands) out.push_back(row);
  return out;
}

template <class T>
double bound_of(const graph::OpDef& row) {
  return sizeof(T) == 4 ? row.ulps.f32 : row.ulps.f64;
}

/// erfc(-x / sqrt(2)) / 2, with what the rounding of the argument loses put back.
long double ndtrl(long double x) {
  const long double root = 0.70710678118654752440L, rest = 1.8950325588932570797e-20L;  // of the root's rounding
  const long double y = x * root, lost = fmal(x, root, -y) + x * rest;
  return erfcl(-y) / 2 + expl(-y * y) * lost * 0.56418958354775628695L;
}

/// SciPy's is 0 below where Gamma(-x) overflows, and no number at its poles.
long double gammal(long double x) {
  if (x < -171.62437695630272L && x != floorl(x)) return std::fmod(floorl(x), 2.0L) == 0 ? 0.0L : -0.0L;
  return x == -HUGE_VALL ? NAN : tgammal(x);
}

/// SciPy's overflows where 1 / x does.
long double gammalnl(long double x) { return fabsl(x) <= 0x1p-1024L ? HUGE_VALL : x == -HUGE_VALL ? x : lgammal(x); }
long double logitl(long double x) {
  return x < 0 || x > 1 ? NAN : x > 0.25L ? 2 * atanhl(2 * x - 1) : logl(x / (1 - x));
}

/// Functions that are SciPy's own somewhere, or whose formula in graph/scalar_float.h loses too much in long double
/// too.
struct Finer {
  Op op;
  long double (*reference)(long double);
};

constexpr Finer kFiner[] = {{Op::Ndtr, ndtrl}, {Op::Gamma, gammal}, {Op::Gammaln, gammalnl}, {Op::Logit, logitl}};

/// What the function is to give, before it is rounded to T; rounded already where the bound is 0.
template <class T>
long double exact(const graph::OpDef& row, T x, T y = 0) {
  for (const Finer& finer : kFiner)
    if (finer.op == row.op) return finer.reference(x);
  bool handled = true;
  const long double out = bound_of<T>(row) == 0 ? graph::float_operator<T>(row.op, x, y, T{}, handled)
                                                : graph::float_operator<long double>(row.op, x, y, 0, handled);
  EXPECT_TRUE(handled) << row.name << " has no case in graph/scalar_float.h";
  return out;
}

/// Where results are smaller than this, so are errors not: log(Gamma(x)) has zeros below 0 that no number hits, and the
/// terms of a logarithm of a sum cancel.
long double least_of(Op op, long double x) {
  if (op == Op::Logaddexp || op == Op::Logaddexp2) return 1.0L / 32;
  return op == Op::Gammaln && x < 0 ? 1 : 0;
}

template <class T>
double ulps(T got, long double want, long double least = 0) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : HUGE_VAL;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : HUGE_VAL;
  int exponent;
  std::frexp(std::max({std::fabs(static_cast<double>(rounded)), static_cast<double>(std::numeric_limits<T>::min()),
                       static_cast<double>(least)}),
             &exponent);
  return static_cast<double>(fabsl(got - want) / ldexpl(1, exponent - std::numeric_limits<T>::digits));
}

LoopNest unary(Op op, DType t) {
  LoopNest nest;
  nest.o1 = true;
  const uint16_t x = add_load(nest, t, Access::Contiguous);
  add_store(nest, t, Access::Contiguous, add_apply(nest, op, t, t, {x}));
  return nest;
}

LoopNest binary(Op op, DType t) {
  LoopNest nest;
  nest.o1 = true;
  const uint16_t a = add_load(nest, t, Access::Contiguous), b = add_load(nest, t, Access::Contiguous);
  add_store(nest, t, Access::Contiguous, add_apply(nest, op, t, t, {a, b}));
  return nest;
}

template <class T>
std::vector<T> run(const Executable& code, std::vector<T>& x, unsigned* flags) {
  std::vector<T> y(x.size());
  char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data())};
  const int64_t strides[] = {sizeof(T), 0, sizeof(T), 0};
  *flags = run_kernel(code, ptrs, strides, static_cast<int64_t>(x.size()));
  return y;
}

template <class T>
void check_errors(DType t, Isa isa) {
  std::mt19937_64 random(42);
  const auto uniform = [&](double low, double high) {
    return static_cast<T>(std::uniform_real_distribution<double>(low, high)(random));
  };
  for (const graph::OpDef& f : functions(1)) {
    const Executable code = compile(unary(f.op, t), isa);
    std::vector<T> x;
    for (int i = 0; i < 20000; ++i) {
      x.push_back(uniform(-1, 1));
      x.push_back(uniform(-8, 8));
      x.push_back(uniform(-190, 190));
      x.push_back(uniform(-120, 120));
      x.push_back(uniform(-800, 800));
      x.push_back(uniform(-1e5, 1e5));
      x.push_back(uniform(0.5, 2));
      x.push_back(uniform(-40, 40));
      x.push_back(std::exp2(uniform(-70, 70)));
      uint64_t bits = random();
      T any;
      std::memcpy(&any, &bits, sizeof any);
      x.push_back(any);
      // next to a multiple of pi/2
      const long double multiple = static_cast<long double>(random() % 60000) * (M_PIl / 2);
      x.push_back(static_cast<T>(multiple));
    }
    if (t == DType::F64)  // the worst cases of argument reduction
      for (double w :
           {6381956970095103.0 * 0x1p797, 0x1.6ac5b262ca1ffp+849, 5.31937264832654141671e+255, 1e22, 0x1p1023})
        x.push_back(static_cast<T>(w));
    for (T w : {T(16367173), T(1e38), std::numeric_limits<T>::max(), T(100000), T(100001), T(0), T(-0.0),
                std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::min()})
      x.push_back(w);
    unsigned flags;
    const std::vector<T> y = run(code, x, &flags);
    double worst = 0;
    T worst_at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(y[i], exact(f, x[i]), least_of(f.op, x[i]));
      if (error > worst || std::isnan(error)) worst = error, worst_at = x[i];
    }
    EXPECT_LE(worst, bound_of<T>(f)) << f.name << " " << graph::name_of(t) << " " << isa_name(isa) << " at "
                                     << std::hexfloat << worst_at;
    ::testing::Test::RecordProperty(std::string(f.name), std::to_string(worst));
  }
}

template <class T>
void check_binary_errors(DType t, Isa isa) {
  std::mt19937_64 random(43);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const double top = sizeof(T) == 4 ? 126 : 1022;
  for (const graph::OpDef& f : functions(2)) {
    const Executable code = compile(binary(f.op, t), isa);
    std::vector<T> x, y;
    const auto add = [&](double first, double second) {
      x.push_back(static_cast<T>(first)), y.push_back(static_cast<T>(second));
    };
    for (int i = 0; i < 20000; ++i) {
      add(uniform(-3, 3), uniform(-3, 3));
      add(uniform(0, 9), uniform(-30, 30));
      add(std::round(uniform(-9, 9)), std::round(uniform(-9, 9)));
      add(std::exp2(uniform(-top, top)), uniform(-1, 1));
      add(-std::exp2(uniform(-top, top)), std::exp2(uniform(-top, top)));
      add(std::exp2(uniform(-top - 20, -top)), uniform(-1.5, 1.5));
      add(1 + uniform(-1, 1) / 1024, uniform(-top, top) * 600);
      uint64_t bits[2] = {random(), random()};
      T any[2];
      std::memcpy(&any[0], &bits[0], sizeof(T));
      std::memcpy(&any[1], &bits[1], sizeof(T));
      x.push_back(any[0]), y.push_back(any[1]);
    }
    const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    const T odd[] = {0,       T(-0.0),  1,         -1,  2,       -3,       T(0.5),
                     T(-2.5), infinity, -infinity, nan, T(1e30), T(-1e30), std::numeric_limits<T>::denorm_min()};
    for (T first : odd)
      for (T second : odd) x.push_back(first), y.push_back(second);
    std::vector<T> z(x.size());
    char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data()),
                    reinterpret_cast<char*>(z.data())};
    const int64_t strides[] = {sizeof(T), 0, sizeof(T), 0, sizeof(T), 0};
    run_kernel(code, ptrs, strides, static_cast<int64_t>(x.size()));
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double want = exact(f, x[i], y[i]), least = least_of(f.op, x[i]);
      const double error = ulps(z[i], want, least);
      if (error > worst || std::isnan(error)) worst = error, at = i;
      if (!std::isnan(z[i]) && !(fabsl(want) < least)) {
        EXPECT_EQ(std::signbit(z[i]), std::signbit(want)) << f.name << " of " << x[i] << " and " << y[i];
      }
    }
    EXPECT_LE(worst, bound_of<T>(f)) << f.name << " " << graph::name_of(t) << " " << isa_name(isa) << " at "
                                     << std::hexfloat << x[at] << " and " << y[at];
  }
}

template <class T>
void check_flags(DType t, Isa isa) {
  const T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN(),
          tiny = std::numeric_limits<T>::min();
  struct Row {
    Op op;
    T x, y;
    unsigned flags;
  };
  const Row rows[] = {
      {Op::Exp, T(1000), infinity, kOverflow},
      {Op::Exp, infinity, infinity, 0},
      {Op::Exp, -infinity, T(0), 0},
      {Op::Exp, T(-1000), T(0), kUnderflow},
      {Op::Exp, nan, nan, 0},
      {Op::Exp, T(0), T(1), 0},
      {Op::Exp, tiny, T(1), 0},
      {Op::Exp, std::numeric_limits<T>::denorm_min(), T(1), 0},
      {Op::Log, T(0), -infinity, kDivide},
      {Op::Log, T(-0.0), -infinity, kDivide},
      {Op::Log, T(-1), nan, kInvalid},
      {Op::Log, -infinity, nan, kInvalid},
      {Op::Log, infinity, infinity, 0},
      {Op::Log, nan, nan, 0},
      {Op::Log, T(1), T(0), 0},
      {Op::Sin, infinity, nan, kInvalid},
      {Op::Sin, nan, nan, 0},
      {Op::Sin, T(-0.0), T(-0.0), 0},
      {Op::Sin, tiny, tiny, kUnderflow},
      {Op::Sin, T(1e30), T(sinl(static_cast<long double>(T(1e30)))), 0},
      {Op::Cos, -infinity, nan, kInvalid},
      {Op::Cos, nan, nan, 0},
      {Op::Cos, tiny, T(1), kUnderflow},
      {Op::Tanh, infinity, T(1), 0},
      {Op::Tanh, -infinity, T(-1), 0},
      {Op::Tanh, nan, nan, 0},
      {Op::Tanh, T(-0.0), T(-0.0), 0},
      {Op::Tanh, tiny, tiny, kUnderflow},
      {Op::Sin, T(1e-12), T(1e-12), 0},
      {Op::Exp2, T(2000), infinity, kOverflow},
      {Op::Exp2, T(-2000), T(0), kUnderflow},
      {Op::Exp2, T(10), T(1024), 0},
      {Op::Exp2, -infinity, T(0), 0},
      {Op::Exp2, nan, nan, 0},
      {Op::Expm1, T(1000), infinity, kOverflow},
      {Op::Expm1, T(-1000), T(-1), 0},
      {Op::Expm1, infinity, infinity, 0},
      {Op::Expm1, -infinity, T(-1), 0},
      {Op::Expm1, T(-0.0), T(-0.0), 0},
      {Op::Expm1, nan, nan, 0},
      {Op::Log2, T(0), -infinity, kDivide},
      {Op::Log2, T(8), T(3), 0},
      {Op::Log2, tiny / 2, T(sizeof(T) == 4 ? -127 : -1023), 0},
      {Op::Log2, T(-1), nan, kInvalid},
      {Op::Log10, T(0), -infinity, kDivide},
      {Op::Log10, infinity, infinity, 0},
      {Op::Log10, T(1), T(0), 0},
      {Op::Log1p, T(-1), -infinity, kDivide},
      {Op::Log1p, T(-2), nan, kInvalid},
      {Op::Log1p, -infinity, nan, kInvalid},
      {Op::Log1p, infinity, infinity, 0},
      {Op::Log1p, T(-0.0), T(-0.0), 0},
      {Op::Log1p, nan, nan, 0},
      {Op::Tan, infinity, nan, kInvalid},
      {Op::Tan, T(-0.0), T(-0.0), 0},
      {Op::Tan, nan, nan, 0},
      {Op::Arcsin, T(1.5), nan, kInvalid},
      {Op::Arcsin, -infinity, nan, kInvalid},
      {Op::Arcsin, T(-0.0), T(-0.0), 0},
      {Op::Arcsin, T(-1), T(-M_PI_2), 0},
      {Op::Arcsin, nan, nan, 0},
      {Op::Arccos, T(-1.5), nan, kInvalid},
      {Op::Arccos, T(1), T(0), 0},
      {Op::Arccos, T(-1), T(M_PI), 0},
      {Op::Arccos, T(-0.0), T(M_PI_2), 0},
      {Op::Arccos, nan, nan, 0},
      {Op::Arctan, infinity, T(M_PI_2), 0},
      {Op::Arctan, -infinity, T(-M_PI_2), 0},
      {Op::Arctan, T(1e30), T(M_PI_2), 0},
      {Op::Arctan, T(-0.0), T(-0.0), 0},
      {Op::Arctan, nan, nan, 0},
      {Op::Sinh, T(-1000), -infinity, kOverflow},
      {Op::Sinh, -infinity, -infinity, 0},
      {Op::Sinh, T(-0.0), T(-0.0), 0},
      {Op::Sinh, nan, nan, 0},
      {Op::Cosh, T(-1000), infinity, kOverflow},
      {Op::Cosh, -infinity, infinity, 0},
      {Op::Cosh, T(0), T(1), 0},
      {Op::Cosh, nan, nan, 0},
      {Op::Ndtr, infinity, T(1), sizeof(T) == 4 ? 0u : kUnderflow},
      {Op::Ndtr, T(0), T(0.5), 0},
      {Op::Ndtr, -infinity, T(0), kUnderflow},
      {Op::Ndtr, T(-0.0), T(0.5), 0},
      {Op::Ndtr, nan, nan, 0},
      {Op::Cbrt, -infinity, -infinity, 0},
      {Op::Cbrt, T(-0.0), T(-0.0), 0},
      {Op::Cbrt, T(-27), T(-3), 0},
      {Op::Cbrt, nan, nan, 0},
      {Op::Arcsinh, -infinity, -infinity, 0},
      {Op::Arcsinh, nan, nan, 0},
      {Op::Arcsinh, T(1e30), T(asinhl(static_cast<long double>(T(1e30)))), 0},
      {Op::Arccosh, T(0.5), nan, kInvalid},
      {Op::Arccosh, -infinity, nan, kInvalid},
      {Op::Arccosh, T(1), T(0), 0},
      {Op::Arccosh, infinity, infinity, 0},
      {Op::Arccosh, nan, nan, 0},
      {Op::Arctanh, T(1), infinity, kDivide},
      {Op::Arctanh, T(-1), -infinity, kDivide},
      {Op::Arctanh, T(-2), nan, kInvalid},
      {Op::Arctanh, nan, nan, 0},
      {Op::Erf, infinity, T(1), 0},
      {Op::Erf, nan, nan, 0},
      {Op::Erf, T(-0.0), T(-0.0), 0},
      {Op::Erf, T(-50), T(-1), 0},
      {Op::Gamma, T(0), infinity, 0},
      {Op::Gamma, T(-0.0), -infinity, 0},
      {Op::Gamma, std::numeric_limits<T>::denorm_min(), infinity, 0},
      {Op::Gamma, T(-1), nan, 0},
      {Op::Gamma, T(-1e30), nan, 0},
      {Op::Gamma, T(200), infinity, 0},
      {Op::Gamma, T(5), T(24), 0},
      {Op::Gamma, T(-178.5), T(-0.0), 0},
      {Op::Gamma, infinity, infinity, 0},
      {Op::Gamma, -infinity, nan, 0},
      {Op::Gamma, nan, nan, 0},
      {Op::Gammaln, T(0), infinity, 0},
      {Op::Gammaln, T(-0.0), infinity, 0},
      {Op::Gammaln, T(1), T(0), 0},
      {Op::Gammaln, T(2), T(0), 0},
      {Op::Gammaln, T(-3), infinity, 0},
      {Op::Gammaln, tiny, T(sizeof(T) == 4 ? 126 * M_LN2 : 1022 * M_LN2), sizeof(T) == 4 ? 0u : kUnderflow},
      {Op::Gammaln, infinity, infinity, 0},
      {Op::Gammaln, -infinity, -infinity, 0},
      {Op::Gammaln, std::numeric_limits<T>::max(), infinity, 0},
      {Op::Gammaln, nan, nan, 0},
      {Op::Erfc, -infinity, T(2), sizeof(T) == 4 ? 0u : kUnderflow},
      {Op::Erfc, T(0), T(1), 0},
      {Op::Erfc, nan, nan, 0},
      {Op::Expit, infinity, T(1), 0},
      {Op::Expit, T(0), T(0.5), 0},
      {Op::Expit, -infinity, T(0), kUnderflow},
      {Op::Expit, nan, nan, 0},
      {Op::Logit, T(0), -infinity, 0},
      {Op::Logit, T(-0.0), -infinity, 0},
      {Op::Logit, T(1), infinity, 0},
      {Op::Logit, T(0.5), T(0), 0},
      {Op::Logit, T(2), nan, 0},
      {Op::Logit, -infinity, nan, 0},
      {Op::Logit, nan, nan, 0}};
  for (const Row& row : rows) {
    const Executable code = compile(unary(row.op, t), isa);
    for (std::size_t n : {1, 5, 37}) {
      std::vector<T> x(n, row.x);
      unsigned flags;
      const std::vector<T> y = run(code, x, &flags);
      EXPECT_EQ(flags, row.flags) << graph::name_of(row.op) << " of " << row.x << " " << graph::name_of(t) << " "
                                  << isa_name(isa);
      for (T value : y) {
        if (std::isnan(row.y)) {
          EXPECT_TRUE(std::isnan(value)) << graph::name_of(row.op) << " of " << row.x;
        } else {
          EXPECT_LE(ulps(value, row.y), 1.0) << graph::name_of(row.op) << " of " << row.x << " gives " << value;
          EXPECT_EQ(std::signbit(value), std::signbit(row.y)) << graph::name_of(row.op) << " of " << row.x;
        }
      }
    }
  }
}

class Math : public ::testing::TestWithParam<Isa> {};

TEST_P(Math, ErrorsF32) { check_errors<float>(DType::F32, GetParam()); }
TEST_P(Math, ErrorsF64) { check_errors<double>(DType::F64, GetParam()); }
TEST_P(Math, BinaryErrorsF32) { check_binary_errors<float>(DType::F32, GetParam()); }
TEST_P(Math, BinaryErrorsF64) { check_binary_errors<double>(DType::F64, GetParam()); }
TEST_P(Math, SpecialValuesAndFlagsF32) { check_flags<float>(DType::F32, GetParam()); }
TEST_P(Math, SpecialValuesAndFlagsF64) { check_flags<double>(DType::F64, GetParam()); }

/// The bounds are SciPy's own errors there and 1 more: its tails are worse than what is near 0.
TEST_P(Math, NdtrIsNowhereMuchWorseThanSciPys) {
  struct Part {
    double low, high, bound;
  };
  const Executable code = compile(unary(Op::Ndtr, DType::F64), GetParam());
  std::mt19937_64 random(44);
  for (const Part& part : {Part{-38, -1, 11},
                           {-1, -0.75, 5},
                           {-0.75, -0.6, 4.5},
                           {-0.6, -0.25, 2.5},
                           {-0.25, 0.5, 1.5},
                           {0.5, 2, 2},
                           {2, 9, 1.5}}) {
    std::uniform_real_distribution<double> uniform(part.low, part.high);
    std::vector<double> x(20000);
    for (double& value : x) value = uniform(random);
    unsigned flags;
    const std::vector<double> y = run(code, x, &flags);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_LE(ulps(y[i], ndtrl(x[i])), part.bound) << x[i];
  }
}

/// With a listing each instruction is checked, as the allocator of registers leaves it.
TEST(MathCode, AssemblesForEveryIsa) {
  for (Isa isa : {Isa::Avx2, Isa::Avx512})
    for (DType t : {DType::F32, DType::F64}) {
      for (const graph::OpDef& f : functions(1)) EXPECT_TRUE(emit(unary(f.op, t), isa, true)) << f.name;
      for (const graph::OpDef& f : functions(2)) EXPECT_TRUE(emit(binary(f.op, t), isa, true)) << f.name;
    }
}

/// log(x) exp(x) - sqrt(x) sin(log(x)), stored over x.
LoopNest long_body(DType t) {
  LoopNest nest;
  nest.o1 = true;
  const auto of = [&](Op op, std::vector<uint16_t> args) { return add_apply(nest, op, t, t, args); };
  const uint16_t x = add_load(nest, t, Access::Contiguous), logarithm = of(Op::Log, {x});
  const uint16_t product = of(Op::Multiply, {logarithm, of(Op::Exp, {x})});
  add_store(nest, t, Access::Contiguous,
            of(Op::Subtract, {product, of(Op::Divide, {of(Op::Sqrt, {x}), of(Op::Tanh, {logarithm})})}));
  return nest;
}

TEST(MathCode, LongBodiesTakeTurns) {
  for (Isa isa : {Isa::Avx2, Isa::Avx512}) {
    auto code = emit(long_body(DType::F64), isa, true);
    ASSERT_TRUE(code);
    int places = 0;
    for (std::size_t at = code->listing.find("vsqrtpd"); at != std::string::npos;
         at = code->listing.find("vsqrtpd", at + 1))
      ++places;
    EXPECT_GE(places, 4) << isa_name(isa);
  }
}

TEST_P(Math, LongBodiesGiveWhatShortOnesGive) {
  const Executable code = compile(long_body(DType::F64), GetParam());
  const double odd[] = {0,      -1, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
                        5e-324, 800};
  for (int length = 1; length < 80; length += length < 40 ? 1 : 7)
    for (int place = -1; place < length; place += 3) {
      std::vector<double> x(static_cast<std::size_t>(length)), alone;
      for (int i = 0; i < length; ++i) x[static_cast<std::size_t>(i)] = 0.5 + 0.37 * i;
      if (place >= 0) x[static_cast<std::size_t>(place)] = odd[place % 6];
      for (double each : x) {  // one element is computed in the tail
        char* ptrs[] = {reinterpret_cast<char*>(&each), reinterpret_cast<char*>(&each)};
        const int64_t strides[] = {8, 0, 8, 0};
        run_kernel(code, ptrs, strides, 1);
        alone.push_back(each);
      }
      char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(x.data())};
      const int64_t strides[] = {8, 0, 8, 0};
      run_kernel(code, ptrs, strides, length);
      EXPECT_EQ(std::memcmp(x.data(), alone.data(), x.size() * sizeof(double)), 0)
          << length << " elements, an odd one at " << place;
    }
}

TEST_P(Math, ContractionHappensAtO1Only) {
  // x * x - y is exact only where the product is not rounded.
  for (bool o1 : {false, true}) {
    LoopNest nest;
    nest.o1 = o1;
    const uint16_t x = add_load(nest, DType::F64, Access::Contiguous),
                   y = add_load(nest, DType::F64, Access::Contiguous);
    const uint16_t p = add_apply(nest, Op::Multiply, DType::F64, DType::F64, {x, x});
    add_store(nest, DType::F64, Access::Contiguous, add_apply(nest, Op::Subtract, DType::F64, DType::F64, {p, y}));
    const Executable code = compile(nest, GetParam());
    const double a = 1 + 0x1p-30;
    double in[11], square[11], out[11];
    std::fill_n(in, 11, a);
    std::fill_n(square, 11, a * a);
    char* ptrs[] = {reinterpret_cast<char*>(in), reinterpret_cast<char*>(square), reinterpret_cast<char*>(out)};
    const int64_t strides[] = {8, 0, 8, 0, 8, 0};
    run_kernel(code, ptrs, strides, 11);
    for (double z : out) EXPECT_EQ(z, o1 ? 0x1p-60 : 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Math, ::testing::ValuesIn(isas()), [](const auto& i) { return isa_name(i.param); });

}  // namespace
}  // namespace framejit::codegen::testing
