// Convolutions against plain sums in float64; epilogues and threads against the convolution by itself, to the bit.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "products.h"
#include "runtime/scheduler.h"

namespace framejit::runtime::testing {
namespace {

struct Case {
  int64_t batch, groups, channels_in, channels_out;  // channels of a group
  graph::Window window;
  std::vector<int64_t> image, size, result;
};

std::string list(const std::vector<int64_t>& values) {
  std::string out = "[";
  for (int64_t v : values) out += (out.size() > 1 ? ", " : "") + std::to_string(v);
  return out + "]";
}

std::vector<int64_t> joined(std::vector<int64_t> head, const std::vector<int64_t>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

struct Shapes {
  std::vector<int64_t> image, weights, result;
  explicit Shapes(const Case& c)
      : image(joined({c.batch, c.groups * c.channels_in}, c.image)),
        weights(joined({c.groups * c.channels_out, c.channels_in}, c.size)),
        result(joined({c.batch, c.groups * c.channels_out}, c.result)) {}
};

int64_t count(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string text(const Case& c, const std::string& dtype, const std::string& params = "",
                 const std::string& rest = "  return %2\n") {
  const Shapes s(c);
  return "graph @f(%x: " + dtype + list(s.image) + ", %w: " + dtype + list(s.weights) + params +
         ") {\n  %2 = convolution %x, %w {window=" + list(c.window.numbers()) + "} : " + dtype + list(s.result) + "\n" +
         rest + "}";
}

Case random_case(std::mt19937_64& random) {
  const auto number = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  Case c;
  const int64_t space = number(1, 3);
  c.batch = number(1, 3), c.groups = number(0, 2) == 0 ? number(2, 3) : 1;
  c.channels_in = number(0, 5) == 0 ? number(60, 130) : number(1, 9);
  c.channels_out = number(0, 3) == 0 ? number(13, 30) : number(1, 6);
  c.window.groups = c.groups;
  for (int64_t i = 0; i < space; ++i) {
    const int64_t size = number(1, 4);
    const graph::Window::Axis axis{number(0, 1) ? 1 : number(2, 3), number(0, 3), number(0, 3),
                                   number(0, 2) ? 1 : number(2, 3)};
    const int64_t reach = axis.dilation * (size - 1) + 1;
    const int64_t image = std::max<int64_t>(1, reach - axis.before - axis.after) + number(0, i + 1 == space ? 40 : 5);
    c.window.axes.push_back(axis);
    c.size.push_back(size);
    c.image.push_back(image);
    c.result.push_back((image + axis.before + axis.after - reach) / axis.stride + 1);
  }
  return c;
}

template <class T>
std::vector<std::byte> numbers(int64_t many, std::mt19937_64& random) {
  std::vector<std::byte> out(static_cast<std::size_t>(many) * sizeof(T));
  for (int64_t i = 0; i < many; ++i) {
    const T value = static_cast<T>(static_cast<double>(random() % 20001) / 10000 - 1);
    std::memcpy(out.data() + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
  return out;
}

template <class T>
void expect_right(const Case& c, const std::vector<std::byte>& image, const std::vector<std::byte>& weights,
                  const std::byte* result) {
  const Shapes s(c);
  const auto x = reinterpret_cast<const T*>(image.data()), w = reinterpret_cast<const T*>(weights.data()),
             got = reinterpret_cast<const T*>(result);
  const int64_t places = count(c.size), depth = c.channels_in * places;
  for (int64_t i = 0; i < count(s.result); ++i) {
    std::vector<int64_t> at(s.result.size());
    int64_t rest = i;
    for (std::size_t axis = at.size(); axis-- > 0; rest /= s.result[axis]) at[axis] = rest % s.result[axis];
    double exact = 0, size = 0;
    for (int64_t k = 0; k < depth; ++k) {
      int64_t from = at[0] * s.image[1] + at[1] / c.channels_out * c.channels_in + k / places, place = k % places,
              pitch = places;
      bool inside = true;
      for (std::size_t axis = 0; axis < c.size.size(); ++axis) {
        pitch /= c.size[axis];
        const graph::Window::Axis& a = c.window.axes[axis];
        const int64_t position = at[axis + 2] * a.stride - a.before + place / pitch * a.dilation;
        place %= pitch;
        inside = inside && position >= 0 && position < c.image[axis];
        from = from * c.image[axis] + position;
      }
      const double term = inside ? static_cast<double>(x[from]) * static_cast<double>(w[at[1] * depth + k]) : 0;
      exact += term;
      size += std::fabs(term);
    }
    ASSERT_NEAR(got[i], exact, size * static_cast<double>(depth + 1) * std::numeric_limits<T>::epsilon())
        << text(c, "f") << " at " << i;
  }
}

/// Runs a graph of two params; they and the result end at pages that are not mapped, then begin there.
template <class F>
void expect_guarded(const std::string& text, const std::vector<std::byte>& first, const std::vector<std::byte>& second,
                    int64_t result_bytes, const codegen::Cpu& cpu, F&& expect, bool o1 = false) {
  const Graph graph = parse_graph(text);
  codegen::LowerOptions options;
  options.cpu = cpu;
  options.o1 = o1;
  auto program = codegen::lower(graph, fused(graph), options);
  ASSERT_TRUE(program.has_value()) << program.error();
  auto plan = Plan::create(std::move(*program));
  ASSERT_TRUE(plan.has_value());
  const auto bytes = [](const std::vector<std::byte>& v) { return static_cast<int64_t>(v.size()); };
  for (bool front : {false, true}) {
    const Guarded x(bytes(first)), w(bytes(second)), y(result_bytes);
    const auto place = [&](const Guarded& g, int64_t size) {
      return front ? g.begin() : g.begin() + (g.room() - size);
    };
    char *x_at = place(x, bytes(first)), *w_at = place(w, bytes(second)), *y_at = place(y, result_bytes);
    std::copy(first.begin(), first.end(), reinterpret_cast<std::byte*>(x_at));
    std::copy(second.begin(), second.end(), reinterpret_cast<std::byte*>(w_at));
    char *params[] = {x_at, w_at}, *results[] = {y_at};
    ASSERT_EQ((*plan)->run(params, results, {}).status, RunStatus::Done);
    expect(reinterpret_cast<std::byte*>(y_at));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

template <class T>
void check(const Case& c, const codegen::Cpu& cpu, std::mt19937_64& random) {
  const Shapes s(c);
  const std::vector<std::byte> image = numbers<T>(count(s.image), random),
                               weights = numbers<T>(count(s.weights), random);
  expect_guarded(text(c, sizeof(T) == 4 ? "f32" : "f64"), image, weights,
                 count(s.result) * static_cast<int64_t>(sizeof(T)), cpu,
                 [&](const std::byte* result) { expect_right<T>(c, image, weights, result); });
}

/// The strides of convolution_weights: channels innermost.
std::vector<int64_t> weight_strides(const std::vector<int64_t>& shape, int64_t item) {
  std::vector<int64_t> out(shape.size(), item);
  int64_t pitch = item * shape[1];
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (axis == 1) continue;
    out[axis] = pitch;
    pitch *= shape[axis];
  }
  return out;
}

std::string weights_text(const Case& c, const std::string& dtype) {
  const Shapes s(c);
  return "graph @f(%x: " + dtype + list(s.image) + ", %g: " + dtype + list(s.result) +
         ") {\n  %2 = convolution_weights %x, %g {window=" + list(c.window.numbers()) + "} : " + dtype +
         list(s.weights) + " strides=" + list(weight_strides(s.weights, dtype == "f32" ? 4 : 8)) + "\n  return %2\n}";
}

template <class T>
void expect_weights(const Case& c, const std::vector<std::byte>& image, const std::vector<std::byte>& cotangent,
                    const std::byte* result) {
  const Shapes s(c);
  const auto x = reinterpret_cast<const T*>(image.data()), g = reinterpret_cast<const T*>(cotangent.data());
  const std::vector<int64_t> strides = weight_strides(s.weights, sizeof(T));
  const int64_t places = count(c.result), terms = c.batch * places;
  for (int64_t i = 0; i < count(s.weights); ++i) {
    std::vector<int64_t> at(s.weights.size());
    int64_t rest = i, offset = 0;
    for (std::size_t axis = at.size(); axis-- > 0; rest /= s.weights[axis]) {
      at[axis] = rest % s.weights[axis];
      offset += at[axis] * strides[axis];
    }
    double exact = 0, size = 0;
    for (int64_t k = 0; k < terms; ++k) {
      int64_t from = k / places * s.image[1] + at[0] / c.channels_out * c.channels_in + at[1], place = k % places,
              pitch = places;
      bool inside = true;
      for (std::size_t axis = 0; axis < c.size.size(); ++axis) {
        pitch /= c.result[axis];
        const graph::Window::Axis& a = c.window.axes[axis];
        const int64_t position = place / pitch * a.stride - a.before + at[axis + 2] * a.dilation;
        place %= pitch;
        inside = inside && position >= 0 && position < c.image[axis];
        from = from * c.image[axis] + position;
      }
      const double term = inside ? static_cast<double>(x[from]) *
                                       static_cast<double>(g[(k / places * s.result[1] + at[0]) * places + k % places])
                                 : 0;
      exact += term;
      size += std::fabs(term);
    }
    T got;
    std::memcpy(&got, result + offset, sizeof(T));
    ASSERT_NEAR(got, exact, size * static_cast<double>(terms + 1) * std::numeric_limits<T>::epsilon())
        << weights_text(c, "f32") << " at " << i;
  }
}

template <class T>
void check_weights(const Case& c, const codegen::Cpu& cpu, std::mt19937_64& random) {
  const Shapes s(c);
  const std::vector<std::byte> image = numbers<T>(count(s.image), random),
                               cotangent = numbers<T>(count(s.result), random);
  expect_guarded(weights_text(c, sizeof(T) == 4 ? "f32" : "f64"), image, cotangent,
                 count(s.weights) * static_cast<int64_t>(sizeof(T)), cpu,
                 [&](const std::byte* result) { expect_weights<T>(c, image, cotangent, result); });
}

TEST(ConvolutionWeights, AgainstPlainSums) {
  initialize_scheduler();
  std::mt19937_64 random(21);
  for (const codegen::Cpu& cpu : cpus())
    for (int i = 0; i < 150; ++i) {
      const Case c = random_case(random);
      i % 3 == 0 ? check_weights<double>(c, cpu, random) : check_weights<float>(c, cpu, random);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(Convolution, AgainstPlainSums) {
  initialize_scheduler();
  std::mt19937_64 random(11);
  for (const codegen::Cpu& cpu : cpus())
    for (int i = 0; i < 150; ++i) {
      const Case c = random_case(random);
      i % 3 == 0 ? check<double>(c, cpu, random) : check<float>(c, cpu, random);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

Case square(int64_t batch, int64_t channels, int64_t out, int64_t length, int64_t size, int64_t stride, int64_t around,
            int64_t groups = 1) {
  Case c{batch, groups, channels, out, {}, {length, length}, {size, size}, {}};
  c.window.groups = groups;
  c.window.axes.assign(2, {stride, around, around, 1});
  c.result.assign(2, (length + 2 * around - size) / stride + 1);
  return c;
}

TEST(Convolution, AsInNetworks) {
  std::mt19937_64 random(12);
  for (const codegen::Cpu& cpu : cpus())
    for (const Case& c : {square(1, 3, 64, 32, 7, 2, 3), square(2, 64, 70, 9, 3, 1, 1), square(1, 70, 40, 14, 1, 1, 0),
                          square(2, 40, 33, 8, 1, 2, 0), square(1, 1, 1, 20, 3, 1, 1, 24),
                          square(3, 20, 20, 2, 3, 1, 1), square(2, 9, 9, 1, 3, 1, 1)}) {
      check<float>(c, cpu, random);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

/// The bits do not depend on how many threads there are.
void expect_weights_of_any_threads(const Case& c, const codegen::Cpu& cpu, std::mt19937_64& random) {
  const Shapes s(c);
  const std::vector<std::vector<std::byte>> params = {numbers<float>(count(s.image), random),
                                                      numbers<float>(count(s.result), random)};
  const Ran one = run_graph(weights_text(c, "f32"), params, cpu);
  for (int threads : {2, 5}) {
    set_num_threads(threads);
    EXPECT_EQ(run_graph(weights_text(c, "f32"), params, cpu).results, one.results);
  }
  set_num_threads(1);
}

/// Few and many channels, depthwise, strides; sums over images; as many threads as there are, to the bit.
TEST(ConvolutionWeights, AsInNetworks) {
  initialize_scheduler();
  std::mt19937_64 random(22);
  for (const codegen::Cpu& cpu : cpus())
    for (const Case& c :
         {square(2, 3, 64, 32, 7, 2, 3), square(2, 64, 70, 9, 3, 1, 1), square(3, 70, 40, 14, 1, 1, 0),
          square(2, 40, 33, 8, 1, 2, 0), square(2, 1, 1, 20, 3, 1, 1, 24), square(5, 1, 6, 28, 5, 1, 0),
          square(2, 1, 1, 19, 7, 2, 3, 5), square(1, 1, 2, 53, 3, 2, 0, 3), square(2, 2, 1, 90, 5, 1, 2, 2),
          square(5, 6, 16, 14, 5, 1, 0), square(3, 20, 20, 2, 3, 1, 1), square(2, 9, 9, 1, 3, 1, 1)}) {
      check_weights<float>(c, cpu, random);
      if (::testing::Test::HasFatalFailure()) return;
      expect_weights_of_any_threads(c, cpu, random);
    }
}

TEST(ConvolutionWeights, OfNothing) {
  std::mt19937_64 random(23);
  for (const Case& c : {square(0, 3, 4, 5, 3, 1, 1), square(0, 3, 4, 5, 1, 1, 0), square(2, 0, 4, 5, 3, 1, 1),
                        square(2, 3, 0, 5, 3, 1, 1)})
    check_weights<float>(c, cpus().back(), random);
}

/// Lines and images of more places than a part of the image is made for, with zeros around it and without.
TEST(Convolution, PartsOfImages) {
  std::mt19937_64 random(16);
  for (const codegen::Cpu& cpu : cpus())
    for (int64_t around : {0, 2})
      for (int64_t stride : {1, 2})
        for (const Case& c : {square(2, 3, 17, 47, 3, stride, around), square(13, 2, 9, 12, 4, stride, around),
                              square(2, 2, 5, 47, 3, stride, around), square(13, 1, 3, 14, 3, stride, around),
                              square(2, 1, 1, 60, 5, stride, around, 3)}) {
          check<float>(c, cpu, random);
          check<double>(c, cpu, random);
          if (::testing::Test::HasFatalFailure()) return;
        }
}

/// Bands of an image of which the copy leaves the caches, lines longer than a block of k, several images in one block.
TEST(ConvolutionWeights, PartsOfImages) {
  initialize_scheduler();
  std::mt19937_64 random(24);
  Case wide = square(1, 12, 10, 9, 3, 1, 1);
  wide.image[1] = wide.result[1] = 1500;
  Case deep{2, 1, 9, 12, {}, {40, 6, 9}, {3, 3, 3}, {40, 6, 9}};
  deep.window.axes.assign(3, {1, 1, 1, 1});
  for (const codegen::Cpu& cpu : cpus())
    for (const Case& c :
         {square(1, 40, 12, 70, 3, 1, 1), square(2, 20, 9, 141, 3, 2, 1), square(2, 40, 12, 66, 3, 1, 0),
          square(11, 17, 35, 7, 3, 1, 1), square(9, 12, 40, 7, 3, 1, 0), square(1, 2, 20, 40, 5, 1, 2), wide, deep}) {
      check_weights<float>(c, cpu, random);
      if (::testing::Test::HasFatalFailure()) return;
      expect_weights_of_any_threads(c, cpu, random);
    }
}

/// One piece of a second or so asks by itself whether it is still wanted, as often as pieces of other work do.
TEST(ConvolutionWeights, CanBeCancelled) {
  initialize_scheduler();
  const Case c = square(4, 256, 256, 160, 3, 1, 1);
  const Shapes s(c);
  const Graph graph = parse_graph(weights_text(c, "f32"));
  codegen::LowerOptions options;
  options.cpu = cpus().back();
  auto program = codegen::lower(graph, fused(graph), options);
  ASSERT_TRUE(program) << program.error();
  auto plan = Plan::create(std::move(*program));
  ASSERT_TRUE(plan);
  std::vector<float> image(static_cast<std::size_t>(count(s.image))),
      weights(static_cast<std::size_t>(count(s.weights)));
  char* const params[] = {reinterpret_cast<char*>(image.data()), reinterpret_cast<char*>(image.data())};
  char* const results[] = {reinterpret_cast<char*>(weights.data())};
  for (int threads : {1, 2}) {
    set_num_threads(threads);
    static int polls;
    polls = 0;
    EXPECT_EQ((*plan)->run(params, results, {}, [] { return ++polls >= 2; }).status, RunStatus::Interrupted);
    EXPECT_EQ(polls, 2);
  }
  set_num_threads(1);
}

/// As the cotangents of weights: windows of almost all of the image, images in place of channels.
TEST(Convolution, LargeWindows) {
  std::mt19937_64 random(17);
  for (const codegen::Cpu& cpu : cpus())
    for (const Case& c : {square(20, 2, 17, 14, 14, 1, 1), square(7, 3, 12, 9, 9, 1, 0), square(9, 2, 2, 13, 11, 1, 1),
                          square(1, 3, 1, 13, 12, 1, 1, 5)}) {
      check<float>(c, cpu, random);
      check<double>(c, cpu, random);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<std::byte> doubled(const std::vector<std::byte>& bytes) {
  const std::vector<float> from = floats(bytes);
  const std::vector<double> values(from.begin(), from.end());
  std::vector<std::byte> out(values.size() * sizeof(double));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::vector<float> convolved(const Case& c, const std::vector<std::vector<std::byte>>& params, const codegen::Cpu& cpu,
                             bool o1) {
  const auto bytes = static_cast<int64_t>(count(Shapes(c).result) * 4);
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  expect_guarded(
      text(c, "f32"), params[0], params[1], bytes, cpu,
      [&](const std::byte* result) { std::copy_n(result, bytes, out.data()); }, o1);
  return floats(out);
}

/// O1: odd lengths, groups, more channels than a block of k, more tiles than a part of the image; no less right than
/// direct sums.
TEST(Convolution, Winograd) {
  initialize_scheduler();
  std::mt19937_64 random(18);
  for (const codegen::Cpu& cpu : cpus())
    for (const Case& c :
         {square(2, 32, 36, 12, 3, 1, 1), square(3, 33, 50, 11, 3, 1, 1), square(1, 40, 32, 15, 3, 1, 0),
          square(2, 35, 33, 10, 3, 1, 1, 2), square(5, 37, 32, 34, 3, 1, 1), square(3, 300, 32, 12, 3, 1, 1)}) {
      const Shapes s(c);
      const std::vector<std::vector<std::byte>> params = {numbers<float>(count(s.image), random),
                                                          numbers<float>(count(s.weights), random)};
      const std::vector<float> winograd = convolved(c, params, cpu, true), direct = convolved(c, params, cpu, false);
      const Ran wide = run_graph(text(c, "f64"), {doubled(params[0]), doubled(params[1])}, cpu);
      const auto* exact = reinterpret_cast<const double*>(wide.results[0].data());
      double error = 0, direct_error = 0, worst = 0;
      for (std::size_t i = 0; i < winograd.size(); ++i) {
        const double off = static_cast<double>(winograd[i]) - exact[i],
                     direct_off = static_cast<double>(direct[i]) - exact[i];
        error += off * off, direct_error += direct_off * direct_off;
        worst = std::max(worst, std::fabs(off));
      }
      EXPECT_NE(winograd, direct) << text(c, "f32");
      EXPECT_LE(error, 1.2 * direct_error) << text(c, "f32");
      // Elements and weights are less than 1.
      EXPECT_LE(worst, 9.0 * static_cast<double>(c.channels_in) * 16 * std::numeric_limits<float>::epsilon())
          << text(c, "f32");
      const Ran one = run_graph(text(c, "f32"), params, cpu);
      EXPECT_EQ(floats(one.results[0]), winograd);
      set_num_threads(3);
      EXPECT_EQ(run_graph(text(c, "f32"), params, cpu).results, one.results);
      set_num_threads(0);
    }
}

TEST(Convolution, WinogradKeepsInfinitiesInTheirWindows) {
  std::mt19937_64 random(19);
  const Case c = square(2, 32, 36, 13, 3, 1, 1);
  const Shapes s(c);
  for (const codegen::Cpu& cpu : cpus()) {
    std::vector<std::vector<std::byte>> params = {numbers<float>(count(s.image), random),
                                                  numbers<float>(count(s.weights), random)};
    auto* image = reinterpret_cast<float*>(params[0].data());
    image[5 * 169 + 6 * 13 + 6] = HUGE_VALF;
    image[7 * 169 + 12 * 13 + 12] = std::numeric_limits<float>::quiet_NaN();
    image[(32 + 3) * 169] = -HUGE_VALF;
    image[(32 + 4) * 169 + 8] = 3e38F;  // overflows in sums of elements
    image[(32 + 4) * 169 + 10] = -3e38F;
    const std::vector<float> winograd = convolved(c, params, cpu, true), direct = convolved(c, params, cpu, false);
    for (std::size_t i = 0; i < direct.size(); ++i) {
      ASSERT_EQ(std::isnan(winograd[i]), std::isnan(direct[i])) << i;
      if (std::isinf(direct[i])) {
        ASSERT_EQ(winograd[i], direct[i]) << i;
      }
      ASSERT_EQ(std::isfinite(winograd[i]), std::isfinite(direct[i])) << i;
    }
  }
}

/// An axis of one element and a window of one: steps, and places in the padding alone.
TEST(Convolution, AnAxisOfOne) {
  std::mt19937_64 random(15);
  for (const codegen::Cpu& cpu : cpus())
    for (const graph::Window::Axis& axis : {graph::Window::Axis{2, 0, 0, 1}, {1, 0, 3, 1}, {2, 0, 3, 1}, {3, 2, 2, 2}})
      for (int64_t channels : {3, 20})
        for (std::size_t at : {0u, 1u, 2u}) {
          Case c{3, 1, channels, channels + 1, {}, {4, 5, 6}, {2, 1, 3}, {}};
          c.window.axes.assign(3, {1, 0, 0, 1});
          c.window.axes[at] = axis;
          c.image[at] = c.size[at] = 1;
          for (std::size_t i = 0; i < 3; ++i)
            c.result.push_back((c.image[i] + c.window.axes[i].before + c.window.axes[i].after - c.size[i]) /
                                   c.window.axes[i].stride +
                               1);
          check<float>(c, cpu, random);
          check_weights<float>(c, cpu, random);
          if (::testing::Test::HasFatalFailure()) return;
        }
}

TEST(Convolution, EmptyImagesAndBatches) {
  std::mt19937_64 random(13);
  Case c = square(0, 3, 4, 5, 3, 1, 1);
  check<float>(c, cpus().back(), random);
  c = square(2, 0, 4, 5, 3, 1, 1);  // no channels: sums of nothing
  check<float>(c, cpus().back(), random);
}

/// Bias by channel, scale and residual, ReLU: over joined axes of space, over axes that cannot be joined, with groups.
TEST(Convolution, EpiloguesAreTheOperatorsByThemselves) {
  initialize_scheduler();
  std::mt19937_64 random(14);
  for (const codegen::Cpu& cpu : cpus())
    for (const Case& c :
         {square(3, 16, 20, 12, 3, 1, 1), square(2, 5, 7, 6, 3, 2, 1, 2), square(2, 30, 40, 5, 1, 1, 0),
          square(1, 300, 64, 28, 3, 1, 1), square(9, 8, 20, 30, 3, 1, 1), square(3, 2, 4, 40, 3, 1, 1, 2)})
      for (bool joined_space : {true, false}) {
        const Shapes s(c);
        const std::string y = "f32" + list(s.result), channel = "f32" + list({s.result[1], 1, 1}),
                          other = joined_space ? y : "f32" + list({s.result[2], 1});
        const std::string operands = ", %bias: " + channel + ", %rest: " + other;
        const auto finish = [&](const std::string& product) {
          return "  %10 = add " + product + ", %bias : " + y + "\n  %11 = add %10, %rest : " + y +
                 "\n  %12 = constant {value=0} : f32[]\n  %13 = maximum %11, %12 : " + y + "\n  return %13\n";
        };
        const std::vector<std::vector<std::byte>> params = {
            numbers<float>(count(s.image), random), numbers<float>(count(s.weights), random),
            numbers<float>(s.result[1], random), numbers<float>(joined_space ? count(s.result) : s.result[2], random)};
        const Ran bare = run_graph(text(c, "f32"), {params[0], params[1]}, cpu);
        const Ran rest = run_graph("graph @f(%p: " + y + operands + ") {\n" + finish("%p") + "}",
                                   {bare.results[0], params[2], params[3]}, cpu);
        for (int threads : {1, 3}) {
          set_num_threads(threads);
          EXPECT_EQ(run_graph(text(c, "f32"), {params[0], params[1]}, cpu).results, bare.results);
          const Ran whole = run_graph(text(c, "f32", operands, finish("%2")), params, cpu);
          EXPECT_EQ(whole.results, rest.results) << whole.listing;
          EXPECT_NE(whole.listing.find("finished by loop"), std::string::npos) << whole.listing;
        }
      }
  set_num_threads(0);
}

TEST(Convolution, SymbolicLengths) {
  std::mt19937_64 random(15);
  const Case c = square(2, 4, 5, 9, 3, 2, 1);
  const Shapes s(c);
  const std::vector<std::vector<std::byte>> params = {numbers<float>(count(s.image), random),
                                                      numbers<float>(count(s.weights), random)};
  const Ran fixed = run_graph(text(c, "f32"), params, cpus().back());
  const Ran symbolic = run_graph(
      "graph @f(%x: f32[s0, 4, s1, s1], %w: f32[5, 4, 3, 3]) {\n  %2 = convolution %x, %w {window=[1, 2, 1, 1, 1, 2, "
      "1, 1, 1]} : "
      "f32[s0, 5, floordiv(s1 - 1, 2) + 1, floordiv(s1 - 1, 2) + 1]\n  return %2\n}",
      params, cpus().back(), {2, 9});
  EXPECT_EQ(fixed.results, symbolic.results);
}

}  // namespace
}  // namespace framejit::runtime::testing
