//===- Lowering.h - From a layer's function to a list of kernel calls --------------------===//
//
// Entry points of the lowering phase. A function of form C (docs/contract-compiler.md) becomes an
// rt::Function; its generated kernels gather in a KernelLibrary, which ends as one shared object.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_LOWERING_H
#define PASSES_LOWER_LOWERING_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/lower/GpuCode.h"
#include "runtime/program/ProgramIO.h"
#include "llvm/Support/LogicalResult.h"
#include <memory>
#include <string>
#include <vector>

namespace omnibal::lower {

struct LoweringOptions {
  std::string target = "host";     ///< host | cuda
  std::string compute = "float32"; ///< how activations and products are kept: float32 | bfloat16
  int64_t tilesCap = 0, tokensCap = 0; ///< V and N that temporaries must hold
  int64_t parts = 1;                   ///< of a stage

  rt::SymbolValues caps() const { return rt::SymbolValues::most(tilesCap, tokensCap, parts); }
  int32_t rowBucket = 64; ///< row counts of temporaries are rounded up to this
};

inline std::vector<rt::Extent> toExtents(const SymbolicShape &shape) {
  return {shape.begin(), shape.end()};
}

/// Row counts of a target's kernels are rounded up to this, and its buffers hold them: so products,
/// algorithms and recorded work repeat from micro-batch to micro-batch of a device.
inline int32_t rowBucketOf(llvm::StringRef target) { return target == "host" ? 1 : 64; }
/// What buffers hold of N.
inline int64_t roundedTokens(int64_t tokens, int32_t rowBucket) {
  return (tokens + rowBucket - 1) / rowBucket * rowBucket;
}

/// Data of a constant that a function reads; equal data has one name.
struct ConstantData {
  std::string name; ///< "constant_<hash of dtype, shape and bytes>"
  rt::DType dtype = rt::DType::F32;
  std::vector<int64_t> shape;
  std::string bytes; ///< dense row-major, little endian
};

/// What a formal stands for, in the terms of form C.
struct Formal {
  rt::Role role = rt::Role::Input;
  int32_t index = -1; ///< `omnibal.index`; -1 for batch values, constants and results of evaluation
  std::string name;   ///< batch value or constant name, "loss" or what else the head gives of it;
                      ///< else "<role>_<index>"
};

struct LoweredFunction {
  /// Formals in order: arguments, results, batch values, constants (the last two in order of first
  /// use, each name once). buffers[i].name == formals[i].name for i < function.formals.
  rt::Function function;
  std::vector<Formal> formals;
  std::vector<ConstantData> constants; ///< one per formal of role Constant, in their order
};

/// The generated kernels of a program. Structurally equal kernels are one symbol, whose name is a
/// hash of the structure: the library's bytes depend on the set of kernels only.
class KernelLibrary {
public:
  /// `gpu`: kernels of the cuda target.
  explicit KernelLibrary(mlir::MLIRContext *context, bool gpu = false);
  ~KernelLibrary();
  KernelLibrary(const KernelLibrary &) = delete;
  KernelLibrary &operator=(const KernelLibrary &) = delete;

  bool empty() const;
  /// Symbols in the order of the library (sorted).
  std::vector<std::string> symbols() const;
  /// Returns the bytes of kernels.so for `cpu`: "x86-64-v3" or "native". GPU kernels are what
  /// `conversion` makes of them. Errors are reported to the context's diagnostics. The library may
  /// be empty.
  llvm::FailureOr<std::string> compileSharedObject(llvm::StringRef cpu,
                                                   const KernelConversion *conversion = nullptr);
  /// Returns GPU kernels as a fat binary of cubins and PTX if `toolkit` (a folder; empty:
  /// CUDA_HOME, PATH, the usual place) has ptxas and fatbinary, else as PTX, with a notice.
  llvm::FailureOr<rt::GeneratedCode> compileForGpu(llvm::StringRef toolkit);
  llvm::FailureOr<std::string> compileToPtx();
  static constexpr const char *oldestGpu = "sm_80";
  /// The CPU's name that `cpu` stands for ("native" resolved), as Program::cpu wants it.
  static std::string resolveCpu(llvm::StringRef cpu);

  struct Impl;
  Impl &impl() { return *state; }

private:
  std::unique_ptr<Impl> state;
};

/// Makes what a layer's forward saves and its input_grad holds lie as the kernels want it
/// (token-major heads): inserts the transposes where it is written and where it is read and changes
/// the signatures. Call it once for each layer before lowerFunction.
void layOutSavedValues(LayerFnOp layer);

/// A copy of a function behind the passes of the lowering, of which calls are made for any caps.
struct PreparedFunction {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< of its own
  mlir::func::FuncOp function;
};
/// Forms GEMMs, fuses and so on in a copy of `fn`, which stays as it is.
llvm::FailureOr<PreparedFunction> prepareFunction(mlir::func::FuncOp fn, const std::string &target);
/// Assigns buffers and emits calls; the function stays as it is.
llvm::FailureOr<LoweredFunction> lowerFunction(const PreparedFunction &prepared,
                                               KernelLibrary &kernels,
                                               const LoweringOptions &options);

/// Lowers a copy of `fn` (which stays as it is): forms GEMMs, fuses, assigns buffers, emits calls.
llvm::FailureOr<LoweredFunction> lowerFunction(mlir::func::FuncOp fn, KernelLibrary &kernels,
                                               const LoweringOptions &options);

/// The passes of lowerFunction, in their order: `omnibal-lower`.
void buildLowerPipeline(mlir::OpPassManager &functions, const std::string &target);
/// Registers the passes of this folder (omnibal-form-gemms, omnibal-fuse, ...) and the pipeline.
void registerLowerPasses();

} // namespace omnibal::lower
#endif // PASSES_LOWER_LOWERING_H
