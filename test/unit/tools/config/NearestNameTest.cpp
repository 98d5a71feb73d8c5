#include "tools/config/NearestName.h"
#include <gtest/gtest.h>

namespace omnibal::config {
namespace {

const std::vector<std::string> names = {"lr",     "log",         "tiles",
                                        "tokens", "schedule-lr", "keep-every"};

TEST(NearestName, FewestLettersDiffer) {
  EXPECT_EQ(nearestName("tile", names), "tiles");    // one is missing
  EXPECT_EQ(nearestName("tilles", names), "tiles");  // one too many
  EXPECT_EQ(nearestName("tikens", names), "tokens"); // another one
  EXPECT_EQ(nearestName("rl", names), "lr");         // swapped; "log" would take two
  EXPECT_EQ(nearestName("keep-evrey", names), "keep-every");
}

TEST(NearestName, CapitalsAndUnderscoresCostNothing) {
  EXPECT_EQ(nearestName("Schedule_LR", names), "schedule-lr");
  EXPECT_EQ(nearestName("LR", {"l", "lr"}), "lr");
}

TEST(NearestName, ASwapIsOneChange) {
  // "ab" takes one change to "ba" and two to "xy", "cab" one: the first of equals.
  EXPECT_EQ(nearestName("ab", {"xy", "ba", "cab"}), "ba");
  EXPECT_EQ(nearestName("ab", {"xy", "cab", "ba"}), "cab");
}

TEST(NearestName, OfNoneIsNone) { EXPECT_EQ(nearestName("ab", {}), ""); }

} // namespace
} // namespace omnibal::config
