#include "runtime/batching/Balance.h"
#include "runtime/batching/pack/GroupPacking.h"
#include "runtime/batching/pack/Histogram.h"
#include "runtime/batching/pack/Isf.h"
#include "runtime/batching/pack/LowerBound.h"
#include "runtime/batching/pack/NextFit.h"
#include "runtime/batching/rows/RadixSort.h"
#include "runtime/batching/rows/Rows.h"
#include "runtime/batching/rows/SplitGroups.h"
#include <algorithm>
#include <numeric>

namespace omnibal::rt {
namespace {

std::string nameOf(const SampleLengths &lengths, int64_t sample) {
  return std::to_string(sample) + " (" + std::to_string(lengths.tiles[sample]) + " tiles, " +
         std::to_string(lengths.tokens[sample]) + " tokens)";
}

Status checkArguments(const SampleLengths &lengths, const BatchOptions &options) {
  if (options.tilesCap < 1 || options.tokensCap < 1)
    return invalid("caps of " + std::to_string(options.tilesCap) + " tiles and " +
                   std::to_string(options.tokensCap) + " tokens: both must be at least 1");
  if (options.ranks < 1)
    return invalid(std::to_string(options.ranks) + " ranks: at least one is needed");
  if (lengths.tokens.size() != lengths.tiles.size())
    return invalid("there are tiles of " + std::to_string(lengths.tiles.size()) +
                   " samples, but tokens of " + std::to_string(lengths.tokens.size()));
  if (lengths.knowsPictures() && lengths.squaredTiles.size() != lengths.tiles.size())
    return invalid("there are tiles of " + std::to_string(lengths.tiles.size()) +
                   " samples, but squares of pictures of " +
                   std::to_string(lengths.squaredTiles.size()));
  if (lengths.size() == 0)
    return invalid("there is no sample to balance");
  if (lengths.size() > mostSamples)
    return invalid(std::to_string(lengths.size()) + " samples are more than one call takes (" +
                   std::to_string(mostSamples) + "); balance them in windows");
  const LoadCost &cost = options.cost;
  for (double ns : {cost.tileNs, cost.tokenNs, cost.squareNs, cost.tileSquareNs})
    if (!(ns >= 0 && ns < 1e18))
      return invalid("a cost of " + std::to_string(ns) +
                     " ns: costs are 0 or more, and below 1e18");
  return Status::ok();
}

/// Numbers of the samples over a cap; an error if a length is negative.
Result<std::vector<int64_t>> findOversize(const SampleLengths &lengths, Caps caps) {
  std::vector<int64_t> found;
  for (int64_t i = 0; i < lengths.size(); ++i) {
    int32_t tiles = lengths.tiles[i], tokens = lengths.tokens[i];
    if (tiles < 0 || tokens < 0)
      return invalid("sample " + nameOf(lengths, i) + ": a length is negative");
    if (tiles > caps.tiles || tokens > caps.tokens)
      found.push_back(i);
  }
  return found;
}

Status oversizeError(const SampleLengths &lengths, const std::vector<int64_t> &oversize,
                     const BatchOptions &options) {
  std::string message = std::to_string(oversize.size()) + " of " + std::to_string(lengths.size()) +
                        " samples are over the caps (" + std::to_string(options.tilesCap) +
                        " tiles, " + std::to_string(options.tokensCap) + " tokens): ";
  size_t named = std::min<size_t>(oversize.size(), 5);
  for (size_t i = 0; i < named; ++i)
    message += (i > 0 ? ", " : "") + nameOf(lengths, oversize[i]);
  if (named < oversize.size())
    message += ", ...";
  return invalid(message + "; raise the caps, or give such samples groups of their own, or skip "
                           "them");
}

std::vector<uint32_t> packable(const SampleLengths &lengths, const std::vector<int64_t> &oversize) {
  std::vector<uint32_t> samples;
  samples.reserve(lengths.size() - oversize.size());
  size_t next = 0;
  for (int64_t i = 0; i < lengths.size(); ++i)
    if (next < oversize.size() && oversize[next] == i)
      ++next;
    else
      samples.push_back(static_cast<uint32_t>(i));
  return samples;
}

/// Makes rows as the published `group_random` sampler does: groups are sorted by tokens in units of
/// 512, neighbors are a row, and rows are in random order.
std::vector<uint32_t> isfRows(const GroupLoads &loads, int32_t ranks, Random random) {
  std::vector<uint64_t> items(loads.tokens.size()), scratch;
  for (size_t g = 0; g < items.size(); ++g)
    items[g] = keyed(loads.tokens[g] / 512, static_cast<uint32_t>(g));
  random.shuffle(items.data(), items.size());
  radixSort(items.data(), items.size(), scratch);
  std::vector<uint32_t> order(items.begin(), items.end()); // the group is the lower half
  shuffleRows(ranks, random, order);
  return order;
}

/// Order of the groups, row after row. The sums are not needed any more.
std::vector<uint32_t> orderOf(const SampleLengths &lengths, LoadedGroups &groups,
                              const BatchOptions &options, Random random) {
  GroupLoads loads{std::move(groups.tiles), std::move(groups.tokens), {}};
  std::vector<uint32_t> order(groups.grouping.groups());
  std::iota(order.begin(), order.end(), 0u);
  switch (options.method) {
  case BatchMethod::Random:
    break;
  case BatchMethod::Sorted:
    shuffleRows(options.ranks, random, order);
    break;
  case BatchMethod::Isf:
    return isfRows(loads, options.ranks, random);
  case BatchMethod::Plan:
    addCosts(lengths, groups.grouping, options.cost, loads);
    order = formRows(loads, options.ranks, Random(random.next()));
    orderRows(groups.grouping, loads, options.ranks, random, order);
    break;
  }
  return order;
}

/// Groups in their final order, samples of a group as they are.
void write(const Grouping &grouping, const std::vector<uint32_t> &order, Batches &batches) {
  batches.offsets.resize(order.size() + 1);
  batches.samples.resize(grouping.samples.size());
  int64_t at = 0;
  constexpr size_t ahead = 16; // groups lie anywhere in memory: fetch them in time
  for (size_t g = 0; g < order.size(); ++g) {
    if (g + 2 * ahead < order.size())
      __builtin_prefetch(&grouping.offsets[order[g + 2 * ahead]]);
    if (g + ahead < order.size())
      __builtin_prefetch(grouping.samples.data() + grouping.offsets[order[g + ahead]]);
    batches.offsets[g] = at;
    for (uint32_t i = grouping.offsets[order[g]]; i < grouping.offsets[order[g] + 1]; ++i)
      batches.samples[at++] = grouping.samples[i];
  }
  batches.offsets[order.size()] = at;
}

} // namespace

Result<Batches> balance(const SampleLengths &lengths, const BatchOptions &options) {
  OMNIBAL_RETURN_IF_ERROR(checkArguments(lengths, options));
  Caps caps{static_cast<int32_t>(std::min<int64_t>(options.tilesCap, INT32_MAX)),
            static_cast<int32_t>(std::min<int64_t>(options.tokensCap, INT32_MAX))};
  Batches batches;
  OMNIBAL_ASSIGN_OR_RETURN(batches.oversize, findOversize(lengths, caps));
  if (!batches.oversize.empty() && options.oversize == Oversize::Error)
    return oversizeError(lengths, batches.oversize, options);
  int64_t packed = lengths.size() - static_cast<int64_t>(batches.oversize.size());
  if (packed == 0 && options.oversize == Oversize::Skip)
    return invalid("all " + std::to_string(lengths.size()) +
                   " samples are over the caps and skipped: nothing is left to balance; raise "
                   "the caps");

  LoadedGroups groups;
  Random random(options.seed, options.epoch, 'b');
  Random packing(random.next());
  Bound bound{0, "sum"};
  if (packed > 0 && options.method == BatchMethod::Plan) {
    groups = planGroups(lengths, caps, options.ranks, packing, bound);
  } else if (packed > 0) {
    bound = simpleBound(Histogram(lengths, caps), caps);
    std::vector<uint32_t> samples = packable(lengths, batches.oversize);
    groups = withLoads(lengths, options.method == BatchMethod::Isf
                                    ? isfGroups(lengths, std::move(samples), caps, packing)
                                : options.method == BatchMethod::Random
                                    ? randomGroups(lengths, std::move(samples), caps, packing)
                                    : sortedGroups(lengths, std::move(samples), caps, packing));
  }
  batches.lowerBound = bound.groups;
  batches.boundMethod = bound.method;
  if (options.oversize == Oversize::OwnGroup) {
    for (int64_t sample : batches.oversize) {
      groups.grouping.samples.push_back(static_cast<uint32_t>(sample));
      groups.grouping.close();
      groups.tiles.push_back(static_cast<uint32_t>(lengths.tiles[sample]));
      groups.tokens.push_back(static_cast<uint32_t>(lengths.tokens[sample]));
    }
    batches.lowerBound += static_cast<int64_t>(batches.oversize.size());
  }
  splitToMultiple(lengths, options.ranks, caps, groups);
  std::vector<uint32_t> order = orderOf(lengths, groups, options, Random(random.next()));
  write(groups.grouping, order, batches);
  return batches;
}

} // namespace omnibal::rt
