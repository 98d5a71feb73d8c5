//===- OmnibalStageOps.h - What each stage does, in order --------------------------------===//
#ifndef DIALECTS_OMNIBAL_OMNIBALSTAGEOPS_H
#define DIALECTS_OMNIBAL_OMNIBALSTAGEOPS_H

#include "dialects/omnibal/OmnibalOps.h"
#include "dialects/omnibal/OmnibalPlanAttrs.h"
#include "mlir/IR/BuiltinOps.h"

#include "dialects/omnibal/OmnibalStageEnums.h.inc"

#define GET_OP_CLASSES
#include "dialects/omnibal/OmnibalStageOps.h.inc"

#endif // DIALECTS_OMNIBAL_OMNIBALSTAGEOPS_H
