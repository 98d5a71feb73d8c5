#include "passes/plan/ModePlans.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "passes/common/OffsetAssignment.h"
#include "passes/common/TrainModes.h"
#include "passes/plan/PlanRemarks.h"
#include "runtime/planner/lengths/JointCuts.h"
#include "runtime/planner/model/ScheduleRules.h"
#include <limits>

using namespace mlir;

namespace omnibal::plan {
namespace {

using Cuts = std::vector<int64_t>;
constexpr int mostRounds = 4;

class ModePlanner {
public:
  ModePlanner(ModuleOp program, const std::string &method, const std::string &planFile)
      : program(program), method(method), planFile(planFile) {}

  FailureOr<ModePlans> run() {
    auto found = trainModesOf(program);
    if (failed(found))
      return failure();
    modes = std::move(*found);
    if (modes.empty())
      return program.emitError("omnibal-search-mode-plans: the module holds no training modes; "
                               "run omnibal-split-modes before"),
             failure();
    if (failed(checkSchedules()) || failed(findCuts()))
      return failure();
    const Cuts *best = &candidates.front();
    double least = std::numeric_limits<double>::infinity();
    for (const Cuts &cuts : candidates) {
      if (failed(quietly([&] { return planAll(cuts); })) || epochNs() >= least)
        continue;
      best = &cuts;
      least = epochNs();
      if (areRanked)
        break;
    }
    // Once more, as the modules hold the plans of other cuts, or to say why there are none.
    if (failed(planAll(*best)))
      return failure();
    return finish();
  }

private:
  PlanChoices choicesOf(ModuleOp mode) const {
    TrainModeAttr attribute = trainModeOf(mode);
    PlanChoices choices;
    choices.method = method;
    choices.remat = attribute.getRemat().str();
    choices.schedule = attribute.getSchedule().str();
    choices.microbatches = attribute.getMicrobatches();
    choices.trainsOnly = !attribute.getLast();
    if (ArrayAttr options = attribute.getOptions())
      for (StringAttr option : options.getAsRange<StringAttr>())
        choices.givenRemat.push_back(option.str());
    return choices;
  }

  double stepsOf(ModuleOp mode) const {
    auto steps = [](ModuleOp each) { return trainModeOf(each).getSteps(); };
    const bool unknown = llvm::all_of(modes, [&](ModuleOp each) { return steps(each) == 0; });
    return unknown ? 1 : static_cast<double>(steps(mode));
  }

  double epochNs() const {
    double sum = 0;
    for (auto [mode, planned] : llvm::zip_equal(modes, result.modes))
      sum += stepsOf(mode) * static_cast<double>(planned.timeline.stepNs);
    return sum;
  }

  /// Modes share cuts, so all named schedules run as many chunks on a stage; "auto" runs any.
  LogicalResult checkSchedules() {
    for (ModuleOp mode : modes) {
      TrainModeAttr attribute = trainModeOf(mode);
      StringRef schedule = attribute.getSchedule();
      std::optional<int64_t> chunks = planner::chunksPerStage(schedule.str());
      if (!chunks && schedule != "auto")
        return mode.emitError(modePrefix(mode))
               << "the schedule " << schedule << " is not one for a program with several training "
               << "modes (known: " << planner::scheduleNames << ", auto)";
      if (chunks && perStage && *chunks != *perStage)
        return mode.emitError(modePrefix(mode))
               << "the schedule " << schedule << " runs another number of chunks on a stage than "
               << "that of a mode before it; all modes have the same cuts, so give them schedules "
               << "with the same number of chunks, or auto";
      if (chunks)
        perStage = chunks;
    }
    auto cluster = modes.front()->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (!cluster)
      return modes.front().emitError(
          "omnibal-search-mode-plans: the module has no omnibal.cluster");
    stages = cluster.getStages();
    modes.front().walk([&](LayerOp) { ++layers; });
    return success();
  }

  LogicalResult findCuts() {
    if (!planFile.empty())
      return readCuts();
    if (auto given = program->getAttrOfType<DenseI64ArrayAttr>(givenCutsAttrName)) {
      candidates = {Cuts(given.asArrayRef())};
      return checkCuts(candidates.front(), "groups.json");
    }
    if (stages == 1 && perStage.value_or(1) == 1) {
      candidates = {{0, layers}};
      return success();
    }
    std::vector<StagePlan> alone;
    for (ModuleOp mode : modes) {
      auto planned = searchStages(mode, choicesOf(mode));
      if (failed(planned))
        return failure();
      alone.push_back(std::move(*planned));
    }
    if (method == "search")
      searchCuts(alone);
    for (const StagePlan &planned : alone)
      if (!llvm::is_contained(candidates, planned.plan.cuts))
        candidates.push_back(planned.plan.cuts);
    return success();
  }

  void searchCuts(const std::vector<StagePlan> &alone) {
    std::vector<planner::JointMode> problems;
    for (auto [mode, planned] : llvm::zip_equal(modes, alone)) {
      planner::SearchResult known;
      known.plan = planned.plan;
      if (planned.search)
        known.lowerBoundNs = planned.search->lowerBoundNs;
      problems.push_back({problemOf(planned), stepsOf(mode), std::move(known)});
    }
    planner::JointSearch found = planner::searchJointCuts(problems, {});
    boundNs = found.boundNs;
    areRanked = true;
    for (const planner::JointPlans &plans : found.tried)
      candidates.push_back(plans.cuts);
  }

  LogicalResult readCuts() {
    auto read = planner::readPlan(planFile);
    if (!read)
      return program.emitError() << read.status().message();
    if (!read->remat.empty() || !read->actions.empty() || !read->chunkStage.empty() ||
        !read->schedule.empty())
      return program.emitError()
             << planFile
             << ": a program with several training modes takes only `cuts` of a "
                "plan; `remat` and `schedule` of each mode stand in groups.json";
    candidates = {read->cuts};
    return checkCuts(read->cuts, planFile);
  }

  LogicalResult checkCuts(const Cuts &cuts, const std::string &file) {
    const auto chunks = static_cast<int64_t>(cuts.size()) - 1;
    if (chunks < stages || chunks != stages * perStage.value_or(chunks / stages))
      return program.emitError() << file << ": `cuts` has " << cuts.size() << " entries, " << stages
                                 << " stages with " << perStage.value_or(1) << " chunks each need "
                                 << stages * perStage.value_or(1) + 1;
    if (cuts.front() != 0 || cuts.back() != layers ||
        llvm::adjacent_find(cuts, std::greater_equal<>()) != cuts.end())
      return program.emitError() << file << ": `cuts` must ascend from 0 to the number of layers, "
                                 << layers;
    return success();
  }

  template <typename F> LogicalResult quietly(F run) {
    ScopedDiagnosticHandler quiet(program.getContext(), [](Diagnostic &) { return success(); });
    return run();
  }

  /// What a mode leaves for others is known when all are planned; then once more with that.
  LogicalResult planAll(const Cuts &cuts) {
    std::vector<std::vector<OthersNeed>> others(modes.size(), std::vector<OthersNeed>(stages));
    for (int round = 0; round < mostRounds; ++round) {
      result.modes.clear();
      for (auto [number, mode] : llvm::enumerate(modes)) {
        PlanChoices choices = choicesOf(mode);
        choices.method = "search";
        choices.givenCuts = cuts;
        choices.others = others[number];
        auto planned = searchStages(mode, choices);
        if (failed(planned))
          return failure();
        result.modes.push_back(std::move(*planned));
      }
      if (!raiseToOthers(others))
        return success();
    }
    return success();
  }

  /// Constants of other modes, and what the backend takes for them, count in every mode. Returns
  /// whether some of that is new.
  bool raiseToOthers(std::vector<std::vector<OthersNeed>> &others) const {
    bool raised = false;
    for (int64_t s = 0; s < stages; ++s) {
      std::map<std::string, int64_t> constants;
      int64_t workspace = 0;
      for (const StagePlan &mode : result.modes) {
        constants.insert(mode.memory[s].constants.begin(), mode.memory[s].constants.end());
        workspace = std::max(workspace, rt::totalOf(mode.memory[s].beside));
      }
      for (auto [mode, known] : llvm::zip_equal(result.modes, others)) {
        const layout::StageMemory &own = mode.memory[s];
        OthersNeed need{0, known[s].workspaceBytes + workspace - rt::totalOf(own.beside)};
        for (const auto &[name, size] : constants)
          if (!own.constants.count(name))
            need.constantBytes += alignUp(size);
        // The first mode's buckets are everybody's.
        need.constantBytes +=
            std::max<int64_t>(0, result.modes.front().memory[s].shareBytes - own.shareBytes);
        raised |= need.constantBytes > known[s].constantBytes ||
                  need.workspaceBytes > known[s].workspaceBytes;
        known[s] = need;
      }
    }
    return raised;
  }

  FailureOr<ModePlans> finish() {
    for (auto [mode, planned] : llvm::zip_equal(modes, result.modes))
      explainPlan(mode, planned);
    result.boundNs = boundNs;
    return std::move(result);
  }

  ModuleOp program;
  const std::string &method, &planFile;
  SmallVector<ModuleOp> modes;
  int64_t stages = 1, layers = 0;
  std::optional<int64_t> perStage; ///< chunks of a stage; none: any number
  std::vector<Cuts> candidates;    ///< the best first
  bool areRanked = false;
  double boundNs = 0;
  ModePlans result;
};

} // namespace

FailureOr<ModePlans> searchModePlans(ModuleOp program, const std::string &method,
                                     const std::string &planFile) {
  return ModePlanner(program, method, planFile).run();
}

} // namespace omnibal::plan
