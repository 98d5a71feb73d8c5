#include "passes/layers/RandomValues.h"
#include "dialects/omnibal/ir/BatchValues.h"
#include "dialects/omnibal/ir/Builders.h"

using namespace mlir;

namespace omnibal::layers {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A number like `like`'s elements, of no dimensions.
Value scalar(OpBuilder &builder, Location loc, Type element, double value) {
  auto type = RankedTensorType::get({}, element);
  Attribute attribute =
      isa<FloatType>(element)
          ? Attribute(builder.getFloatAttr(element, value))
          : Attribute(builder.getIntegerAttr(element, static_cast<int64_t>(value)));
  return ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, attribute));
}

/// i32 numbers of rows, as [.., 1] for values [.., C].
Value numbersOfRows(OpBuilder &builder, Location loc, StringRef name, const SymbolicDim &rows,
                    SymbolicShape shape) {
  MLIRContext *context = builder.getContext();
  Type integer = builder.getI32Type();
  Value numbers = BatchValueOp::create(builder, loc, makeTensorType(context, {rows}, integer),
                                       builder.getStringAttr(name));
  shape.back() = SymbolicDim(1);
  return ReshapeOp::create(builder, loc, makeTensorType(context, shape, integer), numbers, Value(),
                           /*allow_zero=*/false);
}

/// The rows of a value of columns, if they are the tokens or belong to tiles.
std::optional<SymbolicDim> rowsOf(Value x) {
  auto shape = getSymbolicShape(typeOf(x));
  if (!shape || shape->size() < 2 || !shape->back().isStatic())
    return std::nullopt;
  std::optional<SymbolicDim> rows = SymbolicDim(1);
  for (const SymbolicDim &dim : ArrayRef(*shape).drop_back())
    rows = rows ? multiply(*rows, dim) : std::nullopt;
  const bool isOfTiles = rows && rows->perTile > 0 && *rows == SymbolicDim(0, rows->perTile);
  return rows && (isOfTiles || *rows == SymbolicDim::tokens()) ? rows : std::nullopt;
}

} // namespace

RandomDraws::RandomDraws(LayerOp layer) {
  for ([[maybe_unused]] auto op : layer.getBody().front().getOps<RandomUniformOp>())
    ++stream;
}

LogicalResult RandomDraws::check(Value x) {
  if (rowsOf(x))
    return success();
  return emitError(x.getLoc()) << "nothing random can be drawn for a value of type " << x.getType()
                               << ": its rows are neither the tokens nor those of the tiles";
}

RandomDraws::Draw RandomDraws::draw(OpBuilder &builder, Value x) {
  Location loc = x.getLoc();
  const SymbolicDim rows = *rowsOf(x);
  auto shape = getSymbolicShape(typeOf(x));
  const bool isOfTokens = rows == SymbolicDim::tokens();
  const std::string name = isOfTokens ? randomKeys.str() : imageRandomKeys(rows.perTile);
  Value keys = numbersOfRows(builder, loc, name, rows, *shape);
  auto numbers = RankedTensorType::get({shape->back().constant}, builder.getI32Type());
  SmallVector<int32_t> columns(shape->back().constant);
  std::iota(columns.begin(), columns.end(), 0);
  Value column =
      ConstantOp::create(builder, loc, numbers, DenseElementsAttr::get(numbers, ArrayRef(columns)));
  Value layer = BatchValueOp::create(builder, loc, RankedTensorType::get({}, builder.getI32Type()),
                                     builder.getStringAttr(layerNumber));
  Draw made;
  made.uniform = RandomUniformOp::create(builder, loc, x.getType(), keys, column, layer, stream++);
  made.isOff = createOp<CompareOp>(
      builder, loc, keys, scalar(builder, loc, builder.getI32Type(), 0), ComparePredicate::EQ);
  return made;
}

Value RandomDraws::dropout(OpBuilder &builder, Value x, double rate) {
  const Draw made = draw(builder, x);
  Location loc = x.getLoc();
  auto number = [&](double value) {
    return scalar(builder, loc, typeOf(x).getElementType(), value);
  };
  // Where nothing is random every number is above the limit, and is kept as it is.
  Value limit = createOp<SelectOp>(builder, loc, made.isOff, number(-1), number(rate));
  Value factor = createOp<SelectOp>(builder, loc, made.isOff, number(1), number(1 / (1 - rate)));
  Value kept = createOp<CompareOp>(builder, loc, made.uniform, limit, ComparePredicate::GE);
  Value mask = createOp<SelectOp>(builder, loc, kept, factor, number(0));
  return createOp<MulOp>(builder, loc, x, mask).getResult();
}

Value RandomDraws::addNoise(OpBuilder &builder, Value x, double alpha) {
  const Draw made = draw(builder, x);
  Location loc = x.getLoc();
  Type element = typeOf(x).getElementType();
  auto number = [&](double value) { return scalar(builder, loc, element, value); };
  SymbolicShape shape = *getSymbolicShape(typeOf(x));
  const auto columns = static_cast<double>(shape.back().constant);
  Value tokens = numbersOfRows(builder, loc, sampleTokens, SymbolicDim::tokens(), shape);
  shape.back() = SymbolicDim(1);
  Value length =
      CastOp::create(builder, loc, makeTensorType(builder.getContext(), shape, element), tokens);
  // Rows that belong to no sample have no tokens, and no noise either.
  Value bound = createOp<MulOp>(builder, loc, createOp<RsqrtOp>(builder, loc, length),
                                number(alpha / std::sqrt(columns)));
  bound = createOp<SelectOp>(builder, loc, made.isOff, number(0), bound);
  Value sign = createOp<SubOp>(builder, loc, createOp<MulOp>(builder, loc, made.uniform, number(2)),
                               number(1));
  Value noise = createOp<MulOp>(builder, loc, sign, bound);
  return createOp<AddOp>(builder, loc, x, noise).getResult();
}

} // namespace omnibal::layers
