//===- Factors.h - What the rules of division are written with (internal) --------------------===//
#ifndef DIALECTS_OMNIBAL_RULES_FACTORS_H
#define DIALECTS_OMNIBAL_RULES_FACTORS_H

#include "dialects/omnibal/ir/FactorRule.h"
#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal {

/// Collects a rule. Dimensions that no letter is put on are closed.
class FactorBuilder {
public:
  /// Not `isKnown` where a size is open.
  explicit FactorBuilder(mlir::Operation *op);

  bool isKnown() const { return known; }
  const SymbolicShape &operand(unsigned i) const { return operands[i]; }
  const SymbolicShape &result(unsigned i = 0) const { return results[i]; }

  /// Returns a new letter, or none for size 1.
  std::optional<unsigned> letter(const SymbolicDim &size, LetterKind kind = LetterKind::Free);
  /// Appends a letter to those of a dimension.
  void onOperand(unsigned i, int64_t dim, std::optional<unsigned> letter);
  void onResult(unsigned i, int64_t dim, std::optional<unsigned> letter);
  /// Puts the letters of a result's dimensions on an operand that broadcasts to it.
  void broadcast(unsigned operand, unsigned result = 0);
  /// Puts a letter of the dimension's size, or of another, on dimensions of operand 0 and result 0.
  void carry(int64_t from, int64_t to, LetterKind kind = LetterKind::Free,
             std::optional<SymbolicDim> size = std::nullopt);
  void linearIn(llvm::ArrayRef<unsigned> group) {
    rule.linearIn.push_back(llvm::SmallVector<unsigned>(group));
  }
  void added(unsigned operand) { rule.added.push_back(operand); }
  void picked(unsigned operand) { rule.picked.push_back(operand); }
  /// Puts a letter on the dimension of a list of rows that has the letter's size.
  void onRows(unsigned operand, std::optional<unsigned> letter, const SymbolicDim &size);

  FactorRule take();

private:
  llvm::SmallVector<SymbolicShape> operands, results;
  FactorRule rule;
  bool known = true;
};

/// Attach the rules of their ops.
void attachElementwiseFactors(mlir::MLIRContext &context);
void attachLayoutFactors(mlir::MLIRContext &context);
void attachReductionFactors(mlir::MLIRContext &context);
void attachProductFactors(mlir::MLIRContext &context);
void attachAttentionFactors(mlir::MLIRContext &context);
void attachModelFactors(mlir::MLIRContext &context);

} // namespace omnibal

/// The model of an op; BUILD_PART is called as buildSameOp is.
#define OMNIBAL_FACTOR_MODEL(OP, BUILD_PART)                                                       \
  static bool describe##OP([[maybe_unused]] omnibal::OP op, omnibal::FactorBuilder &f);            \
  namespace {                                                                                      \
  struct OP##Factors : omnibal::FactorOpInterface::ExternalModel<OP##Factors, omnibal::OP> {       \
    std::optional<omnibal::FactorRule> getFactorRule(mlir::Operation *op) const {                  \
      omnibal::FactorBuilder f(op);                                                                \
      if (!f.isKnown() || !describe##OP(mlir::cast<omnibal::OP>(op), f))                           \
        return std::nullopt;                                                                       \
      return f.take();                                                                             \
    }                                                                                              \
    llvm::LogicalResult buildPart(mlir::Operation *op, mlir::OpBuilder &builder,                   \
                                  const omnibal::PartOf &part, mlir::ValueRange operands,          \
                                  llvm::SmallVectorImpl<mlir::Value> &results) const {             \
      return BUILD_PART(builder, mlir::cast<omnibal::OP>(op), part, operands, results);            \
    }                                                                                              \
  };                                                                                               \
  }                                                                                                \
  static bool describe##OP([[maybe_unused]] omnibal::OP op, omnibal::FactorBuilder &f)

/// Begins the rule of an op: adds the letters of `op` to `f`; false where it is not divided.
#define OMNIBAL_FACTOR_RULE(OP) OMNIBAL_FACTOR_MODEL(OP, omnibal::buildSameOp)
/// The same for an op of which a part runs something else, which buildPartOf##OP builds.
#define OMNIBAL_FACTOR_RULE_AND_PART(OP)                                                           \
  static llvm::LogicalResult buildPartOf##OP(                                                      \
      mlir::OpBuilder &builder, omnibal::OP op, const omnibal::PartOf &part,                       \
      mlir::ValueRange operands, llvm::SmallVectorImpl<mlir::Value> &results);                     \
  OMNIBAL_FACTOR_MODEL(OP, buildPartOf##OP)

#endif // DIALECTS_OMNIBAL_RULES_FACTORS_H
