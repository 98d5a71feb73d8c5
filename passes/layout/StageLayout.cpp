//===- StageLayout.cpp - Regions, forward lists, lifetimes -------------------------------===//
#include "passes/layout/StageLayout.h"

namespace omnibal::layout {

using schedule::Message;

StageLayout::StageLayout(const MemoryGraph &graph, StageMode purpose, int64_t stage,
                         const std::vector<Message> &messages, bool stepPlanned)
    : graph(graph), purpose(purpose), stage(stage), messages(messages), stepPlanned(stepPlanned) {}

std::string StageLayout::build(std::vector<rt::Action> actions, int64_t microbatches) {
  theMode.microbatches = static_cast<int32_t>(microbatches);
  theMode.actions = std::move(actions);
  actionsOf.resize(microbatches);
  for (auto [position, action] : llvm::enumerate(theMode.actions))
    if (action.kind <= rt::ActionKind::WaitSend && action.microbatch >= 0 &&
        action.microbatch < microbatches)
      actionsOf[action.microbatch].push_back(static_cast<int64_t>(position));
  workRegion = addRegion("workspace", RegionKind::Work);
  for (int64_t c = 0; c < graph.chunks(); ++c)
    if (graph.chunkStage[c] == stage) {
      placeReceives(c);
      if (stepPlanned)
        placeArrivals(c);
      placeSends(c);
    }
  for (int64_t c = 0; c < graph.chunks(); ++c) {
    if (graph.chunkStage[c] != stage)
      continue;
    const int64_t variants = stepPlanned ? graph.variantsOf(c) : 1;
    for (variant = 0; variant < variants; ++variant)
      if (std::string error = buildChunk(c); !error.empty())
        return error;
  }
  if (stepPlanned)
    describeBlocks();
  return "";
}

/// The lists of one variant of a chunk.
std::string StageLayout::buildChunk(int64_t number) {
  rt::Chunk chunk;
  chunk.id = static_cast<int32_t>(number);
  chunk.variant = static_cast<int32_t>(variant);
  for (const CallMemory &call : graph.calls)
    if (call.chunk == number)
      chunk.layers.push_back(call.name);
  if (variant > 0)
    forgetValues(number);
  std::string error = buildForward(chunk);
  if (purpose == StageMode::Train) {
    if (error.empty())
      error = buildBackward(chunk, rt::ActionKind::Backward, chunk.backward);
    if (error.empty())
      error = buildBackward(chunk, rt::ActionKind::InputGrad, chunk.inputGrad);
    if (error.empty())
      error = buildWeightGrad(chunk);
  }
  theMode.chunks.push_back(std::move(chunk));
  return error;
}

/// What stays in the chunk has other places in each of its variants.
void StageLayout::forgetValues(int64_t chunk) {
  for (auto it = valueLocation.begin(); it != valueLocation.end();) {
    const auto leaves = outRegion.find(chunk);
    const bool stays = graph.calls[graph.edges[it->first].producer].chunk == chunk &&
                       (leaves == outRegion.end() || it->second.index != leaves->second);
    it = stays ? valueLocation.erase(it) : std::next(it);
  }
  savedLocation.clear();
  heldLocation.clear();
  gradientLocation.clear();
  keptRegion.clear();
  heldRegion.clear();
}

int32_t StageLayout::addRegion(std::string name, RegionKind kind, int64_t chunk) {
  rt::Region region;
  region.name = std::move(name);
  theMode.regions.push_back(std::move(region));
  uses.push_back({kind, chunk, {}, {}, {}, {}});
  return static_cast<int32_t>(theMode.regions.size()) - 1;
}

/// Room for one more value; returns where.
rt::Extent StageLayout::grow(int32_t number, int64_t bytes, const rt::Extent &stepBytes) {
  rt::Region &region = theMode.regions[number];
  if (!stepPlanned) {
    int64_t offset = region.bytes;
    region.bytes = alignUp(offset + bytes);
    return {offset};
  }
  if (!region.block)
    region.block.emplace();
  rt::Extent &size = region.block->bytes, offset = size;
  size = size.plus(stepBytes);
  region.bytes = size.evaluate(graph.caps);
  return offset;
}

std::pair<int64_t, std::string> StageLayout::ownerOf(int64_t call) const {
  const std::string suffix = variant > 0 ? " in variant " + std::to_string(variant) : "";
  if (stepPlanned)
    return {call, graph.calls[call].name + suffix};
  return {graph.calls[call].chunk, std::to_string(graph.calls[call].chunk)};
}

/// Modes whose steps are not planned run what the plan's own options have. A call of another chunk
/// may have fewer variants than the one that is being built.
const CalleeFunctions &StageLayout::functionsOf(int64_t call) const {
  const CallMemory &site = graph.calls[call];
  return stepPlanned ? site.functionsIn(std::min(variant, site.variantCount() - 1))
                     : site.functions;
}

int64_t StageLayout::functionOf(int64_t call, rt::ActionKind kind) const {
  return functionsOf(call).of(kind, purpose);
}

bool StageLayout::readByBackward(int64_t call, rt::Role role, int64_t index) const {
  return purpose == StageMode::Train &&
         llvm::any_of(functionsOf(call).gradients(),
                      [&](int64_t function) { return graph.reads(function, role, index); });
}

bool StageLayout::readByWeightGrad(int64_t call, rt::Role role, int64_t index) const {
  return purpose == StageMode::Train && graph.reads(functionsOf(call).weightGrad, role, index);
}

/// Whether the second half of a backward reads the value of the edge.
bool StageLayout::outputReadByWeightGrad(int64_t edge) const {
  const EdgeMemory &value = graph.edges[edge];
  return readByWeightGrad(value.producer, rt::Role::Output, value.output) ||
         llvm::any_of(value.consumers, [&](const std::pair<int64_t, int64_t> &consumer) {
           return readByWeightGrad(consumer.first, rt::Role::Input, consumer.second);
         });
}

/// Room for a value that backward reads. What only its first half reads has a region of its own,
/// which ends with that half.
rt::Location StageLayout::keep(int64_t call, bool untilWeightGrad, const FormalMemory &value) {
  auto [owner, name] = ownerOf(call);
  auto [it, fresh] = keptRegion.try_emplace({owner, untilWeightGrad}, -1);
  if (fresh)
    it->second = addRegion((untilWeightGrad ? "kept for weight_grad by " : "kept by ") + name,
                           RegionKind::Kept, graph.calls[call].chunk);
  return {rt::Space::Region, it->second, grow(it->second, value.bytes, value.stepBytes)};
}

/// Room for what the first half of a backward leaves to the second.
rt::Location StageLayout::hold(int64_t call, int64_t bytes, const rt::Extent &stepBytes) {
  auto [owner, name] = ownerOf(call);
  auto [it, fresh] = heldRegion.try_emplace(owner, -1);
  if (fresh)
    it->second = addRegion("held by " + name, RegionKind::Kept, graph.calls[call].chunk);
  return {rt::Space::Region, it->second, grow(it->second, bytes, stepBytes)};
}

/// Buffers that messages arrive in: one region a message, its edges one after the other.
void StageLayout::placeReceives(int64_t chunk) {
  for (auto [i, message] : llvm::enumerate(messages)) {
    if (message.toChunk != chunk || message.toStage != stage)
      continue;
    int32_t region =
        addRegion((message.gradient ? "receive gradient " : "receive ") +
                      std::to_string(message.fromChunk) + " to " + std::to_string(chunk),
                  RegionKind::Message, chunk);
    receiveRegion[i] = region;
    uses[region].receives.push_back(message.id);
    uses[region].begin =
        message.gradient ? planner::BlockBegin::ReceiveGrad : planner::BlockBegin::Receive;
    for (int64_t edge : messages[i].edges) {
      rt::Location location{rt::Space::Region, region,
                            grow(region, graph.edges[edge].bytes, graph.edges[edge].stepBytes)};
      if (message.gradient)
        gradInLocation[{edge, message.fromChunk}] = location;
      else
        receivedLocation[{edge, chunk}] = location;
    }
  }
}

/// What leaves the chunk (for another stage, or another chunk of this one) lies in one region per
/// direction, so that it lives exactly as long as sends and later readers need it.
void StageLayout::placeSends(int64_t chunk) {
  for (auto [index, edge] : llvm::enumerate(graph.edges)) {
    int64_t producer = graph.calls[edge.producer].chunk;
    bool leaves = false, returns = false;
    for (auto [call, input] : edge.consumers) {
      int64_t consumer = graph.calls[call].chunk;
      leaves |= producer == chunk && consumer != chunk;
      returns |= purpose == StageMode::Train && consumer == chunk && producer != chunk &&
                 graph.givesInputGradient(call, input);
    }
    if (leaves) {
      auto [it, fresh] = outRegion.try_emplace(chunk, -1);
      if (fresh)
        it->second = addRegion("out of " + std::to_string(chunk), RegionKind::Message, chunk);
      valueLocation[index] = {rt::Space::Region, it->second,
                              grow(it->second, edge.bytes, edge.stepBytes)};
    }
    if (returns) {
      auto [it, fresh] = gradOutRegion.try_emplace(chunk, -1);
      if (fresh)
        it->second =
            addRegion("gradients out of " + std::to_string(chunk), RegionKind::Message, chunk);
      gradOutLocation[{index, chunk}] = {rt::Space::Region, it->second,
                                         grow(it->second, edge.bytes, edge.stepBytes)};
    }
  }
  for (const Message &message : messages)
    if (message.fromChunk == chunk && message.fromStage == stage)
      uses[message.gradient ? gradOutRegion[chunk] : outRegion[chunk]].sends.push_back(message.id);
}

std::string StageLayout::forwardLocation(int64_t edge, int64_t chunk, rt::Location &out) const {
  auto received = receivedLocation.find({edge, chunk});
  if (received != receivedLocation.end()) {
    out = received->second;
    return "";
  }
  auto made = valueLocation.find(edge);
  if (made == valueLocation.end())
    return "internal error: activation " + std::to_string(edge) + " has no place in chunk " +
           std::to_string(chunk);
  out = made->second;
  return "";
}

std::string StageLayout::buildForward(rt::Chunk &chunk) {
  CallList list(rt::ActionKind::Forward, chunk.id);
  for (const auto &[place, location] : receivedLocation)
    if (auto made = valueLocation.find(place.first);
        place.second == chunk.id && made != valueLocation.end())
      addCopy(list, place.first, made->second, location);
  for (auto [index, call] : llvm::enumerate(graph.calls)) {
    if (call.chunk != chunk.id)
      continue;
    int64_t function = functionOf(index, rt::ActionKind::Forward);
    if (function < 0)
      return "internal error: layer " + call.name + " has no forward function";
    std::map<std::pair<rt::Role, int64_t>, rt::Location> special;
    for (const FormalMemory &formal : graph.functions[function].formals) {
      if (formal.role == rt::Role::Saved) {
        bool late = readByWeightGrad(index, rt::Role::Saved, formal.index);
        special[{formal.role, formal.index}] = savedLocation[{index, formal.index}] =
            keep(index, late, formal);
      }
      if (formal.role != rt::Role::Output)
        continue;
      int64_t edge = call.outputs[formal.index];
      if (const std::optional<std::string> &name = graph.edges[edge].result) {
        special[{formal.role, formal.index}] = resultLocation(chunk.id, *name, formal);
        continue;
      }
      if (!valueLocation.count(edge)) {
        bool kept = readByBackward(index, rt::Role::Output, formal.index);
        for (auto [consumer, input] : graph.edges[edge].consumers)
          kept |= readByBackward(consumer, rt::Role::Input, input);
        valueLocation[edge] = kept ? keep(index, outputReadByWeightGrad(edge), formal)
                                   : transient(list, formal.bytes);
      }
      special[{formal.role, formal.index}] = valueLocation[edge];
    }
    for (auto [position, edge] : llvm::enumerate(call.inputs)) {
      rt::Location location;
      if (std::string error = forwardLocation(edge, chunk.id, location); !error.empty())
        return error;
      special[{rt::Role::Input, static_cast<int64_t>(position)}] = location;
    }
    if (std::string error = bind(list, index, function, special); !error.empty())
      return error;
  }
  finish(list, chunk.forward);
  return "";
}

/// A buffer in the workspace; its number stands in for the offset until `finish`.
rt::Location StageLayout::transient(CallList &list, int64_t bytes) {
  int64_t now = static_cast<int64_t>(list.calls.size());
  list.blocks.push_back({bytes, now, now});
  return {rt::Space::Region, workRegion, {-static_cast<int64_t>(list.blocks.size()), 0, 0}};
}

void StageLayout::touch(const rt::Location &location, const CallList &list) {
  if (location.space == rt::Space::Region)
    uses[location.index].touched.insert({list.kind, list.chunk, variant});
}

std::string StageLayout::bind(CallList &list, int64_t call, int64_t function,
                              const std::map<std::pair<rt::Role, int64_t>, rt::Location> &special) {
  const CallMemory &site = graph.calls[call];
  const FunctionMemory &callee = graph.functions[function];
  rt::LayerCall result;
  result.layer = site.name;
  result.function = static_cast<int32_t>(function);
  int64_t now = static_cast<int64_t>(list.calls.size());
  for (const FormalMemory &formal : callee.formals) {
    rt::Location location;
    auto it = special.find({formal.role, formal.index});
    switch (formal.role) {
    case rt::Role::Parameter:
    case rt::Role::ParameterGrad:
      location = {formal.role == rt::Role::Parameter ? rt::Space::Parameter : rt::Space::Gradient,
                  site.parameters[formal.index],
                  {}};
      break;
    case rt::Role::Constant:
      location = {rt::Space::Constant, graph.constantIndex[stage].at(formal.name), {}};
      break;
    case rt::Role::Batch:
      location = batchLocation(call, formal);
      break;
    case rt::Role::Result:
      location = resultLocation(site.chunk, formal.name, formal);
      break;
    default:
      if (it == special.end())
        return "internal error: layer " + site.name + ", function " + callee.name +
               ": nothing to bind to " + formal.name;
      location = it->second;
    }
    if (location.space == rt::Space::Region && location.index == workRegion &&
        location.offset.constant < 0) {
      Block &block = list.blocks[-location.offset.constant - 1];
      block.last = std::max(block.last, now);
    }
    touch(location, list);
    result.bindings.push_back(location);
  }
  // The function's own temporaries live during this call only.
  list.blocks.push_back({callee.workspaceBytes, now, now});
  result.workspaceRegion = workRegion;
  result.workspaceOffset = -static_cast<int64_t>(list.blocks.size());
  uses[workRegion].touched.insert({list.kind, list.chunk, variant});
  list.calls.push_back(std::move(result));
  return "";
}

void StageLayout::finish(CallList &list, std::vector<rt::LayerCall> &out) {
  Placement placement = assignOffsets(list.blocks);
  auto resolve = [&](int64_t &offset) {
    if (offset < 0)
      offset = placement.offsets[-offset - 1];
  };
  for (rt::LayerCall &call : list.calls) {
    for (rt::Location &location : call.bindings)
      if (location.space == rt::Space::Region && location.index == workRegion)
        resolve(location.offset.constant);
    resolve(call.workspaceOffset);
  }
  rt::Region &work = theMode.regions[workRegion];
  work.bytes = std::max(work.bytes, placement.bytes);
  out = std::move(list.calls);
}

rt::Location StageLayout::batchLocation(int64_t call, const FormalMemory &formal) {
  const int64_t chunk = graph.calls[call].chunk;
  const int64_t owner = stepPlanned ? chunk : -1;
  const std::string value = rt::valueOfLayer(formal.name, call);
  auto it = batchValues.find({owner, value});
  if (it != batchValues.end())
    return it->second;
  std::string name = "batch " + value;
  if (stepPlanned)
    name += " of " + std::to_string(chunk);
  int32_t region = addRegion(name, RegionKind::Batch, chunk);
  rt::Location location{rt::Space::Region, region, grow(region, formal.bytes, formal.stepBytes)};
  theMode.batchValues.push_back({value, {}, {}, region, 0});
  return batchValues[{owner, value}] = location;
}

rt::Location StageLayout::resultLocation(int64_t chunk, const std::string &name,
                                         const FormalMemory &formal) {
  auto it = results.find(name);
  if (it != results.end())
    return it->second;
  int32_t region = addRegion("result " + name, RegionKind::Result, chunk);
  rt::Location location{rt::Space::Region, region, grow(region, formal.bytes, formal.stepBytes)};
  theMode.results.push_back({name, {}, {}, region, 0});
  return results[name] = location;
}

/// That the mode's own actions run.
int64_t StageLayout::plannedVariant(int64_t chunk) const {
  return stepPlanned && !graph.plannedVariant.empty() ? graph.plannedVariant[chunk] : 0;
}

/// First and last action of the stage that use the region for this micro-batch.
std::pair<int64_t, int64_t> StageLayout::lifetime(int32_t region, int64_t microbatch) const {
  const RegionUse &use = uses[region];
  int64_t end = static_cast<int64_t>(theMode.actions.size());
  if (use.kind == RegionKind::Work)
    return {0, end};
  int64_t first = end, last = -1, firstCompute = end;
  for (int64_t at : actionsOf[microbatch]) {
    const rt::Action &action = theMode.actions[at];
    bool compute = action.kind <= rt::ActionKind::WeightGrad;
    bool mine =
        compute && use.touched.count({action.kind, action.index, plannedVariant(action.index)});
    if (action.kind == rt::ActionKind::Send || action.kind == rt::ActionKind::WaitSend)
      mine |= llvm::is_contained(use.sends, action.index);
    if (action.kind == rt::ActionKind::PostRecv || action.kind == rt::ActionKind::WaitRecv)
      mine |= llvm::is_contained(use.receives, action.index);
    if (compute)
      firstCompute = std::min(firstCompute, at);
    if (mine) {
      first = std::min(first, at);
      last = std::max(last, at);
    }
  }
  if (use.kind == RegionKind::Batch) // written before the micro-batch's first action
    first = std::min(first, firstCompute);
  if (use.kind == RegionKind::Result) // read by the runtime, at the latest at the end of the step
    last = end;
  return {first, std::max(first, last)};
}

int64_t StageLayout::placeRegions(int64_t base) {
  if (stepPlanned)
    return placeStepMemory(base);
  std::vector<Block> blocks;
  for (size_t r = 0; r < theMode.regions.size(); ++r)
    for (int64_t m = 0; m < theMode.microbatches; ++m) {
      if (uses[r].kind == RegionKind::Work && m > 0)
        continue; // one workspace serves all micro-batches
      auto [first, last] = lifetime(static_cast<int32_t>(r), m);
      blocks.push_back({theMode.regions[r].bytes, first, last});
    }
  Placement placement = assignOffsets(blocks);
  size_t next = 0;
  for (size_t r = 0; r < theMode.regions.size(); ++r) {
    rt::Region &region = theMode.regions[r];
    for (int64_t m = 0; m < theMode.microbatches; ++m) {
      if (uses[r].kind == RegionKind::Work && m > 0) {
        region.offsets.push_back(region.offsets.front());
        continue;
      }
      region.offsets.push_back(base + placement.offsets[next++]);
    }
  }
  return placement.bytes;
}

rt::Transfer StageLayout::sendSide(size_t i) const {
  const Message &message = messages[i];
  rt::Transfer transfer;
  transfer.id = message.id;
  transfer.gradient = message.gradient;
  transfer.fromStage = static_cast<int32_t>(message.fromStage);
  transfer.toStage = static_cast<int32_t>(message.toStage);
  transfer.fromChunk = static_cast<int32_t>(message.fromChunk);
  transfer.toChunk = static_cast<int32_t>(message.toChunk);
  for (int64_t edge : messages[i].edges) {
    rt::Location location =
        message.gradient ? gradOutLocation.at({edge, message.fromChunk}) : valueLocation.at(edge);
    transfer.sendRegion = location.index;
    rt::Piece piece;
    piece.sendOffset = location.offset;
    transfer.pieces.push_back(std::move(piece));
  }
  return transfer;
}

rt::Transfer StageLayout::receiveSide(size_t i) const {
  const Message &message = messages[i];
  rt::Transfer transfer;
  transfer.recvRegion = receiveRegion.at(i);
  for (int64_t edge : messages[i].edges) {
    rt::Piece piece;
    piece.recvOffset = message.gradient ? gradInLocation.at({edge, message.fromChunk}).offset
                                        : receivedLocation.at({edge, message.toChunk}).offset;
    transfer.pieces.push_back(piece);
  }
  return transfer;
}

int64_t StageLayout::messageBytes() const {
  if (stepPlanned)
    return stepMessageBytes();
  int64_t bytes = 0;
  for (size_t r = 0; r < theMode.regions.size(); ++r)
    if (uses[r].kind == RegionKind::Message) {
      std::set<int64_t> distinct(theMode.regions[r].offsets.begin(),
                                 theMode.regions[r].offsets.end());
      bytes += static_cast<int64_t>(distinct.size()) * theMode.regions[r].bytes;
    }
  return bytes;
}

} // namespace omnibal::layout
