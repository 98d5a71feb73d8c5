//===- MatrixEval.cpp - Matrix products --------------------------------------------------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include "dialects/omnibal/ir/ScalarFunctions.h"

using namespace mlir;

namespace omnibal {
namespace {

/// A matrix product operand brought to [batch.., rows, columns].
struct Matrices {
  SmallVector<int64_t> batch;
  int64_t rows, columns;
  bool transpose;
  template <typename T> std::vector<T> load(const std::vector<T> &data, int64_t offset) const {
    std::vector<T> matrix(data.begin() + offset, data.begin() + offset + rows * columns);
    if (!transpose)
      return matrix;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        matrix[i * columns + j] = data[offset + j * rows + i];
    return matrix;
  }
};

/// A vector becomes a row (left) or a column (right).
Matrices viewOf(const HostTensor &tensor, bool transpose, bool isLeft) {
  ArrayRef<int64_t> shape(tensor.shape);
  if (shape.size() == 1)
    return isLeft ? Matrices{{}, 1, shape[0], false} : Matrices{{}, shape[0], 1, false};
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  if (transpose)
    std::swap(rows, columns);
  return {SmallVector<int64_t>(shape.drop_back(2)), rows, columns, transpose};
}

LogicalResult product(Evaluation &e, bool transposeLhs, bool transposeRhs) {
  const HostTensor &lhs = e.operand(0), &rhs = e.operand(1);
  Matrices a = viewOf(lhs, transposeLhs, true), b = viewOf(rhs, transposeRhs, false);
  auto batch = broadcastShape(a.batch, b.batch);
  if (failed(batch) || a.columns != b.rows)
    return e.op->emitOpError("has operands that cannot be multiplied");
  SmallVector<int64_t> shape(*batch);
  if (lhs.rank() > 1)
    shape.push_back(a.rows);
  if (rhs.rank() > 1)
    shape.push_back(b.columns);
  HostTensor &result = e.addResult(shape);
  auto scaled = [](SmallVector<int64_t> strides, int64_t factor) {
    for (int64_t &stride : strides)
      stride *= factor;
    return strides;
  };
  SmallVector<SmallVector<int64_t>> strides{
      scaled(broadcastStrides(a.batch, *batch), a.rows * a.columns),
      scaled(broadcastStrides(b.batch, *batch), b.rows * b.columns)};
  int64_t offsets[2] = {0, 0}, to = 0;
  auto run = [&](auto &c, const auto &x, const auto &y) {
    forEachIndex(*batch, strides, offsets, [&] {
      auto left = a.load(x, offsets[0]), right = b.load(y, offsets[1]);
      multiplyAdd(c.data() + to, left.data(), right.data(), a.rows, b.columns, a.columns);
      to += a.rows * b.columns;
    });
  };
  if (result.isFloat())
    run(result.floats, lhs.floats, rhs.floats);
  else
    run(result.ints, lhs.ints, rhs.ints);
  return success();
}

LogicalResult linear(Evaluation &e, LinearOp op) {
  const HostTensor &input = e.operand(0), &weight = e.operand(1);
  int64_t in = weight.shape[op.getInOut() ? 0 : 1], out = weight.shape[op.getInOut() ? 1 : 0];
  SmallVector<int64_t> shape(input.shape);
  shape.back() = out;
  HostTensor &result = e.addResult(shape);
  int64_t rows = in ? input.size() / in : 0;
  if (op.getBias())
    for (int64_t i = 0; i < result.size(); ++i)
      result.floats[i] = e.operand(2).floats[i % out];
  std::vector<double> matrix =
      op.getInOut() ? weight.floats : transposed(weight.floats.data(), out, in);
  multiplyAdd(result.floats.data(), input.floats.data(), matrix.data(), rows, out, in);
  return success();
}

LogicalResult linearWeightGrad(Evaluation &e, LinearWeightGradOp op) {
  const HostTensor &input = e.operand(0), &grad = e.operand(1);
  int64_t in = input.shape.back(), out = grad.shape.back(), rows = in ? input.size() / in : 0;
  const HostTensor &left = op.getInOut() ? input : grad, &right = op.getInOut() ? grad : input;
  int64_t m = op.getInOut() ? in : out, n = op.getInOut() ? out : in;
  HostTensor &result = e.addResult({m, n});
  std::vector<double> columns = transposed(left.floats.data(), rows, m);
  multiplyAdd(result.floats.data(), columns.data(), right.floats.data(), m, n, rows);
  return success();
}

LogicalResult rowSquares(Evaluation &e, RowSquaresOp op) {
  const HostTensor &weight = e.operand(0), &a = e.operand(1), &b = e.operand(2);
  const int64_t rank = a.shape[0], in = a.shape[1], out = b.shape[0];
  std::vector<double> product(out * in);
  multiplyAdd(product.data(), b.floats.data(), a.floats.data(), out, in, rank);
  const double scale = op.getScale().convertToDouble();
  HostTensor &result = e.addResult({out});
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i) {
      double sum =
          weight.floats[op.getInOut() ? i * out + o : o * in + i] + scale * product[o * in + i];
      result.floats[o] += sum * sum;
    }
  return success();
}

double activate(Activation activation, double x) {
  switch (activation) {
  case Activation::None:
    return x;
  case Activation::Gelu:
    return scalar::gelu(x, false);
  case Activation::GeluTanh:
    return scalar::gelu(x, true);
  case Activation::Silu:
    return scalar::silu(x);
  case Activation::QuickGelu:
    return scalar::quickGelu(x);
  case Activation::Relu:
    return x < 0 ? 0 : x;
  }
  return x;
}

double derivative(Activation activation, double x) {
  auto logistic = [&](double factor) { // of x sigmoid(factor x)
    double s = scalar::sigmoid(factor * x);
    return s + factor * x * s * (1 - s);
  };
  switch (activation) {
  case Activation::None:
    return 1;
  case Activation::Gelu:
    return scalar::geluDerivative(x, false);
  case Activation::GeluTanh:
    return scalar::geluDerivative(x, true);
  case Activation::Silu:
    return logistic(1);
  case Activation::QuickGelu:
    return logistic(scalar::quickGeluFactor);
  case Activation::Relu:
    return x > 0 ? 1 : 0;
  }
  return 1;
}

/// Adds the sums of a matrix over its columns, `down` over its rows.
void addSums(Evaluation &e, const HostTensor &matrix, bool down) {
  int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  HostTensor &sums = e.addResult({down ? columns : rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      sums.floats[down ? j : i] += matrix.floats[i * columns + j];
}

/// activation(alpha * lhs rhs + bias) + residual or alpha * lhs rhs * derivative(at), optionally
/// with the value before the activation and sums of an operand.
LogicalResult gemm(Evaluation &e, GemmOp op) {
  if (failed(product(e, op.getTransposeLhs(), op.getTransposeRhs())))
    return failure();
  HostTensor before = e.results[0];
  const HostTensor *bias = e.valueOf(op.getBias()), *residual = e.valueOf(op.getResidual()),
                   *at = e.valueOf(op.getAt());
  double alpha = op.getAlpha().convertToDouble();
  int64_t columns = before.shape.back();
  for (int64_t i = 0; i < before.size(); ++i) {
    double &x = before.floats[i];
    x = alpha * x + (bias ? bias->floats[i % columns] : 0);
    e.results[0].floats[i] =
        at ? x * derivative(op.getActivation(), at->floats[i])
           : activate(op.getActivation(), x) + (residual ? residual->floats[i] : 0);
  }
  if (op.getPre())
    e.results.push_back(std::move(before));
  if (op.getSums()) {
    bool rhs = op.getSumRhs();
    addSums(e, e.operand(rhs ? 1 : 0), rhs ? !op.getTransposeRhs() : op.getTransposeLhs());
  }
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateMatrix(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](MatMulOp op) { return product(e, op.getTransposeLhs(), op.getTransposeRhs()); })
      .Case([&](GemmOp op) { return gemm(e, op); })
      .Case([&](LinearOp op) { return linear(e, op); })
      .Case([&](LinearWeightGradOp op) { return linearWeightGrad(e, op); })
      .Case([&](RowSquaresOp op) { return rowSquares(e, op); })
      .Case([&](DequantizeOp) {
        e.results.push_back(e.operand(0)); // values of a quantized weight are the numbers already
        return success();
      })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
