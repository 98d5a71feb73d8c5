#include "runtime/batching/lengths/GroupedFolder.h"
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/io/Npy.h"
#include "runtime/batching/lengths/EpochJudge.h"
#include "runtime/batching/lengths/GroupsFile.h"
#include "runtime/support/JsonField.h"
#include <filesystem>

namespace omnibal::rt {
namespace {

constexpr int64_t mostGroupsOfFolder = 1 << 20;

EpochOptions readEpochOptions(JsonField root) {
  EpochOptions options;
  const std::string method = root["method"].text();
  options.hbp = method == "hbp";
  if (!options.hbp && method != name(BatchMethod::Plan))
    root["method"].fail("with length groups one of plan, hbp is expected");
  const nlohmann::json &seed = root["seed"].json();
  if (!seed.is_number_unsigned())
    root["seed"].fail("an integer of at least 0 is expected");
  else
    options.seed = seed.get<uint64_t>();
  options.epoch = root["epoch"].integer(0, largestEpoch);
  return options;
}

Status readRows(const std::string &path, GroupedEpoch &epoch) {
  auto begin = [&](int64_t rows) {
    epoch.modeOf.reserve(static_cast<size_t>(rows));
    epoch.stepOf.reserve(static_cast<size_t>(rows));
    return Status::ok();
  };
  auto take = [&](int64_t, std::span<const int32_t> block) {
    for (size_t i = 0; i < block.size(); i += 2) {
      epoch.modeOf.push_back(block[i]);
      epoch.stepOf.push_back(block[i + 1]);
    }
    return Status::ok();
  };
  return readNpyRows(path, 2, begin, take);
}

} // namespace

Result<int64_t> lengthGroupsOf(const std::string &folder) {
  std::error_code ignored;
  const std::string path = std::filesystem::path(folder) / "batches.json";
  if (!std::filesystem::exists(path, ignored))
    return 1;
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, readDescription(folder));
  Status error;
  JsonField fields(root, path, error);
  const int64_t count =
      fields.has("length_groups") ? fields["length_groups"].integer(1, mostGroupsOfFolder) : 1;
  OMNIBAL_RETURN_IF_ERROR(error);
  return count;
}

Result<GroupedFolder> readGroupedFolder(const std::string &folder) {
  const std::filesystem::path path = folder;
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, readDescription(folder));
  GroupedFolder result;
  Status error;
  JsonField fields(root, path / "batches.json", error);
  result.options = readEpochOptions(fields);
  const int64_t samples = fields["samples"].integer(1);
  const int64_t count = fields["length_groups"].integer(1, mostGroupsOfFolder);
  OMNIBAL_RETURN_IF_ERROR(error);
  OMNIBAL_ASSIGN_OR_RETURN(result.lengths, readLengthsTable(folder, samples));
  const std::string groupsPath = path / "groups.json";
  OMNIBAL_ASSIGN_OR_RETURN(result.groups, readLengthGroups(groupsPath));
  if (static_cast<int64_t>(result.groups.groups.size()) != count)
    return Status(Code::DataLoss, groupsPath + ": " + std::to_string(result.groups.groups.size()) +
                                      " length groups, but batches.json says " +
                                      std::to_string(count) + "; run omnibal-batch again");
  OMNIBAL_ASSIGN_OR_RETURN(Batches batches, readGroups(folder));
  result.epoch.samples = std::move(batches.samples);
  result.epoch.offsets = std::move(batches.offsets);
  OMNIBAL_RETURN_IF_ERROR(readRows(path / "rows.npy", result.epoch));
  OMNIBAL_RETURN_IF_ERROR(
      checkEpoch(result.lengths, result.groups, result.epoch, path / "rows.npy"));
  return result;
}

Result<GroupedEpoch> composeGrouped(const GroupedFolder &folder, int64_t later) {
  EpochOptions options = folder.options;
  options.epoch += later;
  return packEpoch(folder.lengths, folder.groups, options);
}

} // namespace omnibal::rt
