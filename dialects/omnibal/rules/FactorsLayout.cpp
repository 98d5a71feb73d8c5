//===- FactorsLayout.cpp - Letters through layout and indexing ops ---------------------------===//
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/rules/Factors.h"
#include "runtime/support/Shares.h"
#include <numeric>

using namespace mlir;
using namespace omnibal;

OMNIBAL_FACTOR_RULE(TransposeOp) {
  for (auto [to, from] : llvm::enumerate(op.getPermutation()))
    f.carry(from, static_cast<int64_t>(to));
  f.linearIn({0});
  return true;
}

namespace {
/// Walks the dimensions of both sides of a reshape from the outermost inwards. While one side's
/// rest divides the other's, it is a letter of both; what does not divide is closed.
class ReshapeLetters {
public:
  explicit ReshapeLetters(FactorBuilder &f) : f(f) {}

  void run() {
    while (true) {
      load(f.operand(0), in);
      load(f.result(), out);
      if (!in.left || !out.left)
        return;
      if (share(*in.left, *out.left))
        continue;
      if (!leaveOut())
        return;
    }
  }

private:
  struct Side {
    int64_t dim = -1;
    std::optional<SymbolicDim> left; ///< what is to be named of this dimension
  };

  static void load(const SymbolicShape &shape, Side &side) {
    while (!side.left && ++side.dim < static_cast<int64_t>(shape.size()))
      if (!shape[side.dim].isOne())
        side.left = shape[side.dim];
  }

  bool share(const SymbolicDim &a, const SymbolicDim &b) {
    if (a == SymbolicDim(0) || b == SymbolicDim(0))
      return false;
    std::optional<SymbolicDim> more = divideExactly(a, b), less = divideExactly(b, a);
    if (!more && !less)
      return false;
    auto shared = f.letter(less ? a : b);
    f.onOperand(0, in.dim, shared);
    f.onResult(0, out.dim, shared);
    in.left = less ? std::nullopt : more;
    out.left = less && !less->isOne() ? less : std::nullopt;
    return true;
  }

  /// Closes dimensions until both sides have passed as many elements.
  bool leaveOut() {
    SymbolicShape passedIn, passedOut;
    passedIn.push_back(take(0, in));
    passedOut.push_back(take(1, out));
    while (true) {
      auto a = product(passedIn), b = product(passedOut);
      if (!a || !b)
        return false;
      if (*a == *b)
        return true;
      const bool inIsBehind = a->evaluate(1, 1) < b->evaluate(1, 1);
      Side &side = inIsBehind ? in : out;
      load(inIsBehind ? f.operand(0) : f.result(), side);
      if (!side.left)
        return false;
      (inIsBehind ? passedIn : passedOut).push_back(take(inIsBehind ? 0 : 1, side));
    }
  }
  SymbolicDim take(int where, Side &side) {
    const SymbolicDim size = *side.left;
    auto closed = f.letter(size, LetterKind::Closed);
    if (where == 0)
      f.onOperand(0, side.dim, closed);
    else
      f.onResult(0, side.dim, closed);
    side.left.reset();
    return size;
  }

  FactorBuilder &f;
  Side in, out;
};
} // namespace

OMNIBAL_FACTOR_RULE(ReshapeOp) {
  if (op.getShape())
    return false;
  ReshapeLetters(f).run();
  f.linearIn({0});
  return true;
}

OMNIBAL_FACTOR_RULE(ExpandOp) {
  if (op.getShape())
    return false;
  for (auto [dim, size] : llvm::enumerate(f.result()))
    f.onResult(0, static_cast<int64_t>(dim), f.letter(size));
  f.broadcast(0);
  f.linearIn({0});
  return true;
}

namespace {
/// A dimension of which a run of `size` elements from `begin` stands in a whole of that size: both
/// are rows of units, which stay together.
void letterOfUnits(FactorBuilder &f, int64_t dim, int64_t begin, const SymbolicDim &in,
                   const SymbolicDim &out, int64_t step) {
  if (in == out && begin == 0 && step == 1)
    return f.carry(dim, dim);
  if (step != 1 || !in.isStatic() || !out.isStatic())
    return;
  const int64_t unit = std::gcd(std::gcd(begin, in.constant), out.constant);
  if (unit <= 1)
    return;
  f.onOperand(0, dim, f.letter(in.constant / unit, LetterKind::Closed));
  f.onResult(0, dim, f.letter(out.constant / unit, LetterKind::Closed));
  f.carry(dim, dim, LetterKind::Free, unit);
}

/// Begins count what a part holds.
DenseI64ArrayAttr ownBegins(OpBuilder &builder, ArrayRef<int64_t> begins, const PartOf &part) {
  SmallVector<int64_t> own(begins);
  LayoutAttr layout = part.reads[0];
  if (layout.isSplit() && layout.getUnitsOf() == UnitsOf::Number) // others begin at 0
    own[layout.getDim()] = begins[layout.getDim()] / layout.getUnits() *
                           rt::shareOf(layout.getUnits(), part.part, part.parts).size();
  return builder.getDenseI64ArrayAttr(own);
}
} // namespace

OMNIBAL_FACTOR_RULE_AND_PART(SliceOp) {
  if (!op.getBegin())
    return false;
  for (int64_t dim = 0; dim < static_cast<int64_t>(f.result().size()); ++dim)
    letterOfUnits(f, dim, (*op.getBegin())[dim], f.operand(0)[dim], f.result()[dim],
                  op.getStep() ? (*op.getStep())[dim] : 1);
  f.linearIn({0});
  return true;
}
static LogicalResult buildPartOfSliceOp(OpBuilder &builder, SliceOp op, const PartOf &part,
                                        ValueRange operands, SmallVectorImpl<Value> &results) {
  if (failed(buildSameOp(builder, op, part, operands, results)))
    return failure();
  results.back().getDefiningOp<SliceOp>().setBeginAttr(ownBegins(builder, *op.getBegin(), part));
  return success();
}

OMNIBAL_FACTOR_RULE_AND_PART(PadOp) {
  for (int64_t dim = 0; dim < static_cast<int64_t>(f.result().size()); ++dim)
    letterOfUnits(f, dim, op.getLow()[dim], f.operand(0)[dim], f.result()[dim],
                  op.getStep() ? (*op.getStep())[dim] : 1);
  f.linearIn({0});
  return true;
}
static LogicalResult buildPartOfPadOp(OpBuilder &builder, PadOp op, const PartOf &part,
                                      ValueRange operands, SmallVectorImpl<Value> &results) {
  if (failed(buildSameOp(builder, op, part, operands, results)))
    return failure();
  results.back().getDefiningOp<PadOp>().setLowAttr(ownBegins(builder, op.getLow(), part));
  return success();
}

namespace {
int64_t fromFront(int64_t axis, size_t rank) {
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}
} // namespace

OMNIBAL_FACTOR_RULE(ConcatOp) {
  const int64_t axis = fromFront(static_cast<int64_t>(op.getAxis()), f.result().size());
  SmallVector<unsigned> all;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    all.push_back(i);
  for (auto [dim, size] : llvm::enumerate(f.result())) {
    if (static_cast<int64_t>(dim) == axis)
      continue;
    auto shared = f.letter(size);
    f.onResult(0, static_cast<int64_t>(dim), shared);
    for (unsigned i : all)
      f.onOperand(i, static_cast<int64_t>(dim), shared);
  }
  f.linearIn(all);
  return true;
}

/// The dimension that is addressed is closed.
OMNIBAL_FACTOR_RULE(GatherOp) {
  const int64_t rank = static_cast<int64_t>(f.operand(0).size());
  const int64_t axis = fromFront(static_cast<int64_t>(op.getAxis()), rank);
  const int64_t indexed = static_cast<int64_t>(f.operand(1).size());
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != axis)
      f.carry(dim, dim < axis ? dim : dim - 1 + indexed);
  for (int64_t dim = 0; dim < indexed; ++dim) {
    auto shared = f.letter(f.operand(1)[dim]);
    f.onOperand(1, dim, shared);
    f.onResult(0, axis + dim, shared);
  }
  f.linearIn({0});
  return true;
}

OMNIBAL_FACTOR_RULE(GatherElementsOp) {
  const int64_t axis = fromFront(static_cast<int64_t>(op.getAxis()), f.result().size());
  for (int64_t dim = 0; dim < static_cast<int64_t>(f.result().size()); ++dim) {
    if (dim == axis || f.operand(0)[dim] != f.result()[dim])
      continue;
    auto shared = f.letter(f.result()[dim]);
    f.onOperand(0, dim, shared);
    f.onOperand(1, dim, shared);
    f.onResult(0, dim, shared);
  }
  f.linearIn({0});
  return true;
}

OMNIBAL_FACTOR_RULE(TriluOp) {
  for (int64_t dim = 0; dim + 2 < static_cast<int64_t>(f.result().size()); ++dim)
    f.carry(dim, dim);
  f.linearIn({0});
  return true;
}

void omnibal::attachLayoutFactors(MLIRContext &context) {
  TransposeOp::attachInterface<TransposeOpFactors>(context);
  ReshapeOp::attachInterface<ReshapeOpFactors>(context);
  ExpandOp::attachInterface<ExpandOpFactors>(context);
  SliceOp::attachInterface<SliceOpFactors>(context);
  PadOp::attachInterface<PadOpFactors>(context);
  ConcatOp::attachInterface<ConcatOpFactors>(context);
  GatherOp::attachInterface<GatherOpFactors>(context);
  GatherElementsOp::attachInterface<GatherElementsOpFactors>(context);
  TriluOp::attachInterface<TriluOpFactors>(context);
}
