//===- ModeLayout.cpp - Messages and regions of a mode --------- --------------------------===//
#include "passes/layout/ModeLayout.h"
#include "passes/layout/StageLayout.h"

namespace omnibal::layout {
namespace {

/// Actions name chunks and transfers by their place in the mode's lists; `planned` is the variant
/// of each chunk that they run.
void useLocalNumbers(rt::Mode &mode, const std::vector<int64_t> &planned) {
  std::map<int32_t, int32_t> chunks, transfers;
  for (auto [number, chunk] : llvm::enumerate(mode.chunks))
    if (chunk.variant == (planned.empty() ? 0 : planned[chunk.id]))
      chunks.emplace(chunk.id, static_cast<int32_t>(number));
  for (const rt::Transfer &transfer : mode.transfers)
    transfers.emplace(transfer.id, static_cast<int32_t>(transfers.size()));
  for (rt::Action &action : mode.actions) {
    if (rt::isCompute(action.kind))
      action.index = chunks.at(action.index);
    else if (action.kind <= rt::ActionKind::WaitSend)
      action.index = transfers.at(action.index);
  }
}

} // namespace

std::string modeName(StageMode purpose, size_t trainMode) {
  switch (purpose) {
  case StageMode::Train:
    return rt::trainModeName(trainMode);
  case StageMode::Evaluate:
    return "evaluate";
  case StageMode::Inference:
    return "forward";
  }
  return "";
}

std::optional<LayoutError> layOutMode(const MemoryGraph &graph, ModeWork work,
                                      std::vector<rt::Stage> &stages,
                                      std::vector<ChunkBlocks> *stepBlocks) {
  if (work.purpose != StageMode::Train)
    llvm::erase_if(work.messages,
                   [](const schedule::Message &message) { return message.gradient; });
  const std::vector<schedule::Message> &messages = work.messages;
  std::vector<StageLayout> layouts;
  for (rt::Stage &stage : stages) {
    layouts.emplace_back(graph, work.purpose, stage.id, messages, work.stepPlanned);
    std::string error = layouts.back().build(std::move(work.actions[stage.id]), work.microbatches);
    if (!error.empty())
      return LayoutError{stage.id, error};
  }
  // Both ends of a message know their own half of each piece; join them.
  for (size_t i = 0; i < messages.size(); ++i) {
    const schedule::Message &message = messages[i];
    StageLayout &sender = layouts[message.fromStage], &receiver = layouts[message.toStage];
    rt::Transfer transfer = sender.sendSide(i);
    rt::Transfer receiving = receiver.receiveSide(i);
    transfer.recvRegion = receiving.recvRegion;
    for (size_t p = 0; p < transfer.pieces.size(); ++p)
      transfer.pieces[p].recvOffset = receiving.pieces[p].recvOffset;
    sender.mode().transfers.push_back(transfer);
    receiver.mode().transfers.push_back(transfer);
  }
  for (rt::Stage &stage : stages) {
    StageLayout &layout = layouts[stage.id];
    int64_t end = stage.persistentBytes + layout.placeRegions(stage.persistentBytes);
    stage.arenaBytes = std::max(stage.arenaBytes, end);
    stage.reservedBytes = std::max(stage.reservedBytes, layout.messageBytes());
    if (stepBlocks)
      for (const auto &[chunk, blocks] : layout.stepBlocks())
        (*stepBlocks)[chunk] = blocks;
    useLocalNumbers(layout.mode(),
                    work.stepPlanned ? graph.plannedVariant : std::vector<int64_t>());
    stage.modes[modeName(work.purpose, work.trainMode)] = std::move(layout.mode());
  }
  return std::nullopt;
}

} // namespace omnibal::layout
