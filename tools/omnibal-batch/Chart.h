//===- Chart.h - Two kinds of pictures, as SVG ----------------------------------------------===//
//
// Both show the same quantity of every group twice, above without and below with balancing, on one
// scale. Colors come from the page's style sheet.
//
//===----------------------------------------------------------------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_CHART_H
#define TOOLS_OMNIBAL_BATCH_CHART_H

#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::rt {

/// A quantity of all groups, row after row of `ranks` groups.
struct Loads {
  std::string label; ///< "without balancing", ...
  std::vector<double> values;
  int32_t ranks = 1;
};

struct Quantity {
  std::string unit; ///< "tiles", "tokens", "ms"
  bool whole = true;
  double cap = 0; ///< drawn as a line; 0: none
};

/// How many groups have how much.
std::string histogram(const Loads &before, const Loads &after, const Quantity &quantity);

/// A bar a row, from its least to its most loaded rank, for the first rows.
std::string rowRanges(const Loads &before, const Loads &after, const Quantity &quantity);

/// 1234567 as "1,234,567".
std::string withCommas(int64_t number);
/// Returns as few digits as tell the value: "0.0123", "4.5", "1,234".
std::string shortNumber(double value);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_CHART_H
