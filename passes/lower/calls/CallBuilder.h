//===- CallBuilder.h - A function's ops become calls on roots ----------------------------===//
#ifndef PASSES_LOWER_CALLS_CALLBUILDER_H
#define PASSES_LOWER_CALLS_CALLBUILDER_H

#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "passes/lower/calls/CallList.h"
#include "passes/lower/calls/Storage.h"
#include "passes/lower/codegen/KernelLibraryInternal.h"
#include "llvm/ADT/DenseMap.h"

namespace omnibal::lower {

/// Walks a function after omnibal-fuse in program order. View ops only change places; every other
/// op appends calls. The emit* methods are in one file per theme (Emit*.cpp).
class CallBuilder {
public:
  CallBuilder(mlir::func::FuncOp fn, KernelLibrary &kernels, const LoweringOptions &options)
      : fn(fn), kernels(kernels), options(options), storage(fn, options.compute) {}

  llvm::FailureOr<CallList> run();

private:
  //--- Formals, places, lifetimes (CallBuilder.cpp)
  //--------------------------------------------------
  llvm::LogicalResult addFormals();
  llvm::LogicalResult checkReaders(mlir::BlockArgument quantized);
  llvm::LogicalResult emit(mlir::Operation *op);
  llvm::LogicalResult bindResults(mlir::func::ReturnOp op);
  /// True if all of `value` can be added to the gradient at `target` by the call that computes it.
  bool markAccumulated(mlir::Value value, const Place &target);
  void replaceRoot(int from, int to);

  Place placeOf(mlir::Value value) { return places.lookup(value); }
  /// Binds a value to a place; its uses keep the root alive.
  void set(mlir::Value value, const Place &place);
  int addRoot(mlir::Type elementType, llvm::ArrayRef<SymbolicDim> shape, bool inBFloat16 = false);
  Place dense(int root, llvm::ArrayRef<SymbolicDim> shape);
  Place fresh(mlir::Type elementType, llvm::ArrayRef<SymbolicDim> shape, bool inBFloat16 = false) {
    return dense(addRoot(elementType, shape, inBFloat16), shape);
  }
  Place fresh(mlir::Value value) {
    return fresh(elementType(value), shapeOf(value), storage.isBFloat16(value));
  }
  /// Returns a dense copy.
  Place materialize(const Place &place, mlir::Operation *op);
  rt::DType dtypeAt(const Place &place) const { return list.roots[place.root].dtype; }
  /// Returns the place itself, or a copy in float32 or bfloat16 if it is stored in the other.
  Place as(rt::DType dtype, const Place &place, mlir::Operation *op);
  /// Returns bfloat16 if one of the operands is stored in it, else float32.
  rt::DType floatTypeOf(mlir::ValueRange operands);
  /// Does reshape(), after a copy if strides cannot express it.
  Place reshaped(const Place &place, llvm::ArrayRef<SymbolicDim> shape, mlir::Operation *op);
  /// Returns the place itself if its last dimension has unit stride, else a copy.
  Place unitStride(const Place &place, mlir::Operation *op);
  /// Returns [.., C] as [product of .., C] with unit stride.
  Place matrix(mlir::Value value, mlir::Operation *op);
  /// Returns all elements in one dimension.
  Place flat(mlir::Value value, mlir::Operation *op);
  /// Adds, on target cuda, the operand `workspace` of a call: `words` of 4 bytes for each of
  /// `rows`.
  void addWorkspace(std::vector<std::pair<std::string, Place>> &operands, SymbolicDim rows,
                    int64_t words);
  Place batchValue(llvm::StringRef name, mlir::Value value);
  llvm::FailureOr<Place> constant(ConstantOp op);
  /// True for a temporary whose last reader is `op`.
  bool diesAt(const Place &place, mlir::Operation *op);

  Call &call(mlir::Operation *op, llvm::StringRef kernel,
             std::vector<std::pair<std::string, Place>> operands);

  static SymbolicShape shapeOf(mlir::Value value) {
    return *getSymbolicShape(mlir::cast<mlir::RankedTensorType>(value.getType()));
  }
  static mlir::Type elementType(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
  }

  //--- Ops
  //-------------------------------------------------------------------------------------------
  llvm::LogicalResult emitReshape(mlir::Operation *op); // EmitLayout.cpp
  llvm::LogicalResult emitSlice(SliceOp op);
  llvm::LogicalResult emitPad(PadOp op);
  llvm::LogicalResult emitConcat(ConcatOp op);
  llvm::LogicalResult emitReduce(ReduceOp op);
  llvm::LogicalResult emitReshard(ReshardOp op); // EmitMoves.cpp
  llvm::LogicalResult emitGemm(GemmOp op);       // EmitGemm.cpp
  llvm::LogicalResult emitRowSquares(RowSquaresOp op);
  llvm::LogicalResult emitDequantize(DequantizeOp op);
  /// Returns memory for as many columns of a quantized right side as become numbers at once.
  Place quantizedScratch(GemmOp op);
  llvm::LogicalResult emitFused(FusedOp op); // EmitFusedCall.cpp
  /// Emits, at the function's end, the sums of what blocks of generated kernels have left of
  /// gradients of parameters, in one launch, which takes no longer than a single sum would.
  void emitGradientSums(mlir::Operation *op);
  FusedAccess accessInput(FusedOp op, unsigned index, Place &place);
  /// Returns [1, H, L] as [L, H].
  Place statisticsByToken(const Place &place, mlir::Operation *op);
  template <typename OpT> void setCross(OpT op, Call &call);
  llvm::LogicalResult emitCrossAttention(CrossAttentionOp op); // EmitCrossAttention.cpp
  llvm::LogicalResult emitCrossAttentionGrad(CrossAttentionGradOp op);
  llvm::LogicalResult emitAttention(AttentionOp op); // EmitModel.cpp
  llvm::LogicalResult emitAttentionGrad(AttentionGradOp op);
  llvm::LogicalResult emitRope(RopeOp op);
  llvm::LogicalResult emitEmbedding(EmbeddingOp op);
  llvm::LogicalResult emitEmbeddingGrad(EmbeddingGradOp op);
  llvm::LogicalResult emitImageMerge(ImageMergeOp op);
  llvm::LogicalResult emitImageMergeGrad(ImageMergeGradOp op);
  llvm::LogicalResult emitGatedDelta(GatedDeltaOp op); // EmitRecurrent.cpp
  llvm::LogicalResult emitGatedDeltaGrad(GatedDeltaGradOp op);
  llvm::LogicalResult emitGroupRows(GroupRowsOp op); // EmitGroups.cpp
  llvm::LogicalResult emitGroupedLinear(GroupedLinearOp op);
  llvm::LogicalResult emitGroupedLinearWeightGrad(GroupedLinearWeightGradOp op);
  llvm::LogicalResult emitCrossEntropy(mlir::Operation *op); // EmitLoss.cpp
  llvm::LogicalResult emitLinearCrossEntropy(mlir::Operation *op);
  llvm::LogicalResult emitPreferenceLoss(mlir::Operation *op);
  /// Rows of logits of so many words that exist at a time.
  int64_t rowsOfLogits(int64_t words, const SymbolicDim &rows) const;
  /// Numbers in float32 in whose memory a device has the order of the rows and one of logits.
  int64_t fewestLogitFloats(int64_t words, int64_t features, mlir::Value targets) const;
  std::vector<std::pair<std::string, Place>> wordOperands(mlir::Operation *op, mlir::Value hidden,
                                                          mlir::Value weight, mlir::Value bias,
                                                          mlir::Value targets, bool withGradients);
  Place statisticsOfParts(mlir::Value value, bool withNumbers, mlir::Operation *op);
  llvm::LogicalResult emitWordStatistics(WordStatisticsOp op);
  llvm::LogicalResult emitJoinedCrossEntropy(JoinedCrossEntropyOp op);
  llvm::LogicalResult emitJoinedCrossEntropyGrad(JoinedCrossEntropyGradOp op);
  llvm::LogicalResult emitJoinedPrediction(JoinedPredictionOp op);
  llvm::LogicalResult emitPlain(mlir::Operation *op); // EmitPlain.cpp

  /// Returns [.., C] as [rows, C], or as it is if only that can be expressed by strides.
  Place rowsOf(mlir::Value value, mlir::Operation *op);
  /// Returns [B, H, L, D] as [B * L, H, D].
  Place tokenMajor(const Place &place, mlir::Operation *op);
  /// Returns [B, H, L] as [B * L, H].
  Place perToken(const Place &place, mlir::Operation *op);
  /// Returns memory for a [B, H, L, ..] result that lies as [B, L, H, ..].
  Place freshTokenMajor(mlir::Value value);
  /// Returns where a gradient goes: into the formal (accumulated) or into a zeroed temporary.
  Place gradientTarget(mlir::Value value, mlir::Operation *op);

  mlir::func::FuncOp fn;
  KernelLibrary &kernels;
  LoweringOptions options;
  Storage storage;
  CallList list;
  std::vector<FormalRoot> batchFormals, constantFormals;
  std::vector<int> resultRoots;
  llvm::DenseMap<mlir::Value, Place> places, accumulated;
  std::vector<int> liveUses;                         ///< by root
  std::vector<std::pair<Place, Place>> gradientSums; ///< on a GPU: partial rows, the gradient
};

} // namespace omnibal::lower
#endif // PASSES_LOWER_CALLS_CALLBUILDER_H
