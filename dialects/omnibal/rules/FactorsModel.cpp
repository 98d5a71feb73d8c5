//===- FactorsModel.cpp - Letters of embeddings, merges and losses ---------------------------===//
#include "dialects/omnibal/ir/GradientBuilder.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/rules/Factors.h"
#include "runtime/support/Shares.h"

using namespace mlir;
using namespace omnibal;

OMNIBAL_FACTOR_RULE(ShiftTokensOp) {
  f.carry(2, 2);
  f.linearIn({0});
  return true;
}

namespace {
/// A tensor of one integer of the type of `like`.
Value integer(GradientBuilder &b, Value like, int64_t value) {
  auto type = RankedTensorType::get({}, tensorType(like).getElementType());
  auto element = b.builder.getIntegerAttr(type.getElementType(), value);
  return ConstantOp::create(b.builder, b.loc, type,
                            cast<ElementsAttr>(DenseElementsAttr::get(type, Attribute(element))));
}

/// Rows [begin, end) of a table, of which a part holds these.
struct OwnRows {
  Value rows;  ///< numbers among the part's own; of others' rows something else
  Value isOwn; ///< which ones are the part's
};
OwnRows ownRows(GradientBuilder &b, Value numbers, const rt::UnitRange &own) {
  Value rows = b.sub(numbers, integer(b, numbers, own.begin));
  Value isOwn =
      b.create<AndOp>(b.compare(ComparePredicate::GE, rows, integer(b, rows, 0)),
                      b.compare(ComparePredicate::LT, rows, integer(b, rows, own.size())));
  return {rows, isOwn};
}

/// 1 for each true row and 0 for others, as wide as to multiply rows of `like`.
Value rowMask(GradientBuilder &b, Value isTrue, Value like) {
  SymbolicShape shape = shapeOf(isTrue);
  shape.push_back(SymbolicDim(1));
  Type element = tensorType(like).getElementType();
  Value column = b.reshape(
      isTrue, makeTensorType(like.getContext(), shape, tensorType(isTrue).getElementType()));
  return CastOp::create(b.builder, b.loc, makeTensorType(like.getContext(), shape, element),
                        column);
}

/// No symbol tells the first row of a part's share of tiles or tokens.
LogicalResult requireKnownRows(Operation *op, const PartOf &part, unsigned table) {
  if (part.reads[table].getUnitsOf() == UnitsOf::Number)
    return success();
  return op->emitOpError() << "addresses rows that are split as " << part.reads[table]
                           << ", of which the first one of a part depends on the micro-batch";
}

/// The rows that a part holds where the outermost dimension of a table is split, if it is.
std::optional<rt::UnitRange> heldRows(const PartOf &part, unsigned table) {
  LayoutAttr read = part.reads[table];
  RankedTensorType whole = part.wholeOperands[table];
  if (!read.isSplit() || read.getDim() == whole.getRank() - 1)
    return std::nullopt;
  int64_t each = read.getInner();
  for (int64_t dim = read.getDim() + 1; dim + 1 < whole.getRank(); ++dim)
    each *= whole.getDimSize(dim);
  const rt::UnitRange units = rt::shareOf(read.getUnits(), part.part, part.parts);
  return rt::UnitRange{units.begin * each, units.end * each};
}
} // namespace

OMNIBAL_FACTOR_RULE_AND_PART(EmbeddingOp) {
  const auto last = static_cast<int64_t>(f.result().size()) - 1;
  for (int64_t dim = 0; dim < last; ++dim) {
    auto token = f.letter(f.result()[dim]);
    f.onOperand(1, dim, token);
    f.onResult(0, dim, token);
  }
  auto column = f.letter(f.result()[last]);
  f.onOperand(0, 0, f.letter(f.operand(0)[0], LetterKind::Index));
  f.onOperand(0, 1, column);
  f.onResult(0, last, column);
  f.linearIn({0});
  return true;
}
/// With rows of the table split, what others hold is zero.
static LogicalResult buildPartOfEmbeddingOp(OpBuilder &builder, EmbeddingOp op, const PartOf &part,
                                            ValueRange operands, SmallVectorImpl<Value> &results) {
  std::optional<rt::UnitRange> own = heldRows(part, 0);
  if (!own) {
    return buildSameOp(builder, op, part, operands, results);
  }
  if (failed(requireKnownRows(op, part, 0)))
    return failure();
  GradientBuilder b(builder, op.getLoc());
  Value table = operands[0];
  if (own->size() == 0) { // a row of zeros to look up
    SymbolicShape shape = shapeOf(table);
    shape[0] = 1;
    auto type = makeTensorType(op.getContext(), shape, tensorType(table).getElementType());
    table = PadOp::create(builder, op.getLoc(), type, table, builder.getDenseI64ArrayAttr({0, 0}),
                          DenseI64ArrayAttr());
  }
  OwnRows rows = ownRows(b, operands[1], *own);
  Value ids = b.select(rows.isOwn, rows.rows, integer(b, rows.rows, 0));
  IntegerAttr padding = op.getPaddingAttr();
  if (padding)
    padding = padding.getInt() >= own->begin && padding.getInt() < own->end
                  ? builder.getI64IntegerAttr(padding.getInt() - own->begin)
                  : IntegerAttr();
  Value found = EmbeddingOp::create(builder, op.getLoc(), part.results[0], table, ids, padding);
  results.push_back(b.mul(found, rowMask(b, rows.isOwn, found)));
  return success();
}

OMNIBAL_FACTOR_RULE_AND_PART(ImageMergeOp) {
  auto token = f.letter(f.result()[1]);
  f.onOperand(0, 1, token);
  f.onResult(0, 1, token);
  f.onRows(2, token, f.result()[1]);
  auto column = f.letter(f.result()[2]);
  f.onOperand(0, 2, column);
  f.onOperand(1, static_cast<int64_t>(f.operand(1).size()) - 1, column);
  f.onResult(0, 2, column);
  // Rows of features: the outermost of their dimensions.
  for (int64_t dim = 0; dim + 1 < static_cast<int64_t>(f.operand(1).size()); ++dim)
    if (auto row = f.letter(f.operand(1)[dim], LetterKind::Index)) {
      f.onOperand(1, dim, row);
      break;
    }
  f.added(0);
  f.linearIn({0, 1});
  return true;
}
/// With rows of features split, a part's result has its summand of the text, and its own pictures.
static LogicalResult buildPartOfImageMergeOp(OpBuilder &builder, ImageMergeOp op,
                                             const PartOf &part, ValueRange operands,
                                             SmallVectorImpl<Value> &results) {
  std::optional<rt::UnitRange> own = heldRows(part, 1);
  if (!own) {
    return buildSameOp(builder, op, part, operands, results);
  }
  if (failed(requireKnownRows(op, part, 1)))
    return failure();
  GradientBuilder b(builder, op.getLoc());
  Value numbers = operands[2], text = operands[0];
  Value isText = b.compare(ComparePredicate::LT, numbers, integer(b, numbers, 0));
  OwnRows rows = ownRows(b, numbers, *own);
  Value mine = b.select(rows.isOwn, rows.rows, integer(b, rows.rows, -1));
  text = b.mul(text, rowMask(b, isText, text));
  results.push_back(
      ImageMergeOp::create(builder, op.getLoc(), part.results[0], text, operands[1], mine));
  return success();
}

namespace {
/// Rows pass.
void addLossRows(FactorBuilder &f, Operation *op, unsigned targets) {
  for (int64_t dim = 0; dim < static_cast<int64_t>(f.result().size()); ++dim) {
    auto row = f.letter(f.result()[dim]);
    f.onOperand(0, dim, row);
    f.onOperand(targets, dim, row);
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      f.onResult(i, dim, row);
  }
}
} // namespace

OMNIBAL_FACTOR_RULE(CrossEntropyOp) {
  if (f.operand(1).size() != f.result().size())
    return false;
  addLossRows(f, op, 1);
  return true;
}
OMNIBAL_FACTOR_RULE_AND_PART(LinearCrossEntropyOp) {
  const unsigned targets = op.getBias() ? 3 : 2;
  if (f.operand(targets).size() != f.result().size())
    return false;
  addLossRows(f, op, targets);
  auto word = f.letter(f.operand(1)[0], LetterKind::Joined);
  f.onOperand(1, 0, word);
  if (op.getBias())
    f.onOperand(2, 0, word);
  return true;
}

namespace {
/// What each part states of its own, for all parts to have: [1, ..] becomes [parts, ..].
Value ofAllParts(OpBuilder &builder, Value own, int64_t parts) {
  SymbolicShape shape = shapeOf(own);
  shape[0] = parts;
  MLIRContext *context = own.getContext();
  RankedTensorType all = makeTensorType(context, shape, tensorType(own).getElementType());
  return ReshardOp::create(builder, own.getLoc(), all, own, LayoutAttr::split(context, 0, parts, 1),
                           LayoutAttr::whole(context), parts, all);
}
} // namespace

/// With words split, parts tell each other the statistics of their own logits, once for all rows.
/// The loss follows from these on every part; gradients compute the part's logits again, so that no
/// more than a block of rows of them is ever in memory.
static LogicalResult buildPartOfLinearCrossEntropyOp(OpBuilder &builder, LinearCrossEntropyOp op,
                                                     const PartOf &part, ValueRange operands,
                                                     SmallVectorImpl<Value> &results) {
  std::optional<rt::UnitRange> own = heldRows(part, 1);
  if (!own) {
    return buildSameOp(builder, op, part, operands, results);
  }
  Value hidden = operands[0], weight = operands[1], targets = operands.back(),
        bias = op.getBias() ? operands[2] : Value();
  IntegerAttr first = builder.getI64IntegerAttr(own->begin),
              words = builder.getI64IntegerAttr(part.wholeOperands[1].getDimSize(0));
  const bool totals = !op.getSmoothing().isZero();
  SymbolicShape row{SymbolicDim(1)};
  llvm::append_range(row, shapeOf(targets));
  SymbolicShape numbers(row);
  numbers.push_back(totals ? 4 : 3);
  MLIRContext *context = op.getContext();
  auto stated = WordStatisticsOp::create(
      builder, op.getLoc(), makeTensorType(context, numbers, tensorType(hidden).getElementType()),
      makeTensorType(context, row, builder.getI32Type()), hidden, weight, bias, targets,
      op.getScaleAttr(), first, words, totals ? builder.getUnitAttr() : UnitAttr());
  Value statistics = ofAllParts(builder, stated.getStatistics(), part.parts);
  results.push_back(JoinedCrossEntropyOp::create(
      builder, op.getLoc(), part.results[0], hidden, weight, bias, targets, statistics,
      op.getScaleAttr(), op.getSmoothingAttr(), op.getZAttr(), first, words));
  if (op.getPrediction())
    results.push_back(JoinedPredictionOp::create(
        builder, op.getLoc(), part.results[1], statistics,
        ofAllParts(builder, stated.getPrediction(), part.parts), targets));
  return success();
}

void omnibal::attachModelFactors(MLIRContext &context) {
  ShiftTokensOp::attachInterface<ShiftTokensOpFactors>(context);
  EmbeddingOp::attachInterface<EmbeddingOpFactors>(context);
  ImageMergeOp::attachInterface<ImageMergeOpFactors>(context);
  CrossEntropyOp::attachInterface<CrossEntropyOpFactors>(context);
  LinearCrossEntropyOp::attachInterface<LinearCrossEntropyOpFactors>(context);
}
