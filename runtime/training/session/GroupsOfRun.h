//===- GroupsOfRun.h - The parameter groups of a run, the same on all ranks ---------------===//
#ifndef RUNTIME_TRAINING_SESSION_GROUPSOFRUN_H
#define RUNTIME_TRAINING_SESSION_GROUPSOFRUN_H

#include "runtime/training/rates/ParameterGroups.h"
#include "runtime/training/session/Session.h"
#include <nlohmann/json.hpp>

namespace omnibal::rt {

/// All ranks call it: a rank knows the layers of its own stage only. The executor's parameters have
/// their groups then.
Result<ParameterGroups> groupsOfRun(Session &session);

/// The rules, for manifests of checkpoints; keys of flags that were not given are left out.
void describeGroups(const GroupOptions &options, nlohmann::json &run);
/// Keys of describeGroups(), to tell that one was taken back.
const std::vector<std::string> &groupKeys();

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_SESSION_GROUPSOFRUN_H
