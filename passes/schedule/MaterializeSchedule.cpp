//===- MaterializeSchedule.cpp - omnibal-materialize-schedule ----------------------------===//
#include "dialects/omnibal/ir/OmnibalStageOps.h"
#include "passes/common/ActionKinds.h"
#include "passes/common/PlanAttributes.h"
#include "passes/schedule/Communication.h"
#include "passes/schedule/Passes.h"
#include <map>

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_MATERIALIZESCHEDULE
#include "passes/schedule/Passes.h.inc"

namespace {
using schedule::Message;

struct MaterializeSchedule : impl::MaterializeScheduleBase<MaterializeSchedule> {
  using MaterializeScheduleBase::MaterializeScheduleBase;

  void runOnOperation() override {
    names.clear(); // of the training mode before
    if (failed(readInput()) || failed(expandSchedule()))
      return signalPassFailure();
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    messages = schedule::collectMessages(schedule::sharedValues(graph), plan.getChunkStages(),
                                         /*gradients=*/true);
    for (const Message &message : messages)
      addTransfer(builder, message);
    addStages(builder, StageMode::Train, compute);
    for (auto [mode, microbatches] : {std::pair(StageMode::Evaluate, plan.getMicrobatches()),
                                      std::pair(StageMode::Inference, int64_t{1})})
      addStages(builder, mode,
                schedule::forwardOnly(plan.getChunkStages(), plan.getStages(), microbatches));
  }

private:
  LogicalResult readInput() {
    ModuleOp module = getOperation();
    plan = module->getAttrOfType<PlanAttr>(planAttrName);
    if (!plan)
      return module.emitError("omnibal-materialize-schedule: the module has no omnibal.plan; plan "
                              "its stages first");
    for (Operation &op : *module.getBody())
      if (isa<StageOp, TransferOp>(op))
        return op.emitOpError("is there already: the schedule is materialized once");
    auto read = analysis::readCallGraph(module);
    if (failed(read))
      return failure();
    graph = std::move(*read);
    int64_t planned = static_cast<int64_t>(plan.getChunkStages().size());
    if (planned != graph.chunks)
      return module.emitError("omnibal.plan has ")
             << planned << " chunks, the calls of @main " << graph.chunks;
    return success();
  }

  LogicalResult expandSchedule() {
    llvm::Expected<ActionLists> lists = computeActions(plan);
    if (!lists)
      return getOperation().emitError(llvm::toString(lists.takeError()));
    compute = std::move(*lists);
    // Each chunk as if it had a stage of its own: what chunks of one stage need of each other too.
    SmallVector<int64_t> apart;
    for (int64_t c = 0; c < graph.chunks; ++c)
      apart.push_back(c);
    std::string stuck = schedule::findDeadlock(
        compute, schedule::collectMessages(schedule::sharedValues(graph), apart, true));
    if (!stuck.empty())
      return getOperation().emitError("the actions of omnibal.plan wait for each other for ever: ")
             << stuck;
    return success();
  }

  void addTransfer(OpBuilder &builder, const Message &message) {
    SmallVector<StringRef> layers;
    SmallVector<int64_t> outputs;
    SmallVector<Location> locations;
    for (int64_t edge : message.edges) {
      const analysis::Call &producer = graph.calls[graph.edges[edge].producer];
      layers.push_back(producer.name);
      outputs.push_back(graph.edges[edge].output);
      locations.push_back(CallLayerOp(producer.op).getLoc());
    }
    auto kind = message.gradient ? TransferKind::Gradient : TransferKind::Activation;
    std::string name = (stringifyTransferKind(kind) + "_" + llvm::Twine(message.fromChunk) + "_" +
                        llvm::Twine(message.toChunk))
                           .str();
    TransferOp::create(builder, builder.getFusedLoc(locations), name, kind, message.id,
                       message.fromChunk, message.toChunk, builder.getStrArrayAttr(layers),
                       outputs);
    names.push_back(std::move(name));
  }

  /// Parameters that train and are used on several stages, by name: on which.
  std::map<std::string, std::vector<bool>> findShared() {
    std::map<std::string, std::vector<bool>> stages;
    for (const analysis::Call &call : graph.calls)
      for (const std::string &name : call.parameters) {
        auto &used = stages.try_emplace(name, plan.getStages(), false).first->second;
        used[plan.getChunkStages()[call.chunk]] = true;
      }
    for (ParameterOp parameter : graph.parameters) {
      auto it = stages.find(parameter.getSymName().str());
      if (parameter.getFrozen() || llvm::count(it->second, true) < 2)
        stages.erase(it);
    }
    return stages;
  }

  void addStages(OpBuilder &builder, StageMode mode, const ActionLists &lists) {
    std::string prefix = mode == StageMode::Train ? "stage_" : stringifyStageMode(mode).str() + "_";
    auto shared = findShared();
    for (auto [index, steps] : llvm::enumerate(schedule::insertCommunication(lists, messages))) {
      Location loc = locationOf(index);
      auto stage = StageOp::create(builder, loc, prefix + std::to_string(index), index, mode);
      OpBuilder actions = OpBuilder::atBlockEnd(&stage.getBody().emplaceBlock());
      for (const rt::Action &step : steps)
        addStep(actions, loc, step);
      if (mode == StageMode::Train)
        addStepEnd(actions, loc, index, shared);
    }
  }

  /// That of the first layer on the stage.
  Location locationOf(int64_t stage) {
    for (const analysis::Call &call : graph.calls)
      if (plan.getChunkStages()[call.chunk] == stage)
        return CallLayerOp(call.op).getLoc();
    return getOperation().getLoc();
  }

  void addStepEnd(OpBuilder &actions, Location loc, int64_t stage,
                  const std::map<std::string, std::vector<bool>> &shared) {
    for (const auto &[name, used] : shared)
      if (used[stage])
        ReduceSharedOp::create(actions, loc, name);
    if (plan.getZero() > 0)
      ScatterGradientsOp::create(actions, loc);
    else if (plan.getDataParallel() > 1)
      ReduceGradientsOp::create(actions, loc);
    ReduceScalarsOp::create(actions, loc);
    UpdateParametersOp::create(actions, loc);
    if (plan.getZero() > 0)
      GatherParametersOp::create(actions, loc);
  }

  void addStep(OpBuilder &actions, Location loc, const rt::Action &step) {
    if (rt::isCompute(step.kind)) {
      RunOp::create(actions, loc, kindAs<RunKind>(step.kind), step.index, step.microbatch);
      return;
    }
    switch (step.kind) {
    case rt::ActionKind::PostRecv:
      PostRecvOp::create(actions, loc, names[step.index], step.microbatch);
      return;
    case rt::ActionKind::WaitRecv:
      WaitRecvOp::create(actions, loc, names[step.index], step.microbatch);
      return;
    case rt::ActionKind::Send:
      SendOp::create(actions, loc, names[step.index], step.microbatch);
      return;
    case rt::ActionKind::WaitSend:
      WaitSendOp::create(actions, loc, names[step.index], step.microbatch);
      return;
    default:
      llvm_unreachable("the end of a step is added apart");
    }
  }

  PlanAttr plan;
  analysis::CallGraph graph;
  ActionLists compute; ///< of a training step
  std::vector<Message> messages;
  std::vector<std::string> names; ///< of the transfers, by id
};

} // namespace
} // namespace omnibal
