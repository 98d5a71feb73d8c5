//===- StreamSteps.h - Steps of data that never ends ----------------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_STREAMSTEPS_H
#define TOOLS_OMNIBAL_BATCH_STREAMSTEPS_H

#include "tools/omnibal-batch/Options.h"

namespace omnibal::rt {

/// Prints a line {"groups": [[sample, ...], ...]} for each balanced row, as soon as its window is
/// complete; with several data sets a sample is [data set, number]. Memory is that of a window.
/// What the windows were like goes to stderr at the end.
Status streamSteps(const ToolOptions &options, const BatchOptions &batching);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_STREAMSTEPS_H
