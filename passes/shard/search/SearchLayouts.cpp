//===- SearchLayouts.cpp - omnibal-search-layouts ---------------------------------------------===//
#include "passes/common/OptimizerAttribute.h"
#include "passes/cost/CostInputs.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/Passes.h"
#include "passes/shard/search/LayoutRemarks.h"
#include "passes/shard/search/Passes.h"

using namespace mlir;
using namespace omnibal;
using namespace omnibal::shard;

namespace omnibal {
#define GEN_PASS_DEF_SEARCHLAYOUTS
#include "passes/shard/search/Passes.h.inc"
} // namespace omnibal

namespace {

struct SearchLayoutsPass : omnibal::impl::SearchLayoutsBase<SearchLayoutsPass> {
  using SearchLayoutsBase::SearchLayoutsBase;
  SearchLayoutsPass(const SearchLayoutsOptions &options, std::shared_ptr<cost::InputFiles> files)
      : SearchLayoutsBase(options), files(std::move(files)) {}

  /// A wrong file is found before the first pass of the pipeline runs.
  LogicalResult initialize(MLIRContext *context) override {
    if (rt::Status status = readInputs(); !status)
      return emitError(UnknownLoc::get(context), status.message());
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    rates.parts = partsOf(module);
    rates.areReplicas = areReplicas(module);
    auto mode = module->getAttrOfType<TrainModeAttr>(trainModeAttrName);
    if (rates.parts == 1 || (mode && !rates.areReplicas))
      return;
    if (mode)
      rates.costs.load = {mode.getTiles(), mode.getTokens()};
    auto graph = LayerGraph::get(module, "omnibal-search-layouts");
    if (failed(graph) || failed(checkNew(*graph)))
      return signalPassFailure();
    rates.link = cost::linkIn(module, rates.costs.partsLink).of(rates.parts);
    rates.trainedBytes = trainedBytes(module, false);
    rates.orthogonalizedBytes = trainedBytes(module, true);
    auto search = solve(module, *graph);
    if (failed(search))
      return signalPassFailure();
    bool isDivided = false;
    for (const DistinctLayer &layer : search->layers())
      isDivided |= write(*graph, layer);
    if (!isDivided && rates.areReplicas)
      module.emitWarning() << "omnibal-search-layouts: length group " << mode.getName()
                           << ": moves among the " << rates.parts
                           << " replicas of a context group would take longer than all that they "
                              "save, so all of them do the same; a smaller degree does as much";
    else if (!isDivided)
      module.emitWarning() << "omnibal-search-layouts: moves among " << rates.parts
                           << " parts would take longer than all that they save, so all parts of a "
                              "stage do the same; a higher price of memory divides more";
    warnOfInexact(*search);
    explainLayouts(*graph, *search);
  }

private:
  /// With values between layers whole, and with parts' shares of tokens, then of tiles, where that
  /// costs less.
  FailureOr<ModelSearch> solve(ModuleOp module, const LayerGraph &graph) {
    SearchLimits limits;
    limits.states.most = static_cast<size_t>(states);
    limits.states.quick = std::min(limits.states.quick, limits.states.most);
    std::optional<double> priceNs;
    auto solved = [&](const RowBorders &borders,
                      const ModelSearch *known) -> FailureOr<ModelSearch> {
      auto search = ModelSearch::read(graph, rates, borders, known);
      if (failed(search))
        return failure();
      if (!priceNs)
        priceNs = price < 0 ? search->leastNs() / static_cast<double>(memoryOf(module))
                            : price.getValue();
      if (failed(search->solve(*priceNs, limits)))
        return failure();
      return search;
    };
    RowBorders borders;
    auto best = solved(borders, nullptr);
    const RowBorders possible = possibleBorders(graph.layers);
    for (bool RowBorders::*rows : {&RowBorders::tokens, &RowBorders::tiles}) {
      if (failed(best))
        return failure();
      if (!(possible.*rows))
        continue;
      RowBorders split = borders;
      split.*rows = true;
      auto other = solved(split, &*best);
      if (failed(other))
        return failure();
      if (other->total() < best->total()) {
        best = std::move(other);
        borders = split;
      }
    }
    return best;
  }

  rt::Status readInputs() {
    const cost::CostInputs inputs{"omnibal-search-layouts", target, compute, device, cluster, {}};
    OMNIBAL_ASSIGN_OR_RETURN(rates.costs, cost::readCostOptions(inputs, *files));
    if (tiles < 0 || tokens < 1)
      return rt::invalid("omnibal-search-layouts: tiles must be >= 0 and tokens >= 1");
    if (states < 1)
      return rt::invalid("omnibal-search-layouts: states must be >= 1");
    rates.costs.load = {tiles, tokens};
    return rt::Status::ok();
  }

  /// Bytes an element; replicas may divide the optimizer's state.
  double trainedBytes(ModuleOp module, bool orthogonalized) const {
    const cost::Precision &precision = rates.costs.precision;
    auto of = module->getAttrOfType<ClusterAttr>(clusterAttrName);
    const rt::OptimizerKind optimizer = optimizerOf(module);
    const double moment = rt::isCoded(optimizer)
                              ? static_cast<double>(rt::momentBytes(optimizer, rt::codedBlock)) /
                                    static_cast<double>(rt::codedBlock)
                              : static_cast<double>(precision.moment);
    const int64_t averages = keepsAverages(module) ? precision.average : 0;
    const double state = static_cast<double>(precision.master + averages) +
                         rt::momentsOf(optimizer, orthogonalized) * moment;
    const double holders = of && of.getZero() ? static_cast<double>(of.getDataParallel()) : 1;
    return static_cast<double>(precision.gradient) + state / holders;
  }

  int64_t memoryOf(ModuleOp module) const {
    int64_t memory = rates.costs.device.memoryBytes;
    auto of = module->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (of && of.getMemory())
      for (int64_t each : of.getMemory().asArrayRef())
        memory = std::min(memory, each);
    return memory;
  }

  LogicalResult checkNew(const LayerGraph &graph) {
    for (LayerOp layer : graph.layers)
      if (hasLayouts(layer))
        return layer.emitOpError("has layouts already, and a search would write others");
    return success();
  }

  static void warnOfInexact(const ModelSearch &search) {
    for (const DistinctLayer &layer : search.layers())
      if (!layer.solution.isExact) {
        LayerOp first = layer.layers.front();
        first.emitWarning() << "omnibal-search-layouts: not all layouts of layer "
                            << first.getName() << " (" << layer.layers.size()
                            << " alike) were tried, so there may be better ones than were found; a "
                               "file of layouts can say them";
      }
  }

  /// Returns whether anything is divided; layers of which nothing is get no layouts, unless parts
  /// are replicas, whose gradients are summed.
  bool write(const LayerGraph &graph, const DistinctLayer &layer) {
    const LayerLayouts layouts = layer.reading->layoutsAt(layer.solution.choice);
    if (!layouts.isDivided() && !rates.areReplicas)
      return false;
    for (LayerOp each : layer.layers) {
      writeLayouts(each, layouts);
      for (auto [i, held] : llvm::enumerate(layouts.held))
        if (!held.isWhole())
          graph.getParameter(each, i)->setAttr(heldAttrName, held);
    }
    return layouts.isDivided();
  }

  MachineRates rates;
  std::shared_ptr<cost::InputFiles> files = std::make_shared<cost::InputFiles>();
};

} // namespace

std::unique_ptr<Pass> omnibal::createSearchLayouts(const SearchLayoutsOptions &options,
                                                   std::shared_ptr<cost::InputFiles> files) {
  return std::make_unique<SearchLayoutsPass>(options, std::move(files));
}

void omnibal::addLayoutPasses(OpPassManager &passes, const std::string &layouts,
                              const SearchLayoutsOptions &search,
                              std::shared_ptr<cost::InputFiles> files) {
  if (layouts == searchedLayouts)
    passes.addPass(createSearchLayouts(search, std::move(files)));
  else
    passes.addPass(createAssignLayouts({layouts}));
  passes.addPass(createVerifyLayouts());
}
