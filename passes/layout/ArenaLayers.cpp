#include "passes/layout/ArenaLayers.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/cost/LayerFacts.h"

using namespace mlir;

namespace omnibal::layout {
namespace {

bool contains(DenseI64ArrayAttr list, size_t number) {
  return list && llvm::is_contained(list.asArrayRef(), static_cast<int64_t>(number));
}

void readHalf(LayerOp layer, StringRef option, ArenaLayer &info) {
  auto halves = layer->getAttrOfType<DictionaryAttr>(cost::halvesAttrName);
  auto half = halves ? halves.getAs<DenseI64ArrayAttr>(option) : DenseI64ArrayAttr();
  bool known = half && half.size() == 4;
  info.lateSaved = known ? half[0] : info.ownSaved;
  info.held = known ? half[1] : 0;
  info.readsGradientLate = known && half[2] > 0;
  info.half = known ? half[3] : info.backward;
}

} // namespace

ArenaLayers readArenaLayers(LayerGraph &graph, const planner::Plan &plan) {
  ArenaLayers result;
  std::vector<ArenaTensor> &tensors = result.tensors;
  llvm::DenseMap<Value, size_t> numberOf;
  int64_t index = 0, chunk = 0;
  for (LayerOp layer : graph.layers) {
    while (plan.cuts[chunk + 1] <= index)
      ++chunk;
    auto cost = layer->getAttrOfType<CostAttr>(costAttrName);
    RematOptionAttr option = cost.findOption(plan.remat[index]);
    ArenaLayer info;
    info.chunk = chunk;
    info.ownSaved = option.getSaved();
    info.backward = option.getBackward() ? option.getBackward().getInt() : option.getWorkspace();
    if (auto buffers = layer->getAttrOfType<BuffersAttr>(buffersAttrName)) {
      info.forward = buffers.getForward();
      info.inference = buffers.getInference();
      info.results = buffers.getResults();
      info.predictions = buffers.getPredictions();
      info.batch = buffers.getBatch();
      info.backwardBatch = buffers.getBackwardBatch();
      info.constants = buffers.getConstants();
    }
    for (auto [position, value] : llvm::enumerate(layer.getInputs())) {
      size_t tensor = numberOf.at(value);
      bool kept = contains(option.getInputs(), position);
      tensors[tensor].consumers.push_back({index, kept});
      info.inputs.push_back(tensor);
      info.ownSaved -= kept ? tensors[tensor].bytes : 0;
    }
    for (auto [position, value] : llvm::enumerate(layer.getOutputs())) {
      numberOf[value] = tensors.size();
      info.outputs.push_back(tensors.size());
      bool kept = contains(option.getOutputs(), position);
      tensors.push_back({index,
                         cost::alignBuffer(cost.getOutputs()[position]),
                         cost::alignBuffer(cost.getGradients()[position]),
                         {},
                         kept});
      info.ownSaved -= kept ? tensors.back().bytes : 0;
    }
    readHalf(layer, plan.remat[index], info);
    info.ownSaved = std::max<int64_t>(0, info.ownSaved);
    result.layers.push_back(std::move(info));
    ++index;
  }
  return result;
}

} // namespace omnibal::layout
