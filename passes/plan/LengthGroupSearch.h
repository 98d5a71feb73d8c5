//===- LengthGroupSearch.h - Which length groups a model may be trained with ----------------===//
#ifndef PASSES_PLAN_LENGTHGROUPSEARCH_H
#define PASSES_PLAN_LENGTHGROUPSEARCH_H

#include "mlir/IR/BuiltinOps.h"
#include "passes/cost/LayerCosts.h"
#include <functional>

namespace omnibal::plan {

struct LengthGroupRequest {
  std::string lengths;       ///< CSV, one sample a line
  std::string output;        ///< file to write; empty: none
  int64_t tokensPerStep = 0; ///< 0: those of `microbatches` full ones of the longest sample
  int64_t microbatches = 4;
  std::string schedule = "1f1b";      ///< gpipe | 1f1b
  std::vector<int64_t> degrees = {1}; ///< replicas that may run a micro-batch together
  /// Writes the layouts of a module whose `omnibal.train_mode` has a degree above 1.
  std::function<llvm::LogicalResult(mlir::ModuleOp)> addLayouts;
};

/// A candidate as people want to know it.
struct CandidateRow {
  std::string name;
  int64_t tiles = 0, tokens = 0, microbatches = 0; ///< caps, and rows of a step
  int64_t recomputed = 0;                          ///< layers that do not keep everything
  std::vector<int64_t> bytes;                      ///< by stage: the arena
  double tokenNs = 0;     ///< of a rank, for a token of the samples that want it, bubbles included
  double bubble = 0;      ///< share of a step's time that a stage waits
  int64_t calmTokens = 0; ///< tokens a step that would halve that
  bool wanted = false;    ///< it is the best candidate for some length
  bool chosen = false;
};

struct LengthGroupReport {
  std::vector<CandidateRow> candidates; ///< those that fit, by tokens
  int64_t tried = 0;                    ///< candidates, with those that do not fit
  int64_t cutsTried = 0, layers = 0, samples = 0, tokensPerStep = 0;
  std::vector<int64_t> cuts;
  double relaxedNs = 0, boundNs = 0;
};

/// Searches for candidates, cuts that all of them share, and what each costs (docs/planner.md), for
/// a module in form L with a loss and `omnibal.cluster`, which stays as it is. Writes the file.
llvm::FailureOr<LengthGroupReport> searchLengthGroups(mlir::ModuleOp module,
                                                      const cost::CostOptions &costs,
                                                      const LengthGroupRequest &request);

} // namespace omnibal::plan
#endif // PASSES_PLAN_LENGTHGROUPSEARCH_H
