//===- FunctionDigest.h - What a layer function computes, as a short text -----------------===//
#ifndef DIALECTS_OMNIBAL_ANALYSIS_FUNCTIONDIGEST_H
#define DIALECTS_OMNIBAL_ANALYSIS_FUNCTIONDIGEST_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace omnibal::analysis {

/// Returns 32 hexadecimal digits that are equal for functions of form C that do the same work: the
/// digest covers ops, their attributes, how they are connected, types, the roles of arguments and
/// results, and whose kernels do the work (digestKernels()). Names, locations and the contents of
/// constants do not count; nor do the sizes of constants, because tables by position grow with the
/// cap of tokens. How many `parts` a stage has counts where a part has shares of tiles or tokens.
std::string digestOf(mlir::func::FuncOp function, llvm::StringRef kernels = "float32",
                     int64_t parts = 1);

/// Names the kernels of a target that compute in `compute`: times of one set of kernels say nothing
/// about another.
inline std::string digestKernels(const std::string &target, const std::string &compute) {
  return target == "host" ? compute : target + " " + compute;
}

} // namespace omnibal::analysis
#endif // DIALECTS_OMNIBAL_ANALYSIS_FUNCTIONDIGEST_H
