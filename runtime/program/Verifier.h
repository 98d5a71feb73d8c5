//===- Verifier.h - Is this program safe to run? -----------------------------------------===//
//
// The verifier believes nothing that a program says. docs/program.md lists the rules p1, p2, ...;
// messages start with the rule's label. After success the executor needs no checks of its own.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_VERIFIER_H
#define RUNTIME_PROGRAM_VERIFIER_H

#include "runtime/program/RunPlan.h"
#include "runtime/support/Status.h"

namespace omnibal::rt {

/// Checks all rules. The code is DataLoss: a program that fails was damaged or built by a faulty
/// compiler.
Status verifyProgram(const Program &program);

/// These are the parts, in the order in which verifyProgram runs them; each relies on the ones
/// before.
Status verifyStructure(const Program &program); ///< p1-p5: indices, offsets and sizes
Status
verifyActions(const Program &program);       ///< p6-p8, p11: action lists and their order, deadlock
Status verifyMemory(const Program &program); ///< p9, p10: values live as long as they are needed

/// p9 and p10 of a stage that runs a step's plan, with one load a micro-batch.
Status verifyMemoryOf(const Program &program, const Stage &stage, const std::string &mode,
                      const RunPlan &plan, std::span<const RunLoad> loads);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_VERIFIER_H
