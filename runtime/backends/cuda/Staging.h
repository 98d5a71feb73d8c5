//===- Staging.h - Copies between the host's memory and the device's, through pinned memory --===//
#ifndef RUNTIME_BACKENDS_CUDA_STAGING_H
#define RUNTIME_BACKENDS_CUDA_STAGING_H

#include "runtime/backends/cuda/Runtime.h"
#include <deque>

namespace omnibal::rt::cuda {

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
  struct Segment {
    int64_t begin;
    std::shared_ptr<Event> done;
  };

  Staging() = default;
  /// Room for `bytes` in one piece, at most half of the ring; its place is the result.
  Result<int64_t> reserve(int64_t bytes);
  /// The segment is free again when the stream has got here.
  Result<std::shared_ptr<Event>> close(int64_t begin, int64_t bytes);

  std::unique_ptr<PinnedBuffer> ring;
  std::deque<Segment> inUse; ///< oldest first
  int64_t head = 0;          ///< where the next segment begins if there is room
  cudaStream_t stream = nullptr;
  Communicator::Milliseconds deadline{};
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
#endif // RUNTIME_BACKENDS_CUDA_STAGING_H
