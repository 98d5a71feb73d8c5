#include "runtime/training/rates/UpdateSettings.h"
#include "runtime/program/Names.h"
#include <initializer_list>
#include <utility>

namespace omnibal::rt {

Result<UpdateOptions> updateOptions(const UpdateSettings &settings, OptimizerKind kind) {
  const bool isMuon = kind == OptimizerKind::Muon, isSgd = kind == OptimizerKind::Sgd;
  const bool hasAdam = isAdam(kind);
  const std::initializer_list<std::pair<const char *, bool>> foreign = {
      {"--beta1", settings.beta1 && isSgd},
      {"--beta2", settings.beta2 && isSgd},
      {"--eps", settings.epsilon && !hasAdam},
      {"--momentum", settings.momentum && !isSgd && !isMuon},
      {"--nesterov", settings.nesterov && !isSgd}};
  for (auto [flag, isForeign] : foreign)
    if (isForeign)
      return invalid(std::string(flag) + ": the program's optimizer, " + nameOf(kind) +
                     ", has no such setting; omnibal-compile --optimizer chooses another one");
  UpdateOptions options;
  options.kind = kind;
  options.beta1 = settings.beta1.value_or(0.9);
  options.beta2 = settings.beta2.value_or(hasAdam ? 0.999 : 0.99);
  options.epsilon = settings.epsilon.value_or(1e-8);
  options.momentum = settings.momentum.value_or(isMuon ? 0.95 : 0.9);
  options.nesterov = settings.nesterov;
  return options;
}

void describeUpdate(const UpdateOptions &options, nlohmann::json &run) {
  if (options.kind != OptimizerKind::AdamW)
    run[optimizerKey] = nameOf(options.kind);
  if (options.kind != OptimizerKind::Sgd)
    run["betas"] = {options.beta1, options.beta2};
  if (isAdam(options.kind))
    run["eps"] = options.epsilon;
  if (options.kind == OptimizerKind::Sgd || options.kind == OptimizerKind::Muon)
    run["momentum"] = options.momentum;
  if (options.kind == OptimizerKind::Sgd)
    run["nesterov"] = options.nesterov;
}

} // namespace omnibal::rt
