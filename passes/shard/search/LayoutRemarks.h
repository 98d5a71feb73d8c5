//===- LayoutRemarks.h - Why layers have the layouts that they have ---------------------------===//
#ifndef PASSES_SHARD_SEARCH_LAYOUTREMARKS_H
#define PASSES_SHARD_SEARCH_LAYOUTREMARKS_H

#include "passes/shard/search/ModelSearch.h"

namespace omnibal::shard {

/// Emits a remark of category `omnibal-layout` at the first of each distinct layer, once a model is
/// solved: how it holds parameters, what it takes and holds, and the best of the choices that hold
/// them otherwise. Does nothing where nobody reads remarks.
void explainLayouts(const LayerGraph &graph, const ModelSearch &search);

} // namespace omnibal::shard
#endif // PASSES_SHARD_SEARCH_LAYOUTREMARKS_H
