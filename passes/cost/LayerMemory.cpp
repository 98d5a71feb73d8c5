#include "passes/cost/LayerMemory.h"
#include "passes/common/OffsetAssignment.h"
#include "runtime/program/Names.h"
#include "runtime/program/Sizes.h"
#include "runtime/program/Workspace.h"

using namespace mlir;

namespace omnibal::cost {
namespace {

class MemoryReader {
public:
  MemoryReader(ModuleOp module, const lower::LoweringOptions &options)
      : module(module), options(options), kernels(module.getContext(), options.target == "cuda") {}

  FailureOr<LayerMemory> read(LayerFnOp layer) {
    lower::layOutSavedValues(layer);
    FailureOr<FunctionBuffersAttr> forward = read(layer.getForward()),
                                   backward = read(layer.getBackward()),
                                   inputGrad = read(layer.getInputGrad()),
                                   weightGrad = read(layer.getWeightGrad()),
                                   evaluate = read(layer.getEvaluate()),
                                   inference = read(layer.getInference());
    for (const auto &function : {forward, backward, inputGrad, weightGrad, evaluate, inference})
      if (failed(function))
        return failure();
    auto workspaceOf = [](FunctionBuffersAttr function) {
      return function ? alignUp(function.getWorkspace()) : 0;
    };
    return LayerMemory{
        *evaluate, *inference,
        OptionBuffersAttr::get(module.getContext(), *forward, *backward, *inputGrad, *weightGrad),
        workspaceOf(*forward), workspaceOf(*backward)};
  }

private:
  /// Null where there is no such function.
  FailureOr<FunctionBuffersAttr> read(std::optional<StringRef> name) {
    if (!name)
      return FunctionBuffersAttr();
    auto [known, fresh] = lowered.try_emplace(*name);
    if (fresh) {
      auto result =
          lower::lowerFunction(module.lookupSymbol<func::FuncOp>(*name), kernels, options);
      if (failed(result))
        return failure();
      known->second = describe(*result);
    }
    return known->second;
  }

  FunctionBuffersAttr describe(const lower::LoweredFunction &list) {
    Builder builder(module.getContext());
    SmallVector<Attribute> formals;
    for (auto [formal, buffer] : llvm::zip_first(list.formals, list.function.buffers)) {
      std::optional<FormalRole> role = symbolizeFormalRole(rt::nameOf(formal.role));
      if (!role) // parameters and their gradients
        continue;
      bool isNamed =
          llvm::is_contained({rt::Role::Batch, rt::Role::Constant, rt::Role::Result}, formal.role);
      formals.push_back(FormalAttr::get(
          module.getContext(), *role, isNamed ? -1 : formal.index, isNamed ? formal.name : "",
          rt::bytesAt(buffer.dtype, buffer.shape, options.tilesCap, options.tokensCap)));
    }
    rt::WorkspaceFacts facts;
    facts.addKernels(list.function);
    auto flag = [&](bool set) { return set ? builder.getUnitAttr() : UnitAttr(); };
    return FunctionBuffersAttr::get(module.getContext(), list.function.workspaceBytes,
                                    builder.getArrayAttr(formals), flag(facts.products),
                                    flag(facts.columnSums));
  }

  ModuleOp module;
  const lower::LoweringOptions &options;
  lower::KernelLibrary kernels; ///< thrown away
  llvm::StringMap<FunctionBuffersAttr> lowered;
};

} // namespace

FailureOr<std::vector<LayerMemory>> readLayerMemory(ModuleOp module,
                                                    const analysis::CallGraph &graph,
                                                    const lower::LoweringOptions &options) {
  MemoryReader reader(module, options);
  llvm::StringMap<LayerMemory> known;
  std::vector<LayerMemory> result;
  for (const analysis::Call &call : graph.calls) {
    LayerFnOp callee = call.callee;
    auto [it, fresh] = known.try_emplace(callee.getSymName());
    if (fresh) {
      FailureOr<LayerMemory> memory = reader.read(callee);
      if (failed(memory))
        return failure();
      it->second = *memory;
    }
    result.push_back(it->second);
  }
  return result;
}

} // namespace omnibal::cost
