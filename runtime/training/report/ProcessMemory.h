//===- ProcessMemory.h - The most memory that a process of a run will have resident ----------===//
//
// A run prints this before the first step and never exceeds it: what the process has when its ranks
// begin, read from /proc, and what each of them takes then, by what the program, the data and the
// flags say. It is known for target host only; nothing is known about a device's driver.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_TRAINING_REPORT_PROCESSMEMORY_H
#define RUNTIME_TRAINING_REPORT_PROCESSMEMORY_H

#include "runtime/device/WorkspaceUse.h"
#include "runtime/training/session/ResidentMemory.h"
#include "runtime/training/session/Session.h"

namespace omnibal::rt {

/// Lines for people, by rank 0: one for the process of all ranks, or one for each stage's
/// processes. All ranks call this. `alone`: every rank has a process of its own.
Result<std::string> describeProcesses(const Session &session, const DataSource &data,
                                      const ResidentMemory &before, bool alone);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_REPORT_PROCESSMEMORY_H
