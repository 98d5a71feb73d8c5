//===- Pipelines.h - Registration of passes and named pipelines -------------------------------------===//
#ifndef PASSES_PIPELINES_H
#define PASSES_PIPELINES_H

namespace omnibal {

/// Registers every pass and named pipeline of omnibal (omnibal-opt, tests).
void registerAllPasses();

} // namespace omnibal
#endif // PASSES_PIPELINES_H
