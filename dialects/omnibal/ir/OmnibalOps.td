//===- OmnibalOps.td - All ops of the dialect --------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALOPS_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALOPS_TD

include "dialects/omnibal/ir/OmnibalNNOps.td"
include "dialects/omnibal/ir/OmnibalTrainOps.td"
include "dialects/omnibal/ir/OmnibalKernelOps.td"

#endif // DIALECTS_OMNIBAL_IR_OMNIBALOPS_TD
