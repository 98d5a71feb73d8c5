//===- RaisePositions.cpp - omnibal-raise-positions --------------------------------------===//
#include "dialects/omnibal/ir/BatchValues.h"
#include "passes/raise/Passes.h"
#include "passes/raise/match/Dependence.h"
#include "passes/raise/match/Match.h"
#include "passes/raise/match/Probe.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEPOSITIONSPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

class PositionRaiser {
public:
  explicit PositionRaiser(func::FuncOp function)
      : function(function), builder(function), dependence(function) {}

  LogicalResult run() {
    raiseRowNumbers();
    eliminateDeadAndEqual(function);
    raiseRanges();
    // Ranges that were replaced may have read how long an input is, the mask too.
    eliminateDeadAndEqual(function);
    bool firstImage = true;
    for (BlockArgument argument : function.getArguments())
      if (failed(raiseArgument(argument, firstImage)))
        return failure();
    narrowIds();
    eliminateDeadAndEqual(function);
    noteMostPositions();
    return failure(
        function.eraseArguments(llvm::BitVector(function.getNumArguments(), true)).failed());
  }

private:
  Value batchValue(Location loc, StringRef name, ArrayRef<SymbolicDim> shape, Type element) {
    return BatchValueOp::create(builder, loc, makeTensorType(builder.getContext(), shape, element),
                                builder.getStringAttr(name));
  }
  Value perToken(Location loc, StringRef name) {
    return batchValue(loc, name, {SymbolicDim::tokens()}, builder.getI32Type());
  }
  Value plus(Value value, int64_t offset) {
    if (offset == 0)
      return value;
    auto type = RankedTensorType::get({}, typeOf(value).getElementType());
    Value constant = ConstantOp::create(
        builder, value.getLoc(), type,
        DenseElementsAttr::get(type, builder.getIntegerAttr(type.getElementType(), offset)));
    return AddOp::create(builder, value.getLoc(), value.getType(), value, constant);
  }

  /// c if the value is 0 + c, 1 + c, .. for any number of tokens.
  std::optional<int64_t> offsetOfPositions(Value value) {
    std::optional<int64_t> offset;
    for (int64_t tokens : {1, 2, 7}) {
      ProbeInputs inputs;
      inputs.tokens = tokens;
      auto result = probe(function, value, inputs);
      if (failed(result) || result->size() != tokens)
        return std::nullopt;
      for (int64_t i = 0; i < tokens; ++i) {
        int64_t difference = static_cast<int64_t>(result->at(i)) - i;
        if (offset.value_or(difference) != difference)
          return std::nullopt;
        offset = difference;
      }
    }
    return offset;
  }

  /// Rows of a table of positions, whatever computes their numbers (ranges, sums of the mask).
  void raiseRowNumbers() {
    for (Operation &op : function.getBody().front()) {
      auto embedding = dyn_cast<EmbeddingOp>(op);
      if (!embedding || !dependence.isAuxiliary(embedding.getIds()))
        continue;
      auto offset = offsetOfPositions(embedding.getIds());
      if (!offset)
        continue;
      builder.setInsertionPoint(&op);
      Value rows = plus(perToken(op.getLoc(), "positions"), *offset);
      embedding.getIdsMutable().assign(
          reshapeTo(builder, op.getLoc(), rows, shapeOf(embedding.getIds())));
    }
  }

  void raiseRanges() {
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
      auto range = dyn_cast<RangeOp>(op);
      if (!range || shapeOf(range.getResult()) != SymbolicShape{SymbolicDim::tokens()} ||
          !isConstant(range.getDelta(), 1))
        continue;
      auto start = splatConstant(range.getStart());
      if (!start)
        continue;
      builder.setInsertionPoint(range);
      Value value = plus(perToken(op.getLoc(), "positions"), static_cast<int64_t>(*start));
      range.getResult().replaceAllUsesWith(
          castTo(builder, op.getLoc(), value, typeOf(range.getResult()).getElementType()));
    }
  }

  /// Rows of tables are numbered by i32, whatever the graph's input is.
  static void replaceIds(BlockArgument argument, Value ids) {
    for (OpOperand &use : llvm::make_early_inc_range(argument.getUses()))
      if (isa<EmbeddingOp>(use.getOwner()))
        use.set(ids);
  }

  /// Row numbers that the graph computes from ids, in its own width (another id for placeholders).
  void narrowIds() {
    function.walk([&](EmbeddingOp embedding) {
      Value ids = embedding.getIds();
      if (typeOf(ids).getElementType().isInteger(32) || isa<BlockArgument>(ids))
        return;
      builder.setInsertionPoint(embedding);
      embedding.getIdsMutable().assign(castTo(builder, ids.getLoc(), ids, builder.getI32Type()));
    });
  }

  /// c if the value is the positions plus c.
  static std::optional<int64_t> offsetFromPositions(Value value) {
    if (auto values = value.getDefiningOp<BatchValueOp>())
      return values.getName() == "positions" ? std::optional<int64_t>(0) : std::nullopt;
    if (auto reshape = value.getDefiningOp<ReshapeOp>())
      return offsetFromPositions(reshape.getInput());
    if (auto cast = value.getDefiningOp<CastOp>())
      return offsetFromPositions(cast.getOperand());
    auto sum = matchWithConstant<AddOp>(value);
    auto offset = sum ? offsetFromPositions(sum->first) : std::nullopt;
    return offset ? std::optional<int64_t>(*offset + static_cast<int64_t>(sum->second))
                  : std::nullopt;
  }

  /// A sample has at most as many tokens as there are rows in a table of their positions.
  void noteMostPositions() {
    constexpr StringLiteral name = "omnibal.positions";
    auto module = function->getParentOfType<ModuleOp>();
    function.walk([&](EmbeddingOp embedding) {
      auto offset = offsetFromPositions(embedding.getIds());
      if (!offset || *offset < 0)
        return;
      const int64_t rows = typeOf(embedding.getTable()).getDimSize(0) - *offset;
      auto before = module->getAttrOfType<IntegerAttr>(name);
      if (!before || rows < before.getInt())
        module->setAttr(name, builder.getI64IntegerAttr(rows));
    });
  }

  /// Positions of a token: one, or one for each axis of rotary sections.
  static int64_t axesOf(const SymbolicShape &shape) {
    auto all = product(shape);
    return all && all->constant == 0 && all->perTile == 0 ? all->perToken : 0;
  }

  /// [axes, N]: derived from the sizes of pictures where these vary, else given with the samples.
  Value positionsAlong(Location loc, int64_t axes) {
    SymbolicShape all = {SymbolicDim(axes), SymbolicDim::tokens()};
    if (function->getParentOfType<ModuleOp>()->hasAttr("omnibal.pictures"))
      return batchValue(loc, "position_ids", all, builder.getI32Type());
    SmallVector<Value> parts;
    for (int64_t axis = 0; axis < axes; ++axis)
      parts.push_back(reshapeTo(builder, loc,
                                perToken(loc, (axisOfPositionsPrefix + Twine(axis)).str()),
                                {SymbolicDim(1), SymbolicDim::tokens()}));
    return ConcatOp::create(builder, loc,
                            makeTensorType(builder.getContext(), all, builder.getI32Type()), parts,
                            builder.getI64IntegerAttr(0));
  }

  LogicalResult raiseArgument(BlockArgument argument, bool &firstImage) {
    if (argument.use_empty())
      return success();
    unsigned index = argument.getArgNumber();
    StringRef name = inputName(function, index);
    Location loc = argument.getLoc();
    builder.setInsertionPointToStart(&function.getBody().front());
    SymbolicShape shape = shapeOf(argument);
    Type element = typeOf(argument).getElementType();
    Role role = roleOf(function, index);
    if (role == Role::Image) {
      SymbolicShape tiles = shape;
      if (tiles.front().isOne())
        tiles.erase(tiles.begin());
      Value images = batchValue(loc, firstImage ? "pixel_values" : name, tiles, element);
      firstImage = false;
      argument.replaceAllUsesWith(reshapeTo(builder, loc, images, shape));
      return success();
    }
    if (role == Role::Rows) {
      if (!isPictureFact(name))
        return emitError(loc, "graph input '")
               << name << "' is not known; what the runtime derives from pictures of any size has "
               << "names of its own (docs/importing.md)";
      Type kept = isa<FloatType>(element) ? element : Type(builder.getI32Type());
      Value rows = batchValue(loc, name, shape, kept);
      replaceIds(argument, rows);
      if (!argument.use_empty())
        argument.replaceAllUsesWith(castTo(builder, loc, rows, element));
      return success();
    }
    if (role == Role::Segments || role == Role::Visibility || role == Role::Mask ||
        role == Role::Seen || role == Role::None) {
      Operation *user = *argument.user_begin();
      return user->emitError() << describe(user) << " reads graph input '" << name
                               << "' outside of an attention mask, which is not supported";
    }
    Value tokens;
    if (auto axes = axesOf(shape); role == Role::Positions && axes > 1) // rotary sections
      tokens = positionsAlong(loc, axes);
    else
      tokens = perToken(loc, role == Role::Ids ? "input_ids" : "positions");
    Value shaped = reshapeTo(builder, loc, tokens, shape);
    replaceIds(argument, shaped);
    if (!argument.use_empty())
      argument.replaceAllUsesWith(castTo(builder, loc, shaped, element));
    return success();
  }

  func::FuncOp function;
  OpBuilder builder;
  Dependence dependence;
};
} // namespace
} // namespace raise

namespace {
struct RaisePositionsPass : impl::RaisePositionsPassBase<RaisePositionsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(raise::PositionRaiser(function).run()))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
