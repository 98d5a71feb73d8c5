//===- GemmGradients.h - Products that do what surrounds them in a backward --------------===//
//
// For target cuda, whose library of products has these epilogues. Each step only where it saves a
// pass over memory: not where a fused group reads the same values anyway.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_LOWER_TRANSFORMS_GEMMGRADIENTS_H
#define PASSES_LOWER_TRANSFORMS_GEMMGRADIENTS_H

#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal::lower {

/// gelu(product) whose argument has other readers: the product gives both.
void keepArgument(GeluOp op);
/// gelu_grad(x, product) is the product times the derivative at x.
void absorbGeluGrad(GeluGradOp op);
/// A bias's gradient, the sum of dy over the tokens, beside the weight's, which reads dy too.
void absorbColumnSum(ReduceOp op);

} // namespace omnibal::lower
#endif // PASSES_LOWER_TRANSFORMS_GEMMGRADIENTS_H
