//===- MeasuringTurns.h - When a calibration measures which load -----------------------------===//
#ifndef RUNTIME_TRAINING_CALIBRATION_MEASURINGTURNS_H
#define RUNTIME_TRAINING_CALIBRATION_MEASURINGTURNS_H

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace omnibal::rt {

using Seconds = std::chrono::duration<double>;

/// A load is measured until `end`, counted from the begin of the first turn.
struct MeasuringTurn {
  size_t load = 0;
  Seconds end{0};
};

/// `rounds` rounds over all loads, every other one backwards; each load has an equal part of its
/// share of the time in every round. Speeds of machines change over seconds: measured in one piece,
/// a load would have the speed of its piece, and the terms that are fitted to the loads would
/// mistake that for a difference between loads. In turns every load meets the same speeds, and the
/// median over its repeats leaves out rounds in which something else ran.
inline std::vector<MeasuringTurn> measuringTurns(std::span<const Seconds> shares, int rounds) {
  std::vector<MeasuringTurn> turns;
  Seconds end{0};
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < shares.size(); ++i) {
      const size_t load = round % 2 == 0 ? i : shares.size() - 1 - i;
      end += shares[load] / rounds;
      turns.push_back({load, end});
    }
  return turns;
}

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_CALIBRATION_MEASURINGTURNS_H
