//===- Adafactor.h - Adafactor's update of one tensor -----------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_ADAFACTOR_H
#define RUNTIME_BACKENDS_HOST_ADAFACTOR_H

#include "runtime/device/Optimizer.h"
#include "runtime/support/ThreadPool.h"

namespace omnibal::rt {

/// As torch.optim.Adafactor does it. The variance V of an element keeps 1 - t^beta2Decay of itself
/// at step t and takes the rest of its squared gradient. Where `tensor` has rows, it is kept as the
/// means R of rows and C of columns, and V = R C / max(mean(R), epsilon). With u = g / max(sqrt(V),
/// epsilon) and rho = min(lr, 1 / sqrt(t)): p *= 1 - lr decay; p -= rho max(epsilon2, rms(p)) u /
/// max(1, rms(u) / updateClip), of the p before. No result depends on the number of threads.
void updateAdafactor(const UpdatedTensor &tensor, const UpdateOptions &options, ThreadPool &pool);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_ADAFACTOR_H
