#include "runtime/executor/StepRehearsal.h"
#include <algorithm>

namespace omnibal::rt {
namespace {

/// Blocks one after the other. A pass runs one variant of each chunk, so variants share the room
/// for what only one of them has.
struct Places {
  std::vector<int64_t> offsets; ///< by region
  int64_t end = 0;
};

Places placesOf(const Mode &mode) {
  Places places{std::vector<int64_t>(mode.regions.size(), mode.stepOffset), mode.stepOffset};
  std::map<std::pair<int32_t, size_t>, int64_t> own;    // by chunk and variant: bytes
  std::map<int32_t, int64_t> most;                      // by chunk
  std::vector<std::pair<size_t, int32_t>> ofOneVariant; // region, chunk
  for (size_t r = 0; r < mode.regions.size(); ++r) {
    const std::optional<StepBlock> &block = mode.regions[r].block;
    if (!block)
      continue;
    auto has = [](int32_t number) { return number >= 0; };
    if (std::count_if(block->numbers.begin(), block->numbers.end(), has) != 1) {
      places.offsets[r] = places.end;
      places.end += mode.regions[r].bytes;
      continue;
    }
    const auto first = std::find_if(block->numbers.begin(), block->numbers.end(), has);
    int64_t &taken = own[{block->chunk, static_cast<size_t>(first - block->numbers.begin())}];
    places.offsets[r] = taken;
    taken += mode.regions[r].bytes;
    most[block->chunk] = std::max(most[block->chunk], taken);
    ofOneVariant.push_back({r, block->chunk});
  }
  std::map<int32_t, int64_t> base;
  for (const auto &[chunk, bytes] : most) {
    base[chunk] = places.end;
    places.end += bytes;
  }
  for (auto [region, chunk] : ofOneVariant)
    places.offsets[region] += base[chunk];
  return places;
}

/// By id: the numbers in Mode::chunks of its variants.
std::map<int32_t, std::vector<int32_t>> variantsOf(const Mode &mode) {
  std::map<int32_t, std::vector<int32_t>> variants;
  for (size_t c = 0; c < mode.chunks.size(); ++c)
    variants[mode.chunks[c].id].push_back(static_cast<int32_t>(c));
  return variants;
}

/// One pass with variant number `variant` of each chunk that has so many, else with its last one.
void addPass(const Stage &stage, const Mode &mode, size_t variant,
             const std::vector<ActionKind> &backward, std::vector<Action> &actions) {
  for (size_t t = 0; t < mode.transfers.size(); ++t)
    if (mode.transfers[t].toStage == stage.id)
      actions.push_back({ActionKind::WaitRecv, 0, static_cast<int32_t>(t)});
  std::vector<int32_t> chunks;
  for (const auto &[id, variants] : variantsOf(mode))
    chunks.push_back(variants[std::min(variant, variants.size() - 1)]);
  for (int32_t chunk : chunks)
    actions.push_back({ActionKind::Forward, 0, chunk});
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk)
    for (ActionKind kind : backward)
      actions.push_back({kind, 0, *chunk});
}

} // namespace

int64_t rehearsalBytes(const Stage &stage) {
  auto train = stage.modes.find("train");
  return train == stage.modes.end() ? 0 : placesOf(train->second).end;
}

std::unique_ptr<StepRun> rehearsalOf(const Stage &stage) {
  const Mode &mode = stage.modes.at("train");
  auto run = std::make_unique<StepRun>();
  size_t most = 0;
  for (const auto &[id, variants] : variantsOf(mode))
    most = std::max(most, variants.size());
  for (size_t variant = 0; variant < most; ++variant)
    for (const auto &backward : {std::vector{ActionKind::Backward},
                                 std::vector{ActionKind::InputGrad, ActionKind::WeightGrad}})
      addPass(stage, mode, variant, backward, run->actions);
  run->plan = ownPlan(mode);
  run->plan.actions = run->actions;
  run->plan.ofStep = true;
  run->offsets.resize(mode.regions.size());
  const Places places = placesOf(mode);
  for (size_t r = 0; r < mode.regions.size(); ++r)
    if (mode.regions[r].block) {
      run->offsets[r].assign(mode.microbatches, places.offsets[r]);
      run->plan.offsets[r] = run->offsets[r].data();
    }
  return run;
}

} // namespace omnibal::rt
