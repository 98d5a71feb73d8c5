//===- AddAdapters.cpp - Low-rank adapters of linear layers -----------------------------------===//
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "passes/common/AdapterAttributes.h"
#include "passes/layers/AdapterTargets.h"
#include "passes/layers/LinearWeights.h"
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
  ParameterOp magnitude; ///< null without DoRA
};

/// These in the body of a layer.
struct AddedValues {
  Value weight, a, b;
  Value magnitude; ///< null without DoRA
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
    if (dropout > 0 && dora)
      return getOperation().emitError() << getArgument() << ": dropout goes without dora";
    return success();
  }

  /// The new parameters' names must be free.
  LogicalResult checkNames(const AdapterTargets &found) {
    for (const AdapterTarget &target : found.linears)
      for (const std::string &name : {target.a, target.b, target.magnitude})
        if (getOperation().lookupSymbol(name))
          return getOperation().emitError()
                 << getArgument() << ": the model has a parameter '" << name
                 << "' already; merge its adapters into the weights first";
    return success();
  }

  /// Dropout needs to know whose the rows of an adapter's input are.
  LogicalResult checkInputs(const LayerGraph &graph, const AdapterTargets &found) {
    if (dropout == 0)
      return success();
    Readers readers = findReaders(graph);
    for (const AdapterTarget &target : found.linears)
      for (Operation *reader : readers[target.weight])
        if (failed(RandomDraws::check(cast<LinearOp>(reader).getInput())))
          return failure();
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
      Added &made = added[target.weight];
      made.a = add(target.a, {rank, target.in});
      builder.setInsertionPointAfter(made.a);
      made.b = add(target.b, {target.out, rank});
      if (!dora)
        continue;
      builder.setInsertionPointAfter(made.b);
      made.magnitude = add(target.magnitude, {target.out});
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
      const SmallVector<Operation *> readers(weight.getUsers());
      AddedValues values{weight, argument(found->second.a), argument(found->second.b), Value()};
      if (dora)
        values.magnitude = argument(found->second.magnitude);
      const Value factor = dora ? addFactor(readers, values) : Value();
      for (Operation *reader : readers)
        adapt(cast<LinearOp>(reader), values, factor, draws);
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

  /// Adds the magnitude divided by the norm of each row of W + scale B A, of which a layer has one
  /// however many readers the weight has. No gradient passes through the norm.
  Value addFactor(ArrayRef<Operation *> readers, const AddedValues &values) {
    Operation *first = *llvm::min_element(
        readers, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    OpBuilder builder(first);
    Location loc = first->getLoc();
    Type type = values.magnitude.getType();
    Value squares = RowSquaresOp::create(builder, loc, type, values.weight, values.a, values.b,
                                         APFloat(scale()), cast<LinearOp>(first).getInOut());
    Value inverse = RsqrtOp::create(builder, loc, type, squares);
    return MulOp::create(builder, loc, type, values.magnitude, inverse);
  }

  /// y = W x becomes y = W x + B (scale (A x)): scaling so few numbers costs nothing, and the sum
  /// joins the last product. With DoRA each output has its factor, which the bias has not.
  void adapt(LinearOp linear, const AddedValues &values, Value factor, RandomDraws &draws) {
    OpBuilder builder(linear);
    builder.setInsertionPointAfter(linear);
    Location loc = linear.getLoc();
    const Value bias = linear.getBias();
    if (factor)
      linear.getBiasMutable().clear();
    auto input = cast<RankedTensorType>(linear.getInput().getType());
    SymbolicShape shape = *getSymbolicShape(input);
    shape.back() = SymbolicDim(rank.getValue());
    RankedTensorType inner = makeTensorType(&getContext(), shape, input.getElementType());
    Value dropped = linear.getInput();
    if (dropout > 0)
      dropped = draws.dropout(builder, dropped, dropout);
    Value low = LinearOp::create(builder, loc, inner, dropped, values.a, Value(), /*in_out=*/false);
    if (scale() != 1) {
      auto scalar = RankedTensorType::get({}, input.getElementType());
      Value factor = ConstantOp::create(
          builder, loc, scalar,
          DenseElementsAttr::get(scalar, builder.getFloatAttr(input.getElementType(), scale())));
      low = MulOp::create(builder, loc, inner, low, factor);
    }
    Value high = LinearOp::create(builder, loc, linear.getType(), low, values.b, Value(), false);
    auto sum = AddOp::create(builder, loc, linear.getType(), linear.getResult(), high);
    Value result = sum;
    if (factor)
      result = MulOp::create(builder, loc, linear.getType(), result, factor);
    if (factor && bias)
      result = AddOp::create(builder, loc, linear.getType(), result, bias);
    linear.getResult().replaceAllUsesExcept(result, sum);
  }

  void freezeOthers() {
    llvm::DenseSet<Operation *> trained;
    for (const auto &[weight, made] : added)
      for (ParameterOp parameter : {made.a, made.b, made.magnitude})
        if (parameter)
          trained.insert(parameter);
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
    adapters.dora = dora;
    for (AdapterTarget &target : targets.linears)
      adapters.linears.push_back({target.weight.getSymName().str(), target.module, target.a,
                                  target.b, target.inOut, dora ? target.magnitude : std::string()});
    for (SavedTarget &target : targets.saved)
      adapters.saved.push_back({target.parameter.getSymName().str(), target.module});
    setAdapters(getOperation(), adapters);
  }

  AdapterTargets targets;
  llvm::DenseMap<Operation *, Added> added; ///< by weight
};
} // namespace
