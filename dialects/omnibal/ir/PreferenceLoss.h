//===- PreferenceLoss.h - Names around the loss of pairs of answers ----------------------===//
#ifndef DIALECTS_OMNIBAL_IR_PREFERENCELOSS_H
#define DIALECTS_OMNIBAL_IR_PREFERENCELOSS_H

#include "llvm/ADT/StringRef.h"

namespace omnibal {

/// This batch value [N] has at the first row of a sample the log-probability that the model which
/// training begins with gives its labels.
constexpr llvm::StringLiteral referenceValue = "reference";
/// This attribute of the module says that samples are pairs of answers: what rewards are multiplied
/// by.
constexpr llvm::StringLiteral preferenceBetaAttrName = "omnibal.preference_beta";

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_PREFERENCELOSS_H
