//===- TcpMesh.h - Processes of one run find each other ---------------------------------------===//
//
// All ranks meet at rank 0, which tells everyone where all of them listen: on free ports, also rank
// 0, so that the given port is free again for the next run. What stays is a binomial
// tree of connections, through which bad news reaches everyone; two other ranks are connected when
// they first exchange a message, the higher to the lower. So a rank has connections to about
// log2(ranks) others, to its neighbors in the pipeline and to the other replicas of its stage.
//
//===-----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_COMM_TCP_TCPMESH_H
#define RUNTIME_COMM_TCP_TCPMESH_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/tcp/Socket.h"
#include <optional>
#include <vector>

namespace omnibal::rt {

struct TcpPlace {
  int rank = 0, ranks = 1;
  std::string address; ///< where rank 0 listens: a name or a number
  int port = 0;
  uint64_t run = 0; ///< the same on all ranks of a run, another in other runs
};

struct TcpAddress {
  std::string host;
  int port = 0;
};

/// What a rank has once all have met.
struct TcpMeeting {
  Socket listener;                   ///< where higher ranks connect
  std::vector<TcpAddress> addresses; ///< of all ranks
  std::vector<Socket> sockets;       ///< by rank; to the neighbors in the tree at least
};

/// Returns when this rank is connected to its neighbors in the tree. DeadlineExceeded names the
/// ranks that did not come, InvalidArgument a rank that came twice or belongs to another run.
Result<TcpMeeting> meetRanks(const TcpPlace &place, Communicator::Milliseconds deadline);

/// Connects to a lower rank. DeadlineExceeded if it could not be reached by then.
Result<Socket> connectToRank(const TcpPlace &place, const std::vector<TcpAddress> &addresses,
                             int rank, Socket::Time::time_point until);

/// Who connected and has not said yet which rank it is.
class TcpArrival {
public:
  explicit TcpArrival(Socket came);
  int descriptor() const { return socket.get(); }
  /// Reads what is there without waiting. Returns the higher rank of this run that it is, -1 for a
  /// stranger, and nothing as long as it may still tell.
  std::optional<int> identify(const TcpPlace &place);
  Socket take() { return std::move(socket); }

private:
  Socket socket;
  std::vector<char> said;
  Socket::Time::time_point until;
};

} // namespace omnibal::rt
#endif // RUNTIME_COMM_TCP_TCPMESH_H
