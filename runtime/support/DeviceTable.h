//===- DeviceTable.h - What devices can do by their data sheets ---------------------------===//
//
// Plans are made with these figures (`--device`), and a run is measured against them.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_DEVICETABLE_H
#define RUNTIME_SUPPORT_DEVICETABLE_H

#include <cstdint>
#include <string_view>

namespace omnibal::rt {

struct DeviceFigures {
  std::string_view name;
  std::string_view product;       ///< part of what the driver calls it; empty: no product
  int64_t float32Flops;           ///< a second, on ordinary cores
  int64_t bfloat16Flops;          ///< a second, dense, on tensor cores; 0: not stated
  int64_t memoryBytes, bytesPerS; ///< the memory's
};

inline constexpr DeviceFigures deviceTable[] = {
    // NVIDIA A100 data sheet, SXM 80 GB: FP32 19.5, BF16 tensor core 312 TFLOP/s, 2039 GB/s.
    {"a100-80g", "A100", 19'500'000'000'000, 312'000'000'000'000, 85'899'345'920,
     2'039'000'000'000},
    // A round figure for one process on a few cores, so that plans do not depend on the machine
    // that compiles.
    {"cpu", "", 100'000'000'000, 0, 17'179'869'184, 20'000'000'000},
    // NVIDIA H100 data sheet, SXM: FP32 67, BF16 tensor core 1979 with sparsity, so 989 TFLOP/s
    // dense, 3.35 TB/s.
    {"h100", "H100", 67'000'000'000'000, 989'000'000'000'000, 85'899'345'920, 3'350'000'000'000},
    // The same, PCIe: FP32 51, BF16 1513 with sparsity, 2 TB/s.
    {"h100-pcie", "H100 PCIe", 51'000'000'000'000, 756'000'000'000'000, 85'899'345'920,
     2'000'000'000'000},
    // NVIDIA H200 data sheet, SXM: as H100, 141 GB, 4.8 TB/s.
    {"h200", "H200", 67'000'000'000'000, 989'000'000'000'000, 141'000'000'000, 4'800'000'000'000}};

/// The entry with the longest product name that stands in `driverName`; null: none.
constexpr const DeviceFigures *deviceOfProduct(std::string_view driverName) {
  const DeviceFigures *best = nullptr;
  for (const DeviceFigures &device : deviceTable)
    if (!device.product.empty() && driverName.find(device.product) != driverName.npos &&
        (!best || device.product.size() > best->product.size()))
      best = &device;
  return best;
}

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_DEVICETABLE_H
