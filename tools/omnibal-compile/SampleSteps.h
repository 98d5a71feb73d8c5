//===- SampleSteps.h - Steps for the report of a program that plans every step -------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_SAMPLESTEPS_H
#define TOOLS_OMNIBAL_COMPILE_SAMPLESTEPS_H

#include "runtime/program/Program.h"
#include "runtime/support/Status.h"
#include "tools/omnibal-compile/Options.h"
#include "tools/report/StepSamples.h"

namespace omnibal::compile {

/// None where every step runs the program's own lists; no steps without
/// --batches that fill one.
rt::Result<std::optional<planner::StepSamples>> sampleSteps(const Options &options,
                                                            const rt::Program &program);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_SAMPLESTEPS_H
