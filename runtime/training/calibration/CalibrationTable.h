//===- CalibrationTable.h - Measured times as a file -----------------------------------------===//
#ifndef RUNTIME_TRAINING_CALIBRATION_CALIBRATIONTABLE_H
#define RUNTIME_TRAINING_CALIBRATION_CALIBRATIONTABLE_H

#include "runtime/executor/TimeFit.h"
#include "runtime/program/Program.h"
#include "runtime/support/Status.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Time of a message or a reduction: latency + bytes / speed.
struct MeasuredLink {
  double latencyNs = 0, bytesPerSecond = 0;
};

/// One function of the program at every load that it was measured at.
struct MeasuredFunction {
  std::string name, layer; ///< in the program that was measured; `layer` is one that calls it
  std::vector<TimedLoad> loads;
  std::vector<double> calls; ///< how many measurements stand behind each load

  /// Averages over loads that are equal: a program may have a function several times, as its train
  /// modes do.
  void add(const TimedLoad &load, double callsOfLoad);
};

/// What one rank found out, or all of them.
struct Measurements {
  std::map<std::string, MeasuredFunction> functions; ///< by digest
  double noise = 0;    ///< relative median deviation of a repeat's time from the median repeat's
  double actionNs = 0; ///< what a computing action takes beside its layer calls
  std::optional<MeasuredLink> link, reduction;

  nlohmann::json toJson() const;
  static Measurements fromJson(const nlohmann::json &json);
  /// Averages over ranks: functions by their number of measurements; the largest noise; the slowest
  /// links.
  void add(const Measurements &other);
};

/// Which terms a function's time can have: by the sizes of its buffers, with squared lengths where
/// it has attention over tokens, with labels where it reads targets.
TimeFit::Use termsOf(const Function &function);

/// The text of a calibration table, schema omnibal.calibration/1 (docs/planner.md). `device`: what
/// computed, if it is not this machine's processor.
std::string calibrationTable(const Program &program, const Measurements &measurements,
                             double labelsPerToken, int threads, const std::string &device);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_CALIBRATION_CALIBRATIONTABLE_H
