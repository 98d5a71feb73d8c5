//===- LengthGroupTable.h - Candidates for training modes as a table ------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_LENGTHGROUPTABLE_H
#define TOOLS_OMNIBAL_COMPILE_LENGTHGROUPTABLE_H

#include "passes/plan/LengthGroupSearch.h"

namespace omnibal::compile {

/// One line for each candidate that is the best one for some length, and the epoch's time with its
/// bound. `times`: where the costs are from, for people.
std::string lengthGroupTable(const plan::LengthGroupReport &report, const std::string &times);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_LENGTHGROUPTABLE_H
