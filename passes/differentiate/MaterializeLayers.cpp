//===- MaterializeLayers.cpp - Layers become calls of shared functions -------------------===//
#include "dialects/omnibal/rules/BFloat16Values.h"
#include "passes/common/PlanAttributes.h"
#include "passes/differentiate/LayerActivity.h"
#include "passes/differentiate/LayerFunctions.h"
#include "passes/differentiate/Passes.h"
#include "passes/shard/ApplyLayouts.h"
#include "passes/shard/LayerLayouts.h"

namespace omnibal {
#define GEN_PASS_DEF_MATERIALIZELAYERS
#include "passes/differentiate/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;

namespace {
/// Layers that share functions. `layer` is the last of them in @main, the first that is visited.
struct Group {
  LayerOp layer;
  LayerSignature signature;
  LayerFunctions functions;
  std::string name;
};

class Materializer {
public:
  Materializer(ModuleOp module, bool splitAll) : module(module), splitAll(splitAll) {}

  LogicalResult run() {
    FailureOr<LayerGraph> found = LayerGraph::get(module, "omnibal-materialize-layers");
    if (failed(found))
      return failure();
    graph = std::move(*found);
    parts = shard::partsOf(module);
    findFloat32Outputs();
    // All functions exist before @main changes.
    if (failed(checkLoss()) || failed(findSplitChunks()) || failed(buildGroups()))
      return failure();
    nameGroups();
    freezeUnreached();
    insertFunctions();
    partLayers.clear();
    replaceLayers();
    return success();
  }

private:
  LogicalResult checkLoss() {
    unsigned losses = 0;
    for (LayerOp layer : graph.layers)
      for (unsigned i = 0, end = layer->getNumResults(); i < end; ++i)
        losses += getOutputKind(layer, i) == OutputKind::Loss;
    if (losses != 1)
      return graph.main.emitError()
             << "omnibal-materialize-layers needs exactly one loss, @main has " << losses
             << "; run omnibal-attach-loss first";
    return success();
  }

  /// Finds the chunks whose backward is split, by the actions of `omnibal.plan` if there is one.
  LogicalResult findSplitChunks() {
    auto plan = module->getAttrOfType<PlanAttr>(planAttrName);
    if (!plan)
      return success();
    llvm::Expected<ActionLists> lists = computeActions(plan);
    if (!lists)
      return module.emitError(llvm::toString(lists.takeError()));
    split = splitChunks(*lists, static_cast<int64_t>(plan.getChunkStages().size()));
    // Plans of single steps choose.
    splitAll |= module->hasAttr(stepPlannedAttrName);
    return success();
  }

  bool runsInHalves(LayerOp layer) const {
    auto chunk = layer->getAttrOfType<IntegerAttr>("omnibal.chunk");
    uint64_t number = chunk ? chunk.getInt() : 0;
    return splitAll || (number < split.size() && split[number]);
  }

  /// Activations between layers that stay in float32.
  void findFloat32Outputs() {
    for (LayerOp layer : graph.layers) {
      Block &body = layer.getBody().front();
      SmallVector<Value> sources;
      for (BlockArgument argument : body.getArguments()) {
        unsigned number = argument.getArgNumber();
        bool isInFloat32 =
            number < layer.getInputs().size() && inFloat32.contains(layer.getInputs()[number]);
        if (isFloat32(argument) && !isInFloat32)
          sources.push_back(argument);
      }
      SmallVector<Operation *> ops;
      for (Operation &op : body.without_terminator())
        ops.push_back(&op);
      llvm::DenseSet<Value> inBFloat16 = findBFloat16Values(ops, sources);
      for (auto [output, value] :
           llvm::zip_equal(layer.getOutputs(), body.getTerminator()->getOperands()))
        if (isFloat32(value) && !inBFloat16.contains(value))
          inFloat32.insert(output);
    }
  }

  LayerSignature getForwardSignature(LayerOp layer, const llvm::DenseSet<Value> &active) {
    LayerSignature signature;
    for (Value input : layer.getInputs()) {
      signature.inputActive.push_back(active.contains(input));
      signature.inputInFloat32.push_back(inFloat32.contains(input));
    }
    for (Value output : layer.getOutputs())
      signature.outputInFloat32.push_back(inFloat32.contains(output));
    for (unsigned i = 0, end = layer.getParameters().size(); i < end; ++i)
      signature.trains.push_back(!graph.getParameter(layer, i).getFrozen());
    if (auto remat = layer->getAttrOfType<StringAttr>("omnibal.remat"))
      signature.remat = remat.str();
    signature.splitBackward = runsInHalves(layer);
    return signature;
  }

  /// From the last layer to the first: what a layer gives a gradient of decides what the layers
  /// above it get.
  LogicalResult buildGroups() {
    llvm::DenseSet<Value> active = findActiveOutputs(graph), withGradient;
    for (LayerOp layer : llvm::reverse(graph.layers)) {
      LayerSignature signature = getForwardSignature(layer, active);
      for (Value output : layer.getOutputs()) {
        signature.outputRead.push_back(llvm::any_of(output.getUsers(), llvm::IsaPred<LayerOp>));
        signature.outputGradient.push_back(withGradient.contains(output));
      }
      if (failed(buildParts(layer, signature)) || failed(buildVariants(layer, signature)))
        return failure();
      Group *group = groupsOf[layer].back();
      for (auto [input, has] : llvm::zip_equal(layer.getInputs(), group->functions.inputGradient))
        if (has)
          withGradient.insert(input);
      for (auto [i, has] : llvm::enumerate(group->functions.parameterGradient))
        if (has)
          reached.insert(graph.getParameter(layer, i));
    }
    if (reached.empty())
      return graph.main.emitError(
          "nothing trains: no parameter that is not frozen reaches the loss");
    return success();
  }

  /// The functions of each part of a stage, where layouts make them differ; else of all.
  LogicalResult buildParts(LayerOp layer, LayerSignature signature) {
    SmallVector<Group *> &own = groupsOf[layer];
    if (parts == 1 || !shard::hasLayouts(layer)) {
      FailureOr<Group *> group = findOrBuild(layer, signature);
      own.push_back(failed(group) ? nullptr : *group);
      return success(succeeded(group));
    }
    if (layer->hasAttr(rematVariantsAttrName))
      return layer.emitOpError("has layouts, and plans of single steps are for stages whose parts "
                               "do the same; say layouts=none");
    for (int64_t part = 0; part < parts; ++part) {
      // The last part says what there is to choose, as it does of costs.
      signature.nearestRemat = part + 1 < parts;
      auto partLayer = shard::makePartLayer(layer, {parts, part, std::nullopt}, symbols);
      if (failed(partLayer))
        return failure();
      FailureOr<Group *> group = findOrBuild(**partLayer, signature);
      if (failed(group))
        return failure();
      partLayers.push_back(std::move(*partLayer));
      own.push_back(*group);
      if (own.back()->functions.inputGradient != own.front()->functions.inputGradient ||
          own.back()->functions.parameterGradient != own.front()->functions.parameterGradient)
        return layer.emitOpError() << "gives other gradients on part " << part << " than on part 0";
    }
    return success();
  }

  /// The functions that plans of single steps choose among. What a layer recomputes changes nothing
  /// of what it gives others.
  LogicalResult buildVariants(LayerOp layer, LayerSignature signature) {
    auto options = layer->getAttrOfType<ArrayAttr>(rematVariantsAttrName);
    for (Attribute each : options ? options.getValue() : ArrayRef<Attribute>()) {
      auto name = dyn_cast<StringAttr>(each);
      if (!name)
        return layer.emitOpError("has ") << each << " among its omnibal.remat_variants";
      signature.remat = name.str();
      FailureOr<Group *> group = findOrBuild(layer, signature);
      if (failed(group))
        return failure();
      variantsOf[layer].push_back(*group);
    }
    return success();
  }

  FailureOr<Group *> findOrBuild(LayerOp layer, const LayerSignature &signature) {
    for (std::unique_ptr<Group> &group : groups)
      if (group->signature == signature && haveSameBody(group->layer, layer))
        return group.get();
    FailureOr<LayerFunctions> functions = buildLayerFunctions(layer, signature);
    if (failed(functions))
      return failure();
    groups.push_back(std::make_unique<Group>(Group{layer, signature, std::move(*functions), ""}));
    return groups.back().get();
  }

  /// "vision_0", "vision_1", "projector_0" ... in the order of first use.
  void nameGroups() {
    std::map<LayerKind, int> count;
    auto name = [&](LayerKind kind, Group *group) {
      if (!group->name.empty())
        return;
      do
        group->name = (stringifyLayerKind(kind) + "_" + Twine(count[kind]++)).str();
      while (module.lookupSymbol(group->name));
      ordered.push_back(group);
    };
    for (LayerOp layer : graph.layers)
      for (Group *group : groupsOf[layer])
        name(layer.getKind(), group);
    for (LayerOp layer : graph.layers)
      for (Group *group : variantsOf[layer])
        name(layer.getKind(), group);
  }

  /// Without a gradient the optimizer must leave a parameter alone (decay included).
  void freezeUnreached() {
    for (auto parameter : module.getOps<ParameterOp>())
      if (!parameter.getFrozen() && !reached.contains(parameter)) {
        parameter.emitRemark("does not influence the loss differentiably; it stays as it is");
        parameter.setFrozen(true);
      }
  }

  void insertFunctions() {
    OpBuilder builder(module.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    for (Group *group : ordered) {
      SmallVector<func::FuncOp> placed;
      auto place = [&](OwningOpRef<func::FuncOp> &function, StringRef suffix) -> FlatSymbolRefAttr {
        if (!function)
          return {};
        for (func::FuncOp other : placed)
          if (areSameFunction(other, *function))
            return FlatSymbolRefAttr::get(other.getSymNameAttr());
        func::FuncOp op = function.release();
        op.setSymName((group->name + "." + suffix).str());
        placed.push_back(op);
        return FlatSymbolRefAttr::get(op.getSymNameAttr());
      };
      LayerFunctions &functions = group->functions;
      FlatSymbolRefAttr forward = place(functions.forward, "forward");
      FlatSymbolRefAttr backward = place(functions.backward, "backward");
      FlatSymbolRefAttr inputGrad = place(functions.inputGrad, "input_grad");
      FlatSymbolRefAttr weightGrad = place(functions.weightGrad, "weight_grad");
      FlatSymbolRefAttr evaluate = place(functions.evaluate, "evaluate");
      FlatSymbolRefAttr inference = place(functions.inference, "inference");
      auto layer =
          LayerFnOp::create(builder, group->layer.getLoc(), builder.getStringAttr(group->name),
                            forward, backward, inputGrad, weightGrad, evaluate, inference);
      auto options = builder.getStrArrayAttr(
          SmallVector<StringRef>(functions.rematOptions.begin(), functions.rematOptions.end()));
      layer->setAttr("omnibal.remat_options", options);
      for (func::FuncOp function : placed)
        builder.insert(function);
    }
  }

  void replaceLayers() {
    for (LayerOp layer : graph.layers) {
      SmallVector<Attribute> parameters;
      for (unsigned i = 0, end = layer.getParameters().size(); i < end; ++i)
        parameters.push_back(FlatSymbolRefAttr::get(graph.getParameter(layer, i).getSymNameAttr()));
      OpBuilder builder(layer);
      auto call = CallLayerOp::create(
          builder, layer.getLoc(), shard::outputTypesOfPart(layer), layer.getNameAttr(),
          layer.getKindAttr(),
          FlatSymbolRefAttr::get(module.getContext(), groupsOf[layer].back()->name),
          layer.getInputs(), builder.getArrayAttr(parameters));
      call->setDiscardableAttrs(layer->getDiscardableAttrDictionary());
      // The last part's share is no smaller than any other: it stands for all in costs.
      if (!llvm::all_equal(groupsOf[layer])) {
        SmallVector<Attribute> callees;
        for (Group *group : groupsOf[layer])
          callees.push_back(FlatSymbolRefAttr::get(module.getContext(), group->name));
        call->setAttr(calleesAttrName, builder.getArrayAttr(callees));
      }
      SmallVector<Attribute> variants;
      for (Group *group : variantsOf[layer])
        variants.push_back(FlatSymbolRefAttr::get(module.getContext(), group->name));
      if (!variants.empty())
        call->setAttr("omnibal.variants", builder.getArrayAttr(variants));
      layer->replaceAllUsesWith(call);
      layer->erase();
    }
    for (auto get :
         llvm::make_early_inc_range(graph.main.getBody().front().getOps<GetParameterOp>()))
      get->erase();
  }

  ModuleOp module;
  bool splitAll;
  std::vector<bool> split; ///< by chunk
  LayerGraph graph;
  std::vector<std::unique_ptr<Group>> groups;                 ///< in the order of building
  SmallVector<Group *> ordered;                               ///< in the order of first use
  llvm::DenseMap<Operation *, SmallVector<Group *>> groupsOf; ///< by part, or one for all parts
  int64_t parts = 1;
  SmallVector<OwningOpRef<LayerOp>> partLayers; ///< until layers are replaced
  SymbolTableCollection symbols;                ///< while they are built
  llvm::DenseMap<Operation *, SmallVector<Group *>> variantsOf;
  llvm::DenseSet<Operation *> reached; ///< parameters with a gradient
  llvm::DenseSet<Value> inFloat32;     ///< outputs of layers that stay in float32
};

struct MaterializeLayersPass : omnibal::impl::MaterializeLayersBase<MaterializeLayersPass> {
  using MaterializeLayersBase::MaterializeLayersBase;

  void runOnOperation() override {
    if (failed(Materializer(getOperation(), splitBackward).run()))
      signalPassFailure();
  }
};
} // namespace
