//===- OmnibalCrossOps.h - Tokens that attend to pictures ----------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALCROSSOPS_H
#define DIALECTS_OMNIBAL_IR_OMNIBALCROSSOPS_H

#include "dialects/omnibal/ir/OmnibalOps.h"

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalCrossOps.h.inc"

#endif // DIALECTS_OMNIBAL_IR_OMNIBALCROSSOPS_H
