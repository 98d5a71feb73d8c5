//===- EmitGpuKernels.cpp - omnibal-emit-gpu-kernels -------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/lower/Passes.h"
#include "passes/lower/codegen/KernelLibraryInternal.h"
#include "passes/lower/codegen/gpu/EmitFusedGpu.h"

namespace omnibal::lower {
#define GEN_PASS_DEF_EMITGPUKERNELS
#include "passes/lower/Passes.h.inc"

using namespace mlir;

namespace {

struct EmitGpuKernelsPass : impl::EmitGpuKernelsBase<EmitGpuKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    KernelLibrary kernels(&getContext(), /*gpu=*/true);
    LoweringOptions options;
    options.target = "cuda";
    options.compute = compute;
    options.tilesCap = tiles;
    options.tokensCap = tokens;
    for (auto fn : module.getOps<func::FuncOp>())
      if (!fn.isExternal() && failed(lowerFunction(fn, kernels, options)))
        return signalPassFailure();
    OwningOpRef<ModuleOp> sorted = kernels.impl().sorted();
    for (auto gpu : llvm::make_early_inc_range(sorted->getOps<gpu::GPUModuleOp>())) {
      gpu->remove();
      module.push_back(gpu);
    }
  }
};

} // namespace
} // namespace omnibal::lower
