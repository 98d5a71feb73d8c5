//===- BatchLoads.cpp --------------------------------------------------------------------===//
#include "passes/cost/BatchLoads.h"
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/lengths/GroupedFolder.h"
#include "runtime/batching/steps/Steps.h"
#include <filesystem>

namespace omnibal::cost {
namespace {

GroupLoad loadOf(const rt::SampleLengths &lengths, const std::vector<int64_t> &samples,
                 const std::vector<int64_t> &offsets, int64_t number) {
  GroupLoad group;
  for (int64_t i = offsets[number]; i < offsets[number + 1]; ++i) {
    int64_t tokens = lengths.tokens[samples[i]];
    group.tiles += lengths.tiles[samples[i]];
    group.tokens += tokens;
    group.squaredTokens += tokens * tokens;
    group.squaredTiles += lengths.squaredTilesOf(samples[i]);
  }
  return group;
}

} // namespace

rt::Result<EpochLoads> readBatchLoads(const std::string &folder, int64_t replicas, int64_t tilesCap,
                                      int64_t tokensCap) {
  std::error_code ignored;
  for (const char *name : {"lengths.npy", "batches.json"})
    if (!std::filesystem::exists(std::filesystem::path(folder) / name, ignored))
      return rt::invalid(folder + "/" + name +
                         " is missing, so the loads of the groups are unknown; run omnibal-batch "
                         "again");
  OMNIBAL_ASSIGN_OR_RETURN(rt::Composition composition, rt::readComposition(folder));
  rt::BatchesUse use;
  use.layout.replicas = replicas;
  use.tilesCap = tilesCap;
  use.tokensCap = tokensCap;
  use.samples = composition.lengths.size();
  OMNIBAL_ASSIGN_OR_RETURN(rt::Batches batches, rt::readCheckedGroups(folder, composition, use));
  EpochLoads result;
  result.replicas = replicas;
  result.source = folder;
  for (int64_t g = 0; g < batches.groups(); ++g)
    result.groups.push_back(loadOf(composition.lengths, batches.samples, batches.offsets, g));
  return result;
}

rt::Result<EpochLoads> readModeLoads(const std::string &folder, int64_t replicas, int64_t mode) {
  OMNIBAL_ASSIGN_OR_RETURN(rt::GroupedFolder read, rt::readGroupedFolder(folder));
  EpochLoads result;
  result.replicas = replicas;
  result.source = folder;
  const rt::GroupedEpoch &epoch = read.epoch;
  int64_t group = 0;
  for (int64_t row = 0; row < epoch.rows(); ++row) {
    const int64_t end = group + read.groups.groups[epoch.modeOf[row]].ranks;
    for (; group < end; ++group)
      if (epoch.modeOf[row] == mode)
        result.groups.push_back(loadOf(read.lengths, epoch.samples, epoch.offsets, group));
  }
  return result;
}

} // namespace omnibal::cost
