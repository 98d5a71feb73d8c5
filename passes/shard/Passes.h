//===- Passes.h - Layouts of what the parts of a stage hold ----------------------------------===//
#ifndef PASSES_SHARD_PASSES_H
#define PASSES_SHARD_PASSES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/shard/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/shard/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_SHARD_PASSES_H
