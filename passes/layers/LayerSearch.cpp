//===- LayerSearch.cpp -------------------------------------------------------------------===//
#include "passes/layers/LayerSearch.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "passes/layers/NameCheck.h"
#include "passes/layers/TowerBorder.h"

using namespace mlir;

namespace omnibal::layers {
namespace {

void append(LayerPlan &layer, const Segmentation &component, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    layer.ops.insert(component.segments[i].begin(), component.segments[i].end());
}

void addLayer(std::vector<LayerPlan> &layers, LayerPlan layer) {
  if (!layer.ops.empty())
    layers.push_back(std::move(layer));
}

void addBlocks(std::vector<LayerPlan> &layers, const Segmentation &component, StringRef prefix,
               LayerKind kind) {
  for (size_t i = 0; i + 1 < component.starts.size(); ++i) {
    LayerPlan block{(prefix + ".layers." + Twine(i)).str(), kind, {}};
    append(block, component, component.starts[i], component.starts[i + 1]);
    layers.push_back(std::move(block));
  }
}

/// The last value that all keys and values of attention to pictures come from: what is made of it
/// by a layer that attends belongs to that layer. None without such attention.
Value attendedFeatures(const ContentOps &content) {
  SmallVector<Value> read;
  for (Operation *op : content.all())
    if (auto cross = dyn_cast<CrossAttentionOp>(op))
      llvm::append_values(read, cross.getKey(), cross.getValue());
  if (read.empty())
    return {};
  llvm::SetVector<Operation *> sources = content.backwardFrom(read);
  if (sources.empty())
    return {};
  // Alone alive at its end; behind it keys and values part.
  Segmentation component = segmentComponent(sources.getArrayRef(), content);
  size_t count = component.segments.size();
  return component.segments[count > 1 ? count - 2 : 0].back()->getResult(0);
}
/// Statistics of tokens are taken in the layer that the tokens are in, for the head, which has what
/// follows from them: so layers are equal, and little passes from one to another.
void placeBesideLogits(std::vector<LayerPlan> &layers, const ContentOps &content) {
  llvm::DenseMap<Operation *, size_t> layerOf;
  for (auto [i, layer] : llvm::enumerate(layers))
    for (Operation *op : layer.ops)
      layerOf[op] = i;
  const size_t head = layers.size() - 1;
  for (Operation *op : content.besideLogits()) {
    std::optional<size_t> place;
    for (Value operand : op->getOperands()) {
      if (!content.contains(operand))
        continue;
      bool ofRows =
          llvm::any_of(raise::shapeOf(operand), [](const SymbolicDim &d) { return !d.isStatic(); });
      size_t here = ofRows ? layerOf.lookup(operand.getDefiningOp()) : head;
      place = !place || *place == here ? here : head;
    }
    layerOf[op] = place.value_or(head);
    layers[layerOf[op]].ops.insert(op);
  }
}
} // namespace

FailureOr<std::vector<LayerPlan>> findLayers(func::FuncOp function, const ContentOps &content) {
  std::vector<LayerPlan> layers;
  SmallVector<Value> features, texts;
  for (Operation *op : content.all())
    if (auto merge = dyn_cast<ImageMergeOp>(op)) {
      features.push_back(merge.getFeatures());
      // Later merges give features to add: what they stand in is no text.
      if (texts.empty() && content.contains(merge.getText()))
        texts.push_back(merge.getText());
    }
  if (Value attended = attendedFeatures(content))
    features.push_back(attended);
  llvm::SetVector<Operation *> vision = content.backwardFrom(features);
  llvm::SetVector<Operation *> text = content.backwardFrom(texts);

  if (!vision.empty()) {
    Segmentation component = segmentComponent(vision.getArrayRef(), content);
    size_t first = component.starts.empty() ? 0 : component.starts.front();
    size_t last = component.starts.empty() ? 0 : component.starts.back();
    LayerPlan embedding{"vision.embedding", LayerKind::Vision, {}};
    append(embedding, component, 0, first);
    addLayer(layers, std::move(embedding));
    addBlocks(layers, component, "vision", LayerKind::Vision);
    size_t tail = endOfTower(component);
    LayerPlan output{"vision.output", LayerKind::Vision, {}};
    append(output, component, last, tail);
    addLayer(layers, std::move(output));
    LayerPlan projector{"projector", LayerKind::Projector, {}};
    append(projector, component, tail, component.segments.size());
    addLayer(layers, std::move(projector));
  }

  LayerPlan embedding{"language.embedding", LayerKind::Language, {}};
  for (Operation *op : text)
    if (!vision.contains(op))
      embedding.ops.insert(op);
  SmallVector<Operation *> rest;
  for (Operation *op : content.all())
    if (!vision.contains(op) && !embedding.ops.contains(op))
      rest.push_back(op);
  if (rest.empty())
    return function.emitError() << "no op depends on the token ids";
  Segmentation component = segmentComponent(rest, content);
  size_t first = component.starts.empty() ? 1 : component.starts.front();
  size_t last = component.starts.empty() ? 1 : component.starts.back();
  append(embedding, component, 0, first);
  addLayer(layers, std::move(embedding));
  addBlocks(layers, component, "language", LayerKind::Language);
  LayerPlan head{"head", LayerKind::Head, {}};
  append(head, component, last, component.segments.size());
  addLayer(layers, std::move(head));
  if (layers.back().kind != LayerKind::Head)
    return function.emitError() << "nothing follows the last block: the graph has no output layer";
  warnAboutNames(layers, content);
  placeBesideLogits(layers, content);
  return layers;
}

} // namespace omnibal::layers
