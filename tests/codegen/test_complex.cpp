// Complex operands: pairs of real expressions; every access, tails, misaligned bases, beside real operands of other
// widths.
#include <gtest/gtest.h>

#include <cstring>

#include "harness.h"

namespace framejit::codegen::testing {
namespace {

struct Layout {
  Access in, real, out;
  int64_t steps[3];  // in elements: of the complex operand, the real one, the result
};

constexpr Layout kLayouts[] = {
    {Access::Contiguous, Access::Contiguous, Access::Contiguous, {1, 1, 1}},
    {Access::Broadcast, Access::Contiguous, Access::Contiguous, {0, 1, 1}},
    {Access::Contiguous, Access::Broadcast, Access::Contiguous, {1, 0, 1}},
    {Access::Strided, Access::Contiguous, Access::Strided, {3, 1, 2}},
    {Access::Strided, Access::Strided, Access::Contiguous, {-1, 2, 1}},
    {Access::Contiguous, Access::Strided, Access::Strided, {1, -2, -3}},
};

/// (imaginary + real operand, real): of elements `complex`, by a number of dtype `real`.
LoopNest turn(DType complex, DType real, const Layout& layout, bool streaming) {
  const DType part = graph::part_of(complex);
  LoopNest nest;
  nest.name = "turn";
  nest.operands = {{complex, layout.in, false}, {real, layout.real, false}, {complex, layout.out, true}};
  const auto load = [&](uint16_t operand, uint16_t which, DType dtype) {
    Expr e{};
    e.kind = ExprKind::Load;
    e.dtype = e.operand_dtype = dtype;
    e.args[0] = operand;
    e.args[1] = which;
    nest.body.push_back(e);
    return static_cast<uint16_t>(nest.body.size() - 1);
  };
  const uint16_t re = load(0, 0, part), im = load(0, 1, part);
  uint16_t number = load(1, 0, real);
  if (real != part) number = add_apply(nest, Op::Cast, real, part, {number});
  const uint16_t sum = add_apply(nest, Op::Add, part, part, {im, number});
  nest.stores = {{2, sum, streaming, re}};
  return nest;
}

template <class T>
void check(DType complex, DType real, const Layout& layout, Isa isa, bool streaming) {
  const Executable code = compile(turn(complex, real, layout, streaming), isa);
  const int64_t sizes[3] = {2 * sizeof(T), graph::size_of(real), 2 * sizeof(T)};
  for (int64_t n = 0; n <= 41; ++n)
    for (int64_t misalign : {0, 4}) {
      std::vector<GuardedBuffer> buffers;
      char* first[3];
      int64_t strides[6] = {};
      for (int i = 0; i < 3; ++i) {
        strides[2 * i] = layout.steps[i] * sizes[i];
        const int64_t reach = std::abs(strides[2 * i]) * std::max<int64_t>(n - 1, 0);
        buffers.emplace_back(static_cast<std::size_t>(reach + sizes[i] + 64));
        std::memset(buffers[i].data(), 0xa5, buffers[i].size());
        char* end = buffers[i].data() + buffers[i].size() - misalign;  // nothing can be read behind the page
        first[i] = strides[2 * i] < 0 ? end - sizes[i] : end - reach - sizes[i];
      }
      for (int64_t i = 0; i < (layout.in == Access::Broadcast ? 1 : n); ++i) {
        const T parts[2] = {static_cast<T>(i), static_cast<T>(100 + i)};
        std::memcpy(first[0] + i * strides[0], parts, sizeof parts);
      }
      for (int64_t i = 0; i < (layout.real == Access::Broadcast ? 1 : n); ++i) {
        const double wide = 0.5 * static_cast<double>(i);
        const float narrow = static_cast<float>(wide);
        std::memcpy(first[1] + i * strides[2], real == DType::F64 ? static_cast<const void*>(&wide) : &narrow,
                    static_cast<std::size_t>(sizes[1]));
      }
      std::vector<char> want(buffers[2].data(), buffers[2].data() + buffers[2].size());
      for (int64_t i = 0; i < n; ++i) {
        const int64_t a = layout.in == Access::Broadcast ? 0 : i, b = layout.real == Access::Broadcast ? 0 : i;
        const T parts[2] = {static_cast<T>(100 + a) + static_cast<T>(0.5 * static_cast<double>(b)), static_cast<T>(a)};
        std::memcpy(want.data() + (first[2] - buffers[2].data()) + i * strides[4], parts, sizeof parts);
      }
      EXPECT_EQ(run_kernel(code, first, strides, n), 0u);
      ASSERT_EQ(std::memcmp(want.data(), buffers[2].data(), want.size()), 0)
          << graph::name_of(complex) << " " << graph::name_of(real) << " n " << n << " misaligned by " << misalign
          << " on " << isa_name(isa);
    }
}

class Complex : public ::testing::TestWithParam<Isa> {};

TEST_P(Complex, LayoutsAndTails) {
  for (const Layout& layout : kLayouts)
    for (DType real : {DType::F32, DType::F64})
      for (bool streaming : {false, true}) {
        check<float>(DType::C64, real, layout, GetParam(), streaming);
        check<double>(DType::C128, real, layout, GetParam(), streaming);
      }
}

/// Idle lanes hold the first element: no flag but those of the live ones.
TEST_P(Complex, IdleLanesRaiseNothing) {
  LoopNest nest = turn(DType::C128, DType::F64, kLayouts[0], false);
  nest.stores[0].expr =
      add_apply(nest, Op::Divide, DType::F64, DType::F64, {nest.stores[0].expr, nest.stores[0].imaginary});
  const Executable code = compile(nest, GetParam());
  for (int64_t n = 1; n <= 20; ++n) {
    std::vector<double> in(2 * 20, 0.0), real(20, 0.0), out(2 * 20);
    std::fill(in.begin(), in.begin() + 2 * n, 1.0);
    char* ptrs[3] = {reinterpret_cast<char*>(in.data()), reinterpret_cast<char*>(real.data()),
                     reinterpret_cast<char*>(out.data())};
    const int64_t strides[6] = {16, 0, 8, 0, 16, 0};
    EXPECT_EQ(run_kernel(code, ptrs, strides, n), 0u) << n;
    in[0] = 0;
    EXPECT_EQ(run_kernel(code, ptrs, strides, n), static_cast<unsigned>(kDivide)) << n;
  }
}

TEST_P(Complex, FoldsAreDenied) {
  LoopNest nest = turn(DType::C64, DType::F32, kLayouts[0], false);
  nest.fold = Fold::Rows;
  nest.combine = Op::Multiply;
  EXPECT_FALSE(emit(nest, GetParam()).has_value());
}

INSTANTIATE_TEST_SUITE_P(Isas, Complex, ::testing::ValuesIn(isas()), [](const auto& i) { return isa_name(i.param); });

}  // namespace
}  // namespace framejit::codegen::testing
