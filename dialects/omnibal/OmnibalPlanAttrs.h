//===- OmnibalPlanAttrs.h - Costs and plans as attributes --------------------------------===//
#ifndef DIALECTS_OMNIBAL_OMNIBALPLANATTRS_H
#define DIALECTS_OMNIBAL_OMNIBALPLANATTRS_H

#include "dialects/omnibal/OmnibalOps.h"

#include "dialects/omnibal/OmnibalPlanDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/omnibal/OmnibalPlanAttrs.h.inc"

namespace omnibal {
inline constexpr llvm::StringLiteral costAttrName = "omnibal.cost";
inline constexpr llvm::StringLiteral planAttrName = "omnibal.plan";
} // namespace omnibal

#endif // DIALECTS_OMNIBAL_OMNIBALPLANATTRS_H
