//===- Launch.h - Ranks as threads or under mpirun, and how they fail --------------------===//
#ifndef TOOLS_OMNIBAL_RUN_LAUNCH_H
#define TOOLS_OMNIBAL_RUN_LAUNCH_H

#include "runtime/checkpoint/Agreement.h"
#include "runtime/core/Communicator.h"
#include <functional>

namespace omnibal::rt {

/// What every rank does with its communicator.
using RankBody = std::function<Status(Communicator &communicator)>;

/// Runs the body on `ranks` threads, or once in this process if mpirun started it. Returns the
/// process's exit code; errors go to stderr, the rank that failed first before the others.
int launch(int ranks, const RankBody &body);

/// Ranks that share this machine's cores.
int ranksOnThisMachine(int ranks);

/// All ranks succeed, or all get the error of the lowest rank that failed.
Agreement agreementOver(Communicator &communicator);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_RUN_LAUNCH_H
