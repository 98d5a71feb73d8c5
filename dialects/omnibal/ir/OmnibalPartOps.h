//===- OmnibalPartOps.h - Where the parts of a stage meet ------------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALPARTOPS_H
#define DIALECTS_OMNIBAL_IR_OMNIBALPARTOPS_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalPartOps.h.inc"

#endif // DIALECTS_OMNIBAL_IR_OMNIBALPARTOPS_H
