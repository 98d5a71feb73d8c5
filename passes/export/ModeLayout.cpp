//===- ModeLayout.cpp - Messages, actions and regions of a mode
//---------------------------------------------===//
#include "passes/export/ModeLayout.h"
#include "passes/export/Communication.h"
#include "passes/export/StageLayout.h"

namespace omnibal::exporter {
namespace {

const char *modeName(Purpose purpose) {
  switch (purpose) {
  case Purpose::Train:
    return "train";
  case Purpose::Evaluate:
    return "evaluate";
  case Purpose::Predict:
    return "forward";
  }
  return "";
}

/// Forward only: every micro-batch through the stage's chunks in order.
std::vector<std::vector<planner::Action>> forwardActions(const ProgramParts &parts,
                                                         int64_t microbatches, size_t stages) {
  std::vector<std::vector<planner::Action>> lists(stages);
  for (int64_t m = 0; m < microbatches; ++m)
    for (auto [chunk, stage] : llvm::enumerate(parts.chunkStage))
      lists[stage].push_back({planner::ActionKind::Forward, m, static_cast<int64_t>(chunk)});
  return lists;
}

/// The step's end, in the order of ARCHITECTURE D3.
void appendEpilogue(const ProgramParts &parts, const rt::Stage &stage,
                    std::vector<rt::Action> &actions) {
  for (int32_t group : parts.sharedGroups[stage.id])
    actions.push_back({rt::ActionKind::ReduceShared, 0, group});
  if (parts.dataParallel > 1)
    for (size_t bucket = 0; bucket < stage.buckets.size(); ++bucket)
      actions.push_back({rt::ActionKind::ReduceGradients, 0, static_cast<int32_t>(bucket)});
  actions.push_back({rt::ActionKind::ReduceScalars, 0, 0});
  actions.push_back({rt::ActionKind::Update, 0, 0});
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

std::string layOutMode(ProgramParts &parts, Purpose purpose, std::vector<rt::Stage> &stages) {
  std::vector<Message> messages =
      schedule::collectMessages(parts.graph, parts.chunkStage, purpose == Purpose::Train);
  int64_t microbatches = purpose == Purpose::Predict ? 1 : parts.microbatches;
  auto compute = purpose == Purpose::Train ? parts.trainActions
                                           : forwardActions(parts, microbatches, stages.size());
  std::vector<std::vector<rt::Action>> actions = exporter::insertCommunication(compute, messages);

  std::vector<StageLayout> layouts;
  for (rt::Stage &stage : stages) {
    if (purpose == Purpose::Train)
      appendEpilogue(parts, stage, actions[stage.id]);
    layouts.emplace_back(parts, purpose, stage.id, messages);
    if (std::string error = layouts.back().build(actions[stage.id], microbatches); !error.empty())
      return error;
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
  return "";
}

} // namespace omnibal::exporter
