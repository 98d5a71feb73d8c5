//===- GroupedFolders.h - Folders as omnibal-batch --length-groups writes them ----------------===//
#ifndef TEST_UNIT_RUNTIME_BATCHING_GROUPEDFOLDERS_H
#define TEST_UNIT_RUNTIME_BATCHING_GROUPEDFOLDERS_H

#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/lengths/EpochPacking.h"
#include "runtime/batching/lengths/GroupsFile.h"

namespace omnibal::rt {

/// Length groups "G0", "G1", ... of degree 1 for texts: their tokens and micro-batches.
inline LengthGroups textGroups(int32_t replicas,
                               const std::vector<std::pair<int64_t, int64_t>> &modes) {
  LengthGroups groups;
  groups.replicas = replicas;
  groups.tokensPerStep = 1000;
  for (auto [tokens, microbatches] : modes) {
    LengthGroup &group = groups.groups.emplace_back();
    group.name = "G" + std::to_string(groups.groups.size() - 1);
    group.tilesCap = 1;
    group.tokensCap = tokens;
    group.ranks = replicas;
    group.microbatches = microbatches;
    // Long micro-batches cost more, so that short samples are at home in short ones.
    group.cost = {0, 10.0 * static_cast<double>(groups.groups.size()), 1, 5, 5};
  }
  return groups;
}

/// Packs an epoch of these length groups and writes it.
inline Result<GroupedEpoch> writeGroupedFolder(const std::string &folder,
                                               const SampleLengths &lengths,
                                               const LengthGroups &groups,
                                               const EpochOptions &options) {
  OMNIBAL_ASSIGN_OR_RETURN(GroupedEpoch epoch, packEpoch(lengths, groups, options));
  Batches batches;
  batches.samples = epoch.samples;
  batches.offsets = epoch.offsets;
  LengthGroupFiles files{{}, describe(groups)};
  for (int64_t row = 0; row < epoch.rows(); ++row)
    files.rows.insert(files.rows.end(), {epoch.modeOf[row], epoch.stepOf[row]});
  const nlohmann::ordered_json description = {{"method", options.hbp ? "hbp" : "plan"},
                                              {"tiles_cap", 1},
                                              {"tokens_cap", groups.groups.back().tokensCap},
                                              {"ranks", groups.replicas},
                                              {"seed", options.seed},
                                              {"epoch", options.epoch},
                                              {"oversize_policy", "error"},
                                              {"length_groups", groups.groups.size()},
                                              {"samples", lengths.size()},
                                              {"groups", epoch.groups()},
                                              {"rows", epoch.rows()}};
  OMNIBAL_RETURN_IF_ERROR(writeBatchesFolder(folder, lengths, batches, description, &files));
  return epoch;
}

} // namespace omnibal::rt
#endif // TEST_UNIT_RUNTIME_BATCHING_GROUPEDFOLDERS_H
