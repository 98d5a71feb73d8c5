//===- ReductionEval.cpp - Reductions, softmax and norms ---------------------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace omnibal {
namespace {

template <typename T> T neutral(ReduceKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    return 0;
  case ReduceKind::Prod:
    return 1;
  case ReduceKind::Max:
    return Limits::has_infinity ? -Limits::infinity() : Limits::min();
  case ReduceKind::Min:
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  return 0;
}

template <typename T> void accumulate(ReduceKind kind, T &to, T value) {
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Mean:
    to += value;
    return;
  case ReduceKind::Prod:
    to *= value;
    return;
  case ReduceKind::Max:
    to = value > to || value != value ? value : to; // NaN stays
    return;
  case ReduceKind::Min:
    to = value < to || value != value ? value : to;
    return;
  }
}

LogicalResult reduce(Evaluation &e, ReduceOp op) {
  const HostTensor &input = e.operand(0);
  int64_t rank = input.rank();
  SmallVector<int64_t> axes;
  if (op.getAxes())
    axes.assign(op.getAxes()->begin(), op.getAxes()->end());
  else if (op.getAxesOperand())
    axes.assign(e.operand(1).ints.begin(), e.operand(1).ints.end());
  if (axes.empty() && !op.getNoopWithEmptyAxes())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<bool> reduced(rank, false);
  for (int64_t axis : axes)
    reduced[axis < 0 ? axis + rank : axis] = true;
  SmallVector<int64_t> kept(input.shape), shape;
  for (int64_t i = 0; i < rank; ++i) {
    if (reduced[i])
      kept[i] = 1;
    if (!reduced[i] || op.getKeepdims())
      shape.push_back(kept[i]);
  }
  HostTensor &result = e.addResult(shape);
  SmallVector<int64_t> strides = broadcastStrides(kept, input.shape);
  int64_t offset[1] = {0}, i = 0;
  ReduceKind kind = op.getKind();
  auto run = [&](auto &to, const auto &from) {
    using T = std::decay_t<decltype(to[0])>;
    std::fill(to.begin(), to.end(), neutral<T>(kind));
    forEachIndex(input.shape, {strides}, offset,
                 [&] { accumulate<T>(kind, to[offset[0]], from[i++]); });
    if (kind == ReduceKind::Mean && !to.empty()) {
      int64_t count = input.size() / int64_t(to.size());
      for (T &value : to)
        value = count == 0 && !result.isFloat() ? 0 : value / static_cast<T>(count);
    }
  };
  if (result.isFloat())
    run(result.floats, input.floats);
  else
    run(result.ints, input.ints);
  return success();
}

/// body(first element, stride, length) for every line along `axis`.
template <typename Body> void forEachLine(ArrayRef<int64_t> shape, int64_t axis, Body body) {
  if (axis < 0)
    axis += shape.size();
  int64_t outer = elementCount(shape.take_front(axis));
  int64_t inner = elementCount(shape.drop_front(axis + 1)), length = shape[axis];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i)
      body(o * length * inner + i, inner, length);
}

LogicalResult cumsum(Evaluation &e, CumSumOp op) {
  const HostTensor &input = e.operand(0);
  int64_t axis = op.getAxis() ? *op.getAxis() : e.operand(1).ints[0];
  if (axis < -input.rank() || axis >= input.rank())
    return op.emitOpError() << "axis " << axis << " is out of range for rank " << input.rank();
  HostTensor &result = e.addResult(input.shape);
  auto run = [&](auto &to, const auto &from) {
    forEachLine(input.shape, axis, [&](int64_t first, int64_t stride, int64_t length) {
      std::decay_t<decltype(to[0])> sum = 0;
      for (int64_t i = 0; i < length; ++i) {
        int64_t at = first + (op.getReverse() ? length - 1 - i : i) * stride;
        if (op.getExclusive())
          to[at] = sum;
        sum += from[at];
        if (!op.getExclusive())
          to[at] = sum;
      }
    });
  };
  if (result.isFloat())
    run(result.floats, input.floats);
  else
    run(result.ints, input.ints);
  return success();
}

LogicalResult softmax(Evaluation &e, int64_t axis, bool logarithm) {
  const HostTensor &input = e.operand(0);
  HostTensor &result = e.addResult(input.shape);
  const double *x = input.floats.data();
  double *y = result.floats.data();
  forEachLine(input.shape, axis, [&](int64_t first, int64_t stride, int64_t length) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < length; ++i)
      top = std::max(top, x[first + i * stride]);
    for (int64_t i = 0; i < length; ++i)
      sum += std::exp(x[first + i * stride] - top);
    for (int64_t i = 0; i < length; ++i) {
      double shifted = x[first + i * stride] - top;
      y[first + i * stride] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  });
  return success();
}

/// (x - mean) * rsqrt(var + epsilon), without the mean for an RMS norm, then scale and bias.
LogicalResult norm(Evaluation &e, int64_t axis, double epsilon, bool centered,
                   const HostTensor *scale, const HostTensor *bias) {
  const HostTensor &input = e.operand(0);
  if (axis < 0)
    axis += input.rank();
  int64_t width = elementCount(ArrayRef<int64_t>(input.shape).drop_front(axis));
  HostTensor &result = e.addResult(input.shape);
  for (int64_t row = 0; width > 0 && row < input.size() / width; ++row) {
    const double *x = &input.floats[row * width];
    double *y = &result.floats[row * width];
    double mean = 0, squares = 0;
    for (int64_t i = 0; centered && i < width; ++i)
      mean += x[i] / width;
    for (int64_t i = 0; i < width; ++i)
      squares += (x[i] - mean) * (x[i] - mean);
    double factor = 1 / std::sqrt(squares / width + epsilon);
    for (int64_t i = 0; i < width; ++i)
      y[i] = (x[i] - mean) * factor;
  }
  auto apply = [&](const HostTensor *other, auto combine) {
    if (!other)
      return;
    int64_t offset[1] = {0}, i = 0;
    forEachIndex(result.shape, {broadcastStrides(other->shape, result.shape)}, offset,
                 [&] { combine(result.floats[i++], other->floats[offset[0]]); });
  };
  apply(scale, [](double &y, double s) { y *= s; });
  apply(bias, [](double &y, double b) { y += b; });
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateReduction(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](ReduceOp op) { return reduce(e, op); })
      .Case([&](CumSumOp op) { return cumsum(e, op); })
      .Case([&](SoftmaxOp op) { return softmax(e, op.getAxis(), false); })
      .Case([&](LogSoftmaxOp op) { return softmax(e, op.getAxis(), true); })
      .Case([&](LayerNormOp op) {
        return norm(e, op.getAxis(), op.getEpsilon().convertToDouble(), true, e.operands[1],
                    op.getBias() ? e.operands[2] : nullptr);
      })
      .Case([&](RMSNormOp op) {
        return norm(e, op.getAxis(), op.getEpsilon().convertToDouble(), false,
                    op.getScale() ? e.operands[1] : nullptr, nullptr);
      })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
