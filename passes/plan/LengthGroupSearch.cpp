#include "passes/plan/LengthGroupSearch.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/common/TrainModes.h"
#include "passes/cost/MeasuredTimes.h"
#include "passes/cost/ModesFile.h"
#include "passes/plan/PartCopies.h"
#include "passes/plan/SearchPlan.h"
#include "runtime/batching/io/LengthsCsv.h"
#include "runtime/batching/lengths/Candidates.h"
#include "runtime/batching/lengths/GroupsFile.h"
#include "runtime/planner/lengths/EvenBound.h"
#include "runtime/support/AtomicFile.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;

namespace omnibal::plan {
namespace {

constexpr const char *passName = "omnibal-search-length-groups";
constexpr double loudBubble = 0.3;

/// What the samples that a candidate holds are like.
struct HeldSamples {
  double tiles = 0, tokens = 0, squaredTokens = 0, squaredTiles = 0;
  double squaresPerToken() const { return tokens > 0 ? squaredTokens / tokens : 0; }
  double squaresPerTile() const { return tiles > 0 ? squaredTiles / tiles : 0; }
};

HeldSamples samplesHeld(const rt::SampleLengths &lengths, const rt::LengthGroup &group) {
  rt::LoadSums sums;
  for (int64_t i = 0; i < lengths.size(); ++i)
    if (group.holds(lengths.tiles[i], lengths.tokens[i]))
      sums.add(lengths, i);
  return {sums.tiles, sums.tokens, sums.squaredTokens, sums.squaredTiles};
}

/// With the squares of such samples and pictures.
cost::MicrobatchLoad loadOf(double tiles, double tokens, const HeldSamples &held) {
  return {std::llround(tiles), std::llround(tokens), std::llround(held.squaresPerToken() * tokens),
          std::llround(held.squaresPerTile() * tiles)};
}

/// Squares of pictures become a part of what a tile takes: a mode has no number for them.
planner::LoadTime timeOf(const cost::LayerTerms::Terms &terms, const HeldSamples &held) {
  return {terms.fixedNs, terms.tileNs + terms.tileSquareNs * held.squaresPerTile(), terms.tokenNs,
          terms.squareNs};
}

/// A candidate whose costs are known, with its best plan under the cuts that were asked for last.
struct Planned {
  rt::LengthGroup group;
  HeldSamples held;
  OwningOpRef<ModuleOp> module; ///< with the costs at its caps
  std::optional<StagePlan> plan;
  std::string whyNot;
};

class LengthGroupSearch {
public:
  LengthGroupSearch(ModuleOp module, const cost::CostOptions &costs,
                    const LengthGroupRequest &request)
      : module(module), costs(costs), request(request) {}

  FailureOr<LengthGroupReport> run() {
    if (failed(readInputs()) || failed(makeCosts()))
      return failure();
    for (Planned &each : planned)
      search(each, {});
    if (failed(checkHeld()))
      return failure();
    keepFitting();
    const planner::LengthJudge judge(cells, candidates, replicas, stages);
    const planner::JointSearch joint = planner::searchSharedCuts(judge, candidates, ownPlans());
    report.cutsTried = static_cast<int64_t>(joint.tried.size());
    planner::LengthVerdict verdict;
    for (const planner::JointPlans &tried : joint.tried) {
      if (std::isinf(tried.value))
        break;
      fitTo(tried.cuts);
      verdict = judge.judge(tried.cuts, optionsOfPlans());
      if (verdict.chosen.empty())
        continue; // what plans need beside what the search counts depends on the cuts
      report.cuts = tried.cuts;
      break;
    }
    if (report.cuts.empty())
      return module.emitError() << "infeasible: no cuts leave room for length groups that hold all "
                                   "samples together; allow more memory or more stages",
             failure();
    fillReport(verdict);
    if (rt::Status written = write(verdict); !written)
      return emitError(UnknownLoc::get(module.getContext()), written.message()), failure();
    return std::move(report);
  }

private:
  LogicalResult readInputs() {
    auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (!cluster)
      return module.emitError() << passName << ": the module has no omnibal.cluster; run "
                                << "omnibal-attach-cluster before";
    if (cluster.getParts() > 1 && request.degrees.back() > 1)
      return module.emitError() << passName << ": replicas that run a micro-batch together do not "
                                << "go together with " << cluster.getParts()
                                << " parts of a stage (--model-parallel)";
    stages = static_cast<int32_t>(cluster.getStages());
    replicas = static_cast<int32_t>(cluster.getDataParallel());
    auto read = rt::readLengthsCsv(request.lengths);
    if (!read)
      return emitError(UnknownLoc::get(module.getContext()), read.status().message());
    lengths = *std::move(read);
    auto groups = rt::candidatesOfData(
        lengths, replicas, stages,
        rt::tokensOfStep(lengths, request.tokensPerStep, request.microbatches, replicas),
        request.degrees);
    if (!groups)
      return emitError(UnknownLoc::get(module.getContext()),
                       request.lengths + ": " + groups.status().message());
    shape = *std::move(groups);
    cells = rt::countLengths(lengths);
    for (rt::LengthGroup &group : shape.groups)
      planned.push_back({group, samplesHeld(lengths, group), {}, {}, {}});
    report.tried = static_cast<int64_t>(planned.size());
    report.samples = lengths.size();
    report.tokensPerStep = shape.tokensPerStep;
    return success();
  }

  LogicalResult makeCosts() {
    for (Planned &each : planned) {
      auto shape = modelOf(each.group);
      if (failed(shape) || failed(makeCosts(each, **shape)))
        return failure();
    }
    return success();
  }

  /// The functions of the layers, made once for all candidates whose ranks do the same.
  struct SharedModel {
    int64_t degree;
    std::vector<Attribute> layouts; ///< and all else that ops have
    OwningOpRef<ModuleOp> module;
    std::unique_ptr<cost::CostModel> costs;
  };

  /// The model as it is, or as replicas of a context group run it at the candidate's caps.
  FailureOr<SharedModel *> modelOf(const rt::LengthGroup &group) {
    auto equal = [&](const std::vector<Attribute> *layouts) {
      return llvm::find_if(models, [&](const std::unique_ptr<SharedModel> &known) {
        return known->degree == group.degree && (!layouts || known->layouts == *layouts);
      });
    };
    if (auto known = equal(nullptr); group.degree == 1 && known != models.end())
      return known->get();
    auto made = std::make_unique<SharedModel>();
    made->degree = group.degree;
    made->module = module.clone();
    if (group.degree > 1) {
      writeMode(*made->module,
                TrainModeAttr::get(module.getContext(), 0, group.name, group.tilesCap,
                                   group.tokensCap, group.microbatches, 0, request.schedule, "auto",
                                   ArrayAttr(), group.degree, UnitAttr()));
      if (failed(request.addLayouts(*made->module)))
        return failure();
      made->layouts = attributesIn(*made->module);
      if (auto known = equal(&made->layouts); known != models.end())
        return known->get();
    }
    auto built = cost::CostModel::build(*made->module, costs);
    if (failed(built))
      return failure();
    made->costs = std::move(*built);
    models.push_back(std::move(made));
    return models.back().get();
  }

  /// Bytes at the caps, times of a full group of the samples that the candidate holds.
  LogicalResult makeCosts(Planned &each, SharedModel &model) {
    const cost::MicrobatchLoad load = loadOf(static_cast<double>(each.group.tilesCap),
                                             static_cast<double>(each.group.tokensCap), each.held);
    const planner::ModeLoad mean = planner::meanGroup(
        each.group, {each.held.tiles, each.held.tokens, each.held.squaredTokens});
    if (failed(model.costs->annotate(load, loadOf(mean.tiles, mean.tokens, each.held))))
      return failure();
    if (functionsDigest.empty() && model.degree == 1)
      functionsDigest = model.costs->digest();
    auto problem = readProblem(*model.module, passName);
    if (failed(problem))
      return failure();
    problem->schedule = request.schedule;
    problem->microbatches = each.group.microbatches;
    planner::LengthCandidate candidate{each.group, {*std::move(problem), {}, {}, actionNs()}, {}};
    candidate.mode.full = {static_cast<double>(load.tiles), static_cast<double>(load.tokens),
                           static_cast<double>(load.squares())};
    for (const std::vector<cost::LayerTerms> &layer : model.costs->terms()) {
      auto &options = candidate.mode.times.emplace_back();
      for (const cost::LayerTerms &option : layer)
        options.push_back({timeOf(option.forward, each.held), timeOf(option.backward, each.held)});
    }
    candidates.push_back(std::move(candidate));
    each.module = model.module->clone();
    return success();
  }

  double actionNs() const {
    return costs.measured ? static_cast<double>(costs.measured->actionNs()) : 0;
  }

  /// The best plan under given cuts, or under the best ones; what a plan needs beside what the
  /// search counts is in it.
  void search(Planned &candidate, const std::vector<int64_t> &cuts, bool explains = false) {
    PlanChoices choices;
    choices.method = "search";
    choices.schedule = request.schedule;
    choices.microbatches = candidate.group.microbatches;
    choices.givenCuts = cuts;
    choices.searching.explains = explains;
    candidate.whyNot.clear();
    ScopedDiagnosticHandler quiet(module.getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && candidate.whyNot.empty())
        candidate.whyNot = diagnostic.str();
      return success();
    });
    FailureOr<StagePlan> plan = searchStages(*candidate.module, choices);
    candidate.plan.reset();
    if (succeeded(plan))
      candidate.plan = *std::move(plan);
  }

  /// The smallest candidate that has the caps for a sample says why nothing holds it.
  LogicalResult checkHeld() {
    for (int64_t i = 0; i < lengths.size(); ++i) {
      auto holds = [&](const Planned &each) {
        return each.group.holds(lengths.tiles[i], lengths.tokens[i]);
      };
      if (llvm::any_of(planned, [&](const Planned &each) { return each.plan && holds(each); }))
        continue;
      auto smallest = llvm::find_if(planned, holds);
      search(*smallest, {}, true);
      return emitError(UnknownLoc::get(module.getContext()))
             << request.lengths << ": sample " << i << " (" << lengths.tiles[i] << " tiles, "
             << lengths.tokens[i] << " tokens) fits into no candidate; " << smallest->group.name
             << " (" << smallest->group.tilesCap << " tiles, " << smallest->group.tokensCap
             << " tokens): " << smallest->whyNot;
    }
    return success();
  }

  void keepFitting() {
    std::vector<Planned> fitting;
    std::vector<planner::LengthCandidate> ofFitting;
    for (auto [each, candidate] : llvm::zip(planned, candidates)) {
      if (!each.plan)
        continue;
      candidate.limitBytes = each.plan->problem.cluster.memoryBytes;
      fitting.push_back(std::move(each));
      ofFitting.push_back(std::move(candidate));
    }
    planned = std::move(fitting);
    candidates = std::move(ofFitting);
  }

  std::vector<planner::SearchResult> ownPlans() const {
    std::vector<planner::SearchResult> plans;
    for (const Planned &each : planned)
      plans.emplace_back().plan = each.plan->plan;
    return plans;
  }

  /// The program's own layout decides what fits under the shared cuts.
  void fitTo(const std::vector<int64_t> &cuts) {
    for (Planned &each : planned)
      if (!each.plan || each.plan->plan.cuts != cuts)
        search(each, cuts);
  }

  planner::CandidateOptions optionsOfPlans() const {
    planner::CandidateOptions all;
    for (auto [each, candidate] : llvm::zip(planned, candidates)) {
      if (!each.plan) {
        all.push_back(std::nullopt);
        continue;
      }
      all.push_back(planner::optionsOf(candidate.mode.problem, each.plan->plan.remat));
    }
    return all;
  }

  void fillReport(const planner::LengthVerdict &verdict) {
    report.layers = static_cast<int64_t>(candidates.front().mode.problem.layers.size());
    report.relaxedNs = verdict.relaxedNs;
    report.boundNs = planner::boundOverCuts(cells, candidates, stages);
    for (size_t m = 0; m < planned.size(); ++m) {
      if (!planned[m].plan)
        continue;
      const rt::LengthGroup &group = planned[m].group;
      CandidateRow row{group.name, group.tilesCap, group.tokensCap, group.microbatches, 0, {}};
      row.recomputed = llvm::count_if(planned[m].plan->plan.remat,
                                      [](const std::string &name) { return name != "keep"; });
      row.bytes = bytesOf(planned[m]);
      row.tokenNs = verdict.tokenNs[m];
      const auto waits = static_cast<double>(stages - 1);
      row.bubble = waits / (static_cast<double>(group.microbatches) + waits);
      row.calmTokens =
          (2 * group.microbatches + stages - 1) * int64_t{group.ranks} * group.tokensCap;
      row.wanted = verdict.wanted[m];
      row.chosen = llvm::is_contained(verdict.chosen, static_cast<int32_t>(m));
      report.candidates.push_back(std::move(row));
    }
    warnOfBubbles();
  }

  void warnOfBubbles() {
    for (const CandidateRow &row : report.candidates)
      if (row.chosen && row.bubble > loudBubble)
        module.emitWarning() << "length group " << row.name << ": its stages wait for "
                             << llvm::formatv("{0:f0}", 100 * row.bubble).str()
                             << " % of a step of " << row.microbatches
                             << (row.microbatches == 1 ? " micro-batch" : " micro-batches")
                             << "; --tokens-per-step " << row.calmTokens << " would halve that";
  }

  static std::vector<int64_t> bytesOf(const Planned &each) {
    std::vector<int64_t> bytes;
    for (const layout::StageMemory &stage : each.plan->memory)
      bytes.push_back(stage.arenaBytes);
    return bytes;
  }

  rt::Status write(const planner::LengthVerdict &verdict) {
    if (request.output.empty())
      return rt::Status::ok();
    rt::LengthGroups file = shape;
    file.groups.clear();
    if (!functionsDigest.empty()) // of degree 1
      file.others["model"] = cost::modelDigest(functionsDigest, report.cuts);
    file.others["cuts"] = report.cuts;
    for (size_t m = 0; m < planned.size(); ++m) {
      if (!planned[m].plan)
        continue;
      rt::LengthGroup group = planned[m].group;
      group.cost = verdict.costs[m];
      group.others = {{"schedule", request.schedule},
                      {"remat", planned[m].plan->plan.remat},
                      {"bytes", bytesOf(planned[m])}};
      file.groups.push_back(std::move(group));
    }
    return rt::writeFileAtomically(request.output, rt::describe(file).dump(1) + "\n");
  }

  ModuleOp module;
  const cost::CostOptions &costs;
  const LengthGroupRequest &request;
  int32_t stages = 1, replicas = 1;
  rt::SampleLengths lengths;
  std::vector<rt::Cell> cells;
  rt::LengthGroups shape;
  std::vector<Planned> planned;                     ///< by candidate
  std::vector<planner::LengthCandidate> candidates; ///< by candidate
  std::vector<std::unique_ptr<SharedModel>> models;
  std::string functionsDigest;
  LengthGroupReport report;
};

} // namespace

FailureOr<LengthGroupReport> searchLengthGroups(ModuleOp module, const cost::CostOptions &costs,
                                                const LengthGroupRequest &request) {
  return LengthGroupSearch(module, costs, request).run();
}

} // namespace omnibal::plan
