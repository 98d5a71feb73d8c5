//===- AddAdapters.cpp - Low-rank adapters of linear layers -----------------------------------===//
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "passes/common/AdapterAttributes.h"
#include "passes/layers/AdapterTargets.h"
#include "passes/layers/Passes.h"
#include "passes/layers/RandomValues.h"
#include <cmath>

namespace omnibal {
#define GEN_PASS_DEF_ADDADAPTERS
#include "passes/layers/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;
using namespace omnibal::layers;

namespace {

/// The parameters that an adapted weight gets.
struct Added {
  ParameterOp a, b;
};

struct AddAdaptersPass : omnibal::impl::AddAdaptersBase<AddAdaptersPass> {
  using AddAdaptersBase::AddAdaptersBase;

  void runOnOperation() override {
    FailureOr<LayerGraph> graph = LayerGraph::get(getOperation(), getArgument());
    if (failed(graph) || failed(checkOptions()))
      return signalPassFailure();
    // Everything is decided before anything changes.
    FailureOr<AdapterTargets> found = findAdapterTargets(*graph, match, save);
    if (failed(found) || failed(checkNames(*found)) || failed(checkInputs(*graph, *found)))
      return signalPassFailure();
    targets = *std::move(found);
    addParameters();
    for (LayerOp layer : graph->layers)
      rewriteLayer(*graph, layer);
    freezeOthers();
    describe();
  }

  LogicalResult checkOptions() {
    if (getOperation()->hasAttr(adaptersAttrName))
      return getOperation().emitError() << getArgument() << ": the module has adapters already";
    if (rank < 1)
      return getOperation().emitError()
             << getArgument() << ": the rank is " << rank.getValue() << "; it must be at least 1";
    if (!std::isfinite(alpha) || alpha <= 0)
      return getOperation().emitError() << getArgument() << ": alpha must be a number above 0";
    if (!(dropout >= 0 && dropout < 1))
      return getOperation().emitError() << getArgument() << ": dropout must be in [0, 1)";
    return success();
  }

  /// The new parameters' names must be free.
  LogicalResult checkNames(const AdapterTargets &found) {
    for (const AdapterTarget &target : found.linears)
      for (const std::string &name : {target.a, target.b})
        if (getOperation().lookupSymbol(name))
          return getOperation().emitError()
                 << getArgument() << ": the model has a parameter '" << name
                 << "' already; merge its adapters into the weights first";
    return success();
  }

  /// Dropout needs to know whose the rows of an adapter's input are.
  LogicalResult checkInputs(LayerGraph &graph, const AdapterTargets &found) {
    if (dropout == 0)
      return success();
    llvm::DenseSet<Operation *> weights;
    for (const AdapterTarget &target : found.linears)
      weights.insert(target.weight);
    for (LayerOp layer : graph.layers)
      for (auto linear : layer.getBody().front().getOps<LinearOp>()) {
        auto weight = dyn_cast<BlockArgument>(linear.getWeight());
        const int64_t number =
            weight ? weight.getArgNumber() - int64_t(layer.getInputs().size()) : -1;
        if (number >= 0 && weights.contains(graph.getParameter(layer, number)) &&
            failed(RandomDraws::check(linear.getInput())))
          return failure();
      }
    return success();
  }

  double scale() const {
    const auto r = static_cast<double>(rank);
    return alpha / (rankStabilized ? std::sqrt(r) : r);
  }

  void addParameters() {
    OpBuilder builder(getOperation());
    for (AdapterTarget &target : targets.linears) {
      builder.setInsertionPointAfter(target.weight);
      Type element = cast<RankedTensorType>(target.weight.getType()).getElementType();
      auto add = [&](const std::string &name, ArrayRef<int64_t> shape) {
        return ParameterOp::create(builder, target.weight.getLoc(), builder.getStringAttr(name),
                                   TypeAttr::get(RankedTensorType::get(shape, element)),
                                   StringAttr(), IntegerAttr(), IntegerAttr(), ElementsAttr(),
                                   UnitAttr(), UnitAttr());
      };
      ParameterOp a = add(target.a, {rank, target.in});
      builder.setInsertionPointAfter(a);
      added[target.weight] = {a, add(target.b, {target.out, rank})};
    }
  }

  /// Gives the layer the adapters of the weights that it reads.
  void rewriteLayer(LayerGraph &graph, LayerOp layer) {
    Block &body = layer.getBody().front();
    OpBuilder builder(layer);
    SmallVector<Value> parameters(layer.getParameters());
    const size_t before = parameters.size();
    RandomDraws draws(layer);
    for (auto [number, value] : llvm::enumerate(layer.getParameters())) {
      auto found = added.find(graph.getParameter(layer, number));
      if (found == added.end())
        continue;
      Value weight = body.getArgument(layer.getInputs().size() + number);
      auto argument = [&](ParameterOp parameter) {
        parameters.push_back(GetParameterOp::create(builder, layer.getLoc(), parameter.getType(),
                                                    parameter.getSymName()));
        return body.addArgument(parameter.getType(), parameter.getLoc());
      };
      Value a = argument(found->second.a), b = argument(found->second.b);
      for (Operation *user : llvm::to_vector(weight.getUsers()))
        adapt(cast<LinearOp>(user), a, b, draws);
    }
    if (parameters.size() == before)
      return;
    auto larger =
        LayerOp::create(builder, layer.getLoc(), layer.getResultTypes(), layer.getNameAttr(),
                        layer.getKindAttr(), layer.getInputs(), parameters);
    larger->setDiscardableAttrs(layer->getDiscardableAttrDictionary());
    larger.getBody().takeBody(layer.getBody());
    layer->replaceAllUsesWith(larger);
    layer->erase();
  }

  /// y = W x becomes y = W x + B (scale (A x)): scaling so few numbers costs nothing, and the sum
  /// joins the last product.
  void adapt(LinearOp linear, Value a, Value b, RandomDraws &draws) {
    OpBuilder builder(linear);
    builder.setInsertionPointAfter(linear);
    Location loc = linear.getLoc();
    auto input = cast<RankedTensorType>(linear.getInput().getType());
    SymbolicShape shape = *getSymbolicShape(input);
    shape.back() = SymbolicDim(rank.getValue());
    RankedTensorType inner = makeTensorType(&getContext(), shape, input.getElementType());
    Value dropped = linear.getInput();
    if (dropout > 0)
      dropped = draws.dropout(builder, dropped, dropout);
    Value low = LinearOp::create(builder, loc, inner, dropped, a, Value(), /*in_out=*/false);
    if (scale() != 1) {
      auto scalar = RankedTensorType::get({}, input.getElementType());
      Value factor = ConstantOp::create(
          builder, loc, scalar,
          DenseElementsAttr::get(scalar, builder.getFloatAttr(input.getElementType(), scale())));
      low = MulOp::create(builder, loc, inner, low, factor);
    }
    Value high = LinearOp::create(builder, loc, linear.getType(), low, b, Value(), false);
    auto sum = AddOp::create(builder, loc, linear.getType(), linear.getResult(), high);
    linear.getResult().replaceAllUsesExcept(sum, sum);
  }

  void freezeOthers() {
    llvm::DenseSet<Operation *> trained;
    for (const auto &[weight, pair] : added) {
      trained.insert(pair.a);
      trained.insert(pair.b);
    }
    for (SavedTarget &target : targets.saved)
      trained.insert(target.parameter);
    for (auto parameter : getOperation().getOps<ParameterOp>())
      if (!trained.contains(parameter))
        parameter.setFrozen(true);
  }

  /// For the program, and so for who saves what it has trained.
  void describe() {
    rt::Adapters adapters;
    adapters.rank = rank;
    adapters.alpha = alpha;
    adapters.rankStabilized = rankStabilized;
    adapters.dropout = dropout;
    for (AdapterTarget &target : targets.linears)
      adapters.linears.push_back(
          {target.weight.getSymName().str(), target.module, target.a, target.b, target.inOut});
    for (SavedTarget &target : targets.saved)
      adapters.saved.push_back({target.parameter.getSymName().str(), target.module});
    setAdapters(getOperation(), adapters);
  }

  AdapterTargets targets;
  llvm::DenseMap<Operation *, Added> added; ///< by weight
};
} // namespace
