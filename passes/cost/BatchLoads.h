//===- BatchLoads.h - The loads of a folder of omnibal-batch --------------------------------===//
#ifndef PASSES_COST_BATCHLOADS_H
#define PASSES_COST_BATCHLOADS_H

#include "passes/cost/StepLoads.h"
#include "runtime/support/Status.h"

namespace omnibal::cost {

/// Reads the groups and the samples' lengths. Errors: no lengths.npy, balanced over other ranks
/// than `replicas`, caps above those of the program.
rt::Result<EpochLoads> readBatchLoads(const std::string &folder, int64_t replicas, int64_t tilesCap,
                                      int64_t tokensCap);

/// Reads those of the micro-batches that one training mode runs, row after row, from a folder with
/// length groups. A step has the mode's number of micro-batches; only the last may have less.
rt::Result<EpochLoads> readModeLoads(const std::string &folder, int64_t replicas, int64_t mode);

} // namespace omnibal::cost
#endif // PASSES_COST_BATCHLOADS_H
