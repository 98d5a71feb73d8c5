#include "runtime/batching/pack/ConfigurationLp.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt {
namespace {

constexpr int32_t one = 1 << 24; ///< a value of 1 in the knapsack
/// to -= factor * from
#if defined(__x86_64__) && defined(__linux__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void subtract(double *__restrict to, const double *__restrict from, size_t n, double factor) {
  for (size_t i = 0; i < n; ++i)
    to[i] -= factor * from[i];
}

constexpr double tolerance = 1e-7;     ///< of reduced costs
constexpr size_t columnsAPricing = 48; ///< new patterns at most
constexpr size_t patience = 12;        ///< pricings in which there must be progress

/// Basis, its inverse and the duals. Column -1 - i is the surplus of row i.
class Simplex {
public:
  Simplex(const std::vector<LpType> &types, int32_t tilesCap, int32_t tokensCap)
      : types(types), rows(types.size()), basis(rows), inverse(rows * rows, 0), level(rows),
        prices(rows, 0) {
    for (size_t i = 0; i < rows; ++i) {
      double fit = INT32_MAX;
      if (types[i].tiles > 0) {
        const int32_t whole = tilesCap / types[i].tiles;
        fit = whole;
      }
      if (types[i].tokens > 0)
        fit = std::min(fit, std::floor(tokensCap / types[i].tokens));
      add({{static_cast<uint32_t>(i), static_cast<uint32_t>(fit)}});
      basis[i] = static_cast<int64_t>(i);
      inverse[i * rows + i] = 1.0 / fit;
      // A little noise against ties, which make the simplex stand still.
      level[i] = types[i].count * (1 + 1e-11 * static_cast<double>((i * 2654435761u) % 1000)) / fit;
    }
    price();
  }

  /// Pivots until no column of the pool improves; false: out of work.
  bool optimize(int64_t &work, int64_t mostWork) {
    std::vector<double> direction(rows);
    while (true) {
      int64_t entering = 0;
      double most = tolerance;
      bool found = false;
      for (size_t i = 0; i < rows; ++i)
        if (-prices[i] > most) {
          most = -prices[i];
          entering = -1 - static_cast<int64_t>(i);
          found = true;
        }
      for (size_t p = 0; p < pool.size(); ++p) {
        double gain = value(pool[p]) - costs[p];
        if (gain > most) {
          most = gain;
          entering = static_cast<int64_t>(p);
          found = true;
        }
      }
      if (!found)
        return true;
      if (work >= mostWork)
        return false;
      work += static_cast<int64_t>(rows * rows);
      if (!pivot(entering, most, direction))
        return true; // the LP is bounded: only rounding leads here
    }
  }

  double value(const Pattern &pattern) const {
    double sum = 0;
    for (auto [type, times] : pattern)
      sum += prices[type] * times;
    return sum;
  }
  double cost(const Pattern &pattern) const {
    double sum = 0;
    for (auto [type, times] : pattern)
      sum += types[type].deviation * times;
    return 1 + deviationCost * std::abs(sum);
  }
  /// From now on patterns cost so.
  void setDeviationCost(double newCost) {
    deviationCost = newCost;
    for (size_t p = 0; p < pool.size(); ++p)
      costs[p] = cost(pool[p]);
    price();
  }
  void add(Pattern pattern) {
    costs.push_back(cost(pattern));
    pool.push_back(std::move(pattern));
  }
  const std::vector<double> &duals() const { return prices; }
  double costOfDeviation() const { return deviationCost; }
  bool plain() const { return deviationCost == 0; }
  double objective() const {
    double sum = 0;
    for (size_t i = 0; i < rows; ++i)
      sum += basis[i] >= 0 ? level[i] * costs[basis[i]] : 0;
    return sum;
  }
  void extract(LpSolution &solution) const {
    for (size_t i = 0; i < rows; ++i)
      if (basis[i] >= 0 && level[i] > 0) {
        solution.patterns.push_back(pool[basis[i]]);
        solution.uses.push_back(level[i]);
      }
  }

private:
  /// prices = costs of the basis times its inverse.
  void price() {
    std::fill(prices.begin(), prices.end(), 0.0);
    for (size_t k = 0; k < rows; ++k)
      if (basis[k] >= 0)
        for (size_t i = 0; i < rows; ++i)
          prices[i] += costs[basis[k]] * inverse[k * rows + i];
  }

  bool pivot(int64_t entering, double gain, std::vector<double> &direction) {
    for (size_t k = 0; k < rows; ++k) {
      const double *line = inverse.data() + k * rows;
      double sum = 0;
      if (entering < 0)
        sum = -line[-1 - entering];
      else
        for (auto [type, times] : pool[entering])
          sum += line[type] * times;
      direction[k] = sum;
    }
    size_t leaving = rows;
    double step = 0;
    for (size_t k = 0; k < rows; ++k) {
      if (direction[k] <= 1e-9)
        continue;
      double ratio = std::max(0.0, level[k]) / direction[k];
      // Of equal ratios the largest pivot is the most accurate.
      if (leaving == rows || ratio < step - 1e-12 ||
          (ratio <= step + 1e-12 && direction[k] > direction[leaving])) {
        leaving = k;
        step = ratio;
      }
    }
    if (leaving == rows)
      return false;
    double *pivotLine = inverse.data() + leaving * rows;
    double scale = 1 / direction[leaving];
    for (size_t i = 0; i < rows; ++i)
      pivotLine[i] *= scale;
    for (size_t k = 0; k < rows; ++k) {
      if (k == leaving || direction[k] == 0)
        continue;
      double factor = direction[k];
      double *line = inverse.data() + k * rows;
      subtract(line, pivotLine, rows, factor);
      level[k] -= factor * step;
    }
    level[leaving] = step;
    basis[leaving] = entering;
    if (++pivots % 64 == 0)
      price(); // anew, before rounding errors add up
    else
      subtract(prices.data(), pivotLine, rows, gain);
    return true;
  }

  const std::vector<LpType> &types;
  double deviationCost = 0;
  int64_t pivots = 0;
  size_t rows;
  std::vector<int64_t> basis;  ///< column of each row
  std::vector<double> inverse; ///< of the basis, [rows][rows]
  std::vector<double> level;   ///< of the basic columns
  std::vector<double> prices;
  std::vector<Pattern> pool;
  std::vector<double> costs; ///< of the pool
};

/// Column generation over one simplex.
class ColumnGeneration {
public:
  ColumnGeneration(const std::vector<LpType> &types, int32_t tilesCap, int32_t tokensCap,
                   int32_t unit, const LpLimits &limits)
      : types(types), tokensCap(tokensCap), up(items(unit, true), tilesCap, tokensCap / unit),
        down(items(unit, false), tilesCap, tokensCap / unit), simplex(types, tilesCap, tokensCap),
        limits(limits) {
    for (const LpType &type : types)
      exact = exact && type.tokens == std::floor(type.tokens / unit) * unit;
  }

  LpSolution run(const LpGoal &goal) {
    generate({0});
    if (goal.deviationCost > 0) {
      simplex.setDeviationCost(goal.deviationCost);
      generate({1, -1, 0});
    }
    simplex.extract(solution);
    for (double use : solution.uses)
      solution.value += use;
    return std::move(solution);
  }

private:
  std::vector<KnapsackItem> items(int32_t unit, bool roundUp) const {
    std::vector<KnapsackItem> result;
    for (const LpType &type : types) {
      double tokens = type.tokens / unit;
      int32_t units = static_cast<int32_t>(roundUp ? std::ceil(tokens) : std::floor(tokens));
      // Rounded up a type may pass the cap, rounded down vanish: it must not.
      units = std::min(units, tokensCap / unit);
      result.push_back({type.tiles, type.tiles == 0 ? std::max(1, units) : units});
    }
    return result;
  }

  /// |deviation| is the larger of two signs: with either one a knapsack's patterns are promising,
  /// without it they give the bound. Ends when no sign finds a pattern any more.
  void generate(const std::vector<double> &signs) {
    size_t rounds = signs.size() * (exact ? 1 : 2), idle = 0;
    std::vector<double> history; // of the objective
    for (size_t turn = 0; idle < rounds && knapsackWork < limits.knapsackWork; ++turn) {
      if (!simplex.optimize(pivotWork, limits.pivotWork))
        return;
      history.push_back(simplex.objective());
      if (turn >= patience &&
          history[turn - patience] - history[turn] < limits.progress * history[turn])
        return;
      double sign = signs[turn % signs.size()];
      bool roundUp = exact || turn / signs.size() % 2 == 0;
      Knapsack &knapsack = roundUp ? up : down;
      std::vector<int32_t> values = valuesFor(sign);
      knapsack.solve(values);
      knapsackWork += knapsack.work();
      if (sign == 0 && simplex.plain() && (exact || !roundUp))
        improveBound(values, knapsack.best());
      idle = addPatterns(knapsack) ? 0 : idle + 1;
    }
  }

  /// Prices as whole numbers, rounded down; less the part of the deviation's cost that has this
  /// sign.
  std::vector<int32_t> valuesFor(double sign) const {
    std::vector<int32_t> values(types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      double price = simplex.duals()[i] - sign * simplex.costOfDeviation() * types[i].deviation;
      values[i] = static_cast<int32_t>(std::clamp(price, 0.0, 2.0) * one);
    }
    return values;
  }

  /// Prices scaled so that no pattern is worth more than one are feasible: weak duality.
  void improveBound(const std::vector<int32_t> &values, int32_t best) {
    double sum = 0;
    for (size_t i = 0; i < types.size(); ++i)
      sum += types[i].count * values[i];
    double bound = sum / std::max(one, best);
    if (bound <= solution.bound)
      return;
    solution.bound = bound;
    solution.prices.assign(values.begin(), values.end());
    for (double &price : solution.prices)
      price /= one;
  }

  /// The most valuable patterns that are worth more than they cost, each the best with some type
  /// that the ones before do not hold; false: none.
  bool addPatterns(const Knapsack &knapsack) {
    std::vector<std::pair<int32_t, uint32_t>> ranked;
    for (uint32_t i = 0; i < types.size(); ++i)
      if (int32_t best = knapsack.bestWith(i); best > one + 16)
        ranked.push_back({-best, i});
    std::sort(ranked.begin(), ranked.end());
    std::vector<bool> covered(types.size());
    size_t tried = 0, added = 0;
    for (auto [best, type] : ranked) {
      if (covered[type])
        continue;
      if (++tried > columnsAPricing)
        break;
      Pattern pattern = knapsack.pattern(type);
      for (auto [other, times] : pattern)
        covered[other] = true;
      if (!fit(pattern) || simplex.value(pattern) <= simplex.cost(pattern) + tolerance)
        continue;
      simplex.add(std::move(pattern));
      ++added;
    }
    return added > 0;
  }

  /// Puts shorter types of as many tiles in place of others until the tokens are within the cap.
  bool fit(Pattern &pattern) const {
    double tokens = 0;
    for (auto [type, times] : pattern)
      tokens += types[type].tokens * times;
    while (tokens > tokensCap + 1e-6) {
      // The step that loses the least is the one whose saving is nearest to what is needed.
      size_t chosen = pattern.size();
      double least = 0;
      for (size_t k = 0; k < pattern.size(); ++k) {
        uint32_t type = pattern[k].first;
        if (type == 0 || types[type - 1].tiles != types[type].tiles)
          continue;
        double loss = simplex.duals()[type] - simplex.duals()[type - 1];
        if (chosen == pattern.size() || loss < least) {
          chosen = k;
          least = loss;
        }
      }
      if (chosen == pattern.size())
        return false;
      uint32_t type = pattern[chosen].first;
      tokens -= types[type].tokens - types[type - 1].tokens;
      if (--pattern[chosen].second == 0)
        pattern.erase(pattern.begin() + chosen);
      addTo(pattern, type - 1);
    }
    return true;
  }

  static void addTo(Pattern &pattern, uint32_t type) {
    auto at = std::lower_bound(pattern.begin(), pattern.end(), std::pair(type, 0u));
    if (at != pattern.end() && at->first == type)
      ++at->second;
    else
      pattern.insert(at, {type, 1});
  }

  const std::vector<LpType> &types;
  int32_t tokensCap;
  Knapsack up, down; ///< sizes rounded up, down
  Simplex simplex;
  LpLimits limits;
  bool exact = true; ///< nothing is rounded
  int64_t knapsackWork = 0, pivotWork = 0;
  LpSolution solution;
};

} // namespace

LpSolution solveConfigurationLp(const std::vector<LpType> &types, int32_t tilesCap,
                                int32_t tokensCap, int32_t unit, const LpGoal &goal,
                                const LpLimits &limits) {
  return ColumnGeneration(types, tilesCap, tokensCap, unit, limits).run(goal);
}

} // namespace omnibal::rt
