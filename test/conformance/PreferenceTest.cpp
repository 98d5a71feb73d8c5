#include "test/conformance/KernelTest.h"

using namespace omnibal::rt;
using namespace omnibal::rt::test;

namespace {

constexpr double beta = 0.3;

/// Answers of these lengths, a pair after the other; `rest` rows belong to nobody.
struct Example {
  std::vector<int64_t> lengths;
  int64_t rest = 0;
  double smoothing = 0;
};

struct Wanted {
  std::vector<double> loss, chosen, rejected, preferred, dlosses;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// From the formula, by loops over the pairs.
Wanted wantedOf(const Example &e, Tensor<float> &losses, Tensor<float> &reference,
                Tensor<float> &weights) {
  const auto rows = static_cast<size_t>(losses.elements());
  Wanted w;
  for (auto *list : {&w.loss, &w.chosen, &w.rejected, &w.preferred, &w.dlosses})
    list->assign(rows, 0);
  int64_t begin = 0;
  auto rewardOf = [&](int64_t first, int64_t count) {
    double sum = 0;
    for (int64_t t = first; t < first + count; ++t)
      sum -= losses[t];
    return static_cast<double>(static_cast<float>(beta)) * (sum - reference[first]);
  };
  for (size_t i = 0; i + 1 < e.lengths.size(); begin += e.lengths[i] + e.lengths[i + 1], i += 2) {
    const int64_t first = e.lengths[i], second = e.lengths[i + 1];
    if (first == 0 || second == 0)
      continue;
    const double better = rewardOf(begin, first), worse = rewardOf(begin + first, second);
    const double m = better - worse, s = static_cast<float>(e.smoothing);
    w.loss[begin] = -(1 - s) * std::log(sigmoid(m)) - s * std::log(sigmoid(-m));
    w.chosen[begin] = better;
    w.rejected[begin] = worse;
    w.preferred[begin] = better > worse;
    const double slope = beta * weights[begin] * ((1 - s) * sigmoid(-m) - s * sigmoid(m));
    for (int64_t t = begin; t < begin + first + second; ++t)
      w.dlosses[t] = t < begin + first ? slope : -slope;
  }
  return w;
}

void checkExample(const Example &e, int seed) {
  std::mt19937 random(seed);
  int64_t rows = e.rest;
  for (int64_t length : e.lengths)
    rows += length;
  Tensor<float> losses({rows}), reference({rows}), weights({rows});
  std::uniform_real_distribution<float> any(-1, 1);
  losses.fill([&](int64_t) { return 2 + any(random); });
  reference.fill([&](int64_t) { return 20 * any(random); });
  weights.fill([&](int64_t) { return any(random); });
  Tensor<int32_t> borders({rows + 1});
  int32_t at = 0;
  borders.fill([&](int64_t i) {
    return i > 0 && i <= std::ssize(e.lengths) ? at += static_cast<int32_t>(e.lengths[i - 1]) : at;
  });
  for (bool weighted : {false, true}) {
    if (!weighted)
      weights.fill([](int64_t) { return 1.f; });
    else
      weights.fill([&](int64_t) { return any(random); });
    const Wanted want = wantedOf(e, losses, reference, weights);
    Tensor<float> loss({rows}), chosen({rows}), rejected({rows}), preferred({rows}),
        dlosses({rows});
    for (Tensor<float> *each : {&loss, &chosen, &rejected, &preferred, &dlosses})
      each->fill([](int64_t) { return NAN; });
    Operands read = {
        {"losses", losses.view}, {"cu_seqlens", borders.view}, {"reference", reference.view}};
    Operands forward = read, backward = read;
    for (auto [name, tensor] : {std::pair{"loss", &loss},
                                {"chosen", &chosen},
                                {"rejected", &rejected},
                                {"preferred", &preferred}})
      forward.push_back({name, tensor->view});
    EXPECT_OK(
        runKernel("preference_loss", forward, {{"beta", beta}, {"smoothing", e.smoothing}}, 2));
    expectNear(loss, want.loss, 2e-6, 2e-6, "loss");
    expectNear(chosen, want.chosen, 2e-6, 2e-6, "chosen");
    expectNear(rejected, want.rejected, 2e-6, 2e-6, "rejected");
    expectNear(preferred, want.preferred, 0, 0, "preferred");
    backward.push_back({"dlosses", dlosses.view});
    if (weighted)
      backward.push_back({"row_weights", weights.view});
    EXPECT_OK(runKernel("preference_loss_backward", backward,
                        {{"beta", beta}, {"smoothing", e.smoothing}}, 2));
    expectNear(dlosses, want.dlosses, 1e-7, 2e-6, "dlosses");
  }
}

} // namespace

TEST(Preference, LossRewardsGradient) {
  checkExample({{}}, 1);
  checkExample({{1, 1}}, 2);
  checkExample({{3, 5, 2, 2, 200, 170}, 3}, 3);
  checkExample({{3, 5, 2, 2, 7, 1}, 0, 0.2}, 4);
  checkExample({{40, 60}, 28, 0.1}, 5);
}

TEST(Preference, WhatIsNoPairCountsNothing) {
  checkExample({{3, 5, 4}}, 6); // the last one is alone
  checkExample({{3, 0, 0, 4, 2, 2}, 1}, 7);
}

TEST(Preference, RewardsFarApartStayNumbers) {
  Tensor<float> losses({2}), reference({2}), loss({2}), chosen({2}), rejected({2}), preferred({2}),
      dlosses({2});
  Tensor<int32_t> borders({3});
  borders.fill([](int64_t i) { return static_cast<int32_t>(i); });
  reference.fill([](int64_t) { return 0.f; });
  for (float far : {5e3f, -5e3f}) {
    losses.fill([&](int64_t i) { return i == 0 ? far : 0.f; });
    EXPECT_OK(runKernel("preference_loss",
                        {{"losses", losses.view},
                         {"cu_seqlens", borders.view},
                         {"reference", reference.view},
                         {"loss", loss.view},
                         {"chosen", chosen.view},
                         {"rejected", rejected.view},
                         {"preferred", preferred.view}},
                        {{"beta", 1.0}}));
    EXPECT_EQ(loss[0], far > 0 ? far : 0);
    EXPECT_EQ(preferred[0], far > 0 ? 0 : 1);
    EXPECT_OK(runKernel("preference_loss_backward",
                        {{"losses", losses.view},
                         {"cu_seqlens", borders.view},
                         {"reference", reference.view},
                         {"dlosses", dlosses.view}},
                        {{"beta", 1.0}}));
    EXPECT_EQ(dlosses[0], far > 0 ? 1 : 0);
    EXPECT_EQ(dlosses[1], far > 0 ? -1 : 0);
  }
}

TEST(Preference, RejectsAttributesThatAreNone) {
  Tensor<float> losses({2}), dlosses({2});
  Tensor<int32_t> borders({3});
  borders.fill([](int64_t i) { return static_cast<int32_t>(i); });
  for (auto [factor, smoothing] : {std::pair{0.0, 0.0}, {-1.0, 0.0}, {1.0, 0.5}, {1.0, -0.1}})
    EXPECT_FALSE(runKernel("preference_loss_backward",
                           {{"losses", losses.view},
                            {"cu_seqlens", borders.view},
                            {"reference", losses.view},
                            {"dlosses", dlosses.view}},
                           {{"beta", factor}, {"smoothing", smoothing}}));
}
