//===- Launch.h - Ranks as threads or as processes, and how they fail ------------------------===//
#ifndef RUNTIME_COMM_LAUNCH_LAUNCH_H
#define RUNTIME_COMM_LAUNCH_LAUNCH_H

#include "runtime/comm/Agreement.h"
#include "runtime/comm/Communicator.h"
#include "runtime/comm/launch/LaunchEnvironment.h"
#include <functional>
#include <memory>

namespace omnibal::rt {

struct RankContext {
  Communicator &communicator;
  /// The number of this process on the machine if the rank is alone in it; -1: it is one thread of
  /// several, or nobody told.
  int localRank = -1;
  /// What messages under way may still touch. It is put here before an error is returned, and
  /// released after the other ranks have been told.
  std::shared_ptr<void> kept = nullptr;
};

/// What every rank does.
using RankBody = std::function<Status(RankContext &context)>;

struct LaunchOptions {
  /// As threads of this process, where nothing else launched them; a launcher knows its own number.
  int ranks = 1;
  /// Identifies what is run: processes with different identities do not belong together.
  uint64_t identity = 0;
};

/// Runs the body on `ranks` threads, or once in this process if `place` says that it is one rank of
/// several. Returns the process's exit code; errors go to stderr, the rank that failed first before
/// the others.
int launch(const LaunchEnvironment &place, const LaunchOptions &options, const RankBody &body);

/// InvalidArgument unless the launcher started as many ranks as there are to be. Ranks meet before
/// they read what says how many they should be.
Status checkNumber(const LaunchEnvironment &place, const Communicator &communicator, int ranks,
                   const std::string &product);

/// Returns an agreement in which all ranks succeed, or all get the error of the lowest rank that
/// failed.
Agreement agreementOver(Communicator &communicator);

} // namespace omnibal::rt
#endif // RUNTIME_COMM_LAUNCH_LAUNCH_H
