//===- BenchModels.cpp -------------------------------------------------------------------===//
#include "test/bench/step_plans/BenchModels.h"
#include <cmath>
#include <string>

namespace omnibal::bench {
namespace {

using namespace planner;

constexpr double flopsPerNs = 400e3;
/// Patches of a tile of 448 x 448 pixels, with the class token; tokens that the projector makes.
constexpr int64_t patches = 1025, tileTokens = 256;

constexpr BenchModel models[] = {
    {"vlm-s", 40, 3200, 32, 4096, 218},        {"20b", 45, 3200, 48, 6144, 390},
    {"32b", 40, 3200, 64, 5120, 487},          {"small", 24, 1024, 24, 2048, 62},
    {"frozen", 40, 3200, 32, 4096, 218, true},
};

struct Recompute {
  const char *name;
  double kept; ///< share of the bytes from the forward to the backward
  double time; ///< share of the forward that runs again
};
constexpr Recompute recomputes[] = {
    {"keep", 1, 0}, {"selective-60", 0.6, 0.15}, {"selective-35", 0.35, 0.45}, {"full", 0.06, 1}};
/// After the input gradient: share of what was recomputed, and of gradients, that the weight
/// gradient waits with.
constexpr double recomputedForWeights = 0.7, gradientsForWeights = 0.25;

Decimal decimalOfTime(double ns) { return Decimal::of(std::llround(ns * 1e6), 6); }

/// Functions of a layer whose forward takes `unit` per tile or token and `square` per squared
/// token.
StepLayer layerOf(ChunkComponent component, double fixed, double unit, double square, double bytes,
                  bool trains, bool passesGradient) {
  StepLayer layer{component, {}};
  bool vision = component == ChunkComponent::Vision;
  for (const Recompute &recompute : recomputes) {
    StepVariant variant{recompute.name, {}, {}};
    // Products of weights take as long in either gradient; attention takes twice as long in one.
    double input = passesGradient ? 1 : 0, weight = trains ? 1 : 0;
    double again = trains || passesGradient ? recompute.time : 0;
    double shares[] = {1, input + weight + again, input + again, weight};
    double squares[] = {1, 2 * input + again, 2 * input + again, 0};
    for (size_t kind = 0; kind < 4; ++kind) {
      TimeModel &time = variant.times[kind];
      time.fixed = decimalOfTime(fixed * shares[kind]);
      (vision ? time.tile : time.token) = decimalOfTime(unit * shares[kind]);
      time.square = decimalOfTime(square * squares[kind]);
    }
    auto size = [&](double share) {
      auto amount = static_cast<int64_t>(bytes * share);
      return vision ? SizeModel{0, amount, 0} : SizeModel{0, 0, amount};
    };
    if (trains || passesGradient) {
      variant.blocks.push_back({size(recompute.kept), BlockBegin::Forward, BlockEnd::WeightGrad});
      double later = (1 - recompute.kept) * recomputedForWeights + gradientsForWeights;
      variant.blocks.push_back({size(later), BlockBegin::InputGrad, BlockEnd::WeightGrad});
    }
    layer.variants.push_back(variant);
  }
  return layer;
}

} // namespace

const BenchModel *modelNamed(const std::string &name) {
  for (const BenchModel &model : models)
    if (name == model.name)
      return &model;
  return nullptr;
}

StepLayers layersOf(const BenchModel &model) {
  StepLayers layers;
  auto width = static_cast<double>(model.visionWidth), tokens = static_cast<double>(patches);
  double tile = (24 * width * width * tokens + 4 * tokens * tokens * width) / flopsPerNs;
  bool trains = !model.isVisionFrozen;
  for (int64_t l = 0; l < model.visionLayers; ++l)
    layers.layers.push_back(layerOf(ChunkComponent::Vision, tile / 4, tile, 0, 34 * width * tokens,
                                    trains, trains && l > 0));
  double token = 2 * model.languageParameters * 1e6 / flopsPerNs;
  auto language = static_cast<double>(model.languageWidth);
  double square = 2 * language / flopsPerNs;
  for (int64_t l = 0; l < model.languageLayers; ++l)
    layers.layers.push_back(
        layerOf(ChunkComponent::Language, 128 * token, token, square, 34 * language, true, true));
  auto count = static_cast<int64_t>(layers.layers.size());
  for (int64_t l = 0; l + 1 < count; ++l) {
    SizeModel bytes{0, 0, 2 * model.languageWidth};
    if (l + 1 < model.visionLayers)
      bytes = {0, 2 * patches * model.visionWidth, 0};
    else if (l + 1 == model.visionLayers)
      bytes = {0, 2 * tileTokens * model.languageWidth, 0};
    bool hasGradient = trains || l >= model.visionLayers;
    layers.edges.push_back({l, l + 1, bytes, hasGradient ? bytes : SizeModel{}});
  }
  return layers;
}

} // namespace omnibal::bench
