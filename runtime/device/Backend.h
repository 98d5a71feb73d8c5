//===- Backend.h - What the executor needs of a device ---------------------------------------===//
//
// A backend is one rank's device: memory, one queue of work, kernels, the optimizer's arithmetic,
// and a transport that moves tensors between ranks. "host" is built in; others are plugins
// (libomnibal_NAME.so) that are opened when a program's target names them.
//
// Work is enqueued and performed in the order of the calls; a call that hands values to the host
// says how to wait for them. On the host every call performs its work before it returns. One thread
// a rank calls its backend. Addresses of device memory may be reckoned with, not read or written.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_BACKEND_H
#define RUNTIME_DEVICE_BACKEND_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Kernel.h"
#include "runtime/device/Load.h"
#include "runtime/device/Optimizer.h"
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

/// The one allocation of a rank: exactly the planned bytes. Guarded (tests, OMNIBAL_GUARD=1): known
/// bytes before and after, and contents that no kernel takes for numbers (NaN, -1), so that reading
/// what nobody wrote shows.
class Arena {
public:
  virtual ~Arena() = default;
  /// Device memory, aligned to 4096 bytes or more.
  virtual std::byte *data() = 0;
  virtual int64_t bytes() const = 0;
  /// Internal if a guard byte was overwritten by what the queue has performed; always fine without
  /// guards. Waits for the queue where there are guards.
  virtual Status checkGuards() = 0;
};

/// Lets the host fill and read device memory, behind all work enqueued so far.
class DeviceMemory {
public:
  virtual ~DeviceMemory() = default;
  /// `fill` writes the bytes that are to lie at `to`, all of them (host backend: right there).
  virtual Status write(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill) = 0;
  /// `use` sees the bytes at `from`, for the time of the call.
  virtual Status read(const void *from, int64_t bytes,
                      const std::function<Status(const std::byte *)> &use) = 0;
};

/// Moves tensors between the devices of ranks. Like a Communicator (Communicator.h), but in the
/// order of the backend's queue: a message is sent when the work enqueued before send() is done,
/// and wait() orders what is enqueued after it behind the message without waiting on the host,
/// where the device can.
class Transport {
public:
  using Piece = Communicator::Piece;
  using Handle = Communicator::Handle;

  virtual ~Transport() = default;
  virtual Result<Handle> send(int peer, int64_t tag, std::span<const Piece> pieces) = 0;
  virtual Result<Handle> receive(int peer, int64_t tag, std::span<const Piece> pieces) = 0;
  virtual Status wait(Handle handle) = 0;
  /// Lets messages under way advance; cheap.
  virtual void progress() {}
  /// Starts to sum over `ranks` (ascending, this rank among them; all ranks, or one of the groups
  /// that the transport was opened with); all get the same bits. The sums begin when the queue has
  /// got to `after` (without one, to its present end), and are the transport's until wait(): other
  /// work may run beside them.
  virtual Result<Handle> startSum(std::span<const FloatRun> runs, std::span<const int> ranks,
                                  std::optional<Event> after) = 0;
  /// Starts to copy what `root`, one of `ranks` (as in startSum), has in these pieces to the same
  /// pieces of the others, behind the work enqueued so far. All name the same sizes; the memory is
  /// the transport's until wait().
  virtual Result<Handle> startBroadcast(std::span<const Piece> pieces, int root,
                                        std::span<const int> ranks) = 0;
  /// Asked before wait(), tells when the device performed a sum; to be called when the queue has
  /// got behind that wait. Null: it was performed while startSum() was called.
  virtual std::function<TimeSpan()> clockOf(Handle sum) { return nullptr; }
  /// The same with the wait: work enqueued later sees the sums.
  Status allReduce(std::span<float> data, std::span<const int> ranks) {
    FloatRun run{data.data(), static_cast<int64_t>(data.size())};
    OMNIBAL_ASSIGN_OR_RETURN(Handle handle, startSum({&run, 1}, ranks, std::nullopt));
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

/// Bytes on their way to the host: at `data` once the queue has reached `ready`.
struct HostCopy {
  const std::byte *data = nullptr;
  Event ready;
};

/// Whose loss it is: each label token has one, each micro-batch one of all its routers.
enum class LossKind { Tokens, Routers };

/// How a step's sums end.
struct SumsOptions {
  std::span<const int> ranks; ///< all of them: 0, 1, ...
  int rank = 0;
  double labels = 0; ///< of all ranks
  double clip = 0;   ///< of the global norm; 0 or less = off
};

/// Kernels' work that was recorded and can be enqueued again and again.
class CapturedGraph {
public:
  virtual ~CapturedGraph() = default;
};

struct BackendOptions {
  ThreadPool *pool = nullptr; ///< the rank's compute threads; outlives the backend
  int rank = 0;
  Communicator::Milliseconds deadline = Communicator::defaultDeadline; ///< of waits for the device
  /// The rank is alone in its process, as this one of the machine: chooses among several devices.
  /// -1: it shares the process, or nobody told.
  int localRank = -1;
  int64_t batchBytes = 0;      ///< that prefetch() brings in a step at most
  int64_t updateListBytes = 0; ///< of the lists of tensors that the optimizer will be given
};

class Backend : public DeviceMemory {
public:
  /// Whether every call performs its work before it returns. A readback is then the device memory
  /// itself and holds until that is overwritten.
  virtual bool isSynchronous() const = 0;

  /// What the backend takes of the device for itself, at most: known of the kernels created so far,
  /// so complete when all are.
  virtual std::vector<WorkspaceUse> workspaceOf() const { return {}; }
  /// OutOfMemory names the bytes: there must also be room for workspaceOf().
  virtual Result<std::unique_ptr<Arena>> allocateArena(int64_t bytes, bool guarded) = 0;
  /// Opens a program's generated code; before the kernels that use it.
  virtual Status loadCode(const std::string &path) = 0;
  /// InvalidArgument names the kernel and the operand or attribute that is missing or wrong. The
  /// kernel's run() enqueues; it dies before the backend. BoundCall::symbol and library are the
  /// backend's to set.
  virtual Result<std::unique_ptr<Kernel>> createKernel(const BoundCall &call) = 0;
  /// All ranks call it. `control` connects the same ranks, outlives the transport and carries what
  /// is no tensor; `groups` are the same on all ranks.
  virtual Result<std::unique_ptr<Transport>> openTransport(Communicator &control,
                                                           const RankGroups &groups) = 0;

  /// Enqueues a copy from host memory, which may be reused at once.
  virtual Status upload(void *to, const void *from, int64_t bytes) = 0;
  /// The same with `fill` writing the bytes; they travel beside the work enqueued before, and only
  /// their arrival at `to` has its place in the queue. For what the next work reads.
  virtual Status prefetch(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill) {
    return write(to, bytes, fill);
  }
  /// Enqueues zeros.
  virtual Status zero(void *to, int64_t bytes) = 0;
  /// Enqueues a copy to the host. The bytes stay until release().
  virtual Result<HostCopy> startRead(const void *from, int64_t bytes) = 0;
  virtual void release(const HostCopy &readback) {}

  // As in Optimizer.h, on device memory. squaredNorm() waits for its result. With
  // AdamWOptions::scaleOfStep gradients are also multiplied by the scale of finishSums(), and
  // nothing is done if that is not a number.
  virtual Status adamW(std::span<const AdamWTensor> tensors, const AdamWOptions &options) = 0;
  virtual Status copyParameters(std::span<const AdamWTensor> tensors) = 0;
  virtual Result<double> squaredNorm(std::span<const FloatRun> runs) = 0;
  virtual Status scale(std::span<const FloatRun> runs, double factor) = 0;
  virtual Status fillZero(std::span<const FloatRun> runs) = 0;

  // What a step adds up, without waiting for it (StepSums.h).
  /// Adds to the step's loss of its tokens or of its routers.
  virtual Status addLosses(std::span<const float> losses, LossKind kind) = 0;
  /// Ends the step's sums, its losses and the squared norm of `gradients` here: all ranks get those
  /// of all, and the update's scale is made of them. The readback has the ranks' slots; it holds
  /// until the next one. The losses start anew.
  virtual Result<HostCopy> finishSums(std::span<const FloatRun> gradients, Transport &transport,
                                      const SumsOptions &options) = 0;

  /// What is known of the micro-batch whose kernels come next.
  virtual void expectLoad(const Load &load) {}
  /// Whether kernels with an operand `cu_seqlens` now go by the number and the longest of the
  /// pieces between those borders (Load::of). It may turn true while such a kernel runs, and stays
  /// so.
  virtual bool goesBySamples() const { return false; }

  /// How many graphs are worth keeping; 0: work cannot be recorded.
  virtual int graphs() const { return 0; }
  /// From here to endCapture() this rank runs kernels only, and they are recorded, not enqueued.
  virtual Status beginCapture() { return {Code::Internal, "this backend records nothing"}; }
  /// Null if a kernel cannot be recorded (it waits for the device, ...): the work has to be run
  /// again, and was not performed.
  virtual Result<std::unique_ptr<CapturedGraph>> endCapture() {
    return std::unique_ptr<CapturedGraph>();
  }
  virtual Status enqueue(CapturedGraph &work) {
    return {Code::Internal, "this backend records nothing"};
  }

  /// The end of the work enqueued so far.
  virtual Event recordEvent() = 0;
  /// Waits until the queue has got there. Errors of earlier work come up here too.
  virtual Status reach(Event event) = 0;
  /// When it got there; after reach() of this event or of a later one.
  virtual Clock::time_point timeOf(Event event) const = 0;
  /// No event made so far is asked for any more. May wait for the device.
  virtual void forgetEvents() {}
  /// No event made before this one is asked for any more; the queue has reached it.
  virtual void forgetEventsBefore(Event event) {}
  Status finish() { return reach(recordEvent()); }
};

/// A kind of device; one a process.
class BackendKind {
public:
  virtual ~BackendKind() = default;
  /// For messages and logs, e.g. the device's name, memory and driver.
  virtual std::string description() const = 0;
  /// Dense FLOP/s of one device by its data sheet, for products of "float32" or "bfloat16" values;
  /// 0: not known.
  virtual double peakFlops(const std::string &compute) const { return 0; }
  virtual Result<std::unique_ptr<Backend>> open(const BackendOptions &options) = 0;
};

/// The host backend's kind; lives for ever.
BackendKind &hostBackendKind();

/// What a plugin must have been built with: interface and compiler. Raise the number with every
/// change of this file, Communicator.h, Kernel.h or Optimizer.h.
inline constexpr const char *backendInterface = "omnibal backend 8, " __VERSION__;

/// What a plugin exports as "omnibalBackendPlugin": plain data, so that a plugin of another version
/// is recognised before anything of it is used.
struct BackendPlugin {
  const char *interface; ///< backendInterface of the plugin's build
  /// The kind, which lives for ever; or null, and `error` holds why.
  BackendKind *(*create)(Status &error);
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_BACKEND_H
