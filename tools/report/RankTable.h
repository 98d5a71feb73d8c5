//===- RankTable.h - What became of every division of the ranks ------------------------------===//
#ifndef TOOLS_REPORT_RANKTABLE_H
#define TOOLS_REPORT_RANKTABLE_H

#include "runtime/planner/search/ranks/DivisionSearch.h"

namespace omnibal::report {

/// How a table says what depends on the tool.
struct RankTableWords {
  std::string layoutPrice = "layout price";
  std::string withoutParts; ///< the flag because of which no division has parts, if there is one
};

/// One line a division: predicted step and bound, or why it has none; then the bound of all.
std::string rankTable(const planner::RankReport &report, const RankTableWords &words = {});

} // namespace omnibal::report
#endif // TOOLS_REPORT_RANKTABLE_H
