//===- TcpMesh.h - Processes of one run find each other ---------------------------------------===//
#ifndef RUNTIME_COMM_TCP_TCPMESH_H
#define RUNTIME_COMM_TCP_TCPMESH_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/tcp/Socket.h"
#include <vector>

namespace omnibal::rt {

struct TcpPlace {
  int rank = 0, ranks = 1;
  std::string address; ///< where rank 0 listens: a name or a number
  int port = 0;
  uint64_t run = 0; ///< the same on all ranks of a run, another in other runs
};

/// Returns a blocking connection to each other rank; the one of this rank is none. `names` gets
/// their addresses for messages. DeadlineExceeded names the ranks that did not come,
/// InvalidArgument a rank that came twice or belongs to another run.
Result<std::vector<Socket>> connectMesh(const TcpPlace &place, Communicator::Milliseconds deadline,
                                        std::vector<std::string> &names);

} // namespace omnibal::rt
#endif // RUNTIME_COMM_TCP_TCPMESH_H
