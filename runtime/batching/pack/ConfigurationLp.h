//===- ConfigurationLp.h - How often to use which pattern ------------------------------------===//
//
// This is the configuration LP of bin packing (Gilmore and Gomory 1961), with one variable per
// pattern and one row per type of sample: min sum x_p so that sum a_ip x_p >= count_i. The knapsack
// that the dual prices pose generates patterns. The revised simplex is our own, with an explicit
// inverse, for a few hundred rows at most.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_CONFIGURATIONLP_H
#define RUNTIME_BATCHING_PACK_CONFIGURATIONLP_H

#include "runtime/batching/pack/Knapsack.h"

namespace omnibal::rt {

struct LpType {
  int32_t tiles = 0;
  double tokens = 0;    ///< a mean, so not whole; not 0 with tiles 0
  double count = 0;     ///< above 0
  double deviation = 0; ///< see LpGoal
};

/// Among all solutions with equally few groups, those are wanted whose groups look like the whole:
/// a pattern costs 1 + deviationCost * |sum of the deviations of its samples|.
struct LpGoal {
  double deviationCost = 0;
};

struct LpLimits {
  double progress = 0; ///< relative, of twelve pricings; ends when it is less

  int64_t knapsackWork = int64_t(1) << 30; ///< additions of all pricings together
  int64_t pivotWork = int64_t(1) << 30;    ///< multiplications of all pivots together
};

struct LpSolution {
  double value = 0;           ///< sum of the uses
  double bound = 0;           ///< no solution is below
  std::vector<double> prices; ///< dual, a type each; the bound follows from them
  std::vector<Pattern> patterns;
  std::vector<double> uses; ///< of each pattern, above 0
};

/// Solves the LP. Every type fits the caps by itself. The knapsack counts tokens in multiples of
/// `unit`; patterns are found with sizes rounded up and, made to fit again, rounded down, so that
/// little is lost. The solution covers all counts, whether it is optimal or not (limits, unit).
LpSolution solveConfigurationLp(const std::vector<LpType> &types, int32_t tilesCap,
                                int32_t tokensCap, int32_t unit = 1, const LpGoal &goal = {},
                                const LpLimits &limits = {});

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_CONFIGURATIONLP_H
