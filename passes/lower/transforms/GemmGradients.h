//===- GemmGradients.h - Products that do what surrounds them in a backward --------------===//
//
// These steps are for target cuda, whose library of products has such epilogues. Each is taken only
// where it saves a pass over memory, so not where a fused group reads the same values anyway.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_TRANSFORMS_GEMMGRADIENTS_H
#define PASSES_LOWER_TRANSFORMS_GEMMGRADIENTS_H

#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal::lower {

/// Handles gelu(product) whose argument has other readers: the product gives both.
void keepArgument(GeluOp op);
/// Handles gelu_grad(x, product), which is the product times the derivative at x.
void absorbGeluGrad(GeluGradOp op);
/// Computes a bias's gradient, the sum of dy over the tokens, together with the weight's, which
/// reads dy too.
void absorbColumnSum(ReduceOp op);

} // namespace omnibal::lower
#endif // PASSES_LOWER_TRANSFORMS_GEMMGRADIENTS_H
