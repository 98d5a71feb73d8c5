//===- FactorRule.h - How an op's work may be divided among parts ----------------------------===//
//
// An op iterates over letters: a linear over rows, inputs and outputs. A dimension of an operand or
// a result is a product of letters, and splitting a letter among parts splits what has it. A split
// may also take a factor of a letter, or neighboring letters as one.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_FACTORRULE_H
#define DIALECTS_OMNIBAL_IR_FACTORRULE_H

#include "dialects/omnibal/ir/SymbolicShape.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/IR/Builders.h"

namespace omnibal {

/// What it means to split a letter.
enum class LetterKind {
  Free,   ///< the results have it
  Sum,    ///< results lack it: parts hold summands
  Index,  ///< values address it; a part takes foreign rows for zeros, so parts hold summands. It is
          ///< split from the outside, so that a part's rows are neighbors
  Inner,  ///< the results have it, but parts add small sums inside the op
  Joined, ///< results lack it: parts tell each other what these need, and all have them whole. It
          ///< is split from the outside, as what is addressed
  Closed  ///< it is never split
};

/// The letters of a dimension, outermost first; none for size 1.
using DimLetters = llvm::SmallVector<unsigned, 2>;
/// Those of a value, a list a dimension.
using ValueLetters = llvm::SmallVector<DimLetters, 4>;

struct FactorRule {
  llvm::SmallVector<SymbolicDim> sizes; ///< of each letter
  llvm::SmallVector<LetterKind> kinds;
  llvm::SmallVector<ValueLetters> operands, results;
  /// Groups of operands in which the op is linear: these may be partial together.
  llvm::SmallVector<llvm::SmallVector<unsigned>> linearIn;
  /// Operands that are added to the results: partial where the results are.
  llvm::SmallVector<unsigned> added;
  /// Operands that have some of neighboring letters: where all of these are split as one, they are
  /// copied, and a part takes what it needs.
  llvm::SmallVector<unsigned> picked;
};

/// The part for which an op is built.
struct PartOf {
  int64_t parts = 1, part = 0;
  llvm::ArrayRef<LayoutAttr> reads;   ///< an operand
  llvm::ArrayRef<LayoutAttr> layouts; ///< a result
  llvm::ArrayRef<mlir::RankedTensorType> wholeOperands, wholeResults;
  llvm::ArrayRef<mlir::RankedTensorType> results; ///< what the part holds of these
};

/// Builds the same op on these operands, with the part's results: what most ops do.
llvm::LogicalResult buildSameOp(mlir::OpBuilder &builder, mlir::Operation *op, const PartOf &part,
                                mlir::ValueRange operands,
                                llvm::SmallVectorImpl<mlir::Value> &results);

/// Attaches the rules of all ops of the dialect (rules/Factors*.cpp).
void attachFactorRules(mlir::MLIRContext &context);

} // namespace omnibal

#include "dialects/omnibal/ir/FactorInterface.h.inc"

#endif // DIALECTS_OMNIBAL_IR_FACTORRULE_H
