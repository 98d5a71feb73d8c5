//===- EmitFusedGpu.h - The parts of the GPU emitter -------------------------------------===//
#ifndef PASSES_LOWER_CODEGEN_GPU_EMITFUSEDGPU_H
#define PASSES_LOWER_CODEGEN_GPU_EMITFUSEDGPU_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/lower/codegen/gpu/GpuShape.h"

namespace omnibal::lower {

/// Pointers into a device's memory and into a block's own.
constexpr unsigned globalMemory = 1, sharedMemory = 3;
/// The block's shared memory; its size is that of the launch.
constexpr const char *sharedSymbol = "omnibal_shared";

/// Short forms of what device code is made of.
class GpuBuilder {
public:
  GpuBuilder(mlir::Location loc, mlir::OpBuilder builder) : b(loc, builder) {}

  mlir::Value constant(int64_t value) { return mlir::arith::ConstantIntOp::create(b, value, 64); }
  mlir::Value add(mlir::Value x, mlir::Value y) { return mlir::arith::AddIOp::create(b, x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return mlir::arith::MulIOp::create(b, x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return mlir::arith::SubIOp::create(b, x, y); }
  mlir::Value least(mlir::Value x, mlir::Value y) { return mlir::arith::MinSIOp::create(b, x, y); }
  mlir::Value less(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::slt, x, y);
  }
  mlir::Value isZero(mlir::Value x) {
    return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::eq, x, constant(0));
  }
  /// Builds the conjunction of x and y; a null value is always true.
  mlir::Value both(mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, condition, x, y);
  }
  /// A number of the machine as i64.
  template <typename OpT> mlir::Value machine() {
    return mlir::arith::IndexCastOp::create(b, b.getI64Type(),
                                            OpT::create(b, mlir::gpu::Dimension::x));
  }
  /// Runs `body` where `condition` holds (null: everywhere).
  void when(mlir::Value condition, llvm::function_ref<void()> body);
  /// for (i = from; i < to; i += step)
  void loop(mlir::Value from, mlir::Value to, mlir::Value step,
            llvm::function_ref<void(mlir::Value)> body);

  /// `count` neighboring values in registers, in pieces of `width`; bytes become i1 where the
  /// value is one, bfloat16 becomes f32.
  llvm::SmallVector<mlir::Value> load(mlir::Value base, mlir::Value index, mlir::Type element,
                                      bool half, int64_t count, int64_t width);
  void store(llvm::ArrayRef<mlir::Value> values, mlir::Value base, mlir::Value index, bool half,
             int64_t width);
  mlir::Value at(mlir::Value base, mlir::Type stored, mlir::Value index) {
    return mlir::LLVM::GEPOp::create(b, base.getType(), stored, base, mlir::ValueRange(index));
  }
  mlir::Type stored(mlir::Type element, bool half);
  void barrier() { mlir::gpu::BarrierOp::create(b); }
  mlir::Value shared();
  /// The value of the lane whose number differs in `bits`.
  mlir::Value exchange(mlir::Value value, int64_t bits);

  mlir::ImplicitLocOpBuilder b;
};

/// Appends the kernel as `symbol` to a gpu.module. Parameters: operands, sizes, number of rows.
llvm::LogicalResult emitGpuKernel(const FusedKernel &kernel, llvm::StringRef symbol,
                                  mlir::gpu::GPUModuleOp module);
/// exp and erf as short arithmetic around math.exp2, for float32 (about 2 ulp; erf 2e-7 absolute).
llvm::LogicalResult expandGpuMath(mlir::ModuleOp module);

} // namespace omnibal::lower
#endif // PASSES_LOWER_CODEGEN_GPU_EMITFUSEDGPU_H
