//===- Communicator.h - What ranks share -------------------------------------------------===//
//
// Ranks exchange messages and nothing else. Point-to-point operations are asynchronous: a call
// starts one, wait() ends it. A send ends when its receiver has taken it (zero-buffer semantics),
// so a program that runs here runs on any transport. Collectives are built once, from messages, and
// add in rank order: every transport gives the same bits. One thread a rank calls its communicator.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_COMM_COMMUNICATOR_H
#define RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/support/Status.h"
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace omnibal::rt {

/// What a rank is doing, for messages about ranks that are late.
struct Activity {
  int64_t step = -1;  ///< from 0
  int32_t stage = -1; ///< -1: the rank has not begun
  int32_t part = -1;  ///< of the stage's ranks in a replica; -1: there is one
  int32_t microbatch = -1;
  const char *action = "starting"; ///< a string that lives forever
};
/// "step 3": what people read counts steps from 1, as progress and checkpoints do.
std::string stepForPeople(int64_t step);
/// "step 3, stage 1, micro-batch 2, backward" in the third step.
std::string toString(const Activity &activity);

/// A piece of what several ranks hold alike, and whose of them it is.
struct OwnedPiece {
  void *data = nullptr;
  int64_t bytes = 0;
  int owner = 0; ///< its place among the ranks
};

/// The most memory that a rank's collectives take beside their arguments.
inline constexpr int64_t collectiveStaging = int64_t{8} << 20;

class Communicator {
public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds defaultDeadline{600'000};

  struct Piece {
    void *data = nullptr;
    int64_t bytes = 0;
  };
  using Handle = int64_t;

  explicit Communicator(Milliseconds deadline) : deadline(deadline) {}
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Starts a message of several pieces; sender and receiver name the same number of pieces of the
  /// same sizes. Messages of one pair and tag match in the order of their calls. The memory belongs
  /// to the communicator until wait(). Tags of callers are not negative.
  Result<Handle> send(int peer, int64_t tag, std::span<const Piece> pieces) {
    return start(Direction::Send, peer, tag, pieces);
  }
  Result<Handle> receive(int peer, int64_t tag, std::span<const Piece> pieces) {
    return start(Direction::Receive, peer, tag, pieces);
  }
  /// Ends an operation. DeadlineExceeded names the peer that did not come; Aborted carries the
  /// reason of the rank that failed first.
  virtual Status wait(Handle handle) = 0;
  /// Lets messages under way advance; the call is cheap.
  virtual void progress() {}
  /// Makes every present and future operation of all ranks fail with this reason (the first one
  /// counts). After it returns nothing touches the memory of this rank's messages. A rank calls it
  /// after every error, also after Aborted, before it frees that memory.
  virtual void abort(const Status &reason) = 0;
  /// Says what this rank does now, which other ranks hear (where the transport can) when they wait
  /// for it.
  virtual void announce(const Activity &activity) {}
  /// Returns a rank's last announcement, for which it may be asked: that takes a moment. Empty if
  /// the transport carries none.
  virtual std::string activityOf(int rank) { return {}; }
  /// Returns, without waiting, the reason if the ranks have been aborted or one of them was lost.
  virtual Status health() { return Status::ok(); }

  /// Gives every rank of `ranks`, which contain this one, what all of them have, in their order:
  /// `mine` is as long on all, and `all` holds one of each. Meant for small values. Where this, a
  /// sum of few values or a small broadcast fails, the caller's memory is free at once.
  Status allGather(std::span<const std::byte> mine, std::span<std::byte> all,
                   std::span<const int> ranks);
  /// Does the same with one plain value.
  template <typename T>
  Result<std::vector<T>> gatherAll(const T &mine, std::span<const int> ranks) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(ranks.size());
    OMNIBAL_RETURN_IF_ERROR(allGather(std::as_bytes(std::span(&mine, 1)),
                                      std::as_writable_bytes(std::span(all)), ranks));
    return all;
  }
  /// Sums over `ranks` (ascending, this rank among them), element by element in the order of ranks,
  /// so that all get the same bits.
  Status allReduce(std::span<float> data, std::span<const int> ranks);
  Status allReduce(std::span<double> data, std::span<const int> ranks);
  /// Sums float32 values as allReduce does, bit by bit, but each piece's sum is its owner's only;
  /// other pieces are left as they are. All ranks name the same sizes and owners.
  Status reduceScatter(std::span<const OwnedPiece> pieces, std::span<const int> ranks);
  /// Gives all ranks what each piece's owner has there. All name the same sizes and owners.
  Status allGather(std::span<const OwnedPiece> pieces, std::span<const int> ranks);
  /// Gives all ranks what `root`, one of them, has there.
  Status broadcast(std::span<std::byte> data, int root, std::span<const int> ranks);
  /// Does the same with a text, whose length only the root knows, over all ranks.
  Status broadcast(std::string &text, int root);
  Status barrier(std::span<const int> ranks);
  /// Returns an error on all ranks unless all of them give the same value; `what` (a plural) is for
  /// messages.
  Status checkEqual(uint64_t value, const std::string &what);
  /// Returns success if all ranks call it with success. Otherwise all get the error of the lowest
  /// rank that failed by itself (not with code Aborted), with code Aborted on the other ranks.
  Status agree(Status mine);
  std::vector<int> everyone() const;
  /// Keeps memory of messages that failed: until abort() it may still be written to.
  void keep(std::shared_ptr<void> memory) { kept.push_back(std::move(memory)); }

  /// What this rank has sent so far.
  struct Traffic {
    int64_t messages = 0, bytes = 0;
  };
  Traffic traffic() const { return sent; }

protected:
  enum class Direction { Send, Receive };
  /// One side of a message; `peer` is another rank of the communicator.
  virtual Result<Handle> post(Direction direction, int peer, int64_t tag,
                              std::span<const Piece> pieces) = 0;
  Milliseconds deadline;

private:
  friend class Collective;
  Result<Handle> start(Direction direction, int peer, int64_t tag, std::span<const Piece> pieces);
  template <typename T> Status sum(std::span<T> data, std::span<const int> ranks);
  template <typename T> Status sumGathered(std::span<T> data, std::span<const int> ranks);
  template <typename T> Status sumShares(std::span<T> data, std::span<const int> ranks);
  Result<std::span<const std::byte>> gatherBehind(std::span<const std::byte> mine,
                                                  std::span<const int> ranks);
  Result<std::byte *> stage(int64_t bytes);
  Status passDown(std::span<std::byte> data, int root, std::span<const int> ranks);
  Status broadcastShares(std::span<std::byte> data, int root, std::span<const int> ranks);

  Traffic sent;
  /// Why a collective failed. Later ones fail with it at once: other ranks may still be in the
  /// first, and would take their messages for its own.
  Status failure;
  std::vector<std::byte> staging; ///< of collectives: at most collectiveStaging bytes
  std::vector<std::shared_ptr<void>> kept;
};

/// `seconds` from OMNIBAL_DEADLINE_SECONDS if that is set and valid, else the default.
Communicator::Milliseconds deadlineFromEnvironment();

} // namespace omnibal::rt
#endif // RUNTIME_COMM_COMMUNICATOR_H
