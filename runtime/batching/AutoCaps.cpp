#include "runtime/batching/AutoCaps.h"
#include "runtime/batching/rows/Random.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace omnibal::rt {
namespace {

constexpr int64_t trialSamples = 8192;
constexpr int64_t tokenStep = 64; ///< caps of tokens are multiples of it
/// Caps of tiles relative to those that the mean sample would need beside the tokens' cap.
constexpr double tileShares[] = {0.8, 1.0, 1.15, 1.35};

std::string format(const char *text, double a, double b = 0, double c = 0, double d = 0) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, text, a, b, c, d);
  return buffer;
}

struct Totals {
  int64_t mostTiles = 0, mostTokens = 0;
  double tiles = 0, tokens = 0;
};

class CapsSearch {
public:
  CapsSearch(const SampleLengths &lengths, const AutoCapsOptions &options)
      : lengths(lengths), options(options) {}

  Result<AutoCaps> run() {
    OMNIBAL_RETURN_IF_ERROR(check());
    OMNIBAL_RETURN_IF_ERROR(measure());
    drawTrial();
    for (auto [tiles, tokens] : pairs()) {
      OMNIBAL_ASSIGN_OR_RETURN(CapsCandidate candidate, tryCaps(tiles, tokens));
      result.candidates.push_back(candidate);
    }
    std::sort(result.candidates.begin(), result.candidates.end(),
              [](const CapsCandidate &a, const CapsCandidate &b) {
                return a.nsPerToken != b.nsPerToken ? a.nsPerToken < b.nsPerToken
                       : a.bytes != b.bytes         ? a.bytes < b.bytes
                                                    : a.tokens < b.tokens;
              });
    result.chosen = result.candidates.front();
    explain();
    return std::move(result);
  }

private:
  Status check() const {
    const StepModel &step = options.step;
    const MemoryModel &memory = options.memory;
    if (!step.cost.isSet())
      return invalid("caps are chosen by predicted time: costs of tiles and tokens are needed");
    if ((options.samplesPerStep > 0) == (options.tokensPerStep > 0))
      return invalid("caps are chosen for a number of samples or of tokens a step: exactly one of "
                     "the two is needed");
    for (double value : {step.cost.tileNs, step.cost.tokenNs, step.cost.squareNs,
                         step.cost.tileSquareNs, step.microbatchNs, step.stepNs, memory.limitBytes,
                         memory.fixedBytes, memory.tileBytes, memory.tokenBytes})
      if (!(value >= 0 && value < 1e18))
        return invalid("a cost or size of " + format("%g", value) +
                       " for the choice of caps: 0 or more is expected");
    if (step.stages < 1 || options.ranks < 1)
      return invalid("stages and ranks must be at least 1");
    if (lengths.size() == 0 || lengths.tiles.size() != lengths.tokens.size())
      return invalid("there is no sample to choose caps for");
    return Status::ok();
  }

  bool fits(int64_t tiles, int64_t tokens) const {
    return options.memory.limitBytes == 0 ||
           options.memory.bytes(tiles, tokens) <= options.memory.limitBytes;
  }

  Status measure() {
    for (int64_t i = 0; i < lengths.size(); ++i) {
      int32_t tiles = lengths.tiles[i], tokens = lengths.tokens[i];
      if (tiles < 0 || tokens < 0)
        return invalid("sample " + std::to_string(i) + " has a negative length");
      if (!fits(tiles, tokens))
        return invalid("sample " + std::to_string(i) + " (" + std::to_string(tiles) + " tiles, " +
                       std::to_string(tokens) + " tokens) alone needs " +
                       format("%.0f bytes, but the limit is %.0f",
                              options.memory.bytes(tiles, tokens), options.memory.limitBytes) +
                       "; raise the limit, or leave such samples out");
      totals.mostTiles = std::max<int64_t>(totals.mostTiles, tiles);
      totals.mostTokens = std::max<int64_t>(totals.mostTokens, tokens);
      totals.tiles += tiles;
      totals.tokens += tokens;
    }
    return Status::ok();
  }

  /// Without replacement; all of a small set.
  void drawTrial() {
    std::vector<uint32_t> order(lengths.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = static_cast<uint32_t>(i);
    int64_t n = std::min(lengths.size(), trialSamples);
    Random random(options.seed, 0, 'c');
    for (int64_t i = 0; i < n; ++i) {
      std::swap(order[i], order[i + random.below(order.size() - i)]);
      trial.add(lengths, order[i]);
    }
  }

  double tokensAStep() const {
    return options.tokensPerStep > 0
               ? static_cast<double>(options.tokensPerStep)
               : static_cast<double>(options.samplesPerStep) * totals.tokens / lengths.size();
  }

  /// From the longest sample up by a fifth each time, as far as memory goes or a step is one row.
  std::vector<std::pair<int64_t, int64_t>> pairs() const {
    auto up = [](double tokens) {
      return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(tokens / tokenStep))) * tokenStep;
    };
    int64_t last = up(std::max<double>(1.25 * tokensAStep() / options.ranks, totals.mostTokens));
    std::vector<std::pair<int64_t, int64_t>> found;
    for (int64_t tokens = up(totals.mostTokens); tokens <= last; tokens = up(tokens * 1.2)) {
      double beside = tokens * totals.tiles / std::max(1.0, totals.tokens);
      for (double share : tileShares) {
        int64_t tiles = std::max<int64_t>({1, totals.mostTiles, std::llround(beside * share)});
        if (fits(tiles, tokens))
          found.push_back({tiles, tokens});
      }
      // All the tiles that memory has left.
      const MemoryModel &memory = options.memory;
      if (memory.limitBytes > 0 && memory.tileBytes > 0) {
        int64_t most = static_cast<int64_t>(
            std::min(2 * beside, (memory.limitBytes - memory.bytes(0, tokens)) / memory.tileBytes));
        if (most >= std::max<int64_t>(1, totals.mostTiles))
          found.push_back({most, tokens});
      }
    }
    if (found.empty()) // memory for the largest samples only, and not for a rounded cap
      found.push_back(
          {std::max<int64_t>(1, totals.mostTiles), std::max<int64_t>(1, totals.mostTokens)});
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  Result<CapsCandidate> tryCaps(int64_t tiles, int64_t tokens) const {
    BatchOptions batch;
    batch.tilesCap = tiles;
    batch.tokensCap = tokens;
    batch.ranks = options.ranks;
    batch.seed = options.seed;
    batch.cost = options.step.cost;
    OMNIBAL_ASSIGN_OR_RETURN(Batches batches, balance(trial, batch));
    double rows = static_cast<double>(batches.groups()) / options.ranks, rowNs = 0;
    double trialTiles = 0, trialTokens = 0;
    for (int64_t g = 0; g < batches.groups(); g += options.ranks)
      rowNs += options.step.microbatchNs + mostOf(batches, g);
    for (int64_t i = 0; i < trial.size(); ++i) {
      trialTiles += trial.tiles[i];
      trialTokens += trial.tokens[i];
    }
    rowNs /= rows;
    CapsCandidate candidate;
    candidate.tiles = tiles;
    candidate.tokens = tokens;
    candidate.bytes = options.memory.bytes(tiles, tokens);
    double rowTokens = std::max(1.0, trialTokens / rows);
    candidate.microbatches = std::max<int64_t>(1, std::llround(tokensAStep() / rowTokens));
    double m = static_cast<double>(candidate.microbatches);
    candidate.samplesPerStep = m * static_cast<double>(trial.size()) / rows;
    candidate.stepNs = (m + options.step.stages - 1) * rowNs + options.step.stepNs;
    candidate.nsPerToken = candidate.stepNs / (m * rowTokens);
    candidate.imbalance =
        statistics(trial, batches, options.ranks, options.step.cost).distRatioCost;
    double groups = static_cast<double>(batches.groups());
    candidate.fillTiles = trialTiles / groups / static_cast<double>(tiles);
    candidate.fillTokens = trialTokens / groups / static_cast<double>(tokens);
    return candidate;
  }

  /// Cost of the row's most loaded rank.
  double mostOf(const Batches &batches, int64_t first) const {
    double most = 0;
    for (int64_t g = first; g < first + options.ranks; ++g) {
      LoadSums sums;
      for (int64_t i = batches.offsets[g]; i < batches.offsets[g + 1]; ++i)
        sums.add(trial, batches.samples[i]);
      most = std::max(most, options.step.cost.of(sums));
    }
    return most;
  }

  void explain() {
    const CapsCandidate &best = result.chosen;
    auto name = [](const CapsCandidate &c) {
      return std::to_string(c.tiles) + " tiles and " + std::to_string(c.tokens) + " tokens";
    };
    std::string &text = result.explanation;
    text = name(best) + ": " + std::to_string(best.microbatches) +
           " micro-batches a step, predicted " +
           format("%.3f ms a step of %.1f samples; groups are %.1f %% full of tiles, %.1f %% of "
                  "tokens",
                  best.stepNs / 1e6, best.samplesPerStep, 100 * best.fillTiles,
                  100 * best.fillTokens) +
           format(", ranks differ by %.2f %%\n", 100 * best.imbalance);
    if (options.memory.limitBytes > 0)
      text += format("memory: %.0f of %.0f bytes\n", best.bytes, options.memory.limitBytes);
    const CapsCandidate *smaller = nullptr, *larger = nullptr;
    for (const CapsCandidate &c : result.candidates) { // best first
      if (c.tokens < best.tokens && !smaller)
        smaller = &c;
      if (c.tokens > best.tokens && !larger)
        larger = &c;
    }
    auto slower = [&](const CapsCandidate &c) {
      return format(" would take %.2f %% longer per token\n",
                    100 * (c.nsPerToken / best.nsPerToken - 1));
    };
    text += smaller ? "smaller: " + name(*smaller) + slower(*smaller)
                    : "smaller: no cap below the longest sample's tokens is possible\n";
    text += larger ? "larger: " + name(*larger) + slower(*larger)
                   : std::string("larger: ") +
                         (options.memory.limitBytes > 0 && !fits(best.tiles, best.tokens * 6 / 5)
                              ? "more tokens do not fit the memory\n"
                              : "a step would be less than one row of groups\n");
  }

  const SampleLengths &lengths;
  const AutoCapsOptions &options;
  Totals totals;
  SampleLengths trial;
  AutoCaps result;
};

} // namespace

Result<AutoCaps> chooseCaps(const SampleLengths &lengths, const AutoCapsOptions &options) {
  return CapsSearch(lengths, options).run();
}

} // namespace omnibal::rt
