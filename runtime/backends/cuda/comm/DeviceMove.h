//===- DeviceMove.h - A move among the parts of a stage, on a device
//---------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_COMM_DEVICEMOVE_H
#define RUNTIME_BACKENDS_CUDA_COMM_DEVICEMOVE_H

#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/device/PartMove.h"
#include "runtime/support/Status.h"
#include <cuda_runtime_api.h>
#include <vector>

namespace omnibal::rt::cuda {

/// A move in a micro-batch, as one of the parts makes it. All operands are dense device memory.
class DeviceMove {
public:
  /// `place` is this part's number among `parts`.
  static Result<DeviceMove> of(const PartMove &move, std::span<const TensorView> operands,
                               const SymbolValues &symbols, int place, int parts);

  bool sends() const { return PartMove::sends(kind); }
  PartMoveKind kind = PartMoveKind::AllReduce;
  Element type = Element::F32;
  std::byte *src = nullptr, *dst = nullptr;
  int place = 0, parts = 1;
  int64_t wholeElements = 0, dstElements = 0;

  /// Elements of what `giver` has of the value before the move that `taker` is to have after it.
  int64_t common(int giver, int taker) const;
  /// Copies them from the giver's memory into the taker's, or adds them there.
  Status copy(int giver, const std::byte *from, int taker, std::byte *to, bool accumulate,
              cudaStream_t stream) const;
  /// Copies them into memory where they lie one after the other; and out of such memory.
  Status pack(int taker, std::byte *to, cudaStream_t stream) const;
  Status unpack(int giver, const std::byte *from, bool accumulate, cudaStream_t stream) const;
  /// The whole of a move that sends nothing.
  Status performAlone(cudaStream_t stream) const;

private:
  /// Which side of a copy has its elements one after the other.
  enum class Packed { None, From, To };

  std::vector<CommonBlock> blocks(int giver, int taker) const;
  Status transfer(int giver, const std::byte *from, int taker, std::byte *to, Packed packed,
                  bool accumulate, cudaStream_t stream) const;

  std::optional<UnitSplit> from, to;
  std::vector<int64_t> whole;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_COMM_DEVICEMOVE_H
