#include "runtime/batching/steps/Steps.h"
#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/batching/io/Npy.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Checksum.h"
#include "runtime/support/Json.h"
#include <algorithm>
#include <filesystem>

namespace omnibal::rt {
namespace {

using nlohmann::json;

/// Appends the groups of one line.
Status readStep(const std::string &line, const std::string &where, int64_t groups,
                const FindSample &find, Batches &out) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parseJson(line, where));
  if (!value.is_object() || !value.contains("groups") || !value["groups"].is_array())
    return invalid(where + ": an object with an array \"groups\" is expected");
  const json &list = value["groups"];
  if (static_cast<int64_t>(list.size()) != groups)
    return invalid(where + ": " + std::to_string(list.size()) +
                   " groups, but the program needs micro-batches x data-parallel ranks = " +
                   std::to_string(groups));
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
  if (o.ranks != use.layout.replicas)
    return invalid(where + ": the groups are balanced over " + std::to_string(o.ranks) +
                   " ranks, but the program has " + std::to_string(use.layout.replicas) +
                   " data-parallel ranks; run omnibal-batch with --ranks " +
                   std::to_string(use.layout.replicas));
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
    settings.push_back({mix.sizes, mix.weights, mix.samples});
  uint64_t state = fnv1a(settings.dump());
  for (const std::vector<int32_t> *list : {&composition.lengths.tiles, &composition.lengths.tokens})
    state = fnv1aWords(std::span<const int32_t>(*list), state);
  if (o.cost.tileSquareNs > 0)
    state = fnv1aWords(std::span<const int64_t>(composition.lengths.squaredTiles), state);
  return state;
}

Status checkSamples(const Batches &batches, const BatchesUse &use, const std::string &folder) {
  int64_t groups = batches.groups(), replicas = use.layout.replicas;
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

} // namespace

Result<std::shared_ptr<StepSource>>
readStepsFile(const std::string &path, StepSource::Layout layout, const FindSample &find) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  Batches all;
  all.offsets.push_back(0);
  size_t begin = 0;
  for (int64_t line = 1; begin < text.size(); ++line) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string content = text.substr(begin, end - begin);
    begin = end + 1;
    if (content.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    OMNIBAL_RETURN_IF_ERROR(readStep(content, path + ", line " + std::to_string(line),
                                     layout.microbatches * layout.replicas, find, all));
  }
  if (all.groups() == 0)
    return invalid(path + ": there is no step in this file");
  return StepSource::create(std::move(all), layout);
}

Result<Batches> readGroups(const std::string &folder) {
  Batches result;
  OMNIBAL_ASSIGN_OR_RETURN(result.samples, readNpy(folder + "/samples.npy"));
  OMNIBAL_ASSIGN_OR_RETURN(result.offsets, readNpy(folder + "/groups.npy"));
  const std::vector<int64_t> &offsets = result.offsets;
  std::string path = folder + "/groups.npy";
  if (offsets.size() < 2 || offsets.front() != 0 ||
      offsets.back() != static_cast<int64_t>(result.samples.size()))
    return Status(Code::DataLoss, path + ": the offsets do not span samples.npy");
  for (size_t g = 0; g + 1 < offsets.size(); ++g)
    if (offsets[g] > offsets[g + 1] || offsets[g + 1] > offsets.back())
      return Status(Code::DataLoss,
                    path + ": offset " + std::to_string(g + 1) + " is out of order");
  return result;
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
  auto later = [composition](int64_t epoch) { return compose(*composition, epoch); };
  return StepSource::create(std::move(batches), use.layout, later, identityOf(*composition));
}

} // namespace omnibal::rt
