#include "runtime/batching/stream/Stream.h"
#include "runtime/batching/rows/Grouping.h"
#include "runtime/batching/rows/Random.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

constexpr int64_t readAtOnce = 4096;

std::vector<double> weightsOf(const std::vector<StreamSource> &sources) {
  std::vector<double> weights;
  for (const StreamSource &source : sources)
    weights.push_back(source.weight);
  return weights;
}

} // namespace

BalancedStream::BalancedStream(std::vector<StreamSource> theSources, StreamOptions theOptions)
    : sources(std::move(theSources)), ahead(sources.size()), options(theOptions),
      turns(weightsOf(sources)) {}

Result<BalancedStream> BalancedStream::create(std::vector<StreamSource> sources,
                                              StreamOptions options) {
  if (options.window < 1 || options.window > mostSamples)
    return invalid("a window of " + std::to_string(options.window) + " samples: 1 to " +
                   std::to_string(mostSamples) + " are possible");
  double sum = 0;
  for (const StreamSource &source : sources) {
    if (!(source.weight >= 0 && source.weight < 1e18))
      return invalid(source.name + ": a weight of " + std::to_string(source.weight) +
                     "; 0 or more is expected");
    sum += source.weight;
  }
  if (sum <= 0)
    return invalid("there is no data set with a weight to read from");
  return BalancedStream(std::move(sources), options);
}

Result<bool> BalancedStream::take(int32_t source, StreamWindow &window) {
  Ahead &from = ahead[source];
  if (from.next == from.lengths.size()) {
    from.first += from.next;
    from.next = 0;
    from.lengths = {};
    OMNIBAL_ASSIGN_OR_RETURN(int64_t count, sources[source].read(readAtOnce, from.lengths));
    if (count == 0)
      return false;
  }
  int64_t number = from.first + from.next;
  int32_t tiles = from.lengths.tiles[from.next], tokens = from.lengths.tokens[from.next];
  const BatchOptions &batch = options.batch;
  bool over = tiles > batch.tilesCap || tokens > batch.tokensCap;
  if (tiles < 0 || tokens < 0 || (over && batch.oversize == Oversize::Error))
    return invalid(sources[source].name + ": sample " + std::to_string(number) + " (" +
                   std::to_string(tiles) + " tiles, " + std::to_string(tokens) + " tokens) " +
                   (over ? "is over the caps (" + std::to_string(batch.tilesCap) + " tiles, " +
                               std::to_string(batch.tokensCap) +
                               " tokens); raise the caps, or give such samples groups of their "
                               "own, or skip them"
                         : std::string("has a negative length")));
  window.samples.push_back({source, number});
  window.lengths.add(from.lengths, from.next++);
  return true;
}

Result<StreamWindow> BalancedStream::next() {
  StreamWindow window;
  window.number = windows;
  while (static_cast<int64_t>(window.samples.size()) < options.window) {
    int32_t source = turns.next();
    if (source < 0)
      break;
    OMNIBAL_ASSIGN_OR_RETURN(bool taken, take(source, window));
    if (!taken)
      turns.end(source);
  }
  if (window.samples.empty())
    return window;
  ++windows;
  BatchOptions batch = options.batch;
  batch.seed = Random(batch.seed, window.number, 'w').next();
  bool nothing = batch.oversize == Oversize::Skip;
  for (int64_t i = 0; nothing && i < window.lengths.size(); ++i)
    nothing =
        window.lengths.tiles[i] > batch.tilesCap || window.lengths.tokens[i] > batch.tokensCap;
  if (nothing) {
    window.batches.offsets = {0};
    for (int64_t i = 0; i < window.lengths.size(); ++i)
      window.batches.oversize.push_back(i);
    return window;
  }
  auto batches = balance(window.lengths, batch);
  if (!batches)
    return std::move(batches).status().context("window " + std::to_string(window.number));
  window.batches = *std::move(batches);
  return window;
}

} // namespace omnibal::rt
