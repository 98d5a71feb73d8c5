#include "tools/omnibal-compile/LengthGroupOptions.h"
#include <filesystem>

namespace omnibal::compile {
namespace {

rt::Status differs(const char *option, int64_t given, const std::string &file, const char *field,
                   int64_t found, const std::string &of) {
  return rt::invalid(std::string(option) + " is " + std::to_string(given) + ", but `" + field +
                     "` of " + of + " in " + file + " is " + std::to_string(found) + "; leave " +
                     option + " out, or run omnibal-batch again");
}

/// What the command line says besides must be the same.
rt::Status checkGiven(const Options &options, const GivenOptions &given,
                      const cost::ModesDescription &groups) {
  const std::string &file = groups.file;
  const std::string last = "length group \"" + groups.modes.back().name + "\"";
  if (given.tiles && options.tiles != groups.tilesCap())
    return differs("--tiles", options.tiles, file, "tiles_cap", groups.tilesCap(), last);
  if (given.tokens && options.tokens != groups.tokensCap())
    return differs("--tokens", options.tokens, file, "tokens_cap", groups.tokensCap(), last);
  for (const cost::ModeDescription &mode : groups.modes) {
    const std::string of = "length group \"" + mode.name + "\"";
    if (given.microbatches && options.microbatches != mode.microbatches)
      return differs("--microbatches", options.microbatches, file, "microbatches",
                     mode.microbatches, of);
    if (given.schedule && !mode.schedule.empty() && options.schedule != mode.schedule)
      return rt::invalid("--schedule is " + options.schedule + ", but `schedule` of " + of +
                         " in " + file + " is " + mode.schedule + "; leave --schedule out");
    if (given.remat && !mode.remat.empty())
      return rt::invalid("--remat is given, but " + of + " in " + file +
                         " has a `remat` of its own; leave --remat out");
  }
  return rt::Status::ok();
}

/// A cluster's file may say other ranks; omnibal-split-modes compares with it.
rt::Status checkRanks(const Options &options, const cost::ModesDescription &groups) {
  if (!options.cluster.empty())
    return rt::Status::ok();
  if (options.stages != groups.stages)
    return rt::invalid("--stages is " + std::to_string(options.stages) + ", but `stages` in " +
                       groups.file + " is " + std::to_string(groups.stages) +
                       "; compile with --stages " + std::to_string(groups.stages) +
                       " or run omnibal-batch with length groups for other stages");
  if (options.dataParallel != groups.replicas)
    return rt::invalid("--data-parallel is " + std::to_string(options.dataParallel) +
                       ", but `replicas` in " + groups.file + " is " +
                       std::to_string(groups.replicas) + "; compile with --data-parallel " +
                       std::to_string(groups.replicas) +
                       " or run omnibal-batch with length groups for other replicas");
  return rt::Status::ok();
}

rt::Status checkModes(const Options &options) {
  const cost::ModesDescription &groups = *options.lengthGroups;
  const std::string has =
      groups.file + " has " + std::to_string(groups.modes.size()) + " length groups";
  if (options.schedule == "per-step" && groups.modes.size() > 1)
    return rt::invalid("--schedule per-step: " + has +
                       ", but only programs with one training mode plan every step by itself; take "
                       "--schedule auto, or omnibal-batch --max-groups 1");
  if (options.schedule == "per-step")
    return rt::invalid("--schedule per-step: " + groups.file +
                       " says `cuts`, `remat` or a `degree` above 1, but plans of single steps "
                       "choose what is recomputed, and each replica has its own; take --schedule "
                       "auto, or length groups without these");
  if (!options.emitBatchCost.empty() && groups.modes.size() > 1)
    return rt::invalid("--emit-batch-cost: " + has +
                       ", which cost differently; each of them has its `cost` there");
  return rt::Status::ok();
}

} // namespace

rt::Status applyLengthGroups(Options &options, const GivenOptions &given) {
  if (!options.batches.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(options.lengthGroups, cost::readModes(options.batches));
  }
  if (!options.lengthGroups) {
    for (auto [isGiven, name] : {std::pair(given.tiles, "--tiles"), {given.tokens, "--tokens"}})
      if (!isGiven)
        return rt::invalid(std::string(name) + " is required" +
                           (options.batches.empty() ? ""
                                                    : ", as " + options.batches +
                                                          " has no length groups (groups.json)"));
    return rt::Status::ok();
  }
  const cost::ModesDescription &groups = *options.lengthGroups;
  OMNIBAL_RETURN_IF_ERROR(checkGiven(options, given, groups));
  OMNIBAL_RETURN_IF_ERROR(checkRanks(options, groups));
  options.tiles = groups.tilesCap();
  options.tokens = groups.tokensCap();
  options.microbatches = groups.modes.back().microbatches;
  if (options.hasModes())
    return checkModes(options);
  if (const std::string &schedule = groups.modes.front().schedule; !schedule.empty())
    options.schedule = schedule;
  return rt::Status::ok();
}

std::string fileOfMode(const std::string &path, size_t number) {
  if (path.empty() || number == 0)
    return path;
  std::filesystem::path file = path;
  const std::string extension = file.extension();
  return file.replace_extension(std::to_string(number) + extension);
}

} // namespace omnibal::compile
