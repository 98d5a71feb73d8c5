//===- RandomStepProblem.h - Small step problems of every kind, and loads for them -----------===//
#ifndef TEST_UNIT_RUNTIME_PLANNER_STEP_RANDOMSTEPPROBLEM_H
#define TEST_UNIT_RUNTIME_PLANNER_STEP_RANDOMSTEPPROBLEM_H

#include "runtime/planner/step/StepProblem.h"
#include "test/unit/runtime/planner/RandomProblem.h"

namespace omnibal::planner {

struct StepCase {
  StepProblem problem;
  StepLoads loads;
};

/// What a random case may have.
struct StepCaseKind {
  int64_t mostStages = 3, mostMicrobatches = 4, mostChunks = 5;
  bool hasMemory = true; ///< blocks of every kind, several variants and perhaps a limit
  bool hasParts = true;
};

class StepCaseMaker {
public:
  StepCaseMaker(uint64_t seed, const StepCaseKind &kind) : draw(seed), kind(kind) {}

  StepCase make() {
    StepProblem &p = made.problem;
    p.stages = draw(kind.mostStages > 1 ? 2 : 1, kind.mostStages);
    p.microbatches = draw(1, kind.mostMicrobatches);
    p.tilesCap = draw(1, 12);
    p.tokensCap = draw(1, 50);
    p.rowBucket = draw(1, 4);
    p.link = {draw(0, 40), draw.oneIn(2) ? 1'000'000'000 : 50'000'000'000};
    p.alignment = draw.oneIn(2) ? 1 : 16;
    p.mostParts = kind.hasParts ? draw(1, 4) : 1;
    p.leastTiles = draw(1, 3);
    p.ascendingWeightGradients = draw.oneIn(2);
    makeChunks();
    makeEdges();
    makeStatic();
    makeLoads();
    if (kind.hasMemory && draw.oneIn(2))
      p.memoryBytes = {draw(500, 6000)};
    return made;
  }

private:
  Decimal decimal(int64_t most) { return Decimal::of(draw(0, most * 10), 1); }

  TimeModel time(ChunkComponent component) {
    TimeModel model;
    model.fixed = decimal(20);
    if (component != ChunkComponent::Language)
      model.tile = decimal(20);
    if (component != ChunkComponent::Vision) {
      model.token = decimal(5);
      model.square = Decimal::of(draw(0, 9), 3);
      model.label = decimal(1);
    }
    return model;
  }

  static TimeModel sum(const TimeModel &a, const TimeModel &b) {
    auto add = [](const Decimal &x, const Decimal &y) {
      return Decimal::of(x.times(1000) + y.times(1000), 3);
    };
    return {add(a.fixed, b.fixed), add(a.tile, b.tile), add(a.token, b.token),
            add(a.square, b.square), add(a.label, b.label)};
  }

  std::vector<Block> blocks() {
    std::vector<Block> result;
    for (int64_t b = draw(0, 3); b > 0; --b) {
      Block block;
      block.bytes = {draw(0, 64), draw(0, 30), draw(0, 8)};
      block.begin = static_cast<BlockBegin>(draw(0, 3));
      bool early = block.begin == BlockBegin::Receive || block.begin == BlockBegin::Forward;
      block.end = static_cast<BlockEnd>(draw(early ? 0 : 1, 3));
      result.push_back(block);
    }
    return result;
  }

  void makeChunks() {
    StepProblem &p = made.problem;
    int64_t count = draw(1, kind.mostChunks), vision = draw(0, count - 1);
    for (int64_t c = 0; c < count; ++c) {
      StepChunk chunk;
      chunk.component = c < vision                     ? ChunkComponent::Vision
                        : c == vision && draw.oneIn(2) ? ChunkComponent::Mixed
                                                       : ChunkComponent::Language;
      chunk.stage = draw.oneIn(4) ? draw(0, p.stages - 1) : c % p.stages;
      int64_t variants = kind.hasMemory ? draw(1, 3) : 1;
      for (int64_t v = 0; v < variants; ++v) {
        StepVariant variant;
        variant.name = "variant" + std::to_string(v);
        for (TimeModel &model : variant.times)
          model = time(chunk.component);
        if (kind.hasMemory)
          variant.blocks = blocks();
        // A whole backward mostly takes what its halves take.
        if (!draw.oneIn(4))
          variant.times[1] = sum(variant.times[2], variant.times[3]);
        chunk.variants.push_back(variant);
      }
      p.chunks.push_back(chunk);
    }
  }

  void makeEdges() {
    StepProblem &p = made.problem;
    auto isVision = [&](int64_t c) { return p.chunks[c].component == ChunkComponent::Vision; };
    bool frozen = draw.oneIn(4);
    auto size = [&](bool none) {
      return none ? SizeModel{} : SizeModel{draw(0, 10), draw(0, 20), draw(0, 20)};
    };
    for (int64_t to = 1; to < static_cast<int64_t>(p.chunks.size()); ++to)
      for (int64_t from = to - 1; from >= 0; --from) {
        bool chain = from == to - 1;
        if ((isVision(to) && !isVision(from)) || (!chain && !draw.oneIn(5)))
          continue;
        p.edges.push_back({from, to, size(draw.oneIn(8)), size(frozen && isVision(from))});
      }
  }

  /// All forwards, then all backwards.
  void makeStatic() {
    StepProblem &p = made.problem;
    auto chunks = static_cast<int32_t>(p.chunks.size());
    p.fixed.actions.resize(p.stages);
    for (const StepChunk &chunk : p.chunks) {
      p.fixed.variants.emplace_back();
      for (int64_t m = 0; m < p.microbatches; ++m)
        p.fixed.variants.back().push_back(draw(0, static_cast<int64_t>(chunk.variants.size()) - 1));
    }
    for (ActionKind kind : {ActionKind::Forward, ActionKind::Backward})
      for (int32_t m = 0; m < p.microbatches; ++m)
        for (int32_t i = 0; i < chunks; ++i) {
          int32_t c = kind == ActionKind::Forward ? i : chunks - 1 - i;
          p.fixed.actions[p.chunks[c].stage].push_back({kind, m, 0, c});
        }
  }

  void makeLoads() {
    const StepProblem &p = made.problem;
    made.loads.step = draw(0, 1000);
    for (int64_t m = 0; m < p.microbatches; ++m) {
      MicrobatchLoad entry;
      UnitLoad &load = entry.load;
      load.tiles = draw.oneIn(4) ? 0 : draw(0, p.tilesCap);
      load.tokens = draw(0, p.tokensCap);
      load.squares = draw(0, load.tokens * load.tokens);
      load.labels = draw(0, load.tokens);
      if (draw.oneIn(2)) {
        entry.cuts.emplace();
        for (int64_t tile = 1; tile < load.tiles; ++tile)
          if (draw.oneIn(2))
            entry.cuts->push_back(tile);
      }
      made.loads.microbatches.push_back(entry);
    }
  }

  Draw draw;
  StepCaseKind kind;
  StepCase made;
};

inline StepCase randomStepCase(uint64_t seed, const StepCaseKind &kind = {}) {
  return StepCaseMaker(seed, kind).make();
}

} // namespace omnibal::planner
#endif // TEST_UNIT_RUNTIME_PLANNER_STEP_RANDOMSTEPPROBLEM_H
