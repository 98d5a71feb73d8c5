//===- PersistentLayout.h - Parameters, optimizer state and constants of a stage ---------===//
#ifndef PASSES_LAYOUT_PERSISTENTLAYOUT_H
#define PASSES_LAYOUT_PERSISTENTLAYOUT_H

#include "passes/layout/ProgramLayout.h"

namespace omnibal::layout {

/// Gives every stage its parameters (data, and for trainable ones gradient and two moments, each
/// group contiguous), shared groups and constants, and tells the calls and stages of `memory` their
/// numbers. A parameter used on two stages has a copy on each; the copy of the lowest stage is
/// counted in the norm.
void layOutPersistent(const ProgramParts &parts, MemoryGraph &memory,
                      std::vector<rt::Stage> &stages);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_PERSISTENTLAYOUT_H
