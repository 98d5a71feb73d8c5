//===- Passes.h - The layers of a model, frozen and with a loss ---------------------===//
#ifndef PASSES_LAYERS_PASSES_H
#define PASSES_LAYERS_PASSES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/layers/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/layers/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_LAYERS_PASSES_H
