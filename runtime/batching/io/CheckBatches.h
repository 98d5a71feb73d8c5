//===- CheckBatches.h - Whether batches are what they promise to be -------------------------===//
#ifndef RUNTIME_BATCHING_IO_CHECKBATCHES_H
#define RUNTIME_BATCHING_IO_CHECKBATCHES_H

#include "runtime/batching/Balance.h"

namespace omnibal::rt {

/// Looks at the result alone, not at how it came about: every sample in exactly one group (skipped
/// ones in none), no group above the caps but a sample alone that is itself above them, the number
/// of groups a multiple of the ranks, empty groups only where every other group has one sample
/// (there are too few to fill the last row), the oversized samples listed in order. Internal, with
/// the group's or sample's number, otherwise.
Status checkBatches(const SampleLengths &lengths, const BatchOptions &options,
                    const Batches &batches);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_IO_CHECKBATCHES_H
