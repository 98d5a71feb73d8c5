//===- OptimizerAttribute.h - The optimizer of a module ---------------------------------------===//
#ifndef PASSES_COMMON_OPTIMIZERATTRIBUTE_H
#define PASSES_COMMON_OPTIMIZERATTRIBUTE_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "dialects/pipeline/TrainingAttrs.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/program/MomentShapes.h"
#include "runtime/program/Names.h"

namespace omnibal {

/// Returns what omnibal-attach-optimizer has written; AdamW where it has written nothing.
inline rt::OptimizerKind optimizerOf(mlir::ModuleOp module) {
  if (module->hasAttr(codedMomentsAttrName))
    return rt::OptimizerKind::AdamW8bit;
  auto attribute = module->getAttrOfType<OptimizerAttr>(optimizerAttrName);
  return attribute ? *rt::fromName<rt::OptimizerKind>(stringifyOptimizer(attribute.getValue()))
                   : rt::OptimizerKind::AdamW;
}

/// Whether a moving average of every value that trains is kept.
inline bool keepsAverages(mlir::ModuleOp module) { return module->hasAttr(averagesAttrName); }

/// What the moments take of a parameter that trains, or of what a part has of it, which has the
/// shape. Of a parameter that is transposed, variances of rows and columns come the other way
/// round.
inline std::vector<int64_t> momentBytes(ParameterOp parameter, mlir::RankedTensorType held,
                                        rt::OptimizerKind optimizer) {
  return rt::momentBytes(optimizer, held.getShape().vec(),
                         parameter->hasAttr(orthogonalizedAttrName));
}

} // namespace omnibal
#endif // PASSES_COMMON_OPTIMIZERATTRIBUTE_H
