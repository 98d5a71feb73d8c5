#include "runtime/comm/tcp/TcpCommunicator.h"
#include "runtime/comm/tcp/TcpPeer.h"
#include "runtime/comm/tcp/Watch.h"
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace omnibal::rt {
namespace {

using Time = std::chrono::steady_clock;
using std::chrono::milliseconds;
using tcp::FrameKind;
using tcp::News;
using tcp::OperationPointer;
using tcp::Peer;

/// How often a rank that waits asks what the other one does. One that nobody waits for tells
/// nothing, so that the messages of many ranks are as many as the ranks.
constexpr milliseconds questions{200};
/// After so long without a connection it is looked whether the run goes on.
constexpr milliseconds attempts{1000};
constexpr const char *waitsFor = ", waiting for rank ";
/// The time for a last word to go out.
constexpr milliseconds parting{1000};

std::string secondsText(Time::duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return std::to_string(seconds) + " s";
}

Status anotherFailed(const Status &reason) {
  return {Code::Aborted, "another rank failed: " + reason.message()};
}

class TcpCommunicator final : public Communicator {
public:
  TcpCommunicator(TcpOptions given, Milliseconds waits, TcpMeeting meeting)
      : Communicator(waits), options(std::move(given)), me(options.place.rank),
        listener(std::move(meeting.listener)), addresses(std::move(meeting.addresses)),
        peers(options.place.ranks), wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    for (int r = 0; r < size(); ++r) {
      peers[r].name = addresses[r].host;
      if (!meeting.sockets[r])
        continue;
      peers[r].open(std::move(meeting.sockets[r]));
      connected.push_back(r);
    }
    thread = std::thread([this] {
      try {
        serve();
      } catch (const std::exception &e) {
        fail(e.what());
      }
    });
  }

  ~TcpCommunicator() override {
    {
      std::unique_lock lock(mutex);
      leaving = true;
      if (!broken) {
        sayToAll(FrameKind::Bye, Status::ok());
        letGo(lock);
      }
      // Closed with something unread, a connection would take the last word with it.
      for (Peer &peer : peers)
        if (peer.isOpen())
          shutdown(peer.descriptor(), SHUT_WR);
      waitFor(lock, [](const Peer &peer) { return peer.ended || !peer.isOpen(); });
      stop = true; // whoever connects from here on is refused by the closed listener
    }
    nudge();
    thread.join();
  }

  int rank() const override { return me; }
  int size() const override { return static_cast<int>(peers.size()); }

  Status wait(Handle handle) override {
    std::unique_lock lock(mutex);
    auto found = operations.find(handle);
    if (found == operations.end())
      return {Code::Internal, "wait for an operation that was never started"};
    OperationPointer operation = found->second;
    const Peer &peer = peers[operation->peer];
    const Time::time_point begin = Time::now();
    waitingFor = operation->peer;
    waitingSince = begin;
    // A slow line, or a long row of ranks that wait for each other, is none that hangs.
    Time::time_point since = begin;
    auto over = [&] { return operation->done || broken || (peer.ended && !leaving); };
    bool came = false;
    while (!(came = changed.wait_until(lock, since + deadline, over)) && peer.progress > since)
      since = peer.progress;
    waitingFor = -1;
    if (operation->done) {
      operations.erase(handle);
      return operation->failure;
    }
    if (broken)
      return *broken;
    if (came)
      return {Code::Aborted, "another rank failed: " + nameOf(operation->peer) + " has ended"};
    const bool moved = since - begin > questions;
    return {Code::DeadlineExceeded,
            "rank " + std::to_string(me) + " (" + doing() + ") waited " +
                secondsText(moved ? Time::now() - begin : deadline) + " for " +
                nameOf(operation->peer) +
                (moved ? ", where nothing has moved for " + secondsText(deadline) : "")};
  }

  void abort(const Status &reason) override {
    std::unique_lock lock(mutex);
    leaving = true;
    if (!broken)
      broken = anotherFailed(reason);
    if (!cause)
      cause = reason;
    for (Peer &peer : peers)
      peer.cancel();
    operations.clear();
    tellAll();
    letGo(lock);
  }

  void announce(const Activity &now) override {
    std::lock_guard lock(activityMutex);
    activity = now;
    actedAt = Time::now();
  }
  std::string activityOf(int rank) override {
    std::unique_lock lock(mutex);
    if (rank == me)
      return doing();
    Peer &peer = peers[rank];
    if (ask(peer)) {
      nudge();
      const int64_t before = peer.timesTold;
      changed.wait_for(lock, questions,
                       [&] { return peer.timesTold > before || !peer.isOpen() || broken; });
    }
    return peer.activity;
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
    if (!to.isOpen() && !to.ended && peer < me)
      OMNIBAL_RETURN_IF_ERROR(connectTo(peer, lock));
    tellStep(to);
    if (direction == Direction::Send)
      to.send(operation);
    else
      to.receive(operation);
    Handle handle = next++;
    operations[handle] = operation;
    // Most of it fits into the socket at once, which saves a change of threads. That one finds out
    // why it does not.
    News news;
    bool more = to.isOpen() && (!to.write(news) || to.wantsToWrite());
    notice(to, news);
    lock.unlock();
    if (more)
      nudge();
    return handle;
  }

  /// Lower ranks are connected to when they are first needed.
  Status connectTo(int peer, std::unique_lock<std::mutex> &lock) {
    const Time::time_point until = Time::now() + deadline;
    for (;;) {
      lock.unlock();
      auto made =
          connectToRank(options.place, addresses, peer, std::min(until, Time::now() + attempts));
      lock.lock();
      if (broken)
        return *broken;
      if (!made && made.status().code() == Code::DeadlineExceeded && Time::now() < until)
        continue;
      OMNIBAL_RETURN_IF_ERROR(made.status());
      open(peer, *std::move(made));
      nudge();
      return Status::ok();
    }
  }
  void open(int rank, Socket made) {
    peers[rank].open(std::move(made));
    connected.push_back(rank);
    peers[rank].progress = Time::now();
    if (told) // it came late, and hears at once why the run ends
      peers[rank].say(FrameKind::Abort, static_cast<uint32_t>(cause->code()), cause->message());
    else
      peers[rank].say(FrameKind::Activity, sinceProgress(movedOn()), doing());
  }
  /// Whoever has had to do with this rank in a step knows that it was there, however soon after
  /// that it hangs.
  void tellStep(Peer &peer) {
    std::unique_lock guard(activityMutex);
    if (!peer.isOpen() || peer.ended || peer.toldStep == activity.step)
      return;
    peer.toldStep = activity.step;
    const std::string text = toString(activity);
    guard.unlock();
    peer.say(FrameKind::Activity, sinceProgress(movedOn()), text);
  }

  std::string doing() {
    std::lock_guard guard(activityMutex);
    return toString(activity);
  }
  /// When this rank, or whom it waits for, last moved on: began an action, or moved bytes of a
  /// message.
  Time::time_point movedOn() {
    const Time::time_point other =
        waitingFor >= 0 ? peers[waitingFor].progress : Time::time_point::min();
    std::lock_guard guard(activityMutex);
    return std::max({actedAt, movedAt, other});
  }
  static uint32_t sinceProgress(Time::time_point when) {
    const auto since = std::chrono::duration_cast<milliseconds>(Time::now() - when).count();
    return static_cast<uint32_t>(std::clamp<int64_t>(since, 0, UINT32_MAX));
  }
  void notice(Peer &peer, const News &news) {
    if (news.moved)
      movedAt = peer.progress = Time::now();
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
      Status lost(Code::Unavailable,
                  "rank " + std::to_string(me) + " (" + doing() + ") lost " + who + ": " + how);
      breakOff(lost, lost);
    }
    changed.notify_all();
  }

  /// From now on every operation fails with `status`, and the others hear `why`.
  void breakOff(const Status &status, const Status &why) {
    broken = status;
    cause = why;
    noticed = Time::now();
    tellAll();
    changed.notify_all();
  }

  /// Passes on why the run ends, once: not every rank is connected to the one that knows.
  void tellAll() {
    if (!told)
      sayToAll(FrameKind::Abort, *cause);
    told = true;
  }
  void sayToAll(FrameKind word, const Status &reason) {
    for (Peer &peer : peers)
      if (peer.isOpen())
        peer.say(word, static_cast<uint32_t>(reason.code()), reason.message());
    nudge();
  }
  /// Waits a little for last words to go out.
  void letGo(std::unique_lock<std::mutex> &lock) {
    waitFor(lock, [](const Peer &peer) { return !peer.isOpen() || !peer.wantsToWrite(); });
  }
  void waitFor(std::unique_lock<std::mutex> &lock, bool (*over)(const Peer &)) {
    changed.wait_for(lock, parting, [&] { return std::all_of(peers.begin(), peers.end(), over); });
  }

  /// The thread of the sockets ends: so does the run, and the others notice when this process does.
  void fail(const char *why) {
    std::lock_guard lock(mutex);
    if (!broken)
      broken = Status(Code::Unavailable, "rank " + std::to_string(me) + " (sockets): " + why);
    changed.notify_all();
  }

  /// What the thread of the sockets waits for, beside the connections to ranks.
  enum Others : int { Nudge = -1, Listener = -2, Arrival = -3 };

  /// The thread of the sockets.
  void serve() {
    tcp::Watch watch;
    watch.set(wake.get(), Nudge, EPOLLIN);
    watch.set(listener.get(), Listener, EPOLLIN);
    Time::time_point nextQuestion = Time::now();
    std::unique_lock lock(mutex);
    while (!stop) {
      watchPeers(watch);
      lock.unlock();
      const std::span<const epoll_event> events = watch.wait(questions);
      lock.lock();
      uint64_t count;
      [[maybe_unused]] ssize_t ignored = ::read(wake.get(), &count, sizeof count);
      bool knocks = false;
      for (const epoll_event &event : events) {
        const int id = tcp::Watch::idOf(event);
        knocks |= id == Listener;
        if (id >= 0 && peers[id].isOpen())
          attend(id, event.events);
      }
      admit(watch, knocks);
      if (Time::now() >= nextQuestion) {
        if (waitingFor >= 0)
          ask(peers[waitingFor]);
        nextQuestion = Time::now() + questions;
      }
      abandonIfStuck(lock);
    }
  }

  void watchPeers(tcp::Watch &watch) {
    for (int rank : connected) {
      Peer &peer = peers[rank];
      const uint32_t events = EPOLLIN | (peer.wantsToWrite() ? EPOLLOUT : 0);
      if (peer.isOpen() && std::exchange(peer.watched, events) != events)
        watch.set(peer.descriptor(), rank, events);
    }
  }

  /// Connections from higher ranks, which say at once who they are.
  void admit(tcp::Watch &watch, bool knocks) {
    if (knocks) {
      if (auto came = listener.accept(Time::now())) {
        arrivals.emplace_back(*std::move(came));
        watch.set(arrivals.back().descriptor(), Arrival, EPOLLIN);
      } else if (came.status().code() != Code::DeadlineExceeded && !broken) {
        const Status refused = came.status().context("rank " + std::to_string(me));
        breakOff(refused, refused);
      }
    }
    for (size_t i = 0; i < arrivals.size();) {
      const std::optional<int> rank = arrivals[i].identify(options.place);
      if (!rank) {
        ++i;
        continue;
      }
      if (*rank >= 0 && !peers[*rank].isOpen() && !peers[*rank].ended)
        open(*rank, arrivals[i].take());
      arrivals.erase(arrivals.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void attend(int rank, uint32_t events) {
    Peer &peer = peers[rank];
    News news;
    bool alive = !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || peer.read(news);
    if (alive && peer.wantsToWrite() && !peer.write(news))
      while (alive && !news.aborted) // what it said before it went
        alive = peer.read(news) && !waitsForNothing(peer);
    notice(peer, news);
    if (alive && news.asked)
      answer(peer);
    if (news.aborted && !broken)
      breakOff(anotherFailed(news.reason), news.reason);
    if (!alive && !peer.ended && !broken)
      lose(rank, "the connection was closed");
    else if (!alive)
      peer.close();
    if (!alive || news.finished || news.aborted || news.told || (leaving && !peer.wantsToWrite()))
      changed.notify_all();
  }
  /// Nothing more comes from a connection that cannot be written to.
  static bool waitsForNothing(const Peer &peer) {
    pollfd entry{peer.descriptor(), POLLIN, 0};
    return poll(&entry, 1, 0) == 0;
  }

  /// For whom this rank waits, and for whom that one does, and so on: who waits for somebody that
  /// waits names the one that all wait for.
  std::string waitingText(int rank) const {
    constexpr size_t longest = 200; // ranks may wait for each other
    std::string text = waitsFor + std::to_string(rank);
    if (const size_t further = peers[rank].activity.find(waitsFor); further != std::string::npos)
      text += peers[rank].activity.substr(further);
    return text.substr(0, longest);
  }

  /// False where there is nobody to answer.
  bool ask(Peer &peer) {
    const bool may = peer.isOpen() && !peer.ended && !broken;
    if (may)
      peer.say(FrameKind::Question, 0, "");
    return may;
  }

  /// Tells whoever asked what this rank does, and for whom it waits.
  void answer(Peer &peer) {
    const bool stuck = waitingFor >= 0 && Time::now() - waitingSince >= questions;
    // What only comes around again, through ranks that wait for each other, is no progress.
    if (const Time::time_point moved = movedOn(); moved - toldProgress >= questions)
      toldProgress = moved;
    peer.say(FrameKind::Activity, sinceProgress(toldProgress),
             doing() + (stuck ? waitingText(waitingFor) : ""));
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
  Socket listener;
  std::vector<TcpAddress> addresses; ///< of all ranks
  std::vector<TcpArrival> arrivals;
  std::vector<Peer> peers;    ///< by rank; only those are open with whom this one talks
  std::vector<int> connected; ///< which of them have been opened
  Socket wake;
  std::mutex mutex; ///< of everything but the activity
  std::condition_variable changed;
  std::mutex activityMutex;
  Activity activity;
  Time::time_point actedAt = Time::now(), movedAt = actedAt; ///< the first with the activity's lock
  Time::time_point toldProgress;                             ///< what of it has been told
  int waitingFor = -1; ///< a rank, while this one is in wait()
  Time::time_point waitingSince;
  Handle next = 0;
  std::map<Handle, OperationPointer> operations; ///< not yet waited for
  std::optional<Status> broken;                  ///< what every operation gives from now on
  std::optional<Status> cause;                   ///< in the words of the rank that failed first
  Time::time_point noticed;
  bool leaving = false, told = false, stop = false, abandoned = false;
  std::thread thread;
};

} // namespace

Result<std::unique_ptr<Communicator>> createTcpCommunicator(const TcpOptions &options,
                                                            Communicator::Milliseconds waits) {
  OMNIBAL_ASSIGN_OR_RETURN(TcpMeeting meeting, meetRanks(options.place, options.deadline));
  return std::unique_ptr<Communicator>(
      std::make_unique<TcpCommunicator>(options, waits, std::move(meeting)));
}

} // namespace omnibal::rt
