#include "runtime/executor/TimeFit.h"
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace omnibal::rt {
namespace {

using Row = std::array<double, TimeFit::Terms>;

Row unitsOf(const TimedLoad &load) {
  return {1.0,
          static_cast<double>(load.tiles),
          static_cast<double>(load.tokens),
          static_cast<double>(load.squaredTokens),
          static_cast<double>(load.labels),
          static_cast<double>(load.squaredTiles)};
}

/// Solves the normal equations of the terms in `chosen` by elimination with pivots; false where
/// they are (nearly) dependent.
bool solve(const std::vector<Row> &rows, const std::vector<int> &chosen, Row &out) {
  size_t n = chosen.size();
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1, 0));
  for (const Row &row : rows)
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j)
        a[i][j] += row[chosen[i]] * row[chosen[j]];
      a[i][n] += row[chosen[i]]; // the right side is 1: errors are relative
    }
  constexpr double dependent = 1e-12;
  std::vector<double> diagonal(n);
  for (size_t i = 0; i < n; ++i)
    diagonal[i] = a[i][i];
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t r = c + 1; r < n; ++r)
      if (std::abs(a[r][c]) > std::abs(a[pivot][c]))
        pivot = r;
    if (std::abs(a[pivot][c]) <= dependent * diagonal[c])
      return false;
    std::swap(a[c], a[pivot]);
    for (size_t r = 0; r < n; ++r) {
      double factor = r == c ? 0 : a[r][c] / a[c][c];
      for (size_t k = c; factor != 0 && k <= n; ++k)
        a[r][k] -= factor * a[c][k];
    }
  }
  out = {};
  for (size_t i = 0; i < n; ++i)
    out[chosen[i]] = a[i][n] / a[i][i];
  return true;
}

double squaredError(const std::vector<Row> &rows, const Row &x) {
  double sum = 0;
  for (const Row &row : rows) {
    double value = -1;
    for (int t = 0; t < TimeFit::Terms; ++t)
      value += row[t] * x[t];
    sum += value * value;
  }
  return sum;
}

} // namespace

double TimeFit::at(const TimedLoad &load) const {
  Row units = unitsOf(load);
  double sum = 0;
  for (int t = 0; t < Terms; ++t)
    sum += units[t] * ns[t];
  return sum;
}

TimeFit fitTimes(std::span<const TimedLoad> loads, const TimeFit::Use &use) {
  std::vector<Row> rows;
  Row largest = {};
  for (const TimedLoad &load : loads)
    if (load.ns > 0) {
      Row row = unitsOf(load);
      for (int t = 0; t < TimeFit::Terms; ++t) {
        row[t] /= load.ns;
        largest[t] = std::max(largest[t], row[t]);
      }
      rows.push_back(row);
    }
  // Columns of one size keep the equations well conditioned.
  for (Row &row : rows)
    for (int t = 0; t < TimeFit::Terms; ++t)
      row[t] = largest[t] > 0 ? row[t] / largest[t] : 0;
  TimeFit fit;
  double best = squaredError(rows, {});
  for (unsigned mask = 1; mask < 1u << TimeFit::Terms; ++mask) {
    std::vector<int> chosen;
    bool allowed = true;
    for (int t = 0; t < TimeFit::Terms; ++t)
      if (mask >> t & 1) {
        chosen.push_back(t);
        allowed = allowed && use[t] && largest[t] > 0;
      }
    Row x;
    if (!allowed || chosen.size() > rows.size() || !solve(rows, chosen, x) ||
        std::any_of(x.begin(), x.end(), [](double v) { return v < 0; }))
      continue;
    double error = squaredError(rows, x);
    if (error >= best)
      continue;
    best = error;
    for (int t = 0; t < TimeFit::Terms; ++t)
      fit.ns[t] = largest[t] > 0 ? x[t] / largest[t] : 0;
  }
  for (const TimedLoad &load : loads)
    if (load.ns > 0)
      fit.error = std::max(fit.error, std::abs(fit.at(load) / load.ns - 1));
  return fit;
}

} // namespace omnibal::rt
