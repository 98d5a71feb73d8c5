#include "passes/layout/ArenaModel.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/cost/LayerFacts.h"
#include "passes/layout/ArenaLayers.h"
#include "passes/layout/OffsetAssignment.h"
#include "passes/layout/StageTimeline.h"
#include <map>
#include <set>
#include <tuple>

using namespace mlir;

namespace omnibal::layout {
namespace {

using planner::ActionKind;
using schedule::StepKind;

class ArenaModel {
public:
  ArenaModel(ModuleOp module, const planner::Problem &problem, const planner::Plan &plan)
      : module(module), problem(problem), plan(plan) {}

  FailureOr<std::vector<int64_t>> run() {
    auto found = LayerGraph::get(module, "omnibal-search-plan");
    if (failed(found))
      return failure();
    graph = std::move(*found);
    ArenaLayers read = readArenaLayers(graph, plan);
    layers = std::move(read.layers);
    tensors = std::move(read.tensors);
    std::vector<int64_t> arenas(problem.cluster.stages, 0);
    for (Mode mode : {Mode::Train, Mode::Evaluate, Mode::Inference}) {
      findMessages(mode);
      auto steps = schedule::insertCommunication(listsOf(mode), messages);
      for (int64_t stage = 0; stage < problem.cluster.stages; ++stage)
        arenas[stage] = std::max(arenas[stage], regions(stage, StageTimeline(steps[stage]), mode));
    }
    for (int64_t stage = 0; stage < problem.cluster.stages; ++stage)
      arenas[stage] += persistent(stage);
    return arenas;
  }

private:
  enum class Mode { Train, Evaluate, Inference };

  int64_t stageOf(int64_t layer) const { return plan.chunkStage[layers[layer].chunk]; }

  int64_t microbatchesOf(Mode mode) const {
    return mode == Mode::Inference ? 1 : problem.microbatches;
  }

  /// The plan's lists, or every micro-batch forward through the chunks of each stage.
  std::vector<std::vector<planner::Action>> listsOf(Mode mode) const {
    if (mode == Mode::Train)
      return plan.actions;
    std::vector<std::vector<planner::Action>> lists(problem.cluster.stages);
    for (int64_t m = 0; m < microbatchesOf(mode); ++m)
      for (size_t c = 0; c < plan.chunkStage.size(); ++c)
        lists[plan.chunkStage[c]].push_back({ActionKind::Forward, m, static_cast<int64_t>(c)});
    return lists;
  }

  /// Finds messages in the order of schedule::collectMessages.
  void findMessages(Mode mode) {
    messages.clear();
    messageOf.clear();
    for (bool gradient : {false, true})
      for (const ArenaTensor &tensor : tensors)
        for (auto [consumer, reads] : tensor.consumers) {
          int64_t from = layers[tensor.producer].chunk, to = layers[consumer].chunk;
          if (plan.chunkStage[from] == plan.chunkStage[to] ||
              (gradient && (mode != Mode::Train || tensor.gradientBytes == 0)))
            continue;
          if (gradient)
            std::swap(from, to);
          auto id = static_cast<int32_t>(messages.size());
          if (messageOf.try_emplace({gradient, from, to}, id).second)
            messages.push_back(
                {id, gradient, from, to, plan.chunkStage[from], plan.chunkStage[to]});
        }
  }

  /// The last wait for a message that the chunk sends; -1: it sends none.
  int64_t lastSent(bool gradient, int64_t chunk, int64_t m, const StageTimeline &clock) const {
    int64_t last = -1;
    for (const schedule::Message &message : messages)
      if (message.gradient == gradient && message.fromChunk == chunk)
        last = std::max(last, clock.sent(message.id, m));
    return last;
  }

  /// Parameters with their gradients and moments, and constants: each once.
  int64_t persistent(int64_t stage) {
    std::map<StringRef, int64_t> constants;
    std::set<StringRef> seen;
    int64_t bytes = 0;
    for (size_t l = 0; l < layers.size(); ++l) {
      if (stageOf(static_cast<int64_t>(l)) != stage)
        continue;
      for (unsigned i = 0, end = graph.layers[l].getParameters().size(); i < end; ++i) {
        ParameterOp parameter = graph.getParameter(graph.layers[l], i);
        if (seen.insert(parameter.getSymName()).second)
          bytes += residentBytes(parameter->getAttrOfType<ParameterCostAttr>(costAttrName));
      }
      add(layers[l].constants, constants);
    }
    for (const auto &[name, size] : constants)
      bytes += size;
    return bytes;
  }

  /// Values, gradient and moments are arrays of their own.
  static int64_t residentBytes(ParameterCostAttr cost) {
    int64_t arrays = cost.getReduced() > 0 ? cost.getResident() / cost.getReduced() : 0;
    return arrays * cost::alignBuffer(cost.getReduced()) +
           cost::alignBuffer(cost.getResident() - arrays * cost.getReduced());
  }

  static void add(DictionaryAttr from, std::map<StringRef, int64_t> &to) {
    for (NamedAttribute each : from ? from.getValue() : ArrayRef<NamedAttribute>())
      to[each.getName().getValue()] = cast<IntegerAttr>(each.getValue()).getInt();
  }

  /// The exporter's order of regions, which decides how they lie where sizes are equal: messages of
  /// a chunk, then what it keeps; each for one micro-batch after the other.
  enum class Region { Received, Gradient, GradientOut, Out, Kept, KeptLate, Held, Results };
  using RegionKey = std::tuple<bool, int64_t, Region, int64_t>;
  using Regions = std::map<RegionKey, std::vector<Block>>;

  static void addRegion(Regions &regions, int64_t chunk, Region kind, Block block,
                        int64_t from = 0) {
    regions[{kind >= Region::Kept, chunk, kind, from}].push_back(block);
  }

  int64_t regions(int64_t stage, const StageTimeline &clock, Mode mode) {
    Regions list;
    int64_t work = 0, microbatches = microbatchesOf(mode);
    for (size_t c = 0; c < plan.chunkStage.size(); ++c) {
      if (plan.chunkStage[c] != stage)
        continue;
      auto chunk = static_cast<int64_t>(c);
      bool halves = clock.run(chunk, 0, {StepKind::WeightGrad}) >= 0;
      work = std::max(work, forwardWork(chunk, mode));
      if (mode == Mode::Train)
        work = std::max(work, backwardWork(chunk, halves));
      for (int64_t m = 0; m < microbatches; ++m)
        addChunk(chunk, m, clock, mode, list);
    }
    std::vector<Block> blocks{{work, 0, clock.end()}};
    for (const auto &[key, region] : list)
      blocks.insert(blocks.end(), region.begin(), region.end());
    for (int64_t m = 0; m < microbatches; ++m)
      addBatch(stage, m, clock, mode, blocks);
    return assignOffsets(blocks).bytes;
  }

  /// What is held for one micro-batch of a chunk.
  void addChunk(int64_t chunk, int64_t m, const StageTimeline &clock, Mode mode, Regions &list) {
    int64_t f = clock.run(chunk, m, {StepKind::Forward});
    int64_t b = clock.run(chunk, m, {StepKind::Backward, StepKind::InputGrad});
    int64_t last = clock.run(chunk, m, {StepKind::WeightGrad, StepKind::Backward});
    bool training = mode == Mode::Train && b >= 0;
    bool halves = last > b;
    int64_t kept = 0, late = 0, held = 0, out = 0, gradientOut = 0;
    bool outHeld = false;
    std::map<int64_t, std::pair<int64_t, bool>> received; // from chunk: bytes, read by backward
    std::map<int64_t, int64_t> gradients;                 // from chunk
    for (int64_t l = plan.cuts[chunk]; l < plan.cuts[chunk + 1]; ++l) {
      const ArenaLayer &layer = layers[l];
      kept += layer.ownSaved - (halves ? layer.lateSaved : 0);
      late += layer.lateSaved;
      held += layer.held;
      for (size_t t : layer.outputs) {
        addOutput(tensors[t], chunk, halves && readLate(tensors[t], chunk) ? late : kept, out,
                  outHeld, gradients);
        held +=
            layer.readsGradientLate && !leaves(tensors[t], chunk) ? tensors[t].gradientBytes : 0;
      }
      int64_t results = mode == Mode::Inference ? layer.predictions : layer.results;
      if (results > 0 && (mode != Mode::Train || b >= 0))
        addRegion(list, chunk, Region::Results, {results, mode == Mode::Train ? b : f, clock.end()},
                  l);
    }
    for (const ArenaTensor &tensor : tensors)
      addInput(tensor, chunk, received, gradientOut);
    for (const auto &[from, message] : received)
      addRegion(list, chunk, Region::Received,
                {message.first, clock.posted(messageOf.at({false, from, chunk}), m),
                 training && message.second ? last : f},
                from);
    if (out > 0)
      addRegion(list, chunk, Region::Out,
                {out, f,
                 std::max({f, lastSent(false, chunk, m, clock), training && outHeld ? last : f,
                           lastReader(chunk, m, clock, training)})});
    if (!training)
      return;
    addRegion(list, chunk, Region::Kept, {kept, f, b});
    if (halves) {
      addRegion(list, chunk, Region::KeptLate, {late, f, last});
      addRegion(list, chunk, Region::Held, {held, b, last});
    }
    for (const auto &[from, bytes] : gradients)
      addRegion(list, chunk, Region::Gradient,
                {bytes, clock.posted(messageOf.at({true, from, chunk}), m), last}, from);
    if (gradientOut > 0)
      addRegion(list, chunk, Region::GradientOut,
                {gradientOut, b,
                 std::max({b, lastSent(true, chunk, m, clock), producersRun(chunk, m, clock)})});
  }

  /// The last run of another chunk of this stage that reads what the chunk puts out.
  int64_t lastReader(int64_t chunk, int64_t m, const StageTimeline &clock, bool training) const {
    int64_t last = -1;
    for (const ArenaTensor &tensor : tensors)
      if (layers[tensor.producer].chunk == chunk)
        for (auto [consumer, reads] : tensor.consumers) {
          int64_t other = layers[consumer].chunk;
          if (other == chunk || plan.chunkStage[other] != plan.chunkStage[chunk])
            continue;
          last = std::max(last, clock.run(other, m, {StepKind::Forward}));
          if (training && reads)
            last = std::max(last, clock.run(other, m, {StepKind::WeightGrad, StepKind::Backward}));
        }
    return last;
  }

  /// The last backward of another chunk of this stage that reads gradients which the chunk gives.
  int64_t producersRun(int64_t chunk, int64_t m, const StageTimeline &clock) const {
    int64_t last = -1;
    for (const ArenaTensor &tensor : tensors) {
      int64_t from = layers[tensor.producer].chunk;
      if (from == chunk || plan.chunkStage[from] != plan.chunkStage[chunk])
        continue;
      for (auto [consumer, reads] : tensor.consumers)
        if (layers[consumer].chunk == chunk)
          last = std::max(last, clock.run(from, m, {StepKind::WeightGrad, StepKind::Backward}));
    }
    return last;
  }

  /// Whether a layer that keeps the value has a second half of its backward.
  bool readLate(const ArenaTensor &tensor, int64_t chunk) const {
    bool late = tensor.keptByProducer && layers[tensor.producer].readsGradientLate;
    for (auto [consumer, reads] : tensor.consumers)
      late |= reads && layers[consumer].chunk == chunk && layers[consumer].readsGradientLate;
    return late;
  }

  bool leaves(const ArenaTensor &tensor, int64_t chunk) const {
    return llvm::any_of(tensor.consumers, [&](const std::pair<int64_t, bool> &consumer) {
      return layers[consumer.first].chunk != chunk;
    });
  }

  void addOutput(const ArenaTensor &tensor, int64_t chunk, int64_t &kept, int64_t &out,
                 bool &outHeld, std::map<int64_t, int64_t> &gradients) const {
    bool leaves = false, held = tensor.keptByProducer;
    for (auto [consumer, reads] : tensor.consumers) {
      int64_t other = layers[consumer].chunk;
      held |= reads && other == chunk;
      if (other == chunk)
        continue;
      leaves = true;
      if (plan.chunkStage[other] != plan.chunkStage[chunk] && tensor.gradientBytes > 0)
        gradients.try_emplace(other, 0);
    }
    if (leaves) {
      out += tensor.bytes;
      outHeld |= held;
      std::set<int64_t> sources;
      for (auto [consumer, reads] : tensor.consumers)
        if (int64_t other = layers[consumer].chunk;
            gradients.count(other) && sources.insert(other).second)
          gradients[other] += tensor.gradientBytes;
    } else if (held) {
      kept += tensor.bytes;
    }
  }

  /// A tensor of another chunk that this one reads.
  void addInput(const ArenaTensor &tensor, int64_t chunk,
                std::map<int64_t, std::pair<int64_t, bool>> &received, int64_t &gradientOut) const {
    int64_t from = layers[tensor.producer].chunk;
    if (from == chunk)
      return;
    bool reads = false, held = false;
    for (auto [consumer, kept] : tensor.consumers)
      if (layers[consumer].chunk == chunk) {
        reads = true;
        held |= kept;
      }
    if (!reads)
      return;
    gradientOut += tensor.gradientBytes;
    if (plan.chunkStage[from] == plan.chunkStage[chunk])
      return;
    auto &message = received[from];
    message.first += tensor.bytes;
    message.second |= held;
  }

  /// Values of the micro-batch, from its first action on the stage to the last that reads them.
  void addBatch(int64_t stage, int64_t m, const StageTimeline &clock, Mode mode,
                std::vector<Block> &blocks) const {
    std::map<StringRef, int64_t> bytes, last;
    int64_t first = clock.end();
    for (size_t l = 0; l < layers.size(); ++l) {
      if (stageOf(static_cast<int64_t>(l)) != stage)
        continue;
      int64_t chunk = layers[l].chunk;
      int64_t f = clock.run(chunk, m, {StepKind::Forward});
      int64_t b = clock.run(chunk, m, {StepKind::WeightGrad, StepKind::Backward});
      first = std::min(first, f);
      std::map<StringRef, int64_t> mine, later;
      add(layers[l].batch, mine);
      add(layers[l].backwardBatch, later);
      for (const auto &[name, size] : mine) {
        bytes[name] = size;
        int64_t until = mode == Mode::Train && later.count(name) && b >= 0 ? b : f;
        last[name] = std::max(last[name], until);
      }
    }
    for (const auto &[name, size] : bytes)
      blocks.push_back({size, first, last[name]});
  }

  /// Temporaries of the calls, and activations that only they use.
  int64_t forwardWork(int64_t chunk, Mode mode) const {
    std::vector<Block> blocks;
    for (int64_t l = plan.cuts[chunk]; l < plan.cuts[chunk + 1]; ++l) {
      blocks.push_back({mode == Mode::Train ? layers[l].forward : layers[l].inference, l, l});
      for (size_t t : layers[l].outputs) {
        const ArenaTensor &tensor = tensors[t];
        int64_t last = l;
        bool elsewhere = tensor.consumers.empty() || tensor.keptByProducer;
        for (auto [consumer, reads] : tensor.consumers) {
          last = std::max(last, consumer);
          elsewhere |= layers[consumer].chunk != chunk;
          elsewhere |= mode == Mode::Train && reads;
        }
        if (!elsewhere)
          blocks.push_back({tensor.bytes, l, last});
      }
    }
    return assignOffsets(blocks).bytes;
  }

  /// Gradients between layers of the chunk live from the last reader of the value to its producer.
  int64_t backwardWork(int64_t chunk, bool halves) const {
    std::vector<Block> blocks;
    for (int64_t l = plan.cuts[chunk]; l < plan.cuts[chunk + 1]; ++l) {
      blocks.push_back({halves ? layers[l].half : layers[l].backward, -l, -l});
      for (size_t t : layers[l].outputs) {
        const ArenaTensor &tensor = tensors[t];
        std::set<int64_t> readers;
        bool received = false;
        for (auto [consumer, reads] : tensor.consumers) {
          received |= layers[consumer].chunk != chunk;
          if (layers[consumer].chunk == chunk)
            readers.insert(consumer);
        }
        if (tensor.gradientBytes == 0 || readers.empty())
          continue;
        // The first contribution owns the buffer; each later one is made beside it and added.
        if (!received && !(halves && layers[l].readsGradientLate))
          blocks.push_back({tensor.gradientBytes, -*readers.rbegin(), -l});
        for (int64_t reader : readers)
          if (received || reader != *readers.rbegin())
            blocks.push_back({tensor.gradientBytes, -reader, -reader});
      }
    }
    return assignOffsets(blocks).bytes;
  }

  ModuleOp module;
  const planner::Problem &problem;
  const planner::Plan &plan;
  LayerGraph graph;
  std::vector<ArenaLayer> layers;
  std::vector<ArenaTensor> tensors;
  std::vector<schedule::Message> messages;                         ///< of one mode
  std::map<std::tuple<bool, int64_t, int64_t>, int32_t> messageOf; ///< gradient, from, to chunk
};

} // namespace

FailureOr<std::vector<int64_t>> predictArenas(ModuleOp module, const planner::Problem &problem,
                                              const planner::Plan &plan) {
  return ArenaModel(module, problem, plan).run();
}

} // namespace omnibal::layout
