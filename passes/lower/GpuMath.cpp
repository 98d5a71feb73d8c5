//===- GpuMath.cpp - Elementary functions for GPUs ---------------------------------------===//
//
// A GPU has a unit for 2^x and few spare instructions beside its memory: exp and erf are short
// arithmetic around math.exp2, which becomes that unit's instruction. The rest is as on the host.
//
//===-------------------------------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/lower/EmitFusedGpu.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

struct F32 {
  ImplicitLocOpBuilder b;
  F32(Location loc, PatternRewriter &rewriter) : b(loc, rewriter) {}

  Value constant(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
  }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }

  /// 2^n * 2^r with n a whole number: the argument of the unit stays small, where it is exact to
  /// two units in the last place, and neither factor overflows before the product does.
  Value exp(Value x) {
    Value n = math::RoundEvenOp::create(b, mul(x, constant(1.4426950408889634)));
    n = arith::MinNumFOp::create(b, arith::MaxNumFOp::create(b, n, constant(-126)), constant(126));
    Value rest = fma(n, constant(-0.693145751953125), x); // ln 2 in two parts
    rest = fma(n, constant(-1.42860682030941723212e-6), rest);
    Value small = math::Exp2Op::create(b, mul(rest, constant(1.4426950408889634)));
    Type i32 = b.getI32Type();
    Value whole = arith::FPToSIOp::create(b, i32, n);
    whole = arith::AddIOp::create(b, whole, arith::ConstantIntOp::create(b, 127, 32));
    whole = arith::ShLIOp::create(b, whole, arith::ConstantIntOp::create(b, 23, 32));
    return mul(small, arith::BitcastOp::create(b, b.getF32Type(), whole));
  }

  /// Abramowitz and Stegun 7.1.26: 1.5e-7 absolute; near 0 the first terms of the series, which are
  /// exact there to the last place.
  Value erf(Value x) {
    Value size = math::AbsFOp::create(b, x);
    Value t = arith::DivFOp::create(b, constant(1), fma(size, constant(0.3275911), constant(1)));
    Value sum = constant(1.061405429);
    for (double c : {-1.453152027, 1.421413741, -0.284496736, 0.254829592})
      sum = fma(sum, t, constant(c));
    Value decay = exp(arith::NegFOp::create(b, mul(size, size)));
    Value far = arith::SubFOp::create(b, constant(1), mul(mul(sum, t), decay));
    far = math::CopySignOp::create(b, far, x);
    Value square = mul(x, x), series = constant(1.1283791670955126 / 216);
    for (double c : {-1.1283791670955126 / 42, 1.1283791670955126 / 10, -1.1283791670955126 / 3,
                     1.1283791670955126})
      series = fma(series, square, constant(c));
    Value near = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, size, constant(0.25));
    return arith::SelectOp::create(b, near, mul(series, x), far);
  }
};

struct ExpandExp : OpRewritePattern<math::ExpOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::ExpOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    rewriter.replaceOp(op, F32(op.getLoc(), rewriter).exp(op.getOperand()));
    return success();
  }
};
struct ExpandErf : OpRewritePattern<math::ErfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::ErfOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    rewriter.replaceOp(op, F32(op.getLoc(), rewriter).erf(op.getOperand()));
    return success();
  }
};

} // namespace

LogicalResult expandGpuMath(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  patterns.add<ExpandExp, ExpandErf>(module.getContext());
  return applyPatternsGreedily(module, std::move(patterns));
}

} // namespace omnibal::lower
