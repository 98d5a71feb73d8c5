//===- Scoring.h - Runs every sample of a data set through the model once ---------------------===//
#ifndef RUNTIME_TRAINING_SCORING_H
#define RUNTIME_TRAINING_SCORING_H

#include "runtime/training/Session.h"
#include "runtime/training/evaluation/Scores.h"

namespace omnibal::rt {

/// Runs mode "evaluate" over all samples in order, packed within the caps, and adds up what all
/// ranks found; all ranks call it, between two steps. Nothing that trains is changed. `unread`
/// becomes what all ranks agreed cannot be read or is no sample of the program; then the scores
/// mean nothing. Another error is the run's end.
Result<Scores> scoreSamples(Session &session, const DataSource &data, Status &unread);

/// An error where the program cannot be evaluated.
Status checkEvaluates(const Session &session);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_SCORING_H
