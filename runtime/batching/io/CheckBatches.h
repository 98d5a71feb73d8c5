//===- CheckBatches.h - Whether batches are what they promise to be -------------------------===//
#ifndef RUNTIME_BATCHING_IO_CHECKBATCHES_H
#define RUNTIME_BATCHING_IO_CHECKBATCHES_H

#include "runtime/batching/Balance.h"

namespace omnibal::rt {

/// Checks the result alone, not how it came about: every sample is in exactly one group (skipped
/// ones in none); no group is above the caps except a sample alone that is itself above them; the
/// number of groups is a multiple of the ranks; groups are empty only if every other group has one
/// sample (there are too few to fill the last row); and the oversized samples are listed in order.
/// Otherwise it returns an Internal error with the number of the group or sample.
Status checkBatches(const SampleLengths &lengths, const BatchOptions &options,
                    const Batches &batches);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_IO_CHECKBATCHES_H
