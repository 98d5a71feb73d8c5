//===- OmnibalPlanAttrs.cpp - Costs and plans, and where they may stand ------------------===//
#include "dialects/omnibal/OmnibalPlanAttrs.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace omnibal;

#include "dialects/omnibal/OmnibalPlanDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/omnibal/OmnibalPlanAttrs.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/omnibal/OmnibalPlanAttrs.cpp.inc"
      >();
}

LogicalResult CostAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t forward,
                               int64_t inputGrad, int64_t weightGrad, int64_t saved) {
  if (std::min({forward, inputGrad, weightGrad, saved}) < 0)
    return emitError() << "cost_c1: nanoseconds and bytes of a cost must be >= 0";
  return success();
}

LogicalResult PlanAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef schedule,
                               int64_t stages, int64_t microbatches, int64_t dataParallel,
                               ArrayRef<int64_t> chunkRanks) {
  if (std::min({stages, microbatches, dataParallel}) < 1)
    return emitError() << "plan_c1: stages, microbatches and data_parallel must be >= 1";
  for (auto [chunk, rank] : llvm::enumerate(chunkRanks))
    if (rank < 0 || rank >= stages)
      return emitError() << "plan_c2: chunk " << chunk << " is on rank " << rank << ", but there "
                         << "are " << stages << " stages";
  // Checked by counting, not by building a table: `stages` is input and may be any number.
  llvm::SmallVector<int64_t> used(chunkRanks);
  llvm::sort(used);
  used.erase(llvm::unique(used), used.end());
  if (static_cast<int64_t>(used.size()) != stages)
    return emitError() << "plan_c2: " << used.size() << " of " << stages << " stages have a chunk";
  return success();
}
