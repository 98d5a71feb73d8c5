// Decimals are what the file says, not what a double makes of it.
#include "runtime/planner/model/Decimal.h"
#include <gtest/gtest.h>
#include <limits>

using namespace omnibal::planner;

namespace {

Decimal decimal(const char *text) {
  auto value = Decimal::parse(text);
  EXPECT_TRUE(value.has_value()) << text;
  return value.value_or(Decimal{-1, 0});
}

TEST(Decimal, ProductsAreExactAndRoundedUp) {
  EXPECT_EQ(decimal("1.1").times(100), 110); // a double gives 110.00000000000001
  EXPECT_EQ(decimal("0.7").times(10), 7);
  EXPECT_EQ(decimal("0.7").times(11), 8);
  EXPECT_EQ(decimal("0.3").times(0), 0);
  EXPECT_EQ(decimal("0").times(5), 0);
  EXPECT_EQ(decimal("0.000000000000000001").times(5), 1);
  EXPECT_EQ(decimal("0.333333333333333333").times(3), 1);
  EXPECT_EQ(decimal("1e-3").times(4001), 5);
  EXPECT_EQ(decimal("1.25E1").times(4), 50);
  EXPECT_EQ(decimal("2e2").times(3), 600);
  // The product needs 128 bits.
  int64_t large = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(decimal("0.5").times(large), large / 2 + 1);
  EXPECT_EQ(decimal("0.999999999999999999").times(1000000000000000000), 999999999999999999);
  EXPECT_EQ(decimal("2").times(large), large);
}

TEST(Decimal, SumsAreExactWhere18DigitsHoldThem) {
  EXPECT_EQ(decimal("0.1").plus(decimal("0.2")), decimal("0.3"));
  EXPECT_EQ(decimal("0.75").plus(decimal("0.25")), Decimal{});
  EXPECT_EQ(decimal("0").plus(decimal("1e-36")), decimal("1e-36"));
  EXPECT_EQ(decimal("99999999999999999.9").plus(decimal("0.1")), decimal("1e17"));
  EXPECT_EQ(decimal("123456789").plus(decimal("0.000000001")), decimal("123456789.000000001"));
}

TEST(Decimal, LongerSumsAreRoundedUp) {
  EXPECT_EQ(decimal("123456789012345678").plus(decimal("0.000000001")),
            decimal("123456789012345679"));
  EXPECT_EQ(decimal("12345678901234567.8").plus(decimal("0.01")), decimal("12345678901234567.9"));
  EXPECT_EQ(decimal("1").plus(decimal("1e-36")), decimal("1.00000000000000001"));
  EXPECT_EQ(decimal("1e-36").plus(decimal("1")), decimal("1.00000000000000001"));
  EXPECT_EQ(decimal("999999999999999999").plus(decimal("999999999999999999")),
            decimal("999999999999999999"));
}

TEST(Decimal, EqualValuesAreEqual) {
  EXPECT_EQ(decimal("0.50"), decimal("5e-1"));
  EXPECT_EQ(decimal("1.000"), Decimal{});
  EXPECT_EQ(decimal("-0.0"), decimal("0"));
  EXPECT_EQ(Decimal::of(2500, 4), decimal("0.25"));
}

TEST(Decimal, TextIsReadBack) {
  for (const char *text : {"0", "1", "0.25", "12.5", "0.000001", "700"})
    EXPECT_EQ(decimal(text).text(), text);
}

TEST(Decimal, WhatIsNoSuchNumber) {
  for (const char *text : {"", "-1", "-0.1", "1.", ".5", "1e", "1.5x", "1234567890123456789",
                           "1e-40", "1e30", "NaN", "--1"})
    EXPECT_FALSE(Decimal::parse(text).has_value()) << text;
}

} // namespace
