// The tests' way to run machine code.
#include "harness.h"

#include <sys/mman.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <utility>

namespace framejit::codegen::testing {

namespace {
std::size_t page_size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
std::size_t round_up(std::size_t n) { return (n + page_size() - 1) / page_size() * page_size(); }
}  // namespace

Executable::Executable(const std::vector<uint8_t>& bytes) : size_(round_up(bytes.size() + 1)) {
  map_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(map_, MAP_FAILED);
  std::memcpy(map_, bytes.data(), bytes.size());
  EXPECT_EQ(mprotect(map_, size_, PROT_READ | PROT_EXEC), 0);
}

Executable::Executable(Executable&& o) noexcept : map_(std::exchange(o.map_, nullptr)), size_(o.size_) {}

Executable::~Executable() {
  if (map_) munmap(map_, size_);
}

GuardedBuffer::GuardedBuffer(std::size_t bytes) : map_size_(round_up(bytes) + page_size()), size_(bytes) {
  map_ = mmap(nullptr, map_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(map_, MAP_FAILED);
  char* guard = static_cast<char*>(map_) + map_size_ - page_size();
  EXPECT_EQ(mprotect(guard, page_size(), PROT_NONE), 0);
  data_ = guard - bytes;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& o) noexcept
    : map_(std::exchange(o.map_, nullptr)), map_size_(o.map_size_), size_(o.size_), data_(o.data_) {}

GuardedBuffer::~GuardedBuffer() {
  if (map_) munmap(map_, map_size_);
}

std::vector<Isa> isas() {
  std::vector<Isa> out;
  const Isa best = detected_cpu().isa;
  if (best != Isa::None) out.push_back(Isa::Avx2);
  if (best == Isa::Avx512) out.push_back(Isa::Avx512);
  return out;
}

std::string isa_name(Isa isa) { return isa == Isa::Avx512 ? "avx512" : "avx2"; }

unsigned run_kernel(const Executable& code, char* const* ptrs, const int64_t* strides, int64_t n_inner,
                    int64_t n_outer) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before & ~63u);
  reinterpret_cast<KernelFn>(const_cast<void*>(code.entry()))(ptrs, strides, n_inner, n_outer);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(before & ~63u, after & ~63u) << "control bits changed";
  return after & kSeen;
}

Executable compile(const LoopNest& nest, Isa isa) {
  auto code = emit(nest, isa);
  EXPECT_TRUE(code.has_value()) << (code ? "" : code.error()) << nest.str();
  if (!code) return Executable({0xc3});
  // endbr64
  const uint8_t entry[4] = {0xf3, 0x0f, 0x1e, 0xfa};
  EXPECT_EQ(std::memcmp(code->bytes.data(), entry, 4), 0);
  return Executable(code->bytes);
}

uint16_t add_load(LoopNest& nest, DType t, Access access) {
  nest.operands.push_back({t, access, false});
  Expr e{};
  e.kind = ExprKind::Load;
  e.dtype = t;
  e.args[0] = static_cast<uint16_t>(nest.operands.size() - 1);
  nest.body.push_back(e);
  return static_cast<uint16_t>(nest.body.size() - 1);
}

uint16_t add_apply(LoopNest& nest, Op op, DType operand, DType result, std::vector<uint16_t> args) {
  Expr e{};
  e.kind = ExprKind::Apply;
  e.op = op;
  e.dtype = result;
  e.operand_dtype = operand;
  for (std::size_t i = 0; i < args.size(); ++i) e.args[i] = args[i];
  nest.body.push_back(e);
  return static_cast<uint16_t>(nest.body.size() - 1);
}

uint16_t add_constant(LoopNest& nest, DType t, uint64_t bits) {
  Expr e{};
  e.kind = ExprKind::Constant;
  e.dtype = t;
  e.constant.lo = bits;
  nest.body.push_back(e);
  return static_cast<uint16_t>(nest.body.size() - 1);
}

void add_store(LoopNest& nest, DType t, Access access, uint16_t expr) {
  nest.operands.push_back({t, access, true});
  nest.stores.push_back({static_cast<uint16_t>(nest.operands.size() - 1), expr, false});
}

}  // namespace framejit::codegen::testing
