#include "runtime/backends/host/kernels/LogitBlocks.h"

namespace omnibal::rt {
namespace {

Matrix asMatrix(const TensorView &v) {
  return {dataOf<float>(v), v.shape[0], v.shape[1], v.strides[0], v.strides[1]};
}

} // namespace

Status checkTargets(const CheckedKernel &kernel, const TensorView &targets, int64_t classes) {
  for (int64_t i = 0; i < targets.shape[0]; ++i)
    if (intAt(targets, i) >= classes)
      return kernel.bad("target " + std::to_string(intAt(targets, i)) + " of row " +
                        std::to_string(i) + " is outside the " + std::to_string(classes) +
                        " classes");
  return Status::ok();
}

LogitBlocks::LogitBlocks(const LogitOperands &operands, ThreadPool &pool)
    : features(operands.hidden->shape[1]), width(operands.weight->shape[0]), operands(operands),
      pool(pool), memory(dataOf<float>(*operands.scratch)) {}

Status LogitBlocks::run(const CheckedKernel &kernel,
                        const std::function<void(std::span<const int64_t>)> &body) const {
  if (!isDense(asMatrix(*operands.weight)) ||
      (operands.dweight && !isDense(asMatrix(*operands.dweight))))
    return kernel.bad("weight and dweight need unit stride in one dimension");
  std::vector<int64_t> labeled; // rows with a target
  for (int64_t i = 0; i < operands.targets->shape[0]; ++i)
    if (intAt(*operands.targets, i) >= 0)
      labeled.push_back(i);
  if (operands.dhidden)
    zeroUnlabeled();
  const int64_t block = blockRows();
  if (block == 0 && !labeled.empty())
    return kernel.bad("operand 'scratch' " + printShape(*operands.scratch) +
                      " cannot hold the logits and gathered rows of a single token");
  for (size_t begin = 0; begin < labeled.size(); begin += block) {
    const auto tokens =
        std::span(labeled).subspan(begin, std::min<size_t>(block, labeled.size() - begin));
    OMNIBAL_RETURN_IF_ERROR(multiplyLogits(tokens));
    body(tokens);
    OMNIBAL_RETURN_IF_ERROR(addGradients(tokens));
  }
  return Status::ok();
}

int64_t LogitBlocks::blockRows() const {
  int64_t elements = 1;
  for (int i = 0; i < operands.scratch->rank; ++i)
    elements *= operands.scratch->shape[i];
  const int64_t perRow = width + features * (operands.dhidden ? 2 : 1);
  return elements / std::max<int64_t>(perRow, 1);
}

void LogitBlocks::zeroUnlabeled() const {
  const TensorView &v = *operands.dhidden;
  pool.parallelFor((v.shape[0] + 15) / 16, [&](int64_t task, int) {
    for (int64_t i = task * 16; i < std::min(v.shape[0], task * 16 + 16); ++i)
      if (intAt(*operands.targets, i) < 0)
        for (int64_t f = 0; f < v.shape[1]; ++f)
          dataOf<float>(v)[i * v.strides[0] + f * v.strides[1]] = 0;
  });
}

/// Rows of `view` at the block's labeled positions <-> a dense buffer.
template <bool gather>
void LogitBlocks::moveRows(const TensorView &view, float *dense,
                           std::span<const int64_t> tokens) const {
  const int64_t rows = static_cast<int64_t>(tokens.size());
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

Status LogitBlocks::multiplyLogits(std::span<const int64_t> tokens) const {
  const int64_t rows = static_cast<int64_t>(tokens.size());
  moveRows<true>(*operands.hidden, inputsOf(rows).data, tokens);
  Product forward;
  forward.a = inputsOf(rows);
  forward.b = asMatrix(*operands.weight).transposed();
  forward.c = logitsOf(rows);
  forward.alpha = operands.scale;
  if (operands.bias) {
    forward.bias = dataOf<float>(*operands.bias);
    forward.biasColStride = operands.bias->strides[0];
  }
  return multiply(forward, pool);
}

Status LogitBlocks::addGradients(std::span<const int64_t> tokens) const {
  const int64_t rows = static_cast<int64_t>(tokens.size());
  const Matrix inputs = inputsOf(rows);
  if (operands.dweight) {
    Product grad;
    grad.a = logitsOf(rows).transposed();
    grad.b = inputs;
    grad.c = asMatrix(*operands.dweight);
    grad.alpha = operands.scale;
    grad.accumulate = true;
    OMNIBAL_RETURN_IF_ERROR(multiply(grad, pool));
  }
  if (operands.dhidden) {
    Product grad;
    grad.a = logitsOf(rows);
    grad.b = asMatrix(*operands.weight);
    grad.c = {inputs.data + rows * features, rows, features, features, 1};
    grad.alpha = operands.scale;
    OMNIBAL_RETURN_IF_ERROR(multiply(grad, pool));
    moveRows<false>(*operands.dhidden, grad.c.data, tokens);
  }
  if (operands.dbias)
    addBiasGradient(rows);
  return Status::ok();
}

void LogitBlocks::addBiasGradient(int64_t rows) const {
  const int64_t strip = 64, step = operands.dbias->strides[0];
  pool.parallelFor((width + strip - 1) / strip, [&](int64_t task, int) {
    float sums[strip] = {};
    const int64_t first = task * strip, n = std::min(strip, width - first);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < n; ++j)
        sums[j] += memory[r * width + first + j];
    for (int64_t j = 0; j < n; ++j)
      dataOf<float>(*operands.dbias)[(first + j) * step] += sums[j];
  });
}

} // namespace omnibal::rt
