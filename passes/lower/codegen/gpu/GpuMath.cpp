//===- GpuMath.cpp - Elementary functions for GPUs ---------------------------------------===//
//
// A GPU has a unit for 2^x and few spare instructions beside its memory: exp and erf are short
// arithmetic around math.exp2, which becomes that unit's instruction. The rest is as on the host.
//
//===-------------------------------------------------------------------------------------------===//
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/lower/codegen/gpu/EmitFusedGpu.h"

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
  /// two units in the last place, and neither factor overflows before the product does. Adding
  /// 1.5 * 2^23 rounds to n and leaves it in the low bits: conversions would share the unit of 2^x.
  Value exp(Value x) {
    constexpr double magic = 12582912, log2e = 1.4426950216293335, rest = 1.925963033500e-8;
    Value z = fma(x, constant(log2e), constant(magic));
    z = arith::MinNumFOp::create(b, arith::MaxNumFOp::create(b, z, constant(magic - 126)),
                                 constant(magic + 126));
    Value n = arith::SubFOp::create(b, z, constant(magic));
    Value r = fma(x, constant(log2e), arith::NegFOp::create(b, n));
    Value small = math::Exp2Op::create(b, fma(x, constant(rest), r));
    Type i32 = b.getI32Type();
    Value whole = arith::ShLIOp::create(b, arith::BitcastOp::create(b, i32, z),
                                        arith::ConstantIntOp::create(b, 23, 32));
    whole = arith::AddIOp::create(b, whole, arith::ConstantIntOp::create(b, 127 << 23, 32));
    return mul(small, arith::BitcastOp::create(b, b.getF32Type(), whole));
  }

  /// x p(x^2) / q(x^2), fitted to be within 1.1e-8 up to |x| = 3.8, where erf is 1 but for 8e-8; in
  /// float32 it is within 3.5e-7, absolute and relative. No second function, no branch.
  Value erf(Value x) {
    Value limit = constant(3.8), low = constant(-3.8);
    // A NaN passes through.
    Value inside = arith::MinimumFOp::create(b, arith::MaximumFOp::create(b, x, low), limit);
    Value square = mul(inside, inside);
    Value p = constant(2.132135250576539e-06), q = constant(3.90979039366357e-05);
    for (double c : {0.0002879998064599931, 0.003693617647513747, 0.052547354251146317,
                     0.18811625242233276, 1.1283791065216064})
      p = fma(p, square, constant(c));
    for (double c : {0.0011537466198205948, 0.014822935685515404, 0.11325492709875107,
                     0.5000459551811218, 1.0})
      q = fma(q, square, constant(c));
    return mul(mul(inside, p), arith::DivFOp::create(b, constant(1), q));
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
