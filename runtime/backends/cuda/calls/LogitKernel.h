//===- LogitKernel.h - Logits a block of rows at a time, and gradients from theirs ------------===//
//
// Rows of the scratch operand at a time: hidden rows, logits, what a kernel makes of them, and
// gradients of weight, hidden and bias. The gradient of the logits takes their place; float32
// logits of bfloat16 operands keep theirs, and the gradient is in bfloat16, as the products want
// it. Only rows with a target take part where the runtime has said how many there are.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_CALLS_LOGITKERNEL_H
#define RUNTIME_BACKENDS_CUDA_CALLS_LOGITKERNEL_H

#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/CrossEntropy.h"
#include <functional>
#include <vector>

namespace omnibal::rt::cuda {

/// Operands of a call that computes logits = scale * hidden weight^T + bias; null where it has
/// none.
struct LogitOperands {
  const TensorView *hidden, *weight, *targets, *scratch;
  const TensorView *bias = nullptr, *dhidden = nullptr, *dweight = nullptr, *dbias = nullptr;
  float scale = 1;

  bool gradients() const { return dhidden || dweight || dbias; }
};

/// Rows of logits: row r is of token tokens[r].
struct LogitBlock {
  CrossEntropyShape shape;
  const int32_t *targets, *tokens;
  void *logits, *slopes; ///< the latter, where their gradient is to be, is null without gradients
};

class LogitKernel : public DeviceKernel {
public:
  LogitKernel(const BoundCall &description, const KernelContext &context);

protected:
  /// Calls `onBlock` for the logits of all rows that may have a target, and adds the gradients of
  /// what it leaves. `others` are what rows get that are left out.
  Status forBlocks(const LogitOperands &operands,
                   const std::vector<std::pair<const TensorView *, double>> &others,
                   const std::function<Status(LogitBlock &)> &onBlock) const;
  Status fill(const TensorView &view, double value) const;

private:
  struct Matrix; ///< in memory, with its element type
  struct Memory;

  int64_t rowsToTake(int64_t rows) const;
  Status divide(const LogitOperands &operands, Memory &memory) const;
  Status product(int64_t m, int64_t n, int64_t k, const Matrix &a, const Matrix &b, const Matrix &c,
                 float scale, const Matrix *added, bool accumulate) const;
  Status runBlock(const LogitOperands &operands, const Memory &memory, const int32_t *tokens,
                  int64_t rows, const std::function<Status(LogitBlock &)> &onBlock) const;
  Status giveGradients(const LogitOperands &operands, const Memory &memory, const Matrix &inputs,
                       const Matrix &slopes, const int32_t *tokens, int64_t rows) const;
  Status giveInputSlopes(const LogitOperands &operands, const Memory &memory, const Matrix &slopes,
                         const int32_t *tokens, int64_t rows) const;
};

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_CALLS_LOGITKERNEL_H
