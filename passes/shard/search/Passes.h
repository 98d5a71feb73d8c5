//===- Passes.h - The search of layouts -------------------------------------------------------===//
#ifndef PASSES_SHARD_SEARCH_PASSES_H
#define PASSES_SHARD_SEARCH_PASSES_H

#include "mlir/Pass/Pass.h"
#include "passes/cost/InputFiles.h"
#include <memory>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/shard/search/Passes.h.inc"

/// Reads the cluster's file from `files`.
std::unique_ptr<mlir::Pass> createSearchLayouts(const SearchLayoutsOptions &options,
                                                std::shared_ptr<cost::InputFiles> files);

#define GEN_PASS_REGISTRATION
#include "passes/shard/search/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_SHARD_SEARCH_PASSES_H
