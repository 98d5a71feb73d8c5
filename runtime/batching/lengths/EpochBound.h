//===- EpochBound.h - What no epoch can be faster than --------------------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_EPOCHBOUND_H
#define RUNTIME_BATCHING_LENGTHS_EPOCHBOUND_H

#include "runtime/batching/lengths/LengthGroups.h"
#include "runtime/batching/pack/Histogram.h"

namespace omnibal::rt {

/// The samples of each exact length, in order of tiles, then tokens.
std::vector<Cell> countLengths(const SampleLengths &lengths);

/// The least time that one sample takes in a mode: e = tile * v + token * t + square * t^2. The
/// share of a group that it fills is theta t / T + (1 - theta) v / V.
struct SampleTime {
  double tile = 0, token = 0, square = 0;
  double of(double tiles, double tokens) const {
    return tile * tiles + (token + square * tokens) * tokens;
  }
};
SampleTime sampleTime(const LengthGroup &group, int32_t stages, double theta);

struct EpochBound {
  double ns = 0;
  double theta = 1; ///< the share of tokens, of 0, 1/8 .. 1, with which the bound is best
};
/// Sum over samples of their least time in any of the modes. Some mode holds every sample.
EpochBound epochBound(const std::vector<Cell> &cells, const LengthGroups &groups);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_EPOCHBOUND_H
