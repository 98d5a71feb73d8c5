//===- LengthGroupsFuzz.cpp - omnibal.length-groups/1, and epochs of what it holds -----------===//
//
// The parts are the file and, as a list of numbers, tiles and tokens of samples.
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/batching/lengths/EpochPlan.h"
#include "runtime/batching/lengths/GroupsFile.h"
#include "runtime/support/Json.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

/// An epoch has a list of all ranks of a row, and several packings are tried.
const Allowance allowance{size_t{16} << 20, 4096};

namespace {

using namespace rt;

constexpr size_t mostSamples = 16;
/// Rows of more ranks, and patterns of more of the shortest samples, are right, and slow.
constexpr int32_t mostRanks = 4096, mostTiles = 64, mostTokens = 1 << 16;

SampleLengths samplesOf(std::string_view text) {
  SampleLengths lengths;
  auto list = parseJson(text, "samples");
  if (!list || !list->is_array())
    return lengths;
  for (size_t i = 0; i + 1 < std::min(list->size(), 2 * mostSamples); i += 2) {
    const std::optional<int64_t> tiles = integerOf((*list)[i]), tokens = integerOf((*list)[i + 1]);
    if (!tiles || !tokens)
      break;
    lengths.tiles.push_back(static_cast<int32_t>(*tiles));
    lengths.tokens.push_back(static_cast<int32_t>(*tokens));
  }
  return lengths;
}

void plan(const SampleLengths &lengths, const LengthGroups &groups) {
  for (const LengthGroup &group : groups.groups)
    if (group.ranks > mostRanks || group.tilesCap > mostTiles || group.tokensCap > mostTokens)
      return;
  for (bool hbp : {false, true}) {
    PlanOptions options;
    options.epoch.hbp = hbp;
    // The judge's findings, and only these, are defects.
    auto planned = planEpoch(lengths, groups, options);
    require(planned || planned.status().code() != Code::Internal,
            planned ? "" : planned.status().message().c_str());
  }
}

} // namespace

void run(std::string_view input) {
  const std::vector<std::string_view> parts = partsOf(input);
  auto groups = parseLengthGroups(std::string(parts[0]), "groups.json");
  if (!groups)
    return;
  const std::string text = describe(*groups).dump();
  auto again = parseLengthGroups(text, "written");
  require(again.status());
  require(describe(*again).dump() == text, "the file reads otherwise once it has been written");
  if (parts.size() > 1)
    plan(samplesOf(parts[1]), *groups);
}

} // namespace omnibal::fuzz
