// What a plan's run costs: a call on 6 elements, and memory-bound a*b+c, sums and exp on many, for 1 thread and for
// all. Prints the minimum of many repeats.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "codegen/lower.h"
#include "graph/passes/fuse.h"
#include "graph/text.h"
#include "runtime/allocator.h"
#include "runtime/plan.h"
#include "runtime/scheduler.h"

using namespace framejit;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Stands in for a vector loop of NumPy's: costs next to nothing, so that what surrounds it shows.
void copy_loop(char** args, const intptr_t* dimensions, const intptr_t*, void*) {
  std::memcpy(args[1], args[0], static_cast<std::size_t>(*dimensions) * sizeof(float));
}

std::unique_ptr<runtime::Plan> make_plan(const std::string& text) {
  auto graph = graph::parse(text);
  if (!graph) std::exit((std::fprintf(stderr, "%s\n", graph.error().message.c_str()), 1));
  codegen::LowerOptions options;
  options.cpu = codegen::detected_cpu();
  options.numpy_loop = [](graph::Op, graph::DType, graph::DType) { return codegen::NumpyLoop{copy_loop, nullptr}; };
  auto program = codegen::lower(*graph, graph::fuse(*graph, {}), options);
  if (!program) std::exit((std::fprintf(stderr, "%s\n", program.error().c_str()), 1));
  if (std::getenv("BENCH_LISTING")) std::fputs(codegen::listing(*program).c_str(), stdout);
  auto plan = runtime::Plan::create(std::move(*program));
  if (!plan) std::exit((std::fprintf(stderr, "%s\n", plan.error().c_str()), 1));
  return std::move(*plan);
}

void measure(const char* name, const std::string& text, std::vector<int64_t> param_bytes, int threads,
             double element_count, bool fresh_results = false) {
  auto plan = make_plan(text);
  runtime::set_num_threads(threads);
  std::vector<char*> params, results;
  for (int64_t bytes : param_bytes) {
    params.push_back(static_cast<char*>(runtime::allocate(static_cast<std::size_t>(bytes))));
    auto* f = reinterpret_cast<float*>(params.back());
    for (int64_t i = 0; i < bytes / 4; ++i) f[i] = 1.0f + static_cast<float>(i % 1000) * 1e-3f;
  }
  const std::size_t count = plan->program().result_roots.size();
  results.resize(count);
  auto allocate_results = [&] {
    for (std::size_t r = 0; r < count; ++r)
      results[r] = static_cast<char*>(runtime::allocate(static_cast<std::size_t>(plan->result_bytes(r, {}))));
  };
  auto release_results = [&] {
    for (char* r : results) runtime::release(r);
  };
  allocate_results();
  const int inner = element_count < 1e4 ? 10'000 : element_count < 1e6 ? 100 : 1;
  double best = 1e9;
  const double stop = seconds() + 1.0;
  while (seconds() < stop) {
    const double start = seconds();
    for (int i = 0; i < inner; ++i) {
      if (fresh_results) {
        release_results();
        allocate_results();
      }
      plan->run(params, results, {});
    }
    best = std::min(best, (seconds() - start) / inner);
  }
  std::printf("%-34s %d thread%s %12.1f ns\n", name, threads, threads == 1 ? " " : "s", best * 1e9);
  release_results();
  for (char* p : params) runtime::release(p);
}

std::string fma_text(const std::string& dtype, int64_t n) {
  const std::string t = dtype + "[" + std::to_string(n) + "]";
  return "graph @f(%a: " + t + ", %b: " + t + ", %c: " + t + ") {\n  %3 = multiply %a, %b : " + t +
         "\n  %4 = add %3, %c : " + t + "\n  return %4\n}\n";
}

std::string sum_text(const std::string& dtype, int64_t n) {
  const std::string t = dtype + "[" + std::to_string(n) + "]";
  return "graph @f(%a: " + t + ") {\n  %1 = reduce_sum %a {axes=[0]} : " + dtype + "[]\n  return %1\n}\n";
}

std::string loop_text(int64_t n) {
  const std::string t = "f32[" + std::to_string(n) + "]";
  return "graph @f(%a: " + t + ") {\n  %1 = multiply %a, %a : " + t + "\n  %2 = exp %1 : " + t +
         "\n  %3 = add %2, %a : " + t + "\n  return %3\n}\n";
}

}  // namespace

int main() {
  runtime::initialize_scheduler();
  const int all = runtime::num_threads();
  measure("a*b+c f32[6]", fma_text("f32", 6), {24, 24, 24}, 1, 6);
  measure("a*b+c f32[6], fresh result", fma_text("f32", 6), {24, 24, 24}, 1, 6, true);
  measure("exp(a*a)+a f32[64], loop is a copy", loop_text(64), {256}, 1, 64);
  measure("exp(a*a)+a f32[100000]", loop_text(100'000), {400'000}, 1, 1e5);
  for (int64_t n : {8, 1000, 100'000, 10'000'000}) {
    measure(("sum f32[" + std::to_string(n) + "]").c_str(), sum_text("f32", n), {4 * n}, 1, static_cast<double>(n));
  }
  for (int threads = 1; threads <= all; ++threads) {
    measure("sum f32[1e7]", sum_text("f32", 10'000'000), {40'000'000}, threads, 1e7);
    for (int64_t n : {10'000, 100'000, 1'000'000, 10'000'000})
      measure(("a*b+c f32[" + std::to_string(n) + "]").c_str(), fma_text("f32", n), {4 * n, 4 * n, 4 * n}, threads,
              static_cast<double>(n));
    measure("a*b+c f64[1e7]", fma_text("f64", 10'000'000), {80'000'000, 80'000'000, 80'000'000}, threads, 1e7);
    measure("a*b+c f32[1e7], fresh result", fma_text("f32", 10'000'000), {40'000'000, 40'000'000, 40'000'000}, threads,
            1e7, true);
  }
}
