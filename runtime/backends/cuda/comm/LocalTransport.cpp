#include "runtime/backends/cuda/comm/LocalTransport.h"
#include "runtime/backends/cuda/comm/DeviceMove.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>
#include <unistd.h>

namespace omnibal::rt::cuda {
namespace {

using EventPointer = std::shared_ptr<DriverEvent>;

/// One side of a message.
struct Operation {
  std::vector<Transport::Piece> pieces;
  int owner = 0, peer = 0;
  int64_t tag = 0;
  EventPointer ready; ///< sender: the data are made; receiver: the place is free
  bool done = false;  ///< the copy is enqueued, or `failure` says why not
  EventPointer copied;
  Status failure;
};

/// Ranks that do something together come here twice: with their memory, and when they have done
/// their share.
struct Meeting {
  std::map<int, std::vector<std::byte *>> data; ///< the pieces
  std::map<int, EventPointer> ready, added;
  int64_t bytes = -1; ///< of all pieces
  int left = 0;       ///< ranks that have read everything
};

/// The tag of messages that make a broadcast; those of callers are not negative.
constexpr int64_t broadcastTag = -1;

struct World {
  explicit World(int ranks) : ranks(ranks) {}

  using Key = std::tuple<int, int, int64_t>; ///< from, to, tag
  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Key, std::deque<std::shared_ptr<Operation>>> sends, receives;
  std::map<std::vector<int>, std::map<int64_t, Meeting>> meetings;
  std::set<int> left; ///< ranks that have ended: who waits for one waits in vain
};

class LocalTransport final : public Transport {
public:
  LocalTransport(std::shared_ptr<World> world, int rank, const RankStream &queue,
                 std::unique_ptr<Stream> copies)
      : world(std::move(world)), me(rank), queue(queue), compute(queue.stream),
        copies(std::move(copies)), deadline(queue.deadline) {}

  /// Ends what is under way: afterwards nobody enqueues work on this rank's memory, and the device
  /// has done what was enqueued.
  ~LocalTransport() override {
    {
      std::lock_guard<std::mutex> lock(world->mutex);
      for (auto *table : {&world->sends, &world->receives})
        for (auto &[key, list] : *table)
          std::erase_if(list, [&](const auto &operation) { return operation->owner == me; });
      world->left.insert(me);
    }
    world->changed.notify_all();
    // What was waited for is done before this rank's queue goes on; after a failure all is waited
    // for, as others' streams copy here too.
    if (!open.empty() || !sums.empty() || adding)
      (void)cudaDeviceSynchronize();
    else
      (void)cudaStreamSynchronize(copies->handle());
  }

  Result<Handle> send(int peer, int64_t tag, std::span<const Piece> pieces) override {
    return post(true, peer, tag, pieces);
  }
  Result<Handle> receive(int peer, int64_t tag, std::span<const Piece> pieces) override {
    return post(false, peer, tag, pieces);
  }

  Status wait(Handle handle) override {
    if (auto sum = sums.find(handle); sum != sums.end()) {
      for (const EventPointer &added : sum->second.added)
        OMNIBAL_RETURN_IF_ERROR(orderBehind(compute, *added));
      sums.erase(sum);
      return Status::ok();
    }
    if (auto broadcast = broadcasts.find(handle); broadcast != broadcasts.end()) {
      for (Handle message : broadcast->second)
        OMNIBAL_RETURN_IF_ERROR(wait(message));
      broadcasts.erase(broadcast);
      return Status::ok();
    }
    auto found = open.find(handle);
    if (found == open.end())
      return {Code::Internal, "wait for an operation that was never started"};
    std::shared_ptr<Operation> operation = found->second;
    std::unique_lock<std::mutex> lock(world->mutex);
    OMNIBAL_RETURN_IF_ERROR(
        waitUntilNone(lock, [&] { return operation->done ? -1 : operation->peer; }));
    lock.unlock();
    open.erase(found);
    OMNIBAL_RETURN_IF_ERROR(std::move(operation->failure));
    return orderBehind(compute, *operation->copied);
  }

  Result<Handle> startSum(std::span<const FloatRun> runs, std::span<const int> ranks,
                          std::optional<Event> after) override {
    std::vector<std::byte *> data;
    std::vector<int64_t> sizes;
    for (const FloatRun &run : runs) {
      data.push_back(reinterpret_cast<std::byte *>(run.data));
      sizes.push_back(run.elements);
    }
    return together(data, sizes, sizeof(float), ranks, after, [&](const Members &members) {
      for (size_t i = 0; i < sizes.size(); ++i)
        OMNIBAL_RETURN_IF_ERROR(addShare(members, i, sizes[i]));
      return Status::ok();
    });
  }

  /// Each rank adds its own pieces.
  Result<Handle> startScatter(std::span<const OwnedPiece> pieces, std::span<const int> ranks,
                              std::optional<Event> after) override {
    return together(pieces, ranks, after, [&](const Members &members) {
      for (size_t i = 0; i < pieces.size(); ++i)
        if (pieces[i].owner == members.place)
          OMNIBAL_RETURN_IF_ERROR(
              add(members, i, 0, pieces[i].bytes / int64_t{sizeof(float)}, members.place));
      return Status::ok();
    });
  }

  /// Each rank copies its own pieces to the others.
  Result<Handle> startGather(std::span<const OwnedPiece> pieces,
                             std::span<const int> ranks) override {
    return together(pieces, ranks, std::nullopt, [&](const Members &members) {
      for (size_t i = 0; i < pieces.size(); ++i)
        for (int to = 0; pieces[i].owner == members.place && to < members.count(); ++to)
          if (to != members.place)
            OMNIBAL_RETURN_IF_ERROR(
                copy(members.data(to, i), members.data(members.place, i), pieces[i].bytes));
      return Status::ok();
    });
  }

  /// A message to each: copies within the device, each on the stream of the side that calls last.
  Result<Handle> startBroadcast(std::span<const Piece> pieces, int root,
                                std::span<const int> ranks) override {
    if (std::find(ranks.begin(), ranks.end(), me) == ranks.end() ||
        std::find(ranks.begin(), ranks.end(), root) == ranks.end())
      return Status(Code::Internal, "a broadcast's ranks must contain its root and the caller");
    const Handle handle = next++;
    std::vector<Handle> &messages = broadcasts[handle];
    for (int peer : ranks)
      if (peer != me && (me == root || peer == root)) {
        OMNIBAL_ASSIGN_OR_RETURN(Handle message, post(me == root, peer, broadcastTag, pieces));
        messages.push_back(message);
      }
    return handle;
  }

  /// Parts copy what they have into others' memory; of a sum, each adds a share of the elements, or
  /// its own units, in the order of parts.
  Status exchange(const PartMove &move, std::span<const TensorView> operands,
                  const SymbolValues &symbols, std::span<const int> ranks) override {
    const auto place = std::find(ranks.begin(), ranks.end(), me) - ranks.begin();
    OMNIBAL_ASSIGN_OR_RETURN(const DeviceMove own,
                             DeviceMove::of(move, operands, symbols, static_cast<int>(place),
                                            static_cast<int>(ranks.size())));
    if (!own.sends())
      return own.performAlone(compute);
    // All name the size of the whole value.
    OMNIBAL_ASSIGN_OR_RETURN(
        Handle handle,
        together({own.src, own.dst}, {own.wholeElements, 0}, bytesOf(own.type), ranks, std::nullopt,
                 [&](const Members &members) { return shareOfMove(own, members); }));
    return wait(handle);
  }

  /// Returns the clock of this rank's share.
  std::function<TimeSpan()> clockOf(Handle handle) override {
    auto found = sums.find(handle);
    if (found == sums.end() || !found->second.end)
      return nullptr;
    return [begin = found->second.begin, end = found->second.end, timeOf = queue.timeOf] {
      return TimeSpan{timeOf(*begin), timeOf(*end)};
    };
  }

private:
  /// One that has begun and is not waited for.
  struct Sum {
    std::vector<EventPointer> added; ///< all shares of all its numbers
    EventPointer begin, end;         ///< of this rank's shares; timed
  };

  /// Those that meet, when all have come.
  struct Members {
    const Meeting &meeting;
    const std::vector<int> &ranks;
    int place; ///< of this rank

    int count() const { return static_cast<int>(ranks.size()); }
    std::byte *data(int member, size_t piece) const {
      return meeting.data.at(ranks[member])[piece];
    }
  };
  using Share = std::function<Status(const Members &)>;

  Result<Handle> together(std::span<const OwnedPiece> pieces, std::span<const int> ranks,
                          std::optional<Event> after, const Share &share) {
    std::vector<std::byte *> data;
    std::vector<int64_t> sizes;
    for (const OwnedPiece &piece : pieces) {
      if (piece.owner < 0 || piece.owner >= static_cast<int>(ranks.size()))
        return Status(Code::Internal, "a collective's ranks must contain the owner of each piece");
      data.push_back(static_cast<std::byte *>(piece.data));
      sizes.push_back(piece.bytes);
    }
    return together(data, sizes, 1, ranks, after, share);
  }

  Result<Handle> together(std::vector<std::byte *> data, const std::vector<int64_t> &sizes,
                          int64_t width, std::span<const int> ranks, std::optional<Event> after,
                          const Share &share) {
    std::vector<int> members(ranks.begin(), ranks.end());
    if (std::find(members.begin(), members.end(), me) == members.end() ||
        !std::is_sorted(members.begin(), members.end()))
      return Status(Code::Internal,
                    "a collective's ranks must be ascending and contain the caller");
    Handle handle = next++;
    Sum &sum = sums[handle];
    const int64_t bytes = std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) * width;
    if (members.size() == 1 || bytes == 0)
      return handle;
    OMNIBAL_ASSIGN_OR_RETURN(EventPointer ready, queue.eventOf(after));
    adding = true;
    OMNIBAL_RETURN_IF_ERROR(meet(std::move(data), bytes, members, ready, sum, share));
    adding = false;
    return handle;
  }

  /// Waits until `late`, which names a rank that has not come yet, gives -1.
  template <typename Late> Status waitUntilNone(std::unique_lock<std::mutex> &lock, Late late) {
    world->changed.wait_for(lock, deadline,
                            [&] { return late() < 0 || world->left.count(late()) > 0; });
    const int rank = late();
    if (rank < 0)
      return Status::ok();
    if (world->left.count(rank))
      return {Code::Aborted, "another rank failed: rank " + std::to_string(rank) + " has ended"};
    return {Code::DeadlineExceeded, "rank " + std::to_string(me) + " waited " +
                                        std::to_string(deadline.count() / 1000.0) + " s for rank " +
                                        std::to_string(rank)};
  }

  Result<Handle> post(bool sends, int peer, int64_t tag, std::span<const Piece> pieces) {
    if (peer < 0 || peer >= world->ranks || peer == me)
      return Status(Code::Internal, "there is no rank " + std::to_string(peer) + " to talk to");
    auto mine = std::make_shared<Operation>();
    mine->pieces.assign(pieces.begin(), pieces.end());
    mine->owner = me;
    mine->peer = peer;
    mine->tag = tag;
    OMNIBAL_ASSIGN_OR_RETURN(mine->ready, DriverEvent::after(compute));
    World::Key key = sends ? World::Key{me, peer, tag} : World::Key{peer, me, tag};
    Handle handle = next++;
    open[handle] = mine;
    std::lock_guard<std::mutex> lock(world->mutex);
    auto &waiting = sends ? world->receives : world->sends;
    auto found = waiting.find(key);
    if (found == waiting.end() || found->second.empty()) {
      (sends ? world->sends : world->receives)[key].push_back(mine);
      return handle;
    }
    std::shared_ptr<Operation> theirs = found->second.front();
    found->second.pop_front();
    if (found->second.empty())
      waiting.erase(found);
    // Enqueueing takes microseconds; under the lock neither side can leave in the middle.
    Status status = copy(sends ? *mine : *theirs, sends ? *theirs : *mine, *mine, *theirs);
    mine->failure = theirs->failure = status;
    mine->done = theirs->done = true;
    world->changed.notify_all();
    return handle;
  }

  Status copy(const Operation &from, const Operation &to, Operation &mine, Operation &theirs) {
    bool same = from.pieces.size() == to.pieces.size();
    for (size_t i = 0; same && i < from.pieces.size(); ++i)
      same = from.pieces[i].bytes == to.pieces[i].bytes;
    if (!same)
      return {Code::Internal,
              "rank " + std::to_string(from.owner) + " and rank " + std::to_string(to.owner) +
                  " disagree about the sizes of message " + std::to_string(from.tag)};
    OMNIBAL_RETURN_IF_ERROR(orderBehind(copies->handle(), *from.ready));
    OMNIBAL_RETURN_IF_ERROR(orderBehind(copies->handle(), *to.ready));
    for (size_t i = 0; i < from.pieces.size(); ++i)
      if (from.pieces[i].bytes > 0)
        OMNIBAL_RETURN_IF_ERROR(
            check(cudaMemcpyAsync(to.pieces[i].data, from.pieces[i].data, from.pieces[i].bytes,
                                  cudaMemcpyDeviceToDevice, copies->handle()),
                  "a message's copy"));
    OMNIBAL_ASSIGN_OR_RETURN(mine.copied, DriverEvent::after(copies->handle()));
    theirs.copied = mine.copied;
    return Status::ok();
  }

  /// Each rank does its share of the work when all have come; the others touch nothing of it
  /// meanwhile.
  Status meet(std::vector<std::byte *> data, int64_t bytes, const std::vector<int> &members,
              const EventPointer &ready, Sum &sum, const Share &share) {
    const int64_t number = meetingsHeld[members]++;
    std::unique_lock<std::mutex> lock(world->mutex);
    Meeting &meeting = world->meetings[members][number];
    if (meeting.bytes >= 0 && meeting.bytes != bytes)
      return {Code::Internal, "ranks disagree about the size of a reduction"};
    meeting.bytes = bytes;
    meeting.data[me] = std::move(data);
    meeting.ready[me] = ready;
    world->changed.notify_all();
    auto missingIn = [&](const std::map<int, EventPointer> &present) {
      for (int rank : members)
        if (!present.count(rank))
          return rank;
      return -1;
    };
    if (Status status = waitUntilNone(lock, [&] { return missingIn(meeting.ready); }); !status) {
      meeting.ready.erase(me); // nobody adds to memory that goes
      return status;
    }
    lock.unlock();
    // From here on the meeting's first half is only read.
    for (const auto &[rank, event] : meeting.ready)
      OMNIBAL_RETURN_IF_ERROR(orderBehind(copies->handle(), *event));
    if (!sum.begin) {
      OMNIBAL_ASSIGN_OR_RETURN(sum.begin, DriverEvent::after(copies->handle(), true));
    }
    const auto place = std::find(members.begin(), members.end(), me) - members.begin();
    OMNIBAL_RETURN_IF_ERROR(share({meeting, members, static_cast<int>(place)}));
    OMNIBAL_ASSIGN_OR_RETURN(sum.end, DriverEvent::after(copies->handle(), true));
    lock.lock();
    meeting.added[me] = sum.end;
    world->changed.notify_all();
    OMNIBAL_RETURN_IF_ERROR(waitUntilNone(lock, [&] { return missingIn(meeting.added); }));
    for (const auto &[rank, event] : meeting.added)
      sum.added.push_back(event);
    if (++meeting.left == static_cast<int>(members.size()))
      world->meetings[members].erase(number);
    return Status::ok();
  }

  Status shareOfMove(const DeviceMove &own, const Members &members) {
    enum { Src, Dst };
    cudaStream_t stream = copies->handle();
    switch (own.kind) {
    case PartMoveKind::AllReduce:
      return addElements(own, members);
    case PartMoveKind::ReduceScatter:
      for (int part = 0; part < members.count(); ++part)
        OMNIBAL_RETURN_IF_ERROR(
            own.copy(part, members.data(part, Src), members.place, own.dst, part > 0, stream));
      return Status::ok();
    default:
      for (int part = 0; part < members.count(); ++part)
        OMNIBAL_RETURN_IF_ERROR(
            own.copy(members.place, own.src, part, members.data(part, Dst), false, stream));
      return Status::ok();
    }
  }

  /// This rank's share of the elements of a sum, in the first part's result; then in all. Elsewhere
  /// nobody touches them.
  Status addElements(const DeviceMove &own, const Members &members) {
    enum { Src, Dst };
    const int64_t begin = own.wholeElements * members.place / members.count(),
                  size = own.wholeElements * (members.place + 1) / members.count() - begin;
    const int64_t first = begin * bytesOf(own.type), bytes = size * bytesOf(own.type);
    std::byte *sum = members.data(0, Dst) + first;
    if (members.data(0, Src) != members.data(0, Dst))
      OMNIBAL_RETURN_IF_ERROR(copy(sum, members.data(0, Src) + first, bytes));
    CopyShape add{{}, own.type, own.type, true};
    add.strides.append(size, 1, 1);
    for (int part = 1; part < members.count() && size > 0; ++part)
      OMNIBAL_RETURN_IF_ERROR(
          check(launchCopy(add, sum, members.data(part, Src) + first, copies->handle()), "adding"));
    for (int part = 1; part < members.count(); ++part)
      OMNIBAL_RETURN_IF_ERROR(copy(members.data(part, Dst) + first, sum, bytes));
    return Status::ok();
  }

  /// Adds this rank's share of a piece and copies it to all.
  Status addShare(const Members &members, size_t piece, int64_t elements) {
    const int64_t begin = elements * members.place / members.count(),
                  size = elements * (members.place + 1) / members.count() - begin;
    for (int to = 0; to < members.count(); ++to)
      OMNIBAL_RETURN_IF_ERROR(to == 0 ? add(members, piece, begin, size, 0)
                                      : copySum(members, piece, begin, size, to));
    return Status::ok();
  }

  /// Adds some elements of a piece in the order of ranks, into the first one's memory; then `to`
  /// has the sum too.
  Status add(const Members &members, size_t piece, int64_t begin, int64_t size, int to) {
    if (size == 0)
      return Status::ok();
    auto at = [&](int member) {
      return reinterpret_cast<float *>(members.data(member, piece)) + begin;
    };
    CopyShape add;
    add.accumulate = true;
    add.strides.append(size, 1, 1);
    for (int i = 1; i < members.count(); ++i)
      OMNIBAL_RETURN_IF_ERROR(check(launchCopy(add, at(0), at(i), copies->handle()), "adding"));
    return to == 0 ? Status::ok() : copySum(members, piece, begin, size, to);
  }

  Status copySum(const Members &members, size_t piece, int64_t begin, int64_t size, int to) {
    const int64_t first = begin * int64_t{sizeof(float)};
    return copy(members.data(to, piece) + first, members.data(0, piece) + first,
                size * int64_t{sizeof(float)});
  }

  Status copy(std::byte *to, const std::byte *from, int64_t bytes) {
    return bytes == 0
               ? Status::ok()
               : check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, copies->handle()),
                       "a copy between ranks");
  }

  std::shared_ptr<World> world;
  int me;
  RankStream queue;
  cudaStream_t compute;
  std::unique_ptr<Stream> copies;
  Communicator::Milliseconds deadline;
  Handle next = 0;
  bool adding = false; ///< a reduction has begun and not ended
  std::map<Handle, std::shared_ptr<Operation>> open;
  std::map<Handle, Sum> sums;
  std::map<Handle, std::vector<Handle>> broadcasts; ///< their messages
  std::map<std::vector<int>, int64_t> meetingsHeld;
};

/// Tells processes apart, also those of several machines.
struct ProcessName {
  char host[64] = {};
  int64_t process = 0;
};

} // namespace

Result<bool> inOneProcess(Communicator &control) {
  ProcessName mine;
  gethostname(mine.host, sizeof mine.host - 1);
  mine.process = getpid();
  ProcessName first = mine;
  std::vector<int> everyone = control.everyone();
  OMNIBAL_RETURN_IF_ERROR(
      control.broadcast(std::as_writable_bytes(std::span(&first, 1)), 0, everyone));
  bool together =
      first.process == mine.process && !std::memcmp(first.host, mine.host, sizeof mine.host);
  double apart = together ? 0 : 1;
  OMNIBAL_RETURN_IF_ERROR(control.allReduce(std::span<double>(&apart, 1), everyone));
  return apart == 0;
}

Result<std::unique_ptr<Transport>> openLocalTransport(Communicator &control,
                                                      const RankStream &queue) {
  std::shared_ptr<World> world;
  if (control.rank() == 0)
    world = std::make_shared<World>(control.size());
  std::shared_ptr<World> *first = &world;
  std::vector<int> everyone = control.everyone();
  OMNIBAL_RETURN_IF_ERROR(
      control.broadcast(std::as_writable_bytes(std::span(&first, 1)), 0, everyone));
  if (control.rank() != 0)
    world = *first; // rank 0 keeps it until the next line
  OMNIBAL_RETURN_IF_ERROR(control.barrier(everyone));
  OMNIBAL_ASSIGN_OR_RETURN(auto copies, Stream::create());
  return std::unique_ptr<Transport>(
      std::make_unique<LocalTransport>(std::move(world), control.rank(), queue, std::move(copies)));
}

} // namespace omnibal::rt::cuda
