//===- BatchCost.h - What omnibal-batch --cost reads ------------------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_BATCHCOST_H
#define TOOLS_OMNIBAL_COMPILE_BATCHCOST_H

#include "passes/cost/StepLoads.h"

namespace omnibal::compile {

/// {"tile_ns": ..., "token_ns": ..., "square_ns": ...}, as omnibal-batch --cost reads it; of a
/// model that attends within pictures of any size also "tile_square_ns".
std::string batchCostJson(const cost::UnitCosts &costs);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_BATCHCOST_H
