//===- BenchModels.h - Vision-language models as layers with times and bytes ------------------===//
#ifndef TEST_BENCH_STEP_PLANS_BENCHMODELS_H
#define TEST_BENCH_STEP_PLANS_BENCHMODELS_H

#include "runtime/planner/step/ChunkLayout.h"

namespace omnibal::bench {

struct BenchModel {
  const char *name;
  int64_t visionLayers, visionWidth, languageLayers, languageWidth;
  double languageParameters; ///< of a layer, in millions
  bool isVisionFrozen = false;
};

/// "vlm-s" (ViT 5B + Llama3 8B), "20b", "32b", "small", or "frozen" (vlm-s with frozen vision).
const BenchModel *modelNamed(const std::string &name);

/// Layers with times from FLOPs at 400 TFLOPS, a fixed part as long as .25 tiles or 128 tokens, and
/// four variants (keep, 60 % and 35 % of the bytes, full).
planner::StepLayers layersOf(const BenchModel &model);

} // namespace omnibal::bench
#endif // TEST_BENCH_STEP_PLANS_BENCHMODELS_H
