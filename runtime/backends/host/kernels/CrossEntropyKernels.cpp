//===- CrossEntropyKernels.cpp - `cross_entropy` and `linear_cross_entropy` --------------===//
//
// The second computes logits only at rows with a target, a block at a time, in its scratch operand:
// it holds, besides the block's logits, its gathered rows of hidden and of dhidden. So the number
// of rows of a block follows from the shapes alone.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/Gemm.h"
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/vector/Rows.h"
#include "runtime/device/calls/BoundLoss.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace omnibal::rt {
namespace {

struct RowLoss {
  float loss;
  int32_t prediction;
};

/// Loss of one dense row; with `gradient` (may be the row) also its gradient: softmax minus one-hot
/// where there are no further terms.
RowLoss rowLoss(const float *logits, int64_t width, int64_t target, const LossTerms &terms,
                float *gradient) {
  float top;
  int64_t arg;
  rowTable().largest(logits, width, &top, &arg);
  const float at = logits[target];
  const float mean = terms.smoothing > 0
                         ? static_cast<float>(std::accumulate(logits, logits + width, 0.0) /
                                              static_cast<double>(width))
                         : at;
  const float sum = gradient ? rowTable().expAndSum(logits, gradient, width, top)
                             : rowTable().sumExp(logits, width, top);
  const float norm = top + std::log(sum);
  if (gradient) {
    rowTable().scale(gradient, width, (1 + 2 * terms.z * norm) / sum);
    if (terms.smoothing > 0)
      for (int64_t i = 0; i < width; ++i)
        gradient[i] -= terms.smoothing / static_cast<float>(width);
    gradient[target] -= 1 - terms.smoothing;
  }
  float loss = top - at + std::log(sum);
  if (terms.smoothing > 0)
    loss += terms.smoothing * (at - mean);
  if (terms.z > 0)
    loss += terms.z * norm * norm;
  return {loss, static_cast<int32_t>(arg)};
}

float floatAt(const TensorView &v, int64_t i) { return dataOf<float>(v)[i * v.strides[0]]; }
int32_t intAt(const TensorView &v, int64_t i) { return dataOf<int32_t>(v)[i * v.strides[0]]; }

/// Splits rows of `width` values among threads.
template <typename Body>
void forRows(ThreadPool &pool, int64_t rows, int64_t width, const Body &body) {
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(width, 1));
  pool.parallelFor((rows + grain - 1) / grain, [&](int64_t task, int) {
    for (int64_t i = task * grain; i < std::min(rows, (task + 1) * grain); ++i)
      body(i);
  });
}

/// The backends' common checks do not look at values.
Status checkTargets(const CheckedKernel &kernel, const TensorView &targets, int64_t classes) {
  for (int64_t i = 0; i < targets.shape[0]; ++i)
    if (intAt(targets, i) >= classes)
      return kernel.bad("target " + std::to_string(intAt(targets, i)) + " of row " +
                        std::to_string(i) + " is outside the " + std::to_string(classes) +
                        " classes");
  return Status::ok();
}

class CrossEntropy final : public HostKernel, private BoundCrossEntropy {
public:
  CrossEntropy(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &x = views[logits];
    const int64_t rows = x.shape[0], width = x.shape[1];
    OMNIBAL_RETURN_IF_ERROR(checkTargets(*this, views[targets], width));
    forRows(pool, rows, width, [&](int64_t i) {
      const int32_t target = intAt(views[targets], i);
      float *gradient =
          dlogits < 0 ? nullptr : dataOf<float>(views[dlogits]) + i * views[dlogits].strides[0];
      RowLoss result{0, -1};
      if (target >= 0)
        result = rowLoss(dataOf<float>(x) + i * x.strides[0], width, target, terms, gradient);
      else if (gradient)
        std::fill_n(gradient, width, 0.f);
      dataOf<float>(views[loss])[i * views[loss].strides[0]] = result.loss;
      if (prediction >= 0)
        dataOf<int32_t>(views[prediction])[i * views[prediction].strides[0]] = result.prediction;
    });
    return Status::ok();
  }
};

class LinearCrossEntropy final : public HostKernel, private BoundLinearCrossEntropy {
public:
  LinearCrossEntropy(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundLinearCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    OMNIBAL_RETURN_IF_ERROR(checkTargets(*this, views[targets], views[weight].shape[0]));
    if (!isDense(matrix(views[weight])) || (dweight >= 0 && !isDense(matrix(views[dweight]))))
      return bad("weight and dweight need unit stride in one dimension");
    const TensorView &vh = views[hidden], &vl = views[loss];
    const int64_t rows = vh.shape[0];
    std::vector<int64_t> labeled; // rows with a target
    for (int64_t i = 0; i < rows; ++i) {
      if (intAt(views[targets], i) >= 0)
        labeled.push_back(i);
      dataOf<float>(vl)[i * vl.strides[0]] = 0;
      if (prediction >= 0)
        dataOf<int32_t>(views[prediction])[i * views[prediction].strides[0]] = -1;
    }
    if (dhidden >= 0)
      zeroUnlabeled(views, pool);
    const int64_t block = blockRows(views);
    if (block == 0 && !labeled.empty())
      return bad("operand 'scratch' " + printShape(views[scratch]) +
                 " cannot hold the logits and gathered rows of a single token");
    for (size_t begin = 0; begin < labeled.size(); begin += block)
      OMNIBAL_RETURN_IF_ERROR(runBlock(
          views, std::span(labeled).subspan(begin, std::min<size_t>(block, labeled.size() - begin)),
          pool));
    return Status::ok();
  }

private:
  static Matrix matrix(const TensorView &v) {
    return {dataOf<float>(v), v.shape[0], v.shape[1], v.strides[0], v.strides[1]};
  }

  int64_t blockRows(std::span<const TensorView> views) const {
    const int64_t features = views[hidden].shape[1], width = views[weight].shape[0];
    const int64_t perRow = width + features * (dhidden >= 0 ? 2 : 1);
    return views[scratch].shape[0] * width / std::max<int64_t>(perRow, 1);
  }

  void zeroUnlabeled(std::span<const TensorView> views, ThreadPool &pool) const {
    const TensorView &v = views[dhidden];
    pool.parallelFor((v.shape[0] + 15) / 16, [&](int64_t task, int) {
      for (int64_t i = task * 16; i < std::min(v.shape[0], task * 16 + 16); ++i)
        if (intAt(views[targets], i) < 0)
          for (int64_t f = 0; f < v.shape[1]; ++f)
            dataOf<float>(v)[i * v.strides[0] + f * v.strides[1]] = 0;
    });
  }

  /// Rows of `view` at the block's labeled positions <-> a dense buffer.
  template <bool gather>
  static void moveRows(const TensorView &view, float *dense, std::span<const int64_t> tokens,
                       ThreadPool &pool) {
    const int64_t rows = static_cast<int64_t>(tokens.size());
    const int64_t features = view.shape[1];
    pool.parallelFor((rows + 15) / 16, [&](int64_t task, int) {
      for (int64_t r = task * 16; r < std::min(rows, task * 16 + 16); ++r) {
        float *line = dataOf<float>(view) + tokens[r] * view.strides[0];
        float *packed = dense + r * features;
        for (int64_t f = 0; f < features; ++f) {
          if (gather)
            packed[f] = line[f * view.strides[1]];
          else
            line[f * view.strides[1]] = packed[f];
        }
      }
    });
  }

  Status runBlock(std::span<const TensorView> views, std::span<const int64_t> tokens,
                  ThreadPool &pool) const {
    const int64_t rows = static_cast<int64_t>(tokens.size());
    const int64_t features = views[hidden].shape[1], width = views[weight].shape[0];
    float *memory = dataOf<float>(views[scratch]);
    const Matrix logits{memory, rows, width, width, 1};
    const Matrix inputs{memory + rows * width, rows, features, features, 1};
    const Matrix w = matrix(views[weight]);
    moveRows<true>(views[hidden], inputs.data, tokens, pool);

    Product forward;
    forward.a = inputs;
    forward.b = w.transposed();
    forward.c = logits;
    forward.alpha = scale;
    if (bias >= 0) {
      forward.bias = dataOf<float>(views[bias]);
      forward.biasColStride = views[bias].strides[0];
    }
    OMNIBAL_RETURN_IF_ERROR(multiply(forward, pool));

    const TensorView &vl = views[loss];
    forRows(pool, rows, width, [&](int64_t r) {
      const int64_t token = tokens[r];
      float *row = memory + r * width;
      RowLoss result =
          rowLoss(row, width, intAt(views[targets], token), terms, gradients() ? row : nullptr);
      if (rowWeights >= 0 && gradients())
        rowTable().scale(row, width, floatAt(views[rowWeights], token));
      dataOf<float>(vl)[token * vl.strides[0]] = result.loss;
      if (prediction >= 0)
        dataOf<int32_t>(views[prediction])[token * views[prediction].strides[0]] =
            result.prediction;
    });

    if (dweight >= 0) {
      Product grad;
      grad.a = logits.transposed();
      grad.b = inputs;
      grad.c = matrix(views[dweight]);
      grad.alpha = scale;
      grad.accumulate = true;
      OMNIBAL_RETURN_IF_ERROR(multiply(grad, pool));
    }
    if (dhidden >= 0) {
      Product grad;
      grad.a = logits;
      grad.b = w;
      grad.c = {inputs.data + rows * features, rows, features, features, 1};
      grad.alpha = scale;
      OMNIBAL_RETURN_IF_ERROR(multiply(grad, pool));
      moveRows<false>(views[dhidden], grad.c.data, tokens, pool);
    }
    if (dbias >= 0) {
      const int64_t strip = 64, step = views[dbias].strides[0];
      pool.parallelFor((width + strip - 1) / strip, [&](int64_t task, int) {
        float sums[strip] = {};
        const int64_t first = task * strip, n = std::min(strip, width - first);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < n; ++j)
            sums[j] += memory[r * width + first + j];
        for (int64_t j = 0; j < n; ++j)
          dataOf<float>(views[dbias])[(first + j) * step] += sums[j];
      });
    }
    return Status::ok();
  }
};

} // namespace

void addCrossEntropyKernels(KernelTable &table) {
  table["cross_entropy"] = createKernel<CrossEntropy>;
  table["linear_cross_entropy"] = createKernel<LinearCrossEntropy>;
}

} // namespace omnibal::rt
