//===- ChunkLayout.h - Which layers make a chunk, and where chunks lie ------------------------===//
#ifndef RUNTIME_PLANNER_STEP_CHUNKLAYOUT_H
#define RUNTIME_PLANNER_STEP_CHUNKLAYOUT_H

#include "runtime/planner/step/StepUnits.h"

namespace omnibal::planner {

/// A layer is what a chunk of it alone would be; all layers have the same number of variants.
struct StepLayer {
  ChunkComponent component = ChunkComponent::Language; ///< vision or language
  std::vector<StepVariant> variants;
  int64_t residentBytes = 0; ///< parameters, gradients, moments: what its stage has less for blocks
  int64_t workspaceBytes = 0; ///< while an action of it runs: the same, once a stage
};

/// A model in topological order, the layers of the vision component first. All layers together are
/// a chunk of a step problem: what parseStepProblem requires of times and bytes holds for them.
struct StepLayers {
  std::vector<StepLayer> layers;
  std::vector<StepEdge> edges; ///< between layers
  Decimal actionNs{0, 0};      ///< that an action takes besides its layers
};

/// Chunk c holds layers cuts[c] .. cuts[c+1]-1 on stage stages[c].
struct ChunkLayout {
  std::string name;
  std::vector<int64_t> cuts, stages;
};

/// The time of one function after another, with 18 digits a term (Decimal::plus).
TimeModel sumOf(const TimeModel &a, const TimeModel &b);

/// The problem of a layout. `frame` gives everything but chunks, edges and the static plan, its
/// memory before what layers have beside blocks; the static plan runs one micro-batch after the
/// other until addStaticPlan gives a better one.
StepProblem problemOf(const StepLayers &layers, const ChunkLayout &layout,
                      const StepProblem &frame);

/// Work of each layer, forward and whole backward of the first variant, summed over the samples.
std::vector<int64_t> workOf(const StepLayers &layers, const std::vector<StepLoads> &samples);

/// All ways to lay out chunks that a search tries: mixed chunks, or chunks of one component each,
/// one to `mostChunks` a stage and component, over the stages in turn or with every other round in
/// reverse. Cuts level the work of a component's chunks.
std::vector<ChunkLayout> chunkLayouts(const StepLayers &layers, const std::vector<int64_t> &work,
                                      int64_t stages, int64_t mostChunks);

/// Moves layers from chunk to chunk while `score` falls, the borders in turn; at most `rounds` over
/// all borders.
template <typename Score>
int64_t improveCuts(const StepLayers &layers, ChunkLayout &layout, int rounds, Score score) {
  int64_t best = score(layout);
  for (int round = 0; round < rounds; ++round) {
    bool improved = false;
    for (size_t border = 1; border + 1 < layout.cuts.size(); ++border)
      for (int64_t by : {-1, 1}) {
        ChunkLayout moved = layout;
        moved.cuts[border] += by;
        int64_t cut = moved.cuts[border];
        if (cut <= moved.cuts[border - 1] || cut >= moved.cuts[border + 1])
          continue;
        if (int64_t other = score(moved); other < best) {
          best = other;
          layout = std::move(moved);
          improved = true;
        }
      }
    if (!improved)
      break;
  }
  return best;
}

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_CHUNKLAYOUT_H
