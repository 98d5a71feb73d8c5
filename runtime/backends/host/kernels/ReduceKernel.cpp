//===- ReduceKernel.cpp - `reduce`: sums and extremes along any dimensions ---------------===//
//
// The task owns a run of results. Sums go in blocks of 64 terms that are then added up, which keeps
// float32 sums of long columns accurate; the order depends on the shape only.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/kernels/StridedLoop.h"
#include <cmath>
#include <limits>
#include <type_traits>

namespace omnibal::rt {
namespace {

enum class ReduceKind { Sum, Mean, Max, Min, Prod };

template <ReduceKind kind, typename T> T neutral() {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return 0;
  case ReduceKind::Prod:
    return 1;
  case ReduceKind::Max:
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  case ReduceKind::Min:
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  return 0;
}

template <typename T> bool isNaN(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}

template <ReduceKind kind, typename T> T combine(T sum, T x) {
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return static_cast<T>(sum + x);
  case ReduceKind::Prod:
    return static_cast<T>(sum * x);
  case ReduceKind::Max:
    return x > sum || isNaN(x) ? x : sum;
  case ReduceKind::Min:
    return x < sum || isNaN(x) ? x : sum;
  }
  return sum;
}

constexpr int64_t width = 64;      // results computed together
constexpr int64_t blockTerms = 64; // terms of one partial sum

/// Dimensions split into kept ones (dst, src) and reduced ones (src).
struct Plan {
  StridedLoop<2> kept;    ///< dst, src
  StridedLoop<1> reduced; ///< src
  int64_t terms = 1;
};

Plan makePlan(const TensorView &dst, const TensorView &src) {
  TensorView keptDst, keptSrc, reduced;
  Plan plan;
  for (int d = 0; d < dst.rank; ++d) {
    if (dst.strides[d] == 0 && dst.shape[d] != 1) {
      reduced.shape[reduced.rank] = src.shape[d];
      reduced.strides[reduced.rank++] = src.strides[d];
      plan.terms *= src.shape[d];
    } else {
      keptDst.shape[keptDst.rank] = keptSrc.shape[keptSrc.rank] = dst.shape[d];
      keptDst.strides[keptDst.rank++] = dst.strides[d];
      keptSrc.strides[keptSrc.rank++] = src.strides[d];
    }
  }
  plan.kept = StridedLoop<2>::build({&keptDst, &keptSrc});
  plan.reduced = StridedLoop<1>::build({&reduced});
  return plan;
}

/// `count` results side by side, each over all terms; `step`: distance of neighbors in src.
template <ReduceKind kind, typename T>
void reduceColumns(const Plan &plan, const T *src, int64_t step, int64_t count, T *result) {
  T block[width];
  int64_t inBlock = 0;
  auto flush = [&] {
    for (int64_t i = 0; i < count; ++i) {
      result[i] = combine<kind>(result[i], block[i]);
      block[i] = neutral<kind, T>();
    }
    inBlock = 0;
  };
  std::fill_n(result, count, neutral<kind, T>());
  std::fill_n(block, count, neutral<kind, T>());
  const int64_t termStep = plan.reduced.innerStride(0), terms = plan.reduced.inner();
  plan.reduced.forLines(0, plan.reduced.outer(), [&](const auto &offsets) {
    const T *line = src + offsets[0];
    for (int64_t k = 0; k < terms; ++k, line += termStep) {
      if (step == 1)
        for (int64_t i = 0; i < count; ++i)
          block[i] = combine<kind>(block[i], line[i]);
      else
        for (int64_t i = 0; i < count; ++i)
          block[i] = combine<kind>(block[i], line[i * step]);
      if (++inBlock == blockTerms)
        flush();
    }
  });
  flush();
}

/// One result over dense lines: 16 partial results side by side.
template <ReduceKind kind, typename T> T reduceDense(const Plan &plan, const T *src) {
  T total = neutral<kind, T>();
  const int64_t terms = plan.reduced.inner();
  plan.reduced.forLines(0, plan.reduced.outer(), [&](const auto &offsets) {
    const T *line = src + offsets[0];
    for (int64_t begin = 0; begin < terms; begin += 16 * blockTerms) {
      const int64_t end = std::min(terms, begin + 16 * blockTerms);
      T part[16];
      std::fill_n(part, 16, neutral<kind, T>());
      int64_t k = begin;
      for (; k + 16 <= end; k += 16)
        for (int l = 0; l < 16; ++l)
          part[l] = combine<kind>(part[l], line[k + l]);
      for (int l = 0; k < end; ++k, ++l)
        part[l] = combine<kind>(part[l], line[k]);
      for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; ++l)
          part[l] = combine<kind>(part[l], part[l + half]);
      total = combine<kind>(total, part[0]);
    }
  });
  return total;
}

template <ReduceKind kind, typename T>
void reduceTyped(const TensorView &dst, const TensorView &src, bool accumulate, ThreadPool &pool) {
  const Plan plan = makePlan(dst, src);
  T *to = dataOf<T>(dst);
  const T *from = dataOf<T>(src);
  const int64_t toStep = plan.kept.innerStride(0), step = plan.kept.innerStride(1);
  const bool denseTerms = plan.reduced.innerStride(0) == 1 && plan.reduced.inner() >= 16 &&
                          !(step == 1 && plan.kept.inner() >= 16);
  auto write = [&](T &place, T value) {
    if (kind == ReduceKind::Mean)
      value = plan.terms == 0 ? T(0) : static_cast<T>(value / static_cast<T>(plan.terms));
    place = accumulate ? static_cast<T>(place + value) : value;
  };
  const int64_t perTask =
      std::max<int64_t>(denseTerms ? 1 : width, 32768 / std::max<int64_t>(plan.terms, 1));
  plan.kept.parallel(
      pool,
      [&](const auto &offsets, int64_t first, int64_t count) {
        T *results = to + offsets[0] + first * toStep;
        const T *values = from + offsets[1] + first * step;
        if (denseTerms) {
          for (int64_t i = 0; i < count; ++i)
            write(results[i * toStep], reduceDense<kind>(plan, values + i * step));
          return;
        }
        for (int64_t begin = 0; begin < count; begin += width) {
          T some[width];
          const int64_t n = std::min(width, count - begin);
          reduceColumns<kind>(plan, values + begin * step, step, n, some);
          for (int64_t i = 0; i < n; ++i)
            write(results[(begin + i) * toStep], some[i]);
        }
      },
      perTask);
}

template <typename T>
void reduceOfKind(ReduceKind kind, const TensorView &dst, const TensorView &src, bool accumulate,
                  ThreadPool &pool) {
  switch (kind) {
  case ReduceKind::Sum:
    return reduceTyped<ReduceKind::Sum, T>(dst, src, accumulate, pool);
  case ReduceKind::Mean:
    return reduceTyped<ReduceKind::Mean, T>(dst, src, accumulate, pool);
  case ReduceKind::Max:
    return reduceTyped<ReduceKind::Max, T>(dst, src, accumulate, pool);
  case ReduceKind::Min:
    return reduceTyped<ReduceKind::Min, T>(dst, src, accumulate, pool);
  case ReduceKind::Prod:
    return reduceTyped<ReduceKind::Prod, T>(dst, src, accumulate, pool);
  }
}

class ReduceKernel final : public HostKernel {
public:
  ReduceKernel(CallReader &call, const BoundCall &description) : HostKernel(description) {
    pairs = call.operandPairs("src", "dst");
    kind = static_cast<ReduceKind>(call.choice("kind", {"sum", "mean", "max", "min", "prod"}));
    accumulate = call.flag("accumulate", false);
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    for (auto [src, dst] : pairs)
      OMNIBAL_RETURN_IF_ERROR(runOne(views[src], views[dst], pool));
    return Status::ok();
  }

private:
  Status runOne(const TensorView &from, const TensorView &to, ThreadPool &pool) const {
    OMNIBAL_RETURN_IF_ERROR(expect(from, "src", to.rank, to.dtype));
    OMNIBAL_RETURN_IF_ERROR(same(from, "src", to, "dst"));
    if (accumulate && from.elements() == 0)
      return Status::ok();
    switch (to.dtype) {
    case DType::F32:
      reduceOfKind<float>(kind, to, from, accumulate, pool);
      return Status::ok();
    case DType::F64:
      reduceOfKind<double>(kind, to, from, accumulate, pool);
      return Status::ok();
    case DType::I32:
      reduceOfKind<int32_t>(kind, to, from, accumulate, pool);
      return Status::ok();
    case DType::I64:
      reduceOfKind<int64_t>(kind, to, from, accumulate, pool);
      return Status::ok();
    case DType::Bool:
    case DType::BF16:
      return bad("cannot reduce " + std::string(nameOf(to.dtype)));
    }
    return Status::ok();
  }

  std::vector<std::pair<int, int>> pairs; ///< src, dst
  ReduceKind kind;
  bool accumulate;
};

} // namespace

void addReduceKernels(KernelTable &table) { table["reduce"] = createKernel<ReduceKernel>; }

} // namespace omnibal::rt
