//===- LengthGroupsReport.h - A page about length groups ------------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_LENGTHGROUPSREPORT_H
#define TOOLS_OMNIBAL_BATCH_LENGTHGROUPSREPORT_H

#include "runtime/batching/lengths/EpochPlan.h"
#include <string>

namespace omnibal::rt {

/// Self-contained HTML: the length groups, the epoch as a band of modes, its time against both
/// bounds.
std::string lengthGroupsReport(const SampleLengths &lengths, const EpochPlan &plan);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_LENGTHGROUPSREPORT_H
