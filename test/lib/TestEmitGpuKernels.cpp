//===- TestEmitGpuKernels.cpp - The kernels of target cuda as IR -------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/lower/Lowering.h"
#include "passes/lower/codegen/KernelLibraryInternal.h"
#include "passes/lower/codegen/gpu/EmitFusedGpu.h"
#include "test/lib/TestPasses.h"

using namespace mlir;

namespace omnibal::test {
namespace {

struct TestEmitGpuKernels : PassWrapper<TestEmitGpuKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestEmitGpuKernels)
  TestEmitGpuKernels() = default;
  TestEmitGpuKernels(const TestEmitGpuKernels &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-emit-gpu-kernels"; }
  StringRef getDescription() const final { return "Append the GPU kernels of the functions"; }

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, func::FuncDialect, gpu::GPUDialect, LLVM::LLVMDialect,
                    math::MathDialect, NVVM::NVVMDialect, scf::SCFDialect, vector::VectorDialect>();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    lower::KernelLibrary kernels(&getContext(), /*gpu=*/true);
    lower::LoweringOptions options;
    options.target = "cuda";
    options.compute = compute;
    options.tilesCap = tiles;
    options.tokensCap = tokens;
    for (auto fn : module.getOps<func::FuncOp>())
      if (!fn.isExternal() && failed(lower::lowerFunction(fn, kernels, options)))
        return signalPassFailure();
    OwningOpRef<ModuleOp> sorted = kernels.impl().sorted();
    for (auto gpu : llvm::make_early_inc_range(sorted->getOps<gpu::GPUModuleOp>())) {
      gpu->remove();
      module.push_back(gpu);
    }
  }

  Option<std::string> compute{*this, "compute", llvm::cl::init("float32"),
                              llvm::cl::desc("float32 or bfloat16")};
  Option<int64_t> tiles{*this, "tiles", llvm::cl::init(4),
                        llvm::cl::desc("V that temporaries must hold")};
  Option<int64_t> tokens{*this, "tokens", llvm::cl::init(64),
                         llvm::cl::desc("N that temporaries must hold")};
};

} // namespace

std::unique_ptr<Pass> createEmitGpuKernels() { return std::make_unique<TestEmitGpuKernels>(); }

} // namespace omnibal::test
