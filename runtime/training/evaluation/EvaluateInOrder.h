//===- EvaluateInOrder.h - Mode "evaluate" over every sample of a data set --------------------===//
#ifndef RUNTIME_TRAINING_EVALUATION_EVALUATEINORDER_H
#define RUNTIME_TRAINING_EVALUATION_EVALUATEINORDER_H

#include "runtime/data/References.h"
#include "runtime/training/session/Session.h"
#include <functional>

namespace omnibal::rt {

/// Receives a result of a micro-batch of these samples.
using EvaluationSink =
    std::function<void(std::span<const int64_t> samples, const BatchValue &result,
                       const std::byte *bytes, const PackedMicrobatch &batch)>;

/// What is evaluated, and how that is called on a terminal.
struct EvaluatedData {
  const DataSource &source;
  std::shared_ptr<const References> references = nullptr; ///< of pairs of answers; none: zeros
  std::string what = "evaluating";
};

/// Runs mode "evaluate" over all samples in order, packed within the caps; all ranks call it,
/// between two steps. Nothing that trains is changed. `unread` becomes what all ranks agreed cannot
/// be read or is no sample of the program. Another error is the run's end.
Status evaluateInOrder(Session &session, const EvaluatedData &data, const EvaluationSink &sink,
                       Status &unread);

/// An error where the program cannot be evaluated.
Status checkEvaluates(const Session &session);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVALUATION_EVALUATEINORDER_H
