//===- RaiseImageMerge.cpp - omnibal-raise-image-merge -----------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Dependence.h"
#include "passes/raise/match/Probe.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEIMAGEMERGEPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// masked_scatter(text, ids == token, features): the k-th placeholder row gets feature row k.
struct Merge {
  Value text;     ///< [1, N, C]
  Value features; ///< any shape; its elements in order fill the placeholders
  int64_t token = 0;
  bool adds = false; ///< the features are added to the rows instead
};

/// The only element along a dimension of size 1.
bool dropsUnitDim(GatherOp op) {
  int64_t axis = op.getAxis(), rank = rankOf(op.getInput());
  return shapeOf(op.getInput())[axis < 0 ? axis + rank : axis].isOne() &&
         typeOf(op.getIndices()).getNumElements() == 1;
}

class MergeRaiser {
public:
  MergeRaiser(ModuleOp module, func::FuncOp function)
      : module(module), function(function), builder(function), dependence(function) {}

  LogicalResult run() {
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front().without_terminator())) {
      std::optional<Merge> merge;
      if (auto scatter = dyn_cast<ScatterNDOp>(op))
        merge = match(scatter);
      else if (auto select = dyn_cast<SelectOp>(op))
        merge = match(select);
      if (merge && failed(raise(&op, *merge)))
        return failure();
    }
    eliminateDeadAndEqual(function);
    return success();
  }

private:
  std::optional<Merge> match(ScatterNDOp op);
  std::optional<Merge> match(SelectOp op);
  std::optional<Merge> matchAddition(ScatterNDOp op, int64_t token);
  LogicalResult raise(Operation *op, const Merge &merge);

  /// The token id of `ids == id`, broadcast to every element of the text's rows.
  std::optional<int64_t> placeholderToken(Value mask) {
    while (Operation *op = mask.getDefiningOp()) {
      if (auto compare = dyn_cast<CompareOp>(op)) {
        if (compare.getPredicate() != ComparePredicate::EQ)
          return std::nullopt;
        auto token = splatConstant(compare.getRhs());
        Value ids = token ? compare.getLhs() : compare.getRhs();
        if (!token)
          token = splatConstant(compare.getLhs());
        if (!token || dependence.of(ids) != dependence.arguments(Role::Ids))
          return std::nullopt;
        return static_cast<int64_t>(*token);
      }
      auto gather = dyn_cast<GatherOp>(op);
      bool drops = gather && dropsUnitDim(gather);
      if (!drops && !isa<ReshapeOp, ExpandOp, CastOp>(op))
        return std::nullopt;
      mask = op->getOperand(0);
    }
    return std::nullopt;
  }
  /// The token whose places the indices list: transpose(nonzero(ids == token)).
  std::optional<int64_t> listedToken(Value indices) {
    auto transpose = indices.getDefiningOp<TransposeOp>();
    auto nonzero = transpose ? transpose.getInput().getDefiningOp<NonZeroOp>() : NonZeroOp();
    return nonzero ? placeholderToken(nonzero.getInput()) : std::nullopt;
  }
  bool dependsOnImages(Value value) {
    return dependence.of(value) & dependence.arguments(Role::Image);
  }

  ModuleOp module;
  func::FuncOp function;
  OpBuilder builder;
  Dependence dependence;
};

/// scatter_nd(text, places, text[places] + features): features of inner layers of the tower that
/// the language model's first layers take on top of their own.
std::optional<Merge> MergeRaiser::matchAddition(ScatterNDOp op, int64_t token) {
  Value updates = op.getUpdates();
  while (Operation *source = updates.getDefiningOp()) {
    if (!isa<ReshapeOp, ExpandOp>(source))
      break;
    updates = source->getOperand(0);
  }
  auto sum = updates.getDefiningOp<AddOp>();
  if (!sum)
    return std::nullopt;
  for (bool left : {true, false}) {
    auto rows = (left ? sum.getLhs() : sum.getRhs()).getDefiningOp<GatherNDOp>();
    Value features = left ? sum.getRhs() : sum.getLhs();
    if (rows && rows.getInput() == op.getInput() && rows.getBatchDims() == 0 &&
        listedToken(rows.getIndices()) == token && getSymbolicShape(typeOf(features)))
      return Merge{op.getInput(), stripReshapes(features), token, /*adds=*/true};
  }
  return std::nullopt;
}

/// scatter_nd(text, transpose(nonzero(mask)), first elements of features).
std::optional<Merge> MergeRaiser::match(ScatterNDOp op) {
  if (op.getReduction() != "none" || !dependsOnImages(op.getUpdates()))
    return std::nullopt;
  auto token = listedToken(op.getIndices());
  if (!token)
    return std::nullopt;
  if (auto addition = matchAddition(op, *token))
    return addition;
  Value updates = op.getUpdates();
  while (Operation *source = updates.getDefiningOp()) {
    if (!isa<ReshapeOp, SliceOp>(source))
      break;
    updates = source->getOperand(0);
    // A slice of known features is part of the model, not of the scatter.
    if (isa<SliceOp>(source) && rankOf(updates) != 1)
      return std::nullopt;
  }
  return Merge{op.getInput(), updates, *token};
}

/// where(mask, features[cumsum(mask) - 1], text).
std::optional<Merge> MergeRaiser::match(SelectOp op) {
  auto token = placeholderToken(op.getCondition());
  if (!token || !dependsOnImages(op.getOnTrue()))
    return std::nullopt;
  Value gathered = stripReshapes(op.getOnTrue());
  Operation *gather = gathered.getDefiningOp();
  if (!isa_and_nonnull<GatherOp, GatherNDOp, GatherElementsOp>(gather))
    return std::nullopt;
  Value indices = gather->getOperand(1);
  if (dependsOnImages(indices) || llvm::none_of(backwardOps(indices), llvm::IsaPred<CumSumOp>))
    return std::nullopt;
  return Merge{op.getOnFalse(), stripReshapes(gather->getOperand(0)), *token};
}

LogicalResult MergeRaiser::raise(Operation *op, const Merge &merge) {
  Value result = op->getResult(0);
  Value text = stripReshapes(merge.text);
  auto error = [&]() { return op->emitError() << describe(op) << ": image merge: "; };
  SymbolicShape textShape = shapeOf(text);
  if (textShape.size() != 3 || !textShape[0].isOne() || textShape[1] != SymbolicDim::tokens() ||
      !textShape[2].isStatic())
    return error() << "the text is not a tensor [1, N, C] of embeddings";
  SymbolicDim width = textShape[2];
  // Feature rows of the text's width: the features with their own leading dimensions if they fit.
  Value features = merge.features;
  builder.setInsertionPoint(op);
  auto elements = product(shapeOf(features));
  auto rows = elements ? divideExactly(*elements, width) : std::nullopt;
  if (!rows || rows->perToken != 0 || rows->constant != 0 || rows->perTile <= 0)
    return error() << "the features do not come in a constant number of rows of width "
                   << toString(width) << " for each image";
  if (shapeOf(features).back() != width)
    features = reshapeTo(builder, op->getLoc(), features, {*rows, width});
  auto note = [&](StringRef name, int64_t value) {
    auto attribute = builder.getI64IntegerAttr(value);
    Attribute before = module->getAttr(name);
    module->setAttr(name, attribute);
    return !before || before == attribute;
  };
  if (!note("omnibal.image_token_id", merge.token) ||
      !note("omnibal.tokens_per_tile", rows->perTile))
    return error() << "two merges with different placeholder tokens or feature counts";
  Value imageRows = BatchValueOp::create(
      builder, op->getLoc(),
      makeTensorType(builder.getContext(), {SymbolicDim::tokens()}, builder.getI32Type()),
      builder.getStringAttr("image_rows"));
  Location loc = op->getLoc();
  Value below = text;
  if (merge.adds) {
    auto number = RankedTensorType::get({}, typeOf(text).getElementType());
    Value zero = ConstantOp::create(builder, loc, number,
                                    cast<ElementsAttr>(DenseElementsAttr::get(
                                        number, builder.getZeroAttr(number.getElementType()))));
    below = ExpandOp::create(builder, loc, text.getType(), zero, Value());
  }
  Value merged = ImageMergeOp::create(builder, loc, text.getType(), below, features, imageRows);
  if (merge.adds)
    merged = createOp<AddOp>(builder, loc, text, merged);
  result.replaceAllUsesWith(reshapeTo(builder, loc, merged, shapeOf(result)));
  return success();
}
} // namespace
} // namespace raise

namespace {
struct RaiseImageMergePass : impl::RaiseImageMergePassBase<RaiseImageMergePass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(raise::MergeRaiser(getOperation(), function).run()))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
