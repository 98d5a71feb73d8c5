#include "runtime/batching/lengths/EpochPlan.h"
#include <algorithm>
#include <limits>
#include <numeric>

namespace omnibal::rt {
namespace {

constexpr int64_t trialSamples = 50'000;
/// Samples times sets that few samples are packed with.
constexpr int64_t trialWork = 20'000;

/// Every so manieth sample, from a random one on.
SampleLengths trialPart(const SampleLengths &lengths, Random random) {
  if (lengths.size() <= trialSamples)
    return lengths;
  SampleLengths part;
  int64_t n = lengths.size();
  for (int64_t i = 0; i < trialSamples; ++i) {
    int64_t begin = i * n / trialSamples, end = (i + 1) * n / trialSamples;
    int64_t at = begin + static_cast<int64_t>(random.below(static_cast<uint64_t>(end - begin)));
    part.tiles.push_back(lengths.tiles[at]);
    part.tokens.push_back(lengths.tokens[at]);
  }
  return part;
}

Status checkLengths(const SampleLengths &lengths) {
  if (lengths.size() == 0)
    return invalid("there is no sample to balance");
  if (lengths.size() > mostSamples)
    return invalid(std::to_string(lengths.size()) + " samples are more than one call takes (" +
                   std::to_string(mostSamples) + "); balance them in windows");
  for (int64_t i = 0; i < lengths.size(); ++i)
    if (lengths.tiles[i] < 0 || lengths.tokens[i] < 0)
      return invalid("sample " + std::to_string(i) + ": a length is negative");
  return Status::ok();
}

/// Packs a part of the samples with each set and returns the fastest.
Result<std::vector<int32_t>> fastestOf(const SampleLengths &lengths, const LengthGroups &candidates,
                                       const std::vector<ModeSet> &sets,
                                       const PlanOptions &options) {
  EpochOptions trial = options.epoch;
  trial.epoch = 0; // later epochs choose alike
  trial.curriculum = {};
  SampleLengths part = trialPart(lengths, Random(options.epoch.seed, 0, 'c'));
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < sets.size() && sets.size() > 1; ++i) {
    LengthGroups groups = selected(candidates, sets[i].modes);
    OMNIBAL_ASSIGN_OR_RETURN(GroupedEpoch epoch, packEpoch(part, groups, trial));
    OMNIBAL_ASSIGN_OR_RETURN(EpochFacts facts, judgeEpoch(part, groups, epoch));
    if (facts.epochNs < least) {
      least = facts.epochNs;
      best = i;
    }
  }
  return sets[best].modes;
}

Result<std::vector<int32_t>> choose(const SampleLengths &lengths, const std::vector<Cell> &cells,
                                    const LengthGroups &candidates, double theta,
                                    const PlanOptions &options) {
  ModeChoiceOptions choice = options.choice;
  choice.maxGroups =
      std::min<int32_t>(choice.maxGroups, static_cast<int32_t>(candidates.groups.size()));
  // As many candidates as are allowed are a choice of the caller's.
  if (options.epoch.hbp) {
    OMNIBAL_RETURN_IF_ERROR(
        bestSets(cells, candidates, theta, {static_cast<int32_t>(candidates.groups.size()), 0, 1})
            .status());
    if (static_cast<size_t>(options.choice.maxGroups) < candidates.groups.size())
      return hbpChoice(lengths, candidates);
    std::vector<int32_t> all(candidates.groups.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  if (lengths.size() > fewSamples) {
    OMNIBAL_ASSIGN_OR_RETURN(std::vector<ModeSet> sets,
                             chooseModes(cells, candidates, theta, choice));
    return fastestOf(lengths, candidates, sets, options);
  }
  choice.sets = static_cast<size_t>(std::max<int64_t>(5, trialWork / lengths.size()));
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<ModeSet> sets, bestSets(cells, candidates, theta, choice));
  sets.resize(std::min(sets.size(), std::min<size_t>(choice.sets, 16)));
  return fastestOf(lengths, candidates, sets, options);
}

/// Chosen groups that no sample uses are left out.
bool dropUnused(EpochPlan &plan) {
  std::vector<int32_t> used, number(plan.groups.groups.size(), -1);
  for (size_t m = 0; m < number.size(); ++m)
    if (plan.facts.modes[m].rows > 0) {
      number[m] = static_cast<int32_t>(used.size());
      used.push_back(static_cast<int32_t>(m));
    }
  if (used.size() == number.size())
    return false;
  plan.groups = selected(plan.groups, used);
  for (int32_t &mode : plan.epoch.modeOf)
    mode = number[mode];
  for (size_t i = 0; i < used.size(); ++i)
    plan.epoch.filled[i] = plan.epoch.filled[used[i]];
  plan.epoch.filled.resize(used.size());
  return true;
}

} // namespace

LengthGroups selected(const LengthGroups &candidates, const std::vector<int32_t> &modes) {
  LengthGroups chosen = candidates;
  chosen.groups.clear();
  for (int32_t mode : modes)
    chosen.groups.push_back(candidates.groups[mode]);
  return chosen;
}

Result<EpochPlan> planEpoch(const SampleLengths &lengths, const LengthGroups &candidates,
                            const PlanOptions &options) {
  OMNIBAL_RETURN_IF_ERROR(checkLengths(lengths));
  std::vector<Cell> cells = countLengths(lengths);
  EpochBound all = epochBound(cells, candidates);
  EpochPlan plan;
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<int32_t> modes,
                           choose(lengths, cells, candidates, all.theta, options));
  plan.groups = selected(candidates, modes);
  OMNIBAL_ASSIGN_OR_RETURN(plan.epoch, packEpoch(lengths, plan.groups, options.epoch));
  OMNIBAL_ASSIGN_OR_RETURN(plan.facts, judgeEpoch(lengths, plan.groups, plan.epoch));
  if (dropUnused(plan)) {
    OMNIBAL_ASSIGN_OR_RETURN(plan.facts, judgeEpoch(lengths, plan.groups, plan.epoch));
  }
  plan.boundAllNs = all.ns;
  plan.boundNs = epochBound(cells, plan.groups).ns;
  if (plan.boundNs > plan.facts.epochNs * (1 + 1e-9))
    return Status(Code::Internal,
                  "the epoch is wrong (g5): its bound is above its time; please report this");
  return plan;
}

} // namespace omnibal::rt
