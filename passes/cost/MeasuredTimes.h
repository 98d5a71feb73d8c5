//===- MeasuredTimes.h - Times of a calibration table instead of the roofline's ------------===//
#ifndef PASSES_COST_MEASUREDTIMES_H
#define PASSES_COST_MEASUREDTIMES_H

#include "passes/cost/Calibration.h"
#include "passes/cost/LayerCosts.h"

namespace omnibal::cost {

/// A function that the table knows takes the measured time. Any other function takes its roofline
/// time, scaled by the ratio of measured functions to theirs.
class MeasuredTimes {
public:
  /// With `halves` the schedule may run the backward in halves, whose own times then count.
  explicit MeasuredTimes(Calibration table, bool halves = false)
      : table(std::move(table)), halves(halves) {}

  /// The same tables, for a schedule of its own.
  MeasuredTimes(const MeasuredTimes &other, bool halves)
      : table(other.table), halves(halves), assumed(other.assumed) {}
  /// Forgets what was compared, but for its ratio: all layers are compared at one load.
  void restart() {
    assume(scale());
    measured = roofline = 0;
  }
  /// The ratio of layers of which nothing is known: that of others on the same machine.
  void assume(double ratio) { assumed = ratio; }
  /// Compares what the table knows of these layers with the roofline. Call it with all layers
  /// before the first `of`.
  void compare(const LayerFacts &facts, const LayerTimes &roofline);
  /// A backward that was measured as a whole is divided as its halves were or, where these were not
  /// measured, as the roofline says.
  LayerTimes of(const LayerFacts &facts, const LayerTimes &roofline) const;
  /// Of a computing action, besides its layers.
  int64_t actionNs() const { return table.actionNs; }
  /// True if forward and backward, or its halves, were measured.
  bool knows(const LayerFacts &facts) const;
  /// Measured / roofline, over all functions compared; where nothing is known, what was assumed, or
  /// 1.
  double scale() const { return roofline > 0 ? measured / roofline : assumed; }

private:
  /// Nanoseconds at the facts' load, or none.
  std::optional<double> timeOf(const std::string &digest, const MicrobatchLoad &load) const;
  /// Returns the times of both halves of the backward, if every half that exists was measured.
  std::optional<std::pair<double, double>> halvesOf(const LayerFacts &facts) const;
  /// Returns the time of the whole backward, as one function or as two.
  std::optional<double> backwardOf(const LayerFacts &facts) const;

  Calibration table;
  bool halves;
  double measured = 0, roofline = 0, assumed = 1;
};

} // namespace omnibal::cost
#endif // PASSES_COST_MEASUREDTIMES_H
