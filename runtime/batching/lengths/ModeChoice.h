//===- ModeChoice.h - Which modes an epoch should have --------------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_MODECHOICE_H
#define RUNTIME_BATCHING_LENGTHS_MODECHOICE_H

#include "runtime/batching/lengths/EpochBound.h"
#include "runtime/batching/lengths/LengthBins.h"
#include "runtime/support/Status.h"

namespace omnibal::rt {

struct ModeSet {
  std::vector<int32_t> modes; ///< ascending
  double ns = 0;              ///< sum over binned samples of their least time in any of them
};

struct ModeChoiceOptions {
  int32_t maxGroups = 3;
  double minGain = 0.005; ///< one more group is taken while it saves this share
  size_t sets = 5;        ///< how many of the best sets are wanted
};

/// The best sets of the number of groups that pays, the best first. A sample that no candidate
/// holds is an error.
Result<std::vector<ModeSet>> chooseModes(const std::vector<Cell> &cells,
                                         const LengthGroups &candidates, double theta,
                                         const ModeChoiceOptions &options);

/// The same for samples that are binned already; none where no set holds every bin.
std::vector<ModeSet> chooseModesOfBins(const std::vector<LengthBin> &bins,
                                       const LengthGroups &candidates, double theta,
                                       const ModeChoiceOptions &options);

/// All sets of at most maxGroups candidates that hold every sample, the best first, at most
/// options.sets of each size.
Result<std::vector<ModeSet>> bestSets(const std::vector<Cell> &cells,
                                      const LengthGroups &candidates, double theta,
                                      const ModeChoiceOptions &options);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_MODECHOICE_H
