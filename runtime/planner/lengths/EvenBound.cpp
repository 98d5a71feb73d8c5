#include "runtime/planner/lengths/EvenBound.h"
#include "runtime/planner/lengths/CutFit.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace omnibal::planner {
namespace {

constexpr double unheld = std::numeric_limits<double>::infinity();

/// A candidate whose stages take equally long.
struct EvenMode {
  const rt::LengthGroup *group = nullptr;
  rt::SampleTime time;   ///< of a sample, the least of every layer
  double recomputed = 0; ///< in addition for a full micro-batch, in the same measure
  /// For every nanosecond of it, what a tile, a token and a square take, by what is recomputed;
  /// without those that another is never above.
  std::vector<rt::SampleTime> shares;

  double of(double tiles, double tokens) const {
    double share = recomputed > 0 && !shares.empty() ? unheld : 0;
    for (const rt::SampleTime &each : shares)
      share = std::min(share, each.of(tiles, tokens));
    return time.of(tiles, tokens) + recomputed * share;
  }
};

void addShare(std::vector<rt::SampleTime> &shares, const rt::SampleTime &added) {
  auto isBelow = [](const rt::SampleTime &a, const rt::SampleTime &b) {
    return a.tile <= b.tile && a.token <= b.token && a.square <= b.square;
  };
  if (std::any_of(shares.begin(), shares.end(),
                  [&](const rt::SampleTime &known) { return isBelow(known, added); }))
    return;
  std::erase_if(shares, [&](const rt::SampleTime &known) { return isBelow(added, known); });
  shares.push_back(added);
}

/// The mode's problem, where what options take beyond the least counts as recomputation.
Problem beyondLeastProblem(const ModeProblem &mode) {
  Problem problem = mode.problem;
  for (size_t l = 0; l < problem.layers.size(); ++l)
    for (size_t o = 0; o < problem.layers[l].remat.size(); ++o)
      problem.layers[l].remat[o].recomputeNs =
          static_cast<int64_t>(std::floor(beyondLeast(mode.times[l], o).variable(mode.full)));
  return problem;
}

std::optional<EvenMode> evenMode(const LengthCandidate &candidate, int32_t stages) {
  const ModeProblem &mode = candidate.mode;
  EvenMode result;
  result.group = &candidate.group;
  LoadTime all;
  all.fixedNs = 2 * mode.actionNs * stages;
  for (const std::vector<OptionTime> &options : mode.times) {
    all += leastTime(options);
    for (size_t o = 0; o < options.size(); ++o) {
      const LoadTime more = beyondLeast(options, o);
      if (const double ns = more.variable(mode.full); ns >= 1)
        addShare(result.shares, {more.tileNs / ns, more.tokenNs / ns, more.squareNs / ns});
    }
  }
  const Problem problem = beyondLeastProblem(mode);
  const std::optional<int64_t> least = CutFit(problem).leastRecomputationNs();
  if (!least)
    return std::nullopt;
  rt::LengthGroup group = candidate.group;
  const auto parts = static_cast<double>(stages);
  group.cost = {all.tileNs / parts, all.tokenNs / parts, all.squareNs / parts, all.fixedNs / parts,
                0};
  result.time = rt::sampleTime(group, stages, 1);
  const double rows = 1 + (parts - 1) / static_cast<double>(group.microbatches);
  result.recomputed = static_cast<double>(*least) / parts * rows / group.ranks;
  return result;
}

} // namespace

double boundOverCuts(const std::vector<rt::Cell> &cells,
                     const std::vector<LengthCandidate> &candidates, int32_t stages) {
  std::vector<EvenMode> modes;
  for (const LengthCandidate &candidate : candidates)
    if (std::optional<EvenMode> mode = evenMode(candidate, stages))
      modes.push_back(*std::move(mode));
  double sum = 0;
  for (const rt::Cell &cell : cells) {
    double least = unheld;
    for (const EvenMode &mode : modes)
      if (mode.group->holds(cell.tiles, cell.tokens))
        least = std::min(least, mode.of(cell.tiles, cell.tokens));
    if (least == unheld)
      return 0;
    sum += static_cast<double>(cell.count) * least;
  }
  return sum;
}

} // namespace omnibal::planner
