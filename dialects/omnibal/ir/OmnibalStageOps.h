//===- OmnibalStageOps.h - What each stage does, in order --------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALSTAGEOPS_H
#define DIALECTS_OMNIBAL_IR_OMNIBALSTAGEOPS_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/BuiltinOps.h"

#include "dialects/omnibal/ir/OmnibalStageEnums.h.inc"

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalStageOps.h.inc"

#endif // DIALECTS_OMNIBAL_IR_OMNIBALSTAGEOPS_H
