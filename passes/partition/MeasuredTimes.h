//===- MeasuredTimes.h - Times of a calibration table instead of the roofline's ------------===//
#ifndef PASSES_PARTITION_MEASUREDTIMES_H
#define PASSES_PARTITION_MEASUREDTIMES_H

#include "passes/cost/Calibration.h"
#include "passes/partition/LayerCosts.h"

namespace omnibal::partition {

/// A function that the table knows takes the time measured, any other one its roofline time times
/// what measured functions take of theirs.
class MeasuredTimes {
public:
  explicit MeasuredTimes(cost::Calibration table) : table(std::move(table)) {}

  /// Compares what the table knows of these layers with the roofline. Call it with all layers
  /// before the first `of`.
  void compare(const LayerFacts &facts, const LayerTimes &roofline);
  /// Backward is measured as a whole; its halves stand in the roofline's proportion.
  LayerTimes of(const LayerFacts &facts, const LayerTimes &roofline) const;
  /// Whether both functions of the layer were measured.
  bool knows(const LayerFacts &facts) const;
  /// Measured / roofline, over all functions compared; 1 where nothing is known.
  double scale() const { return roofline > 0 ? measured / roofline : 1; }

private:
  /// Nanoseconds at the facts' load, or none.
  std::optional<double> timeOf(const std::string &digest, const Load &load) const;

  cost::Calibration table;
  double measured = 0, roofline = 0;
};

} // namespace omnibal::partition
#endif // PASSES_PARTITION_MEASUREDTIMES_H
