//===- PersistentLayout.cpp --------------------------------------------------------------===//
#include "passes/layout/PersistentLayout.h"
#include "dialects/omnibal/ir/QuantizedTensor.h"
#include "passes/common/ActionKinds.h"
#include "passes/common/OffsetAssignment.h"
#include "passes/layout/GradientShares.h"
#include "passes/shard/LayerLayouts.h"
#include "runtime/program/BucketShares.h"
#include "runtime/program/MomentShapes.h"
#include <array>
#include <set>

namespace omnibal::layout {
namespace {

/// What the part that is laid out has of the parameter, in the type's order of dimensions.
std::optional<rt::HeldUnits> heldBy(const ProgramParts &parts, ParameterOp op) {
  auto layout = mlir::dyn_cast_or_null<LayoutAttr>(op->getAttr(shard::heldAttrName));
  if (parts.calleesOfParts.empty() || !layout || !layout.isSplit())
    return std::nullopt;
  const rt::UnitRange own =
      rt::shareOf(layout.getUnits(), parts.part, parts.schedule.plan.getParts());
  return rt::HeldUnits{layout.getDim(), layout.getUnits(), layout.getInner(), own.begin, own.end};
}

rt::Parameter describe(ParameterOp op, const std::set<std::string> &withGradient,
                       const ProgramParts &parts) {
  const std::string &compute = parts.compute;
  rt::Parameter parameter;
  parameter.name = op.getSymName().str();
  auto type = cast<mlir::RankedTensorType>(op.getType());
  parameter.quantization = quantizedShapeOf(type).kind;
  if (parameter.quantization != rt::Quantization::None)
    parameter.dtype = rt::DType::I32;
  else if (compute == "bfloat16" && type.getElementType().isF32())
    parameter.dtype = rt::DType::BF16;
  parameter.shape.assign(type.getShape().begin(), type.getShape().end());
  parameter.transposed = op.getTransposed();
  parameter.held = heldBy(parts, op);
  if (parameter.transposed)
    std::swap(parameter.shape[0], parameter.shape[1]);
  if (parameter.transposed && parameter.held)
    parameter.held->dim = 1 - parameter.held->dim;
  // A parameter that no gradient reaches is never touched, as in PyTorch.
  parameter.trainable = !op.getFrozen() && withGradient.count(parameter.name);
  parameter.decay = type.getRank() >= 2;
  parameter.orthogonalized = parameter.trainable && op->hasAttr(orthogonalizedAttrName);
  return parameter;
}

/// Names of the parameters whose gradient some function yields.
std::set<std::string> parametersWithGradient(llvm::ArrayRef<ModeMemory> modes) {
  std::set<std::string> names;
  for (const ModeMemory &mode : modes)
    for (auto [index, call] : llvm::enumerate(mode.parts->graph.calls))
      for (int64_t function : mode.memory->calls[index].functions.gradients())
        if (function >= 0)
          for (const lower::Formal &formal : mode.parts->functions[function].formals)
            if (formal.role == rt::Role::ParameterGrad)
              names.insert(call.parameters[formal.index]);
  return names;
}

/// Each stage's constants in the order of first use, and their numbers for every mode.
void listConstants(llvm::ArrayRef<ModeMemory> modes, std::vector<rt::Stage> &stages) {
  std::map<std::string, const lower::ConstantData *> data;
  for (const ModeMemory &mode : modes)
    for (const lower::LoweredFunction &function : mode.parts->functions)
      for (const lower::ConstantData &constant : function.constants)
        data[constant.name] = &constant;
  std::vector<std::map<std::string, int32_t>> numberOf(stages.size());
  for (const ModeMemory &mode : modes)
    for (auto [s, constants] : llvm::enumerate(mode.memory->findConstants(stages.size())))
      for (const FormalMemory &constant : constants) {
        auto [it, fresh] = numberOf[s].try_emplace(constant.name, stages[s].constants.size());
        mode.memory->constantIndex[s][constant.name] = it->second;
        const lower::ConstantData &found = *data.at(constant.name);
        if (fresh)
          stages[s].constants.push_back({constant.name, found.dtype, found.shape, 0});
      }
}

void assignParameterOffsets(rt::Stage &stage, const ProgramParts &parts, int64_t &offset) {
  const rt::OptimizerKind optimizer = parts.optimizer;
  auto place = [&](int64_t &field, int64_t bytes) {
    field = offset;
    offset = alignUp(offset + bytes);
  };
  for (rt::Parameter &parameter : stage.parameters)
    place(parameter.dataOffset, parameter.dataBytes());
  const bool hasShares = !stage.buckets.empty();
  constexpr std::array fields{&rt::Parameter::gradOffset, &rt::Parameter::moment1Offset,
                              &rt::Parameter::moment2Offset};
  for (auto [number, field] : llvm::enumerate(fields))
    for (rt::Parameter &parameter : stage.parameters) {
      if (!parameter.trainable)
        continue;
      std::vector<int64_t> sizes{parameter.elements() * 4};
      if (!hasShares)
        llvm::append_range(sizes, rt::momentBytes(optimizer, parameter));
      if (number < sizes.size())
        place(parameter.*field, sizes[number]);
    }
  for (rt::Parameter &parameter : stage.parameters)
    if (parameter.trainable && !hasShares && parameter.dtype != rt::DType::F32)
      place(parameter.masterOffset, parameter.elements() * 4);
  for (rt::Parameter &parameter : stage.parameters)
    if (parameter.trainable && !hasShares && parts.averages)
      place(parameter.averageOffset, parameter.elements() * 4);
  for (rt::Bucket &bucket : stage.buckets) {
    rt::BucketShare &share = *bucket.share;
    const int64_t elements = rt::largestShare(share.bounds), bytes = elements * 4;
    place(share.moment1Offset, rt::momentBytes(optimizer, elements));
    if (rt::momentsOf(optimizer, false) > 1)
      place(share.moment2Offset, rt::momentBytes(optimizer, elements));
    if (stage.parameters[bucket.parameters.front()].dtype != rt::DType::F32)
      place(share.masterOffset, bytes);
    if (parts.averages)
      place(share.averageOffset, bytes);
  }
}

/// Buckets with the replicas' shares, which the state of the optimizer is laid out by.
void divideBuckets(const ProgramParts &parts, const MemoryGraph &memory, rt::Stage &stage) {
  std::vector<rt::Action> computes;
  StageOp op = parts.schedule.stages.at(StageMode::Train)[stage.id];
  for (RunOp run : op.getBody().front().getOps<RunOp>())
    computes.push_back({kindAs<rt::ActionKind>(run.getKind()),
                        static_cast<int32_t>(run.getMicrobatch()),
                        static_cast<int32_t>(run.getChunk())});
  for (const schedule::FilledBucket &filled :
       findBuckets(memory, stage.id, computes,
                   schedule::trainedParameters(stage, rt::bucketGrain(parts.optimizer)))) {
    rt::Bucket &bucket = stage.buckets.emplace_back(rt::Bucket{filled.parameters, {}});
    bucket.share.emplace().bounds =
        rt::cutIntoShares(filled.elements, parts.schedule.plan.getDataParallel());
  }
}

} // namespace

void layOutPersistent(llvm::ArrayRef<ModeMemory> modes, std::vector<rt::Stage> &stages) {
  std::set<std::string> withGradient = parametersWithGradient(modes);
  std::map<std::string, std::vector<int64_t>> stagesOf;
  std::vector<std::map<std::string, int32_t>> numberOf(stages.size()); // by stage
  std::map<std::string, ParameterOp> ops;
  for (ParameterOp op : modes.front().parts->graph.parameters)
    ops[op.getSymName().str()] = op;

  for (const ModeMemory &mode : modes)
    for (auto [index, call] : llvm::enumerate(mode.parts->graph.calls)) {
      int64_t s = mode.parts->stageOf(call.chunk);
      rt::Stage &stage = stages[s];
      for (const std::string &name : call.parameters) {
        auto [it, fresh] = numberOf[s].try_emplace(name, stage.parameters.size());
        mode.memory->calls[index].parameters.push_back(it->second);
        if (!fresh)
          continue;
        stage.parameters.push_back(describe(ops.at(name), withGradient, *mode.parts));
        stagesOf[name].push_back(s);
      }
    }
  listConstants(modes, stages);

  int32_t group = 0;
  for (auto &[name, list] : stagesOf) {
    if (list.size() < 2)
      continue;
    for (int64_t s : list) {
      rt::Parameter &parameter = stages[s].parameters[numberOf[s].at(name)];
      parameter.sharedGroup = group;
      parameter.counted = s == list.front();
    }
    ++group;
  }

  for (rt::Stage &stage : stages) {
    int64_t offset = 0;
    if (modes.front().parts->schedule.plan.getZero() > 0)
      divideBuckets(*modes.front().parts, *modes.front().memory, stage);
    assignParameterOffsets(stage, *modes.front().parts, offset);
    // Behind parameters, which lie alike for all ranks of a context group, as constants may not.
    for (rt::Constant &constant : stage.constants) {
      constant.offset = offset;
      int64_t count = 1;
      for (int64_t size : constant.shape)
        count *= size;
      offset = alignUp(offset + count * rt::byteSize(constant.dtype));
    }
    stage.persistentBytes = offset;
  }
}

} // namespace omnibal::layout
