//===- GpuLibrary.h - Modules of GPU kernels and what becomes of them --------------------===//
#ifndef PASSES_LOWER_CODEGEN_GPU_GPULIBRARY_H
#define PASSES_LOWER_CODEGEN_GPU_GPULIBRARY_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/lower/Lowering.h"

namespace omnibal::lower {

/// Registers the dialects and translations that GPU kernels need.
void prepareGpuContext(mlir::MLIRContext *context);
/// Makes an empty gpu.module in `module`.
mlir::gpu::GPUModuleOp makeGpuModule(mlir::ModuleOp module);

/// Returns PTX of the gpu.module in `module`, which is used up.
llvm::FailureOr<std::string> compilePtx(mlir::ModuleOp module);
/// Returns the same as a fat binary if the toolkit's assembler is found; the module is used up too.
llvm::FailureOr<rt::GeneratedCode> compileForDevices(mlir::ModuleOp module,
                                                     llvm::StringRef toolkit);

} // namespace omnibal::lower
#endif // PASSES_LOWER_CODEGEN_GPU_GPULIBRARY_H
