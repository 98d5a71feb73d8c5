//===- Passes.h - The search of layouts -------------------------------------------------------===//
#ifndef PASSES_SHARD_SEARCH_PASSES_H
#define PASSES_SHARD_SEARCH_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "passes/cost/InputFiles.h"
#include <memory>

namespace omnibal {
#define GEN_PASS_DECL
#include "passes/shard/search/Passes.h.inc"

/// Reads the cluster's file from `files`.
std::unique_ptr<mlir::Pass> createSearchLayouts(const SearchLayoutsOptions &options,
                                                std::shared_ptr<cost::InputFiles> files);

/// Layouts that are no file, as pipelines call them: searched, and all parts do the same.
inline constexpr const char *searchedLayouts = "search", *noLayouts = "none";

/// Adds the passes that divide stages as `layouts` says: `search` or a file; not noLayouts.
void addLayoutPasses(mlir::OpPassManager &passes, const std::string &layouts,
                     const SearchLayoutsOptions &search, std::shared_ptr<cost::InputFiles> files);

#define GEN_PASS_REGISTRATION
#include "passes/shard/search/Passes.h.inc"
} // namespace omnibal

#endif // PASSES_SHARD_SEARCH_PASSES_H
