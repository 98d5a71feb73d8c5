//===- Calibration.h - Measured times of layer functions ---------------------------------===//
//
// A calibration is what `omnibal-run --calibrate` found out about a machine (docs/planner.md): the
// time of every function of a program as a function of the micro-batch's load, and what messages
// cost. A function's key is the digest of what it computes, so that a table serves every program
// with equal layers.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_COST_CALIBRATION_H
#define PASSES_COST_CALIBRATION_H

#include "passes/cost/MicrobatchLoad.h"
#include "runtime/support/Status.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace omnibal::cost {

/// Nanoseconds: fixed + tile * V + token * N + square * sum of squared sample lengths + label * L +
/// tileSquare * sum of the squared units of pictures.
struct MeasuredTime {
  double fixedNs = 0, tileNs = 0, tokenNs = 0, squareNs = 0, labelNs = 0, tileSquareNs = 0;
  double at(const MicrobatchLoad &load, double labels) const {
    return fixedNs + tileNs * static_cast<double>(load.tiles) +
           tokenNs * static_cast<double>(load.tokens) +
           squareNs * static_cast<double>(load.squares()) + labelNs * labels +
           tileSquareNs * static_cast<double>(load.tileSquares());
  }
};

struct MeasuredLink {
  int64_t latencyNs = 0, bytesPerSecond = 1;
};

struct Calibration {
  std::string target, compute;                   ///< of the program measured; empty: not said
  std::map<std::string, MeasuredTime> functions; ///< by digest
  double labelsPerToken = 1;
  int64_t actionNs = 0; ///< of a computing action, besides its layers
  std::optional<MeasuredLink> link, dataParallel;

  const MeasuredTime *find(const std::string &digest) const {
    auto found = functions.find(digest);
    return found == functions.end() ? nullptr : &found->second;
  }
  /// Adds the functions that are not there yet, and links where there are none.
  void add(const Calibration &other);
};

/// Parses a table of schema omnibal.calibration/1; `where` names the file in messages. Unknown
/// keys, missing ones, numbers out of range and digests that come twice are errors.
rt::Result<Calibration> parseCalibration(const std::string &text, const std::string &where);
rt::Result<Calibration> readCalibration(const std::string &path);

} // namespace omnibal::cost
#endif // PASSES_COST_CALIBRATION_H
