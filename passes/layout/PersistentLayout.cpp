//===- PersistentLayout.cpp --------------------------------------------------------------===//
#include "passes/layout/PersistentLayout.h"
#include "passes/layout/OffsetAssignment.h"
#include <set>

namespace omnibal::layout {
namespace {

rt::Parameter describe(ParameterOp op, const std::set<std::string> &withGradient,
                       const std::string &compute) {
  rt::Parameter parameter;
  parameter.name = op.getSymName().str();
  auto type = cast<mlir::RankedTensorType>(op.getType());
  if (compute == "bfloat16" && type.getElementType().isF32())
    parameter.dtype = rt::DType::BF16;
  parameter.shape.assign(type.getShape().begin(), type.getShape().end());
  parameter.transposed = op.getTransposed();
  if (parameter.transposed)
    std::swap(parameter.shape[0], parameter.shape[1]);
  // A parameter that no gradient reaches is never touched, as in PyTorch.
  parameter.trainable = !op.getFrozen() && withGradient.count(parameter.name);
  parameter.decay = type.getRank() >= 2;
  return parameter;
}

/// Names of the parameters whose gradient some function yields.
std::set<std::string> parametersWithGradient(const ProgramParts &parts) {
  std::set<std::string> names;
  for (auto [index, call] : llvm::enumerate(parts.graph.calls)) {
    for (int64_t function : parts.callees[index].gradients())
      if (function >= 0)
        for (const lower::Formal &formal : parts.functions[function].formals)
          if (formal.role == rt::Role::ParameterGrad)
            names.insert(call.parameters[formal.index]);
  }
  return names;
}

void assignParameterOffsets(rt::Stage &stage, int64_t &offset) {
  auto place = [&](int64_t &field, int64_t bytes) {
    field = offset;
    offset = alignUp(offset + bytes);
  };
  for (rt::Parameter &parameter : stage.parameters)
    place(parameter.dataOffset, parameter.elements() * rt::byteSize(parameter.dtype));
  for (int64_t rt::Parameter::*field :
       {&rt::Parameter::gradOffset, &rt::Parameter::moment1Offset, &rt::Parameter::moment2Offset})
    for (rt::Parameter &parameter : stage.parameters)
      if (parameter.trainable)
        place(parameter.*field, parameter.elements() * 4);
  for (rt::Parameter &parameter : stage.parameters)
    if (parameter.trainable && parameter.dtype != rt::DType::F32)
      place(parameter.masterOffset, parameter.elements() * 4);
}

} // namespace

void layOutPersistent(ProgramParts &parts, std::vector<rt::Stage> &stages) {
  std::set<std::string> withGradient = parametersWithGradient(parts);
  std::map<std::string, std::vector<int64_t>> stagesOf;
  parts.parameterIndex.assign(stages.size(), {});
  parts.constantIndex.assign(stages.size(), {});
  std::map<std::string, ParameterOp> ops;
  for (ParameterOp op : parts.graph.parameters)
    ops[op.getSymName().str()] = op;

  for (auto [index, call] : llvm::enumerate(parts.graph.calls)) {
    int64_t s = parts.stageOf(call.chunk);
    rt::Stage &stage = stages[s];
    for (const std::string &name : call.parameters) {
      auto [it, fresh] = parts.parameterIndex[s].try_emplace(name, stage.parameters.size());
      if (!fresh)
        continue;
      stage.parameters.push_back(describe(ops.at(name), withGradient, parts.compute));
      stagesOf[name].push_back(s);
    }
    const CalleeFunctions &callee = parts.callees[index];
    for (int64_t function : {callee.forward, callee.backward, callee.inputGrad, callee.weightGrad,
                             callee.evaluate, callee.inference}) {
      if (function < 0)
        continue;
      for (const lower::ConstantData &data : parts.functions[function].constants)
        if (parts.constantIndex[s].try_emplace(data.name, stage.constants.size()).second)
          stage.constants.push_back({data.name, data.dtype, data.shape, 0});
    }
  }

  int32_t group = 0;
  for (auto &[name, list] : stagesOf) {
    if (list.size() < 2)
      continue;
    for (int64_t s : list) {
      rt::Parameter &parameter = stages[s].parameters[parts.parameterIndex[s].at(name)];
      parameter.sharedGroup = group;
      parameter.counted = s == list.front();
    }
    ++group;
  }

  for (rt::Stage &stage : stages) {
    int64_t offset = 0;
    for (rt::Constant &constant : stage.constants) {
      constant.offset = offset;
      int64_t count = 1;
      for (int64_t size : constant.shape)
        count *= size;
      offset = alignUp(offset + count * rt::byteSize(constant.dtype));
    }
    assignParameterOffsets(stage, offset);
    stage.persistentBytes = offset;
  }
}

} // namespace omnibal::layout
