//===- Steps.h - Which samples make up each step
//------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_STEPS_H
#define RUNTIME_BATCHING_STEPS_H

#include "runtime/core/Status.h"
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// Sample numbers of each group; group g is micro-batch g / D of data-parallel rank g % D.
using StepGroups = std::vector<std::vector<int64_t>>;

/// Number of the sample with a key, -1 if there is none.
using FindSample = std::function<int64_t(std::string_view key)>;

/// steps.jsonl: one {"groups": [[key, ...], ...]} a line, each with `groups` groups (M * D). Empty
/// lines are skipped. Errors name file and line.
Result<std::vector<StepGroups>> readStepsFile(const std::string &path, int64_t groups,
                                              const FindSample &find);

/// The folder of omnibal-batch: a step takes `microbatches` consecutive rows of `ranks` groups; the
/// last one is filled with empty groups. `samples`: how many there are.
Result<std::vector<StepGroups>> readBatches(const std::string &folder, int64_t microbatches,
                                            int64_t ranks, int64_t samples);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_STEPS_H
