//===- AttachLoss.cpp - Gives the head its loss and its prediction -----------------------===//
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "dialects/omnibal/ir/BatchValues.h"
#include "mlir/IR/Matchers.h"
#include "passes/layers/Passes.h"

namespace omnibal {
#define GEN_PASS_DEF_ATTACHLOSS
#include "passes/layers/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;

namespace {
constexpr StringLiteral tokenLoss = "cross-entropy", dpoLoss = "dpo";

/// logits = scale * (hidden weight^T + bias), seen through reshapes.
struct LinearLogits {
  LinearOp linear;
  double scale = 1;
};

/// The one number of a constant, if it is one.
std::optional<double> getSplat(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat() ||
      !isa<FloatType>(elements.getElementType()))
    return std::nullopt;
  return elements.getSplatValue<APFloat>().convertToDouble();
}

std::optional<LinearLogits> matchLinear(Value logits) {
  LinearLogits found;
  while (Operation *op = logits.getDefiningOp()) {
    if (auto linear = dyn_cast<LinearOp>(op)) {
      found.linear = linear;
      return found;
    }
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      // The vocabulary must stay the last dimension.
      if (reshape.getInput().getType().getShape().back() !=
          reshape.getResult().getType().getShape().back())
        return std::nullopt;
      logits = reshape.getInput();
      continue;
    }
    auto mul = dyn_cast<MulOp>(op);
    auto div = dyn_cast<DivOp>(op);
    if (!mul && !div)
      return std::nullopt;
    if (std::optional<double> scale = getSplat(op->getOperand(1))) {
      found.scale *= mul ? *scale : 1 / *scale;
      logits = op->getOperand(0);
    } else if (std::optional<double> scale = getSplat(op->getOperand(0)); scale && mul) {
      found.scale *= *scale;
      logits = op->getOperand(1);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

struct AttachLossPass : omnibal::impl::AttachLossBase<AttachLossPass> {
  using AttachLossBase::AttachLossBase;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    FailureOr<LayerGraph> graph = LayerGraph::get(getOperation(), "omnibal-attach-loss");
    if (failed(graph))
      return signalPassFailure();
    FailureOr<LayerOp> head = findHead(*graph);
    if (failed(head))
      return signalPassFailure();
    auto yield = cast<YieldOp>(head->getBody().front().getTerminator());
    Value logits = yield.getOperand(0);
    auto shape = getSymbolicShape(cast<RankedTensorType>(logits.getType()));
    SymbolicDim tokens = SymbolicDim::tokens();
    if (!shape || shape->size() != 3 || !(*shape)[0].isOne() || (*shape)[1] != tokens ||
        !(*shape)[2].isStatic()) {
      head->emitOpError() << "yields " << logits.getType()
                          << "; omnibal-attach-loss needs logits [1, N, vocabulary]";
      return signalPassFailure();
    }

    OpBuilder builder(yield);
    Location loc = logits.getLoc();
    Type integer = builder.getI32Type();
    RankedTensorType integers = makeTensorType(&getContext(), {tokens}, integer);
    Type element = cast<RankedTensorType>(logits.getType()).getElementType();
    RankedTensorType losses = makeTensorType(&getContext(), {tokens}, element);
    Value targets = BatchValueOp::create(builder, loc, integers, "targets");

    Operation *loss;
    const bool ofPairs = kind.getValue() == dpoLoss;
    FloatAttr share = builder.getF64FloatAttr(ofPairs ? 0 : smoothing.getValue()),
              squared = builder.getF64FloatAttr(z);
    if (std::optional<LinearLogits> match = matchLinear(logits))
      loss = buildLinear(builder, *match, targets, losses, integers, share, squared);
    else
      loss = CrossEntropyOp::create(builder, loc, losses, integers,
                                    flatten(builder, logits, (*shape)[2].constant), targets, share,
                                    squared);
    SmallVector<Value> results(loss->getResults());
    SmallVector<OutputKind> kinds{OutputKind::Loss, OutputKind::Prediction};
    if (ofPairs)
      comparePairs(builder, results, kinds);
    yield->insertOperands(1, results);
    addOutputs(*graph, *head, results, kinds);
  }

  LogicalResult checkOptions() {
    if (kind.getValue() != dpoLoss && kind.getValue() != tokenLoss)
      return getOperation().emitError() << "omnibal-attach-loss: kind is '" << kind.getValue()
                                        << "'; known are " << tokenLoss << " and " << dpoLoss;
    if (kind.getValue() == dpoLoss && z != 0)
      return getOperation().emitError() << "omnibal-attach-loss: a z-loss is added to cross "
                                           "entropies, and the loss of pairs has none";
    return success();
  }

  /// The loss of pairs in place of that of tokens, and what is told of it.
  void comparePairs(OpBuilder &builder, SmallVectorImpl<Value> &results,
                    SmallVectorImpl<OutputKind> &kinds) {
    Value losses = results[0];
    Location loc = losses.getLoc();
    auto type = cast<RankedTensorType>(losses.getType());
    RankedTensorType borders = makeTensorType(
        &getContext(), {SymbolicDim(1) + SymbolicDim::tokens()}, builder.getI32Type());
    Value segments = BatchValueOp::create(builder, loc, borders, "cu_seqlens"),
          reference = BatchValueOp::create(builder, loc, type, referenceValue);
    auto preference =
        PreferenceLossOp::create(builder, loc, type, type, type, type, losses, segments, reference,
                                 builder.getF64FloatAttr(beta), builder.getF64FloatAttr(smoothing));
    results[0] = preference.getLoss();
    llvm::append_range(results, preference.getResults().drop_front());
    kinds.append({OutputKind::ChosenReward, OutputKind::RejectedReward, OutputKind::Preferred});
    getOperation()->setAttr(preferenceBetaAttrName, builder.getF64FloatAttr(beta));
  }

  /// The only layer of kind head, which makes @main's results and nothing else: the logits, and
  /// perhaps the routers' loss.
  FailureOr<LayerOp> findHead(LayerGraph &graph) {
    LayerOp head = graph.layers.back();
    if (head.getKind() != LayerKind::Head)
      return head.emitOpError() << "is the last layer but not the head; omnibal-attach-loss needs "
                                   "logits as the graph's result";
    if (head->hasAttr("omnibal.outputs"))
      return head.emitOpError() << "has a loss already";
    auto second = graph.main.getNumResults() == 2
                      ? graph.main.getResultAttrOfType<StringAttr>(1, "omnibal.output")
                      : StringAttr();
    const unsigned results = second && second.getValue() == routerLossOutput ? 2 : 1;
    if (head->getNumResults() != results || graph.result.getOperands() != head->getResults() ||
        !llvm::all_of(head->getResults(), [](Value result) { return result.hasOneUse(); }))
      return head.emitOpError() << "must yield the logits alone and @main must return just them; "
                                   "export the model with logits as its only output";
    return head;
  }

  /// [1, N, C] or [N, C] -> [N, C].
  Value flatten(OpBuilder &builder, Value value, int64_t columns) {
    auto type = cast<RankedTensorType>(value.getType());
    RankedTensorType flat =
        makeTensorType(&getContext(), {SymbolicDim::tokens(), columns}, type.getElementType());
    if (type == flat)
      return value;
    return ReshapeOp::create(builder, value.getLoc(), flat, value, Value(), false);
  }

  Operation *buildLinear(OpBuilder &builder, const LinearLogits &match, Value targets,
                         RankedTensorType losses, RankedTensorType integers, FloatAttr share,
                         FloatAttr squared) {
    LinearOp linear = match.linear;
    Location loc = linear.getLoc();
    auto inputType = cast<RankedTensorType>(linear.getInput().getType());
    Value hidden = flatten(builder, linear.getInput(), inputType.getShape().back());
    Value weight = linear.getWeight(), bias = linear.getBias();
    if (linear.getInOut()) {
      auto type = cast<RankedTensorType>(weight.getType());
      auto transposed =
          RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
      weight = TransposeOp::create(builder, loc, transposed, weight, ArrayRef<int64_t>{1, 0});
    }
    if (bias && match.scale != 1) {
      auto type = cast<RankedTensorType>(bias.getType());
      auto scalar = RankedTensorType::get({}, type.getElementType());
      Value scale = ConstantOp::create(
          builder, loc, scalar,
          DenseElementsAttr::get(scalar, builder.getFloatAttr(type.getElementType(), match.scale)));
      bias = MulOp::create(builder, loc, type, bias, scale);
    }
    return LinearCrossEntropyOp::create(builder, loc, losses, integers, hidden, weight, bias,
                                        targets, builder.getF64FloatAttr(match.scale), share,
                                        squared);
  }

  /// Rebuilds the head with more results behind the logits and returns them from @main.
  void addOutputs(LayerGraph &graph, LayerOp head, ArrayRef<Value> added,
                  ArrayRef<OutputKind> kinds) {
    OpBuilder builder(head);
    const bool routers = head->getNumResults() == 2;
    SmallVector<Type> addedTypes(
        llvm::map_range(added, [](Value value) { return value.getType(); }));
    SmallVector<Type> types(head->getResultTypes());
    types.insert(types.begin() + 1, addedTypes.begin(), addedTypes.end());
    auto larger = LayerOp::create(builder, head.getLoc(), types, head.getNameAttr(),
                                  head.getKindAttr(), head.getInputs(), head.getParameters());
    larger->setDiscardableAttrs(head->getDiscardableAttrDictionary());
    auto named = [&](StringRef name) {
      return builder.getDictionaryAttr(
          builder.getNamedAttr("omnibal.result", builder.getStringAttr(name)));
    };
    SmallVector<StringRef> names{nameOf(OutputKind::Output)};
    SmallVector<DictionaryAttr> attributes;
    for (OutputKind kind : kinds) {
      names.push_back(nameOf(kind));
      attributes.push_back(named(names.back()));
    }
    if (routers)
      names.push_back(routerLossOutput);
    larger->setAttr("omnibal.outputs", builder.getStrArrayAttr(names));
    larger.getBody().takeBody(head.getBody());
    graph.result->setOperands(larger->getResults());
    head->erase();

    func::FuncOp main = graph.main;
    if (failed(main.insertResults(SmallVector<unsigned>(added.size(), 1), addedTypes, attributes)))
      llvm_unreachable("a func.func takes more results");
    if (routers)
      main.setResultAttrs(names.size() - 1, named(routerLossOutput));
  }
};
} // namespace
