//===- StageBackward.cpp - The backward lists of a chunk ---------------------------------===//
//
// Layers in reverse; the same order in all of a backward and in its halves. The gradient of an
// activation is the sum of what its consumers contribute; the first contribution in this order owns
// the buffer, later ones are added to it.
//
//===-------------------------------------------------------------------------------------------===//
#include "passes/layout/StageLayout.h"

namespace omnibal::layout {

/// Whether some action of a training step runs this part of the chunk.
bool StageLayout::isRun(int64_t chunk, rt::ActionKind kind) const {
  return llvm::any_of(theMode.actions, [&](const rt::Action &action) {
    return action.kind == kind && action.index == chunk;
  });
}

/// Builds a whole backward, or its first half: what gives gradients of inputs.
std::string StageLayout::buildBackward(rt::Chunk &chunk, rt::ActionKind kind,
                                       std::vector<rt::LayerCall> &out) {
  CallList list(kind, chunk.id);
  std::map<int64_t, rt::Location> gradient; // edge -> where its gradient is being summed
  if (!stepPlanned && !isRun(chunk.id, kind))
    return "";

  // Contributions that are there before the chunk starts: from later chunks.
  for (auto [index, edge] : llvm::enumerate(graph.edges)) {
    if (graph.calls[edge.producer].chunk != chunk.id)
      continue;
    std::set<int64_t> sources;
    for (auto [call, input] : edge.consumers)
      if (graph.calls[call].chunk != chunk.id && graph.givesInputGradient(call, input))
        sources.insert(graph.calls[call].chunk);
    for (int64_t source : sources) {
      const std::pair<int64_t, int64_t> key{static_cast<int64_t>(index), source};
      const bool isHere = graph.chunkStage[source] == stage;
      rt::Location from = isHere && !stepPlanned ? gradOutLocation.at(key) : gradInLocation.at(key);
      if (isHere && stepPlanned)
        addCopy(list, key.first, gradOutLocation.at(key), from);
      auto [it, first] = gradient.try_emplace(index, from);
      if (!first)
        addAccumulate(list, index, from, it->second);
    }
  }

  for (int64_t index = static_cast<int64_t>(graph.calls.size()) - 1; index >= 0; --index) {
    const CallMemory &call = graph.calls[index];
    if (call.chunk != chunk.id)
      continue;
    const int64_t function = functionOf(index, kind);
    if (function < 0)
      continue;
    std::map<std::pair<rt::Role, int64_t>, rt::Location> special;
    std::vector<std::pair<int64_t, rt::Location>> later; // contributions to add after the call
    for (const FormalMemory &formal : graph.functions[function].formals) {
      rt::Location location;
      switch (formal.role) {
      case rt::Role::GradOutput: {
        auto it = gradient.find(call.outputs[formal.index]);
        if (it == gradient.end())
          return "internal error: layer " + call.name + " reads the gradient of output " +
                 std::to_string(formal.index) + ", to which nothing contributes";
        location = it->second;
        break;
      }
      case rt::Role::GradInput: {
        int64_t edge = call.inputs[formal.index];
        if (gradient.count(edge)) {
          location = transient(list, formal.bytes);
          later.push_back({edge, location});
        } else {
          location = gradient[edge] = gradInputLocation(list, edge, formal);
        }
        break;
      }
      case rt::Role::Held:
        location = heldLocation[{index, formal.index}] =
            hold(index, formal.bytes, formal.stepBytes);
        break;
      default:
        if (std::string error = keptLocation(index, formal, location); !error.empty())
          return error;
      }
      special[{formal.role, formal.index}] = location;
    }
    if (std::string error = bind(list, index, function, special); !error.empty())
      return error;
    for (auto &[edge, from] : later)
      addAccumulate(list, edge, from, gradient.at(edge));
  }
  finish(list, out);
  if (kind == rt::ActionKind::InputGrad)
    for (const auto &[edge, location] : gradient)
      gradientLocation[edge] = location;
  return "";
}

/// Where a backward finds what forward left; nothing for other roles.
std::string StageLayout::keptLocation(int64_t call, const FormalMemory &formal,
                                      rt::Location &out) const {
  const CallMemory &site = graph.calls[call];
  if (formal.role == rt::Role::Input)
    return forwardLocation(site.inputs[formal.index], site.chunk, out);
  if (formal.role == rt::Role::Output)
    out = valueLocation.at(site.outputs[formal.index]);
  else if (formal.role == rt::Role::Saved)
    out = savedLocation.at({call, formal.index});
  return "";
}

/// The first contribution to the gradient of an edge: with what is sent if the edge comes from
/// another chunk; in a buffer of its own if the producer's weight_grad reads it.
rt::Location StageLayout::gradInputLocation(CallList &list, int64_t edge,
                                            const FormalMemory &formal) {
  const EdgeMemory &value = graph.edges[edge];
  if (graph.calls[value.producer].chunk != list.chunk)
    return gradOutLocation.at({edge, list.chunk});
  bool late = list.kind == rt::ActionKind::InputGrad &&
              readByWeightGrad(value.producer, rt::Role::GradOutput, value.output);
  return late ? hold(value.producer, formal.bytes, formal.stepBytes)
              : transient(list, formal.bytes);
}

/// The second half of a backward: gradients of parameters, from what is kept, from what the first
/// half holds and from gradients of outputs, which nothing has changed since.
std::string StageLayout::buildWeightGrad(rt::Chunk &chunk) {
  CallList list(rt::ActionKind::WeightGrad, chunk.id);
  if (!stepPlanned && !isRun(chunk.id, list.kind))
    return "";
  for (int64_t index = static_cast<int64_t>(graph.calls.size()) - 1; index >= 0; --index) {
    const CallMemory &call = graph.calls[index];
    if (call.chunk != chunk.id)
      continue;
    const int64_t function = functionOf(index, list.kind);
    if (function < 0)
      continue;
    std::map<std::pair<rt::Role, int64_t>, rt::Location> special;
    for (const FormalMemory &formal : graph.functions[function].formals) {
      rt::Location &location = special[{formal.role, formal.index}];
      if (formal.role == rt::Role::GradOutput) {
        auto it = gradientLocation.find(call.outputs[formal.index]);
        if (it == gradientLocation.end())
          return "internal error: layer " + call.name + " reads the gradient of output " +
                 std::to_string(formal.index) + ", to which nothing contributes";
        location = it->second;
      } else if (formal.role == rt::Role::Held) {
        location = heldLocation.at({index, formal.index});
      } else if (std::string error = keptLocation(index, formal, location); !error.empty()) {
        return error;
      }
    }
    if (std::string error = bind(list, index, function, special); !error.empty())
      return error;
  }
  finish(list, chunk.weightGrad);
  return "";
}

/// Adds `into` += `from`.
void StageLayout::addAccumulate(CallList &list, int64_t edge, rt::Location from,
                                rt::Location into) {
  addHelper(list, edge, static_cast<int32_t>(-1 - 2 * edge), from, into);
}

void StageLayout::addCopy(CallList &list, int64_t edge, rt::Location from, rt::Location to) {
  addHelper(list, edge, static_cast<int32_t>(-2 - 2 * edge), from, to);
}

void StageLayout::addHelper(CallList &list, int64_t edge, int32_t function, rt::Location from,
                            rt::Location to) {
  int64_t now = static_cast<int64_t>(list.calls.size());
  rt::LayerCall call;
  call.layer = graph.calls[graph.edges[edge].producer].name;
  call.function = function;
  call.workspaceRegion = workRegion;
  for (const rt::Location &location : {from, to}) {
    if (location.index == workRegion && location.offset.constant < 0) {
      Block &block = list.blocks[-location.offset.constant - 1];
      block.last = std::max(block.last, now);
    }
    touch(location, list);
    call.bindings.push_back(location);
  }
  list.calls.push_back(std::move(call));
}

} // namespace omnibal::layout
