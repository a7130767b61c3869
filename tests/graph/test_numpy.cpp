// Scalar operators, layout rules and the order of reductions against what NumPy gave (make_numpy_cases.py).
#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "graph/builder.h"
#include "graph/interpret.h"
#include "graph/scalar_cast.h"
#include "graph/scalar_ops.h"

namespace framejit::graph {
namespace {

std::vector<int64_t> numbers(const std::string& text) {
  std::vector<int64_t> out;
  std::stringstream stream(text == "-" ? "" : text);
  for (std::string part; std::getline(stream, part, ',');) out.push_back(std::stoll(part));
  return out;
}

Dims dims(const std::string& text) {
  const std::vector<int64_t> values = numbers(text);
  return {values.begin(), values.end()};
}

/// The words of a line before and behind the arrow.
struct Case {
  std::string line;
  std::vector<std::string> given, expected;
};

std::vector<Case> cases(const std::string& file) {
  std::ifstream stream(std::string(FRAMEJIT_TEST_DATA) + "/" + file);
  EXPECT_TRUE(stream) << file;
  std::vector<Case> out;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    Case c{line, {}, {}};
    std::vector<std::string>* words = &c.given;
    std::stringstream parts(line);
    for (std::string word; parts >> word;) {
      if (word == "->") words = &c.expected;
      else words->push_back(word);
    }
    out.push_back(std::move(c));
  }
  return out;
}

std::string shown(const Dims& d) {
  std::string out;
  for (const Dim& x : d) {
    if (!out.empty()) out += ",";
    out += x.str();
  }
  return out.empty() ? "-" : out;
}

/// The layout rules over constant dimensions, or over symbols whose hints are those numbers.
class NumpyLayouts : public testing::TestWithParam<bool> {
 protected:
  Dims shape_of(Graph& g, const std::string& text) const {
    Dims shape = dims(text);
    if (GetParam())
      for (Dim& d : shape) d = g.shapes().fresh(d.value());
    return shape;
  }

  static Dims hinted(Graph& g, const Dims& d) {
    Dims out;
    for (const Dim& x : d) out.push_back(g.shapes().hint(x));
    return out;
  }

  static void expect(Graph& g, ValueId v, const Case& c, std::size_t at) {
    EXPECT_EQ(shown(hinted(g, g.type(v).shape)), c.expected[at]) << c.line;
    EXPECT_EQ(shown(hinted(g, g.type(v).strides)), c.expected[at + 1]) << c.line;
  }

  void check(const Case& c) const {
    Graph g;
    GraphBuilder b(g);
    const std::string& kind = c.given[0];
    const bool has_argument = kind == "reduce" || kind == "reshape";
    std::vector<ValueId> operands;
    for (std::size_t i = 1; i + 1 < c.given.size(); i += 2) {
      Type t{DType::F64, shape_of(g, c.given[i]), dims(c.given[i + 1])};
      if (kind == "where" && i == 1) t.dtype = DType::Bool;
      operands.push_back(b.param(std::move(t), ""));
      if (has_argument) break;
    }
    const ValueId x = operands[0];
    if (kind == "ufunc") {
      const Op op = operands.size() == 1 ? Op::Negative : operands.size() == 2 ? Op::Add : Op::Clip;
      expect(g, *b.elementwise(op, operands), c, 0);
    } else if (kind == "where") {
      expect(g, *b.elementwise(Op::Where, operands), c, 0);
    } else if (kind == "copy") {
      expect(g, b.copy(x, 'K'), c, 0);
    } else if (kind == "astype") {
      expect(g, *b.cast(x, DType::F32), c, 0);
    } else if (kind == "reduce") {
      const std::vector<int64_t> axes = numbers(c.given[3]);
      const ValueId sum = *b.reduce(Op::ReduceSum, x, axes);
      expect(g, sum, c, 0);
      expect(g, b.keep_dims(sum, x, axes), c, 2);
    } else {
      ASSERT_EQ(kind, "reshape");
      const ValueId y = *b.reshape(x, dims(c.given[3]));
      EXPECT_EQ(g.root(y) == x, c.expected[0] == "1") << c.line;
      expect(g, y, c, 1);
    }
  }
};

TEST_P(NumpyLayouts, Agree) {
  for (const Case& c : cases("numpy_layouts.txt")) check(c);
}

INSTANTIATE_TEST_SUITE_P(Dims, NumpyLayouts, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "Symbolic" : "Constant"; });

uint64_t fnv(const std::byte* data, std::size_t size) {
  uint64_t value = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < size; ++i) value = (value ^ static_cast<uint64_t>(data[i])) * 0x100000001b3u;
  return value;
}

/// Interprets one operator on a row of values; the bits of the results.
class ScalarCheck {
 public:
  void check(const Case& c) {
    const DType dtype = *dtype_from_name(c.given[1]);
    if (c.given[0] == "values") {
      values_[dtype] = bits(c.given[2]);
      return;
    }
    const Op op = *op_from_name(c.given[0]);
    const DType result = *dtype_from_name(c.given[2]);
    ASSERT_TRUE(takes(op, dtype)) << c.line;
    std::vector<std::byte> results, flags;
    for (const std::vector<Scalar>& args : arguments(op, dtype)) {
      Scalar out;
      std::feclearexcept(FE_ALL_EXCEPT);
      ASSERT_TRUE(apply_scalar(op, dtype, result, args, out)) << c.line;
      flags.push_back(static_cast<std::byte>(raised()));
      if (result == DType::F32 && std::isnan(value_of<float>(out))) out = scalar_of(std::nanf(""));
      if (result == DType::F64 && std::isnan(value_of<double>(out))) out = scalar_of(std::nan(""));
      const auto* bytes = reinterpret_cast<const std::byte*>(&out.lo);
      results.insert(results.end(), bytes, bytes + size_of(result));
    }
    EXPECT_EQ(std::to_string(fnv(results.data(), results.size())), c.expected[0]) << c.line;
    EXPECT_EQ(std::to_string(fnv(flags.data(), flags.size())), c.expected[1]) << c.line << " (flags)";
  }

 private:
  static std::vector<Scalar> bits(const std::string& text) {
    std::vector<Scalar> out;
    std::stringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) out.push_back({std::stoull(part)});
    return out;
  }

  std::vector<std::vector<Scalar>> arguments(Op op, DType dtype) {
    std::vector<std::vector<Scalar>> out;
    for (const Scalar& a : values_[dtype]) {
      if (def(op).operands == 1) {
        out.push_back({a});
        continue;
      }
      for (const Scalar& b : values_[dtype]) {
        const bool negative = is_signed_int(dtype) && (b.lo >> (8 * size_of(dtype) - 1)) != 0;
        if (op != Op::Power || !negative) out.push_back({a, b});
      }
    }
    return out;
  }

  static int raised() {
    return (std::fetestexcept(FE_DIVBYZERO) ? 1 : 0) | (std::fetestexcept(FE_OVERFLOW) ? 2 : 0) |
           (std::fetestexcept(FE_UNDERFLOW) ? 4 : 0) | (std::fetestexcept(FE_INVALID) ? 8 : 0);
  }

  std::map<DType, std::vector<Scalar>> values_;
};

TEST(NumpyScalars, HaveTheSameBitsAndFlags) {
  ScalarCheck scalars;
  for (const Case& c : cases("numpy_scalars.txt")) scalars.check(c);
}

template <class T>
std::vector<std::byte> memory(int64_t count, bool for_product) {
  std::vector<std::byte> out(static_cast<std::size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t random = static_cast<uint64_t>(i) * 2654435761u % (uint64_t{1} << 32);
    const double x = static_cast<double>(random) / 4294967296.0 - 0.5;
    const T value = static_cast<T>(for_product ? x / 64 + 1 : x);
    std::memcpy(out.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return out;
}

TEST(NumpyReductions, HaveTheSameBits) {
  for (const Case& c : cases("numpy_reductions.txt")) {
    const Op op = *op_from_name(c.given[0]);
    const DType dtype = *dtype_from_name(c.given[1]);
    const std::vector<int64_t> shape = numbers(c.given[2]), strides = numbers(c.given[3]);
    const int64_t offset = std::stoll(c.given[4]), count = std::stoll(c.given[5]);
    const bool product = op == Op::ReduceProd;
    std::vector<std::byte> bytes = dtype == DType::F32 ? memory<float>(count, product) : memory<double>(count, product);
    Graph g;
    GraphBuilder b(g);
    const ValueId x = b.param({dtype, dims(c.given[2]), dims(c.given[3])}, "x");
    const ValueId reduced = *b.reduce(op, x, numbers(c.given[6]));
    g.set_results({b.copy(reduced, 'C')});
    const ArrayRef param{bytes.data() + offset, shape, strides};
    auto out = interpret(g, {&param, 1}, {});
    ASSERT_TRUE(out) << out.error();
    const std::vector<std::byte>& result = out->results[0].owned;
    EXPECT_EQ(std::to_string(fnv(result.data(), result.size())), c.expected[0]) << c.line;
  }
}

}  // namespace
}  // namespace framejit::graph
