//===- StageBackward.cpp - The backward list of a chunk ----------------------------------===//
//
// Layers in reverse. The gradient of an activation is the sum of what its consumers contribute; the
// first contribution in this order owns the buffer, later ones are added to it.
//
//===-------------------------------------------------------------------------------------------===//
#include "passes/export/StageLayout.h"

namespace omnibal::exporter {

std::string StageLayout::buildBackward(rt::Chunk &chunk) {
  CallList list{{}, {}, rt::ActionKind::Backward, chunk.id};
  std::map<int64_t, rt::Location> gradient; // edge -> where its gradient is being summed

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
    int64_t function = functionOf(index, true);
    if (call.chunk != chunk.id || function < 0)
      continue;
    std::map<std::pair<rt::Role, int64_t>, rt::Location> special;
    std::vector<std::pair<int64_t, rt::Location>> later; // contributions to add after the call
    for (auto [position, formal] : llvm::enumerate(parts.functions[function].formals)) {
      const rt::Buffer &buffer = parts.functions[function].function.buffers[position];
      rt::Location location;
      switch (formal.role) {
      case rt::Role::Input:
        if (std::string error = forwardLocation(call.inputs[formal.index], chunk.id, location);
            !error.empty())
          return error;
        break;
      case rt::Role::Output:
        location = valueLocation.at(call.outputs[formal.index]);
        break;
      case rt::Role::Saved:
        location = savedLocation.at({index, formal.index});
        break;
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
        bool mine = parts.graph.calls[parts.graph.edges[edge].producer].chunk == chunk.id;
        if (gradient.count(edge)) {
          location = transient(list, bytesAtCaps(parts, buffer.shape, buffer.dtype));
          later.push_back({edge, location});
        } else {
          location = mine ? transient(list, bytesAtCaps(parts, buffer.shape, buffer.dtype))
                          : gradOutLocation.at({edge, chunk.id});
          gradient[edge] = location;
        }
        break;
      }
      default:
        continue;
      }
      special[{formal.role, formal.index}] = location;
    }
    if (std::string error = bind(list, index, function, special); !error.empty())
      return error;
    for (auto &[edge, from] : later)
      addAccumulate(list, edge, from, gradient.at(edge));
  }
  finish(list, chunk.backward);
  return "";
}

/// Adds `into` += `from` as a call of a one-kernel function, shared by all edges of that shape.
void StageLayout::addAccumulate(CallList &list, int64_t edge, rt::Location from,
                                rt::Location into) {
  rt::View view;
  std::string name = "accumulate";
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

} // namespace omnibal::exporter
