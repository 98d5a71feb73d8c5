//===- Device.cpp ------------------------------------------------------------------------===//
#include "passes/cost/Device.h"
#include "passes/cost/DeviceTable.inc"
#include "llvm/ADT/StringExtras.h"

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

} // namespace

llvm::Expected<Device> readDevice(const json::Object &object, llvm::StringRef where) {
  Device device;
  device.name = object.getString("name").value_or("custom").str();
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
  return device;
}

llvm::Expected<Device> findDevice(llvm::StringRef name) {
  auto table = json::parse(deviceTable);
  if (!table)
    return table.takeError();
  const json::Object *devices = table->getAsObject()->getObject("devices");
  if (const json::Object *entry = devices->getObject(name)) {
    auto device = readDevice(*entry, ("device " + name).str());
    if (device)
      device->name = name.str();
    return device;
  }
  llvm::SmallVector<std::string> known;
  for (const auto &entry : *devices)
    known.push_back(entry.first.str());
  llvm::sort(known);
  return bad("unknown device `" + name + "` (known: " + llvm::join(known, ", ") + ")");
}

int64_t rooflineNs(const Device &device, llvm::StringRef elementType, const Work &work) {
  auto nanoseconds = [](__int128 amount, int64_t perSecond) {
    return static_cast<int64_t>((amount * 1000000000 + perSecond - 1) / perSecond);
  };
  auto peak = device.flops.find(elementType.str());
  int64_t flops = peak != device.flops.end() ? peak->second : device.flops.begin()->second;
  return nanoseconds(work.matrixFlops, flops) + nanoseconds(work.bytes, device.bytesPerSecond);
}

} // namespace omnibal::cost
