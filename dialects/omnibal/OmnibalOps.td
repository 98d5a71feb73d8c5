//===- OmnibalOps.td - All ops of the dialect --------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_OMNIBALOPS_TD
#define DIALECTS_OMNIBAL_OMNIBALOPS_TD

include "dialects/omnibal/OmnibalNNOps.td"
include "dialects/omnibal/OmnibalTrainOps.td"
include "dialects/omnibal/OmnibalKernelOps.td"

#endif // DIALECTS_OMNIBAL_OMNIBALOPS_TD
