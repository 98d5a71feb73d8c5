//===- Gather.h - Texts of all ranks at the leading one ---------------------------------------===//
#ifndef RUNTIME_COMM_GATHER_H
#define RUNTIME_COMM_GATHER_H

#include "runtime/comm/Communicator.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// Returns the texts of all ranks in their order on rank 0 and an empty list on the others. All
/// ranks call it while no message of a program is under way.
Result<std::vector<std::string>> gatherTexts(Communicator &communicator, std::string mine);

} // namespace omnibal::rt
#endif // RUNTIME_COMM_GATHER_H
