// Matrix products alone: GFLOP/s, the share of the FMA peak measured beside them, and, with the path of a CBLAS library
// (that of NumPy's wheel: numpy.libs/libscipy_openblas64_*.so), the ratio to that library in the same rounds.
//
//     bench_matmul [--threads N] [--f64] [--avx2] [--set NAME] [--seconds S] [--shape M,N,K[,at][,bt]] [--epilogue]
//                  [--producer KIND] [--cold] [LIBRARY]
//
// With --cold each call has a B that was not read for 64 MB of others, as the weights of a network's layers are. One
// thread is measured by its CPU time, so that other processes show only through the caches. Options named after the
// fields of runtime::Product::Tuning (--depth, --plain-rows, ...) set them.
#include <dlfcn.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "codegen/lower.h"
#include "codegen/matmul.h"
#include "graph/passes/fuse.h"
#include "graph/text.h"
#include "runtime/allocator.h"
#include "runtime/exec_memory.h"
#include "runtime/execute.h"
#include "runtime/plan.h"
#include "runtime/scheduler.h"

using namespace framejit;

namespace {

struct Shape {
  const char* set;
  int64_t m, n, k;
  bool at = false, bt = false;  // stored transposed
};

const Shape kShapes[] = {
    {"square", 4, 4, 4},
    {"square", 8, 8, 8},
    {"square", 16, 16, 16},
    {"square", 24, 24, 24},
    {"square", 32, 32, 32},
    {"square", 48, 48, 48},
    {"square", 64, 64, 64},
    {"square", 96, 96, 96},
    {"square", 128, 128, 128},
    {"square", 192, 192, 192},
    {"square", 256, 256, 256},
    {"square", 384, 384, 384},
    {"square", 512, 512, 512},
    {"square", 768, 768, 768},
    {"square", 1024, 1024, 1024},
    {"square", 1536, 1536, 1536},
    {"square", 2048, 2048, 2048},
    // transformer: tokens x features
    {"transformer", 128, 768, 768},
    {"transformer", 128, 3072, 768},
    {"transformer", 128, 768, 3072},
    {"transformer", 512, 1024, 1024},
    {"transformer", 512, 4096, 1024},
    {"transformer", 512, 1024, 4096},
    {"transformer", 128, 768, 768, false, true},
    {"transformer", 512, 1024, 1024, false, true},
    {"transformer", 512, 2048, 512, false, true},
    {"transformer", 512, 512, 64, false, true},  // q k^T of a head
    {"transformer", 512, 64, 512},               // p v
    {"transformer", 128, 128, 64, false, true},
    {"transformer", 128, 64, 128},
    {"transformer", 768, 3072, 128, true, false},  // gradient of a weight
    {"transformer", 1024, 1024, 512, true, false},
    // convolutions as products: pixels x output channels x window
    {"conv", 3136, 64, 576},
    {"conv", 784, 128, 1152},
    {"conv", 196, 256, 2304},
    {"conv", 49, 512, 4608},
    {"conv", 3136, 256, 64},
    {"conv", 12544, 64, 147},
    {"conv", 64, 3136, 576},
    {"conv", 128, 784, 1152},
    {"conv", 256, 196, 2304},
    // one dimension small
    {"skinny", 1, 1024, 1024},
    {"skinny", 1, 4096, 1024},
    {"skinny", 1, 1024, 1024, false, true},
    {"skinny", 1024, 1, 1024},
    {"skinny", 4096, 1, 4096},
    {"skinny", 4, 1024, 1024},
    {"skinny", 4, 1024, 1024, false, true},
    {"skinny", 8, 4096, 1024},
    {"skinny", 8, 1024, 1024, false, true},
    {"skinny", 32, 1024, 1024, false, true},
    {"skinny", 1024, 4, 1024},
    {"skinny", 1024, 8, 1024},
    {"skinny", 100000, 8, 16},
    {"skinny", 10000, 32, 32},
    {"skinny", 32, 10, 784},
    {"skinny", 256, 256, 8},
    {"skinny", 2000, 2000, 16},
    {"skinny", 16, 16, 10000},
    {"skinny", 33, 65, 129},
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Of one thread, without the time in which it had no CPU.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// ---- the limit: fused multiply-adds on registers only

[[gnu::target("avx512f")]] double peak_avx512(bool f32) {
  constexpr int kChains = 16, kSteps = 20000;
  __m512 x[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) x[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 y = _mm512_set1_ps(0.5f);
  const double start = cpu_seconds();
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      if (f32) asm volatile("vfmadd231ps %1, %1, %0" : "+v"(x[i]) : "v"(y));
      else asm volatile("vfmadd231pd %1, %1, %0" : "+v"(x[i]) : "v"(y));
    }
  }
  return kChains * kSteps * 2.0 * (f32 ? 16 : 8) / (cpu_seconds() - start) * 1e-9;
}

[[gnu::target("avx2,fma")]] double peak_avx2(bool f32) {
  constexpr int kChains = 12, kSteps = 20000;
  __m256 x[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) x[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 y = _mm256_set1_ps(0.5f);
  const double start = cpu_seconds();
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      if (f32) asm volatile("vfmadd231ps %1, %1, %0" : "+x"(x[i]) : "x"(y));
      else asm volatile("vfmadd231pd %1, %1, %0" : "+x"(x[i]) : "x"(y));
    }
  }
  return kChains * kSteps * 2.0 * (f32 ? 8 : 4) / (cpu_seconds() - start) * 1e-9;
}

// ---- the peer

using Gemm = void (*)(int, int, int, int64_t, int64_t, int64_t, double, const void*, int64_t, const void*, int64_t,
                      double, void*, int64_t);
using GemmFloat = void (*)(int, int, int, int64_t, int64_t, int64_t, float, const void*, int64_t, const void*, int64_t,
                           float, void*, int64_t);

struct Blas {
  void* gemm = nullptr;

  Blas(const char* library, bool f32, int threads) {
    void* handle = library ? dlopen(library, RTLD_NOW) : nullptr;
    if (!handle) return;
    gemm = dlsym(handle, f32 ? "scipy_cblas_sgemm64_" : "scipy_cblas_dgemm64_");
    if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(handle, "scipy_openblas_set_num_threads64_"))) set(threads);
    if (auto* name = reinterpret_cast<const char* (*)()>(dlsym(handle, "scipy_openblas_get_config64_")))
      std::printf("%s\n", name());
  }
  void run(bool f32, const Shape& s, const void* a, const void* b, void* c) const {
    constexpr int kRows = 101, kPlain = 111, kTransposed = 112;
    const int64_t lda = s.at ? s.m : s.k, ldb = s.bt ? s.k : s.n;
    if (f32)
      reinterpret_cast<GemmFloat>(gemm)(kRows, s.at ? kTransposed : kPlain, s.bt ? kTransposed : kPlain, s.m, s.n, s.k,
                                        1.0f, a, lda, b, ldb, 0.0f, c, s.n);
    else
      reinterpret_cast<Gemm>(gemm)(kRows, s.at ? kTransposed : kPlain, s.bt ? kTransposed : kPlain, s.m, s.n, s.k, 1.0,
                                   a, lda, b, ldb, 0.0, c, s.n);
  }
};

struct Options {
  int threads = 1;
  bool f32 = true, avx2 = false, epilogue = false, cold = false;
  double seconds = 0.3;
  std::string set, producer;
  runtime::Product::Tuning tuning;
  const char* library = nullptr;
};

template <class T>
double largest_error(const Shape& s, const T* a, const T* b, const T* c) {
  double worst = 0;
  for (int i = 0; i < 64; ++i) {
    const int64_t row = std::rand() % s.m, column = std::rand() % s.n;
    double want = 0, size = 0;
    for (int64_t k = 0; k < s.k; ++k) {
      const double term = static_cast<double>(s.at ? a[k * s.m + row] : a[row * s.k + k]) *
                          static_cast<double>(s.bt ? b[column * s.k + k] : b[k * s.n + column]);
      want += term;
      size += std::fabs(term);
    }
    const double error = std::fabs(static_cast<double>(c[row * s.n + column]) - want) / size;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

/// relu(x @ w + b) beside x @ w, both as plans: what the epilogue costs.
void measure_epilogue(const Shape& s, const Options& o) {
  const auto matrix = [&](int64_t rows, int64_t columns, bool turned = false) {
    if (turned) std::swap(rows, columns);
    return std::string(o.f32 ? "f32[" : "f64[") + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  const auto turned = [&](const char* name, int64_t rows, int64_t columns) {
    const int64_t item = o.f32 ? 4 : 8;
    return std::string("  %") + name + "t = view %" + name + " : " + matrix(rows, columns) + " strides=[" +
           std::to_string(item) + ", " + std::to_string(rows * item) + "] root=%" + name + " offset=0\n";
  };
  const std::string x = matrix(s.m, s.k, s.at), w = matrix(s.k, s.n, s.bt), y = matrix(s.m, s.n),
                    scalar = o.f32 ? "f32[]" : "f64[]",
                    row = std::string(o.f32 ? "f32[" : "f64[") + std::to_string(s.n) + "]";
  auto make = [&](const std::string& rest) {
    auto graph =
        graph::parse("graph @f(%x: " + x + ", %w: " + w + ", %b: " + row + ") {\n" +
                     (s.at ? turned("x", s.m, s.k) : "") + (s.bt ? turned("w", s.k, s.n) : "") + "  %3 = matmul %x" +
                     (s.at ? "t" : "") + ", %w" + (s.bt ? "t" : "") + " : " + y + "\n" + rest);
    codegen::LowerOptions options;
    options.cpu = codegen::select_cpu(o.avx2 ? "avx2" : "");
    auto program = codegen::lower(*graph, graph::fuse(*graph, {}), options);
    return std::move(*runtime::Plan::create(std::move(*program)));
  };
  const std::unique_ptr<runtime::Plan> plans[] = {
      make("  return %3\n}\n"), make("  %4 = add %3, %b : " + y + "\n  %5 = constant {value=0} : " + scalar +
                                     "\n  %6 = maximum %4, %5 : " + y + "\n  return %6\n}\n")};
  const std::size_t item = o.f32 ? 4 : 8;
  std::vector<char*> params;
  for (int64_t count : {s.m * s.k, s.k * s.n, s.n}) {
    params.push_back(static_cast<char*>(runtime::allocate_zeroed(static_cast<std::size_t>(count) * item)));
  }
  char* results[] = {static_cast<char*>(runtime::allocate(static_cast<std::size_t>(s.m * s.n) * item))};
  const int inner = std::max(1, static_cast<int>(2e7 / (2.0 * static_cast<double>(s.m * s.n * s.k))));
  auto clock = [&] { return o.threads == 1 ? cpu_seconds() : seconds(); };
  double best[2] = {1e9, 1e9};
  std::vector<double> ratios;
  const double stop = seconds() + o.seconds;
  while (seconds() < stop || ratios.size() < 5) {
    double took[2];
    for (int which = 0; which < 2; ++which) {
      const double start = clock();
      for (int i = 0; i < inner; ++i) plans[which]->run(params, results, {});
      took[which] = (clock() - start) / inner;
      best[which] = std::min(best[which], took[which]);
    }
    ratios.push_back(took[1] / took[0]);
  }
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  std::printf("%6ld %5ld %5ld  product %11.0f ns, with bias and relu %11.0f ns: least %+5.1f %%, median %+5.1f %%\n",
              s.m, s.n, s.k, best[0] * 1e9, best[1] * 1e9, (best[1] / best[0] - 1) * 100,
              (ratios[ratios.size() / 2] - 1) * 100);
  std::fflush(stdout);
  for (char* p : params) runtime::release(p);
  runtime::release(results[0]);
}

/// f(x) @ w, f(x) rows at a time and all of it before the product, beside the product alone.
void measure_producer(const Shape& s, const Options& o) {
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return std::string(o.f32 ? "f32[" : "f64[") + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  const bool casts = o.producer == "cast";
  const std::string a = matrix(s.m, s.k), x = casts ? "f16" + a.substr(3) : a, w = matrix(s.k, s.n),
                    y = matrix(s.m, s.n), scalar = o.f32 ? "f32[]" : "f64[]",
                    row = std::string(o.f32 ? "f32[" : "f64[") + std::to_string(s.k) + "]",
                    head = "graph @f(%x: " + x + ", %w: " + w + ", %b: " + row + ") {\n";
  const auto constant = [&](const char* name, const char* value) {
    return std::string("  ") + name + " = constant {value=" + value + "} : " + scalar + "\n";
  };
  std::string f;
  if (o.producer == "relu") f = constant("%3", "0") + "  %9 = maximum %x, %3 : " + a + "\n";
  if (o.producer == "affine") f = "  %3 = multiply %x, %b : " + a + "\n  %9 = add %3, %b : " + a + "\n";
  if (o.producer == "gelu")
    f = constant("%3", "0.5") + constant("%4", "1") + "  %5 = erf %x : " + a + "\n  %6 = add %5, %4 : " + a +
        "\n  %7 = multiply %x, %6 : " + a + "\n  %9 = multiply %7, %3 : " + a + "\n";
  if (o.producer == "norm") {
    const std::string column = std::string(o.f32 ? "f32[" : "f64[") + std::to_string(s.m), flat = column + "]",
                      upright = column + ", 1]", strides = std::string(" strides=") + (o.f32 ? "[4, 4]" : "[8, 8]");
    f = "  %3 = reduce_sum %x {axes=[1]} : " + flat + "\n  %4 = view %3 : " + upright + strides +
        " root=%3 offset=0\n  %5 = subtract %x, %4 : " + a + "\n  %6 = multiply %5, %5 : " + a +
        "\n  %7 = reduce_sum %6 {axes=[1]} : " + flat + "\n  %8 = view %7 : " + upright + strides +
        " root=%7 offset=0\n  %11 = divide %5, %8 : " + a + "\n  %9 = add %11, %b : " + a + "\n";
  }
  if (casts) f = "  %9 = cast %x : " + a + "\n";
  auto make = [&](const std::string& text, bool fused = true) {
    auto graph = graph::parse(text);
    codegen::LowerOptions options;
    options.cpu = codegen::select_cpu(o.avx2 ? "avx2" : "");
    options.o1 = true;
    auto program = codegen::lower(*graph, graph::fuse(*graph, {}), options);
    if (auto* product = std::get_if<codegen::MatMulStep>(&program->steps.back()); !fused) product->producer.reset();
    return std::move(*runtime::Plan::create(std::move(*program)));
  };
  const std::string product = "  %10 = matmul %9, %w : " + y + "\n  return %10\n}\n";
  const std::unique_ptr<runtime::Plan> plans[] = {make(head + f + product), make(head + f + product, false),
                                                  make("graph @f(%9: " + a + ", %w: " + w + ") {\n" + product)};
  const std::size_t item = o.f32 ? 4 : 8;
  std::vector<char*> params;
  for (int64_t count : {s.m * s.k, s.k * s.n, s.k, s.m * s.k, s.m * s.n})
    params.push_back(static_cast<char*>(runtime::allocate_zeroed(static_cast<std::size_t>(count) * item)));
  char* results[] = {params[4]};
  std::vector<char*> factors = {params[3], params[1]};
  const int inner = std::max(1, static_cast<int>(2e7 / (2.0 * static_cast<double>(s.m * s.n * s.k))));
  auto clock = [&] { return o.threads == 1 ? cpu_seconds() : seconds(); };
  double best[3] = {1e9, 1e9, 1e9};
  std::vector<double> ratios;
  const double stop = seconds() + o.seconds;
  while (seconds() < stop || ratios.size() < 5) {
    double took[3];
    for (int which = 0; which < 3; ++which) {
      const double start = clock();
      for (int i = 0; i < inner; ++i) {
        if (which < 2) plans[which]->run(params, results, {});
        else plans[2]->run(factors, results, {});
      }
      took[which] = (clock() - start) / inner;
      best[which] = std::min(best[which], took[which]);
    }
    ratios.push_back(took[1] / took[0]);
  }
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  std::printf(
      "%6ld %5ld %5ld  %-6s product %11.0f ns, after %11.0f ns, as it goes %11.0f ns: ratio %5.3f, median %5.3f; "
      "memory %ld\n",
      s.m, s.n, s.k, o.producer.c_str(), best[2] * 1e9, best[1] * 1e9, best[0] * 1e9, best[1] / best[0],
      ratios[ratios.size() / 2], static_cast<long>(plans[0]->buffer_bytes({})));
  std::fflush(stdout);
  for (char* p : params) runtime::release(p);
}

void measure(const Shape& s, const Options& o, const void* code, const Blas& blas) {
  const int64_t item = o.f32 ? 4 : 8;
  runtime::Product p;
  p.core = codegen::MatMulCore(o.f32 ? graph::DType::F32 : graph::DType::F64, !o.avx2);
  p.code = code;
  p.l2_bytes = codegen::detected_cpu().l2_bytes;
  p.m = s.m, p.n = s.n, p.k = s.k;
  p.a_row = s.at ? item : s.k * item, p.a_k = s.at ? s.m * item : item;
  p.b_k = s.bt ? item : s.n * item, p.b_column = s.bt ? s.k * item : item;
  p.c_row = s.n * item;
  p.tuning = o.tuning;
  p.plan();
  auto matrix = [&](int64_t count) {
    auto* x = static_cast<char*>(runtime::allocate(static_cast<std::size_t>(count * item)));
    for (int64_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(std::rand() % 2001) / 1000 - 1;
      if (o.f32) reinterpret_cast<float*>(x)[i] = static_cast<float>(value);
      else reinterpret_cast<double*>(x)[i] = value;
    }
    return x;
  };
  char *a = matrix(s.m * s.k), *c = matrix(s.m * s.n);
  std::vector<char*> several;
  for (int64_t bytes = 0; several.empty() || (o.cold && bytes < 64 << 20); bytes += s.k * s.n * item)
    several.push_back(matrix(s.k * s.n));
  char* const b = several[0];
  std::size_t next = 0;
  const auto another_b = [&] { return several[next++ % several.size()]; };
  runtime::RunState state;
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const int inner = std::max(1, static_cast<int>(2e6 / flops * 10));
  std::vector<double> own, peer, ratio, limit;
  auto clock = [&] { return o.threads == 1 ? cpu_seconds() : seconds(); };
  const double stop = seconds() + o.seconds;
  while (seconds() < stop || own.size() < 5) {
    double start = clock();
    for (int i = 0; i < inner; ++i) runtime::run_product(p, a, another_b(), c, state);
    own.push_back((clock() - start) / inner);
    if (blas.gemm) {
      start = clock();
      for (int i = 0; i < inner; ++i) blas.run(o.f32, s, a, another_b(), c);
      peer.push_back((clock() - start) / inner);
      ratio.push_back(peer.back() / own.back());
    }
    limit.push_back(o.avx2 ? peak_avx2(o.f32) : peak_avx512(o.f32));
  }
  std::memset(c, 0xff, static_cast<std::size_t>(s.m * s.n * item));
  runtime::run_product(p, a, b, c, state);
  const double error =
      o.f32
          ? largest_error(s, reinterpret_cast<float*>(a), reinterpret_cast<float*>(b), reinterpret_cast<float*>(c))
          : largest_error(s, reinterpret_cast<double*>(a), reinterpret_cast<double*>(b), reinterpret_cast<double*>(c));
  auto least = [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); };
  auto median = [](std::vector<double> v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  const double peak = *std::max_element(limit.begin(), limit.end()) * o.threads;
  std::printf("%-12s %6ld %5ld %5ld %s%s path %d %12.0f ns %7.1f GFLOP/s %5.1f %% of peak", s.set, s.m, s.n, s.k,
              s.at ? "T" : "n", s.bt ? "T" : "n", static_cast<int>(p.way.path), least(own) * 1e9,
              flops / least(own) * 1e-9, flops / least(own) * 1e-7 / peak);
  if (blas.gemm)
    std::printf("  peer %7.1f  ratio %5.2f median %5.2f", flops / least(peer) * 1e-9, least(peer) / least(own),
                median(ratio));
  std::printf("%s\n", error < (o.f32 ? 1e-5 : 1e-14) ? "" : "  WRONG");
  std::fflush(stdout);
  several.insert(several.end(), {a, c});
  for (char* x : several) runtime::release(x);
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  std::vector<Shape> shapes;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--threads") o.threads = std::atoi(argv[++i]);
    else if (name == "--f64") o.f32 = false;
    else if (name == "--avx2") o.avx2 = true;
    else if (name == "--set") o.set = argv[++i];
    else if (name == "--seconds") o.seconds = std::atof(argv[++i]);
    else if (name == "--epilogue") o.epilogue = true;
    else if (name == "--producer") o.producer = argv[++i];
    else if (name == "--cold") o.cold = true;
    else if (name == "--depth") o.tuning.depth = std::atoi(argv[++i]);
    else if (name == "--few-columns") o.tuning.few_columns = o.tuning.few_columns_avx2 = std::atoi(argv[++i]);
    else if (name == "--few-rows") o.tuning.few_rows = std::atoi(argv[++i]);
    else if (name == "--few-depth") o.tuning.few_depth = std::atoi(argv[++i]);
    else if (name == "--streamed-rows") o.tuning.streamed_rows = std::atoi(argv[++i]);
    else if (name == "--streamed-depth") o.tuning.streamed_depth = std::atoi(argv[++i]);
    else if (name == "--far-b") o.tuning.far_b = std::atoi(argv[++i]);
    else if (name == "--plain-rows") o.tuning.plain_rows = std::atoi(argv[++i]);
    else if (name == "--plain-depth") o.tuning.plain_depth = std::atoi(argv[++i]);
    else if (name == "--shallow") o.tuning.shallow = std::atoi(argv[++i]);
    else if (name == "--small-b") o.tuning.small_b = std::atoi(argv[++i]);
    else if (name == "--packed-ahead") o.tuning.packed_ahead = std::atoi(argv[++i]);
    else if (name == "--plain-ahead") o.tuning.plain_ahead = o.tuning.plain_ahead_avx2 = std::atoi(argv[++i]);
    else if (name == "--shape") {
      Shape s{"given", 1, 1, 1};
      std::sscanf(argv[++i], "%ld,%ld,%ld", &s.m, &s.n, &s.k);
      s.at = std::strstr(argv[i], ",at"), s.bt = std::strstr(argv[i], ",bt");
      shapes.push_back(s);
    } else o.library = argv[i];
  }
  if (shapes.empty())
    for (const Shape& s : kShapes)
      if (o.set.empty() || o.set == s.set) shapes.push_back(s);
  runtime::initialize_scheduler();
  runtime::set_num_threads(o.threads);
  if (!o.producer.empty()) {
    for (const Shape& s : shapes)
      if (!s.at && !s.bt) measure_producer(s, o);
    return 0;
  }
  if (o.epilogue) {
    for (const Shape& s : shapes) measure_epilogue(s, o);
    return 0;
  }
  double start = seconds();
  auto kernel = codegen::emit_matmul(o.f32 ? graph::DType::F32 : graph::DType::F64,
                                     o.avx2 ? codegen::Isa::Avx2 : codegen::Isa::Avx512);
  if (!kernel) return 1;
  std::printf("core: %zu bytes, emitted in %.2f ms\n", kernel->bytes.size(), (seconds() - start) * 1e3);
  const std::span<const uint8_t> piece(kernel->bytes);
  auto block = runtime::CodeBlock::seal({&piece, 1});
  const Blas blas(o.library, o.f32, o.threads);
  for (const Shape& s : shapes) measure(s, o, block->entry(0), blas);
}
