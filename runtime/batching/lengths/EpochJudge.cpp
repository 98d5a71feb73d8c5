#include "runtime/batching/lengths/EpochJudge.h"
#include "runtime/batching/rows/Imbalance.h"
#include <algorithm>
#include <cmath>
#include <map>

namespace omnibal::rt {
namespace {

Status broken(const char *rule, const std::string &what) {
  return {Code::DataLoss, "(" + std::string(rule) + "): " + what};
}

std::string numbered(const char *thing, int64_t number) {
  return std::string(thing) + " " + std::to_string(number);
}

/// Ratios of rows, of one mode or of all.
struct Ratios {
  RowRatio tiles, tokens, squares, cost;
  void add(const std::vector<LoadSums> &row, const LoadCost &ns) {
    int32_t n = static_cast<int32_t>(row.size());
    tiles.add(n, [&](int32_t r) { return row[r].tiles; });
    tokens.add(n, [&](int32_t r) { return row[r].tokens; });
    squares.add(n, [&](int32_t r) { return row[r].squaredTokens; });
    cost.add(n, [&](int32_t r) { return ns.of(row[r]); });
  }
  void into(ModeFacts &facts) const {
    facts.distRatioVit = tiles.mean();
    facts.distRatioLlm = tokens.mean();
    facts.distRatioCost = cost.mean();
    facts.abr = squares.mean();
  }
};

/// What the steps of an epoch hold, for its statistics.
struct StepLoad {
  double tokens = 0;
  int64_t samples = 0;
};

class Judge {
public:
  Judge(const SampleLengths &lengths, const LengthGroups &groups, const GroupedEpoch &epoch)
      : lengths(lengths), groups(groups), epoch(epoch), ratios(groups.groups.size()),
        seen(static_cast<size_t>(lengths.size())) {
    facts.modes.resize(groups.groups.size());
  }

  Result<EpochFacts> run() {
    OMNIBAL_RETURN_IF_ERROR(checkShape());
    int64_t group = 0;
    for (int64_t row = 0; row < epoch.rows();) {
      int64_t end = row + 1;
      while (end < epoch.rows() && epoch.stepOf[end] == epoch.stepOf[row])
        ++end;
      OMNIBAL_RETURN_IF_ERROR(addStep(row, end, group));
      row = end;
    }
    if (group != epoch.groups())
      return broken("g2", std::to_string(epoch.groups()) + " groups, but rows of " +
                              std::to_string(group));
    for (int64_t s = 0; s < lengths.size(); ++s)
      if (!seen[s])
        return broken("g1", numbered("sample", s) + " is missing");
    finish();
    return std::move(facts);
  }

private:
  Status checkShape() const {
    if (epoch.offsets.empty() || epoch.offsets.front() != 0 ||
        epoch.offsets.back() != static_cast<int64_t>(epoch.samples.size()))
      return broken("g1", "the offsets do not span the samples");
    if (epoch.modeOf.size() != epoch.stepOf.size())
      return broken("g2", "rows do not all have a length group and a step");
    return Status::ok();
  }

  Status addStep(int64_t begin, int64_t end, int64_t &group) {
    int32_t step = epoch.stepOf[begin], mode = epoch.modeOf[begin];
    if (step != static_cast<int64_t>(facts.stepNs.size()))
      return broken("g3", numbered("row", begin) + " is of step " + std::to_string(step) +
                              ", but step " + std::to_string(facts.stepNs.size()) + " comes next");
    if (mode < 0 || mode >= static_cast<int64_t>(groups.groups.size()))
      return broken("g2", numbered("row", begin) + " is of length group " + std::to_string(mode));
    const LengthGroup &g = groups.groups[mode];
    if (end - begin > g.microbatches)
      return broken("g3", numbered("step", step) + " has " + std::to_string(end - begin) + " rows");
    if (ended.count(mode))
      return broken("g3", numbered("step", step) + " follows one that is short");
    double sum = 0, most = 0;
    StepLoad load;
    for (int64_t row = begin; row < end; ++row) {
      if (epoch.modeOf[row] != mode)
        return broken("g3", numbered("step", step) + " has rows of two length groups");
      OMNIBAL_ASSIGN_OR_RETURN(double ns, addRow(row, mode, group, load));
      sum += ns;
      most = std::max(most, ns);
    }
    if (end - begin < g.microbatches)
      ended[mode] = true;
    addStepTime(mode, sum + (groups.stages - 1) * most + g.cost.stepNs, load);
    return Status::ok();
  }

  void addStepTime(int32_t mode, double ns, const StepLoad &load) {
    facts.epochNs += ns;
    facts.modes[mode].ns += ns;
    ++facts.modes[mode].steps;
    facts.stepNs.push_back(ns);
    facts.stepModes.push_back(mode);
    loads.push_back(load);
  }

  /// Returns the row's time, its micro-batch's own included.
  Result<double> addRow(int64_t row, int32_t mode, int64_t &group, StepLoad &load) {
    const LengthGroup &g = groups.groups[mode];
    if (group + g.ranks > epoch.groups())
      return broken("g2", numbered("row", row) + " lacks groups");
    if (withEmpty.count(mode))
      return broken("g3", numbered("row", row) + " follows one with empty groups");
    sums.assign(g.ranks, {});
    double most = 0;
    int64_t first = epoch.offsets[group];
    for (int32_t r = 0; r < g.ranks; ++r, ++group) {
      OMNIBAL_RETURN_IF_ERROR(addGroup(group, g, sums[r]));
      if (epoch.offsets[group] == epoch.offsets[group + 1])
        withEmpty[mode] = true;
      most = std::max(most, g.cost.load().of(sums[r]));
      load.tokens += sums[r].tokens;
      facts.modes[mode].tokens += static_cast<int64_t>(sums[r].tokens);
    }
    int64_t samples = epoch.offsets[group] - first;
    if (samples == 0)
      return broken("g2", numbered("row", row) + " is empty");
    load.samples += samples;
    facts.modes[mode].samples += samples;
    facts.modes[mode].groups += g.ranks;
    ++facts.modes[mode].rows;
    ratios[mode].add(sums, g.cost.load());
    ratioOfAll.add(sums, g.cost.load());
    return g.cost.microbatchNs + most;
  }

  Status addGroup(int64_t group, const LengthGroup &g, LoadSums &sum) {
    if (epoch.offsets[group] > epoch.offsets[group + 1])
      return broken("g1", numbered("group", group) + " ends before it begins");
    for (int64_t i = epoch.offsets[group]; i < epoch.offsets[group + 1]; ++i) {
      int64_t sample = epoch.samples[i];
      if (sample < 0 || sample >= lengths.size())
        return broken("g1", numbered("sample", sample) + " does not exist");
      if (seen[sample])
        return broken("g1", numbered("sample", sample) + " occurs twice");
      seen[sample] = true;
      double tokens = lengths.tokens[sample];
      sum.tiles += lengths.tiles[sample];
      sum.tokens += tokens;
      sum.squaredTokens += tokens * tokens;
    }
    if (sum.tiles > static_cast<double>(g.tilesCap) ||
        sum.tokens > static_cast<double>(g.tokensCap))
      return broken("g2", numbered("group", group) + " is above the caps of " + g.name);
    return Status::ok();
  }

  void finish() {
    int64_t contextSteps = 0;
    for (size_t m = 0; m < facts.modes.size(); ++m) {
      ModeFacts &mode = facts.modes[m];
      ratios[m].into(mode);
      facts.all.samples += mode.samples;
      facts.all.groups += mode.groups;
      facts.all.rows += mode.rows;
      facts.all.steps += mode.steps;
      facts.all.tokens += mode.tokens;
      contextSteps += groups.groups[m].degree > 1 ? mode.steps : 0;
    }
    ratioOfAll.into(facts.all);
    facts.all.ns = facts.epochNs;
    facts.cr = static_cast<double>(contextSteps) /
               static_cast<double>(std::max<int64_t>(1, facts.all.steps));
    facts.aveTokens = static_cast<double>(facts.all.tokens) /
                      static_cast<double>(std::max<int64_t>(1, facts.all.groups));
    facts.stepVariance8 = stepVariance(8);
    facts.stepVariance32 = stepVariance(32);
    facts.stepTokensVariation = tokensVariation();
    facts.shareDeviation = shareDeviation(32);
  }

  /// Variance of a sample's tokens over all samples.
  double sampleVariance() const {
    double n = static_cast<double>(lengths.size()), mean = 0, squares = 0;
    for (int32_t t : lengths.tokens)
      mean += t;
    mean /= n;
    for (int32_t t : lengths.tokens)
      squares += (t - mean) * (t - mean);
    return squares / n;
  }

  /// Variance of the mean tokens of a sample over blocks of steps, against independent samples.
  double stepVariance(int64_t block) const {
    std::vector<double> means;
    double inverse = 0, mean = 0, squares = 0;
    for (size_t i = static_cast<size_t>(epoch.curriculumSteps); i + block <= loads.size();
         i += block) {
      StepLoad sum;
      for (int64_t k = 0; k < block; ++k) {
        sum.tokens += loads[i + k].tokens;
        sum.samples += loads[i + k].samples;
      }
      means.push_back(sum.tokens / static_cast<double>(sum.samples));
      inverse += 1 / static_cast<double>(sum.samples);
    }
    double n = static_cast<double>(means.size()), variance = sampleVariance();
    if (n < 2 || variance <= 0)
      return 0;
    for (double m : means)
      mean += m / n;
    for (double m : means)
      squares += (m - mean) * (m - mean);
    return squares / (n - 1) / (variance * inverse / n);
  }

  double tokensVariation() const {
    double n = static_cast<double>(loads.size()), mean = 0, squares = 0;
    for (const StepLoad &load : loads)
      mean += load.tokens / n;
    for (const StepLoad &load : loads)
      squares += (load.tokens - mean) * (load.tokens - mean);
    return mean > 0 ? std::sqrt(squares / n) / mean : 0;
  }

  /// Largest difference between a mode's share of `window` steps and of all, curriculum left out.
  double shareDeviation(int64_t window) const {
    int64_t begin = epoch.curriculumSteps, steps = static_cast<int64_t>(loads.size()) - begin;
    double worst = 0;
    if (steps < window)
      return 0;
    for (int32_t mode = 0; mode < static_cast<int32_t>(groups.groups.size()); ++mode) {
      auto is = [&](int64_t i) { return facts.stepModes[begin + i] == mode ? 1 : 0; };
      int64_t all = 0, here = 0;
      for (int64_t i = 0; i < steps; ++i)
        all += is(i);
      for (int64_t i = 0; i < steps; ++i) {
        here += is(i) - (i >= window ? is(i - window) : 0);
        if (i + 1 >= window)
          worst = std::max(worst, std::abs(static_cast<double>(here) / static_cast<double>(window) -
                                           static_cast<double>(all) / static_cast<double>(steps)));
      }
    }
    return worst;
  }

  const SampleLengths &lengths;
  const LengthGroups &groups;
  const GroupedEpoch &epoch;
  EpochFacts facts;
  std::vector<Ratios> ratios;
  Ratios ratioOfAll;
  std::vector<bool> seen;
  std::map<int32_t, bool> ended, withEmpty;
  std::vector<StepLoad> loads;
  std::vector<LoadSums> sums;
};

} // namespace

Result<EpochFacts> judgeEpoch(const SampleLengths &lengths, const LengthGroups &groups,
                              const GroupedEpoch &epoch) {
  auto facts = Judge(lengths, groups, epoch).run();
  if (!facts)
    return Status(Code::Internal,
                  "the epoch is wrong " + facts.status().message() + "; please report this");
  return facts;
}

Status checkEpoch(const SampleLengths &lengths, const LengthGroups &groups,
                  const GroupedEpoch &epoch, const std::string &where) {
  const auto facts = Judge(lengths, groups, epoch).run();
  if (!facts)
    return {Code::DataLoss, where + ": this is no epoch of its length groups " +
                                facts.status().message() + "; run omnibal-batch again"};
  return Status::ok();
}

} // namespace omnibal::rt
