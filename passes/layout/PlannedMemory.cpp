#include "passes/layout/PlannedMemory.h"
#include "passes/common/ActionKinds.h"
#include "passes/common/OffsetAssignment.h"
#include "passes/common/OptimizerAttribute.h"
#include "passes/layout/GradientShares.h"
#include "passes/layout/ModeLayout.h"
#include "passes/schedule/Communication.h"
#include "runtime/program/BucketShares.h"
#include "runtime/program/Names.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace omnibal::layout {
namespace {

/// What `arrays` of float32 and moments of 8 bits take.
int64_t stateBytes(int64_t arrays, int64_t codedMoments, int64_t elements) {
  return arrays * alignUp(elements * int64_t{sizeof(float)}) +
         codedMoments * alignUp(rt::codedBytes(elements));
}

} // namespace

FailureOr<PlannedMemory> PlannedMemory::read(ModuleOp module, StringRef pass) {
  PlannedMemory result;
  FailureOr<LayerGraph> graph = LayerGraph::get(module, pass);
  if (failed(graph))
    return failure();
  result.module = module;
  result.graph = std::move(*graph);
  auto target = module->getAttrOfType<StringAttr>(targetAttrName);
  result.target = target ? target.str() : "host";
  if (auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
      cluster && cluster.getZero() > 0)
    result.replicas = cluster.getDataParallel();
  for (LayerOp layer : result.graph.layers)
    result.addLayer(layer);
  for (auto [index, layer] : llvm::enumerate(result.graph.layers))
    if (!layer->hasAttr(buffersAttrName))
      result.addStated(static_cast<int64_t>(index));
  func::FuncOp main = result.graph.main;
  for (auto [position, value] : llvm::enumerate(result.graph.result.getOperands()))
    if (auto edge = result.edgeOf.find(value); edge != result.edgeOf.end())
      result.memory.edges[edge->second].result = analysis::nameOfResult(main, position);
  return result;
}

void PlannedMemory::addLayer(LayerOp layer) {
  auto index = static_cast<int64_t>(memory.calls.size());
  CallMemory call;
  call.name = layer.getName().str();
  for (auto [position, input] : llvm::enumerate(layer.getInputs())) {
    int64_t edge = edgeOf.at(input);
    memory.edges[edge].consumers.push_back({index, static_cast<int64_t>(position)});
    call.inputs.push_back(edge);
  }
  auto cost = layer->getAttrOfType<CostAttr>(costAttrName);
  auto buffers = layer->getAttrOfType<BuffersAttr>(buffersAttrName);
  ArrayRef<int64_t> bytes = (buffers ? buffers.getOutputs() : cost.getOutputs()).asArrayRef();
  for (auto [position, output] : llvm::enumerate(layer.getOutputs())) {
    edgeOf[output] = static_cast<int64_t>(memory.edges.size());
    call.outputs.push_back(static_cast<int64_t>(memory.edges.size()));
    memory.edges.push_back({index,
                            static_cast<int64_t>(position),
                            bytes[position],
                            {alignUp(bytes[position]), 0, 0},
                            {},
                            std::nullopt});
  }
  std::vector<size_t> &used = parametersOf.emplace_back();
  for (unsigned i = 0, end = layer.getParameters().size(); i < end; ++i) {
    ParameterOp parameter = graph.getParameter(layer, i);
    auto [known, fresh] = parameterIndex.try_emplace(parameter, parameters.size());
    if (fresh) {
      auto stated = parameter->getAttrOfType<ParameterCostAttr>(costAttrName);
      auto type = cast<RankedTensorType>(parameter.getType());
      Parameter &added = parameters.emplace_back();
      added.elements = stated.getReduced() / int64_t{sizeof(float)};
      if (added.elements > 0) {
        const rt::OptimizerKind optimizer = optimizerOf(module);
        const std::vector<int64_t> moments = momentBytes(parameter, type, optimizer);
        int64_t others = 0; // bytes of the state that are no float32 values of the elements
        if (rt::isCoded(optimizer)) {
          added.codedMoments = static_cast<int64_t>(moments.size());
          others = added.codedMoments * rt::codedBytes(added.elements);
        } else if (rt::isFactored(optimizer, type.getRank())) {
          for (int64_t bytes : moments) {
            added.factorBytes += alignUp(bytes);
            others += bytes;
          }
        }
        added.stateArrays = (stated.getState() - others) / stated.getReduced();
      }
      // Values, gradient and moments are arrays of their own. Where replicas divide the
      // optimizer's state, that is no parameter's.
      added.bytes =
          alignUp(stated.getValues()) + alignUp(stated.getReduced()) + added.factorBytes +
          (replicas > 1 ? 0 : stateBytes(added.stateArrays, added.codedMoments, added.elements));
      added.wholeElements = type.getNumElements();
      if (added.elements > 0 && parameter->hasAttr(orthogonalizedAttrName))
        added.matrix = {type.getDimSize(0), type.getDimSize(1)};
    }
    used.push_back(known->second);
  }
  options.emplace_back();
  if (buffers)
    addFunctions(buffers);
  memory.calls.push_back(std::move(call));
}

void PlannedMemory::addFunctions(BuffersAttr buffers) {
  int64_t evaluate = functionOf(buffers.getEvaluate()),
          inference = functionOf(buffers.getInference());
  for (NamedAttribute each : buffers.getOptions()) {
    auto option = cast<OptionBuffersAttr>(each.getValue());
    options.back()[each.getName().str()] = {functionOf(option.getForward()),
                                            evaluate,
                                            inference,
                                            functionOf(option.getBackward()),
                                            functionOf(option.getInputGrad()),
                                            functionOf(option.getWeightGrad())};
  }
}

/// What the option saves is one value, which both halves of a split backward read.
void PlannedMemory::addStated(int64_t layer) {
  const CallMemory &call = memory.calls[layer];
  auto cost = graph.layers[layer]->getAttrOfType<CostAttr>(costAttrName);
  for (auto option : cost.getOptions().getAsRange<RematOptionAttr>()) {
    FunctionMemory forward, backward, weightGrad;
    FormalMemory saved{rt::Role::Saved, 0, "saved_0", option.getSaved()};
    for (auto [position, edge] : llvm::enumerate(call.inputs)) {
      const EdgeMemory &value = memory.edges[edge];
      auto producer = cast<LayerOp>(graph.layers[value.producer]);
      auto made = producer->getAttrOfType<CostAttr>(costAttrName);
      if (int64_t bytes = made.getGradients()[value.output]; bytes > 0)
        backward.formals.push_back(
            {rt::Role::GradInput, static_cast<int64_t>(position), "grad_input", bytes});
    }
    for (auto [position, bytes] : llvm::enumerate(cost.getOutputs().asArrayRef())) {
      auto number = static_cast<int64_t>(position);
      forward.formals.push_back({rt::Role::Output, number, "output", bytes});
      bool isRead = !memory.edges[call.outputs[position]].consumers.empty();
      if (int64_t gradient = cost.getGradients()[number]; gradient > 0 && isRead)
        backward.formals.push_back({rt::Role::GradOutput, number, "grad_output", gradient});
    }
    CalleeFunctions functions;
    functions.evaluate = functions.inference = addFunction(forward, {});
    forward.formals.push_back(saved);
    backward.formals.push_back(saved);
    weightGrad.formals.push_back(saved);
    backward.workspaceBytes = weightGrad.workspaceBytes = option.getWorkspace();
    functions.forward = addFunction(std::move(forward), {});
    functions.backward = functions.inputGrad = addFunction(std::move(backward), {});
    functions.weightGrad = addFunction(std::move(weightGrad), {});
    options[layer][option.getName().str()] = functions;
  }
}

int64_t PlannedMemory::addFunction(FunctionMemory function, Scratch scratch) {
  for (FormalMemory &formal : function.formals)
    formal.stepBytes = {alignUp(formal.bytes), 0, 0};
  memory.functions.push_back(std::move(function));
  scratchOf.push_back(scratch);
  return static_cast<int64_t>(memory.functions.size()) - 1;
}

int64_t PlannedMemory::functionOf(FunctionBuffersAttr attribute) {
  if (!attribute)
    return -1;
  auto [known, fresh] = functionIndex.try_emplace(attribute, memory.functions.size());
  if (fresh) {
    FunctionMemory function;
    function.workspaceBytes = attribute.getWorkspace();
    for (auto formal : attribute.getFormals().getAsRange<FormalAttr>()) {
      // Whole gradients stay where the parameters are; only shares of them come and go.
      if (formal.getRole() == FormalRole::ParameterGrad && replicas == 1)
        continue;
      function.formals.push_back(
          {*rt::fromName<rt::Role>(stringifyFormalRole(formal.getRole()).str()), formal.getIndex(),
           formal.getName().str(), formal.getBytes()});
    }
    addFunction(std::move(function),
                {attribute.getProducts() != nullptr, attribute.getColumnSums() != nullptr,
                 attribute.getMoveBytes()});
  }
  return known->second;
}

/// Parameters with their gradients and moments, and constants: each once.
int64_t PlannedMemory::persistentBytes(int64_t stage, rt::WorkspaceFacts &facts) const {
  llvm::DenseSet<size_t> seen;
  int64_t bytes = 0;
  for (auto [index, call] : llvm::enumerate(memory.calls))
    if (memory.chunkStage[call.chunk] == stage)
      for (size_t number : parametersOf[index])
        if (seen.insert(number).second) {
          bytes += parameters[number].bytes;
          if (parameters[number].elements > 0)
            facts.addTrained(parameters[number].elements);
          if (auto [rows, cols] = parameters[number].matrix; rows > 0)
            facts.addOrthogonalized(rows, cols);
        }
  return bytes;
}

/// The optimizer's state of the largest share, where replicas have shares.
int64_t PlannedMemory::shareBytes(int64_t stage, const planner::Plan &plan,
                                  rt::WorkspaceFacts &facts) {
  if (replicas == 1)
    return 0;
  std::vector<std::set<int64_t>> stagesOf(parameters.size());
  for (auto [index, call] : llvm::enumerate(memory.calls))
    for (size_t parameter : parametersOf[index])
      stagesOf[parameter].insert(memory.chunkStage[call.chunk]);
  std::vector<schedule::TrainedParameter> trained;
  std::map<size_t, int32_t> numbers; // on this stage, in the order of their first use
  int64_t arrays = 0, coded = 0;     // of the state, of all parameters alike
  const int64_t grain = rt::bucketGrain(optimizerOf(module));
  for (auto [index, call] : llvm::enumerate(memory.calls)) {
    if (memory.chunkStage[call.chunk] != stage)
      continue;
    call.parameters.clear();
    for (size_t parameter : parametersOf[index]) {
      auto [known, fresh] = numbers.try_emplace(parameter, static_cast<int32_t>(numbers.size()));
      call.parameters.push_back(known->second);
      if (!fresh || parameters[parameter].elements == 0)
        continue;
      trained.push_back({known->second, parameters[parameter].elements,
                         stagesOf[parameter].size() > 1, parameters[parameter].wholeElements,
                         grain});
      arrays = parameters[parameter].stateArrays;
      coded = parameters[parameter].codedMoments;
    }
  }
  std::vector<rt::Action> computes;
  for (const planner::Action &action : plan.actions[stage])
    computes.push_back({kindAs<rt::ActionKind>(action.kind),
                        static_cast<int32_t>(action.microbatch),
                        static_cast<int32_t>(action.chunk)});
  int64_t bytes = 0;
  for (const schedule::FilledBucket &bucket : findBuckets(memory, stage, computes, trained)) {
    const int64_t elements = rt::largestShare(rt::cutIntoShares(bucket.elements, replicas));
    bytes += stateBytes(arrays, coded, elements);
    facts.addShares(replicas);
  }
  return bytes;
}

/// Chunks of the plan, and of each layer the functions that its option gives and its chunk runs.
void PlannedMemory::choose(const planner::Plan &plan, const StepVariants *variants) {
  memory.chunkStage = plan.chunkStage;
  std::vector<std::set<rt::ActionKind>> runs(memory.chunkStage.size());
  for (const std::vector<planner::Action> &list : plan.actions)
    for (const planner::Action &action : list)
      runs[action.chunk].insert(kindAs<rt::ActionKind>(action.kind));
  for (std::set<rt::ActionKind> &ofChunk : runs)
    if (variants) // plans choose
      ofChunk.insert(std::begin(rt::computeKinds), std::end(rt::computeKinds));
  memory.plannedVariant.clear();
  for (int64_t chunk = 0; chunk < memory.chunks(); ++chunk) {
    llvm::SmallBitVector planned;
    for (int64_t l = plan.cuts[chunk]; l < plan.cuts[chunk + 1]; ++l) {
      CallMemory &call = memory.calls[l];
      call.chunk = chunk;
      call.functions = options[l].at(plan.remat[l]).ofRuns(runs[chunk]);
      call.variants.clear();
      if (!variants)
        continue;
      planned.resize((*variants)[l].size(), true);
      for (auto [number, option] : llvm::enumerate((*variants)[l])) {
        call.variants.push_back(options[l].at(option).ofRuns(runs[chunk]));
        if (option != plan.remat[l])
          planned.reset(number);
      }
    }
    if (variants)
      memory.plannedVariant.push_back(planned.find_first());
  }
}

FailureOr<std::vector<StageMemory>> PlannedMemory::of(const planner::Plan &plan, int64_t stageCount,
                                                      int64_t microbatches,
                                                      const StepVariants *variants,
                                                      bool trainsOnly) {
  choose(plan, variants);
  std::vector<rt::Stage> stages(stageCount);
  rt::WorkspaceFacts kernels; // of the whole program
  kernels.averages = keepsAverages(module);
  std::map<std::string, int64_t> batchBytes;
  for (const CallMemory &call : memory.calls)
    for (int64_t variant = 0; variant < call.variantCount(); ++variant)
      for (int64_t function : call.functionsIn(variant).all())
        if (function >= 0) {
          kernels.products |= scratchOf[function].products;
          kernels.columnSums |= scratchOf[function].columnSums;
          kernels.moveBytes = std::max(kernels.moveBytes, scratchOf[function].moveBytes);
          for (const FormalMemory &formal : memory.functions[function].formals)
            if (formal.role == rt::Role::Batch)
              batchBytes[formal.name] = formal.bytes;
        }
  std::vector<rt::WorkspaceFacts> facts(stageCount, kernels);
  auto constants = memory.findConstants(stageCount);
  std::vector<int64_t> shares; // by stage
  for (rt::Stage &stage : stages) {
    stage.id = static_cast<int32_t>(&stage - stages.data());
    shares.push_back(shareBytes(stage.id, plan, facts[stage.id]));
    stage.persistentBytes = persistentBytes(stage.id, facts[stage.id]) + shares.back();
    for (const FormalMemory &constant : constants[stage.id])
      stage.persistentBytes += alignUp(constant.bytes);
  }
  for (StageMode purpose : {StageMode::Train, StageMode::Evaluate, StageMode::Inference}) {
    if (trainsOnly && purpose != StageMode::Train)
      continue;
    ModeWork work;
    work.purpose = purpose;
    work.stepPlanned = variants && purpose == StageMode::Train;
    work.microbatches = purpose == StageMode::Inference ? 1 : microbatches;
    work.messages = schedule::collectMessages(memory.sharedValues(), memory.chunkStage, true);
    // Messages of gradients pace those of values in every mode, as omnibal-materialize-schedule has
    // it.
    work.actions = schedule::insertCommunication(
        purpose == StageMode::Train
            ? plan.actions
            : schedule::forwardOnly(memory.chunkStage, stageCount, work.microbatches),
        work.messages);
    if (std::optional<LayoutError> error = layOutMode(memory, std::move(work), stages))
      return module.emitError("stage ") << error->stage << ": " << error->text, failure();
  }
  std::vector<StageMemory> result;
  for (const rt::Stage &stage : stages) {
    for (const rt::BatchValue &value : stage.modes.at(modeName(StageMode::Train)).batchValues)
      facts[stage.id].addBatchValue(batchBytes.at(rt::nameInLayer(value.name)), microbatches);
    StageMemory &stageMemory = result.emplace_back(StageMemory{
        stage.arenaBytes, rt::workspaceOf(target, facts[stage.id]), {}, shares[stage.id]});
    for (const FormalMemory &constant : constants[stage.id])
      stageMemory.constants[constant.name] = constant.bytes;
  }
  return result;
}

} // namespace omnibal::layout
