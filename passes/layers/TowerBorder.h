//===- TowerBorder.h - Where the vision tower ends and the projector begins --------------===//
#ifndef PASSES_LAYERS_TOWERBORDER_H
#define PASSES_LAYERS_TOWERBORDER_H

#include "passes/layers/LayerSearch.h"

namespace omnibal::layers {

/// Returns how many of the vision component's segments belong to the tower, from the graph alone.
///
/// The tower ends with its last block, or with the norm that follows it: features keep the width of
/// the blocks up to there, and rows are at most dropped (a class token). Whatever gives features
/// another width, moves or joins rows, and all that follows, is the projector. A norm whose rows
/// are joined as they lie, [rows, C] to [rows / k, k C], is the first step of such a joining
/// projection and belongs to it.
size_t endOfTower(const Segmentation &component);

} // namespace omnibal::layers
#endif // PASSES_LAYERS_TOWERBORDER_H
