//===- StepLayout.cpp - What plans of single steps place on a stage ---------------------------===//
#include "passes/layout/StageLayout.h"

namespace omnibal::layout {

/// Buffers for what other chunks of this stage make, as if messages brought it: a plan places what
/// a chunk makes by the chunk's own actions.
void StageLayout::placeArrivals(int64_t chunk) {
  std::map<std::pair<bool, int64_t>, int32_t> regions; // (gradient, the other chunk)
  auto place = [&](bool gradient, int64_t other, int64_t edge) {
    auto [it, fresh] = regions.try_emplace({gradient, other}, -1);
    if (fresh) {
      it->second = addRegion((gradient ? "gradient of " : "copy of ") + std::to_string(other) +
                                 " for " + std::to_string(chunk),
                             RegionKind::Kept, chunk);
      // A whole backward has it too.
      if (gradient)
        uses[it->second].begin = planner::BlockBegin::ReceiveGrad;
    }
    const EdgeMemory &value = graph.edges[edge];
    return rt::Location{rt::Space::Region, it->second,
                        grow(it->second, value.bytes, value.stepBytes)};
  };
  for (auto [index, edge] : llvm::enumerate(graph.edges)) {
    int64_t producer = graph.calls[edge.producer].chunk, number = static_cast<int64_t>(index);
    for (auto [call, input] : edge.consumers) {
      int64_t consumer = graph.calls[call].chunk;
      if (producer == consumer || graph.chunkStage[producer] != graph.chunkStage[consumer])
        continue;
      if (consumer == chunk && !receivedLocation.count({number, chunk}))
        receivedLocation[{number, chunk}] = place(false, producer, number);
      if (producer == chunk && purpose == StageMode::Train &&
          graph.givesInputGradient(call, input) && !gradInLocation.count({number, consumer}))
        gradInLocation[{number, consumer}] = place(true, consumer, number);
    }
  }
}

/// How long a plan keeps the block of a region where the chunk runs in a variant: from its first to
/// its last use, in the terms of its chunk's own actions.
planner::Block StageLayout::blockOf(const rt::Region &region, const RegionUse &use,
                                    int64_t ofVariant) const {
  auto touchedBy = [&](rt::ActionKind kind) {
    return use.touched.count({kind, use.chunk, ofVariant}) != 0;
  };
  const bool leaves = !use.sends.empty() || llvm::any_of(use.touched, [&](const Touch &touch) {
    return touch.chunk != use.chunk;
  });
  const rt::Extent &size = region.block->bytes;
  planner::Block block{{size.constant, size.perTile, size.perToken}};
  // Values of the micro-batch are written before its first action, whoever reads them first.
  const bool isEarly = use.kind == RegionKind::Batch || touchedBy(rt::ActionKind::Forward);
  block.begin =
      use.begin.value_or(isEarly ? planner::BlockBegin::Forward : planner::BlockBegin::InputGrad);
  // What a forward leaves has been read elsewhere by the time of the chunk's own backward.
  const bool isGradient = block.begin == planner::BlockBegin::InputGrad;
  if (leaves && isGradient)
    block.end = planner::BlockEnd::Send;
  else if (touchedBy(rt::ActionKind::WeightGrad))
    block.end = planner::BlockEnd::WeightGrad;
  else if (touchedBy(rt::ActionKind::InputGrad) || touchedBy(rt::ActionKind::Backward))
    block.end = planner::BlockEnd::InputGrad;
  else
    block.end = leaves ? planner::BlockEnd::Send : planner::BlockEnd::Forward;
  return block;
}

void StageLayout::describeBlocks() {
  for (auto [region, use] : llvm::zip_equal(theMode.regions, uses)) {
    if (!region.block)
      continue;
    ChunkBlocks &ofChunk = blocks[use.chunk];
    ofChunk.resize(graph.variantsOf(use.chunk));
    region.block->chunk = static_cast<int32_t>(use.chunk);
    for (auto [number, ofVariant] : llvm::enumerate(ofChunk)) {
      const auto v = static_cast<int64_t>(number);
      const bool isUsed = !use.sends.empty() || !use.receives.empty() ||
                          llvm::any_of(use.touched, [&](const Touch &touch) {
                            return touch.chunk != use.chunk || touch.variant == v;
                          });
      region.block->numbers.push_back(isUsed ? static_cast<int32_t>(ofVariant.size()) : -1);
      if (isUsed)
        ofVariant.push_back(blockOf(region, use, v));
    }
  }
}

/// The workspace first, since all plans share it; then what plans place, here by the mode's own
/// actions.
int64_t StageLayout::placeStepMemory(int64_t base) {
  theMode.stepOffset = base + alignUp(theMode.regions[workRegion].bytes);
  std::vector<Block> live;
  std::vector<int64_t *> offsets;
  for (auto [number, region] : llvm::enumerate(theMode.regions)) {
    region.offsets.assign(theMode.microbatches, region.block ? theMode.stepOffset : base);
    for (int64_t m = 0; region.block && m < theMode.microbatches; ++m) {
      auto [first, last] = lifetime(static_cast<int32_t>(number), m);
      if (first > last || first == static_cast<int64_t>(theMode.actions.size()))
        continue; // no action of this list uses it
      live.push_back({region.bytes, first, last});
      offsets.push_back(&region.offsets[m]);
    }
  }
  Placement placement = assignOffsets(live);
  for (auto [offset, place] : llvm::zip_equal(offsets, placement.offsets))
    *offset = theMode.stepOffset + place;
  theMode.stepBytes = std::max<int64_t>(placement.bytes, blockAlignment);
  return theMode.stepOffset + theMode.stepBytes - base;
}

/// Of the places where some message lies at some time; they overlap each other in any way.
int64_t StageLayout::stepMessageBytes() const {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (auto [region, use] : llvm::zip_equal(theMode.regions, uses))
    for (int64_t offset : region.offsets)
      if (use.kind == RegionKind::Message)
        ranges.push_back({offset, offset + region.bytes});
  llvm::sort(ranges);
  int64_t bytes = 0, end = 0;
  for (auto [first, last] : ranges) {
    bytes += std::max<int64_t>(0, last - std::max(first, end));
    end = std::max(end, last);
  }
  return bytes;
}

} // namespace omnibal::layout
