#include "runtime/training/rates/UpdateSettings.h"
#include "runtime/program/Names.h"
#include <initializer_list>
#include <limits>
#include <utility>

namespace omnibal::rt {

Result<UpdateOptions> updateOptions(const UpdateSettings &settings, OptimizerKind kind) {
  const bool isMuon = kind == OptimizerKind::Muon, isSgd = kind == OptimizerKind::Sgd;
  const bool hasAdam = isAdam(kind), isAdafactor = kind == OptimizerKind::Adafactor;
  const std::initializer_list<std::pair<const char *, bool>> foreign = {
      {"--beta1", settings.beta1 && (isSgd || isAdafactor)},
      {"--beta2", settings.beta2 && (isSgd || isAdafactor)},
      {"--eps", settings.epsilon && !hasAdam && !isAdafactor},
      {"--momentum", settings.momentum && !isSgd && !isMuon},
      {"--nesterov", settings.nesterov && !isSgd},
      {"--beta2-decay", settings.beta2Decay && !isAdafactor},
      {"--eps2", settings.epsilon2 && !isAdafactor},
      {"--update-clip", settings.updateClip && !isAdafactor}};
  for (auto [flag, isForeign] : foreign)
    if (isForeign)
      return invalid(std::string(flag) + ": the program's optimizer, " + nameOf(kind) +
                     ", has no such setting; omnibal-compile --optimizer chooses another one");
  UpdateOptions options;
  options.kind = kind;
  options.beta1 = settings.beta1.value_or(0.9);
  options.beta2 = settings.beta2.value_or(hasAdam ? 0.999 : 0.99);
  options.epsilon =
      settings.epsilon.value_or(isAdafactor ? double{std::numeric_limits<float>::epsilon()} : 1e-8);
  options.momentum = settings.momentum.value_or(isMuon ? 0.95 : 0.9);
  options.nesterov = settings.nesterov;
  options.beta2Decay = settings.beta2Decay.value_or(-0.8);
  options.epsilon2 = settings.epsilon2.value_or(1e-3);
  options.updateClip = settings.updateClip.value_or(1);
  return options;
}

void describeUpdate(const UpdateOptions &options, nlohmann::json &run) {
  if (options.kind != OptimizerKind::AdamW)
    run[optimizerKey] = nameOf(options.kind);
  const bool isAdafactor = options.kind == OptimizerKind::Adafactor;
  if (options.kind != OptimizerKind::Sgd && !isAdafactor)
    run["betas"] = {options.beta1, options.beta2};
  if (isAdam(options.kind) || isAdafactor)
    run["eps"] = options.epsilon;
  if (options.kind == OptimizerKind::Sgd || options.kind == OptimizerKind::Muon)
    run["momentum"] = options.momentum;
  if (options.kind == OptimizerKind::Sgd)
    run["nesterov"] = options.nesterov;
  if (isAdafactor) {
    run["beta2_decay"] = options.beta2Decay;
    run["eps2"] = options.epsilon2;
    run["update_clip"] = options.updateClip;
  }
}

} // namespace omnibal::rt
