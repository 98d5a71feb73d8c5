//===- RaiseExperts.cpp - omnibal-raise-experts ------------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Match.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_RAISEEXPERTSPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

/// A matrix for each row, looked up by the row's id: weights[ids], weights a parameter [E, ., .].
struct Lookup {
  Value weights, ids;
  bool transposed = false; ///< the last two dimensions were swapped behind the look-up
};

std::optional<Lookup> matchLookup(Value value) {
  Lookup lookup;
  if (auto transpose = value.getDefiningOp<TransposeOp>();
      transpose && transpose.getPermutation() == ArrayRef<int64_t>{0, 2, 1}) {
    lookup.transposed = true;
    value = transpose.getInput();
  }
  Operation *op = value.getDefiningOp();
  bool rows = false;
  if (auto gather = dyn_cast_or_null<GatherOp>(op))
    rows = gather.getAxis() == 0;
  else if (auto gather = dyn_cast_or_null<GatherNDOp>(op))
    rows = gather.getBatchDims() == 0 && shapeOf(gather.getIndices()).back().isOne();
  if (!rows || rankOf(value) != 3 || rankOf(op->getOperand(0)) != 3 ||
      !readsParameter(op->getOperand(0)))
    return std::nullopt;
  lookup.weights = op->getOperand(0);
  lookup.ids = stripReshapes(op->getOperand(1));
  return lookup;
}

class ExpertRaiser {
public:
  explicit ExpertRaiser(OpBuilder &builder) : builder(builder) {}

  void visit(MatMulOp op) {
    if (rankOf(op.getLhs()) != 3 || rankOf(op.getRhs()) != 3)
      return;
    // A column on the right of the matrices, or a row on their left.
    if (auto left = matchLookup(op.getLhs()))
      raise(op, *left, op.getRhs(), op.getTransposeRhs() ? 1 : 2,
            op.getTransposeLhs() != left->transposed);
    else if (auto right = matchLookup(op.getRhs()))
      raise(op, *right, op.getLhs(), op.getTransposeLhs() ? 2 : 1,
            op.getTransposeRhs() == right->transposed);
  }

  /// Rows that are looked up beside the products (biases): kernels number them by i32.
  void narrowRowNumbers(func::FuncOp function) {
    function.walk([&](EmbeddingOp op) {
      Value ids = op.getIds(), base = stripReshapes(ids);
      if (llvm::none_of(known, [&](const auto &entry) { return entry.first.first == base; }))
        return;
      builder.setInsertionPoint(op);
      op.getIdsMutable().assign(castTo(builder, op.getLoc(), ids, builder.getI32Type()));
    });
  }

private:
  void raise(MatMulOp op, const Lookup &lookup, Value vectors, int64_t unitAxis, bool inOut) {
    SymbolicShape shape = shapeOf(vectors);
    if (!shape[unitAxis].isOne())
      return;
    SymbolicDim rows = shape[0], width = shape[3 - unitAxis];
    builder.setInsertionPoint(op);
    Location loc = op.getLoc();
    Value input = repeatedRows(vectors, rows, width);
    if (!input)
      input = reshapeTo(builder, loc, vectors, {rows, width});
    GroupRowsOp groups = groupsOf(lookup, loc);
    Value product = createOp<GroupedLinearOp>(builder, loc, input, lookup.weights,
                                              groups.getOrder(), groups.getBorders(), inOut);
    op.getResult().replaceAllUsesWith(reshapeTo(builder, loc, product, shapeOf(op.getResult())));
  }

  /// Rows that are repeated for each of their groups stay a broadcast: no copy is made of them.
  static Value repeatedRows(Value vectors, const SymbolicDim &rows, const SymbolicDim &width) {
    auto expand = stripReshapes(vectors).getDefiningOp<ExpandOp>();
    if (!expand)
      return {};
    SymbolicShape shape = shapeOf(expand);
    bool fits = shape.size() >= 2 && shape.back() == width &&
                product(ArrayRef<SymbolicDim>(shape).drop_back()) == rows;
    return fits ? expand.getResult() : Value();
  }

  /// The products of one block sort their rows once.
  GroupRowsOp groupsOf(const Lookup &lookup, Location loc) {
    int64_t count = shapeOf(lookup.weights)[0].constant;
    GroupRowsOp &groups = known[{lookup.ids, count}];
    if (!groups)
      groups = createOp<GroupRowsOp>(builder, loc, lookup.ids, builder.getI64IntegerAttr(count));
    return groups;
  }

  OpBuilder &builder;
  llvm::DenseMap<std::pair<Value, int64_t>, GroupRowsOp> known;
};
} // namespace
} // namespace raise

namespace {
struct RaiseExpertsPass : impl::RaiseExpertsPassBase<RaiseExpertsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      OpBuilder builder(function);
      raise::ExpertRaiser raiser(builder);
      raise::forEachOp(function, [&](Operation *op) {
        if (auto matmul = dyn_cast<MatMulOp>(op))
          raiser.visit(matmul);
      });
      raiser.narrowRowNumbers(function);
    }
  }
};
} // namespace
} // namespace omnibal
