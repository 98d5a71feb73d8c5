//===- RunPlan.h - The actions of one run of a mode, and where its regions lie -------------===//
//
// A mode holds the actions and offsets that serve every run. Where steps are planned one by one, a
// step's plan has others; both are looked at through a RunPlan, which owns nothing.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_RUNPLAN_H
#define RUNTIME_PROGRAM_RUNPLAN_H

#include "runtime/program/Program.h"
#include <span>

namespace omnibal::rt {

/// The symbols of a micro-batch, N as regions are sized for it.
using RunLoad = SymbolValues;

/// Tiles of a micro-batch.
struct TileRange {
  int64_t first = 0, count = 0;
};

/// What of a mode runs for each sub-micro-batch where a plan divides micro-batches: the chunks of
/// the vision component, the regions that belong to them, and messages from or to them.
struct DividedMode {
  std::vector<bool> chunks, regions, transfers; ///< by position in the mode
  /// Regions that hold a whole micro-batch of which an action may be about a part: those that plans
  /// place and that are not divided.
  std::vector<bool> joined;
};

struct RunPlan {
  std::span<const Action> actions;
  /// By region: an offset into the arena a micro-batch; of regions that are divided `mostParts` a
  /// micro-batch.
  std::vector<const int64_t *> offsets;
  /// Whether this is the plan of a single step, whose regions move from step to step.
  bool ofStep = false;
  int32_t mostParts = 1; ///< sub-micro-batches of a micro-batch
  /// By micro-batch: where its sub-micro-batches begin and the last one ends. None: all are whole.
  std::span<const std::vector<int64_t>> borders;
  const DividedMode *divided = nullptr; ///< where micro-batches may be divided

  bool isDividedRegion(int32_t region) const { return divided && divided->regions[region]; }
  bool isJoinedRegion(int32_t region) const { return divided && divided->joined[region]; }
  bool isDividedChunk(int32_t chunk) const { return divided && divided->chunks[chunk]; }
  bool isDividedTransfer(int32_t transfer) const { return divided && divided->transfers[transfer]; }

  int64_t offset(int32_t region, Unit unit) const {
    return isDividedRegion(region) ? offsets[region][unit.microbatch * mostParts + unit.part]
                                   : offsets[region][unit.microbatch];
  }
  /// What the region's memory belongs to: all parts of a micro-batch share what is not divided.
  Unit holder(int32_t region, Unit unit) const {
    return isDividedRegion(region) ? unit : Unit{unit.microbatch, 0};
  }
  int32_t partsOf(int32_t microbatch) const {
    return borders.empty() || borders[microbatch].size() < 2
               ? 1
               : static_cast<int32_t>(borders[microbatch].size()) - 1;
  }
  /// The tiles of a unit, whose micro-batch has `tiles`.
  TileRange tilesOf(Unit unit, int64_t tiles) const {
    if (partsOf(unit.microbatch) == 1)
      return {0, tiles};
    const std::vector<int64_t> &at = borders[unit.microbatch];
    return {at[unit.part], at[unit.part + 1] - at[unit.part]};
  }
  /// Those for which the region is laid out.
  RunLoad sizeOf(int32_t region, const TileRange &tiles, const RunLoad &microbatch) const {
    RunLoad size = microbatch;
    if (isDividedRegion(region))
      size.tiles = tiles.count;
    return size;
  }
  /// Where a unit's part of a value begins in the arena: `within` the region, behind the tiles of
  /// the parts before it where the region holds the whole micro-batch.
  int64_t place(int32_t region, Unit unit, const TileRange &tiles, const RunLoad &microbatch,
                const Extent &within, int64_t bytesOfTile) const {
    const RunLoad size = sizeOf(region, tiles, microbatch);
    const int64_t behind = isJoinedRegion(region) ? tiles.first * bytesOfTile : 0;
    return offset(region, unit) + within.evaluate(size) + behind;
  }
};

/// The mode's own.
inline RunPlan ownPlan(const Mode &mode) {
  RunPlan plan;
  plan.actions = mode.actions;
  plan.offsets.reserve(mode.regions.size());
  for (const Region &region : mode.regions)
    plan.offsets.push_back(region.offsets.data());
  return plan;
}

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_RUNPLAN_H
