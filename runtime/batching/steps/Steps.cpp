#include "runtime/batching/steps/Steps.h"
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/lengths/GroupedFolder.h"
#include "runtime/batching/lengths/GroupsFile.h"
#include "runtime/batching/steps/MixCourse.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/Json.h"
#include <algorithm>
#include <filesystem>

namespace omnibal::rt {
namespace {

using nlohmann::json;

std::string namesOf(const std::vector<ModeUse> &modes) {
  std::string text;
  for (const ModeUse &mode : modes)
    text += (text.empty() ? "" : ", ") + mode.name;
  return text;
}

/// The number of the mode that a step of a steps file names.
Result<int32_t> modeOfStep(const json &step, const std::string &where,
                           const std::vector<ModeUse> &modes) {
  const json said = step.value("mode", json());
  for (size_t i = 0; i < modes.size(); ++i)
    if (said == json(modes[i].name) || (said.is_number_integer() && said == json(i)))
      return static_cast<int32_t>(i);
  return invalid(where + ": " +
                 (said.is_null() ? std::string("the step has no \"mode\"")
                                 : "the \"mode\" " +
                                       said.dump(-1, ' ', false, json::error_handler_t::replace) +
                                       " is no train mode of the program") +
                 "; give its name or its number, from 0 on: " + namesOf(modes));
}

/// Appends the groups of one line, and with several modes its mode.
Status readStep(const std::string &line, const std::string &where, const StepSource::Layout &layout,
                const std::vector<ModeUse> &modes, const FindSample &find, EpochGroups &epoch) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parseJson(line, where));
  if (!value.is_object() || !value.contains("groups") || !value["groups"].is_array())
    return invalid(where + ": an object with an array \"groups\" is expected");
  int64_t microbatches = layout.microbatches;
  int32_t mode = 0;
  if (!modes.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(mode, modeOfStep(value, where, modes));
    microbatches = modes[mode].microbatches;
    epoch.modes.push_back(mode);
    epoch.firstRows.push_back(epoch.firstRows.back() + microbatches);
  }
  const json &list = value["groups"];
  const int64_t groups = microbatches * layout.ranks(static_cast<size_t>(mode));
  if (static_cast<int64_t>(list.size()) != groups)
    return invalid(where + ": " + std::to_string(list.size()) +
                   " groups, but the program needs micro-batches x data-parallel ranks = " +
                   std::to_string(groups));
  Batches &out = epoch.batches;
  for (size_t g = 0; g < list.size(); ++g) {
    if (!list[g].is_array())
      return invalid(where + ": groups[" + std::to_string(g) + "] is not an array of sample keys");
    for (const json &key : list[g]) {
      int64_t sample = key.is_string() ? find(key.get_ref<const std::string &>()) : -1;
      if (sample < 0)
        return invalid(where + ": groups[" + std::to_string(g) + "] names the sample " +
                       key.dump(-1, ' ', false, json::error_handler_t::replace) +
                       ", which is in none of the --data shards");
      out.samples.push_back(sample);
    }
    out.offsets.push_back(static_cast<int64_t>(out.samples.size()));
  }
  return Status::ok();
}

/// Whether the folder says how to compose its groups. A batches.json of other tools may hold less.
Result<bool> hasComposition(const std::string &folder) {
  std::error_code ignored;
  std::filesystem::path path = folder;
  if (!std::filesystem::exists(path / "lengths.npy", ignored) ||
      !std::filesystem::exists(path / "batches.json", ignored))
    return false;
  std::string file = path / "batches.json";
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(file));
  OMNIBAL_ASSIGN_OR_RETURN(json root, parseJson(text, file));
  return root.is_object() && root.contains("method") && root.contains("epoch");
}

Status checkSettings(const Composition &composition, const BatchesUse &use,
                     const std::string &where) {
  const BatchOptions &o = composition.options;
  const std::vector<int32_t> &tiles = composition.lengths.tiles;
  // Without pictures the cap on tiles says nothing; omnibal-batch wants it to be 1 at least.
  bool pictures = std::any_of(tiles.begin(), tiles.end(), [](int32_t n) { return n > 0; });
  const int64_t ranks = use.layout.ranks(0);
  if (o.ranks != ranks)
    return invalid(where + ": the groups are balanced over " + std::to_string(o.ranks) +
                   " ranks, but the program has " + std::to_string(ranks) +
                   " data-parallel ranks; run omnibal-batch with --ranks " + std::to_string(ranks));
  if ((pictures && o.tilesCap > use.tilesCap) || o.tokensCap > use.tokensCap)
    return invalid(where + ": groups of up to " + std::to_string(o.tilesCap) + " tiles and " +
                   std::to_string(o.tokensCap) + " tokens, but the program was compiled for " +
                   std::to_string(use.tilesCap) + " tiles and " + std::to_string(use.tokensCap) +
                   " tokens; run omnibal-batch or omnibal-compile with the other's --tiles and "
                   "--tokens");
  return Status::ok();
}

std::string sampleName(const BatchesUse &use, int64_t sample) {
  std::string number = "sample " + std::to_string(sample);
  return use.nameOf ? number + " (" + use.nameOf(sample) + ")" : number;
}

Status checkLengths(const SampleLengths &lengths, const BatchesUse &use, const std::string &where) {
  if (lengths.size() != use.samples)
    return invalid(where + ": lengths of " + std::to_string(lengths.size()) +
                   " samples, but --data holds " + std::to_string(use.samples) +
                   "; were the batches made for another data set?");
  for (int64_t i = 0; use.tilesOf && i < lengths.size(); ++i)
    if (lengths.tiles[i] != use.tilesOf(i))
      return invalid(where + ": " + sampleName(use, i) + " has " + std::to_string(use.tilesOf(i)) +
                     (use.units ? " units" : " pictures") + " in --data, but " +
                     std::to_string(lengths.tiles[i]) +
                     " here; were the batches made for another data set, or from a table in "
                     "another order" +
                     (use.units ? ", or without --preprocess?" : "?"));
  for (int64_t i = 0; use.squaredTilesOf && lengths.knowsPictures() && i < lengths.size(); ++i)
    if (lengths.squaredTiles[i] != SampleLengths::unknown &&
        lengths.squaredTiles[i] != use.squaredTilesOf(i))
      return invalid(where + ": the pictures of " + sampleName(use, i) +
                     " have units whose squares sum to " + std::to_string(use.squaredTilesOf(i)) +
                     " in --data, but to " + std::to_string(lengths.squaredTiles[i]) +
                     " in squares.npy; were the batches made for another data set?");
  return Status::ok();
}

Status checkLoads(const SampleLengths &lengths, const Batches &batches, const BatchesUse &use,
                  const std::string &where) {
  for (int64_t g = 0; g < batches.groups(); ++g) {
    int64_t tiles = 0, tokens = 0;
    for (int64_t i = batches.offsets[g]; i < batches.offsets[g + 1]; ++i) {
      tiles += lengths.tiles[batches.samples[i]];
      tokens += lengths.tokens[batches.samples[i]];
    }
    if (tiles <= use.tilesCap && tokens <= use.tokensCap)
      continue;
    return invalid(where + ": group " + std::to_string(g) + " (first " +
                   sampleName(use, batches.samples[batches.offsets[g]]) + ") has " +
                   std::to_string(tiles) + " tiles and " + std::to_string(tokens) +
                   " tokens, but the program was compiled for at most " +
                   std::to_string(use.tilesCap) + " and " + std::to_string(use.tokensCap) +
                   "; run omnibal-batch with --oversize skip or compile for larger caps");
  }
  return Status::ok();
}

/// All that decides what balance() gives for later epochs.
uint64_t identityOf(const Composition &composition) {
  const BatchOptions &o = composition.options;
  json settings = {name(o.method), name(o.oversize), o.tilesCap, o.tokensCap,
                   o.ranks,        o.seed,           o.epoch,    o.cost.tileNs,
                   o.cost.tokenNs, o.cost.squareNs};
  if (o.cost.tileSquareNs > 0)
    settings.push_back(o.cost.tileSquareNs);
  if (const Mix &mix = composition.mix; mix.isSet())
    settings.push_back({mix.sizes, mix.phases[0].weights, mix.samples});
  for (size_t i = 1; i < composition.mix.phases.size(); ++i)
    settings.push_back({composition.mix.phases[i].epoch, composition.mix.phases[i].weights});
  uint64_t state = fnv1a(settings.dump());
  for (const std::vector<int32_t> *list : {&composition.lengths.tiles, &composition.lengths.tokens})
    state = fnv1aWords(std::span<const int32_t>(*list), state);
  if (o.cost.tileSquareNs > 0)
    state = fnv1aWords(std::span<const int64_t>(composition.lengths.squaredTiles), state);
  return state;
}

Status checkSamples(const Batches &batches, const BatchesUse &use, const std::string &folder) {
  int64_t groups = batches.groups(), replicas = use.layout.ranks(0);
  if (groups % replicas != 0)
    return invalid(folder + "/groups.npy: " + std::to_string(groups) +
                   " groups are no multiple of the program's " + std::to_string(replicas) +
                   " data-parallel ranks; run omnibal-batch with --ranks " +
                   std::to_string(replicas));
  for (int64_t sample : batches.samples)
    if (sample < 0 || sample >= use.samples)
      return invalid(folder + "/samples.npy: sample " + std::to_string(sample) +
                     " does not exist (the data set has " + std::to_string(use.samples) +
                     " samples); were the batches made for another data set?");
  return Status::ok();
}

/// Later epochs have as many samples as a mix says, whatever the first one has.
Status checkMix(const Composition &composition, const Batches &batches, const std::string &folder) {
  const auto first = static_cast<int64_t>(batches.samples.size());
  const int64_t said = composition.mix.samples;
  const bool skips = composition.options.oversize == Oversize::Skip;
  if (!composition.mix.isSet() || said == first || (skips && said > first))
    return Status::ok();
  return {Code::DataLoss, folder + "/batches.json: the field \"mix\" says " + std::to_string(said) +
                              " samples an epoch, but samples.npy has " + std::to_string(first) +
                              "; run omnibal-batch again"};
}

Status checkMode(const LengthGroup &group, const ModeUse &mode, bool pictures,
                 const std::string &where) {
  const std::string start = where + ": length group \"" + group.name + "\" has ";
  auto unlike = [&](const char *what, int64_t own, int64_t ofProgram) {
    return invalid(start + what + " " + std::to_string(own) + ", but the program's train mode " +
                   std::to_string(ofProgram) + "; compile the program with --batches for these");
  };
  if (group.tokensCap > mode.tokensCap)
    return unlike("tokens_cap", group.tokensCap, mode.tokensCap);
  if (pictures && group.tilesCap > mode.tilesCap)
    return unlike("tiles_cap", group.tilesCap, mode.tilesCap);
  if (group.degree != mode.degree)
    return unlike("degree", group.degree, mode.degree);
  if (group.microbatches != mode.microbatches)
    return unlike("microbatches", group.microbatches, mode.microbatches);
  return Status::ok();
}

/// The train mode of each length group.
Result<std::vector<int32_t>> modesOfGroups(const GroupedFolder &folder, const BatchesUse &use,
                                           const std::string &where) {
  const std::vector<LengthGroup> &groups = folder.groups.groups;
  if (folder.groups.replicas != use.layout.replicas)
    return invalid(where + ": the length groups are for " + std::to_string(folder.groups.replicas) +
                   " ranks, but the program has " + std::to_string(use.layout.replicas) +
                   " data-parallel ranks; run omnibal-batch with --ranks " +
                   std::to_string(use.layout.replicas));
  const std::vector<int32_t> &tiles = folder.lengths.tiles;
  const bool pictures = std::any_of(tiles.begin(), tiles.end(), [](int32_t n) { return n > 0; });
  std::vector<int32_t> numbers;
  for (const LengthGroup &group : groups) {
    const auto mode = std::find_if(use.modes.begin(), use.modes.end(),
                                   [&](const ModeUse &m) { return m.name == group.name; });
    if (mode == use.modes.end())
      return invalid(where + ": length group \"" + group.name +
                     "\" is no train mode of the program, which has " + namesOf(use.modes) +
                     "; compile the program with --batches for these length groups");
    OMNIBAL_RETURN_IF_ERROR(checkMode(group, *mode, pictures, where));
    numbers.push_back(static_cast<int32_t>(mode - use.modes.begin()));
  }
  return numbers;
}

/// The program has one train mode, or the folder one length group, but the other does not.
Status otherCount(const std::string &folder, int64_t groups, const BatchesUse &use) {
  auto counted = [](int64_t count, const char *what) {
    return (count == 1 ? "one " : std::to_string(count) + " ") + what + (count == 1 ? "" : "s");
  };
  const auto modes = static_cast<int64_t>(std::max<size_t>(use.modes.size(), 1));
  return invalid(folder + "/batches.json: the folder has " + counted(groups, "length group") +
                 ", but the program has " + counted(modes, "train mode") +
                 (use.modes.empty() ? "" : " (" + namesOf(use.modes) + ")") +
                 "; compile the program with --batches for this folder" +
                 (groups > 1 ? ", or run omnibal-batch with --tiles and --tokens or with "
                               "--max-groups 1"
                             : ""));
}

/// Rows of such a folder have fewer groups than the program has replicas.
Status refuseDegree(const std::string &file) {
  OMNIBAL_ASSIGN_OR_RETURN(const LengthGroups groups, readLengthGroups(file));
  const LengthGroup &only = groups.groups.front();
  return only.degree == 1 ? Status::ok()
                          : invalid(file + ": length group \"" + only.name + "\" has degree " +
                                    std::to_string(only.degree) +
                                    ", but the program's replicas share no micro-batches; compile "
                                    "the program with --batches for this folder");
}

EpochGroups stepsOf(GroupedEpoch epoch, const std::vector<int32_t> &modeOfGroup) {
  EpochGroups result;
  for (int64_t row = 0; row < epoch.rows(); ++row) {
    if (row > 0 && epoch.stepOf[row] == epoch.stepOf[row - 1])
      continue;
    result.modes.push_back(modeOfGroup[epoch.modeOf[row]]);
    result.firstRows.push_back(row);
  }
  result.firstRows.push_back(epoch.rows());
  result.batches.samples = std::move(epoch.samples);
  result.batches.offsets = std::move(epoch.offsets);
  return result;
}

/// All that decides what later epochs look like.
uint64_t identityOf(const GroupedFolder &folder) {
  const json settings = {folder.options.hbp, folder.options.seed, folder.options.epoch};
  uint64_t state = fnv1a(settings.dump() + describe(folder.groups).dump());
  for (const std::vector<int32_t> *list : {&folder.lengths.tiles, &folder.lengths.tokens})
    state = fnv1aWords(std::span<const int32_t>(*list), state);
  return state;
}

Result<std::shared_ptr<StepSource>> openGrouped(const std::string &folder, const BatchesUse &use) {
  OMNIBAL_ASSIGN_OR_RETURN(GroupedFolder read, readGroupedFolder(folder));
  OMNIBAL_ASSIGN_OR_RETURN(const std::vector<int32_t> modes,
                           modesOfGroups(read, use, folder + "/groups.json"));
  OMNIBAL_RETURN_IF_ERROR(checkLengths(read.lengths, use, folder + "/lengths.npy"));
  EpochGroups first = stepsOf(std::move(read.epoch), modes);
  read.epoch = {};
  const auto kept = std::make_shared<const GroupedFolder>(std::move(read));
  auto later = [kept, modes](int64_t epoch) -> Result<EpochGroups> {
    OMNIBAL_ASSIGN_OR_RETURN(GroupedEpoch packed, composeGrouped(*kept, epoch));
    return stepsOf(std::move(packed), modes);
  };
  return StepSource::create(std::move(first), use.layout, later, identityOf(*kept));
}

} // namespace

Result<std::shared_ptr<StepSource>> readStepsFile(const std::string &path,
                                                  const StepSource::Layout &layout,
                                                  const FindSample &find,
                                                  const std::vector<ModeUse> &modes) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  EpochGroups all;
  all.batches.offsets.push_back(0);
  all.firstRows.assign(modes.empty() ? 0 : 1, 0);
  size_t begin = 0;
  for (int64_t line = 1; begin < text.size(); ++line) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string content = text.substr(begin, end - begin);
    begin = end + 1;
    if (content.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    OMNIBAL_RETURN_IF_ERROR(
        readStep(content, path + ", line " + std::to_string(line), layout, modes, find, all));
  }
  if (all.batches.groups() == 0)
    return invalid(path + ": there is no step in this file");
  return StepSource::create(std::move(all), layout);
}

Result<Batches> readCheckedGroups(const std::string &folder, const Composition &composition,
                                  const BatchesUse &use) {
  OMNIBAL_RETURN_IF_ERROR(checkSettings(composition, use, folder + "/batches.json"));
  OMNIBAL_ASSIGN_OR_RETURN(Batches batches, readGroups(folder));
  OMNIBAL_RETURN_IF_ERROR(checkSamples(batches, use, folder));
  OMNIBAL_RETURN_IF_ERROR(checkMix(composition, batches, folder));
  OMNIBAL_RETURN_IF_ERROR(checkLoads(composition.lengths, batches, use, folder + "/groups.npy"));
  return batches;
}

Result<std::shared_ptr<StepSource>> openBatches(const std::string &folder, const BatchesUse &use) {
  OMNIBAL_ASSIGN_OR_RETURN(const int64_t lengthGroups, lengthGroupsOf(folder));
  if (lengthGroups != static_cast<int64_t>(std::max<size_t>(use.modes.size(), 1)))
    return otherCount(folder, lengthGroups, use);
  std::error_code ignored;
  const std::string file = std::filesystem::path(folder) / "groups.json";
  const bool isGrouped = std::filesystem::exists(file, ignored);
  if (!use.modes.empty() && !isGrouped)
    return invalid(folder + ": there is no groups.json, but the program's train modes (" +
                   namesOf(use.modes) +
                   ") are those of length groups; run omnibal-batch with --length-groups");
  if (!use.modes.empty())
    return openGrouped(folder, use);
  if (isGrouped)
    OMNIBAL_RETURN_IF_ERROR(refuseDegree(file));
  OMNIBAL_ASSIGN_OR_RETURN(bool composable, hasComposition(folder));
  if (!composable) {
    OMNIBAL_ASSIGN_OR_RETURN(Batches batches, readGroups(folder));
    OMNIBAL_RETURN_IF_ERROR(checkSamples(batches, use, folder));
    return StepSource::create(std::move(batches), use.layout);
  }
  OMNIBAL_ASSIGN_OR_RETURN(Composition read, readComposition(folder));
  auto composition = std::make_shared<const Composition>(std::move(read));
  OMNIBAL_RETURN_IF_ERROR(checkLengths(composition->lengths, use, folder + "/lengths.npy"));
  OMNIBAL_ASSIGN_OR_RETURN(Batches batches, readCheckedGroups(folder, *composition, use));
  auto mix = composition->mix.isSet() ? std::make_shared<MixCourse>(composition) : nullptr;
  auto later = [composition, mix](int64_t epoch) -> Result<EpochGroups> {
    OMNIBAL_ASSIGN_OR_RETURN(Batches composed,
                             mix ? mix->compose(epoch) : compose(*composition, epoch));
    return EpochGroups(std::move(composed));
  };
  return StepSource::create(std::move(batches), use.layout, later, identityOf(*composition), mix);
}

} // namespace omnibal::rt
