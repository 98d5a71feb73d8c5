//===- GroupedMma.cu - Products in groups on the tensor cores ----------------------------------===//
//
// bfloat16 factors, float32 sums. A block of four warps has 64 x 128 results, a warp 32 x 64 of
// them; parts of 32 of the depth come by asynchronous copies behind the products. Rows are gathered
// by their number in the order of groups; which dimension of a factor lies densely is the same for
// a launch.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/matrix/GroupedDevice.h"
#include "runtime/backends/cuda/kernels/TensorCore.h"
#include <type_traits>

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 128;
constexpr int down = 64, across = 128, depth = 32;
constexpr int pack = 8; ///< values of a copy

/// A part of a factor in shared memory, [side][depth] or, where the side lies densely, [depth][side];
/// lines are a pack longer, so that eight of them lie in all banks.
template <int side, bool denseSide> struct Part {
  static constexpr int line = (denseSide ? side : depth) + pack;
  static constexpr int lines = denseSide ? depth : side;
  static constexpr int packs = (denseSide ? side : depth) / pack; ///< of a line
  static constexpr int copies = lines * packs / threads;          ///< of a thread
  static_assert(lines * packs % threads == 0);
  static constexpr int values = lines * line;
};

/// Bytes of two parts of either factor: one is copied while the other is multiplied.
template <bool denseLeft, bool denseRight>
constexpr int sharedBytes = 2 * (Part<down, denseLeft>::values + Part<across, denseRight>::values) *
                            static_cast<int>(sizeof(bf16));

/// The four matrices of 16 along the side and 16 of the depth that begin there. As the left factor
/// the second is the first's neighbor along the side; as the right factor along the depth, so that
/// to[0], to[1] are of the first eight of the side and to[2], to[3] of the others.
template <typename P, bool denseSide, bool asLeft>
__device__ __forceinline__ void loadFour(uint32_t (&to)[4], const bf16 *part, int side, int k) {
  const int lane = threadIdx.x % 32, near = lane / 8 % 2 * 8, row = lane % 8, far = lane / 16 * 8;
  const int sideways = asLeft ? near : far, deep = asLeft ? far : near;
  const bf16 *at = denseSide ? part + (k + deep + row) * P::line + side + sideways
                             : part + (side + sideways + row) * P::line + k + deep;
  loadMatrices<denseSide>(to, reinterpret_cast<const unsigned char *>(at));
}

using Sums = float[2][8][4];

/// sums += the products of a part; the warp's results begin at (row, col) of the block's.
template <bool denseLeft, bool denseRight>
__device__ __forceinline__ void multiplyPart(Sums &sums, const bf16 *left, const bf16 *right,
                                             int row, int col) {
#pragma unroll
  for (int k = 0; k < depth; k += 16) {
    uint32_t a[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      loadFour<Part<down, denseLeft>, denseLeft, true>(a[i], left, row + i * 16, k);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      uint32_t b[4];
      loadFour<Part<across, denseRight>, denseRight, false>(b, right, col + j * 8, k);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        multiplyAdd(sums[i][j], a[i], b[0], b[1]);
        multiplyAdd(sums[i][j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

/// Begins the copies of a part: place(line, pack) says where a pack comes from, or null for zeros.
template <typename P, typename Place>
__device__ __forceinline__ void copyPart(bf16 *to, const bf16 *any, const Place &place) {
#pragma unroll
  for (int i = 0; i < P::copies; ++i) {
    const int number = threadIdx.x + i * threads, line = number / P::packs, p = number % P::packs;
    const bf16 *from = place(line, p * pack);
    copyAsync(to + line * P::line + p * pack, from ? from : any, from != nullptr);
  }
}

/// sums = the products over `count` of the depth; copy(stage, first) begins the copies of a part.
template <bool denseLeft, bool denseRight, typename Copy>
__device__ __forceinline__ void multiplyAll(Sums &sums, const bf16 *left, const bf16 *right,
                                            int64_t count, int row, int col, const Copy &copy) {
  using Left = Part<down, denseLeft>;
  using Right = Part<across, denseRight>;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[i][j][e] = 0;
  __syncthreads(); // what was there before is read
  copy(0, int64_t{0});
  closeCopies();
  for (int64_t first = 0; first < count; first += depth) {
    const int stage = first / depth % 2;
    if (first + depth < count) {
      copy(1 - stage, first + depth);
      closeCopies();
      waitForCopies<1>();
    } else {
      waitForCopies<0>();
    }
    __syncthreads();
    multiplyPart<denseLeft, denseRight>(sums, left + stage * Left::values,
                                        right + stage * Right::values, row, col);
    __syncthreads(); // the next copies go where this part lay
  }
}

/// Calls store(row, col, value) for the results of a warp.
template <typename Store>
__device__ __forceinline__ void storeAll(const Sums &sums, int row, int col, const Store &store) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        store(row + i * 16 + lane / 4 + e / 2 * 8, col + j * 8 + lane % 4 * 2 + e % 2,
              sums[i][j][e]);
}

/// denseRight: the columns of b lie densely, else its depth.
template <bool denseRight, typename To>
__global__ void __launch_bounds__(threads)
    groupedGemm(GroupedShape s, const int32_t *order, const int32_t *borders, const bf16 *a,
                const bf16 *b, To *c) {
  using Left = Part<down, false>;
  using Right = Part<across, denseRight>;
  bf16 *const left = reinterpret_cast<bf16 *>(dynamicMemory());
  bf16 *const right = left + 2 * Left::values;
  const int warp = threadIdx.x / 32, row = warp % 2 * 32, col = warp / 2 * 64;
  const int64_t colTiles = (s.cols + across - 1) / across, rowTiles = (s.rows + down - 1) / down;
  for (int64_t tile = blockIdx.x; tile < rowTiles * colTiles; tile += gridDim.x) {
    const int64_t first = tile / colTiles * down, firstCol = tile % colTiles * across;
    const int64_t end = first + down < s.rows ? first + down : s.rows;
    forGroups(borders, s.groups, first, end, [&](int64_t g, int64_t begin, int64_t last) {
      const bf16 *matrix = b + g * s.b.group;
      const bf16 *lines[Left::copies]; // this thread's rows
#pragma unroll
      for (int i = 0; i < Left::copies; ++i) {
        const int64_t place = first + (threadIdx.x + i * threads) / Left::packs;
        lines[i] = place >= begin && place < last ? a + offsetOf(s.a, order[place]) : nullptr;
      }
      auto copy = [&](int stage, int64_t from) {
#pragma unroll
        for (int i = 0; i < Left::copies; ++i) {
          const int number = threadIdx.x + i * threads;
          const int line = number / Left::packs, k = number % Left::packs * pack;
          const bool inside = lines[i] && from + k < s.depth;
          copyAsync(left + stage * Left::values + line * Left::line + k,
                    inside ? lines[i] + from + k : a, inside);
        }
        copyPart<Right>(right + stage * Right::values, b, [&](int line, int at) {
          const int64_t k = from + (denseRight ? line : at);
          const int64_t n = firstCol + (denseRight ? at : line);
          return k < s.depth && n < s.cols ? matrix + k * s.b.row + n * s.b.col : nullptr;
        });
      };
      Sums sums;
      multiplyAll<false, denseRight>(sums, left, right, s.depth, row, col, copy);
      storeAll(sums, row, col, [&](int i, int j, float value) {
        const int64_t place = first + i, n = firstCol + j;
        if (place >= begin && place < last && n < s.cols)
          c[offsetOf(s.c, order[place]) + n * s.c.col] = fromFloat<To>(value);
      });
    });
  }
}

template <typename To>
__global__ void __launch_bounds__(threads)
    groupedGemmBackward(GroupedGradShape s, const int32_t *order, const int32_t *borders,
                        const bf16 *a, const bf16 *b, To *c) {
  using Left = Part<down, true>;
  using Right = Part<across, true>;
  bf16 *const left = reinterpret_cast<bf16 *>(dynamicMemory());
  bf16 *const right = left + 2 * Left::values;
  const int warp = threadIdx.x / 32, row = warp % 2 * 32, col = warp / 2 * 64;
  const int64_t colTiles = (s.cols + across - 1) / across, rowTiles = (s.rows + down - 1) / down;
  for (int64_t tile = blockIdx.x; tile < s.groups * rowTiles * colTiles; tile += gridDim.x) {
    const int64_t g = tile / (rowTiles * colTiles);
    const int64_t firstRow = tile / colTiles % rowTiles * down, firstCol = tile % colTiles * across;
    const int64_t begin = borders[g], last = borders[g + 1];
    if (begin >= last)
      continue; // nothing to add
    auto copy = [&](int stage, int64_t from) {
      copyPart<Left>(left + stage * Left::values, a, [&](int line, int at) {
        const int64_t place = begin + from + line, m = firstRow + at;
        return place < last && m < s.rows ? a + offsetOf(s.a, order[place]) + m : nullptr;
      });
      copyPart<Right>(right + stage * Right::values, b, [&](int line, int at) {
        const int64_t place = begin + from + line, n = firstCol + at;
        return place < last && n < s.cols ? b + offsetOf(s.b, order[place]) + n : nullptr;
      });
    };
    Sums sums;
    multiplyAll<true, true>(sums, left, right, last - begin, row, col, copy);
    storeAll(sums, row, col, [&](int i, int j, float value) {
      const int64_t r = firstRow + i, n = firstCol + j;
      if (r >= s.rows || n >= s.cols)
        return;
      To &place = c[g * s.c.group + r * s.c.row + n * s.c.col];
      place = fromFloat<To>(toFloat(place) + value);
    });
  }
}

bool inPacks(int64_t stride) { return stride % pack == 0; }
/// Whether each row's values lie densely and begin at a pack.
bool rowsInPacks(const RepeatedRows &s, int64_t cols, const void *data) {
  return s.col == 1 && inPacks(cols) && inPacks(s.outer) && inPacks(s.step) && isAligned(data, 16);
}

template <typename Kernel, typename Shape, typename To>
void run(Kernel kernel, int64_t blocks, int bytes, const Shape &s, const int32_t *order,
         const int32_t *borders, const void *a, const void *b, To *c, cudaStream_t stream) {
  OMNIBAL_LAUNCH_SHARED(kernel, dim3(gridFor(blocks)), dim3(threads), bytes, stream, s, order,
                        borders, static_cast<const bf16 *>(a), static_cast<const bf16 *>(b), c);
}

} // namespace

bool launchGroupedGemmMma(const GroupedShape &s, const int32_t *order, const int32_t *borders,
                          const void *a, const void *b, void *c, cudaStream_t stream) {
  const bool denseDepth = s.b.row == 1 && inPacks(s.b.col);
  const bool denseCols = s.b.col == 1 && inPacks(s.b.row) && inPacks(s.cols);
  if (s.type != Element::BF16 || !rowsInPacks(s.a, s.depth, a) || !(denseDepth || denseCols) ||
      !inPacks(s.b.group) || !isAligned(b, 16))
    return false;
  const int64_t blocks = ceilDiv(s.rows, down) * ceilDiv(s.cols, across);
  auto launch = [&](auto *to) {
    using To = std::remove_pointer_t<decltype(to)>;
    if (denseDepth)
      run(groupedGemm<false, To>, blocks, sharedBytes<false, false>, s, order, borders, a, b, to, stream);
    else
      run(groupedGemm<true, To>, blocks, sharedBytes<false, true>, s, order, borders, a, b, to, stream);
  };
  if (s.resultType == Element::BF16)
    launch(static_cast<bf16 *>(c));
  else
    launch(static_cast<float *>(c));
  return true;
}

bool launchGroupedGemmBackwardMma(const GroupedGradShape &s, const int32_t *order,
                                  const int32_t *borders, const void *a, const void *b, void *c,
                                  cudaStream_t stream) {
  if (s.type != Element::BF16 || !rowsInPacks(s.a, s.rows, a) || !rowsInPacks(s.b, s.cols, b))
    return false;
  const int64_t blocks = s.groups * ceilDiv(s.rows, down) * ceilDiv(s.cols, across);
  if (s.resultType == Element::BF16)
    run(groupedGemmBackward<bf16>, blocks, sharedBytes<true, true>, s, order, borders, a, b, static_cast<bf16 *>(c), stream);
  else
    run(groupedGemmBackward<float>, blocks, sharedBytes<true, true>, s, order, borders, a, b, static_cast<float *>(c),
        stream);
  return true;
}

} // namespace omnibal::rt::cuda
