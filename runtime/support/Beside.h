//===- Beside.h - The same work on several threads --------------------------------------------===//
#ifndef RUNTIME_SUPPORT_BESIDE_H
#define RUNTIME_SUPPORT_BESIDE_H

#include <functional>

namespace omnibal::rt {

/// Does `work` on the calling thread and beside it on up to `helpers` others, on fewer where the
/// system has no more threads, and returns when all have ended. What one of them throws is thrown
/// here: in a thread of its own it would end the process.
void workBeside(int helpers, const std::function<void()> &work);

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_BESIDE_H
