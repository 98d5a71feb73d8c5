#include "passes/plan/PartCopies.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ProblemAttributes.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace omnibal::plan {
namespace {

constexpr llvm::StringLiteral passName = "omnibal-search-ranks";
/// Of one price to the next.
constexpr double priceRatio = 4;
constexpr int pricesTried = 4;

double toOneDigit(double value) { return std::stod(llvm::formatv("{0:e0}", value).str()); }

} // namespace

std::vector<double> pricesBetween(const planner::Problem &timed) {
  if (timed.cluster.memoryBytes.empty())
    return {};
  double price = 0; // the usual one, but for what the search of layouts counts in another way
  for (const planner::Layer &layer : timed.layers)
    price += static_cast<double>(layer.forwardNs + layer.inputGradNs + layer.weightGradNs);
  price /= static_cast<double>(std::max<int64_t>(1, timed.cluster.memoryBytes.front()));
  std::vector<double> prices;
  for (int i = 0; i < pricesTried && price > 0; ++i)
    prices.push_back(toOneDigit(price /= priceRatio));
  return prices;
}

std::vector<Attribute> attributesIn(ModuleOp module) {
  std::vector<Attribute> all;
  for (Operation &top : *module.getBody())
    top.walk([&](Operation *op) { all.push_back(op->getAttrDictionary()); });
  return all;
}

void PartCopy::emitSaid(MLIRContext *context) {
  for (Diagnostic &each : said)
    context->getDiagEngine().emit(std::move(each));
  said.clear();
}

PartCopy &PartCopies::of(const planner::RankDivision &division, std::optional<double> price) {
  const bool isState = division.parts > 1 && division.zero > 0 && price != priceOfTime;
  std::shared_ptr<PartCopy> &copy =
      copies[{division.parts, price, isState ? division.replicas : 1}];
  if (!copy)
    copy = make(division, price);
  return *copy;
}

std::shared_ptr<PartCopy> PartCopies::make(const planner::RankDivision &division,
                                           std::optional<double> price) {
  auto copy = std::make_shared<PartCopy>();
  ScopedDiagnosticHandler listen(module.getContext(), [&](Diagnostic &diagnostic) {
    copy->said.push_back(std::move(diagnostic));
    return success();
  });
  copy->module = module.clone();
  const bool hasLayouts = succeeded(addLayouts(*copy, division, price));
  if (hasLayouts)
    if (std::shared_ptr<PartCopy> equal = findEqual(*copy, division.parts))
      return equal;
  if (!hasLayouts || failed(addCosts(*copy, division.parts)))
    copy->module = {};
  return copy;
}

LogicalResult PartCopies::addLayouts(PartCopy &copy, const planner::RankDivision &division,
                                     std::optional<double> price) {
  if (division.parts == 1)
    return success();
  writeCluster(*copy.module, planner::clusterOf(cluster, division, node));
  if (failed(passes.addLayouts(*copy.module, price)))
    return failure();
  copy.layouts = attributesIn(*copy.module);
  return success();
}

std::shared_ptr<PartCopy> PartCopies::findEqual(const PartCopy &copy, int64_t parts) const {
  for (const auto &[key, other] : copies)
    if (std::get<0>(key) == parts && other && other->module && other->layouts == copy.layouts)
      return other;
  return nullptr;
}

std::vector<planner::PartsCosts> PartCopies::allCosts() const {
  std::vector<planner::PartsCosts> all;
  for (const auto &[key, copy] : copies) {
    const auto &[parts, price, replicas] = key;
    const auto ofAll = copies.find({parts, price, 1});
    if (!copy->module || (replicas > 1 && ofAll != copies.end() && ofAll->second == copy))
      continue;
    all.push_back(
        {parts, price, replicas > 1 ? std::optional(replicas) : std::nullopt, copy->problem});
  }
  return all;
}

LogicalResult PartCopies::addCosts(PartCopy &copy, int64_t parts) {
  if (parts > 1 && failed(passes.addCosts(*copy.module, copy.costs)))
    return failure();
  planner::Cluster all = cluster;
  all.parts = parts;
  writeCluster(*copy.module, all);
  auto problem = readProblem(*copy.module, passName);
  if (failed(problem))
    return failure();
  copy.problem = std::move(*problem);
  return success();
}

} // namespace omnibal::plan
