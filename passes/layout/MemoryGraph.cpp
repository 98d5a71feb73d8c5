#include "passes/layout/MemoryGraph.h"
#include "passes/common/OffsetAssignment.h"
#include "runtime/program/Sizes.h"

namespace omnibal::layout {

rt::Extent stepBytes(rt::DType dtype, const std::vector<rt::Extent> &shape,
                     const rt::SymbolValues &caps) {
  rt::Extent size{rt::byteSize(dtype)};
  bool isAffine = true;
  for (const rt::Extent &extent : shape) {
    isAffine &= size.isStatic() || extent.isStatic();
    const auto [factor, other] =
        extent.isStatic() ? std::pair(extent.constant, size) : std::pair(size.constant, extent);
    size = other.times(factor);
  }
  const int64_t bytes = rt::bytesAt(dtype, shape, caps);
  // Steps that are planned one by one have parts that all do the same.
  if (!isAffine || size.isOwn() || size.constant < 0 || size.perTile < 0 || size.perToken < 0)
    return {alignUp(bytes)};
  const rt::Extent whole{alignUp(size.constant), alignUp(size.perTile), alignUp(size.perToken)};
  // What is small a token would grow more than it shrinks.
  constexpr int64_t mostGrowth = 16;
  return whole.evaluate(caps) - bytes <= bytes / mostGrowth ? whole : rt::Extent{alignUp(bytes)};
}

int64_t CalleeFunctions::of(rt::ActionKind kind, StageMode mode) const {
  if (kind == rt::ActionKind::Backward)
    return backward;
  if (kind == rt::ActionKind::InputGrad)
    return inputGrad;
  if (kind == rt::ActionKind::WeightGrad)
    return weightGrad;
  switch (mode) {
  case StageMode::Train:
    return forward;
  case StageMode::Evaluate:
    return evaluate;
  case StageMode::Inference:
    return inference;
  }
  return -1;
}

CalleeFunctions CalleeFunctions::ofRuns(const std::set<rt::ActionKind> &kinds) const {
  CalleeFunctions run = *this;
  if (!kinds.count(rt::ActionKind::Backward))
    run.backward = -1;
  if (!kinds.count(rt::ActionKind::InputGrad))
    run.inputGrad = -1;
  if (!kinds.count(rt::ActionKind::WeightGrad))
    run.weightGrad = -1;
  return run;
}

int64_t MemoryGraph::variantsOf(int64_t chunk) const {
  for (const CallMemory &call : calls)
    if (call.chunk == chunk)
      return call.variantCount();
  return 1;
}

bool MemoryGraph::reads(int64_t function, rt::Role role, int64_t index) const {
  return function >= 0 &&
         llvm::any_of(functions[function].formals, [&](const FormalMemory &formal) {
           return formal.role == role && formal.index == index;
         });
}

bool MemoryGraph::givesInputGradient(int64_t call, int64_t input) const {
  return llvm::any_of(calls[call].functions.gradients(), [&](int64_t function) {
    return reads(function, rt::Role::GradInput, input);
  });
}

std::vector<schedule::SharedValue> MemoryGraph::sharedValues() const {
  std::vector<schedule::SharedValue> values;
  for (const EdgeMemory &edge : edges) {
    schedule::SharedValue &value = values.emplace_back();
    value.chunk = calls[edge.producer].chunk;
    for (auto [call, input] : edge.consumers)
      value.uses.push_back({calls[call].chunk, givesInputGradient(call, input)});
  }
  return values;
}

std::vector<std::vector<FormalMemory>> MemoryGraph::findConstants(int64_t stages) {
  std::vector<std::vector<FormalMemory>> constants(stages);
  constantIndex.assign(stages, {});
  for (const CallMemory &call : calls) {
    int64_t stage = chunkStage[call.chunk];
    for (int64_t variant = 0; variant < call.variantCount(); ++variant)
      for (int64_t function : call.functionsIn(variant).all())
        if (function >= 0)
          for (const FormalMemory &formal : functions[function].formals)
            if (formal.role == rt::Role::Constant &&
                constantIndex[stage].try_emplace(formal.name, constants[stage].size()).second)
              constants[stage].push_back(formal);
  }
  return constants;
}

} // namespace omnibal::layout
