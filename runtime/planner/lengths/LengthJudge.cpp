#include "runtime/planner/lengths/LengthJudge.h"
#include <algorithm>
#include <limits>

namespace omnibal::planner {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// How often loads and costs are made to agree: which stage is slowest depends on the samples that
/// a mode gets, and these on what it costs.
constexpr int rounds = 2;

/// What a sample fills of a group is counted by its tokens: a candidate's caps have at least the
/// data's tiles a token.
constexpr double byTokens = 1;

const std::vector<int64_t> &cutsOf(const std::vector<SearchResult> &plans) {
  static const std::vector<int64_t> none;
  for (const SearchResult &each : plans)
    if (each.plan)
      return each.plan->cuts;
  return none;
}

double timeOfBin(const rt::SampleTime &time, const rt::LengthBin &bin) {
  return time.tile * bin.tiles + time.token * bin.tokens + time.square * bin.squares;
}

} // namespace

LengthJudge::LengthJudge(const std::vector<rt::Cell> &cells,
                         const std::vector<LengthCandidate> &candidates, int32_t replicas,
                         int32_t stages)
    : candidates(candidates) {
  shape.replicas = replicas;
  shape.stages = stages;
  for (const LengthCandidate &candidate : candidates)
    shape.groups.push_back(candidate.group);
  bins = rt::binLengths(cells, shape);
}

/// Before anything is known of costs: all samples that a candidate holds.
std::vector<ModeLoad> LengthJudge::loadsHeld() const {
  std::vector<ModeLoad> loads(candidates.size());
  for (size_t m = 0; m < loads.size(); ++m)
    for (const rt::LengthBin &bin : bins)
      if (shape.groups[m].holds(bin.mostTiles, bin.mostTokens))
        loads[m].add(bin.tiles, bin.tokens, bin.squares);
  return loads;
}

/// The samples that each candidate is best for; where there are none, all that it holds.
std::vector<ModeLoad> LengthJudge::loadsOf(const rt::LengthGroups &groups,
                                           const std::vector<bool> &fits,
                                           std::vector<bool> *wanted) const {
  std::vector<ModeLoad> loads = loadsHeld();
  std::vector<bool> isBest(groups.groups.size());
  std::vector<rt::SampleTime> times;
  for (const rt::LengthGroup &group : groups.groups)
    times.push_back(rt::sampleTime(group, groups.stages, byTokens));
  for (const rt::LengthBin &bin : bins) {
    size_t best = times.size();
    for (size_t m = 0; m < times.size(); ++m)
      if (fits[m] && groups.groups[m].holds(bin.mostTiles, bin.mostTokens) &&
          (best == times.size() || timeOfBin(times[m], bin) < timeOfBin(times[best], bin)))
        best = m;
    if (best == times.size())
      continue;
    if (!isBest[best])
      loads[best] = {};
    isBest[best] = true;
    loads[best].add(bin.tiles, bin.tokens, bin.squares);
  }
  if (wanted)
    *wanted = isBest;
  return loads;
}

double LengthJudge::tokenNsOf(const rt::LengthGroup &group, const ModeLoad &load) const {
  const rt::SampleTime time = rt::sampleTime(group, shape.stages, byTokens);
  const double sum = time.tile * load.tiles + time.token * load.tokens + time.square * load.squares;
  return load.tokens > 0 ? sum * group.ranks / load.tokens : 0;
}

LengthVerdict LengthJudge::judge(const std::vector<int64_t> &cuts,
                                 const CandidateOptions &options) const {
  LengthVerdict verdict;
  rt::LengthGroups groups = shape;
  std::vector<bool> fits;
  for (const auto &each : options)
    fits.push_back(each.has_value());
  std::vector<ModeLoad> loads = loadsHeld();
  for (int round = 0; round < rounds; ++round) {
    for (size_t m = 0; m < loads.size(); ++m)
      if (fits[m])
        groups.groups[m].cost = modeCost(candidates[m].mode, cuts, *options[m],
                                         meanGroup(candidates[m].group, loads[m]));
    loads = loadsOf(groups, fits, &verdict.wanted);
  }
  std::vector<int32_t> numbers; // of those that fit
  rt::LengthGroups fitting = groups;
  fitting.groups.clear();
  for (size_t m = 0; m < fits.size(); ++m) {
    verdict.costs.push_back(fits[m] ? groups.groups[m].cost : rt::ModeCost{});
    verdict.tokenNs.push_back(fits[m] ? tokenNsOf(groups.groups[m], loads[m]) : 0);
    if (!fits[m])
      continue;
    numbers.push_back(static_cast<int32_t>(m));
    fitting.groups.push_back(groups.groups[m]);
  }
  rt::ModeChoiceOptions choice;
  choice.maxGroups = std::min<int32_t>(choice.maxGroups, static_cast<int32_t>(numbers.size()));
  std::vector<rt::ModeSet> sets;
  if (!numbers.empty())
    sets = rt::chooseModesOfBins(bins, fitting, byTokens, choice);
  verdict.relaxedNs = never;
  if (sets.empty())
    return verdict;
  for (int32_t mode : sets.front().modes)
    verdict.chosen.push_back(numbers[mode]);
  verdict.relaxedNs = timeOf(verdict.chosen, groups, cuts, options);
  return verdict;
}

double LengthJudge::timeOf(const std::vector<int32_t> &chosen, const rt::LengthGroups &groups,
                           const std::vector<int64_t> &cuts,
                           const CandidateOptions &options) const {
  std::vector<bool> isChosen(candidates.size()), isUsed;
  for (int32_t mode : chosen)
    isChosen[mode] = true;
  const std::vector<ModeLoad> loads = loadsOf(groups, isChosen, &isUsed);
  double sum = 0;
  for (int32_t mode : chosen) {
    if (!isUsed[mode])
      continue;
    double longest = 0;
    rt::LengthGroup group = groups.groups[mode];
    for (const LoadTime &stage : stageTimes(candidates[mode].mode, cuts, *options[mode])) {
      group.cost = {stage.tileNs, stage.tokenNs, stage.squareNs, stage.fixedNs,
                    groups.groups[mode].cost.stepNs};
      const rt::SampleTime time = rt::sampleTime(group, groups.stages, byTokens);
      longest = std::max(longest, time.tile * loads[mode].tiles + time.token * loads[mode].tokens +
                                      time.square * loads[mode].squares);
    }
    sum += longest;
  }
  return sum;
}

std::vector<int> optionsOf(const Problem &problem, const std::vector<std::string> &remat) {
  std::vector<int> options;
  for (size_t l = 0; l < remat.size(); ++l) {
    const std::vector<RematOption> &known = problem.layers[l].remat;
    auto at = std::find_if(known.begin(), known.end(),
                           [&](const RematOption &option) { return option.name == remat[l]; });
    options.push_back(static_cast<int>(at - known.begin()));
  }
  return options;
}

JointSearch searchSharedCuts(const LengthJudge &judge,
                             const std::vector<LengthCandidate> &candidates,
                             std::vector<SearchResult> own) {
  std::vector<JointMode> modes;
  for (size_t m = 0; m < candidates.size(); ++m) {
    JointMode &mode = modes.emplace_back(JointMode{candidates[m].mode.problem, 1, {}});
    mode.known = std::move(own[m]);
    if (!candidates[m].limitBytes.empty())
      mode.problem.cluster.memoryBytes = candidates[m].limitBytes;
    // What a stage of 1f1b holds is the same in longer steps.
    if (mode.problem.schedule == "1f1b")
      mode.problem.microbatches =
          std::min(mode.problem.microbatches, 2 * mode.problem.cluster.stages);
  }
  JointOptions options;
  options.search = {10, false};
  options.value = [&](const std::vector<SearchResult> &plans) {
    CandidateOptions chosen;
    for (size_t m = 0; m < plans.size(); ++m)
      chosen.push_back(
          plans[m].plan ? std::optional(optionsOf(candidates[m].mode.problem, plans[m].plan->remat))
                        : std::nullopt);
    return judge.judge(cutsOf(plans), chosen).relaxedNs;
  };
  return searchJointCuts(modes, options);
}

} // namespace omnibal::planner
