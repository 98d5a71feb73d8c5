//===- PersistentLayout.h - Parameters, optimizer state and constants of a stage ---------===//
#ifndef PASSES_LAYOUT_PERSISTENTLAYOUT_H
#define PASSES_LAYOUT_PERSISTENTLAYOUT_H

#include "passes/layout/ProgramLayout.h"

namespace omnibal::layout {

/// A training mode: its functions, and what its memory is laid out from.
struct ModeMemory {
  const ProgramParts *parts;
  MemoryGraph *memory;
};

/// Gives every stage its parameters (data, and for trainable ones gradient and two moments, each
/// group contiguous), shared groups and constants (those of all modes), and tells the calls and
/// stages of each mode's `memory` their numbers. All modes have the same cuts. A parameter used on
/// two stages has a copy on each; the copy of the lowest stage is counted in the norm. Where
/// replicas divide the optimizer's state, stages get their buckets too, as the first mode fills
/// them.
void layOutPersistent(llvm::ArrayRef<ModeMemory> modes, std::vector<rt::Stage> &stages);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_PERSISTENTLAYOUT_H
