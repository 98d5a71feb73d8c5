//===- Rows.cu - Rows by index ---------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Rows.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int threads = 256;

template <typename To, typename From, int n>
__device__ __forceinline__ Pack<To, n> loadAs(const From *from) {
  const auto values = loadPack<n>(from);
  Pack<To, n> result;
#pragma unroll
  for (int e = 0; e < n; ++e)
    result.at[e] = Convert<To, From>::of(values.at[e]);
  return result;
}

/// n > 1: all columns are dense and lines aligned to a pack. A pack never crosses the last column.
template <int n, typename To, typename From>
__global__ void __launch_bounds__(threads)
    selectRows(SelectShape s, const int32_t *index, const From *chosen, const To *other, To *out) {
  const int64_t packs = s.cols / n;
  for (int64_t r = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; r < s.rows;
       r += int64_t(gridDim.x) * blockDim.y) {
    const int64_t source = index[r];
    const From *a = source >= 0 && chosen ? chosen + source * s.chosen.row : nullptr;
    const To *b = source < 0 && other ? other + r * s.other.row : nullptr;
    To *to = out + r * s.out.row;
    if (b && b == to && s.other.col == s.out.col)
      continue;
    for (int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
      const int64_t col = p * n;
      Pack<To, n> values;
      if (a) {
        values = loadAs<To, From, n>(a + col * s.chosen.col);
      } else if (b) {
        values = loadPack<n>(b + col * s.other.col);
      } else {
#pragma unroll
        for (int e = 0; e < n; ++e)
          values.at[e] = fromFloat<To>(0.f);
      }
      storePack<n>(to + col * s.out.col, values);
    }
  }
}

template <int n, typename T>
__global__ void __launch_bounds__(threads)
    scatterRows(ScatterShape s, const int32_t *index, const T *from, T *out) {
  const int64_t packs = s.cols / n;
  for (int64_t r = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; r < s.rows;
       r += int64_t(gridDim.x) * blockDim.y) {
    const int64_t place = index[r];
    if (place < 0)
      continue;
    const T *line = from + r * s.from.row;
    T *to = out + place * s.out.row;
    for (int64_t p = threadIdx.x; p < packs; p += blockDim.x)
      storePack<n>(to + p * n * s.out.col, loadPack<n>(line + p * n * s.from.col));
  }
}

/// An index with more rows than this is a block's work: all tokens that stand for parts of pictures
/// have one, and a warp would be busy with it for longer than everything else takes.
constexpr int longRun = 32, longWarps = 32, longAhead = 8;

__device__ __forceinline__ bool isAdded(const AddRowsShape &s, int32_t index) {
  return index >= 0 && index != s.left;
}

/// Whether the run of an index that begins at `first` is long.
__device__ __forceinline__ bool isLong(const AddRowsShape &s, const int32_t *index,
                                       const int32_t *order, int64_t first) {
  return first + longRun < s.rows && index[order[first + longRun]] == index[order[first]];
}

/// A block 1024 places of the order and n * 32 columns: its warps share the rows of each long run
/// that begins there, `longAhead` at a time in turn, and their sums are added in the order of
/// warps.
template <int n, typename To, typename From>
__global__ void __launch_bounds__(32 * longWarps)
    addLongRuns(AddRowsShape s, const int32_t *index, const int32_t *order, const From *from,
                To *out) {
  __shared__ int64_t starts[longWarps];
  __shared__ float sums[longWarps][32 * n];
  const int lane = threadIdx.x, warp = threadIdx.y;
  const int64_t p = (int64_t(blockIdx.x) * longWarps + warp) * 32 + lane;
  if (lane == 0)
    starts[warp] = -1;
  __syncthreads();
  if (p < s.rows && isAdded(s, index[order[p]]) && (p == 0 || index[order[p - 1]] != index[order[p]]) &&
      isLong(s, index, order, p))
    starts[warp] = p; // at most one of 32 neighbors
  __syncthreads();
  const int64_t wanted = (int64_t(blockIdx.y) * 32 + lane) * n;
  const int64_t col = wanted < s.cols ? wanted : 0;
  for (int run = 0; run < longWarps; ++run) {
    const int64_t first = starts[run];
    if (first < 0)
      continue;
    const int32_t place = index[order[first]];
    const From *column = from + col * s.from.col;
    float sum[n];
#pragma unroll
    for (int e = 0; e < n; ++e)
      sum[e] = 0;
    bool more = true;
    for (int64_t i = first + warp * longAhead; more && i < s.rows; i += longWarps * longAhead) {
      Pack<From, n> values[longAhead];
      bool mine[longAhead];
#pragma unroll
      for (int j = 0; j < longAhead; ++j) { // all on their way before it is known which count
        const int64_t r = order[i + j < s.rows ? i + j : first];
        mine[j] = i + j < s.rows && index[r] == place;
        values[j] = loadPack<n>(column + r * s.from.row);
      }
#pragma unroll
      for (int j = 0; j < longAhead; ++j)
#pragma unroll
        for (int e = 0; e < n; ++e)
          sum[e] += mine[j] ? toFloat(values[j].at[e]) : 0.f;
      more = mine[longAhead - 1];
    }
#pragma unroll
    for (int e = 0; e < n; ++e)
      sums[warp][lane * n + e] = sum[e];
    __syncthreads();
    if (warp == 0 && wanted < s.cols) {
      To *to = out + place * s.out.row + col * s.out.col;
      auto result = loadPack<n>(to);
#pragma unroll
      for (int e = 0; e < n; ++e) {
        float total = 0;
        for (int w = 0; w < longWarps; ++w)
          total += sums[w][lane * n + e];
        result.at[e] = fromFloat<To>(toFloat(result.at[e]) + total);
      }
      storePack<n>(to, result);
    }
    __syncthreads(); // the sums are read before the next run's
  }
}

/// A warp a place of the order and n * 32 columns; it works where a new index begins and adds all
/// rows of that index, unless they are many.
template <int n, typename To, typename From>
__global__ void __launch_bounds__(threads)
    addRows(AddRowsShape s, const int32_t *index, const int32_t *order, const From *from, To *out) {
  const int64_t col = (int64_t(blockIdx.y) * 32 + threadIdx.x) * n;
  for (int64_t first = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; first < s.rows;
       first += int64_t(gridDim.x) * blockDim.y) {
    const int32_t place = index[order[first]];
    if (!isAdded(s, place) || col >= s.cols || (first > 0 && index[order[first - 1]] == place) ||
        isLong(s, index, order, first))
      continue;
    To *to = out + place * s.out.row + col * s.out.col;
    float sum[n];
    const auto old = loadPack<n>(to);
#pragma unroll
    for (int e = 0; e < n; ++e)
      sum[e] = toFloat(old.at[e]);
    const From *column = from + col * s.from.col;
    for (int64_t i = first; i < s.rows;) {
      constexpr int ahead = 4; // rows that are loaded together; added one after another
      int64_t row[ahead];
      int count = 0;
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        row[j] = -1;
        if (i + j < s.rows) {
          const int64_t r = order[i + j];
          row[j] = index[r] == place ? r : -1;
        }
        count += row[j] >= 0 ? 1 : 0; // those of one index are together
      }
      Pack<From, n> values[ahead];
#pragma unroll
      for (int j = 0; j < ahead; ++j)
        if (j < count)
          values[j] = loadPack<n>(column + row[j] * s.from.row);
#pragma unroll
      for (int j = 0; j < ahead; ++j)
        if (j < count) {
#pragma unroll
          for (int e = 0; e < n; ++e)
            sum[e] += toFloat(values[j].at[e]);
        }
      if (count < ahead)
        break;
      i += ahead;
    }
    Pack<To, n> result;
#pragma unroll
    for (int e = 0; e < n; ++e)
      result.at[e] = fromFloat<To>(sum[e]);
    storePack<n>(to, result);
  }
}

/// One block: each thread counts its run of rows, then writes behind the runs before it.
__global__ void __launch_bounds__(1024)
    labeledRows(int64_t rows, const int32_t *targets, int32_t *tokens, int32_t *count) {
  __shared__ int32_t sums[1024];
  const int me = threadIdx.x;
  const int64_t run = (rows + 1023) / 1024;
  const int64_t begin = run * me < rows ? run * me : rows;
  const int64_t end = begin + run < rows ? begin + run : rows;
  int32_t mine = 0;
  for (int64_t i = begin; i < end; ++i)
    mine += targets[i] >= 0 ? 1 : 0;
  sums[me] = mine;
  for (int step = 1; step < 1024; step *= 2) {
    __syncthreads();
    const int32_t before = me >= step ? sums[me - step] : 0;
    __syncthreads();
    sums[me] += before;
  }
  __syncthreads();
  int32_t place = sums[me] - mine;
  int32_t other = sums[1023] + static_cast<int32_t>(begin) - place;
  for (int64_t i = begin; i < end; ++i)
    tokens[targets[i] >= 0 ? place++ : other++] = static_cast<int32_t>(i);
  if (me == 1023)
    *count = sums[me];
}

struct Lines {
  dim3 grid, block;
};

/// Threads along a row of `packs` packs, and rows beside each other.
Lines linesFor(int64_t rows, int64_t packs) {
  unsigned across = 1;
  while (across < threads && across < packs)
    across *= 2;
  const dim3 block(across, threads / across);
  return {dim3(gridFor(ceilDiv(rows, block.y))), block};
}

/// Whether a matrix of T (null is fine) may be read in packs of n.
template <typename T, int n> bool packable(const void *data, const RowStrides &s) {
  return !data || (s.col == 1 && s.row % n == 0 && isAligned(data, n * sizeof(T)));
}

template <typename To, typename From>
cudaError_t select(const SelectShape &s, const int32_t *index, const void *chosen,
                   const void *other, void *out, cudaStream_t stream) {
  constexpr int n = 16 / sizeof(From);
  const bool wide = s.cols % n == 0 && packable<From, n>(chosen, s.chosen) &&
                    packable<To, n>(other, s.other) && packable<To, n>(out, s.out);
  const Lines lines = linesFor(s.rows, wide ? s.cols / n : s.cols);
  if (wide)
    OMNIBAL_LAUNCH((selectRows<n, To, From>), lines.grid, lines.block, stream, s, index,
                   static_cast<const From *>(chosen), static_cast<const To *>(other),
                   static_cast<To *>(out));
  else
    OMNIBAL_LAUNCH((selectRows<1, To, From>), lines.grid, lines.block, stream, s, index,
                   static_cast<const From *>(chosen), static_cast<const To *>(other),
                   static_cast<To *>(out));
  return cudaGetLastError();
}

template <typename T>
cudaError_t scatter(const ScatterShape &s, const int32_t *index, const void *from, void *out,
                    cudaStream_t stream) {
  constexpr int n = 16 / sizeof(T);
  const bool wide = s.cols % n == 0 && packable<T, n>(from, s.from) && packable<T, n>(out, s.out);
  const Lines lines = linesFor(s.rows, wide ? s.cols / n : s.cols);
  if (wide)
    OMNIBAL_LAUNCH((scatterRows<n, T>), lines.grid, lines.block, stream, s, index,
                   static_cast<const T *>(from), static_cast<T *>(out));
  else
    OMNIBAL_LAUNCH((scatterRows<1, T>), lines.grid, lines.block, stream, s, index,
                   static_cast<const T *>(from), static_cast<T *>(out));
  return cudaGetLastError();
}

template <typename To, typename From>
cudaError_t add(const AddRowsShape &s, const int32_t *index, const int32_t *order, const void *from,
                void *out, cudaStream_t stream) {
  constexpr int n = 4;
  const bool wide =
      s.cols % n == 0 && packable<From, n>(from, s.from) && packable<To, n>(out, s.out);
  const int64_t strips = ceilDiv(s.cols, wide ? 32 * n : 32);
  const dim3 block(32, threads / 32);
  if (strips > 65535)
    return cudaErrorInvalidValue;
  const dim3 grid(gridFor(ceilDiv(s.rows, block.y)), static_cast<unsigned>(strips));
  const dim3 longBlock(32, longWarps);
  const dim3 longGrid(static_cast<unsigned>(ceilDiv(s.rows, 32 * longWarps)),
                      static_cast<unsigned>(strips));
  auto *rows = static_cast<const From *>(from);
  auto *to = static_cast<To *>(out);
  if (wide)
    OMNIBAL_LAUNCH((addRows<n, To, From>), grid, block, stream, s, index, order, rows, to);
  else
    OMNIBAL_LAUNCH((addRows<1, To, From>), grid, block, stream, s, index, order, rows, to);
  if (s.rows <= longRun)
    return cudaGetLastError();
  if (wide)
    OMNIBAL_LAUNCH((addLongRuns<n, To, From>), longGrid, longBlock, stream, s, index, order, rows,
                   to);
  else
    OMNIBAL_LAUNCH((addLongRuns<1, To, From>), longGrid, longBlock, stream, s, index, order, rows,
                   to);
  return cudaGetLastError();
}

bool isFloat(Element type) { return type == Element::F32 || type == Element::BF16; }

} // namespace

cudaError_t launchSelectRows(const SelectShape &s, const int32_t *index, const void *chosen,
                             const void *other, void *out, cudaStream_t stream) {
  if (!isFloat(s.type) || !isFloat(s.chosenType) ||
      (s.type == Element::F32 && s.chosenType == Element::BF16))
    return cudaErrorInvalidValue;
  if (s.rows == 0 || s.cols == 0)
    return cudaSuccess;
  if (s.type == Element::F32)
    return select<float, float>(s, index, chosen, other, out, stream);
  if (s.chosenType == Element::F32)
    return select<bf16, float>(s, index, chosen, other, out, stream);
  return select<bf16, bf16>(s, index, chosen, other, out, stream);
}

cudaError_t launchScatterRows(const ScatterShape &s, const int32_t *index, const void *from,
                              void *out, cudaStream_t stream) {
  if (!isFloat(s.type))
    return cudaErrorInvalidValue;
  if (s.rows == 0 || s.cols == 0)
    return cudaSuccess;
  return s.type == Element::F32 ? scatter<float>(s, index, from, out, stream)
                                : scatter<bf16>(s, index, from, out, stream);
}

cudaError_t launchAddRows(const AddRowsShape &s, const int32_t *index, const int32_t *order,
                          const void *from, void *out, cudaStream_t stream) {
  if (!isFloat(s.outType) || !isFloat(s.fromType) ||
      (s.outType == Element::BF16 && s.fromType == Element::F32))
    return cudaErrorInvalidValue;
  if (s.rows == 0 || s.cols == 0)
    return cudaSuccess;
  if (s.fromType == Element::F32)
    return add<float, float>(s, index, order, from, out, stream);
  if (s.outType == Element::F32)
    return add<float, bf16>(s, index, order, from, out, stream);
  return add<bf16, bf16>(s, index, order, from, out, stream);
}

cudaError_t launchLabeledRows(int64_t rows, const int32_t *targets, int32_t *tokens,
                               int32_t *count, cudaStream_t stream) {
  OMNIBAL_LAUNCH(labeledRows, dim3(1), dim3(1024), stream, rows, targets, tokens, count);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
