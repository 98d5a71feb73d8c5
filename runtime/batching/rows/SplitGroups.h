//===- SplitGroups.h - A number of groups that is a multiple of the ranks --------------------===//
#ifndef RUNTIME_BATCHING_ROWS_SPLITGROUPS_H
#define RUNTIME_BATCHING_ROWS_SPLITGROUPS_H

#include "runtime/batching/rows/Grouping.h"

namespace omnibal::rt {

/// Splits groups until their number is a multiple of `ranks`. It first takes groups that fall into
/// equal halves, because the halves end up in one row. If no group with two samples is left, it
/// adds empty groups.
void splitToMultiple(const SampleLengths &lengths, int32_t ranks, Caps caps, LoadedGroups &groups);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_ROWS_SPLITGROUPS_H
