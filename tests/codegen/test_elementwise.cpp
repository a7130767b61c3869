// Every elementwise operator and cast: all dtypes, operand accesses, tails, misaligned bases, both instruction sets;
// values and flags against the scalar reference.
#include <algorithm>
#include <random>

#include "harness.h"
#include "reference.h"

namespace framejit::codegen::testing {
namespace {

constexpr DType kDTypes[] = {DType::Bool, DType::I8,  DType::I16, DType::I32, DType::I64, DType::U8,
                             DType::U16,  DType::U32, DType::U64, DType::F32, DType::F64};

struct Case {
  Op op;
  DType operand, result;
  std::vector<DType> inputs;
};

std::vector<Case> all_cases(bool o1) {
  std::vector<Case> cases;
  for (const graph::OpDef& row : graph::kOps) {
    if (row.cls == graph::OpClass::Cast) {
      for (DType from : kDTypes)
        for (DType to : kDTypes)
          if (emits(row.op, from, to, o1, Isa::Avx2)) cases.push_back({row.op, from, to, {from}});
    }
    if (row.cls != graph::OpClass::Elementwise ||
        (row.exactness == graph::Exactness::NumpyLoop && row.op != Op::Fmin && row.op != Op::Fmax))
      continue;
    for (DType t : kDTypes) {
      const DType result = row.result == graph::ResultRule::Bool ? DType::Bool : t;
      if (!emits(row.op, t, result, o1, Isa::Avx2)) continue;
      std::vector<DType> inputs(row.operands, t);
      if (row.op == Op::Where) inputs[0] = DType::Bool;
      cases.push_back({row.op, t, result, inputs});
    }
  }
  return cases;
}

uint64_t expected(const Case& c, const uint64_t args[3], bool invariant_bounds, unsigned* raised) {
  return c.op == Op::Cast ? reference_cast(c.operand, c.result, args[0], raised)
                          : reference_apply(c.op, c.operand, args, invariant_bounds, raised);
}

LoopNest make_nest(const Case& c, const std::vector<Access>& accesses, Access out, bool o1) {
  LoopNest nest;
  nest.name = "test";
  nest.o1 = o1;
  std::vector<uint16_t> args;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) args.push_back(add_load(nest, c.inputs[i], accesses[i]));
  add_store(nest, c.result, out, add_apply(nest, c.op, c.operand, c.result, args));
  return nest;
}

std::string describe(const Case& c, Isa isa) {
  return std::string(graph::name_of(c.op)) + " " + std::string(graph::name_of(c.operand)) + " -> " +
         std::string(graph::name_of(c.result)) + " on " + isa_name(isa);
}

/// All pairs of special values, one element at a time: values and flags without anything to hide behind.
void check_single_elements(const Case& c, Isa isa, bool o1) {
  const std::size_t arity = c.inputs.size();
  const Executable code =
      compile(make_nest(c, std::vector<Access>(arity, Access::Contiguous), Access::Contiguous, o1), isa);
  std::vector<std::vector<uint64_t>> values;
  for (DType t : c.inputs) values.push_back(special_values(t));
  while (values.size() < 3) values.push_back({0});
  int failures = 0;
  for (uint64_t a : values[0])
    for (uint64_t b : values[1])
      for (std::size_t k = 0; k < values[2].size(); k += arity == 3 ? 3 : 1) {
        const uint64_t args[3] = {a, b, values[2][k]};
        uint64_t slots[4] = {a, b, values[2][k], 0};
        char* ptrs[4];
        for (std::size_t i = 0; i < 4; ++i) ptrs[i] = reinterpret_cast<char*>(&slots[i]);
        ptrs[arity] = reinterpret_cast<char*>(&slots[3]);
        const int64_t strides[8] = {};
        unsigned flags = 0;
        const uint64_t want = expected(c, args, false, &flags);
        const unsigned got_flags = run_kernel(code, ptrs, strides, 1);
        const uint64_t got = read_element(c.result, &slots[3]);
        if (!same_element(c.result, want, got) || flags != got_flags) {
          ADD_FAILURE() << describe(c, isa) << std::hex << " args 0x" << a << " 0x" << b << " 0x" << args[2]
                        << " want 0x" << want << " got 0x" << got << " flags want " << flags << " got " << got_flags;
          if (++failures > 5) return;
        }
      }
}

struct Layout {
  std::vector<Access> inputs;
  Access out;
  std::vector<int64_t> strides;  // in elements, of strided operands (inputs, then out)
};

std::vector<Layout> layouts(std::size_t arity) {
  using enum Access;
  std::vector<Layout> out;
  out.push_back({std::vector<Access>(arity, Contiguous), Contiguous, std::vector<int64_t>(arity + 1, 1)});
  out.push_back({std::vector<Access>(arity, Strided), Strided, {-2, 3, 1, 2}});
  Layout mixed{std::vector<Access>(arity, Contiguous), Contiguous, {3, -1, 2, 1}};
  mixed.inputs[0] = Strided;
  mixed.inputs[arity - 1] = Broadcast;
  out.push_back(mixed);
  if (arity == 3) out.push_back({{Contiguous, Broadcast, Broadcast}, Strided, {1, 1, 1, -1}});
  if (arity == 2) out.push_back({{Broadcast, Contiguous}, Contiguous, {1, 1, 1}});
  return out;
}

struct Random {
  std::mt19937_64 engine{12345};
  uint64_t operator()() { return engine(); }
};

/// One operand in memory: first element, stride in bytes, everything around it poisoned.
struct Placed {
  GuardedBuffer buffer;
  char* first;
  int64_t stride;
};

Placed place(DType t, Access access, int64_t stride_elements, int64_t n, int misalign) {
  const int size = graph::size_of(t);
  // Strided operands get a stride that is no multiple of the element size.
  const int64_t stride = access == Access::Broadcast ? 0
                         : access == Access::Contiguous
                             ? size
                             : stride_elements * size + (stride_elements > 0 ? misalign : -misalign);
  const int64_t span = std::abs(stride) * std::max<int64_t>(n - 1, 0) + size;
  GuardedBuffer buffer(static_cast<std::size_t>(span + misalign + 64));
  std::memset(buffer.data(), 0xa5, buffer.size());
  // Positive strides end at the guard page, less the misalignment.
  char* end = buffer.data() + buffer.size() - misalign;
  char* first = stride >= 0 ? end - span : end - size;
  return {std::move(buffer), first, stride};
}

void check_layout(const Case& c, const Layout& layout, Isa isa, bool o1, Random& random) {
  const LoopNest nest = make_nest(c, layout.inputs, layout.out, o1);
  const Executable code = compile(nest, isa);
  const std::size_t arity = c.inputs.size();
  int widest = 1;
  for (DType t : c.inputs) widest = std::max(widest, graph::size_of(t));
  widest = std::max(widest, graph::size_of(c.result));
  const int64_t width = (isa == Isa::Avx512 ? 64 : 32) / widest;
  const bool invariant_bounds =
      c.op == Op::Clip && layout.inputs[1] == Access::Broadcast && layout.inputs[2] == Access::Broadcast;
  std::vector<std::vector<uint64_t>> specials;
  for (DType t : c.inputs) specials.push_back(special_values(t));
  for (int64_t n = 0; n <= 2 * width + 1 + width / 2; ++n) {
    const int misalign = static_cast<int>(random() % 4);
    std::vector<Placed> placed;
    for (std::size_t i = 0; i < arity; ++i)
      placed.push_back(place(c.inputs[i], layout.inputs[i], layout.strides[i], n, misalign));
    placed.push_back(place(c.result, layout.out, layout.strides[arity], n, misalign));
    // Odd lengths hold tame numbers only, so that a flag of an idle lane would show.
    const bool tame = n % 2;
    for (std::size_t i = 0; i < arity; ++i)
      for (int64_t j = 0; j < (layout.inputs[i] == Access::Broadcast ? std::min<int64_t>(n, 1) : n); ++j) {
        uint64_t bits = specials[i][random() % specials[i].size()];
        if (c.inputs[i] == DType::Bool) bits = random() & 1;
        else if (tame) bits = from_double(c.inputs[i], static_cast<double>(1 + random() % 9));
        else if (random() % 3 == 0 && !graph::is_float(c.inputs[i])) bits = random();
        write_element(c.inputs[i], placed[i].first + j * placed[i].stride, bits);
      }
    std::vector<char> before(placed[arity].buffer.data(), placed[arity].buffer.data() + placed[arity].buffer.size());
    unsigned want_flags = 0;
    std::vector<uint64_t> want;
    for (int64_t j = 0; j < n; ++j) {
      uint64_t args[3] = {};
      for (std::size_t i = 0; i < arity; ++i)
        args[i] = read_element(c.inputs[i], placed[i].first + j * placed[i].stride);
      want.push_back(expected(c, args, invariant_bounds, &want_flags));
    }
    char* ptrs[4];
    int64_t strides[8] = {};
    for (std::size_t i = 0; i <= arity; ++i) {
      ptrs[i] = placed[i].first;
      strides[2 * i] = placed[i].stride;
    }
    const unsigned flags = run_kernel(code, ptrs, strides, n);
    ASSERT_EQ(flags, want_flags) << describe(c, isa) << " n " << n << "\n" << nest.str();
    for (int64_t j = 0; j < n; ++j) {
      char* at = placed[arity].first + j * placed[arity].stride;
      ASSERT_TRUE(same_element(c.result, want[j], read_element(c.result, at)))
          << describe(c, isa) << " n " << n << " at " << j << std::hex << " want 0x" << want[j] << " got 0x"
          << read_element(c.result, at) << "\n"
          << nest.str();
      std::memcpy(before.data() + (at - placed[arity].buffer.data()), at, graph::size_of(c.result));
    }
    ASSERT_EQ(std::memcmp(before.data(), placed[arity].buffer.data(), before.size()), 0)
        << describe(c, isa) << " wrote elsewhere, n " << n;
  }
}

class Elementwise : public ::testing::TestWithParam<Isa> {};

TEST_P(Elementwise, SingleElements) {
  for (bool o1 : {false, true})
    for (const Case& c : all_cases(o1)) check_single_elements(c, GetParam(), o1);
}

TEST_P(Elementwise, LayoutsAndTails) {
  Random random;
  for (const Case& c : all_cases(false))
    for (const Layout& layout : layouts(c.inputs.size())) {
      check_layout(c, layout, GetParam(), false, random);
      if (HasFatalFailure()) return;
    }
}

TEST_P(Elementwise, DeniedIsAnError) {
  LoopNest nest;
  const uint16_t a = add_load(nest, DType::F64, Access::Contiguous);
  add_store(nest, DType::U32, Access::Contiguous, add_apply(nest, Op::Cast, DType::F64, DType::U32, {a}));
  EXPECT_FALSE(emits(Op::Cast, DType::F64, DType::U32, false, GetParam()));
  EXPECT_FALSE(emit(nest, GetParam()).has_value());
  EXPECT_FALSE(emits(Op::Exp, DType::F64, DType::F64, false, GetParam()));
  EXPECT_FALSE(emits(Op::Add, DType::C64, DType::C64, false, GetParam()));
}

/// Of all counts that differ, and some beyond.
TEST_P(Elementwise, ShiftsByConstants) {
  std::mt19937_64 random(6);
  for (DType t : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64})
    for (Op op : {Op::LeftShift, Op::RightShift}) {
      const int size = graph::size_of(t);
      std::vector<uint64_t> counts = {static_cast<uint64_t>(8 * size + 1), 127, ~uint64_t{0}};
      for (int n = 0; n <= 8 * size; ++n) counts.push_back(static_cast<uint64_t>(n));
      for (uint64_t count : counts) {
        LoopNest nest;
        add_store(nest, t, Access::Contiguous,
                  add_apply(nest, op, t, t, {add_load(nest, t, Access::Contiguous), add_constant(nest, t, count)}));
        const Executable code = compile(nest, GetParam());
        constexpr int64_t kLength = 150;
        std::vector<uint64_t> x(kLength), out(kLength);
        for (uint64_t& bits : x) bits = random();
        char* ptrs[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(out.data())};
        const int64_t strides[] = {size, 0, size, 0};
        run_kernel(code, ptrs, strides, kLength);
        for (int64_t i = 0; i < kLength; ++i) {
          uint64_t args[3] = {read_element(t, ptrs[0] + i * size), 0, 0};
          write_element(t, &args[1], count);
          unsigned flags = 0;
          ASSERT_EQ(read_element(t, ptrs[1] + i * size), reference_apply(op, t, args, false, &flags))
              << nest.str() << isa_name(GetParam());
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Isas, Elementwise, ::testing::ValuesIn(isas()),
                         [](const auto& i) { return isa_name(i.param); });

}  // namespace
}  // namespace framejit::codegen::testing
