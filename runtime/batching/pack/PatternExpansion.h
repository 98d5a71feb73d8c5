//===- PatternExpansion.h - Patterns into groups of samples ----------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_PATTERNEXPANSION_H
#define RUNTIME_BATCHING_PACK_PATTERNEXPANSION_H

#include "runtime/batching/pack/Knapsack.h"
#include "runtime/batching/pack/SampleTypes.h"
#include "runtime/batching/rows/Random.h"

namespace omnibal::rt {

/// Groups with their sums, and what is in none of them yet.
struct Expansion {
  Grouping grouping;
  std::vector<uint32_t> tiles, tokens; ///< of each group
  std::vector<uint32_t> open;          ///< groups that lost a sample: there is room
  std::vector<uint32_t> leftovers;     ///< samples without a group
  std::vector<uint32_t> withoutLoad;   ///< samples of 0 tiles and 0 tokens; they fit anywhere
};

/// Expands patterns of types: pattern p becomes uses[p] groups. A type's samples are dealt to the
/// patterns so that each gets a fair share of short and long ones. Where tokens can pass the cap,
/// long samples are put together with short ones, so that the sums of a pattern's groups come close
/// to the sum of the types' means; the last sample of all such groups is chosen by the room that
/// they have left, whatever its type. Patterns may hold a type more often than there are samples;
/// the groups then hold fewer.
Expansion expandPatterns(const SampleLengths &lengths, Caps caps, const Histogram &histogram,
                         const SampleTypes &types, const std::vector<Pattern> &patterns,
                         const std::vector<int64_t> &uses, Random random);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_PATTERNEXPANSION_H
