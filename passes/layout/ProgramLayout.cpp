#include "passes/layout/ProgramLayout.h"
#include "passes/layout/ModeLayout.h"
#include "passes/layout/PersistentLayout.h"
#include "runtime/program/Sizes.h"
#include <deque>

using namespace mlir;

namespace omnibal::layout {
namespace {

using analysis::Edge;

/// Of one training mode.
class ProgramLayout {
public:
  ProgramLayout(ProgramParts &parts, std::vector<rt::Stage> &stages)
      : parts(parts), stages(stages) {
    buildMemory();
  }

  ModeMemory modeMemory() { return {&parts, &memory}; }

  LogicalResult run() {
    for (StageMode purpose : {StageMode::Train, StageMode::Evaluate, StageMode::Inference})
      if ((purpose == StageMode::Train || parts.isLast) && failed(layOut(purpose)))
        return failure();
    return success();
  }

private:
  int64_t bytesOf(rt::DType dtype, const std::vector<rt::Extent> &shape) const {
    return rt::bytesAt(dtype, shape, parts.caps());
  }

  rt::Extent stepBytesOf(rt::DType dtype, const std::vector<rt::Extent> &shape) const {
    return stepBytes(dtype, shape, parts.caps());
  }

  void buildMemory() {
    memory.caps = parts.caps();
    ArrayRef<int64_t> chunkStage = parts.schedule.plan.getChunkStages();
    memory.chunkStage.assign(chunkStage.begin(), chunkStage.end());
    for (auto [index, call] : llvm::enumerate(parts.graph.calls))
      memory.calls.push_back({call.name,
                              call.chunk,
                              {call.inputs.begin(), call.inputs.end()},
                              {call.outputs.begin(), call.outputs.end()},
                              {},
                              parts.callees[index],
                              parts.variants[index]});
    memory.plannedVariant = parts.schedule.plannedVariant;
    for (const Edge &edge : parts.graph.edges) {
      EdgeMemory &value = memory.edges.emplace_back();
      value.producer = edge.producer;
      value.output = edge.output;
      value.bytes = bytesOf(parts.dtypeOf(edge), lower::toExtents(edge.shape));
      value.stepBytes = stepBytesOf(parts.dtypeOf(edge), lower::toExtents(edge.shape));
      value.consumers.assign(edge.consumers.begin(), edge.consumers.end());
      if (edge.isGraphOutput)
        value.result = edge.graphOutput;
    }
    for (const lower::LoweredFunction &lowered : parts.functions) {
      FunctionMemory &function = memory.functions.emplace_back();
      function.name = lowered.function.name;
      function.workspaceBytes = lowered.function.workspaceBytes;
      for (auto [formal, buffer] : llvm::zip_first(lowered.formals, lowered.function.buffers)) {
        function.formals.push_back({formal.role, formal.index, formal.name,
                                    bytesOf(buffer.dtype, buffer.shape),
                                    stepBytesOf(buffer.dtype, buffer.shape)});
        if (formal.role == rt::Role::Batch || formal.role == rt::Role::Result)
          named.try_emplace({formal.role, formal.name}, buffer);
      }
    }
  }

  LogicalResult layOut(StageMode purpose) {
    ModeWork work;
    work.purpose = purpose;
    work.trainMode = parts.trainMode;
    work.messages = parts.schedule.messages;
    if (purpose != StageMode::Inference)
      work.microbatches = parts.schedule.plan.getMicrobatches();
    const std::vector<StageOp> &ops = parts.schedule.stages.at(purpose);
    for (const rt::Stage &stage : stages) {
      FailureOr<std::vector<rt::Action>> actions =
          readActions(ops[stage.id], parts.schedule, stage);
      if (failed(actions))
        return failure();
      work.actions.push_back(std::move(*actions));
    }
    const bool isPlanned = parts.schedule.stepPlanned && purpose == StageMode::Train;
    work.stepPlanned = isPlanned;
    parts.stepBlocks.resize(memory.chunkStage.size());
    if (std::optional<LayoutError> error =
            layOutMode(memory, std::move(work), stages, isPlanned ? &parts.stepBlocks : nullptr))
      return ops[error->stage]->emitError(error->text);
    for (rt::Stage &stage : stages)
      describe(purpose, stage.modes.at(modeName(purpose, parts.trainMode)));
    return success();
  }

  /// Types, shapes and names, which do not matter for where things lie.
  void describe(StageMode purpose, rt::Mode &mode) {
    for (rt::BatchValue &value : mode.batchValues)
      take(named.at({rt::Role::Batch, rt::nameInLayer(value.name)}), value);
    for (rt::BatchValue &value : mode.results)
      take(bufferOfResult(purpose, value.name), value);
    for (rt::Transfer &transfer : mode.transfers)
      describe(transfer);
    for (rt::Chunk &chunk : mode.chunks)
      for (std::vector<rt::LayerCall> *list : {&chunk.forward, &chunk.backward, &chunk.inputGrad})
        for (rt::LayerCall &call : *list)
          if (call.function < 0)
            call.function = helper(call.function);
  }

  static void take(const rt::Buffer &buffer, rt::BatchValue &value) {
    value.dtype = buffer.dtype;
    value.shape = buffer.shape;
  }

  /// What evaluation yields has its name in the function, an output of the graph in the graph.
  const rt::Buffer &bufferOfResult(StageMode purpose, const std::string &name) const {
    auto known = named.find({rt::Role::Result, name});
    if (purpose != StageMode::Inference && known != named.end())
      return known->second;
    for (const Edge &edge : parts.graph.edges)
      if (edge.isGraphOutput && edge.graphOutput == name) {
        const lower::LoweredFunction &function =
            parts.functions[parts.callees[edge.producer].inference];
        for (auto [formal, buffer] : llvm::zip_first(function.formals, function.function.buffers))
          if (formal.role == rt::Role::Output && formal.index == edge.output)
            return buffer;
      }
    return known->second;
  }

  void describe(rt::Transfer &transfer) {
    const Message &message = *llvm::find_if(
        parts.schedule.messages, [&](const Message &each) { return each.id == transfer.id; });
    for (auto [number, piece] : llvm::zip_equal(message.edges, transfer.pieces)) {
      const Edge &edge = parts.graph.edges[number];
      piece.name = parts.graph.calls[edge.producer].name + "#" + std::to_string(edge.output);
      piece.shape = lower::toExtents(edge.shape);
      piece.dtype = parts.dtypeOf(edge);
    }
  }

  /// The function of a number that the layout left open.
  int32_t helper(int32_t number) {
    const int64_t code = -1 - static_cast<int64_t>(number);
    return helper(parts.graph.edges[code / 2], code % 2 == 0);
  }

  /// The function that copies a value of the edge or adds one gradient of it to another: one
  /// kernel, shared by all edges of that shape.
  int32_t helper(const Edge &edge, bool accumulates) {
    rt::View view;
    rt::DType dtype = parts.dtypeOf(edge);
    std::string name = accumulates ? "accumulate" : "copy";
    if (dtype == rt::DType::BF16)
      name += "_bf16";
    for (const SymbolicDim &dim : edge.shape)
      name += "_" + toString(dim);
    for (auto [i, known] : llvm::enumerate(parts.functions))
      if (known.function.name == name)
        return static_cast<int32_t>(i);
    view.shape = lower::toExtents(edge.shape);
    view.strides.resize(view.shape.size());
    SymbolicDim stride = 1;
    for (size_t i = view.shape.size(); i-- > 0;) {
      view.strides[i] = stride;
      stride = multiply(stride, edge.shape[i]).value_or(SymbolicDim(0));
    }
    lower::LoweredFunction lowered;
    lowered.function.name = name;
    for (rt::Role role : {rt::Role::GradOutput, rt::Role::GradInput}) {
      rt::Buffer buffer; // the same roles for a copy: what is read, and what is written
      if (accumulates)
        buffer.name = role == rt::Role::GradOutput ? "contribution" : "sum";
      else
        buffer.name = role == rt::Role::GradOutput ? "from" : "to";
      buffer.role = role;
      buffer.dtype = dtype;
      buffer.shape = view.shape;
      lowered.function.buffers.push_back(buffer);
      lowered.formals.push_back({role, 0, buffer.name});
    }
    lowered.function.formals = 2;
    rt::KernelCall call;
    call.kernel = "copy";
    rt::View source = view, sum = view;
    source.buffer = 0;
    sum.buffer = 1;
    call.operands = {{"src", source}, {"dst", sum}};
    if (accumulates)
      call.attributes["accumulate"] = true;
    call.label = accumulates ? "gradient sum" : "copy between chunks";
    lowered.function.calls.push_back(std::move(call));
    parts.functions.push_back(std::move(lowered));
    return static_cast<int32_t>(parts.functions.size()) - 1;
  }

  ProgramParts &parts;
  std::vector<rt::Stage> &stages;
  MemoryGraph memory;
  std::map<std::pair<rt::Role, std::string>, rt::Buffer> named; ///< batch values and results
};

} // namespace

LogicalResult layOutProgram(MutableArrayRef<ProgramParts> modes, std::vector<rt::Stage> &stages) {
  std::deque<ProgramLayout> layouts; // they stay where they are
  SmallVector<ModeMemory> memory;
  for (ProgramParts &parts : modes)
    memory.push_back(layouts.emplace_back(parts, stages).modeMemory());
  layOutPersistent(memory, stages);
  return success(
      llvm::all_of(layouts, [](ProgramLayout &layout) { return succeeded(layout.run()); }));
}

} // namespace omnibal::layout
