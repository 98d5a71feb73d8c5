//===- StepProblem.h - What every step's plan has in common, and a step's loads --------------===//
//
// Times are nanoseconds, sizes bytes, both int64. The definition is in docs/step-plans.md; the JSON
// form is read and written by StepProblemJson.h.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPPROBLEM_H
#define RUNTIME_PLANNER_STEP_STEPPROBLEM_H

#include "runtime/planner/model/Decimal.h"
#include "runtime/planner/model/Plan.h"
#include "runtime/planner/model/Problem.h"
#include <array>
#include <limits>

namespace omnibal::planner {

/// Tiles, tokens, sum of squared sample lengths and labels of a micro-batch or a part of one.
struct UnitLoad {
  int64_t tiles = 0, tokens = 0, squares = 0, labels = 0;

  friend bool operator==(const UnitLoad &, const UnitLoad &) = default;
};

/// Time of a function: fixed + tile V + token N + square sum(length^2) + label L, the sum made
/// exactly and rounded up once.
struct TimeModel {
  Decimal fixed{0, 0}, tile{0, 0}, token{0, 0}, square{0, 0}, label{0, 0};
};

/// Bytes at a load: constant + per tile + per token.
struct SizeModel {
  int64_t constant = 0, tile = 0, token = 0;

  bool isZero() const { return constant == 0 && tile == 0 && token == 0; }
  int64_t at(int64_t tiles, int64_t tokens) const {
    return constant + tile * tiles + token * tokens;
  }
};

/// Where a block's life begins: before its unit's forward or backward, with a message that is
/// received there, or with that action.
enum class BlockBegin { Receive, ReceiveGrad, Forward, InputGrad };
/// Where it ends: with that action, or when the message that it holds has been sent.
enum class BlockEnd { Forward, InputGrad, WeightGrad, Send };

/// Memory that one unit of a chunk holds for a part of the step, usually that of one layer call.
struct Block {
  SizeModel bytes;
  BlockBegin begin = BlockBegin::Forward;
  BlockEnd end = BlockEnd::InputGrad;

  /// Between the halves of a split backward only: a whole backward has no such block.
  bool isOfSplitOnly() const {
    return begin == BlockBegin::InputGrad && end == BlockEnd::WeightGrad;
  }
};

/// One way to run a unit of a chunk: what it keeps and what its functions take.
struct StepVariant {
  std::string name;
  std::array<TimeModel, 4> times; ///< by ActionKind; recomputation is in the backward functions
  std::vector<Block> blocks;
};

/// What a chunk's layers see of a micro-batch.
enum class ChunkComponent {
  Vision,   ///< tiles only; it may run in sub-micro-batches, and not at all without tiles
  Language, ///< everything but tiles' own layers
  Mixed,    ///< both
};

struct StepChunk {
  ChunkComponent component = ChunkComponent::Mixed;
  int64_t stage = 0;
  std::vector<StepVariant> variants; ///< the first is the fastest, the last the leanest
};

/// What flows from a chunk to a later one; sizes by the load of the sender's unit.
struct StepEdge {
  int64_t from = 0, to = 0;
  SizeModel bytes;
  SizeModel gradBytes; ///< zero: no gradient flows back
};

/// An action of a unit: a micro-batch's part in a chunk of the vision component, a whole
/// micro-batch (part 0) elsewhere.
struct StepAction {
  ActionKind kind = ActionKind::Forward;
  int32_t microbatch = 0, part = 0, chunk = 0;

  friend bool operator==(const StepAction &, const StepAction &) = default;
};

/// The plan that serves every step: made at the caps, in places of its own.
struct StaticPlan {
  std::vector<std::vector<int64_t>> variants;   ///< [chunk][micro-batch]
  std::vector<std::vector<StepAction>> actions; ///< by stage, for micro-batches that have tiles
};

struct StepProblem {
  int64_t stages = 1, microbatches = 1;
  int64_t tilesCap = 0, tokensCap = 0;
  int64_t rowBucket = 1; ///< tokens are rounded up to a multiple of it where blocks are sized
  std::vector<StepChunk> chunks;
  std::vector<StepEdge> edges;
  Link link;
  std::vector<int64_t> memoryBytes; ///< for blocks; one value or one a stage; empty: no limit
  int64_t alignment = 64;
  int64_t mostParts = 1;  ///< sub-micro-batches of one micro-batch
  int64_t leastTiles = 1; ///< of a sub-micro-batch where there are several
  /// Whether the weight gradients of a chunk are added in the order of micro-batches and parts.
  bool ascendingWeightGradients = true;
  StaticPlan fixed; ///< "static" in files

  /// Bytes for the blocks of a stage; the largest int64 where there is no limit.
  int64_t memoryOf(int64_t stage) const {
    if (memoryBytes.empty())
      return std::numeric_limits<int64_t>::max();
    return memoryBytes[memoryBytes.size() == 1 ? 0 : stage];
  }
};

/// One micro-batch of a step.
struct MicrobatchLoad {
  UnitLoad load;
  /// Tile numbers where a sub-micro-batch may begin (pictures' borders); none: at every tile.
  std::optional<std::vector<int64_t>> cuts;

  friend bool operator==(const MicrobatchLoad &, const MicrobatchLoad &) = default;
};

struct StepLoads {
  int64_t step = 0;
  std::vector<MicrobatchLoad> microbatches;

  friend bool operator==(const StepLoads &, const StepLoads &) = default;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPPROBLEM_H
