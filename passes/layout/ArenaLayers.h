//===- ArenaLayers.h - What the layers of a planned module hold -----------------------------===//
#ifndef PASSES_LAYOUT_ARENALAYERS_H
#define PASSES_LAYOUT_ARENALAYERS_H

#include "dialects/omnibal/analysis/LayerGraph.h"
#include "runtime/planner/model/Plan.h"

namespace omnibal::layout {

/// An activation between layers. Bytes are those of its buffer.
struct ArenaTensor {
  int64_t producer = 0, bytes = 0, gradientBytes = 0;
  std::vector<std::pair<int64_t, bool>> consumers; ///< layer, whether its backward reads it
  bool keptByProducer = false;
};

/// Bytes of one micro-batch, under the option that the plan has for the layer.
struct ArenaLayer {
  int64_t chunk = 0;
  int64_t ownSaved = 0; ///< without inputs and outputs
  /// The bytes of the second half of its backward; all that is saved if nothing more is known.
  int64_t lateSaved = 0, held = 0, half = 0;
  bool readsGradientLate = false;
  int64_t forward = 0, backward = 0, inference = 0, results = 0, predictions = 0;
  std::vector<size_t> inputs, outputs; ///< tensors
  mlir::DictionaryAttr batch, backwardBatch, constants;
};

struct ArenaLayers {
  std::vector<ArenaLayer> layers;
  std::vector<ArenaTensor> tensors;
};

/// Reads the attributes that omnibal-annotate-costs writes.
ArenaLayers readArenaLayers(LayerGraph &graph, const planner::Plan &plan);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_ARENALAYERS_H
