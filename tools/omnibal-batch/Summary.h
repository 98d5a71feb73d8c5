//===- Summary.h - The result as a table for people -----------------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_SUMMARY_H
#define TOOLS_OMNIBAL_BATCH_SUMMARY_H

#include "runtime/batching/io/BatchesFolder.h"

namespace omnibal::rt {

std::string summary(const SampleLengths &lengths, const Batches &batches,
                    const BatchesRecord &record);

/// Names the first oversized samples and says what became of them; empty if there are none.
std::string oversizeNotice(const SampleLengths &lengths, const Batches &batches,
                           const BatchOptions &options);

/// "0.02 %", for a number of groups above the bound.
std::string gapText(const Batches &batches);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_SUMMARY_H
