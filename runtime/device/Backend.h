//===- Backend.h - What the executor needs of a device ---------------------------------------===//
//
// A backend is one rank's device: memory, one queue of work, kernels, the optimizer's arithmetic,
// and a transport that moves tensors between ranks. "host" is built in; others are plugins
// (libomnibal_NAME.so) that are opened when a program's target names them.
//
// Work is enqueued and performed in the order of the calls; a call that hands values to the host
// says how to wait for them. On the host every call performs its work before it returns. One thread
// per rank calls its backend. Device addresses support arithmetic but must not be dereferenced.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_BACKEND_H
#define RUNTIME_DEVICE_BACKEND_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Kernel.h"
#include "runtime/device/Load.h"
#include "runtime/device/Optimizer.h"
#include "runtime/device/PartMove.h"
#include "runtime/device/WorkspaceUse.h"
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace omnibal::rt {

using Clock = std::chrono::steady_clock;

struct TimeSpan {
  Clock::time_point begin, end;
};

/// A place in a backend's queue. Its meaning is the backend's.
struct Event {
  int64_t value = 0;
};

/// The one allocation of a rank, of exactly the planned bytes. A guarded arena (tests,
/// OMNIBAL_GUARD=1) has known bytes before and after, and begins with contents that no kernel takes
/// for numbers (NaN, -1), so that reading what nobody wrote shows.
class Arena {
public:
  virtual ~Arena() = default;
  /// Device memory, aligned to 4096 bytes or more.
  virtual std::byte *data() = 0;
  virtual int64_t bytes() const = 0;
  /// Returns an Internal error if what the queue has performed overwrote a guard byte; always
  /// succeeds without guards. With guards it waits for the queue.
  virtual Status checkGuards() = 0;
};

/// Lets the host fill and read device memory, behind all work enqueued so far.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  /// Calls `fill`, which writes all bytes that are to lie at `to` (host backend: right there).
  virtual Status write(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill) = 0;
  /// Calls `use`, which sees the bytes at `from` for the time of the call.
  virtual Status read(const void *from, int64_t bytes,
                      const std::function<Status(const std::byte *)> &use) = 0;
};

/// Moves tensors between the devices of ranks. It works like a Communicator (Communicator.h), but
/// in the order of the backend's queue: a message is sent when the work enqueued before send() is
/// done, and wait() orders what is enqueued after it behind the message. Where the device can,
/// wait() does so without waiting on the host.
class Transport {
public:
  using Piece = Communicator::Piece;
  using Handle = Communicator::Handle;

  virtual ~Transport() = default;
  virtual Result<Handle> send(int peer, int64_t tag, std::span<const Piece> pieces) = 0;
  virtual Result<Handle> receive(int peer, int64_t tag, std::span<const Piece> pieces) = 0;
  virtual Status wait(Handle handle) = 0;
  /// Lets messages under way advance; the call is cheap.
  virtual void progress() {}
  /// Starts to sum over `ranks`, which are ascending and include this rank: all ranks, or one of
  /// the groups that the transport was opened with. All get the same bits. The sums begin when the
  /// queue has got to `after` (without one, to its present end). They belong to the transport until
  /// wait(), and other work may run at the same time.
  virtual Result<Handle> startSum(std::span<const FloatRun> runs, std::span<const int> ranks,
                                  std::optional<Event> after) = 0;
  /// Starts to copy what `root`, one of `ranks` (as in startSum), has in these pieces to the same
  /// pieces of the others, behind the work enqueued so far. All name the same sizes; the memory
  /// belongs to the transport until wait().
  virtual Result<Handle> startBroadcast(std::span<const Piece> pieces, int root,
                                        std::span<const int> ranks) = 0;
  /// Starts to sum float32 values as startSum does, but each piece's sum is its owner's only; other
  /// pieces are left as they are or hold anything. All name the same sizes and owners.
  virtual Result<Handle> startScatter(std::span<const OwnedPiece> pieces,
                                      std::span<const int> ranks, std::optional<Event> after) = 0;
  /// Starts to copy what each piece's owner has there to the same piece of the others of `ranks`
  /// (as in startSum), behind the work enqueued so far. All name the same sizes and owners; the
  /// memory belongs to the transport until wait().
  virtual Result<Handle> startGather(std::span<const OwnedPiece> pieces,
                                     std::span<const int> ranks) = 0;
  /// Returns a function that tells when the device performed a sum. Ask for it before wait(), and
  /// call it when the queue has got behind that wait. Null: the sum was performed while startSum()
  /// was called.
  virtual std::function<TimeSpan()> clockOf(Handle sum) { return nullptr; }
  /// Does the same and waits: work enqueued later sees the sums.
  Status allReduce(std::span<float> data, std::span<const int> ranks) {
    FloatRun run{data.data(), static_cast<int64_t>(data.size())};
    OMNIBAL_ASSIGN_OR_RETURN(Handle handle, startSum({&run, 1}, ranks, std::nullopt));
    return wait(handle);
  }
  /// Fills in the numbers that each of `ranks` has put in its slot: as many in each, in the order
  /// of the ranks, `place` this one's. The other slots hold zeros.
  virtual Status gatherSlots(std::span<float> slots, std::span<const int> ranks, size_t place) {
    return allReduce(slots, ranks); // which is exact, as a number meets zeros only
  }
  /// Performs a move among `ranks` (as in startSum), the parts of a stage, in their order, behind
  /// the work enqueued so far; work enqueued later sees the result.
  virtual Status exchange(const PartMove &move, std::span<const TensorView> operands,
                          const SymbolValues &symbols, std::span<const int> ranks) {
    return {Code::InvalidArgument, "this backend moves nothing among the parts of a stage"};
  }
  Status gather(std::span<const OwnedPiece> pieces, std::span<const int> ranks) {
    OMNIBAL_ASSIGN_OR_RETURN(Handle handle, startGather(pieces, ranks));
    return wait(handle);
  }
  Status broadcast(std::span<const Piece> pieces, int root, std::span<const int> ranks) {
    OMNIBAL_ASSIGN_OR_RETURN(Handle handle, startBroadcast(pieces, root, ranks));
    return wait(handle);
  }
};

/// Sets of ranks, each ascending, that will sum with each other.
using RankGroups = std::vector<std::vector<int>>;

/// Kernels that do less for fewer labels (Backend::expectLoad) round their number up to a multiple
/// of this, so that recorded work repeats: the executor counts on it.
inline constexpr int64_t labelBucket = 64;
inline constexpr int64_t labelBuckets(int64_t labels) {
  return (labels + labelBucket - 1) / labelBucket;
}

/// Bytes on their way to the host; they are at `data` once the queue has reached `ready`.
struct HostCopy {
  const std::byte *data = nullptr;
  Event ready;
};

/// Says whose loss it is: each label token, or each pair of answers, has one, and each micro-batch
/// has one of all its routers. The rewards of pairs, and whether the chosen answer's is the greater
/// one, are added up in the same way.
enum class LossKind { Samples, Routers, ChosenRewards, RejectedRewards, Preferred };

/// How a step's sums end.
struct SumsOptions {
  std::span<const int> ranks; ///< all of them: 0, 1, ...
  int rank = 0;
  /// By rank: the place of its sums among all, which are added and handed back in that order.
  std::span<const int> places;
  double labels = 0;   ///< of all ranks, or what gradients are divided by instead; 0: no update
  double clip = 0;     ///< of the global norm; 0 or less = off
  bool updates = true; ///< false: no update follows, so the sums may be anything
  bool counts = true;  ///< the squared norm; false: another rank has the same sums
  /// Where ranks have a share each of the sums: these ranks (a group of the transport), and by run
  /// the place among them of the one that has it; other ranks' runs have no data.
  std::span<const int> sharers = {}, owners = {};
};

/// The sums of the runs' blocks, one after the other from `sums` on, as pieces of their owners.
inline std::vector<OwnedPiece> sumsOfOwners(std::span<const FloatRun> runs,
                                            std::span<const int> owners, double *sums) {
  std::vector<OwnedPiece> pieces;
  for (size_t r = 0; r < runs.size(); ++r) {
    const int64_t count = blocksOf(runs[r].elements, runs[r].phase);
    if (pieces.empty() || pieces.back().owner != owners[r])
      pieces.push_back({sums, 0, owners[r]});
    pieces.back().bytes += count * int64_t{sizeof(double)};
    sums += count;
  }
  return pieces;
}

/// Kernels' work that was recorded and can be enqueued again and again.
class CapturedGraph {
public:
  virtual ~CapturedGraph() = default;
};

struct BackendOptions {
  ThreadPool *pool = nullptr; ///< the rank's compute threads; outlives the backend
  int rank = 0;
  Communicator::Milliseconds deadline = Communicator::defaultDeadline; ///< of waits for the device
  /// The number of this process on the machine if the rank is alone in it; it chooses among several
  /// devices. -1: the rank shares its process, or nobody told.
  int localRank = -1;
  int64_t batchBytes = 0;      ///< that prefetch() brings in a step at most
  int64_t updateListBytes = 0; ///< of the lists of tensors that the optimizer will be given
  int64_t moveBytes = 0;       ///< of the largest move among parts
};

class Backend : public DeviceMemory {
public:
  /// True if every call performs its work before it returns. A readback is then the device memory
  /// itself and holds until that is overwritten.
  virtual bool isSynchronous() const = 0;

  /// Returns what the backend takes of the device for itself at most. It is known of the kernels
  /// created so far, so it is complete when all are created.
  virtual std::vector<WorkspaceUse> workspaceOf() const { return {}; }
  /// Allocates the arena. An OutOfMemory error names the bytes: there must also be room for
  /// workspaceOf().
  virtual Result<std::unique_ptr<Arena>> allocateArena(int64_t bytes, bool guarded) = 0;
  /// Opens a program's generated code; call it before the kernels that use it are created.
  virtual Status loadCode(const std::string &path) = 0;
  /// Creates a kernel, whose run() enqueues and which dies before the backend. An InvalidArgument
  /// error names the kernel and the operand or attribute that is missing or wrong. The backend sets
  /// BoundCall::symbol and library.
  virtual Result<std::unique_ptr<Kernel>> createKernel(const BoundCall &call) = 0;
  /// Opens the transport; all ranks call it. `control` connects the same ranks, outlives the
  /// transport and carries everything that is no tensor; `groups` are the same on all ranks.
  virtual Result<std::unique_ptr<Transport>> openTransport(Communicator &control,
                                                           const RankGroups &groups) = 0;

  /// Enqueues a copy from host memory, which may be reused at once.
  virtual Status upload(void *to, const void *from, int64_t bytes) = 0;
  /// Does the same with bytes that `fill` writes. They travel during the work that was enqueued
  /// before, and only their arrival at `to` has its place in the queue. This is for what the next
  /// work reads.
  virtual Status prefetch(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill) {
    return write(to, bytes, fill);
  }
  /// Enqueues zeros.
  virtual Status zero(void *to, int64_t bytes) = 0;
  /// Enqueues a copy to the host. The bytes stay until release().
  virtual Result<HostCopy> startRead(const void *from, int64_t bytes) = 0;
  virtual void release(const HostCopy &readback) {}

  // These are the functions of Optimizer.h on device memory. squaredNorm() waits for its result.
  // With UpdateOptions::scaleOfStep gradients are also multiplied by the scale of finishSums(), and
  // nothing is done if that is not a number. Then average() does nothing either.
  virtual Status update(std::span<const UpdatedTensor> tensors, const UpdateOptions &options) = 0;
  virtual Status copyParameters(std::span<const UpdatedTensor> tensors) = 0;
  virtual Status average(std::span<const AveragedTensor> tensors, double decay) = 0;
  virtual Status exchange(std::span<const AveragedTensor> tensors) = 0;
  virtual Result<double> squaredNorm(std::span<const FloatRun> runs) = 0;
  virtual Status scale(std::span<const FloatRun> runs, double factor) = 0;
  virtual Status fillZero(std::span<const FloatRun> runs) = 0;

  // What a step adds up, without waiting for it (StepSums.h).
  /// Adds to the step's loss of its tokens or of its routers.
  virtual Status addLosses(std::span<const float> losses, LossKind kind) = 0;
  /// Ends the step's sums, which are its losses and the squared norm of these `gradients`:
  /// all ranks get those of all, and the update's scale is made of them. The readback has the
  /// ranks' slots and holds until the next one. The losses start again at zero.
  virtual Result<HostCopy> finishSums(std::span<const FloatRun> gradients, Transport &transport,
                                      const SumsOptions &options) = 0;

  /// After sums that were not numbers update() does nothing until this is called.
  virtual Status restartSums() = 0;

  /// Tells what is known about the micro-batch whose kernels come next.
  virtual void expectLoad(const Load &load) {}
  /// True if kernels with an operand `cu_seqlens` now use the number and the longest of the pieces
  /// between those borders (Load::of). It may become true while such a kernel runs, and then stays
  /// so.
  virtual bool goesBySamples() const { return false; }

  /// Takes the memory in which kernels of attention can keep keys and values (KeptKeys.h), and
  /// returns whether there is so much. The kernels allocate it themselves, after giveKeyRoom(): in
  /// between all ranks have taken theirs.
  virtual bool takeKeyRoom(int64_t bytes) { return false; }
  virtual void giveKeyRoom() {}

  /// Returns how many graphs are worth keeping; 0: work cannot be recorded.
  virtual int graphs() const { return 0; }
  /// Until endCapture() this rank runs kernels only, and they are recorded instead of enqueued.
  virtual Status beginCapture() { return {Code::Internal, "this backend records nothing"}; }
  /// Returns the graph, or null if a kernel cannot be recorded (because it waits for the device,
  /// ...); the work was not performed then and has to be run again.
  virtual Result<std::unique_ptr<CapturedGraph>> endCapture() {
    return std::unique_ptr<CapturedGraph>();
  }
  virtual Status enqueue(CapturedGraph &work) {
    return {Code::Internal, "this backend records nothing"};
  }

  /// The end of the work enqueued so far.
  virtual Event recordEvent() = 0;
  /// Waits until the queue has got there. Errors of earlier work are returned here too.
  virtual Status reach(Event event) = 0;
  /// Returns when the queue got there; call it after reach() of this place or of a later one.
  virtual Clock::time_point timeOf(Event event) const = 0;
  /// The caller asks for no event made so far any more. This may wait for the device.
  virtual void forgetEvents() {}
  /// The caller asks for no event made before this one any more; the queue has reached it.
  virtual void forgetEventsBefore(Event event) {}
  Status finish() { return reach(recordEvent()); }
};

/// A kind of device; a process has one.
class BackendKind {
public:
  virtual ~BackendKind() = default;
  /// A text for messages and logs, e.g. the device's name, memory and driver.
  virtual std::string description() const = 0;
  /// Returns the dense FLOP/s of one device by its data sheet, for products of "float32" or
  /// "bfloat16" values; 0: not known.
  virtual double peakFlops(const std::string &compute) const { return 0; }
  virtual Result<std::unique_ptr<Backend>> open(const BackendOptions &options) = 0;
};

/// What a plugin exports as "omnibalBackendPlugin". It is plain data, so that a plugin of another
/// version is recognized before anything of it is used.
struct BackendPlugin {
  const char *interface; ///< backendInterface of its build
  /// Returns the kind, which lives forever, or null; `error` then holds why.
  BackendKind *(*create)(Status &error);
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_BACKEND_H
