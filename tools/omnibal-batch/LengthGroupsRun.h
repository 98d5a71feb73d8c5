//===- LengthGroupsRun.h - omnibal-batch with --length-groups -------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_LENGTHGROUPSRUN_H
#define TOOLS_OMNIBAL_BATCH_LENGTHGROUPSRUN_H

#include "tools/omnibal-batch/Options.h"

namespace omnibal::rt {

/// Reads lengths and candidates, plans the epoch, writes folder, report and table. The last
/// argument tells the most memory the process has had.
Status runLengthGroups(const ToolOptions &options, int64_t (*peakRssBytes)());

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_LENGTHGROUPSRUN_H
