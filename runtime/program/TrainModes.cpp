#include "runtime/program/Program.h"
#include <algorithm>
#include <charconv>

namespace omnibal::rt {
namespace {

constexpr std::string_view firstTrainMode = "train", laterTrainModes = "train.";

} // namespace

std::string trainModeName(size_t number) {
  return number == 0 ? std::string(firstTrainMode)
                     : std::string(laterTrainModes) + std::to_string(number);
}

std::optional<size_t> trainModeNumber(std::string_view name) {
  if (name == firstTrainMode)
    return 0;
  if (!name.starts_with(laterTrainModes))
    return std::nullopt;
  size_t number = 0;
  const std::string_view digits = name.substr(laterTrainModes.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  // Spelled as it is written.
  return number > 0 && trainModeName(number) == name ? std::optional(number) : std::nullopt;
}

MicrobatchCaps Program::caps() const {
  MicrobatchCaps largest;
  for (const TrainMode &mode : trainModes) {
    largest.tiles = std::max(largest.tiles, mode.tilesCap);
    largest.tokens = std::max(largest.tokens, mode.tokensCap);
  }
  largest.parts = modelParallel * trainModes.back().degree;
  return largest;
}

MicrobatchCaps Program::capsOf(std::string_view mode) const {
  const std::optional<size_t> number = trainModeNumber(mode);
  if (!number || *number >= trainModes.size())
    return caps();
  const TrainMode &own = trainModes[*number];
  return {own.tilesCap, own.tokensCap, partsOf(mode)};
}

int32_t Program::degreeOf(std::string_view mode) const {
  const std::optional<size_t> number = trainModeNumber(mode);
  return number && *number < trainModes.size() ? trainModes[*number].degree
                                               : trainModes.back().degree;
}

int32_t Program::largestDegree() const {
  int32_t largest = 1;
  for (const TrainMode &mode : trainModes)
    largest = std::max(largest, mode.degree);
  return largest;
}

} // namespace omnibal::rt
