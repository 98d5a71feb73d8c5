//===- FollowLayouts.h - Layouts inside a layer that follow from its parameters ---------------===//
#ifndef PASSES_SHARD_FOLLOWLAYOUTS_H
#define PASSES_SHARD_FOLLOWLAYOUTS_H

#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal::shard {

/// Writes `omnibal.borders`, `omnibal.reads` and `omnibal.layouts` on a layer and its ops, as they
/// follow from `omnibal.held` of its parameters; nothing where that divides no op. Borders are
/// whole. With `dividesRows` parts have shares of tokens and tiles between layers, and in them
/// where they would otherwise do the same with all rows; parameters that are read so are copied.
/// What is written need not be legal (omnibal-verify-layouts).
void followLayouts(LayerOp layer, bool dividesRows = false);

} // namespace omnibal::shard
#endif // PASSES_SHARD_FOLLOWLAYOUTS_H
