//===- Input.h - Sample lengths from a table or from shards ---------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_INPUT_H
#define TOOLS_OMNIBAL_BATCH_INPUT_H

#include "runtime/batching/Balance.h"
#include <string>
#include <vector>

namespace omnibal::rt {

/// One table (runtime/batching/LengthsCsv.h), or WebDataset shards and folders of them: sample n is
/// then the n-th of the data set, as omnibal-run numbers them.
Result<SampleLengths> readLengths(const std::vector<std::string> &inputs);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_INPUT_H
