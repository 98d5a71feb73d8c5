//===- NameCheck.cpp ---------------------------------------------------------------------===//
#include "passes/layers/NameCheck.h"
#include "passes/layers/ModuleWords.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace omnibal::layers {
namespace {

/// The first op of a component that reads a parameter, by parameter.
struct Reader {
  Operation *op = nullptr;
  LayerKind component = LayerKind::Vision;
  bool shared = false; ///< read by several components: any of their names may stand on it
};
using Readers = llvm::MapVector<StringAttr, Reader>;

class ReaderSearch {
public:
  explicit ReaderSearch(const ContentOps &content) : content(content) {}

  void addLayer(const LayerPlan &layer) {
    visited.clear(); // what layers share is copied into each
    for (Operation *op : layer.ops)
      for (Value operand : op->getOperands())
        add(operand.getDefiningOp(), op, componentOf(layer.kind));
  }
  const Readers &found() const { return readers; }

private:
  /// Parameters behind what is computed from parameters, constants and positions alone.
  void add(Operation *source, Operation *reader, LayerKind component) {
    if (!source || content.contains(source) || !visited.insert(source).second)
      return;
    if (auto parameter = dyn_cast<GetParameterOp>(source)) {
      auto [it, isNew] = readers.try_emplace(parameter.getParameterAttr().getAttr(),
                                             Reader{reader, component, false});
      it->second.shared |= !isNew && it->second.component != component;
    }
    for (Value operand : source->getOperands())
      add(operand.getDefiningOp(), reader, component);
  }

  const ContentOps &content;
  llvm::DenseSet<Operation *> visited; ///< of the layer at hand
  Readers readers;
};

StringRef reason(LayerKind component) {
  switch (component) {
  case LayerKind::Vision:
    return "it is read no later than by the norm that ends the tower";
  case LayerKind::Projector:
    return "it is read where features have left the tower's width or rows";
  default:
    return "it is read where text and pictures have been merged, or for text alone";
  }
}
} // namespace

void warnAboutNames(ArrayRef<LayerPlan> layers, const ContentOps &content) {
  ReaderSearch search(content);
  for (const LayerPlan &layer : layers)
    search.addLayer(layer);
  // One warning for each way to disagree, at the first parameter.
  struct Disagreement {
    StringAttr parameter;
    Operation *reader = nullptr;
    size_t count = 0;
  };
  llvm::MapVector<std::pair<LayerKind, LayerKind>, Disagreement> found;
  for (const auto &[name, reader] : search.found()) {
    std::optional<LayerKind> named = componentOfModule(name.getValue());
    if (!named)
      named = componentOfModule(modulePathOf(reader.op));
    if (reader.shared || !named || componentOf(*named) == reader.component)
      continue;
    Disagreement &entry = found[{reader.component, componentOf(*named)}];
    if (entry.count++ == 0)
      entry = {name, reader.op, 1};
  }
  for (const auto &[components, entry] : found) {
    auto [inGraph, named] = components;
    auto warning = entry.reader->emitWarning();
    warning << "parameter '" << entry.parameter.getValue() << "'";
    if (entry.count > 1)
      warning << " and " << entry.count - 1 << " more";
    warning << ": by name " << stringifyLayerKind(named) << ", by the graph "
            << stringifyLayerKind(inGraph) << " (" << reason(inGraph)
            << "). The graph counts: --freeze " << stringifyLayerKind(inGraph)
            << " freezes it; use --freeze-match to choose by name";
  }
}

} // namespace omnibal::layers
