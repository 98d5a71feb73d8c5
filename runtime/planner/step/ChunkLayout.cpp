//===- ChunkLayout.cpp -------------------------------------------------------------------===//
#include "runtime/planner/step/ChunkLayout.h"
#include "runtime/planner/model/RoundLayouts.h"
#include <algorithm>
#include <map>

namespace omnibal::planner {
namespace {

SizeModel sumOf(const SizeModel &a, const SizeModel &b) {
  return {a.constant + b.constant, a.tile + b.tile, a.token + b.token};
}

StepChunk chunkOf(const StepLayers &layers, int64_t begin, int64_t end, int64_t stage) {
  StepChunk chunk{layers.layers[begin].component, stage, layers.layers[begin].variants};
  for (int64_t l = begin + 1; l < end; ++l) {
    const StepLayer &layer = layers.layers[l];
    if (layer.component != chunk.component)
      chunk.component = ChunkComponent::Mixed;
    for (size_t v = 0; v < chunk.variants.size(); ++v) {
      for (size_t kind = 0; kind < 4; ++kind)
        chunk.variants[v].times[kind] =
            sumOf(chunk.variants[v].times[kind], layer.variants[v].times[kind]);
      const std::vector<Block> &blocks = layer.variants[v].blocks;
      chunk.variants[v].blocks.insert(chunk.variants[v].blocks.end(), blocks.begin(), blocks.end());
    }
  }
  for (StepVariant &variant : chunk.variants)
    for (TimeModel &time : variant.times)
      time.fixed = time.fixed.plus(layers.actionNs);
  return chunk;
}

/// One micro-batch after the other, through all chunks and back.
void addSerialPlan(StepProblem &problem) {
  auto chunks = static_cast<int32_t>(problem.chunks.size());
  problem.fixed = {};
  problem.fixed.variants.assign(chunks, std::vector<int64_t>(problem.microbatches, 0));
  for (int32_t c = 0; c < chunks; ++c)
    for (int64_t &variant : problem.fixed.variants[c])
      variant = static_cast<int64_t>(problem.chunks[c].variants.size()) - 1;
  problem.fixed.actions.resize(problem.stages);
  for (int32_t m = 0; m < problem.microbatches; ++m) {
    for (int32_t c = 0; c < chunks; ++c)
      problem.fixed.actions[problem.chunks[c].stage].push_back({ActionKind::Forward, m, 0, c});
    for (int32_t c = chunks; c-- > 0;)
      problem.fixed.actions[problem.chunks[c].stage].push_back({ActionKind::Backward, m, 0, c});
  }
}

/// What layers of a stage have beside blocks comes off its memory.
void takeMemory(const StepLayers &layers, const ChunkLayout &layout, StepProblem &problem) {
  if (problem.memoryBytes.empty())
    return;
  std::vector<int64_t> resident(problem.stages), workspace(problem.stages), memory;
  for (size_t c = 0; c < layout.stages.size(); ++c)
    for (int64_t l = layout.cuts[c]; l < layout.cuts[c + 1]; ++l) {
      resident[layout.stages[c]] += layers.layers[l].residentBytes;
      int64_t &most = workspace[layout.stages[c]];
      most = std::max(most, layers.layers[l].workspaceBytes);
    }
  for (int64_t s = 0; s < problem.stages; ++s)
    memory.push_back(std::max<int64_t>(0, problem.memoryOf(s) - resident[s] - workspace[s]));
  problem.memoryBytes = std::move(memory);
}

std::string nameOf(const RoundLayout &layout) {
  std::string rounds = std::to_string(layout.rounds);
  return (layout.visionRounds == 0
              ? rounds + " mixed"
              : std::to_string(layout.visionRounds) + " vision + " + rounds + " language") +
         (layout.wave ? ", wave" : ", in turn");
}

} // namespace

TimeModel sumOf(const TimeModel &a, const TimeModel &b) {
  return {a.fixed.plus(b.fixed), a.tile.plus(b.tile), a.token.plus(b.token),
          a.square.plus(b.square), a.label.plus(b.label)};
}

StepProblem problemOf(const StepLayers &layers, const ChunkLayout &layout,
                      const StepProblem &frame) {
  StepProblem problem = frame;
  problem.chunks.clear();
  problem.edges.clear();
  std::vector<int64_t> chunkOfLayer;
  for (size_t c = 0; c < layout.stages.size(); ++c) {
    problem.chunks.push_back(chunkOf(layers, layout.cuts[c], layout.cuts[c + 1], layout.stages[c]));
    chunkOfLayer.insert(chunkOfLayer.end(), layout.cuts[c + 1] - layout.cuts[c],
                        static_cast<int64_t>(c));
  }
  std::map<std::pair<int64_t, int64_t>, StepEdge> edges;
  for (const StepEdge &edge : layers.edges) {
    int64_t from = chunkOfLayer[edge.from], to = chunkOfLayer[edge.to];
    if (from == to)
      continue;
    StepEdge &sum = edges.try_emplace({from, to}, StepEdge{from, to, {}, {}}).first->second;
    sum.bytes = sumOf(sum.bytes, edge.bytes);
    sum.gradBytes = sumOf(sum.gradBytes, edge.gradBytes);
  }
  for (const auto &[ends, edge] : edges)
    problem.edges.push_back(edge);
  takeMemory(layers, layout, problem);
  addSerialPlan(problem);
  return problem;
}

std::vector<int64_t> workOf(const StepLayers &layers, const std::vector<StepLoads> &samples) {
  std::vector<int64_t> work;
  for (const StepLayer &layer : layers.layers) {
    int64_t sum = 0;
    ExactTime forward(layer.variants[0].times[0]), backward(layer.variants[0].times[1]);
    for (const StepLoads &sample : samples)
      for (const MicrobatchLoad &microbatch : sample.microbatches) {
        bool vision = layer.component == ChunkComponent::Vision;
        if (vision && microbatch.load.tiles == 0)
          continue;
        UnitLoad load = vision ? UnitLoad{microbatch.load.tiles, 0, 0, 0} : microbatch.load;
        sum += forward.at(load) + backward.at(load);
      }
    work.push_back(sum);
  }
  return work;
}

std::vector<ChunkLayout> chunkLayouts(const StepLayers &layers, const std::vector<int64_t> &work,
                                      int64_t stages, int64_t mostChunks) {
  auto count = static_cast<int64_t>(layers.layers.size()), vision = int64_t{0};
  while (vision < count && layers.layers[vision].component == ChunkComponent::Vision)
    ++vision;
  std::vector<ChunkLayout> layouts;
  for (RoundLayout &layout : roundLayouts(work, vision, stages, mostChunks))
    layouts.push_back({nameOf(layout), std::move(layout.cuts), std::move(layout.stages)});
  return layouts;
}

} // namespace omnibal::planner
