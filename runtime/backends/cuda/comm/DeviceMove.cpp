#include "runtime/backends/cuda/comm/DeviceMove.h"
#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/driver/Runtime.h"

namespace omnibal::rt::cuda {
namespace {

int64_t elementsOf(const CommonBlock &block) {
  int64_t count = 1;
  for (const CommonBlock::Dim &dim : block.dims)
    count *= dim.size;
  return count;
}

} // namespace

Result<DeviceMove> DeviceMove::of(const PartMove &move, std::span<const TensorView> operands,
                                  const SymbolValues &symbols, int place, int parts) {
  const TensorView &source = operands[static_cast<size_t>(move.src)],
                   &result = operands[static_cast<size_t>(move.dst)];
  if (place >= parts)
    return Status(Code::Internal, "a move among parts of which this rank is none");
  DeviceMove made;
  made.kind = move.kind;
  made.type = elementOf(source.dtype);
  made.src = static_cast<std::byte *>(source.data);
  made.dst = static_cast<std::byte *>(result.data);
  made.place = place;
  made.parts = parts;
  made.from = splitAt(move.from, symbols);
  made.to = splitAt(move.to, symbols);
  made.whole = PartMove::wholeShape({source.shape, static_cast<size_t>(source.rank)}, made.from,
                                    place, parts);
  if (source.rank != result.rank || source.dtype != result.dtype ||
      (source.rank > 0 && made.whole.empty()))
    return Status(Code::Internal, "a move among parts has operands of other shapes than it says");
  made.wholeElements = 1;
  for (int64_t size : made.whole)
    made.wholeElements *= size;
  made.dstElements = result.elements();
  return made;
}

std::vector<CommonBlock> DeviceMove::blocks(int giver, int taker) const {
  const PartSide given{&from, from ? from->of(giver, parts) : UnitRange()},
      taken{&to, to ? to->of(taker, parts) : UnitRange()};
  return commonBlocks(whole, given, taken);
}

int64_t DeviceMove::common(int giver, int taker) const {
  int64_t count = 0;
  for (const CommonBlock &block : blocks(giver, taker))
    count += elementsOf(block);
  return count;
}

Status DeviceMove::transfer(int giver, const std::byte *given, int taker, std::byte *taken,
                            Packed packed, bool accumulate, cudaStream_t stream) const {
  const int64_t width = bytesOf(type);
  int64_t done = 0;
  for (const CommonBlock &block : blocks(giver, taker)) {
    CopyShape shape{{}, type, type, accumulate};
    int64_t stride = elementsOf(block);
    for (const CommonBlock::Dim &dim : block.dims) {
      stride /= dim.size;
      shape.strides.append(dim.size, packed == Packed::To ? stride : dim.other,
                           packed == Packed::From ? stride : dim.one);
    }
    if (block.dims.empty())
      shape.strides.append(1, 1, 1);
    std::byte *to = taken + (packed == Packed::To ? done : block.other) * width;
    const std::byte *from = given + (packed == Packed::From ? done : block.one) * width;
    OMNIBAL_RETURN_IF_ERROR(
        check(launchCopy(shape, to, from, stream), "a move among the parts of a stage"));
    done += elementsOf(block);
  }
  return Status::ok();
}

Status DeviceMove::copy(int giver, const std::byte *given, int taker, std::byte *taken,
                        bool accumulate, cudaStream_t stream) const {
  return transfer(giver, given, taker, taken, Packed::None, accumulate, stream);
}

Status DeviceMove::pack(int taker, std::byte *packed, cudaStream_t stream) const {
  return transfer(place, src, taker, packed, Packed::To, false, stream);
}

Status DeviceMove::unpack(int giver, const std::byte *packed, bool accumulate,
                          cudaStream_t stream) const {
  return transfer(giver, packed, place, dst, Packed::From, accumulate, stream);
}

Status DeviceMove::performAlone(cudaStream_t stream) const {
  const int64_t bytes = dstElements * bytesOf(type);
  const bool clears =
      kind == PartMoveKind::Place || (kind == PartMoveKind::KeepFirst && place != 0);
  if (clears && bytes > 0)
    OMNIBAL_RETURN_IF_ERROR(
        check(cudaMemsetAsync(dst, 0, static_cast<size_t>(bytes), stream), "writing zeros"));
  if (kind == PartMoveKind::KeepFirst && (place != 0 || src == dst))
    return Status::ok();
  return copy(place, src, place, dst, false, stream);
}

} // namespace omnibal::rt::cuda
