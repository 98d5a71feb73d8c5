//===- TimeFit.h - Time of a function from measurements at several loads ------------------===//
#ifndef RUNTIME_EXECUTOR_TIMEFIT_H
#define RUNTIME_EXECUTOR_TIMEFIT_H

#include <array>
#include <cstdint>
#include <span>

namespace omnibal::rt {

/// What the time of a layer function may depend on, besides a fixed part.
struct TimedLoad {
  int64_t tiles = 0, tokens = 0;
  int64_t squaredTokens = 0; ///< sum over samples of length^2
  int64_t labels = 0;        ///< tokens with a loss
  double ns = 0;             ///< measured
  int64_t squaredTiles = 0;  ///< sum over pictures of units^2
};

/// ns = fixed + tile * V + token * N + square * sum of squared lengths + label * L + tile square *
/// sum of the squared units of pictures.
struct TimeFit {
  enum Term { Fixed, Tile, Token, Square, Label, TileSquare, Terms };
  using Use = std::array<bool, Terms>;
  std::array<double, Terms> ns = {}; ///< per unit of each term, none negative
  double error = 0;                  ///< largest |fit / measured - 1| over the measurements

  double at(const TimedLoad &load) const;
};

/// The least sum of squared relative errors among all fits of the terms in `use` without a negative
/// coefficient (every choice of terms that may differ from zero is tried, so it is exact).
/// Measurements of no positive time are left out; without any the fit is zero.
TimeFit fitTimes(std::span<const TimedLoad> loads, const TimeFit::Use &use);

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_TIMEFIT_H
