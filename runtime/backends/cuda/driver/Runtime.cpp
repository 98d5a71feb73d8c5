#include "runtime/backends/cuda/driver/Runtime.h"
#include <thread>

namespace omnibal::rt::cuda {
namespace {

thread_local WaitWatch *waitWatch = nullptr;

} // namespace

void watchWaits(WaitWatch *watch) { waitWatch = watch; }

Status check(cudaError_t error, const std::string &what) {
  if (error == cudaSuccess)
    return Status::ok();
  (void)cudaGetLastError(); // reported here: a launch that goes well must not find it
  return {error == cudaErrorMemoryAllocation ? Code::OutOfMemory : Code::Unavailable,
          "CUDA: " + what + " failed: " + cudaGetErrorName(error) + ", " +
              cudaGetErrorString(error)};
}

Result<std::shared_ptr<DriverEvent>> DriverEvent::create(bool timed) {
  std::shared_ptr<DriverEvent> made(new DriverEvent);
  OMNIBAL_RETURN_IF_ERROR(
      check(cudaEventCreateWithFlags(&made->event, timed ? 0 : cudaEventDisableTiming),
            "making an event"));
  return made;
}

Result<std::shared_ptr<DriverEvent>> DriverEvent::after(cudaStream_t stream, bool timed) {
  OMNIBAL_ASSIGN_OR_RETURN(auto made, create(timed));
  OMNIBAL_RETURN_IF_ERROR(made->record(stream));
  return made;
}

DriverEvent::~DriverEvent() {
  if (event)
    (void)cudaEventDestroy(event);
}

Status DriverEvent::record(cudaStream_t stream) {
  return check(cudaEventRecord(event, stream), "recording an event");
}

Result<bool> DriverEvent::reached() const {
  cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady)
    return false;
  OMNIBAL_RETURN_IF_ERROR(check(error, "the work before an event"));
  return true;
}

Status DriverEvent::wait(Communicator::Milliseconds deadline, const char *what) const {
  // Polled, not blocked in CUDA: a device that hangs must not take the rank with it.
  auto begin = Clock::now();
  for (int64_t round = 0;; ++round) {
    OMNIBAL_ASSIGN_OR_RETURN(bool done, reached());
    if (done)
      return Status::ok();
    if (waitWatch && round % 64 == 63)
      OMNIBAL_RETURN_IF_ERROR(waitWatch->check());
    if (Clock::now() - begin > deadline) {
      std::string late = waitWatch ? waitWatch->late() : "";
      return {Code::DeadlineExceeded, "the device did not reach " + std::string(what) + " within " +
                                          std::to_string(deadline.count() / 1000.0) + " s" +
                                          (late.empty() ? "" : "; " + late)};
    }
    if (round > 1000)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    else
      std::this_thread::yield();
  }
}

Status orderBehind(cudaStream_t stream, const DriverEvent &event) {
  return check(cudaStreamWaitEvent(stream, event.handle(), 0), "waiting for an event");
}

Result<std::unique_ptr<Stream>> Stream::create() {
  std::unique_ptr<Stream> made(new Stream);
  OMNIBAL_RETURN_IF_ERROR(
      check(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking), "making a stream"));
  return made;
}

Stream::~Stream() {
  if (stream)
    (void)cudaStreamDestroy(stream);
}

Result<std::unique_ptr<DeviceBuffer>> DeviceBuffer::allocate(int64_t bytes, cudaStream_t stream) {
  std::unique_ptr<DeviceBuffer> made(new DeviceBuffer);
  made->stream = stream;
  void *memory = nullptr;
  OMNIBAL_RETURN_IF_ERROR(check(cudaMallocAsync(&memory, bytes > 0 ? bytes : 1, stream),
                                "allocating " + std::to_string(bytes) + " bytes"));
  made->memory = static_cast<std::byte *>(memory);
  return made;
}

DeviceBuffer::~DeviceBuffer() {
  if (memory)
    (void)cudaFreeAsync(memory, stream);
}

Result<std::unique_ptr<PinnedBuffer>> PinnedBuffer::allocate(int64_t bytes) {
  std::unique_ptr<PinnedBuffer> made(new PinnedBuffer);
  made->size = bytes;
  void *memory = nullptr;
  OMNIBAL_RETURN_IF_ERROR(
      check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
            "allocating " + std::to_string(bytes) + " bytes of pinned host memory"));
  made->memory = static_cast<std::byte *>(memory);
  return made;
}

PinnedBuffer::~PinnedBuffer() {
  if (memory)
    (void)cudaFreeHost(memory);
}

} // namespace omnibal::rt::cuda
