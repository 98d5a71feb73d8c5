//===- AttentionSinks.h - Logits beside the scores of attention ---------------------------===//
#ifndef PASSES_RAISE_ATTENTION_ATTENTIONSINKS_H
#define PASSES_RAISE_ATTENTION_ATTENTIONSINKS_H

#include "passes/raise/match/Match.h"

namespace omnibal::raise {

/// [scores [B, H, L, S], sinks], joined along the last dimension: a logit for each head that takes
/// part in the softmax alone.
struct SinkScores {
  mlir::Value scores;
  mlir::Value sinks; ///< of parameters, with H elements
};
std::optional<SinkScores> matchSinkScores(mlir::Value joined);

/// True if a part of the weights is all except their last column, which is that of the sinks.
bool dropsSinkColumn(SliceOp part);

/// Returns x if the scores are x - max(x): what is the same for all keys changes no softmax.
mlir::Value stripLargestScore(mlir::Value scores);

} // namespace omnibal::raise
#endif // PASSES_RAISE_ATTENTION_ATTENTIONSINKS_H
