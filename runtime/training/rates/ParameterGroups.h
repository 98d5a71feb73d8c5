//===- ParameterGroups.h - Which parameters learn at which rate ---------------------------===//
#ifndef RUNTIME_TRAINING_RATES_PARAMETERGROUPS_H
#define RUNTIME_TRAINING_RATES_PARAMETERGROUPS_H

#include "runtime/device/UpdateRates.h"
#include "runtime/support/Status.h"
#include "runtime/training/rates/LearningRate.h"
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace omnibal::rt {

/// A number for the parameters that a pattern finds: a component's name stands for that component,
/// anything else is a regular expression (POSIX extended) over names.
struct GroupRule {
  std::string pattern;
  double value = 0;
};

struct GroupOptions {
  std::vector<GroupRule> rates, decays, warmups; ///< learning rate, weight decay, warm-up steps
  std::optional<double> layerDecay;              ///< of the vision tower, a layer

  bool empty() const { return rates.empty() && decays.empty() && warmups.empty() && !layerDecay; }
};

/// PATTERN=NUMBER, divided at the last "=". The number must be finite and not negative.
Result<GroupRule> parseGroupRule(const std::string &flag, const std::string &text);

struct TrainedParameter {
  std::string name;  ///< in the source checkpoint
  std::string layer; ///< that reads it: "vision.layers.3"
  int64_t elements = 0;
  bool decay = true; ///< at least two dimensions
};

struct TrainedParts {
  std::vector<TrainedParameter> parameters;
  int64_t visionBlocks = 0; ///< the tower's blocks, also those that do not train
};

struct ParameterGroup {
  std::string label; ///< the rules that found it
  LearningRateOptions rate;
  double weightDecay = 0;
  bool decay = true; ///< what has at least two dimensions
  int64_t tensors = 0, elements = 0;
};

struct ParameterGroups {
  std::vector<ParameterGroup> list;
  std::map<std::string, int32_t> ofParameter; ///< number in `list`
  /// Of the model that has each: vision, projector or language.
  std::map<std::string, std::string> partOfParameter;
  bool ruled = false; ///< by more than the dimensions

  /// One for each group.
  std::vector<UpdateRate> ratesAt(int64_t step, int64_t steps) const;
  /// By label; nothing where no rule says so.
  std::vector<std::pair<std::string, double>> learningRatesAt(int64_t step, int64_t steps) const;
  /// A row for each group.
  std::string table() const;
};

/// Divides what trains. `rate` and `weightDecay` are of parameters that no rule finds.
Result<ParameterGroups> groupParameters(const TrainedParts &model, const LearningRateOptions &rate,
                                        double weightDecay, const GroupOptions &options);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_RATES_PARAMETERGROUPS_H
