//===- Passes.h - Cutting layers into stages ---------------------------------------------===//
#ifndef PASSES_PARTITION_PASSES_H
#define PASSES_PARTITION_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/partition/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/partition/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_PARTITION_PASSES_H
