//===- OptimizerKind.h - The rules of an update -----------------------------------------------===//
#ifndef RUNTIME_DEVICE_OPTIMIZERKIND_H
#define RUNTIME_DEVICE_OPTIMIZERKIND_H

#include "runtime/device/CodedMoments.h"
#include <algorithm>
#include <array>
#include <cstdint>

namespace omnibal::rt {

/// How a step changes the parameters.
enum class OptimizerKind : uint8_t {
  AdamW, ///< Loshchilov and Hutter, arXiv 1711.05101, as PyTorch computes it
  Lion,  ///< Chen et al., arXiv 2302.06675: the sign of a blend of momentum and gradient
  Sgd,   ///< momentum, perhaps Nesterov's; weight decay is added to the gradient, as in PyTorch
  Muon,  ///< Jordan 2024: matrices move along their orthogonalized momentum; the rest is AdamW's
  AdamW8bit, ///< AdamW whose moments are codes (CodedMoments.h)
  Adafactor  ///< Shazeer and Stern, arXiv 1804.04235, as PyTorch computes it
};
inline constexpr std::array optimizerKinds = {OptimizerKind::AdamW,     OptimizerKind::Lion,
                                              OptimizerKind::Sgd,       OptimizerKind::Muon,
                                              OptimizerKind::AdamW8bit, OptimizerKind::Adafactor};

/// Whether moments are codes and not float32 values.
constexpr bool isCoded(OptimizerKind kind) { return kind == OptimizerKind::AdamW8bit; }

/// Whether the moments have AdamW's corrections, and its settings.
constexpr bool isAdam(OptimizerKind kind) {
  return kind == OptimizerKind::AdamW || kind == OptimizerKind::Muon ||
         kind == OptimizerKind::AdamW8bit;
}

/// Whether an update looks at all of a matrix at once. Only the host's kernels have such updates,
/// and replicas do not divide what they keep.
constexpr bool updatesMatrices(OptimizerKind kind) {
  return kind == OptimizerKind::Muon || kind == OptimizerKind::Adafactor;
}

/// Whether every parameter that trains must be whole on its rank.
constexpr bool needsWholeParameters(OptimizerKind kind) {
  return isCoded(kind) || kind == OptimizerKind::Adafactor;
}

/// How many moments are kept of each element of a parameter from step to step; `orthogonalized`: it
/// is one of Muon's matrices. Adafactor's matrices have fewer (runtime/program/MomentShapes.h).
constexpr int momentsOf(OptimizerKind kind, bool orthogonalized) {
  return (isAdam(kind) && !orthogonalized) ? 2 : 1;
}

/// What a moment of so many elements takes.
constexpr int64_t momentBytes(OptimizerKind kind, int64_t elements) {
  return isCoded(kind) ? codedBytes(elements) : elements * int64_t{sizeof(float)};
}

/// In a bucket, every parameter begins at a multiple of so many elements: a share, which does too,
/// then has whole blocks of codes.
constexpr int64_t bucketGrain(OptimizerKind kind) { return isCoded(kind) ? codedBlock : 1; }

/// What the update of one of Muon's matrices needs for its time, in float32 values: two matrices of
/// its size, and two squares of its smaller side.
constexpr int64_t orthogonalizationFloats(int64_t rows, int64_t cols) {
  const int64_t side = std::min(rows, cols);
  return 2 * (rows * cols + side * side);
}

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_OPTIMIZERKIND_H
