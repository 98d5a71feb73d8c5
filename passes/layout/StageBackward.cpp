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
  auto runs = parts.schedule.runs.find(chunk);
  return runs != parts.schedule.runs.end() &&
         llvm::any_of(runs->second, [&](RunKind run) { return actionOf(run) == kind; });
}

/// Builds a whole backward, or its first half: what gives gradients of inputs.
std::string StageLayout::buildBackward(rt::Chunk &chunk, rt::ActionKind kind,
                                       std::vector<rt::LayerCall> &out) {
  CallList list{{}, {}, kind, chunk.id};
  std::map<int64_t, rt::Location> gradient; // edge -> where its gradient is being summed
  if (!isRun(chunk.id, kind))
    return "";

  // Contributions that are there before the chunk starts: from later chunks.
  for (auto [index, edge] : llvm::enumerate(parts.graph.edges)) {
    if (parts.graph.calls[edge.producer].chunk != chunk.id)
      continue;
    std::set<int64_t> sources;
    for (auto [call, input] : edge.consumers)
      if (parts.graph.calls[call].chunk != chunk.id &&
          schedule::givesInputGradient(parts.graph.calls[call], input))
        sources.insert(parts.graph.calls[call].chunk);
    for (int64_t source : sources) {
      rt::Location from = parts.stageOf(source) == stage
                              ? gradOutLocation.at({static_cast<int64_t>(index), source})
                              : gradInLocation.at({static_cast<int64_t>(index), source});
      auto [it, first] = gradient.try_emplace(index, from);
      if (!first)
        addAccumulate(list, index, from, it->second);
    }
  }

  for (int64_t index = static_cast<int64_t>(parts.graph.calls.size()) - 1; index >= 0; --index) {
    const Call &call = parts.graph.calls[index];
    int64_t function = functionOf(index, kind);
    if (call.chunk != chunk.id || function < 0)
      continue;
    std::map<std::pair<rt::Role, int64_t>, rt::Location> special;
    std::vector<std::pair<int64_t, rt::Location>> later; // contributions to add after the call
    for (auto [position, formal] : llvm::enumerate(parts.functions[function].formals)) {
      const rt::Buffer &buffer = parts.functions[function].function.buffers[position];
      int64_t bytes = bytesAtCaps(parts, buffer.shape, buffer.dtype);
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
          location = transient(list, bytes);
          later.push_back({edge, location});
        } else {
          location = gradient[edge] = gradInputLocation(list, edge, bytes);
        }
        break;
      }
      case rt::Role::Held:
        location = heldLocation[{index, formal.index}] = hold(chunk.id, bytes);
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

/// Says where a backward finds what forward left; nothing for other roles.
std::string StageLayout::keptLocation(int64_t call, const lower::Formal &formal,
                                      rt::Location &out) const {
  const Call &site = parts.graph.calls[call];
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
rt::Location StageLayout::gradInputLocation(CallList &list, int64_t edge, int64_t bytes) {
  const Edge &value = parts.graph.edges[edge];
  if (parts.graph.calls[value.producer].chunk != list.chunk)
    return gradOutLocation.at({edge, list.chunk});
  bool late = list.kind == rt::ActionKind::InputGrad &&
              readByWeightGrad(value.producer, rt::Role::GradOutput, value.output);
  return late ? hold(list.chunk, bytes) : transient(list, bytes);
}

/// The second half of a backward: gradients of parameters, from what is kept, from what the first
/// half holds and from gradients of outputs, which nothing has changed since.
std::string StageLayout::buildWeightGrad(rt::Chunk &chunk) {
  CallList list{{}, {}, rt::ActionKind::WeightGrad, chunk.id};
  if (!isRun(chunk.id, list.kind))
    return "";
  for (int64_t index = static_cast<int64_t>(parts.graph.calls.size()) - 1; index >= 0; --index) {
    const Call &call = parts.graph.calls[index];
    int64_t function = functionOf(index, list.kind);
    if (call.chunk != chunk.id || function < 0)
      continue;
    std::map<std::pair<rt::Role, int64_t>, rt::Location> special;
    for (const lower::Formal &formal : parts.functions[function].formals) {
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

/// Adds `into` += `from` as a call of a one-kernel function, shared by all edges of that shape.
void StageLayout::addAccumulate(CallList &list, int64_t edge, rt::Location from,
                                rt::Location into) {
  rt::View view;
  rt::DType dtype = parts.dtypeOf(parts.graph.edges[edge]);
  std::string name = dtype == rt::DType::F32 ? "accumulate" : "accumulate_bf16";
  for (const SymbolicDim &dim : parts.graph.edges[edge].shape) {
    view.shape.push_back({dim.constant, dim.perTile, dim.perToken});
    name += "_" + toString(dim);
  }
  view.strides.resize(view.shape.size());
  SymbolicDim stride = 1;
  for (size_t i = view.shape.size(); i-- > 0;) {
    view.strides[i] = {stride.constant, stride.perTile, stride.perToken};
    stride = multiply(stride, parts.graph.edges[edge].shape[i]).value_or(SymbolicDim(0));
  }
  int64_t function = -1;
  for (auto [i, known] : llvm::enumerate(parts.functions))
    if (known.function.name == name)
      function = static_cast<int64_t>(i);
  if (function < 0) {
    lower::LoweredFunction lowered;
    lowered.function.name = name;
    for (rt::Role role : {rt::Role::GradOutput, rt::Role::GradInput}) {
      rt::Buffer buffer;
      buffer.name = role == rt::Role::GradOutput ? "contribution" : "sum";
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
    call.attributes["accumulate"] = true;
    call.label = "gradient sum";
    lowered.function.calls.push_back(std::move(call));
    function = static_cast<int64_t>(parts.functions.size());
    parts.functions.push_back(std::move(lowered));
  }
  int64_t now = static_cast<int64_t>(list.calls.size());
  rt::LayerCall call;
  call.layer = parts.graph.calls[parts.graph.edges[edge].producer].name;
  call.function = static_cast<int32_t>(function);
  call.workspaceRegion = workRegion;
  for (const rt::Location &location : {from, into}) {
    if (location.index == workRegion && location.offset < 0) {
      Block &block = list.blocks[-location.offset - 1];
      block.last = std::max(block.last, now);
    }
    touch(location, list);
    call.bindings.push_back(location);
  }
  list.calls.push_back(std::move(call));
}

} // namespace omnibal::layout
