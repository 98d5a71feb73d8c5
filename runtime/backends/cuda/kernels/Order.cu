//===- Order.cu - Sorted tiles, then runs merged 16 at a time ---------------------------------===//
//
// A position finds its place among 16 runs by a binary search in each of the 15 others: no step
// depends on another thread's, and 16384 positions take two launches.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Order.h"
#include <limits>
#include <utility>

namespace omnibal::rt::cuda {
namespace {

constexpr int tile = 1024, ways = 16, mergeThreads = 256;

template <typename Key>
__device__ __forceinline__ bool before(Key a, int32_t placeA, Key b, int32_t placeB) {
  return a < b || (a == b && placeA < placeB);
}

/// Sorts each tile (bitonic: the comparisons do not depend on the keys).
template <typename Key>
__global__ void __launch_bounds__(tile / 2)
    sortTiles(int64_t count, Key past, const Key *keys, int32_t *order) {
  __shared__ Key key[tile];
  __shared__ int32_t place[tile];
  const int me = threadIdx.x;
  for (int64_t first = int64_t(blockIdx.x) * tile; first < count;
       first += int64_t(gridDim.x) * tile) {
    __syncthreads(); // the last tile was written
    for (int i = me; i < tile; i += tile / 2) {
      const bool inside = first + i < count;
      key[i] = inside ? keys[first + i] : past;
      place[i] = inside ? static_cast<int32_t>(first + i) : 0x7fffffff;
    }
    for (int size = 2; size <= tile; size *= 2)
      for (int step = size / 2; step > 0; step /= 2) {
        __syncthreads();
        const int low = 2 * me - (me & (step - 1)), high = low + step;
        const bool ascending = (low & size) == 0;
        const Key a = key[low], b = key[high];
        const int32_t placeA = place[low], placeB = place[high];
        if (before(b, placeB, a, placeA) == ascending) {
          key[low] = b;
          key[high] = a;
          place[low] = placeB;
          place[high] = placeA;
        }
      }
    __syncthreads();
    for (int i = me; i < tile; i += tile / 2)
      if (first + i < count)
        order[first + i] = place[i];
  }
}

/// Runs of `run` sorted positions become runs of `ways` times as many.
template <typename Key>
__global__ void __launch_bounds__(mergeThreads)
    mergeRuns(int64_t count, int64_t run, const Key *keys, const int32_t *from, int32_t *to) {
  for (int64_t i = int64_t(blockIdx.x) * mergeThreads + threadIdx.x; i < count;
       i += int64_t(gridDim.x) * mergeThreads) {
    const int32_t me = from[i];
    const Key mine = keys[me];
    const int64_t own = i / run * run, group = i / (run * ways) * (run * ways);
    int64_t place = i - own;
    for (int64_t other = group; other < count && other < group + run * ways; other += run) {
      if (other == own)
        continue;
      int64_t low = 0, high = run < count - other ? run : count - other;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        const int32_t at = from[other + middle];
        if (before(keys[at], at, mine, me))
          low = middle + 1;
        else
          high = middle;
      }
      place += low;
    }
    to[group + place] = me;
  }
}

template <typename Key>
cudaError_t sort(int64_t count, const Key *keys, int32_t *order, cudaStream_t stream) {
  if (count == 0)
    return cudaSuccess;
  if (count >= 0x7fffffff)
    return cudaErrorInvalidValue;
  int merges = 0;
  for (int64_t run = tile; run < count; run *= ways)
    ++merges;
  int32_t *from = merges % 2 ? order + count : order, *to = merges % 2 ? order : order + count;
  OMNIBAL_LAUNCH(sortTiles<Key>, dim3(gridFor(ceilDiv(count, tile))), dim3(tile / 2), stream, count,
                 std::numeric_limits<Key>::max(), keys, from);
  for (int64_t run = tile; run < count; run *= ways) {
    OMNIBAL_LAUNCH(mergeRuns<Key>, dim3(gridFor(ceilDiv(count, mergeThreads))), dim3(mergeThreads),
                   stream, count, run, keys, from, to);
    std::swap(from, to);
  }
  return cudaGetLastError();
}

} // namespace

cudaError_t launchOrder(int64_t count, const int32_t *keys, int32_t *order, cudaStream_t stream) {
  return sort(count, keys, order, stream);
}

cudaError_t launchOrder(int64_t count, const int64_t *keys, int32_t *order, cudaStream_t stream) {
  return sort(count, keys, order, stream);
}

} // namespace omnibal::rt::cuda
