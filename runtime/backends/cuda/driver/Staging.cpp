#include "runtime/backends/cuda/driver/Staging.h"
#include <algorithm>
#include <cstring>

namespace omnibal::rt::cuda {
Result<int64_t> RingOrder::reserve(int64_t size) {
  for (;;) {
    if (inUse.empty())
      return 0;
    // A gap is never filled to its last byte: head == tail means that the ring is full.
    int64_t tail = inUse.front().begin;
    if (head > tail && bytes - head >= size)
      return head;
    if (head > tail && tail > size)
      return 0;
    if (head < tail && tail - head > size)
      return head;
    OMNIBAL_RETURN_IF_ERROR(inUse.front().done->wait(deadline, "the end of a copy"));
    inUse.pop_front();
  }
}

void RingOrder::close(int64_t begin, int64_t size, std::shared_ptr<DriverEvent> done) {
  inUse.push_back({begin, std::move(done)});
  head = begin + size;
}

Result<std::unique_ptr<Staging>> Staging::create(cudaStream_t stream, int64_t bytes,
                                                 Communicator::Milliseconds deadline) {
  std::unique_ptr<Staging> made(new Staging(RingOrder(bytes, deadline)));
  OMNIBAL_ASSIGN_OR_RETURN(made->ring, PinnedBuffer::allocate(bytes));
  made->stream = stream;
  made->deadline = deadline;
  return made;
}

Result<std::shared_ptr<DriverEvent>> Staging::close(int64_t begin, int64_t bytes) {
  OMNIBAL_ASSIGN_OR_RETURN(auto done, DriverEvent::after(stream));
  order.close(begin, bytes, done);
  return done;
}

Status Staging::upload(void *to, const void *from, int64_t bytes) {
  const int64_t most = ring->bytes() / 1024 * 256;
  auto *target = static_cast<std::byte *>(to);
  auto *source = static_cast<const std::byte *>(from);
  for (int64_t done = 0; done < bytes; done += most) {
    int64_t piece = std::min(most, bytes - done);
    OMNIBAL_ASSIGN_OR_RETURN(int64_t at, order.reserve(RingOrder::roundUp(piece)));
    std::memcpy(ring->data() + at, source + done, piece);
    OMNIBAL_RETURN_IF_ERROR(check(
        cudaMemcpyAsync(target + done, ring->data() + at, piece, cudaMemcpyHostToDevice, stream),
        "a copy to the device"));
    OMNIBAL_RETURN_IF_ERROR(close(at, RingOrder::roundUp(piece)).status());
  }
  return Status::ok();
}

Status Staging::download(void *to, const void *from, int64_t bytes) {
  const int64_t most = ring->bytes() / 1024 * 256;
  auto *target = static_cast<std::byte *>(to);
  auto *source = static_cast<const std::byte *>(from);
  // The next piece travels while the last one is moved out of the ring.
  struct Piece {
    int64_t at, offset, bytes;
    std::shared_ptr<DriverEvent> come;
  };
  std::deque<Piece> under;
  auto take = [&]() -> Status {
    Piece piece = std::move(under.front());
    under.pop_front();
    OMNIBAL_RETURN_IF_ERROR(piece.come->wait(deadline, "the end of a copy"));
    std::memcpy(target + piece.offset, ring->data() + piece.at, piece.bytes);
    return Status::ok();
  };
  for (int64_t done = 0; done < bytes; done += most) {
    if (under.size() == 2)
      OMNIBAL_RETURN_IF_ERROR(take());
    int64_t piece = std::min(most, bytes - done);
    OMNIBAL_ASSIGN_OR_RETURN(int64_t at, order.reserve(RingOrder::roundUp(piece)));
    OMNIBAL_RETURN_IF_ERROR(check(
        cudaMemcpyAsync(ring->data() + at, source + done, piece, cudaMemcpyDeviceToHost, stream),
        "a copy from the device"));
    OMNIBAL_ASSIGN_OR_RETURN(auto come, close(at, RingOrder::roundUp(piece)));
    under.push_back({at, done, piece, come});
  }
  while (!under.empty())
    OMNIBAL_RETURN_IF_ERROR(take());
  return Status::ok();
}

Result<std::unique_ptr<Prefetcher>> Prefetcher::create(cudaStream_t compute, int64_t bytes,
                                                       Communicator::Milliseconds deadline) {
  bytes = RingOrder::roundUp(std::clamp(bytes, leastBytes, mostBytes));
  std::unique_ptr<Prefetcher> made(new Prefetcher(RingOrder(bytes, deadline)));
  made->compute = compute;
  OMNIBAL_ASSIGN_OR_RETURN(made->copies, Stream::create());
  OMNIBAL_ASSIGN_OR_RETURN(made->host, PinnedBuffer::allocate(bytes));
  OMNIBAL_ASSIGN_OR_RETURN(made->device, DeviceBuffer::allocate(bytes, made->copies->handle()));
  return made;
}

Status Prefetcher::upload(void *to, int64_t bytes, const std::function<Status(std::byte *)> &fill) {
  OMNIBAL_ASSIGN_OR_RETURN(const int64_t at, order.reserve(RingOrder::roundUp(bytes)));
  OMNIBAL_RETURN_IF_ERROR(fill(host->data() + at));
  // What read this segment before is done: the host has seen its event.
  OMNIBAL_RETURN_IF_ERROR(check(cudaMemcpyAsync(device->data() + at, host->data() + at, bytes,
                                                cudaMemcpyHostToDevice, copies->handle()),
                                "a copy to the device"));
  OMNIBAL_ASSIGN_OR_RETURN(auto come, DriverEvent::after(copies->handle()));
  OMNIBAL_RETURN_IF_ERROR(orderBehind(compute, *come));
  OMNIBAL_RETURN_IF_ERROR(
      check(cudaMemcpyAsync(to, device->data() + at, bytes, cudaMemcpyDeviceToDevice, compute),
            "a copy within the device"));
  OMNIBAL_ASSIGN_OR_RETURN(auto placed, DriverEvent::after(compute));
  order.close(at, RingOrder::roundUp(bytes), std::move(placed));
  return Status::ok();
}

Result<std::byte *> ReadbackPool::take(int64_t bytes) {
  Block *best = nullptr;
  for (Block &block : blocks)
    if (!block.taken && block.memory->bytes() >= bytes &&
        (!best || block.memory->bytes() < best->memory->bytes()))
      best = &block;
  if (!best) {
    OMNIBAL_ASSIGN_OR_RETURN(auto memory, PinnedBuffer::allocate(std::max<int64_t>(bytes, 4096)));
    best = &blocks.emplace_back();
    best->memory = std::move(memory);
  }
  best->taken = true;
  return best->memory->data();
}

void ReadbackPool::giveBack(const std::byte *data) {
  for (Block &block : blocks)
    if (block.memory->data() == data)
      block.taken = false;
}

} // namespace omnibal::rt::cuda
