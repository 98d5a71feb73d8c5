//===- NamedTensor.h - A tensor in memory under its name in a checkpoint ----------------===//
#ifndef RUNTIME_CHECKPOINT_NAMEDTENSOR_H
#define RUNTIME_CHECKPOINT_NAMEDTENSOR_H

#include "runtime/comm/Agreement.h"
#include "runtime/device/Backend.h"
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::rt {

/// A float32 tensor in memory under its name in the source checkpoint.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape; ///< as in the source checkpoint
  float *data = nullptr;
  bool transposed = false;        ///< rank 2, lies in memory as [shape[1], shape[0]]
  DeviceMemory *memory = nullptr; ///< whose memory `data` points to; null: the host's
};

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_NAMEDTENSOR_H
