//===- RankTable.h - What became of every division of the ranks ------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_RANKTABLE_H
#define TOOLS_OMNIBAL_COMPILE_RANKTABLE_H

#include "passes/plan/RankSearch.h"

namespace omnibal::compile {

/// One line a division: predicted step and bound, or why it has none; then the bound of all.
/// `withoutParts`: the flag because of which no division has parts, if there is one.
std::string rankTable(const plan::RankReport &report, const std::string &withoutParts);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_RANKTABLE_H
