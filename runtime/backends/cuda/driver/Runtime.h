//===- Runtime.h - CUDA's handles as values that clean up, and its errors as Status ----------===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_RUNTIME_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_RUNTIME_H

#include "runtime/device/Backend.h"
#include <cuda_runtime_api.h>
#include <memory>

namespace omnibal::rt::cuda {

/// What a rank's waits for the device look at in addition to the device: a stream may wait for
/// another rank, which may be gone. There is one per thread, because a rank's backend is called
/// from one.
class WaitWatch {
public:
  virtual ~WaitWatch() = default;
  /// An error ends the wait.
  virtual Status check() = 0;
  /// Returns what is outstanding, for the message of a wait that took too long; or nothing.
  virtual std::string late() = 0;
};
/// Sets what waits look at; null: nothing more than the device.
void watchWaits(WaitWatch *watch);

/// Checks a result; on failure the error says that `what` (a noun) failed, with CUDA's name and
/// text of the error.
Status check(cudaError_t error, const std::string &what);

class DriverEvent {
public:
  /// Creates an event. A `timed` one may be asked for its time and costs a little more.
  static Result<std::shared_ptr<DriverEvent>> create(bool timed);
  /// Creates an event and records it.
  static Result<std::shared_ptr<DriverEvent>> after(cudaStream_t stream, bool timed = false);
  ~DriverEvent();
  DriverEvent(const DriverEvent &) = delete;

  Status record(cudaStream_t stream);
  /// Waits on the host. DeadlineExceeded names `what`.
  Status wait(Communicator::Milliseconds deadline, const char *what) const;
  Result<bool> reached() const;
  cudaEvent_t handle() const { return event; }

private:
  DriverEvent() = default;
  cudaEvent_t event = nullptr;
};

/// Orders work that is enqueued on `stream` from here on behind `event`.
Status orderBehind(cudaStream_t stream, const DriverEvent &event);

class Stream {
public:
  static Result<std::unique_ptr<Stream>> create();
  ~Stream();
  Stream(const Stream &) = delete;
  cudaStream_t handle() const { return stream; }

private:
  Stream() = default;
  cudaStream_t stream = nullptr;
};

/// Device memory in the order of a stream.
class DeviceBuffer {
public:
  static Result<std::unique_ptr<DeviceBuffer>> allocate(int64_t bytes, cudaStream_t stream);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer &) = delete;
  std::byte *data() const { return memory; }

private:
  DeviceBuffer() = default;
  std::byte *memory = nullptr;
  cudaStream_t stream = nullptr;
};

/// Host memory that the device reads and writes by itself.
class PinnedBuffer {
public:
  static Result<std::unique_ptr<PinnedBuffer>> allocate(int64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer &) = delete;
  std::byte *data() const { return memory; }
  int64_t bytes() const { return size; }

private:
  PinnedBuffer() = default;
  std::byte *memory = nullptr;
  int64_t size = 0;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_RUNTIME_H
