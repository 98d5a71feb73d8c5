#include "runtime/training/report/StepPlace.h"

namespace omnibal::rt {

SamplesSeen SamplesSeen::of(const nlohmann::json &kept) {
  const nlohmann::json found = kept.value(key, nlohmann::json::object());
  return {found.value("samples", int64_t{0}), found.value("tokens", int64_t{0})};
}

void SamplesSeen::add(const StepResult &step) {
  samples += step.samples;
  tokens += step.tokens;
}

void StepPlace::addRoom(const Program &program, size_t mode) {
  const TrainMode &of = program.trainModes[mode];
  const int64_t microbatches = int64_t{of.microbatches} * program.dataRanks(trainModeName(mode));
  roomForTiles += of.tilesCap * microbatches;
  roomForTokens += of.tokensCap * microbatches;
}

} // namespace omnibal::rt
