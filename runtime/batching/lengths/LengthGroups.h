//===- LengthGroups.h - Training modes for groups of lengths --------------------------------===//
//
// A length group is a training mode: caps, a context-parallel degree, a number of micro-batches and
// what its micro-batches cost. Every step of an epoch runs one mode. docs/batching.md defines the
// time of an epoch and what a valid epoch is; these are the types for both.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_LENGTHGROUPS_H
#define RUNTIME_BATCHING_LENGTHS_LENGTHGROUPS_H

#include "runtime/batching/rows/BatchTypes.h"
#include <nlohmann/json.hpp>

namespace omnibal::rt {

constexpr int64_t mostMicrobatches = 1 << 20; ///< of a mode

/// Nanoseconds of the slowest stage for one of the mode's context groups.
struct ModeCost {
  double tileNs = 0, tokenNs = 0, squareNs = 0; ///< a tile, a token, a squared sample length
  double microbatchNs = 0, stepNs = 0;
  LoadCost load() const { return {tileNs, tokenNs, squareNs, 0}; }
};

struct LengthGroup {
  std::string name;
  int64_t tilesCap = 0, tokensCap = 0; ///< of a group of samples, the whole context group
  int32_t degree = 1;                  ///< context-parallel ranks that share a group
  int32_t ranks = 1;                   ///< data-parallel ranks: replicas / degree
  int64_t microbatches = 1;            ///< rows of a step
  int64_t steps = 0;                   ///< of the epoch that a folder's groups.json is about
  ModeCost cost;
  nlohmann::ordered_json others; ///< schedule, remat and bytes, where they are given

  bool holds(int32_t tiles, int32_t tokens) const {
    return tiles <= tilesCap && tokens <= tokensCap;
  }
  double costOf(double tiles, double tokens) const {
    return cost.tileNs * tiles + cost.tokenNs * tokens + cost.squareNs * tokens * tokens;
  }
};

struct LengthGroups {
  int32_t replicas = 1, stages = 1;
  int64_t tokensPerStep = 0;     ///< 0: not given
  double epochNs = 0;            ///< of the epoch that a folder's groups.json is about
  nlohmann::ordered_json others; ///< model and cuts, where they are given
  std::vector<LengthGroup> groups;
};

/// The samples of an epoch in groups, rows and steps. Row r has as many groups as its length group
/// has ranks; the rows of a step are neighbors.
struct GroupedEpoch {
  std::vector<int64_t> samples, offsets{0}; ///< as in Batches
  std::vector<int32_t> modeOf, stepOf;      ///< of each row
  std::vector<int64_t> filled;              ///< samples a length group took from shorter ones
  int64_t curriculumSteps = 0;              ///< the first steps, left out of statistics
  int64_t rows() const { return static_cast<int64_t>(modeOf.size()); }
  int64_t groups() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_LENGTHGROUPS_H
