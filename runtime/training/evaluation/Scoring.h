//===- Scoring.h - What a model makes of every sample of a data set ---------------------------===//
#ifndef RUNTIME_TRAINING_EVALUATION_SCORING_H
#define RUNTIME_TRAINING_EVALUATION_SCORING_H

#include "runtime/training/evaluation/EvaluateInOrder.h"
#include "runtime/training/evaluation/Scores.h"

namespace omnibal::rt {

/// Adds up what all ranks found (evaluateInOrder); where `unread` becomes an error, the scores mean
/// nothing.
Result<Scores> scoreSamples(Session &session, const EvaluatedData &data, Status &unread);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_EVALUATION_SCORING_H
