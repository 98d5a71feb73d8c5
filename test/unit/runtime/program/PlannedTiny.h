//===- PlannedTiny.h - The tiny program with steps that are planned one by one ------------===//
#ifndef TEST_UNIT_RUNTIME_PROGRAM_PLANNEDTINY_H
#define TEST_UNIT_RUNTIME_PROGRAM_PLANNEDTINY_H

#include "test/unit/runtime/program/TinyProgram.h"

namespace omnibal::rt {

/// Layers' weight gradients may wait, whatever `split` says; parameters are float32.
Program plannedTinyProgram(TinyOptions options);

} // namespace omnibal::rt
#endif // TEST_UNIT_RUNTIME_PROGRAM_PLANNEDTINY_H
