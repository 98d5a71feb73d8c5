//===- ModesFile.h - The training modes that a folder of batches asks for --------------------===//
//
// What groups.json of omnibal-batch --length-groups says, without JSON.
//
//===----------------------------------------------------------------------------------------===//
#ifndef PASSES_COST_MODESFILE_H
#define PASSES_COST_MODESFILE_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace omnibal::cost {

/// A training mode, for the micro-batches of one length group.
struct ModeDescription {
  std::string name;
  int64_t tilesCap = 0, tokensCap = 0;
  int64_t degree = 1;             ///< replicas that run a micro-batch together
  int64_t microbatches = 1;       ///< of a step
  int64_t steps = 0;              ///< of the epoch
  std::string schedule;           ///< empty: not given
  std::vector<std::string> remat; ///< of each layer; empty: not given
};

struct ModesDescription {
  std::string file; ///< for messages
  int64_t replicas = 1, stages = 1;
  double epochNs = 0;                 ///< of the epoch, as its costs have it
  std::vector<int64_t> cuts;          ///< empty: not given
  std::string model;                  ///< modelDigest of whom it is for; empty: not given
  std::vector<ModeDescription> modes; ///< caps ascend

  int64_t tilesCap() const { return modes.back().tilesCap; }
  int64_t tokensCap() const { return modes.back().tokensCap; }
};

/// Reads groups.json of the folder; none where it has none. Refuses what programs cannot have: a
/// degree that does not divide the largest one, caps on tiles that fall where those on tokens rise,
/// two groups of the same caps and degree, and a schedule that plans every step by itself.
rt::Result<std::optional<ModesDescription>> readModes(const std::string &folder);

/// Returns what tells a model with its stages from others: 32 hexadecimal digits of what its layers
/// do (CostModel::digest) and of the cuts.
std::string modelDigest(const std::string &functions, std::span<const int64_t> cuts);

} // namespace omnibal::cost
#endif // PASSES_COST_MODESFILE_H
