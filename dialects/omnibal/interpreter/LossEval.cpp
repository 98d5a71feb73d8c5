//===- LossEval.cpp - Cross entropies and their gradients --------------------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include <cmath>
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
      .Case([&](PreferenceLossOp op) { return preferenceLoss(e, op, nullptr, false); })
      .Case([&](PreferenceLossGradOp op) {
        return preferenceLoss(e, op, op.getGrad() ? e.operands.back() : nullptr, true);
      })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
