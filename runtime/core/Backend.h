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
#ifndef RUNTIME_CORE_BACKEND_H
#define RUNTIME_CORE_BACKEND_H

#include "runtime/core/Communicator.h"
#include "runtime/core/Kernel.h"
#include "runtime/core/Optimizer.h"
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace omnibal::rt {

using Clock = std::chrono::steady_clock;

/// A place in a backend's queue. Its meaning is the backend's.
struct Mark {
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
  /// Sums over `ranks` (ascending, this rank among them) in the order of ranks; all get the same
  /// bits. Work enqueued later sees the sums.
  virtual Status allReduce(std::span<float> data, std::span<const int> ranks) = 0;
};

/// Bytes on their way to the host: at `data` once the queue has reached `ready`.
struct Readback {
  const std::byte *data = nullptr;
  Mark ready;
};

struct BackendOptions {
  ThreadPool *pool = nullptr; ///< the rank's compute threads; outlives the backend
  int rank = 0;
  Communicator::Milliseconds deadline = Communicator::defaultDeadline; ///< of waits for the device
  /// The rank is alone in its process, as this one of the machine: chooses among several devices.
  /// -1: it shares the process, or nobody told.
  int localRank = -1;
};

class Backend : public DeviceMemory {
public:
  /// Whether every call performs its work before it returns. A readback is then the device memory
  /// itself and holds until that is overwritten.
  virtual bool immediate() const = 0;

  /// OutOfMemory names the bytes.
  virtual Result<std::unique_ptr<Arena>> allocateArena(int64_t bytes, bool guarded) = 0;
  /// Opens a program's generated code; before the kernels that use it.
  virtual Status loadCode(const std::string &path) = 0;
  /// InvalidArgument names the kernel and the operand or attribute that is missing or wrong. The
  /// kernel's run() enqueues; it dies before the backend. KernelSite::symbol and library are the
  /// backend's to set.
  virtual Result<std::unique_ptr<Kernel>> createKernel(const KernelSite &site) = 0;
  /// `control` connects the same ranks, outlives the transport and carries what is no tensor.
  virtual Result<std::unique_ptr<Transport>> openTransport(Communicator &control) = 0;

  /// Enqueues a copy from host memory, which may be reused at once.
  virtual Status upload(void *to, const void *from, int64_t bytes) = 0;
  /// Enqueues zeros.
  virtual Status zero(void *to, int64_t bytes) = 0;
  /// Enqueues a copy to the host. The bytes stay until release().
  virtual Result<Readback> startRead(const void *from, int64_t bytes) = 0;
  virtual void release(const Readback &readback) {}

  // As in Optimizer.h, on device memory. squaredNorm() waits for its result.
  virtual Status adamW(std::span<const AdamWTensor> tensors, const AdamWOptions &options) = 0;
  virtual Status copyParameters(std::span<const AdamWTensor> tensors) = 0;
  virtual Result<double> squaredNorm(std::span<const FloatRun> runs) = 0;
  virtual Status scale(std::span<const FloatRun> runs, double factor) = 0;
  virtual Status fillZero(std::span<const FloatRun> runs) = 0;

  /// The end of the work enqueued so far.
  virtual Mark mark() = 0;
  /// Waits until the queue has got there. Errors of earlier work come up here too.
  virtual Status reach(Mark mark) = 0;
  /// When it got there; after reach() of this mark or of a later one.
  virtual Clock::time_point timeOf(Mark mark) const = 0;
  /// No mark made so far is asked for any more.
  virtual void forgetMarks() {}
  Status finish() { return reach(mark()); }
};

/// A kind of device; one a process.
class BackendKind {
public:
  virtual ~BackendKind() = default;
  /// For messages and logs, e.g. the device's name, memory and driver.
  virtual std::string description() const = 0;
  virtual Result<std::unique_ptr<Backend>> open(const BackendOptions &options) = 0;
};

/// The host backend's kind; lives for ever.
BackendKind &hostBackendKind();

/// What a plugin must have been built with: interface and compiler. Raise the number with every
/// change of this file, Communicator.h, Kernel.h or Optimizer.h.
inline constexpr const char *backendInterface = "omnibal backend 2, " __VERSION__;

/// What a plugin exports as "omnibalBackendPlugin": plain data, so that a plugin of another version
/// is recognised before anything of it is used.
struct BackendPlugin {
  const char *interface; ///< backendInterface of the plugin's build
  /// The kind, which lives for ever; or null, and `error` holds why.
  BackendKind *(*create)(Status &error);
};

} // namespace omnibal::rt
#endif // RUNTIME_CORE_BACKEND_H
