//===- TrainModes.h - Modules that hold the training modes of a program -----------------------===//
//
// A program with several training modes is a module of modules, one a mode, each with
// `omnibal.train_mode` (TrainModeAttr). What concerns the whole program stands on the module around
// them. omnibal-split-modes makes them.
//
//===----------------------------------------------------------------------------------------===//
#ifndef PASSES_COMMON_TRAINMODES_H
#define PASSES_COMMON_TRAINMODES_H

#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/BuiltinOps.h"

namespace omnibal {

/// The modes of a program, by number; none where the module is a program with one mode. Reports
/// modules without a number of their own, and whatever else stands beside the modes.
llvm::FailureOr<llvm::SmallVector<mlir::ModuleOp>> trainModesOf(mlir::ModuleOp program);

/// Which mode a module is; null where it is a whole program.
inline TrainModeAttr trainModeOf(mlir::ModuleOp module) {
  return module->getAttrOfType<TrainModeAttr>(trainModeAttrName);
}

/// Makes a module that of a training mode, and where the mode has a degree, replicas of
/// `omnibal.cluster` parts of their stage; they stay replicas, who hold and sum the same.
void writeMode(mlir::ModuleOp module, TrainModeAttr mode);

/// "length group 3K: ", as errors about one mode begin; empty for a whole program.
std::string modePrefix(mlir::ModuleOp module);

} // namespace omnibal
#endif // PASSES_COMMON_TRAINMODES_H
