//===- RaiseRope.cpp - omnibal-raise-rope ------------------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/LayoutChain.h"
#include "passes/raise/match/Probe.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEROPEPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// A slice of the last dimension: its input, first element and step.
struct LastSlice {
  Value input;
  int64_t begin, step, size;
};
std::optional<LastSlice> matchLastSlice(Value value) {
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice || !slice.getBegin() || !slice.getStep())
    return std::nullopt;
  SymbolicShape from = shapeOf(slice.getInput()), to = shapeOf(value);
  size_t last = from.size() - 1;
  for (size_t i = 0; i < last; ++i)
    if (from[i] != to[i])
      return std::nullopt;
  return LastSlice{slice.getInput(), (*slice.getBegin())[last], (*slice.getStep())[last],
                   to[last].constant};
}

/// rotate(x): [-x2, x1] of the halves, or of neighbors.
struct Rotation {
  Value input;
  bool interleaved;
};
std::optional<Rotation> matchRotation(Value value) {
  // Neighbors: reshape(concat([.., n, 1], [.., n, 1])).
  Value inner = value;
  bool stacked = false;
  if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    inner = reshape.getInput();
    stacked = true;
  }
  auto concat = inner.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2)
    return std::nullopt;
  int64_t axis = concat.getAxis(), rank = rankOf(inner);
  if (axis != rank - 1 && axis != -1)
    return std::nullopt;
  auto unstack = [&](Value part) {
    auto reshape = part.getDefiningOp<ReshapeOp>();
    return stacked && reshape ? reshape.getInput() : part;
  };
  Value first = unstack(concat.getInputs()[0]), second = unstack(concat.getInputs()[1]);
  auto negated = first.getDefiningOp<NegOp>();
  Value negatedInput;
  if (negated)
    negatedInput = negated.getOperand();
  else if (auto product = matchWithConstant<MulOp>(first); product && product->second == -1)
    negatedInput = product->first;
  if (!negatedInput)
    return std::nullopt;
  auto high = matchLastSlice(unstack(negatedInput)), low = matchLastSlice(second);
  if (!high || !low || high->input != low->input || high->size != low->size ||
      high->step != low->step || low->begin != 0)
    return std::nullopt;
  int64_t width = shapeOf(low->input).back().constant;
  if (width != 2 * low->size || shapeOf(value) != shapeOf(low->input))
    return std::nullopt;
  if (!stacked && high->begin == low->size && low->step == 1)
    return Rotation{low->input, false};
  if (stacked && high->begin == 1 && low->step == 2)
    return Rotation{low->input, true};
  return std::nullopt;
}

/// Neighbors apart: element `part` (0 or 1) of each pair; returns the pairs [.., n, 2].
Value matchPairPart(Value value, int64_t part) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  auto slice = reshape ? matchLastSlice(reshape.getInput()) : std::nullopt;
  if (!slice || slice->size != 1 || slice->begin != part ||
      shapeOf(slice->input).back() != SymbolicDim(2))
    return {};
  return slice->input;
}

/// The other factor of a product with element `part` of the pairs, which are returned.
std::pair<Value, Value> matchPairProduct(Value value, int64_t part) {
  auto mul = value.getDefiningOp<MulOp>();
  if (!mul)
    return {};
  if (Value pairs = matchPairPart(mul.getLhs(), part))
    return {pairs, mul.getRhs()};
  return {matchPairPart(mul.getRhs(), part), mul.getLhs()};
}

class RopeRaiser {
public:
  RopeRaiser(func::FuncOp function, int64_t tokens)
      : function(function), builder(function), dependence(function), tokens(tokens) {}

  LogicalResult run() {
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front().without_terminator()))
      if (auto add = dyn_cast<AddOp>(op))
        if (failed(raiseSum(add)))
          return failure();
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front().without_terminator()))
      if (auto reshape = dyn_cast<ReshapeOp>(op))
        if (failed(raisePairs(reshape)))
          return failure();
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front().without_terminator()))
      if (auto concat = dyn_cast<ConcatOp>(op))
        widen(concat);
    eliminateDeadAndEqual(function);
    return success();
  }

private:
  LogicalResult raiseSum(AddOp op);
  LogicalResult raisePairs(ReshapeOp op);
  void widen(ConcatOp op);
  std::optional<int64_t> tokenDim(Value x, Value angles);
  bool hasSections(Value angles);
  /// `repeat`: each column this many times, side by side.
  FailureOr<Value> table(Value angles, int64_t width, Operation *user, int64_t repeat = 1);
  Value positions(Location loc);

  func::FuncOp function;
  OpBuilder builder;
  Dependence dependence;
  int64_t tokens;
  llvm::DenseMap<Value, DenseElementsAttr> tables;
};

/// Dimension of x along which the angles run: theirs is N there, 1 elsewhere but the last.
std::optional<int64_t> RopeRaiser::tokenDim(Value x, Value angles) {
  SymbolicShape shape = shapeOf(x), angle = shapeOf(angles);
  while (angle.size() < shape.size())
    angle.insert(angle.begin(), SymbolicDim(1));
  if (angle.size() != shape.size() || angle.back() != shape.back())
    return std::nullopt;
  std::optional<int64_t> found;
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    if (angle[i] == SymbolicDim::tokens() && shape[i] == angle[i] && !found)
      found = i;
    else if (!angle[i].isOne())
      return std::nullopt;
  }
  return found;
}

/// Angles of positions along several axes (M-RoPE) are no function of one position.
bool RopeRaiser::hasSections(Value angles) {
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (roleOf(function, index) == Role::Positions &&
        (dependence.of(angles) & Dependence::argument(index)) &&
        product(shapeOf(argument)) != SymbolicDim::tokens())
      return true;
  }
  return false;
}

/// Rows 0 .. tokens - 1 of the angles' cosine or sine, evaluated.
FailureOr<Value> RopeRaiser::table(Value angles, int64_t width, Operation *user, int64_t repeat) {
  auto it = tables.find(angles);
  if (it == tables.end()) {
    ProbeInputs inputs;
    inputs.tokens = tokens;
    auto value = probe(function, angles, inputs);
    if (failed(value))
      return failure();
    if (value->size() != tokens * width)
      return user->emitError() << describe(user) << ": rotary table of " << value->size()
                               << " elements instead of " << tokens << " x " << width;
    HostTensor rows(value->elementType, {tokens, width * repeat});
    for (int64_t i = 0; i < rows.size(); ++i)
      rows.set(i, value->at(i / repeat));
    it = tables.insert({angles, toAttribute(rows)}).first;
  }
  return Value(ConstantOp::create(builder, user->getLoc(), it->second.getType(), it->second));
}

Value RopeRaiser::positions(Location loc) {
  return BatchValueOp::create(
      builder, loc,
      makeTensorType(builder.getContext(), {SymbolicDim::tokens()}, builder.getI32Type()),
      builder.getStringAttr("positions"));
}

/// x * cos + rotate(x) * sin.
LogicalResult RopeRaiser::raiseSum(AddOp op) {
  auto left = op.getLhs().getDefiningOp<MulOp>(), right = op.getRhs().getDefiningOp<MulOp>();
  if (!left || !right)
    return success();
  for (auto [plain, turned] : {std::pair(left, right), std::pair(right, left)}) {
    for (bool swapTurned : {false, true}) {
      Value candidate = swapTurned ? turned.getRhs() : turned.getLhs();
      Value sin = swapTurned ? turned.getLhs() : turned.getRhs();
      auto rotation = matchRotation(candidate);
      if (!rotation)
        continue;
      Value x = rotation->input;
      if (x != plain.getLhs() && x != plain.getRhs())
        continue;
      Value cos = x == plain.getLhs() ? plain.getRhs() : plain.getLhs();
      auto dim = tokenDim(x, cos);
      if (!dim || tokenDim(x, sin) != dim || !dependence.isAuxiliary(cos) ||
          !dependence.isAuxiliary(sin) || hasSections(cos) || hasSections(sin))
        continue;
      SymbolicShape shape = shapeOf(x);
      // The op takes [B, H, L, R].
      bool swapped = shape.size() == 4 && *dim == 1;
      if (!(shape.size() == 4 && *dim == 2) && !swapped && !(shape.size() == 3 && *dim == 1))
        continue;
      builder.setInsertionPoint(op);
      Location loc = op.getLoc();
      auto cosTable = table(cos, shape.back().constant, op);
      auto sinTable =
          succeeded(cosTable) ? table(sin, shape.back().constant, op) : FailureOr<Value>();
      if (failed(cosTable) || failed(sinTable))
        return failure();
      if (swapped)
        x = transposed(builder, loc, x, {0, 2, 1, 3});
      else if (shape.size() == 3)
        x = reshapeTo(builder, loc, x, {SymbolicDim(1), shape[0], shape[1], shape[2]});
      Value rope = RopeOp::create(builder, loc, x.getType(), x, positions(loc), *cosTable,
                                  *sinTable, rotation->interleaved, /*inverse=*/false);
      if (swapped)
        rope = transposed(builder, loc, rope, {0, 2, 1, 3});
      op.getResult().replaceAllUsesWith(reshapeTo(builder, loc, rope, shape));
      return success();
    }
  }
  return success();
}

/// The pairs (a cos - b sin, a sin + b cos) of neighbors a, b, stacked and flattened.
LogicalResult RopeRaiser::raisePairs(ReshapeOp op) {
  auto concat = op.getInput().getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 || rankOf(op.getResult()) != 4 ||
      rankOf(concat.getResult()) != 5 || !isLastAxis(concat.getAxis(), 5))
    return success();
  auto unstacked = [](Value value) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    return reshape ? reshape.getInput() : Value();
  };
  Value first = unstacked(concat.getInputs()[0]), second = unstacked(concat.getInputs()[1]);
  auto real = first ? first.getDefiningOp<SubOp>() : SubOp();
  auto imaginary = second ? second.getDefiningOp<AddOp>() : AddOp();
  if (!real || !imaginary)
    return success();
  auto [pairs, cos] = matchPairProduct(real.getLhs(), 0);
  auto [pairs2, sin] = matchPairProduct(real.getRhs(), 1);
  bool swapped = matchPairProduct(imaginary.getLhs(), 0).first == Value();
  Value evenTerm = swapped ? imaginary.getRhs() : imaginary.getLhs();
  Value oddTerm = swapped ? imaginary.getLhs() : imaginary.getRhs();
  if (!pairs || pairs != pairs2 || matchPairProduct(evenTerm, 0) != std::pair(pairs, sin) ||
      matchPairProduct(oddTerm, 1) != std::pair(pairs, cos) || !dependence.isAuxiliary(cos) ||
      !dependence.isAuxiliary(sin) || hasSections(cos) || hasSections(sin) ||
      tokenDim(first, cos) != 2 || tokenDim(first, sin) != 2)
    return success();
  builder.setInsertionPoint(op);
  int64_t half = shapeOf(first).back().constant;
  auto cosTable = table(cos, half, op, 2);
  auto sinTable = succeeded(cosTable) ? table(sin, half, op, 2) : FailureOr<Value>();
  if (failed(cosTable) || failed(sinTable))
    return failure();
  Value x = reshapeTo(builder, op.getLoc(), pairs, shapeOf(op.getResult()));
  x = shortenLayout(builder, x);
  Value rope = RopeOp::create(builder, op.getLoc(), op.getType(), x, positions(op.getLoc()),
                              *cosTable, *sinTable, /*interleaved=*/true, /*inverse=*/false);
  op.getResult().replaceAllUsesWith(rope);
  return success();
}

/// concat(rope(x[:R]), x[R:]) is the rope of x with tables of R columns.
void RopeRaiser::widen(ConcatOp op) {
  if (op.getInputs().size() != 2)
    return;
  auto rope = op.getInputs()[0].getDefiningOp<RopeOp>();
  auto rest = matchLastSlice(op.getInputs()[1]);
  auto part = rope ? matchLastSlice(rope.getInput()) : std::nullopt;
  int64_t rank = rankOf(op.getResult());
  if (!rest || !part || !isLastAxis(op.getAxis(), rank) || rest->input != part->input ||
      part->begin != 0 || part->step != 1 || rest->step != 1 || rest->begin != part->size ||
      op.getType() != part->input.getType())
    return;
  builder.setInsertionPoint(op);
  Value wide =
      RopeOp::create(builder, op.getLoc(), op.getType(), part->input, rope.getPositions(),
                     rope.getCos(), rope.getSin(), rope.getInterleaved(), rope.getInverse());
  op.getResult().replaceAllUsesWith(wide);
}
} // namespace
} // namespace raise

namespace {
struct RaiseRopePass : impl::RaiseRopePassBase<RaiseRopePass> {
  using RaiseRopePassBase::RaiseRopePassBase;
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(raise::RopeRaiser(function, tokens).run()))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
