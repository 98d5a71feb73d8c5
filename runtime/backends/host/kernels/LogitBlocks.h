//===- LogitBlocks.h - Logits of a head at rows with a target, a block at a time --------------===//
//
// Scratch holds the logits of a block and, behind them, its gathered rows of hidden and of dhidden.
// So the number of rows of a block follows from the shapes alone.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_KERNELS_LOGITBLOCKS_H
#define RUNTIME_BACKENDS_HOST_KERNELS_LOGITBLOCKS_H

#include "runtime/backends/host/kernels/Gemm.h"
#include "runtime/backends/host/kernels/HostKernel.h"
#include <algorithm>
#include <functional>

namespace omnibal::rt {

/// The operands of a call that makes logits; null: the call lacks it.
struct LogitOperands {
  const TensorView *hidden = nullptr, *weight = nullptr, *targets = nullptr, *scratch = nullptr,
                   *bias = nullptr, *dhidden = nullptr, *dweight = nullptr, *dbias = nullptr;
  float scale = 1;

  bool gradients() const { return dhidden || dweight || dbias; }
};

inline float floatAt(const TensorView &v, int64_t i) { return dataOf<float>(v)[i * v.strides[0]]; }
inline int32_t intAt(const TensorView &v, int64_t i) {
  return dataOf<int32_t>(v)[i * v.strides[0]];
}

/// Splits rows of `width` values among threads.
template <typename Body>
void forLossRows(ThreadPool &pool, int64_t rows, int64_t width, const Body &body) {
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(width, 1));
  pool.parallelFor((rows + grain - 1) / grain, [&](int64_t task, int) {
    for (int64_t i = task * grain; i < std::min(rows, (task + 1) * grain); ++i)
      body(i);
  });
}

/// The backends' common checks do not look at values.
Status checkTargets(const CheckedKernel &kernel, const TensorView &targets, int64_t classes);

class LogitBlocks {
public:
  LogitBlocks(const LogitOperands &operands, ThreadPool &pool);

  /// Calls body(tokens) for each block of rows with a target, whose logits are there; a row's may
  /// become their gradient. Then adds to the operands that take gradients; dhidden is 0 elsewhere.
  Status run(const CheckedKernel &kernel,
             const std::function<void(std::span<const int64_t>)> &body) const;
  /// The logits of the block's row of this number.
  float *logits(int64_t row) const { return memory + row * width; }

  const int64_t features, width;

private:
  Status multiplyLogits(std::span<const int64_t> tokens) const;
  Status addGradients(std::span<const int64_t> tokens) const;
  void addBiasGradient(int64_t rows) const;
  void zeroUnlabeled() const;
  int64_t blockRows() const;
  template <bool gather>
  void moveRows(const TensorView &view, float *dense, std::span<const int64_t> tokens) const;
  Matrix logitsOf(int64_t rows) const { return {memory, rows, width, width, 1}; }
  Matrix inputsOf(int64_t rows) const {
    return {memory + rows * width, rows, features, features, 1};
  }

  const LogitOperands &operands;
  ThreadPool &pool;
  float *memory;
};

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_KERNELS_LOGITBLOCKS_H
