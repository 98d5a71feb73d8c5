//===- ResidentMemory.h - What the system says of a process's memory --------------------------===//
#ifndef RUNTIME_TRAINING_SESSION_RESIDENTMEMORY_H
#define RUNTIME_TRAINING_SESSION_RESIDENTMEMORY_H

#include <cstdint>

namespace omnibal::rt {

/// Makes the C library give large blocks back to the system as soon as they are freed, whatever was
/// allocated before. Call it once, before threads begin.
void returnFreedMemory();

/// What the process has before its ranks begin.
struct ResidentMemory {
  int64_t now = 0, most = 0; ///< resident, and the most until now
  int64_t code = 0;          ///< of program and libraries, not resident yet
};
ResidentMemory residentMemory();

/// Bytes that processes may still take: of this machine, or of the control group they are in.
int64_t availableMemory();

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_SESSION_RESIDENTMEMORY_H
