//===- RouterLoss.h - Names around the balancing loss of routers -------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_ROUTERLOSS_H
#define DIALECTS_OMNIBAL_IR_ROUTERLOSS_H

#include "llvm/ADT/StringRef.h"

namespace omnibal {

/// The graph's second output after the logits: one number, the balancing loss of a micro-batch.
constexpr llvm::StringLiteral routerLossOutput = "router_loss";
/// This attribute of the module is the factor with which the balancing loss is added to the mean
/// loss of a token.
constexpr llvm::StringLiteral routerLossCoefficientAttrName = "omnibal.router_loss_coefficient";

/// This batch value is one number, the gradient of the step's sum of losses with respect to the
/// balancing loss.
constexpr llvm::StringLiteral routerLossWeight = "router_loss_weight";
/// This batch value [N] is 1 for the tokens of the micro-batch and 0 for rows that belong to no
/// sample.
constexpr llvm::StringLiteral realTokens = "real_tokens";

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_ROUTERLOSS_H
