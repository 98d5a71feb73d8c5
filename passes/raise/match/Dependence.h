//===- Dependence.h - What a value is computed from, roles of graph inputs ---------------===//
#ifndef PASSES_RAISE_MATCH_DEPENDENCE_H
#define PASSES_RAISE_MATCH_DEPENDENCE_H

#include "passes/raise/match/Match.h"

namespace omnibal::raise {

/// What a graph input means (argument attribute omnibal.role).
enum class Role {
  None,
  Ids,        ///< token ids: rows of the embedding
  Positions,  ///< position ids
  Visibility, ///< reaches masks only: attention mask or token types
  Mask,       ///< rank-4 attention mask
  Image,      ///< pictures
  Segments,   ///< numbers of pictures or windows, one per vision row: reaches masks only
  Rows,       ///< other facts about vision rows: positions, orders, weights of interpolation
  Seen,       ///< which pictures each token sees: reaches masks of attention to pictures only
};
Role roleOf(mlir::func::FuncOp function, unsigned argument);
void setRole(mlir::func::FuncOp function, unsigned argument, Role role);
llvm::StringRef inputName(mlir::func::FuncOp function, unsigned argument);

/// Knows for every value the graph inputs, parameters and sizes that it is computed from.
class Dependence {
public:
  using Set = uint64_t;
  static constexpr Set parameters = Set(1) << 63;
  static constexpr Set sizes = Set(1) << 62; ///< the numbers V and N, and ranges up to them
  static Set argument(unsigned index) { return Set(1) << std::min(index, 60u); }

  explicit Dependence(mlir::func::FuncOp function);
  /// Computes what a value added later depends on, too.
  Set of(mlir::Value value);
  /// True if the value depends on neither parameters, token ids nor pictures: masks, positions,
  /// rotary tables.
  bool isAuxiliary(mlir::Value value) {
    Set set = of(value);
    return set != 0 && (set & content) == 0;
  }
  Set arguments(Role role);

private:
  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, Set> known;
  Set content = parameters;
};

} // namespace omnibal::raise
#endif // PASSES_RAISE_MATCH_DEPENDENCE_H
