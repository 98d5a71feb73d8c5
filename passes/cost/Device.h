//===- Device.h - What a device can do, from data ----------------------------------------===//
#ifndef PASSES_COST_DEVICE_H
#define PASSES_COST_DEVICE_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace omnibal::cost {

struct Device {
  std::string name;
  std::map<std::string, int64_t> flops; ///< dense FLOP/s per element type ("float32", "bfloat16")
  int64_t memoryBytes = 0;
  int64_t bytesPerSecond = 0;
  double flopsEfficiency = 1; ///< share of `flops` that products reach, above 0, at most 1
  double bytesEfficiency = 1; ///< share of `bytesPerSecond`
};

/// Work of one layer in one direction.
struct Work {
  int64_t matrixFlops = 0; ///< multiply-add = 2
  int64_t bytes = 0;       ///< memory traffic of everything that is not a matrix product
  int64_t sentBytes = 0;   ///< that a part of a stage sends to each other one, all together
  int64_t exchanges = 0;   ///< in which it does; an all_reduce is two
};

/// A device of the table (runtime/support/DeviceTable.h); an unknown name is an error that lists
/// the known.
rt::Result<Device> findDevice(const std::string &name);
/// A device given as a JSON object: `flops` by element type, `memory_bytes`,
/// `bytes_per_s`, and where wanted `name` and `efficiency` ({"flops": share, "bytes": share}).
/// Unknown keys are errors; `where` names file and key in messages.
rt::Result<Device> readDevice(const nlohmann::json &object, const std::string &where);

/// Roofline time of the work: matrix products at the peak of `elementType`, the rest at the
/// memory's speed, each times its efficiency, one after the other. The device must have that
/// element type.
int64_t rooflineNs(const Device &device, const std::string &elementType, const Work &work);

} // namespace omnibal::cost
#endif // PASSES_COST_DEVICE_H
