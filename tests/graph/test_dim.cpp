// Dimensions and the shape environment.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "graph/shape_env.h"

namespace framejit::graph {
namespace {

Dim s(uint32_t i) { return Dim::symbol(SymbolId{i}); }

Dim parsed(std::string_view text) {
  Dim d;
  EXPECT_TRUE(parse_dim(text, d)) << text;
  EXPECT_TRUE(text.empty()) << text;
  return d;
}

TEST(Dim, EqualPolynomialsAreEqual) {
  EXPECT_EQ((s(0) + 1) * 2, 2 * s(0) + 2);
  EXPECT_EQ((s(0) + s(1)) * (s(0) - s(1)), s(0) * s(0) - s(1) * s(1));
  EXPECT_EQ(s(0) - s(0), Dim(0));
  EXPECT_TRUE((s(0) - s(0)).is_const());
  EXPECT_FALSE(s(0) == s(1));
  EXPECT_FALSE(s(0) == Dim(3));
  EXPECT_EQ(((s(0) + 1) * 2).hash(), (2 * s(0) + 2).hash());
}

TEST(Dim, Text) {
  EXPECT_EQ(Dim(-3).str(), "-3");
  EXPECT_EQ((2 * s(0) + 2).str(), "2*s0 + 2");
  EXPECT_EQ((2 - s(1)).str(), "-s1 + 2");
  EXPECT_EQ((s(1) * s(0) * s(1) - 3 * s(0)).str(), "s0*s1*s1 - 3*s0");
  EXPECT_EQ(floordiv(s(0) + 1, 2).str(), "floordiv(s0 + 1, 2)");
  EXPECT_EQ((floordiv(s(0), s(1)) * 4 + min(s(0), 5)).str(), "4*floordiv(s0, s1) + min(5, s0)");
  EXPECT_EQ(Dim(std::numeric_limits<int64_t>::min()).str(), "-9223372036854775808");
}

TEST(Dim, Parsing) {
  for (const char* text : {"64", "-1", "s0", "2*s0 + 2", "-s1 + 2", "floordiv(s0 + 1, 2)", "min(5, s0)",
                           "-7*floordiv(s3, s4) + max(s1*s2, s0)", "-9223372036854775808"})
    EXPECT_EQ(parsed(text).str(), text);
  EXPECT_EQ(parsed("(s0+1)*(s0-1)").str(), "s0*s0 - 1");
  for (const char* text : {"", "x", "s", "+", "floordiv(s0, 0)", "floordiv(s0", "min(1 2)", "(s0"}) {
    std::string_view rest = text;
    Dim d;
    EXPECT_FALSE(parse_dim(rest, d)) << text;
    EXPECT_EQ(rest, text);
  }
  std::string_view list = "s0 + 1, 5]";
  Dim d;
  ASSERT_TRUE(parse_dim(list, d));
  EXPECT_EQ(d, s(0) + 1);
  EXPECT_EQ(list, ", 5]");
}

TEST(Dim, FloorDivision) {
  EXPECT_EQ(floordiv(-7, 2), Dim(-4));
  EXPECT_EQ(floordiv(7, -2), Dim(-4));
  EXPECT_EQ(floordiv(4 * s(0) + 6, 2), 2 * s(0) + 3);
  EXPECT_EQ(floordiv(4 * s(0) + 7, 2), 2 * s(0) + 3);
  EXPECT_EQ(floordiv(5 * s(0), 2), 2 * s(0) + floordiv(s(0), 2));
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t five[] = {5}, large[] = {int64_t{1} << 61};
  EXPECT_EQ(floordiv(-1 * s(0), 7).evaluate(large), -(int64_t{1} << 61) / 7 - 1) << "6*s0 would wrap";
  EXPECT_EQ(floordiv(s(0) - 1, std::numeric_limits<int64_t>::max()).evaluate(five), 0);
  EXPECT_EQ(floordiv(s(0) - 1, 2), floordiv(s(0) + 1, 2) - 1);
  EXPECT_EQ(floordiv(s(0), low).evaluate(five), -1);
  EXPECT_THROW(floordiv(s(0) * low, s(0) * -1), DimOverflow);
  EXPECT_EQ(floordiv(s(0) * low, 3).evaluate(std::vector<int64_t>{1}), low / 3 - 1);
  EXPECT_EQ(floordiv(6 * s(0) * s(1), 2 * s(0)), 3 * s(1));
  EXPECT_EQ(floordiv(s(0), s(0)), Dim(1));
  EXPECT_EQ(floordiv(s(0), 1), s(0));
  EXPECT_EQ(floordiv(0, s(0)), Dim(0));
}

TEST(Dim, Overflow) {
  const int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(Dim(high) + 1, DimOverflow);
  EXPECT_THROW(Dim(low) - 1, DimOverflow);
  EXPECT_THROW(Dim(high) * 2, DimOverflow);
  EXPECT_THROW(floordiv(low, -1), DimOverflow);
  EXPECT_THROW(s(0) * high * 2, DimOverflow);
  EXPECT_THROW(s(0) * high + s(0), DimOverflow);
  EXPECT_FALSE(difference(Dim(low), 1));
  EXPECT_EQ(difference(s(0), 1), s(0) - 1);
  const int64_t large[] = {int64_t{1} << 62, 4, low};
  EXPECT_THROW((void)(s(0) * s(1)).evaluate(large), DimOverflow);
  for (const Dim& d : {s(0) * s(1), s(0) + s(0), 3 * s(0), s(0) * s(1) - s(0) * s(1) * 2, floordiv(s(2), s(1) - 5),
                       max(s(0) * s(1), 0)})
    EXPECT_FALSE(d.try_evaluate(large)) << d.str();
  EXPECT_EQ(max(s(2), low).evaluate(large), low) << "their difference overflows";
}

TEST(Dim, Extrema) {
  EXPECT_EQ(min(Dim(std::numeric_limits<int64_t>::min()), 1), Dim(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(max(Dim(std::numeric_limits<int64_t>::min()), 1), Dim(1));
  EXPECT_EQ(min(s(0), s(0) + 2), s(0));
  EXPECT_EQ(max(s(0), s(0) + 2), s(0) + 2);
  EXPECT_EQ(min(s(0), s(1)), min(s(1), s(0)));
  EXPECT_EQ(min(3, 4), Dim(3));
}

/// A random expression, computed symbolically and directly.
TEST(Dim, EvaluationAgreesWithArithmetic) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<int64_t> symbols{pick(20) - 5, pick(9) + 1, pick(100)};
    std::vector<std::pair<Dim, int64_t>> values;
    for (uint32_t i = 0; i < 3; ++i) values.emplace_back(s(i), symbols[i]);
    for (int i = -2; i < 4; ++i) values.emplace_back(i, i);
    for (int step = 0; step < 8; ++step) {
      const auto [a, x] = values[static_cast<std::size_t>(pick(static_cast<int>(values.size())))];
      const auto [b, y] = values[static_cast<std::size_t>(pick(static_cast<int>(values.size())))];
      switch (pick(6)) {
        case 0: values.emplace_back(a + b, x + y); break;
        case 1: values.emplace_back(a - b, x - y); break;
        case 2: values.emplace_back(a * b, x * y); break;
        case 3: values.emplace_back(min(a, b), std::min(x, y)); break;
        case 4: values.emplace_back(max(a, b), std::max(x, y)); break;
        default: {
          const int64_t n = pick(5) + 1;
          values.emplace_back(floordiv(a, n), x / n - (x % n < 0 ? 1 : 0));
        }
      }
      if (std::abs(values.back().second) > 1000000) values.pop_back();
    }
    for (const auto& [d, v] : values) {
      ASSERT_EQ(d.evaluate(symbols), v) << d.str();
      ASSERT_EQ(parsed(d.str()), d) << d.str();
      std::vector<int64_t> least = symbols, most = symbols;
      ASSERT_EQ(d.at_most(least, most), v) << d.str();
      for (int64_t& n : least) n -= pick(3);
      for (int64_t& n : most) n += pick(3);
      ASSERT_GE(d.at_most(least, most), v) << d.str();
    }
  }
}

TEST(Dim, AtMost) {
  const std::vector<int64_t> least{0, 2, -5}, most{9, 9, 9};
  const auto bound = [&](const Dim& d) { return d.at_most(least, most); };
  EXPECT_EQ(bound(s(1) - s(0)), 9);
  EXPECT_EQ(bound(8 * s(0) - 3), 69);
  EXPECT_EQ(bound(s(0) * s(2)), 81);
  EXPECT_EQ(bound(-1 * s(0) * s(2)), 45);
  EXPECT_EQ(bound(floordiv(s(0), s(1))), 4);
  EXPECT_EQ(bound(floordiv(s(0), s(2))), INT64_MAX) << "by 0, or by what is near it";
  EXPECT_EQ(bound(min(s(0), 4) - max(s(1), 3)), 1);
  EXPECT_EQ(bound(s(0) * Dim(INT64_MAX / 4)), INT64_MAX);
}

TEST(Dim, CollectsSymbolsOnce) {
  std::vector<SymbolId> found;
  (s(3) * floordiv(s(1), s(3) + 1) + s(1)).collect_symbols(found);
  EXPECT_EQ(found.size(), 2u);
}

TEST(ShapeEnv, CanonicalFormNeedsNoGuard) {
  ShapeEnv env;
  const Dim n = env.fresh(5);
  EXPECT_TRUE(env.equal((n + 1) * 2, 2 * n + 2));
  EXPECT_TRUE(env.holds(Relation::Lt, n, n + 1));
  EXPECT_FALSE(env.holds(Relation::Lt, n, n));
  EXPECT_TRUE(env.holds(Relation::Le, n, n));
  EXPECT_FALSE(env.holds(Relation::Ne, n, n));
  EXPECT_TRUE(env.guards().empty());
}

TEST(ShapeEnv, HintsDecideWithAGuard) {
  ShapeEnv env;
  const Dim n = env.fresh(5), m = env.fresh(5);
  EXPECT_TRUE(env.equal(n, m));
  ASSERT_EQ(env.guards().size(), 1u);
  EXPECT_TRUE(env.guards()[0].outcome);
  EXPECT_TRUE(env.equal(m, n));
  EXPECT_FALSE(env.holds(Relation::Ne, n, m));
  EXPECT_EQ(env.guards().size(), 1u) << "what a guard fixes is not asked again";
  EXPECT_FALSE(env.holds(Relation::Lt, n, 3));
  EXPECT_FALSE(env.holds(Relation::Le, n, 2));
  EXPECT_EQ(env.guards().size(), 2u);
  EXPECT_EQ(env.specialize(n * 2), 10);
  EXPECT_EQ(env.hint(n + m), 10);
}

TEST(ShapeEnv, SidesFarApart) {
  const int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  const int64_t values[] = {low, low + 1, low / 2, -1, 0, 1, high / 2 + 1, high - 1, high};
  for (const int64_t a : values) {
    for (const int64_t b : values) {
      for (const Relation relation : {Relation::Eq, Relation::Ne, Relation::Lt, Relation::Le}) {
        const bool expected = related(relation, a, b);
        ShapeEnv env;
        const Dim n = env.fresh(a), m = env.fresh(b);
        EXPECT_EQ(env.holds(relation, a, b), expected);
        EXPECT_TRUE(env.guards().empty());
        for (int asked = 0; asked < 2; ++asked) {  // by the hints, then by the guards
          EXPECT_EQ(env.holds(relation, n, m), expected) << a << " " << b;
          EXPECT_EQ(env.holds(relation, n, b), expected) << a << " " << b;
          EXPECT_EQ(env.holds(relation, a, m), expected) << a << " " << b;
        }
        for (const DimGuard& g : env.guards())
          EXPECT_EQ(related(g.relation, env.hint(g.left), env.hint(g.right)), g.outcome);
      }
    }
  }
  ShapeEnv env;
  const Dim n = env.fresh(0);
  EXPECT_TRUE(env.holds(Relation::Le, n, high));
  EXPECT_FALSE(env.holds(Relation::Lt, n, low)) << "n - high - 1 is n - low";
  EXPECT_TRUE(env.guards().empty()) << "every int64 is within the limits";
}

TEST(ShapeEnv, LimitsOfSizes) {
  ShapeEnv env;
  const int64_t all = std::numeric_limits<int64_t>::max();
  const Dim n = env.fresh(5), empty = env.fresh(0);
  EXPECT_TRUE(env.limit({{int64_t{1} << 59}, 8, all}));
  EXPECT_TRUE(env.limited().empty()) << "known";
  EXPECT_FALSE(env.limit({{int64_t{1} << 60}, 8, all}));
  EXPECT_FALSE(env.limit({{0, int64_t{1} << 60}, 8, all})) << "as NumPy's";
  EXPECT_FALSE(env.limit({{n, int64_t{1} << 60}, 8, all}));
  EXPECT_FALSE(env.limit({{empty, int64_t{1} << 60}, 8, all}));
  EXPECT_FALSE(env.limit({{n, 1000}, 8, 39999}));
  const ShapeEnv::Mark mark = env.mark();
  EXPECT_TRUE(env.limit({{n, n}, 8, all}));
  EXPECT_TRUE(env.limit({{n, n}, 4, all})) << "follows";
  EXPECT_TRUE(env.guards().empty()) << "a condition is no guard";
  ASSERT_EQ(env.limited().size(), 1u);
  const DimGuard condition = env.limited()[0].condition();
  for (const auto& [value, holds] :
       {std::pair{int64_t{0}, true}, {int64_t{1} << 29, true}, {int64_t{1} << 30, false}, {all, false}}) {
    const std::vector<int64_t> symbols{value, 0};
    const std::optional<int64_t> left = condition.left.try_evaluate(symbols);
    EXPECT_EQ(left && related(condition.relation, *left, condition.right.value()), holds) << value;
  }
  env.rollback(mark);
  EXPECT_TRUE(env.limited().empty());
}

TEST(ShapeEnv, RollbackForgetsDecisions) {
  ShapeEnv env;
  const Dim n = env.fresh(5);
  env.equal(n, 1);
  const ShapeEnv::Mark mark = env.mark();
  env.fresh(9);
  env.equal(n, 2);
  env.rollback(mark);
  EXPECT_EQ(env.symbol_count(), 1u);
  EXPECT_EQ(env.guards().size(), 1u);
  env.equal(n, 1);
  EXPECT_EQ(env.guards().size(), 1u);
  env.equal(n, 2);
  EXPECT_EQ(env.guards().size(), 2u);
}

}  // namespace
}  // namespace framejit::graph
