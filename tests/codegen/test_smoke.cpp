// A first nest: compiled and run on each instruction set.
#include "harness.h"

namespace framejit::codegen::testing {
namespace {

TEST(Emit, MultiplyAdd) {
  for (Isa isa : isas()) {
    LoopNest nest;
    const uint16_t a = add_load(nest, DType::F32, Access::Contiguous),
                   b = add_load(nest, DType::F32, Access::Contiguous);
    const uint16_t p = add_apply(nest, Op::Multiply, DType::F32, DType::F32, {a, b});
    add_store(nest, DType::F32, Access::Contiguous, add_apply(nest, Op::Add, DType::F32, DType::F32, {p, b}));
    const Executable code = compile(nest, isa);
    for (int n = 0; n < 100; ++n) {
      std::vector<float> x(n + 1), y(n + 1), z(n + 1, -7.0f);
      for (int i = 0; i < n; ++i) x[i] = i * 0.5f, y[i] = i - 3.0f;
      char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(y.data()),
                      reinterpret_cast<char*>(z.data())};
      const int64_t strides[] = {4, 0, 4, 0, 4, 0};
      EXPECT_EQ(run_kernel(code, ptrs, strides, n), 0u);
      for (int i = 0; i < n; ++i) EXPECT_EQ(z[i], x[i] * y[i] + y[i]) << i << " of " << n << " " << isa_name(isa);
      EXPECT_EQ(z[n], -7.0f);
    }
  }
}

}  // namespace
}  // namespace framejit::codegen::testing
