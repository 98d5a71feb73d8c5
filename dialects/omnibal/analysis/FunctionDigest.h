//===- FunctionDigest.h - What a layer function computes, as a short text -----------------===//
#ifndef DIALECTS_OMNIBAL_ANALYSIS_FUNCTIONDIGEST_H
#define DIALECTS_OMNIBAL_ANALYSIS_FUNCTIONDIGEST_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace omnibal::analysis {

/// Equal for functions of form C that do the same work: ops, their attributes, how they are
/// connected, types, the roles of arguments and results, and whose kernels do it (digestKernels()).
/// Names, locations and the contents of constants (and their sizes: tables by position grow with
/// the cap of tokens) do not count. 32 hexadecimal digits.
std::string digestOf(mlir::func::FuncOp function, llvm::StringRef kernels = "float32");

/// The kernels of a target that compute in `compute`: times of one say nothing of another.
inline std::string digestKernels(const std::string &target, const std::string &compute) {
  return target == "host" ? compute : target + " " + compute;
}

} // namespace omnibal::analysis
#endif // DIALECTS_OMNIBAL_ANALYSIS_FUNCTIONDIGEST_H
