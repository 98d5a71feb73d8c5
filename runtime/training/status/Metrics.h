//===- Metrics.h - A run's numbers for Prometheus -------------------------------------------===//
#ifndef RUNTIME_TRAINING_STATUS_METRICS_H
#define RUNTIME_TRAINING_STATUS_METRICS_H

#include <nlohmann/json.hpp>
#include <string>

namespace omnibal::rt {

/// What is told of a run: its name, which keeps apart the files that a collector reads together;
/// the log's line of the newest step; what the newest evaluation found (null: nothing yet); and
/// when that was, in seconds since 1970.
struct RunMetrics {
  std::string run;
  nlohmann::ordered_json step, evaluation;
  double time = 0;
};

/// The text of a .prom file. A number of the log is the gauge omnibal_FIELD, and what has seen
/// samples and tokens a counter omnibal_FIELD_total. A number of a part (of lr_of, say) is told
/// apart by the label `name`, and one of a source of an evaluation by `source`. Texts and numbers
/// that are none are left out.
std::string metricsText(const RunMetrics &metrics);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_STATUS_METRICS_H
