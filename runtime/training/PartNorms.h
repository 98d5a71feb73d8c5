//===- PartNorms.h - The gradient norms of a model's parts ------------------------------------===//
#ifndef RUNTIME_TRAINING_PARTNORMS_H
#define RUNTIME_TRAINING_PARTNORMS_H

#include "runtime/training/session/Session.h"
#include <map>
#include <string>

namespace omnibal::rt {

/// The norm of the gradients of each part (vision, projector, language) that trains, over all
/// ranks, which call it together between the reductions of a step and its update. `divisor`: what
/// the sums are divided by; 0: there is no update, and norms are 0. It waits for the device.
Result<std::map<std::string, double>> normsOfParts(Session &session, const ParameterGroups &groups,
                                                   double divisor);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_PARTNORMS_H
