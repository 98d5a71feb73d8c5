//===- GroupedFolder.h - A folder of batches with several length groups ---------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_GROUPEDFOLDER_H
#define RUNTIME_BATCHING_LENGTHS_GROUPEDFOLDER_H

#include "runtime/batching/lengths/EpochPacking.h"
#include <string>

namespace omnibal::rt {

/// What omnibal-batch --length-groups wrote.
struct GroupedFolder {
  SampleLengths lengths;
  LengthGroups groups;  ///< groups.json
  EpochOptions options; ///< what `epoch` was packed with, apart from its curriculum
  GroupedEpoch epoch;   ///< samples.npy, groups.npy and rows.npy; valid (EpochJudge.h, g1 to g3)
};

/// Says how many length groups a folder has: 1 where batches.json is missing or says nothing of
/// them.
Result<int64_t> lengthGroupsOf(const std::string &folder);

/// Reads and checks all files; errors name file and field.
Result<GroupedFolder> readGroupedFolder(const std::string &folder);

/// Packs the epoch that comes so many after the folder's: a function of lengths, groups.json, seed
/// and epoch. The length groups stay as they are, and only the folder's epoch has a curriculum.
Result<GroupedEpoch> composeGrouped(const GroupedFolder &folder, int64_t later);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_GROUPEDFOLDER_H
