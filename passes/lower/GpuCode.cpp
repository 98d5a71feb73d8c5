//===- GpuCode.cpp -----------------------------------------------------------------------===//
#include "passes/lower/GpuCode.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <map>

namespace omnibal::lower {
namespace {

std::map<std::string, KernelConversion> &conversions() {
  static std::map<std::string, KernelConversion> all;
  return all;
}

} // namespace

void registerKernelConversion(const std::string &name, KernelConversion conversion) {
  conversions()[name] = std::move(conversion);
}

std::vector<std::string> gpuCodeNames() {
  std::vector<std::string> names{deviceCode};
  for (const auto &[name, conversion] : conversions())
    names.push_back(name);
  return names;
}

const KernelConversion *findKernelConversion(const std::string &name) {
  auto found = conversions().find(name);
  return found == conversions().end() ? nullptr : &found->second;
}

} // namespace omnibal::lower
