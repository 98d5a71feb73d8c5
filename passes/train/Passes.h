//===- Passes.h - From layers to functions that train ------------------------------------===//
#ifndef PASSES_TRAIN_PASSES_H
#define PASSES_TRAIN_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/train/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/train/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_TRAIN_PASSES_H
