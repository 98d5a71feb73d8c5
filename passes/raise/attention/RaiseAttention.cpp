//===- RaiseAttention.cpp - omnibal-raise-attention --------------------------------------===//
#include "dialects/omnibal/ir/BatchValues.h"
#include "passes/raise/Passes.h"
#include "passes/raise/attention/AttentionSinks.h"
#include "passes/raise/attention/CrossAttention.h"
#include "passes/raise/attention/DecomposeAttention.h"
#include "passes/raise/attention/MaskKinds.h"
#include "passes/raise/match/LayoutChain.h"
#include <cmath>

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEATTENTIONPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// softmax(scale * cap(q k^T) + mask) v as found in the graph.
struct Found {
  Value query, key, value, mask; ///< key as [.., S, D]
  Value sinks;                   ///< a logit a head beside the scores; null: none
  double scale = 1;
  std::optional<double> softcap;
  bool causal = false;
  Value result; ///< what the attention replaces
};

class AttentionRaiser {
public:
  explicit AttentionRaiser(func::FuncOp function)
      : function(function), builder(function), dependence(function),
        classifier(function, dependence) {}

  LogicalResult run() {
    SmallVector<Operation *> roots;
    for (Operation &op : function.getBody().front())
      if (isa<SoftmaxOp, AttentionOp>(op))
        roots.push_back(&op);
    for (Operation *op : roots) {
      std::optional<Found> found;
      if (auto softmax = dyn_cast<SoftmaxOp>(op))
        found = match(softmax);
      else if (auto attention = dyn_cast<AttentionOp>(op))
        found = match(attention);
      if (found && failed(raise(op, *found)))
        return failure();
    }
    if (failed(dropPaddingFactors()))
      return failure();
    eliminateDeadAndEqual(function);
    if (failed(CrossAttention(function).raiseFactors()))
      return failure();
    eliminateDeadAndEqual(function);
    return success();
  }

private:
  std::optional<Found> match(SoftmaxOp op);
  std::optional<Found> match(AttentionOp op);
  bool matchScores(Value scores, Found &found);
  Value stripScale(Value value, double &scale);
  Value stripRepeat(Value heads);
  LogicalResult dropGuards(Value result);
  LogicalResult dropPaddingFactors();
  LogicalResult raise(Operation *op, Found found);
  LogicalResult raiseCross(Operation *op, Found found);
  void useHeadsOnce(Found &found);
  Value batchValue(Location loc, StringRef name, SymbolicDim size);
  int64_t windowRows();
  void notePrefix(StringRef types);

  func::FuncOp function;
  OpBuilder builder;
  Dependence dependence;
  MaskClassifier classifier;
};

/// Borders of the segments that a graph input numbers: image_window_ids -> image_window_cu_seqlens.
std::string bordersName(StringRef ids) {
  ids.consume_back("_ids");
  return (ids + "_cu_seqlens").str();
}

/// Whether queries and keys are of the same rows, as kernels have it. Others (learned queries that
/// read features) stay products around a softmax.
bool attendsToItself(const Found &found) {
  SymbolicShape query = shapeOf(found.query), key = shapeOf(found.key);
  return query.size() < 2 || key.size() < 2 || query[query.size() - 2] == key[key.size() - 2];
}

Value stripCasts(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>()) {
    if (!isa<FloatType>(typeOf(cast.getOperand()).getElementType()))
      break;
    value = cast.getOperand();
  }
  return value;
}

/// A mask that is one value everywhere and hides nothing, as pictures without padding have.
bool hidesNothing(Value mask) {
  std::optional<double> value = splatConstant(mask);
  return value && (typeOf(mask).getElementType().isInteger(1) ? *value != 0 : *value == 0);
}

/// Constant factors of a query or key go into the scale.
Value AttentionRaiser::stripScale(Value value, double &scale) {
  for (;;) {
    value = stripCasts(value);
    if (auto product = matchWithConstant<MulOp>(value)) {
      scale *= product->second;
      value = product->first;
    } else if (auto quotient = value.getDefiningOp<DivOp>();
               quotient && splatConstant(quotient.getRhs())) {
      scale /= *splatConstant(quotient.getRhs());
      value = quotient.getLhs();
    } else {
      return value;
    }
  }
}

bool AttentionRaiser::matchScores(Value scores, Found &found) {
  for (int depth = 0; depth < 16; ++depth) {
    scores = stripCasts(scores);
    Operation *op = scores.getDefiningOp();
    if (!op)
      return false;
    if (auto matmul = dyn_cast<MatMulOp>(op)) {
      if (matmul.getTransposeLhs())
        return false;
      found.query = stripScale(matmul.getLhs(), found.scale);
      Value key = stripScale(matmul.getRhs(), found.scale);
      int64_t rank = rankOf(key);
      if (rank < 3 || rank > 4 || rankOf(found.query) != rank)
        return false;
      if (!matmul.getTransposeRhs()) {
        SmallVector<int64_t> swap = llvm::to_vector(llvm::seq<int64_t>(0, rank));
        std::swap(swap[rank - 1], swap[rank - 2]);
        builder.setInsertionPoint(matmul);
        key = transposed(builder, matmul.getLoc(), key, swap);
        key = shortenLayout(builder, key);
        // A factor may hide between layout ops: k * s before the transpose.
        key = stripScale(key, found.scale);
      }
      found.key = key;
      return true;
    }
    if (auto add = dyn_cast<AddOp>(op)) {
      if (hidesNothing(add.getRhs())) {
        if (scores.getType() == add.getLhs().getType())
          scores.replaceAllUsesWith(add.getLhs());
        scores = add.getLhs();
        continue;
      }
      bool left = dependence.isAuxiliary(add.getLhs()),
           right = dependence.isAuxiliary(add.getRhs());
      if (left == right || found.mask)
        return false;
      found.mask = left ? add.getLhs() : add.getRhs();
      scores = left ? add.getRhs() : add.getLhs();
    } else if (auto select = dyn_cast<SelectOp>(op)) { // where(mask, scores, minimum)
      auto minimum = splatConstant(select.getOnFalse());
      if (!minimum || *minimum > -1e3 || found.mask ||
          !dependence.isAuxiliary(select.getCondition()))
        return false;
      found.mask = select.getCondition();
      scores = select.getOnTrue();
    } else if (auto product = matchWithConstant<MulOp>(scores)) {
      Value inner = stripCasts(product->first);
      if (auto tanh = inner.getDefiningOp<TanhOp>()) { // c * tanh(scale * s / c)
        if (found.softcap || found.scale != 1)
          return false; // capped or scaled after the cap
        double factor = 1;
        scores = stripScale(tanh.getOperand(), factor);
        found.softcap = product->second;
        found.scale = factor * product->second;
      } else {
        if (found.mask && product->second == 0)
          return false;
        found.scale *= product->second;
        scores = product->first;
      }
    } else if (auto div = dyn_cast<DivOp>(op); div && splatConstant(div.getRhs())) {
      found.scale /= *splatConstant(div.getRhs());
      scores = div.getLhs();
    } else {
      return false;
    }
  }
  return false;
}

std::optional<Found> AttentionRaiser::match(SoftmaxOp op) {
  int64_t rank = rankOf(op.getInput());
  if (!isLastAxis(op.getAxis(), rank) || rank < 3)
    return std::nullopt;
  Found found;
  Value scores = stripLargestScore(stripCasts(op.getInput()));
  if (auto joined = matchSinkScores(scores)) {
    scores = joined->scores;
    found.sinks = joined->sinks;
  }
  // Forward: the sinks' column goes, guards against rows that see nothing, casts, then the product
  // with the values.
  Value weights = op.getResult();
  MatMulOp product;
  bool sinksDropped = false;
  for (bool moved = true; moved && !product;) {
    moved = false;
    for (Operation *user : weights.getUsers()) {
      if (auto matmul = dyn_cast<MatMulOp>(user); matmul && matmul.getLhs() == weights)
        product = matmul;
      else if (isa<CastOp>(user) || (isa<SelectOp>(user) && user->getOperand(2) == weights &&
                                     user->getOperand(0).getDefiningOp<IsNaNOp>())) {
        weights = user->getResult(0);
        moved = true;
        break;
      } else if (auto part = dyn_cast<SliceOp>(user);
                 part && found.sinks && !sinksDropped && dropsSinkColumn(part)) {
        weights = part.getResult();
        moved = sinksDropped = true;
        break;
      }
    }
  }
  if (!product || product.getTransposeLhs() || product.getTransposeRhs() ||
      sinksDropped != bool(found.sinks))
    return std::nullopt;
  found.value = stripCasts(product.getRhs());
  found.result = product.getResult();
  if (!matchScores(scores, found))
    return std::nullopt;
  return found;
}

std::optional<Found> AttentionRaiser::match(AttentionOp op) {
  if (op.getCuSeqlens() ||
      (op.getMaskKind() != MaskKind::Explicit && op.getMaskKind() != MaskKind::Full &&
       op.getMaskKind() != MaskKind::Causal))
    return std::nullopt;
  Found found;
  found.scale = op.getScale().convertToDouble();
  found.query = stripScale(op.getQuery(), found.scale);
  found.key = stripScale(op.getKey(), found.scale);
  found.value = op.getValue();
  found.mask = op.getMask();
  found.sinks = op.getSinks();
  found.causal = op.getMaskKind() == MaskKind::Causal;
  if (op.getSoftcap())
    found.softcap = op.getSoftcap()->convertToDouble();
  found.result = op.getResult();
  return found;
}

/// [B, Hk, S, D] behind reshape(expand([B, Hk, 1, S, D] to [B, Hk, G, S, D])); null if there is no
/// such repetition.
Value AttentionRaiser::stripRepeat(Value heads) {
  auto merge = heads.getDefiningOp<ReshapeOp>();
  auto expand = merge ? merge.getInput().getDefiningOp<ExpandOp>() : ExpandOp();
  if (!expand)
    return {};
  SymbolicShape to = shapeOf(expand.getResult()), from = shapeOf(expand.getInput()),
                merged = shapeOf(heads);
  if (to.size() != 5 || from.size() != 5 || merged.size() != 4)
    return {};
  if (!from[2].isOne() || to[0] != merged[0] || multiply(to[1], to[2]) != merged[1] ||
      to[3] != merged[2] || to[4] != merged[3])
    return {};
  for (int i : {0, 1, 3, 4})
    if (from[i] != to[i])
      return {};
  Value source =
      reshapeTo(builder, heads.getLoc(), expand.getInput(), {from[0], from[1], from[3], from[4]});
  return shortenLayout(builder, source);
}

Value AttentionRaiser::batchValue(Location loc, StringRef name, SymbolicDim size) {
  return BatchValueOp::create(builder, loc,
                              makeTensorType(builder.getContext(), {size}, builder.getI32Type()),
                              builder.getStringAttr(name));
}

/// Samples whose types are no prefix would train on what they see: the runtime refuses them.
void AttentionRaiser::notePrefix(StringRef types) {
  constexpr StringLiteral name = "omnibal.prefix_inputs";
  auto module = function->getParentOfType<ModuleOp>();
  SmallVector<Attribute> noted;
  if (auto before = module->getAttrOfType<ArrayAttr>(name))
    noted.assign(before.begin(), before.end());
  Attribute entry = builder.getStringAttr(types);
  if (!llvm::is_contained(noted, entry))
    noted.push_back(entry);
  module->setAttr(name, builder.getArrayAttr(noted));
}

/// Patches of a full window, where the module says how pictures are cut.
int64_t AttentionRaiser::windowRows() {
  auto pictures =
      function->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>("omnibal.pictures");
  auto window = pictures ? pictures.getAs<IntegerAttr>("window") : IntegerAttr();
  auto patch = pictures ? pictures.getAs<IntegerAttr>("patch") : IntegerAttr();
  int64_t side = window && patch && patch.getInt() > 0 ? window.getInt() / patch.getInt() : 0;
  return side * side;
}

/// Exporters blank the rows of tokens that see nothing: where(empty, 0, attention), or a product
/// with 0 and 1. Every token of a sample sees at least itself, so this must not change anything.
LogicalResult AttentionRaiser::dropGuards(Value result) {
  for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
    Value control;
    bool expected = false;
    if (auto select = dyn_cast<SelectOp>(user)) {
      control = select.getCondition();
      expected = select.getOnTrue() == result;
    } else if (auto product = dyn_cast<MulOp>(user)) {
      control = product.getLhs() == result ? product.getRhs() : product.getLhs();
      expected = true;
    }
    if (!control || control == result || user->getResult(0).getType() != result.getType() ||
        !dependence.isAuxiliary(control))
      continue;
    if (failed(classifier.requireEverywhere(control, expected, user)))
      return failure();
    user->getResult(0).replaceAllUsesWith(result);
  }
  return success();
}

/// Layers that do not attend blank the rows of padding by a product with the mask, which is 1 for
/// every token of a sample.
LogicalResult AttentionRaiser::dropPaddingFactors() {
  Dependence::Set padding = classifier.paddingInputs();
  for (Operation &op : function.getBody().front()) {
    auto product = dyn_cast<MulOp>(op);
    if (!product)
      continue;
    for (auto [factor, other] : {std::pair(product.getLhs(), product.getRhs()),
                                 std::pair(product.getRhs(), product.getLhs())}) {
      if (!(dependence.of(factor) & padding) || !dependence.isAuxiliary(factor) ||
          dependence.isAuxiliary(other) || product.getType() != other.getType())
        continue;
      if (failed(classifier.requireEverywhere(factor, true, product)))
        return failure();
      product.getResult().replaceAllUsesWith(other);
      break;
    }
  }
  return success();
}

/// Key and value heads that are repeated for the query heads stand once.
void AttentionRaiser::useHeadsOnce(Found &found) {
  found.key = shortenLayout(builder, found.key);
  found.value = shortenLayout(builder, found.value);
  Value key = stripRepeat(found.key), value = stripRepeat(found.value);
  if (key && value && shapeOf(key)[1] == shapeOf(value)[1]) {
    found.key = key;
    found.value = value;
  }
}

/// Scales are products of float32 roots: sqrt(s) * sqrt(s). Undoes that rounding where it shows.
double idealScale(double scale, int64_t size) {
  double ideal = 1 / std::sqrt(static_cast<double>(size));
  return std::abs(scale - ideal) < 1e-6 * ideal ? ideal : scale;
}

LogicalResult AttentionRaiser::raiseCross(Operation *op, Found found) {
  builder.setInsertionPoint(found.result.getDefiningOp());
  if (found.softcap || found.causal || found.sinks)
    return op->emitError() << describe(op) << ": attention of tokens to pictures with capped "
                           << "scores, sinks or a causal mask is not supported";
  if (rankOf(found.query) == 3) // [H, L, D]: heads of the one row
    for (Value *operand : {&found.query, &found.key, &found.value}) {
      SymbolicShape shape = shapeOf(*operand);
      shape.insert(shape.begin(), SymbolicDim(1));
      *operand = reshapeTo(builder, op->getLoc(), *operand, shape);
    }
  useHeadsOnce(found);
  double scale = idealScale(found.scale, shapeOf(found.query)[3].constant);
  return CrossAttention(function).raise(op, found.query, found.key, found.value, found.mask, scale,
                                        found.result, dependence);
}

LogicalResult AttentionRaiser::raise(Operation *op, Found found) {
  Location loc = op->getLoc();
  if (CrossAttention::isOf(found.query, found.key))
    return raiseCross(op, found);
  if (!attendsToItself(found)) {
    if (auto attention = dyn_cast<AttentionOp>(op))
      decomposeAttention(attention);
    return success();
  }
  if (failed(dropGuards(found.result)))
    return failure();
  builder.setInsertionPoint(found.result.getDefiningOp());
  SymbolicShape resultShape = shapeOf(found.result);
  if (rankOf(found.query) == 3) { // [B * H, L, D]: heads as batch, or as heads of the one row
    for (Value *operand : {&found.query, &found.key, &found.value}) {
      SymbolicShape shape = shapeOf(*operand);
      bool tokens = shape[1].perToken != 0;
      shape.insert(tokens ? shape.begin() : shape.begin() + 1, SymbolicDim(1));
      *operand = reshapeTo(builder, loc, *operand, shape);
    }
  }
  if (rankOf(found.query) != 4 || rankOf(found.key) != 4 || rankOf(found.value) != 4)
    return success(); // no form of attention: the verifier says so where it matters
  useHeadsOnce(found);
  SymbolicShape query = shapeOf(found.query);
  bool overTokens = query[2].perToken != 0;
  MaskClass mask;
  std::optional<unsigned> segmentIds;
  mask.kind = found.causal ? MaskKind::Causal : MaskKind::Full;
  if (found.mask && !overTokens && query[2].perTile != 0) {
    auto classified = classifier.classifySegments(found.mask, op);
    if (failed(classified))
      return failure();
    segmentIds = classified;
  } else if (found.mask && !hidesNothing(found.mask)) {
    if (!dependence.isAuxiliary(found.mask) && !isParameterLike(found.mask))
      return op->emitError() << describe(op) << ": the attention mask depends on token ids or "
                             << "pictures, which is not supported";
    if (!overTokens && (dependence.of(found.mask) & ~Dependence::sizes) == 0) {
      // The mask is the same for every picture (rows that fill it up): products around a softmax.
      if (auto attention = dyn_cast<AttentionOp>(op))
        decomposeAttention(attention);
      return success();
    }
    if (!overTokens)
      return op->emitError() << describe(op) << ": a mask on attention within a picture is not "
                             << "supported";
    auto classified = classifier.classify(found.mask, op);
    if (failed(classified))
      return failure();
    mask = *classified;
  }
  Value segments, types;
  if (segmentIds) {
    std::string name = bordersName(inputName(function, *segmentIds));
    if (!isPictureFact(name))
      return op->emitError() << describe(op) << ": the numbers of segments come from graph input '"
                             << inputName(function, *segmentIds) << "', which is not known; "
                             << "known are image_segment_ids and image_window_ids";
    // At most as many segments as vision units: none is smaller than a unit.
    segments = batchValue(loc, name, SymbolicDim(1) + SymbolicDim::tiles());
    if (int64_t rows = windowRows(); rows && name == "image_window_cu_seqlens")
      segments.getDefiningOp()->setAttr(segmentRowsAttrName, builder.getI64IntegerAttr(rows));
  } else if (overTokens) {
    if (!query[0].isOne())
      return op->emitError() << describe(op) << ": attention over tokens with a batch of "
                             << toString(query[0]) << "; the batch must be 1";
    segments = batchValue(loc, "cu_seqlens", SymbolicDim(1) + SymbolicDim::tokens());
    if (mask.typesArgument)
      types = batchValue(loc, inputName(function, *mask.typesArgument), SymbolicDim::tokens());
    if (mask.kind == MaskKind::Prefix)
      notePrefix(inputName(function, *mask.typesArgument));
  }
  if (found.sinks)
    found.sinks = reshapeTo(builder, loc, found.sinks, {query[1]});
  SymbolicShape result = query;
  result[3] = shapeOf(found.value)[3];
  Type element = typeOf(found.query).getElementType();
  MLIRContext *context = function.getContext();
  found.scale = idealScale(found.scale, query[3].constant);
  auto attention = AttentionOp::create(
      builder, loc, makeTensorType(context, result, element),
      makeTensorType(context, ArrayRef<SymbolicDim>(result).drop_back(), element), found.query,
      found.key, found.value, Value(), segments, types, found.sinks, llvm::APFloat(found.scale),
      mask.kind, mask.window > 0 ? builder.getI64IntegerAttr(mask.window) : IntegerAttr(),
      mask.typeRange ? builder.getDenseI64ArrayAttr({mask.typeRange->first, mask.typeRange->second})
                     : DenseI64ArrayAttr(),
      found.softcap ? builder.getF64FloatAttr(*found.softcap) : FloatAttr());
  Value output = reshapeTo(builder, loc, attention.getResult(), resultShape);
  output = castTo(builder, loc, output, typeOf(found.result).getElementType());
  found.result.replaceAllUsesWith(output);
  return success();
}
} // namespace
} // namespace raise

namespace {
struct RaiseAttentionPass : impl::RaiseAttentionPassBase<RaiseAttentionPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(raise::AttentionRaiser(function).run()))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
