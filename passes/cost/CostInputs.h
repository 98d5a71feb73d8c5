//===- CostInputs.h - Device, numbers and measured times by options of passes --------------===//
#ifndef PASSES_COST_COSTINPUTS_H
#define PASSES_COST_COSTINPUTS_H

#include "passes/cost/InputFiles.h"
#include "passes/cost/LayerCosts.h"

namespace omnibal::cost {

/// As passes have them.
struct CostInputs {
  std::string pass; ///< for messages
  std::string target, compute, device, cluster;
  std::vector<std::string> calibration;
  bool splitBackward = false;
};

/// Returns options without a load. Measured times are of their own in every result, because they
/// collect what the layers of a module are compared with.
rt::Result<CostOptions> readCostOptions(const CostInputs &inputs, InputFiles &files);

} // namespace omnibal::cost
#endif // PASSES_COST_COSTINPUTS_H
