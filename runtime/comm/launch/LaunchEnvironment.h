//===- LaunchEnvironment.h - Who started this process, as which rank -------------------------===//
#ifndef RUNTIME_COMM_LAUNCH_LAUNCHENVIRONMENT_H
#define RUNTIME_COMM_LAUNCH_LAUNCHENVIRONMENT_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <functional>
#include <string>

namespace omnibal::rt {

enum class Launcher {
  None,      ///< all ranks are threads of this process
  Mpi,       ///< mpirun, or srun with an MPI plugin
  Slurm,     ///< srun without one
  Variables, ///< RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them
};

struct LaunchEnvironment {
  Launcher launcher = Launcher::None;
  int rank = 0, ranks = 1; ///< Slurm and Variables; MPI knows them itself
  int localRank = -1;      ///< on this machine; -1: not told
  int localRanks = 1;      ///< that share this machine's cores
  std::string address;     ///< where rank 0 is met: Slurm and Variables
  int port = 0;
  std::string run; ///< tells this job from others that use the same address
};

/// Value of an environment variable, or null.
using Environment = std::function<const char *(const char *name)>;

/// InvalidArgument names the variable that is missing or no number.
Result<LaunchEnvironment> readLaunchEnvironment(const Environment &environment);
/// Reads the launch environment of this process.
Result<LaunchEnvironment> readLaunchEnvironment();

/// The first machine of a Slurm node list: "a[3-5,9],b" gives "a3".
std::string firstHost(const std::string &nodeList);

} // namespace omnibal::rt
#endif // RUNTIME_COMM_LAUNCH_LAUNCHENVIRONMENT_H
