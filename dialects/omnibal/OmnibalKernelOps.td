//===- OmnibalKernelOps.td - What functions hold after lowering ----------------------------------------===//
#ifndef DIALECTS_OMNIBAL_OMNIBALKERNELOPS_TD
#define DIALECTS_OMNIBAL_OMNIBALKERNELOPS_TD

include "dialects/omnibal/OmnibalDialect.td"

#endif // DIALECTS_OMNIBAL_OMNIBALKERNELOPS_TD
