//===- StepLoads.h - What the micro-batches of real data weigh ------------------------------===//
#ifndef PASSES_COST_STEPLOADS_H
#define PASSES_COST_STEPLOADS_H

#include "passes/cost/LayerFacts.h"
#include "runtime/planner/model/Problem.h"
#include "runtime/planner/step/StepProblem.h"
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::cost {

/// Load of one group of samples, or the largest of several.
struct GroupLoad {
  int64_t tiles = 0, tokens = 0;
  int64_t squaredTokens = 0; ///< sum over samples of length^2
  int64_t squaredTiles = 0;  ///< sum over pictures of units^2
};

/// The groups of an epoch, row after row; the `replicas` groups of a row run at the same time.
struct EpochLoads {
  std::vector<GroupLoad> groups;
  int64_t replicas = 1;
  std::string source; ///< where they come from, for messages
};

/// What a micro-batch costs the whole model, forward and backward with what the plan recomputes:
/// tileNs * tiles + tokenNs * tokens + squareNs * sum of squared sample lengths + tileSquareNs *
/// sum of the squared units of pictures.
struct UnitCosts {
  double tileNs = 0, tokenNs = 0, squareNs = 0, tileSquareNs = 0;
  double of(const GroupLoad &load) const {
    return tileNs * static_cast<double>(load.tiles) + tokenNs * static_cast<double>(load.tokens) +
           squareNs * static_cast<double>(load.squaredTokens) +
           tileSquareNs * static_cast<double>(load.squaredTiles);
  }
};

/// Returns full caps with the data's means of squared lengths per token and of squared pictures per
/// unit, so that attention costs what it does on this data and not on one sample of full length.
MicrobatchLoad loadAtCaps(const EpochLoads &epoch, int64_t tilesCap, int64_t tokensCap);

/// Returns the `microbatches` consecutive rows of the full training step whose work is the median
/// (of an even number of steps the lower one). Each micro-batch has the largest tiles,
/// tokens and squares of its row's replicas. If there is no full step, the result is the first
/// step, filled with empty micro-batches.
std::vector<GroupLoad> typicalStep(const EpochLoads &epoch, int64_t microbatches,
                                   const UnitCosts &costs);

/// Returns the micro-batches of a step, each with the largest tiles, tokens and squares of its
/// row's replicas; what the epoch lacks is empty.
std::vector<GroupLoad> stepOf(const EpochLoads &epoch, int64_t microbatches, int64_t step);

/// Returns steps of the first replica, evenly over the epoch's full steps: at most sixteen. Without
/// one, a step of full micro-batches.
std::vector<planner::StepLoads> sampleSteps(const EpochLoads &epoch, int64_t microbatches,
                                            const MicrobatchLoad &full);

/// Returns a share of a full micro-batch as a factor: in ten-thousandths, rounded up.
planner::Decimal factorOf(double share);

/// Returns factors for vision and projector by tiles and for language and head by tokens, in
/// ten-thousandths of the caps, rounded up. A cap of 0 gives no factor.
planner::LoadFactors factorsOf(const GroupLoad &microbatch, int64_t tilesCap, int64_t tokensCap);

} // namespace omnibal::cost
#endif // PASSES_COST_STEPLOADS_H
