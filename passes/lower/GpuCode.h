//===- GpuCode.h - Ways to make code of GPU kernels --------------------------------------===//
#ifndef PASSES_LOWER_GPUCODE_H
#define PASSES_LOWER_GPUCODE_H

#include <functional>
#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
template <typename OpTy> class OwningOpRef;
} // namespace mlir
namespace llvm {
template <typename T> class FailureOr;
} // namespace llvm

namespace omnibal::lower {

/// The way that every build has: code for the device itself.
inline constexpr const char *deviceCode = "device";

/// Turns the gpu.module of a module, which is used up, into functions for the host's processor.
using KernelConversion =
    std::function<llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>(mlir::ModuleOp)>;

/// Adds a way to make code of GPU kernels that runs on the host's processor. Call it before
/// options are read.
void registerKernelConversion(const std::string &name, KernelConversion conversion);
/// Returns the names of all ways, `deviceCode` first.
std::vector<std::string> gpuCodeNames();
/// Returns the conversion of that name, or null for `deviceCode` and for names that are unknown.
const KernelConversion *findKernelConversion(const std::string &name);

} // namespace omnibal::lower
#endif // PASSES_LOWER_GPUCODE_H
