//===- MergedWeights.h - Weights with their adapters in them ----------------------------------===//
#ifndef RUNTIME_CHECKPOINT_MERGEDWEIGHTS_H
#define RUNTIME_CHECKPOINT_MERGEDWEIGHTS_H

#include "runtime/checkpoint/NamedTensor.h"
#include "runtime/program/Adapters.h"
#include "runtime/support/Safetensors.h"
#include <memory>
#include <string>
#include <vector>

namespace omnibal::rt {

/// W + scale B A in float32, for each adapter whose A and B are among `mine`, and what else `mine`
/// has. With magnitudes these are the norms of the rows. A weight is computed when it is read, one
/// at a time.
class MergedWeights {
public:
  /// `source` has W, and must outlive the result, as must the memory of `mine`.
  static Result<MergedWeights> of(const Adapters &adapters, const TensorFiles &source,
                                  const std::vector<NamedTensor> &mine);

  const std::vector<NamedTensor> &tensors() const { return list; }

private:
  std::vector<std::unique_ptr<DeviceMemory>> memories;
  std::vector<NamedTensor> list;
};

/// The weights that merging changes, and the parameters that train as they are.
std::vector<std::string> mergedNames(const Adapters &adapters);

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_MERGEDWEIGHTS_H
