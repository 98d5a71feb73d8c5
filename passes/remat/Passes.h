//===- Passes.h - Rematerialisation passes -----------------------------------------------===//
#ifndef PASSES_REMAT_PASSES_H
#define PASSES_REMAT_PASSES_H

#include "mlir/Pass/Pass.h"
#include <memory>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/remat/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/remat/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_REMAT_PASSES_H
