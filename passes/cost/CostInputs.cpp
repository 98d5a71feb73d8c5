#include "passes/cost/CostInputs.h"
#include "passes/cost/MeasuredTimes.h"

namespace omnibal::cost {
namespace {

/// Between GPUs of one machine.
constexpr planner::Link deviceLink{20'000, 370'000'000'000};

rt::Result<PartsLink> partsLinkOf(const CostInputs &inputs, InputFiles &files) {
  PartsLink link;
  link.otherwise = inputs.target == "cuda" ? deviceLink : planner::defaultLink;
  if (!inputs.cluster.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(planner::ClusterFile file, files.cluster(inputs.cluster));
    link.given = file.parts;
    link.node = file.node;
    if (file.givesLink)
      link.otherwise = file.cluster.link;
  }
  return link;
}

rt::Result<Device> deviceOf(const CostInputs &inputs, InputFiles &files) {
  std::string name = inputs.device;
  if (!inputs.cluster.empty()) {
    OMNIBAL_ASSIGN_OR_RETURN(planner::ClusterFile file, files.cluster(inputs.cluster));
    if (file.deviceObject)
      return readDevice(*file.deviceObject, inputs.cluster + ".device");
    if (name.empty())
      name = file.deviceName;
  }
  return findDevice(!name.empty() ? name : inputs.target == "cuda" ? "h100" : "cpu");
}

} // namespace

rt::Result<CostOptions> readCostOptions(const CostInputs &inputs, InputFiles &files) {
  const std::string &target = inputs.target;
  if (target != "host" && target != "cuda")
    return rt::invalid(inputs.pass + ": unknown target `" + target + "` (known: host, cuda)");
  std::string precision = inputs.compute;
  if (precision.empty())
    precision = target == "cuda" ? "bfloat16" : "float32";
  if (precision != "float32" && precision != "bfloat16")
    return rt::invalid(inputs.pass + ": cannot compute in `" + precision +
                       "` (known: float32, bfloat16)");
  CostOptions costs;
  if (precision == "bfloat16")
    costs.precision = mixedPrecision();
  costs.precision.target = target;
  OMNIBAL_ASSIGN_OR_RETURN(costs.device, deviceOf(inputs, files));
  OMNIBAL_ASSIGN_OR_RETURN(costs.partsLink, partsLinkOf(inputs, files));
  OMNIBAL_ASSIGN_OR_RETURN(Calibration measured,
                           files.calibrations(inputs.calibration, target, precision));
  if (!inputs.calibration.empty())
    costs.measured = std::make_shared<MeasuredTimes>(std::move(measured), inputs.splitBackward);
  return costs;
}

} // namespace omnibal::cost
