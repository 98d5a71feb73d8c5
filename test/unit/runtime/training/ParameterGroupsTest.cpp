#include "runtime/training/rates/ParameterGroups.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

TrainedParts tower(int64_t blocks) {
  TrainedParts parts;
  parts.visionBlocks = blocks;
  parts.parameters = {{"tower.patches", "vision.embedding", 12, true}};
  for (int64_t i = 0; i < blocks; ++i) {
    const std::string number = std::to_string(i);
    parts.parameters.push_back({"tower." + number + ".weight", "vision.layers." + number, 16});
    parts.parameters.push_back({"tower." + number + ".bias", "vision.layers." + number, 4, false});
  }
  parts.parameters.push_back({"tower.norm", "vision.output", 4, false});
  parts.parameters.push_back({"merger.weight", "projector", 1234567});
  parts.parameters.push_back({"lm_head", "head", 20});
  return parts;
}

LearningRateOptions rateOf(double peak) {
  LearningRateOptions o;
  o.peak = peak;
  return o;
}

Result<ParameterGroups> grouped(const GroupOptions &options, int64_t blocks = 2) {
  return groupParameters(tower(blocks), rateOf(1e-3), 0.1, options);
}

double rate(const ParameterGroups &groups, const std::string &name) {
  return groups.ratesAt(0, 1)[groups.ofParameter.at(name)].learningRate;
}
double decay(const ParameterGroups &groups, const std::string &name) {
  return groups.ratesAt(0, 1)[groups.ofParameter.at(name)].weightDecay;
}

TEST(ParameterGroups, WithoutRulesOnlyDimensionsCount) {
  const auto groups = grouped({});
  ASSERT_TRUE(groups);
  ASSERT_EQ(groups->list.size(), 2u);
  EXPECT_EQ(decay(*groups, "tower.0.weight"), 0.1);
  EXPECT_EQ(decay(*groups, "tower.0.bias"), 0);
  EXPECT_TRUE(groups->learningRatesAt(0, 1).empty());
  EXPECT_EQ(groups->table(),
            "what trains, by learning rate and weight decay\n"
            "  group                       lr  weight decay  warm-up  tensors       parameters\n"
            "  all                      0.001           0.1        0        5        1,234,631\n"
            "  all, one dimension       0.001             0        0        3               12");
}

/// timm's and BEiT's scales of a tower with two blocks: 0.5^3, 0.5^2, 0.5^1, 0.5^0.
TEST(ParameterGroups, LayersDecayTowardTheInput) {
  GroupOptions options;
  options.layerDecay = 0.5;
  const auto groups = grouped(options);
  ASSERT_TRUE(groups);
  EXPECT_EQ(rate(*groups, "tower.patches"), 1e-3 / 8);
  EXPECT_EQ(rate(*groups, "tower.0.weight"), 1e-3 / 4);
  EXPECT_EQ(rate(*groups, "tower.1.bias"), 1e-3 / 2);
  EXPECT_EQ(rate(*groups, "tower.norm"), 1e-3);
  EXPECT_EQ(rate(*groups, "merger.weight"), 1e-3);
}

TEST(ParameterGroups, RulesOfComponentsAndNames) {
  GroupOptions options;
  options.rates = {{"vision", 1e-4}, {"head$", 2e-3}};
  options.decays = {{"weight$", 0.3}};
  options.layerDecay = 0.5;
  const auto groups = grouped(options);
  ASSERT_TRUE(groups) << groups.status().message();
  EXPECT_EQ(rate(*groups, "tower.1.weight"), 1e-4 / 2); // the rule's rate decays too
  EXPECT_EQ(rate(*groups, "lm_head"), 2e-3);
  EXPECT_EQ(rate(*groups, "merger.weight"), 1e-3);
  EXPECT_EQ(decay(*groups, "tower.patches"), 0.1);
  EXPECT_EQ(decay(*groups, "tower.1.weight"), 0.3);
  EXPECT_EQ(decay(*groups, "tower.1.bias"), 0);
  EXPECT_EQ(decay(*groups, "merger.weight"), 0.3);
}

TEST(ParameterGroups, RulesThatAgreeMayMeet) {
  GroupOptions options;
  options.rates = {{"vision", 1e-4}, {"tower", 1e-4}};
  EXPECT_TRUE(grouped(options));
  options.rates[1].value = 1e-5;
  EXPECT_EQ(
      grouped(options).status().message(),
      "--lr-of: vision=0.0001 and tower=1e-05 both find tower.patches, and they disagree; let "
      "only one of the patterns find it");
}

TEST(ParameterGroups, NoMoreGroupsThanAKernelTakes) {
  GroupOptions options;
  options.layerDecay = 0.99;
  EXPECT_TRUE(grouped(options, 120));
  const auto groups = grouped(options, 200);
  EXPECT_NE(groups.status().message().find("groups of a learning rate"), std::string::npos)
      << groups.status().message();
}

} // namespace
} // namespace omnibal::rt
