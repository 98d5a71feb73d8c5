#include "runtime/comm/tcp/TcpMesh.h"
#include "runtime/comm/RankTree.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <set>
#include <sys/resource.h>

namespace omnibal::rt {
namespace {

using std::chrono::milliseconds;
using Time = Socket::Time;

/// Whoever connects and says nothing holds the others up for so long at most.
constexpr milliseconds meshPatience{5000};
/// After so long a rank that does not reach rank 0 says so, and tries on.
constexpr milliseconds quiet{30000};
constexpr char magic[8] = {'o', 'm', 'n', 'i', 'b', 'a', 'l', '2'};

/// What a process says first, to rank 0 and to each other rank that it connects to.
struct Hello {
  char magic[8];
  int32_t rank, ranks;
  uint64_t run;
  int32_t port; ///< where it listens itself
  int32_t reserved;
};
/// Rank 0's answer to all: where every rank listens, or why nothing becomes of it.
struct Answer {
  char magic[8];
  int32_t refused;
  int32_t length; ///< of the text that follows a refusal
};
struct Listener {
  char address[64]{}; ///< empty: on rank 0's machine
  int32_t port = 0;
};

Hello helloOf(const TcpPlace &place, int port) {
  Hello mine{};
  std::memcpy(mine.magic, magic, sizeof magic);
  mine.rank = place.rank;
  mine.ranks = place.ranks;
  mine.run = place.run;
  mine.port = port;
  return mine;
}

/// Whether a rank of this run connects that may: lower ones wait to be connected to.
bool isHigherRank(const Hello &theirs, const TcpPlace &place) {
  return std::memcmp(theirs.magic, magic, sizeof magic) == 0 && theirs.run == place.run &&
         theirs.ranks == place.ranks && theirs.rank > place.rank && theirs.rank < place.ranks;
}

std::string seconds(milliseconds time) {
  std::string text = std::to_string(static_cast<double>(time.count()) / 1000.0);
  return text.substr(0, text.find('.') + 2) + " s";
}

/// "rank 3" or "ranks 1, 3, ...".
std::string namesOf(const std::set<int> &ranks) {
  constexpr size_t most = 8;
  std::string text;
  size_t named = 0;
  for (int rank : ranks)
    if (named++ < most)
      text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return (ranks.size() > 1 ? "ranks " : "rank ") + text + (ranks.size() > most ? ", ..." : "");
}

/// While they meet, every rank has a connection to rank 0, and later to all replicas of its stage.
void allowDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit); // if that fails, accept() tells
}

class Mesh {
public:
  Mesh(const TcpPlace &place, milliseconds deadline)
      : place(place), deadline(deadline), until(Time::now() + deadline), sockets(place.ranks),
        listeners(place.ranks), names(place.ranks), host(place.address) {}

  Result<TcpMeeting> meet() {
    TcpMeeting meeting;
    allowDescriptors();
    OMNIBAL_RETURN_IF_ERROR(place.rank == 0 ? gather(meeting.listener) : join(meeting.listener));
    for (const Listener &listener : listeners)
      meeting.addresses.push_back({listener.address[0] ? listener.address : host, listener.port});
    if (place.rank > 0)
      OMNIBAL_RETURN_IF_ERROR(growTree(meeting));
    meeting.sockets = std::move(sockets);
    return meeting;
  }

private:
  std::string where() const { return place.address + ", port " + std::to_string(place.port); }
  /// Rank 0: hears all, then tells all. Nobody listens at the given port any more when that is
  /// done: who belongs to the next run there has to wait for it.
  Status gather(Socket &listener) {
    int port = 0;
    OMNIBAL_ASSIGN_OR_RETURN(const Socket door, Socket::listen(place.port, port));
    // Only now: the system could give it the port of the door.
    OMNIBAL_ASSIGN_OR_RETURN(listener, Socket::listen(0, listeners[0].port));
    Status status;
    for (int missing = place.ranks - 1; missing > 0 && status;) {
      auto came = door.accept(until);
      if (!came && came.status().code() != Code::DeadlineExceeded) {
        status = came.status().context("rank 0 at " + where());
        break;
      }
      if (!came) {
        status = {Code::DeadlineExceeded, "rank 0 waited " + seconds(deadline) + " at " + where() +
                                              " for " + missingRanks()};
        break;
      }
      auto rank = admit(*came);
      if (!rank) {
        status = rank.status();
        refuse(*came, status.code(), status.message());
      } else if (*rank > 0) {
        sockets[*rank] = *std::move(came);
        --missing;
      }
    }
    Answer answer{};
    std::memcpy(answer.magic, magic, sizeof magic);
    for (int r = 1; r < place.ranks; ++r) {
      if (!sockets[r])
        continue;
      if (!status)
        refuse(sockets[r], Code::Aborted, status.message()); // rank 0 reports it
      else if (!sockets[r].sendAll(&answer, sizeof answer, until) ||
               !sockets[r].sendAll(listeners.data(), listeners.size() * sizeof(Listener), until))
        status = {Code::Unavailable, "rank " + std::to_string(r) + " (" + names[r] +
                                         ") went away while the ranks were meeting"};
      if (treeParent(r) != 0)
        sockets[r] = Socket(); // its neighbors are others
    }
    return status;
  }

  /// The rank of who came; 0: a stranger, who is sent away without a word.
  Result<int> admit(const Socket &socket) {
    Hello theirs{};
    if (!socket.receiveAll(&theirs, sizeof theirs, std::min(until, Time::now() + meshPatience)) ||
        std::memcmp(theirs.magic, magic, sizeof magic) != 0)
      return 0;
    SocketAddress address = socket.peer();
    std::string who = "rank " + std::to_string(theirs.rank) + " from " + address.text();
    if (theirs.run != place.run) { // another job; ours may still come
      refuse(socket, Code::InvalidArgument,
             "rank 0 at " + where() +
                 " was given another program's path or belongs to another job; choose another "
                 "MASTER_PORT, and give all ranks the same command line");
      return 0;
    }
    if (theirs.ranks != place.ranks)
      return invalid(who + " was started as one of " + std::to_string(theirs.ranks) +
                     " ranks, rank 0 as one of " + std::to_string(place.ranks) +
                     "; give all the same number (WORLD_SIZE, SLURM_NTASKS)");
    if (theirs.rank <= 0 || theirs.rank >= place.ranks)
      return invalid(who + ": there is no such rank beside rank 0");
    if (sockets[theirs.rank])
      return invalid(who + " came although " + names[theirs.rank] +
                     " is that rank already; each process needs a rank of its own");
    Listener &listener = listeners[theirs.rank];
    listener.port = theirs.port;
    if (!address.isLoopback())
      std::strncpy(listener.address, address.text().c_str(), sizeof listener.address - 1);
    names[theirs.rank] = address.text();
    return theirs.rank;
  }

  std::string missingRanks() const {
    std::set<int> missing;
    for (int r = 1; r < place.ranks; ++r)
      if (!sockets[r])
        missing.insert(r);
    return namesOf(missing) + ", which did not come";
  }

  void refuse(const Socket &socket, Code code, const std::string &why) {
    Answer answer{};
    std::memcpy(answer.magic, magic, sizeof magic);
    answer.refused = static_cast<int32_t>(code);
    answer.length = static_cast<int32_t>(std::min<size_t>(why.size(), 4096));
    auto soon = Time::now() + std::chrono::seconds(1);
    if (socket.sendAll(&answer, sizeof answer, soon))
      (void)socket.sendAll(why.data(), answer.length, soon);
  }

  Status join(Socket &listener) {
    auto first = Socket::connect(place.address, place.port, std::min(until, Time::now() + quiet));
    if (!first && first.status().code() == Code::DeadlineExceeded && Time::now() < until) {
      std::cerr << "omnibal-run: notice: rank " << place.rank << " has tried for " << seconds(quiet)
                << " to reach rank 0 at " << where() << " (" << first.status().message()
                << "), and goes on" << std::endl;
      first = Socket::connect(place.address, place.port, until);
    }
    if (!first)
      return first.status().code() == Code::DeadlineExceeded ? late(first.status().message())
                                                             : first.status();
    sockets[0] = *std::move(first);
    host = sockets[0].peer().text();
    // Only now: before rank 0 has it, the system could give this rank the port of the meeting.
    OMNIBAL_ASSIGN_OR_RETURN(listener, Socket::listen(0, listeners[place.rank].port));
    return hearRankZero();
  }

  /// Connects to the parent, if that is not rank 0, and waits for the children.
  Status growTree(const TcpMeeting &meeting) {
    if (const int parent = static_cast<int>(treeParent(place.rank)); parent != 0) {
      sockets[0] = Socket();
      OMNIBAL_ASSIGN_OR_RETURN(sockets[parent],
                               connectToRank(place, meeting.addresses, parent, until));
    }
    const std::vector<int64_t> children = treeChildren(place.rank, place.ranks);
    std::set<int> missing(children.begin(), children.end());
    while (!missing.empty()) {
      auto came = meeting.listener.accept(until);
      if (!came && came.status().code() != Code::DeadlineExceeded)
        return came.status().context("rank " + std::to_string(place.rank));
      if (!came)
        return {Code::DeadlineExceeded, "rank " + std::to_string(place.rank) + " waited " +
                                            seconds(deadline) + " for " + namesOf(missing) +
                                            " to connect"};
      Hello theirs{};
      if (!came->receiveAll(&theirs, sizeof theirs, std::min(until, Time::now() + meshPatience)) ||
          !isHigherRank(theirs, place) || sockets[theirs.rank])
        continue;
      sockets[theirs.rank] = *std::move(came);
      missing.erase(theirs.rank); // others may be early
    }
    return Status::ok();
  }

  Status late(const std::string &last) const {
    return {Code::DeadlineExceeded, "rank " + std::to_string(place.rank) + " waited " +
                                        seconds(deadline) + " for rank 0 at " + where() + " (" +
                                        last + ")"};
  }

  Status hearRankZero() {
    Hello mine = helloOf(place, listeners[place.rank].port);
    Answer answer{};
    // Rank 0 answers when all have come or its own deadline is over.
    auto answered = until + meshPatience;
    if (!sockets[0].sendAll(&mine, sizeof mine, until) ||
        !sockets[0].receiveAll(&answer, sizeof answer, answered) ||
        std::memcmp(answer.magic, magic, sizeof magic) != 0) {
      if (Time::now() < answered)
        return {Code::Unavailable, "rank " + std::to_string(place.rank) + ": rank 0 at " + where() +
                                       " ended the connection without an answer: it has all its "
                                       "ranks already, has ended, or is no omnibal-run"};
      return late("connected, but rank 0 says nothing or is no omnibal-run");
    }
    if (answer.refused) {
      std::string text(std::clamp(answer.length, 0, 4096), 0);
      (void)sockets[0].receiveAll(text.data(), text.size(), answered);
      return {answer.refused == static_cast<int32_t>(Code::Aborted) ? Code::Aborted
                                                                    : Code::InvalidArgument,
              text};
    }
    if (!sockets[0].receiveAll(listeners.data(), listeners.size() * sizeof(Listener), answered))
      return late("the connection was lost");
    for (Listener &listener : listeners)
      listener.address[sizeof listener.address - 1] = 0;
    return Status::ok();
  }

  const TcpPlace &place;
  milliseconds deadline;
  Time::time_point until;
  std::vector<Socket> sockets;
  std::vector<Listener> listeners;
  std::vector<std::string> names; ///< addresses of those who came to rank 0
  std::string host;               ///< rank 0's machine: a number where it is known
};

} // namespace

Result<TcpMeeting> meetRanks(const TcpPlace &place, milliseconds deadline) {
  return Mesh(place, deadline).meet();
}

Result<Socket> connectToRank(const TcpPlace &place, const std::vector<TcpAddress> &addresses,
                             int rank, Time::time_point until) {
  const TcpAddress &address = addresses[rank];
  auto made = Socket::connect(address.host, address.port, until);
  Hello mine = helloOf(place, 0);
  if (made && made->sendAll(&mine, sizeof mine, until))
    return made;
  const bool late = !made && made.status().code() == Code::DeadlineExceeded;
  return Status(
      late ? Code::DeadlineExceeded : Code::Unavailable,
      "rank " + std::to_string(place.rank) + " cannot connect to rank " + std::to_string(rank) +
          " at " + address.host + ", port " + std::to_string(address.port) + ": " +
          (made ? std::string(std::strerror(errno)) : made.status().message()) +
          (late ? "; do firewalls let the machines of the run reach each other's ports?" : ""));
}

TcpArrival::TcpArrival(Socket came) : socket(std::move(came)), until(Time::now() + meshPatience) {}

std::optional<int> TcpArrival::identify(const TcpPlace &place) {
  char bytes[sizeof(Hello)];
  const ssize_t got = recv(socket.get(), bytes, sizeof bytes - said.size(), MSG_DONTWAIT);
  const bool later = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  if (got > 0)
    said.insert(said.end(), bytes, bytes + got);
  if (said.size() < sizeof(Hello))
    return (got > 0 || later) && Time::now() < until ? std::nullopt : std::optional(-1);
  Hello theirs;
  std::memcpy(&theirs, said.data(), sizeof theirs);
  return isHigherRank(theirs, place) ? theirs.rank : -1;
}

} // namespace omnibal::rt
