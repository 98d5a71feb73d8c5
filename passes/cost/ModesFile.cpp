#include "passes/cost/ModesFile.h"
#include "runtime/batching/lengths/GroupsFile.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MD5.h"
#include <filesystem>

namespace omnibal::cost {
namespace {

rt::Status checkGroup(const rt::LengthGroup &group, const ModeDescription *before,
                      const std::string &where) {
  if (before && before->tokensCap == group.tokensCap && before->degree == group.degree)
    return rt::invalid(where + ": `tokens_cap` and `degree` are those of \"" + before->name +
                       "\"; two training modes of a program differ in one of them");
  if (before && before->tilesCap > group.tilesCap)
    return rt::invalid(where + ": `tiles_cap` is " + std::to_string(group.tilesCap) +
                       ", less than the " + std::to_string(before->tilesCap) + " of \"" +
                       before->name + "\", whose `tokens_cap` is smaller; give it " +
                       std::to_string(before->tilesCap) + " tiles, too");
  return rt::Status::ok();
}

/// Ranks have their places in context groups of every size, so each size divides the largest.
rt::Status checkDegrees(const ModesDescription &of) {
  int64_t largest = 1;
  for (const ModeDescription &mode : of.modes)
    largest = std::max(largest, mode.degree);
  for (const ModeDescription &mode : of.modes)
    if (largest % mode.degree != 0)
      return rt::invalid(of.file + ": length group \"" + mode.name + "\": the `degree` " +
                         std::to_string(mode.degree) + " does not divide the largest, " +
                         std::to_string(largest) + "; give omnibal-batch other candidates");
  return rt::Status::ok();
}

rt::Result<ModeDescription> describe(const rt::LengthGroup &group, const std::string &where) {
  ModeDescription mode{group.name,
                       group.tilesCap,
                       group.tokensCap,
                       group.degree,
                       group.microbatches,
                       group.steps,
                       "",
                       {}};
  if (group.others.contains("schedule"))
    mode.schedule = group.others["schedule"].get<std::string>();
  if (mode.schedule == "per-step")
    return rt::invalid(where + ": `schedule` is per-step, but only programs with one training "
                               "mode plan every step by itself; take auto");
  if (!mode.schedule.empty() && mode.schedule != "auto" && !planner::chunksPerStage(mode.schedule))
    return rt::invalid(where + ": `schedule` is \"" + mode.schedule + "\"; known are " +
                       planner::scheduleNames + ", auto");
  if (group.others.contains("remat"))
    mode.remat = group.others["remat"].get<std::vector<std::string>>();
  return mode;
}

} // namespace

rt::Result<std::optional<ModesDescription>> readModes(const std::string &folder) {
  const std::string path = (std::filesystem::path(folder) / "groups.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return std::optional<ModesDescription>();
  OMNIBAL_ASSIGN_OR_RETURN(rt::LengthGroups groups, rt::readLengthGroups(path));
  ModesDescription result{path, groups.replicas, groups.stages, groups.epochNs, {}, {}, {}};
  if (groups.others.contains("cuts"))
    result.cuts = groups.others["cuts"].get<std::vector<int64_t>>();
  if (groups.others.contains("model"))
    result.model = groups.others["model"].get<std::string>();
  for (const rt::LengthGroup &group : groups.groups) {
    const std::string where = path + ": length group \"" + group.name + "\"";
    OMNIBAL_RETURN_IF_ERROR(
        checkGroup(group, result.modes.empty() ? nullptr : &result.modes.back(), where));
    OMNIBAL_ASSIGN_OR_RETURN(ModeDescription mode, describe(group, where));
    result.modes.push_back(std::move(mode));
  }
  OMNIBAL_RETURN_IF_ERROR(checkDegrees(result));
  return std::optional(std::move(result));
}

std::string modelDigest(const std::string &functions, std::span<const int64_t> cuts) {
  std::string text = functions;
  for (int64_t cut : cuts)
    text += " " + std::to_string(cut);
  return llvm::MD5::hash(llvm::arrayRefFromStringRef(text)).digest().str().str();
}

} // namespace omnibal::cost
