//===- Device.cpp ------------------------------------------------------------------------===//
#include "passes/cost/Device.h"
#include "runtime/support/DeviceTable.h"
#include "runtime/support/JsonField.h"
#include <cmath>

namespace omnibal::cost {
namespace {

double readShare(rt::JsonField field) {
  double share = field.number();
  if (!(share > 0 && share <= 1))
    field.fail("a share of the peak is expected, above 0 and at most 1");
  return share;
}

} // namespace

rt::Result<Device> readDevice(const nlohmann::json &object, const std::string &where) {
  rt::Status error;
  rt::JsonField root(object, where, error);
  root.onlyKeys({"name", "flops", "memory_bytes", "bytes_per_s", "efficiency"});
  Device device;
  device.name = root.has("name") ? root["name"].text() : "custom";
  rt::JsonField flops = root["flops"];
  flops.members(
      [&](const std::string &type, rt::JsonField peak) { device.flops[type] = peak.integer(1); });
  if (device.flops.empty())
    flops.fail("the peak FLOP/s of at least one element type is expected");
  device.memoryBytes = root["memory_bytes"].integer(1);
  device.bytesPerSecond = root["bytes_per_s"].integer(1);
  if (root.has("efficiency")) {
    rt::JsonField efficiency = root["efficiency"];
    efficiency.onlyKeys({"flops", "bytes"});
    if (efficiency.has("flops"))
      device.flopsEfficiency = readShare(efficiency["flops"]);
    if (efficiency.has("bytes"))
      device.bytesEfficiency = readShare(efficiency["bytes"]);
  }
  OMNIBAL_RETURN_IF_ERROR(error);
  return device;
}

rt::Result<Device> findDevice(const std::string &name) {
  std::string known;
  for (const rt::DeviceFigures &entry : rt::deviceTable) {
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
    if (name != entry.name)
      continue;
    Device device;
    device.name = entry.name;
    device.flops["float32"] = entry.float32Flops;
    if (entry.bfloat16Flops)
      device.flops["bfloat16"] = entry.bfloat16Flops;
    device.memoryBytes = entry.memoryBytes;
    device.bytesPerSecond = entry.bytesPerS;
    return device;
  }
  return rt::invalid("unknown device `" + name + "` (known: " + known + ")");
}

int64_t rooflineNs(const Device &device, const std::string &elementType, const Work &work) {
  auto nanoseconds = [](__int128 amount, int64_t peak, double efficiency) {
    // The share is taken first: an exact integer again, so that the rest is exact.
    auto perSecond = std::max<int64_t>(1, std::llround(static_cast<double>(peak) * efficiency));
    if (efficiency == 1)
      perSecond = peak;
    return static_cast<int64_t>((amount * 1000000000 + perSecond - 1) / perSecond);
  };
  auto peak = device.flops.find(elementType);
  int64_t flops = peak != device.flops.end() ? peak->second : device.flops.begin()->second;
  return nanoseconds(work.matrixFlops, flops, device.flopsEfficiency) +
         nanoseconds(work.bytes, device.bytesPerSecond, device.bytesEfficiency);
}

} // namespace omnibal::cost
