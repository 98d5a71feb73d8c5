//===- Update.h - Updates, the gradients' norm, scaling: one launch for many tensors ---------===//
//
// The tensors of a call are cut into fixed blocks (cutIntoBlocks, once, at prepare time); lists and
// blocks lie in device memory. Results depend on the sizes only. Master weights, gradients and
// moments are float32; a bfloat16 copy of a parameter is written along with it.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_UPDATE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_UPDATE_H

#include "runtime/device/NormBlocks.h"
#include "runtime/device/UpdateOptions.h"
#include <cstdint>
#include <cuda_runtime_api.h>
#include <vector>

namespace omnibal::rt::cuda {

/// Pointers to device memory, aligned as their types ask; what a launcher does not name may be
/// null.
struct UpdateTensor {
  float *param = nullptr, *grad = nullptr, *moment1 = nullptr, *moment2 = nullptr;
  void *copy = nullptr; ///< bfloat16 values of `param`, or null
  int64_t elements = 0;
  int32_t rate = 0;  ///< number in UpdateOptions::rates
  int32_t phase = 0; ///< values of its first block that lie before it (FloatRun)
  /// Where moments are codes (CodedMoments.h): moment1 and moment2 are their scales, and so many
  /// bytes behind the first of them lies the first code.
  int64_t codes = 0;
};

struct UpdateBlock {
  int64_t begin = 0;
  int32_t tensor = 0, size = 0;
};

constexpr int64_t updateBlockSize = normBlock;

inline std::vector<UpdateBlock> cutIntoBlocks(const std::vector<UpdateTensor> &tensors) {
  std::vector<UpdateBlock> blocks;
  for (size_t t = 0; t < tensors.size(); ++t)
    forBlocksOf(tensors[t].elements, tensors[t].phase, [&](int64_t begin, int64_t size) {
      blocks.push_back({begin, static_cast<int32_t>(t), static_cast<int32_t>(size)});
    });
  return blocks;
}

/// What a launch works on: device copies of the tensors and of their blocks.
struct UpdateList {
  const UpdateTensor *tensors = nullptr;
  const UpdateBlock *blocks = nullptr;
  int64_t count = 0; ///< blocks
};

struct UpdateShape {
  UpdateList list;
  UpdateOptions options; ///< with at most mostUpdateRates rates; scaleOfStep does nothing here
};

/// What update() of the host's Optimizer.h does, with lr and decay of the tensor's rate.
/// `deviceScale`, if not null, multiplies the gradients too; if it is not a number, nothing is
/// done.
cudaError_t launchUpdate(const UpdateShape &shape, const float *deviceScale, cudaStream_t stream);

/// Of AdamW8bit. `maps`: for signed and then for unsigned moments codedMapFloats floats, the values
/// of the codes and the borders between them (DynamicMap.h).
constexpr int64_t codedMapFloats = 512;
cudaError_t launchCodedUpdate(const UpdateShape &shape, const float *maps, const float *deviceScale,
                              cudaStream_t stream);

/// *result = the sum of the squares of all `grad`, in double; `partial` holds list.count values,
/// which stay as they are where there is no `grad`.
cudaError_t launchSquaredNorm(const UpdateList &list, double *partial, double *result,
                              cudaStream_t stream);
/// *result = the sum of `partial`.
cudaError_t launchAddUp(const double *partial, int64_t count, double *result, cudaStream_t stream);

/// Every `grad` *= factor * (*deviceFactor if not null).
cudaError_t launchScale(const UpdateList &list, double factor, const float *deviceFactor,
                        cudaStream_t stream);

/// Writes zeros to every `grad`.
cudaError_t launchZero(const UpdateList &list, cudaStream_t stream);

/// Every `copy` = `param` in bfloat16.
cudaError_t launchCopyParameters(const UpdateList &list, cudaStream_t stream);

/// Every `moment1`, an average, = decay `moment1` + (1 - decay) `param`; nothing where
/// *deviceScale is not a number.
cudaError_t launchAverage(const UpdateList &list, double decay, const float *deviceScale,
                          cudaStream_t stream);

/// Exchanges every `param` and `moment1`, its average.
cudaError_t launchExchange(const UpdateList &list, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_UPDATE_H
