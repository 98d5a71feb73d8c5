//===- DecomposeAttention.h - Attention as products and a softmax -------------------------===//
#ifndef PASSES_RAISE_ATTENTION_DECOMPOSEATTENTION_H
#define PASSES_RAISE_ATTENTION_DECOMPOSEATTENTION_H

#include "passes/raise/match/Match.h"

namespace omnibal::raise {

/// Replaces an attention by matrix products around a softmax, which have gradients for any number
/// of keys, any mask of values and capped scores. Scores then lie in memory.
void decomposeAttention(AttentionOp op);

} // namespace omnibal::raise
#endif // PASSES_RAISE_ATTENTION_DECOMPOSEATTENTION_H
