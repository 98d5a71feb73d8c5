#include "runtime/batching/lengths/ModeChoice.h"
#include <algorithm>
#include <limits>

namespace omnibal::rt {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// Sets that are looked into at most; 46 candidates have 163,185 sets of four.
constexpr int64_t mostSets = 2'000'000;

/// Depth first over sets of candidates.
class SetSearch {
public:
  SetSearch(const std::vector<LengthBin> &bins, const LengthGroups &candidates, double theta,
            const ModeChoiceOptions &options)
      : options(options), best(static_cast<size_t>(options.maxGroups)) {
    for (const LengthGroup &g : candidates.groups) {
      SampleTime time = sampleTime(g, candidates.stages, theta);
      times.emplace_back();
      for (const LengthBin &bin : bins)
        times.back().push_back(g.holds(bin.mostTiles, bin.mostTokens)
                                   ? time.tile * bin.tiles + time.token * bin.tokens +
                                         time.square * bin.squares
                                   : never);
    }
    least.assign(times.size() + 1, std::vector<double>(bins.size(), never));
    for (size_t m = times.size(); m-- > 0;)
      for (size_t b = 0; b < bins.size(); ++b)
        least[m][b] = std::min(least[m + 1][b], times[m][b]);
  }

  std::vector<std::vector<ModeSet>> run() {
    extend(0, std::vector<double>(least[0].size(), never));
    return std::move(best);
  }

private:
  void extend(size_t from, const std::vector<double> &before) {
    for (size_t m = from; m < times.size() && looked < mostSets; ++m, ++looked) {
      std::vector<double> now(before.size());
      double sum = 0, rest = 0;
      for (size_t b = 0; b < now.size(); ++b) {
        now[b] = std::min(before[b], times[m][b]);
        sum += now[b];
        rest += std::min(now[b], least[m + 1][b]);
      }
      if (now == before && !now.empty())
        continue; // best for no bin
      modes.push_back(static_cast<int32_t>(m));
      if (sum < never)
        record(sum);
      if (modes.size() < best.size() && rest < never && mayEnter(rest))
        extend(m + 1, now);
      modes.pop_back();
    }
  }

  void record(double sum) {
    std::vector<ModeSet> &list = best[modes.size() - 1];
    auto at = std::upper_bound(list.begin(), list.end(), sum,
                               [](double ns, const ModeSet &set) { return ns < set.ns; });
    list.insert(at, {modes, sum});
    if (list.size() > options.sets)
      list.pop_back();
  }

  /// Whether a larger set of at least this sum would be among the best.
  bool mayEnter(double rest) const {
    for (size_t size = modes.size(); size < best.size(); ++size)
      if (best[size].size() < options.sets || rest < best[size].back().ns)
        return true;
    return false;
  }

  const ModeChoiceOptions &options;
  std::vector<std::vector<double>> times; ///< of each candidate for each bin
  std::vector<std::vector<double>> least; ///< of the candidates from this one on
  std::vector<std::vector<ModeSet>> best; ///< of each size
  std::vector<int32_t> modes;
  int64_t looked = 0;
};

Status checkHeld(const std::vector<Cell> &cells, const LengthGroups &candidates) {
  for (const Cell &cell : cells)
    if (std::none_of(candidates.groups.begin(), candidates.groups.end(),
                     [&](const LengthGroup &g) { return g.holds(cell.tiles, cell.tokens); }))
      return invalid(std::to_string(cell.count) + " samples of " + std::to_string(cell.tiles) +
                     " tiles and " + std::to_string(cell.tokens) +
                     " tokens fit into no length group; the candidates need larger caps "
                     "(tiles_cap, tokens_cap)");
  return Status::ok();
}

Result<std::vector<std::vector<ModeSet>>> searchSets(const std::vector<Cell> &cells,
                                                     const LengthGroups &candidates, double theta,
                                                     const ModeChoiceOptions &options) {
  OMNIBAL_RETURN_IF_ERROR(checkHeld(cells, candidates));
  std::vector<LengthBin> bins = binLengths(cells, candidates);
  auto best = SetSearch(bins, candidates, theta, options).run();
  if (std::all_of(best.begin(), best.end(), [](const auto &list) { return list.empty(); }))
    return invalid("no " + std::to_string(options.maxGroups) +
                   " of the length groups hold all samples together; allow more (--max-groups) or "
                   "give the largest group larger caps");
  return best;
}

/// The sets of the number of groups that pays; none where there is no set at all.
std::vector<ModeSet> setsThatPay(std::vector<std::vector<ModeSet>> best, double minGain) {
  size_t size = 0;
  while (size < best.size() && best[size].empty())
    ++size;
  if (size == best.size())
    return {};
  while (size + 1 < best.size() && !best[size + 1].empty() &&
         best[size + 1][0].ns <= best[size][0].ns * (1 - minGain))
    ++size;
  return std::move(best[size]);
}

} // namespace

Result<std::vector<ModeSet>> chooseModes(const std::vector<Cell> &cells,
                                         const LengthGroups &candidates, double theta,
                                         const ModeChoiceOptions &options) {
  OMNIBAL_ASSIGN_OR_RETURN(auto best, searchSets(cells, candidates, theta, options));
  return setsThatPay(std::move(best), options.minGain);
}

std::vector<ModeSet> chooseModesOfBins(const std::vector<LengthBin> &bins,
                                       const LengthGroups &candidates, double theta,
                                       const ModeChoiceOptions &options) {
  return setsThatPay(SetSearch(bins, candidates, theta, options).run(), options.minGain);
}

Result<std::vector<ModeSet>> bestSets(const std::vector<Cell> &cells,
                                      const LengthGroups &candidates, double theta,
                                      const ModeChoiceOptions &options) {
  OMNIBAL_ASSIGN_OR_RETURN(auto best, searchSets(cells, candidates, theta, options));
  std::vector<ModeSet> all;
  for (std::vector<ModeSet> &list : best)
    all.insert(all.end(), list.begin(), list.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const ModeSet &a, const ModeSet &b) { return a.ns < b.ns; });
  return all;
}

} // namespace omnibal::rt
