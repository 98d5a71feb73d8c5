#include "passes/cost/LayerMemory.h"
#include "passes/common/OffsetAssignment.h"
#include "runtime/program/Names.h"
#include "runtime/program/Sizes.h"
#include "runtime/program/Workspace.h"

using namespace mlir;

namespace omnibal::cost {
namespace {

FunctionBuffersAttr describe(MLIRContext *context, const lower::LoweredFunction &list,
                             const lower::LoweringOptions &options, bool hasShares) {
  Builder builder(context);
  SmallVector<Attribute> formals;
  for (auto [formal, buffer] : llvm::zip_first(list.formals, list.function.buffers)) {
    std::optional<FormalRole> role = symbolizeFormalRole(rt::nameOf(formal.role));
    if (!role || (*role == FormalRole::ParameterGrad && !hasShares)) // and parameters
      continue;
    bool isNamed =
        llvm::is_contained({rt::Role::Batch, rt::Role::Constant, rt::Role::Result}, formal.role);
    formals.push_back(FormalAttr::get(context, *role, isNamed ? -1 : formal.index,
                                      isNamed ? formal.name : "",
                                      rt::bytesAt(buffer.dtype, buffer.shape, options.caps())));
  }
  rt::WorkspaceFacts facts;
  facts.addKernels(list.function);
  if (options.parts > 1)
    facts.addMoves(list.function, options.caps(), options.parts);
  auto flag = [&](bool set) { return set ? builder.getUnitAttr() : UnitAttr(); };
  return FunctionBuffersAttr::get(context, list.function.workspaceBytes,
                                  builder.getArrayAttr(formals), flag(facts.products),
                                  flag(facts.columnSums), facts.moveBytes);
}

} // namespace

FailureOr<LayerFunctionsMemory> LayerFunctionsMemory::read(OwningOpRef<ModuleOp> module,
                                                           const std::string &target) {
  LayerFunctionsMemory result;
  result.module = std::move(module);
  auto graph = analysis::readCallGraph(*result.module);
  if (failed(graph))
    return failure();
  llvm::StringMap<Layer> known;
  llvm::StringMap<int> numbers; // of functions
  for (const analysis::Call &call : graph->calls) {
    LayerFnOp callee = call.callee;
    auto [layer, isFresh] = known.try_emplace(callee.getSymName());
    if (isFresh) {
      lower::layOutSavedValues(callee);
      std::optional<StringRef> names[] = {callee.getForward(),   callee.getBackward(),
                                          callee.getInputGrad(), callee.getWeightGrad(),
                                          callee.getEvaluate(),  callee.getInference()};
      for (auto [name, number] : llvm::zip(names, layer->second.functions)) {
        if (!name)
          continue;
        auto [at, isNew] = numbers.try_emplace(*name, result.prepared.size());
        number = at->second;
        if (!isNew)
          continue;
        auto prepared =
            lower::prepareFunction(result.module->lookupSymbol<func::FuncOp>(*name), target);
        if (failed(prepared))
          return failure();
        result.prepared.push_back(*std::move(prepared));
      }
    }
    result.layers.push_back(layer->second);
  }
  return std::move(result);
}

FailureOr<std::vector<LayerMemory>>
LayerFunctionsMemory::at(const lower::LoweringOptions &options) const {
  MLIRContext *context = ModuleOp(*module)->getContext();
  // Whose gradients are complete when matters where replicas divide the optimizer's state.
  auto cluster = ModuleOp(*module)->getAttrOfType<ClusterAttr>(clusterAttrName);
  const bool hasShares = cluster && cluster.getZero() > 0;
  lower::KernelLibrary kernels(context, options.target == "cuda"); // thrown away
  std::vector<FunctionBuffersAttr> functions;
  for (const lower::PreparedFunction &function : prepared) {
    auto lowered = lower::lowerFunction(function, kernels, options);
    if (failed(lowered))
      return failure();
    functions.push_back(describe(context, *lowered, options, hasShares));
  }
  auto find = [&](int number) { return number < 0 ? FunctionBuffersAttr() : functions[number]; };
  auto workspaceOf = [](FunctionBuffersAttr function) {
    return function ? alignUp(function.getWorkspace()) : 0;
  };
  std::vector<LayerMemory> result;
  for (const Layer &layer : layers) {
    const auto [forward, backward, inputGrad, weightGrad, evaluate, inference] = layer.functions;
    result.push_back({find(evaluate), find(inference),
                      OptionBuffersAttr::get(context, find(forward), find(backward),
                                             find(inputGrad), find(weightGrad)),
                      workspaceOf(find(forward)), workspaceOf(find(backward))});
  }
  return result;
}

} // namespace omnibal::cost
