#include "runtime/backends/cuda/MultiTensorLists.h"
#include <algorithm>

namespace omnibal::rt::cuda {
namespace {

bool equal(const UpdateTensor &a, const UpdateTensor &b) {
  return a.param == b.param && a.grad == b.grad && a.moment1 == b.moment1 &&
         a.moment2 == b.moment2 && a.copy == b.copy && a.elements == b.elements &&
         a.rate == b.rate && a.phase == b.phase && a.codes == b.codes;
}

static_assert(updateBlockSize == updateBlockElements && sizeof(UpdateTensor) == 64 &&
                  sizeof(UpdateBlock) + sizeof(double) == 24,
              "updateListBytes() counts them");

int64_t roundUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }

} // namespace

Result<const DeviceList *> MultiTensorLists::get(std::vector<UpdateTensor> tensors) {
  std::erase_if(tensors, [](const UpdateTensor &t) { return t.elements == 0; });
  for (const DeviceList &known : lists)
    if (std::equal(known.tensors.begin(), known.tensors.end(), tensors.begin(), tensors.end(),
                   equal))
      return &known;
  std::vector<UpdateBlock> blocks = cutIntoBlocks(tensors);
  const int64_t tensorBytes = tensors.size() * sizeof(UpdateTensor),
                blockBytes = blocks.size() * sizeof(UpdateBlock),
                sumBytes = blocks.size() * sizeof(double);
  const int64_t blocksAt = roundUp(tensorBytes), sumsAt = blocksAt + roundUp(blockBytes),
                resultAt = sumsAt + roundUp(sumBytes);
  DeviceList made;
  OMNIBAL_ASSIGN_OR_RETURN(made.memory,
                           DeviceBuffer::allocate(resultAt + int64_t{sizeof(double)}, stream));
  own.took("optimizer's lists", resultAt + int64_t{sizeof(double)});
  std::byte *start = made.memory->data();
  OMNIBAL_RETURN_IF_ERROR(staging.upload(start, tensors.data(), tensorBytes));
  OMNIBAL_RETURN_IF_ERROR(staging.upload(start + blocksAt, blocks.data(), blockBytes));
  made.list = {reinterpret_cast<const UpdateTensor *>(start),
               reinterpret_cast<const UpdateBlock *>(start + blocksAt),
               static_cast<int64_t>(blocks.size())};
  made.partial = reinterpret_cast<double *>(start + sumsAt);
  made.result = reinterpret_cast<double *>(start + resultAt);
  made.tensors = std::move(tensors);
  lists.push_back(std::move(made));
  return &lists.back();
}

} // namespace omnibal::rt::cuda
