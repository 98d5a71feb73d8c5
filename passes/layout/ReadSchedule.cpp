//===- ReadSchedule.cpp -----------------------------------------------------------------------===//
#include "passes/layout/ReadSchedule.h"
#include "passes/common/ActionKinds.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>
#include <set>

using namespace mlir;

namespace omnibal::layout {
namespace {

/// A value that has to travel: gradient?, from chunk, to chunk, edge.
using Need = std::tuple<bool, int64_t, int64_t, int64_t>;

class Reader {
public:
  Reader(ModuleOp module, const analysis::CallGraph &graph) : module(module), graph(graph) {}

  FailureOr<Schedule> run() {
    result.plan = module->getAttrOfType<PlanAttr>(planAttrName);
    if (!result.plan)
      return module.emitError("the module has no omnibal.plan; plan its stages first"), failure();
    int64_t planned = static_cast<int64_t>(result.plan.getChunkStages().size());
    if (planned != graph.chunks)
      return module.emitError("omnibal.plan has ")
                 << planned << " chunks, the calls of @main " << graph.chunks,
             failure();
    needed = collectNeeds();
    for (TransferOp transfer : module.getOps<TransferOp>())
      if (failed(readTransfer(transfer)))
        return failure();
    if (failed(checkComplete()) || failed(readStages()))
      return failure();
    return std::move(result);
  }

private:
  LogicalResult readTransfer(TransferOp op) {
    constexpr int32_t largest = std::numeric_limits<int32_t>::max();
    if (op.getId() < 0 || op.getId() > largest)
      return op.emitOpError("has id ")
             << op.getId() << "; programs number messages from 0 to " << largest;
    ArrayRef<int64_t> stages = result.plan.getChunkStages();
    int64_t from = op.getFrom(), to = op.getTo();
    bool gradient = op.getKind() == TransferKind::Gradient;
    Message message{
        {static_cast<int32_t>(op.getId()), gradient, from, to, stages[from], stages[to]}, {}};
    for (auto [layer, output] : llvm::zip_equal(op.getLayers(), op.getOutputs())) {
      int64_t edge = findEdge(cast<StringAttr>(layer).getValue(), output);
      if (edge < 0 || !needed.count({gradient, from, to, edge}))
        return op.emitOpError("carries output ")
               << output << " of " << layer << ", of which chunk " << to << " needs no "
               << (gradient ? "gradient" : "value");
      auto [first, fresh] = carried.try_emplace({gradient, from, to, edge}, op);
      if (!fresh) {
        InFlightDiagnostic error = op.emitOpError("carries output ")
                                   << output << " of " << layer
                                   << ", which another message carries too";
        error.attachNote(first->second.getLoc()) << "the other message";
        return error;
      }
      message.edges.push_back(edge);
    }
    result.messageIds[op.getSymName().str()] = message.id;
    result.messages.push_back(std::move(message));
    return success();
  }

  int64_t findEdge(StringRef layer, int64_t output) const {
    for (auto [index, edge] : llvm::enumerate(graph.edges))
      if (edge.output == output && graph.calls[edge.producer].name == layer)
        return static_cast<int64_t>(index);
    return -1;
  }

  std::set<Need> collectNeeds() const {
    std::set<Need> needs;
    for (const Message &message :
         schedule::collectMessages(schedule::sharedValues(graph), result.plan.getChunkStages(),
                                   /*gradients=*/true))
      for (int64_t edge : message.edges)
        needs.insert({message.gradient, message.fromChunk, message.toChunk, edge});
    return needs;
  }

  LogicalResult checkComplete() {
    for (const Need &need : needed)
      if (auto [gradient, from, to, edge] = need; !carried.count(need))
        return module.emitError("no omnibal.transfer carries ")
               << (gradient ? "the gradient of output " : "output ") << graph.edges[edge].output
               << " of \"" << graph.calls[graph.edges[edge].producer].name << "\" from chunk "
               << from << " to chunk " << to << "; run omnibal-materialize-schedule";
    return success();
  }

  LogicalResult readStages() {
    for (StageMode mode : {StageMode::Train, StageMode::Evaluate, StageMode::Inference}) {
      std::vector<StageOp> &stages = result.stages[mode];
      stages.resize(result.plan.getStages());
      for (StageOp stage : module.getOps<StageOp>())
        if (stage.getMode() == mode)
          stages[stage.getIndex()] = stage;
      for (auto [index, stage] : llvm::enumerate(stages))
        if (!stage)
          return module.emitError("stage ")
                 << index << " has no omnibal.stage for mode " << stringifyStageMode(mode)
                 << "; run omnibal-materialize-schedule";
    }
    for (StageOp stage : result.stages[StageMode::Train])
      for (RunOp run : stage.getBody().front().getOps<RunOp>())
        result.runs[run.getChunk()].insert(kindAs<rt::ActionKind>(run.getKind()));
    // Whatever the lists that serve every step have: plans choose.
    result.stepPlanned = module->hasAttr(stepPlannedAttrName);
    if (result.stepPlanned)
      for (int64_t chunk = 0; chunk < graph.chunks; ++chunk)
        result.runs[chunk].insert(std::begin(rt::computeKinds), std::end(rt::computeKinds));
    return failure(failed(findPlannedVariants()) || failed(checkHalves()));
  }

  /// The variant of a chunk in which all its layers call what they call without a choice.
  LogicalResult findPlannedVariants() {
    if (llvm::all_of(graph.calls, [](const analysis::Call &call) { return call.variants.empty(); }))
      return success();
    result.plannedVariant.assign(graph.chunks, 0);
    std::vector<llvm::SmallBitVector> possible(graph.chunks);
    for (const analysis::Call &call : graph.calls) {
      llvm::SmallBitVector &ofChunk = possible[call.chunk];
      const auto count = std::max<unsigned>(1, call.variants.size());
      if (ofChunk.empty())
        ofChunk.resize(count, true);
      if (ofChunk.size() != count)
        return CallLayerOp(call.op).emitOpError("has ")
               << count << " omnibal.variants, other layers of chunk " << call.chunk << " have "
               << ofChunk.size();
      for (auto [number, callee] : llvm::enumerate(call.variants))
        if (callee != call.callee)
          ofChunk.reset(number);
    }
    for (auto [chunk, ofChunk] : llvm::enumerate(possible)) {
      if (ofChunk.none())
        return module.emitError("no variant of chunk ")
               << chunk << " is what its layers call in omnibal.plan";
      result.plannedVariant[chunk] = ofChunk.find_first();
    }
    return success();
  }

  /// A chunk whose backward runs in two halves has layers with these halves.
  LogicalResult checkHalves() {
    for (const analysis::Call &call : graph.calls) {
      bool split = result.runs[call.chunk].count(rt::ActionKind::InputGrad) != 0;
      for (LayerFnOp callee : call.callees())
        if (split && callee.getBackward() && !callee.getInputGrad() && !callee.getWeightGrad())
          return CallLayerOp(call.op).emitOpError("runs its backward in two halves, but @")
                 << callee.getSymName()
                 << " has no input_grad and no weight_grad; omnibal-materialize-layers makes them "
                    "where omnibal.plan splits the chunk, or with split-backward";
    }
    return success();
  }

  ModuleOp module;
  const analysis::CallGraph &graph;
  Schedule result;
  std::set<Need> needed;
  std::map<Need, TransferOp> carried; ///< by which message
};

/// Turns the ops of one stage into actions, in order.
class ActionReader {
public:
  ActionReader(const Schedule &schedule, const rt::Stage &stage)
      : schedule(schedule), stage(stage) {}

  FailureOr<std::vector<rt::Action>> run(StageOp op) {
    for (Operation &each : op.getBody().front())
      if (failed(read(&each)))
        return failure();
    return std::move(actions);
  }

private:
  LogicalResult read(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](RunOp run) { return readRun(run); })
        .Case([&](PostRecvOp post) { return readMessage(post, rt::ActionKind::PostRecv); })
        .Case([&](WaitRecvOp wait) { return readMessage(wait, rt::ActionKind::WaitRecv); })
        .Case([&](SendOp send) { return readMessage(send, rt::ActionKind::Send); })
        .Case([&](WaitSendOp wait) { return readMessage(wait, rt::ActionKind::WaitSend); })
        .Case([&](ReduceSharedOp reduce) { return readShared(reduce); })
        // One place until the gradients have their buckets (GradientBuckets.h).
        .Case([&](ReduceGradientsOp) { return add(rt::ActionKind::ReduceGradients); })
        .Case([&](ScatterGradientsOp) { return add(rt::ActionKind::ScatterGradients); })
        .Case([&](GatherParametersOp) { return add(rt::ActionKind::GatherParameters); })
        .Case([&](ReduceScalarsOp) { return add(rt::ActionKind::ReduceScalars); })
        .Case([&](UpdateParametersOp) { return add(rt::ActionKind::Update); })
        .Default([](Operation *other) { return other->emitOpError("cannot be exported"); });
  }

  LogicalResult add(rt::ActionKind kind, int64_t microbatch = 0, int64_t index = 0) {
    actions.push_back({kind, static_cast<int32_t>(microbatch), static_cast<int32_t>(index)});
    return success();
  }

  LogicalResult readRun(RunOp op) {
    return add(kindAs<rt::ActionKind>(op.getKind()), op.getMicrobatch(), op.getChunk());
  }

  template <typename Op> LogicalResult readMessage(Op op, rt::ActionKind kind) {
    return add(kind, op.getMicrobatch(), schedule.messageIds.at(op.getMessage().str()));
  }

  LogicalResult readShared(ReduceSharedOp op) {
    for (const rt::Parameter &parameter : stage.parameters)
      if (parameter.name == op.getParameter() && parameter.sharedGroup >= 0)
        return add(rt::ActionKind::ReduceShared, 0, parameter.sharedGroup);
    return op.emitOpError("names a parameter that this stage shares with no other");
  }

  const Schedule &schedule;
  const rt::Stage &stage;
  std::vector<rt::Action> actions;
};

} // namespace

FailureOr<Schedule> readSchedule(ModuleOp module, const analysis::CallGraph &graph) {
  return Reader(module, graph).run();
}

FailureOr<std::vector<rt::Action>> readActions(StageOp op, const Schedule &schedule,
                                               const rt::Stage &stage) {
  return ActionReader(schedule, stage).run(op);
}

} // namespace omnibal::layout
