//===- Order.h - Stable sorting of positions by a key -----------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_ORDER_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_ORDER_H

#include <cstdint>
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

/// What `order` of a sort needs.
constexpr int64_t orderBytes(int64_t count) { return count * 2 * int64_t{sizeof(int32_t)}; }

/// order[0..count) = the positions of `keys` sorted by their value, equal ones by position; the
/// other half of `order` is scratch. Fewer than 2^31 keys.
cudaError_t launchOrder(int64_t count, const int32_t *keys, int32_t *order, cudaStream_t stream);
cudaError_t launchOrder(int64_t count, const int64_t *keys, int32_t *order, cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_ORDER_H
