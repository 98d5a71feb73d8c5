//===- Passes.h - Passes of the lowering phase -------------------------------------------===//
#ifndef PASSES_LOWER_PASSES_H
#define PASSES_LOWER_PASSES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/Pass/Pass.h"

namespace omnibal::lower {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/lower/Passes.h.inc"

} // namespace omnibal::lower
#endif // PASSES_LOWER_PASSES_H
