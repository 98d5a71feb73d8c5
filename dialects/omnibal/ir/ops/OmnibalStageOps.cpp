//===- OmnibalStageOps.cpp - Verifiers of messages and stages ----------------------------===//
#include "dialects/omnibal/ir/OmnibalStageOps.h"
#include <map>
#include <set>

using namespace mlir;
using namespace omnibal;

#include "dialects/omnibal/ir/OmnibalStageEnums.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalStageOps.cpp.inc"

static PlanAttr getPlan(Operation *op) {
  return op->getParentOfType<ModuleOp>()->getAttrOfType<PlanAttr>(planAttrName);
}

//--- Messages ------------------------------------------------------------------------------------

LogicalResult TransferOp::verify() {
  if (getLayers().empty() || getLayers().size() != getOutputs().size())
    return emitOpError() << "transfer_c2: has " << getLayers().size() << " layers and "
                         << getOutputs().size() << " outputs; needs one of each a value";
  for (auto other : (*this)->getParentOfType<ModuleOp>().getOps<TransferOp>())
    if (other != *this && other.getId() == getId()) {
      InFlightDiagnostic error = emitOpError() << "transfer_c4: @" << other.getSymName()
                                               << " also has id " << getId();
      error.attachNote(other.getLoc()) << "the other message";
      return error;
    }
  return success();
}

static int64_t getChunk(CallLayerOp call) {
  auto chunk = call->getAttrOfType<IntegerAttr>("omnibal.chunk");
  return chunk ? chunk.getInt() : 0;
}

LogicalResult TransferOp::verifySymbolUses(SymbolTableCollection &symbols) {
  PlanAttr plan = getPlan(*this);
  int64_t chunks = plan ? static_cast<int64_t>(plan.getChunkStages().size()) : 0;
  int64_t from = getFrom(), to = getTo();
  if (std::min(from, to) < 0 || std::max(from, to) >= chunks ||
      plan.getChunkStages()[from] == plan.getChunkStages()[to])
    return emitOpError() << "transfer_c1: chunks " << from << " and " << to
                         << " are not on two stages of omnibal.plan";
  auto main =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, StringAttr::get(getContext(), "main"));
  int64_t producing = getKind() == TransferKind::Activation ? from : to;
  int64_t reading = producing == from ? to : from;
  for (auto [name, output] : llvm::zip_equal(getLayers(), getOutputs())) {
    bool found = false;
    if (main && !main.isExternal())
      for (auto call : main.front().getOps<CallLayerOp>()) {
        if (call.getNameAttr() != name || getChunk(call) != producing || output < 0 ||
            output >= call->getNumResults())
          continue;
        found |= llvm::any_of(call->getResult(output).getUsers(), [&](Operation *user) {
          auto reader = dyn_cast<CallLayerOp>(user);
          return reader && getChunk(reader) == reading;
        });
      }
    if (!found)
      return emitOpError() << "transfer_c3: output " << output << " of " << name
                           << " is not made in chunk " << producing << " and read in chunk "
                           << reading;
  }
  return success();
}

//--- Stages --------------------------------------------------------------------------------------

LogicalResult StageOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<RunOp, PostRecvOp, WaitRecvOp, SendOp, WaitSendOp, ReduceSharedOp, ReduceGradientsOp,
             ScatterGradientsOp, ReduceScalarsOp, UpdateParametersOp, GatherParametersOp>(op))
      return op.emitOpError() << "stage_c1: is not an action of a stage";
  return success();
}

namespace {
/// Goes through the actions of a stage once and keeps what has happened so far.
class StageChecker {
public:
  StageChecker(StageOp stage, PlanAttr plan, SymbolTableCollection &symbols)
      : stage(stage), plan(plan), symbols(symbols) {}

  LogicalResult run() {
    for (Operation &op : stage.getBody().front()) {
      if (failed(checkOrder(&op)) || failed(checkMode(&op)))
        return failure();
      if (auto action = dyn_cast<RunOp>(op)) {
        if (failed(checkRun(action)))
          return failure();
      } else if (auto reduce = dyn_cast<ReduceSharedOp>(op)) {
        if (failed(checkShared(reduce)))
          return failure();
      } else if (isa<PostRecvOp, WaitRecvOp, SendOp, WaitSendOp>(op)) {
        if (failed(checkMessage(&op)))
          return failure();
      }
    }
    for (const auto &[key, start] : open)
      return start->emitOpError() << "stage_c2: is never awaited";
    return success();
  }

private:
  using Key = std::tuple<bool, StringRef, int64_t>; ///< sends?, message, micro-batch

  /// 0: compute and communication, then the parts of the step's end.
  static int phaseOf(Operation *op) {
    return isa<ReduceSharedOp>(op)                          ? 1
           : isa<ReduceGradientsOp, ScatterGradientsOp>(op) ? 2
           : isa<ReduceScalarsOp>(op)                       ? 3
           : isa<UpdateParametersOp>(op)                    ? 4
           : isa<GatherParametersOp>(op)                    ? 5
                                                            : 0;
  }

  LogicalResult checkOrder(Operation *op) {
    int phase = phaseOf(op);
    if (phase < lastPhase || (phase > 1 && phase == lastPhase))
      return op->emitOpError() << "stage_c4: comes after "
                               << op->getPrevNode()->getName().getStringRef();
    lastPhase = phase;
    return success();
  }

  LogicalResult checkMode(Operation *op) {
    auto run = dyn_cast<RunOp>(op);
    bool trains = phaseOf(op) > 0 || (run && run.getKind() != RunKind::Forward);
    if (trains && stage.getMode() != StageMode::Train)
      return op->emitOpError() << "stage_c9: mode " << stringifyStageMode(stage.getMode())
                               << " has forward runs and messages only";
    return success();
  }

  LogicalResult checkMicrobatch(Operation *op, int64_t microbatch) {
    if (microbatch < 0 || microbatch >= plan.getMicrobatches())
      return op->emitOpError() << "stage_c5: micro-batch " << microbatch << " of "
                               << plan.getMicrobatches();
    if (microbatch > 0 && stage.getMode() == StageMode::Inference)
      return op->emitOpError() << "stage_c9: mode inference has micro-batch 0 only";
    return success();
  }

  bool ran(RunKind kind, int64_t chunk, int64_t microbatch) const {
    return done.count({kind, chunk, microbatch}) != 0;
  }

  LogicalResult checkRun(RunOp op) {
    int64_t chunk = op.getChunk(), microbatch = op.getMicrobatch();
    if (failed(checkMicrobatch(op, microbatch)))
      return failure();
    if (chunk < 0 || chunk >= static_cast<int64_t>(plan.getChunkStages().size()) ||
        plan.getChunkStages()[chunk] != static_cast<int64_t>(stage.getIndex()))
      return op.emitOpError() << "stage_c5: chunk " << chunk << " is not on stage "
                              << stage.getIndex() << " of omnibal.plan";
    RunKind kind = op.getKind();
    bool first = kind == RunKind::Forward;
    bool ready = first || ran(kind == RunKind::WeightGrad ? RunKind::InputGrad : RunKind::Forward,
                              chunk, microbatch);
    bool again = ran(kind, chunk, microbatch) ||
                 (kind == RunKind::Backward && ran(RunKind::InputGrad, chunk, microbatch)) ||
                 (kind == RunKind::InputGrad && ran(RunKind::Backward, chunk, microbatch));
    if (!ready || again)
      return op.emitOpError() << "stage_c3: " << stringifyRunKind(kind) << " of chunk " << chunk
                              << ", micro-batch " << microbatch
                              << (again ? " runs a second time" : " runs too early");
    done.insert({kind, chunk, microbatch});
    return success();
  }

  /// Whether the run that makes (or reads) the message's values on `chunk` has happened.
  bool ranFor(TransferOp transfer, int64_t chunk, int64_t microbatch) const {
    if (transfer.getKind() == TransferKind::Activation)
      return ran(RunKind::Forward, chunk, microbatch);
    return ran(RunKind::Backward, chunk, microbatch) || ran(RunKind::InputGrad, chunk, microbatch);
  }

  LogicalResult checkMessage(Operation *op) {
    auto name = op->getAttrOfType<FlatSymbolRefAttr>("message");
    int64_t microbatch = op->getAttrOfType<IntegerAttr>("microbatch").getInt();
    bool sends = isa<SendOp, WaitSendOp>(op), starts = isa<SendOp, PostRecvOp>(op);
    if (failed(checkMicrobatch(op, microbatch)))
      return failure();
    auto transfer = symbols.lookupNearestSymbolFrom<TransferOp>(stage, name);
    if (!transfer)
      return op->emitOpError() << "stage_c6: " << name << " is not an omnibal.transfer";
    if (transfer.getKind() == TransferKind::Gradient && stage.getMode() != StageMode::Train)
      return op->emitOpError() << "stage_c9: " << name << " is a gradient, in mode "
                               << stringifyStageMode(stage.getMode());
    int64_t chunk = sends ? transfer.getFrom() : transfer.getTo();
    if (chunk < 0 || chunk >= static_cast<int64_t>(plan.getChunkStages().size()) ||
        plan.getChunkStages()[chunk] != static_cast<int64_t>(stage.getIndex()))
      return op->emitOpError() << "stage_c6: stage " << stage.getIndex() << " does not "
                               << (sends ? "send " : "receive ") << name;
    Key key{sends, name.getValue(), microbatch};
    if (starts ? !started.insert({key, op}).second : !open.erase(key)) {
      InFlightDiagnostic error = op->emitOpError()
                                 << "stage_c2: " << name << " of micro-batch " << microbatch
                                 << (starts ? " starts a second time" : " has not been started");
      if (starts)
        error.attachNote(started.at(key)->getLoc()) << "it starts here";
      return error;
    }
    if (starts)
      open[key] = op;
    bool ran = ranFor(transfer, chunk, microbatch);
    if (isa<SendOp>(op) && !ran)
      return op->emitOpError() << "stage_c7: the values of " << name << " are not made yet";
    if (isa<WaitRecvOp>(op) && ran)
      return op->emitOpError() << "stage_c7: the values of " << name << " have been read already";
    return success();
  }

  LogicalResult checkShared(ReduceSharedOp op) {
    auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(stage, op.getParameterAttr());
    if (!parameter || parameter.getFrozen())
      return op.emitOpError() << "stage_c8: " << op.getParameterAttr()
                              << " is not a parameter that trains";
    return success();
  }

  StageOp stage;
  PlanAttr plan;
  SymbolTableCollection &symbols;
  int lastPhase = 0;
  std::set<std::tuple<RunKind, int64_t, int64_t>> done; ///< kind, chunk, micro-batch
  std::map<Key, Operation *> started, open;
};
} // namespace

LogicalResult StageOp::verifySymbolUses(SymbolTableCollection &symbols) {
  PlanAttr plan = getPlan(*this);
  if (!plan)
    return emitOpError() << "stage_c5: the module has no omnibal.plan";
  int64_t stage = getIndex();
  if (stage < 0 || stage >= plan.getStages())
    return emitOpError() << "stage_c5: stage " << stage << " of " << plan.getStages();
  for (auto other : (*this)->getParentOfType<ModuleOp>().getOps<StageOp>())
    if (other != *this && other.getIndex() == getIndex() && other.getMode() == getMode()) {
      InFlightDiagnostic error = emitOpError()
                                 << "stage_c5: @" << other.getSymName() << " also is stage "
                                 << stage << " in mode " << stringifyStageMode(getMode());
      error.attachNote(other.getLoc()) << "the other stage";
      return error;
    }
  return StageChecker(*this, plan, symbols).run();
}
