//===- Gather.h - Texts of all ranks at the leading one ---------------------------------------===//
#ifndef RUNTIME_COMM_GATHER_H
#define RUNTIME_COMM_GATHER_H

#include "runtime/comm/Communicator.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// Rank 0 gets the texts of all ranks in their order, the others an empty list. All ranks call it
/// while no message of a program is under way.
Result<std::vector<std::string>> gatherTexts(Communicator &communicator, std::string mine);

} // namespace omnibal::rt
#endif // RUNTIME_COMM_GATHER_H
