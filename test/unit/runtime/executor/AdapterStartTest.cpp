// Where adapters begin: values by name and seed, which no layout changes and no release may.
#include "runtime/executor/AdapterStart.h"
#include <cmath>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

Adapters adapters() {
  Adapters made;
  made.rank = 4;
  made.alpha = 8;
  for (const char *name : {"l.q", "l.k"})
    made.linears.push_back({std::string(name) + ".weight", name,
                            std::string(name) + ".lora_A.weight",
                            std::string(name) + ".lora_B.weight"});
  return made;
}

// The numbers are those of the same rule in Python's integers.
TEST(AdapterStart, ValuesFollowFromNameAndSeed) {
  const auto q = freshAdapter(adapters(), "l.q.lora_A.weight", {4, 16}, 0);
  ASSERT_EQ(q.size(), 64u);
  EXPECT_EQ(q[0], 0.24314147233963013f);
  EXPECT_EQ(q[1], 0.10826238989830017f);
  EXPECT_EQ(q[2], -0.1439986526966095f);
  EXPECT_EQ(q[3], 0.2245083749294281f);
  const auto other = freshAdapter(adapters(), "l.q.lora_A.weight", {4, 16}, 1);
  EXPECT_EQ(other[0], 0.15446063876152039f);
  EXPECT_EQ(other[1], 0.19041210412979126f);
  const auto k = freshAdapter(adapters(), "l.k.lora_A.weight", {4, 16}, 0);
  EXPECT_EQ(k[0], 0.11907008290290833f);
  EXPECT_EQ(k[1], -0.026181906461715698f);
}

TEST(AdapterStart, AIsUniformAndBIsZero) {
  const int64_t in = 500;
  const auto a = freshAdapter(adapters(), "l.q.lora_A.weight", {400, in}, 7);
  const double bound = 1 / std::sqrt(double(in));
  double sum = 0, squares = 0, neighbors = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_LE(std::abs(a[i]), bound);
    sum += a[i];
    squares += a[i] * a[i];
    neighbors += i ? a[i] * a[i - 1] : 0;
  }
  const double count = double(a.size());
  EXPECT_NEAR(sum / count / bound, 0, 0.005);
  EXPECT_NEAR(squares / count / bound / bound, 1.0 / 3, 0.003);
  EXPECT_NEAR(neighbors / count / bound / bound, 0, 0.003);
  for (float value : freshAdapter(adapters(), "l.q.lora_B.weight", {8, 4}, 7))
    EXPECT_EQ(value, 0.f);
}

TEST(AdapterStart, OtherParametersHaveNone) {
  EXPECT_TRUE(freshAdapter(adapters(), "l.q.weight", {8, 16}, 0).empty());
  EXPECT_TRUE(freshAdapter(Adapters(), "l.q.lora_A.weight", {4, 16}, 0).empty());
}

} // namespace
} // namespace omnibal::rt
