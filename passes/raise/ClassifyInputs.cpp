//===- ClassifyInputs.cpp - omnibal-classify-inputs --------------------------------------===//
#include "passes/raise/Passes.h"
#include "passes/raise/match/Probe.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_CLASSIFYINPUTSPASS
#include "passes/raise/Passes.h.inc"

namespace raise {
namespace {

class InputClassifier {
public:
  explicit InputClassifier(func::FuncOp function) : function(function), dependence(function) {}

  LogicalResult run() {
    SmallVector<unsigned> tokenInputs;
    for (BlockArgument argument : function.getArguments()) {
      unsigned index = argument.getArgNumber();
      SymbolicShape shape = shapeOf(argument);
      int64_t tokenDims = llvm::count_if(shape, isTokenDim);
      if (shape.size() == 4 && tokenDims == 2)
        setRole(function, index, Role::Mask);
      else if (tokenDims == 0 && shape.size() >= 3)
        setRole(function, index, Role::Image);
      else if (tokenDims == 1 && shape.back() == SymbolicDim::tiles())
        setRole(function, index, Role::Seen);
      else if (llvm::any_of(shape, [](const SymbolicDim &d) { return d.perTile != 0; }))
        setRole(function, index, visionRole(argument));
      else if (tokenDims == 1)
        tokenInputs.push_back(index);
    }
    std::optional<unsigned> ids = findIds(tokenInputs);
    if (!ids)
      return function.emitError()
             << "no graph input looks up the rows of an embedding (token ids, integer [1, N]); "
             << "export the model with its embedding";
    for (unsigned index : tokenInputs)
      setRole(function, index,
              index == *ids             ? Role::Ids
              : reachesPositions(index) ? Role::Positions
                                        : Role::Visibility);
    return success();
  }

private:
  /// The input whose values alone are row numbers of a parameter; with several (tables of
  /// positions), the one named by convention, else the one with the largest table.
  std::optional<unsigned> findIds(ArrayRef<unsigned> tokenInputs) {
    std::optional<unsigned> best;
    int64_t bestRows = -1;
    function.walk([&](EmbeddingOp op) {
      for (unsigned index : tokenInputs) {
        if (!(dependence.of(op.getIds()) & Dependence::argument(index)))
          continue;
        int64_t rows = typeOf(op.getTable()).getDimSize(0);
        if (inputName(function, index) == "input_ids")
          rows = std::numeric_limits<int64_t>::max();
        if (rows > bestRows) {
          best = index;
          bestRows = rows;
        }
      }
    });
    return best;
  }

  /// Calls `visit` for what reads the value behind ops that only arrange elements.
  static void readers(Value value, llvm::function_ref<void(Operation *, Value)> visit) {
    for (Operation *user : value.getUsers())
      if (isa<ReshapeOp, TransposeOp, CastOp, ExpandOp>(user))
        readers(user->getResult(0), visit);
      else
        visit(user, value);
  }

  /// An input of rank 1 or 2 with rows per vision unit: what a product with a parameter reads are
  /// pixels, what is only compared with itself numbers segments.
  static Role visionRole(BlockArgument argument) {
    bool pixels = false, compared = true;
    readers(argument, [&](Operation *user, Value read) {
      auto linear = dyn_cast<LinearOp>(user);
      auto conv = dyn_cast<ConvOp>(user);
      pixels |= (linear && linear.getInput() == read) || (conv && conv.getInput() == read);
      auto compare = dyn_cast<CompareOp>(user);
      compared &= compare && compare.getPredicate() == ComparePredicate::EQ;
    });
    if (isa<FloatType>(typeOf(argument).getElementType()))
      return pixels ? Role::Image : Role::Rows;
    return compared && !argument.use_empty() ? Role::Segments : Role::Rows;
  }

  /// Running sums of a mask number its tokens; the mask is none of the numbers.
  bool isNumberedBySums(Value value, Dependence::Set self) {
    return llvm::any_of(backwardOps(value), [&](Operation *op) {
      auto sum = dyn_cast<CumSumOp>(op);
      return sum && (dependence.of(sum.getInput()) & self);
    });
  }

  /// Row numbers of a table of positions, or angles of sines and cosines. Row numbers that depend
  /// on parameters are a choice among experts, which everything reaches.
  bool reachesPositions(unsigned index) {
    Dependence::Set self = Dependence::argument(index);
    bool found = false;
    function.walk([&](Operation *op) {
      Value read;
      if (isa<CosOp, SinOp>(op))
        read = op->getOperand(0);
      else if (auto embedding = dyn_cast<EmbeddingOp>(op))
        read = embedding.getIds();
      else if (auto gather = dyn_cast<GatherOp>(op);
               gather && isa<FloatType>(typeOf(gather.getResult()).getElementType()))
        read = gather.getIndices();
      if (read && !isa<CosOp, SinOp>(op) && (dependence.of(read) & Dependence::parameters))
        return;
      found = found || (read && (dependence.of(read) & self) && !isNumberedBySums(read, self));
    });
    return found;
  }

  func::FuncOp function;
  Dependence dependence;
};
} // namespace
} // namespace raise

namespace {
struct ClassifyInputsPass : impl::ClassifyInputsPassBase<ClassifyInputsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(raise::InputClassifier(function).run()))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
