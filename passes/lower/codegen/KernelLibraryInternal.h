//===- KernelLibraryInternal.h - What the lowering itself adds to a kernel library -------===//
#ifndef PASSES_LOWER_CODEGEN_KERNELLIBRARYINTERNAL_H
#define PASSES_LOWER_CODEGEN_KERNELLIBRARYINTERNAL_H

#include "mlir/IR/OwningOpRef.h"
#include "passes/lower/Lowering.h"
#include "passes/lower/codegen/gpu/GpuLibrary.h"
#include "passes/lower/transforms/FusedKernel.h"
#include <map>

namespace omnibal::lower {

struct KernelLibrary::Impl {
  /// The symbol of the kernel, which is generated if no equal one exists.
  llvm::FailureOr<std::string> add(const FusedKernel &kernel);

  /// A copy with the kernels sorted by name.
  mlir::OwningOpRef<mlir::ModuleOp> sorted() const;

  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::gpu::GPUModuleOp gpu;              ///< in it, where kernels are for GPUs
  std::map<std::string, std::string> keys; ///< by symbol
};

} // namespace omnibal::lower
#endif // PASSES_LOWER_CODEGEN_KERNELLIBRARYINTERNAL_H
