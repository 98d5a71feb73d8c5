#include "passes/cost/LayerMemory.h"

using namespace mlir;

namespace omnibal::cost {
namespace {

class MemoryReader {
public:
  MemoryReader(ModuleOp module, MicrobatchLoad load, const std::string &target,
               const std::string &compute)
      : module(module), kernels(module.getContext(), target == "cuda") {
    options.target = target;
    options.compute = compute;
    options.tilesCap = load.tiles;
    options.tokensCap = load.tokens;
    options.rowBucket = 1;
  }

  FailureOr<LayerMemory> read(LayerFnOp layer) {
    auto forward = module.lookupSymbol<func::FuncOp>(layer.getForward());
    auto backward = layer.getBackward() ? module.lookupSymbol<func::FuncOp>(*layer.getBackward())
                                        : func::FuncOp();
    auto half = [&](std::optional<StringRef> name) {
      return name ? module.lookupSymbol<func::FuncOp>(*name) : func::FuncOp();
    };
    func::FuncOp first = half(layer.getInputGrad()), second = half(layer.getWeightGrad());
    SmallVector<func::FuncOp> readers;
    for (func::FuncOp reader : {backward, first, second})
      if (reader && !llvm::is_contained(readers, reader)) // a half may be the whole
        readers.push_back(reader);
    lower::layOutSavedValues(forward, "saved", readers);
    if (first && second)
      lower::layOutSavedValues(first, "held", second);
    LayerMemory memory;
    if (failed(add(forward, memory, memory.forwardWorkspace, Use::Forward)) ||
        (backward && failed(add(backward, memory, memory.backwardWorkspace, Use::Backward))))
      return failure();
    for (func::FuncOp function : {first, second}) {
      LayerMemory alone; // its values are those of the whole
      int64_t workspace = 0;
      if (function && failed(add(function, alone, workspace, Use::Backward)))
        return failure();
      memory.halfWorkspace = std::max(memory.halfWorkspace, workspace);
    }
    int64_t evaluate = 0;
    auto lookup = [&](StringRef name) { return module.lookupSymbol<func::FuncOp>(name); };
    if (failed(add(lookup(layer.getEvaluate()), memory, evaluate, Use::Other)) ||
        failed(add(lookup(layer.getInference()), memory, memory.inferenceWorkspace, Use::Other)))
      return failure();
    memory.inferenceWorkspace = std::max(memory.inferenceWorkspace, evaluate);
    return memory;
  }

private:
  enum class Use { Forward, Backward, Other };

  LogicalResult add(func::FuncOp function, LayerMemory &memory, int64_t &workspace, Use use) {
    auto [known, fresh] = lowered.try_emplace(function.getSymName().str());
    if (fresh) {
      auto result = lower::lowerFunction(function, kernels, options);
      if (failed(result))
        return failure();
      known->second = std::move(*result);
    }
    const lower::LoweredFunction &list = known->second;
    workspace = alignBuffer(list.function.workspaceBytes);
    for (auto [position, formal] : llvm::enumerate(list.formals)) {
      int64_t bytes = bytesOf(list.function.buffers[position]);
      if (formal.role == rt::Role::Constant)
        memory.constants[formal.name] = bytes;
      else if (formal.role == rt::Role::Result && use == Use::Backward)
        memory.results += bytes;
      if (formal.role != rt::Role::Batch || use == Use::Other)
        continue;
      memory.batch[formal.name] = bytes;
      if (use == Use::Backward)
        memory.backwardBatch[formal.name] = bytes;
    }
    return success();
  }

  int64_t bytesOf(const rt::Buffer &buffer) const {
    int64_t elements = 1;
    for (const rt::Extent &extent : buffer.shape)
      elements *= extent.evaluate(options.tilesCap, options.tokensCap);
    return alignBuffer(elements * rt::byteSize(buffer.dtype));
  }

  ModuleOp module;
  lower::LoweringOptions options;
  lower::KernelLibrary kernels; ///< thrown away
  std::map<std::string, lower::LoweredFunction> lowered;
};

} // namespace

FailureOr<std::vector<LayerMemory>> readLayerMemory(ModuleOp module,
                                                    const analysis::CallGraph &graph,
                                                    MicrobatchLoad load, const std::string &target,
                                                    const std::string &compute) {
  MemoryReader reader(module, load, target, compute);
  std::map<std::string, LayerMemory> known;
  std::vector<LayerMemory> result;
  for (const analysis::Call &call : graph.calls) {
    LayerFnOp callee = call.callee;
    auto [it, fresh] = known.try_emplace(callee.getSymName().str());
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
