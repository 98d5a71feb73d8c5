//===- LabelCounts.h - How many losses the samples of a data set have -------------------------===//
#ifndef RUNTIME_TRAINING_LABELCOUNTS_H
#define RUNTIME_TRAINING_LABELCOUNTS_H

#include "runtime/training/session/Session.h"
#include <memory>
#include <vector>

namespace omnibal::rt {

/// Tokens with a loss, or pairs of answers, which each are a sample; by sample.
using LabelCounts = std::vector<int32_t>;

/// Reads every sample once: all ranks call it, each reads a part, and all get everything.
Result<std::shared_ptr<const LabelCounts>> countLabels(const Session &session,
                                                       const Dataset &dataset);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_LABELCOUNTS_H
