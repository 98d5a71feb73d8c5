//===- RunResults.h - Files of what a run has computed and trained ----------------------------===//
#ifndef RUNTIME_TRAINING_CHECKPOINTS_RUNRESULTS_H
#define RUNTIME_TRAINING_CHECKPOINTS_RUNRESULTS_H

#include "runtime/training/session/Session.h"

namespace omnibal::rt {

/// Writes the gradients of the step whose update comes next, divided by `count`, to
/// --save-gradients. All ranks call it; the sums stay as they are.
Status saveGradients(Session &session, double count);

/// Writes what was trained to a folder (SaveTrained.h), and returns notices for the user. All ranks
/// call it.
Result<std::vector<std::string>> saveWeights(Session &session, const std::string &folder);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_CHECKPOINTS_RUNRESULTS_H
