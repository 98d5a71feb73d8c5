//===- LossEval.cpp - Cross entropies and their gradients --------------------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;

namespace omnibal {
namespace {

/// What is added to the cross entropy of a row.
struct LossTerms {
  double smoothing = 0, z = 0;
};
template <typename OpT> LossTerms termsOf(OpT op) {
  return {op.getSmoothing().convertToDouble(), op.getZ().convertToDouble()};
}

/// Loss of one row of logits; with `grad`, its gradient.
FailureOr<double> rowLoss(Operation *op, const double *logits, int64_t width, int64_t target,
                          const LossTerms &terms, double *grad) {
  if (target < 0)
    return 0.0; // no label
  if (target >= width)
    return op->emitOpError() << "target " << target << " is out of range for " << width
                             << " classes";
  double top = *std::max_element(logits, logits + width), sum = 0;
  for (int64_t c = 0; c < width; ++c)
    sum += std::exp(logits[c] - top);
  double norm = top + std::log(sum);
  const double mean = std::accumulate(logits, logits + width, 0.0) / width;
  for (int64_t c = 0; grad && c < width; ++c)
    grad[c] = std::exp(logits[c] - norm) * (1 + 2 * terms.z * norm) - terms.smoothing / width -
              (c == target) * (1 - terms.smoothing);
  return norm - (1 - terms.smoothing) * logits[target] - terms.smoothing * mean +
         terms.z * norm * norm;
}

/// The prediction where the op has one: -1 at rows without a target until it is set.
HostTensor *addPrediction(Evaluation &e, bool withGradient, const HostTensor &targets) {
  if (withGradient || e.op->getNumResults() == 1)
    return nullptr;
  HostTensor &prediction = e.addResult(targets.shape);
  std::fill(prediction.ints.begin(), prediction.ints.end(), -1);
  return &prediction;
}

LogicalResult crossEntropy(Evaluation &e, const LossTerms &terms, bool withGradient) {
  const HostTensor &logits = e.operand(0), &targets = e.operand(1);
  HostTensor &loss = e.addResult(targets.shape);
  HostTensor *prediction = addPrediction(e, withGradient, targets);
  HostTensor *grad = withGradient ? &e.addResult(logits.shape) : nullptr;
  int64_t width = logits.shape.back();
  for (int64_t row = 0; row < targets.size(); ++row) {
    auto value = rowLoss(e.op, &logits.floats[row * width], width, targets.ints[row], terms,
                         grad ? &grad->floats[row * width] : nullptr);
    if (failed(value))
      return failure();
    loss.floats[row] = *value;
    const double *first = &logits.floats[row * width];
    if (prediction && targets.ints[row] >= 0)
      prediction->ints[row] = std::max_element(first, first + width) - first;
  }
  return success();
}

LogicalResult linearCrossEntropy(Evaluation &e, bool hasBias, double scale, const LossTerms &terms,
                                 bool withGradients, bool withBiasGradient,
                                 bool hasRowWeights = false) {
  const HostTensor &hidden = e.operand(0), &weight = e.operand(1),
                   &targets = e.operand(hasBias ? 3 : 2);
  const HostTensor *rowWeights = hasRowWeights ? e.operands.back() : nullptr;
  const HostTensor *bias = hasBias ? e.operands[2] : nullptr;
  int64_t size = weight.shape[1], width = weight.shape[0];
  HostTensor &loss = e.addResult(targets.shape);
  HostTensor *prediction = addPrediction(e, withGradients, targets);
  HostTensor *dhidden = withGradients ? &e.addResult(hidden.shape) : nullptr;
  HostTensor *dweight = withGradients ? &e.addResult(weight.shape) : nullptr;
  HostTensor *dbias = withBiasGradient ? &e.addResult(bias->shape) : nullptr;
  std::vector<double> logits(width), grad(width);
  std::vector<double> byColumn = transposed(weight.floats.data(), width, size);
  for (int64_t row = 0; row < targets.size(); ++row) {
    if (targets.ints[row] < 0)
      continue;
    const double *x = &hidden.floats[row * size];
    std::fill(logits.begin(), logits.end(), 0.0);
    multiplyAdd(logits.data(), x, byColumn.data(), 1, width, size);
    for (int64_t c = 0; c < width; ++c)
      logits[c] = scale * logits[c] + (bias ? bias->floats[c] : 0);
    auto value = rowLoss(e.op, logits.data(), width, targets.ints[row], terms, grad.data());
    if (failed(value))
      return failure();
    loss.floats[row] = *value;
    if (prediction)
      prediction->ints[row] = std::max_element(logits.begin(), logits.end()) - logits.begin();
    for (int64_t c = 0; withGradients && c < width; ++c) {
      if (rowWeights)
        grad[c] *= rowWeights->floats[row];
      if (dbias)
        dbias->floats[c] += grad[c];
      double g = scale * grad[c];
      for (int64_t i = 0; i < size; ++i) {
        dhidden->floats[row * size + i] += g * weight.floats[c * size + i];
        dweight->floats[c * size + i] += g * x[i];
      }
    }
  }
  return success();
}

/// The logits of a part's words, row by row.
class PartLogits {
public:
  template <typename OpT>
  PartLogits(Evaluation &e, OpT op)
      : hidden(*e.valueOf(op.getHidden())), weight(*e.valueOf(op.getWeight())),
        bias(op.getBias() ? e.valueOf(op.getBias()) : nullptr),
        scale(op.getScale().convertToDouble()), width(weight.shape[0]), size(weight.shape[1]),
        byColumn(transposed(weight.floats.data(), width, size)) {}

  std::vector<double> ofRow(int64_t row) const {
    std::vector<double> logits(width, 0.0);
    multiplyAdd(logits.data(), rowOf(row), byColumn.data(), 1, width, size);
    for (int64_t c = 0; c < width; ++c)
      logits[c] = scale * logits[c] + (bias ? bias->floats[c] : 0);
    return logits;
  }
  const double *rowOf(int64_t row) const { return &hidden.floats[row * size]; }

  const HostTensor &hidden, &weight, *bias;
  const double scale;
  const int64_t width, size;

private:
  std::vector<double> byColumn;
};

/// What the rows of `statistics` of all parts say of a row together.
struct JoinedRow {
  double top, sum, at = 0, total = 0;

  JoinedRow(const HostTensor &statistics, int64_t row, int64_t rows) {
    const int64_t parts = statistics.shape[0], each = statistics.shape.back();
    auto of = [&](int64_t part) { return &statistics.floats[(part * rows + row) * each]; };
    top = -std::numeric_limits<double>::infinity();
    for (int64_t part = 0; part < parts; ++part)
      top = std::max(top, of(part)[0]);
    sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      sum += of(part)[1] * std::exp(of(part)[0] - top);
      at += of(part)[2];
      total += each > 3 ? of(part)[3] : 0;
    }
  }
  double norm() const { return top + std::log(sum); }
};

LogicalResult checkTarget(Operation *op, int64_t target, uint64_t words) {
  if (target < static_cast<int64_t>(words))
    return success();
  return op->emitOpError() << "target " << target << " is out of range for " << words << " classes";
}

LogicalResult wordStatistics(Evaluation &e, WordStatisticsOp op) {
  const HostTensor &targets = *e.valueOf(op.getTargets());
  const PartLogits part(e, op);
  const auto first = static_cast<int64_t>(op.getFirst());
  SmallVector<int64_t> own{1};
  llvm::append_range(own, targets.shape);
  SmallVector<int64_t> shape(own);
  shape.push_back(op.getTotals() ? 4 : 3);
  HostTensor &statistics = e.addResult(shape);
  SmallVector<int64_t> predictions(targets.size(), 0);
  for (int64_t row = 0; row < targets.size(); ++row) {
    const int64_t target = targets.ints[row];
    if (target < 0)
      continue;
    if (failed(checkTarget(op, target, op.getWords())))
      return failure();
    const std::vector<double> logits = part.ofRow(row);
    double *of = &statistics.floats[row * shape.back()];
    of[0] = -std::numeric_limits<double>::infinity();
    if (!logits.empty()) {
      auto largest = std::max_element(logits.begin(), logits.end());
      of[0] = *largest;
      predictions[row] = first + (largest - logits.begin());
    }
    for (double logit : logits)
      of[1] += std::exp(logit - of[0]);
    if (target >= first && target < first + part.width)
      of[2] = logits[target - first];
    if (op.getTotals())
      of[3] = std::accumulate(logits.begin(), logits.end(), 0.0);
  }
  e.addResult(own).ints.assign(predictions.begin(), predictions.end());
  return success();
}

LogicalResult joinedCrossEntropy(Evaluation &e, JoinedCrossEntropyOp op) {
  const HostTensor &targets = *e.valueOf(op.getTargets());
  const LossTerms terms = termsOf(op);
  HostTensor &loss = e.addResult(targets.shape);
  for (int64_t row = 0; row < targets.size(); ++row) {
    if (targets.ints[row] < 0)
      continue;
    if (failed(checkTarget(op, targets.ints[row], op.getWords())))
      return failure();
    const JoinedRow all(*e.valueOf(op.getStatistics()), row, targets.size());
    loss.floats[row] = all.norm() - (1 - terms.smoothing) * all.at -
                       terms.smoothing * all.total / static_cast<double>(op.getWords()) +
                       terms.z * all.norm() * all.norm();
  }
  return success();
}

LogicalResult joinedGradient(Evaluation &e, JoinedCrossEntropyGradOp op) {
  const HostTensor &targets = *e.valueOf(op.getTargets());
  const PartLogits part(e, op);
  const LossTerms terms = termsOf(op);
  const auto first = static_cast<int64_t>(op.getFirst());
  HostTensor &dhidden = e.addResult(part.hidden.shape);
  HostTensor &dweight = e.addResult(part.weight.shape);
  HostTensor *dbias = op.getDbias() ? &e.addResult(part.bias->shape) : nullptr;
  for (int64_t row = 0; row < targets.size(); ++row) {
    if (targets.ints[row] < 0)
      continue;
    const JoinedRow all(*e.valueOf(op.getStatistics()), row, targets.size());
    const std::vector<double> logits = part.ofRow(row);
    const double weight = op.getRowWeights() ? e.valueOf(op.getRowWeights())->floats[row] : 1;
    for (int64_t c = 0; c < part.width; ++c) {
      const double grad =
          weight * (std::exp(logits[c] - all.norm()) * (1 + 2 * terms.z * all.norm()) -
                    terms.smoothing / static_cast<double>(op.getWords()) -
                    (first + c == targets.ints[row]) * (1 - terms.smoothing));
      if (dbias)
        dbias->floats[c] += grad;
      for (int64_t i = 0; i < part.size; ++i) {
        dhidden.floats[row * part.size + i] +=
            part.scale * grad * part.weight.floats[c * part.size + i];
        dweight.floats[c * part.size + i] += part.scale * grad * part.rowOf(row)[i];
      }
    }
  }
  return success();
}

/// The largest of all parts' largest logits; of equal ones that of the first part, whose words come
/// first.
LogicalResult joinedPrediction(Evaluation &e) {
  const HostTensor &statistics = e.operand(0), &predictions = e.operand(1), &targets = e.operand(2);
  HostTensor &prediction = e.addResult(targets.shape);
  const int64_t rows = targets.size(), each = statistics.shape.back();
  for (int64_t row = 0; row < rows; ++row) {
    prediction.ints[row] = -1;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t part = 0; targets.ints[row] >= 0 && part < statistics.shape[0]; ++part) {
      const double largest = statistics.floats[(part * rows + row) * each];
      if (largest > top) {
        top = largest;
        prediction.ints[row] = predictions.ints[part * rows + row];
      }
    }
  }
  return success();
}

/// -log sigmoid(x)
double softplusOfNegative(double x) {
  return std::log1p(std::exp(-std::abs(x))) + std::max(-x, 0.0);
}

/// The loss and the rewards of pairs, or the gradient of the losses of tokens.
template <typename OpT>
LogicalResult preferenceLoss(Evaluation &e, OpT op, const HostTensor *grad, bool withGradient) {
  const HostTensor &losses = e.operand(0), &borders = e.operand(1), &reference = e.operand(2);
  const double beta = op.getBeta().convertToDouble(), s = op.getSmoothing().convertToDouble();
  SmallVector<HostTensor *, 4> out;
  for (unsigned i = 0; i < e.op->getNumResults(); ++i)
    out.push_back(&e.addResult(losses.shape));
  auto reward = [&](int64_t begin, int64_t end) {
    const auto first = losses.floats.begin();
    return beta * (-std::accumulate(first + begin, first + end, 0.0) - reference.floats[begin]);
  };
  for (int64_t i = 0; i + 2 < borders.size(); i += 2) {
    const int64_t begin = borders.ints[i], middle = borders.ints[i + 1], end = borders.ints[i + 2];
    if (begin < 0 || middle < begin || end < middle || end > losses.size())
      return e.op->emitOpError("has borders that do not rise within its losses");
    if (begin == middle || middle == end)
      continue;
    const double chosen = reward(begin, middle), rejected = reward(middle, end),
                 margin = chosen - rejected;
    if (withGradient) {
      // The loss's derivative by the margin, which falls with the losses of the chosen answer.
      const double slope = (1 - s) / (1 + std::exp(margin)) - s / (1 + std::exp(-margin)),
                   of = beta * slope * (grad ? grad->floats[begin] : 1);
      for (int64_t t = begin; t < end; ++t)
        out[0]->floats[t] = t < middle ? of : -of;
      continue;
    }
    out[0]->floats[begin] = (1 - s) * softplusOfNegative(margin) + s * softplusOfNegative(-margin);
    out[1]->floats[begin] = chosen;
    out[2]->floats[begin] = rejected;
    out[3]->floats[begin] = chosen > rejected;
  }
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateLoss(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](CrossEntropyOp op) { return crossEntropy(e, termsOf(op), false); })
      .Case([&](CrossEntropyGradOp op) { return crossEntropy(e, termsOf(op), true); })
      .Case([&](LinearCrossEntropyOp op) {
        return linearCrossEntropy(e, bool(op.getBias()), op.getScale().convertToDouble(),
                                  termsOf(op), false, false);
      })
      .Case([&](LinearCrossEntropyGradOp op) {
        return linearCrossEntropy(e, bool(op.getBias()), op.getScale().convertToDouble(),
                                  termsOf(op), true, bool(op.getDbias()), bool(op.getRowWeights()));
      })
      .Case([&](WordStatisticsOp op) { return wordStatistics(e, op); })
      .Case([&](JoinedCrossEntropyOp op) { return joinedCrossEntropy(e, op); })
      .Case([&](JoinedCrossEntropyGradOp op) { return joinedGradient(e, op); })
      .Case([&](JoinedPredictionOp) { return joinedPrediction(e); })
      .Case([&](PreferenceLossOp op) { return preferenceLoss(e, op, nullptr, false); })
      .Case([&](PreferenceLossGradOp op) {
        return preferenceLoss(e, op, op.getGrad() ? e.operands.back() : nullptr, true);
      })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
