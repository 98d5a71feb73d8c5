#include "passes/cost/LayerCosts.h"
#include "dialects/omnibal/analysis/FunctionDigest.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/omnibal/ir/QuantizedTensor.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/Pass/PassManager.h"
#include "passes/common/OptimizerAttribute.h"
#include "passes/cost/LayerMemory.h"
#include "passes/cost/MeasuredTimes.h"
#include "passes/differentiate/Passes.h"
#include "passes/shard/LayerLayouts.h"
#include "llvm/Support/MD5.h"

using namespace mlir;

namespace omnibal::cost {
namespace {

/// Loads whose differences isolate a tile, a token, a squared token and a squared unit of a
/// picture; large, because times are rounded up to nanoseconds.
constexpr int64_t probedTiles = 1000, probedTokens = 1000, probedSquares = 1000000;
constexpr MicrobatchLoad probes[] = {{0, 1, 0, 0},
                                     {probedTiles, 1, 0, 0},
                                     {0, 1 + probedTokens, 0, 0},
                                     {0, 1, probedSquares, 0},
                                     {0, 1, 0, probedSquares}};

/// The module in form C with one choice of options.
struct Variant {
  OwningOpRef<ModuleOp> module;
  analysis::CallGraph graph;
  std::vector<LayerFacts> facts;               ///< by layer, at the caps
  std::vector<LayerFacts> timed;               ///< by layer, of the micro-batch that times are of
  std::vector<std::vector<LayerFacts>> probed; ///< by probe and layer
  std::vector<LayerMemory> memory;             ///< by layer
  LayerFunctionsMemory functions;              ///< of which the memory is made
};

/// What a layer may recompute: the names that its functions know.
SmallVector<std::string> optionsOf(const analysis::Call &call) {
  SmallVector<std::string> names;
  LayerFnOp callee = call.callee;
  if (auto known = callee->getAttrOfType<ArrayAttr>("omnibal.remat_options"))
    for (Attribute name : known)
      names.push_back(cast<StringAttr>(name).str());
  return names;
}

} // namespace

PartsLink linkIn(ModuleOp module, const PartsLink &ofParts) {
  if (!shard::areReplicas(module))
    return ofParts;
  auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
  const planner::Link link{cluster.getReplicaLatency(), cluster.getReplicaBytesPerS()};
  // Replicas that are no neighbors are no more on one machine if they are few.
  const bool areNeighbors =
      cluster.getStages() == 1 || cluster.getRankOrder() == RankOrder::Replica;
  return {std::nullopt, areNeighbors ? ofParts.node : std::nullopt, link};
}

planner::Link PartsLink::of(int64_t parts) const {
  if (given)
    return *given;
  return node && node->ranks % parts == 0 ? node->link : otherwise;
}

/// More than a problem may take, so that it is refused by name, and sums of some do not overflow.
constexpr int64_t mostMoveNs = int64_t{1} << 60;

/// Without moves among parts.
static LayerTimes computingTimesOf(const LayerFacts &facts, const CostOptions &options) {
  auto time = [&](const Work &work) {
    return rooflineNs(options.device, options.precision.compute, work);
  };
  LayerTimes roofline{time(facts.forward), time(facts.inputGrad), time(facts.weightGrad)};
  roofline.wholeBackwardNs = roofline.backwardNs();
  return options.measured ? options.measured->of(facts, roofline) : roofline;
}

int64_t nsOfMoves(int64_t rounds, int64_t bytes, const planner::Link &link) {
  const auto sent = static_cast<__int128>(bytes) * 1000000000;
  const __int128 ns = static_cast<__int128>(rounds) * link.latencyNs +
                      (sent + link.bytesPerSecond - 1) / link.bytesPerSecond;
  return static_cast<int64_t>(std::min<__int128>(ns, mostMoveNs));
}

LayerTimes timesOf(const LayerFacts &facts, const CostOptions &options) {
  const planner::Link link = options.partsLink.of(options.parts);
  auto moves = [&](const Work &work) { return nsOfMoves(work.exchanges, work.sentBytes, link); };
  LayerTimes times = computingTimesOf(facts, options);
  times.forwardNs += moves(facts.forward);
  times.inputGradNs += moves(facts.inputGrad);
  times.weightGradNs += moves(facts.weightGrad);
  times.wholeBackwardNs += moves(facts.inputGrad) + moves(facts.weightGrad);
  return times;
}

planner::LoadFactors UnitCostTable::factorsOf(const GroupLoad &microbatch,
                                              const MicrobatchLoad &full) const {
  auto timeOf = [&](size_t layer, const GroupLoad &load) {
    auto at = [&](size_t probe) { return static_cast<double>(ns[probe][layer].at("keep")); };
    return at(0) + (at(1) - at(0)) / probedTiles * static_cast<double>(load.tiles) +
           (at(2) - at(0)) / probedTokens * static_cast<double>(load.tokens - 1) +
           (at(3) - at(0)) / probedSquares * static_cast<double>(load.squaredTokens) +
           (at(4) - at(0)) / probedSquares * static_cast<double>(load.squaredTiles);
  };
  GroupLoad fullLoad{full.tiles, full.tokens, full.squares(), full.tileSquares()};
  std::map<std::string, std::pair<double, double>> times; // of the micro-batch, of a full one
  for (size_t l = 0; l < kinds.size(); ++l) {
    auto &[part, whole] = times[kinds[l]];
    part += timeOf(l, microbatch);
    whole += timeOf(l, fullLoad);
  }
  planner::LoadFactors factors;
  for (const auto &[kind, time] : times)
    if (time.second > 0)
      factors[kind] = factorOf(std::max(0.0, time.first) / time.second);
  return factors;
}

UnitCosts UnitCostTable::of(const std::vector<std::string> &remat) const {
  double total[std::size(probes)] = {};
  for (size_t p = 0; p < ns.size(); ++p)
    for (size_t l = 0; l < ns[p].size(); ++l)
      total[p] += static_cast<double>(ns[p][l].at(remat.empty() ? "keep" : remat[l]));
  return {(total[1] - total[0]) / probedTiles, (total[2] - total[0]) / probedTokens,
          (total[3] - total[0]) / probedSquares, (total[4] - total[0]) / probedSquares};
}

planner::LoadFactors CostReport::factorsOf(const GroupLoad &microbatch) const {
  planner::LoadFactors times = units.factorsOf(microbatch, full);
  if (isMeasured)
    return times;
  planner::LoadFactors shares = cost::factorsOf(microbatch, full.tiles, full.tokens);
  // Equal units are not equal work where attention is within pictures.
  if (units.of({}).tileSquareNs > 0 && times.count("vision"))
    shares["vision"] = times["vision"];
  return shares;
}

class CostAnnotator final : public CostModel {
public:
  CostAnnotator(ModuleOp module, const CostOptions &options)
      : module(module), options(options), builder(module.getContext()) {
    this->options.parts = shard::partsOf(module);
    this->options.partsLink = linkIn(module, options.partsLink);
    lowering.target = options.precision.target;
    lowering.compute = options.precision.compute;
    lowering.rowBucket = 1;
  }

  LogicalResult prepare() {
    if (!options.device.flops.count(options.precision.compute))
      return module.emitError("device `")
             << options.device.name << "` states no peak for " << options.precision.compute
             << ": choose another (--device) or add it to the description";
    auto found = LayerGraph::get(module, "omnibal-annotate-costs");
    if (failed(found) || failed(buildVariants()))
      return failure();
    graph = std::move(*found);
    return success();
  }

  FailureOr<UnitCostTable> annotate(const MicrobatchLoad &load) override {
    return annotate(load, load);
  }

  FailureOr<UnitCostTable> annotate(const MicrobatchLoad &caps,
                                    const MicrobatchLoad &timed) override {
    if (failed(setLoads(caps, timed)))
      return failure();
    table = {};
    compareMeasured();
    for (const analysis::Call &call : variants.at("keep").graph.calls)
      table.kinds.push_back(call.kind);
    table.ns.assign(std::size(probes), {});
    for (auto &probe : table.ns)
      probe.resize(graph.layers.size());
    for (size_t i = 0; i < graph.layers.size(); ++i)
      annotateLayer(i);
    annotateParameters();
    module->setAttr(targetAttrName, builder.getStringAttr(options.precision.target));
    return table;
  }

  std::vector<std::vector<LayerTerms>> terms() const override {
    std::vector<std::vector<LayerTerms>> result;
    for (size_t i = 0; i < graph.layers.size(); ++i) {
      auto &ofLayer = result.emplace_back();
      for (const std::string &name : layerOptions[i])
        ofLayer.push_back({name, termsOf(i, name, [](const LayerTimes &t) { return t.forwardNs; }),
                           termsOf(i, name, [](const LayerTimes &t) { return t.backwardNs(); })});
    }
    return result;
  }

  std::string digest() const override {
    llvm::MD5 hash;
    for (const LayerFacts &layer : variants.at("keep").facts)
      for (const std::string *function :
           {&layer.forwardDigest, &layer.inputGradDigest, &layer.weightGradDigest})
        hash.update(*function + ";");
    llvm::MD5::MD5Result result;
    hash.final(result);
    return result.digest().str().str();
  }

private:
  /// "keep" first: it tells which other options there are.
  LogicalResult buildVariants() {
    if (failed(addVariant("keep")))
      return failure();
    for (const analysis::Call &call : variants.at("keep").graph.calls)
      layerOptions.push_back(optionsOf(call));
    SmallVector<std::string> others; // in the order of the layer that knows most
    for (const auto &names : layerOptions)
      for (const std::string &name : names)
        if (name != "keep" && !llvm::is_contained(others, name))
          others.push_back(name);
    for (const std::string &name : others) {
      if (failed(addVariant(name)))
        return failure();
      dropUnlessPartsMeet(name);
    }
    return success();
  }

  /// What parts cannot run together is no choice.
  void dropUnlessPartsMeet(const std::string &name) {
    const Variant &variant = variants.at(name);
    for (auto [names, call] : llvm::zip_equal(layerOptions, variant.graph.calls))
      if (llvm::is_contained(names, name) && !partsMeet(*variant.module, call))
        llvm::erase(names, name);
  }

  LogicalResult addVariant(const std::string &remat) {
    Variant variant;
    variant.module = module.clone();
    size_t index = 0;
    variant.module->walk([&](LayerOp layer) {
      bool knows = layerOptions.empty() || llvm::is_contained(layerOptions[index], remat);
      layer->setAttr(rematAttrName, builder.getStringAttr(knows ? remat : "keep"));
      ++index;
    });
    PassManager passes(module.getContext());
    passes.addPass(createMaterializeLayers({/*splitBackward=*/true}));
    if (failed(passes.run(*variant.module)))
      return failure();
    auto calls = analysis::readCallGraph(*variant.module);
    if (failed(calls))
      return failure();
    variant.graph = std::move(*calls);
    for (const MicrobatchLoad &probe : probes)
      variant.probed.push_back(factsOf(variant, probe));
    auto functions = LayerFunctionsMemory::read(variant.module->clone(), lowering.target);
    if (failed(functions))
      return failure();
    variant.functions = std::move(*functions);
    variants[remat] = std::move(variant);
    return success();
  }

  std::vector<LayerFacts> factsOf(const Variant &variant, MicrobatchLoad at) const {
    at.parts = options.parts;
    return readLayerFacts(
        *variant.module, variant.graph, at, options.precision.activation,
        analysis::digestKernels(options.precision.target, options.precision.compute));
  }

  LogicalResult setLoads(const MicrobatchLoad &caps, const MicrobatchLoad &timed) {
    options.load = caps;
    lowering.parts = options.parts;
    lowering.tilesCap = caps.tiles;
    lowering.tokensCap = lower::roundedTokens(caps.tokens, lower::rowBucketOf(lowering.target));
    for (auto &[name, variant] : variants) {
      variant.facts = factsOf(variant, caps);
      variant.timed = factsOf(variant, timed);
      auto memory = variant.functions.at(lowering);
      if (failed(memory))
        return failure();
      variant.memory = std::move(*memory);
    }
    return success();
  }

  /// Every function that the table knows tells how far the roofline is from the truth.
  void compareMeasured() {
    if (!options.measured)
      return;
    options.measured->restart();
    CostOptions roofline = options;
    roofline.measured = nullptr;
    for (size_t i = 0; i < graph.layers.size(); ++i)
      for (const std::string &name : layerOptions[i]) {
        const LayerFacts &facts = variants.at(name).timed[i];
        options.measured->compare(facts, computingTimesOf(facts, roofline));
        if (!options.measured->knows(facts))
          table.unmeasured.push_back({variants.at(name).graph.calls[i].name, name});
      }
  }

  void annotateLayer(size_t i) {
    const Variant &keep = variants.at("keep");
    LayerTimes times = timesOf(keep.timed[i], options);
    SmallVector<Attribute> list;
    for (const std::string &name : layerOptions[i]) {
      const Variant &variant = variants.at(name);
      list.push_back(optionOf(name, variant, i, times));
      for (size_t p = 0; p < std::size(probes); ++p) {
        LayerTimes probed = timesOf(variant.probed[p][i], options);
        table.ns[p][i][name] = probed.forwardNs + probed.backwardNs();
      }
    }
    auto [outputs, gradients] = edgeBytes(i);
    LayerOp layer = graph.layers[i];
    layer->setAttr(costAttrName,
                   CostAttr::get(module.getContext(), times.forwardNs, times.inputGradNs,
                                 times.weightGradNs, builder.getDenseI64ArrayAttr(outputs),
                                 builder.getDenseI64ArrayAttr(gradients),
                                 builder.getArrayAttr(list)));
    layer->setAttr(buffersAttrName, buffersOf(i));
    if (options.timeModels)
      layer->setAttr(timeModelsAttrName, timeModelsOf(i));
  }

  /// What one kind of time is made of, from its values at the probes.
  template <typename TimeOf>
  LayerTerms::Terms termsOf(size_t layer, const std::string &option, TimeOf timeOf) const {
    int64_t times[std::size(probes)];
    for (size_t p = 0; p < std::size(probes); ++p)
      times[p] = timeOf(timesOf(variants.at(option).probed[p][layer], options));
    // Rounded times: a term that is not there may seem to be below 0.
    auto term = [&](size_t probe, int64_t amount) {
      return std::max(0.0,
                      static_cast<double>(times[probe] - times[0]) / static_cast<double>(amount));
    };
    const double token = term(2, probedTokens); // the first probe has one
    return {std::max(0.0, static_cast<double>(times[0]) - token), term(1, probedTiles), token,
            term(3, probedSquares), term(4, probedSquares)};
  }

  /// By option: what forward, backward, input_grad and weight_grad take as functions of the load.
  DictionaryAttr timeModelsOf(size_t layer) {
    SmallVector<NamedAttribute> models;
    for (const std::string &name : layerOptions[layer]) {
      SmallVector<double> terms;
      for (int64_t LayerTimes::*kind : {&LayerTimes::forwardNs, &LayerTimes::wholeBackwardNs,
                                        &LayerTimes::inputGradNs, &LayerTimes::weightGradNs}) {
        const LayerTerms::Terms t =
            termsOf(layer, name, [&](const LayerTimes &times) { return times.*kind; });
        terms.append({t.fixedNs, t.tileNs, t.tokenNs, t.squareNs});
      }
      models.push_back(builder.getNamedAttr(name, builder.getDenseF64ArrayAttr(terms)));
    }
    return builder.getDictionaryAttr(models);
  }

  RematOptionAttr optionOf(const std::string &name, const Variant &variant, size_t layer,
                           const LayerTimes &keep) {
    const LayerFacts &facts = variant.facts[layer];
    const LayerMemory &memory = variant.memory[layer];
    // The calls of forward need temporaries too; the gradients of a layer's outputs and inputs live
    // beside those of its backward.
    int64_t workspace =
        std::max(memory.forwardWorkspace, memory.backwardWorkspace + facts.gradientBytes);
    // Measured forwards differ a little too, by what they write for backward.
    LayerTimes times = timesOf(variant.timed[layer], options);
    int64_t recompute = std::max<int64_t>(0, times.forwardNs + times.backwardNs() - keep.forwardNs -
                                                 keep.backwardNs());
    return RematOptionAttr::get(
        module.getContext(), name, facts.savedBytes, recompute, workspace,
        facts.secondHalfBytes ? builder.getI64IntegerAttr(*facts.secondHalfBytes) : IntegerAttr());
  }

  /// Of an activation at these caps.
  int64_t bytesOf(const analysis::Edge &edge, int64_t tiles, int64_t tokens) const {
    int64_t bytes = edge.isBFloat16 ? options.precision.activation : 4;
    for (const SymbolicDim &dim : edge.shape)
      bytes *= dim.evaluate(rt::SymbolValues::most(tiles, tokens, options.parts));
    return bytes;
  }

  /// Bytes of the layer's outputs, and of their gradients where a layer that reads them gives one.
  std::pair<SmallVector<int64_t>, SmallVector<int64_t>> edgeBytes(size_t i) {
    const Variant &keep = variants.at("keep");
    SmallVector<int64_t> outputs, gradients;
    for (int64_t number : keep.graph.calls[i].outputs) {
      const analysis::Edge &edge = keep.graph.edges[number];
      int64_t bytes = bytesOf(edge, options.load.tiles, options.load.tokens);
      bool returns = llvm::any_of(edge.consumers, [&](std::pair<int64_t, int64_t> consumer) {
        return llvm::is_contained(keep.facts[consumer.first].inputGradients, consumer.second);
      });
      outputs.push_back(bytes);
      gradients.push_back(returns ? bytes : 0);
    }
    return {outputs, gradients};
  }

  BuffersAttr buffersOf(size_t i) {
    const Variant &keep = variants.at("keep");
    SmallVector<int64_t> outputs;
    for (int64_t number : keep.graph.calls[i].outputs)
      outputs.push_back(bytesOf(keep.graph.edges[number], lowering.tilesCap, lowering.tokensCap));
    SmallVector<NamedAttribute> training;
    for (const std::string &name : layerOptions[i])
      training.push_back(builder.getNamedAttr(name, variants.at(name).memory[i].training));
    return BuffersAttr::get(module.getContext(), builder.getDenseI64ArrayAttr(outputs),
                            keep.memory[i].evaluate, keep.memory[i].inference,
                            builder.getDictionaryAttr(training));
  }

  /// Parameters that no gradient reaches count as frozen, as they will be.
  void annotateParameters() {
    const Precision &precision = options.precision;
    const rt::OptimizerKind optimizer = optimizerOf(module);
    const int64_t averages = keepsAverages(module) ? precision.average : 0;
    const SymbolTable functions(*variants.at("keep").module);
    for (auto parameter : module.getOps<ParameterOp>()) {
      bool trains = !functions.lookup<ParameterOp>(parameter.getSymNameAttr()).getFrozen();
      // The last part's share is no smaller than any other.
      const int64_t parts = shard::partsOf(module);
      RankedTensorType held = shard::heldType(parameter, parts, parts - 1);
      int64_t elements = held.getNumElements();
      int64_t gradient = trains ? elements * precision.gradient : 0;
      int64_t state = trains ? elements * (precision.master + averages) : 0;
      for (int64_t bytes : momentBytes(parameter, held, optimizer))
        state += trains ? bytes : 0;
      const int64_t stored = isQuantized(parameter.getType())
                                 ? quantizedShapeOf(parameter.getType()).bytes()
                                 : elements * precision.parameter;
      parameter->setAttr(
          costAttrName,
          ParameterCostAttr::get(module.getContext(), stored + gradient + state, gradient, state));
    }
  }

  ModuleOp module;
  CostOptions options;
  Builder builder;
  lower::LoweringOptions lowering; ///< as the program's functions will be lowered
  LayerGraph graph;
  std::vector<SmallVector<std::string>> layerOptions; ///< by layer
  std::map<std::string, Variant> variants;            ///< by option
  UnitCostTable table;
};

FailureOr<std::unique_ptr<CostModel>> CostModel::build(ModuleOp module,
                                                       const CostOptions &options) {
  auto model = std::make_unique<CostAnnotator>(module, options);
  if (failed(model->prepare()))
    return failure();
  return std::unique_ptr<CostModel>(std::move(model));
}

} // namespace omnibal::cost
