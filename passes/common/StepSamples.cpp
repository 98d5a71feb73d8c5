#include "passes/common/StepSamples.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/Builders.h"
#include <cmath>

using namespace mlir;

namespace omnibal::plan {
namespace {

constexpr int64_t numbersOfLoad = 3;

/// Nanoseconds with six decimal places.
planner::Decimal decimalOf(double ns) {
  constexpr int32_t places = 6;
  constexpr double most = 9e18;
  return planner::Decimal::of(std::llround(std::min(ns * 1e6, most)), places);
}

} // namespace

void writeStepSamples(ModuleOp module, const StepSamples &samples) {
  Builder builder(module.getContext());
  SmallVector<int64_t> loads;
  for (const planner::StepLoads &step : samples.steps)
    for (const planner::MicrobatchLoad &each : step.microbatches)
      loads.append({each.load.tiles, each.load.tokens, each.load.squares});
  module->setAttr(
      stepSamplesAttrName,
      builder.getDictionaryAttr(
          {builder.getNamedAttr("loads", builder.getDenseI64ArrayAttr(loads)),
           builder.getNamedAttr("tiles", builder.getI64IntegerAttr(samples.tilesCap)),
           builder.getNamedAttr("tokens", builder.getI64IntegerAttr(samples.tokensCap))}));
}

std::optional<StepSamples> readStepSamples(ModuleOp module, int64_t microbatches) {
  auto attribute = module->getAttrOfType<DictionaryAttr>(stepSamplesAttrName);
  if (!attribute || microbatches < 1)
    return std::nullopt;
  auto tiles = attribute.getAs<IntegerAttr>("tiles"),
       tokens = attribute.getAs<IntegerAttr>("tokens");
  auto loads = attribute.getAs<DenseI64ArrayAttr>("loads");
  const int64_t numbers = loads ? loads.size() : 0;
  if (!tiles || !tokens || numbers == 0 || numbers % (microbatches * numbersOfLoad) != 0)
    return std::nullopt;
  StepSamples samples{tiles.getInt(), tokens.getInt(), {}};
  for (int64_t i = 0; i < numbers; i += numbersOfLoad) {
    if (i % (microbatches * numbersOfLoad) == 0) {
      samples.steps.emplace_back();
      samples.steps.back().step = static_cast<int64_t>(samples.steps.size()) - 1;
    }
    const planner::UnitLoad load{loads[i], loads[i + 1], loads[i + 2], 0};
    if (load.tiles < 0 || load.tiles > samples.tilesCap || load.tokens < 0 ||
        load.tokens > samples.tokensCap || load.squares < 0)
      return std::nullopt;
    samples.steps.back().microbatches.push_back({load, std::nullopt});
  }
  return samples;
}

std::optional<ActionTerms> timeTermsOf(Operation *layer, StringRef option) {
  auto models = layer->getAttrOfType<DictionaryAttr>(timeModelsAttrName);
  auto terms = models ? models.getAs<DenseF64ArrayAttr>(option) : DenseF64ArrayAttr();
  if (!terms || terms.size() != 4 * static_cast<int64_t>(termsOfTime))
    return std::nullopt;
  ActionTerms result;
  for (size_t i = 0; i < 4 * termsOfTime; ++i)
    result[i / termsOfTime][i % termsOfTime] = terms[static_cast<int64_t>(i)];
  return result;
}

planner::TimeModel timeModelOf(const TimeTerms &terms, bool ofVision) {
  planner::TimeModel model;
  model.fixed = decimalOf(terms[0]);
  model.tile = decimalOf(terms[1]);
  if (!ofVision) {
    model.token = decimalOf(terms[2]);
    model.square = decimalOf(terms[3]);
  }
  return model;
}

} // namespace omnibal::plan
