#include "passes/export/LowerCallees.h"
#include "dialects/omnibal/analysis/FunctionDigest.h"
#include "passes/common/OptimizerAttribute.h"
#include "passes/shard/LayerLayouts.h"

using namespace mlir;

namespace omnibal::exporter {

CalleeLowering::CalleeLowering(ModuleOp module, const ExportOptions &options,
                               lower::KernelLibrary &kernels, size_t trainMode, bool isLast)
    : module(module), options(options), kernels(kernels) {
  parts.trainMode = trainMode;
  parts.isLast = isLast;
}

LogicalResult CalleeLowering::read() {
  FailureOr<analysis::CallGraph> graph = analysis::readCallGraph(module);
  if (failed(graph))
    return failure();
  parts.graph = std::move(*graph);
  FailureOr<layout::Schedule> schedule = layout::readSchedule(module, parts.graph);
  if (failed(schedule))
    return failure();
  parts.schedule = std::move(*schedule);
  parts.compute = options.compute;
  parts.optimizer = optimizerOf(module);
  parts.averages = keepsAverages(module);
  parts.tilesCap = options.tilesCap;
  parts.tokensCap = lower::roundedTokens(options.tokensCap, options.rowBucket);
  // Before any function is rewritten, as the planner saw it.
  for (auto function : module.getOps<func::FuncOp>())
    digests[function.getSymName()] =
        analysis::digestOf(function, analysis::digestKernels(options.target, options.compute),
                           parts.schedule.plan.getParts());
  return success();
}

/// Lowers the functions of a layer once, however many layers call them.
LogicalResult CalleeLowering::lower() {
  std::map<std::string, std::set<rt::ActionKind>> runs;
  for (const analysis::Call &call : parts.graph.calls) {
    const std::set<rt::ActionKind> &ofChunk = parts.schedule.runs[call.chunk];
    for (LayerFnOp callee : call.callees())
      runs[callee.getSymName().str()].insert(ofChunk.begin(), ofChunk.end());
  }
  if (shard::hasPartsApart(module) || shard::areReplicas(module))
    parts.calleesOfParts.resize(parts.schedule.plan.getParts());
  std::map<std::string, layout::CalleeFunctions> done;
  auto lowerOnce = [&](LayerFnOp callee, int64_t chunk) -> FailureOr<layout::CalleeFunctions> {
    std::string name = callee.getSymName().str();
    auto [it, fresh] = done.try_emplace(name);
    if (fresh && failed(lowerCallee(callee, runs.at(name), it->second)))
      return failure();
    return it->second.ofRuns(parts.schedule.runs[chunk]);
  };
  for (analysis::Call &call : parts.graph.calls) {
    auto callee = lowerOnce(call.callee, call.chunk);
    if (failed(callee))
      return failure();
    parts.callees.push_back(*callee);
    for (auto [part, own] : llvm::enumerate(parts.calleesOfParts)) {
      auto ofPart = lowerOnce(call.calleeOf(static_cast<int64_t>(part)), call.chunk);
      if (failed(ofPart))
        return failure();
      own.push_back(*ofPart);
    }
    std::vector<layout::CalleeFunctions> &variants = parts.variants.emplace_back();
    for (LayerFnOp each : call.variants) {
      auto variant = lowerOnce(each, call.chunk);
      if (failed(variant))
        return failure();
      variants.push_back(*variant);
    }
  }
  return success();
}

/// What variants of a chunk call beside what @main calls is for training alone.
LogicalResult CalleeLowering::lowerCallee(LayerFnOp callee, const std::set<rt::ActionKind> &runs,
                                          layout::CalleeFunctions &out) {
  lower::layOutSavedValues(callee);
  const bool isEvaluated =
      parts.isLast && llvm::any_of(parts.graph.calls, [&](const analysis::Call &call) {
        return call.callee == callee || llvm::is_contained(call.partCallees, callee);
      });
  if (failed(lowerOne(callee.getForward(), out.forward)) ||
      (isEvaluated && (failed(lowerOne(callee.getEvaluate(), out.evaluate)) ||
                       failed(lowerOne(callee.getInference(), out.inference)))))
    return failure();
  auto lowerHalf = [&](rt::ActionKind kind, std::optional<StringRef> symbol, int64_t &index) {
    return symbol && runs.count(kind) ? lowerOne(*symbol, index) : success();
  };
  return success(
      succeeded(lowerHalf(rt::ActionKind::Backward, callee.getBackward(), out.backward)) &&
      succeeded(lowerHalf(rt::ActionKind::InputGrad, callee.getInputGrad(), out.inputGrad)) &&
      succeeded(lowerHalf(rt::ActionKind::WeightGrad, callee.getWeightGrad(), out.weightGrad)));
}

LogicalResult CalleeLowering::lowerOne(llvm::StringRef symbol, int64_t &index) {
  auto [it, fresh] = functionIndex.try_emplace(symbol.str(), parts.functions.size());
  index = it->second;
  if (!fresh)
    return success();
  lower::LoweringOptions lowering;
  lowering.target = options.target;
  lowering.compute = options.compute;
  lowering.tilesCap = options.tilesCap;
  lowering.tokensCap = parts.tokensCap;
  lowering.parts = parts.schedule.plan.getParts();
  lowering.rowBucket = 1;
  auto lowered = lower::lowerFunction(module.lookupSymbol<func::FuncOp>(symbol), kernels, lowering);
  if (failed(lowered))
    return failure();
  lowered->function.digest = digests.lookup(symbol);
  parts.functions.push_back(std::move(*lowered));
  return success();
}

} // namespace omnibal::exporter
