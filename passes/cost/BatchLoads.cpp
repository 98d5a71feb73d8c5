//===- BatchLoads.cpp --------------------------------------------------------------------===//
#include "passes/cost/BatchLoads.h"
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/steps/Steps.h"
#include <filesystem>

namespace omnibal::cost {

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
  const rt::SampleLengths &lengths = composition.lengths;
  for (int64_t g = 0; g < batches.groups(); ++g) {
    GroupLoad &group = result.groups.emplace_back();
    for (int64_t i = batches.offsets[g]; i < batches.offsets[g + 1]; ++i) {
      int64_t tokens = lengths.tokens[batches.samples[i]];
      group.tiles += lengths.tiles[batches.samples[i]];
      group.tokens += tokens;
      group.squaredTokens += tokens * tokens;
      group.squaredTiles += lengths.squaredTilesOf(batches.samples[i]);
    }
  }
  return result;
}

} // namespace omnibal::cost
