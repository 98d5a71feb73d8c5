//===- MaskKinds.h - What an attention mask means ----------------------------------------===//
#ifndef PASSES_RAISE_ATTENTION_MASKKINDS_H
#define PASSES_RAISE_ATTENTION_MASKKINDS_H

#include "passes/raise/match/Probe.h"
#include <vector>

namespace omnibal::raise {

struct MaskClass {
  MaskKind kind = MaskKind::Full;
  int64_t window = 0; ///< sliding; blocks, prefix if > 0: query - key < window; chunked: its size
  std::optional<unsigned> typesArgument; ///< prefix, blocks: the graph input with the token types
  /// Blocks: types of a block's tokens. Prefix: of queries that see it; none: all from 0 on.
  std::optional<std::pair<int64_t, int64_t>> typeRange;
};

/// Who sees whom at the probed positions.
struct Sight {
  llvm::SmallVector<int64_t> positions;
  llvm::SmallVector<int64_t> places; ///< of these tokens in the inputs of token types
  std::vector<char> sees;            ///< [query, key]
  bool at(size_t query, size_t key) const { return sees[query * positions.size() + key]; }
  bool isConsistent(llvm::function_ref<bool(size_t, size_t)> rule) const {
    for (size_t q = 0; q < positions.size(); ++q)
      for (size_t k = 0; k < positions.size(); ++k)
        if (at(q, k) != rule(q, k))
          return false;
    return true;
  }
};

/// Classifies masks by evaluation; results are kept per mask value.
class MaskClassifier {
public:
  MaskClassifier(mlir::func::FuncOp function, Dependence &dependence)
      : function(function), dependence(dependence) {}

  /// `user` is the op that applies the mask, for messages.
  llvm::FailureOr<MaskClass> classify(mlir::Value mask, mlir::Operation *user);

  /// Classifies a mask of attention among vision rows, [4V, 4V] say: returns the graph input whose
  /// equal numbers see each other (pictures or windows), or an error.
  llvm::FailureOr<unsigned> classifySegments(mlir::Value mask, mlir::Operation *user);

  /// Reports an error at `user` unless every element of `control`, which depends on masks and
  /// positions, is `expected` for every sample: `user` then does nothing.
  llvm::LogicalResult requireEverywhere(mlir::Value control, bool expected, mlir::Operation *user);

  /// Returns the graph inputs by which the masks seen so far hide tokens: they are 1 for every
  /// token of a sample.
  Dependence::Set paddingInputs() const { return padding; }

private:
  llvm::FailureOr<MaskClass> evaluateAndClassify(mlir::Value mask, mlir::Operation *user);
  /// Classifies a mask that depends on positions alone.
  llvm::FailureOr<MaskClass> classifyPlain(mlir::Value mask, mlir::Operation *user);
  /// Classifies a mask that depends on the token types of graph input `types`.
  llvm::FailureOr<MaskClass> classifyByTypes(mlir::Value mask, unsigned types,
                                             mlir::Operation *user);
  using Substitutes = std::map<int64_t, int64_t>;
  llvm::FailureOr<MaskClass> classifyByTypes(mlir::Value mask, unsigned types,
                                             mlir::Operation *user, const Substitutes &constants);
  /// Returns what the mask shows with these inputs; none if it cannot be evaluated or is no mask.
  std::optional<Sight> look(mlir::Value mask, ProbeInputs inputs, mlir::Operation *user);
  /// Looks at all lengths and positions at which the mask may change, with `pattern` repeated as
  /// `types`.
  llvm::FailureOr<std::vector<Sight>> lookEverywhere(mlir::Value mask, mlir::Operation *user,
                                                     std::optional<unsigned> types,
                                                     llvm::ArrayRef<int64_t> pattern,
                                                     const Substitutes &constants);
  void checkPacked(mlir::Value mask, const MaskClass &found, mlir::Operation *user);
  mlir::InFlightDiagnostic error(mlir::Value mask, mlir::Operation *user);

  mlir::func::FuncOp function;
  Dependence &dependence;
  Dependence::Set padding = 0;
  llvm::DenseMap<mlir::Value, MaskClass> known;
  llvm::DenseMap<mlir::Value, unsigned> knownSegments;
};

} // namespace omnibal::raise
#endif // PASSES_RAISE_ATTENTION_MASKKINDS_H
