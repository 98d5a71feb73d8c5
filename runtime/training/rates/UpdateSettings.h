//===- UpdateSettings.h - What flags say of the program's optimizer ---------------------------===//
#ifndef RUNTIME_TRAINING_RATES_UPDATESETTINGS_H
#define RUNTIME_TRAINING_RATES_UPDATESETTINGS_H

#include "runtime/device/Optimizer.h"
#include "runtime/support/Status.h"
#include <nlohmann/json.hpp>
#include <optional>

namespace omnibal::rt {

/// What was given; the rest is as the optimizer's authors have it.
struct UpdateSettings {
  std::optional<double> beta1, beta2, epsilon, momentum;
  std::optional<double> beta2Decay, epsilon2, updateClip; ///< of Adafactor
  bool nesterov = false;
  std::optional<double> averageDecay; ///< of the moving averages
};

/// The decay of moving averages where none is given.
inline constexpr double usualAverageDecay = 0.999;

/// Returns what an update does, but for its rates. Fails if a setting is one that the optimizer
/// does not have.
Result<UpdateOptions> updateOptions(const UpdateSettings &settings, OptimizerKind kind);

/// In the description of a run, where it is not AdamW.
inline constexpr const char *optimizerKey = "optimizer";

/// In the description of a run whose program keeps moving averages.
inline constexpr const char *averageKey = "ema_decay";

/// Adds what a run with these options is described by to `run`.
void describeUpdate(const UpdateOptions &options, nlohmann::json &run);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_RATES_UPDATESETTINGS_H
