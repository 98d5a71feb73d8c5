#include "runtime/comm/threads/ThreadCommunicator.h"
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

namespace omnibal::rt {
namespace {

using Piece = Communicator::Piece;

/// One side of a message. The other side copies into or out of it and then marks it done.
struct Operation {
  std::vector<Piece> pieces;
  int owner = 0, peer = 0;
  int64_t tag = 0;
  bool sends = false;
  bool matched = false; ///< the peer copies from or to this side's memory until `done`
  bool done = false;
  Status failure;
};

/// What all ranks share: unmatched operations, and why everything ended if it did.
struct World {
  explicit World(int ranks) : wake(ranks), activity(ranks) {}

  using Key = std::tuple<int, int, int64_t>; ///< from, to, tag
  std::mutex mutex;
  std::deque<std::condition_variable> wake; ///< one a rank
  std::map<Key, std::deque<std::shared_ptr<Operation>>> sends, receives;
  std::vector<Activity> activity;
  std::optional<Status> aborted;
};

Status copyPieces(const Operation &from, const Operation &to) {
  bool same = from.pieces.size() == to.pieces.size();
  for (size_t i = 0; same && i < from.pieces.size(); ++i)
    same = from.pieces[i].bytes == to.pieces[i].bytes;
  if (!same)
    return {Code::Internal, "rank " + std::to_string(from.owner) + " and rank " +
                                std::to_string(to.owner) + " disagree about the sizes of message " +
                                std::to_string(from.tag)};
  for (size_t i = 0; i < from.pieces.size(); ++i)
    if (from.pieces[i].bytes > 0)
      std::memcpy(to.pieces[i].data, from.pieces[i].data, from.pieces[i].bytes);
  return Status::ok();
}

class ThreadCommunicator final : public Communicator {
public:
  ThreadCommunicator(std::shared_ptr<World> world, int rank, Milliseconds deadline)
      : Communicator(deadline), world(std::move(world)), me(rank) {}

  int rank() const override { return me; }
  int size() const override { return world->activity.size(); }

  Status wait(Handle handle) override {
    auto found = open.find(handle);
    if (found == open.end())
      return {Code::Internal, "wait for an operation that was never started"};
    std::shared_ptr<Operation> operation = found->second;
    open.erase(found);
    std::unique_lock lock(world->mutex);
    bool came =
        world->wake[me].wait_for(lock, deadline, [&] { return operation->done || world->aborted; });
    if (operation->done)
      return operation->failure;
    if (came)
      return abortion();
    open[handle] = operation; // its memory stays in use until abort()
    std::string text = "rank " + std::to_string(me) + " (" + toString(world->activity[me]) +
                       ") waited " + std::to_string(deadline.count() / 1000.0) + " s for rank " +
                       std::to_string(operation->peer) + " (" +
                       toString(world->activity[operation->peer]) + ")";
    return {Code::DeadlineExceeded, text};
  }

  void abort(const Status &reason) override {
    std::unique_lock lock(world->mutex);
    if (!world->aborted)
      world->aborted = reason;
    for (auto &condition : world->wake)
      condition.notify_all();
    // Nothing new is matched from here on; when no copy touches our memory it may be freed.
    world->wake[me].wait(lock, [&] {
      for (const auto &[handle, operation] : open)
        if (operation->matched && !operation->done)
          return false;
      return true;
    });
    open.clear();
  }

  void announce(const Activity &activity) override {
    std::lock_guard lock(world->mutex);
    world->activity[me] = activity;
  }
  std::string activityOf(int rank) override {
    std::lock_guard lock(world->mutex);
    return toString(world->activity[rank]);
  }
  Status health() override {
    std::lock_guard lock(world->mutex);
    return world->aborted ? abortion() : Status::ok();
  }

private:
  Status abortion() const {
    return {Code::Aborted, "another rank failed: " + world->aborted->message()};
  }

  Result<Handle> post(Direction direction, int peer, int64_t tag,
                      std::span<const Piece> pieces) override {
    const bool sends = direction == Direction::Send;
    auto mine = std::make_shared<Operation>();
    mine->pieces.assign(pieces.begin(), pieces.end());
    mine->owner = me;
    mine->peer = peer;
    mine->tag = tag;
    mine->sends = sends;
    World::Key key = sends ? World::Key{me, peer, tag} : World::Key{peer, me, tag};
    std::shared_ptr<Operation> theirs;
    {
      std::lock_guard lock(world->mutex);
      if (world->aborted)
        return abortion();
      auto &waiting = sends ? world->receives : world->sends;
      if (auto found = waiting.find(key); found != waiting.end()) {
        theirs = found->second.front();
        theirs->matched = mine->matched = true;
        found->second.pop_front();
        if (found->second.empty())
          waiting.erase(found);
      } else {
        (sends ? world->sends : world->receives)[key].push_back(mine);
      }
    }
    Handle handle = next++;
    open[handle] = mine;
    if (!theirs)
      return handle;
    // Outside the lock: other pairs go on. Neither side returns from wait() before `done`.
    Status status = copyPieces(sends ? *mine : *theirs, sends ? *theirs : *mine);
    std::lock_guard lock(world->mutex);
    mine->failure = theirs->failure = status;
    mine->done = theirs->done = true;
    world->wake[peer].notify_all();
    return handle;
  }

  std::shared_ptr<World> world;
  int me;
  Handle next = 0;
  std::map<Handle, std::shared_ptr<Operation>> open;
};

} // namespace

std::vector<std::unique_ptr<Communicator>>
createThreadCommunicators(int ranks, Communicator::Milliseconds deadline) {
  auto world = std::make_shared<World>(ranks);
  std::vector<std::unique_ptr<Communicator>> result;
  for (int r = 0; r < ranks; ++r)
    result.push_back(std::make_unique<ThreadCommunicator>(world, r, deadline));
  return result;
}

} // namespace omnibal::rt
