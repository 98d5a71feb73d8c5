#include "passes/plan/SearchPlan.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/Builders.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/common/TrainModes.h"
#include "passes/plan/StepLayers.h"
#include "passes/plan/StepVariants.h"
#include "runtime/planner/evaluate/VerifyPlan.h"
#include "runtime/planner/lengths/JointCuts.h"
#include "runtime/planner/model/Partition.h"
#include "runtime/planner/model/ProblemSize.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/LoadedSearch.h"
#include <map>

using namespace mlir;

namespace omnibal::plan {
namespace {

constexpr int mostRounds = 8;

class StagePlanner {
public:
  StagePlanner(ModuleOp module, PlanChoices choices)
      : module(module), choices(std::move(choices)) {}

  FailureOr<StagePlan> run() {
    // The lists that serve every step are searched as those of "auto".
    isStepPlanned = choices.schedule == perStepSchedule;
    if (isStepPlanned)
      choices.schedule = "auto";
    auto problem = readProblem(module, "omnibal-search-plan");
    if (failed(problem))
      return failure();
    result.problem = std::move(*problem);
    result.problem.schedule = choices.schedule;
    result.problem.microbatches = choices.microbatches;
    memory = layout::PlannedMemory::read(module, "omnibal-search-plan");
    if (failed(memory) || failed(checkProblem()))
      return failure();
    limits = result.problem.cluster.memoryBytes;
    if (limits.size() == 1)
      limits.assign(result.problem.cluster.stages, limits.front());
    if (failed(planBest()) || failed(layOutForSteps()))
      return failure();
    result.plan.stepNs = result.timeline.stepNs;
    result.plan.stages = result.timeline.stages;
    result.rematFixed = isRematFixed();
    countParameters();
    for (int64_t r = 0; r < result.problem.cluster.stages; ++r)
      result.reserved.push_back(reservedOf(r));
    if (isStepPlanned)
      result.stepVariants = stepVariants();
    return std::move(result);
  }

private:
  InFlightDiagnostic error() {
    InFlightDiagnostic report = module.emitError();
    report << modePrefix(module);
    return report;
  }

  /// Under memory limits lists that a search wrote may be worse than those of a named schedule,
  /// which need less beside what the search counts, or fit full micro-batches with less to
  /// recompute. So "auto" tries these, too.
  LogicalResult planBest() {
    if (failed(planWithinLimits()))
      return failure();
    if (choices.schedule != "auto" || limits.empty() || choices.method != "search" ||
        !choices.planFile.empty())
      return success();
    std::vector<std::string> named = {"1f1b", "zb-h1"};
    if (choices.ranked) {
      if (result.timeline.stepNs <= choices.ranked->stepNs)
        return success();
      named = {choices.ranked->schedule};
    }
    for (const std::string &schedule : named) {
      StagePlan best = result;
      choices.schedule = result.problem.schedule = schedule;
      const bool isBetter = succeeded(quietly([&] { return planWithinLimits(); })) &&
                            result.timeline.stepNs < best.timeline.stepNs;
      if (isBetter) {
        result.search = best.search;
        compareWithBound(*result.search);
      } else {
        result = std::move(best);
      }
      result.plan.schedule = choices.schedule = result.problem.schedule = "auto";
    }
    return success();
  }

  /// What fails leaves another plan in place, so nobody asks why.
  template <typename F> LogicalResult quietly(F run) {
    ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
    const bool explains = std::exchange(choices.searching.explains, false);
    LogicalResult done = run();
    choices.searching.explains = explains;
    return done;
  }

  /// What has to be reserved depends on the cuts, so a plan may turn out to need more than was
  /// taken off; then once more with that. What is taken off never shrinks, so this ends.
  LogicalResult planWithinLimits() {
    std::vector<int64_t> reserved(result.problem.cluster.stages, 0);
    for (int round = 1;; ++round) {
      takeOff(limits, reserved);
      if (failed(planOnce()))
        return failure();
      bool fits = true, fixed = isRematFixed();
      for (size_t r = 0; r < limits.size(); ++r) {
        int64_t need = result.peakBytesAtCaps[r] + reservedOf(r), over = need - limits[r];
        reserved[r] = std::max(reserved[r], reservedOf(r));
        if (over <= 0)
          continue;
        if (fixed || round == mostRounds) {
          std::vector<rt::WorkspaceUse> &beside = result.memory[r].beside;
          InFlightDiagnostic report = error()
                                      << "infeasible: stage " << r << " needs " << need << " bytes";
          if (!beside.empty())
            report << " (" << rt::describe(beside) << " beside its arena)";
          return report << ", " << over << " more than its limit; use more stages, --remat auto or "
                        << "a larger limit";
        }
        fits = false;
      }
      if (fits)
        break;
    }
    takeOff(limits, reserved);
    result.timeline = planner::simulate(result.problem, result.plan); // with these limits
    return success();
  }

  /// Where steps are planned one by one, other stages may serve them better than those of the lists
  /// that serve every step. These are then searched again, for the stages that are better.
  LogicalResult layOutForSteps() {
    auto samples = readStepSamples(module, choices.microbatches);
    if (!isStepPlanned || !samples || choices.method != "search" || !choices.planFile.empty())
      return success();
    planner::Problem whole = withOptions(result.problem);
    whole.cluster.memoryBytes = limits;
    stepLayout = chooseStepLayout(module, whole, result.plan, *samples, choices.subMicrobatches);
    if (!stepLayout)
      return success();
    StagePlan searched = result;
    // A limit may leave room for plans, but not for lists that serve every step.
    if (failed(quietly([&] { return planWithinLimits(); })))
      result = std::move(searched);
    return success();
  }

  bool isRematFixed() const {
    return choices.remat != "auto" || fixedByHand || !choices.givenRemat.empty();
  }

  /// What stage r needs beyond what rule 6 counts.
  int64_t reservedOf(int64_t r) const {
    return result.reservedBytes(r) + rt::totalOf(result.memory[r].beside);
  }

  void takeOff(const std::vector<int64_t> &limits, const std::vector<int64_t> &reserved) {
    for (size_t r = 0; r < limits.size(); ++r) {
      result.problem.cluster.memoryBytes.resize(limits.size());
      result.problem.cluster.memoryBytes[r] = std::max<int64_t>(0, limits[r] - reserved[r]);
    }
  }

  LogicalResult planOnce() {
    result.plan = {};
    result.search.reset();
    if (failed(chooseCuts()) || failed(chooseSchedule()) || failed(chooseRemat()))
      return failure();
    result.timeline = planner::simulate(result.problem, result.plan);
    if (!result.timeline.error.empty())
      return error() << "the plan cannot run: " << result.timeline.error;
    if (result.search)
      compareWithBound(*result.search);
    const layout::StepVariants variants = stepVariants();
    auto needed = memory->of(result.plan, result.problem.cluster.stages, choices.microbatches,
                             isStepPlanned ? &variants : nullptr, choices.trainsOnly);
    if (failed(needed))
      return failure();
    result.memory = std::move(*needed);
    for (auto [stage, others] : llvm::zip(result.memory, choices.others)) {
      stage.arenaBytes += others.constantBytes;
      if (others.workspaceBytes > 0)
        stage.beside.push_back({"other training modes", others.workspaceBytes});
    }
    result.peakBytesAtCaps.clear();
    for (const planner::StageFigures &stage : planner::simulate(atCaps(), result.plan).stages)
      result.peakBytesAtCaps.push_back(stage.peakBytes);
    return success();
  }

  /// What was found for the loads may recompute more in the end.
  void compareWithBound(planner::PlanSearch &search) const {
    const auto bound = static_cast<double>(std::max<int64_t>(1, search.lowerBoundNs));
    search.gap = std::max(0.0, static_cast<double>(result.timeline.stepNs) / bound - 1);
    search.provedOptimal &= result.timeline.stepNs <= search.lowerBoundNs;
  }

  LogicalResult checkProblem() {
    int64_t layers = static_cast<int64_t>(result.problem.layers.size());
    int64_t stages = result.problem.cluster.stages;
    if (choices.remat != "auto" && choices.remat != "none" && !isRematName(choices.remat))
      return error() << "unknown remat `" << choices.remat
                     << "` (known: auto, none, full, selective-1, selective-2 ..)";
    if (failed(checkOptions(choices.givenRemat, "groups.json")))
      return failure();
    if (choices.microbatches < 1)
      return error() << "a step needs at least one micro-batch, not " << choices.microbatches;
    if (!result.problem.factors.empty() &&
        static_cast<int64_t>(result.problem.factors.size()) != choices.microbatches)
      return error() << "omnibal.loads has " << result.problem.factors.size()
                     << " micro-batches, the step " << choices.microbatches;
    if (stages > layers)
      return error() << "infeasible: " << stages << " stages for " << layers << " layers; at most "
                     << layers << " stages are possible";
    // The search checks this itself; other methods only simulate.
    if (std::string why = planner::tooLarge(result.problem); !why.empty())
      return error() << "the problem is too large to plan: " << why;
    return success();
  }

  /// The problem with full micro-batches: what memory is planned for.
  planner::Problem atCaps() const {
    planner::Problem problem = result.problem;
    problem.factors.clear();
    return problem;
  }

  /// Chunks of the schedule that was asked for; one a stage where a search writes the lists.
  int64_t chunks() const {
    return result.problem.cluster.stages * planner::chunksPerStage(choices.schedule).value_or(1);
  }

  LogicalResult chooseCuts() {
    planner::Plan &plan = result.plan;
    if (!choices.planFile.empty()) {
      auto read = planner::readPlan(choices.planFile);
      if (!read)
        return error() << read.status().message();
      plan = std::move(*read);
      fixedByHand = !plan.remat.empty();
      return checkCuts();
    }
    if (!choices.givenCuts.empty())
      return planGivenCuts();
    if (stepLayout) {
      plan.cuts = stepLayout->cuts;
      plan.chunkStage = stepLayout->stages;
      return success();
    }
    if (choices.method == "search")
      return searchCuts();
    planner::Problem pieces = result.problem;
    pieces.cluster.stages = chunks();
    if (pieces.cluster.stages > static_cast<int64_t>(pieces.layers.size()))
      return error() << "infeasible: " << pieces.cluster.stages << " chunks for "
                     << pieces.layers.size() << " layers";
    if (choices.method == "layers")
      plan.cuts = planner::cutsByLayerCount(pieces);
    else if (choices.method == "parameters")
      plan.cuts = planner::cutsByParameters(pieces);
    else if (choices.method == "greedy")
      plan.cuts = planner::cutsByTime(pieces);
    else
      return error() << "unknown partition method `" << choices.method
                     << "` (known: search, layers, parameters, greedy)";
    return success();
  }

  /// The option that a remat other than "auto" means in a layer: of "selective-N" the N-th or, in
  /// layers with fewer, the last.
  std::string fixedOption(const planner::Layer &layer) const {
    std::string chosen = "keep";
    for (const planner::RematOption &option : layer.remat)
      if (option.name == choices.remat)
        return option.name;
      else if (StringRef(choices.remat).starts_with("selective-") && option.name != "full")
        chosen = option.name;
    return chosen;
  }

  /// The problem, with the options that `--remat` leaves.
  planner::Problem withOptions(planner::Problem problem) const {
    if (!choices.givenRemat.empty()) {
      problem.varyRemat = false;
      problem.givenRemat = choices.givenRemat;
      return problem;
    }
    if (choices.remat != "auto") {
      problem.varyRemat = false;
      for (const planner::Layer &layer : problem.layers)
        problem.givenRemat.push_back(fixedOption(layer));
    }
    return problem;
  }

  /// Cuts for the loads of the data, recomputation for full micro-batches.
  LogicalResult searchCuts() {
    planner::SearchResult found =
        planner::searchForLoads(withOptions(result.problem), choices.searching);
    if (!found.plan)
      return error() << "infeasible: " << found.problem;
    result.search = found.facts();
    result.plan = std::move(*found.plan);
    return success();
  }

  LogicalResult planGivenCuts() {
    planner::SearchResult found =
        planner::planWithCuts(withOptions(result.problem), choices.givenCuts, choices.searching);
    if (!found.plan)
      return error() << "infeasible: " << found.problem;
    result.plan = std::move(*found.plan);
    return success();
  }

  LogicalResult checkCuts() {
    const std::vector<int64_t> &cuts = result.plan.cuts;
    const std::string &file = choices.planFile;
    int64_t layers = static_cast<int64_t>(result.problem.layers.size());
    int64_t stages = result.problem.cluster.stages, wanted = stages;
    if (!result.plan.chunkStage.empty())
      wanted = static_cast<int64_t>(result.plan.chunkStage.size());
    else if (auto perStage = planner::chunksPerStage(
                 result.plan.schedule.empty() ? choices.schedule : result.plan.schedule))
      wanted = stages * *perStage;
    if (static_cast<int64_t>(cuts.size()) != wanted + 1)
      return error() << file << ": `cuts` has " << cuts.size() << " entries, " << wanted
                     << (wanted == stages ? " stages need " : " chunks need ") << wanted + 1;
    if (cuts.front() != 0 || cuts.back() != layers)
      return error() << file << ": `cuts` must run from 0 to the number of layers, " << layers;
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      if (cuts[i] >= cuts[i + 1])
        return error() << file << ": `cuts`: " << (wanted == stages ? "stage " : "chunk ") << i
                       << " is empty";
    return checkRemat();
  }

  LogicalResult checkRemat() {
    const std::vector<std::string> &remat = result.plan.remat;
    if (!remat.empty() && remat.size() != result.problem.layers.size())
      return error() << choices.planFile << ": `remat` has " << remat.size() << " entries for "
                     << result.problem.layers.size() << " layers";
    return checkOptions(remat, choices.planFile);
  }

  LogicalResult checkOptions(const std::vector<std::string> &remat, StringRef where) {
    for (auto [layer, option] : llvm::zip(result.problem.layers, remat))
      if (!layer.option(option)) {
        std::string known;
        for (const planner::RematOption &each : layer.remat)
          known += (known.empty() ? "" : ", ") + each.name;
        return error() << where << ": `remat`: unknown option " << option << " (known for "
                       << layer.name << ": " << known << ")";
      }
    return success();
  }

  LogicalResult chooseSchedule() {
    planner::Plan &plan = result.plan;
    if (plan.schedule.empty())
      plan.schedule = plan.actions.empty() ? choices.schedule : "auto";
    int64_t stages = result.problem.cluster.stages;
    if (plan.chunkStage.empty())
      plan.chunkStage = planner::stagesInTurn(static_cast<int64_t>(plan.cuts.size()) - 1, stages);
    if (!plan.actions.empty())
      return choices.planFile.empty() ? success() : verifyFile();
    if (plan.schedule == "auto") { // the search writes lists for these cuts
      std::string why = planner::completePlan(withOptions(atCaps()), plan, choices.searching);
      return why.empty() ? success() : LogicalResult(error() << "infeasible: " << why);
    }
    auto actions = planner::scheduleActions(plan.schedule, stages, choices.microbatches);
    if (!actions)
      return error() << "unknown schedule `" << plan.schedule
                     << "` (known: " << planner::scheduleNames << ", auto)";
    plan.actions = std::move(*actions);
    return success();
  }

  /// Stages and actions by hand, before they become an attribute; memory is checked with the rest.
  LogicalResult verifyFile() {
    planner::Problem problem = atCaps();
    problem.cluster.memoryBytes.clear();
    problem.schedule = result.plan.schedule;
    planner::Plan plan = result.plan;
    if (plan.remat.empty())
      plan.remat.assign(problem.layers.size(), "keep");
    std::vector<planner::Violation> violations = planner::verifyPlan(problem, plan);
    if (!violations.empty())
      return error() << choices.planFile << ": " << violations.front().message();
    return success();
  }

  LogicalResult chooseRemat() {
    planner::Plan &plan = result.plan;
    if (!plan.remat.empty())
      return success();
    if (choices.remat == "auto" && !result.problem.cluster.memoryBytes.empty()) {
      if (std::string why = planner::completePlan(atCaps(), plan, choices.searching); !why.empty())
        return error() << "infeasible: " << why;
      if (!plan.remat.empty())
        return success();
    }
    for (const planner::Layer &layer : result.problem.layers)
      plan.remat.push_back(fixedOption(layer));
    return success();
  }

  /// Under a memory limit plans of steps decide what is recomputed, unless a person did.
  layout::StepVariants stepVariants() const {
    if (choices.remat == "auto" && !fixedByHand && !result.problem.cluster.memoryBytes.empty())
      return chooseStepVariants(result.problem, result.plan);
    layout::StepVariants own;
    for (const std::string &option : result.plan.remat)
      own.push_back({option});
    return own;
  }

  void countParameters() {
    auto graph = LayerGraph::get(module, "omnibal-search-plan"); // was read before
    const planner::Plan &plan = result.plan;
    std::vector<std::map<std::string, int64_t>> distinct(result.problem.cluster.stages);
    for (size_t c = 0; c + 1 < plan.cuts.size(); ++c)
      for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l)
        for (unsigned i = 0, end = graph->layers[l].getParameters().size(); i < end; ++i) {
          ParameterOp parameter = graph->getParameter(graph->layers[l], i);
          distinct[plan.chunkStage[c]][parameter.getSymName().str()] =
              cast<RankedTensorType>(parameter.getType()).getNumElements();
        }
    for (const auto &parameters : distinct) {
      int64_t &total = result.parameterElements.emplace_back(0);
      for (const auto &[name, elements] : parameters)
        total += elements;
    }
  }

  ModuleOp module;
  PlanChoices choices;
  StagePlan result;
  FailureOr<layout::PlannedMemory> memory = failure();
  bool fixedByHand = false; ///< the options too
  bool isStepPlanned = false;
  std::vector<int64_t> limits; ///< by stage; empty: none
  std::optional<planner::ChunkLayout> stepLayout;
};

void writeStepVariants(ModuleOp module, const std::optional<layout::StepVariants> &variants) {
  Builder builder(module.getContext());
  module->removeAttr(stepPlannedAttrName);
  if (variants)
    module->setAttr(stepPlannedAttrName, builder.getUnitAttr());
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (auto [index, layer] : llvm::enumerate(main.getOps<LayerOp>())) {
    layer->removeAttr(rematVariantsAttrName);
    if (!variants || (*variants)[index].size() == 1)
      continue;
    SmallVector<StringRef> names((*variants)[index].begin(), (*variants)[index].end());
    layer->setAttr(rematVariantsAttrName, builder.getStrArrayAttr(names));
  }
}

} // namespace

FailureOr<StagePlan> planStages(ModuleOp module, const PlanChoices &choices) {
  return StagePlanner(module, choices).run();
}

void writeStages(ModuleOp module, const StagePlan &planned) {
  writePlan(module, planned.problem, planned.plan);
  writeStepVariants(module, planned.stepVariants);
  module->setAttr(reservedAttrName,
                  Builder(module.getContext()).getDenseI64ArrayAttr(planned.reserved));
}

FailureOr<StagePlan> searchStages(ModuleOp module, const PlanChoices &choices) {
  FailureOr<StagePlan> planned = planStages(module, choices);
  if (succeeded(planned))
    writeStages(module, *planned);
  return planned;
}

} // namespace omnibal::plan
