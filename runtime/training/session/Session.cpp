#include "runtime/training/session/Session.h"
#include "runtime/batching/steps/Steps.h"
#include "runtime/data/DataLoader.h"
#include <algorithm>

namespace omnibal::rt {

Result<std::shared_ptr<StepSource>> openSteps(const RunOptions &options, const Program &program,
                                              const Dataset &dataset) {
  StepSource::Layout layout{program.trainModes[0].microbatches, program.dataParallel, {}};
  for (const TrainMode &mode : program.trainModes)
    layout.degrees.push_back(mode.degree);
  std::vector<ModeUse> modes;
  for (const TrainMode &mode : program.trainModes)
    if (program.hasLengthGroups())
      modes.push_back({mode.name, mode.tilesCap, mode.tokensCap, mode.degree, mode.microbatches});
  if (options.batches.empty())
    return readStepsFile(
        options.stepsFile, layout, [&](std::string_view key) { return dataset.find(key); }, modes);
  BatchesUse use;
  use.modes = std::move(modes);
  use.layout = layout;
  use.tilesCap = program.caps().tiles;
  use.tokensCap = program.caps().tokens;
  use.samples = dataset.size();
  use.units = program.info.grid.has_value();
  use.tilesOf = [&](int64_t sample) { return dataset.tiles(sample); };
  if (use.units)
    use.squaredTilesOf = [&](int64_t sample) { return dataset.squaredTiles(sample); };
  use.nameOf = [&](int64_t sample) { return dataset.describe(sample); };
  return openBatches(options.batches, use);
}

int loaderThreads(const Session &session, const std::string &mode) {
  if (session.options.loaderThreads > 0)
    return session.options.loaderThreads;
  // Decoding runs beside the compute threads; one thread keeps up except for large pictures.
  const bool pixels = readsPixels(session.executor->stageInfo(), mode);
  return pixels ? std::max(1, session.executor->pool().threads() / 2) : 1;
}

} // namespace omnibal::rt
