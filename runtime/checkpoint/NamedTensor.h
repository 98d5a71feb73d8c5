//===- NamedTensor.h - A tensor in memory under its name in a checkpoint ----------------===//
#ifndef RUNTIME_CHECKPOINT_NAMEDTENSOR_H
#define RUNTIME_CHECKPOINT_NAMEDTENSOR_H

#include "runtime/comm/Agreement.h"
#include "runtime/device/Backend.h"
#include "runtime/support/Shares.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt {

/// A float32 tensor in memory, or a part of one, under its name in the source checkpoint; or one of
/// codes.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape; ///< as in the source checkpoint
  float *data = nullptr;
  bool transposed = false;        ///< rank 2, lies in memory as [shape[1], shape[0]]
  DeviceMemory *memory = nullptr; ///< whose memory `data` points to; null: the host's
  /// A part has so many elements in the order of memory, of which `data` is the first, from this
  /// one on; -1: all.
  int64_t first = 0, count = -1;
  /// What memory has of the tensor, of which `first` and `count` then speak; none: all.
  std::optional<HeldUnits> held = std::nullopt;
  /// `data` has a byte an element, which a file has as it is: nothing is transposed or held.
  bool codes = false;

  bool isPart() const { return count >= 0; }
  int64_t width() const { return codes ? 1 : static_cast<int64_t>(sizeof(float)); }
};

} // namespace omnibal::rt
#endif // RUNTIME_CHECKPOINT_NAMEDTENSOR_H
