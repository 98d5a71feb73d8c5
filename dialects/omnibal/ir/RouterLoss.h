//===- RouterLoss.h - Names around the balancing loss of routers -------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_ROUTERLOSS_H
#define DIALECTS_OMNIBAL_IR_ROUTERLOSS_H

#include "llvm/ADT/StringRef.h"

namespace omnibal {

/// The graph's output beside the logits: a number, the balancing loss of a micro-batch.
constexpr llvm::StringLiteral routerLossOutput = "router_loss";
/// On the module: how many times it counts beside the mean loss of a token.
constexpr llvm::StringLiteral routerLossCoefficientAttrName = "omnibal.router_loss_coefficient";

/// Batch value, a number: the gradient of the step's sum of losses by the balancing loss.
constexpr llvm::StringLiteral routerLossWeight = "router_loss_weight";
/// Batch value [N]: 1 for the tokens of the micro-batch, 0 for rows that belong to nobody.
constexpr llvm::StringLiteral realTokens = "real_tokens";

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_ROUTERLOSS_H
