#include "runtime/comm/tcp/TcpCommunicator.h"
#include "runtime/comm/tcp/TcpPeer.h"
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace omnibal::rt {
namespace {

using Time = std::chrono::steady_clock;
using std::chrono::milliseconds;
using tcp::FrameKind;
using tcp::News;
using tcp::OperationPointer;
using tcp::Peer;

/// How often this rank tells what it does, if that has changed.
constexpr milliseconds announcements{200};
/// The time for a last word to go out.
constexpr milliseconds parting{1000};

class TcpCommunicator final : public Communicator {
public:
  TcpCommunicator(TcpOptions given, Milliseconds waits, std::vector<Socket> sockets,
                  const std::vector<std::string> &names)
      : Communicator(waits), options(std::move(given)), me(options.place.rank),
        peers(options.place.ranks), wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (int r = 0; r < size(); ++r)
      if (r != me)
        peers[r].open(std::move(sockets[r]), names[r]);
    thread = std::thread([this] { serve(); });
  }

  ~TcpCommunicator() override {
    {
      std::unique_lock lock(mutex);
      leaving = true;
      if (!broken)
        part(lock, FrameKind::Bye, Status::ok());
      // Closed with something unread, a connection would take the last word with it.
      for (Peer &peer : peers)
        if (peer.isOpen())
          shutdown(peer.descriptor(), SHUT_WR);
      waitFor(lock, [](const Peer &peer) { return peer.ended || !peer.isOpen(); });
      stop = true;
    }
    nudge();
    thread.join();
  }

  int rank() const override { return me; }
  int size() const override { return static_cast<int>(peers.size()); }

  Status wait(Handle handle) override {
    std::unique_lock lock(mutex);
    auto found = open.find(handle);
    if (found == open.end())
      return {Code::Internal, "wait for an operation that was never started"};
    OperationPointer operation = found->second;
    const Peer &peer = peers[operation->peer];
    bool came = changed.wait_for(
        lock, deadline, [&] { return operation->done || broken || (peer.ended && !leaving); });
    if (operation->done) {
      open.erase(handle);
      return operation->failure;
    }
    if (broken)
      return *broken;
    if (came)
      return {Code::Aborted, "another rank failed: " + nameOf(operation->peer) + " has ended"};
    return {Code::DeadlineExceeded,
            "rank " + std::to_string(me) + " (" + doing() + ") waited " +
                std::to_string(static_cast<double>(deadline.count()) / 1000.0) + " s for " +
                nameOf(operation->peer)};
  }

  void abort(const Status &reason) override {
    std::unique_lock lock(mutex);
    leaving = true;
    if (!broken)
      broken = Status(Code::Aborted, "another rank failed: " + reason.message());
    if (!cause)
      cause = reason;
    for (Peer &peer : peers)
      peer.cancel();
    open.clear();
    if (!told)
      part(lock, FrameKind::Abort, *cause);
    told = true;
  }

  void announce(const Activity &now) override {
    std::lock_guard lock(activityMutex);
    activity = now;
    activityIsNew = true;
  }
  std::string activityOf(int rank) override {
    std::lock_guard lock(mutex);
    return rank == me ? doing() : peers[rank].activity;
  }
  Status health() override {
    std::lock_guard lock(mutex);
    return broken ? *broken : Status::ok();
  }

private:
  Result<Handle> post(Direction direction, int peer, int64_t tag,
                      std::span<const Piece> pieces) override {
    auto operation = std::make_shared<tcp::Operation>();
    operation->pieces.assign(pieces.begin(), pieces.end());
    operation->peer = peer;
    operation->tag = tag;
    for (const Piece &piece : pieces)
      operation->total += piece.bytes;
    std::unique_lock lock(mutex);
    if (broken)
      return *broken;
    Peer &to = peers[peer];
    if (direction == Direction::Send)
      to.send(operation);
    else
      to.receive(operation);
    Handle handle = next++;
    open[handle] = operation;
    // Most of it fits into the socket at once, which saves a change of threads. That one finds out
    // why it does not.
    News news;
    bool more = !to.write(news) || to.wantsToWrite();
    lock.unlock();
    if (more)
      nudge();
    return handle;
  }

  std::string doing() {
    std::lock_guard guard(activityMutex);
    return toString(activity);
  }
  std::string nameOf(int rank) const {
    const Peer &peer = peers[rank];
    return "rank " + std::to_string(rank) + " at " + peer.name +
           (peer.activity.empty() ? "" : " (" + peer.activity + ")");
  }

  void nudge() {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t ignored = write(wake.get(), &one, sizeof one);
  }

  /// The connection to a rank is gone; nothing of this run can be finished.
  void lose(int rank, const std::string &how) {
    std::string who = nameOf(rank);
    peers[rank].close();
    if (!broken && !leaving) {
      broken = Status(Code::Unavailable,
                      "rank " + std::to_string(me) + " (" + doing() + ") lost " + who + ": " + how);
      cause = broken;
      noticed = Time::now();
    }
    changed.notify_all();
  }

  /// Says a last word to all and waits a little for it to go out.
  void part(std::unique_lock<std::mutex> &lock, FrameKind word, const Status &reason) {
    for (Peer &peer : peers)
      if (peer.isOpen())
        peer.say(word, static_cast<uint32_t>(reason.code()), reason.message());
    nudge();
    waitFor(lock, [](const Peer &peer) { return !peer.isOpen() || !peer.wantsToWrite(); });
  }
  void waitFor(std::unique_lock<std::mutex> &lock, bool (*over)(const Peer &)) {
    changed.wait_for(lock, parting, [&] { return std::all_of(peers.begin(), peers.end(), over); });
  }

  /// The thread of the sockets.
  void serve() {
    std::vector<pollfd> entries;
    std::vector<int> ranks;
    Time::time_point nextAnnouncement = Time::now();
    std::unique_lock lock(mutex);
    while (!stop) {
      entries.assign(1, {wake.get(), POLLIN, 0});
      ranks.assign(1, -1);
      for (int r = 0; r < size(); ++r)
        if (peers[r].isOpen()) {
          short events = static_cast<short>(POLLIN | (peers[r].wantsToWrite() ? POLLOUT : 0));
          entries.push_back({peers[r].descriptor(), events, 0});
          ranks.push_back(r);
        }
      lock.unlock();
      poll(entries.data(), entries.size(), static_cast<int>(announcements.count()));
      lock.lock();
      uint64_t count;
      [[maybe_unused]] ssize_t ignored = ::read(wake.get(), &count, sizeof count);
      for (size_t i = 1; i < entries.size(); ++i)
        if (entries[i].revents && peers[ranks[i]].isOpen())
          attend(ranks[i], entries[i].revents);
      if (Time::now() >= nextAnnouncement) {
        tell();
        nextAnnouncement = Time::now() + announcements;
      }
      abandonIfStuck(lock);
    }
  }

  void attend(int rank, short events) {
    Peer &peer = peers[rank];
    News news;
    bool alive = !(events & (POLLIN | POLLHUP | POLLERR)) || peer.read(news);
    if (alive && peer.wantsToWrite() && !peer.write(news))
      while (alive && !news.aborted) // what it said before it went
        alive = peer.read(news) && !waitsForNothing(peer);
    if (news.aborted && !broken) {
      cause = news.reason;
      broken = Status(Code::Aborted, "another rank failed: " + news.reason.message());
      noticed = Time::now();
    }
    if (!alive && !peer.ended && !broken)
      lose(rank, "the connection was closed");
    else if (!alive)
      peer.close();
    if (!alive || news.finished || news.aborted || !peer.wantsToWrite())
      changed.notify_all();
  }
  /// Nothing more comes from a connection that cannot be written to.
  static bool waitsForNothing(const Peer &peer) {
    pollfd entry{peer.descriptor(), POLLIN, 0};
    return poll(&entry, 1, 0) == 0;
  }

  void tell() {
    std::string text;
    {
      std::lock_guard guard(activityMutex);
      if (!activityIsNew)
        return;
      activityIsNew = false;
      text = toString(activity);
    }
    for (Peer &peer : peers)
      if (peer.isOpen() && !peer.ended)
        peer.say(FrameKind::Activity, 0, text);
  }

  void abandonIfStuck(std::unique_lock<std::mutex> &lock) {
    if (!broken || leaving || abandoned || !options.abandoned ||
        Time::now() - noticed < options.patience)
      return;
    abandoned = true;
    Status reason = *broken;
    std::string now = doing();
    lock.unlock();
    options.abandoned(now, reason);
    lock.lock();
  }

  TcpOptions options;
  int me;
  std::vector<Peer> peers;
  Socket wake;
  std::mutex mutex; ///< of everything but the activity
  std::condition_variable changed;
  std::mutex activityMutex;
  Activity activity;
  bool activityIsNew = false;
  Handle next = 0;
  std::map<Handle, OperationPointer> open;
  std::optional<Status> broken; ///< what every operation gives from now on
  std::optional<Status> cause;  ///< in the words of the rank that failed first
  Time::time_point noticed;
  bool leaving = false, told = false, stop = false, abandoned = false;
  std::thread thread;
};

} // namespace

Result<std::unique_ptr<Communicator>> createTcpCommunicator(const TcpOptions &options,
                                                            Communicator::Milliseconds waits) {
  std::vector<std::string> names;
  OMNIBAL_ASSIGN_OR_RETURN(auto sockets, connectMesh(options.place, options.deadline, names));
  return std::unique_ptr<Communicator>(
      std::make_unique<TcpCommunicator>(options, waits, std::move(sockets), names));
}

} // namespace omnibal::rt
