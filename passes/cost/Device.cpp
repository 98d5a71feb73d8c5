//===- Device.cpp ------------------------------------------------------------------------===//
#include "passes/cost/Device.h"
#include "passes/cost/DeviceTable.inc"
#include "runtime/support/Formats.h"
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

/// Numbers without their units would be read wrongly in silence.
llvm::Error checkUnits(const json::Object &table, llvm::StringRef where) {
  if (table.getString("schema") != llvm::StringRef(rt::formats::devices))
    return bad(where + ": `schema` must be " + rt::formats::devices);
  const json::Object *units = table.getObject("units");
  for (auto [key, unit] : {std::pair("flops", "dense FLOP/s"), std::pair("memory_bytes", "bytes"),
                           std::pair("bytes_per_s", "bytes/s")})
    if (!units || units->getString(key) != llvm::StringRef(unit))
      return bad(where + ".units: `" + key + "` must be stated in " + unit);
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
  return findDevice(deviceTable, name, "the device table");
}

llvm::Expected<Device> findDevice(llvm::StringRef text, llvm::StringRef name,
                                  llvm::StringRef where) {
  auto table = json::parse(text);
  if (!table)
    return bad(where + ": not JSON: " + llvm::toString(table.takeError()));
  const json::Object *object = table->getAsObject();
  if (!object)
    return bad(where + ": a table of devices is a JSON object");
  if (llvm::Error error = checkUnits(*object, where))
    return error;
  const json::Object *devices = object->getObject("devices");
  if (!devices)
    return bad(where + ": `devices` is missing");
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
