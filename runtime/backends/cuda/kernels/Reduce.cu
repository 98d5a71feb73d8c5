//===- Reduce.cu - A block owns some results; its threads share their terms -------------------===//
#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Reduce.h"
#include <limits>

namespace omnibal::rt::cuda {
namespace {

constexpr int mostThreads = 1024;

struct Plan {
  StridedPair kept;    ///< results: to, from
  StridedPair reduced; ///< terms: from only
  int64_t results = 1, terms = 1;
  int resultThreads = 1, termThreads = 1; ///< powers of two
  bool termsAcross = false;               ///< neighboring threads take neighboring terms
  ReduceKind kind = ReduceKind::Sum;
  bool accumulate = false;
};

template <bool sum, typename T> __device__ __forceinline__ T combine(ReduceKind kind, T a, T b) {
  if constexpr (sum)
    return a + b;
  if (kind == ReduceKind::Prod)
    return a * b;
  if (kind == ReduceKind::Max)
    return b > a || b != b ? b : a; // a NaN stays
  return b < a || b != b ? b : a;
}

__device__ __forceinline__ void offsetsOf(const StridedPair &p, int64_t index, int64_t &to,
                                          int64_t &from) {
  to = from = 0;
  for (int d = p.rank - 1; d > 0; --d) {
    const int64_t i = index % p.size[d];
    index /= p.size[d];
    to += i * p.to[d];
    from += i * p.from[d];
  }
  to += index * p.to[0];
  from += index * p.from[0];
}

template <bool sum, typename To, typename From, typename Sum>
__global__ void __launch_bounds__(mostThreads)
    reduce(Plan plan, Sum neutral, To *to, const From *from) {
  __shared__ Sum parts[mostThreads];
  const int thread = threadIdx.x;
  const int mine = plan.termsAcross ? thread / plan.termThreads : thread % plan.resultThreads;
  const int part = plan.termsAcross ? thread % plan.termThreads : thread / plan.resultThreads;
  Sum *row = parts + mine * plan.termThreads;
  for (int64_t first = int64_t(blockIdx.x) * plan.resultThreads; first < plan.results;
       first += int64_t(gridDim.x) * plan.resultThreads) {
    const int64_t result = first + mine;
    int64_t toOffset = 0, fromOffset = 0, unused;
    Sum value = neutral;
    if (result < plan.results) {
      offsetsOf(plan.kept, result, toOffset, fromOffset);
      const From *terms = from + fromOffset;
      if (plan.reduced.rank == 1) {
        const int64_t step = plan.reduced.from[0];
#pragma unroll 8
        for (int64_t t = part; t < plan.terms; t += plan.termThreads)
          value = combine<sum, Sum>(plan.kind, value, Convert<Sum, From>::of(terms[t * step]));
      } else {
#pragma unroll 4
        for (int64_t t = part; t < plan.terms; t += plan.termThreads) {
          int64_t offset;
          offsetsOf(plan.reduced, t, unused, offset);
          value = combine<sum, Sum>(plan.kind, value, Convert<Sum, From>::of(terms[offset]));
        }
      }
    }
    row[part] = value;
    for (int half = plan.termThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (part < half)
        row[part] = combine<sum, Sum>(plan.kind, row[part], row[part + half]);
    }
    if (part == 0 && result < plan.results) {
      Sum total = row[0];
      if (plan.kind == ReduceKind::Mean)
        total = plan.terms == 0 ? Sum(0) : static_cast<Sum>(total / static_cast<Sum>(plan.terms));
      To &place = to[toOffset];
      if (plan.accumulate)
        total = static_cast<Sum>(total + Convert<Sum, To>::of(place));
      place = Convert<To, Sum>::of(total);
    }
    __syncthreads(); // row[0] is read before the next results
  }
}

int powerOfTwo(int64_t atLeast, int most) {
  int n = 1;
  while (n < most && n < atLeast)
    n *= 2;
  return n;
}

Plan makePlan(const ReduceShape &s) {
  Plan plan;
  StridedPair kept, reduced;
  for (int d = 0; d < s.strides.rank; ++d) {
    if (s.strides.to[d] == 0 && s.strides.size[d] != 1) {
      reduced.append(s.strides.size[d], 0, s.strides.from[d]);
      plan.terms *= s.strides.size[d];
    } else {
      kept.append(s.strides.size[d], s.strides.to[d], s.strides.from[d]);
      plan.results *= s.strides.size[d];
    }
  }
  plan.kept = kept.simplified();
  plan.reduced = reduced.simplified();
  plan.kind = s.kind;
  plan.accumulate = s.accumulate;
  const int64_t keptStep = plan.kept.from[plan.kept.rank - 1];
  const int64_t keptLine = plan.kept.size[plan.kept.rank - 1];
  plan.termsAcross = plan.reduced.from[plan.reduced.rank - 1] == 1 &&
                     !(keptStep == 1 && keptLine >= 16 && plan.terms < 256) && plan.terms > 1;
  if (plan.termsAcross) {
    plan.termThreads = powerOfTwo(ceilDiv(plan.terms, 4), mostThreads);
    plan.resultThreads =
        powerOfTwo(plan.results, plan.termThreads < 256 ? 256 / plan.termThreads : 1);
  } else {
    plan.resultThreads = powerOfTwo(plan.results, 32);
    plan.termThreads = powerOfTwo(ceilDiv(plan.terms, 4), mostThreads / plan.resultThreads);
    if (plan.termThreads == 1)
      plan.resultThreads = powerOfTwo(plan.results, 256);
  }
  return plan;
}

template <typename Sum> Sum neutralOf(ReduceKind kind) {
  using Limits = std::numeric_limits<Sum>;
  switch (kind) {
  case ReduceKind::Prod:
    return 1;
  case ReduceKind::Max:
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  case ReduceKind::Min:
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  default:
    return 0;
  }
}

template <typename To, typename From>
cudaError_t run(const ReduceShape &s, void *to, const void *from, cudaStream_t stream) {
  using Sum = typename Arithmetic<To>::Type;
  const Plan plan = makePlan(s);
  if (plan.results == 0 || (s.accumulate && plan.terms == 0))
    return cudaSuccess;
  const dim3 grid(gridFor(ceilDiv(plan.results, plan.resultThreads)));
  const dim3 block(plan.resultThreads * plan.termThreads);
  const Sum neutral = neutralOf<Sum>(s.kind);
  if (s.kind == ReduceKind::Sum || s.kind == ReduceKind::Mean)
    OMNIBAL_LAUNCH((reduce<true, To, From, Sum>), grid, block, stream, plan, neutral,
                   static_cast<To *>(to), static_cast<const From *>(from));
  else
    OMNIBAL_LAUNCH((reduce<false, To, From, Sum>), grid, block, stream, plan, neutral,
                   static_cast<To *>(to), static_cast<const From *>(from));
  return cudaGetLastError();
}

} // namespace

cudaError_t launchReduce(const ReduceShape &s, void *to, const void *from, cudaStream_t stream) {
  if (s.to == Element::F32 && s.from == Element::BF16)
    return run<float, bf16>(s, to, from, stream);
  if (s.to != s.from)
    return cudaErrorInvalidValue;
  switch (s.to) {
  case Element::F32:
    return run<float, float>(s, to, from, stream);
  case Element::BF16:
    return run<bf16, bf16>(s, to, from, stream);
  case Element::F64:
    return run<double, double>(s, to, from, stream);
  case Element::I32:
    return run<int32_t, int32_t>(s, to, from, stream);
  case Element::I64:
    return run<int64_t, int64_t>(s, to, from, stream);
  case Element::Bool:
    break;
  }
  return cudaErrorInvalidValue;
}

} // namespace omnibal::rt::cuda
