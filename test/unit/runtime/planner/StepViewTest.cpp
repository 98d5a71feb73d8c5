//===- StepViewTest.cpp - What reports and traces show is what the simulator found ----------===//
#include "tools/report/StepView.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include "tools/report/ReportData.h"
#include "tools/report/Trace.h"
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

using namespace omnibal::planner;
using nlohmann::json;

namespace {

/// Equal parts with options drawn at random; none where there are fewer layers than chunks.
std::optional<Plan> somePlan(Problem &problem, const std::string &schedule, uint64_t seed) {
  Draw draw(seed);
  problem.schedule = schedule;
  Plan plan;
  plan.schedule = schedule;
  int64_t chunks = problem.cluster.stages * *chunksPerStage(schedule);
  auto layers = static_cast<int64_t>(problem.layers.size());
  if (layers < chunks)
    return std::nullopt;
  for (int64_t c = 0; c <= chunks; ++c)
    plan.cuts.push_back(c * layers / chunks);
  for (int64_t c = 0; c < chunks; ++c)
    plan.chunkStage.push_back(c % problem.cluster.stages);
  for (const Layer &layer : problem.layers)
    plan.remat.push_back(layer.remat[draw(0, static_cast<int64_t>(layer.remat.size()) - 1)].name);
  plan.actions = *scheduleActions(schedule, problem.cluster.stages, problem.microbatches);
  return plan;
}

template <typename Check> int forEachPlan(Check check) {
  int plans = 0;
  for (uint64_t seed = 0; seed < 200; ++seed)
    for (const char *schedule : {"gpipe", "1f1b", "zb-h1", "interleaved:2"}) {
      Problem problem = randomProblem(seed);
      std::optional<Plan> plan = somePlan(problem, schedule, seed);
      if (!plan)
        continue;
      Timeline timeline = simulate(problem, *plan);
      EXPECT_EQ(timeline.error, "");
      SCOPED_TRACE(std::string(schedule) + ", seed " + std::to_string(seed));
      check(problem, *plan, timeline);
      ++plans;
    }
  return plans;
}

TEST(StepView, AgreesWithTheSimulator) {
  int plans = forEachPlan([](const Problem &problem, const Plan &plan, const Timeline &timeline) {
    StepView view = viewOf(problem, plan, timeline);
    ASSERT_EQ(view.stages.size(), timeline.stages.size());
    for (size_t r = 0; r < view.stages.size(); ++r) {
      int64_t peak = 0, least = INT64_MAX, recompute = 0;
      for (const MemoryPoint &point : view.stages[r].memory)
        peak = std::max(peak, point.bytes), least = std::min(least, point.bytes);
      for (int64_t ns : view.stages[r].recomputeNs)
        recompute += ns;
      EXPECT_EQ(peak, timeline.stages[r].peakBytes);
      EXPECT_EQ(recompute, timeline.stages[r].recomputeNs);
      EXPECT_EQ(view.stages[r].memory.back().bytes, least); // nothing stays saved
      EXPECT_GE(view.stages[r].reductionNs, 0);
    }
    for (const TransferTime &t : view.transfers) {
      const ActionTime &from = timeline.times[t.sender.stage][t.sender.index];
      const ActionTime &to = timeline.times[t.receiver.stage][t.receiver.index];
      EXPECT_EQ(t.startNs, from.endNs);
      EXPECT_LE(t.endNs, to.startNs);
      EXPECT_NE(t.sender.stage, t.receiver.stage);
    }
  });
  EXPECT_GE(plans, 500);
}

/// Slices of one thread do not overlap, arrows run forward between slices, counters reach the peak.
TEST(StepView, TracesAreWellFormed) {
  forEachPlan([](const Problem &problem, const Plan &plan, const Timeline &timeline) {
    json trace = json::parse(traceJson(problem, plan, timeline));
    std::map<std::pair<int64_t, int64_t>, double> busyUntil;
    std::map<int64_t, std::map<std::string, double>> arrows;
    std::map<int64_t, int64_t> peak;
    int64_t actions = 0;
    double end = 0;
    for (const json &event : trace.at("traceEvents")) {
      std::string phase = event.at("ph");
      int64_t stage = event.at("pid"), lane = event.at("tid");
      double start = event.at("ts");
      if (phase == "X" && event.at("cat") != "recompute") {
        // A nanosecond is 0.001.
        EXPECT_GE(start, (busyUntil[{stage, lane}]) - 1e-4);
        busyUntil[{stage, lane}] = start + event.at("dur").get<double>();
        actions += lane == 0 && event.at("cat") != "reduction";
        end = std::max(end, start + event.at("dur").get<double>());
      } else if (phase == "s" || phase == "t" || phase == "f") {
        arrows[event.at("id")][phase] = start;
      } else if (phase == "C") {
        int64_t bytes = event.at("args").at("bytes");
        peak[stage] = std::max(peak[stage], bytes);
      }
    }
    int64_t all = 0;
    for (size_t r = 0; r < plan.actions.size(); ++r) {
      all += static_cast<int64_t>(plan.actions[r].size());
      EXPECT_EQ(peak[static_cast<int64_t>(r)], timeline.stages[r].peakBytes);
    }
    EXPECT_EQ(actions, all);
    EXPECT_GE(end, timeline.stepNs / 1e3 - 1e-3);
    for (auto &[id, phases] : arrows) {
      ASSERT_EQ(phases.size(), 3u);
      EXPECT_LE(phases["s"], phases["t"]);
      EXPECT_LE(phases["t"], phases["f"]);
    }
  });
}

/// `stages` x `microbatches` with a layer a stage.
Problem longProblem(int64_t stages, int64_t microbatches) {
  Problem problem;
  for (int64_t s = 0; s < stages; ++s) {
    Layer layer;
    layer.name = "</script><b>" + std::to_string(s);
    layer.kind = "language";
    layer.forwardNs = 1'000'003 + s;
    layer.inputGradNs = layer.weightGradNs = 1'100'017;
    layer.remat = {{"keep", 100'000'007, 0, 7}};
    problem.layers.push_back(layer);
    if (s > 0)
      problem.edges.push_back({s - 1, s, 1000, 1000});
  }
  problem.cluster.stages = stages;
  problem.microbatches = microbatches;
  return problem;
}

TEST(StepView, PagesStaySmallAndAreSafe) {
  for (auto [stages, microbatches] : {std::pair(2, 4), {64, 512}, {40, 2000}, {300, 4}}) {
    Problem problem = longProblem(stages, microbatches);
    Plan plan = *somePlan(problem, "1f1b", 1);
    Timeline timeline = simulate(problem, plan);
    std::string page = htmlReport({"a<b", "", problem, plan, timeline, std::nullopt, {}});
    EXPECT_LT(page.size(), 5u << 20) << stages << " x " << microbatches;
    EXPECT_EQ(page.find("</script><b>"), std::string::npos);
    EXPECT_EQ(page.find("</script>"), page.rfind("</script>"));
    EXPECT_EQ(page.find("http://"), page.find("http://www.w3.org/2000/svg"));
    EXPECT_EQ(page.find("https://"), std::string::npos);
    size_t begin = page.find("const plan = ") + 13;
    json data = json::parse(page.substr(begin, page.find(";\n", begin) - begin));
    size_t shown = data.at("stages").size();
    EXPECT_EQ(shown, static_cast<size_t>(std::min(stages, 256)));
  }
}

} // namespace
