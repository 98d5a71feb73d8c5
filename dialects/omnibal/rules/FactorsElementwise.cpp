//===- FactorsElementwise.cpp - Elementwise ops pass every letter ----------------------------===//
#include "dialects/omnibal/rules/Factors.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// Operands in which the op is linear.
void addLinear(Operation *op, FactorBuilder &f) {
  if (isa<NegOp, CastOp, DivOp>(op))
    f.linearIn({0});
  else if (isa<AddOp, SubOp>(op))
    f.linearIn({0, 1});
  else if (isa<SelectOp>(op))
    f.linearIn({1, 2});
  else if (isa<MulOp>(op)) {
    f.linearIn({0});
    f.linearIn({1});
  }
}

template <typename OpT>
struct ElementwiseFactors : FactorOpInterface::ExternalModel<ElementwiseFactors<OpT>, OpT> {
  std::optional<FactorRule> getFactorRule(Operation *op) const {
    FactorBuilder f(op);
    if (!f.isKnown())
      return std::nullopt;
    for (auto [dim, size] : llvm::enumerate(f.result()))
      f.onResult(0, static_cast<int64_t>(dim), f.letter(size));
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      f.broadcast(i);
    addLinear(op, f);
    return f.take();
  }
  LogicalResult buildPart(Operation *op, OpBuilder &builder, const PartOf &part,
                          ValueRange operands, SmallVectorImpl<Value> &results) const {
    return buildSameOp(builder, op, part, operands, results);
  }
};

template <typename... OpTs> void attach(MLIRContext &context) {
  (OpTs::template attachInterface<ElementwiseFactors<OpTs>>(context), ...);
}
} // namespace

void omnibal::attachElementwiseFactors(MLIRContext &context) {
  attach<NegOp, ExpOp, LogOp, SqrtOp, RsqrtOp, ReciprocalOp, ErfOp, TanhOp, SigmoidOp, CosOp, SinOp,
         AbsOp, FloorOp, SignOp, NotOp, IsNaNOp, CastOp, ReluOp, SiluOp, QuickGeluOp, GeluOp, AddOp,
         SubOp, MulOp, DivOp, PowOp, ModOp, MaxOp, MinOp, AndOp, OrOp, XorOp, CompareOp, SelectOp,
         RandomUniformOp>(context);
}
