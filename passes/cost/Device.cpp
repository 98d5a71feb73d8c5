//===- Device.cpp ------------------------------------------------------------------------===//
#include "passes/cost/Device.h"
#include "runtime/support/DeviceTable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

namespace omnibal::cost {
namespace json = llvm::json;
namespace {

llvm::Error bad(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<int64_t> positive(const json::Object &object, llvm::StringRef key,
                                 llvm::StringRef where) {
  std::optional<int64_t> value = object.getInteger(key);
  if (!value || *value <= 0)
    return bad(where + ": `" + key + "` must be a positive integer");
  return *value;
}

llvm::Error readShare(const json::Object &object, llvm::StringRef key, llvm::StringRef where,
                      double &share) {
  const json::Value *value = object.get(key);
  if (!value)
    return llvm::Error::success();
  std::optional<double> number = value->getAsNumber();
  if (!number || !(*number > 0 && *number <= 1))
    return bad(where + ": `" + key + "` must be a share of the peak, above 0 and at most 1");
  share = *number;
  return llvm::Error::success();
}

llvm::Error onlyKeys(const json::Object &object, llvm::ArrayRef<llvm::StringRef> known,
                     llvm::StringRef where) {
  for (const auto &entry : object)
    if (!llvm::is_contained(known, llvm::StringRef(entry.first)))
      return bad(where + ": unknown key `" + entry.first.str() +
                 "` (known: " + llvm::join(known, ", ") + ")");
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Device> readDevice(const json::Object &object, llvm::StringRef where) {
  Device device;
  device.name = object.getString("name").value_or("custom").str();
  if (llvm::Error error =
          onlyKeys(object, {"name", "flops", "memory_bytes", "bytes_per_s", "efficiency"}, where))
    return error;
  const json::Object *flops = object.getObject("flops");
  if (!flops || flops->empty())
    return bad(where + ": `flops` must name the peak FLOP/s of at least one element type");
  for (const auto &entry : *flops) {
    auto value = positive(*flops, entry.first, (where + ".flops").str());
    if (!value)
      return value.takeError();
    device.flops[entry.first.str()] = *value;
  }
  auto memory = positive(object, "memory_bytes", where);
  if (!memory)
    return memory.takeError();
  auto speed = positive(object, "bytes_per_s", where);
  if (!speed)
    return speed.takeError();
  device.memoryBytes = *memory;
  device.bytesPerSecond = *speed;
  if (!object.get("efficiency"))
    return device;
  std::string key = (where + ".efficiency").str();
  const json::Object *efficiency = object.getObject("efficiency");
  if (!efficiency)
    return bad(key + " must be an object with shares of the peak, `flops` and `bytes`");
  if (llvm::Error error = onlyKeys(*efficiency, {"flops", "bytes"}, key))
    return error;
  if (llvm::Error error = readShare(*efficiency, "flops", key, device.flopsEfficiency))
    return error;
  if (llvm::Error error = readShare(*efficiency, "bytes", key, device.bytesEfficiency))
    return error;
  return device;
}

llvm::Expected<Device> findDevice(llvm::StringRef name) {
  std::vector<std::string> known;
  for (const rt::DeviceFigures &entry : rt::deviceTable) {
    known.emplace_back(entry.name);
    if (name != llvm::StringRef(entry.name))
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
  return bad("unknown device `" + name + "` (known: " + llvm::join(known, ", ") + ")");
}

int64_t rooflineNs(const Device &device, llvm::StringRef elementType, const Work &work) {
  auto nanoseconds = [](__int128 amount, int64_t peak, double efficiency) {
    // The share is taken first: an exact integer again, so that the rest is exact.
    auto perSecond = std::max<int64_t>(1, std::llround(static_cast<double>(peak) * efficiency));
    if (efficiency == 1)
      perSecond = peak;
    return static_cast<int64_t>((amount * 1000000000 + perSecond - 1) / perSecond);
  };
  auto peak = device.flops.find(elementType.str());
  int64_t flops = peak != device.flops.end() ? peak->second : device.flops.begin()->second;
  return nanoseconds(work.matrixFlops, flops, device.flopsEfficiency) +
         nanoseconds(work.bytes, device.bytesPerSecond, device.bytesEfficiency);
}

} // namespace omnibal::cost
