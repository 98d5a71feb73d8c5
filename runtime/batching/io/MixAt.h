//===- MixAt.h - Weights of data sets from somewhere on, as flags say them --------------------===//
#ifndef RUNTIME_BATCHING_IO_MIXAT_H
#define RUNTIME_BATCHING_IO_MIXAT_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Weights that hold from an epoch, or from a step, on.
struct WeightsFrom {
  int64_t first = 0;
  std::vector<double> weights;
  bool operator==(const WeightsFrom &) const = default;
};

/// Reads a value of --mix-at, "2=1,3". `unit` is what is counted, for errors: "EPOCH" or "STEP".
Result<WeightsFrom> parseMixAt(const std::string &text, const std::string &unit);
/// "1,3".
std::string weightsText(const std::vector<double> &weights);
/// "2=1,3".
std::string mixAtText(const WeightsFrom &from);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_IO_MIXAT_H
