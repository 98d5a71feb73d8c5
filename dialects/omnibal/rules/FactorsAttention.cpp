//===- FactorsAttention.cpp - Letters of attention -------------------------------------------===//
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "dialects/omnibal/rules/Factors.h"
#include "runtime/support/Shares.h"

using namespace mlir;
using namespace omnibal;

namespace {
/// Batch and heads: query heads are key heads times a group, which keys and values lack. Tokens and
/// features are closed. Where query heads are split one by one, each part takes the key heads that
/// its queries read of copied keys and values.
bool addHeads(FactorBuilder &f, std::optional<unsigned> sinks = std::nullopt) {
  auto batch = f.letter(f.operand(0)[0]);
  const SymbolicDim &keyHeads = f.operand(1)[1];
  std::optional<SymbolicDim> groupSize = divideExactly(f.operand(0)[1], keyHeads);
  if (!groupSize)
    return false;
  auto heads = f.letter(keyHeads), group = f.letter(*groupSize);
  for (unsigned i : {0, 1, 2}) {
    f.onOperand(i, 0, batch);
    f.onOperand(i, 1, heads);
  }
  f.onOperand(0, 1, group);
  for (unsigned i : {0, 1}) { // result and log-sum-exp
    f.onResult(i, 0, batch);
    f.onResult(i, 1, heads);
    f.onResult(i, 1, group);
  }
  if (sinks) {
    f.onOperand(*sinks, 0, heads);
    f.onOperand(*sinks, 0, group);
  }
  f.picked(1);
  f.picked(2);
  return true;
}

/// Query heads [begin, end) of all.
using Heads = rt::UnitRange;

/// Heads of a value along dimension `dim`.
Value headsOf(GradientBuilder &b, Value value, int64_t dim, const Heads &heads) {
  SymbolicShape shape = shapeOf(value);
  if (heads == Heads{0, shape[dim].constant})
    return value;
  shape[dim] = heads.size();
  SmallVector<int64_t> begin(shape.size(), 0);
  begin[dim] = heads.begin;
  auto type = makeTensorType(value.getContext(), shape, tensorType(value).getElementType());
  return SliceOp::create(b.builder, b.loc, type, value, Value(), Value(), Value(), Value(),
                         b.builder.getDenseI64ArrayAttr(begin), DenseI64ArrayAttr());
}

/// Cuts a range of query heads where a key head ends, into runs of one group size.
SmallVector<Heads> runsOf(const Heads &own, int64_t group) {
  const int64_t firstWhole = (own.begin + group - 1) / group * group;
  const int64_t lastWhole = own.end / group * group;
  if (firstWhole > lastWhole) // within one key head
    return {own};
  SmallVector<Heads> runs;
  for (const Heads &run :
       {Heads{own.begin, firstWhole}, Heads{firstWhole, lastWhole}, Heads{lastWhole, own.end}})
    if (run.size() > 0)
      runs.push_back(run);
  if (runs.empty())
    runs.push_back(own);
  return runs;
}

/// An op of attention whose query heads are split one by one; others are built as they are.
LogicalResult buildHeads(Operation *op, std::optional<unsigned> sinks, OpBuilder &builder,
                         const PartOf &part, ValueRange operands, SmallVectorImpl<Value> &results) {
  const int64_t all = part.wholeOperands[0].getDimSize(1);
  const int64_t keys = part.wholeOperands[1].getDimSize(1);
  LayoutAttr read = part.reads[0];
  const bool isPicked = read.isSplit() && read.getDim() == 1 && !part.reads[1].isSplit() &&
                        keys > 1 && read.getUnits() * read.getInner() == all;
  if (!isPicked) {
    return buildSameOp(builder, op, part, operands, results);
  }
  GradientBuilder b(builder, op->getLoc());
  const int64_t group = all / keys;
  const rt::UnitRange units = rt::shareOf(read.getUnits(), part.part, part.parts);
  const Heads own{units.begin * read.getInner(), units.end * read.getInner()};
  SmallVector<Value> values, logSums;
  for (const Heads &run : runsOf(own, group)) {
    const Heads ofOwn{run.begin - own.begin, run.end - own.begin};
    const Heads ofKeys{run.begin / group, (run.end + group - 1) / group};
    SmallVector<Value> taken(operands);
    taken[0] = headsOf(b, operands[0], 1, ofOwn);
    for (unsigned i : {1, 2})
      taken[i] = headsOf(b, operands[i], 1, run.size() ? ofKeys : Heads());
    if (sinks)
      taken[*sinks] = headsOf(b, operands[*sinks], 0, ofOwn);
    Operation *piece = builder.clone(*op);
    piece->setOperands(taken);
    if (failed(inferResultTypes(piece)))
      return failure();
    values.push_back(piece->getResult(0));
    logSums.push_back(piece->getResult(1));
  }
  for (ArrayRef<Value> pieces : {ArrayRef(values), ArrayRef(logSums)})
    results.push_back(pieces.size() == 1 ? pieces[0]
                                         : b.create<ConcatOp>(ValueRange(pieces), int64_t(1)));
  return success();
}

std::optional<unsigned> sinksOf(AttentionOp op) {
  if (!op.getSinks())
    return std::nullopt;
  return op.getSinksMutable().begin()->getOperandNumber();
}
} // namespace

OMNIBAL_FACTOR_RULE_AND_PART(AttentionOp) { return !op.getMask() && addHeads(f, sinksOf(op)); }
static LogicalResult buildPartOfAttentionOp(OpBuilder &builder, AttentionOp op, const PartOf &part,
                                            ValueRange operands, SmallVectorImpl<Value> &results) {
  return buildHeads(op, sinksOf(op), builder, part, operands, results);
}

OMNIBAL_FACTOR_RULE_AND_PART(CrossAttentionOp) { return addHeads(f); }
static LogicalResult buildPartOfCrossAttentionOp(OpBuilder &builder, CrossAttentionOp op,
                                                 const PartOf &part, ValueRange operands,
                                                 SmallVectorImpl<Value> &results) {
  return buildHeads(op, std::nullopt, builder, part, operands, results);
}

OMNIBAL_FACTOR_RULE(GatedDeltaOp) {
  for (int64_t dim : {0, 1}) {
    auto shared = f.letter(f.result()[dim]);
    for (unsigned i : {0, 1, 2, 3, 4})
      f.onOperand(i, dim, shared);
    f.onResult(0, dim, shared);
  }
  return true;
}

OMNIBAL_FACTOR_RULE(RopeOp) {
  f.carry(0, 0);
  f.carry(1, 1);
  const SymbolicDim &length = f.result()[2];
  auto token = f.letter(length);
  f.onOperand(0, 2, token);
  f.onResult(0, 2, token);
  f.onRows(1, token, length);
  f.linearIn({0});
  return true;
}

void omnibal::attachAttentionFactors(MLIRContext &context) {
  AttentionOp::attachInterface<AttentionOpFactors>(context);
  CrossAttentionOp::attachInterface<CrossAttentionOpFactors>(context);
  GatedDeltaOp::attachInterface<GatedDeltaOpFactors>(context);
  RopeOp::attachInterface<RopeOpFactors>(context);
}
