//===- RaiseNorms.cpp - omnibal-raise-norms ----------------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISENORMSPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// x / sqrt(v) or x * rsqrt(v): (x, v).
std::optional<std::pair<Value, Value>> matchScaledByRsqrt(Operation *op) {
  auto rootOf = [](Value value) -> Value { // v of sqrt(v)
    if (auto sqrt = value.getDefiningOp<SqrtOp>())
      return sqrt.getOperand();
    if (auto power = value.getDefiningOp<PowOp>(); power && isConstant(power.getRhs(), 0.5))
      return power.getLhs();
    return {};
  };
  auto inverseRootOf = [&](Value value) -> Value { // v of 1 / sqrt(v)
    if (auto rsqrt = value.getDefiningOp<RsqrtOp>())
      return rsqrt.getOperand();
    if (auto reciprocal = value.getDefiningOp<ReciprocalOp>())
      return rootOf(reciprocal.getOperand());
    if (auto power = value.getDefiningOp<PowOp>(); power && isConstant(power.getRhs(), -0.5))
      return power.getLhs();
    if (auto div = value.getDefiningOp<DivOp>(); div && isConstant(div.getLhs(), 1))
      return rootOf(div.getRhs());
    return {};
  };
  if (auto div = dyn_cast<DivOp>(op)) {
    Value variance = rootOf(div.getRhs());
    return variance ? std::optional(std::pair(div.getLhs(), variance)) : std::nullopt;
  }
  auto mul = dyn_cast<MulOp>(op);
  if (!mul)
    return std::nullopt;
  if (Value variance = inverseRootOf(mul.getRhs()))
    return std::pair(mul.getLhs(), variance);
  if (Value variance = inverseRootOf(mul.getLhs()))
    return std::pair(mul.getRhs(), variance);
  return std::nullopt;
}

/// Input of a mean over the dimensions [axis, rank), kept with size 1.
Value matchMean(Value value, int64_t *axis) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::Mean || !reduce.getKeepdims() ||
      !reduce.getAxes() || reduce.getAxes()->empty())
    return {};
  ArrayRef<int64_t> axes = *reduce.getAxes();
  *axis = axes.front();
  int64_t rank = rankOf(reduce.getInput());
  for (auto [i, a] : llvm::enumerate(axes))
    if (a != *axis + static_cast<int64_t>(i))
      return {};
  return axes.back() == rank - 1 ? reduce.getInput() : Value();
}

/// True if the value scales or shifts the normalized dimensions and nothing else.
bool isNormVector(Value value, Value normalized, int64_t axis) {
  if (!readsParameter(value) && !splatConstant(value))
    return false;
  SymbolicShape shape = shapeOf(normalized), vector = shapeOf(value);
  return ArrayRef<SymbolicDim>(vector) == ArrayRef<SymbolicDim>(shape).drop_front(axis);
}

struct NormRaiser {
  OpBuilder builder;

  /// x * rsqrt(mean(x^2) + eps); (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps).
  void raiseCore(Operation *op) {
    auto scaled = matchScaledByRsqrt(op);
    if (!scaled)
      return;
    auto [x, variance] = *scaled;
    auto withEpsilon = matchWithConstant<AddOp>(variance);
    int64_t axis;
    Value mean = withEpsilon ? matchMean(withEpsilon->first, &axis) : Value();
    Value squared = mean ? matchSquare(mean) : Value();
    if (!squared || squared != x || op->getResult(0).getType() != x.getType())
      return;
    builder.setInsertionPoint(op);
    if (auto centered = x.getDefiningOp<SubOp>()) {
      int64_t meanAxis;
      if (matchMean(centered.getRhs(), &meanAxis) == centered.getLhs() && meanAxis == axis) {
        raiseLayerNorm(op, centered.getLhs(), axis, withEpsilon->second);
        return;
      }
    }
    Value norm = RMSNormOp::create(builder, op->getLoc(), x.getType(), x, Value(),
                                   builder.getI64IntegerAttr(axis),
                                   builder.getF64FloatAttr(withEpsilon->second));
    op->getResult(0).replaceAllUsesWith(norm);
  }

  /// layer_norm has a scale: without a parameter behind it, ones.
  void raiseLayerNorm(Operation *op, Value x, int64_t axis, double epsilon) {
    Value normalized = op->getResult(0);
    MulOp product;
    Value scale;
    if (normalized.hasOneUse())
      if ((product = dyn_cast<MulOp>(*normalized.user_begin()))) {
        scale = product.getLhs() == normalized ? product.getRhs() : product.getLhs();
        if (!isNormVector(scale, normalized, axis))
          product = nullptr;
      }
    if (product) {
      builder.setInsertionPoint(product);
    } else {
      auto type =
          makeTensorType(builder.getContext(), ArrayRef<SymbolicDim>(shapeOf(x)).drop_front(axis),
                         typeOf(x).getElementType());
      scale = ConstantOp::create(
          builder, op->getLoc(), type,
          SplatElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 1.0)));
    }
    Value norm =
        LayerNormOp::create(builder, op->getLoc(), x.getType(), x, scale, Value(),
                            builder.getI64IntegerAttr(axis), builder.getF64FloatAttr(epsilon));
    (product ? product.getResult() : normalized).replaceAllUsesWith(norm);
  }

  void attachScale(MulOp op) {
    for (auto [norm, scale] :
         {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto rms = norm.getDefiningOp<RMSNormOp>();
      if (!rms || rms.getScale() || !norm.hasOneUse() || !isNormVector(scale, norm, rms.getAxis()))
        continue;
      // (1 + w) and the like stay elementwise: the parameter itself must be the scale.
      if (!scale.getDefiningOp<GetParameterOp>() && !scale.getDefiningOp<ReshapeOp>() &&
          !scale.getDefiningOp<ConstantOp>())
        continue;
      builder.setInsertionPoint(op);
      Value scaled = RMSNormOp::create(builder, op.getLoc(), op.getType(), rms.getInput(), scale,
                                       rms.getAxisAttr(), rms.getEpsilonAttr());
      op.getResult().replaceAllUsesWith(scaled);
      return;
    }
  }

  void attachBias(AddOp op) {
    for (auto [norm, bias] :
         {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto layer = norm.getDefiningOp<LayerNormOp>();
      if (!layer || layer.getBias() || !norm.hasOneUse() ||
          !isNormVector(bias, norm, layer.getAxis()))
        continue;
      builder.setInsertionPoint(op);
      Value biased =
          LayerNormOp::create(builder, op.getLoc(), op.getType(), layer.getInput(),
                              layer.getScale(), bias, layer.getAxisAttr(), layer.getEpsilonAttr());
      op.getResult().replaceAllUsesWith(biased);
      return;
    }
  }
};
} // namespace
} // namespace raise

namespace {
struct RaiseNormsPass : impl::RaiseNormsPassBase<RaiseNormsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      raise::NormRaiser raiser{OpBuilder(function)};
      raise::forEachOp(function, [&](Operation *op) { raiser.raiseCore(op); });
      raise::forEachOp(function, [&](Operation *op) {
        if (auto mul = dyn_cast<MulOp>(op))
          raiser.attachScale(mul);
        else if (auto add = dyn_cast<AddOp>(op))
          raiser.attachBias(add);
      });
    }
  }
};
} // namespace
} // namespace omnibal
