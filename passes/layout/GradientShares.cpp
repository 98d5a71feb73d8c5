#include "passes/layout/GradientShares.h"

namespace omnibal::layout {

std::vector<schedule::FilledBucket>
findBuckets(const MemoryGraph &graph, int64_t stage, const std::vector<rt::Action> &computes,
            std::span<const schedule::TrainedParameter> parameters) {
  std::map<int32_t, schedule::Completion> last;
  const auto calls = static_cast<int64_t>(graph.calls.size());
  for (auto [position, action] : llvm::enumerate(computes)) {
    if (action.kind == rt::ActionKind::Forward)
      continue;
    for (int64_t index = calls - 1; index >= 0; --index) { // as chunks run backward
      const CallMemory &call = graph.calls[index];
      if (call.chunk != action.index || graph.chunkStage[call.chunk] != stage)
        continue;
      const int64_t function = call.functions.of(action.kind, StageMode::Train);
      if (function < 0)
        continue;
      for (const FormalMemory &formal : graph.functions[function].formals)
        if (formal.role == rt::Role::ParameterGrad)
          last[call.parameters[formal.index]] = {static_cast<int64_t>(position), calls - index};
    }
  }
  return schedule::fillBuckets(parameters, last, schedule::defaultBucketBytes);
}

} // namespace omnibal::layout
