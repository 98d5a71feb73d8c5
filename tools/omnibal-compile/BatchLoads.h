//===- BatchLoads.h - The loads of a folder of omnibal-batch --------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_BATCHLOADS_H
#define TOOLS_OMNIBAL_COMPILE_BATCHLOADS_H

#include "passes/cost/StepLoads.h"
#include "runtime/support/Status.h"

namespace omnibal::compile {

/// Reads the groups and the samples' lengths. Errors: no lengths.npy, balanced over other ranks
/// than `replicas`, caps above those of the program.
rt::Result<cost::EpochLoads> readBatchLoads(const std::string &folder, int64_t replicas,
                                            int64_t tilesCap, int64_t tokensCap);

/// {"tile_ns": ..., "token_ns": ..., "square_ns": ...}, as omnibal-batch --cost reads it.
std::string batchCostJson(const cost::UnitCosts &costs);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_BATCHLOADS_H
