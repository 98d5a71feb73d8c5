//===- Staging.h - Copies between the host's memory and the device's, through pinned memory --===//
#ifndef RUNTIME_BACKENDS_CUDA_DRIVER_STAGING_H
#define RUNTIME_BACKENDS_CUDA_DRIVER_STAGING_H

#include "runtime/backends/cuda/driver/Runtime.h"
#include <deque>

namespace omnibal::rt::cuda {

/// Segments of a ring of memory, each free again when an event is reached.
class RingOrder {
public:
  RingOrder(int64_t bytes, Communicator::Milliseconds deadline)
      : bytes(bytes), deadline(deadline) {}

  /// Reserves room for `size` bytes in one piece, at most half of the ring, and returns its place.
  /// Waits only if the ring is full.
  Result<int64_t> reserve(int64_t size);
  void close(int64_t begin, int64_t size, std::shared_ptr<DriverEvent> done);
  /// Rounds up the start and size of segments, so that copies begin at whole memory lines.
  static int64_t roundUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  int64_t size() const { return bytes; }

private:
  struct Segment {
    int64_t begin;
    std::shared_ptr<DriverEvent> done;
  };
  std::deque<Segment> inUse; ///< oldest first
  int64_t head = 0;          ///< where the next segment begins if there is room
  int64_t bytes;
  Communicator::Milliseconds deadline;
};

/// A ring of pinned memory on one stream. Uploads return when the bytes are in the ring; the host
/// waits only when the ring is full of copies that the device has not made yet.
class Staging {
public:
  static constexpr int64_t defaultBytes = int64_t{64} << 20;

  static Result<std::unique_ptr<Staging>> create(cudaStream_t stream, int64_t bytes,
                                                 Communicator::Milliseconds deadline);

  Status upload(void *to, const void *from, int64_t bytes);
  /// Returns when the bytes have come.
  Status download(void *to, const void *from, int64_t bytes);

private:
  explicit Staging(RingOrder order) : order(std::move(order)) {}
  /// The segment is free again when the stream has got here.
  Result<std::shared_ptr<DriverEvent>> close(int64_t begin, int64_t bytes);

  std::unique_ptr<PinnedBuffer> ring;
  RingOrder order;
  cudaStream_t stream = nullptr;
  Communicator::Milliseconds deadline{};
};

/// Brings values to the device during the work of `compute`: on a separate stream into a ring of
/// device memory, and from there, in the order of `compute`, to their place.
class Prefetcher {
public:
  static constexpr int64_t leastBytes = leastBatchRing, mostBytes = mostBatchRing;

  /// Holds `bytes` under way, within the bounds above.
  static Result<std::unique_ptr<Prefetcher>> create(cudaStream_t compute, int64_t bytes,
                                                    Communicator::Milliseconds deadline);
  bool takes(int64_t bytes) const { return RingOrder::roundUp(bytes) <= order.size() / 2; }
  Status upload(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill);

private:
  explicit Prefetcher(RingOrder order) : order(std::move(order)) {}

  cudaStream_t compute = nullptr;
  std::unique_ptr<Stream> copies;
  std::unique_ptr<PinnedBuffer> host;
  std::unique_ptr<DeviceBuffer> device; ///< as large as `host`, segment by segment
  RingOrder order;
};

/// Pinned blocks for readbacks; kept and used again.
class ReadbackPool {
public:
  Result<std::byte *> take(int64_t bytes);
  void giveBack(const std::byte *data);

private:
  struct Block {
    std::unique_ptr<PinnedBuffer> memory;
    bool taken = false;
  };
  std::vector<Block> blocks;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_DRIVER_STAGING_H
