//===- TrainingAttrs.h - What a module says of its optimizer beside its name ----------------===//
#ifndef DIALECTS_PIPELINE_TRAININGATTRS_H
#define DIALECTS_PIPELINE_TRAININGATTRS_H

#include "llvm/ADT/StringRef.h"

namespace omnibal {

/// On the module, a unit: AdamW's moments are codes of 8 bits.
inline constexpr llvm::StringLiteral codedMomentsAttrName = "omnibal.coded_moments";
/// On the module, a unit: a moving average of every value that trains is kept.
inline constexpr llvm::StringLiteral averagesAttrName = "omnibal.ema";

} // namespace omnibal

#endif // DIALECTS_PIPELINE_TRAININGATTRS_H
