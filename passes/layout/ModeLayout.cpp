//===- ModeLayout.cpp - Messages, actions and regions of a mode --------------------------===//
#include "passes/layout/ModeLayout.h"
#include "passes/layout/StageLayout.h"

using namespace mlir;

namespace omnibal::layout {
namespace {

const char *modeName(StageMode purpose) {
  switch (purpose) {
  case StageMode::Train:
    return "train";
  case StageMode::Evaluate:
    return "evaluate";
  case StageMode::Inference:
    return "forward";
  }
  return "";
}

/// Actions name chunks and transfers by their place in the mode's lists.
void useLocalNumbers(rt::Mode &mode) {
  std::map<int32_t, int32_t> chunks, transfers;
  for (const rt::Chunk &chunk : mode.chunks)
    chunks.emplace(chunk.id, static_cast<int32_t>(chunks.size()));
  for (const rt::Transfer &transfer : mode.transfers)
    transfers.emplace(transfer.id, static_cast<int32_t>(transfers.size()));
  for (rt::Action &action : mode.actions) {
    if (action.kind <= rt::ActionKind::WeightGrad)
      action.index = chunks.at(action.index);
    else if (action.kind <= rt::ActionKind::WaitSend)
      action.index = transfers.at(action.index);
  }
}

} // namespace

int64_t bytesAtCaps(const ProgramParts &parts, const std::vector<rt::Extent> &shape,
                    rt::DType dtype) {
  int64_t elements = 1;
  for (const rt::Extent &extent : shape)
    elements *= extent.evaluate(parts.tilesCap, parts.tokensCap);
  return elements * rt::byteSize(dtype);
}

LogicalResult layOutMode(ProgramParts &parts, StageMode purpose, std::vector<rt::Stage> &stages) {
  std::vector<Message> messages;
  for (const Message &message : parts.schedule.messages)
    if (purpose == StageMode::Train || !message.gradient)
      messages.push_back(message);
  int64_t microbatches =
      purpose == StageMode::Inference ? 1 : parts.schedule.plan.getMicrobatches();

  std::vector<StageLayout> layouts;
  for (rt::Stage &stage : stages) {
    StageOp op = parts.schedule.stages.at(purpose)[stage.id];
    FailureOr<std::vector<rt::Action>> actions = readActions(op, parts.schedule, stage);
    if (failed(actions))
      return failure();
    layouts.emplace_back(parts, purpose, stage.id, messages);
    if (std::string error = layouts.back().build(std::move(*actions), microbatches); !error.empty())
      return op.emitError(error);
  }
  // Both ends of a message know their own half of each piece; join them.
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message &message = messages[i];
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
    useLocalNumbers(layout.mode());
    stage.modes[modeName(purpose)] = std::move(layout.mode());
  }
  return success();
}

} // namespace omnibal::layout
