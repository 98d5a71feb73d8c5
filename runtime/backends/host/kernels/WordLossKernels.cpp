//===- WordLossKernels.cpp - The loss of a head whose words are divided among parts -----------===//
//
// `word_statistics` reads a part's logits once, a block of rows at a time, and keeps a few numbers
// of each row. Those of all parts give the loss, and what a part needs to turn its logits, which
// `joined_cross_entropy_backward` computes again, into their gradients.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/LogitBlocks.h"
#include "runtime/backends/host/vector/Rows.h"
#include "runtime/device/calls/BoundWords.h"
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace omnibal::rt {
namespace {

constexpr float noLogit = -std::numeric_limits<float>::infinity();

/// What all parts state of a row, together: the largest logit, the sum of e^(logit - largest), the
/// target's logit, and the sum of the logits where that is stated.
struct JoinedRow {
  float top = noLogit, sum = 0, at = 0, total = 0;

  JoinedRow(const TensorView &statistics, int64_t row) {
    const int64_t parts = statistics.shape[0];
    auto number = [&](int64_t part, int64_t i) {
      return dataOf<float>(statistics)[part * statistics.strides[0] + row * statistics.strides[1] +
                                       i * statistics.strides[2]];
    };
    for (int64_t part = 0; part < parts; ++part)
      top = std::max(top, number(part, 0));
    for (int64_t part = 0; part < parts; ++part) {
      sum += number(part, 1) * std::exp(number(part, 0) - top);
      at += number(part, 2);
      total += statistics.shape[2] > 3 ? number(part, 3) : 0;
    }
  }
  float norm() const { return top + std::log(sum); }
};

template <typename T> T &elementOf(const TensorView &v, int64_t i) {
  return dataOf<T>(v)[i * v.strides[0]];
}

class WordStatistics final : public HostKernel, private BoundWordStatistics {
public:
  WordStatistics(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundWordStatistics(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    OMNIBAL_RETURN_IF_ERROR(checkTargets(*this, views[targets], own.words));
    const bool hasWords = views[weight].shape[0] > 0;
    for (int64_t i = 0; i < views[hidden].shape[0]; ++i) {
      const bool isLabeled = intAt(views[targets], i) >= 0;
      state(views, i, {isLabeled && !hasWords ? noLogit : 0, 0, 0, 0}, 0);
    }
    if (!hasWords)
      return Status::ok();
    const LogitOperands operands{.hidden = &views[hidden],
                                 .weight = &views[weight],
                                 .targets = &views[targets],
                                 .scratch = &views[scratch],
                                 .bias = bias < 0 ? nullptr : &views[bias],
                                 .scale = scale};
    const LogitBlocks blocks(operands, pool);
    return blocks.run(*this, [&](std::span<const int64_t> tokens) {
      forLossRows(pool, static_cast<int64_t>(tokens.size()), blocks.width,
                  [&](int64_t r) { stateRow(views, tokens[r], blocks.logits(r), blocks.width); });
    });
  }

private:
  void state(std::span<const TensorView> views, int64_t token, const std::array<float, 4> &numbers,
             int64_t word) const {
    const TensorView &vr = views[result];
    for (int64_t i = 0; i < vr.shape[1]; ++i)
      dataOf<float>(vr)[token * vr.strides[0] + i * vr.strides[1]] = numbers[i];
    if (prediction >= 0)
      elementOf<int32_t>(views[prediction], token) = static_cast<int32_t>(word);
  }

  void stateRow(std::span<const TensorView> views, int64_t token, const float *row,
                int64_t width) const {
    float top;
    int64_t arg;
    rowTable().largest(row, width, &top, &arg);
    const int64_t target = intAt(views[targets], token) - own.first;
    const float at = target >= 0 && target < width ? row[target] : 0,
                total = totals ? static_cast<float>(std::accumulate(row, row + width, 0.0)) : 0;
    state(views, token, {top, rowTable().sumExp(row, width, top), at, total}, own.first + arg);
  }
};

class JoinedCrossEntropy final : public HostKernel, private BoundJoinedCrossEntropy {
public:
  JoinedCrossEntropy(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundJoinedCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    OMNIBAL_RETURN_IF_ERROR(checkTargets(*this, views[targets], words));
    forLossRows(pool, views[targets].shape[0], views[statistics].shape[0], [&](int64_t i) {
      elementOf<float>(views[loss], i) =
          intAt(views[targets], i) < 0 ? 0 : lossOf(JoinedRow(views[statistics], i));
    });
    return Status::ok();
  }

private:
  float lossOf(const JoinedRow &row) const {
    float loss = row.top - row.at + std::log(row.sum);
    if (terms.smoothing > 0)
      loss += terms.smoothing * (row.at - row.total / static_cast<float>(words));
    if (terms.z > 0)
      loss += terms.z * row.norm() * row.norm();
    return loss;
  }
};

/// Of equal logits that of the first part, whose words come first.
class JoinedPrediction final : public HostKernel, private BoundJoinedPrediction {
public:
  JoinedPrediction(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundJoinedPrediction(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    forLossRows(pool, views[targets].shape[0], views[statistics].shape[0], [&](int64_t i) {
      elementOf<int32_t>(views[prediction], i) =
          intAt(views[targets], i) < 0 ? -1 : predictionOf(views, i);
    });
    return Status::ok();
  }

private:
  int32_t predictionOf(std::span<const TensorView> views, int64_t row) const {
    const TensorView &vs = views[statistics], &vp = views[predictions];
    float top = noLogit;
    int32_t word = -1;
    for (int64_t part = 0; part < vs.shape[0]; ++part) {
      const float largest = dataOf<float>(vs)[part * vs.strides[0] + row * vs.strides[1]];
      if (largest > top) {
        top = largest;
        word = dataOf<int32_t>(vp)[part * vp.strides[0] + row * vp.strides[1]];
      }
    }
    return word;
  }
};

class JoinedGradient final : public HostKernel, private BoundJoinedGradient {
public:
  JoinedGradient(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundJoinedGradient(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    OMNIBAL_RETURN_IF_ERROR(checkTargets(*this, views[targets], own.words));
    if (views[weight].shape[0] == 0)
      return zero(views);
    auto given = [&](int operand) { return operand < 0 ? nullptr : &views[operand]; };
    const LogitOperands operands{&views[hidden],  &views[weight], &views[targets],
                                 &views[scratch], given(bias),    given(dhidden),
                                 given(dweight),  given(dbias),   scale};
    const LogitBlocks blocks(operands, pool);
    return blocks.run(*this, [&](std::span<const int64_t> tokens) {
      forLossRows(pool, static_cast<int64_t>(tokens.size()), blocks.width,
                  [&](int64_t r) { toGradient(views, tokens[r], blocks.logits(r), blocks.width); });
    });
  }

private:
  /// A part without words has zeros as its summand.
  Status zero(std::span<const TensorView> views) const {
    if (dhidden < 0)
      return Status::ok();
    const TensorView &v = views[dhidden];
    for (int64_t i = 0; i < v.shape[0]; ++i)
      for (int64_t f = 0; f < v.shape[1]; ++f)
        dataOf<float>(v)[i * v.strides[0] + f * v.strides[1]] = 0;
    return Status::ok();
  }

  void toGradient(std::span<const TensorView> views, int64_t token, float *row,
                  int64_t width) const {
    const JoinedRow all(views[statistics], token);
    rowTable().expAndSum(row, row, width, all.top);
    rowTable().scale(row, width, (1 + 2 * terms.z * all.norm()) / all.sum);
    if (terms.smoothing > 0)
      for (int64_t i = 0; i < width; ++i)
        row[i] -= terms.smoothing / static_cast<float>(own.words);
    const int64_t target = intAt(views[targets], token) - own.first;
    if (target >= 0 && target < width)
      row[target] -= 1 - terms.smoothing;
    if (rowWeights >= 0)
      rowTable().scale(row, width, floatAt(views[rowWeights], token));
  }
};

} // namespace

void addWordLossKernels(KernelTable &table) {
  table["word_statistics"] = createKernel<WordStatistics>;
  table["joined_cross_entropy"] = createKernel<JoinedCrossEntropy>;
  table["joined_cross_entropy_backward"] = createKernel<JoinedGradient>;
  table["joined_prediction"] = createKernel<JoinedPrediction>;
}

} // namespace omnibal::rt
