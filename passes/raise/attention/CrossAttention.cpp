//===- CrossAttention.cpp ------------------------------------------------------------------===//
#include "passes/raise/attention/CrossAttention.h"
#include "dialects/omnibal/ir/BatchValues.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"

using namespace mlir;

namespace omnibal::raise {
namespace {

/// Scores that are lower are hidden.
constexpr double hiddenScore = -1e3;

/// The pictures that tokens see while a mask is looked at: none, one, several, in every place.
struct Arrangement {
  int64_t pictures;
  SmallVector<std::pair<int64_t, int64_t>> ranges; ///< of each token: first, one past the last

  ProbeInputs inputs(unsigned seen) const {
    ProbeInputs result;
    result.tokens = ranges.size();
    result.tiles = pictures;
    SmallVector<int64_t> &values = result.visibility[seen];
    for (auto [begin, end] : ranges)
      for (int64_t p = 0; p < pictures; ++p)
        values.push_back(begin <= p && p < end);
    return result;
  }
};

/// Every range of up to three pictures, among them the empty one, twice.
SmallVector<Arrangement> arrangements() {
  SmallVector<Arrangement> all;
  for (int64_t pictures : {1, 2, 3}) {
    Arrangement next{pictures, {{0, 0}}};
    for (int64_t begin = 0; begin < pictures; ++begin)
      for (int64_t end = begin + 1; end <= pictures; ++end)
        next.ranges.push_back({begin, end});
    next.ranges.push_back({pictures, pictures});
    all.push_back(next);
  }
  return all;
}

} // namespace

bool CrossAttention::isOf(Value query, Value key) {
  if (rankOf(query) < 2 || rankOf(key) < 2)
    return false;
  SymbolicDim queries = shapeOf(query)[rankOf(query) - 2], keys = shapeOf(key)[rankOf(key) - 2];
  return queries == SymbolicDim::tokens() && keys.perTile > 0 && keys.perToken == 0 &&
         keys.constant == 0;
}

std::optional<unsigned> CrossAttention::seenArgument(Value value, Dependence &dependence) {
  Dependence::Set set = dependence.of(value) & ~Dependence::sizes;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (roleOf(function, i) == Role::Seen && set == Dependence::argument(i))
      return i;
  return std::nullopt;
}

LogicalResult CrossAttention::checkMask(Operation *user, Value mask, unsigned seen, int64_t rows) {
  auto error = [&]() {
    return user->emitError() << describe(user) << ": the mask of attention to pictures, by graph "
                             << "input '" << inputName(function, seen) << "', ";
  };
  for (const Arrangement &given : arrangements()) {
    auto values = probe(function, mask, given.inputs(seen));
    if (failed(values))
      return failure();
    const int64_t tokens = given.ranges.size(), keys = rows * given.pictures;
    if (values->size() != tokens * keys)
      return error() << "is not one for all heads";
    for (int64_t i = 0; i < values->size(); ++i) {
      auto [begin, end] = given.ranges[i / keys];
      const double value = values->at(i);
      const int64_t picture = i % keys / rows;
      // A row without any picture sees all: hiding everything alike hides nothing.
      const bool expected = begin == end || (begin <= picture && picture < end);
      const bool sees = values->isFloat() ? value > hiddenScore : value != 0;
      if (begin == end && !sees)
        return error() << "hides all pictures from tokens that see none; such tokens must see all "
                       << "of their sample's pictures, as where their scores are not masked";
      if (sees != expected)
        return error() << "does not show the pictures that the input says, all rows of them";
      if (values->isFloat() && sees && value != 0)
        return error() << "adds " << value << " to scores, which is not supported";
    }
  }
  return success();
}

Value CrossAttention::perToken(Location loc, StringRef name) {
  return BatchValueOp::create(
      builder, loc,
      makeTensorType(builder.getContext(), {SymbolicDim::tokens()}, builder.getI32Type()),
      builder.getStringAttr(name));
}

LogicalResult CrossAttention::raise(Operation *user, Value query, Value key, Value value,
                                    Value mask, double scale, Value result,
                                    Dependence &dependence) {
  auto error = [&]() {
    return user->emitError() << describe(user) << ": attention of tokens to pictures ";
  };
  SymbolicShape from = shapeOf(query), to = shapeOf(key);
  if (!from[0].isOne() || !to[0].isOne())
    return error() << "with a batch of " << toString(from[0]) << "; the batch must be 1";
  Dependence::Set pictures = dependence.of(key) | dependence.of(value);
  if (pictures & dependence.arguments(Role::Ids))
    return error() << "whose keys depend on token ids, which is not supported";
  auto seen = mask ? seenArgument(mask, dependence) : std::nullopt;
  if (!seen)
    return error() << "whose mask does not depend on graph input '" << seenPicturesInput
                   << "' alone: which pictures a token sees cannot be told";
  const int64_t rows = to[2].perTile;
  if (failed(checkMask(user, mask, *seen, rows)))
    return failure();
  builder.setInsertionPoint(result.getDefiningOp());
  Location loc = user->getLoc();
  SymbolicShape shape = from;
  shape[3] = shapeOf(value)[3];
  Type element = typeOf(query).getElementType();
  MLIRContext *context = function.getContext();
  auto attention = CrossAttentionOp::create(
      builder, loc, makeTensorType(context, shape, element),
      makeTensorType(context, ArrayRef<SymbolicDim>(shape).drop_back(), element), query, key, value,
      perToken(loc, "image_begins"), perToken(loc, "image_ends"), llvm::APFloat(scale), rows);
  Value output = reshapeTo(builder, loc, attention.getResult(), shapeOf(result));
  result.replaceAllUsesWith(castTo(builder, loc, output, typeOf(result).getElementType()));
  return success();
}

bool CrossAttention::marksSeeing(Value value, unsigned seen) {
  for (const Arrangement &given : arrangements()) {
    auto values = probe(function, value, given.inputs(seen));
    if (failed(values) || values->size() != static_cast<int64_t>(given.ranges.size()))
      return false;
    for (auto [i, range] : llvm::enumerate(given.ranges))
      if (values->at(i) != (range.first < range.second ? 1 : 0))
        return false;
  }
  return true;
}

LogicalResult CrossAttention::raiseFactors() {
  Dependence dependence(function);
  if (dependence.arguments(Role::Seen) == 0)
    return success();
  for (Operation &op : function.getBody().front())
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      auto seen = seenArgument(value, dependence);
      bool content = llvm::any_of(op.getResults(),
                                  [&](Value result) { return !dependence.isAuxiliary(result); });
      if (!seen || !content)
        continue;
      if (product(shapeOf(value)) != SymbolicDim::tokens() || !marksSeeing(value, *seen))
        return op.emitError() << describe(&op) << " reads what follows from graph input '"
                              << inputName(function, *seen) << "', but it is neither a mask of "
                              << "attention to pictures nor a factor of 1 for tokens that see a "
                              << "picture and 0 for others";
      builder.setInsertionPoint(&op);
      Value factor = perToken(op.getLoc(), "image_seen");
      factor = castTo(builder, op.getLoc(), factor, typeOf(value).getElementType());
      operand.set(reshapeTo(builder, op.getLoc(), factor, shapeOf(value)));
    }
  return success();
}

} // namespace omnibal::raise
