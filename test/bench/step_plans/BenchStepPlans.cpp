//===- BenchStepPlans.cpp - Step plans against static plans and DIP, in simulation ------------===//
//
// bench_step_plans [--data real|mixed|skew] [--balanced] [--stages P] [--microbatches M]
//     [--model vlm-s|20b|32b|small|frozen] [--memory SHARE] [--steps N] [--lists N]
//     [--actions N] [--lengths FILE] [--rivals no]
//
// Prints one line: the mean over steps of (time / bound of any layout) for the best 1f1b, zb-h1,
// interleaved and static lists of all layouts, for DIP-like plans (its own rule, and the best
// uniform chunks), and for step plans; then the ratio of step plans to their layout's bound and the
// time of a plan. Static plans and layouts are chosen on other steps than those that count.
// --memory: the share of what 1f1b keeps at the caps on its fullest stage; static plans then fit at
// the caps, with no byte lost between blocks, and step plans have places. Steps beyond the samples
// are those of further epochs.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/planner/model/Partition.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/step/CheckStepPlan.h"
#include "runtime/planner/step/LayoutSearch.h"
#include "runtime/planner/step/StaticLists.h"
#include "runtime/planner/step/StepBound.h"
#include "runtime/planner/step/StepMemory.h"
#include "runtime/planner/step/StepSearch.h"
#include "runtime/planner/step/StepTimes.h"
#include "test/bench/step_plans/BenchLoads.h"
#include "test/bench/step_plans/BenchModels.h"
#include "test/bench/step_plans/DipLike.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

using namespace omnibal;
using namespace omnibal::planner;
using namespace omnibal::bench;

namespace {

struct Setting {
  std::string data = "mixed", model = "vlm-s", lengths = OMNIBAL_TEST_DATA "/lengths/pooled.csv";
  bool balanced = false;
  int64_t stages = 4, microbatches = 16, lists = 300, actions = 300'000;
  double memory = 0; ///< 0: no limit
  size_t steps = 24;
  bool rivals = true; ///< "no": step plans alone
};

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "bench_step_plans: %s\n", message.c_str());
  std::exit(1);
}

constexpr size_t trainingSteps = 12;
/// Sizes of 95 % and 90 % efficiency with a fixed part of a quarter tile.
constexpr int64_t dipTiles = 5, leastTiles = 3, dipOrders = 2100;

/// One setting's model, steps and frame.
class Bench {
public:
  explicit Bench(const Setting &setting) : setting(setting) {
    const BenchModel *model = modelNamed(setting.model);
    if (!model)
      fail("there is no model " + setting.model);
    layers = layersOf(*model);
    rt::SampleLengths samples = samplesOf(setting.data, setting.lengths);
    training =
        stepsOf(samples, setting.balanced, setting.microbatches, trainingSteps + setting.steps);
    test.assign(training.begin() + trainingSteps, training.end());
    training.resize(trainingSteps);
    work = workOf(layers, training);
    frame.stages = setting.stages;
    frame.microbatches = setting.microbatches;
    frame.tokensCap = tokensCap;
    for (const std::vector<StepLoads> &steps : {training, test})
      for (const StepLoads &step : steps)
        for (const MicrobatchLoad &microbatch : step.microbatches)
          frame.tilesCap = std::max(frame.tilesCap, microbatch.load.tiles);
    frame.link = {10'000, 100'000'000'000};
    frame.alignment = 512;
    frame.mostParts = 4;
    frame.leastTiles = leastTiles;
    if (setting.memory > 0)
      setMemory();
    else
      frame.ascendingWeightGradients = true;
    StepProblem plain = problemOf(layers, mixed(1), frame);
    StepModel model1(plain);
    for (const StepLoads &step : test)
      anyBound.push_back(layoutBound(StepUnits(model1, step, wholeMicrobatches(step))));
  }

  void run() {
    std::printf("%s %s %s %lldx%lld", setting.model.c_str(), setting.data.c_str(),
                setting.balanced ? "balanced" : "random", static_cast<long long>(setting.stages),
                static_cast<long long>(setting.microbatches));
    if (setting.memory > 0)
      std::printf(" memory %.2f", setting.memory);
    std::fflush(stdout);
    if (setting.rivals)
      rivals();
    stepPlans();
    std::printf("\n");
  }

private:
  void rivals() const {
    print("1f1b", named("1f1b"));
    print("zb-h1", named("zb-h1"));
    double interleaved = 0;
    for (int64_t v = 2; v <= 4; ++v) {
      double ratio = named("interleaved:" + std::to_string(v));
      interleaved = interleaved == 0 || (ratio > 0 && ratio < interleaved) ? ratio : interleaved;
    }
    print("interleaved", interleaved);
    print("static-lists", staticLists());
    print("dip", dip(dipLayout(layers, work, setting.stages)));
    print("dip-tuned", dipTuned());
  }

  void print(const char *name, double ratio) const {
    std::printf("  %s %.3f", name, ratio);
    std::fflush(stdout);
  }

  ChunkLayout mixed(int64_t chunks) const {
    ChunkLayout layout;
    layout.cuts = levelCuts(work, chunks * setting.stages);
    layout.stages = stagesInTurn(chunks * setting.stages, setting.stages);
    return layout;
  }

  /// The named schedule's lists as a static plan, with the variants that fit at the caps.
  bool setSchedule(StepProblem &problem, const std::string &schedule) const {
    auto actions = scheduleActions(schedule, setting.stages, setting.microbatches);
    problem.fixed.actions.clear();
    for (const std::vector<Action> &stage : *actions) {
      problem.fixed.actions.emplace_back();
      for (const Action &action : stage)
        problem.fixed.actions.back().push_back({action.kind,
                                                static_cast<int32_t>(action.microbatch), 0,
                                                static_cast<int32_t>(action.chunk)});
    }
    for (std::vector<int64_t> &chunk : problem.fixed.variants)
      std::fill(chunk.begin(), chunk.end(), 0);
    return fitStaticPlan(problem);
  }

  /// Bytes that 1f1b keeps at the caps on its fullest stage, times the share.
  void setMemory() {
    StepProblem problem = problemOf(layers, mixed(1), frame);
    setSchedule(problem, "1f1b");
    StepModel model(problem);
    StepLoads full = loadsAtCaps(problem);
    StepUnits units(model, full, wholeMicrobatches(full));
    std::vector<UnitBytes> bytes = unitBytes(units);
    StepLists lists = planner::staticLists(units);
    int64_t most = 0;
    for (const std::vector<UnitAction> &list : lists.actions) {
      int64_t held = 0;
      for (const UnitAction &action : list) {
        int64_t own = bytes[units.indexOf(action.unit, 0)].held;
        held += action.kind == ActionKind::Forward ? own : -own;
        most = std::max(most, held);
      }
    }
    frame.memoryBytes = {static_cast<int64_t>(static_cast<double>(most) * setting.memory)};
    frame.ascendingWeightGradients = false;
  }

  double meanRatio(const std::vector<int64_t> &times) const {
    double sum = 0;
    for (size_t s = 0; s < times.size(); ++s)
      sum += static_cast<double>(times[s]) / static_cast<double>(anyBound[s]);
    return sum / static_cast<double>(times.size());
  }

  double staticRatio(const StepProblem &problem) const {
    std::vector<int64_t> times;
    for (const StepLoads &step : test)
      times.push_back(staticSum(problem, {step}));
    return meanRatio(times);
  }

  /// The best cuts of a named schedule, by what the training steps take; 0 where it does not fit.
  double named(const std::string &schedule) const {
    int64_t chunks = *chunksPerStage(schedule);
    if (chunks * setting.stages > static_cast<int64_t>(layers.layers.size()))
      return 0;
    ChunkLayout layout = mixed(chunks);
    auto score = [&](const ChunkLayout &candidate) {
      StepProblem problem = problemOf(layers, candidate, frame);
      return setSchedule(problem, schedule) ? staticSum(problem, training)
                                            : std::numeric_limits<int64_t>::max();
    };
    if (improveCuts(layers, layout, 4, score) == std::numeric_limits<int64_t>::max())
      return 0;
    StepProblem problem = problemOf(layers, layout, frame);
    setSchedule(problem, schedule);
    return staticRatio(problem);
  }

  /// The best layout and lists made for mean loads, by what the training steps take.
  double staticLists() const {
    int64_t best = std::numeric_limits<int64_t>::max();
    ChunkLayout chosen;
    auto score = [&](const ChunkLayout &layout) {
      StepProblem problem = problemOf(layers, layout, frame);
      return addStaticPlan(problem, training, {300'000, 40});
    };
    for (const ChunkLayout &layout : chunkLayouts(layers, work, setting.stages, 4))
      if (int64_t sum = score(layout); sum < best) {
        best = sum;
        chosen = layout;
      }
    improveCuts(layers, chosen, 2, score);
    StepProblem problem = problemOf(layers, chosen, frame);
    addStaticPlan(problem, training);
    return staticRatio(problem);
  }

  StepProblem dipProblem(const ChunkLayout &layout) const {
    StepProblem problem = problemOf(layers, layout, frame);
    problem.ascendingWeightGradients = false;
    return problem;
  }

  double dip(const ChunkLayout &layout) const {
    StepProblem problem = dipProblem(layout);
    std::vector<int64_t> times;
    for (const StepLoads &step : test) {
      times.push_back(dipStep(problem, step, dipTiles, dipOrders));
      if (times.back() == std::numeric_limits<int64_t>::max())
        return 0;
    }
    return meanRatio(times);
  }

  /// DIP with the numbers of segments that serve the training steps best.
  double dipTuned() const {
    int64_t best = std::numeric_limits<int64_t>::max();
    std::optional<ChunkLayout> chosen;
    auto count = static_cast<int64_t>(layers.layers.size()), vision = int64_t{0};
    while (layers.layers[vision].component == ChunkComponent::Vision)
      ++vision;
    for (int64_t v = 1; v <= 4 && v * setting.stages <= vision; ++v)
      for (int64_t l = 1; l <= 4 && l * setting.stages <= count - vision; ++l) {
        ChunkLayout layout = dipLayout(layers, v, l, setting.stages);
        StepProblem problem = dipProblem(layout);
        int64_t sum = 0;
        for (size_t s = 0; s < 4 && sum < best; ++s) {
          int64_t step = dipStep(problem, training[s], dipTiles, 100);
          sum = step == std::numeric_limits<int64_t>::max() ? best : sum + step;
        }
        if (sum < best) {
          best = sum;
          chosen = layout;
        }
      }
    return chosen ? dip(*chosen) : 0;
  }

  void stepPlans() const {
    std::clock_t begin = std::clock();
    std::optional<LayoutChoice> choice = chooseLayout(layers, frame, training);
    double layoutSeconds = seconds(begin);
    if (!choice) {
      std::printf("  per-step: nothing fits");
      return;
    }
    addStaticPlan(choice->problem, training, {300'000, 40});
    double whole = plans(*choice, false, "whole");
    if (setting.microbatches < 2 * setting.stages)
      whole = std::min(whole, plans(*choice, true, "parts"));
    std::printf("  [%s, %.1f s]", choice->layout.name.c_str(), layoutSeconds);
  }

  static double seconds(std::clock_t begin) {
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  }

  double plans(const LayoutChoice &choice, bool maySplit, const char *name) const {
    StepPlanner planner(choice.problem, {setting.actions, setting.lists, maySplit});
    std::vector<int64_t> times;
    std::vector<double> took;
    double overBound = 0;
    int fallbacks = 0;
    for (const StepLoads &step : test) {
      std::clock_t begin = std::clock();
      StepPlan plan = planner.plan(step);
      took.push_back(1000 * seconds(begin));
      times.push_back(plan.stepNs);
      overBound += static_cast<double>(plan.stepNs) / static_cast<double>(plan.boundNs);
      fallbacks += plan.method == StepMethod::Static;
      for (const StepViolation &violation : checkStepPlan(choice.problem, step, plan))
        fail(violation.message());
    }
    std::nth_element(took.begin(), took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2),
                     took.end());
    double ratio = meanRatio(times);
    std::printf("  per-step(%s) %.3f over-bound %.3f ms %.0f static %d", name, ratio,
                overBound / static_cast<double>(test.size()), took[took.size() / 2], fallbacks);
    std::fflush(stdout);
    return ratio;
  }

  const Setting &setting;
  StepLayers layers;
  StepProblem frame;
  std::vector<StepLoads> training, test;
  std::vector<int64_t> work, anyBound;
};

Setting settingOf(int argc, char **argv) {
  Setting setting;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--balanced") {
      setting.balanced = true;
      continue;
    }
    if (i + 1 == argc)
      fail(flag + " needs a value");
    std::string value = argv[++i];
    if (flag == "--data")
      setting.data = value;
    else if (flag == "--model")
      setting.model = value;
    else if (flag == "--lengths")
      setting.lengths = value;
    else if (flag == "--stages")
      setting.stages = std::atoll(value.c_str());
    else if (flag == "--microbatches")
      setting.microbatches = std::atoll(value.c_str());
    else if (flag == "--lists")
      setting.lists = std::atoll(value.c_str());
    else if (flag == "--actions")
      setting.actions = std::atoll(value.c_str());
    else if (flag == "--rivals")
      setting.rivals = value != "no";
    else if (flag == "--memory")
      setting.memory = std::atof(value.c_str());
    else if (flag == "--steps")
      setting.steps = static_cast<size_t>(std::atoll(value.c_str()));
    else
      fail("unknown flag " + flag);
  }
  return setting;
}

} // namespace

int main(int argc, char **argv) {
  Setting setting = settingOf(argc, argv);
  Bench(setting).run();
  return 0;
}
